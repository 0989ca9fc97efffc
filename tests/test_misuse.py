"""Obvious misuse of the public functions: an error of ours that says what was wanted, what came and
what to do."""

import re
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

import dualview as dv
from dualview.errors import ConvergenceWarning, DualViewError, InputError, InputTypeError
from dualview.inputs.cells import checked_table, new_cells

FORUM = dv.datasets.agreement(12, 20, seed=0)
USER = np.repeat(np.arange(12), 3)
RNG = np.random.default_rng(0)
DESIGN, Y = RNG.normal(size=(36, 2)), RNG.normal(size=36)
TABLE = pd.DataFrame({"user": USER, "dose": DESIGN[:, 0], "y": Y})
THREADS = dv.SharedOutcome(FORUM.participation, FORUM.outcome)
ANSWERS = dv.UserRegression(USER, DESIGN, Y)
RAGGED = [[1.0, 2.0], [3.0], [4.0, 5.0]]
ODD: list[Any] = [
    None,
    "x",
    "",
    3,
    -1,
    2.5,
    1e12,
    True,
    [],
    [[]],
    RAGGED,
    {},
    object(),
    np.ones((2, 2, 2)),
    float("nan"),
]


class Things(NamedTuple):
    """What is misused: a fit of threads, one of regressions, and predictions of both kinds."""

    model: dv.DualViewMixture
    vector: dv.DualViewMixture
    outcome: Any
    latent: Any
    vectors: Any


