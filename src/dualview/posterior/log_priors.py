"""Log densities of the top-level priors in every draw of a posterior, by name: what prior
sensitivity scales.

Priors are those of quantities that nothing else is above: the concentration, the noise, what the
components of a view share, coefficients outside the mixture, slopes of a link. Each is up to a
constant that depends on nothing learned.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dualview.model import Model
from dualview.numerics.hyperprior import Hyperprior
from dualview.partitions.agreement import LEARNT, Beta
from dualview.partitions.concentration import log_alpha_prior
from dualview.posterior.fresh import Base, block_of
from dualview.views import BlockedView, GaussianView, NominalView, SharedVectorView
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
        found["alpha"] = np.array(
            [log_alpha_prior(alpha, model.partition.alpha_prior) for alpha in post.flat("alpha")]
        )
    for name, view in model.views.items():
        if isinstance(view, BlockedView):
            found[f"{name}.base"] = _log_blocks(post, name, view)
        elif isinstance(view, GaussianView | SharedVectorView):
            found[f"{name}.base"] = _log_base(post, name, view.hyperprior)
        elif isinstance(view, NominalView):
            drawn = post.flat(f"{name}.concentrations")
            found[f"{name}.base"] = np.array(
                [log_concentrations(own, view.starts) for own in drawn]
            )
    if model.likelihood is not None:
        reported = {
            name: post.flat(name) for name in post.names if name.split(".")[-1] in _OF_LIKELIHOODS
        }
        found |= model.likelihood.log_priors(reported, post.flat_acts)
    learnt = [
        (t, own)
        for t, own in enumerate(model.agreements)
        if isinstance(own, Beta) and own != LEARNT
    ]  # that is flat
    if learnt:
        shares = post.flat("agreement").reshape(-1, len(model.agreements))
        found["agreement"] = np.array(
            [sum(own.log_density(row[t]) for t, own in learnt) for row in shares]
        )
    return found


def _log_blocks(post: "Posterior", name: str, view: BlockedView) -> Array:
    """The same of a view in independent blocks."""
    if all(isinstance(block, NominalView) for block in view.parts):
        sizes = [np.diff(block.starts) for block in view.parts if isinstance(block, NominalView)]
        starts = np.cumsum(np.concatenate([[0], *sizes]))
        return np.array(
            [log_concentrations(own, starts) for own in post.flat(f"{name}.concentrations")]
        )
    base, layout = post.working_base(name), post.layout
    assert layout is not None
    parts = zip(
        view.parts,
        (block_of(base, b, own) for b, (_, own) in enumerate(layout.of_numbers)),
        strict=True,
    )
    return np.asarray(
        sum(
            _log_gaussian_base(own, block.hyperprior)
            for block, own in parts
            if isinstance(block, GaussianView)
        )
    )


def _log_base(post: "Posterior", view: str, hyperprior: Hyperprior) -> Array:
    """ln p(μ_0, R_0, W_0, β), (M4) to (M7) with (M6′), in working units; of a pooled view ln p(μ_0,
    R_0)."""
    if f"{view}.base_dof" in post:
        return _log_gaussian_base(post.working_base(view), hyperprior)
    units = post.units[view]
    shape = (post.n_chains * post.n_draws, len(units.mean))
    mean = units.to_working(post.flat(f"{view}.base_mean").reshape(shape))
    precision = (
        units.factor.T
        @ post.flat(f"{view}.base_precision").reshape(*shape, shape[1])
        @ units.factor
    )
    return _log_of_means(mean, precision, hyperprior)


def _log_of_means(mean: Array, precision: Array, hyperprior: Hyperprior) -> Array:
    """ln p(μ_0, R_0)."""
    dof = mean.shape[1] - 1 + hyperprior.of_means
    return np.asarray(-0.5 * (mean**2).sum(axis=1) + _log_wishart(precision, dof))


def _log_gaussian_base(base: Base, hyperprior: Hyperprior) -> Array:
    """ln p(μ_0, R_0, W_0, β)."""
    n_dims = base.means.shape[1]
    spare = base.dofs - (n_dims - 1 + hyperprior.least_of_vectors)
    total = _log_of_means(base.means, base.precisions, hyperprior)
    total += _log_wishart(base.covariances, n_dims - 1 + hyperprior.of_spreads)
    return np.asarray(total - 1.5 * np.log(spare) - 0.5 * n_dims / spare)


def _log_wishart(matrices: Array, dof: int) -> Array:
    """ln W(matrix; ν, I/ν) up to a constant."""
    log_determinants = np.linalg.slogdet(matrices)[1]
    return np.asarray(
        0.5 * (dof - matrices.shape[-1] - 1) * log_determinants
        - 0.5 * dof * np.trace(matrices, axis1=1, axis2=2)
    )
