"""What tab completion, dir, hasattr and notebooks look at: each attribute is there or is an
AttributeError, after every fit."""

import inspect
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dualview as dv
from dualview.errors import AbsentError, ConvergenceWarning, InputError
from dualview.posterior.prediction.candidates import Candidates

FORUM = dv.datasets.agreement(12, 20, seed=0)
USER = np.repeat(np.arange(12), 2)
DESIGN = np.random.default_rng(0).normal(size=(24, 2))
THREADS = dv.SharedOutcome(FORUM.participation, FORUM.outcome)
ANSWERS = dv.UserRegression(USER, DESIGN, DESIGN.sum(axis=1) + USER)

FITS: dict[str, tuple[Any, Any]] = {
    "features": (FORUM.features, None),
    "behavior": (None, THREADS),
    "both": (FORUM.features, THREADS),
    "several": (FORUM.features, {"posts": THREADS, "answers": ANSWERS}),
}
BEHAVIORS = {
    "threads": THREADS,
    "threads to predict": dv.SharedOutcome(FORUM.participation),
    "answers": ANSWERS,
    "answers to predict": dv.UserRegression(USER, DESIGN),
    "yes or no to predict": dv.BinaryOutcomes(USER, DESIGN),
    "choices to predict": dv.PairwiseChoices(USER, USER % 3, (USER + 1) % 3, np.eye(3)[:, :2]),
    "rankings to predict": dv.Rankings(USER, USER, DESIGN),
}


@pytest.fixture(scope="module")
def fitted() -> dict[str, dv.DualViewMixture]:
    models = {
        name: dv.DualViewMixture(n_warmup=2, n_draws=5, n_chains=2, n_jobs=1)
        for name in [*FITS, "unfitted"]
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for name, (X, behavior) in FITS.items():
            models[name].fit(X, behavior)
    return models


def assert_can_be_looked_at(thing: Any) -> None:
    """A name that the class has is there, or hasattr says that it is not; nothing else is
    raised."""
    for name in {*dir(type(thing)), *vars(thing)}:
        hasattr(thing, name)
    assert dir(thing)
    inspect.getmembers(thing)
    repr(thing)
    for display in ("_repr_html_", "_repr_mimebundle_"):
        if hasattr(thing, display):
            assert getattr(thing, display)()


@pytest.mark.parametrize("name", [*FITS, "unfitted"])
def test_a_model_can_be_looked_at(fitted: dict[str, dv.DualViewMixture], name: str) -> None:
    assert_can_be_looked_at(fitted[name])


@pytest.mark.parametrize("name", FITS)
def test_a_posterior_can_be_looked_at(fitted: dict[str, dv.DualViewMixture], name: str) -> None:
    assert_can_be_looked_at(fitted[name].posterior_)


@pytest.mark.parametrize("behavior", BEHAVIORS.values(), ids=BEHAVIORS)
def test_a_behavior_can_be_looked_at(behavior: Any) -> None:
    assert_can_be_looked_at(behavior)


def test_what_a_fit_of_features_has_not(fitted: dict[str, dv.DualViewMixture]) -> None:
    model = fitted["features"]
    assert not hasattr(model, "latent_")
    assert "latent_" not in dir(model)
    assert not hasattr(model.posterior_, "latent_median")
    assert not hasattr(model.posterior_, "latent_mean")
    with pytest.raises(
        AbsentError,
        match=r"fitted without a behavior, so it has no latent behavior: call fit\(X, behavior\)",
    ):
        _ = model.posterior_.latent_median
    assert issubclass(AbsentError, InputError)
    assert fitted["both"].posterior_.latent_median.shape == (12,)


def test_a_fit_that_fails_leaves_the_one_before(fitted: dict[str, dv.DualViewMixture]) -> None:
    """Once the columns of the new fit with the posterior of the old one."""
    model = fitted["features"]
    post, found = model.posterior_, model.predict_proba(FORUM.features)
    for X in (np.full((12, 1), np.nan), pd.DataFrame({"a": [np.inf, 1.0]}), None):
        with pytest.raises(InputError):
            model.fit(X)
        assert model.posterior_ is post
        assert model.n_features_in_ == 2
        assert not hasattr(model, "feature_names_in_")
        np.testing.assert_array_equal(model.predict_proba(FORUM.features), found)
    new = dv.DualViewMixture()
    with pytest.raises(InputError):
        new.fit(np.full((12, 1), np.inf))
    assert vars(new) == vars(dv.DualViewMixture())
    assert_can_be_looked_at(new)


def test_dir_computes_nothing(
    fitted: dict[str, dv.DualViewMixture], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    monkeypatch.setattr(Candidates, "__init__", lambda *_: made.append(1))
    dir(fitted["both"])
    assert made == []
