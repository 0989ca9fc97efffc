"""The sentences of a report, and its words for observations and for latent numbers."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dualview.checks import words_text
from dualview.columns import Cells, Columns
from dualview.posterior import Posterior
from dualview.posterior.diagnostics import settled_text
from dualview.posterior.partition import PartitionEstimate, crosstab
from dualview.posterior.partition.certainty import certainty_text
from dualview.runs.about_answers import AboutAnswers
from dualview.words.numbers import counted, number, share


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
SEVERAL_LATENT = "Each user has several latent coefficients: see the table of latent vectors."
_MOST_NAMES = 4


def title(folder: Path, forum: dict[str, Any]) -> str:
    """Named after the file of posts, or after the run's folder."""
    return f"Roles of users: {Path(forum.get('source') or folder.resolve()).name}"


def plain_outcome(forum: dict[str, Any]) -> str:
    """What a factor multiplies: the outcome before its logarithm was taken."""
    return str(forum.get("outcome", "outcome")).removeprefix("logarithm of ")


def sentence(note: str) -> str:
    """A note with a capital and a full stop."""
    return f"{note[:1].upper()}{note[1:]}{'' if note.endswith('.') else '.'}"


def overview(
    post: Posterior, n_roles: int, forum: dict[str, Any], about: AboutAnswers | None = None
) -> list[str]:
    """What was done, in a few paragraphs."""
    return [
        _data_sentence(post, about) + _forum_sentence(forum),
        _model_sentence(post, about),
        f"A Gibbs sampler ran {counted(post.n_chains, 'chain', 'chains')}; {_draws(post)}. The "
        "partition that is closest to "
        f"all of them has {counted(n_roles, 'role', 'roles')}, which this page describes.",
    ]


def _data_sentence(post: Posterior, about: AboutAnswers | None) -> str:
    users = counted(post.n_users, "user", "users")
    parts = []
    if post.has_features:
        names = fitted_names(post)
        shown = (
            words_text(names)
            if len(names) <= 12
            else f"{', '.join(names[:12])} and {len(names) - 12} more"
        )
        parts.append(f"by {counted(len(names), 'feature', 'features')} ({shown})")
    if about is not None:
        called = vocabulary(about)
        parts.append(f"by {counted(about.n, called.observation, called.observations)} of their own")
    elif "latent" in post:
        n = post.n_observations
        outcomes = "outcomes" if n != 1 else "outcome"
        parts.append(
            f"by the {outcomes} of "
            f"{'the threads' if n is None else counted(n, 'thread', 'threads')} they took part in"
        )
    return f"{users} are described {' and '.join(parts)}."


def fitted_names(post: Posterior) -> list[str]:
    """Names of all columns that the model has seen, nominal ones too."""
    if post.cells is None or post.spec.codebook is None:
        return post.feature_names
    return [column.name for column in post.spec.codebook.columns if column.kind != "ignore"]


def _forum_sentence(forum: dict[str, Any]) -> str:
    if not {"outcome", "first_posts", "test_threads"} <= set(forum):
        return ""
    return (
        f" The outcome of a thread is the {forum['outcome']}; its participants are the authors "
        "of its first "
        f"{forum['first_posts']} posts. {forum['test_threads']:,} later threads were held out "
        "for testing."
    )


def _model_sentence(post: Posterior, about: AboutAnswers | None) -> str:
    has_latent = "latent" in post
    parts = ["in their features"] if post.has_features else []
    alike = " and ".join([*parts, *([vocabulary(about).alike] if has_latent else [])])
    number_of = (
        "was inferred from the data"
        if post.spec.n_clusters is None
        else f"was set to {post.spec.n_clusters}"
    )
    text = (
        f"The model sorts users into roles, groups that are alike {alike}; the number of "
        f"roles {number_of}."
    )
    if about is not None:
        return f"{text} {_ANSWERS[about.kind].format(outcome=about.outcome)} {_ASSOCIATION}"
    if has_latent:
        text += (
            " The outcome of a thread is modeled as the sum of its participants' latent "
            "coefficients, here called catalytic "
            "powers, plus noise. A coefficient says what tends to go along with a user's "
            "participation, not what it causes."
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
    "choices": "The log odds that a user chooses one item over another are a sum of the "
    "differences between them times the "
    "user's latent coefficients.",
    "rankings": "A user ranks items by their utilities: the utility of an item is a sum of "
    "columns times the user's latent "
    "coefficients, plus noise of variance 1.",
}


