"""The paper's Gibbs sampler for the dual-view model, transcribed plainly into Numba: the yardstick
of the benchmark.

Dirichlet process over users, a feature view and a view of one latent coefficient per user, shared
outcomes. Everything is in working units: both views have the constants m = 0 and Σ = I, the noise
precision has the prior G(1, 1). It needs nothing but NumPy and Numba, and draws from Numba's own
random source.

Shapes: x (U, D) points of a view, z (U,), design (T, U), outcome (T,). The arrays of components
have room for everybody alone and for the auxiliary components: means (U + m, D), precisions (U + m,
D, D), log_dets (U + m,) of the precisions; the first K are in use.
"""

# ruff: noqa: NPY002 (np.random inside compiled functions is Numba's own source)

import math

import numba
import numpy as np

_MAX_POINTS = 60

compiled = numba.njit(cache=True, error_model="numpy")


@compiled
def stirling_rest(x):
    """lnΓ(x) − (x ln x − x) for x > 0, and its derivative ψ(x) − ln x: these keep their digits at
    large x."""
    rest = (
        math.lgamma(x) - x * (math.log(x) - 1.0)
        if x < 1000.0
        else 0.5 * math.log(2.0 * math.pi / x) + 1.0 / (12.0 * x)
    )
    slope, shifted = -math.log(x), x
    while shifted < 8.0:
        slope -= 1.0 / shifted
        shifted += 1.0
    square = 1.0 / (shifted * shifted)
    series = square * (
        1.0 / 12.0
        - square * (1.0 / 120.0 - square * (1.0 / 252.0 - square * (1.0 / 240.0 - square / 132.0)))
    )
    return rest, slope + math.log(shifted) - 0.5 / shifted - series


@compiled
def log_dof_density(y, parameters):
    """Log density of y = ln β and its derivative, (C6); parameters: K, D and −C − K D.

    The terms that cancel at large β are taken out of (β/2) ln(β/2), lnΓ and C beforehand.
    """
    n_components, n_dims, misfit = parameters
    dof = math.exp(y)
    spare = dof - n_dims + 1.0
    if spare <= 0.0:
        return -math.inf, math.inf
    half = 0.5 * dof
    density = y - 1.5 * math.log(spare) - 0.5 * n_dims / spare - half * misfit
    slope = 1.0 - 1.5 * dof / spare + 0.5 * n_dims * dof / (spare * spare) - half * misfit
    for i in range(int(n_dims)):
        x, ratio = half - 0.5 * i, math.log1p(-0.5 * i / half)
        rest, rest_slope = stirling_rest(x)
        density += n_components * (0.5 * i * (math.log(half) - 1.0) - x * ratio - rest)
        slope -= n_components * half * (ratio + rest_slope)
    return density, slope


@compiled
def log_alpha_density(y, parameters):
    """Log density of y = ln α and its derivative, (C9), the ratio of gamma functions as a product;
    parameters: K and U."""
    n_clusters, n_users = parameters
    alpha = math.exp(y)
    density, slope = (n_clusters - 0.5) * y - 0.5 / alpha, n_clusters - 0.5 + 0.5 / alpha
    for i in range(int(n_users)):
        density -= math.log(alpha + i)
        slope -= alpha / (alpha + i)
    return density, slope


@compiled
def choose(weights):
    """Index i with probability ∝ weights[i]."""
    threshold = np.random.random() * weights.sum()
    for i in range(len(weights)):
        threshold -= weights[i]
        if threshold < 0.0:
            return i
    return len(weights) - 1


