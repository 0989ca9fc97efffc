"""Queries of a table against sums written out: draw by draw, cluster by cluster, in the user's
units."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import logsumexp

import dualview as dv
from checks import ACCEPT
from dualview.behaviors.families.gaussian import NormalMixture
from dualview.behaviors.families.interval import CountMixture, IntervalMixture
from dualview.errors import InputError
from dualview.posterior.prediction import candidates
from dualview.posterior.prediction.cells_given import CellLevels, LimitedMixture
from dualview.posterior.prediction.thinning import thinned

pytestmark = [
    pytest.mark.filterwarnings("ignore::dualview.errors.DataWarning"),
    pytest.mark.filterwarnings("ignore::dualview.errors.ConvergenceWarning"),
]

SHORT: dict[str, Any] = {"engine": dv.Gibbs(n_warmup=40, thin=3), "n_draws": 6, "n_chains": 2}
NUMBERS = ["age", "income", "rent"]
CELL = {"age": 33.0, "income": 2250.0, "rent": 700.0, "town": "B"}


def people(n: int = 40) -> pd.DataFrame:
    """Two groups; numbers are correlated inside them."""
    rng = np.random.default_rng(1)
    group = np.arange(n) % 2
    age = rng.normal(30.0 + 8.0 * group, 3.0)
    income = 2000.0 + 400.0 * group + 40.0 * (age - 30.0 - 8.0 * group) + rng.normal(0, 60.0, n)
    return pd.DataFrame(
        {
            "age": age,
            "income": income,
            "rent": 0.3 * income + rng.normal(0.0, 20.0, n),
            "town": np.array(["A", "B", "C"])[(group + (rng.random(n) < 0.3)) % 3],
            "member": rng.random(n) < 0.3 + 0.4 * group,
        }
    )


@pytest.fixture(scope="module", autouse=True)
def _few_fresh_clusters() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates, "_BASE_DRAWS", 100)
        yield


@pytest.fixture(scope="module")
def exact() -> dv.DualViewMixture:
    """Exact numbers and categories, in two clusters: all sums can be written out."""
    return dv.DualViewMixture(2, **SHORT).fit(people())


def mixed_people(n: int = 20) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    group = np.arange(n) % 2
    codes = np.clip(2 * group + rng.integers(-1, 2, n), 0, 3)
    earned = rng.normal(1000.0 + 1000.0 * group, 100.0)
    seen = np.clip(rng.normal(0.5 + 0.4 * group, 0.3), 0.0, 1.0)
    table = people(n)[["age", "town"]].assign(
        posts=rng.poisson(np.where(group == 1, 12, 3)),
        grade=pd.Categorical.from_codes(codes, ["low", "mid", "high", "top"], ordered=True),
        size=np.round(rng.normal(170.0 + 8.0 * group, 4.0) / 0.5) * 0.5,
        low=earned,
        high=np.where(np.arange(n) % 5 == 0, np.inf, earned),
        share=seen,
    )
    table.loc[3, "age"] = None
    table.loc[4, "town"] = None
    table.loc[5, "grade"] = None
    return table


COLUMNS = {
    "earned": dv.Censored("low", "high"),
    "size": {"kind": "rounded", "step": 0.5},
    "share": {"kind": "limited", "limits": [0, 1]},
    "posts": {"kind": "count", "scale": "log1p"},
}


@pytest.fixture(scope="module")
def mixed() -> dv.DualViewMixture:
    """Every kind of column and an inferred number of clusters."""
    return dv.DualViewMixture(columns=COLUMNS, **SHORT).fit(mixed_people())


class Twin:
    """The posterior predictive distribution of ``exact``, written out: a loop over all clusters of
    all draws. Mutants replace methods."""

    def __init__(self, model: dv.DualViewMixture) -> None:
        post = model.posterior_
        table, units = post.components, post.spec.units["features"]
        alpha, n_clusters = post.flat("alpha"), post.spec.n_clusters
        self.owner, self.n_draws = table["owner"], len(alpha)
        offset = alpha[self.owner] / n_clusters
        self.weights = (table["count"] + offset) / (post.n_users + alpha[self.owner])
        self.means, self.covariances, self.shares = [], [], []
        self.levels = {column.name: column.levels for column in post.spec.codebook.of("categories")}
        ends = np.cumsum([0, *map(len, self.levels.values())])
        for row in range(len(self.owner)):
            factor = table["features.factors"][row]
            self.means.append(units.mean + units.factor @ table["features.means"][row])
            self.covariances.append(
                units.factor @ np.linalg.inv(factor @ factor.T) @ units.factor.T
            )
            theta = np.exp(table["categories.log_shares"][row])
            parts = [theta[ends[j] : ends[j + 1]] for j in range(len(self.levels))]
            self.shares.append(dict(zip(self.levels, parts, strict=True)))

    def log_rows(self, cells: Mapping[str, Any]) -> np.ndarray:
        """ln of weight × density of some cells, (R,)."""
        own = [NUMBERS.index(name) for name in cells if name in NUMBERS]
        x = np.array([cells[NUMBERS[j]] for j in own])
        found = np.log(self.weights)
        for row in range(len(found)):
            if own:
                spread = self.covariances[row][np.ix_(own, own)]
                found[row] += stats.multivariate_normal(self.means[row][own], spread).logpdf(x)
            for name in cells:
                if name in self.levels:
                    place = self.levels[name].index(str(cells[name]))
                    found[row] += np.log(self.shares[row][name][place])
        return found

    def log_density(self, cells: Mapping[str, Any]) -> float:
        return float(logsumexp(self.log_rows(cells)) - np.log(self.n_draws))

    def by_draw(self, cells: Mapping[str, Any]) -> np.ndarray:
        log_rows = self.log_rows(cells)
        return np.array([logsumexp(log_rows[self.owner == i]) for i in range(self.n_draws)])

    def normals(self, name: str, given: Mapping[str, float]) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of a number given others in every row."""
        j, others = NUMBERS.index(name), [NUMBERS.index(own) for own in given if own in NUMBERS]
        x, found = np.array([given[NUMBERS[i]] for i in others]), []
        for mean, spread in zip(self.means, self.covariances, strict=True):
            gain = np.linalg.solve(spread[np.ix_(others, others)], spread[others, j])
            variance = spread[j, j] - gain @ spread[others, j]
            found.append((mean[j] + gain @ (x - mean[others]), np.sqrt(variance)))
        return tuple(np.array(found).T)  # type: ignore[return-value]


