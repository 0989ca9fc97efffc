"""Cells that latent vectors follow: their law is the joint's, with the latent vectors held or with
observations."""

import numpy as np
import pytest
from scipy import stats

from dualview.numerics.messages import Terms
from dualview.numerics.streams import stream_of
from dualview.views.base import Components
from dualview.views.gaussian.linked_cells import draw_with_latent, draw_with_observations
from views.gaussian.test_cells import FACTOR, INVERSE, MEAN, component, record
from yardsticks import check_law, check_mean, positive_definite, upper_factor

Q, N_SEEN, N = 2, 3, 2000
Z, ACTS = np.zeros(6, dtype=np.int64), np.ones(6, dtype=np.int64)


class Case:
    """User 1 misses two of three cells, user 2 has one that was rounded; both have latent vectors f
    = g + Γ x̃."""

    def __init__(self, weights):
        rng, self.weights = np.random.default_rng(8), weights
        self.view, self.values = record()
        mean, factor, self.centre, self.precision = component(rng)
        self.view.components.means[0], self.view.components.factors[0] = mean, factor
        at = self.view.cells.starts[2]
        self.view.cells.lows[at] -= 1.0  # wider, so that its law has a shape
        self.view.cells.highs[at] += 1.0
        self.bounds = self.view.cells.lows[at], self.view.cells.highs[at]
        self.slopes, self.deviations = rng.standard_normal((Q, 3)), rng.standard_normal((6, Q))
        self.means, self.precisions = (
            rng.standard_normal((2, Q)),
            np.array([positive_definite(rng, Q) for _ in range(2)]),
        )
        self.prior = Components(self.means, upper_factor(self.precisions))
        loads, rows = rng.standard_normal((6 * N_SEEN, Q)), np.arange(6 * N_SEEN, dtype=np.uint32)
        squares, starts = np.zeros((6, Q, Q)), N_SEEN * np.arange(7)
        weights = rng.uniform(0.5, 2.0, len(rows))
        self.terms = Terms(starts, rows, loads, squares, rng.standard_normal(len(rows)), weights)

    def functions(self):
        """f of every user as it stands."""
        return self.deviations + self.view.vectors @ self.slopes.T

    def outcomes(self):
        """Observations as they stand: what is expected and the residuals."""
        return (
            np.einsum("nq,nq->n", self.terms.loads, np.repeat(self.functions(), N_SEEN, axis=0))
            + self.terms.residual
        )

    def law(self, u, how, cells):
        """Mean and precision of some cells of a user given the others, from −2 ln p as a quadratic
        in the user's row."""
        effect = self.slopes @ INVERSE  # of a row on its shift Γ x̃
        weight = self.weights[u] if len(self.weights) else 1.0
        matrix, linear = weight * self.precision, weight * self.precision @ self.centre
        if how == "latent":  # g = f − Γ x̃ ~ N(μ, S⁻¹) with f held; everybody acts as cluster 1
            rest = self.functions()[u] - self.means[1] + effect @ MEAN
            matrix += effect.T @ self.precisions[1] @ effect
            linear += effect.T @ self.precisions[1] @ rest
        else:  # outcomes ~ N(loads (g + Γ x̃), 1/w) with g held
            own = slice(N_SEEN * u, N_SEEN * (u + 1))
            design, weights = self.terms.loads[own] @ effect, self.terms.precision[own]
            rest = self.outcomes()[own] - self.terms.loads[own] @ (
                self.deviations[u] - effect @ MEAN
            )
            matrix += design.T @ (weights[:, None] * design)
            linear += design.T @ (weights * rest)
        others = [d for d in range(3) if d not in cells]
        own = matrix[np.ix_(cells, cells)]
        linear = linear[cells] - matrix[np.ix_(cells, others)] @ self.values[u, others]
        return np.linalg.solve(own, linear), own

    def draws(self, how):
        """Cells of all users, one draw after the other."""
        rng, found = stream_of(np.random.default_rng(3)), np.empty((N, 6, 3))
        for i in range(N):
            if how == "latent":
                others = self.slopes, self.prior, self.deviations
                draw_with_latent(rng, Z, ACTS, self.view, self.weights, *others)
            else:
                others = self.slopes, self.terms
                draw_with_observations(rng, Z, self.view, self.weights, *others)
            found[i] = self.view.cells.values
        return found


@pytest.mark.parametrize("weights", [(), (1.0, 0.3, 4.0, 1.0, 1.0, 1.0)])
@pytest.mark.parametrize("how", ["latent", "observations"])
def test_cells_have_the_law_of_the_joint(how, weights):
    """(C16) with the link (M12): precision λ S_dd + Γ_dᵀ S Γ_d and the matching linear term."""
    case = Case(np.array(weights))
    functions, outcomes, deviations = case.functions(), case.outcomes(), case.deviations.copy()
    (centre, matrix), (middle, one) = case.law(1, how, [1, 2]), case.law(2, how, [1])
    draws = case.draws(how)
    away = draws[:, 1, 1:] - centre
    check_mean(away, np.zeros(2))
    check_mean(away[:, :, None] * away[:, None, :], np.linalg.inv(matrix))
    sd = one[0, 0] ** -0.5
    ends = (np.array(case.bounds) - middle) / sd
    check_law(draws[::4, 2, 1], stats.truncnorm(*ends, middle[0], sd).cdf)
    np.testing.assert_allclose(MEAN + case.view.vectors @ FACTOR.T, case.view.cells.values)
    if how == "latent":
        np.testing.assert_allclose(case.functions(), functions)
    else:
        np.testing.assert_array_equal(case.deviations, deviations)
        np.testing.assert_allclose(case.outcomes(), outcomes)
