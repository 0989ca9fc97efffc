"""Convergence diagnostics, of quantities that do not depend on how clusters are numbered.

Arrays are (chain, draw). R̂ is rank-normalized, effective sample sizes are ArviZ's; Geweke's z
compares the first tenth of a chain with its second half.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dualview.chains.schedule import ConvergenceStatus
from dualview.checks import words_text
from dualview.errors import InputError
from dualview.posterior.diagnostics.scalars import Group

Array = NDArray[np.float64]
Row = dict[str, float]

_LARGE_R_HAT = 100  # of chains that hardly move
R_HAT_LIMIT = 1.01
ESS_WANTED = 400
FAR = 50.0  # times as long: that chains are so far from good says that an estimate means nothing
FAR_APART = 0.1  # mean distance of the chains' own partitions
TOO_FEW = (
    "Too few draws to tell whether the chains have converged: keep at least 100 per chain "
    "(n_draws)."
)
_GROUPS: dict[Group, str] = {
    "roles": "roles",
    "predictions": "predictions for the users of the fit",
    "parameters": "parameters of the model",
}
_IN_WORDS = {
    "n_clusters": "the number of clusters",
    "log alpha": "the concentration alpha",
    "discount": "the discount",
    "log_joint": "the log joint density",
}


def _array_stats() -> Any:
    """ArviZ's statistics of plain arrays; imported when used, for it is slow to import."""
    from arviz_stats import base

    return vars(base)["array_stats"]


def table(scalars: Mapping[str, Array], brief: bool = False) -> pd.DataFrame:
    """A row per scalar: mean, sd, R̂, bulk and tail effective size; unless brief, Geweke's z and
    autocorrelation time too."""
    return frame(
        {name: row(np.asarray(values, dtype=float), brief) for name, values in scalars.items()}
    )


def frame(rows: Mapping[str, Row]) -> pd.DataFrame:
    """Rows by name as a table, of which there may be none."""
    if not rows:
        return pd.DataFrame(columns=["r_hat", "ess_bulk", "ess_tail"], dtype=float)
    return pd.DataFrame.from_dict(rows, orient="index")


def row(values: Array, brief: bool) -> Row:
    """What :func:`table` says of one scalar (chain, draw)."""
    constant = bool(np.ptp(values) == 0)
    short = values.shape[1] < 4
    found = {
        "mean": float(values.mean()),
        "sd": float(values.std(ddof=1)) if values.size > 1 else 0.0,
    }
    if short:
        return found | dict.fromkeys(
            ("r_hat", "ess_bulk", "ess_tail", "geweke_z", "autocorrelation_time"), float("nan")
        )
    if constant:
        return found | {
            "r_hat": 1.0,
            "ess_bulk": float(values.size),
            "ess_tail": float(values.size),
            "geweke_z": 0.0,
            "autocorrelation_time": 1.0,
        }
    bulk = _ess(values, "bulk")
    found |= {
        "r_hat": _r_hat(values),
        "ess_bulk": bulk,
        "ess_tail": _finite(_ess(values, "tail"), bulk),
    }
    if brief:
        return found
    return found | {
        "geweke_z": geweke(values),
        "autocorrelation_time": values.size / _ess(values, "mean"),
    }


def _finite(value: float, otherwise: float) -> float:
    return value if np.isfinite(value) else otherwise


def _ess(values: Array, method: str) -> float:
    """ArviZ's effective sample size; NaN where the method sees a constant, as the tail of a
    yes-or-no quantity is."""
    options = {"prob": (0.05, 0.95)} if method == "tail" else {}
    with np.errstate(all="ignore"):
        return float(
            _array_stats().ess(values, chain_axis=0, draw_axis=1, method=method, **options)
        )


def _r_hat(values: Array) -> float:
    """Rank-normalized R̂; of a yes-or-no quantity without the half that looks at its spread. One
    chain: its halves."""
    if len(values) == 1:
        half = values.shape[1] // 2
        values = np.concatenate([values[:, :half], values[:, half : 2 * half]])
    with np.errstate(all="ignore"):
        r_hat = float(_array_stats().rhat(values, chain_axis=0, draw_axis=1))
        if not np.isfinite(r_hat):
            r_hat = float(_array_stats().rhat(values, chain_axis=0, draw_axis=1, method="z_scale"))
    return _finite(r_hat, float("inf"))