SOME = [("age",), ("town",), ("age", "town"), ("income", "rent", "member"), tuple(CELL)]


@pytest.mark.parametrize("names", SOME, ids="+".join)
def test_densities_are_those_of_the_mixture(
    exact: dv.DualViewMixture, names: tuple[str, ...]
) -> None:
    cells = {name: CELL.get(name, True) for name in names}
    expected = Twin(exact).log_density(cells)
    assert exact.log_density(cells)[0] == pytest.approx(expected, abs=1e-9)
    independent = sum(Twin(exact).log_density({name: cells[name]}) for name in names)
    if len(names) > 1:
        assert abs(independent - expected) > 0.01  # columns that are taken for independent


def test_conditional_densities_reweight_draws(exact: dv.DualViewMixture) -> None:
    """p(a, b) = p(a) p(b | a), draws being weighted by p(a); the mean over draws of each one's own
    p(b | a) is something else."""
    first, second = {"age": 33.0, "town": "B"}, {"income": 2250.0, "member": True}
    found = exact.log_density(second, given=first)[0]
    whole = exact.log_density({**first, **second})[0]
    assert found + exact.log_density(first)[0] == pytest.approx(whole, abs=1e-9)
    twin = Twin(exact)
    given, both = twin.by_draw(first), twin.by_draw({**first, **second})
    assert found == pytest.approx(logsumexp(both) - logsumexp(given), abs=1e-9)
    assert abs(found - (logsumexp(both - given) - np.log(twin.n_draws))) > 1e-4


def test_rows_without_given_are_those_of_score_samples(
    exact: dv.DualViewMixture, mixed: dv.DualViewMixture
) -> None:
    for model, table in ((exact, people()), (mixed, mixed_people())):
        expected = model.score_samples(table[:6])
        np.testing.assert_allclose(model.log_density(table[:6]), expected, rtol=1e-9)


