"""Simulation-based calibration: are posteriors of this model calibrated on data like these?

Parameters are drawn from the prior, data from the parameters, and the model is fitted to the data.
The rank of a true value among draws of its posterior is then uniform (Talts et al. 2018), whatever
the model: if it is not, the sampler is wrong, or the chains are too short for such data.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.stats import chi2

from dualview.chains.chain import Chain
from dualview.chains.schedule import FixedLength, Schedule
from dualview.chains.storage import Store
from dualview.checks import whole_number
from dualview.engines.gibbs import GibbsEngine
from dualview.engines.starts import GivenStart
from dualview.errors import DegenerateError, InputError
from dualview.inputs.parameters import Parameters
from dualview.mixture import DualViewMixture
from dualview.model import Model
from dualview.posterior.draws.tree import finite_draw
from dualview.posterior.observations import fitted_model, observations_of
from dualview.settings import Gibbs

Array = NDArray[np.float64]
Ranks = dict[str, int]

_DRAWS = 19  # of each posterior, thinned: ranks are 0 to 19
_BINS = 5  # of four ranks each
_TRIES = 2  # data sets for each that is wanted, at most
_SURE = 0.001  # a p-value below it is no accident


@dataclass(frozen=True)
class Calibration:
    """Ranks of true values among the draws of their posteriors.

    Attributes
    ----------
    ranks : DataFrame (n, quantities)
        From 0 to ``n_draws``, uniform if the posterior is calibrated.
    n_draws : int
        Draws of each posterior.
    n_left_out : int
        Data sets with numbers too large to compute with, which were replaced by others.
    """

    ranks: pd.DataFrame
    n_draws: int
    n_left_out: int

    @property
    def p_values(self) -> "pd.Series[float]":
        """Of a χ² test that ranks are uniform, by quantity."""
        found = {}
        for name, ranks in self.ranks.items():
            counts = np.histogram(ranks, _BINS, (-0.5, self.n_draws + 0.5))[0]
            expected = len(ranks) / _BINS
            found[str(name)] = float(
                chi2.sf(((counts - expected) ** 2 / expected).sum(), _BINS - 1)
            )
        return pd.Series(found)

    @property
    def calibrated(self) -> bool:
        """Whether no quantity's ranks are far from uniform: p-values above 0.001 divided by their
        number."""
        return bool(self.p_values.min() > _SURE / len(self.p_values))

    def text(self) -> str:
        """A line per quantity, the least uniform first."""
        verdict = (
            "Calibrated"
            if self.calibrated
            else "Not calibrated: draw longer chains, and if that does not help, please report it"
        )
        lines = [f"{name}: p {p:.2g}" for name, p in self.p_values.sort_values().items()]
        return "\n".join(
            [
                f"{verdict} ({len(self.ranks)} data sets from the prior, {self.n_left_out} "
                "left out).",
                *lines,
            ]
        )


def calibrate(
    model: DualViewMixture,
    behavior: Any = None,
    *,
    n: int = 200,
    n_warmup: int = 500,
    thin: int = 20,
    n_jobs: int | None = None,
    seed: int = 0,
) -> Calibration:
    """Simulation-based calibration of a fitted model: n data sets of its size from its prior, each
    fitted.

    Users, threads, designs and the constants of the priors are those of the fit; features and
    outcomes are simulated.

    Parameters
    ----------
    model : fitted DualViewMixture
    behavior : behavior, optional
        The observations of the fit, for a model that was loaded from a file.
    n : int
        Number of data sets. 200 take about as long as 200 chains of 900 iterations.
    n_warmup, thin : int
        Each chain runs n_warmup iterations and then keeps 19 draws, every thin-th; they should be
        nearly independent.
    n_jobs : int, optional
        Data sets to fit in parallel, as in joblib; one by default.
    seed : int
        Seed; the same seed gives the same ranks.

    Examples
    --------
    >>> import dualview as dv
    >>> forum = dv.datasets.agreement(n_users=10, n_threads=12, seed=1)
    >>> behavior = dv.SharedOutcome(forum.participation, forum.outcome)
    >>> model = dv.DualViewMixture(engine=dv.Gibbs(n_warmup=20), n_draws=20, n_chains=1)
    >>> model = model.fit(forum.features, behavior)
    >>> dv.calibrate(model, n=5, n_warmup=50, thin=2).ranks.shape[0]
    5
    """
    if not isinstance(model, DualViewMixture) or not hasattr(model, "posterior_"):
        raise InputError(
            "calibrate takes a fitted DualViewMixture: call model.fit(X, behavior) first."
        )
    for name, value, least in (
        ("n", n, 1),
        ("n_warmup", n_warmup, 0),
        ("thin", thin, 1),
        ("seed", seed, 0),
    ):
        whole_number(value, name, least)
    post = model.posterior_
    blank = fitted_model(post, observations_of(post, behavior))
    engine, schedule = GibbsEngine(_n_auxiliary(model)), FixedLength(n_warmup, _DRAWS, thin)
    children = np.random.SeedSequence(seed).spawn(_TRIES * n)
    found: list[Ranks] = []
    n_tried = 0
    while len(found) < n:
        wanted = children[n_tried : n_tried + n - len(found)]
        if not wanted:
            raise DegenerateError(
                f"Only {len(found)} of {n_tried} data sets from the prior could be fitted."
            )
        n_tried += len(wanted)
        made = Parallel(n_jobs or 1, prefer="threads")(
            delayed(_ranks)(child, blank, engine, schedule) for child in wanted
        )
        found += [ranks for ranks in made if ranks is not None]
    return Calibration(pd.DataFrame(found), _DRAWS, n_tried - n)


def _n_auxiliary(model: DualViewMixture) -> int:
    engine = Parameters.of(model, warn=False).engine
    return (engine if isinstance(engine, Gibbs) else Gibbs()).n_auxiliary


def _ranks(
    seed: np.random.SeedSequence, blank: Model, engine: GibbsEngine, schedule: Schedule
) -> Ranks | None:
    """Ranks of one data set; None where its numbers leave the range."""
    data, chain, ties = seed.spawn(3)
    rng = np.random.default_rng(data)
    truth = finite_draw(rng, blank)
    if truth is None:
        return None
    start = GivenStart(np.zeros(blank.n_users, dtype=np.int64))
    try:
        with np.errstate(all="ignore"):
            simulated = blank.simulate(rng, truth)
            truth = simulated.restarted(truth)
            record = Chain(0, chain, simulated, engine, start, schedule).run()
            store = Store(simulated)
            store.append(truth)
            true = _numbers(store.drain().fixed)
    except (DegenerateError, np.linalg.LinAlgError, ValueError):
        return None
    drawn = _numbers(record.fixed)
    noise = np.random.default_rng(ties)
    ranks = {}
    for name, values in drawn.items():
        below, equal = int((values < true[name][0]).sum()), int((values == true[name][0]).sum())
        ranks[name] = below + int(noise.integers(equal + 1))
    return ranks


def _numbers(fixed: dict[str, NDArray[Any]]) -> dict[str, Array]:
    """Numbers of each draw (S,) that mean the same however clusters are numbered: of arrays, the
    first."""
    skipped = {"z", "n_components"}
    return {
        name: values.reshape(len(values), -1)[:, 0]
        for name, values in fixed.items()
        if name not in skipped and values.size
    }
