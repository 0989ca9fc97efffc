"""Whether users act as they look: a label for each view, and the prior of their agreement, (M16).

A user who agrees has one label for both views and is one customer of the partition prior; one who
does not draws a second label from the same weights, and is two. With T tables of features every
table agrees with behavior or draws a label of its own, each with a ρ of its own. agrees (T, U): who
does by construction; two labels that were drawn apart may still be the same.
"""

import math
import numbers as abstract
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dualview.checks import is_learned, positive_number
from dualview.errors import InputError
from dualview.partitions.priors import PartitionPrior

_CALL = re.compile(r"beta\s*\(\s*([^,()]+?)\s*,\s*([^,()]+?)\s*\)")
_WORDS = {None: None, "full": None}


class LabelsByView(NamedTuple):
    """z (G, U): the users' clusters in each group of views: that of behavior first, then each table
    of features that need not agree with it. One row where all views share one label.

    agrees (G − 1, U): whose table agrees with behavior. shares (G − 1,): ρ, the probability that it
    does.
    """

    z: NDArray[np.int64]
    agrees: NDArray[np.bool_]
    shares: NDArray[np.float64]

    @classmethod
    def agreeing(cls, z: NDArray[np.int64], shares: Sequence[float] = ()) -> "LabelsByView":
        """Everybody has the label z (U,) in behavior and in a table for each of the shares."""
        agrees = np.ones((len(shares), len(z)), dtype=np.bool_)
        tiled = np.tile(z, (1 + len(shares), 1))
        return cls(tiled, agrees, np.array(shares, dtype=np.float64))

    @property
    def behavior(self) -> NDArray[np.int64]:
        """The labels of behavior, (U,); of all views where they share them."""
        own: NDArray[np.int64] = self.z[0]
        return own

    @property
    def kept(self) -> NDArray[np.int64]:
        """The labels that draws keep as z, (U,): those of the table where there is one, else those
        of behavior."""
        own: NDArray[np.int64] = self.z[1 if len(self.z) == 2 else 0]
        return own

    def of(self, view: str) -> NDArray[np.int64]:
        """The labels of a view, by its name, (U,); of observed ones (T, U) where several tables
        have labels of their own."""
        if view == "behavior" or len(self.z) == 1:
            return self.behavior
        return self.kept if len(self.z) == 2 else self.z[1:]

    def count_customers(self, n_components: int) -> NDArray[np.int64]:
        """Customers of every component, (K,): users, and tables of theirs that do not agree."""
        alone = np.bincount(self.z[1:][~self.agrees], minlength=n_components)
        return np.asarray(np.bincount(self.behavior, minlength=n_components) + alone)

    def log_density(self) -> float:
        """ln p(who agrees | ρ); 0 ln 0 is 0."""
        total = 0.0
        for agrees, share in zip(self.agrees, self.shares, strict=True):
            n_agree = int(agrees.sum())
            parts = ((n_agree, share), (len(agrees) - n_agree, 1.0 - share))
            total += sum(n * math.log(p) if p > 0.0 else -math.inf for n, p in parts if n)
        return total


class AgreementPrior(Protocol):
    """What a model asks of the prior of ρ."""

    @property
    def start(self) -> float:
        """A value to start from."""

    def draw(self, rng: np.random.Generator) -> float:
        """ρ from its prior."""

    def log_density(self, share: float) -> float:
        """ln p(ρ)."""


@dataclass(frozen=True)
class Beta:
    """The share of users who act as they look ~ Beta(a, b), with mean a / (a + b).

    Parameters
    ----------
    a, b : float
        Above zero.

    Examples
    --------
    >>> Beta(9, 1)
    Beta(a=9.0, b=1.0)
    """

    a: float
    b: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "a", positive_number(self.a, "Beta: a"))
        object.__setattr__(self, "b", positive_number(self.b, "Beta: b"))

    @property
    def start(self) -> float:
        return self.a / (self.a + self.b)

    def draw(self, rng: np.random.Generator) -> float:
        return float(rng.beta(self.a, self.b))

    def log_density(self, share: float) -> float:
        if not 0.0 < share < 1.0:
            return -math.inf
        constant = math.lgamma(self.a + self.b) - math.lgamma(self.a) - math.lgamma(self.b)
        return constant + (self.a - 1.0) * math.log(share) + (self.b - 1.0) * math.log1p(-share)

    def __str__(self) -> str:
        return f"beta({self.a!r}, {self.b!r})"


