"""read_forum: from a file of posts to the data of a fit.

features (U, D), participation (T, U) sparse, outcome (T,), covariates (T, C); U users with enough
activity.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from dualview.behaviors.shared_outcome import SharedOutcome
from dualview.errors import InputError
from dualview.forum.activity import measure_activity
from dualview.forum.archive import Archive
from dualview.forum.columns import Names
from dualview.forum.covariates import build_covariates, without_constants
from dualview.forum.options import ForumOptions
from dualview.forum.scaling import Scaled, scale
from dualview.forum.threads import ThreadTable, build_threads

Array = NDArray[np.float64]

RARE = "rare_participants"


@dataclass(frozen=True, eq=False)
class ForumThreads:
    """Threads of the users with a coefficient, in the order of their beginning or, with a random
    split, in any.

    Attributes
    ----------
    ids : list of str
    start : array (T,), seconds since 1970, or from the beginning of the thread where times are
    relative
    length : array (T,), posts
    participation : csr_array (T, U), of the first m posts
    outcome : array (T,)
    covariates : DataFrame (T, C)
    users : list of str, the columns of participation
    """

    ids: list[str]
    start: Array
    length: NDArray[np.int64]
    participation: sparse.csr_array
    outcome: Array
    covariates: pd.DataFrame
    users: list[str]

    @property
    def behavior(self) -> SharedOutcome:
        """The threads as a behavior with an intercept."""
        covariates = self.covariates if self.covariates.shape[1] else None
        return SharedOutcome(
            self.participation, self.outcome, covariates, intercept=True, users=self.users
        )


@dataclass(frozen=True, eq=False)
class ForumData:
    """The data of a forum, prepared for a fit.

    Attributes
    ----------
    features : DataFrame (U, D), for ``fit``, by user: counts, intervals and numbers
    numbers : DataFrame (U, D), the same on the model's scale with a number in each cell, for models
    that cannot use intervals activity : DataFrame (U, all columns), the same users in plain units
    training, test : ForumThreads, earlier and later
    transforms : how each feature was computed from activity
    left_out : columns of activity that are not features, with reasons
    names : the file's columns by part
    facts : numbers of posts, threads and users at each step
    notes : what was done, in words
    options : the options that were used
    cut : when the first test thread began, if the split is by time
    """

    features: pd.DataFrame
    numbers: pd.DataFrame
    activity: pd.DataFrame
    training: ForumThreads
    test: ForumThreads
    transforms: dict[str, str]
    left_out: dict[str, str]
    names: Names
    facts: dict[str, int]
    notes: list[str]
    options: ForumOptions
    cut: str | None = field(default=None)

    @property
    def behavior(self) -> SharedOutcome:
        """The training threads."""
        return self.training.behavior


def read_forum(posts: Any, **options: Any) -> ForumData:
    """Read posts, and compute features, participation, outcomes and covariates.

    Parameters
    ----------
    posts : path or DataFrame
        CSV, JSON Lines or Parquet, plain or compressed with gz, zst, bz2 or xz; one row per post
        with thread, user and time, and, if available, parent, section, score and text or its
        length. Columns are recognized by the names that Reddit, Discourse and Zulip use.
    **options
        The parameters of :class:`~dualview.forum.ForumOptions`: columns, first, outcome,
        covariates, min_threads and more.

    Examples
    --------
    >>> import dualview as dv
    >>> from dualview.forum import example_posts
    >>> forum = dv.forum.read_forum(example_posts(n_users=60, n_threads=400, seed=0))
    >>> forum.training.participation.shape[1] == len(forum.features)
    True
    >>> print(forum.notes[0])
    41 posts of 2 bots removed (AutoModerator, welcome-bot); --bots keep keeps them
    """
    return prepare_forum(posts, ForumOptions.of(options))


def prepare_forum(posts: Any, chosen: ForumOptions) -> ForumData:
    """Posts, a file's path or a DataFrame, as what a model takes."""
    with Archive(posts, chosen) as archive:
        threads = build_threads(archive)
        codes = _regulars(archive, threads)
        activity = measure_activity(archive, threads)
        names = archive.arrays("SELECT name FROM people ORDER BY code")["name"]
    users = [str(name) for name in names[codes]]
    activity = activity.take(codes, pd.Index(users, name="user"))
    scaled = scale(activity)
    covariates, notes = build_covariates(threads, chosen)
    weights, rare = _weights(threads.participation, codes, chosen)
    if chosen.rare == "pool":
        covariates[RARE] = rare
    covariates, dropped = without_constants(covariates, threads.n_training)
    return ForumData(
        features=scaled.features,
        numbers=scaled.numbers,
        activity=activity.values,
        training=_cut(threads, slice(0, threads.n_training), weights, covariates, users),
        test=_cut(threads, slice(threads.n_training, None), weights, covariates, users),
        transforms=scaled.transforms,
        left_out=scaled.left_out,
        names=archive.names,
        facts=archive.facts | {"users_used": len(users), "training_threads": threads.n_training},
        notes=archive.notes + notes + dropped + _words(scaled, threads, chosen),
        options=chosen,
        cut=None if threads.cut is None else datetime.fromtimestamp(threads.cut, UTC).isoformat(),
    )


