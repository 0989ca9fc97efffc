"""The paper's own numbers, as facts with their source: published.json."""

import json
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from dualview.errors import InputError


class Point(NamedTuple):
    """One point of a published curve: mean and standard error over 5 runs."""

    n_threads: int
    mean: float
    error: float


@cache
def _facts() -> dict[str, Any]:
    text = files("reproduction").joinpath("published.json").read_text(encoding="utf-8")
    facts: dict[str, Any] = json.loads(text)
    return facts


def curve(scenario: str, metric: str, model: str) -> tuple[Point, ...]:
    """The points of a model in the figure of a scenario, metric "nll" or "ari"; none where the
    paper has none."""
    scenarios = _facts()["curves"]
    if scenario not in scenarios:
        raise InputError(f"The paper's scenarios are {', '.join(scenarios)}; got {scenario!r}.")
    return tuple(
        Point(int(n), mean, error)
        for n, mean, error in scenarios[scenario].get(metric, {}).get(model, ())
    )


def number(name: str) -> float:
    """A number from the paper's text, such as the autocorrelation time it reports."""
    return float(_facts()["text"][name])


def citation() -> str:
    """Authors, year, title and journal."""
    source = _facts()["source"]
    return f"{source['authors']} ({source['year']}). {source['title']}. {source['journal']}."