def make_sampler(log_density):
    """A function that draws once from a log-concave density on (lower, ∞), by tangents (Gilks &
    Wild 1992)."""

    @compiled
    def draw(parameters, start, lower):
        points, values, slopes = np.empty(_MAX_POINTS), np.empty(_MAX_POINTS), np.empty(_MAX_POINTS)
        ends, widths, masses = (
            np.empty(_MAX_POINTS + 1),
            np.empty(_MAX_POINTS),
            np.empty(_MAX_POINTS),
        )

        # Two points to begin with, on either side of the mode and not too near it: the outer
        # tangents must be steep.
        left, right = start, start
        while log_density(left, parameters)[1] < 0.1:
            left = max(left - 1.0, 0.5 * (left + lower))
        while log_density(right, parameters)[1] > -0.1:
            right += 1.0
        points[0], points[1] = left, right
        values[0], slopes[0] = log_density(left, parameters)
        values[1], slopes[1] = log_density(right, parameters)

        n = 2
        for _ in range(_MAX_POINTS - 2):
            # The tangent at points[i] is the envelope from ends[i] to ends[i + 1]; tops[i] is where
            # it is highest there.
            ends[0], ends[n] = lower, math.inf
            for i in range(n - 1):
                gap, bend = points[i + 1] - points[i], slopes[i] - slopes[i + 1]
                from_left = (
                    (values[i + 1] - values[i] - slopes[i + 1] * gap) / bend
                    if bend > 0.0
                    else 0.5 * gap
                )
                ends[i + 1] = points[i] + min(max(from_left, 0.0), gap)
            tops = np.where(slopes[:n] > 0.0, ends[1 : n + 1], ends[:n])
            heights = values[:n] + slopes[:n] * (tops - points[:n])
            highest = heights.max()
            for i in range(n):
                widths[i] = ends[i + 1] - ends[i]
                fall = abs(slopes[i]) * widths[i]
                masses[i] = -math.expm1(-fall) / abs(slopes[i]) if fall > 1e-9 else widths[i]
                masses[i] *= math.exp(heights[i] - highest)

            i = choose(masses[:n])
            u = np.random.random()
            fall = abs(slopes[i]) * widths[i]
            y = (
                tops[i] + math.log1p(u * math.expm1(-fall)) / slopes[i]
                if fall > 1e-9
                else ends[i] + u * widths[i]
            )

            value, slope = log_density(y, parameters)
            if math.log(1.0 - np.random.random()) <= value - values[i] - slopes[i] * (
                y - points[i]
            ):
                return y
            if math.isfinite(value):
                j = n
                while j > 0 and points[j - 1] > y:
                    points[j], values[j], slopes[j] = points[j - 1], values[j - 1], slopes[j - 1]
                    j -= 1
                points[j], values[j], slopes[j] = y, value, slope
                n += 1
        raise RuntimeError("adaptive rejection does not come to an end")

    return draw


draw_log_dof = make_sampler(log_dof_density)
draw_log_alpha = make_sampler(log_alpha_density)


@compiled
def draw_normal(linear, precision):
    """One vector of N(Λ⁻¹ h, Λ⁻¹) with h = linear, Λ = precision = L Lᵀ: L⁻ᵀ (L⁻¹ h + noise) by
    substitution."""
    factor = np.linalg.cholesky(precision)
    n = len(linear)
    result = linear.copy()
    for i in range(n):
        for j in range(i):
            result[i] -= factor[i, j] * result[j]
        result[i] /= factor[i, i]
    for i in range(n):
        result[i] += np.random.standard_normal()
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            result[i] -= factor[j, i] * result[j]
        result[i] /= factor[i, i]
    return result


@compiled
def draw_wishart(dof, scale_factor):
    """One matrix of W(dof, L Lᵀ) with L = scale_factor lower, by Bartlett's decomposition; and its
    log determinant."""
    n = len(scale_factor)
    triangle = np.zeros((n, n))
    log_det = 0.0
    for i in range(n):
        triangle[i, i] = math.sqrt(np.random.chisquare(dof - i))
        log_det += 2.0 * math.log(scale_factor[i, i] * triangle[i, i])
        for j in range(i):
            triangle[i, j] = np.random.standard_normal()
    root = scale_factor @ triangle
    return root @ root.T, log_det