@pytest.mark.parametrize("given", [{}, {"age": 33.0, "rent": 700.0}, {"rent": 650.0, "town": "C"}])
def test_a_number_given_others_is_a_mixture_of_normals(
    exact: dv.DualViewMixture, given: dict[str, Any]
) -> None:
    found, twin = exact.predict_cells("income", given), Twin(exact)
    assert isinstance(found, NormalMixture)
    log_weights = twin.log_rows(given)
    weights = np.exp(log_weights - logsumexp(log_weights))
    means, sds = twin.normals("income", given)
    assert found.mean[0] == pytest.approx(weights @ means, rel=1e-9)
    assert found.cdf([2200.0])[0] == pytest.approx(
        weights @ stats.norm.cdf(2200.0, means, sds), abs=1e-9
    )
    density = exact.log_density({"income": 2222.0}, given=given or None)
    assert found.log_density([2222.0])[0] == pytest.approx(density[0], abs=1e-9)
    if "age" in given:  # columns that are independent inside clusters
        alone = twin.normals("income", {})[0]
        assert abs(weights @ alone - found.mean[0]) > 1.0


def test_several_rows_are_predicted_each_given_its_own(exact: dv.DualViewMixture) -> None:
    rows = {"age": [28.0, 40.0, None], "town": ["A", None, "B"]}
    found = exact.predict_cells("rent", rows)
    for j in range(3):
        one = {name: values[j] for name, values in rows.items() if values[j] is not None}
        alone = exact.predict_cells("rent", one)
        assert found.mean[j] == pytest.approx(alone.mean[0], rel=1e-12)
        np.testing.assert_allclose(found.interval()[j], alone.interval()[0])


def test_levels_are_enumerated(exact: dv.DualViewMixture) -> None:
    given = {"age": 33.0, "income": 2250.0, "member": False}
    found, twin = exact.predict_cells("town", given), Twin(exact)
    assert isinstance(found, CellLevels)
    log_rows = twin.log_rows(given)
    weights = np.exp(log_rows - logsumexp(log_rows))
    expected = sum(w * own["town"] for w, own in zip(weights, twin.shares, strict=True))
    np.testing.assert_allclose(found.probabilities[0], expected, rtol=1e-9)
    by_density = [exact.log_density({"town": level}, given=given)[0] for level in "ABC"]
    np.testing.assert_allclose(np.log(found.probabilities[0]), by_density, atol=1e-9)
    drawn = found.draws(4000, seed=1)[:, 0]
    share, p = (drawn == "A").mean(), found.probabilities[0, 0]
    assert abs(share - p) < ACCEPT * np.sqrt(p * (1 - p) / 4000)
    assert found.log_density(["B"])[0] == pytest.approx(np.log(found.probabilities[0, 1]))


def test_ratings_and_counts_agree_with_the_densities_of_their_values(
    mixed: dv.DualViewMixture,
) -> None:
    """Given exact numbers, and given a count and a rating, which are intervals."""
    for given, error in (
        ({"age": 33.0}, 1e-9),
        ({"posts": 9, "size": 175.5}, 0.05),
    ):
        found = mixed.predict_cells("grade", given, n_draws=4000)
        levels = ["low", "mid", "high", "top"]
        expected = np.exp(mixed.log_density({"grade": levels}, given=given))
        np.testing.assert_allclose(found.probabilities[0], expected, atol=error)
        assert found.median[0] in levels
    given = {"age": 33.0, "town": "B"}
    counts = mixed.predict_cells("posts", given)
    assert isinstance(counts, CountMixture)
    assert float(counts.median[0]).is_integer()
    expected = mixed.log_density({"posts": [0, 4, 20]}, given=given)
    found = [counts.log_density([value])[0] for value in (0.0, 4.0, 20.0)]
    np.testing.assert_allclose(found, expected, atol=1e-8)


