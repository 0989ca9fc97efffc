"""Which distribution for counts? ``python -m benchmarks.counts [--posts FILE OPTION=VALUE …]``:
tables of docs/behavior-evidence.md.

All models are the same but for the distribution of a count (``count_distributions``). Held-out
counts of known users are scored given the user's training counts, those of new users given none.
Counts are simulated, or a forum's: a user's posts in each thread that the user joined, and in each
month between the user's first and last. The logarithm of others' posts there is a common column.
Options are those of ``dualview forum``, and ``name=NAME``. The second table compares fits by the
library with those by quadrature.
"""

import argparse
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import dualview as dv
from benchmarks.count_distributions import (
    Above,
    Array,
    Counts,
    Distribution,
    Integers,
    NegativeBinomial,
    Poisson,
    Rounded,
    TruncatedNegativeBinomial,
    fitted,
    log_scores,
)
from benchmarks.forums import forum_of
from dualview.behaviors.recorded import Recorded, recorded_outcome
from dualview.forum.archive import Archive
from dualview.forum.options import ForumOptions

N_USERS, N_SIMULATED, N_MOST, N_LEAST = (
    600,
    12,
    20,
    5,
)  # users of a set; counts of a user: simulated, at most, at least
MONTH = 365.25 / 12 * 86400.0
BASE = "rounded log1p"
COMPARED = (
    BASE,
    "rounded log1p of y − 1",
    "rounded count",
    "negative binomial",
    "truncated negative binomial",
    "Poisson",
)


class Simulation(NamedTuple):
    """Locations: level + sd · normal + slope · column. Counts: negative binomial with r, or rounded
    with this sd."""

    level: float = 1.2
    sd: float = 0.6
    slope: float = 0.4
    r: float = np.inf
    rounded: float | None = None


SIMULATIONS = {
    "negative binomial, r = 0.5": Simulation(r=0.5),
    "negative binomial, r = 5": Simulation(r=5.0),
    "Poisson": Simulation(),
    "Poisson, users much alike": Simulation(level=3.0, sd=0.1, slope=0.1),
    "rounded log1p, sd 0.8": Simulation(rounded=0.8),
}
CHECKED = ("negative binomial, r = 0.5", "rounded log1p, sd 0.8")  # by the library as well


def recorded_as(data: Counts, scale: str | None = None) -> Recorded:
    """How the library records the training counts: on the scale that it chooses, or on this one."""
    y = data.y[data.training]
    recorded = recorded_outcome(y, {"kind": "count", "scale": scale}, len(y))[1]
    assert recorded is not None
    return recorded


def distributions(data: Counts) -> dict[str, Distribution]:
    """The distributions of ``COMPARED`` for these counts, two of which are only for counts from
    1."""
    logarithmic = recorded_as(data, "log1p")
    lowest = logarithmic.lowest
    found: dict[str, Distribution] = {
        BASE: Rounded(logarithmic),
        "rounded count": Rounded(recorded_as(data, "identity")),
        "negative binomial": Above(lowest, NegativeBinomial()),
        "Poisson": Above(lowest, Poisson()),
    }
    if lowest == 1.0:
        found["rounded log1p of y − 1"] = Above(
            1.0, Rounded(recorded_as(data._replace(y=data.y - 1.0), "log1p"))
        )
        found["truncated negative binomial"] = TruncatedNegativeBinomial()
    return found


def divided(rng: np.random.Generator, user: Integers, common: Array, y: Array) -> Counts:
    """A third of the users are new; of the others a fifth of the counts is held out, at least
    one."""
    new = rng.permutation(np.arange(user.max() + 1) % 3 == 0)
    place = np.empty(len(user))
    for one in np.unique(user):
        rows = np.flatnonzero(user == one)
        place[rows] = rng.permutation(len(rows)) / len(rows)
    return Counts(
        user,
        np.column_stack([np.ones(len(y)), common]),
        y.astype(float),
        (place >= 0.2) & ~new[user],
    )