def geweke(values: Array, first: float = 0.1, last: float = 0.5) -> float:
    """Geweke's (1992) z, the largest in size over the chains: the means of two stretches, standard
    errors by effective size."""
    n_draws = values.shape[1]
    scores = []
    for chain in values:
        stretches = chain[: max(4, int(first * n_draws))], chain[-max(4, int(last * n_draws)) :]
        spread = sum(_squared_error(stretch) for stretch in stretches)
        difference = stretches[0].mean() - stretches[1].mean()
        scores.append(difference / np.sqrt(spread) if spread > 0 else 0.0)
    return float(max(scores, key=abs))


def _squared_error(stretch: Array) -> float:
    variance = float(stretch.var(ddof=1))
    if variance == 0:
        return 0.0
    return variance / _ess(stretch[None, :], "mean")


def paper_autocorrelation_time(
    values: NDArray[np.floating], max_lag: int = 1000
) -> tuple[float, float]:
    """τ = 1 + 2 Σ_{n=1..max_lag} |ρ_n| of one chain, and the value that white noise of this length
    would give.

    The absolute values make τ grow with noise alone, so it means little without its white-noise
    value beside it.
    """
    chain = np.asarray(values, dtype=float)
    if chain.ndim != 1 or len(chain) < 2000:
        raise InputError(
            "The sum of absolute autocorrelations needs one chain of at least 2000 draws; got "
            f"shape {chain.shape}."
        )
    if np.ptp(chain) == 0:
        raise InputError("A constant chain has no autocorrelations.")
    n = len(chain)
    lags = np.arange(1, min(max_lag, n - 1) + 1)
    centered = chain - chain.mean()
    size = 2 ** int(np.ceil(np.log2(2 * n)))
    spectrum = np.abs(np.fft.rfft(centered, size)) ** 2
    correlation = np.fft.irfft(spectrum, size)[: lags[-1] + 1]
    tau = 1.0 + 2.0 * np.abs(correlation[1:] / correlation[0]).sum()
    noise = 1.0 + 2.0 * (np.sqrt(2.0 / np.pi) * np.sqrt(n - lags) / n).sum()
    return float(tau), float(noise)


def check_enough(n_draws: int, n_chains: int) -> None:
    """Raise where chains that run until they are good could never be, with so few draws."""
    if n_draws * n_chains < ESS_WANTED:
        raise InputError(
            f"n_draws × n_chains must be at least {ESS_WANTED} for chains that run until they "
            "have that many effective draws; "
            f"got {n_draws} × {n_chains}. Keep more draws, or give n_warmup for chains of fixed "
            "length."
        )


def are_too_few(n_draws: int) -> bool:
    """Whether no effective size of so many draws, of all chains, could be ``ESS_WANTED``: that of n
    draws is at most n log10 n."""
    return n_draws * math.log10(max(n_draws, 1)) < ESS_WANTED


def status(diagnostics: pd.DataFrame) -> ConvergenceStatus:
    """Whether all diagnostics are within their limits, the worst of them, and how much longer the
    chains should have been. A table without rows is of what never changes.

    In chains that have reached their equilibrium, R̂ - 1 falls with their length as effective sizes
    grow.
    """
    if diagnostics.empty:
        return ConvergenceStatus(True, 1.0, math.inf, 0.0)
    if not diagnostics["r_hat"].notna().all():
        return ConvergenceStatus(False, math.nan, math.nan, math.inf)
    r_hat, ess = float(diagnostics["r_hat"].max()), float(_sizes(diagnostics).min())
    good = r_hat < R_HAT_LIMIT and ess >= ESS_WANTED
    slowest = "" if good else _in_words(str(out_of_bounds(diagnostics).index[0]))
    return ConvergenceStatus(good, r_hat, ess, float(_times(diagnostics).max()), slowest)


def _sizes(diagnostics: pd.DataFrame) -> "pd.Series[float]":
    """The effective size of each scalar, in the bulk or in the tails."""
    return diagnostics[["ess_bulk", "ess_tail"]].min(axis=1, skipna=False)


def _times(diagnostics: pd.DataFrame) -> "pd.Series[float]":
    """How many times as long the chains should have been for each scalar."""
    by_size = ESS_WANTED / _sizes(diagnostics).clip(lower=1.0)
    return by_size.clip(lower=(diagnostics["r_hat"] - 1.0) / (R_HAT_LIMIT - 1.0))


def out_of_bounds(diagnostics: pd.DataFrame) -> pd.DataFrame:
    """The scalars that are not within their limits, those first that need the longest chains."""
    inside = (diagnostics["r_hat"] < R_HAT_LIMIT) & (_sizes(diagnostics) >= ESS_WANTED)
    outside = diagnostics[~inside]
    return outside.loc[_times(outside).sort_values(ascending=False, kind="stable").index]


