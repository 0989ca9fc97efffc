"""Runs in folders: from tables to a posterior on disk, and from there to predictions, summaries and
pictures.

A folder holds request.json (what was asked, enough to ask again), the run's checkpoints,
posterior.nc and users.csv.
"""

import json
import shlex
import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dualview.chains.run_folder import check_not_newer
from dualview.columns import read_columns_file
from dualview.errors import ConvergenceWarning, FileError, InputError
from dualview.files.spreadsheets import csv_bytes
from dualview.files.writing import make_folder, write_whole
from dualview.inputs.answers import OBSERVATIONS, Answers, check_options, read_answers
from dualview.inputs.tables import Threads, Users, read_threads, read_users
from dualview.mixture import DualViewMixture
from dualview.partitions.agreement import agreement_prior
from dualview.partitions.alpha import concentration_from_text
from dualview.partitions.choice import partition_process
from dualview.posterior import Posterior, load
from dualview.posterior.partition import crosstab
from dualview.posterior.partition.certainty import certainty_text
from dualview.posterior.partition.profiles import mean_latent, table_profile
from dualview.runs.about_answers import write_about
from dualview.runs.streams import kept_streams
from dualview.settings import AnswerSettings, Columns, Settings, check_values, setting_names


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
            AnswerSettings, {name: getattr(self.answers, name) for name in ("kind", "outcome_kind")}
        )
        options = (
            "outcome",
            "by",
            "common",
            "groups",
            "no_intercept",
            "levels",
            "items",
            "item_intercept",
            "bounds",
        )
        given = {name: getattr(self.answers, name) for name in options}
        given["outcome_kind"] = self.answers.outcome_kind != "continuous"
        given |= {
            "outcomes": self.outcomes,
            "covariates": self.covariates,
            "intercept": self.intercept,
        }
        given["noise_variance"] = self.noise_variance is not None
        check_options(self.answers.kind, [name for name, value in given.items() if value])

    @property
    def observations(self) -> str:
        """What the observations are called."""
        return OBSERVATIONS[self.answers.kind]

    def longer(self, more: Longer) -> "Request":
        """The same for longer chains; a summary keeps the same spacing between its whole draws."""
        settings = self.settings
        if settings.is_fixed and (more.max_time is not None or more.max_draws is not None):
            raise InputError(
                "max_time and max_draws are for runs that end when they have converged; this one "
                "has chains of fixed length. "
                "Give n_draws."
            )
        if not settings.is_fixed and more.n_draws not in (None, settings.n_draws):
            raise InputError(
                "n_draws cannot change in a run that ends when it has converged: draws in "
                "between were not kept. Give max_time "
                "or max_draws to run longer."
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
        write_whole(folder / "request.json", json.dumps(content, indent=2).encode())

    @classmethod
    def load(cls, folder: Path) -> "Request":
        path = folder / "request.json"
        check_folder(folder)
        if not path.is_file():
            raise FileError(
                f"{folder} is not a run that 'dualview fit' started: it has no request.json."
            )
        try:
            content = json.loads(path.read_text())
            if (
                content.get("threads")
                and content.get("answers", {}).get("kind", "threads") == "threads"
            ):
                content.setdefault(
                    "noise_variance", "paper"
                )  # the prior of earlier versions, with which their runs continue
            columns = Columns(**content.pop("columns"))
            covariates = tuple(content.pop("covariates"))
            settings = Settings(
                **{name: content.pop(name) for name in setting_names(Settings) if name in content}
            )
            answers: dict[str, Any] = content.pop("answers", {})
            answers |= {
                name: tuple(value) for name, value in answers.items() if isinstance(value, list)
            }
            asked = AnswerSettings(**answers)
            return cls(
                **content, columns=columns, covariates=covariates, settings=settings, answers=asked
            )
        except (ValueError, TypeError, KeyError, AttributeError, OSError) as error:
            raise FileError(
                f"{path} cannot be read ({error}): it is damaged. Fit again into another folder."
            ) from error


def fit_run(request: Request, folder: Path, *, n_jobs: int = -1, quiet: bool = False) -> str:
    """Fit what is asked, or continue where the folder's files stop; returns a summary in words."""
    with kept_streams(folder) as keep:
        request = request.without_streams(keep)
        return _fit_run(request, folder, n_jobs, quiet)


def _fit_run(request: Request, folder: Path, n_jobs: int, quiet: bool) -> str:
    users, observed = read_inputs(request)
    behavior = None if observed is None else behavior_of(request, observed, users.ids)
    make_folder(folder)
    if not quiet and observed is not None:
        for note in observed.notes:
            print(f"dualview: {note}", file=sys.stderr)
    model = estimator(request.settings, folder, n_jobs, quiet)
    if request.kinds is not None:
        model.set_params(columns=read_columns_file(request.kinds))
    features = None
    if users.features is not None:
        features = users.features.set_axis(pd.Index(users.ids, name="user"), axis=0)
    _fit(model, features, behavior, request, folder)
    model.posterior_.save(folder / "posterior.nc")
    write_whole(folder / "users.csv", csv_bytes(user_table(model)))
    if isinstance(observed, Answers):
        write_about(folder, observed, request.answers)
    check_whole(
        model.posterior_,
        request.settings,
        f"to continue, give the same command, or: {resume_command(folder)}",
    )
    text = summary_text(summarise(folder))
    if not model.posterior_.converged and model.posterior_.approximation is None:
        text += (
            f"\nTo draw more: {resume_command(folder)}{_more(model.posterior_, request.settings)}"
        )
    return f"{text}\nWrote {folder / 'posterior.nc'} and {folder / 'users.csv'}."


def estimator(settings: Settings, folder: Path | None, n_jobs: int, quiet: bool) -> DualViewMixture:
    """An estimator with these settings that saves to a folder, if any, with a progress bar on a
    terminal unless quiet."""
    if settings.partition is not None and settings.n_clusters is not None:
        raise InputError(
            "partition is for an inferred number of clusters; got "
            f"n_clusters={settings.n_clusters} as well. Leave one out."
        )
    same = ("feature_prior", "behavior_prior", "spread_prior", "link", "pooling", "agreement")
    return DualViewMixture(
        partition_process(settings.partition) or settings.n_clusters,
        alpha=concentration_from_text(settings.alpha),
        engine=settings.engine_settings(),
        **{name: getattr(settings, name) for name in (*same, "n_draws", "max_time", "n_chains")},
        keep=settings.n_whole if settings.keep == "summary" else settings.keep,
        checkpoint=folder,
        n_jobs=n_jobs,
        random_state=settings.seed,
        progress=not quiet and sys.stderr.isatty(),
    )


def _more(post: Posterior, settings: Settings) -> str:
    """Options that make a run longer which has not converged."""
    if settings.is_fixed:
        return f" --draws {2 * settings.n_draws}"
    if post.length is None or post.length.ended != "max_draws":
        return ""
    return f" --max-draws {2 * post.length.n_iterations // settings.thin}"


def check_whole(post: Posterior, settings: Settings, advice: str) -> None:
    """Raise KeyboardInterrupt where Ctrl-C has ended a fit before its end; advice: how to continue
    it."""
    if post.length is None or post.length.ended != "interrupted":
        return
    made = post.n_draws if post.summary is None else post.summary.sizes["iteration"]
    reached = (
        f"{made:,} of {settings.n_draws:,} draws"
        if settings.is_fixed
        else f"{post.length.n_iterations:,} iterations"
    )
    raise KeyboardInterrupt(f"{reached} of each chain are made and saved; {advice}")


def _fit(
    model: DualViewMixture, features: Any, behavior: Any, request: Request, folder: Path
) -> None:
    """Fit. The request is on disk before the work, so that a killed run can be resumed; a fit that
    is refused leaves none."""
    started = (folder / "manifest.json").exists()
    if not started:
        request.save(folder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the summary says it
            model.fit(features, behavior)
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(
            f"{str(error) or 'what was made is saved'}; to continue: {resume_command(folder)}"
        ) from None
    except InputError as error:
        if not started and not (folder / "manifest.json").exists():
            (folder / "request.json").unlink(missing_ok=True)
        raise InputError(_with_file(str(error), request)) from error
    request.save(folder)


def _with_file(message: str, request: Request) -> str:
    """A message about a part of the data, with the file that the part was read from."""
    per_thread = request.outcomes or request.threads
    files = {
        "X": request.users,
        "Column": request.users,
        "Columns": request.users,
        "participation": request.threads,
        "outcome": per_thread,
        "covariates": per_thread,
    }
    path = files.get(message.split(" ", 1)[0])
    return message if path is None else f"{path}: {message}"


def read_inputs(request: Request) -> tuple[Users, Threads | Answers | None]:
    """The tables of users and of what was observed; no observations where the fit is of features
    alone."""
    if request.users is None:
        raise InputError("A table of users is needed, with an id for each.")
    users = read_users(Path(request.users), request.columns)
    if request.threads is None:
        if request.answers.kind != "threads":
            raise InputError(
                f"--kind {request.answers.kind} needs a table of {request.observations} after "
                "that of the users, as in "
                "'dualview fit users.csv answers.csv'."
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
) -> Threads | Answers:
    """Observations of users with these ids: those of the request, or new ones of the same kind."""
    drop = request.drop_unknown if drop_unknown is None else drop_unknown
    if request.answers.kind != "threads":
        return read_answers(
            path,
            users,
            request.columns,
            request.answers,
            drop_unknown=drop,
            need_outcome=need_outcome,
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


def behavior_of(request: Request, observed: Threads | Answers, users: list[str]) -> Any:
    """The behavior that the observations of users with these ids are."""
    if isinstance(observed, Answers):
        return observed.behavior(users)
    return observed.behavior(request.intercept, users, request.noise_variance)


def resume_command(folder: Path) -> str:
    """The command that continues the run in a folder, as a shell takes it."""
    return shlex.join(["dualview", "resume", str(folder)])


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


def load_run(folder: Path) -> DualViewMixture:
    """A finished run as a fitted estimator."""
    path = folder / "posterior.nc"
    check_folder(folder)
    if not path.is_file() and not (folder / "request.json").is_file():
        raise FileError(
            f"{folder} is not the folder of a run: it has neither posterior.nc nor request.json."
        )
    if not path.is_file():
        raise FileError(
            f"{folder} has no posterior.nc: the run is not finished. To continue: "
            f"{resume_command(folder)}"
        )
    return DualViewMixture.from_posterior(load(path))


def estimator_of_fit(request: Request, post: Posterior, behavior: Any) -> DualViewMixture:
    """The estimator of a finished run with its settings and its data, as it was after its fit."""
    model = estimator(request.settings, None, n_jobs=-1, quiet=True)
    model._take(Posterior(post.tree, behavior), behavior)
    return model


def user_table(model: DualViewMixture) -> pd.DataFrame:
    """A row per user: id, cluster, probability of membership, latent coefficient with interval."""
    post = model.posterior_
    table = pd.DataFrame(
        {
            "user": post.user_ids,
            "cluster": model.labels_,
            "membership": post.partition_estimate().membership,
        }
    )
    if "z_behavior" in post:
        table["behavior_cluster"] = model.behavior_labels_
        table["acts_otherwise"] = (post.flat("z") != post.flat("z_behavior")).mean(axis=0)
    if "latent" in post:
        shape = len(post.user_ids), len(post.latent_names)
        medians, intervals = (
            model.latent_.reshape(shape),
            post.interval("latent", 0.95).reshape(*shape, 2),
        )
        for j, name in enumerate(post.latent_names):
            prefix = "latent" if len(post.latent_names) == 1 else f"latent.{name}"
            table[f"{prefix}_median"] = medians[:, j]
            table[f"{prefix}_low"], table[f"{prefix}_high"] = intervals[:, j].T
    return table


def summarise(folder: Path) -> dict[str, Any]:
    """Clusters, sizes, profiles and the verdict on convergence, as plain values."""
    model = load_run(folder)
    post = model.posterior_
    estimate = post.partition_estimate()
    clusters = [
        _profile(post, model, cluster, estimate.membership) for cluster in range(model.n_clusters_)
    ]
    return {
        "users": post.n_users,
        "chains": post.n_chains,
        "draws_per_chain": post.n_draws,
        "length": None if post.length is None else post.length._asdict(),
        "clusters": clusters,
        "certainty": certainty_text(post.flat("z"), estimate),
        "agreement": crosstab.text(post),
        "clusters_in_an_average_draw": float(post["n_clusters"].mean()),
        "alpha_prior": post.alpha_prior,
        "converged": post.converged,
        "verdict": post.verdict(),
    }


def _profile(
    post: Posterior, model: DualViewMixture, cluster: int, membership: Any
) -> dict[str, Any]:
    members = np.flatnonzero(model.labels_ == cluster)
    typical = members[np.argsort(-membership[members], kind="stable")][:5]
    profile: dict[str, Any] = {
        "cluster": cluster,
        "size": len(members),
        "typical_users": [post.user_ids[u] for u in typical],
    }
    if post.features is not None:
        means = post.features[members].mean(axis=0)
        profile["feature_means"] = {
            name: float(mean) for name, mean in zip(post.feature_names, means, strict=True)
        }
    elif post.has_features:
        profile |= table_profile(post, members)
    if "latent" in post:
        profile["latent"] = _latent_of(post, members)
    return profile


def _latent_of(post: Posterior, members: Any) -> dict[str, Any]:
    """The mean latent coefficient of a cluster's users with its interval; by name, where each user
    has several."""
    draws = post.flat("latent").reshape(-1, post.n_users, len(post.latent_names))
    found = [mean_latent(draws[..., part], members) for part in range(draws.shape[2])]
    texts = [{"median": mean.median, "low": mean.low, "high": mean.high} for mean in found]
    return texts[0] if len(texts) == 1 else dict(zip(post.latent_names, texts, strict=True))


def _table_text(cluster: dict[str, Any]) -> str:
    """Medians, and the most frequent level of each nominal column."""
    parts = [
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in cluster.get("feature_medians", {}).items()
    ]
    for name, shares in cluster.get("level_shares", {}).items():
        level = max(shares, key=shares.__getitem__)
        if shares[level] > 0:
            parts.append(f"{name} {level} ({shares[level]:.0%})")
    return "; " + ", ".join(parts) if parts else ""


def summary_text(summary: dict[str, Any]) -> str:
    """The summary for a reader."""
    lines = [
        f"{summary['users']} users in {len(summary['clusters'])} clusters "
        f"({summary['clusters_in_an_average_draw']:.1f} in an average draw); "
        f"{summary['chains']} chains of {summary['draws_per_chain']} "
        f"draws{_length_text(summary['length'])}."
    ]
    if summary["alpha_prior"] is not None:
        lines.append(f"Prior of the concentration alpha: {summary['alpha_prior']}.")
    for cluster in summary["clusters"]:
        line = (
            f"  cluster {cluster['cluster']}: {cluster['size']} users, such as "
            f"{', '.join(cluster['typical_users'])}"
        )
        if "latent" in cluster:
            line += _latent_text(cluster["latent"])
        if "feature_means" in cluster:
            line += "; " + ", ".join(
                f"{name} {mean:.4g}" for name, mean in cluster["feature_means"].items()
            )
        line += _table_text(cluster)
        lines.append(line)
    verdict = summary["verdict"].replace("(n_warmup, n_draws)", "(--warmup, --draws)")
    verdict = verdict.replace("(max_time, max_draws)", "(--max-time, --max-draws)")
    certain = [text for name in ("certainty", "agreement") if (text := summary[name]) is not None]
    return "\n".join(
        [*lines, *certain, verdict.replace("plots.traces", "the pictures of 'dualview plot'")]
    )


def _latent_text(latent: dict[str, Any]) -> str:
    """The latent coefficient of a cluster, or each of them by name."""
    single = set(latent) == {"median", "low", "high"} and not isinstance(latent["median"], dict)
    named = (
        {"latent": latent} if single else {f"latent {name}": mean for name, mean in latent.items()}
    )
    texts = [
        f"{name} {mean['median']:.4g} ({mean['low']:.4g} to {mean['high']:.4g})"
        for name, mean in named.items()
    ]
    return "; " + ", ".join(texts)


def _length_text(length: dict[str, Any] | None) -> str:
    """How long chains were that were not of fixed length, and what ended them before they had
    converged."""
    if length is None or length["ended"] == "length":
        return ""
    ended = {
        "max_time": "; the time ran out",
        "max_draws": "; the limit of draws was reached",
        "interrupted": "; interrupted",
    }
    return (
        f", {length['stride']} iterations apart, after {length['n_warmup']:,} of "
        f"{length['n_iterations']:,} iterations as "
        f"warm-up{ended.get(length['ended'], '')}"
    )


def plot_run(folder: Path) -> list[Path]:
    """Every picture that the run has data for, as PNG files."""
    import io

    from dualview import plots

    plots.require_matplotlib()
    import matplotlib.pyplot as plt

    model = load_run(folder)
    post = model.posterior_
    pictures: dict[str, Any] = {
        "clusters": lambda: plots.clusters(post)[0],
        "traces": lambda: plots.traces(post)[0, 0],
    }
    if post.n_users <= 5000:
        pictures["similarity"] = lambda: plots.similarity(post)
    if "features" in post.units and len(post.feature_names) > 1:
        pictures["features"] = lambda: plots.features(model)
    if post.codebook is not None and any(
        column.levels for column in post.codebook.columns if column.kind != "ignore"
    ):
        pictures["levels"] = lambda: plots.levels(post)[0]
    if "latent" in post:
        pictures["latent"] = lambda: _latent_picture(model)
    make_folder(folder / "plots")
    written = []
    for name, draw in pictures.items():
        figure = draw().figure
        content = io.BytesIO()
        figure.savefig(content, format="png", dpi=120, bbox_inches="tight")
        plt.close(figure)
        write_whole(folder / "plots" / f"{name}.png", content.getvalue())
        written.append(folder / "plots" / f"{name}.png")
    return written


def _latent_picture(model: DualViewMixture) -> Any:
    """A panel for each part of the latent vectors, one above the other."""
    from dualview import plots
    from dualview.plots.canvas import panels

    n_parts = len(model.posterior_.latent_names)
    column = panels(None, n_parts, 1, (6.4, 4.8 * n_parts))[:, 0]
    for part, ax in enumerate(column):
        plots.latent(model, ax, part=part)
    return column[0]