@pytest.fixture(scope="module")
def things() -> Things:
    models = [dv.DualViewMixture(n_warmup=2, n_draws=5, n_chains=2, n_jobs=1) for _ in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model, vector = (
            models[0].fit(FORUM.features, THREADS),
            models[1].fit(FORUM.features, ANSWERS),
        )
    some = FORUM.features[:2]
    return Things(
        model,
        vector,
        model.predict_outcome(THREADS),
        model.predict_latent(some),
        vector.predict_latent(some),
    )


MESSAGES: dict[str, tuple[Callable[[Things], Any], type[InputError], str]] = {
    "matrix": (
        lambda _: dv.DualViewMixture().fit(np.matrix(FORUM.features)),
        InputTypeError,
        r"np\.matrix\. Pass np\.asarray\(X\)",
    ),
    "new matrix": (
        lambda t: t.model.predict(np.matrix(FORUM.features)),
        InputTypeError,
        r"np\.matrix\. Pass np\.asarray\(X\)",
    ),
    "matrix of outcomes": (
        lambda _: dv.UserRegression(USER, DESIGN, np.matrix(Y)),
        InputError,
        r"outcome must be one-dimensional; got an array of shape \(1, 36\)\. Pass "
        r"np\.asarray\(outcome\)\.ravel\(\)",
    ),
    "ragged": (
        lambda _: dv.DualViewMixture().fit(RAGGED),
        InputError,
        r"X must have rows of one length; row 0 has 2 value\(s\), row 1 has 1 value\(s\); .* "
        r"Fill the gaps",
    ),
    "ragged design": (
        lambda _: dv.UserRegression([0, 1, 2], RAGGED, [1, 2, 3]),
        InputError,
        "design must have rows of one length",
    ),
    "ragged participation": (
        lambda _: dv.SharedOutcome(RAGGED),
        InputError,
        "participation must have rows of one length",
    ),
    "ragged users": (
        lambda _: dv.UserRegression([[0], [1, 2]], DESIGN, Y),
        InputError,
        "user must have rows of one length",
    ),
    "negative": (
        lambda t: t.outcome.draws(-5),
        InputError,
        r"n, the number of draws, must be a whole number of at least 0; got -5\.",
    ),
    "fraction": (
        lambda t: t.outcome.draws(2.5),
        InputError,
        r"whole number of at least 0; got 2\.5\.",
    ),
    "huge float": (
        lambda t: t.latent.draws(1e12),
        InputError,
        "whole number of at least 0; got 1000000000000.0",
    ),
    "huge": (
        lambda t: t.vectors.draws(10**15),
        InputError,
        r"1,000,000,000,000,000 draws of 4 numbers each take 32,000,000 GB, and this machine "
        r"has .* GB\. Draw fewer",
    ),
    "seed": (
        lambda t: t.outcome.draws(seed=-1),
        InputError,
        r"seed must be a whole number of at least 0; got -1\.",
    ),
    "load": (
        lambda _: dv.load(None),
        InputTypeError,
        r"path must be the name of a file or folder, .* got None\.",
    ),  # type: ignore[arg-type]
    "save": (
        lambda t: t.model.posterior_.save(3),
        InputTypeError,
        r"path must be the name of a file .* got 3\.",
    ),  # type: ignore[arg-type]
    "take": (
        lambda _: THREADS.take([999]),
        InputError,
        r"mask of the 20 threads; got 999\. Positions go from 0 to 19",
    ),
    "take answers": (
        lambda _: ANSWERS.take([999]),
        InputError,
        r"mask of the 36 observations; got 999\. Positions go from 0 to 35",
    ),
    "take from the end": (
        lambda _: ANSWERS.take([-37]),
        InputError,
        r"got -37\. Positions go from 0 to 35, those from the end from -1 to -36",
    ),
    "short mask": (
        lambda _: THREADS.take([True, False]),
        InputError,
        r"got a mask of length 2\. A mask has a value for each",
    ),
    "Series as design": (
        lambda _: dv.UserRegression(TABLE["user"], TABLE["dose"], TABLE["y"]),
        InputError,
        r"design must be a table .*; got a Series\. .* design\.to_frame\(\), or "
        r"table\[\['dose'\]\]\.$",
    ),
    "Series as X": (
        lambda _: dv.DualViewMixture().fit(TABLE["dose"]),
        InputError,
        r"got a Series\. .* X\.to_frame\(\)",
    ),
    "Series of text": (
        lambda _: dv.DualViewMixture().fit(pd.Series(list("abc"))),
        InputError,
        r"got a Series\. .* X\.to_frame\(\)",
    ),
    "table as outcome": (
        lambda _: dv.UserRegression(TABLE["user"], TABLE[["dose"]], TABLE[["y"]]),
        InputError,
        r"got a table of shape \(36, 1\)\. Pass the column itself, as in table\['y'\]\.",
    ),
    "other columns": (
        lambda t: t.model.predict(np.ones((2, 5))),
        InputError,
        "X has 5 features, but .* expecting 2",
    ),
    "posterior": (
        lambda _: dv.DualViewMixture.from_posterior("x"),
        InputTypeError,
        r"takes a Posterior, such as dv\.load",
    ),  # type: ignore[arg-type]
    "observations": (
        lambda t: t.model.check("x"),
        InputTypeError,
        r"a SharedOutcome with outcomes; got 'x'",
    ),  # type: ignore[arg-type]
    "kinds": (
        lambda _: dv.DualViewMixture(columns="x").fit(FORUM.features),
        InputTypeError,
        "columns must be a dictionary",
    ),  # type: ignore[arg-type]
    "number of levels": (
        lambda _: dv.OrdinalOutcomes(USER, DESIGN, USER % 3, levels=3),
        InputTypeError,
        r"levels must list names or numbers in order, .*; got 3\.",
    ),  # type: ignore[arg-type]
    "set of levels": (
        lambda _: dv.OrdinalOutcomes(USER, DESIGN, USER % 3, levels={0, 1, 2}),
        InputTypeError,
        "levels must list names or numbers in order",
    ),  # type: ignore[arg-type]
    "levels that are missing": (
        lambda _: dv.OrdinalOutcomes(USER, DESIGN, USER % 3, levels=[0, 1, 2, float("nan")]),
        InputTypeError,
        "levels must list names or numbers in order",
    ),
    "intercept twice": (
        lambda _: dv.UserRegression(
            USER, pd.DataFrame({"intercept": np.ones(36)}), Y, intercept=True
        ),
        InputError,
        "design has a column 'intercept', and intercept=True puts one before it",
    ),
    "ids": (
        lambda _: dv.UserRegression(USER, DESIGN, Y, users=3),
        InputTypeError,
        "users must be a list of ids",
    ),  # type: ignore[arg-type]
}


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("name", MESSAGES)
def test_the_message_says_what_was_wanted_what_came_and_what_to_do(
    things: Things, name: str
) -> None:
    call, kind, message = MESSAGES[name]
    with pytest.raises(kind) as caught:
        call(things)
    assert re.search(message, str(caught.value)), str(caught.value)
    assert "reshape" not in str(caught.value) or "Series" not in str(caught.value)


def test_masked_cells_are_missing(things: Things) -> None:
    hidden = np.arange(FORUM.features.size).reshape(FORUM.features.shape) % 5 == 0
    masked = np.ma.masked_array(FORUM.features, hidden)
    _, codebook, cells = checked_table(dv.DualViewMixture(), masked)
    assert codebook is not None
    assert cells is not None
    np.testing.assert_array_equal(cells.missing, hidden)
    some = np.where(hidden, np.nan, FORUM.features)[:4]
    np.testing.assert_array_equal(
        things.model.predict_proba(masked[:4]), things.model.predict_proba(some)
    )
    with pytest.raises(InputError, match="take needs positions"):
        ANSWERS.take(np.ma.masked_array([0, 1], [True, False]))
    for values in (["a", "b"], [1j, 2.0]):
        with pytest.raises(InputError, match="must hold numbers only"):
            dv.UserRegression(USER[:2], DESIGN[:2], np.ma.masked_array(values, [True, False]))


def test_names_of_columns_are_checked_in_our_words() -> None:
    table = pd.DataFrame(FORUM.features, columns=["posts", "degree"])
    fitted = dv.DualViewMixture()
    codebook = checked_table(fitted, table)[1]
    for other in (table[["degree", "posts"]], table[["posts"]]):
        with pytest.raises(InputError, match="feature names should match"):
            new_cells(fitted, codebook, other, in_order=True)
    gaps = table.set_axis([0, "degree"], axis=1)
    gaps.iloc[0, 0] = np.nan
    with pytest.raises(InputTypeError, match="all input features have string names"):
        checked_table(dv.DualViewMixture(), gaps)


def test_a_table_may_be_sparse() -> None:
    table = pd.DataFrame(FORUM.features, columns=["posts", "degree"])
    features, *_ = checked_table(dv.DualViewMixture(), table.astype(pd.SparseDtype(float)))
    np.testing.assert_array_equal(features, FORUM.features)


CALLS: dict[str, Callable[[Things, Any], Any]] = {
    "fit": lambda _, value: dv.DualViewMixture(n_warmup=1, n_draws=2, n_chains=1).fit(value),
    "predict": lambda t, value: t.model.predict(value),
    "predict_proba": lambda t, value: t.model.predict_proba(value),
    "score_samples": lambda t, value: t.model.score_samples(value),
    "score": lambda t, value: t.model.score(value),
    "impute": lambda t, value: t.model.impute(value),
    "predict_latent": lambda t, value: t.model.predict_latent(value),
    "predict_outcome": lambda t, value: t.model.predict_outcome(value),
    "predict_outcome of answers": lambda t, value: t.vector.predict_outcome(value),
    "draws": lambda t, value: t.outcome.draws(value),
    "draws of latent numbers": lambda t, value: t.latent.draws(value),
    "draws of latent vectors": lambda t, value: t.vectors.draws(value),
    "interval": lambda t, value: t.outcome.interval(value),
    "log_density": lambda t, value: t.outcome.log_density(value),
    "posterior by name": lambda t, value: t.model.posterior_[value],
    "posterior interval": lambda t, value: t.model.posterior_.interval(value),
    "posterior probability": lambda t, value: t.model.posterior_.interval("alpha", value),
    "partition": lambda t, value: t.model.posterior_.partition(value),
    "groups for ArviZ": lambda t, value: t.model.posterior_.to_arviz(
        ["nothing"] if value is None else value
    ),
    "variables for ArviZ": lambda t, value: t.model.posterior_.to_arviz(
        ["log_likelihood"], variables=["nothing"] if value is None else value
    ),
    "check": lambda t, value: t.model.check(value if value is not None else "none", refit=False),
    "from_posterior": lambda _, value: dv.DualViewMixture.from_posterior(value),
    "load": lambda _, value: dv.load(value),
    "Shards": lambda _, value: dv.Shards(value),
    "take": lambda _, value: THREADS.take(value),
    "take of answers": lambda _, value: ANSWERS.take(value),
    "split": lambda _, value: list(THREADS.split(value)),
    "split of answers": lambda _, value: list(ANSWERS.split(value)),
    "participation": lambda _, value: dv.SharedOutcome(value),
    "outcome of threads": lambda _, value: dv.SharedOutcome(FORUM.participation, value),
    "user": lambda _, value: dv.UserRegression(value, DESIGN, Y),
    "design": lambda _, value: dv.UserRegression(USER, value, Y),
    "outcome": lambda _, value: dv.UserRegression(USER, DESIGN, value),
    "common": lambda _, value: dv.UserRegression(USER, DESIGN, Y, common=value),
    "users": lambda _, value: dv.UserRegression(USER, DESIGN, Y, users=value),
    "yes or no": lambda _, value: dv.BinaryOutcomes(USER, DESIGN, value),
    "ratings": lambda _, value: dv.OrdinalOutcomes(USER, DESIGN, value),
    "levels": lambda _, value: dv.OrdinalOutcomes(USER, DESIGN, USER % 3, levels=value),
    "kind of outcomes": lambda _, value: dv.UserRegression(
        USER, DESIGN, Y, outcome_kind={"kind": value}
    ),
    "what compare leaves out": lambda t, value: dv.compare({"a": t.model, "b": t.model}, by=value),
    "items": lambda _, value: dv.PairwiseChoices(USER, USER % 3, (USER + 1) % 3, value),
    "rankings": lambda _, value: dv.Rankings(USER, value, DESIGN),
    "describe_columns": lambda _, value: dv.describe_columns(value),
    "calibrate": lambda _, value: dv.calibrate(value),
    "kinds of columns": lambda _, value: dv.DualViewMixture(columns=value, n_clusters=-1).fit(
        FORUM.features
    ),
}


@pytest.mark.filterwarnings(
    "ignore::dualview.errors.ConvergenceWarning", "ignore::dualview.errors.DataWarning"
)
@pytest.mark.parametrize("name", CALLS)
def test_whatever_comes_is_taken_or_refused_in_our_words(things: Things, name: str) -> None:
    messages: list[str] = []
    for value in ODD:
        try:
            CALLS[name](things, value)
        except DualViewError as error:
            messages.append(str(error))
        except Exception as error:
            pytest.fail(f"{name} of {value!r} raises {type(error).__name__}: {error}")
    assert all(len(message) > 20 for message in messages), messages