def test_rounded_limited_and_censored_numbers(mixed: dv.DualViewMixture) -> None:
    given = {"age": 33.0}
    size = mixed.predict_cells("size", given)
    assert isinstance(size, IntervalMixture)
    expected = mixed.log_density({"size": 171.5}, given=given)
    assert size.log_density([171.5])[0] == pytest.approx(expected[0], abs=1e-8)
    earned = mixed.predict_cells("earned", given)
    expected = mixed.log_density({"earned": 1500.0}, given=given)
    assert earned.log_density([1500.0])[0] == pytest.approx(expected[0], abs=1e-8)
    at_least = mixed.log_density({"low": 1500.0}, given=given)
    assert np.exp(at_least[0]) == pytest.approx(1.0 - earned.cdf([1500.0])[0], abs=1e-8)
    share = mixed.predict_cells("share", given)
    assert isinstance(share, LimitedMixture)
    drawn = share.draws(20_000, seed=3)[:, 0]
    assert 0.0 <= drawn.min() < drawn.max() <= 1.0
    assert abs(drawn.mean() - share.mean[0]) < ACCEPT * drawn.std() / np.sqrt(len(drawn))
    assert share.std[0] == pytest.approx(drawn.std(), rel=0.05)
    assert share.interval(0.999)[0].tolist() == [0.0, 1.0]


def test_made_up_users_have_the_frequencies_of_the_densities(
    exact: dv.DualViewMixture, mixed: dv.DualViewMixture
) -> None:
    n = 4000
    for model, given, column in ((exact, {"town": "A"}, "rent"), (mixed, {"age": 38.0}, "earned")):
        made, law = model.sample(n, given, seed=5), model.predict_cells(column, given)
        for level in (0.1, 0.5, 0.9):
            share = (made[column] <= law.quantile(level)[0]).mean()
            assert abs(share - level) < ACCEPT * np.sqrt(level * (1 - level) / n)
    for name, value in (("grade", "mid"), ("posts", 3), ("town", "C")):
        p = np.exp(mixed.log_density({name: value}, given={"age": 38.0})[0])
        share = (made[name] == value).mean()
        assert abs(share - p) < ACCEPT * np.sqrt(p * (1 - p) / n) + 0.003, name


def test_made_up_users_come_as_the_fits_table(mixed: dv.DualViewMixture) -> None:
    made = mixed.sample(50, {"town": "B", "posts": 4})
    assert list(made) == ["age", "town", "posts", "grade", "size", "earned", "share"]
    assert made["posts"].dtype == np.int64
    assert (made["posts"] == 4).all()
    assert (made["town"] == "B").all()
    assert list(made["grade"].cat.categories) == ["low", "mid", "high", "top"]
    assert ((made["size"] * 2) % 1 == 0).all()
    assert made["share"].between(0.0, 1.0).all()
    assert np.isfinite(mixed.log_density(made)).all()
    pd.testing.assert_frame_equal(made, mixed.sample(50, {"town": "B", "posts": 4}))
    assert not made["age"].equals(mixed.sample(50, {"town": "B", "posts": 4}, seed=1)["age"])
    between = mixed.sample(50, {"low": 1200.0, "high": 1300.0})
    assert between["earned"].between(1200.0, 1300.0).all()


def test_cells_that_are_made_up_go_together(exact: dv.DualViewMixture) -> None:
    """Income and rent, which go together inside clusters."""
    made = exact.sample(2000)
    rest = made["rent"] - 0.3 * made["income"]
    assert rest.std() < 0.5 * made["rent"].std()
    shuffled = made["rent"].sample(frac=1.0, random_state=0).to_numpy() - 0.3 * made["income"]
    assert shuffled.std() > 0.5 * made["rent"].std()


def entropy(p: np.ndarray) -> np.ndarray:
    return -np.sum(p * np.log(p))


