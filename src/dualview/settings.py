"""Settings of the sampler, declared once: the estimator, runs in folders, reports and the command
line are made from them.

A setting is a field with its default, its help on the command line and its limits (``setting``); a
``Literal`` type lists its choices. The command line imports this module to show its help, so that
it imports nothing heavy.
"""

from collections.abc import Callable, Container, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from textwrap import fill, indent
from typing import Any, ClassVar, Literal, Self, TypeVar, get_args, get_type_hints

from dualview.errors import InputError

Recorded = Literal["always", "if changed", "by the estimator", "never"]
T = TypeVar("T")


def setting(
    default: Any,
    text: str,
    *,
    least: int | None = None,
    positive: bool = False,
    none: str | None = None,
    described: str | None = None,
    parameter: str | None = None,
    recorded: Recorded = "if changed",
) -> Any:
    """A field of a record of settings.

    Parameters
    ----------
    default : object
    text : str
        Its help on the command line.
    least : int, optional
        It is a whole number of at least this much.
    positive : bool
        It is a number above zero.
    none : str, optional
        What None stands for, if it can be None.
    described : str, optional
        How any other value is described when runs are distinguished, with {} for the value; by
        default its name and value.
    parameter : str, optional
        Its name as a parameter of the estimator, if it differs from the field's.
    recorded : "always", "if changed", "by the estimator" or "never"
        When it is written to the manifest of a run, by which a changed setting is noticed. "if
        changed", from the default: runs from before the setting existed stay valid. "by the
        estimator": in its own form, see ``inputs.fits``. "never": it may change when a run is
        resumed.
    """
    details = {
        "least": least,
        "positive": positive,
        "none": none,
        "described": described,
        "parameter": parameter,
        "recorded": recorded,
    }
    return field(default=default, metadata={"help": text, **details})


class EngineSettings:
    """Settings that one engine has, checked when they are given; ``word`` is short for the
    defaults. has_chains: whether draws are those of Markov chains, which have to converge.
    can_pool: whether the users of a cluster can share a latent vector."""

    word: ClassVar[str]
    has_chains: ClassVar[bool] = False
    can_pool: ClassVar[bool] = False
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]  # every engine is a dataclass
    init: Any

    def __post_init__(self) -> None:
        check_values(type(self), vars(self))

    def __eq__(self, other: object) -> bool:
        from numpy import array_equal  # heavy: see the head of the module

        return type(self) is type(other) and all(
            array_equal(value, vars(other)[name]) for name, value in vars(self).items()
        )

    def __hash__(self) -> int:
        return hash(type(self))

    def short(self) -> Self:
        """The engine for a short fit beside another, from k-means."""
        return replace(self, init="kmeans")


@dataclass(frozen=True, eq=False)
class Gibbs(EngineSettings):
    """Markov chains that sample the posterior by Gibbs steps: ``engine=dv.Gibbs(n_warmup=500)``.

    ``engine="gibbs"`` is short for ``engine=dv.Gibbs()``.

    Parameters
    ----------
    n_warmup : int or None
        None: chains run until they have converged (R̂ below 1.01 and an effective sample size of at
        least 400 for every monitored quantity), and the warm-up is automatic: the first fifth to
        half of each chain. A number alone: chains of fixed length, n_warmup + n_draws × thin
        iterations. A number with ``max_time`` or ``max_draws``: the warm-up is fixed, and chains
        run until they have converged.
    thin : int
        Minimum number of iterations per draw.
    n_auxiliary : int
        Auxiliary components for new clusters in the assignment sweep (Neal 2000, algorithm 8;
        Favaro and Teh 2013). Any number gives the same posterior; with more, new clusters are
        opened more easily.
    max_draws : int, optional
        Draws of each chain, kept or not, after which chains end even without convergence. None: 100
        × n_draws; with more than 500 users fewer, down to 2 × n_draws.
    init : "kmeans", "one", "variational" or array (U,)
        Where chains start: k-means with n_clusters clusters (10 if inferred), all users in one
        cluster, partitions drawn from a variational approximation, or given labels.
    checkpoint_interval : float
        Seconds that a chain works between two saves into the folder ``checkpoint``.

    Examples
    --------
    >>> import dualview as dv
    >>> dv.Gibbs(n_warmup=500, thin=2).init
    'kmeans'
    """

    word: ClassVar[str] = "gibbs"
    has_chains: ClassVar[bool] = True
    can_pool: ClassVar[bool] = True

    n_warmup: int | None = setting(
        None,
        "Iterations of each chain before draws are kept. By default it is automatic, and chains "
        "run until "
        "they have converged. If it is given without --max-time and --max-draws, chains have a "
        "fixed length.",
        least=0,
        none="warm-up chosen",
        recorded="always",
    )
    thin: int = setting(
        1, "Minimum number of iterations per kept draw.", least=1, recorded="always"
    )
    n_auxiliary: int = setting(
        3, "Auxiliary components for new clusters.", least=1, recorded="always"
    )
    max_draws: int | None = setting(
        None,
        "Stop after this many draws per chain, kept or not, even without convergence. By default "
        "100 times --draws, and "
        "fewer with more than 500 users.",
        least=1,
        none="default limit of draws",
        described="at most {} draws",
        recorded="never",
    )
    init: Any = setting(  # noqa: RUF009
        "kmeans", "Where chains start.", recorded="by the estimator"
    )
    checkpoint_interval: float = setting(
        1.0, "Seconds between two saves.", positive=True, recorded="never"
    )

    def short(self) -> Self:
        return replace(self, init="kmeans", n_warmup=500, thin=1)


