"""How good and how fast the variational engine is: ``python -m benchmarks.variational [WORD]
[sizes]``.

quick [worlds]: CPU of both engines on the paper's scenarios, 50 users and 50 threads, in as many
worlds as are asked for (2); bounds of four starts together, of which some end early, and of each by
itself to its end, and the CPU of both. accuracy [worlds]: the same scenarios against Gibbs chains
of fixed length: four chains of 1,000 draws after a warm-up of 1,000. kinds [worlds]: the same for
what has bounds of its own: a table with a fifth of its cells missing, a rounded column and a
category beside threads; yes-or-no answers of 60 users, 15 from each; pairwise choices among six
items, 15 from each. speed [users threads starts]: a forum with skewed activity
(``benchmarks.scale``), from data in memory to eight draws from each start, by one start, by two,
and so on. features [users]: its features alone, beside scikit-learn's BayesianGaussianMixture with
ten components on the same data. Without a word: everything, at the sizes of the documentation.
"""

import sys
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import BayesianGaussianMixture
from threadpoolctl import threadpool_limits

import dualview as dv
from benchmarks import scale
from dualview.engines.starts import KMeansStart
from dualview.engines.variational import VariationalEngine
from dualview.model import Model
from dualview.partitions.choice import partition_prior
from dualview.units import Whitening

SCENARIOS = ("agreement", "disagreement", "iris")


class Fit(NamedTuple):
    """One fit: draws of coefficients and of expected outcomes of new threads, scores, CPU
    seconds."""

    latent: np.ndarray
    expected: np.ndarray
    nll: float
    rand: float
    seconds: float


def fitted(forum: Any, **settings: Any) -> Fit:
    """A fit to a scenario."""
    began = time.process_time()
    model = dv.DualViewMixture(**settings).fit(
        forum.features, dv.SharedOutcome(forum.participation, forum.outcome)
    )
    seconds = time.process_time() - began
    latent = model.posterior_.flat("latent")
    nll = model.predict_outcome(forum.test.participation).nll(forum.test.outcome)
    rand = adjusted_rand_score(forum.labels, model.labels_)
    return Fit(latent, latent @ forum.test.participation.T, float(nll), float(rand), seconds)


class Ascents(NamedTuple):
    """The highest bound of some starts, CPU seconds, and how many ended before their bound had
    converged: where another had been, or far behind it."""

    bound: float
    seconds: float
    n_ended: int = 0


def ascents(forum: Any, n_starts: int = 4) -> tuple[Ascents, Ascents]:
    """The same starts by k-means together and each by itself."""
    working = Whitening.of_data(forum.features).to_working(forum.features)
    likelihood = dv.SharedOutcome(forum.participation, forum.outcome).prepare(None)[1]
    model = Model(partition_prior(None), working, likelihood, len(working))
    start = KMeansStart(working, None)
    starts = [start(np.random.default_rng([0, number])) for number in range(n_starts)]
    engine = VariationalEngine()
    with threadpool_limits(1):
        began = time.process_time()
        together = engine.fit(model, starts)
        between = time.process_time()
        bounds = [engine.fit(model, [z]).best.evidence for z in starts]
        ended = time.process_time()
    n_different = len({id(found.q) for found in together.found if not found.ended_early})
    return (
        Ascents(together.best.evidence, between - began, n_starts - n_different),
        Ascents(max(bounds), ended - between),
    )


def quick(n_worlds: int) -> str:
    """A table with a row for every scenario and world, and one of means; rows go to standard error
    as they are made."""
    names = (
        "scenario and world",
        "CPU s, Gibbs",
        "CPU s, variational",
        "Rand, Gibbs",
        "Rand, variational",
        "bound",
        "bound, each start to its end",
        "CPU s of the ascents",
        "CPU s, each start to its end",
        "starts that ended before",
    )
    rows, numbers = [f"| {' | '.join(names)} |", "|" + "---|" * len(names)], []
    for settings in ({"engine": dv.Gibbs(n_warmup=1)}, {"engine": "variational"}):  # compile
        fitted(dv.datasets.agreement(20, 20, seed=0), n_draws=1, n_chains=1, **settings)
    for world in range(n_worlds):
        for scenario in SCENARIOS:
            forum = getattr(dv.datasets, scenario)(50, 50, seed=world)
            exact = fitted(forum, engine=dv.Gibbs(n_warmup=1000), n_draws=1000)
            found = fitted(forum, engine="variational", n_draws=500)
            ours, alone = ascents(forum)
            own = [exact.seconds, found.seconds, exact.rand, found.rand]
            own += [ours.bound, alone.bound, ours.seconds, alone.seconds, ours.n_ended]
            numbers.append(own)
            rows.append(_quick_row(f"{scenario} {world}", own))
            print(rows[-1], file=sys.stderr, flush=True)
    rows.append(_quick_row("mean", list(np.mean(numbers, axis=0))))
    return "\n".join(rows)


