"""Parameters of an estimator, read once and checked, alone and given the data of a fit."""

import numbers as abstract
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import update_wrapper
from types import MethodType
from typing import Any

from sklearn.base import BaseEstimator

from dualview.behaviors.base import Behavior
from dualview.behaviors.several import SeveralBehaviors
from dualview.chains.schedule import check_length
from dualview.checks import whole_number
from dualview.errors import DataWarning, EngineError, InputError, InputTypeError
from dualview.inputs.data import Data
from dualview.partitions.agreement import agreement_prior, agreement_priors
from dualview.partitions.alpha import concentration
from dualview.partitions.choice import Process, partition_process
from dualview.posterior.diagnostics import check_enough
from dualview.settings import (
    ENGINES,
    EngineSettings,
    Gibbs,
    Settings,
    check_values,
    choices,
    defaults,
    setting_names,
)
from dualview.units import GaussianPrior, constants_of, tails_of

_MOVED = ("partition", "n_whole", *defaults(Gibbs))
_PLAIN = ("n_draws", "n_chains", "max_time", "spread_prior", "link", "pooling")


@dataclass(frozen=True)
class Parameters:
    """What an estimator's parameters say.

    n_clusters, process: the fixed number of clusters, or the process that infers it; both None for
    a Dirichlet process. n_full_draws: about how many draws of each chain are kept in full; None for
    all.
    """

    n_clusters: int | None
    process: Process | None
    alpha: Any
    n_draws: int
    n_chains: int
    max_time: float | None
    engine: EngineSettings
    columns: Mapping[str, Any] | None
    feature_prior: GaussianPrior | str | None
    behavior_prior: GaussianPrior | str | None
    spread_prior: str
    link: str | None
    pooling: str | None
    agreement: Any
    n_full_draws: int | None
    checkpoint: Any
    n_jobs: int | None
    random_state: Any
    progress: Any

    @classmethod
    def of(cls, estimator: BaseEstimator, *, warn: bool = True) -> "Parameters":
        """The parameters of an estimator; raises where one is impossible, whatever the data.

        warn: of parameters that have moved, in the name of whoever called the caller.
        """
        given = estimator.get_params(deep=False)
        moved = {name: given.pop(name) for name in _MOVED}
        moved = {name: value for name, value in moved.items() if not _is_usual(name, value)}
        check_values(Settings, {name: given[name] for name in _PLAIN})
        engine, process = engine_of(given.pop("engine")), partition_process(moved.get("partition"))
        if process is None and isinstance(given["n_clusters"], Process):
            process, given["n_clusters"] = given["n_clusters"], None
        if process is not None and given["n_clusters"] is not None:
            raise InputError(
                "partition is for an inferred number of clusters; got "
                f"n_clusters={given['n_clusters']} as well. Leave one out."
            )
        check_values(Settings, {"n_clusters": given["n_clusters"]})
        n_full_draws = _n_full_draws(given.pop("keep"), moved)
        if moved:
            own, advice = _moved_to(engine, moved)
            engine = replace(engine, **own)
            if warn:
                warnings.warn(advice, FutureWarning, stacklevel=3)
        found = cls(**given, process=process, engine=engine, n_full_draws=n_full_draws)
        _check(found)
        return found

    def given(self, behavior: Behavior | None) -> "Parameters":
        """The same for a behavior, with pooling="auto" decided: users share their cluster's vector
        where no user has more than one observation and the engine can do it."""
        if self.pooling != "auto":
            return self
        shared = self.engine.can_pool and behavior is not None and behavior.is_one_each
        return replace(self, pooling="cluster" if shared else None)

    @property
    def feature_constants(self) -> GaussianPrior | str | None:
        """Where the constants of the feature view come from."""
        return constants_of(self.feature_prior)

    @property
    def tails(self) -> str | None:
        """Tails of clusters of features: "student", or None for normal ones."""
        return tails_of(self.feature_prior)

    @property
    def settings(self) -> Settings:
        """Those that decide how long chains run and what they keep."""
        shared = set(setting_names(Settings)) & set(setting_names(self.engine))
        own = {name: getattr(self.engine, name) for name in shared}
        if self.n_full_draws is not None:
            own |= {"keep": "summary", "n_whole": self.n_full_draws}
        return Settings(n_draws=self.n_draws, max_time=self.max_time, **own)

    @property
    def every(self) -> int | None:
        """Which of the draws are kept in full; None for all."""
        return None if self.n_full_draws is None else max(1, self.n_draws // self.n_full_draws)

    @property
    def n_kept(self) -> int:
        """Draws of all chains that are kept in full."""
        return self.n_chains * min(self.n_draws, self.n_full_draws or self.n_draws)


def engine_of(given: Any) -> EngineSettings:
    """The engine that ``engine`` of an estimator stands for: a record, or a word for its
    defaults."""
    if isinstance(given, EngineSettings):
        return given
    if isinstance(given, str) and given in ENGINES:
        return ENGINES[given]()
    words = " or ".join(f'"{word}"' for word in ENGINES)
    records = " or ".join(f"dv.{engine.__name__}(...)" for engine in ENGINES.values())
    raise InputError(f"engine must be {words}, or {records} with settings; got {given!r}.")


def _is_usual(name: str, value: Any) -> bool:
    """Whether a parameter that has moved is at its default."""
    usual = {**defaults(Settings), **defaults(Gibbs)}[name]
    return value is usual or (type(value) is type(usual) and bool(value == usual))


def _n_full_draws(keep: Any, moved: Mapping[str, Any]) -> int | None:
    """How many draws of a chain are kept in full, about; None for all."""
    check_values(Settings, {name: moved[name] for name in ("n_whole",) if name in moved})
    if isinstance(keep, str) and keep in choices(Settings)["keep"]:
        n_whole = int(moved.get("n_whole", defaults(Settings)["n_whole"]))
        return n_whole if keep == "summary" else None
    if isinstance(keep, abstract.Integral) and not isinstance(keep, bool):
        return whole_number(keep, "keep", 1)
    raise InputError(
        'keep must be "draws" or "summary", or a whole number, the draws of each chain that a '
        f"summary keeps in full; got {keep!r}."
    )


def _moved_to(engine: EngineSettings, moved: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Which settings that were given to the estimator are the engine's, and a text that says where
    all of them belong."""
    names = [item.name for item in fields(engine) if item.name in moved]
    usual = type(engine)()
    twice = [name for name in names if replace(usual, **{name: vars(engine)[name]}) != usual]
    if twice:
        raise InputError(
            f"{', '.join(twice)}: given both to the estimator and to its engine, "
            f"dv.{type(engine).__name__}(...). Leave out the one of the parameters."
        )
    words = ", ".join(
        f"{name}={moved[name]!r}" if isinstance(moved[name], str | int | float) else f"{name}=..."
        for name in names
    )
    places = [f"engine=dv.{type(engine).__name__}({words})"] if names else []
    if "partition" in moved:
        places.append("n_clusters=dv.PitmanYor(...)")
    if "n_whole" in moved:
        places.append(f"keep={moved['n_whole']}")
    idle = [name for name in moved if name in defaults(Gibbs) and name not in names]
    Gibbs(**{name: moved[name] for name in idle})  # raises where one is impossible
    advice = f"use {', '.join(places)}" if places else ""
    if idle:
        own = f'with engine="{engine.word}" leave out {", ".join(idle)}, without effect there'
        advice += f"; {own}" if places else own
    return {name: moved[name] for name in names}, (
        f"Parameters of DualViewMixture have moved ({', '.join(moved)}) and work in their old "
        f"place in this release only: {advice}."
    )


def _check(parameters: Parameters) -> None:
    """Raise where a parameter is impossible, whatever the data."""
    own = parameters.settings
    check_length(own.n_warmup, own.n_draws, own.thin, parameters.n_chains, own.max_draws)
    if parameters.engine.has_chains and not own.is_fixed:
        check_enough(own.n_draws, parameters.n_chains)
    if parameters.columns is not None and not isinstance(parameters.columns, Mapping):
        raise InputTypeError(
            'columns must be a dictionary of kinds by name, such as {"age": "rounded"}; got '
            f"{parameters.columns!r:.80}."
        )
    concentration(parameters.alpha)
    agreement = parameters.agreement
    compares = isinstance(agreement, Mapping) or agreement_prior(agreement) is not None
    if compares and parameters.n_clusters == 1:
        raise InputError(
            "agreement has no meaning with n_clusters=1: users cannot look and act differently "
            "in one cluster."
        )
    for name in ("feature_prior", "behavior_prior"):
        _check_prior(name, getattr(parameters, name))
    _check_running(parameters.n_jobs, parameters.checkpoint, parameters.progress)


def _check_running(n_jobs: Any, checkpoint: Any, progress: Any) -> None:
    """Raise where a parameter that changes no draw is impossible."""
    if n_jobs is not None and (not isinstance(n_jobs, abstract.Integral) or n_jobs == 0):
        raise InputError(
            f"n_jobs must be None or a whole number other than 0 (-1: all cores); got {n_jobs!r}."
        )
    if not (checkpoint is None or isinstance(checkpoint, str | os.PathLike)):
        raise InputError(f"checkpoint must be a folder's path or None; got {checkpoint!r}.")
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise InputError(
            "progress must be True, False or a function of (chain, iteration, clusters); got "
            f"{progress!r}."
        )


def _check_prior(name: str, value: Any) -> None:
    """Raise where a prior of a view is neither one nor a word for one."""
    words = choices(Settings)[name]
    if isinstance(value, GaussianPrior) or (isinstance(value, str | None) and value in words):
        return
    listed = "".join(f', "{word}"' for word in words if word is not None)
    got = repr(value) if isinstance(value, str) else type(value).__name__
    raise InputError(
        f"{name} must be a GaussianPrior(mean, covariance){listed} or None; got {got}."
    )


def check_use(parameters: Parameters, data: Data) -> None:
    """Raise where a parameter does not go with the data of a fit, and warn of one without
    effect."""
    parameters = parameters.given(data.behavior)
    has_behavior = data.behavior is not None
    if isinstance(data.behavior, SeveralBehaviors) and parameters.pooling is not None:
        parts = data.behavior.parts
        if len(parts) > 1:
            raise InputError(
                'pooling="cluster" is for a fit of one behavior; this one has '
                f"{', '.join(parts)}. Leave pooling at None."
            )
    for text in _without_effect(parameters, data):
        warnings.warn(text, DataWarning, stacklevel=3)
    agreement = agreement_priors(parameters.agreement, data.tables)
    for name, value, what in (
        ("link", parameters.link, 'link="linear" joins'),
        ("agreement", agreement, "agreement compares"),
    ):
        if value is not None and not (data.has_features and has_behavior):
            missing = "a behavior" if data.has_features else "features X"
            raise InputError(
                f"{what} features and behavior; this fit lacks {missing}. Give both, or "
                f"{name}=None."
            )
    check_n_clusters(parameters, data.n_users)


def _without_effect(parameters: Parameters, data: Data) -> Iterator[str]:
    """Which parameters do nothing, and why."""
    has_behavior = data.behavior is not None
    there = {"feature_prior": data.has_numbers}
    there |= dict.fromkeys(("behavior_prior", "pooling"), has_behavior)
    for name, is_there in there.items():
        if not is_there and getattr(parameters, name) is not None:
            yield f"{name} is not used: there is no such view in this fit."
    if parameters.spread_prior != defaults(Settings)["spread_prior"]:
        if not has_behavior:
            yield "spread_prior is not used: there is no behavior in this fit."
        elif parameters.pooling is not None:
            yield "spread_prior is not used: users of a cluster share one latent behavior."
    if parameters.n_clusters == 1 and parameters.alpha is not None:
        yield "alpha is not used: with one cluster there is none."


def check_n_clusters(parameters: Parameters, n_users: int) -> None:
    """Raise where more clusters are wanted than there are users."""
    if parameters.n_clusters is not None and parameters.n_clusters > n_users:
        raise InputError(
            f"n_clusters must be at most the number of users, {n_users}; got "
            f"{parameters.n_clusters}."
        )


def of_engine(engine: str) -> Callable[[Callable[..., Any]], Any]:
    """Decorates a method that only one engine has: with others ``hasattr`` is False, and the error
    names both engines."""
    return lambda method: _OfEngine(method, engine)


class _OfEngine:
    def __init__(self, method: Callable[..., Any], engine: str) -> None:
        self.method, self.engine = method, engine
        shown: Any = self
        update_wrapper(shown, method)  # documentation and examples are the method's

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self.method
        engine = getattr(instance.engine, "word", instance.engine)
        if engine != self.engine:
            name = self.method.__name__
            raise EngineError(
                f'{name} is a method of engine="{self.engine}"; this estimator has '
                f'engine="{engine}". Set engine="{self.engine}", or call fit with all data.'
            )
        return MethodType(self.method, instance)
