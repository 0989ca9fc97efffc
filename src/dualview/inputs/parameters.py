"""Validation of the parameters of an estimator, alone and given the data of a fit."""

import numbers as abstract
import os
import warnings
from collections.abc import Mapping
from typing import Any

from dualview.behaviors import SeveralBehaviors
from dualview.chains.schedule import check_length
from dualview.checks import positive_number, whole_number
from dualview.errors import DataWarning, InputError, InputTypeError
from dualview.inputs.data import Data
from dualview.partitions.agreement import agreement_prior, agreement_priors
from dualview.partitions.alpha import concentration
from dualview.partitions.choice import partition_process
from dualview.posterior.diagnostics import check_enough
from dualview.settings import Settings, check_values, choices, defaults, setting_names
from dualview.units import GaussianPrior

# Settings that can be objects in an estimator, not only words and numbers.
_WIDER = ("alpha", "partition", "agreement", "feature_prior", "behavior_prior", "seed")


def settings_of(estimator: Any) -> Settings:
    """An estimator's parameters as settings; those that can be objects are left at their
    defaults."""
    return Settings(
        **{name: getattr(estimator, name) for name in setting_names(Settings) if name not in _WIDER}
    )


def check_parameters(estimator: Any) -> None:
    """Raise where a parameter is impossible, whatever the data."""
    check_values(
        Settings,
        {name: getattr(estimator, name) for name in setting_names(Settings) if name not in _WIDER},
    )
    whole_number(estimator.n_auxiliary, "n_auxiliary", 1)
    check_length(
        estimator.n_warmup,
        estimator.n_draws,
        estimator.thin,
        estimator.n_chains,
        estimator.max_draws,
    )
    if (
        estimator.engine == "variational"
        and isinstance(estimator.init, str)
        and estimator.init == "variational"
    ):
        raise InputError(
            'init="variational" is for engine="gibbs"; a variational fit starts from "kmeans", '
            '"one" or labels.'
        )
    if estimator.engine == "gibbs" and not settings_of(estimator).is_fixed:
        check_enough(estimator.n_draws, estimator.n_chains)
    if estimator.columns is not None and not isinstance(estimator.columns, Mapping):
        raise InputTypeError(
            f'columns must be a dictionary of kinds by name, such as {{"age": "rounded"}}; got '
            f"{estimator.columns!r:.80}."
        )
    concentration(estimator.alpha)
    if isinstance(estimator.agreement, Mapping) or agreement_prior(estimator.agreement) is not None:
        _check_agreement(estimator)
    if partition_process(estimator.partition) is not None and estimator.n_clusters is not None:
        raise InputError(
            "partition is for an inferred number of clusters; got "
            f"n_clusters={estimator.n_clusters} as well. Leave one out."
        )
    for name in ("feature_prior", "behavior_prior"):
        _check_prior(name, getattr(estimator, name))
    _check_running(
        estimator.n_jobs, estimator.checkpoint, estimator.checkpoint_interval, estimator.progress
    )


def _check_agreement(estimator: Any) -> None:
    """Raise where views that may disagree do not go with another parameter."""
    if estimator.engine == "variational":
        raise InputError(
            'agreement is for engine="gibbs": the variational engine gives both views the same '
            "clusters."
        )
    if estimator.n_clusters == 1:
        raise InputError(
            "agreement has no meaning with n_clusters=1: users cannot look and act differently "
            "in one cluster."
        )


def _check_running(n_jobs: Any, checkpoint: Any, checkpoint_interval: Any, progress: Any) -> None:
    """Raise where a parameter that changes no draw is impossible."""
    if n_jobs is not None and (not isinstance(n_jobs, abstract.Integral) or n_jobs == 0):
        raise InputError(
            f"n_jobs must be None or a whole number other than 0 (-1: all cores); got {n_jobs!r}."
        )
    positive_number(checkpoint_interval, "checkpoint_interval")
    if not (checkpoint is None or isinstance(checkpoint, str | os.PathLike)):
        raise InputError(f"checkpoint must be a folder's path or None; got {checkpoint!r}.")
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise InputError(
            "progress must be True, False or a function of (chain, iteration, clusters); got "
            f"{progress!r}."
        )