def _quick_row(name: str, numbers: list[float]) -> str:
    forms = (".1f", ".1f", ".3f", ".3f", ".2f", ".2f", ".2f", ".2f", ".3g")
    cells = [format(number, form) for number, form in zip(numbers, forms, strict=True)]
    return f"| {name} | {' | '.join(cells)} |"


def distances(exact: np.ndarray, draws: np.ndarray) -> str:
    """Medians over numbers (…, n): distance of means in exact standard deviations, ratio of
    standard deviations."""
    spread = exact.std(axis=0)
    away = np.median(abs(draws.mean(axis=0) - exact.mean(axis=0)) / spread)
    return f"{away:.2f} | {np.median(draws.std(axis=0) / spread):.2f}"


def accuracy(n_worlds: int) -> str:
    """A table with a row for every scenario and world; rows go to standard error as they are
    made."""
    rows = [
        "| scenario | world | coefficients: means, in sds | ratio of sds | predictions: means, "
        "in sds | ratio of sds | "
        "NLL, Gibbs | NLL, variational | Rand, Gibbs | Rand, variational | CPU s, Gibbs | CPU s, "
        "variational |",
        "|" + "---|" * 12,
    ]
    dv.DualViewMixture(engine=dv.Gibbs(n_warmup=1), n_draws=1, n_chains=1).fit(
        np.random.default_rng(0).random((9, 2))
    )  # compiles
    for world in range(n_worlds):
        for scenario in SCENARIOS:
            forum = getattr(dv.datasets, scenario)(50, 50, seed=world)
            exact = fitted(forum, engine=dv.Gibbs(n_warmup=1000), n_draws=1000)
            found = fitted(forum, engine="variational", n_draws=500)
            cells = [
                f"{value:.3f}"
                for pair in zip(exact[2:4], found[2:4], strict=True)
                for value in pair
            ]
            seconds = f"{exact.seconds:.0f} | {found.seconds:.0f}"
            rows.append(
                f"| {scenario} | {world} | {distances(exact.latent, found.latent)} | "
                f"{distances(exact.expected, found.expected)} | {' | '.join(cells)} | {seconds} |"
            )
            print(rows[-1], file=sys.stderr, flush=True)
    return "\n".join(rows)


class Known(NamedTuple):
    """What a world of another kind shows, what is held back, and the clusters it was made with."""

    X: Any
    behavior: Any
    test: Any
    labels: np.ndarray


def table_world(seed: int) -> Known:
    """The agreement scenario with cells missing, a column rounded, and a category."""
    forum, rng = dv.datasets.agreement(50, 50, seed=seed), np.random.default_rng([seed, 1])
    X = pd.DataFrame(forum.features, columns=["a", "b"])
    X["score"] = np.round(forum.labels + rng.normal(0.0, 1.0, 50))
    X["town"] = np.array(list("abcde"))[
        np.where(rng.random(50) < 0.6, forum.labels, rng.integers(0, 5, 50))
    ]
    X = X.mask(rng.random(X.shape) < 0.2)
    test = dv.SharedOutcome(forum.test.participation, forum.test.outcome)
    return Known(X, dv.SharedOutcome(forum.participation, forum.outcome), test, forum.labels)


