"""Fits of an estimator to a model of data: by its engine, in its folder; and short ones to a view
alone."""

import contextlib
import warnings
from typing import Any

import numpy as np
from sklearn.base import clone

from dualview.behaviors import Behavior
from dualview.chains.run_folder import RunFolder, versions
from dualview.chains.seeds import seed_sequence
from dualview.engines.starts import GivenStart, KMeansStart, Labels, Start, check_init
from dualview.errors import ConvergenceWarning, DataWarning
from dualview.inputs.approximated import Stream, VariationalStart, approximated
from dualview.inputs.data import Data
from dualview.inputs.made_with import made_with
from dualview.inputs.modelled import Modelled, modelled
from dualview.inputs.sampled import sampled
from dualview.posterior import Posterior

_FEW_USERS = 20  # with fewer, the clusters that chains start from are more than half as many


def fit_model(
    estimator: Any, fit: Modelled, labels: Labels | None = None
) -> tuple[Posterior, Stream | None]:
    """The posterior with its data, and what it can be continued from, where it can. labels: those
    of a start that is given."""
    data = fit.data
    start: Start = (
        KMeansStart(fit.start_vectors(), estimator.n_clusters)
        if labels is None
        else GivenStart(labels)
    )
    stream: Stream | None = None
    with contextlib.ExitStack() as stack:
        folder, seed = _folder(stack, estimator, data, labels)
        stack.enter_context(data.named_in_errors())
        if estimator.engine == "variational":
            post, stream = approximated(estimator, fit, start, seed)
        else:
            if isinstance(estimator.init, str) and estimator.init == "variational":
                start = VariationalStart.of(fit, start, seed)
            post = sampled(estimator, fit, start, folder, seed)
        if folder is not None and post.length is not None:
            folder.note_length(post.length._asdict())
    return post.with_data(data.features, data.behavior, data.cells), stream


def _folder(
    stack: contextlib.ExitStack, estimator: Any, data: Data, labels: Labels | None
) -> tuple[RunFolder | None, np.random.SeedSequence]:
    """The locked folder of the run, where one is wanted, and the seed: in a folder, that of its
    first sitting."""
    seed = seed_sequence(estimator.random_state)
    if estimator.checkpoint is None:
        return None, seed
    folder = RunFolder(estimator.checkpoint)
    stack.enter_context(folder.lock())
    manifest = folder.claim(
        made_with(estimator, data, labels), {"entropy": str(seed.entropy), "versions": versions()}
    )
    return folder, np.random.SeedSequence(int(manifest["entropy"]))


def fits_to_views(estimator: Any, observations: Behavior, seed: int) -> list[Posterior]:
    """Short fits to the features alone and to the behavior alone, with the settings of an estimator
    that was fitted to both."""
    post: Posterior = estimator.posterior_
    table = _data_of(post, None)
    return [
        _short_fit(estimator, data, seed)
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


def fit_again(estimator: Any, observations: Behavior) -> Posterior:
    """A fit with an estimator's settings to its users and other observations of theirs; it is
    neither saved nor shown."""
    one = clone(estimator).set_params(checkpoint=None, progress=False)
    data = _data_of(estimator.posterior_, observations)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the first fit has said them
        return fit_model(
            one, modelled(one, data), check_init(one.init, data.n_users, one.n_clusters)
        )[0]


def _short_fit(estimator: Any, data: Data, seed: int) -> Posterior:
    unused = (
        {"behavior_prior": None, "pooling": None}
        if data.behavior is None
        else {"feature_prior": None}
    )
    short = {
        "n_warmup": 500,
        "n_draws": 250,
        "n_chains": 2,
        "thin": 1,
        "keep": "draws",
        "checkpoint": None,
    }
    one = clone(estimator).set_params(
        link=None, agreement=None, progress=False, random_state=seed, init="kmeans"
    )
    one.set_params(**short, **unused)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit_model(one, modelled(one, data))[0]


def warn_of_fit(estimator: Any) -> None:
    """Warn of chains that failed, of a fit that has not converged, or of hardly any clusters."""
    post, labels = estimator.posterior_, estimator.labels_
    if post.failures is not None:
        warnings.warn(post.failures, DataWarning, stacklevel=3)
    if not post.converged:
        warnings.warn(post.judged[1], ConvergenceWarning, stacklevel=3)
    n_users, n_clusters = len(labels), estimator.n_clusters_
    if estimator.n_clusters is None and n_users >= _FEW_USERS and 2 * n_clusters > n_users:
        warnings.warn(
            f"The partition estimate has {n_clusters} clusters for {n_users} users: most users "
            "are alone or nearly so, as when "
            'the data show no clusters. Compare posterior_["n_clusters"], the clusters of each '
            "draw. For fewer clusters give "
            "alpha a prior of smaller values, such as dv.Gamma(1, 4), or fix n_clusters.",
            DataWarning,
            stacklevel=3,
        )
