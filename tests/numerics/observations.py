"""Normal observations, linear in latent vectors, as one dense design: what the kernels see user by
user."""

from copy import copy

import numpy as np
from scipy.linalg import block_diag
from scipy.stats import multivariate_normal, norm

from dualview.numerics.messages import Terms


class Observations:
    """Outcomes (T,) with means Σ_u d_tu · f_u, design d (T, U, q); user 3 has none.

    kind: one precision ("common"), the same with a gram matrix for q = 1 ("gram"), one precision
    for each outcome ("own"), or one for each user, who then has outcomes alone ("cluster"): noise
    (U,).
    """

    def __init__(self, rng, n_users, n_dims, kind, n_outcomes=9, silent=3):
        assert n_dims == 1 or kind != "gram"
        self.kind = kind
        self.design = rng.standard_normal((n_outcomes, n_users, n_dims))
        self.design *= rng.random((n_outcomes, n_users, 1)) < 0.6
        self.design[:, silent : silent + 1] = 0.0
        self.outcome = 2.0 * rng.standard_normal(n_outcomes)
        self.precision = 0.2 + rng.gamma(2.0, size=n_outcomes if kind == "own" else 1)
        self.noise, self.noise_dof = np.empty(0), 3.0
        if kind == "cluster":
            self.design = rng.standard_normal(self.design.shape)
            owners = rng.choice([u for u in range(n_users) if u != silent], size=n_outcomes)
            self.design[np.arange(n_users) != owners[:, None]] = 0.0
            self.set_noise(0.2 + rng.gamma(2.0, size=n_users))

    def set_noise(self, noise):
        """Every user's noise, and with it the precision of each outcome."""
        self.noise, self.precision = noise, noise[np.abs(self.design).sum(axis=2).argmax(axis=1)]

    @property
    def weights(self):
        """The precision of each observation, (T,)."""
        return np.broadcast_to(self.precision, len(self.outcome))

    def redraw(self, rng, latent):
        """Outcomes given latent vectors."""
        self.outcome = np.einsum("tui,ui->t", self.design, latent) + rng.standard_normal(
            len(self.outcome)
        ) / np.sqrt(self.weights)

    def residual(self, latent):
        return self.outcome - np.einsum("tui,ui->t", self.design, latent)

    def log_likelihood(self, latent):
        return norm.logpdf(self.residual(latent), 0.0, 1 / np.sqrt(self.weights)).sum()

    def terms(self, latent):
        """What must not be read is NaN: squares without a common precision, residuals beside a
        gram."""
        present = [
            np.flatnonzero(np.abs(own).sum(axis=1)) for own in self.design.transpose(1, 0, 2)
        ]
        starts, rows = (
            np.append(0, np.cumsum([len(own) for own in present])),
            np.concatenate(present).astype(np.uint32),
        )
        loads = np.concatenate([self.design[own, u] for u, own in enumerate(present)])
        squares, residual = (
            np.einsum("tui,tuj->uij", self.design, self.design),
            self.residual(latent),
        )
        gram, weighted = np.empty((0, 0)), np.empty(0)
        if self.kind == "gram":
            residual, dense = np.full(len(residual), np.nan), self.design[:, :, 0]
            gram, weighted = dense.T @ dense, dense.T @ self.outcome
        if self.kind in ("own", "cluster"):
            squares = np.full_like(squares, np.nan)
        precision, noise = self.precision.copy(), self.noise.copy()
        return Terms(
            starts, rows, loads, squares, residual, precision, gram, weighted, noise, self.noise_dof
        )

    def log_marginal(self, means, precisions):
        """ln p(outcomes) with every f_u ~ N(means[u], precisions[u]⁻¹) integrated out."""
        dense = self.design.reshape(len(self.outcome), -1)
        covariance = (
            np.diag(1 / self.weights) + dense @ block_diag(*np.linalg.inv(precisions)) @ dense.T
        )
        return multivariate_normal.logpdf(self.outcome, dense @ np.ravel(means), covariance)

    def posterior(self, means, precisions):
        """Mean (U q,) and precision of all latent vectors given the outcomes and such priors."""
        dense, prior = self.design.reshape(len(self.outcome), -1), block_diag(*precisions)
        total = prior + (dense.T * self.weights) @ dense
        return np.linalg.solve(
            total, prior @ np.ravel(means) + dense.T @ (self.weights * self.outcome)
        ), total

    def alone(self, u, latent):
        """The observations as they are for user u, all others' latent vectors known."""
        others = latent.copy()
        others[u] = 0.0
        own = copy(self)
        own.design, own.outcome = self.design[:, [u]], self.residual(others)
        return own

    def alone_under(self, u, latent, noise):
        """The same with another noise of this user."""
        own = self.alone(u, latent)
        own.precision = np.where(np.abs(self.design[:, u]).sum(axis=1) > 0, noise, self.weights)
        return own