@compiled
def add_outer(matrix, vector):
    """matrix += vector vectorᵀ."""
    for i in range(len(vector)):
        for j in range(len(vector)):
            matrix[i, j] += vector[i] * vector[j]


@compiled
def draw_g(dof, inverse_scale):
    """One number of G(dof, 1/inverse_scale)."""
    return np.random.chisquare(dof) / inverse_scale


@compiled
def draw_components(x, z, n_components, means, precisions, log_dets, base):
    """S_k, then μ_k, for every component, (C1) and (C2)."""
    base_mean, base_precision, base_covariance, base_dof = base
    n_users, n_dims = x.shape
    for k in range(n_components):
        count = 0
        total = np.zeros(n_dims)
        inverse_scale = base_dof * base_covariance
        for u in range(n_users):
            if z[u] == k:
                count += 1
                total += x[u]
                add_outer(inverse_scale, x[u] - means[k])
        scale_factor = np.linalg.cholesky(np.linalg.inv(inverse_scale))
        precisions[k], log_dets[k] = draw_wishart(base_dof + count, scale_factor)
        linear = base_precision @ base_mean + precisions[k] @ total
        means[k] = draw_normal(linear, base_precision + count * precisions[k])


@compiled
def draw_base(n_components, means, precisions, log_dets, base):
    """μ_0, R_0, W_0 and β, (C3) to (C6)."""
    base_mean, base_precision, base_covariance, base_dof = base
    n_dims = len(base_mean)
    eye = np.eye(n_dims)

    linear = base_precision @ means[:n_components].sum(axis=0)
    base_mean = draw_normal(linear, eye + n_components * base_precision)

    inverse_scale = n_dims * eye
    for k in range(n_components):
        add_outer(inverse_scale, means[k] - base_mean)
    base_precision, _ = draw_wishart(
        n_dims + n_components, np.linalg.cholesky(np.linalg.inv(inverse_scale))
    )

    inverse_scale = n_dims * eye + base_dof * precisions[:n_components].sum(axis=0)
    scale_factor = np.linalg.cholesky(np.linalg.inv(inverse_scale))
    base_covariance, log_det = draw_wishart(n_dims + n_components * base_dof, scale_factor)

    misfit = 0.0
    for k in range(n_components):
        misfit += np.trace(precisions[k] @ base_covariance) - log_dets[k] - log_det - n_dims
    parameters = (float(n_components), float(n_dims), misfit)
    lower = math.log(n_dims - 1.0) if n_dims > 1 else -math.inf
    base_dof = math.exp(draw_log_dof(parameters, math.log(base_dof), lower))
    return base_mean, base_precision, base_covariance, base_dof


@compiled
def base_factors(base):
    """What drawing from the base needs: A with A Aᵀ = R_0⁻¹, and the Cholesky factor of (β
    W_0)⁻¹."""
    _, base_precision, base_covariance, base_dof = base
    mean_factor = np.linalg.inv(np.linalg.cholesky(base_precision)).T
    return mean_factor, np.linalg.cholesky(np.linalg.inv(base_dof * base_covariance))


@compiled
def draw_from_base(k, means, precisions, log_dets, base, factors):
    """Component k anew from the base, (M2) and (M3)."""
    base_mean, _, _, base_dof = base
    mean_factor, scale_factor = factors
    means[k] = base_mean + mean_factor @ np.random.standard_normal(len(base_mean))
    precisions[k], log_dets[k] = draw_wishart(base_dof, scale_factor)


@compiled
def log_normal(x, mean, precision, log_det):
    """Log density of N(mean, precision⁻¹) up to a constant."""
    square = 0.0
    for i in range(len(x)):
        for j in range(len(x)):
            square += (x[i] - mean[i]) * precision[i, j] * (x[j] - mean[j])
    return 0.5 * (log_det - square)


