"""Rows as Markdown."""

from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np

from benchmarks.harmless.controls import CONTROLS
from benchmarks.harmless.rows import CONTINUED, Key, Row
from benchmarks.harmless.run import MIXTURES, MODELS, STACKED
from benchmarks.worth.scores import Gap, mean_when_asked
from benchmarks.worth.sets import Array

WORDS = {
    "mixed": "mixed model",
    "agreement": "dual, agreement learned",
    "link": "dual, link",
}
_HEAD = (
    "| set | control | model | NLL | less that of single | less that of the mean | CPU seconds "
    "| verdict | largest R-hat |\n|---|---|---|---:|---:|---:|---:|---|---:|"
)
_VERDICT_HEAD = "| control | model | than single | than the mean |\n|---|---|---:|---:|"

BySplit = dict[int, Row]


class Difference(NamedTuple):
    """A mean difference of NLL, with standard errors over users (threads of a forum) and over
    splits; NaN with one split."""

    mean: float
    over_units: float
    over_splits: float

    @classmethod
    def between(cls, one: BySplit, other: BySplit) -> "Difference | None":
        """one − other on the splits that both have."""
        splits = sorted(one.keys() & other.keys())
        if not splits:
            return None
        first, second = (np.array([rows[split].units for split in splits]) for rows in (one, other))
        gap = Gap.between(mean_when_asked(first), mean_when_asked(second))
        return cls(gap.mean, gap.error, _error(np.nanmean(first - second, axis=1)))

    @property
    def is_clear(self) -> bool:
        """Whether it is more than two of the larger standard errors from 0."""
        return abs(self.mean) > 2.0 * np.nanmax([self.over_units, self.over_splits])

    def __str__(self) -> str:
        errors = [f"{self.over_units:.3f}"]
        errors += [] if np.isnan(self.over_splits) else [f"{self.over_splits:.3f}"]
        text = f"{self.mean:+.3f} ± {' / '.join(errors)}"
        return f"**{text}**" if self.is_clear else text


def _error(values: Array) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def _r_hat_text(value: float) -> str:
    if np.isnan(value):
        return ""
    return f"{value:.3f}" if value < 100.0 else "> 100"


class Cell:
    """The models of one set under one control, by split; without those that failed."""

    def __init__(self, rows: Collection[Row]) -> None:
        self.all = {name: {row.split: row for row in rows if row.model == name} for name in MODELS}
        self.of = {
            name: {split: row for split, row in own.items() if not row.failed}
            for name, own in self.all.items()
        }

    def difference(self, model: str, rival: str) -> Difference | None:
        if model == rival:
            return None
        return Difference.between(self.of[model], self.of[rival])

    def seconds(self, model: str) -> str:
        """CPU seconds of a split, a mean; of a stack, those of its fits included."""
        parts = (*MIXTURES, STACKED) if model == STACKED else (model,)
        rows = [list(own.values()) for part in parts if (own := self.of[part])]
        least = "over " if any(row.note == CONTINUED for own in rows for row in own) else ""
        return f"{least}{sum(np.mean([row.seconds for row in own]) for own in rows):.1f}"

    def verdict(self, model: str) -> str:
        """How many verdicts passed; marked, if some did not."""
        rows = self.all[model].values()
        n_failed = sum(row.failed for row in rows)
        failed = f", {n_failed} failed" if n_failed else ""
        if model not in (*MIXTURES, STACKED):
            return failed.removeprefix(", ")
        n_passed = sum(row.passed for row in rows)
        mark = "" if n_passed == len(rows) else "† "
        return f"{mark}{n_passed} of {len(rows)} passed{failed}"

    def lines(self) -> Iterator[list[str]]:
        """Cells of a line for each model that was run."""
        for model in MODELS:
            if not self.all[model]:
                continue
            own = self.of[model]
            nll = (
                mean_when_asked(np.array([row.units for row in own.values()])).mean()
                if own
                else np.nan
            )
            r_hat = max((row.r_hat for row in own.values()), default=np.nan)
            yield [
                WORDS.get(model, model),
                f"{nll:.3f}" if own else "",
                *(str(self.difference(model, rival) or "") for rival in ("single", "mean")),
                self.seconds(model) if own else "",
                self.verdict(model),
                _r_hat_text(r_hat),
            ]


def cells(rows: dict[Key, Row]) -> dict[tuple[str, str], Cell]:
    """By set, in the order in which they came, and control."""
    names = dict.fromkeys(row.set for row in rows.values())
    found = {}
    for name in names:
        for control in CONTROLS:
            own = [row for row in rows.values() if (row.set, row.control) == (name, control)]
            if own:
                found[name, control] = Cell(own)
    return found


def markdown(rows: dict[Key, Row]) -> str:
    """Differences counted over sets, then the table of all sets."""
    found = cells(rows)
    text = "\n".join([*_verdicts(found), "", _HEAD, *_lines(found)])
    return f"{text}\n\n† Not all verdicts passed.\n" if "†" in text else f"{text}\n"


def _lines(found: dict[tuple[str, str], Cell]) -> Iterator[str]:
    for (name, control), cell in found.items():
        for line in cell.lines():
            yield f"| {name} | {CONTROLS[control].words} | {' | '.join(line)} |"


def _verdicts(found: dict[tuple[str, str], Cell]) -> Iterator[str]:
    """On how many sets models are clearly better, not clearly different, clearly worse."""
    yield _VERDICT_HEAD
    for control in CONTROLS:
        own = [cell for (_, its), cell in found.items() if its == control]
        for model in MODELS:
            if any(cell.of[model] for cell in own):
                counts = [_counts(own, model, rival) for rival in ("single", "mean")]
                words = CONTROLS[control].words, WORDS.get(model, model)
                yield f"| {' | '.join([*words, *counts])} |"


def _counts(cells: list[Cell], model: str, rival: str) -> str:
    gaps = [gap for cell in cells if (gap := cell.difference(model, rival)) is not None]
    better = sum(gap.is_clear and gap.mean < 0.0 for gap in gaps)
    worse = sum(gap.is_clear and gap.mean > 0.0 for gap in gaps)
    return f"{better} / {len(gaps) - better - worse} / {worse}" if gaps else ""
