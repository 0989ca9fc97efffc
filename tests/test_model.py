"""The model's log joint and prior draws against the naive ones, for every combination of views and
partition priors."""

import numpy as np
import pytest

import naive
from dualview.behaviors.shared_outcome import SharedOutcome
from dualview.model import Model, State
from dualview.partitions.agreement import LabelsByView
from dualview.partitions.priors import ChineseRestaurant, FiniteDirichlet, OneCluster
from dualview.units import GaussianPrior
from dualview.views.gaussian.view import GaussianState
from records import base_of, components_of
from yardsticks import check_constant, check_same_means, positive_definite

N_USERS, N_THREADS, N_FEATURES = 7, 6, 3
PARTITIONS = {
    "dp": (ChineseRestaurant(), ("dp", None)),
    "finite": (FiniteDirichlet(4), ("finite", 4)),
    "one": (OneCluster(), ("one", 1)),
}
PARTS = ["features", "behavior", "both", "both with coefficients"]
BEHAVIOR_PRIOR = GaussianPrior(3.0, 4.0)


class Case:
    """A model in working units and the same one for the naive twin."""

    def __init__(self, partition, parts, seed=1):
        self.rng = np.random.default_rng(seed)
        prior, self.partition = PARTITIONS[partition]
        features = self.rng.standard_normal((N_USERS, N_FEATURES)) if parts != "behavior" else None
        self.behavior, likelihood, self.units = None, None, None
        if parts != "features":
            extras = (
                {"covariates": self.rng.standard_normal((N_THREADS, 2)), "intercept": True}
                if "with" in parts
                else {}
            )
            participation = self.rng.integers(0, 2, (N_THREADS, N_USERS)).astype(float)
            self.behavior = SharedOutcome(
                participation, 10 + 5 * self.rng.standard_normal(N_THREADS), **extras
            )
            self.units, likelihood = self.behavior.prepare(BEHAVIOR_PRIOR)
        self.model = Model(prior, features, likelihood, N_USERS)
        self.dims = {name: view.n_dims for name, view in self.model.views.items()}

    @property
    def naive_data(self):
        """Arguments of the naive joint, in working units."""
        data = {"partition": self.partition}
        for name, key in (("features", "feature_constants"), ("behavior", "behavior_constants")):
            if name in self.dims:
                data[key] = np.zeros(self.dims[name]), np.eye(self.dims[name])
        if "features" in self.dims:
            data["features"] = self.model.features
        if (likelihood := self.model.likelihood) is not None:
            data |= {
                "design": likelihood.design,
                "outcome": likelihood.outcome,
                "noise_variance": 1.0,
            }
            if n := likelihood.n_coefficients:
                data |= {
                    "covariates": likelihood.coefficient_design,
                    "coefficient_prior": (np.zeros(n), np.eye(n)),
                }
        return data

    def state(self):
        """A random naive state of moderate size, of any number of clusters."""
        kind, n_components = self.partition
        z = naive.draw_labels(self.rng, N_USERS, 1.5, self.partition)
        n_components = n_components or z.max() + 1
        state = naive.State(z, None if kind == "one" else float(self.rng.gamma(1.0)) + 0.1, {})
        for name, n_dims in self.dims.items():
            state.views[name] = naive.ViewState(
                self.rng.standard_normal((n_components, n_dims)),
                np.array([positive_definite(self.rng, n_dims) for _ in range(n_components)]),
                self.rng.standard_normal(n_dims),
                positive_definite(self.rng, n_dims),
                positive_definite(self.rng, n_dims),
                n_dims - 1 + float(self.rng.gamma(2.0)) + 0.2,
            )
        if "behavior" in self.dims:
            state.latent = self.rng.standard_normal((N_USERS, 1))
            state.noise_precision = float(self.rng.gamma(2.0)) + 0.1
            if n := self.model.likelihood.n_coefficients:
                state.coefficients = self.rng.standard_normal(n)
        return state

    def shipped(self, state):
        """The package's record of a naive state."""
        views = {
            name: GaussianState(components_of(view), base_of(view))
            for name, view in state.views.items()
        }
        params = {}
        if state.latent is not None:
            coefficients = np.empty(0) if state.coefficients is None else state.coefficients
            params = {"noise_precision": state.noise_precision, "coefficients": coefficients}
        labels, alpha = LabelsByView.agreeing(state.z), 1.0 if state.alpha is None else state.alpha
        return State(labels, alpha, views, state.latent, params)


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("parts", PARTS)
def test_log_joint_is_the_naive_one_up_to_one_constant(partition, parts):
    case = Case(partition, parts)
    states = [case.state() for _ in range(15)]
    naive_joints = np.array([naive.log_joint(state, **case.naive_data) for state in states])
    joints = np.array([case.model.log_joint(case.shipped(state)) for state in states])
    assert np.ptp(naive_joints) > 1.0
    if partition == "dp":
        assert len({state.z.max() for state in states}) > 2
    check_constant(joints - naive_joints, np.abs(naive_joints).max(), condition=10.0)