def test_mutual_information_of_levels_is_exact(exact: dv.DualViewMixture) -> None:
    twin, found = Twin(exact), exact.dependence()
    expected = []
    for i in range(twin.n_draws):
        joint = sum(
            twin.weights[row] * np.outer(twin.shares[row]["town"], twin.shares[row]["member"])
            for row in np.flatnonzero(twin.owner == i)
        )
        sides = entropy(joint.sum(axis=0)) + entropy(joint.sum(axis=1))
        expected.append(sides - entropy(joint))
    i, j = found.columns.index("town"), found.columns.index("member")
    np.testing.assert_allclose(found.draws[:, i, j], expected, atol=1e-10)
    assert found.errors[i, j] == 0.0
    assert found.low.loc["town", "member"] <= found.matrix.loc["member", "town"]


def test_mutual_information_of_normal_columns_in_one_cluster() -> None:
    """It is −ln(1 − ρ²)/2 in every draw; columns that are independent have none."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((50, 3))
    x[:, 1] = x[:, 0] + 0.8 * x[:, 1]
    model = dv.DualViewMixture(1, **SHORT).fit(x)
    found, post = model.dependence(), model.posterior_
    factors, units = post.components["features.factors"], post.spec.units["features"]
    spreads = units.factor @ np.linalg.inv(factors @ np.swapaxes(factors, 1, 2)) @ units.factor.T
    roots = np.sqrt(np.diagonal(spreads, axis1=1, axis2=2))
    rho = spreads / roots[:, :, None] / roots[:, None, :]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        expected = -0.5 * np.log1p(-(rho[:, i, j] ** 2))
        error = max(found.errors[i, j], 1e-3)
        assert abs(found.draws[:, i, j].mean() - expected.mean()) < ACCEPT * error
        width = np.ptp(np.quantile(found.draws[:, i, j], (0.025, 0.975)))
        assert found.errors[i, j] < max(0.1 * width, 1e-3)
    assert found.pairs.loc[0, ["column", "other"]].tolist() == ["x0", "x1"]
    assert found.correlation.loc["x0", "x1"] == pytest.approx(np.abs(rho[:, 0, 1]).mean(), abs=0.03)
    assert np.isnan(np.diag(found.matrix)).all()


def test_mutual_information_of_a_number_and_levels(exact: dv.DualViewMixture) -> None:
    """Against a sum over a grid of the number."""
    twin, found = Twin(exact), exact.dependence()
    grid = np.linspace(0.0, 70.0, 4001)
    expected = []
    for i in range(twin.n_draws):
        joint = np.zeros((3, len(grid)))
        for row in np.flatnonzero(twin.owner == i):
            sd = np.sqrt(twin.covariances[row][0, 0])
            density = stats.norm.pdf(grid, twin.means[row][0], sd) * (grid[1] - grid[0])
            joint += twin.weights[row] * np.outer(twin.shares[row]["town"], density)
        ratio = joint / joint.sum(axis=0).clip(1e-300) / joint.sum(axis=1, keepdims=True)
        expected.append(np.sum(joint * np.log(ratio.clip(1e-300))))
    i, j = found.columns.index("age"), found.columns.index("town")
    error = max(found.errors[i, j], 1e-3)
    assert abs(found.draws[:, i, j].mean() - np.mean(expected)) < ACCEPT * error
    assert np.corrcoef(found.draws[:, i, j], expected)[0, 1] > 0.9


def left_out(twin: Twin, model: dv.DualViewMixture, user: int) -> float:
    """The two-sided tail probability of a user's rent, the user and the cell left out."""
    post, cells = model.posterior_, people().loc[user].to_dict()
    rest = {name: value for name, value in cells.items() if name != "rent"}
    alpha, counts = post.flat("alpha"), post.components["count"].astype(float).copy()
    first = np.searchsorted(twin.owner, np.arange(twin.n_draws))
    counts[first + post.flat("z")[:, user]] -= 1.0
    weights = counts + alpha[twin.owner] / 2
    log_rows = twin.log_rows(rest) - np.log(twin.weights) + np.log(weights)
    means, sds = twin.normals("rent", rest)
    below, height = (
        stats.norm.cdf(cells["rent"], means, sds),
        stats.norm.pdf(cells["rent"], means, sds),
    )
    tails, densities = [], []
    for i in range(twin.n_draws):
        own = twin.owner == i
        w = np.exp(log_rows[own] - logsumexp(log_rows[own]))
        tails.append(w @ below[own])
        densities.append(w @ height[own])
    of_draws = 1.0 / np.array(densities)
    of_draws = np.minimum(of_draws, of_draws.mean() * np.sqrt(len(of_draws)))
    tail = of_draws @ np.array(tails) / of_draws.sum()
    return float(2.0 * min(tail, 1.0 - tail))


