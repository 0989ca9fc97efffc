"""The sentences of a report, and its words for observations and for latent numbers."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from dualview.checks import words_text
from dualview.words.clusters import Summary, n_draws, number_sentences
from dualview.words.numbers import counted, number, share


@dataclass(frozen=True)
class Range:
    """Where most values of a column are, and their mean."""

    name: str
    low: float
    high: float
    mean: float


@dataclass(frozen=True)
class AboutAnswers:
    """What a report needs to know of the answers of a fit."""

    kind: str
    outcome: str
    n: int
    columns: tuple[Range, ...]
    common: tuple[Range, ...] = ()

    def parts(self, names: list[str]) -> list[str]:
        """Names of the parts of a latent vector: a posterior has no name for a single one."""
        single = self.columns[0].name if self.columns else "intercept"
        return [single] if len(names) == 1 else names


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
_WORDS = {
    "regression": Vocabulary("observation", "observations", *_COEFFICIENTS, "in their regressions"),
    "binary": Vocabulary("answer", "answers", *_COEFFICIENTS, "in what their answers depend on"),
    "ordinal": Vocabulary("rating", "ratings", *_COEFFICIENTS, "in what their ratings depend on"),
    "categorical": Vocabulary("answer", "answers", *_COEFFICIENTS, "in what they choose"),
    "survival": Vocabulary("time", "times", *_COEFFICIENTS, "in what their times depend on"),
    "counts": Vocabulary("count", "counts", *_COEFFICIENTS, "in what their rates depend on"),
    "choices": Vocabulary("choice", "choices", *_COEFFICIENTS, "in what they choose by"),
    "rankings": Vocabulary("ranked item", "ranked items", *_COEFFICIENTS, "in what they rank by"),
}


def vocabulary(about: AboutAnswers | None) -> Vocabulary:
    """The words for a run; those of threads where it is not one of answers."""
    return THREADS if about is None else _WORDS[about.kind]


NO_LATENT = (
    "The run was fitted without threads or answers, so there are no latent "
    "coefficients: roles come from features alone."
)
ONE_ROLE = "There is one role, of all users, so nothing distinguishes roles."
NO_CONTRASTS = "The run was fitted without features, so there are no columns to compare."
NO_AVERAGES = "The columns of this run are of kinds that have no averages to compare."
SEVERAL_LATENT = "Each user has several latent coefficients: see the table of latent vectors."


def title(folder: Path, forum: dict[str, Any]) -> str:
    """Named after the file of posts, or after the run's folder."""
    return f"Roles of users: {Path(forum.get('source') or folder.resolve()).name}"


def plain_outcome(forum: dict[str, Any]) -> str:
    """What a factor multiplies: the outcome before its logarithm was taken."""
    return str(forum.get("outcome", "outcome")).removeprefix("logarithm of ")


def sentence(note: str) -> str:
    """A note with a capital and a full stop."""
    return f"{note[:1].upper()}{note[1:]}{'' if note.endswith('.') else '.'}"


def overview(summary: Summary, forum: dict[str, Any], about: AboutAnswers | None) -> list[str]:
    """What was done, in a few paragraphs."""
    return [
        _data_sentence(summary, about) + _forum_sentence(forum),
        _model_sentence(summary, about),
        f"A Gibbs sampler ran {counted(summary['chains'], 'chain', 'chains')}; {_draws(summary)}. "
        "The partition that is closest to all of them has "
        f"{counted(len(summary['clusters']), 'role', 'roles')}, which this page describes.",
    ]


def _data_sentence(summary: Summary, about: AboutAnswers | None) -> str:
    users, names, parts = counted(summary["users"], "user", "users"), summary["features"], []
    if names:
        shown = _some(names, 12)
        parts.append(f"by {counted(len(names), 'feature', 'features')} ({shown})")
    if about is not None:
        called = vocabulary(about)
        parts.append(f"by {counted(about.n, called.observation, called.observations)} of their own")
    elif _has_latent(summary):
        n = summary["observations"]
        outcomes = "outcomes" if n != 1 else "outcome"
        parts.append(
            f"by the {outcomes} of "
            f"{'the threads' if n is None else counted(n, 'thread', 'threads')} they took part in"
        )
    return f"{users} are described {' and '.join(parts)}."


def _has_latent(summary: Summary) -> bool:
    return "latent" in summary["clusters"][0]