def test_working_units_change_the_joint_by_a_constant():
    """The same states written in the user's units, for the naive joint with the user's data and
    constants."""
    case = Case("finite", "both with coefficients")
    behavior, units, likelihood = case.behavior, case.units, case.model.likelihood
    variance = np.var(behavior.outcome, ddof=1)
    slopes = variance / behavior.covariates.var(axis=0, ddof=1)
    data = case.naive_data | {
        "behavior_constants": (BEHAVIOR_PRIOR.mean, BEHAVIOR_PRIOR.covariance),
        "design": behavior.participation,
        "outcome": behavior.outcome,
        "covariates": np.column_stack([np.ones(N_THREADS), behavior.covariates]),
        "noise_variance": likelihood.noise_variance,
        "coefficient_prior": (
            np.array([behavior.outcome.mean(), 0.0, 0.0]),
            np.diag([variance, *slopes]),
        ),
    }
    differences = []
    for _ in range(10):
        state = case.state()
        joint = case.model.log_joint(case.shipped(state))
        reported = likelihood.reported(
            {"noise_precision": state.noise_precision, "coefficients": state.coefficients}
        )
        view = state.views["behavior"]
        state.views["behavior"] = naive.ViewState(
            units.vectors(view.means),
            units.precisions(view.precisions),
            units.vectors(view.base_mean),
            units.precisions(view.base_precision),
            units.covariances(view.base_covariance),
            view.base_dof,
        )
        state.latent = units.vectors(state.latent)
        state.noise_precision, state.coefficients = (
            float(reported["noise_precision"]),
            reported["coefficients"],
        )
        differences.append(joint - naive.log_joint(state, **data))
    check_constant(differences, 1e3)


def summary(z, alpha, views, latent, params, data):
    """Bounded numbers from a state and its data; most of the priors have no moments."""
    sizes = np.sort(np.unique(z, return_counts=True)[1])
    numbers = [sizes[-1], len(sizes), z[0] == z[1], z[0] == z[-1], np.arctan(np.log(alpha))]
    for means, precisions, base_mean, base_precision, base_covariance, base_dof in views:
        numbers += [
            *np.arctan(base_mean),
            *np.arctan(means[z[0]]),
            *np.arctan(means[z[0]] - base_mean) ** 2,
        ]
        for matrix in (base_precision, base_covariance, precisions[z[0]]):
            log_determinant = np.linalg.slogdet(matrix)[1]
            numbers += [
                np.arctan(log_determinant),
                np.arctan(np.log(np.trace(matrix))),
                np.arctan(matrix[0, -1]),
            ]
        numbers += [np.arctan(np.log(base_dof - len(base_mean) + 1)), np.exp(-base_dof)]
    if latent is not None:
        numbers += [*np.arctan(latent[:2, 0]), np.arctan(np.log(params[0])), *np.arctan(params[1])]
    for values in data:
        numbers += [
            np.arctan(values).mean(),
            np.arctan(values.ravel()[0] ** 2),
            np.arctan(values.ravel()[0] * values.ravel()[1]),
        ]
    return np.array(numbers, dtype=float)


