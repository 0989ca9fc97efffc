"""Fits of a model to data: by an engine, in a folder; and short ones to a view alone."""

import contextlib
import numbers as abstract
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dualview.behaviors.base import Behavior
from dualview.chains.chains import seed_sequence
from dualview.chains.run_folder import UNTIL_GOOD, RunFolder, versions
from dualview.engines.starts import GivenStart, KMeansStart, Labels, Start, check_init
from dualview.engines.variational.sharded.model import ShardedModel
from dualview.errors import ConvergenceWarning, DataWarning
from dualview.files.digests import digest
from dualview.inputs.data import Data
from dualview.inputs.gibbs_fit import fit_gibbs
from dualview.inputs.parameters import Parameters
from dualview.inputs.problem import Problem, build_model
from dualview.inputs.variational_fit import Stream, VariationalStart, fit_variational
from dualview.partitions.agreement import agreement_text
from dualview.partitions.choice import partition_names
from dualview.posterior import Posterior
from dualview.settings import Gibbs, Settings, Variational, defaults, setting_names
from dualview.units import GaussianPrior

# How each engine fits: parameters, problem, where it starts, the folder of the run and the seed.
_FITS: dict[type, Callable[..., tuple[Posterior, Stream | None]]] = {
    Gibbs: fit_gibbs,
    Variational: fit_variational,
}
# Engines whose draws chains can start from, by their words.
_STARTS: dict[str, Callable[..., Start]] = {Variational.word: VariationalStart.of}
_FEW_USERS = 20  # with fewer, the clusters that chains start from are more than half as many


def fit_model(parameters: Parameters, fit: Problem) -> tuple[Posterior, Stream | None]:
    """The posterior with its data, and what it can be continued from, where it can."""
    data, engine = fit.data, parameters.engine
    labels = check_init(engine.init, data.n_users, parameters.n_clusters)
    start: Start = (
        KMeansStart(fit.start_vectors(), parameters.n_clusters)
        if labels is None
        else GivenStart(labels)
    )
    with contextlib.ExitStack() as stack:
        folder, seed = _folder(stack, parameters, fit, labels)
        stack.enter_context(data.named_in_errors())
        if isinstance(engine.init, str) and engine.init in _STARTS:
            start = _STARTS[engine.init](fit, start, seed)
        post, stream = _FITS[type(engine)](parameters, fit, start, folder, seed)
        if folder is not None and post.length is not None:
            folder.note_length(post.length._asdict())
    return post, stream


def _folder(
    stack: contextlib.ExitStack, parameters: Parameters, fit: Problem, labels: Labels | None
) -> tuple[RunFolder | None, np.random.SeedSequence]:
    """The locked folder of the run, where one is wanted, and the seed: in a folder, that of its
    first sitting."""
    seed = seed_sequence(parameters.random_state)
    if parameters.checkpoint is None:
        return None, seed
    folder = RunFolder(parameters.checkpoint)
    stack.enter_context(folder.lock())
    notes = {"entropy": str(seed.entropy), "versions": versions(), "model": fit.spec.to_attrs()}
    made_with = fingerprint(parameters, fit.data, labels)
    if isinstance(fit.model, ShardedModel):
        assert fit.model.users is not None
        made_with["shards"] = digest(fit.model.users.shards.manifest.to_json())
    manifest = folder.claim(made_with, notes)
    return folder, np.random.SeedSequence(int(manifest["entropy"]))