def _regulars(archive: Archive, threads: ThreadTable) -> NDArray[np.int64]:
    """Codes of the users who were early in enough training threads."""
    least, m = archive.options.min_threads, archive.options.first
    training = threads.participation[: threads.n_training]
    n_threads = np.bincount(training.indices, minlength=training.shape[1])
    codes = np.flatnonzero(n_threads >= least)
    n_early = int((n_threads > 0).sum())
    fate = (
        "a common coefficient, by their number"
        if archive.options.rare == "pool"
        else "no coefficient"
    )
    archive.notes.append(
        f"{len(codes)} of {n_early} users were among the first {m} posts of {least} training "
        f"threads or more and have a coefficient each; the others have {fate}"
    )
    if len(codes) < 2:
        raise InputError(
            f"Only {len(codes)} user(s) were among the first {m} posts of at least {least} "
            "training threads; a mixture needs "
            "two. Ask for fewer with --min-threads, or give more posts."
        )
    return codes


def _weights(
    participation: sparse.csr_array, codes: NDArray[np.int64], options: ForumOptions
) -> tuple[Any, Array]:
    """Participation of the regulars, and the weight of everybody else, in each thread."""
    weights = participation.copy()
    if options.weights == "binary":
        weights.data = np.ones_like(weights.data)
    total = np.asarray(weights.sum(axis=1)).ravel()
    if options.normalize:
        weights = sparse.csr_array(weights.multiply(1.0 / np.maximum(total, 1e-300)[:, None]))
        total = (total > 0).astype(float)
    regular = sparse.csr_array(weights[:, codes])
    rest = total - np.asarray(regular.sum(axis=1)).ravel()
    return regular, np.where(np.abs(rest) < 1e-9, 0.0, rest)


def _cut(
    threads: ThreadTable, rows: slice, weights: Any, covariates: pd.DataFrame, users: list[str]
) -> ForumThreads:
    return ForumThreads(
        ids=threads.ids[rows],
        start=threads.start[rows],
        length=threads.length[rows],
        participation=weights[rows],
        outcome=threads.outcome[rows],
        covariates=covariates.iloc[rows].reset_index(drop=True),
        users=users,
    )


def _words(scaled: Scaled, threads: ThreadTable, options: ForumOptions) -> list[str]:
    notes = [
        f"{name} is not used as a feature: {reason}" for name, reason in scaled.left_out.items()
    ]
    made = ", ".join(
        f"{name} ({how})" if how != "as it is" else name for name, how in scaled.transforms.items()
    )
    notes.append(f"features, from training threads: {made}")
    n_test = len(threads.ids) - threads.n_training
    which = "the last in the file"
    if options.split == "random":
        which = "drawn at random"
    elif threads.cut is not None:
        which = f"from {datetime.fromtimestamp(threads.cut, UTC):%Y-%m-%d %H:%M} UTC on"
    notes.append(f"{threads.n_training} threads to learn from, {n_test} for the test ({which})")
    if options.relative_time:
        notes.append(
            "times are relative, so there is no tenure, and the order of threads is that of "
            "the file"
        )
    return notes