def _users(rng: np.random.Generator, n_dims: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, latent vectors and clusters of 60 users."""
    labels = np.arange(60) % 3
    X = 3.0 * rng.standard_normal((3, 2))[labels] + rng.standard_normal((60, 2))
    return (
        X,
        1.5 * rng.standard_normal((3, n_dims))[labels] + 0.5 * rng.standard_normal((60, n_dims)),
        labels,
    )


def answers_world(seed: int) -> Known:
    """Yes-or-no answers that depend on a level and on one number."""
    rng = np.random.default_rng([seed, 2])
    X, latent, labels = _users(rng, 2)

    def answers() -> dv.BinaryOutcomes:
        user = np.repeat(np.arange(60), 15)
        design = np.column_stack([np.ones(len(user)), rng.standard_normal(len(user))])
        chances = 1.0 / (1.0 + np.exp(-(design * latent[user]).sum(axis=1)))
        return dv.BinaryOutcomes(
            user, design, (rng.random(len(user)) < chances).astype(int), n_users=60
        )

    return Known(X, answers(), answers(), labels)


def choices_world(seed: int) -> Known:
    """Choices between two of six items with two features."""
    rng = np.random.default_rng([seed, 3])
    X, latent, labels = _users(rng, 2)
    items = rng.standard_normal((6, 2))

    def choices() -> dv.PairwiseChoices:
        user = np.repeat(np.arange(60), 15)
        pairs = np.array([rng.choice(6, 2, replace=False) for _ in user])
        odds = ((items[pairs[:, 0]] - items[pairs[:, 1]]) * latent[user]).sum(axis=1)
        first = rng.random(len(user)) < 1.0 / (1.0 + np.exp(-odds))
        winner, loser = (
            np.where(first, pairs[:, 0], pairs[:, 1]),
            np.where(first, pairs[:, 1], pairs[:, 0]),
        )
        return dv.PairwiseChoices(user, winner, loser, items, n_users=60)

    return Known(X, choices(), choices(), labels)


WORLDS = {"table": table_world, "answers": answers_world, "choices": choices_world}


def kinds(n_worlds: int) -> str:
    """A table with a row for every kind and world; rows go to standard error as they are made."""
    rows = [
        "| kind | world | latent: means, in sds | ratio of sds | NLL, Gibbs | NLL, variational | "
        "Rand, Gibbs | "
        "Rand, variational |",
        "|" + "---|" * 8,
    ]
    for seed in range(n_worlds):
        for name, made in WORLDS.items():
            world, scores, draws = made(seed), [], []
            for settings in (
                {"engine": dv.Gibbs(n_warmup=1000), "n_draws": 1000},
                {"engine": "variational", "n_draws": 500},
            ):
                model = dv.DualViewMixture(**settings).fit(world.X, world.behavior)
                scores.append(
                    (
                        -model.score(None, world.test),
                        adjusted_rand_score(world.labels, model.labels_),
                    )
                )
                draws.append(
                    model.posterior_.flat("latent").reshape(
                        len(model.posterior_.flat("log_joint")), -1
                    )
                )
            cells = [f"{value:.3f}" for pair in zip(*scores, strict=True) for value in pair]
            rows.append(f"| {name} | {seed} | {distances(*draws)} | {' | '.join(cells)} |")
            print(rows[-1], file=sys.stderr, flush=True)
    return "\n".join(rows)


def speed(n_users: int, n_threads: int, most_starts: int = 2) -> str:
    """A table of a row for each number of starts, of which the best is kept."""
    features, behavior = scale.forum(n_users, n_threads)
    fitted(
        dv.datasets.agreement(seed=0), engine="variational", n_chains=1, n_draws=2
    )  # code is compiled
    rows = [
        "| users | threads | starts | wall s | CPU s | steps | bound converged | clusters | "
        "peak GB |",
        "|" + "---|" * 9,
    ]
    for n_starts in range(1, most_starts + 1):
        began, cpu = time.perf_counter(), time.process_time()
        model = dv.DualViewMixture(engine="variational", n_chains=n_starts, n_draws=8).fit(
            features, behavior
        )
        wall, cpu = time.perf_counter() - began, time.process_time() - cpu
        facts = model.posterior_.approximation
        assert facts is not None
        best = max(facts.starts, key=lambda start: start.bound)
        cells = [
            f"{n_users:,}",
            f"{n_threads:,}",
            str(n_starts),
            f"{wall:.0f}",
            f"{cpu:.0f}",
            str(best.n_steps),
        ]
        cells += [
            "yes" if best.converged else "no",
            str(best.n_clusters),
            f"{scale.peak_gigabytes():.1f}",
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def features(n_users: int) -> str:
    """A table of two rows: ours and scikit-learn's."""
    x, _ = scale.forum(n_users + n_users // 4, 10)
    train, test = x[:n_users], x[n_users:]
    rows = [
        "| mixture of features | CPU s | clusters | mean log density of 25 % new users |",
        "|---|---|---|---|",
    ]
    began = time.process_time()
    model = dv.DualViewMixture(engine="variational", n_chains=1, n_draws=20).fit(train)
    seconds = time.process_time() - began
    rows.append(f"| dualview | {seconds:.1f} | {model.n_clusters_} | {model.score(test):.4f} |")
    began = time.process_time()
    other = BayesianGaussianMixture(n_components=10, max_iter=1000, random_state=0).fit(train)
    seconds = time.process_time() - began
    n_clusters = len(np.unique(other.predict(train)))
    rows.append(
        f"| BayesianGaussianMixture | {seconds:.1f} | {n_clusters} | {other.score(test):.4f} |"
    )
    return "\n".join(rows)


def main(words: list[str]) -> None:
    """What is asked for, or everything."""
    known = {
        "quick": (quick, [2]),
        "accuracy": (accuracy, [2]),
        "kinds": (kinds, [2]),
        "speed": (speed, [100_000, 1_000_000]),
        "features": (features, [100_000]),
    }
    sizes = [int(word.replace("_", "")) for word in words[1:]]
    for name, (function, usual) in known.items():
        if not words or words[0] == name:
            print(function(*(sizes or usual)), flush=True)  # type: ignore[operator]


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main(sys.argv[1:])
