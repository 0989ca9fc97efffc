"""Fits of a model to data: by an engine, in a folder; and short ones to a view alone."""

import contextlib
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from dualview.behaviors import Behavior
from dualview.chains.run_folder import RunFolder, versions
from dualview.chains.seeds import seed_sequence
from dualview.engines.starts import GivenStart, KMeansStart, Labels, Start, check_init
from dualview.errors import ConvergenceWarning, DataWarning
from dualview.inputs.approximated import Stream, VariationalStart, approximated
from dualview.inputs.data import Data
from dualview.inputs.made_with import made_with
from dualview.inputs.modelled import Modelled, modelled
from dualview.inputs.parameters import Parameters
from dualview.inputs.sampled import sampled
from dualview.posterior import Posterior
from dualview.settings import Gibbs, Variational

_FEW_USERS = 20  # with fewer, the clusters that chains start from are more than half as many


def fit_model(parameters: Parameters, fit: Modelled) -> tuple[Posterior, Stream | None]:
    """The posterior with its data, and what it can be continued from, where it can."""
    data, engine = fit.data, parameters.engine
    labels = check_init(engine.init, data.n_users, parameters.n_clusters)
    start: Start = (
        KMeansStart(fit.start_vectors(), parameters.n_clusters)
        if labels is None
        else GivenStart(labels)
    )
    stream: Stream | None = None
    with contextlib.ExitStack() as stack:
        folder, seed = _folder(stack, parameters, data, labels)
        stack.enter_context(data.named_in_errors())
        if isinstance(engine, Variational):
            post, stream = approximated(parameters, fit, start, seed)
        else:
            if engine.starts_at_approximation:
                start = VariationalStart.of(fit, start, seed)
            post = sampled(parameters, fit, start, folder, seed)
        if folder is not None and post.length is not None:
            folder.note_length(post.length._asdict())
    return post.with_data(data.features, data.behavior, data.cells), stream


def _folder(
    stack: contextlib.ExitStack, parameters: Parameters, data: Data, labels: Labels | None
) -> tuple[RunFolder | None, np.random.SeedSequence]:
    """The locked folder of the run, where one is wanted, and the seed: in a folder, that of its
    first sitting."""
    seed = seed_sequence(parameters.random_state)
    if parameters.checkpoint is None:
        return None, seed
    folder = RunFolder(parameters.checkpoint)
    stack.enter_context(folder.lock())
    manifest = folder.claim(
        made_with(parameters, data, labels), {"entropy": str(seed.entropy), "versions": versions()}
    )
    return folder, np.random.SeedSequence(int(manifest["entropy"]))


def fits_to_views(
    parameters: Parameters, post: Posterior, observations: Behavior, seed: int
) -> list[Posterior]:
    """Short fits to the features alone and to the behavior alone, with the parameters of a fit to
    both."""
    table = _data_of(post, None)
    return [
        _short_fit(parameters, data, seed)
        for data in (table, Data(None, [], observations, post.user_ids))
    ]


def _data_of(post: Posterior, observations: Behavior | None) -> Data:
    """The features that a posterior was fitted to, with some observations of the same users."""
    tables = () if post.layout is None else post.layout.names
    return Data(
        post.features,
        post.feature_names,
        observations,
        post.user_ids,
        post.codebook,
        post.cells,
        tables,
    )


def fit_again(parameters: Parameters, post: Posterior, observations: Behavior) -> Posterior:
    """A fit like that of a posterior to its users and other observations of theirs; it is neither
    saved nor shown."""
    one = replace(parameters, checkpoint=None, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the first fit has said them
        return fit_model(one, modelled(one, _data_of(post, observations)))[0]


def _short_fit(parameters: Parameters, data: Data, seed: int) -> Posterior:
    unused: dict[str, Any] = (
        {"behavior_prior": None, "pooling": None}
        if data.behavior is None
        else {"feature_prior": None}
    )
    engine = parameters.engine
    if isinstance(engine, Gibbs):
        engine = replace(engine, init="kmeans", n_warmup=500, thin=1)
    else:
        engine = replace(engine, init="kmeans", n_starts=None)
    one = replace(
        parameters,
        engine=engine,
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit_model(one, modelled(one, data))[0]


def warn_of_fit(post: Posterior, labels: Labels) -> None:
    """Warn of chains that failed, of a fit that has not converged, or of hardly any clusters."""
    if post.failures is not None:
        warnings.warn(post.failures, DataWarning, stacklevel=3)
    if not post.converged:
        warnings.warn(post.judged[1], ConvergenceWarning, stacklevel=3)
    n_users, n_clusters = len(labels), int(labels.max()) + 1
    if post.n_clusters is None and n_users >= _FEW_USERS and 2 * n_clusters > n_users:
        warnings.warn(
            f"The partition estimate has {n_clusters} clusters for {n_users} users: most users "
            "are alone or nearly so, as when "
            'the data show no clusters. Compare posterior_["n_clusters"], the clusters of each '
            "draw. For fewer clusters give "
            "alpha a prior of smaller values, such as dv.Gamma(1, 4), or fix n_clusters.",
            DataWarning,
            stacklevel=3,
        )
