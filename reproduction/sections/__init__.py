"""A section of the report for each study: its figures, its tables, and what they say, in words made
from the numbers."""

from collections.abc import Callable

from reproduction.sections import beyond, paper
from reproduction.sections.linked import link
from reproduction.sections.parts import Findings, Section, table

__all__ = ["SECTIONS", "Findings", "Section", "table"]

SECTIONS: dict[str, Callable[[Findings], Section]] = {
    **{name: paper.scenario(name) for name in ("agreement", "disagreement", "iris")},
    "cost": paper.cost,
    "models": paper.models,
    "information": paper.information,
    "starts": beyond.starts,
    "sensitivity": beyond.sensitivity,
    "randomized": beyond.randomized,
    "unstructured": beyond.unstructured,
    "overlap": beyond.overlap,
    "shapes": beyond.shapes,
    "users": beyond.users,
    "draws": beyond.draws,
    "link": link,
    "baselines": beyond.baselines,
}
