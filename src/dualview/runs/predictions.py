"""Predictions of a finished run for new observations, of its users and of new ones, in a table."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dualview.behaviors.base import Behavior
from dualview.behaviors.families.base import Mixture
from dualview.behaviors.families.gaussian import NormalMixture
from dualview.behaviors.families.levels import LevelProbabilities
from dualview.behaviors.families.logit import ChoiceMixture
from dualview.behaviors.families.ordinal import LevelMixture
from dualview.behaviors.families.ranking import RankingMixture
from dualview.checks import listed
from dualview.columns import Censored, Columns
from dualview.errors import InputError
from dualview.files.spreadsheets import csv_bytes
from dualview.files.writing import check_place, write_whole, wrote
from dualview.inputs.answers import Answers
from dualview.inputs.long_tables import as_read_by
from dualview.inputs.tables import Threads, read_users
from dualview.mixture import DualViewMixture
from dualview.runs.choices import load_choice
from dualview.runs.request import Request, build_behavior, check_folder, read_observations
from dualview.runs.run import load_run
from dualview.words.numbers import counted


class Asked(NamedTuple):
    """What is to be predicted by a run.

    observations: a table of new ones; None for the new users themselves. outcomes: those of
    threads, where they have a table of their own. stacked: by the run and the models that were
    fitted beside it. users, so_far: tables of users unknown to the run and of what they did.
    """

    observations: Path | None
    outcomes: Path | None = None
    probability: float = 0.95
    drop_unknown: bool = False
    stacked: bool = False
    users: Path | None = None
    so_far: Path | None = None


class Newcomers(NamedTuple):
    """Users unknown to a run: their ids, their features, where they have some, what they did so
    far, and what was left out of the tables."""

    ids: list[str]
    features: pd.DataFrame | None = None
    so_far: Behavior | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def read(cls, asked: Asked, request: Request, run: DualViewMixture) -> "Newcomers":
        if asked.users is None:
            if asked.so_far is not None:
                raise InputError(
                    "--so-far is of new users: give their table too, with --users. What users of "
                    "the run did is part of the run."
                )
            return cls([])
        known = run.posterior_.user_ids
        table, notes = read_users(asked.users, request.columns), []
        is_new = ~pd.Index(table.ids).isin(known)
        ids = [user for user, new in zip(table.ids, is_new, strict=True) if new]
        if len(ids) < len(table.ids):
            were = [user for user, new in zip(table.ids, is_new, strict=True) if not new]
            notes.append(
                f"{counted(len(were), 'row', 'rows')} of {asked.users} left out, of users whom the "
                f"run has already: {listed(were)}"
            )
        if not ids:
            raise InputError(f"{asked.users} has no user who is new: all are in the run already.")
        features = table.features
        if features is not None:
            features = features[is_new].set_axis(pd.Index(ids))
            names = list(getattr(run, "feature_names_in_", ()))
            if names and set(names) <= set(features.columns):  # in whatever order, among others
                features = features[names]
        if not run.posterior_.has_features:
            features = pd.DataFrame(index=pd.Index(ids))
        seen = None
        if asked.so_far is not None:
            everybody = [*known, *ids]
            found = read_observations(
                request, asked.so_far, everybody, as_read=as_read_by(run.behavior_)
            )
            notes += found.notes
            seen = build_behavior(request, found, everybody)
        return cls(ids, features, seen, tuple(notes))


def predict_run(folder: Path, out: Path, asked: Asked) -> str:
    """Predict new observations of a run's users and of new ones, or these users themselves; writes
    a table, returns a line of words."""
    check_folder(folder)
    check_place(out)
    if asked.observations is None and asked.users is None:
        raise InputError(
            "Nothing is asked for: name a table of threads or answers to predict, or one of new "
            "users with --users."
        )
    run = load_run(folder)
    model = load_choice(folder) if asked.stacked else run
    request = Request.load(folder)
    newcomers = Newcomers.read(asked, request, run)
    if asked.observations is None:
        if asked.stacked:
            raise InputError(
                "Clusters are of one fit: leave out --stacked, or name a table of "
                f"{request.observations} to predict."
            )
        table, said = _of_newcomers(run, newcomers, asked.probability)
        what, notes = counted(len(table), "new user", "new users"), list(newcomers.notes)
    else:
        table, said, notes = _of_observations(asked, request, run, model, newcomers)
        what = counted(len(table), request.observations[:-1], request.observations)
    write_whole(out, csv_bytes(table))
    lines = "".join(f"\ndualview: {note}" for note in notes)
    return f"{what} predicted{said}. {wrote(out)}{lines}"


def _of_newcomers(
    model: DualViewMixture, newcomers: Newcomers, probability: float
) -> tuple[pd.DataFrame, str]:
    """A row per new user, with the columns of users.csv: the most probable cluster, −1 for a new
    one, its probability, and latent coefficients with intervals."""
    given = newcomers.features, newcomers.so_far
    shares = model.predict_proba(*given)
    chosen = shares.argmax(axis=1)
    cluster = np.where(chosen < model.n_clusters_, chosen, -1)
    table = pd.DataFrame(
        {"user": newcomers.ids, "cluster": cluster, "membership": shares.max(axis=1)}
    )
    if "latent" in model.posterior_:
        latent, names = model.predict_latent(*given), model.posterior_.latent_names
        shape = len(table), len(names)
        medians = np.reshape(latent.median, shape)
        ends = np.reshape(latent.interval(probability), (*shape, 2))
        for j, name in enumerate(names):
            prefix = "latent" if len(names) == 1 else f"latent.{name}"
            table[f"{prefix}_median"] = medians[:, j]
            table[f"{prefix}_low"], table[f"{prefix}_high"] = ends[:, j].T
    n_other = int((cluster < 0).sum())
    return table, f"; {n_other} most probably of a cluster that the run has not" * (n_other > 0)


def _of_observations(
    asked: Asked, request: Request, run: DualViewMixture, model: Any, newcomers: Newcomers
) -> tuple[pd.DataFrame, str, list[str]]:
    """The predicted table, what is said of it, and what was left out."""
    assert asked.observations is not None
    users = [*run.posterior_.user_ids, *newcomers.ids]
    new = read_observations(
        request,
        asked.observations,
        users,
        outcomes=asked.outcomes,
        drop_unknown=asked.drop_unknown,
        need_outcome=False,
        as_read=as_read_by(run.behavior_),
    )
    given = (newcomers.features, newcomers.so_far) if newcomers.ids else ()
    predicted = model.predict_outcome(build_behavior(request, new, users), *given)
    table, probability = _identified(new, request), asked.probability
    if isinstance(predicted, ChoiceMixture):
        table, said = _of_probabilities(table, predicted, new, probability)
    elif isinstance(predicted, RankingMixture):
        table, said = _of_rankings(table, predicted, new.outcome, probability)
    elif isinstance(predicted, LevelProbabilities):
        table, said = _of_levels(table, predicted, new.outcome)
    else:
        table, said = _of_numbers(table, predicted, new.outcome, probability)
    return table, said, [*newcomers.notes, *new.notes]


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