@compiled
def swap(i, j, means, precisions, log_dets):
    """Components i and j change places."""
    mean, precision, log_det = means[i].copy(), precisions[i].copy(), log_dets[i]
    means[i], precisions[i], log_dets[i] = means[j], precisions[j], log_dets[j]
    means[j], precisions[j], log_dets[j] = mean, precision, log_det


@compiled
def draw_assignments(
    features, latent, z, counts, n_components, alpha, n_auxiliary, f_parts, b_parts, f_base, b_base
):
    """Every z_u in turn, in place, (C11), by algorithm 8 of Neal (2000); returns the number of
    clusters."""
    f_means, f_precisions, f_log_dets = f_parts
    b_means, b_precisions, b_log_dets = b_parts
    f_factors, b_factors = base_factors(f_base), base_factors(b_base)
    weights = np.empty(len(counts))
    for u in range(len(z)):
        own = z[u]
        counts[own] -= 1
        first_fresh = n_components
        if (
            counts[own] == 0
        ):  # alone: the cluster becomes the first auxiliary component, the last one takes its place
            last = n_components - 1
            swap(own, last, f_means, f_precisions, f_log_dets)
            swap(own, last, b_means, b_precisions, b_log_dets)
            counts[own] = counts[last]
            for v in range(len(z)):
                if z[v] == last:
                    z[v] = own
            n_components -= 1
        for k in range(first_fresh, n_components + n_auxiliary):
            draw_from_base(k, f_means, f_precisions, f_log_dets, f_base, f_factors)
            draw_from_base(k, b_means, b_precisions, b_log_dets, b_base, b_factors)

        n_choices = n_components + n_auxiliary
        for k in range(n_choices):
            weights[k] = math.log(counts[k] if k < n_components else alpha / n_auxiliary)
            weights[k] += log_normal(features[u], f_means[k], f_precisions[k], f_log_dets[k])
            weights[k] += log_normal(latent[u], b_means[k], b_precisions[k], b_log_dets[k])
        weights[:n_choices] = np.exp(weights[:n_choices] - weights[:n_choices].max())
        chosen = choose(weights[:n_choices])

        if chosen >= n_components:
            swap(chosen, n_components, f_means, f_precisions, f_log_dets)
            swap(chosen, n_components, b_means, b_precisions, b_log_dets)
            chosen = n_components
            counts[chosen] = 0
            n_components += 1
        z[u] = chosen
        counts[chosen] += 1
    return n_components


@compiled
def draw_latent(gram, weighted_outcome, noise_precision, prior_mean, prior_precision):
    """The latent coefficients (U,), (C7); gram is designᵀ design, weighted_outcome designᵀ
    outcome."""
    precision = noise_precision * gram + np.diag(prior_precision)
    return draw_normal(prior_precision * prior_mean + noise_precision * weighted_outcome, precision)


@compiled
def start_view(x, z, n_components, capacity):
    """Means of the clusters, room for the rest, and base parameters at the center of their
    prior."""
    n_users, n_dims = x.shape
    means = np.zeros((capacity, n_dims))
    precisions, log_dets = np.zeros((capacity, n_dims, n_dims)), np.zeros(capacity)
    counts = np.zeros(n_components)
    for u in range(n_users):
        counts[z[u]] += 1
        means[z[u]] += x[u]
    for k in range(n_components):
        means[k] /= counts[k]
    base = (np.zeros(n_dims), np.eye(n_dims), np.eye(n_dims), n_dims + 1.0)
    return (means, precisions, log_dets), base


@compiled
def make_store(n, n_dims):
    """Room for n draws of a view's base parameters."""
    return (
        np.empty((n, n_dims)),
        np.empty((n, n_dims, n_dims)),
        np.empty((n, n_dims, n_dims)),
        np.empty(n),
    )


@compiled
def put(i, store, base):
    """Base parameters as draw i."""
    store[0][i], store[1][i], store[2][i], store[3][i] = base


