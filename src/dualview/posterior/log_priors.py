"""Log densities of the top-level priors in every draw of a posterior, by name: what prior sensitivity scales.

Priors are those of quantities that nothing else is above: the concentration, the noise, what the components of a view share,
coefficients outside the mixture, slopes of a link. Each is up to a constant that depends on nothing learned.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dualview.model import Model
from dualview.numerics.hyperprior import Hyperprior
from dualview.partitions.agreement import Beta
from dualview.partitions.concentration import log_alpha_prior
from dualview.views import GaussianView, NominalView, SharedVectorView
from dualview.views.nominal.conditionals import log_concentrations

if TYPE_CHECKING:
    from dualview.posterior.posterior import Posterior

Array = NDArray[np.float64]


_OF_LIKELIHOODS = (
    *("noise_precision", "typical_noise_precision", "degrees_of_freedom"),
    *("coefficients", "group_sd", "slopes", "slope_precision", "cut_points"),
)


def log_priors(post: "Posterior", model: Model) -> dict[str, Array]:
    """By name, each (S,) over the draws of all chains."""
    found: dict[str, Array] = {}
    if model.partition.has_alpha and model.partition.alpha_prior.learnt:
        found["alpha"] = np.array([log_alpha_prior(alpha, model.partition.alpha_prior) for alpha in post.flat("alpha")])
    for name, view in model.views.items():
        if isinstance(view, GaussianView | SharedVectorView):
            found[f"{name}.base"] = _log_base(post, name, view.hyperprior)
        elif isinstance(view, NominalView):
            drawn = post.flat(f"{name}.concentrations")
            found[f"{name}.base"] = np.array([log_concentrations(own, view.starts) for own in drawn])
    if model.likelihood is not None:
        reported = {name: post.flat(name) for name in post.names if name.split(".")[-1] in _OF_LIKELIHOODS}
        found |= model.likelihood.log_priors(reported, post.flat_acts)
    if isinstance(model.agreement, Beta):
        found["agreement"] = np.array([model.agreement.log_density(share) for share in post.flat("agreement")])
    return found


def _log_base(post: "Posterior", view: str, hyperprior: Hyperprior) -> Array:
    """ln p(μ_0, R_0, W_0, β), (M4) to (M7) with (M6′), in working units; of a pooled view ln p(μ_0, R_0)."""
    units = post.units[view]
    n_dims, shape = units.n_dims, (post.n_chains * post.n_draws, len(units.mean))
    mean = units.to_working(post.flat(f"{view}.base_mean").reshape(shape))
    precision = units.factor.T @ post.flat(f"{view}.base_precision").reshape(*shape, shape[1]) @ units.factor
    total = -0.5 * (mean**2).sum(axis=1) + _log_wishart(precision, n_dims - 1 + hyperprior.of_means)
    if f"{view}.base_dof" in post:
        spare = post.flat(f"{view}.base_dof") - (n_dims - 1 + hyperprior.least_of_vectors)
        total += _log_wishart(post.working_base(view).covariances, n_dims - 1 + hyperprior.of_spreads)
        total -= 1.5 * np.log(spare) + 0.5 * n_dims / spare
    return np.asarray(total)


def _log_wishart(matrices: Array, dof: int) -> Array:
    """ln W(matrix; ν, I/ν) up to a constant."""
    log_determinants = np.linalg.slogdet(matrices)[1]
    return np.asarray(
        0.5 * (dof - matrices.shape[-1] - 1) * log_determinants - 0.5 * dof * np.trace(matrices, axis1=1, axis2=2)
    )
