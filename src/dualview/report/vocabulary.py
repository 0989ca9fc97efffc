"""The words of a report for the observations of a run and for the latent numbers."""

from typing import NamedTuple

from dualview.runs.about_answers import AboutAnswers


class Vocabulary(NamedTuple):
    """Names of an observation, of many, of a user's latent number, and of many; what users are
    alike in."""

    observation: str
    observations: str
    power: str
    powers: str
    alike: str


THREADS = Vocabulary(
    "thread", "threads", "catalytic power", "catalytic powers", "in what they add to threads"
)
_COEFFICIENTS = ("latent coefficient", "latent coefficients")
_ANSWERS = {
    "regression": Vocabulary("observation", "observations", *_COEFFICIENTS, "in their regressions"),
    "binary": Vocabulary("answer", "answers", *_COEFFICIENTS, "in what their answers depend on"),
    "ordinal": Vocabulary("rating", "ratings", *_COEFFICIENTS, "in what their ratings depend on"),
    "choices": Vocabulary("choice", "choices", *_COEFFICIENTS, "in what they choose by"),
    "rankings": Vocabulary("ranked item", "ranked items", *_COEFFICIENTS, "in what they rank by"),
}


def vocabulary(about: AboutAnswers | None) -> Vocabulary:
    """The words for a run; those of threads where it is not one of answers."""
    return THREADS if about is None else _ANSWERS[about.kind]
