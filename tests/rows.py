"""Likelihoods of rows of one user each as tests make them, a function for each family."""

from typing import Any

import numpy as np

from dualview.behaviors.families.gaussian import GaussianFamily
from dualview.behaviors.families.interval import Ends, IntervalFamily
from dualview.behaviors.families.logit import LogitFamily
from dualview.behaviors.families.noise import (
    KnownNoise,
    NoiseByCluster,
    NoiseByUser,
    NoisePrior,
    SharedNoise,
    Tails,
)
from dualview.behaviors.families.ordinal import CutPrior, OrdinalFamily
from dualview.behaviors.families.ranking import Orders, RankingFamily
from dualview.behaviors.families.student import StudentFamily
from dualview.behaviors.families.times import ERRORS, TimeFamily
from dualview.behaviors.likelihoods.user_rows import UserRows
from dualview.behaviors.panel import Panel

Array = Any


def normal_rows(
    panel: Panel, prior: NoisePrior, by_cluster: bool = False, known_noise: bool = False
) -> UserRows:
    learned = NoiseByCluster(prior) if by_cluster else SharedNoise(prior)
    return UserRows(panel, GaussianFamily(KnownNoise() if known_noise else learned))


def own_noise_rows(panel: Panel, prior: NoisePrior, dof: float | None = None) -> UserRows:
    return UserRows(panel, GaussianFamily(NoiseByUser(prior, Tails(dof))))


def student_rows(panel: Panel, prior: NoisePrior, dof: float | None = None) -> UserRows:
    return UserRows(panel, StudentFamily(SharedNoise(prior), Tails(dof)))


def interval_rows(
    panel: Panel,
    prior: NoisePrior,
    by_cluster: bool = False,
    *,
    low: Array,
    high: Array,
    record: Any = None,
) -> UserRows:
    noise = NoiseByCluster(prior) if by_cluster else SharedNoise(prior)
    family = IntervalFamily(noise, record=record)
    return UserRows(panel, family, values=Ends(low, high, panel.outcome))


def time_rows(panel: Panel, prior: NoisePrior, family: str, *, record: Any) -> UserRows:
    ends = Ends(*record(panel.outcome), panel.outcome)
    made = TimeFamily(SharedNoise(prior), record=record, errors=ERRORS[family])
    return UserRows(panel, made, values=ends)


def logit_rows(panel: Panel, covariates: Any, constant: Array) -> UserRows:
    return UserRows(panel, LogitFamily(), constant, covariates=covariates)


def ordinal_rows(panel: Panel, constant: Array, cut_prior: CutPrior) -> UserRows:
    return UserRows(panel, OrdinalFamily(cut_prior), constant)


def ranking_rows(panel: Panel, orders: Orders, constant: Array) -> UserRows:
    return UserRows(panel, RankingFamily(), constant, orders)


def residual(likelihood: UserRows, latent: Array) -> Array:
    """Numbers minus what was expected of them, (n,)."""
    observed = likelihood.observed
    return np.asarray(getattr(observed, "inside", observed) - likelihood.predictor(latent))
