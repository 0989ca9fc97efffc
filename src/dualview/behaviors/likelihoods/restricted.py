"""A linear mixed model of outcomes with its variances by restricted likelihood: an honest scale of
the behavior view.

y = fixed b + slopes g + effects f + noise with b flat, g ~ N(0, v_g s), f ~ N(0, v_f s) and noise
of variance s. The likelihood is that of what is left of y after the fixed columns. Each part is (T,
columns).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from dualview.behaviors.likelihoods.ridge import column_space
from dualview.errors import InputError
from dualview.units import GaussianPrior, Whitening

Array = NDArray[np.float64]

_MOST_USERS = 2000  # whose variance is looked for by dense factorisations
_LEAST_BROUGHT = 1e-3  # to an outcome's variance, of the noise's: less cannot be told from nothing
_STARTS = (-4.0, -1.0, 1.0)  # ln of the part's variance in outcomes over that of the noise
_RANGE = (-14.0, 14.0)


class Columns(NamedTuple):
    """What a linear mixed model sees of outcomes."""

    fixed: Array
    slopes: Array
    effects: Array


class Restricted(NamedTuple):
    """A fit: coefficients of the fixed columns, of slopes and of effects; variances of the noise,
    of slopes and of effects."""

    coefficients: tuple[Array, Array, Array]
    noise: float
    slope_variance: float
    effect_variance: float


def fit_restricted(columns: Columns, outcome: Array) -> Restricted:
    """Variances of slopes and effects that maximise the restricted likelihood; a part without
    columns has none."""
    basis = column_space(columns.fixed)
    target = outcome - basis @ (basis.T @ outcome)
    parts = [part - basis @ (basis.T @ part) for part in columns[1:]]
    both, sizes = np.hstack(parts), [part.shape[1] for part in parts]
    gram, cross, total = both.T @ both, both.T @ target, float(target @ target)
    freedom = len(outcome) - basis.shape[1]
    # In units of what a part brings to an outcome, so that neither its size nor that of its columns
    # matters.
    means = [max(float((part * part).sum()) / len(outcome), np.finfo(float).tiny) for part in parts]
    used = [k for k in (0, 1) if sizes[k]]

    def ratios(log_shares: Array) -> Array:
        result = np.ones(2)
        result[used] = np.exp(log_shares) / np.array(means)[used]
        return result

    def solved(log_shares: Array) -> tuple[Array, float, float]:
        ratio = np.repeat(ratios(log_shares), sizes)
        factor = cho_factor(gram + np.diag(1.0 / ratio), lower=True)
        found = cho_solve(factor, cross)
        noise = max(total - float(cross @ found), np.finfo(float).eps * total) / freedom
        log_determinant = 2.0 * float(np.log(np.diag(factor[0])).sum()) + float(np.log(ratio).sum())
        return found, noise, 0.5 * (freedom * np.log(noise) + log_determinant)

    best = np.zeros(0)
    if used:
        tries = [
            minimize(
                lambda v: solved(v)[2],
                np.full(len(used), start),
                method="L-BFGS-B",
                bounds=[_RANGE] * len(used),
            )
            for start in _STARTS
        ]
        best = min(tries, key=lambda result: float(result.fun)).x
    found, noise, _ = solved(best)
    slopes, effects = found[: sizes[0]], found[sizes[0] :]
    rest = outcome - columns.slopes @ slopes - columns.effects @ effects
    fixed = np.asarray(np.linalg.lstsq(columns.fixed, rest, rcond=None)[0], dtype=float)
    shares = noise * ratios(best)
    return Restricted(
        (fixed, slopes, effects),
        noise,
        *(float(v) if n else 0.0 for v, n in zip(shares, sizes, strict=True)),
    )


def likely_prior(
    design: Any, outcome: Array, outside: Array, features: Array | None
) -> GaussianPrior:
    """Mean and variance of users' coefficients; design (T, U), columns outside the mixture (T, C),
    features (U, D) or None."""
    n_users = design.shape[1]
    if n_users > _MOST_USERS:
        raise InputError(
            f'behavior_prior="likelihood" is for up to {_MOST_USERS:,} users; there are '
            f"{n_users:,}. Leave behavior_prior at "
            "None, or give GaussianPrior(m, variance), from some of the users if need be."
        )
    dense = np.asarray(design.toarray() if sparse.issparse(design) else design, dtype=float)
    slopes = np.empty((len(dense), 0))
    if features is not None:
        slopes = dense @ Whitening.of_data(features).to_working(features)
    with_size = np.hstack([dense.sum(axis=1, keepdims=True), outside])
    told_apart = column_space(with_size).shape[1] > column_space(outside).shape[1]
    found = fit_restricted(Columns(with_size if told_apart else outside, slopes, dense), outcome)
    variance = found.slope_variance * slopes.shape[1] + found.effect_variance
    mean_square = float((dense * dense).sum()) / len(
        dense
    )  # what a variance of 1 adds to an outcome's
    mean = float(found.coefficients[0][0]) if told_apart else 0.0
    return GaussianPrior(mean, max(variance, _LEAST_BROUGHT * found.noise / mean_square))
