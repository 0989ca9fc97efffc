"""Whether the draws of all chains can be trusted: diagnostics by scalar, and a verdict in words."""

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dualview.chains.progress import Watcher
from dualview.chains.schedule import ConvergenceStatus, Length
from dualview.chains.storage import Record
from dualview.errors import AbsentError, InputError
from dualview.posterior import diagnostics
from dualview.posterior import partition as partitions
from dualview.posterior.diagnostics import Row
from dualview.posterior.diagnostics.scalars import Group, doubtful_scalars, group_of, scalars
from dualview.posterior.draws.fit_facts import FitFacts

Array = NDArray[np.float64]

_ANCHORS = 50  # users whose latent coefficients diagnostics() looks at one by one
_FEW_ANCHORS = 6  # and for the verdict after each fit


class Convergence(FitFacts):
    """Draws and how far they can be trusted.

    pace: seconds of an iteration of all chains, in the session that drew them; None in others.
    """

    pace: float | None = None

    def diagnostics(self) -> pd.DataFrame:
        """A row per scalar that does not depend on how clusters are numbered.

        Columns: mean, sd, r_hat, ess_bulk, ess_tail, geweke_z, autocorrelation_time (in draws), and
        of: "predictions", "roles" or "parameters", what :meth:`verdict` may be asked of.
        """
        table = diagnostics.table(self.scalars())
        return table.assign(of=[group_of(str(name)) for name in table.index])

    def scalars(self, n_anchors: int = _ANCHORS) -> dict[str, Array]:
        """What diagnostics look at, by name, each (chain, draw); latent coefficients of n_anchors
        users, spread evenly."""
        return scalars(self, n_anchors)

    def verdict(self, of: Group | None = None) -> str:
        """One paragraph: has it converged, and if not, what to do; and which chains failed, where
        some did.

        of: "predictions", what outcomes of the users of the fit depend on, first of all their
        latent coefficients; "roles", who is in one cluster with whom; or "parameters", all else,
        such as the number of clusters. By default all of them.

        The limits are the same. Predictions and roles are looked at more closely than by default:
        among all users, or a few hundred to two thousand of very many, at those whose half chains
        differ most. Predictions for new users depend on everything.
        """
        text = self._judged_of(of)[1]
        return text if self.failures is None else f"{text} {self.failures}"

    @property
    def converged(self) -> bool:
        """Whether every diagnostic is within its limits."""
        return self.judged[0]

    def convergence_status(self) -> ConvergenceStatus:
        """Whether all diagnostics are within the limits of the verdict, largest R̂ and least
        effective size."""
        return diagnostics.status(self._table)

    @cached_property
    def _few_scalars(self) -> dict[str, Array]:
        """What the verdict looks at: :meth:`scalars` with latent coefficients of six users."""
        return self.scalars(n_anchors=_FEW_ANCHORS)

    @cached_property
    def rows(self) -> dict[str, Row]:
        """Diagnostics of the scalars that the verdict has looked at so far, by name."""
        return {}

    def _brief(self, chosen: Mapping[str, Array]) -> pd.DataFrame:
        """Brief diagnostics of scalars; of each they are made once."""
        for name, values in chosen.items():
            if name not in self.rows:
                self.rows[name] = diagnostics.row(values, brief=True)
        return diagnostics.frame({name: self.rows[name] for name in chosen})

    @property
    def _table(self) -> pd.DataFrame:
        return self._brief(self._few_scalars)

    def _table_of(self, of: Group) -> pd.DataFrame:
        """Brief diagnostics of what the verdict looks at of a group; where that is good, of more of
        it."""
        few = {name: own for name, own in self._few_scalars.items() if group_of(name) == of}
        table = self._brief(few)
        if of == "parameters" or not diagnostics.status(table).good:
            return table
        return self._brief(doubtful_scalars(self, of) | few)

    @cached_property
    def judged(self) -> tuple[bool, str]:
        """Whether the draws have converged, and that in words, of the chains that came to their
        end."""
        if self.approximation is not None:
            return self.approximation.verdict()
        if diagnostics.are_too_few(self.n_chains * self.n_draws):
            return False, diagnostics.TOO_FEW
        return diagnostics.verdict(
            self._table,
            self.n_chains,
            self.chain_distance,
            self._longer_text(None),
            lambda: self.settled,
        )

    def _judged_of(self, of: Group | None) -> tuple[bool, str]:
        """Whether what is asked of has settled, and that in words."""
        if of is None:
            return self.judged
        self._check_group(of)
        few = diagnostics.are_too_few(self.n_chains * self.n_draws)
        if few or self._table["r_hat"].isna().any():
            return False, diagnostics.TOO_FEW
        table = self._table_of(of)
        distance = self.chain_distance if of == "roles" else lambda: None
        longer = self._longer_text(None, diagnostics.status(table).times)
        return diagnostics.verdict(table, self.n_chains, distance, longer, of=of)

    def _check_group(self, of: Group) -> None:
        """Raise where the verdict cannot be asked of a group."""
        if of not in get_args(Group):
            raise InputError(
                f'of must be "predictions", "roles", "parameters", or None for all; got {of!r}.'
            )
        if self.approximation is not None:
            raise InputError(
                f"of={of!r} is for draws of chains. These come from a variational approximation, "
                "which is judged as a whole: leave of out."
            )
        if of in self._absent:
            raise AbsentError(f"This fit has no {of}: {self._absent[of]}.")

    @property
    def _absent(self) -> dict[Group, str]:
        """Why the verdict cannot be asked of some groups."""
        found: dict[Group, str] = {}
        if "latent" not in self and "features.cells" not in self:
            found["predictions"] = "it has neither a behavior nor cells to impute"
        if self.spec.n_clusters == 1:
            found["roles"] = "all users are in one cluster"
        return found

    @cached_property
    def settled(self) -> list[Group]:
        """Which of "predictions", "roles" and "parameters" have settled, as :meth:`verdict` says of
        each; none with a single chain, and none of a variational approximation."""
        if self.approximation is not None or self.n_chains == 1:
            return []
        present = [of for of in get_args(Group) if of not in self._absent]
        return [of for of in present if self._judged_of(of)[0]]

    def seconds_more(self) -> float | None:
        """Seconds after which chains that continue like this will have converged; None where that
        cannot be told."""
        times, length = self.convergence_status().times, self.length
        if self.pace is None or length is None or not times < diagnostics.FAR:
            return None
        return max(0.0, times - 1.0) * length.n_iterations * self.pace

    def timed_verdict(self) -> str:
        """The verdict on the chains with the time that longer ones would take; it depends on the
        machine, so that it is said and not written."""
        seconds, text = self.seconds_more(), self.judged[1]
        if not seconds:
            return text
        return text.replace(self._longer_text(None), self._longer_text(seconds), 1)

    def _longer_text(self, seconds: float | None, times: float | None = None) -> str:
        """How much longer the chains should be, by which settings, and how long it takes. times:
        how many times as long, by default for everything to converge."""
        length, settings = self.length, "n_warmup, n_draws"
        if length is not None and length.ended not in ("length", "converged"):
            settings = "max_time, max_draws"
            if seconds and self.pace is not None:
                total = seconds + length.n_iterations * self.pace
                settings = f"max_time={math.ceil(total)}, max_draws"
        if times is None:
            times = self.convergence_status().times
        return diagnostics.longer_text(times, settings, seconds)

    def chain_distance(self) -> float | None:
        """Mean variation of information between the chains' own partition estimates, as a share of
        ln U; None for one chain.

        A chain's own is the draw that is closest to its similarity in squared error, of up to some
        hundred draws, evenly spread.
        """
        return self._chain_distance

    @cached_property
    def _chain_distance(self) -> float | None:
        if self.n_chains == 1:
            return None
        own = np.array([partitions.best_draw(chain, "binder") for chain in self["z"]])
        draws = partitions.Draws(own, "vi")
        distances = np.array([draws.distances(labels) for labels in own])
        off = ~np.eye(len(own), dtype=bool)
        return float(distances[off].mean() / np.log(self.n_users))


