"""The methods of the benchmark, by name: each takes a problem and returns a function that answers
its questions."""

from collections.abc import Callable

from benchmarks.worth import mixed, mixture, regressions
from benchmarks.worth.problem import Problem, Question
from benchmarks.worth.scores import Forecast

OURS = ("dualview", "dualview, link")
METHODS: dict[str, Callable[[Problem], Callable[[Question], Forecast]]] = {
    "means": regressions.means,
    "ridge": regressions.ridge,
    "ridge, history": regressions.ridge_with_history,
    "boosting": regressions.boosting,
    "mixed model": mixed.mixed,
    "dualview": mixture.dual,
    "dualview, link": mixture.linked,
}
