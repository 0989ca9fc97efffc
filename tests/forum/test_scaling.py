"""Which features reach the model, and in which shape."""

import numpy as np
import pandas as pd
import pytest

from dualview.errors import InputError
from dualview.forum.scaling import scale
from dualview.inputs.features import tied_columns


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def table(**columns: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(columns)


def test_skewed_columns_get_a_logarithm() -> None:
    draw = rng()
    flat, long = draw.normal(5, 1, 200), np.exp(draw.normal(0, 1.5, 200))
    with_zero = np.where(np.arange(200) < 10, 0.0, np.exp(draw.normal(3, 1.5, 200)))
    signed = np.sinh(draw.normal(0.5, 2, 200))
    scaled = scale(rng(), table(tenure_days=flat, pagerank=long, text_length=with_zero, score=signed), jitter=False)
    np.testing.assert_array_equal(scaled.features["tenure_days"], flat)
    np.testing.assert_allclose(scaled.features["pagerank"], np.log(long))
    assert scaled.transforms["tenure_days"] == "as it is"
    assert scaled.transforms["text_length"].startswith("log(x + ")
    assert scaled.transforms["score"].startswith("asinh")
    assert (np.abs(scaled.features.skew()) < 1).all()


def test_columns_with_ties_and_constants_are_left_out_with_reasons() -> None:
    draw = rng()
    activity = table(
        posts=draw.poisson(4, 100).astype(float),
        tenure_days=draw.normal(0, 1, 100),
        closeness=np.where(np.arange(100) < 40, 0.5, draw.normal(0, 1, 100)),
        score=np.full(100, 3.0),
    )
    scaled = scale(rng(), activity, jitter=False)
    assert list(scaled.features) == ["tenure_days"]
    assert "values for 100 users" in scaled.left_out["posts"]
    assert scaled.left_out["closeness"].startswith("40% of the users share a value")
    assert scaled.left_out["score"] == "the same for all users"
    assert not tied_columns(scaled.features.to_numpy()).any()


def test_jitter_keeps_counts_within_their_rounding() -> None:
    counts = rng().poisson(30, 100).astype(float)
    scaled = scale(rng(), table(posts=counts, tenure_days=rng().normal(0, 1, 100)), jitter=True)
    assert scaled.transforms["posts"] == "as it is"
    np.testing.assert_array_equal(np.floor(scaled.features["posts"]), counts)
    assert scaled.features["posts"].nunique() == 100


def test_what_other_columns_tell_is_left_out() -> None:
    draw = rng()
    a, b = draw.normal(size=(2, 100))
    scaled = scale(rng(), table(text_length=a, score=b, closeness=a - 2 * b + 0.1 * draw.normal(size=100)), jitter=False)
    assert list(scaled.features) == ["text_length", "score"]
    assert scaled.left_out["closeness"].endswith("explained by the features before it")


def test_nothing_left_is_an_error_with_all_reasons() -> None:
    with pytest.raises(InputError, match=r"No feature of the 20 users is left \(posts: .*--ties jitter"):
        scale(rng(), table(posts=np.arange(20) % 3 + 0.0), jitter=False)
