"""Finished runs on the same observations, ranked by leave-one-out scores or by those of refits.

comparison.json holds a ranking: n_threads, the number of observations, what they are called, and
fits, the best first, each with its name, how it differs from the others in words, the scores of
dv.compare, whether its chains have converged, a digest of what it was made with, by which a run
recognizes itself, and its weight in a stack of all of them.
"""

import json
import shlex
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dualview.checks import listed, words_text
from dualview.errors import ConvergenceWarning, InputError
from dualview.evaluation.comparison import is_few, scores_of, standing, table_of
from dualview.evaluation.stacking import Stack, stack_scores
from dualview.files.digests import digest
from dualview.files.reading import readable_json
from dualview.files.writing import write_json
from dualview.inputs.answers import Answers
from dualview.inputs.tables import Threads
from dualview.posterior import Posterior
from dualview.runs.request import Request, build_behavior, read_inputs
from dualview.runs.run import load_run, rebuild_estimator

FILE = "comparison.json"


@dataclass(frozen=True)
class Fit:
    """A run and its score."""

    name: str
    apart: str
    elpd: float
    se: float
    p: float
    difference: float
    difference_se: float
    unsure: int
    converged: bool
    made_with: str
    weight: float | None = None
    weight_low: float | None = None
    weight_high: float | None = None


@dataclass(frozen=True)
class Ranking:
    """Fits to the same observations, the highest score first; observations: what they are called.

    folds: of the refits that scored them; None for leave-one-out scores. few: whether there are too
    few scores for a verdict. stacking: what the weights of the fits in a stack mean, in words.
    """

    n_threads: int
    fits: tuple[Fit, ...]
    by: str = "observation"
    observations: str = "threads"
    folds: int | None = None
    few: bool = False
    stacking: str = ""

    def standing(self, fit: Fit) -> str:
        """What a fit's rank means; it is certain only if neither its scores nor those of the best
        fit are unreliable."""
        return standing(
            fit.difference, fit.difference_se, bool(fit.unsure or self.fits[0].unsure), self.few
        )

    @property
    def weights(self) -> dict[str, float | None]:
        """Of the fits in a stack, by name; None in files of earlier versions."""
        return {fit.name: fit.weight for fit in self.fits}

    def save(self, path: Path) -> None:
        write_json(path, asdict(self))

    @classmethod
    def load(cls, path: Path) -> "Ranking":
        with readable_json(path, "Make it again with 'dualview compare'.") as content:
            fits = tuple(Fit(**fit) for fit in content["fits"])
            others = {
                name: content[name]
                for name in ("by", "observations", "folds", "few", "stacking")
                if name in content
            }
            return cls(int(content["n_threads"]), fits, **others)

    def text(self) -> str:
        """A table for a reader, with a verdict."""
        head = ("fit", "differs in", "elpd", "behind", "± SE", "unsure", "weight (95 %)", "")
        rows = [head, *(_cells(fit, self.standing(fit)) for fit in self.fits)]
        widths = [max(len(row[j]) for row in rows) for j in range(len(head))]
        left = {0, 1, len(head) - 1}
        lines = [
            "  ".join(
                f"{cell:{'<' if j in left else '>'}{widths[j]}}" for j, cell in enumerate(row)
            ).rstrip()
            for row in rows
        ]
        return "\n".join([*lines, *self.verdict()])

    def verdict(self) -> list[str]:
        """In sentences: which fit is best, how certain that is, and warnings about the scores."""
        best, others = self.fits[0], self.fits[1:]
        found = [(repr(fit.name), self.standing(fit)) for fit in others]
        close = [name for name, what in found if what == "not distinguishable from the best"]
        doubtful = [name for name, what in found if what == "rank uncertain"]
        said = (
            f"Of {len(self.fits)} fits to the same {self.n_threads:,} {self.observations}, "
            f"{best.name!r} "
        )
        if len(doubtful) == len(others):
            said += (
                "has the highest score, but some scores are unreliable, so this is not a ranking."
            )
        elif close:
            why = "" if self.few else ": the difference is within two standard errors, or below 4"
            said += f"predicts best, but {words_text(close)} cannot be distinguished from it{why}."
        elif doubtful:
            said += (
                "predicts best according to the reliable scores; the rank of "
                f"{words_text(doubtful)} is uncertain."
            )
        else:
            said += (
                f"predicts best; {'the other is' if len(others) == 1 else 'the others are'} "
                "clearly behind."
            )
        if close and doubtful:
            said += f" The rank of {words_text(doubtful)} is uncertain."
        sentences = [said]
        unsure = [f"{fit.unsure:,} in {fit.name!r}" for fit in self.fits if fit.unsure]
        if unsure:
            left_out = "Users" if self.by == "user" else self.observations.capitalize()
            sentences.append(
                f"{left_out} with unreliable scores: {words_text(unsure)}. Without such a "
                f"{left_out.lower()[:-1]} the fit would be very different. To score every "
                f"{self.observations[:-1]} by a fit without it, add --folds 5."
            )
        if self.few:
            sentences.append(
                "There are fewer than 100 users: too few for a verdict on scores by user."
            )
        unfinished = [repr(fit.name) for fit in self.fits if not fit.converged]
        if unfinished:
            sentences.append(
                f"The chains of {words_text(unfinished)} have not converged: scores are "
                "provisional. Draw more."
            )
        return [*sentences, self.stacking] if self.stacking else sentences


