"""The log density of vectors that users share."""

import math

from dualview.numerics.compiling import compiled
from dualview.numerics.hyperprior import PUBLISHED
from dualview.numerics.linalg import cholesky
from dualview.views.gaussian.density import HALF_LOG_2PI, log_scale_prior


@compiled
def log_shared(means, base_mean, base_precision, hyperprior=PUBLISHED):
    """ln p(f_1, …, f_K, μ_0, R_0) of vectors that users share, up to a constant, (M2), (M4) and
    (M5)."""
    n_components, n_dims = means.shape
    total = (
        log_scale_prior(base_precision, n_dims - 1 + hyperprior.of_means)
        - n_components * n_dims * HALF_LOG_2PI
    )
    factor = cholesky(base_precision)
    for i in range(n_dims):
        total += n_components * math.log(factor[i, i]) - 0.5 * base_mean[i] ** 2
        for k in range(n_components):
            projection = 0.0
            for j in range(i, n_dims):
                projection += factor[j, i] * (means[k, j] - base_mean[j])
            total -= 0.5 * projection * projection
    return total