@dataclass(frozen=True, eq=False)
class Variational(EngineSettings):
    """A mean-field approximation of the posterior, found by coordinate ascent.

    It takes seconds where chains take hours. Means are good, intervals often too narrow;
    ``posterior_.verdict()`` says how far to trust it. ``engine="variational"`` is short for
    ``engine=dv.Variational()``.

    Parameters
    ----------
    n_starts : int, optional
        Starts of the ascent. None: as many as there are chains of draws, n_chains.
    init : "kmeans", "one" or array (U,)
        Where the ascent starts: k-means with n_clusters clusters (10 if inferred), all users in one
        cluster, or given labels.

    Examples
    --------
    >>> import dualview as dv
    >>> dv.Variational(n_starts=8)
    Variational(n_starts=8, init='kmeans')
    """

    word: ClassVar[str] = "variational"

    n_starts: int | None = setting(
        None, "Starts of the ascent.", least=1, none="one for each chain of draws"
    )
    init: Any = setting(  # noqa: RUF009
        "kmeans", "Where the ascent starts.", recorded="by the estimator"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.init, str) and self.init == self.word:
            raise InputError(
                'init="variational" is for engine="gibbs"; a variational fit starts from "kmeans", '
                '"one" or labels.'
            )

    def short(self) -> Self:
        return replace(self, init="kmeans", n_starts=None)


ENGINES: dict[str, type[Gibbs] | type[Variational]] = {
    engine.word: engine for engine in (Gibbs, Variational)
}


def setting_of(record: type, name: str) -> Any:
    """A field that is declared as another record's is."""
    declared = next(item for item in fields(record) if item.name == name)
    return field(default=declared.default, metadata=declared.metadata)


