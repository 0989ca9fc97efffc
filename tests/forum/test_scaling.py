"""Which features reach the model, and in which shape."""

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from dualview.columns import Cells, Columns
from dualview.errors import InputError
from dualview.forum.activity import Activity, rounded_cases
from dualview.forum.scaling import Scaled, scale

Array = NDArray[np.float64]


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def table(**columns: Array) -> Activity:
    """Activity without rates."""
    values = pd.DataFrame(columns)
    return Activity(values, values[[]], values[[]])


def rates(
    name: str, cases: Array, each: Array, most: Array | None = None, **others: Array
) -> Activity:
    """Activity with one rate of cases, without an average."""
    low, high = (pd.DataFrame({name: end / each}) for end in rounded_cases(cases, most))
    return Activity(pd.DataFrame({name: cases / each} | others), low, high)


def cells_of(scaled: Scaled) -> Cells:
    return Columns.from_table(scaled.features).cells(scaled.features)


def test_skewed_columns_get_a_logarithm() -> None:
    draw = rng()
    flat, long = draw.normal(5, 1, 200), np.exp(draw.normal(0, 1.5, 200))
    with_zero = np.where(np.arange(200) == 7, 0.0, np.exp(draw.normal(3, 1.5, 200)))
    signed = np.sinh(draw.normal(0.5, 2, 200))
    scaled = scale(table(tenure_days=flat, pagerank=long, text_length=with_zero, score=signed))
    np.testing.assert_array_equal(scaled.features["tenure_days"], flat)
    np.testing.assert_allclose(scaled.features["pagerank"], np.log(long))
    assert scaled.transforms["tenure_days"] == "as it is"
    assert scaled.transforms["text_length"].startswith("log(x + ")
    assert scaled.transforms["score"].startswith("asinh")
    assert (np.abs(scaled.features.skew()) < 1).all()
    pd.testing.assert_frame_equal(scaled.features, scaled.numbers)


def test_counts_are_counts() -> None:
    draw = rng()
    posts, started = np.floor(np.exp(draw.normal(3, 1, 100))), draw.poisson(30, 100).astype(float)
    scaled = scale(table(posts=posts, started=started, in_degree=np.arange(100) % 2 + 3.0))
    assert [column.kind for column in Columns.from_table(scaled.features).columns] == [
        "count",
        "count",
        "nominal",
    ]
    np.testing.assert_array_equal(scaled.features["posts"], posts)
    assert scaled.transforms == {
        "posts": "count, log(1 + x)",
        "started": "count",
        "in_degree": "one of two counts",
    }
    np.testing.assert_allclose(scaled.numbers["posts"], np.log1p(posts))
    np.testing.assert_array_equal(scaled.numbers["started"], started)


def test_a_rate_that_users_share_is_known_to_half_a_case() -> None:
    draw = rng()
    threads = draw.integers(5, 12, 100).astype(float)
    started = draw.binomial(threads.astype(int), 0.3).astype(float)
    started[:2], threads[:2] = (0.0, 8.0), (6.0, 8.0)
    scaled = scale(rates("started_share", started, threads, most=threads))
    cells = cells_of(scaled)
    inner = (started > 0) & (started < threads)
    np.testing.assert_allclose(cells.low[inner, 0], (started - 0.5)[inner] / threads[inner])
    np.testing.assert_allclose(cells.high[inner, 0], (started + 0.5)[inner] / threads[inner])
    assert cells.low[0, 0] == -np.inf
    assert cells.high[0, 0] == pytest.approx(0.5 / 6)
    assert cells.low[1, 0] == pytest.approx(7.5 / 8)
    assert cells.high[1, 0] == np.inf
    assert scaled.transforms["started_share"] == "as it is, known to an interval"


def test_a_count_is_left_out_where_its_rate_is_a_feature() -> None:
    draw = rng()
    threads = draw.integers(5, 60, 100).astype(float)
    started = draw.binomial(threads.astype(int), draw.beta(1.0, 3.0, 100)).astype(float)
    scaled = scale(rates("started_share", started, threads, threads=threads, started=started))
    assert list(scaled.features) == ["started_share", "threads"]
    assert scaled.left_out["started"] == "started_share times threads"