def _cells(fit: Fit, standing: str) -> tuple[str, ...]:
    behind = (
        ("", "") if fit.difference == 0 else (f"{fit.difference:.1f}", f"{fit.difference_se:.1f}")
    )
    weight = (
        ""
        if fit.weight is None
        else f"{fit.weight:.2f} ({fit.weight_low:.2f} to {fit.weight_high:.2f})"
    )
    return (fit.name, fit.apart, f"{fit.elpd:.1f}", *behind, str(fit.unsure), weight, standing)


def rank_runs(
    folders: Sequence[Path], by: str = "observation", folds: int | None = None
) -> Ranking:
    """Finished runs of the same observations, by leave-one-out scores of observations or of users,
    or by refits in folds."""
    names = short_names(folders)
    if len(names) < 2:
        raise InputError(f"Name two or more finished runs to compare; got {len(names)}.")
    requests = {name: Request.load(folder) for name, folder in zip(names, folders, strict=True)}
    models, described, digests, first = {}, {}, {}, None
    for name, folder in zip(names, folders, strict=True):
        models[name] = load_run(folder)
        users, observed = read_inputs(requests[name])
        if observed is None:
            raise InputError(
                f"{folder} was fitted without threads or answers, so it predicts no outcomes."
            )
        behavior = build_behavior(requests[name], observed, users.ids)
        check_unchanged(folder, behavior.fingerprint())
        called = requests[name].observations
        first = first or (folder, observed, called)
        if called != first[2]:
            raise InputError(
                f"{folder} is a fit of {called} and {first[0]} one of {first[2]}: compare fits "
                "to the same."
            )
        ordered = behavior.take(_order(folder, observed, *first))
        if folds is None:
            models[name].behavior_ = ordered
        else:
            models[name] = rebuild_estimator(requests[name], models[name].posterior_, ordered)
        described[name] = _described(
            requests[name], 0 if users.features is None else users.features.shape[1]
        )
        digests[name] = own_digest(folder, models[name].posterior_)
    with warnings.catch_warnings():
        # The verdict names runs that have not converged.
        warnings.simplefilter("ignore", ConvergenceWarning)
        by_name = scores_of(models, by=by, folds=folds)
    table = table_of(by_name, by)
    stacked = stack_scores(models, {name: by_name[name] for name in table.index}, by)
    weights = stacked.table[["weight", "low", "high"]].astype(float)
    table[["weight", "weight_low", "weight_high"]] = weights.to_numpy()
    scores = table.drop(columns="note").to_dict(orient="index")
    apart = _apart(described)
    fits = (
        Fit(
            name,
            apart[name],
            **score,
            converged=models[name].posterior_.converged,
            made_with=digests[name],
        )
        for name, score in scores.items()
    )
    assert first is not None
    few = is_few(next(iter(models.values())).posterior_.n_users, by)
    return Ranking(len(first[1].ids), tuple(fits), by, first[2], folds, few, stacked.verdict())


def load_stack(folders: Sequence[Path], ranking: Ranking) -> Stack:
    """The stack of finished runs with the weights of a ranking of them; an error where it is not of
    these runs, or of an earlier state of them."""
    fits = {name: load_run(own) for name, own in zip(short_names(folders), folders, strict=True)}
    digests = {
        own_digest(own, fit.posterior_) for own, fit in zip(folders, fits.values(), strict=True)
    }
    if {fit.made_with for fit in ranking.fits} != digests or None in ranking.weights.values():
        raise InputError(
            f"The weights in {FILE} are not of {words_text([*map(str, folders)])} as they are now. "
            f"Make them again: {choose_command(folders[0])}"
        )
    table = pd.DataFrame.from_dict(ranking.weights, orient="index", columns=["weight"])
    return Stack({name: fits[name] for name in table.index}, table, ranking.stacking, ranking.by)


