"""Does the model fit? Each check is a statistic of residuals that are standard normal if it does.

The statistic of a draw's residuals is compared with the same of replicates, which gives a p-value
for each draw. Each is uniform if the model is right, but they share the data. They are combined by
the mean of their normal scores, with their correlation from its variance among the draws (Hartung
1999).
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy.special import gammaln, ndtr, ndtri
from scipy.stats import chi2, rankdata
from sklearn.metrics import adjusted_rand_score

from dualview.errors import InputError
from dualview.partitions.priors import PartitionPrior
from dualview.posterior.checks.residuals import Residuals

Array = NDArray[np.float64]

# P-values below which a check says "look here", and that the model is wrong.
LOOK, WRONG = 0.01, 0.001
_N_NULL = 2000  # replicates of independent residuals
_MOST_PAIRS = 500  # users whose pairs Mardia's skewness looks at
_MOST_SIMULATED = 2000  # users of partitions that are simulated
_FEWEST = 10  # observations, or users, that a check needs
_FEWEST_DRAWS = 50  # of the posterior, for prior sensitivity
# Parameters whose prior sensitivity is checked.
_SCALED = ("noise_precision", "coefficients", "slopes")
_SENSITIVE = 0.05  # power-scaling sensitivity above which ArviZ calls a prior informative
_VAGUE, _DISAGREE, _DOUBTFUL = 0.3, 0.5, 0.75  # of adjusted Rand indices
_PAIRS = 300  # of draws
_LITTLE = 0.1  # of the variance of a count above its mean
_LEAST_SHARED = 0.2  # of the variance of normal scores, that draws share
_MOST_AXES = 4
# For users' precisions ~ Gamma(a, a): the larger a is, the more alike they are.
_ALIKE = 0.5 * 2.0 ** np.arange(7)
VERDICTS = ("fine", "look here", "the model is wrong here")


@dataclass(frozen=True)
class Check:
    """The result of one check.

    Attributes
    ----------
    name, about : str
        Its name, and the statistic in words.
    value : float
        The statistic, as the median over draws; usual_low and usual_high contain 95 % of its values
        if the model is right.
    p : float
        Combined p-value over the draws; NaN if there is none.
    verdict : str
        "fine", "look here" or "the model is wrong here".
    advice : str
        What to try if it is not fine.
    """

    name: str
    about: str
    value: float
    usual_low: float
    usual_high: float
    p: float
    verdict: str
    advice: str

    @property
    def text(self) -> str:
        """A sentence or two."""
        usual = ""
        if np.isfinite(self.usual_high):
            usual = f" {self.value:.3g}, usual are {self.usual_low:.3g} to {self.usual_high:.3g}"
        elif np.isfinite(self.value):
            usual = f" {self.value:.3g}"
        p = (
            ""
            if np.isnan(self.p)
            else f" (p {'below 0.001' if self.p < 0.001 else f'{self.p:.2g}'})"
        )
        advice = "" if self.verdict == VERDICTS[0] or not self.advice else f" Try: {self.advice}."
        return (
            f"{self.name}: {self.verdict}. "
            f"{self.about[0].upper()}{self.about[1:]}:{usual or ' as it should be'}{p}.{advice}"
        )


class Checks:
    """All checks of a fit. ``table`` is a DataFrame, ``text()`` the same in words, ``worst`` the
    worst verdict.

    ``residuals`` are those that most checks use, for plots.
    """

    def __init__(self, checks: list[Check], residuals: Residuals) -> None:
        self.checks, self.residuals = checks, residuals

    def __iter__(self) -> Iterator[Check]:
        return iter(self.checks)

    def __len__(self) -> int:
        return len(self.checks)

    def __getitem__(self, name: str) -> Check:
        found = {check.name: check for check in self.checks}
        if name not in found:
            raise InputError(f"No check is called {name!r}; there are {', '.join(found)}.")
        return found[name]

    def __repr__(self) -> str:
        return f"Checks({len(self.checks)}: {self.worst})\n{self.text()}"

    @property
    def worst(self) -> str:
        """The worst verdict of all."""
        return max(
            (check.verdict for check in self.checks), key=VERDICTS.index, default=VERDICTS[0]
        )

    @property
    def table(self) -> pd.DataFrame:
        """One row per check: verdict, p, value, its usual range if the model is right, about and
        advice."""
        columns = ("verdict", "p", "value", "usual_low", "usual_high", "about", "advice")
        return pd.DataFrame(
            {check.name: {name: getattr(check, name) for name in columns} for check in self.checks}
        ).T

    def levels(self) -> dict[str, Array]:
        """Levels in the last draw used, uniform if the model is right, by name: of outcomes,
        features and behavior.

        They are distribution functions of standardized outcomes, and of squared distances from
        cluster centers.
        """
        found = {name: np.asarray(ndtr(own[-1])) for name, own in self.residuals.outcomes.items()}
        for name, part in (
            ("features", self.residuals.features),
            ("behavior", self.residuals.latent),
        ):
            if part is not None:
                found[name] = mahalanobis_levels(part[-1])
        return found

    def text(self) -> str:
        """A line per check, those that are not fine first."""
        ordered = sorted(self.checks, key=lambda check: -VERDICTS.index(check.verdict))
        return "\n".join(check.text for check in ordered)


class Statistic(NamedTuple):
    """A number of residuals that is larger the worse the model fits, with its words."""

    name: str
    about: str
    advice: str
    function: Callable[[Array], float]


def combined(p_values: Array) -> float:
    """One p-value from those of many draws, each above 0 and below 1.

    Normal scores have variance 1 over data sets and draws. What of it is not among the draws of one
    data set is the variance of their mean, and so the combination is uniform where the scores are
    normal together. It is at least ``_LEAST_SHARED``: below that, where draws differ more than data
    do, p-values are near 1/2.
    """
    scores = -ndtri(p_values)
    shared = 1.0 if len(scores) < 2 else max(1.0 - float(scores.var(ddof=1)), _LEAST_SHARED)
    return float(ndtr(-scores.mean() / np.sqrt(shared)))


def judged(statistic: Statistic, found: Array, null: Array) -> Check:
    """A check from the statistic's values in draws (S,) and in replicates (R,)."""
    order = np.sort(null)
    above = len(null) - np.searchsorted(order, found, side="left")
    p = combined(np.asarray((0.5 + above) / (1.0 + len(null)), dtype=np.float64))
    low, high = np.quantile(null, [0.025, 0.975])
    value = float(np.median(found))
    return Check(
        statistic.name,
        statistic.about,
        value,
        float(low),
        float(high),
        p,
        verdict_of(p),
        statistic.advice,
    )