def test_a_skewed_rate_has_its_ends_on_the_same_scale() -> None:
    draw = rng()
    posts = draw.integers(5, 40, 200).astype(float)
    points = np.floor(np.exp(draw.normal(1, 1.5, 200)))
    scaled = scale(rates("score", points, posts))
    assert scaled.transforms["score"].startswith("log(x + ")
    offset = float(scaled.transforms["score"].split("+ ")[1].split(")")[0])
    cells, some = cells_of(scaled), points > 0
    np.testing.assert_allclose(
        cells.low[some, 0], np.log((points - 0.5)[some] / posts[some] + offset), rtol=1e-3
    )
    assert (cells.low[~some, 0] == -np.inf).all()
    assert np.isfinite(cells.high).all()
    numbers = scaled.numbers["score"].to_numpy()
    assert ((cells.low[:, 0] < numbers) & (numbers < cells.high[:, 0])).all()


def test_a_rate_that_nobody_shares_is_a_number() -> None:
    characters, posts = rng().permutation(np.arange(1000.0, 1100.0)), np.full(100, 7.0)
    scaled = scale(rates("text_length", characters, posts))
    np.testing.assert_array_equal(scaled.features["text_length"], characters / posts)


def test_numbers_that_users_share_become_intervals_and_the_others_stay() -> None:
    values = np.array([0.5, 1.0, 2.0, 2.0, 5.0, 7.0, 7.0, 7.0 + 1e-15])
    scaled = scale(table(closeness=values))
    cells = cells_of(scaled)
    np.testing.assert_array_equal(cells.low[:, 0], [0.5, 1.0, 1.5, 1.5, 5.0, 6.0, 6.0, 6.0])
    np.testing.assert_array_equal(
        cells.high[:, 0], [0.5, 1.0, 3.5, 3.5, 5.0, np.inf, np.inf, np.inf]
    )
    floor = cells_of(scale(table(pagerank=8.0 - values)))
    np.testing.assert_array_equal(floor.low[5:, 0], [-np.inf] * 3)


@pytest.mark.parametrize("seed", range(5))
def test_no_exact_number_is_there_twice(seed: int) -> None:
    """Then no cluster can collapse on a value, (B1) of the model page."""
    draw = np.random.default_rng(seed)
    n = 60
    posts = draw.integers(3, 6, n).astype(float)
    tenure, pagerank = np.round(draw.normal(5, 1, n), 1), np.maximum(draw.normal(size=n), 0.0)
    activity = rates(
        "score",
        draw.integers(-2, 3, n) / 2,
        posts,
        tenure_days=tenure,
        pagerank=pagerank,
        posts=posts,
    )
    scaled = scale(activity)
    cells = cells_of(scaled)
    for column, exact in zip(cells.low.T, cells.exact.T, strict=True):
        assert len(np.unique(column[exact])) == exact.sum()
    assert (cells.low <= cells.high).all()
    assert not cells.missing.any()


def test_constants_and_rates_at_their_limit_are_left_out_with_reasons() -> None:
    draw = rng()
    threads = draw.integers(5, 12, 50).astype(float)
    values = pd.DataFrame(
        {"started_share": 0.3 / (threads + 1), "score": 3.0, "threads": threads, "posts": 0.0}
    )
    ends = [
        pd.DataFrame({"started_share": (end + 0.3) / (threads + 1)})
        for end in rounded_cases(np.zeros(50), None)
    ]
    scaled = scale(Activity(values, *ends))
    assert list(scaled.features) == ["threads"]
    assert scaled.left_out["started_share"] == "all users have the lowest possible"
    assert scaled.left_out["score"] == scaled.left_out["posts"] == "the same for all users"


def test_what_other_columns_tell_is_left_out() -> None:
    draw = rng()
    a, b = draw.normal(size=(2, 100))
    scaled = scale(table(text_length=a, score=b, closeness=a - 2 * b + 0.1 * draw.normal(size=100)))
    assert list(scaled.features) == list(scaled.numbers) == ["text_length", "score"]
    assert scaled.left_out["closeness"].endswith("explained by the features before it")


def test_nothing_left_is_an_error_with_all_reasons() -> None:
    with pytest.raises(
        InputError, match=r"No feature of the 20 users is left \(posts: the same .*--min-threads"
    ):
        scale(table(posts=np.full(20, 3.0)))


def test_cases_are_counted_in_their_own_step() -> None:
    low, high = rounded_cases(np.array([-0.5, 0.0, 1.5]), None)
    np.testing.assert_allclose(low, [-0.75, -0.25, 1.25])
    np.testing.assert_allclose(high, [-0.25, 0.25, 1.75])
    even, _ = rounded_cases(np.array([2.0, 4.0, 8.0]), None)
    np.testing.assert_array_equal(even, [1.5, 3.5, 7.5])
