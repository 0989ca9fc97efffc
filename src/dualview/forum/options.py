"""Options of the forum application, with their rules."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from dualview.errors import InputError
from dualview.forum.columns import GivenColumns
from dualview.settings import check_choice, check_values, documented, setting, setting_names

COVARIATES = ("section", "speed", "hour", "weekday")
LENGTHS = ("length", "remaining")
GONE = {  # options of earlier versions, and what to do without them
    "ties": "this option was removed. Features that users share are now treated as counts and "
    "intervals; they are neither left "
    "out nor jittered. Leave the option out.",
}
UNITS = {
    "nanoseconds": 1e-9,
    "microseconds": 1e-6,
    "milliseconds": 1e-3,
    "seconds": 1.0,
    "minutes": 60.0,
    "hours": 3600.0,
    "days": 86400.0,
}


@dataclass(frozen=True, kw_only=True)
class ForumSettings:
    """How the posts are prepared; each field is an option of the command line. ``ForumOptions``
    checks them."""

    first: int = setting(
        5,
        "Number of early posts: the authors of this many first posts of a thread explain its "
        "outcome. Only longer threads are used.",
        least=1,
    )
    outcome: str = setting(
        "length",
        "What to explain: length, remaining (posts after the early ones) or a column of the file.",
    )
    outcome_from: Literal["same", "first", "last", "sum", "mean", "max"] = setting(
        "same",
        "How a column becomes one number per thread; by default it must be the same in all posts "
        "of a thread.",
    )
    scale: Literal["log", "raw"] | None = setting(
        None, "Scale of the outcome; by default log for lengths and raw for columns."
    )
    weights: Literal["binary", "counts"] = setting(
        "binary", "Weight of an early participant: 1, or the number of early posts."
    )
    normalize: bool = setting(False, "Divide the weights of a thread by their sum.")
    covariates: tuple[str, ...] = setting(
        COVARIATES,
        "Other predictors of the outcome, with slopes outside the mixture: section, speed, hour, "
        "weekday, or none.",
    )
    min_threads: int = setting(
        5,
        "Users who were early in fewer training threads are rare: they have no coefficient of "
        "their own.",
        least=1,
    )
    rare: Literal["pool", "drop"] = setting(
        "pool",
        "pool: rare and unknown participants are counted, and the count has a coefficient; drop: "
        "they are left out.",
    )
    bots: Literal["remove", "keep"] = setting(
        "remove",
        "Remove or keep the posts of bots: accounts with well-known names, names that end in bot, "
        "and further ones that are named.",
    )
    bot_names: tuple[str, ...] = setting((), "Further accounts that are bots.")
    deleted: Literal["anonymous", "remove"] = setting(
        "anonymous",
        'Posts without a user, or by "[deleted]" and the like: count them in lengths without an '
        "author (anonymous), or remove them.",
    )
    deleted_names: tuple[str, ...] = setting((), "Further names of deleted accounts.")
    test_share: float = setting(0.2, "Share of the threads kept for testing.")
    split: Literal["time", "random"] = setting(
        "time",
        "Test threads are the last to begin (time), or drawn at random, for example if their "
        "order is not known.",
    )
    time_unit: str | None = setting(
        None,
        f"Unit of times that are numbers: {', '.join(UNITS)}. By default it is detected, for times "
        "since 1970.",
    )
    relative_time: bool = setting(
        False, "Times count from the start of each thread; threads are in the order of the file."
    )
    encoding: str = setting(
        "utf-8", "Encoding of a text file; mixed for UTF-8 with some lines in Windows-1252."
    )
    skip_bad_rows: bool = setting(
        False, "Leave out posts without a thread or a readable time; otherwise they are an error."
    )


@documented(ForumSettings)
@dataclass(frozen=True, kw_only=True)
class ForumOptions(ForumSettings):
    """How the posts of a forum are prepared, with the names of the columns and the seed.

    Parameters
    ----------
    columns : mapping
        Names of the file's columns by part (thread, user, time, post, number, parent, section,
        score, length, text), if they are not recognized; "none" to go without a column. Several
        columns together may identify a thread.
    seed : int
        Seed of a random split, and of the sample of users that closeness uses in a large forum.
    """

    columns: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        # heavy, and the command line reads the settings above for its help
        from dualview.checks import whole_number

        check_values(
            ForumSettings, {name: getattr(self, name) for name in setting_names(ForumSettings)}
        )
        check_choice("time_unit", self.time_unit, (None, *UNITS))
        whole_number(self.seed, "seed", 0)
        unknown = [name for name in self.covariates if name not in COVARIATES]
        if unknown:
            raise InputError(
                f"covariates must be chosen from {', '.join(COVARIATES)}; got "
                f"{', '.join(map(str, unknown))}."
            )
        share = self.test_share
        if not isinstance(share, float | int) or not 0 < share < 1:
            raise InputError(f"test_share must be between 0 and 1; got {share!r}.")
        if self.relative_time and self.time_unit is None:
            raise InputError(
                "Times that count from the beginning of a thread need a unit: give time_unit, "
                "such as 'minutes'."
            )
        _check_encoding(self.encoding)

    @classmethod
    def asked(cls, settings: ForumSettings, columns: GivenColumns, seed: int) -> "ForumOptions":
        """From the options of a command line, where covariates are "none" for nothing."""
        covariates = () if settings.covariates == ("none",) else settings.covariates
        return cls(
            **vars(settings) | {"covariates": covariates}, columns=columns.given(), seed=seed
        )

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "ForumOptions":
        """From keywords, or from a JSON file, which has lists for tuples."""
        for name in GONE:
            if name in options:
                raise InputError(f"{name}: {GONE[name]}")
        names = [entry.name for entry in fields(cls)]
        unknown = sorted(set(options) - set(names))
        if unknown:
            raise InputError(
                f"There is no option {', '.join(unknown)}; there are {', '.join(names)}."
            )
        given: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in options.items()
        }
        return cls(**given)

    @property
    def logarithm(self) -> bool:
        """Whether the outcome is a logarithm."""
        return self.scale == "log" or (self.scale is None and self.outcome in LENGTHS)

    @property
    def outcome_column(self) -> str | None:
        """The file's column that is the outcome, if it is one."""
        return None if self.outcome in LENGTHS else self.outcome

    @property
    def outcome_words(self) -> str:
        """The outcome in words."""
        words = {
            "length": "posts of the thread",
            "remaining": f"posts after the first {self.first}",
        }
        plain = words.get(self.outcome, self.outcome)
        return f"logarithm of {plain}" if self.logarithm else plain


def _check_encoding(name: str) -> None:
    if name == "mixed":
        return
    try:
        "x".encode(name)  # refuses codecs between bytes and bytes, such as hex, too
    except (LookupError, ValueError):
        raise InputError(
            f"encoding must be 'utf-8', 'mixed' or a codec of Python; got {name!r}."
        ) from None