@dataclass(frozen=True)
class Settings:
    """How a posterior is sampled, in values that a command line and a JSON file can hold."""

    n_clusters: int | None = setting(
        None,
        "Fixed number of clusters; inferred by default.",
        least=1,
        none="clusters inferred",
        described="clusters: {}",
        recorded="always",
    )
    alpha: str | None = setting(
        None,
        "Prior of the concentration (larger values mean more clusters): paper, a number to fix it, "
        '"gamma(SHAPE,RATE)" or "inverse-gamma(SHAPE,SCALE)". By default gamma(0.25,0.25), '
        "and paper with a fixed number of clusters.",
        none="alpha by default",
        recorded="by the estimator",
    )
    partition: str | None = setting(
        None,
        '"pitman-yor(DISCOUNT)": a prior with more small clusters than the Dirichlet process, '
        'which is the default; "pitman-yor(learned)": by the data. "finite-mixtures": a number of '
        "components with a prior of its own, which the number of clusters does not exceed.",
        none="Dirichlet process",
        recorded="by the estimator",
    )
    link: Literal["linear"] | None = setting(
        None,
        '"linear": inside clusters, latent coefficients also depend on the features, with slopes '
        "that all clusters share.",
        none="no link",
        described="{} link",
    )
    pooling: Literal["auto", "cluster"] | None = setting(
        "auto",
        '"cluster": the users of a cluster share one latent coefficient; none: each has its own. '
        "auto: they share it "
        "where nobody has more than one observation.",
        none="users on their own",
        described="pooling {}",
        recorded="by the estimator",
    )
    feature_prior: (
        Literal["shrunk", "diagonal", "student", "student-shrunk", "student-diagonal"] | None
    ) = setting(
        None,
        "Scale of the features: by default their sample covariance. For many features and few "
        "users: "
        '"shrunk", the covariance shrunk toward its diagonal, or "diagonal", only the variances. '
        '"student": clusters with heavy tails, so that skewed or heavy-tailed numbers do not fall '
        'into many small clusters; also "student-shrunk" and "student-diagonal".',
        none="covariance of the features",
        described="feature prior {}",
        recorded="by the estimator",
    )
    behavior_prior: Literal["likelihood"] | None = setting(
        None,
        '"likelihood": the scale of latent coefficients by restricted maximum likelihood (REML); '
        "better than the default "
        "if users have few threads.",
        none="scale by ridge",
        described="scale by {}",
        recorded="by the estimator",
    )
    spread_prior: Literal["flat", "paper"] = setting(
        "flat",
        "Prior of the spread of latent coefficients inside clusters: flat near 0, or the "
        "paper's, which favors spreads near 0 "
        "and gives intervals that are too narrow.",
        described="{} prior of spread",
    )
    agreement: str | None = setting(
        None,
        'Whether users act as they look: by default all do. "learned": each user may have one '
        "cluster by its features and "
        "another by its behavior, and the share of users who agree is learned; a number: that "
        'share is known; "beta(A,B)": its '
        "prior.",
        none="views agree",
        described="agreement {}",
        recorded="by the estimator",
    )
    engine: Literal["gibbs", "variational"] = setting(
        "gibbs",
        "gibbs samples the posterior; variational approximates it, much faster with many users.",
        described="engine: {}",
    )
    n_warmup: int | None = setting_of(Gibbs, "n_warmup")
    n_draws: int = setting(
        1000, "Draws to keep from each chain.", least=1, described="{} draws", recorded="always"
    )
    max_time: float | None = setting(
        None,
        "Stop after this many seconds, even without convergence; compiling does not count, and the "
        "search for clusters takes up to 3 % more. No limit by default.",
        positive=True,
        none="no time limit",
        described="at most {} s",
        recorded="never",
    )
    max_draws: int | None = setting_of(Gibbs, "max_draws")
    thin: int = setting_of(Gibbs, "thin")
    n_chains: int = setting(
        4,
        "Number of chains; of starts with --engine variational, where --warmup, --thin and "
        "--max-draws do nothing.",
        least=1,
        described="{} chains",
        recorded="always",
    )
    keep: Literal["draws", "summary"] = setting(
        "draws", "Keep all draws in full or, for very many users, a summary."
    )
    n_whole: int = setting(
        100,
        "Draws of each chain that a summary keeps in full.",
        least=1,
        described="{} draws whole",
        recorded="by the estimator",
    )
    seed: int = setting(
        0,
        "Random seed; the same seed gives the same results.",
        least=0,
        parameter="random_state",
        recorded="by the estimator",
    )

    @property
    def is_fixed(self) -> bool:
        """Whether the length of chains is given; otherwise they run until they have converged."""
        return self.n_warmup is not None and self.max_time is None and self.max_draws is None

    @property
    def unused(self) -> tuple[str, ...]:
        """Names of the settings without effect, given the others."""
        return () if self.keep == "summary" else ("n_whole",)

    def described(self) -> dict[str, str]:
        """Each setting in words, by name; of one without effect, its default."""
        found = {}
        for item in fields(self):
            value = item.default if item.name in self.unused else getattr(self, item.name)
            words = item.metadata["described"] or option_name(item.name) + " {}"
            found[item.name] = item.metadata["none"] if value is None else words.format(value)
        return found

    def engine_settings(self) -> Gibbs | Variational:
        """The engine with those of its settings that are among these."""
        engine = ENGINES[self.engine]
        names = [item.name for item in fields(engine) if hasattr(self, item.name)]
        return engine(**{name: getattr(self, name) for name in names})


@dataclass(frozen=True)
class Columns:
    """What the columns of the tables are called."""

    user: str = setting("user", "Name of the column with user ids.")
    thread: str = setting("thread", "Name of the column with thread ids.")
    weight: str = setting("weight", "Name of the column with weights.")
    outcome: str = setting("outcome", "Name of the column with outcomes.")