def shipped_summary(model, rng):
    state = model.draw_prior(rng)
    simulated = model.simulate(rng, state)
    views = [
        (
            view.components.means,
            view.components.factors @ view.components.factors.swapaxes(1, 2),
            *view.base,
        )
        for view in state.views.values()
    ]
    params = (state.params["noise_precision"], state.params["coefficients"]) if state.params else ()
    data = [] if model.features is None else [simulated.features]
    data += [] if model.likelihood is None else [simulated.likelihood.outcome]
    return summary(state.z, state.alpha, views, state.latent, params, data)


def naive_summary(case, rng):
    given = {
        name: value
        for name, value in case.naive_data.items()
        if name not in ("features", "outcome")
    }
    state, data = naive.draw_prior(rng, N_USERS, case.dims, **given)
    views = [
        (
            view.means,
            view.precisions,
            view.base_mean,
            view.base_precision,
            view.base_covariance,
            view.base_dof,
        )
        for view in state.views.values()
    ]
    coefficients = np.empty(0) if state.coefficients is None else state.coefficients
    drawn = [data[name] for name in ("features", "outcome") if data.get(name) is not None]
    alpha = 1.0 if state.alpha is None else state.alpha
    return summary(
        state.z, alpha, views, state.latent, (state.noise_precision, coefficients), drawn
    )


@pytest.mark.parametrize(
    ("partition", "parts"),
    [
        ("dp", "both with coefficients"),
        ("finite", "features"),
        pytest.param("finite", "behavior", marks=pytest.mark.slow),
        pytest.param("one", "both", marks=pytest.mark.slow),
    ],
)
def test_prior_draws_have_the_naive_ones_moments(partition, parts):
    case, rng = Case(partition, parts), np.random.default_rng(2)
    draws = np.array([shipped_summary(case.model, rng) for _ in range(700)])
    others = np.array([naive_summary(case, rng) for _ in range(700)])
    varying = (np.ptp(draws, axis=0) > 0) | (np.ptp(others, axis=0) > 0)
    np.testing.assert_array_equal(draws[0, ~varying], others[0, ~varying])
    check_same_means(draws[:, varying], others[:, varying])


@pytest.mark.parametrize("partition", PARTITIONS)
def test_states_and_data_have_their_shapes(partition):
    case = Case(partition, "both with coefficients")
    rng = np.random.default_rng(3)
    state = case.model.draw_prior(rng)
    n_components = case.model.partition.n_components or state.z.max() + 1
    assert state.n_components == n_components
    assert state.z.shape == (N_USERS,)
    assert state.counts.shape == (n_components,)
    assert state.counts.sum() == N_USERS
    assert state.latent.shape == (N_USERS, 1)
    assert state.views["features"].components.factors.shape == (
        n_components,
        N_FEATURES,
        N_FEATURES,
    )
    simulated = case.model.simulate(rng, state)
    assert simulated.features.shape == (N_USERS, N_FEATURES)
    assert simulated.likelihood.outcome.shape == (N_THREADS,)
    assert np.isfinite(simulated.log_joint(state))


def test_a_model_of_nothing_is_refused():
    with pytest.raises(ValueError, match="features, a likelihood or both"):
        Model(OneCluster())


def test_names_of_clusters_do_not_matter():
    case = Case("finite", "both")
    state = case.state()
    order = case.rng.permutation(4)
    renamed = naive.State(
        np.argsort(order)[state.z], state.alpha, {}, state.latent, state.noise_precision
    )
    for name, view in state.views.items():
        renamed.views[name] = naive.ViewState(
            view.means[order],
            view.precisions[order],
            view.base_mean,
            view.base_precision,
            view.base_covariance,
            view.base_dof,
        )
    first, second = (case.model.log_joint(case.shipped(s)) for s in (state, renamed))
    assert first == pytest.approx(second, rel=1e-12)