def _forum_sentence(forum: dict[str, Any]) -> str:
    if not {"outcome", "first_posts", "test_threads"} <= set(forum):
        return ""
    return (
        f" The outcome of a thread is the {forum['outcome']}; its participants are the authors of "
        f"its first {forum['first_posts']} posts. {forum['test_threads']:,} later threads were "
        "held out for testing."
    )


def _model_sentence(summary: Summary, about: AboutAnswers | None) -> str:
    has_latent, fixed = _has_latent(summary), summary["n_clusters"]
    parts = ["in their features"] if summary["features"] else []
    alike = " and ".join([*parts, *([vocabulary(about).alike] if has_latent else [])])
    number_of = "was inferred from the data" if fixed is None else f"was set to {fixed}"
    text = (
        f"The model sorts users into roles, groups that are alike {alike}; the number of "
        f"roles {number_of}."
    )
    if about is not None:
        return f"{text} {_ANSWERS[about.kind].format(outcome=about.outcome)} {_ASSOCIATION}"
    if has_latent:
        text += (
            " The outcome of a thread is modeled as the sum of its participants' latent "
            "coefficients, here called catalytic powers, plus noise. A coefficient says what tends "
            "to go along with a user's participation, not what it causes."
        )
    return text


_ASSOCIATION = "A coefficient says what tends to go along with a column, not what it causes."
_ANSWERS = {
    "regression": "Each user has a regression of its own: {outcome} is a sum of columns times "
    "the user's latent coefficients, "
    "plus noise.",
    "binary": "Each user has a logistic regression of its own: the log odds of {outcome} are a "
    "sum of columns times the user's "
    "latent coefficients.",
    "ordinal": "Each user has an ordinal regression of its own: the log odds of a higher "
    "{outcome} are a sum of columns times "
    "the user's latent coefficients, less a cut point for each step between levels.",
    "categorical": "Each user has a multinomial probit regression of its own: each level of "
    "{outcome} has a utility, a sum of columns times the user's latent coefficients for that "
    "level, plus noise of variance 1; the highest is observed.",
    "survival": "Each user has a regression of its own: the logarithm of {outcome} is a sum of "
    "columns times the user's latent coefficients, plus noise.",
    "counts": "Each user has a regression of its own for counts: the logarithm of the rate of "
    "{outcome} is a sum of columns times the user's latent coefficients.",
    "choices": "The log odds that a user chooses one item over another are a sum of the "
    "differences between them times the "
    "user's latent coefficients.",
    "rankings": "A user ranks items by their utilities: the utility of an item is a sum of "
    "columns times the user's latent "
    "coefficients, plus noise of variance 1.",
}


def _draws(summary: Summary) -> str:
    kept, made = n_draws(summary), summary["draws_summarized"]
    if made is None:
        return f"{counted(kept, 'draw', 'draws')} of the posterior were kept"
    return (
        f"of {made:,} draws of the posterior a summary was kept, and {kept:,} of them whole: "
        "roles, intervals and similarities below are computed from the whole ones"
    )


def roles_intro(summary: Summary) -> list[str]:
    """How many roles, and how to read the cards."""
    clusters = summary["clusters"]
    text = "Roles are numbered from the largest, as in users.csv."
    if summary["n_clusters"] is None:
        low, high = summary["clusters_in_most_draws"]
        mean = summary["clusters_in_an_average_draw"]
        text += (
            f" The estimate has {len(clusters)}; draws of the posterior have {mean:.1f} on "
            f"average, and nine in ten of them have {low if low == high else f'{low} to {high}'}."
        )
    text = " ".join([text, *number_sentences(summary, "roles")])
    certainty = sum(own["share"] * own["certainty"] for own in clusters)
    return [
        text,
        "A user's certainty is the probability of being in the same role as another member chosen "
        f"at random; its average over all users is {share(certainty)}. Typical members have high "
        "certainty and features near the role's medians.",
    ]


def _some(names: list[str], most: int) -> str:
    more = len(names) - most
    return words_text(names) if more <= 0 else f"{', '.join(names[:most])} and {more} more"


def units(names: list[str], fitted: list[str]) -> str:
    """Which of the quantities shown the model has seen."""
    unseen = [name for name in names if name not in fitted]
    text = (
        "They are shown untransformed; the model used them with the transformations listed "
        "in the settings."
    )
    left_out = f" It did not use {_some(unseen, 4)}: the settings say why." if unseen else ""
    return text + left_out


