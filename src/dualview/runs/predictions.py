"""Predictions of a finished run for new observations of its users, in a table."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dualview.behaviors.families.base import Mixture
from dualview.behaviors.families.gaussian import NormalMixture
from dualview.behaviors.families.levels import LevelProbabilities
from dualview.behaviors.families.logit import ChoiceMixture
from dualview.behaviors.families.ordinal import LevelMixture
from dualview.behaviors.families.ranking import RankingMixture
from dualview.columns import Censored, Columns
from dualview.errors import InputError
from dualview.files.spreadsheets import csv_bytes
from dualview.files.writing import check_place, write_whole, wrote
from dualview.inputs.answers import Answers
from dualview.inputs.long_tables import as_read_by
from dualview.inputs.tables import Threads
from dualview.runs.choices import load_choice
from dualview.runs.request import Request, build_behavior, check_folder, read_observations
from dualview.runs.run import load_run


def predict_run(
    folder: Path,
    observations: Path,
    out: Path,
    probability: float,
    drop_unknown: bool,
    outcomes: Path | None,
    stacked: bool,
) -> str:
    """Predict new observations of known users; writes a table, returns a line of words. stacked:
    by the run and the models that were fitted beside it."""
    check_folder(folder)
    check_place(out)
    run = load_run(folder)
    model = load_choice(folder) if stacked else run
    request = Request.load(folder)
    users = run.posterior_.user_ids
    new = read_observations(
        request,
        observations,
        users,
        outcomes=outcomes,
        drop_unknown=drop_unknown,
        need_outcome=False,
        as_read=as_read_by(run.behavior_),
    )
    predicted = model.predict_outcome(build_behavior(request, new, users))
    table = _identified(new, request)
    if isinstance(predicted, ChoiceMixture):
        table, said = _of_probabilities(table, predicted, new, probability)
    elif isinstance(predicted, RankingMixture):
        table, said = _of_rankings(table, predicted, new.outcome, probability)
    elif isinstance(predicted, LevelProbabilities):
        table, said = _of_levels(table, predicted, new.outcome)
    else:
        table, said = _of_numbers(table, predicted, new.outcome, probability)
    write_whole(out, csv_bytes(table))
    notes = "".join(f"\ndualview: {note}" for note in new.notes)
    return f"{len(table)} {request.observations} predicted{said}. {wrote(out)}{notes}"


def _identified(new: Threads | Answers, request: Request) -> pd.DataFrame:
    """Columns that identify the observations: threads, or lines with their users, the items of
    choices, and rankings."""
    if isinstance(new, Threads):
        return pd.DataFrame({"thread": new.ids})
    table = pd.DataFrame({"line": new.ids, "user": new.user})
    if new.choices is not None:
        asked = request.answers
        table = table.assign(
            winner=new.choices[asked.winner].array, loser=new.choices[asked.loser].array
        )
    return table if new.rankings is None else table.assign(ranking=new.rankings)


def _of_numbers(
    table: pd.DataFrame, predicted: Mixture, outcome: Any, probability: float
) -> tuple[pd.DataFrame, str]:
    """Median, mean, standard deviation and interval; where outcomes are known, their log densities
    and levels."""
    low, high = predicted.interval(probability).T
    table = table.assign(
        median=predicted.median, mean=predicted.mean, sd=predicted.std, low=low, high=high
    )
    said = ""
    if outcome is not None and outcome.ndim == 2:
        table, said = _with_ends(table, predicted, outcome)
    elif outcome is not None:
        table["outcome"] = outcome
        table["log_density"], table["level"] = (
            predicted.log_density(outcome),
            predicted.cdf(outcome),
        )
        inside = np.mean((outcome >= low) & (outcome <= high))
        said = (
            f"; negative log-likelihood {predicted.nll(outcome):.3f}, {inside:.0%} inside "
            f"the {probability:.0%} interval"
        )
    n_unsure = int(predicted.mean_unsure.sum()) if isinstance(predicted, NormalMixture) else 0
    if n_unsure:
        said += (
            f"; the means of {n_unsure} rest on few draws and need not exist: use medians "
            "and intervals"
        )
    return table, said


def _with_ends(table: pd.DataFrame, predicted: Any, ends: Any) -> tuple[pd.DataFrame, str]:
    """The ends of outcomes that are known to an interval and their log probabilities; exact ones in
    a column of their own."""
    low, high = ends.T
    log_density: Any = predicted.log_density(Censored(low, high))
    table = table.assign(
        outcome_low=low, outcome_high=high, outcome=np.where(low == high, low, np.nan)
    )
    table["log_density"] = log_density
    return (
        table,
        f"; negative log-likelihood {-float(log_density.mean()):.3f}, that of intervals by their "
        "probability",
    )


def _of_rankings(
    table: pd.DataFrame, predicted: RankingMixture, outcome: Any, probability: float
) -> tuple[pd.DataFrame, str]:
    """The probability of being first of its ranking, and its interval; log probabilities of
    rankings where places are known."""
    low, high = predicted.interval(probability).T
    table = table.assign(probability=predicted.mean, low=low, high=high)
    if outcome is None:
        return table, ""
    codes, names = pd.factorize(table["ranking"])
    log_probability = predicted.log_density(outcome)
    table["place"], table["ranking_log_probability"] = outcome, log_probability[codes]
    return (
        table,
        f"; negative log-likelihood {-float(log_probability.mean()):.3f} for each of {len(names)} "
        "rankings",
    )


def _of_probabilities(
    table: pd.DataFrame, predicted: ChoiceMixture, new: Threads | Answers, probability: float
) -> tuple[pd.DataFrame, str]:
    """The probability of yes, or of the winner, and its interval; where outcomes are known, their
    log probabilities."""
    low, high = predicted.interval(probability).T
    table = table.assign(probability=predicted.mean, low=low, high=high)
    if isinstance(new, Answers) and new.choices is not None:
        loss = predicted.nll(np.ones(len(table)))
        return table, f"; log loss {loss:.3f} if each winner is the item that was chosen"
    if new.outcome is None:
        return table, ""
    table["outcome"], table["log_probability"] = new.outcome, predicted.log_density(new.outcome)
    right = np.mean((predicted.mean > 0.5) == (new.outcome > 0.5))
    return (
        table,
        f"; log loss {predicted.nll(new.outcome):.3f}, {right:.0%} were more probable than not",
    )


def _of_levels(
    table: pd.DataFrame, predicted: LevelProbabilities, outcome: Any
) -> tuple[pd.DataFrame, str]:
    """Probabilities of the levels, and the mean of what they count as, or the most probable one
    where they have no order; where outcomes are known, their log probabilities."""
    names = [f"probability_{level}" for level in predicted.levels]
    table = pd.concat(
        [table, pd.DataFrame(predicted.probabilities, columns=names, index=table.index)], axis=1
    )
    if isinstance(predicted, LevelMixture):
        table["mean"] = predicted.mean
    else:
        table["mode"] = predicted.mode
    if outcome is None:
        return table, ""
    table["outcome"], table["log_probability"] = outcome, predicted.log_density(outcome)
    return table, f"; log loss {predicted.nll(outcome):.3f}"


def sample_run(folder: Path, n: int, given: tuple[str, ...], out: Path, seed: int) -> str:
    """Made-up users of a finished run, with the cells that are given as ``column=value``; writes a
    table, returns a line of words."""
    check_folder(folder)
    check_place(out)
    run = load_run(folder)
    table = run.sample(n, _cells(given, run.posterior_.spec.codebook), seed=seed)
    write_whole(out, csv_bytes(table))
    return f"{n} users made up. {wrote(out)}"


def _cells(given: tuple[str, ...], codebook: Columns | None) -> dict[str, Any]:
    """Cells by column: texts of columns with levels, else numbers."""
    names = () if codebook is None else codebook.columns
    with_levels = {column.name for column in names if column.levels}
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise InputError(f"--given takes column=value, such as town=Lyon; got {text!r}.")
        if name in with_levels:
            found[name] = value
            continue
        try:
            found[name] = float(value)
        except ValueError:
            raise InputError(
                f"--given {text}: column {name!r} does not hold levels, so that its value must be "
                "a number."
            ) from None
    return found