def simulated(made: Simulation, seed: int) -> Counts:
    """Counts whose distribution is one of those compared."""
    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(N_USERS // 2), N_SIMULATED)
    common = rng.normal(size=(len(user), 1))
    location = (
        made.level + made.sd * rng.normal(size=N_USERS // 2)[user] + made.slope * common[:, 0]
    )
    if made.rounded is not None:
        y = np.maximum(
            np.round(np.expm1(location + made.rounded * rng.normal(size=len(user)))), 0.0
        )
    else:
        y = rng.poisson(
            np.exp(location)
            * (rng.gamma(made.r, 1.0 / made.r, len(user)) if np.isfinite(made.r) else 1.0)
        )
    return divided(rng, user, common, y)


def of_forum(posts: Any, options: dict[str, Any]) -> dict[str, Counts]:
    """Posts of some of a forum's users by thread, and by month where posts have dates, with log1p
    of others' posts beside."""
    unit = {"thread": "thread"} | (
        {} if options.get("relative_time") else {"month": f"floor(seconds / {MONTH!r})"}
    )
    found = {}
    with Archive(posts, ForumOptions(**options)) as archive:
        for name, place in unit.items():
            total = archive.arrays(
                f"SELECT {place} AS place, count(*) AS n FROM posts GROUP BY ALL"
            )
            own = archive.arrays(
                f'SELECT "user", {place} AS place, count(*) AS n FROM posts WHERE "user" IS NOT '
                "NULL GROUP BY ALL ORDER BY ALL"
            )
            found[name] = chosen(
                own, dict(zip(total["place"], total["n"], strict=True)), inner=name == "month"
            )
    return found


def chosen(own: dict[str, Any], total: dict[float, int], inner: bool) -> Counts:
    """Up to ``N_MOST`` counts of each of ``N_USERS`` users who have ``N_LEAST``.

    inner: at all places between the user's first and last, 0 where there is none of the user's;
    else at the user's places.
    """
    rng = np.random.default_rng(0)
    kept: list[Array] = []  # of each user, rows of count and of others' count
    bounds = np.flatnonzero(np.diff(own["user"], prepend=-1, append=-1))
    for u in rng.permutation(len(bounds) - 1):
        mine = dict(
            zip(*(own[part][bounds[u] : bounds[u + 1]] for part in ("place", "n")), strict=True)
        )
        places = np.arange(min(mine) + 1, max(mine)) if inner else np.array(list(mine))
        if len(places) >= N_LEAST and len(kept) < N_USERS:
            some = rng.choice(places, min(len(places), N_MOST), replace=False)
            kept.append(
                np.array(
                    [(mine.get(at, 0), total.get(at, 0) - mine.get(at, 0)) for at in some],
                    dtype=float,
                )
            )
    user, (y, others) = (
        np.repeat(np.arange(len(kept)), [len(one) for one in kept]),
        np.concatenate(kept).T,
    )
    return divided(rng, user, np.log1p(others)[:, None], y)


def by_library(data: Counts) -> Array:
    """The same log probabilities by the library's sampler, one cluster; new users are users without
    observations."""

    def behavior(rows: NDArray[np.bool_], **outcome: Any) -> dv.UserRegression:
        ones, rest = np.split(data.common[rows], [1], axis=1)
        return dv.UserRegression(
            data.user[rows], ones, common=rest, n_users=int(data.user.max()) + 1, **outcome
        )

    model = dv.DualViewMixture(
        n_clusters=1, engine=dv.Gibbs(n_warmup=300), n_draws=500, n_chains=2, n_jobs=1
    )
    model.fit(None, behavior(data.training, outcome=data.y[data.training], outcome_kind="count"))
    return np.asarray(
        model.predict_outcome(behavior(~data.training)).log_density(data.y[~data.training])
    )


class Scored(NamedTuple):
    """Held-out counts of several sets: log scores (n,) by distribution, users over all sets, and
    who of them is new."""

    scores: dict[str, Array]
    user: Integers
    new: NDArray[np.bool_]

    def difference(self, name: str, who: NDArray[np.bool_]) -> str:
        """Mean score of some counts less that of rounded logarithms, with its standard error over
        users."""
        if name not in self.scores:
            return ""
        away = (self.scores[name] - self.scores[BASE])[who]
        by_user = np.bincount(self.user[who], away - away.mean())
        return f"{away.mean():+.3f} ± {np.sqrt((by_user**2).sum()) / len(away):.3f}"


def scored(sets: list[Counts], names: Sequence[str] = COMPARED, library: bool = False) -> Scored:
    """The distributions of these names fitted to each set and scored on its held-out counts; by the
    library as well."""
    found: list[dict[str, Array]] = []
    for data in sets:
        laws = distributions(data)
        found.append(
            {
                name: log_scores(laws[name], fitted(laws[name], data), data)
                for name in names
                if name in laws
            }
        )
        if library:
            found[-1]["the library"] = by_library(data)
    held_out = [data.user[~data.training] for data in sets]
    new = [
        ~np.isin(user, data.user[data.training]) for user, data in zip(held_out, sets, strict=True)
    ]
    user = np.concatenate([own + number * N_USERS for number, own in enumerate(held_out)])
    return Scored(
        {name: np.concatenate([own[name] for own in found]) for name in found[0]},
        user,
        np.concatenate(new),
    )


def lines(cells: list[str], found: Scored, others: Sequence[str]) -> str:
    """Of known and of new users: scores of rounded logarithms, and how far the others are from
    them."""
    made = []
    for who, asked in (("known", ~found.new), ("new", found.new)):
        scores = [
            f"{found.scores[BASE][asked].mean():.3f}",
            *(found.difference(other, asked) for other in others),
        ]
        made.append(f"| {' | '.join([*cells, who, *scores])} |")
    return "\n".join(made)


def print_comparison(name: str, sets: list[Counts]) -> None:
    """The lines of some sets in the first table."""
    y, scales = (
        np.concatenate([data.y for data in sets]),
        sorted({recorded_as(data).column.scale for data in sets}),
    )
    cells = [name, f"{y.mean():.1f}", f"{y.var() / y.mean():.1f}", ", ".join(scales)]
    print(lines(cells, scored(sets), COMPARED[1:]), flush=True)


def print_head(*cells: str) -> None:
    print(f"| {' | '.join(cells)} |\n|{'---|' * len(cells)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.counts", description=__doc__)
    parser.add_argument(
        "--posts",
        nargs="+",
        action="append",
        default=[],
        metavar="FILE OPTION=VALUE",
        help="a forum",
    )
    parser.add_argument("--sets", type=int, default=5, help="simulated sets of each distribution")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", dv.errors.ConvergenceWarning)
    warnings.simplefilter("ignore", dv.errors.DataWarning)  # new users have no observations
    print_head("counts", "mean", "variance / mean", "library's scale", "users", BASE, *COMPARED[1:])
    for name, made in SIMULATIONS.items():
        print_comparison(name, [simulated(made, seed) for seed in range(asked.sets)])
    for path, *pairs in asked.posts:
        stem, place, options = forum_of([Path(path).stem, path, *pairs])
        name = options.pop("name", stem)
        for unit, data in of_forum(place, options).items():
            print_comparison(f"{name}, posts by {unit}", [data])
    print()
    print_head("counts", "users", f"{BASE}, quadrature", "the library")
    for name in CHECKED:
        print(
            lines(
                [name],
                scored([simulated(SIMULATIONS[name], 0)], [BASE], library=True),
                ["the library"],
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