def _check_prior(name: str, value: Any) -> None:
    """Raise where a prior of a view is neither one nor a word for one."""
    words = [word for word in choices(Settings)[name] if word is not None]
    if (
        value is None
        or isinstance(value, GaussianPrior)
        or (isinstance(value, str) and value in words)
    ):
        return
    listed = "".join(f', "{word}"' for word in words)
    got = repr(value) if isinstance(value, str) else type(value).__name__
    raise InputError(
        f"{name} must be a GaussianPrior(mean, covariance){listed} or None; got {got}."
    )


def _check_several(estimator: Any, behavior: SeveralBehaviors) -> None:
    """Raise where a parameter does not go with several behaviors."""
    asked = {'engine="variational"': estimator.engine, 'init="variational"': estimator.init}
    for text, value in asked.items():
        if isinstance(value, str) and value == "variational":
            raise InputError(
                f"{text} takes one behavior, not a list or a dictionary of them: the variational "
                "engine has none."
            )
    if estimator.pooling is not None and len(behavior.parts) > 1:
        raise InputError(
            'pooling="cluster" is for a fit of one behavior; this one has '
            f"{', '.join(behavior.parts)}. Leave pooling at None."
        )


def check_use(estimator: Any, data: Data) -> None:
    """Raise where a parameter does not go with the data of a fit, and warn of one without
    effect."""
    if isinstance(data.behavior, SeveralBehaviors):
        _check_several(estimator, data.behavior)
    has_behavior = data.behavior is not None
    for name, is_there in (
        ("feature_prior", data.has_numbers),
        ("behavior_prior", has_behavior),
        ("pooling", has_behavior),
    ):
        if not is_there and getattr(estimator, name) is not None:
            warnings.warn(
                f"{name} is not used: there is no such view in this fit.", DataWarning, stacklevel=3
            )
    if estimator.spread_prior != defaults(Settings)["spread_prior"] and (
        not has_behavior or estimator.pooling is not None
    ):
        reason = (
            "there is no behavior in this fit"
            if not has_behavior
            else "users of a cluster share one latent behavior"
        )
        warnings.warn(f"spread_prior is not used: {reason}.", DataWarning, stacklevel=3)
    if estimator.n_clusters == 1 and estimator.alpha is not None:
        warnings.warn(
            "alpha is not used: with one cluster there is none.", DataWarning, stacklevel=3
        )
    if estimator.link is not None and (not data.has_features or data.behavior is None):
        missing = "a behavior" if data.has_features else "features X"
        raise InputError(
            f'link="linear" joins features and behavior; this fit lacks {missing}. Give both, or '
            "link=None."
        )
    if agreement_priors(estimator.agreement, data.tables) is not None and (
        not data.has_features or data.behavior is None
    ):
        missing = "a behavior" if data.has_features else "features X"
        raise InputError(
            f"agreement compares features and behavior; this fit lacks {missing}. Give both, or "
            "agreement=None."
        )
    if data.tables:
        _check_tables(estimator, data)
    if estimator.n_clusters is not None and estimator.n_clusters > data.n_users:
        raise InputError(
            f"n_clusters must be at most the number of users, {data.n_users}; got "
            f"{estimator.n_clusters}."
        )


def _check_tables(estimator: Any, data: Data) -> None:
    """Raise where a parameter does not go with features that come as several tables."""
    if estimator.engine == "variational" or (
        isinstance(estimator.init, str) and estimator.init == "variational"
    ):
        raise InputError(
            'Several tables of features are for engine="gibbs"; for the variational engine join '
            "them into one."
        )
    if isinstance(estimator.feature_prior, GaussianPrior):
        raise InputError(
            "feature_prior is a GaussianPrior of one table; with several tables give a word or "
            "None: each then has its own."
        )
    if estimator.link is not None and data.cells is not None and not data.cells.exact.all():
        raise InputError(
            'link="linear" with several tables needs complete numbers; some cells are missing or '
            "known to an interval. Join "
            "the tables into one, or leave out the columns that are not complete."
        )
