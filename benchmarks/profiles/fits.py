"""Fits to simulated people, one row each, and how near to the truth they come."""

import time
import warnings
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.metrics import adjusted_rand_score

import dualview as dv
from benchmarks.profiles.designs import DESIGNS, Design, People
from benchmarks.profiles.outcomes import Survival
from dualview.numerics.ordered_normals import first_probabilities

Array = NDArray[np.float64]

COVERAGES = (0.8, 0.95)
ENGINES = ("gibbs", "variational")
N_NEW = 1000
_DRAWS = 1000  # from which intervals of risks are taken
# The behavior of each outcome, by its name in the package.
BEHAVIORS = {
    "Bernoulli": "BinaryOutcomes",
    "binomial": "BinaryOutcomes",
    "Poisson": "CountOutcomes",
    "normal": "UserRegression",
    "categorical": "CategoricalOutcomes",
    "survival": "SurvivalOutcomes",
}
_FAMILIES = {"Poisson": {"family": "poisson"}, "survival": {"family": "weibull"}}


@dataclass(frozen=True)
class Task:
    """A fit to a data set. share: of the people of the design. limit: seconds of a fit."""

    design: str
    engine: str
    seed: int
    share: float = 1.0
    limit: float = 600.0


@dataclass(frozen=True)
class Result:
    """ari, best: adjusted Rand index of the partition and of the most probable groups, against the
    truth. inside: how many risks of profiles are in their intervals of 80 and 95 %, of n_risks.
    nll, true_nll: of new people's outcomes, by the fit and by the true parameters. seconds: of CPU
    until the fit ended. note: why there is no result."""

    n: int = 0
    n_groups: int = 0
    n_clusters: int = 0
    ari: float = np.nan
    best: float = np.nan
    inside: tuple[int, ...] = (0, 0)
    n_risks: int = 0
    nll: float = np.nan
    true_nll: float = np.nan
    seconds: float = np.nan
    passed: bool = False
    note: str = ""


def is_there(design: Design) -> bool:
    """Whether the package has the outcomes of a design."""
    make = getattr(dv, BEHAVIORS[design.outcome], None)
    needed = "trials" if design.outcome == "binomial" else "user"
    return make is not None and needed in signature(make).parameters


def behavior_of(design: Design, people: People, first: int = 0, *, known: bool = True) -> Any:
    """The people's outcomes, a row each, with their confounders; of users from first on. known:
    with the outcomes."""
    n = len(people.labels)
    rows = {name: own for name, own in people.rows.items() if name != "event"}
    if design.outcome == "survival":
        own = {"time": people.outcome, "event": people.rows["event"]} if known else {}
    else:
        y = np.array(list("abc"))[people.outcome.astype(int)] if "cat" in design.outcome else None
        own = {"outcome": people.outcome if y is None else y} if known else {}
    if design.outcome == "categorical":
        own |= {"levels": list("abc")}
    if people.common.shape[1]:
        own |= {"common": people.common}
    make = getattr(dv, BEHAVIORS[design.outcome])
    options = {"intercept": True, "n_users": first + n, **_FAMILIES.get(design.outcome, {})}
    return make(np.arange(first, first + n), np.empty((n, 0)), **own, **rows, **options)


def data_of(task: Task) -> tuple[People, People]:
    """The people of a fit, and new ones."""
    rng = np.random.default_rng([*task.design.encode(), task.seed])
    design = DESIGNS[task.design]
    return design.people(rng, task.share), design.new_people(rng, N_NEW)


def run(task: Task) -> Result:
    """The result of a fit; with a note where it is refused."""
    design, (people, new) = DESIGNS[task.design], data_of(task)
    model = dv.DualViewMixture(
        engine=task.engine, max_time=task.limit, n_jobs=1, random_state=task.seed
    )
    short = dv.Gibbs(n_warmup=2) if task.engine == "gibbs" else task.engine
    behavior = behavior_of(design, people)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # verdicts are in the table
        try:
            compiling = dv.DualViewMixture(engine=short, n_draws=2, n_chains=1)
            compiling.fit(people.covariates, behavior)
            began = time.process_time()
            model.fit(people.covariates, behavior)
        except dv.errors.DualViewError as error:
            return Result(note=f"{error}")
        seconds = time.process_time() - began
        inside, n_risks = covered(design, model, people)
        predicted = model.predict_outcome(
            behavior_of(design, new, len(people.labels), known=False), X_new=new.covariates
        )
        nll = -log_densities(design, predicted, new).mean()
    return Result(
        len(people.labels),
        len(design.groups),
        model.n_clusters_,
        float(adjusted_rand_score(people.labels, model.labels_)),
        float(adjusted_rand_score(people.labels, design.best_labels(people))),
        inside,
        n_risks,
        float(nll),
        float(design.nll(new).mean()),
        seconds,
        bool(model.posterior_.converged),
    )


def log_densities(design: Design, predicted: Any, new: People) -> Array:
    """ln p of new people's outcomes (n,)."""
    if design.outcome == "survival":
        low = new.outcome
        high = np.where(new.rows["event"] > 0, low, np.inf)
        return np.asarray(predicted.log_density(dv.Censored(low, high)))
    return np.asarray(predicted.log_density(new.outcome))


def covered(design: Design, model: dv.DualViewMixture, people: People) -> tuple[Any, int]:
    """How many true risks of profiles are in their intervals, and how many there are.

    The risk of a profile is the average over its members of theirs, in each draw and in truth, so
    that a profile which mixes groups has a true risk as well.
    """
    drawn, true = risks(design, model.posterior_), design.risks(people)
    inside, n_risks = np.zeros(len(COVERAGES), dtype=int), 0
    for label in range(model.n_clusters_):
        members = model.labels_ == label
        draws, truth = drawn[:, members].mean(axis=1), true[members].mean(axis=0)
        for place, probability in enumerate(COVERAGES):
            low, high = np.quantile(draws, [0.5 - probability / 2, 0.5 + probability / 2], axis=0)
            inside[place] += int(((low <= truth) & (truth <= high)).sum())
        n_risks += len(truth)
    return tuple(int(one) for one in inside), n_risks


def risks(design: Design, post: dv.Posterior) -> Array:
    """The risk of each person in some of the draws, (S, U, R)."""
    every = max(1, len(post.flat("z")) // _DRAWS)
    latent = post.flat("latent")[::every]
    if design.outcome in ("Bernoulli", "binomial"):
        return np.asarray(expit(latent))[..., None]
    if design.outcome == "categorical":  # by the fits' probit, without the first level's utility
        utilities = np.pad(latent, ((0, 0), (0, 0), (1, 0)))
        n_users, n_levels = utilities.shape[1:]
        flat = np.ascontiguousarray(utilities.reshape(len(latent), -1))
        chances = first_probabilities(flat, n_levels * np.arange(n_users + 1))
        return np.asarray(chances.reshape(utilities.shape))
    if design.outcome == "survival":
        shape = np.sqrt(post.flat("noise_precision")[::every] * np.pi**2 / 6.0)[:, None]
        return -np.expm1(-((Survival.time * np.exp(-latent)) ** shape))[..., None]
    return np.asarray(np.exp(latent) if design.outcome == "Poisson" else latent)[..., None]