def _judged_all(statistic: Statistic, found: Array, null: Array) -> Check:
    """A check from the residuals of draws (S, …) and of replicates (R, …)."""
    return judged(
        statistic, *(np.array([statistic.function(x) for x in part]) for part in (found, null))
    )


def verdict_of(p: float) -> str:
    return VERDICTS[2] if p < WRONG else VERDICTS[1] if p < LOOK else VERDICTS[0]


def skewness(x: Array) -> float:
    return float(abs(((x - x.mean()) ** 3).mean()) / x.std() ** 3)


def kurtosis(x: Array) -> float:
    """Above 3 for tails heavier than normal ones."""
    return float(((x - x.mean()) ** 4).mean() / x.var() ** 2)


def largest(x: Array) -> float:
    return float(np.abs(x).max())


def anderson_darling(levels: Array) -> float:
    """Distance of numbers in the unit interval from a uniform distribution, A²."""
    u = np.clip(np.sort(levels), 1e-12, 1.0 - 1e-12)
    place = 2.0 * np.arange(1, len(u) + 1) - 1.0
    return float(-len(u) - (place * (np.log(u) + np.log1p(-u[::-1]))).mean())


def mahalanobis_levels(x: Array) -> Array:
    """Distribution function of squared lengths of standard normal vectors (U, D)."""
    return np.asarray(chi2.cdf((x**2).sum(axis=1), x.shape[1]))