def test_cells_are_judged_without_themselves(exact: dv.DualViewMixture) -> None:
    """A mutant that leaves the cell in is another number."""
    found = exact.surprising_cells(1000).set_index(["user", "column"])
    assert len(found) == people().size
    assert found["probability"].is_monotonic_increasing
    twin = Twin(exact)
    for user in (0, 7, 20):
        expected = left_out(twin, exact, user)
        assert found.loc[(user, "rent"), "probability"] == pytest.approx(expected, abs=1e-8)
        own = people().loc[user].to_dict()
        law = exact.predict_cells("rent", {name: own[name] for name in own if name != "rent"})
        inside = 2.0 * min(law.cdf([own["rent"]])[0], 1.0 - law.cdf([own["rent"]])[0])
        assert abs(inside - expected) > 1e-4
    low, high = found["low_95"].to_numpy(dtype=float), found["high_95"].to_numpy(dtype=float)
    value = pd.to_numeric(found["value"], errors="coerce").to_numpy()
    numbers = found.index.get_level_values("column").isin(NUMBERS)
    outside = (value < low) | (value > high)
    np.testing.assert_array_equal(outside[numbers], found["probability"][numbers] < 0.05)


def test_a_wrong_entry_of_every_kind_comes_first() -> None:
    """Four users have a number of the other group each."""
    rng, group = np.random.default_rng(3), np.arange(60) % 2
    of_cells = np.tile(group[:, None], (1, 4))
    wrong = {(6, "age"), (9, "posts"), (12, "size"), (15, "earned")}
    names = ["age", "posts", "size", "earned"]
    for user, name in wrong:
        of_cells[user, names.index(name)] = 1 - group[user]
    earned = rng.normal(1000.0 + 2000.0 * of_cells[:, 3], 100.0)
    table = pd.DataFrame(
        {
            "age": rng.normal(30.0 + 20.0 * of_cells[:, 0], 2.0),
            "posts": rng.poisson(np.where(of_cells[:, 1] == 1, 80, 5)),
            "size": np.round(rng.normal(150.0 + 30.0 * of_cells[:, 2], 2.0) / 0.5) * 0.5,
            "low": earned,
            "high": np.where(np.arange(60) % 7 == 0, np.inf, earned),
        }
    )
    columns = {name: kind for name, kind in COLUMNS.items() if name in names}
    found = dv.DualViewMixture(2, columns=columns, **SHORT).fit(table).surprising_cells(8)
    assert set(zip(found["user"][:4], found["column"][:4], strict=True)) == wrong
    assert (found["probability"][:4] < 0.1 * found["probability"][4]).all()


def test_a_category_that_does_not_go_with_the_rest() -> None:
    rng = np.random.default_rng(6)
    group = np.arange(60) % 2
    table = pd.DataFrame(
        {
            "height": rng.normal(10.0 * group, 1.0),
            "town": np.where(group == 1, "Metz", "Lyon"),
            "grade": pd.Categorical.from_codes(
                2 * group + (rng.random(60) < 0.5), list("abcd"), ordered=True
            ),
        }
    )
    table.loc[8, "town"] = "Metz"
    table.loc[11, "grade"] = "a"
    found = dv.DualViewMixture(2, **SHORT).fit(table).surprising_cells(2)
    assert set(zip(found["user"], found["column"], strict=True)) == {(8, "town"), (11, "grade")}
    assert set(found["expected"]) <= {"Lyon", "c", "d"}


