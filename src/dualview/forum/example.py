"""A simulated forum with heavy tails, sections, bots and deleted accounts, small enough to make on
demand.

Members have roles; a role has habits (how active, how early, how long the posts) and a catalytic
power: what a member's presence among the first posts adds to the logarithm of a thread's length.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dualview.checks import whole_number

Array = NDArray[np.float64]

EARLY = 5
_SECTIONS = ("help", "news", "showcase", "off-topic")
_SECTION_SHARES = (0.55, 0.2, 0.15, 0.1)
_SECTION_EFFECTS = (0.0, 0.25, 0.1, 0.5)
_BEGIN = 1_600_000_000.0  # September 2020
_DAYS = 700


@dataclass(frozen=True)
class _Role:
    """Habits of a role: share of the members, activity, tendency to start and to be early, log text
    length, power."""

    name: str
    share: float
    activity: float
    starting: float
    earliness: float
    log_text: float
    score: float
    power: float


_ROLES = (
    _Role("catalyst", 0.15, 1.5, 2.5, 1.5, 5.2, 3.0, 0.30),
    _Role("helper", 0.25, 2.0, 0.2, 3.0, 5.8, 1.5, -0.20),
    _Role("talker", 0.25, 1.2, 0.6, 0.6, 3.8, 0.5, 0.10),
    _Role("visitor", 0.35, 0.5, 1.5, 1.0, 4.8, 0.2, -0.05),
)


def example_people(n_users: int = 250, *, seed: int = 0) -> pd.DataFrame:
    """The truth behind the example: a row per member with role, activity and power.

    >>> example_people(8, seed=0)["role"].nunique() > 1
    True
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))
    n = whole_number(n_users, "n_users", 2)
    role = rng.choice(len(_ROLES), n, p=[r.share for r in _ROLES])
    # A Pareto distribution with exponent 1.3: a few members write most of the posts.
    activity = np.array([_ROLES[r].activity for r in role]) * (1.0 + rng.pareto(1.3, n))
    power = np.array([_ROLES[r].power for r in role]) + 0.08 * rng.standard_normal(n)
    habits = {
        name: np.array([getattr(_ROLES[r], name) for r in role])
        for name in ("starting", "earliness", "log_text", "score")
    }
    spread = 0.25 * rng.standard_normal((n, 4))
    return pd.DataFrame(
        {
            "user": [f"member{u}" for u in range(n)],
            "role": [_ROLES[r].name for r in role],
            "activity": activity,
            "power": power,
            "starting": habits["starting"] * np.exp(spread[:, 0]),
            "earliness": habits["earliness"] * np.exp(spread[:, 1]),
            "log_text": habits["log_text"] + spread[:, 2],
            "score": habits["score"] * np.exp(spread[:, 3]),
        }
    )


def example_posts(n_users: int = 250, n_threads: int = 3000, *, seed: int = 0) -> pd.DataFrame:
    """A row per post: post, thread, user, time, parent, section, score, text_length. The same seed
    gives the same forum.

    >>> posts = example_posts(n_users=50, n_threads=100, seed=0)
    >>> list(posts.columns)
    ['post', 'thread', 'user', 'time', 'parent', 'section', 'score', 'text_length']
    """
    whole_number(n_threads, "n_threads", 1)
    people = example_people(n_users, seed=seed)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
    begins = _BEGIN + 86400 * np.sort(_DAYS * rng.random(n_threads) ** 0.8)  # the forum grows
    sections = rng.choice(len(_SECTIONS), n_threads, p=_SECTION_SHARES)
    drawn = _Draws(rng, people)
    threads = [drawn.thread(begins[t], int(sections[t])) for t in range(n_threads)]
    lengths = np.array([len(posts["user"]) for posts in threads])
    columns = {name: np.concatenate([posts[name] for posts in threads]) for name in threads[0]}
    first = np.repeat(np.cumsum(lengths) - lengths, lengths)
    width = len(str(n_threads))
    return pd.DataFrame(
        {
            "post": [f"p{i}" for i in range(lengths.sum())],
            "thread": np.repeat([f"t{t:0{width}d}" for t in range(n_threads)], lengths),
            "user": columns["user"],
            "time": pd.to_datetime(columns["seconds"], unit="s", utc=True).strftime(
                "%Y-%m-%dT%H:%M:%SZ"
            ),
            "parent": [
                None if p < 0 else f"p{f + p}"
                for f, p in zip(first, columns["parent"], strict=True)
            ],
            "section": np.repeat([_SECTIONS[s] for s in sections], lengths),
            "score": columns["score"],
            "text_length": columns["text_length"],
        }
    )


class _Draws:
    def __init__(self, rng: np.random.Generator, people: pd.DataFrame) -> None:
        self.rng = rng
        self.names = people["user"].to_numpy()
        self.power, self.log_text, self.score = (
            people[name].to_numpy() for name in ("power", "log_text", "score")
        )
        activity = people["activity"].to_numpy()
        self.starting = _cumulated(activity * people["starting"].to_numpy())
        self.early = _cumulated(activity * people["earliness"].to_numpy())
        self.later = _cumulated(activity)
        self.leaves = rng.random(len(people)) < 0.02  # accounts that were deleted

    def thread(self, begin: float, section: int) -> dict[str, NDArray[Any]]:
        """One thread's posts; the early ones decide how long it becomes."""
        rng = self.rng
        early = np.r_[
            np.searchsorted(self.starting, rng.random(1)),
            np.searchsorted(self.early, rng.random(EARLY - 1)),
        ]
        repeats = rng.random(EARLY) < 0.25  # the starter comes back
        early = np.where(repeats, early[0], early)
        speed = rng.standard_normal()
        mean = 2.1 + _SECTION_EFFECTS[section] - 0.25 * speed + self.power[np.unique(early)].sum()
        length = int(np.clip(np.rint(np.exp(mean + 0.45 * rng.standard_normal())), 1, 400))
        writers = (
            early[:length] if length <= EARLY else np.r_[early, self._late(early, length - EARLY)]
        )
        gaps = np.exp(7.0 + speed + 1.2 * rng.standard_normal(length))
        gaps[0] = 0.0
        names = np.where(self.leaves[writers], "[deleted]", self.names[writers]).astype(object)
        if rng.random() < 0.1 and length > 1:
            names[1] = "AutoModerator" if rng.random() < 0.8 else "welcome-bot"
        place = np.maximum(np.rint(np.arange(length) - 1 - rng.exponential(1.0, length)), 0).astype(
            int
        )
        place[0] = -1
        return {
            "user": names,
            "seconds": np.rint(begin + np.cumsum(gaps)),
            "parent": place,
            "score": rng.poisson(self.score[writers]),
            "text_length": np.rint(
                np.exp(self.log_text[writers] + 0.6 * rng.standard_normal(length))
            ).astype(int),
        }

    def _late(self, early: NDArray[np.int64], n: int) -> NDArray[np.int64]:
        """Half of the later posts are by people who are in the thread already."""
        rng = self.rng
        fresh = np.searchsorted(self.later, rng.random(n))
        return np.where(rng.random(n) < 0.5, rng.choice(early, n), fresh)


def _cumulated(weights: Array) -> Array:
    return np.asarray(np.cumsum(weights) / weights.sum())
