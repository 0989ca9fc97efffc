"""How much of the library a newcomer is shown, and that former names still lead somewhere."""

import warnings
from typing import Any

import numpy as np
import pytest

import dualview as dv

USER = np.repeat(np.arange(6), 2)
DESIGN = np.ones((12, 1))
BEHAVIORS = {
    "threads": dv.SharedOutcome(np.eye(6), np.arange(6.0)),
    "answers": dv.UserRegression(USER, DESIGN, np.arange(12.0)),
    "yes or no": dv.BinaryOutcomes(USER, DESIGN, USER % 2),
    "levels": dv.OrdinalOutcomes(USER, DESIGN, USER % 3),
    "choices": dv.PairwiseChoices(USER, USER % 3, (USER + 1) % 3, np.eye(3)),
}


def shown(thing: Any) -> list[str]:
    return [name for name in dir(thing) if not name.startswith("_")]


@pytest.fixture(scope="module")
def posterior() -> dv.Posterior:
    forum = dv.datasets.agreement(12, 20, seed=0)
    behavior = dv.SharedOutcome(forum.participation, forum.outcome)
    model = dv.DualViewMixture(engine=dv.Gibbs(n_warmup=2), n_draws=5, n_chains=2, n_jobs=1)
    return model.fit(forum.features, behavior).posterior_


def test_the_package_has_few_names() -> None:
    assert len(set(dv.__all__) - {"__version__", "stack"}) <= 33


@pytest.mark.parametrize("behavior", BEHAVIORS.values(), ids=BEHAVIORS)
def test_a_behavior_shows_what_users_do_with_it(behavior: Any) -> None:
    assert {"users", "outcome", "split"} <= set(shown(behavior))
    assert len(shown(behavior)) <= 6


def test_a_posterior_shows_about_thirty_names(posterior: dv.Posterior) -> None:
    assert {"to_arviz", "save", "partition", "verdict", "latent_mean"} <= set(shown(posterior))
    assert len(shown(posterior)) <= 32


@pytest.mark.parametrize(
    ("former", "now"),
    [("units", "spec.units"), ("partition_process", "spec.process"), ("crossings", "crosstab")],
)
def test_former_names_of_a_posterior_warn(posterior: dv.Posterior, former: str, now: str) -> None:
    with pytest.warns(FutureWarning, match=rf"Posterior\.{former} is called {now} now"):
        found = getattr(posterior, former)
    assert found is None or found or callable(found)
    with pytest.raises(AttributeError, match="has no attribute 'unit'"):
        _ = posterior.unit  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("former", "now"),
    [
        ("read_forum", "dualview.forum.read_forum"),
        ("SeveralBehaviors", "dualview.behaviors.SeveralBehaviors"),
        ("OverObservations", "dualview.ObservationKFold"),
    ],
)
def test_former_names_of_the_package_warn(former: str, now: str) -> None:
    with pytest.warns(FutureWarning, match=f"dualview.{former} is called {now} now"):
        found = getattr(dv, former)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        place, name = now.removeprefix("dualview.").rpartition(".")[::2]
        assert getattr(getattr(dv, place) if place else dv, name) is found