@dataclass(frozen=True)
class KnownAgreement:
    """ρ is known."""

    share: float

    @property
    def start(self) -> float:
        return self.share

    def draw(self, rng: np.random.Generator) -> float:  # noqa: ARG002
        return self.share

    def log_density(self, share: float) -> float:  # noqa: ARG002
        return 0.0

    def __str__(self) -> str:
        return repr(self.share)


LEARNED = Beta(1.0, 1.0)


def agreement_prior(value: Any) -> AgreementPrior | None:
    """The prior that ``agreement`` of the estimator or of a command line stands for; None where
    both views share all labels."""
    if isinstance(value, Beta | KnownAgreement):
        return value
    found: Any = value.strip().lower() if isinstance(value, str) else value
    if found is None or (isinstance(found, str) and found in _WORDS):
        return None
    if isinstance(found, str):
        if is_learned(found, "agreement"):
            return LEARNED
        call = _CALL.fullmatch(found)
        try:
            found = Beta(float(call[1]), float(call[2])) if call is not None else float(found)
        except ValueError:
            found = None
        if isinstance(found, Beta):
            return found
    if (
        isinstance(found, abstract.Real)
        and not isinstance(found, bool)
        and 0.0 <= float(found) <= 1.0
    ):
        return None if float(found) == 1.0 else KnownAgreement(float(found))
    wanted = (
        'None or "full" (users act as they look), "learned", a share from 0 to 1, Beta(a, '
        'b) or the text "beta(A,B)"'
    )
    raise InputError(f"agreement must be {wanted}; got {value!r}.")


def agreement_priors(
    value: Any, tables: Sequence[str] = ()
) -> AgreementPrior | tuple[AgreementPrior, ...] | None:
    """The prior that ``agreement`` stands for, or one for each of several tables; None where all
    views share all labels.

    value may name some tables, {"profile": 0.9, "activity": "learned"}, or be that in words; the
    others agree.
    """
    found = _by_table(value)
    if isinstance(found, tuple):
        return found
    if not isinstance(found, Mapping):
        prior = agreement_prior(found)
        return prior if prior is None or not tables else (prior,) * len(tables)
    unknown = [name for name in found if name not in tables]
    if unknown:
        known = f"X has the tables {', '.join(tables)}" if tables else "X is one table"
        raise InputError(f"agreement names the table {unknown[0]!r}, and {known}.")
    priors = [agreement_prior(found.get(name)) for name in tables]
    if all(prior is None for prior in priors):
        return None
    return tuple(KnownAgreement(1.0) if prior is None else prior for prior in priors)


def _by_table(value: Any) -> Any:
    """What is given by table as a mapping; else what it is."""
    if not isinstance(value, str) or "=" not in value:
        return value
    pairs = [part.split("=", 1) for part in value.split(";")]
    if any(len(pair) != 2 for pair in pairs):
        raise InputError(f"agreement by table is NAME=VALUE;NAME=VALUE; got {value!r}.")
    return {name.strip(): own.strip() for name, own in pairs}


def agreement_text(value: Any, tables: Sequence[str] = ()) -> str | None:
    """What ``agreement`` stands for in words, the same for all that mean the same; None for full
    agreement."""
    prior = agreement_priors(value, tables)
    if not isinstance(prior, tuple):
        return None if prior is None else str(prior)
    return ";".join(f"{name}={own}" for name, own in zip(tables, prior, strict=True))


def draw_labels(
    rng: np.random.Generator,
    partition: PartitionPrior,
    alpha: float,
    n_users: int,
    shares: NDArray[np.float64],
) -> LabelsByView:
    """LabelsByView from the prior given each table's ρ, (M16): those of all customers."""
    agrees = rng.random((len(shares), n_users)) < shares[:, None]
    customers = partition.draw(rng, n_users + int((~agrees).sum()), alpha)
    z = np.tile(customers[:n_users], (1 + len(shares), 1))
    z[1:][~agrees] = customers[n_users:]
    return LabelsByView(z, agrees, shares)
