"""What was asked of a fit, enough to ask again: request.json in the run's folder, and the tables
that it names."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from dualview.chains.run_folder import began_with, check_not_newer
from dualview.errors import FileError, InputError
from dualview.files.reading import readable_json
from dualview.files.writing import write_json
from dualview.inputs.answers import OBSERVATIONS, OPTIONS, Answers, check_options, read_answers
from dualview.inputs.long_tables import LongTable
from dualview.inputs.tables import Threads, Users, read_threads, read_users
from dualview.partitions.agreement import agreement_prior
from dualview.partitions.alpha import DEFAULT, concentration_from_text
from dualview.partitions.choice import partition_process
from dualview.settings import (
    AnswerSettings,
    Columns,
    Settings,
    check_values,
    defaults,
    setting_names,
)


def check_settings(settings: Settings) -> None:
    """Raise where a setting is not possible; called before tables or posts are read."""
    check_values(Settings, vars(settings))
    concentration_from_text(settings.alpha)
    partition_process(settings.partition)
    agreement_prior(settings.agreement)


@dataclass(frozen=True)
class Longer:
    """What a run that is resumed is asked for beyond what it was asked for at first: draws, seconds
    or draws made."""

    n_draws: int | None = None
    max_time: float | None = None
    max_draws: int | None = None


@dataclass(frozen=True)
class Request:
    """Everything that was asked of a fit. Paths are absolute, so that a run can be resumed from
    anywhere.

    threads: the table of observations, which are threads unless ``answers`` names another kind.
    kinds: a file that says what the columns of the table of users are.
    """

    users: str | None
    threads: str | None
    outcomes: str | None = None
    columns: Columns = field(default_factory=Columns)
    covariates: tuple[str, ...] = ()
    intercept: bool = False
    noise_variance: float | str | None = None
    drop_unknown: bool = False
    kinds: str | None = None
    settings: Settings = field(default_factory=Settings)
    answers: AnswerSettings = field(default_factory=AnswerSettings)

    def __post_init__(self) -> None:
        check_settings(self.settings)
        check_values(
            AnswerSettings,
            {name: getattr(self.answers, name) for name in ("kind", "outcome_kind", "family")},
        )
        given = {**vars(self.answers), **vars(self)}
        usual = defaults(AnswerSettings) | defaults(Request)
        changed = {name: given[name] for name in OPTIONS if given[name] != usual[name]}
        check_options(self.answers.kind, changed)

    @property
    def observations(self) -> str:
        return OBSERVATIONS[self.answers.kind]

    def longer(self, more: Longer) -> "Request":
        """The same for longer chains; a summary keeps the same spacing between its whole draws."""
        settings = self.settings
        if settings.is_fixed and (more.max_time is not None or more.max_draws is not None):
            raise InputError(
                "max_time and max_draws are for runs that end when they have converged; this one "
                "has chains of fixed length. Give n_draws."
            )
        if not settings.is_fixed and more.n_draws not in (None, settings.n_draws):
            raise InputError(
                "n_draws cannot change in a run that ends when it has converged: draws in between "
                "were not kept. Give max_time or max_draws to run longer."
            )
        if more.n_draws is not None:
            every = max(1, settings.n_draws // settings.n_whole)
            settings = replace(
                settings, n_draws=more.n_draws, n_whole=max(1, more.n_draws // every)
            )
        limits = {
            name: value
            for name in ("max_time", "max_draws")
            if (value := getattr(more, name)) is not None
        }
        return replace(self, settings=replace(settings, **limits))

    def without_streams(self, keep: Callable[[str | None, str], str | None]) -> "Request":
        """The same with files in the place of pipes, which can be read only once; keep: gives a
        copy of what a pipe holds."""
        return replace(
            self,
            users=keep(self.users, "users"),
            threads=keep(self.threads, self.answers.kind),
            outcomes=keep(self.outcomes, "outcomes"),
            kinds=keep(self.kinds, "columns"),
            answers=replace(self.answers, items=keep(self.answers.items, "items")),
        )

    def save(self, folder: Path) -> None:
        content = asdict(self)
        content |= content.pop("settings")  # all in one, as runs have always been written
        if self.answers == AnswerSettings():
            del content["answers"]
        write_json(folder / "request.json", content)

    @classmethod
    def load(cls, folder: Path) -> "Request":
        path = folder / "request.json"
        check_folder(folder)
        if not path.is_file():
            raise FileError(
                f"{folder} is not a run that 'dualview fit' started: it has no request.json."
            )
        damaged = "It is damaged: fit again into another folder."
        with readable_json(path, damaged) as content:
            kind = content.get("answers", {}).get("kind", "threads")
            if content.get("threads") and kind == "threads":
                # the prior of earlier versions, with which their runs continue
                content.setdefault("noise_variance", "paper")
            content.setdefault("pooling", None)  # as before there was another default
            columns = Columns(**content.pop("columns"))
            covariates = tuple(content.pop("covariates"))
            settings = Settings(
                **{name: content.pop(name) for name in setting_names(Settings) if name in content}
            )
            if settings.alpha is None and settings.n_clusters is not None:
                # the default of earlier versions, with which their runs continue
                former = began_with(folder, "alpha") == str(DEFAULT)
                settings = replace(settings, alpha=str(DEFAULT) if former else None)
            answers: dict[str, Any] = content.pop("answers", {})
            answers |= {
                name: tuple(value) for name, value in answers.items() if isinstance(value, list)
            }
            asked = AnswerSettings(**answers)
            return cls(
                **content, columns=columns, covariates=covariates, settings=settings, answers=asked
            )


def read_inputs(request: Request) -> tuple[Users, Threads | Answers | None]:
    """The tables of users and of what was observed; no observations where the fit is of features
    alone."""
    if request.users is None:
        raise InputError("A table of users is needed, with an id for each.")
    users = read_users(Path(request.users), request.columns)
    if request.threads is None:
        if request.answers.kind != "threads":
            raise InputError(
                f"--kind {request.answers.kind} needs a table of {request.observations} after that "
                "of the users, as in 'dualview fit users.csv answers.csv'."
            )
        return users, None
    return users, read_observations(request, Path(request.threads), users.ids)


def read_observations(
    request: Request,
    path: Path,
    users: list[str],
    *,
    outcomes: Path | None = None,
    drop_unknown: bool | None = None,
    need_outcome: bool = True,
    as_read: LongTable | None = None,
) -> Threads | Answers:
    """Observations of users with these ids: those of the request, or new ones of the same kind, of
    which answers are read as those of the fit."""
    drop = request.drop_unknown if drop_unknown is None else drop_unknown
    if request.answers.kind != "threads":
        return read_answers(
            path,
            users,
            request.columns,
            request.answers,
            drop_unknown=drop,
            need_outcome=need_outcome,
            as_read=as_read,
        )
    columns = replace(request.columns, outcome=request.answers.outcome or request.columns.outcome)
    if outcomes is None and need_outcome and request.outcomes is not None:
        outcomes = Path(request.outcomes)
    return read_threads(
        path,
        users,
        columns,
        outcomes=outcomes,
        covariates=request.covariates,
        drop_unknown=drop,
        need_outcome=need_outcome,
    )


def build_behavior(request: Request, observed: Threads | Answers, users: list[str]) -> Any:
    """The behavior that the observations of users with these ids are."""
    if isinstance(observed, Answers):
        return observed.behavior(users)
    return observed.behavior(request.intercept, users, request.noise_variance)


def check_folder(folder: Path) -> None:
    """Raise where there is no such folder, or where it holds a run of a newer version."""
    if not folder.is_dir():
        what = (
            " is a file, not the folder of a run"
            if folder.exists()
            else ": there is no such folder"
        )
        raise FileError(f"{folder}{what}.")
    check_not_newer(folder)