class ConvergenceMonitor:
    """Says whether running chains have converged, from the draws of all of them so far.

    Where nobody watches, it stops at the first scalar that is out of bounds, and begins the next
    time with that one: the answer is the same, and comes sooner.

    Parameters
    ----------
    make : callable
        The posterior of some records.
    watcher : Watcher, optional
        Is told what was found each time.
    """

    def __init__(
        self, make: Callable[[list[Record], Length], Convergence], watcher: Watcher | None = None
    ) -> None:
        self._make, self._watcher = make, watcher
        self._worst = ""
        self._seen: tuple[Length, int, dict[str, Row]] | None = None

    def __call__(self, records: list[Record], length: Length) -> ConvergenceStatus:
        post = self._make(records, length)
        self._seen = length, post.n_chains, post.rows
        if self._watcher is None:
            return self._brief_status(post)
        status = post.convergence_status()
        self._watcher.looked(status, length)
        return status

    def tell(self, post: Convergence) -> None:
        """Let a posterior know what was found when its draws were looked at, if they were."""
        if self._seen is None or post.length is None:
            return
        length, n_chains, rows = self._seen
        if length._replace(ended=post.length.ended) == post.length and n_chains == post.n_chains:
            post.rows.update(rows)

    def _brief_status(self, post: Convergence) -> ConvergenceStatus:
        found: list[ConvergenceStatus] = []
        for name in sorted(post._few_scalars, key=lambda name: name != self._worst):
            found.append(diagnostics.status(post._brief({name: post._few_scalars[name]})))
            if not found[-1].good:
                self._worst = name
                return found[-1]
        _, r_hats, sizes, times, _ = zip(*found, strict=True)
        return ConvergenceStatus(True, max(r_hats), min(sizes), max(times))
