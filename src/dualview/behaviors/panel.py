"""Rows of observations that belong to one user each, as arrays: whose they are, and how they depend
on that user's latent vector.

user (n,) positions of users, design (n, q), outcome (n,).
"""

import copy
import warnings
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dualview.checks import column_names, names_text, numbers, refuse_repeated_columns
from dualview.errors import InputError

Array = NDArray[np.float64]
Users = NDArray[np.int64]
_Record = TypeVar("_Record")


class Panel(NamedTuple):
    """Observations sorted by user: those of user u are starts[u] to starts[u + 1]."""

    starts: Users
    user: Users
    design: Array
    outcome: Array

    @classmethod
    def of(cls, user: Users, design: Array, outcome: Array, n_users: int) -> "Panel":
        order = np.argsort(user, kind="stable")
        starts = np.searchsorted(user[order], np.arange(n_users + 1)).astype(np.int64)
        return cls(starts, user[order], np.ascontiguousarray(design[order]), outcome[order])

    @property
    def counts(self) -> Users:
        """Observations of each user."""
        return np.diff(self.starts)

    @property
    def rows(self) -> NDArray[np.uint32]:
        """The observations in their order, as the sweep takes them."""
        return np.arange(len(self.user), dtype=np.uint32)

    def sums(self, values: Array) -> Array:
        """Sums over each user's observations of values (n, …), (U, …)."""
        result = np.zeros((len(self.starts) - 1, *values.shape[1:]))
        np.add.at(result, self.user, values)
        return result

    @property
    def squares(self) -> Array:
        """Σ d dᵀ of each user, (U, q, q)."""
        return self.sums(self.design[:, :, None] * self.design[:, None, :])

    @property
    def weighted(self) -> Array:
        """Σ d y of each user, (U, q)."""
        return self.sums(self.design * self.outcome[:, None])

    def expected(self, latent: Array) -> Array:
        """d_iᵀ f_{u(i)} for latent vectors (U, q), (n,)."""
        return np.asarray(np.einsum("nq,nq->n", self.design, latent[self.user]))


def with_field(record: _Record, name: str, value: Any) -> _Record:
    """A frozen record with another value of one field; what was computed from the others is
    kept."""
    other = copy.copy(record)
    object.__setattr__(other, name, value)
    return other


def check_rank(design: Array, names: list[str]) -> None:
    """Raise when a column is zero throughout."""
    empty = ~np.any(design != 0, axis=0)
    if empty.any():
        raise InputError(
            "design must have a nonzero value in every column; all zero: "
            f"{names_text(names, empty)}. Leave it out."
        )


def posterior_means(squares: Array, weighted: Array, penalty: float) -> Array:
    """(Σ d dᵀ + penalty I)⁻¹ Σ d y of each user, (U, q)."""
    matrices = squares + penalty * np.eye(squares.shape[1])
    return np.asarray(np.linalg.solve(matrices, weighted[..., None])[..., 0], dtype=float)


def design_matrix(design: Any, intercept: bool) -> tuple[Array, list[str]]:
    """The design as numbers with the names of its columns, an intercept first."""
    refuse_repeated_columns(design, "design")
    matrix = numbers(design, "design", n_dims=2)
    if not isinstance(intercept, bool | np.bool_):
        raise InputError(f"intercept must be True or False; got {intercept!r}.")
    names = column_names(design) or [f"x{j}" for j in range(matrix.shape[1])]
    if intercept:
        matrix, names = np.column_stack([np.ones(len(matrix)), matrix]), ["intercept", *names]
    if matrix.shape[1] == 0:
        raise InputError("design must have at least one column, or intercept=True.")
    return np.ascontiguousarray(matrix), names


def __getattr__(name: str) -> Any:
    if name != "PerUser":
        raise AttributeError(f"module 'dualview.behaviors.panel' has no attribute {name!r}")
    from dualview.behaviors.per_user import PerUser

    warnings.warn(
        "dualview.behaviors.panel.PerUser is now dualview.behaviors.per_user.PerUser; the former "
        "address will go in the next release.",
        FutureWarning,
        stacklevel=2,
    )
    return PerUser