def mardia(x: Array) -> float:
    """Mardia's multivariate skewness of vectors (U, D), evenly spread ones of many."""
    some = x[np.linspace(0, len(x) - 1, min(len(x), _MOST_PAIRS)).astype(np.intp)]
    centered = some - some.mean(axis=0)
    covariance = centered.T @ centered / len(centered)
    return float(((centered @ np.linalg.solve(covariance, centered.T)) ** 3).mean())


def rank_correlation(x: Array, y: Array) -> float:
    return float(abs(np.corrcoef(rankdata(x), rankdata(y))[0, 1]))


def serial_correlation(x: Array) -> float:
    return float(abs(np.corrcoef(x[:-1], x[1:])[0, 1]))


def explained(y: Array, design: Array) -> float:
    """R² of the columns of y (n, q), together, on a design (n, d) and a constant."""
    full = np.column_stack([np.ones(len(y)), design])
    fitted = full @ np.linalg.lstsq(full, y)[0]
    centered = y - y.mean(axis=0)
    return float(1.0 - ((y - fitted) ** 2).sum() / (centered**2).sum())


def gain_of_own_noise(x: Array, user: NDArray[np.integer]) -> float:
    """Gain in log density, in nats for each residual x (n,), if each user had a noise of its own.

    Users' precisions are λ ~ Gamma(a, a), with the best of several a. Each residual is then
    predicted by the user's others: it has a t distribution with 2a + n_u − 1 degrees of freedom and
    squared scale (2a + Σ x²)/(2a + n_u − 1), where the sum is over the others.
    """
    dof = 2.0 * _ALIKE[:, None] + (np.bincount(user)[user] - 1.0)
    squares = 2.0 * _ALIKE[:, None] + (np.bincount(user, x**2)[user] - x**2)
    own = gammaln(0.5 * (dof + 1.0)) - gammaln(0.5 * dof) - 0.5 * np.log(0.5 * squares)
    own -= 0.5 * (dof + 1.0) * np.log1p(x**2 / squares)
    return float((own + 0.5 * x**2).mean(axis=1).max())


class Outcomes(NamedTuple):
    """What checks need to know of outcomes: participants (n,) and shares of clusters (n, C) of
    each, where known.

    owner (n,): whose each is, where users could have noises of their own and have not. spread:
    what to try where they vary too much, of distributions without a scale.
    """

    participants: Array | None
    shares: Array | None
    owner: NDArray[np.integer] | None
    binary: bool
    spread: str | None = None


class Context(NamedTuple):
    """What checks need besides residuals; outcomes by the names that they have there."""

    outcomes: Mapping[str, Outcomes]
    linked: bool
    partition: PartitionPrior


def outcome_checks(residuals: Residuals, context: Context) -> list[Check]:
    """Checks of standardized outcomes against replicates."""
    checks = []
    for name, found in residuals.outcomes.items():
        if found.shape[1] >= _FEWEST:
            checks += [
                _judged_all(one, found, residuals.replicates[name])
                for one in _outcome_statistics(name, context.outcomes[name])
            ]
    return checks


