"""Threads in working units: the constants of their behavior view, from the data where no prior is
given, and the regression."""

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dualview.behaviors.likelihoods.restricted import likely_prior
from dualview.behaviors.likelihoods.ridge import ridge_estimate
from dualview.behaviors.likelihoods.threads import ThreadRegression
from dualview.behaviors.threads_given import outcome_variance
from dualview.behaviors.threads_noise import likely_noise
from dualview.checks import varies
from dualview.errors import DataWarning, InputError
from dualview.units import GaussianPrior, Whitening

if TYPE_CHECKING:
    from dualview.behaviors.shared_outcome import SharedOutcome

Array = NDArray[np.float64]

# threads × levels², up to which the noise's constant has the effects of groups projected out
_MOST_OF_GROUPS = 5e9
_SOLVER_TOLERANCE = 1e-8  # relative differences between ridge estimates that are rounding


def ridge_of(threads: "SharedOutcome") -> Array:
    """f̂ of (M11), (U,); intercept and covariates enter unpenalised."""
    penalty = threads.ridge * _weight_unit(threads) ** 2
    return ridge_estimate(
        threads.participation, _ungrouped(threads), threads.coefficient_design, penalty
    )


def ridge_prior(threads: "SharedOutcome") -> GaussianPrior:
    """Mean and variance of the ridge estimate, (M11)."""
    estimate = threads.ridge_estimate()
    if not varies(estimate, _SOLVER_TOLERANCE):
        outcome_variance(threads.observed)
        raise InputError(
            "The ridge estimates of the latent coefficients are all equal, so the behavior view "
            "has no scale: does "
            "participation differ between users? To fit anyway, give "
            "behavior_prior=GaussianPrior(m, variance)."
        )
    return GaussianPrior(estimate.mean(), float(np.var(estimate, ddof=1)))


def restricted_prior(threads: "SharedOutcome", features: Array | None) -> GaussianPrior:
    """Mean and variance under which the outcomes are most likely, around slopes on features (U, D)
    where these are given."""
    outcome_variance(threads.observed)
    return likely_prior(
        threads.participation, _ungrouped(threads), threads.coefficient_design, features
    )


def noise_constant(threads: "SharedOutcome") -> float:
    """σ_0² of (M9): as given, the outcome's variance as in the paper, or what the restricted
    likelihood estimates."""
    if isinstance(threads.noise_variance, float):
        return threads.noise_variance
    variance = outcome_variance(threads.observed)
    if threads.noise_variance == "paper":
        return variance
    outcome, outside, n_levels = (
        threads.observed,
        threads.coefficient_design,
        int(threads.effects.bounds[-1]),
    )
    if (
        n_levels > threads.n_observations // 2
        or threads.n_observations * n_levels**2 > _MOST_OF_GROUPS
    ):
        outcome = _ungrouped(threads)
    elif n_levels:
        outside = np.hstack(
            [outside, *(levels.toarray() for levels in threads.effects.indicators())]
        )
    found = likely_noise(threads.participation, outcome, outside)
    return variance if found is None else found


def _ungrouped(threads: "SharedOutcome") -> Array:
    """The outcomes less a quick estimate of the effects of groups."""
    if threads.effects.none:
        return threads.observed
    totals = np.asarray(threads.participation.sum(axis=1)).reshape(-1, 1)
    design = np.hstack([totals, threads.coefficient_design])
    return threads.observed - threads.effects.quick_estimate(design, threads.observed)


def _weight_unit(threads: "SharedOutcome") -> float:
    """Mean total weight of a thread, to 12 digits: 1 exactly where rows sum to one up to
    rounding."""
    unit = float(abs(threads.participation).sum()) / threads.n_observations
    return float(f"{unit:.12g}") if unit > 0.0 else 1.0


def warn_of_confounding(threads: "SharedOutcome") -> None:
    """Warn of an intercept that adding the same number to every coefficient would replace, unless
    its prior was chosen."""
    totals = np.asarray(threads.participation.sum(axis=1)).ravel()
    if (
        threads.intercept
        and threads.coefficient_prior is None
        and totals.any()
        and not varies(totals)
    ):
        warnings.warn(
            f"The weights of every thread add up to the same total ({totals[0]:.3g}), so an "
            "intercept cannot be told apart "
            "from the mean of the users' coefficients: only their sum is known, and both mix "
            "slowly. Predictions are not "
            "affected. Use intercept=False, or weights that are not divided by their sum.",
            DataWarning,
            stacklevel=5,
        )


def regression_of(
    threads: "SharedOutcome", prior: GaussianPrior
) -> tuple[Whitening, ThreadRegression]:
    """Units of the latent coefficients, and the regression in working units."""
    noise_variance = threads.noise_constant
    units = Whitening.of(prior)
    coefficient_units = threads.coefficient_units()
    sd = np.sqrt(noise_variance)
    threads.effects.check_columns()
    expected = threads.participation @ np.full(len(threads), prior.mean[0])
    expected = expected + threads.coefficient_design @ coefficient_units.mean
    regression = ThreadRegression(
        design=threads.participation * (units.factor[0, 0] / sd),
        coefficient_design=threads.coefficient_design @ coefficient_units.factor / sd,
        outcome=(threads.observed - expected) / sd,
        noise_variance=noise_variance,
        coefficient_units=coefficient_units,
    )
    if threads.effects.none:
        return units, regression
    n_common, effects = regression.n_coefficients, threads.effects
    columns = [sparse.csr_array(regression.coefficient_design), *effects.indicators()]
    spread = float(np.std(regression.outcome, ddof=1))
    return units, replace(
        regression,
        design=sparse.csr_array(regression.design),
        coefficient_design=sparse.hstack(columns, format="csr"),
        bounds=n_common + effects.bounds,
        scales=np.full(len(effects.factors), spread),
    )