def table_units(n_missing: int, has_levels: bool) -> str:
    """How cells that are missing, and ordered levels, are shown."""
    parts = []
    if n_missing:
        missing = counted(n_missing, "missing cell is", "missing cells are")
        parts.append(f"{missing} shown at the posterior median.")
    if has_levels:
        parts.append("On the map and in the table of users, ordered levels are numbers from 0.")
    return " ".join(parts)


def power_intro(
    summary: Summary, forum: dict[str, Any], fewest: int, about: AboutAnswers | None
) -> str:
    what = (
        "What a user's participation adds to the "
        f"{forum.get('outcome', 'outcome of a thread')}, other things being equal."
    )
    if about is not None:
        utilities = " on the scale of utilities"
        scales = {"regression": "", "rankings": utilities, "categorical": utilities}
        scales["survival"] = " on the scale of logarithms"
        on = scales.get(about.kind, " on the scale of log odds")
        what = f"The coefficient of {about.parts(['latent'])[0]}{on}, user by user."
    return (
        f"{what} The marker is the posterior median of the mean over the members of a role, the "
        "bar its 95 % interval. Light dots are the medians of single members. The dashed line is "
        f"the mean of those dots over all users, the solid line is zero.{rough(summary, fewest)}"
    )


def rough(summary: Summary, fewest: int) -> str:
    """A caution about intervals, where there are few draws for their ends."""
    kept = n_draws(summary)
    if kept >= fewest:
        return ""
    return f" With {counted(kept, 'whole draw', 'whole draws')} the intervals are rough."


def contrasts_intro(n_shown: int, n_columns: int, n_left_out: int, caution: str) -> str:
    """What the contrasts of roles with all users are, and which of them are shown."""
    which = "Columns"
    if n_shown < n_columns:
        which = f"Of {n_columns} columns each role has the {n_shown} that differ most. They"
    text = (
        "How the average of a role's members differs from the average of all users: the posterior "
        "median of the difference, and its 95 % interval, which allows for doubts about who "
        f"belongs to the role. {which} come in the order of the difference in standard deviations "
        f"among all users.{caution}"
    )
    if n_left_out:
        text += f" {counted(n_left_out, 'smaller role is', 'smaller roles are')} left out."
    return text


def quantity(name: str, made: str) -> str:
    """What the members of a role have an average of; made: how a column of numbers was made."""
    if name == "probability":
        return "probability, in percentage points"
    scale = made.removesuffix(", known to an interval")
    return f"mean of {scale}" if name == "mean" and _is_transform(scale) else name


def _is_transform(made: str) -> bool:
    return made not in ("", "as it is") and not made.startswith(("count", "one of"))


def map_intro(has_features: bool, has_latent: bool, chosen: list[str], called: Vocabulary) -> str:
    text = "One marker per user, by role. Point at a marker, or touch it, to see the user."
    if has_features and len(chosen) > 1:
        both = words_text(chosen)
        text += f" It starts with the two features that distinguish the roles best, {both}"
        text += (
            f"; you can choose others, or {called.power}."
            if has_latent
            else "; you can choose others."
        )
    elif not has_features:
        text += (
            f" The run has no features, so users are placed by their {called.power} and by "
            "their certainty."
        )
    return text


def users_note(n: int, n_shown: int) -> str:
    if n == n_shown:
        return f"All {counted(n, 'user', 'users')}."
    return (
        f"{n_shown:,} of {n:,} users, here and on the map: the most certain members of each role, "
        "in proportion to its size. users.csv in the run's folder has all users."
    )


def too_many_for_similarity(n_users: int, most: int) -> str:
    return (
        f"Left out: a picture of all pairs of {n_users:,} users would be too large (the "
        f"limit is {most:,} users)."
    )


def too_few_draws(summary: Summary, fewest: int) -> str:
    kept = (
        "draws were made"
        if summary["draws_summarized"] is None
        else "whole draws were kept in this run's summary"
    )
    return f"Left out: only {n_draws(summary)} {kept}; shares of draws need at least {fewest}."


def similarity_intro(summary: Summary) -> str:
    kept = "draws" if summary["draws_summarized"] is None else "draws that were kept whole"
    return (
        f"How often two users are in the same role, over {n_draws(summary):,} {kept}. Dark squares "
        "along the diagonal are roles whose members stay together. Gray inside a square means "
        "uncertain members, and gray between two roles means that they are hard to distinguish."
    )