# Distributions of outcomes of a kind, the default first; on the command line blanks are dashes
FAMILIES_OF: dict[str, tuple[str, ...]] = {
    "counts": ("negative binomial", "poisson"),
    "survival": ("weibull", "log-logistic", "log-normal"),
}


@dataclass(frozen=True)
class AnswerSettings:
    """What the observations are, and which columns hold them; threads unless another kind is
    named."""

    kind: Literal[
        "threads",
        "regression",
        "binary",
        "ordinal",
        "categorical",
        "counts",
        "survival",
        "choices",
        "rankings",
    ] = setting(
        "threads",
        "What a row is: of a thread, or one user's answer. Ratings are ordinal, levels without an "
        "order categorical.",
        described="{}",
    )
    outcome: str | None = setting(
        None,
        "Column with the outcomes; by default outcome, place (rankings), time (survival).",
        none="outcome",
    )
    outcome_kind: Literal["continuous", "rounded", "count"] = setting(
        "continuous",
        "For regression: whether outcomes are exact numbers, rounded numbers or counts.",
        described="{} outcomes",
    )
    family: (
        Literal["negative-binomial", "poisson", "weibull", "log-logistic", "log-normal"] | None
    ) = setting(
        None,
        "Distribution of counts (negative-binomial, the default, or poisson) or of times of "
        "survival (weibull, the default, log-logistic or log-normal).",
        none="that of the kind",
    )
    exposure: str | None = setting(
        None,
        "For counts: column that says for how long, or how many, each row was counted.",
        none="no exposure",
    )
    trials: str | None = setting(
        None,
        "For binary: column with the number of trials of each row; the outcome is the number of "
        "successes.",
        none="no trials",
    )
    bounds: tuple[str, ...] = setting(
        (),
        "For regression and survival: columns with the lower and upper ends of outcomes that are "
        "known to an interval: --bounds low,high. "
        "An empty cell is an open end; equal ends are an exact number.",
    )
    event: str | None = setting(
        None,
        "For survival: column with 1 where the time was seen, 0 where it is right-censored.",
        none="all times seen",
        described="event {}",
    )
    by: tuple[str, ...] = setting(
        (),
        "Columns that outcomes depend on, with a coefficient for each user: --by dose,time. For "
        "choices, columns of "
        "--items; all of them by default.",
    )
    common: tuple[str, ...] = setting(
        (), "Columns with one coefficient for all users: --common age,sex."
    )
    groups: tuple[str, ...] = setting(
        (),
        "Columns with levels that cut across users, such as items or days; each level has an "
        "effect: --groups item,day.",
    )
    levels: tuple[str, ...] = setting(
        (),
        "For ordinal: all levels, lowest first: --levels poor,fair,good. By default the numbers "
        "in the outcome. For categorical: all levels, by default those in the outcome.",
    )
    no_intercept: bool = setting(
        False,
        "Leave out each user's own intercept, which there is by default but for choices and "
        "rankings.",
    )
    items: str | None = setting(
        None,
        "For choices: table with one row per item: an id column and features.",
        none="no table of items",
    )
    item_intercept: bool = setting(
        False, "For choices: give each item its own appeal, common to all users."
    )
    winner: str = setting("winner", "For choices: column with the item that was chosen.")
    loser: str = setting("loser", "For choices: column with the item that was not chosen.")
    item: str = setting("item", "For choices: column with ids in the table of items.")
    ranking: str = setting(
        "ranking", "For rankings: column with the id of the ranking that an item is in."
    )

    @property
    def columns(self) -> tuple[str, ...]:
        """The names in ``by``, which may be separated by commas."""
        return separated(self.by)

    @property
    def family_name(self) -> str:
        """The family as Python has it; empty where the kind has none."""
        names = FAMILIES_OF.get(self.kind, ("",))
        return next((name for name in names if name.replace(" ", "-") == self.family), names[0])

    def described(self) -> dict[str, str]:
        """In words, to distinguish runs."""
        by = f"by {', '.join(self.columns)}" if self.columns else "by nothing"
        intercept = "no intercept" if self.no_intercept else "intercept"
        recorded = (
            f"between {' and '.join(separated(self.bounds))}"
            if self.bounds
            else f"event {self.event}"
            if self.event is not None
            else f"{self.outcome_kind} outcomes"
        )
        words = {"kind": self.kind, "by": by, "own intercept": intercept, "recorded": recorded}
        words["family"] = f"{self.family_name or 'no'} family"
        for name in ("common", "groups"):
            listed = separated(getattr(self, name))
            words[name] = f"{name} {', '.join(listed)}" if listed else f"no {name}"
        for name in ("exposure", "trials"):
            asked = getattr(self, name)
            words[name] = f"{name} {asked}" if asked else f"no {name}"
        return words | {"items": "appeals" if self.item_intercept else "items"}