def verdict(
    diagnostics: pd.DataFrame,
    n_chains: int,
    chain_distance: Callable[[], float | None] = lambda: None,
    longer: str = "run longer (n_warmup, n_draws)",
    settled: Callable[[], Sequence[Group]] = lambda: (),
    of: Group | None = None,
) -> tuple[bool, str]:
    """Whether the run can be trusted, and one readable paragraph: what to do, what has settled, and
    what holds the run up.

    chain_distance and settled, the groups of scalars that are within their limits: asked where
    something is not. The distance decides nothing: where many partitions are likely, the estimates
    of good chains differ too. longer: how much, and by which
    settings. of: the group that the diagnostics are of; None for the whole run.
    """
    if diagnostics["r_hat"].isna().any():
        return False, TOO_FEW
    held_up = out_of_bounds(diagnostics)
    modes = _modes_text(chain_distance()) if len(held_up) else ""
    subject = "" if of is None else _sentence(_GROUPS[of])
    if not len(held_up) and not modes and n_chains > 1:
        good = f"{subject} have settled" if subject else "Converged"
        return (
            True,
            f"{good}: R-hat below {R_HAT_LIMIT} and at least {ESS_WANTED} effective draws of "
            "everything looked at.",
        )
    parts = [
        f"{subject} have not all settled: {longer}." if subject else f"Not converged: {longer}."
    ]
    if n_chains < 4:
        parts.append("Use at least four chains.")
    if len(held_up):
        parts.append(_held_up_text(held_up, settled()))
    if n_chains == 1:
        parts.append("One chain cannot show whether others would find the same clusters.")
    return False, " ".join(part for part in (*parts, modes, "Look at plots.traces.") if part)


def settled_text(settled: Sequence[Group]) -> str:
    """What has settled, and what that means; nothing where nothing has."""
    if not settled:
        return ""
    what = words_text([called for of, called in _GROUPS.items() if of in settled])
    return f"{_sentence(what)} have settled: longer chains would hardly change them."


def _held_up_text(held_up: pd.DataFrame, settled: Sequence[Group]) -> str:
    """What has settled, and which scalars have not, the worst with its diagnostics."""
    first, *others = [_in_words(str(name)) for name in held_up.index]
    numbers = (
        f"R-hat {_r_hat_text(held_up['r_hat'].iloc[0])}, wanted below {R_HAT_LIMIT}; "
        f"{_sizes(held_up).iloc[0]:.0f} effective draws, wanted {ESS_WANTED}"
    )
    if settled and not others:
        return f"{settled_text(settled)} Only {first} has not settled ({numbers})."
    then = f", then by {_names(others)}" if others else ""
    slowest = f"Held up most by {first} ({numbers}){then}."
    return f"{settled_text(settled)} {slowest}" if settled else slowest


def _modes_text(distance: float | None) -> str:
    """That chains may sit in different modes, where their partitions are far apart."""
    if distance is None or distance <= FAR_APART:
        return ""
    return (
        f"The chains' own partitions differ (mean distance {distance:.2f}): they may sit in "
        "different modes."
    )


def _in_words(name: str) -> str:
    """A scalar as a sentence has it."""
    if name.startswith("users "):
        return f"whether {name.replace(' together', ' are together')}"
    return _IN_WORDS.get(name, name)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def longer_text(times: float, settings: str, seconds: float | None) -> str:
    """How much longer chains should be, by which settings, and how long that takes, if known."""
    if not 1.0 < times < FAR:
        return f"run longer ({settings})"
    takes = "" if not seconds else f", {_duration(seconds)} more"
    return f"run about {max(times, 1.1):.2g} times as long ({settings}){takes}"


def _duration(seconds: float) -> str:
    """'about 40 seconds', 'about 6 minutes', 'about 3.5 hours'."""
    if seconds < 90:
        return f"about {max(1, round(seconds))} seconds"
    minutes = seconds / 60
    return f"about {minutes:.0f} minutes" if minutes < 90 else f"about {minutes / 60:.2g} hours"


def _r_hat_text(value: float) -> str:
    """With as many digits as tell it from the limit, and no more than mean something."""
    if value > _LARGE_R_HAT:
        return f"above {_LARGE_R_HAT}"
    return f"{value:.3f}" if value < 1.1 else f"{value:.2f}"


def _names(names: list[str]) -> str:
    shown = ", ".join(names[:4])
    return shown + (f" and {len(names) - 4} more" if len(names) > 4 else "")
