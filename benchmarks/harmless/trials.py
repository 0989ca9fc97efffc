"""One split of a set or of a forum under a control: models are fitted to it, and their held-out
outcomes are scored.

Units: users of a set, or test threads of a forum. NLL (units,): mean negative log density of the
held-out outcomes of each, NaN where there are none.
"""

import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

import dualview as dv
from benchmarks.forums import forum_of, read, subset
from benchmarks.harmless.controls import CONTROLS
from benchmarks.link import predict_linear
from benchmarks.worth import mixture
from benchmarks.worth.methods import METHODS
from benchmarks.worth.problem import Problem, problems
from benchmarks.worth.scores import Forecast, by_user, normal
from benchmarks.worth.sets import SETS, Array
from dualview.evaluation.stacking import Stack
from dualview.forum import ForumData
from dualview.forum.data import ForumThreads

N_FOLDS = 3  # splits 0, 1 and 2 of a set are those of benchmarks.worth
_OF_SETS = {"mean": "means", "ridge": "ridge", "mixed": "mixed model"}
_OF_FORUMS = {"mean": "mean", "ridge": "ridge", "mixed": "both"}

Fitted = dv.DualViewMixture | Stack


class Trial(Protocol):
    """What every model is asked for."""

    def simple(self, model: str) -> Array:
        """NLL of the mean of all training outcomes, ridge regression or the mixed model."""

    def fit(self, **settings: Any) -> dv.DualViewMixture:
        """A mixture with these settings; without features, if all users are in one cluster."""

    def nll(self, fitted: Fitted) -> Array:
        """NLL of a mixture or of a stack of them."""


class Source(Protocol):
    """A set or a forum, by what a process needs to read it."""

    @property
    def name(self) -> str: ...

    def trial(self, control: str, split: int) -> Trial: ...


class SetTrial:
    """The known users of a problem of ``benchmarks.worth``."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.question = problem, next(problem.questions())

    def simple(self, model: str) -> Array:
        nobody = self.question.history[:0]  # the mean is that of all users, as in forums
        question = self.question._replace(history=nobody) if model == "mean" else self.question
        return self._nll(METHODS[_OF_SETS[model]](self.problem)(question))

    def fit(self, **settings: Any) -> dv.DualViewMixture:
        return mixture.fit(self.problem, **settings)

    def nll(self, fitted: Fitted) -> Array:
        return self._nll(mixture.predictor(self.problem, fitted)(self.question))

    def _nll(self, forecast: Forecast) -> Array:
        study, asked = self.problem.study, self.question.asked
        return by_user(study.user[asked], study.n_users, study.outcome[asked], forecast).nll


@dataclass(frozen=True)
class PublicSet:
    """A set of ``benchmarks.worth``."""

    name: str

    def trial(self, control: str, split: int) -> SetTrial:
        study = CONTROLS[control].of_study(SETS[self.name](), split)
        seed, fold = divmod(split, N_FOLDS)
        return SetTrial(next(p for p in problems(study, N_FOLDS, seed) if p.fold == fold))


class ForumTrial:
    """Some of the training threads of a forum, and all of its test threads."""

    def __init__(self, data: ForumData, train: ForumThreads) -> None:
        self.data, self.train = data, train

    def simple(self, model: str) -> Array:
        mean, variance = predict_linear(_OF_FORUMS[model], self.data, self.train)
        return -normal(self.data.test.outcome, mean, variance).log_density

    def fit(self, **settings: Any) -> dv.DualViewMixture:
        features = None if settings.get("n_clusters") == 1 else self.data.numbers.to_numpy()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the verdict is in the table
            return dv.DualViewMixture(**settings).fit(features, self.train.behavior)

    def nll(self, fitted: Fitted) -> Array:
        predicted = fitted.predict_outcome(self.data.test.behavior)
        return -np.asarray(predicted.log_density(self.data.test.outcome))


@dataclass(frozen=True)
class Forum:
    """A forum by the words of ``--forum``, with about n_users users and at most n_threads training
    threads."""

    words: tuple[str, ...]
    n_users: int
    n_threads: int

    @property
    def name(self) -> str:
        return self.words[0]

    def trial(self, control: str, split: int) -> ForumTrial:
        """A random half of the training threads, or fewer."""
        data = CONTROLS[control].of_forum(_forum_data(self), split)
        n_all = len(data.training.outcome)
        n = min(self.n_threads, (n_all + 1) // 2)
        rows = np.sort(np.random.default_rng([n, split]).choice(n_all, n, replace=False))
        return ForumTrial(data, subset(data.training, rows))


@lru_cache(maxsize=1)
def _forum_data(forum: Forum) -> ForumData:
    _, path, options = forum_of(list(forum.words))
    return read(path, options, forum.n_users)
