"""A fit by Markov chains: how many, how long, who is told of them, and a posterior of their
draws."""

import contextlib
from collections.abc import Sequence

import numpy as np

from dualview.chains.chain import Chain, Progress
from dualview.chains.chains import TRY_AGAIN, Failure, failure_text, run_chains
from dualview.chains.progress import Bar, Watcher
from dualview.chains.run_folder import RunFolder
from dualview.chains.schedule import schedule_of
from dualview.engines.gibbs import GibbsEngine
from dualview.engines.starts import Start
from dualview.inputs.parameters import Parameters
from dualview.inputs.problem import Problem
from dualview.posterior import Posterior
from dualview.posterior.diagnostics.convergence import ConvergenceMonitor
from dualview.settings import Gibbs

_LOOKS = 4  # at chains of fixed length, where somebody watches


def fit_gibbs(
    parameters: Parameters,
    fit: Problem,
    start: Start,
    folder: RunFolder | None,
    seed: np.random.SeedSequence,
) -> tuple[Posterior, None]:
    """The posterior of draws from chains, which are saved in the folder, where there is one; it
    cannot be continued with more data."""
    settings = parameters.engine
    assert isinstance(settings, Gibbs)
    watched = parameters.progress is True or isinstance(parameters.progress, Watcher)
    schedule = schedule_of(parameters.settings, fit.data.n_users, _LOOKS if watched else 0)
    engine = GibbsEngine(int(settings.n_auxiliary))
    chains = [
        Chain(
            index,
            child,
            fit.model,
            engine,
            start,
            schedule,
            folder,
            float(settings.checkpoint_interval),
        )
        for index, child in enumerate(seed.spawn(parameters.n_chains))
    ]
    with contextlib.ExitStack() as stack:
        progress: Progress | None = None
        if parameters.progress is True:
            progress = stack.enter_context(Bar(parameters.n_chains, schedule, parameters.max_time))
        elif parameters.progress:
            progress = parameters.progress
        monitor = ConvergenceMonitor(
            fit.posterior, progress if isinstance(progress, Watcher) else None
        )
        drawn = run_chains(chains, parameters.n_jobs, progress, monitor, parameters.max_time)
    facts = {}
    if drawn.failures:
        facts["failures"] = _failures_text(drawn.failures, parameters.n_chains, fit, folder)
    post = fit.posterior(drawn.records, drawn.length, facts)
    post.pace = drawn.pace
    monitor.tell(post)
    return post, None


def _failures_text(
    failures: Sequence[Failure], n_chains: int, fit: Problem, folder: RunFolder | None
) -> str:
    """Which chains failed and why, how many are left, and how far to trust them."""
    n_left = n_chains - len(failures)
    left = "The other chain was kept" if n_left == 1 else f"The other {n_left} chains were kept"
    again = "" if folder is None else f" {TRY_AGAIN}"
    return (
        f"{failure_text(failures, n_chains)}{fit.data.same_features_text()} {left}, and the draws "
        "are theirs alone. They have not come to the point of failure yet and can do so if they "
        "run longer. Where the posterior is improper, their draws describe only the part of it "
        f"that they have visited. Mend the data and fit again before you rely on them.{again}"
    )
