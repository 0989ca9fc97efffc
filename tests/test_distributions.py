"""The laws against SciPy's."""

import numpy as np
import pytest
from scipy.stats import gamma, multivariate_normal, wishart

from dualview.distributions import G, Normal, Wishart
from yardsticks import check_law, positive_definite

DIMS = [1, 2, 5]


@pytest.mark.parametrize("n_dims", DIMS)
def test_normal(n_dims):
    rng = np.random.default_rng(n_dims)
    precision, linear = positive_definite(rng, n_dims), rng.standard_normal(n_dims)
    law, covariance = Normal(linear, precision), np.linalg.inv(precision)
    np.testing.assert_allclose(law.mean, covariance @ linear, rtol=1e-10)
    for x in rng.standard_normal((5, n_dims)):
        assert law.log_density(x) == pytest.approx(
            multivariate_normal.logpdf(x, covariance @ linear, covariance)
        )


@pytest.mark.parametrize("n_dims", DIMS)
@pytest.mark.parametrize("spare", [0.2, 1.0, 40.0])
def test_wishart(n_dims, spare):
    rng = np.random.default_rng(n_dims)
    inverse_scale, dof = positive_definite(rng, n_dims), n_dims - 1 + spare
    scale = np.linalg.inv(inverse_scale)
    for _ in range(5):
        x = positive_definite(rng, n_dims)
        assert Wishart(dof, inverse_scale).log_density(x) == pytest.approx(
            wishart.logpdf(x, dof, scale)
        )


@pytest.mark.parametrize(("dof", "inverse_scale"), [(1.0, 1.0), (0.4, 30.0), (51.0, 1e-5)])
def test_g_is_a_gamma_law(dof, inverse_scale):
    law, twin = G(dof, inverse_scale), gamma(dof / 2, scale=2 / inverse_scale)
    for x in twin.ppf([0.01, 0.5, 0.9]):
        assert law.log_density(x) == pytest.approx(twin.logpdf(x))
    rng = np.random.default_rng(1)
    check_law([law.draw(rng) for _ in range(3000)], twin.cdf)


def test_g_is_the_wishart_law_of_one_dimension():
    for x in (0.1, 1.0, 7.0):
        assert G(3.3, 0.7).log_density(x) == pytest.approx(
            Wishart(3.3, np.array([[0.7]])).log_density(np.array([[x]]))
        )