def fingerprint(parameters: Parameters, data: Data, labels: Labels | None = None) -> dict[str, Any]:
    """Everything that determines the draws of a run, in a form that can be compared and shown:
    parameters and digests of the data, by name. labels: those that chains start from, where they
    are given.

    Most parameters are written only where they differ from their defaults, so that runs made before
    there was a parameter stay valid.
    """
    engine, usual = parameters.engine, defaults(Settings)
    chains = engine if isinstance(engine, Gibbs) else Gibbs()
    values = vars(parameters) | {"engine": engine.word, "keep": parameters.settings.keep}
    values |= {name: getattr(chains, name) for name in setting_names(Gibbs, "always")}
    always = {*setting_names(Settings, "always"), *setting_names(Gibbs, "always")}
    made: dict[str, Any] = {
        name: None if values[name] is None else int(values[name]) for name in sorted(always)
    }
    partition = partition_names(parameters.n_clusters, parameters.alpha, parameters.process)
    if partition.alpha_prior is not None:
        made["alpha"] = partition.alpha_prior
    if partition.process is not None:
        made["partition"] = partition.process
    agreement = agreement_text(parameters.agreement, data.tables)
    if agreement is not None:
        made["agreement"] = agreement
    pooling = parameters.given(data.behavior).pooling
    if pooling is not None:
        made["pooling"] = pooling
    others = setting_names(Settings, "if changed")
    made |= {name: values[name] for name in others if values[name] != usual[name]}
    for name in setting_names(engine, "if changed"):
        value = getattr(engine, name)
        if value != defaults(engine)[name]:
            made[name] = int(value) if isinstance(value, abstract.Integral) else value
    if not parameters.settings.is_fixed:
        made["length"] = UNTIL_GOOD
    if parameters.every is not None:
        made["whole draws, every"] = parameters.every
    made["init"] = engine.init if isinstance(engine.init, str) else digest(labels)
    made |= {name: _prior_text(values[name]) for name in ("feature_prior", "behavior_prior")}
    if isinstance(parameters.random_state, abstract.Integral):
        made["random_state"] = int(parameters.random_state)
    made["features"] = None if data.features is None else digest(data.features)
    if data.cells is not None and data.codebook is not None:
        made["features"] = digest(*data.cells.data.values())
        made["columns"] = data.codebook.to_json()["columns"]
    if data.tables:
        made["tables"] = list(data.tables)
    return made if data.behavior is None else made | data.behavior.fingerprint()


def _prior_text(prior: GaussianPrior | str | None) -> str | None:
    if prior is None or isinstance(prior, str):
        return prior
    text = digest(prior.mean, prior.covariance)
    return text if prior.tails is None else f"{text}, {prior.tails}"


def fits_to_views(
    parameters: Parameters, post: Posterior, observations: Behavior, seed: int
) -> list[Posterior]:
    """Short fits to the features alone and to the behavior alone, with the parameters of a fit to
    both."""
    parts = _data_of(post, None), Data(None, [], observations, post.user_ids)
    return [_short_fit(parameters, data, post.spec.pooling, seed) for data in parts]


def _data_of(post: Posterior, observations: Behavior | None) -> Data:
    """The features that a posterior was fitted to, with some observations of the same users."""
    tables = () if post.spec.layout is None else post.spec.layout.names
    return Data(
        post.features,
        post.feature_names,
        observations,
        post.user_ids,
        post.spec.codebook,
        post.cells,
        tables,
    )


def fit_again(parameters: Parameters, post: Posterior, observations: Behavior) -> Posterior:
    """A fit like that of a posterior to its users and other observations of theirs; it is neither
    saved nor shown."""
    one = replace(parameters, pooling=post.spec.pooling, checkpoint=None, progress=False)
    return _fit_quietly(one, _data_of(post, observations))


def _fit_quietly(parameters: Parameters, data: Data) -> Posterior:
    """Without warnings, which the first fit has said."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit_model(parameters, build_model(parameters, data))[0]


def _short_fit(parameters: Parameters, data: Data, pooling: str | None, seed: int) -> Posterior:
    unused: dict[str, Any] = (
        {"behavior_prior": None, "pooling": None}
        if data.behavior is None
        else {"feature_prior": None, "pooling": pooling}
    )
    one = replace(
        parameters,
        engine=parameters.engine.short(),
        n_draws=250,
        n_chains=2,
        n_full_draws=None,
        checkpoint=None,
        link=None,
        agreement=None,
        progress=False,
        random_state=seed,
        **unused,
    )
    return _fit_quietly(one, data)


def warn_of_fit(post: Posterior, labels: Labels) -> None:
    """Warn of chains that failed, of a fit that has not converged, or of hardly any clusters."""
    if post.failures is not None:
        warnings.warn(post.failures, DataWarning, stacklevel=3)
    if not post.converged:
        warnings.warn(post.timed_verdict(), ConvergenceWarning, stacklevel=3)
    n_users, n_clusters = len(labels), int(labels.max()) + 1
    if post.spec.n_clusters is None and n_users >= _FEW_USERS and 2 * n_clusters > n_users:
        warnings.warn(
            f"The partition estimate has {n_clusters} clusters for {n_users} users: most users are "
            "alone or nearly so, as when the data show no clusters. Compare "
            'posterior_["n_clusters"], the clusters of each draw. For fewer clusters give alpha a '
            "prior of smaller values, such as dv.Gamma(1, 4), or fix n_clusters.",
            DataWarning,
            stacklevel=3,
        )