def choose_command(folder: Path) -> str:
    """The command that fits and stacks models beside a run, as a shell takes it."""
    return shlex.join(["dualview", "choose", str(folder)])


def short_names(folders: Sequence[Path]) -> list[str]:
    """Each folder's name, with as many parent folders as are needed to make the names different."""
    parts = [folder.resolve().parts for folder in folders]
    repeated = [str(folder) for j, folder in enumerate(folders) if parts[j] in parts[:j]]
    if repeated:
        raise InputError(f"Each run is compared once; named twice: {', '.join(repeated)}.")
    depth = 1
    while len({part[-depth:] for part in parts}) < len(parts):
        depth += 1
    return ["/".join(part[-depth:]) for part in parts]


def own_digest(folder: Path, post: Posterior) -> str:
    """The digest by which a run recognizes itself in a ranking: what it was made with, and its
    length."""
    reached = (
        () if post.length is None or post.length.ended == "length" else (post.length.n_iterations,)
    )
    return digest(
        json.dumps(_made_with(folder), sort_keys=True), post.n_chains, post.n_draws, *reached
    )


def _made_with(folder: Path) -> dict[str, Any]:
    unknown = "The settings and data of the run are unknown."
    with readable_json(folder / "manifest.json", unknown) as manifest:
        return dict(manifest["made_with"])


def check_unchanged(folder: Path, now: dict[str, Any]) -> None:
    """Raise if the tables have changed since the fit: their scores would mean nothing."""
    made_with = _made_with(folder)
    changed = [name for name, value in now.items() if made_with.get(name, value) != value]
    if changed:
        raise InputError(
            f"The tables of {folder} have changed since the fit ({', '.join(changed)}): put them "
            "back, or fit again in another folder."
        )


def _order(
    folder: Path, observed: Threads | Answers, other: Path, wanted: Threads | Answers, called: str
) -> list[int]:
    """Positions of the wanted observations among these; an error unless they are the same ones with
    the same outcomes."""
    place = {name: t for t, name in enumerate(observed.ids)}
    common = [name for name in wanted.ids if name in place]
    if len(common) < max(len(observed.ids), len(wanted.ids)):
        raise InputError(
            f"{folder} and {other} are not fits to the same {called}: they have "
            f"{len(observed.ids)} and {len(wanted.ids)}, and "
            f"{len(common)} in common. Fit both to the same {called}."
        )
    order = [place[name] for name in wanted.ids]
    differ = [
        wanted.ids[t] for t in np.flatnonzero(_outcomes(observed)[order] != _outcomes(wanted))
    ]
    if differ:
        raise InputError(
            f"{folder} and {other} have different outcomes in {len(differ)} {called[:-1]}(s), such "
            f"as {listed(differ)}: scores of different outcomes cannot be compared."
        )
    return order


def _outcomes(observed: Threads | Answers) -> NDArray[Any]:
    """The outcome of each observation; for answers, with the user."""
    if isinstance(observed, Threads):
        return np.zeros(len(observed.ids)) if observed.outcome is None else observed.outcome
    columns: dict[str, Any] = {"user": observed.user}
    if observed.outcome is not None:
        columns |= {f"outcome {i}": own for i, own in enumerate(np.atleast_2d(observed.outcome.T))}
    if observed.rankings is not None:
        columns["ranking"] = observed.rankings
    rows = pd.DataFrame(columns) if observed.choices is None else observed.choices.assign(**columns)
    return np.array(
        ["\0".join(map(str, row)) for row in rows.itertuples(index=False)], dtype=object
    )


def _described(request: Request, n_features: int) -> dict[str, str]:
    return {
        "features": f"{n_features or 'no'} feature{'' if n_features == 1 else 's'}",
        "covariates": f"covariates {', '.join(request.covariates)}"
        if request.covariates
        else "no covariates",
        "intercept": "intercept" if request.intercept else "no intercept",
        "noise_variance": f"noise_variance {request.noise_variance or 'by likelihood'}",
        **request.answers.described(),
        **request.settings.described(),
    }


def _apart(described: dict[str, dict[str, str]]) -> dict[str, str]:
    """The part of each run's description that is not the same for all."""
    names = list(next(iter(described.values())))
    different = [name for name in names if len({words[name] for words in described.values()}) > 1]
    return {
        run: ", ".join(words[name] for name in different) or "same settings"
        for run, words in described.items()
    }