def predictions(
    scores: dict[str, Any], forum: dict[str, Any], called: Vocabulary = THREADS
) -> list[str]:
    """How good the predictions are, and whether their intervals can be trusted."""
    r2 = scores["r2"]
    if not math.isfinite(r2):
        strength = "The outcomes are all the same, so there is nothing to explain."
    elif r2 <= 0:
        strength = (
            "The predictions are no better than the mean of these outcomes: no signal is "
            "visible here."
        )
    else:
        strength = (
            f"The predictions explain {share(r2)} of the variance of these "
            f"outcomes{', which is little' if r2 < 0.1 else ''}."
        )
    predicted = counted(scores["n"], called.observation, called.observations)
    return [
        f"{predicted} with known outcomes were predicted (predictions.csv). {strength}",
        f"{_calibration(scores)} {_origin(forum, called)}",
    ]


def _calibration(scores: dict[str, Any]) -> str:
    """Whether intervals contain as many outcomes as they should, within two standard errors."""
    parts = []
    for level, inside in scores["coverage"]:
        error = 2 * math.sqrt(level * (1 - level) / scores["n"])
        if abs(inside - level) > error:
            parts.append(
                f"the {share(level)} ones contain {share(inside)} of the outcomes and are too "
                f"{'narrow' if inside < level else 'wide'}"
            )
    if not parts:
        level, inside = scores["coverage"][-1]
        return (
            f"Intervals are calibrated: the {share(level)} intervals contain {share(inside)} "
            "of the outcomes."
        )
    return f"Not all intervals are calibrated: {words_text(parts)}."


def _origin(forum: dict[str, Any], called: Vocabulary) -> str:
    if "test_threads" not in forum:
        many = called.observations
        return f"If these {many} were part of the fit, this says nothing about future {many}."
    since = forum.get("cut")
    return (
        "These threads began after all threads of the "
        f"fit{f', from {since[:10]} on' if since else ''}."
    )


def score_rows(scores: dict[str, Any], called: Vocabulary) -> list[tuple[str, str]]:
    return [
        (called.observations, f"{scores['n']:,}"),
        (f"negative log-likelihood per {called.observation}", number(scores["nll"], 4)),
        ("root mean squared error", number(scores["rmse"], 4)),
        ("R² against the mean of these outcomes", number(scores["r2"], 2)),
        *(
            (f"outcomes inside the {share(level)} interval", share(inside))
            for level, inside in scores["coverage"]
        ),
    ]


def predictions_alt(scores: dict[str, Any], called: Vocabulary) -> str:
    level, inside = scores["coverage"][-1]
    return (
        f"Predictive medians and {share(level)} intervals of {scores['n']:,} {called.observations} "
        f"sorted by outcome, with the outcomes; {share(inside)} of them are inside."
    )


def calibration_alt(scores: dict[str, Any]) -> str:
    parts = [
        f"{share(inside)} inside the {share(level)} interval"
        for level, inside in scores["coverage"]
    ]
    inside = words_text(parts)
    return f"Share of outcomes inside central intervals against their probability: {inside}."


def verdict_headline(converged: bool, approximated: bool, settled: str) -> str:
    """The verdict in a sentence or two. settled: what is good of chains that are not, in words."""
    if approximated:
        found = "has converged, and the starts agree" if converged else "may not be the best one"
        return (
            f"These are draws from a variational approximation. It {found}; intervals may be "
            "too narrow."
        )
    if converged:
        return "The chains agree with each other and are long enough for the results on this page."
    if settled:
        return f"{settled} Treat the rest as provisional."
    return (
        "The chains do not agree well enough yet: treat roles, sizes and intervals as provisional."
    )


def diagnostics_note(n_all: int, n_shown: int, n_chains: int, approximated: bool) -> str:
    if approximated:
        return (
            "Lines are independent draws. They look alike and R̂ is 1 by construction; that does "
            f"not say how close the approximation is. {n_shown} of {n_all} quantities."
        )
    alike = "Lines are chains, by draw" if n_chains > 1 else "The line is the chain, by draw"
    return (
        f"{alike}; they should look alike and cover the same range. R̂ compares the chains (it "
        "should be at most 1.01). Effective draws are the equivalent number of independent draws. "
        f"{n_shown} of {n_all} quantities, the worst included."
    )