def separated(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names, of which some may be separated by commas, one by one."""
    return tuple(part.strip() for name in names for part in name.split(",") if part.strip())


def setting_names(record: Any, recorded: Recorded | None = None) -> list[str]:
    """Names of the settings of a record, or of those that are recorded in this way."""
    return [
        item.name
        for item in fields(record)
        if recorded is None or item.metadata.get("recorded") == recorded
    ]


def documented(record: type) -> Callable[[type[T]], type[T]]:
    """A decorator that ends the docstring of a class, its parameters, with the settings of a
    record, each with its help."""

    def paragraph(item: Field[Any]) -> str:
        listed = choices(record).get(item.name)
        kind = getattr(item.type, "__name__", str(item.type)) if listed is None else _listed(listed)
        return f"    {item.name} : {kind}\n{indent(fill(item.metadata['help'], 92), ' ' * 8)}"

    def decorate(cls: type[T]) -> type[T]:
        text = str(cls.__doc__).rstrip()
        cls.__doc__ = "\n".join([text, *map(paragraph, fields(record))])
        return cls

    return decorate


def defaults(record: Any) -> dict[str, Any]:
    """Defaults of a record's fields by name, of those that have one."""
    return {item.name: item.default for item in fields(record) if item.default is not MISSING}


def choices(record: type) -> dict[str, tuple[str | None, ...]]:
    """The values that each setting with a ``Literal`` type can have, by name."""
    found = {}
    for name, hint in get_type_hints(record).items():
        parts = [hint, *get_args(hint)]
        listed = [value for part in parts for value in get_args(part) if isinstance(value, str)]
        if listed:
            found[name] = ((None,) if type(None) in parts else ()) + tuple(dict.fromkeys(listed))
    return found


def check_values(record: type, values: Mapping[str, Any]) -> None:
    """Raise if a value is outside the limits or the choices that a record of settings declares."""
    from dualview.checks import positive_number, whole_number  # heavy: see the head of the module

    limits = {item.name: item.metadata for item in fields(record)}
    listed = choices(record)
    for name, value in values.items():
        limit = limits[name]
        if name in listed:
            check_choice(limit["parameter"] or name, value, listed[name])
        elif not (value is None and limit["none"]):
            words = (limit["parameter"] or name) + (
                f" (None: {limit['none']})" if limit["none"] else ""
            )
            if limit["least"] is not None:
                whole_number(value, words, limit["least"])
            elif limit["positive"]:
                positive_number(value, words)


def check_choice(name: str, value: Any, listed: tuple[str | None, ...]) -> None:
    """Raise if a value is not one of those listed."""
    if (value is None or isinstance(value, str)) and value in listed:
        return
    raise InputError(f"{name} must be {_listed(listed)}; got {value!r}.")


def _listed(values: tuple[str | None, ...]) -> str:
    texts = ["None" if one is None else f'"{one}"' for one in values]
    return " or ".join(filter(None, [", ".join(texts[:-1]), texts[-1]]))


def option_name(name: str) -> str:
    """A setting's name on the command line, without dashes in front: ``draws`` for ``n_draws``."""
    return name.removeprefix("n_").replace("_", "-")


def column_option_name(name: str) -> str:
    """The option for the name of a column: ``user-column`` for ``user``."""
    return f"{name}-column"


def command_words(record: Any, without: Container[str] = ()) -> list[str]:
    """The options of a command line that say what differs from the defaults in a record of
    settings."""
    usual = defaults(record)
    words = []
    for item in fields(record):
        value = getattr(record, item.name)
        if item.name not in without and value != usual.get(item.name, MISSING):
            words += option_words(option_name(item.name), value)
    return words


def option_words(option: str, value: Any) -> list[str]:
    """An option with its value as words; one with several values is written once for each, or with
    "none" for no value."""
    if value is True:
        return [f"--{option}"]
    if isinstance(value, tuple | list):
        return [f"--{option}={part}" for part in value] or [f"--{option}=none"]
    return [f"--{option}={value}"]