@compiled
def sample(features, design, outcome, z, n_iterations, seed, n_auxiliary):
    """All iterations; z is changed in place."""
    np.random.seed(seed)
    n_threads, n_users = design.shape
    n_dims = features.shape[1]
    gram, weighted_outcome = design.T @ design, design.T @ outcome
    capacity = n_users + n_auxiliary
    n_components = z.max() + 1
    counts = np.zeros(capacity, dtype=np.int64)
    for u in range(n_users):
        counts[z[u]] += 1

    alpha, noise_precision = 1.0, 1.0
    latent = draw_latent(
        gram, weighted_outcome, noise_precision, np.zeros(n_users), np.ones(n_users)
    ).reshape(n_users, 1)
    f_parts, f_base = start_view(features, z, n_components, capacity)
    b_parts, b_base = start_view(latent, z, n_components, capacity)

    z_draws, latents = (
        np.empty((n_iterations, n_users), dtype=np.int32),
        np.empty((n_iterations, n_users)),
    )
    n_clusters, alphas = np.empty(n_iterations, dtype=np.int64), np.empty(n_iterations)
    noise_precisions = np.empty(n_iterations)
    f_store, b_store = make_store(n_iterations, n_dims), make_store(n_iterations, 1)

    for i in range(n_iterations):
        draw_components(features, z, n_components, f_parts[0], f_parts[1], f_parts[2], f_base)
        f_base = draw_base(n_components, f_parts[0], f_parts[1], f_parts[2], f_base)
        draw_components(latent, z, n_components, b_parts[0], b_parts[1], b_parts[2], b_base)
        b_base = draw_base(n_components, b_parts[0], b_parts[1], b_parts[2], b_base)

        prior_mean, prior_precision = b_parts[0][z, 0], b_parts[1][:, 0, 0][z]
        drawn = draw_latent(gram, weighted_outcome, noise_precision, prior_mean, prior_precision)
        latent = drawn.reshape(n_users, 1)
        residual = outcome - design @ drawn
        noise_precision = draw_g(1.0 + n_threads, 1.0 + residual @ residual)  # (C8)

        n_components = draw_assignments(
            features,
            latent,
            z,
            counts,
            n_components,
            alpha,
            n_auxiliary,
            f_parts,
            b_parts,
            f_base,
            b_base,
        )
        parameters = (float(n_components), float(n_users))
        alpha = math.exp(draw_log_alpha(parameters, math.log(alpha), -math.inf))

        z_draws[i], latents[i] = z, drawn
        n_clusters[i], alphas[i], noise_precisions[i] = n_components, alpha, noise_precision
        put(i, f_store, f_base)
        put(i, b_store, b_base)
    return z_draws, n_clusters, alphas, latents, noise_precisions, f_store, b_store


def run(
    features: np.ndarray,
    design: np.ndarray,
    outcome: np.ndarray,
    z: np.ndarray,
    n_iterations: int,
    seed: int,
    n_auxiliary: int = 3,
) -> dict[str, np.ndarray]:
    """Draws of every iteration by name, from the assignments z (U,), labels 0..K−1; working units
    throughout."""
    arrays = [
        np.ascontiguousarray(array, dtype=np.float64) for array in (features, design, outcome)
    ]
    start = np.array(z, dtype=np.int64)
    z_draws, n_clusters, alpha, latent, noise_precision, *stores = sample(
        *arrays, start, n_iterations, seed, n_auxiliary
    )
    draws = {
        "z": z_draws,
        "n_clusters": n_clusters,
        "alpha": alpha,
        "latent": latent,
        "params.noise_precision": noise_precision,
    }
    for view, store in zip(("features", "behavior"), stores, strict=True):
        for name, values in zip(
            ("base_mean", "base_precision", "base_covariance", "base_dof"), store, strict=True
        ):
            draws[f"{view}.{name}"] = values
    return draws
