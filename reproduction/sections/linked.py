"""The section on the link: does it cost anything where behaviors do not need it?"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import t

from reproduction import figures
from reproduction.sections.parts import Findings, Section, convergence, shown, table

ALLOWED = 0.01  # nats a thread, besides two standard errors


class Paired(NamedTuple):
    """Mean NLL without and with the link; difference with − without (above zero: the link loses),
    its error, their number."""

    plain: float
    linked: float
    difference: float
    error: float
    n: int

    @classmethod
    def of(cls, pairs: NDArray[np.float64]) -> "Paired":
        """Of rows (without, with)."""
        difference = pairs[:, 1] - pairs[:, 0]
        error = (
            float(difference.std(ddof=1) / np.sqrt(len(difference))) if len(difference) > 1 else 0.0
        )
        plain, linked = map(float, pairs.mean(axis=0))
        return cls(plain, linked, float(difference.mean()), error, len(difference))

    @property
    def allowed(self) -> float:
        """The largest loss that passes."""
        return ALLOWED + 2 * self.error

    @property
    def verdict(self) -> str:
        """A gain or a loss of two standard errors is named so; a loss beyond what is allowed
        fails."""
        if self.difference > self.allowed:
            return "**loses**"
        if abs(self.difference) <= 2 * self.error or self.n == 1:
            return "no difference"
        return "gains" if self.difference < 0 else "loses less than allowed"


def pairs_of(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per draw of users and threads that was fitted both ways: scenario, n_threads, seed,
    plain, linked."""
    keys = ["scenario", "n_threads", "seed"]
    ways = frame.assign(way=np.where(frame["variant"] == "", "plain", "linked"))
    wide = ways.pivot_table(index=keys, columns="way", values="nll", sort=False)
    return wide.reindex(columns=["plain", "linked"]).dropna().reset_index()


def over_draws(pairs: pd.DataFrame) -> Paired:
    """Sizes averaged first: draws of users are independent, sizes of one draw share its users and
    test threads."""
    return Paired.of(pairs.groupby(["scenario", "seed"])[["plain", "linked"]].mean().to_numpy())


def link(found: Findings) -> Section:
    """The paper's scenarios with and without a link, draw by draw."""
    pairs = pairs_of(found.frame)
    points: dict[tuple[str, str], Paired] = {}
    for name in dict.fromkeys(pairs["scenario"]):
        part = pairs[pairs["scenario"] == name]
        for n, rows in part.groupby("n_threads"):
            points[name, str(n)] = Paired.of(rows[["plain", "linked"]].to_numpy())
        points[name, "all"] = over_draws(part)
    points["all", "all"] = over_draws(pairs)
    effort = found.plan.link_effort
    text = f"""## The link on the paper's scenarios

In the paper's scenarios behaviors follow clusters, and inside a cluster there is nothing for a link to find: does it cost
anything? dual-DP with `link="linear"` and without, on the same {found.plan.repetitions} draws of users, coefficients, training
and test threads (seeds {found.plan.seed} to {found.plan.seed + found.plan.repetitions - 1}), {effort.n_iterations:,} iterations
a fit.

![NLL with the link less NLL without](link.png)

{table(["scenario", "threads", "NLL, no link", "NLL, link", "difference", "allowed", "verdict"], _rows(points))}

Difference: link less no link, so that less than zero is a gain; mean and standard error over draws, paired. Allowed:
{ALLOWED} and two standard errors. In rows of all threads the sizes of a draw are averaged first, because they share users and
test threads.

{_verdict(points)}

{_convergence(found.frame)}"""  # noqa: E501
    drawn = figures.differences(
        {key: (p.difference, p.error) for key, p in points.items()}, ALLOWED
    )
    return Section(text, {"link.png": drawn})


def _rows(points: dict[tuple[str, str], Paired]) -> list[list[str]]:
    return [
        [
            *key,
            f"{p.plain:.3f}",
            f"{p.linked:.3f}",
            shown(p.difference, p.error, p.n, 4),
            f"{p.allowed:.4f}",
            p.verdict,
        ]
        for key, p in points.items()
    ]


def _verdict(points: dict[tuple[str, str], Paired]) -> str:
    overall = points["all", "all"]
    rows = {key: p for key, p in points.items() if key[0] != "all"}
    beyond = [_named(key, p) for key, p in rows.items() if p.difference > p.allowed]
    losses = [
        _named(key, p)
        for key, p in rows.items()
        if p.n > 1 and 2 * p.error < p.difference <= p.allowed
    ]
    gains = [_named(key, p) for key, p in rows.items() if p.n > 1 and p.difference < -2 * p.error]
    held = "holds" if overall.difference <= overall.allowed else "is broken"
    least = min(p.n for p in rows.values())
    chance = (
        f" With {least} draws one row in {1 / (2 * t.sf(2, least - 1)):.0f} does either by chance."
        if least > 1
        else ""
    )
    return (
        "Overall the link changes the NLL by "
        f"{shown(overall.difference, overall.error, overall.n, 4)} nats a thread, where "
        f"a loss of {overall.allowed:.4f} is allowed: the rule {held}. Of the {len(rows)} rows "
        "above it, it loses more than "
        f"allowed in {_listed(beyond)}; more than two standard errors, but no more than allowed, "
        f"in {_listed(losses)}; and it "
        f"gains more than two standard errors in {_listed(gains)}.{chance}"
    )


def _named(key: tuple[str, str], point: Paired) -> str:
    return f"{key[0]}, {key[1]} threads, {point.difference:+.4f}"


def _listed(names: list[str]) -> str:
    return f"{len(names)} ({'; '.join(names)})" if names else "none"


def _convergence(frame: pd.DataFrame) -> str:
    ways = (("Without the link", frame["variant"] == ""), ("With the link", frame["variant"] != ""))
    return " ".join(f"{words}. {convergence(frame[rows])}" for words, rows in ways)