@pytest.mark.parametrize("agreement", [None, pytest.param("learned", marks=pytest.mark.slow)])
def test_several_tables_and_labels_of_their_own(agreement: str | None) -> None:
    table = people()
    tables = {"profile": table[["age", "town"]], "money": table[["income", "rent"]]}
    forum = dv.datasets.agreement(40, 60, seed=0)
    behavior = dv.SharedOutcome(forum.participation, forum.outcome)
    model = dv.DualViewMixture(2, agreement=agreement, **SHORT).fit(tables, behavior)
    first, second = {"profile.age": 33.0}, {"money.rent": 650.0}
    both = model.log_density({**first, **second})
    found = model.log_density(second, given=first) + model.log_density(first)
    np.testing.assert_allclose(found, both, atol=1e-9)
    law = model.predict_cells("money.rent", first)
    assert law.log_density([650.0])[0] == pytest.approx(
        model.log_density(second, given=first)[0], abs=1e-8
    )
    made = model.sample(2000, first)
    share = (made["money.rent"] <= law.quantile(0.3)[0]).mean()
    assert abs(share - 0.3) < ACCEPT * np.sqrt(0.21 / 2000)
    assert np.isfinite(model.dependence().pairs["information"]).all()
    if agreement is None:
        assert len(model.surprising_cells(3)) == 3
    else:
        with pytest.raises(InputError, match="several tables of features may disagree"):
            model.surprising_cells(3)


def test_thinned_draws_are_some_of_the_posteriors(exact: dv.DualViewMixture) -> None:
    post = exact.posterior_
    few = thinned(post, 4)
    assert (few.n_chains, few.n_draws) == (2, 2)
    np.testing.assert_array_equal(few["z"][:, 0], post["z"][:, 0])
    np.testing.assert_array_equal(few["alpha"][:, -1], post["alpha"][:, -1])
    counts = np.bincount(few.components["owner"], weights=few.components["count"])
    assert (counts == post.n_users).all()
    last = post.components["owner"] == post.n_chains * post.n_draws - 1
    np.testing.assert_array_equal(
        few.components["features.means"][few.components["owner"] == 3],
        post.components["features.means"][last],
    )
    assert thinned(post, 1000) is post


def test_messages(exact: dv.DualViewMixture, mixed: dv.DualViewMixture) -> None:
    cases: list[tuple[Any, str]] = [
        (lambda: exact.sample(0), "n must be"),
        (lambda: exact.sample(3, {"height": 1.0}), "given has height, which the fit has no column"),
        (lambda: exact.sample(3, {"age": [1.0, 2.0]}), "given must be one row"),
        (lambda: exact.sample(3, {"town": "Z"}), "unknown level"),
        (lambda: exact.sample(3, {"age": "old"}), "must hold numbers"),
        (lambda: mixed.sample(3, {"posts": 1.5}), "is a count in the fit"),
        (lambda: mixed.sample(3, {"earned": "much"}), "'earned' is censored in the fit"),
        (lambda: exact.log_density({"age": [1.0], "rent": [1.0, 2.0]}), "same number of values"),
        (
            lambda: exact.log_density({"age": [1.0, 2.0]}, {"rent": [1.0, 2.0, 3.0]}),
            "given must have one row, or one for each row that is asked about, 2; it has 3",
        ),
        (lambda: exact.log_density({"age": 1.0}, {"age": 1.0}), "age are in both"),
        (lambda: exact.predict_cells("height"), "The fit has no column 'height'"),
        (lambda: exact.predict_cells("age", {"age": 1.0}), "'age' is to be predicted, but given"),
        (lambda: exact.predict_cells("town").quantile(0.5), "without an order have no quantiles"),
        (lambda: exact.predict_cells("town").log_density(["Z"]), "Levels are A, B, C; got 'Z'"),
        (lambda: exact.dependence(probability=2.0), "between 0 and 1"),
        (lambda: exact.surprising_cells(0), "n must be"),
    ]
    for ask, message in cases:
        with pytest.raises(InputError, match=message):
            ask()
    forum = dv.datasets.agreement(10, 20, seed=0)
    without = dv.DualViewMixture(1, n_draws=5, n_chains=1, engine=dv.Gibbs(n_warmup=5))
    without.fit(None, dv.SharedOutcome(forum.participation, forum.outcome))
    with pytest.raises(InputError, match="without features, so there are no columns"):
        without.dependence()
    assert mixed.sample(3, {"town": "Z"}, unknown="missing")["town"].notna().all()