def _draws(post: Posterior) -> str:
    if post.summary is None:
        return (
            f"{counted(post.n_chains * post.n_draws, 'draw', 'draws')} of the posterior were kept"
        )
    made = int(post.summary.sizes["chain"] * post.summary.sizes["iteration"])
    return (
        f"of {made:,} draws of the posterior a summary was kept, and "
        f"{post.n_chains * post.n_draws:,} of them whole: roles, "
        "intervals and similarities below are computed from the whole ones"
    )


def roles_intro(post: Posterior, estimate: PartitionEstimate, n_roles: int) -> list[str]:
    """How many roles, how sure, and how to read the cards."""
    counts = (
        post.flat("n_clusters")
        if post.summary is None
        else np.asarray(post.summary["n_clusters"].values).ravel()
    )
    text = "Roles are numbered from the largest, as in users.csv."
    if post.spec.n_clusters is None:
        low, high = np.quantile(counts, [0.05, 0.95], method="nearest")
        text += (
            f" The estimate has {n_roles}; draws of the posterior have {counts.mean():.1f} on "
            "average, and nine in ten of them "
            f"have {f'{low:.0f}' if low == high else f'{low:.0f} to {high:.0f}'}."
        )
    certainty = float(np.mean(estimate.membership))
    return [
        text,
        "A user's certainty is the probability of being in the same role as another member "
        "chosen at random; its average over "
        f"all users is {share(certainty)}. Typical members have high certainty and features near "
        "the role's medians.",
        certainty_text(post.flat("z"), estimate, "role"),
        *([] if (found := crosstab.text(post, "role")) is None else [found]),
    ]


def _some(names: list[str]) -> str:
    return (
        words_text(names)
        if len(names) <= _MOST_NAMES
        else f"{', '.join(names[:_MOST_NAMES])} and {len(names) - _MOST_NAMES} more"
    )


def units(names: list[str], fitted: list[str]) -> str:
    """Which of the quantities shown the model has seen."""
    unseen = [name for name in names if name not in fitted]
    text = (
        "They are shown untransformed; the model used them with the transformations listed "
        "in the settings."
    )
    return text if not unseen else f"{text} It did not use {_some(unseen)}: the settings say why."


def table_units(cells: Cells, codebook: Columns) -> str:
    """How cells that are missing, and ordered levels, are shown."""
    parts = []
    n_missing = int(cells.missing.sum())
    if n_missing:
        missing = counted(n_missing, "missing cell is", "missing cells are")
        parts.append(f"{missing} shown at the posterior median.")
    if any(column.levels for column in codebook.of("features")):
        parts.append("On the map and in the table of users, ordered levels are numbers from 0.")
    return " ".join(parts)


def power_intro(
    post: Posterior, forum: dict[str, Any], fewest: int, about: AboutAnswers | None = None
) -> str:
    n_draws = post.n_chains * post.n_draws
    caution = (
        ""
        if n_draws >= fewest
        else f" With {counted(n_draws, 'whole draw', 'whole draws')} the intervals are rough."
    )
    what = (
        "What a user's participation adds to the "
        f"{forum.get('outcome', 'outcome of a thread')}, other things being equal."
    )
    if about is not None:
        scales = {"regression": "", "rankings": " on the scale of utilities"}
        on = scales.get(about.kind, " on the scale of log odds")
        what = f"The coefficient of {about.parts(['latent'])[0]}{on}, user by user."
    return (
        f"{what} The "
        "marker is the posterior median of the mean over the members of a role, the bar its 95 % "
        "interval. Light dots are the "
        "medians of single members. The dashed line is the mean of those dots over all users, "
        f"the solid line is zero.{caution}"
    )


def map_intro(
    has_features: bool, has_latent: bool, chosen: list[str], called: Vocabulary = THREADS
) -> str:
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
        f"{n_shown:,} of {n:,} users, here and on the map: the most certain members of each "
        "role, in proportion to its size. "
        "users.csv in the run's folder has all users."
    )


