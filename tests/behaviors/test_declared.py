"""Likelihoods and behaviors declare what they can do; what is missing is named together with what
asked for it."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dualview as dv
from dualview.behaviors.base import Behavior, Likelihood, Terms
from dualview.behaviors.kinds import behavior_from
from dualview.behaviors.likelihoods.linked import LinkedLikelihood
from dualview.behaviors.panel import PerUser
from dualview.errors import InputError
from dualview.model import Model
from dualview.numerics.hyperprior import FINITE_VARIANCES, PUBLISHED
from dualview.partitions.priors import ChineseRestaurant

SOURCE = Path(dv.__file__).parent
RNG = np.random.default_rng(0)
USER, DESIGN = np.repeat(np.arange(6), 3), RNG.normal(size=(18, 1))
X = RNG.normal(size=(6, 1))
BEHAVIORS: dict[str, Any] = {
    "threads": dv.SharedOutcome(RNG.random((9, 6)), RNG.normal(size=9)),
    "regressions": dv.UserRegression(USER, DESIGN, RNG.normal(size=18)),
    "noise by cluster": dv.UserRegression(USER, DESIGN, RNG.normal(size=18), noise="cluster"),
    "binary": dv.BinaryOutcomes(USER, DESIGN, RNG.integers(0, 2, 18)),
}


class Methods:
    """The methods of a likelihood with nothing to learn, without its base class."""

    n_dims = 1

    def start(self, rng):  # noqa: ARG002
        return np.zeros((6, 1)), {}

    def terms(self, rng, latent, params):  # noqa: ARG002
        return Terms.none(6)

    def redraw(self, rng, latent, params, terms, prior):  # noqa: ARG002
        return latent, params

    def log_density(self, latent, params):  # noqa: ARG002
        return 0.0

    def draw_prior(self, rng, z):  # noqa: ARG002
        return {}

    def simulate(self, rng, latent, params):  # noqa: ARG002
        return self


class Silent(Methods, Likelihood):
    def reported(self, params):
        return params


def likelihood(name: str) -> Any:
    return BEHAVIORS[name].prepare(None)[1]


class TestLikelihood:
    def test_defaults(self) -> None:
        silent, latent = Silent(), np.ones((6, 1))
        assert (silent.one_user_each, silent.per_user, silent.n_coefficients) == (False, (), 0)
        assert silent.hyperprior == PUBLISHED
        assert silent.functions(latent, {}) is latent
        assert silent.with_features(latent) is silent
        assert silent.with_residuals() is silent
        assert silent.relocate(np.random.default_rng(0), latent, {}, None) is None  # type: ignore[arg-type]
        assert silent.conjugate({}) is None

    def test_what_the_built_in_ones_declare(self) -> None:
        made = {name: likelihood(name) for name in BEHAVIORS}
        assert [name for name, one in made.items() if one.one_user_each] == [
            "regressions",
            "noise by cluster",
            "binary",
        ]
        assert [name for name, one in made.items() if one.per_user] == ["noise by cluster"]
        assert [name for name, one in made.items() if one.hyperprior == FINITE_VARIANCES] == [
            "binary"
        ]
        start = {name: one.start(np.random.default_rng(0))[1] for name, one in made.items()}
        assert [name for name, one in made.items() if one.conjugate(start[name]) is not None] == [
            "threads",
            "regressions",
        ]

    @pytest.mark.parametrize("name", BEHAVIORS)
    def test_a_link_can_do_what_the_likelihood_inside_can(self, name: str) -> None:
        units, inner = BEHAVIORS[name].prepare(None)
        linked = LinkedLikelihood.of(inner, X, units, units)
        for ability in ("one_user_each", "per_user", "hyperprior"):
            assert getattr(linked, ability) == getattr(inner, ability)
        assert linked.conjugate({}) is None  # slopes are redrawn outside the sweep

    def test_what_every_one_must_have(self) -> None:
        with pytest.raises(TypeError, match=r"Likelihood.*reported"):
            type("MyLikelihood", (Methods, Likelihood), {})()

    def test_conjugate_comes_with_the_parameters(self) -> None:
        message = (
            "^Half cannot be redrawn inside the sweep: it has `conjugate` and lacks `params_of`.$"
        )
        with pytest.raises(TypeError, match=message):
            type("Half", (Silent,), {"conjugate": lambda *_: None})

    def test_what_is_asked_for_and_missing(self) -> None:
        with pytest.raises(
            NotImplementedError,
            match=r"^UserRows of a LogitFamily cannot be redrawn .*: it lacks `conjugate`\.$",
        ):
            likelihood("binary").params_of(1.0, np.empty(0))
        with pytest.raises(
            NotImplementedError,
            match=r"^UserRows of a GaussianFamily asks for .* it lacks `redraw_together`\.$",
        ):
            likelihood("regressions").redraw_together(
                np.random.default_rng(0), None, {}, None, None
            )

    def test_a_model_refuses_another_class(self) -> None:
        message = (
            r"inherit dualview.behaviors.base.Likelihood; got a "
            r"Methods.*Methods\(Likelihood\)\. It lacks reported\."
        )
        with pytest.raises(InputError, match=message):
            Model(ChineseRestaurant(), None, Methods(), 6)  # type: ignore[arg-type]


@dataclass
class Loose:
    """Looks like a behavior, and is of no such class."""

    def prepare(self, prior: Any) -> Any:
        return prior

    def __len__(self) -> int:
        return 6


class Effects(PerUser):
    """What a behavior must have, and no more."""

    def __init__(self, likelihood: Any = None) -> None:
        self.likelihood = likelihood
        self._set(USER, DESIGN, np.zeros(18), ["effect"], None, None)

    def prepare(self, prior: Any) -> Any:
        return BEHAVIORS["regressions"].prepare(prior)[0], self.likelihood or likelihood(
            "regressions"
        )

    def ridge_estimate(self) -> np.ndarray:
        return np.arange(6.0)

    def forecast(self, new: Any, latent: Any, params: Any, n_new: int) -> Any:
        return new, latent, params, n_new


class TestBehavior:
    @pytest.mark.parametrize("behavior", BEHAVIORS.values(), ids=BEHAVIORS)
    def test_built_in_ones(self, behavior: Any) -> None:
        assert isinstance(behavior, Behavior)

    def test_an_object_of_another_class_is_refused_and_not_passed_over(self) -> None:
        message = (
            r"must inherit dualview.behaviors.base.Behavior; got a Loose.*lacks coords, "
            r"forecast, ridge_estimate\."
        )
        with pytest.raises(InputError, match=message):
            dv.DualViewMixture().fit(None, Loose())

    def test_a_likelihood_of_another_class_is_refused(self) -> None:
        with pytest.raises(
            InputError,
            match=r"What Effects.prepare returns must inherit .*Likelihood; got a Methods",
        ):
            dv.DualViewMixture().fit(None, Effects(Methods()))

    def test_what_every_one_must_have(self) -> None:
        with pytest.raises(TypeError, match=r"Behavior.*ridge_estimate"):
            type("MyBehavior", (Behavior,), {"prepare": None})()
        with pytest.raises(TypeError, match=r"Behavior.*forecast"):
            type("MyBehavior", (Behavior,), {"prepare": None, "ridge_estimate": None})()

    def test_rows_of_users_need_a_family(self) -> None:
        """With one they are fitted and start without further code."""

        class Plain(Effects):
            prepare, ridge_estimate = PerUser.prepare, PerUser.ridge_estimate

        for ask in (lambda: Plain().prepare(None), lambda: Plain().ridge_estimate()):
            with pytest.raises(InputError, match=r"^Plain cannot be fitted: it lacks `_learned`"):
                ask()

    def test_a_family_or_a_forecast(self) -> None:
        """One of both is needed: with a family, the forecast is the common one."""

        class Plain(Effects):
            forecast = PerUser.forecast

        with pytest.raises(InputError, match=r"^Plain cannot predict outcomes: it lacks `family`"):
            Plain().forecast(Plain(), np.zeros((2, 6)), {}, 0)
        assert Plain().left_out() is None

    def test_what_is_asked_for_and_missing(self) -> None:
        model = dv.DualViewMixture(1, n_warmup=1, n_draws=2, n_chains=1).fit(X, Effects())
        with pytest.raises(
            InputError,
            match=r"^Effects cannot say what observations tell of .*: it lacks `evidence`\.$",
        ):
            model.predict_latent(X[:1], Effects())
        with pytest.raises(InputError, match="that can estimate it; Effects lacks `likely_prior`"):
            dv.DualViewMixture(behavior_prior="likelihood").fit(None, Effects())

    def test_defaults(self) -> None:
        class Least(Effects):
            aligned, advice = Behavior.aligned, Behavior.advice
            described, fingerprint = Behavior.described, Behavior.fingerprint

        least = Least()
        least.users = list("abcdef")
        assert least.aligned(list("abcdef")) is least
        assert least.described() == {"kind": "Least"}
        assert "same users" in least.advice(3)
        assert list(least.param_names) == []
        with pytest.raises(
            InputError,
            match=r"^Least cannot be brought into the order of the rows of X: it lacks "
            r"`aligned`\.$",
        ):
            least.aligned(list("bacdef"))
        with pytest.raises(
            InputError,
            match=r"^Least cannot be fitted with a checkpoint: it lacks `fingerprint`\.$",
        ):
            least.fingerprint()


def test_no_lookup_decides_what_a_likelihood_or_behavior_can_do() -> None:
    lookup = re.compile(r"(getattr|hasattr)\((self\.|model\.)*(likelihood|inner|behavior)\b")
    found = [
        path.name
        for path in SOURCE.rglob("*.py")
        if lookup.search(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_a_kind_that_nobody_has_made_known() -> None:
    with pytest.raises(
        InputError, match=r'of the kind Effects, which .*KINDS\["Effects"\] = Effects\.$'
    ):
        behavior_from({"kind": "Effects"})