def _outcome_statistics(name: str, context: Outcomes) -> list[Statistic]:
    transform = context.spread or "a transformed outcome such as its logarithm"
    statistics = [
        Statistic(
            name,
            "the distribution of outcomes as predicted from all others (A²)",
            transform,
            lambda x: anderson_darling(ndtr(x)),
        )
    ]
    if not context.binary:
        statistics += [
            Statistic(
                f"{name}: tails",
                "kurtosis of standardized outcomes",
                f"{transform}, or look for outliers",
                kurtosis,
            ),
            Statistic(f"{name}: skew", "skewness of standardized outcomes", transform, skewness),
            Statistic(
                f"{name}: outliers",
                "the largest standardized outcome",
                "look at the outcomes farthest out, and leave out errors",
                largest,
            ),
        ]
    if context.spread is not None:
        statistics.append(
            Statistic(
                f"{name}: spread",
                "variance of standardized outcomes, about 1 where they vary as the family says",
                context.spread,
                lambda x: float(x.var()),
            )
        )
    statistics.append(
        Statistic(
            f"{name}: order",
            "correlation of standardized outcomes with the next",
            "time, or what changes with it, as a covariate",
            serial_correlation,
        )
    )
    people, shares = context.participants, context.shares
    if people is not None and np.ptp(people) > 0 and not context.binary:
        statistics.append(
            Statistic(
                f"{name}: participants",
                "rank correlation of spread and number of participants",
                "weights that are divided by their sum, or a transformed outcome",
                lambda x: rank_correlation(np.abs(x), people),
            )
        )
    if shares is not None and shares.shape[1] > 1 and not context.binary:
        statistics.append(
            Statistic(
                f"{name}: noise by cluster",
                "share of the variance of squared residuals that clusters explain",
                context.spread
                or 'noise="cluster", in a fit of this behavior alone where each outcome is one '
                "user's",
                lambda x: explained(np.log(x**2 + 1e-3)[:, None], shares[:, 1:]),
            )
        )
    owner = context.owner
    if owner is not None:
        statistics.append(
            Statistic(
                f"{name}: noise by user",
                "nats an outcome that predictions would gain by a noise for each user",
                'noise="user", which should gain about as much in log density',
                lambda x: gain_of_own_noise(x, owner),
            )
        )
    return statistics


def dispersion_check(name: str, mean: float, dispersions: Array) -> Check:
    """How much more counts of this mean vary than Poisson counts, given r in draws (S,). It is no
    misfit where they do not: Poisson counts are a simpler answer then."""
    excess = mean / dispersions
    low, value, high = np.quantile(excess, [0.025, 0.5, 0.975])
    told = f"95 % between {low:.2g} and {high:.2g}"
    if value < _LITTLE:
        told += '; family="poisson" may do'
    about = f"by how much the variance of a typical count is above its mean, as a share ({told})"
    return Check(
        f"{name}: dispersion", about, float(value), np.nan, np.nan, np.nan, VERDICTS[0], ""
    )


def vector_checks(rng: np.random.Generator, residuals: Residuals, context: Context) -> list[Check]:
    """Checks of the features, and of the latent vectors, inside clusters against independent normal
    vectors."""
    checks = []
    outside = (
        "clusters of other shapes are more clusters: look at features in pairs, transform "
        "skewed columns"
    )
    for name, found, advice in (
        ("features", residuals.features, outside),
        ("behavior", residuals.latent, "more clusters (n_clusters=None), a transformed outcome"),
    ):
        if found is None or found.shape[1] < max(_FEWEST, 3 * found.shape[2]):
            continue
        statistics = [
            Statistic(
                f"{name} inside clusters",
                f"squared distances of {name} from cluster centers (A²)",
                advice,
                lambda x: anderson_darling(mahalanobis_levels(x)),
            ),
            Statistic(
                f"{name}: skew", f"skewness of {name} inside clusters (Mardia)", advice, mardia
            ),
            Statistic(
                f"{name}: outliers",
                f"the largest distance of {name} from a cluster center",
                "look at who is farthest out",
                lambda x: float(np.sqrt((x**2).sum(axis=1).max())),
            ),
        ]
        null = rng.standard_normal((_n_null(found), *found.shape[1:]))
        checks += [_judged_all(one, found, null) for one in statistics]
    checks += _link_check(rng, residuals, context)
    return checks


