"""How heavy the tails of a view's prior are: the degrees of freedom of the t distributions that
(M1) to (M7) imply.

Integrate R_0 out of (M2) and (M5′) R_0 ~ W(ν, (νΣ)⁻¹): μ_k about μ_0 has a t distribution with ν −
D + 1 degrees of freedom. Integrate S_k out of (M1) and (M3): x_u about μ_k has one with β − D + 1,
and (M7′) 1/(β − β_min) ~ G(1, 1/D) leaves it more than β_min − D + 1. A power p of x_u then has a
prior mean where p is below the first number and not above the second: at the bound the mean given β
grows like 1/(β − β_min), which has a mean itself.

The paper's priors are ν = D and β_min = D − 1: a Cauchy distribution of means, and no moment of x_u
at all. Where observations tell where vectors are, that is no harm. A likelihood that stays away
from 0 however far they go leaves the posterior the tails of the prior, and has to ask for more.

The spread inside clusters is (M6′) W_0 ~ W(ω, Σ/ω), whose density goes like |W_0|^((ω − D − 1)/2).
The paper's ω = D lets it grow without bound towards 0. Where vectors are observed, they tell their
spread. Latent ones may tell little of it, and then the posterior puts clusters too narrow. With ω =
D + 1 the density is flat there.

Degrees of freedom ν of a t distribution in place of a normal one, of noise or of vectors about the
means of their clusters, have the density ∝ ν e^(−ν/10) above 1, so that means exist.
"""

from typing import Any, NamedTuple


class Hyperprior(NamedTuple):
    """Degrees of freedom of clusters' means, ν − D + 1; of vectors in a cluster at least, β_min − D
    + 1; of a link's slopes; of the spread W_0 inside clusters, ω − D + 1.
    """

    of_means: int
    least_of_vectors: int
    of_slopes: int
    of_spreads: int


SPREADS = {"flat": 2, "paper": 1}  # by name, ω − D + 1 of latent vectors
PUBLISHED = Hyperprior(1, 0, 1, 1)
FINITE_VARIANCES = Hyperprior(3, 2, 3, 1)
LEAST_TAIL_DOF, TAIL_RATE = 1.0, 0.1


def draw_tail_prior(rng: Any) -> float:
    """A draw from the prior of ν; rng: a NumPy generator."""
    dof = 0.0
    while dof <= LEAST_TAIL_DOF:
        dof = float(rng.standard_gamma(2.0)) / TAIL_RATE
    return dof