def too_many_for_similarity(n_users: int, most: int) -> str:
    return (
        f"Left out: a picture of all pairs of {n_users:,} users would be too large (the "
        f"limit is {most:,} users)."
    )


def too_few_draws(post: Posterior, fewest: int) -> str:
    kept = (
        "whole draws were kept in this run's summary"
        if post.summary is not None
        else "draws were made"
    )
    return (
        f"Left out: only {post.n_chains * post.n_draws} {kept}; shares of draws need at "
        f"least {fewest}."
    )


def similarity_intro(post: Posterior) -> str:
    kept = "draws" if post.summary is None else "draws that were kept whole"
    return (
        f"How often two users are in the same role, over {post.n_chains * post.n_draws:,} "
        f"{kept}. Dark squares along the "
        "diagonal are roles whose members stay together. Gray inside a square means uncertain "
        "members, and gray between two "
        "roles means that they are hard to distinguish."
    )


def predictions(
    scores: dict[str, Any], forum: dict[str, Any], called: Vocabulary = THREADS
) -> list[str]:
    """How good the predictions are, and whether their intervals can be trusted."""
    r2 = scores["r2"]
    if not np.isfinite(r2):
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
        error = 2 * np.sqrt(level * (1 - level) / scores["n"])
        if abs(inside - level) > error:
            parts.append(
                f"the {share(level)} ones contain {share(inside)} of the outcomes and are too "
                f"{_fault(inside, level)}"
            )
    if not parts:
        level, inside = scores["coverage"][-1]
        return (
            f"Intervals are calibrated: the {share(level)} intervals contain {share(inside)} "
            "of the outcomes."
        )
    return f"Not all intervals are calibrated: {words_text(parts)}."


def _fault(inside: float, level: float) -> str:
    return "narrow" if inside < level else "wide"


def _origin(forum: dict[str, Any], called: Vocabulary) -> str:
    if "test_threads" not in forum:
        many = called.observations
        return f"If these {many} were part of the fit, this says nothing about future {many}."
    since = forum.get("cut")
    return (
        "These threads began after all threads of the "
        f"fit{f', from {since[:10]} on' if since else ''}."
    )


def score_rows(scores: dict[str, Any], called: Vocabulary = THREADS) -> list[tuple[str, str]]:
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


def predictions_alt(scores: dict[str, Any], called: Vocabulary = THREADS) -> str:
    level, inside = scores["coverage"][-1]
    return (
        f"Predictive medians and {share(level)} intervals of {scores['n']:,} "
        f"{called.observations} sorted by outcome, with the "
        "outcomes; "
        f"{share(inside)} of them are inside."
    )


def calibration_alt(scores: dict[str, Any]) -> str:
    parts = [
        f"{share(inside)} inside the {share(level)} interval"
        for level, inside in scores["coverage"]
    ]
    inside = words_text(parts)
    return f"Share of outcomes inside central intervals against their probability: {inside}."


def verdict_headline(post: Posterior) -> str:
    if post.approximation is not None:
        found = (
            "has converged, and the starts agree" if post.converged else "may not be the best one"
        )
        return (
            f"These are draws from a variational approximation. It {found}; intervals may be "
            "too narrow."
        )
    if post.converged:
        return "The chains agree with each other and are long enough for the results on this page."
    if post.settled:
        return f"{settled_text(post.settled)} Treat the rest as provisional."
    return (
        "The chains do not agree well enough yet: treat roles, sizes and intervals as provisional."
    )


def diagnostics_note(n_all: int, n_shown: int, n_chains: int, approximated: bool) -> str:
    if approximated:
        return (
            "Lines are independent draws. They look alike and R̂ is 1 by construction; that does "
            "not say how close the "
            f"approximation is. {n_shown} of {n_all} quantities."
        )
    alike = "Lines are chains, by draw" if n_chains > 1 else "The line is the chain, by draw"
    return (
        f"{alike}; they should look alike and cover the same range. R̂ compares the chains (it "
        "should be at most 1.01). "
        f"Effective draws are the equivalent number of independent draws. {n_shown} of {n_all} "
        "quantities, the worst included."
    )
