"""Slow, obvious twins of what the package computes fast. Nothing here imports the package.

Shapes: z (U,), features (U, D), latent (U, q), x (n, D) points of a view, design (T, U), covariates
(T, C),
outcome (T,). `constants` is a view's pair (m (D,), Sigma (D, D)); `partition` is ("dp", None),
("finite", K)
or ("one", 1). `data` is a dict of keyword arguments of `log_joint`.

The joint density and the Gibbs sampler's hand-derived conditionals share no formula, so each checks
the other.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.linalg import cholesky, inv, solve
from scipy.linalg import block_diag
from scipy.special import gammaln, logsumexp, multigammaln
from scipy.stats import Covariance, gamma, invgamma, multivariate_normal, norm, wishart

PAPER_ALPHA = invgamma(0.5, scale=0.5)  # 1 / alpha ~ G(1, 1)


@dataclass
class ViewState:
    """One Gaussian view: mu_k, S_k, mu_0, R_0, W_0, beta."""

    means: np.ndarray
    precisions: np.ndarray
    base_mean: np.ndarray
    base_precision: np.ndarray
    base_covariance: np.ndarray
    base_dof: float


@dataclass
class State:
    """Everything unknown; `views` has keys among "features" and "behavior"."""

    z: np.ndarray
    alpha: float | None
    views: dict[str, ViewState]
    latent: np.ndarray | None = None
    noise_precision: float | None = None
    coefficients: np.ndarray | None = None


def log_normal(x, mean, precision) -> float:
    """Log density of N(mean, precision^-1)."""
    return float(multivariate_normal.logpdf(x, mean, Covariance.from_precision(precision)))


def log_view_prior(view, constants, nu=None, smallest=None, omega=None) -> float:
    """Log prior density of base and components, empty components too, (M2)-(M7); (M5'), (M7'),
    (M6') with the others."""
    m, sigma = constants
    dim = len(m)
    nu, smallest = dim if nu is None else nu, dim - 1 if smallest is None else smallest
    omega = dim if omega is None else omega
    v = 1 / (view.base_dof - smallest)
    total = gamma.logpdf(v, 1 / 2, scale=2 / dim) + 2 * np.log(
        v
    )  # v ~ G(1, 1/D), |dv / dbeta| = v^2
    total += log_normal(view.base_mean, m, inv(sigma))
    total += wishart.logpdf(view.base_precision, nu, inv(nu * sigma))
    total += wishart.logpdf(view.base_covariance, omega, sigma / omega)
    for mean, precision in zip(view.means, view.precisions, strict=True):
        total += log_normal(mean, view.base_mean, view.base_precision)
        total += wishart.logpdf(precision, view.base_dof, inv(view.base_dof * view.base_covariance))
    return float(total)


def log_pooled_prior(means, base_mean, base_precision, constants, nu=None) -> float:
    """Log prior density of vectors that users share, (M2), (M4), (M5); (M5') with nu."""
    m, sigma = constants
    nu = len(m) if nu is None else nu
    total = log_normal(base_mean, m, inv(sigma)) + wishart.logpdf(
        base_precision, nu, inv(nu * sigma)
    )
    return float(total + sum(log_normal(mean, base_mean, base_precision) for mean in means))


def log_mixture_likelihood(x, z, view) -> float:
    """ln p(x | z, components), (M1)."""
    return sum(log_normal(x[u], view.means[z[u]], view.precisions[z[u]]) for u in range(len(z)))


def log_partition(z, alpha, partition) -> float:
    """ln p(z | alpha): of the set partition for "dp" and "mixtures", of the labels for "finite".

    In the place of a number of components "mixtures" has ln p(K) of K = 1, 2, …
    """
    kind, n_components = partition
    if kind == "one":
        return 0.0
    if kind == "mixtures":
        counts, numbers = np.unique(z, return_counts=True)[1], np.arange(1, len(n_components) + 1)
        numbers, log_chances = numbers[len(counts) - 1 :], n_components[len(counts) - 1 :]
        named = gammaln(numbers + 1) - gammaln(numbers - len(counts) + 1)
        each = (gammaln(alpha + counts) - gammaln(alpha)).sum()
        total = gammaln(alpha * numbers) - gammaln(alpha * numbers + len(z))
        return float(logsumexp(log_chances + named + total) + each)
    if kind == "dp":
        counts = np.unique(z, return_counts=True)[1]
        total = len(counts) * np.log(alpha) + gammaln(counts).sum()
    else:
        counts = np.bincount(z, minlength=n_components)
        total = (gammaln(alpha / n_components + counts) - gammaln(alpha / n_components)).sum()
    return float(total + gammaln(alpha) - gammaln(alpha + len(z)))


def outcome_mean(state, design, covariates=None):
    """E(outcome | latent, coefficients)."""
    mean = design @ state.latent[:, 0]
    return mean if covariates is None else mean + covariates @ state.coefficients


def log_outcome(state, design, covariates, outcome, noise_variance, coefficient_prior) -> float:
    """ln p(outcome, noise precision, coefficients | latent), (M8)-(M9)."""
    total = gamma.logpdf(state.noise_precision, 1 / 2, scale=2 / noise_variance)
    if state.coefficients is not None:
        total += log_normal(state.coefficients, coefficient_prior[0], inv(coefficient_prior[1]))
    mean = outcome_mean(state, design, covariates)
    return float(total + norm.logpdf(outcome, mean, 1 / np.sqrt(state.noise_precision)).sum())


def log_joint(
    state,
    *,
    features=None,
    feature_constants=None,
    behavior_constants=None,
    design=None,
    covariates=None,
    outcome=None,
    noise_variance=None,
    coefficient_prior=None,
    partition=("dp", None),
) -> float:
    """Log density of state and data together, in the natural variables (beta and alpha, not their
    logs)."""
    total = log_partition(state.z, state.alpha, partition)
    if state.alpha is not None:
        total += PAPER_ALPHA.logpdf(state.alpha)
    given = {
        "features": (features, feature_constants),
        "behavior": (state.latent, behavior_constants),
    }
    for name, view in state.views.items():
        x, constants = given[name]
        total += log_view_prior(view, constants) + log_mixture_likelihood(x, state.z, view)
    if outcome is not None:
        total += log_outcome(state, design, covariates, outcome, noise_variance, coefficient_prior)
    return float(total)


def draw_normal(rng, mean, precision):
    """One vector of N(mean, precision^-1)."""
    return mean + solve(cholesky(precision).T, rng.standard_normal(len(mean)))


def draw_wishart(rng, dof, scale):
    """One matrix of W(dof, scale), by Bartlett's decomposition."""
    dim = len(scale)
    triangle = np.tril(rng.standard_normal((dim, dim)), -1)
    triangle[np.diag_indices(dim)] = np.sqrt(rng.chisquare(dof - np.arange(dim)))
    root = cholesky(scale) @ triangle
    return root @ root.T


def draw_g(rng, nu, w) -> float:
    """One number of G(nu, w)."""
    return float(rng.gamma(nu / 2, 2 * w))


def with_components(rng, view, kept, n_components) -> ViewState:
    """The view with the kept components, then fresh ones from the base, (M2)-(M3), n_components in
    all."""
    means, precisions = [view.means[k] for k in kept], [view.precisions[k] for k in kept]
    while len(means) < n_components:
        means.append(draw_normal(rng, view.base_mean, view.base_precision))
        precisions.append(
            draw_wishart(rng, view.base_dof, inv(view.base_dof * view.base_covariance))
        )
    return replace(view, means=np.array(means), precisions=np.array(precisions))


def draw_view(rng, n_components, constants) -> ViewState:
    """A view with this many components, (M2)-(M7)."""
    m, sigma = constants
    dim = len(m)
    base_mean = draw_normal(rng, m, inv(sigma))
    base_precision = draw_wishart(rng, dim, inv(dim * sigma))
    base_covariance = draw_wishart(rng, dim, sigma / dim)
    base_dof = dim - 1 + 1 / draw_g(rng, 1, 1 / dim)
    view = ViewState([], [], base_mean, base_precision, base_covariance, base_dof)
    return with_components(rng, view, [], n_components)


def draw_labels(rng, n_users, alpha, partition):
    """z given alpha: one user after another, by the weights of section 5."""
    kind, n_components = partition
    z = np.zeros(n_users, dtype=int)
    for u in range(n_users if kind != "one" else 0):
        counts = np.bincount(z[:u], minlength=n_components or 0)
        weights = np.append(counts, alpha) if kind == "dp" else counts + alpha / n_components
        z[u] = rng.choice(len(weights), p=weights / weights.sum())
    return z


def draw_points(rng, z, view):
    """One point of a view for each user, (M1)."""
    return np.array([draw_normal(rng, view.means[k], view.precisions[k]) for k in z])


def draw_data(rng, state, data) -> dict:
    """A copy of data with features, and outcome where there is a design, drawn anew given the
    state."""
    data = dict(data)
    if "features" in state.views:
        data["features"] = draw_points(rng, state.z, state.views["features"])
    if data.get("design") is not None:
        mean = outcome_mean(state, data["design"], data.get("covariates"))
        data["outcome"] = rng.normal(mean, 1 / np.sqrt(state.noise_precision))
    return data


def draw_prior(rng, n_users, dims, *, partition=("dp", None), **data) -> tuple[State, dict]:
    """A state and all its data, for views {name: dimension}; constants not given are zero and
    identity."""
    kind, n_components = partition
    alpha = None if kind == "one" else 1 / draw_g(rng, 1, 1)
    state = State(draw_labels(rng, n_users, alpha, partition), alpha, {})
    n_components = state.z.max() + 1 if kind == "dp" else n_components
    for name, dim in dims.items():
        key = "feature_constants" if name == "features" else "behavior_constants"
        data.setdefault(key, (np.zeros(dim), np.eye(dim)))
        state.views[name] = draw_view(rng, n_components, data[key])
    if "behavior" in dims:
        state.latent = draw_points(rng, state.z, state.views["behavior"])
    if data.get("design") is not None:
        state.noise_precision = draw_g(rng, 1, 1 / data["noise_variance"])
    if data.get("covariates") is not None:
        state.coefficients = draw_normal(
            rng, data["coefficient_prior"][0], inv(data["coefficient_prior"][1])
        )
    return state, draw_data(rng, state, data | {"partition": partition})


def draw_on_grid(rng, log_density, low, high) -> float:
    """One draw by inverting the distribution function on a grid that closes in on the mass."""
    for _ in range(4):
        grid = np.linspace(low, high, 4001)
        values = log_density(grid)
        inside = np.flatnonzero(values > values.max() - 40)
        low, high = grid[max(inside[0] - 1, 0)], grid[min(inside[-1] + 1, len(grid) - 1)]
    density = np.exp(values - values.max())
    cumulative = np.append(0, np.cumsum(density[1:] + density[:-1]))
    return float(np.interp(rng.uniform() * cumulative[-1], cumulative, grid))


def update_assignments(rng, state, data, auxiliary=3) -> State:
    """Every z_u in turn, (C11): algorithm 8 of Neal (2000) for "dp", the K weights for "finite"."""
    kind, n_components = data["partition"]
    z, views = state.z.copy(), dict(state.views)
    points = {"features": data.get("features"), "behavior": state.latent}
    for u in range(len(z) if kind != "one" else 0):
        others = np.delete(z, u)
        if kind == "finite":
            weights = np.bincount(others, minlength=n_components) + state.alpha / n_components
        else:
            occupied, counts = np.unique(others, return_counts=True)
            weights = np.append(counts, [state.alpha / auxiliary] * auxiliary)
            kept = occupied if z[u] in others else [*occupied, z[u]]
            views = {
                name: with_components(rng, view, kept, len(weights)) for name, view in views.items()
            }
            z = np.array([list(kept).index(k) for k in z])
        log_weights = np.log(weights)
        for name, view in views.items():
            for k in range(len(weights)):
                log_weights[k] += log_normal(points[name][u], view.means[k], view.precisions[k])
        z[u] = rng.choice(len(weights), p=np.exp(log_weights - logsumexp(log_weights)))
        if kind == "dp":
            used, z = np.unique(z, return_inverse=True)
            views = {
                name: with_components(rng, view, used, len(used)) for name, view in views.items()
            }
    return replace(state, z=z, views=views)


def update_components(rng, view, x, z) -> ViewState:
    """Every S_k, (C1), and mu_k, (C2)."""
    means, precisions = view.means.copy(), view.precisions.copy()
    for k in range(len(means)):
        inside = x[z == k]
        scatter = (inside - means[k]).T @ (inside - means[k])
        scale = inv(view.base_dof * view.base_covariance + scatter)
        precisions[k] = draw_wishart(rng, view.base_dof + len(inside), scale)
        total = view.base_precision + len(inside) * precisions[k]
        right = view.base_precision @ view.base_mean + precisions[k] @ inside.sum(axis=0)
        means[k] = draw_normal(rng, solve(total, right), total)
    return replace(view, means=means, precisions=precisions)


def log_conditional_base_dof(t, precisions, base_covariance):
    """Log density of t = ln(beta - D + 1), (C6) in a variable whose support is the whole line."""
    n_components, dim = precisions.shape[:2]
    beta = dim - 1 + np.exp(t)
    products = precisions @ base_covariance
    log_determinants, traces = np.linalg.slogdet(products)[1], np.trace(products, axis1=1, axis2=2)
    log_normaliser = dim * beta / 2 * np.log(beta / 2) - multigammaln(beta / 2, dim)
    log_likelihood = n_components * log_normaliser + beta / 2 * (log_determinants - traces).sum()
    return log_likelihood - t / 2 - dim * np.exp(-t) / 2


def update_base(rng, view, constants) -> ViewState:
    """mu_0, (C3), R_0, (C4), W_0, (C5), and beta, (C6)."""
    m, sigma = constants
    dim, n_components = len(m), len(view.means)
    total = inv(sigma) + n_components * view.base_precision
    right = solve(sigma, m) + view.base_precision @ view.means.sum(axis=0)
    base_mean = draw_normal(rng, solve(total, right), total)
    scatter = (view.means - base_mean).T @ (view.means - base_mean)
    base_precision = draw_wishart(rng, dim + n_components, inv(dim * sigma + scatter))
    inverse_scale = dim * inv(sigma) + view.base_dof * view.precisions.sum(axis=0)
    base_covariance = draw_wishart(rng, dim + n_components * view.base_dof, inv(inverse_scale))
    # Beyond beta = exp(20) lnΓ runs out of digits; the prior mass there, about 4e-5, is given up.
    t = draw_on_grid(
        rng, lambda t: log_conditional_base_dof(t, view.precisions, base_covariance), -15, 20
    )
    base_dof = float(dim - 1 + np.exp(t))
    return ViewState(
        view.means, view.precisions, base_mean, base_precision, base_covariance, base_dof
    )


def log_conditional_alpha(y, z, partition, prior=PAPER_ALPHA):
    """Log density of y = ln(alpha), (C9) or (C10), with ratios of gamma functions as plain
    products."""
    kind, n_components = partition
    alpha = np.exp(y)
    total = y + prior.logpdf(alpha) - sum(np.log(alpha + i) for i in range(len(z)))
    if kind == "dp":
        return total + len(np.unique(z)) * y
    counts = np.bincount(z, minlength=n_components)
    return total + sum(np.log(alpha / n_components + i) for n in counts for i in range(n))


def update_behavior(rng, state, data) -> State:
    """Latent vector and coefficients jointly, (C7), then the noise precision, (C8)."""
    view, regressors = state.views["behavior"], data["design"]
    mean, precision = view.means[state.z, 0], np.diag(view.precisions[state.z, 0, 0])
    if state.coefficients is not None:
        mean = np.append(mean, data["coefficient_prior"][0])
        precision = block_diag(precision, inv(data["coefficient_prior"][1]))
        regressors = np.hstack([regressors, data["covariates"]])
    total = precision + state.noise_precision * regressors.T @ regressors
    right = precision @ mean + state.noise_precision * regressors.T @ data["outcome"]
    drawn = draw_normal(rng, solve(total, right), total)
    latent = drawn[: len(state.z), None]
    coefficients = None if state.coefficients is None else drawn[len(state.z) :]
    residual = data["outcome"] - regressors @ drawn
    noise_precision = draw_g(
        rng, 1 + len(residual), 1 / (data["noise_variance"] + residual @ residual)
    )
    return replace(state, latent=latent, coefficients=coefficients, noise_precision=noise_precision)


def gibbs_sweep(rng, state, data, auxiliary=3) -> State:
    """Every unknown once, each from its conditional."""
    state = update_assignments(rng, state, data, auxiliary)
    points = {"features": data.get("features"), "behavior": state.latent}
    constants = {
        "features": data.get("feature_constants"),
        "behavior": data.get("behavior_constants"),
    }
    views = {}
    for name, view in state.views.items():
        view = update_components(rng, view, points[name], state.z)
        views[name] = update_base(rng, view, constants[name])
    state = replace(state, views=views)
    if state.alpha is not None:
        y = draw_on_grid(
            rng, lambda y: log_conditional_alpha(y, state.z, data["partition"]), -15, 100
        )
        state = replace(state, alpha=float(np.exp(y)))
    return state if data.get("outcome") is None else update_behavior(rng, state, data)


def partitions(n):
    """All set partitions of n things, as labels numbered by first appearance."""
    if n == 0:
        yield ()
    for labels in partitions(n - 1) if n else ():
        yield from ((*labels, k) for k in range(max(labels, default=-1) + 2))


def log_cluster_marginal(x, base_mean, base_precision, base_covariance, base_dof) -> float:
    """ln of (M1) integrated over (M2) and (M3) at D = 1, for the points x (n,) of one cluster."""
    deviation = 1 / np.sqrt(base_precision)
    mu = base_mean + deviation * np.linspace(-12, 12, 40_001)
    # Given mu the precision integrates to a ratio of gamma normalisers; mu is summed over a grid.
    shape, rate = base_dof / 2, base_dof * base_covariance / 2
    shape_after, rate_after = shape + len(x) / 2, rate + ((x[:, None] - mu) ** 2).sum(axis=0) / 2
    log_given_mu = (
        shape * np.log(rate)
        - gammaln(shape)
        + gammaln(shape_after)
        - shape_after * np.log(rate_after)
    )
    log_integrand = (
        norm.logpdf(mu, base_mean, deviation) + log_given_mu - len(x) / 2 * np.log(2 * np.pi)
    )
    return float(logsumexp(log_integrand) + np.log(mu[1] - mu[0]))


def enumerate_posterior(
    features_1d, base_mean, base_precision, base_covariance, base_dof, alpha, partition=("dp", None)
) -> dict[tuple[int, ...], float]:
    """Posterior probability of each set partition, one view of one dimension, all hyperparameters
    fixed."""
    (kind, n_components), log_weights = partition, {}
    base = (base_mean, base_precision, base_covariance, base_dof)
    for labels in partitions(len(features_1d)):
        z, n_blocks = np.array(labels), max(labels) + 1
        if kind == "finite" and n_blocks > n_components:
            continue
        log_weights[labels] = log_partition(z, alpha, partition)
        if kind == "finite":  # the blocks can be named in K (K - 1) ... ways
            log_weights[labels] += sum(np.log(n_components - i) for i in range(n_blocks))
        log_weights[labels] += sum(
            log_cluster_marginal(features_1d[z == k], *base) for k in range(n_blocks)
        )
    total = logsumexp(list(log_weights.values()))
    return {labels: float(np.exp(value - total)) for labels, value in log_weights.items()}


def blr_posterior(design, outcome, prior_mean, prior_precision_diag, noise_precision):
    """Mean and covariance of the coefficients of Bayesian linear regression with known noise."""
    covariance = inv(np.diag(prior_precision_diag) + noise_precision * design.T @ design)
    return covariance @ (
        prior_precision_diag * prior_mean + noise_precision * design.T @ outcome
    ), covariance


def ridge(design, outcome, penalty, unpenalised=None):
    """Coefficients of (M11), those of the unpenalised columns last; of several minimisers the least
    norm."""
    n_penalised = design.shape[1]
    columns = design if unpenalised is None else np.hstack([design, unpenalised])
    # Least squares with one more row, sqrt(penalty) and outcome 0, for each penalised coefficient.
    rows = np.sqrt(penalty) * np.eye(n_penalised, columns.shape[1])
    return np.linalg.lstsq(
        np.vstack([columns, rows]), np.append(outcome, np.zeros(n_penalised)), rcond=None
    )[0]


def similarity(z_draws):
    """Share of draws (N, U) in which users i and j sit together."""
    return np.mean([np.equal.outer(z, z) for z in np.asarray(z_draws)], axis=0)


def adjusted_rand(a, b) -> float:
    """Adjusted Rand index from all pairs of users; 1 when the partitions are equal."""
    pairs = np.triu_indices(len(a), 1)
    same_a, same_b = similarity([a])[pairs] == 1, similarity([b])[pairs] == 1
    if np.array_equal(same_a, same_b):
        return 1.0
    expected, largest = same_a.sum() * same_b.sum() / len(same_a), (same_a.sum() + same_b.sum()) / 2
    return float(((same_a & same_b).sum() - expected) / (largest - expected))