def _n_null(found: Array) -> int:
    """Replicates: fewer for very many users."""
    return int(np.clip(20_000_000 // found[0].size, 200, _N_NULL))


def _link_check(rng: np.random.Generator, residuals: Residuals, context: Context) -> list[Check]:
    """Do latent vectors follow the features inside clusters?"""
    features, latent = residuals.features, residuals.latent
    if (
        features is None
        or latent is None
        or features.shape[1] < max(_FEWEST, 3 * features.shape[2])
    ):
        return []
    advice = "features that enter in another form" if context.linked else 'link="linear"'
    statistic = Statistic(
        "link", "share of behavior inside clusters that features explain", advice, largest
    )
    found = np.array([explained(y, x) for x, y in zip(features, latent, strict=True)])
    n = _n_null(features)
    null = [
        explained(rng.standard_normal(latent.shape[1:]), features[i % len(features)])
        for i in range(n)
    ]
    return [judged(statistic, found, np.array(null))]


def size_checks(rng: np.random.Generator, residuals: Residuals, context: Context) -> list[Check]:
    """Is the largest cluster as large as the prior of partitions says, given its concentration?"""
    if residuals.alpha is None or residuals.z.shape[1] > _MOST_SIMULATED:
        return []
    n_users = residuals.z.shape[1]
    share = [np.bincount(z).max() / n_users for z in residuals.z]
    discounts = np.zeros(len(share)) if residuals.discount is None else residuals.discount
    null = [
        np.bincount(context.partition.given(d).draw(rng, n_users, alpha)).max() / n_users
        for alpha, d in np.repeat([residuals.alpha, discounts], 5, axis=1).T
    ]
    below, up_to = (np.searchsorted(np.sort(null), share, side=side) for side in ("left", "right"))
    # Ties are cut at random.
    level = (0.5 + below + rng.random(len(share)) * (up_to - below)) / (1.0 + len(null))
    p = combined(2.0 * np.minimum(level, 1.0 - level))
    low, high = np.quantile(null, [0.025, 0.975])
    about, advice = (
        "share of users in the largest cluster",
        "another prior of the concentration (alpha), or a fixed n_clusters",
    )
    return [
        Check(
            "sizes",
            about,
            float(np.median(share)),
            float(low),
            float(high),
            p,
            verdict_of(p),
            advice,
        )
    ]


def view_check(
    features: NDArray[np.integer], behavior: NDArray[np.integer], joint: NDArray[np.integer]
) -> list[Check]:
    """Do both views ask for the same clusters? z (chain, draw, U) of fits to the features, to the
    behavior and to both.

    The adjusted Rand index between a partition by features alone and one by behavior alone is low
    where the views disagree, and also where either is vague. How vague shows in the index between
    partitions of different chains of the same fit. So it is divided by the geometric mean of these
    two, as a correlation is corrected for noise in both variables: 1 where the views agree.
    """
    rng = np.random.default_rng(0)
    own = [rand_index(rng, part, part, apart=True) for part in (features, behavior)]
    between = rand_index(rng, features, behavior)
    with_joint = [rand_index(rng, part, joint) for part in (features, behavior)]
    figures = (
        f"adjusted Rand index {between:.2f} between features alone and behavior alone; with the "
        "joint fit "
        f"{with_joint[0]:.2f} and {with_joint[1]:.2f}; of each with itself {own[0]:.2f} and "
        f"{own[1]:.2f}"
    )
    if min(own) < _VAGUE:
        vague = "features" if own[0] < own[1] else "behavior"
        about = f"the partition by {vague} alone is too vague to tell ({figures}); the index"
        return [Check("views", about, between, np.nan, np.nan, np.nan, VERDICTS[0], "")]
    agreement = between / float(np.sqrt(own[0] * own[1]))
    verdict = (
        VERDICTS[2]
        if agreement < _DISAGREE
        else VERDICTS[1]
        if agreement < _DOUBTFUL
        else VERDICTS[0]
    )
    advice = "a fit of each view by itself, and features that have more to do with behavior"
    about = f"agreement of the views, 1 where they ask for the same clusters ({figures})"
    return [Check("views", about, agreement, np.nan, np.nan, np.nan, verdict, advice)]


def rand_index(
    rng: np.random.Generator,
    one: NDArray[np.integer],
    other: NDArray[np.integer],
    apart: bool = False,
) -> float:
    """Mean adjusted Rand index of draws of two fits (chain, draw, U), at random; apart: of
    different chains."""
    values = []
    for _ in range(_PAIRS):
        first, second = rng.integers(one.shape[0]), rng.integers(other.shape[0])
        if apart:
            second = (first + 1 + rng.integers(max(1, other.shape[0] - 1))) % other.shape[0]
        labels = one[first, rng.integers(one.shape[1])], other[second, rng.integers(other.shape[1])]
        values.append(adjusted_rand_score(*labels))
    return float(np.mean(values))


def prior_checks(tree: xr.DataTree) -> list[Check]:
    """Do answers depend on the priors? Power-scaling of a tree with log_prior and log_likelihood
    (Kallioinen et al. 2024).

    The number of clusters is not among them: it counts every cluster of one or two users, and how
    many of these there are is the prior's to say, above all where there are no clusters. That is no
    conflict of prior and data. A few draws that move slowly look sensitive, too. So a sensitivity
    counts only where it is also larger than three times what the same draws show to priors that are
    dealt to them at random.
    """
    if "log_prior" not in tree.children or "log_likelihood" not in tree.children:
        return []
    if tree["posterior"].sizes["chain"] * tree["posterior"].sizes["draw"] < _FEWEST_DRAWS:
        return []
    draws = tree["posterior"].to_dataset()
    names = [name for name in _SCALED if name in draws and _varies(draws[name])]
    return [_prior_check(tree, name) for name in names]


def _prior_check(tree: xr.DataTree, name: str) -> Check:
    of_each = {
        prior: _sensitivity(tree, name, "prior", [prior])
        for prior in map(str, tree["log_prior"].data_vars)
    }
    strongest = max(of_each, key=lambda prior: of_each[prior])
    value, of_data = _sensitivity(tree, name, "prior"), _sensitivity(tree, name, "likelihood")
    limit = max(_SENSITIVE, 3.0 * _sensitivity(_dealt(tree), name, "prior"))
    reason = (
        "the data say little"
        if of_data < _SENSITIVE
        else "prior and data pull in different directions"
    )
    about = f"sensitivity of {name} to the priors, most to that of {strongest}" + (
        f"; {reason}" if value > limit else ""
    )
    verdict = VERDICTS[1] if value > limit else VERDICTS[0]
    advice = f"other priors of {strongest}, and say how answers change"
    return Check(f"prior: {name}", about, value, 0.0, limit, np.nan, verdict, advice)


def _sensitivity(tree: xr.DataTree, name: str, group: str, of: list[str] | None = None) -> float:
    """The largest power-scaling sensitivity of a quantity's numbers."""
    import arviz_stats  # slow to import

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        psense = vars(arviz_stats)["psense"]
        return float(
            np.nan_to_num(
                psense(tree, var_names=[name], group=group, group_var_names=of)[name].values
            ).max()
        )


def _dealt(tree: xr.DataTree) -> xr.DataTree:
    """The tree with its log priors dealt to the draws at random."""
    priors = tree["log_prior"].to_dataset()
    order = np.random.default_rng(0).permutation(priors.sizes["chain"] * priors.sizes["draw"])
    shuffled = {
        name: (part.dims, part.values.ravel()[order].reshape(part.shape))
        for name, part in priors.items()
    }
    return xr.DataTree.from_dict(
        {
            "posterior": tree["posterior"].to_dataset(),
            "log_prior": xr.Dataset(shuffled, coords=priors.coords),
        }
    )


def _varies(values: xr.DataArray) -> bool:
    return (
        bool(np.ptp(values.values) > 0) and values.ndim <= _MOST_AXES and "user" not in values.dims
    )
