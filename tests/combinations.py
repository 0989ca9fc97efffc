"""Options by options: which of them work together, and which questions go with each, by tiny fits.

``PYTHONPATH=. python tests/combinations.py`` fits every pair of options, asks a fit of every option
every question, and prints what came of each and where that is not what the table says. With the
name of an option it does so for its pairs alone, with ``--share 0/4`` for every fourth option; with
``--write docs/combinations.md`` it writes the table.
Set NUMBA_DISABLE_JIT=1: tiny fits take half a second in Python, and a minute to compile.

An option changes a :class:`Recipe`; options of one kind add up: two kinds of columns are a table
with both, two kinds of outcomes are two behaviors of the same users. What does not work is said in
two lists, ``NO_MEANING`` and ``NOT_WRITTEN``; everything else works.
"""

import argparse
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import dualview as dv
from benchmarks.paste import pasted
from dualview import predictions
from dualview.posterior.prediction import candidates, left_out_users

N_USERS = 10
N_PER_USER = 4
N_NEW = 3
TINY: dict[str, Any] = {"n_draws": 3, "n_chains": 2, "n_jobs": 1}
ENOUGH = TINY | {"n_draws": 13}  # for questions: comparisons need 25 draws
N_FRESH = 50  # clusters that new users may open, over all draws, instead of 20,000
NODES = {1: 3, 2: 2, 3: 2}  # of the quadrature of users who are left out, instead of up to 31
N_WARMUP = 3
GIBBS = dv.Gibbs(n_warmup=N_WARMUP)


@dataclass
class Recipe:
    """What is fitted, before the data are made."""

    columns: list[str] = field(default_factory=lambda: ["numbers"])
    missing: bool = False
    several_tables: bool = False
    outcomes: list[str] = field(default_factory=list)
    noise: str = "shared"
    effects: list[str] = field(default_factory=list)
    parameters: dict[str, Any] = field(default_factory=dict)
    shards: bool = False
    checkpoint: bool = False
    has_features: bool = True
    has_behavior: bool = True

    @property
    def families(self) -> list[str]:
        """The kinds of outcomes of the fit: those of the options, or one that has what they ask
        for."""
        if not self.has_behavior:
            return []
        has_noise = {"numbers", "rounded"} & set(self.outcomes)
        wanted = ["numbers"] if self.noise != "shared" and not has_noise else []
        return list(dict.fromkeys(self.outcomes + wanted)) or ["threads"]


def column(name: str) -> Callable[[Recipe], None]:
    return lambda recipe: recipe.columns.append(name)


def outcome(name: str) -> Callable[[Recipe], None]:
    return lambda recipe: recipe.outcomes.append(name)


def parameter(**values: Any) -> Callable[[Recipe], None]:
    return lambda recipe: recipe.parameters.update(values)


def attribute(name: str, value: Any) -> Callable[[Recipe], None]:
    return lambda recipe: setattr(recipe, name, value)


def effect(name: str) -> Callable[[Recipe], None]:
    return lambda recipe: recipe.effects.append(name)


def several(*changes: Callable[[Recipe], None]) -> Callable[[Recipe], None]:
    def all_of_them(recipe: Recipe) -> None:
        for change in changes:
            change(recipe)

    return all_of_them


COLUMNS: dict[str, Callable[[Recipe], None]] = {
    "counts": column("counts"),
    "ratings": column("ratings"),
    "categories": column("categories"),
    "rounded columns": column("rounded columns"),
    "censored columns": column("censored"),
    "missing cells": attribute("missing", True),
    "several tables": attribute("several_tables", True),
    "no features": attribute("has_features", False),
}
MODELS: dict[str, Callable[[Recipe], None]] = {
    "fixed number": parameter(n_clusters=3),
    "one cluster": parameter(n_clusters=1),
    "Pitman-Yor": parameter(n_clusters=dv.PitmanYor(0.3)),
    "learned discount": parameter(n_clusters=dv.PitmanYor("learned")),
    "finite mixtures": parameter(n_clusters=dv.FiniteMixtures()),
    "link": parameter(link="linear"),
    "agreement": parameter(agreement="learned"),
    "agreement by table": several(
        attribute("several_tables", True), parameter(agreement="learned")
    ),
    "pooling": parameter(pooling="cluster"),
    "empirical scale": parameter(behavior_prior="likelihood"),
    "heavy tails": parameter(feature_prior="student"),
}
OUTCOMES: dict[str, Callable[[Recipe], None]] = {
    "threads": outcome("threads"),
    "numbers": outcome("numbers"),
    "rounded numbers": outcome("rounded"),
    "yes or no": outcome("binary"),
    "ordered levels": outcome("ordinal"),
    "levels without an order": outcome("categorical"),
    "times": outcome("survival"),
    "log-logistic times": outcome("logistic"),
    "rates": outcome("rates"),
    "Poisson rates": outcome("poisson"),
    "trials": outcome("trials"),
    "choices": outcome("choices"),
    "rankings": outcome("rankings"),
    "several behaviors": several(outcome("numbers"), outcome("binary")),
    "noise by user": attribute("noise", "user"),
    "noise by cluster": attribute("noise", "cluster"),
    "Student noise": attribute("noise", "student"),
    "common": effect("common"),
    "groups": effect("groups"),
    "no behavior": attribute("has_behavior", False),
}
ENGINES: dict[str, Callable[[Recipe], None]] = {
    "variational": parameter(engine="variational"),
    "variational start": parameter(engine=dv.Gibbs(n_warmup=4, init="variational")),
    "shards": attribute("shards", True),
    "checkpoint": attribute("checkpoint", True),
    "summary": parameter(keep="summary"),
}
OPTIONS = COLUMNS | MODELS | OUTCOMES | ENGINES


class World:
    """Data of every kind for the same users, and the same again for users who are new."""

    def __init__(self, n: int = N_USERS, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.n = n
        self.is_new = seed > 0
        self.ids = [f"u{seed}_{i}" for i in range(n)]
        self.z = np.arange(n) % 2
        self.latent = np.where(self.z == 0, -1.0, 1.0) + 0.2 * rng.normal(size=n)
        self.who = np.repeat(np.arange(n), N_PER_USER)
        self.x = rng.normal(size=len(self.who))
        self.eta = self.latent[self.who] * self.x
        self.noise = rng.normal(size=len(self.who))
        self.rng = rng

    def table(self, recipe: Recipe) -> Any:
        """X of a recipe."""
        rng, n = np.random.default_rng(5), self.n
        level = 2.0 * self.z
        made: dict[str, Any] = {
            "height": level + rng.normal(size=n),
            "weight": rng.normal(size=n),
            "posts": rng.poisson(3.0 + level),
            "grade": np.clip((level + rng.normal(size=n)).round().astype(int) + 2, 1, 5),
            "age": (40.0 + 5.0 * level + 3.0 * rng.normal(size=n)).round(),
            "town": np.where(rng.random(n) < 0.3 + 0.2 * level, "Aix", "Bonn"),
            "low": np.where(rng.random(n) < 0.5, 1.0, -np.inf),
        }
        made["earned"] = np.where(np.isfinite(made["low"]), 1.0, level + rng.normal(size=n))
        made["earned_high"] = np.where(np.isfinite(made["low"]), np.inf, made["earned"])
        names = {
            "numbers": ["height", "weight"],
            "counts": ["posts"],
            "ratings": ["grade"],
            "rounded columns": ["age"],
            "categories": ["town"],
            "censored": ["earned", "earned_high"],
        }
        if not recipe.has_features:
            return None
        chosen = [name for kind in recipe.columns for name in names[kind]]
        frame = pd.DataFrame({name: made[name] for name in chosen}, index=self.ids)
        if recipe.missing:
            frame["height"] = frame["height"].where(np.arange(n) % 5 != 1)
        if recipe.several_tables:
            first = ["height"]
            return {"looks": frame[first], "record": frame.drop(columns=first)}
        return frame

    def kinds(self, recipe: Recipe) -> dict[str, Any] | None:
        """``columns=`` of a recipe."""
        kinds = {
            "counts": {"posts": "count"},
            "ratings": {"grade": "ordinal"},
            "rounded columns": {"age": "rounded"},
            "categories": {"town": "nominal"},
            "censored": {"earned": dv.Censored("earned", "earned_high")},
        }
        given: dict[str, Any] = {}
        for name in recipe.columns if recipe.has_features else ():
            given |= kinds.get(name, {})
        if recipe.several_tables:
            home = {"height": "looks"}
            given = {
                f"{home.get(name, 'record')}.{name}": (
                    dv.Censored("record.earned", "record.earned_high")
                    if isinstance(kind, dv.Censored)
                    else kind
                )
                for name, kind in given.items()
            }
        return given or None

    def behavior(self, recipe: Recipe, outcomes: bool = True) -> Any:
        """y of a recipe; without outcomes, what is to be predicted."""
        parts = {
            name: getattr(self, f"_{name}")(recipe, outcomes)
            for name in dict.fromkeys(recipe.families)
        }
        if not parts:
            return None
        return next(iter(parts.values())) if len(parts) == 1 else parts

    def _effects(self, recipe: Recipe, n: int, common: str = "common") -> dict[str, Any]:
        rng = np.random.default_rng(11)
        given: dict[str, Any] = {}
        if "common" in recipe.effects:
            given[common] = pd.DataFrame({"age": rng.normal(size=n)})
        if "groups" in recipe.effects:
            given["groups"] = {"day": np.array(["mon", "tue", "wed"])[rng.integers(3, size=n)]}
        return given

    def _users(self) -> dict[str, Any]:
        return {"users": self.ids}

    def _own(self) -> np.ndarray:
        return np.array(self.ids, dtype=object)[self.who]

    def _threads(self, recipe: Recipe, outcomes: bool) -> Any:
        rng, n_threads = np.random.default_rng(3), 3 * self.n
        # what is observed of users who are new to a fit: each thread may have one
        share = 0.0 if self.is_new and outcomes else 0.3
        taken = (rng.random((n_threads, self.n)) < share).astype(float)
        taken[np.arange(n_threads), np.arange(n_threads) % self.n] = 1.0
        y = taken @ self.latent + 0.5 * rng.normal(size=n_threads) if outcomes else None
        return dv.SharedOutcome(
            pd.DataFrame(taken, columns=self.ids),
            y,
            **self._effects(recipe, n_threads, "covariates"),
        )

    def _numbers(self, recipe: Recipe, outcomes: bool, kind: str = "continuous") -> Any:
        y = self.eta + 0.5 * self.noise
        if kind == "rounded":
            y = (2 * y).round() / 2
        return dv.UserRegression(
            self._own(),
            pd.DataFrame({"x": self.x}),
            y if outcomes else None,
            noise=recipe.noise,
            **({"outcome_kind": {"kind": "rounded", "step": 0.5}} if kind == "rounded" else {}),
            **self._users(),
            **self._effects(recipe, len(y)),
        )

    def _rounded(self, recipe: Recipe, outcomes: bool) -> Any:
        return self._numbers(recipe, outcomes, "rounded")

    def _binary(self, recipe: Recipe, outcomes: bool) -> Any:
        return dv.BinaryOutcomes(
            self._own(),
            pd.DataFrame({"x": self.x}),
            (self.eta + self.noise > 0).astype(int) if outcomes else None,
            **self._users(),
            **self._effects(recipe, len(self.x)),
        )

    def _ordinal(self, recipe: Recipe, outcomes: bool) -> Any:
        y = np.clip((self.eta + self.noise).round().astype(int), -1, 1)
        return dv.OrdinalOutcomes(
            self._own(),
            pd.DataFrame({"x": self.x}),
            y if outcomes else None,
            levels=[-1, 0, 1],
            **self._users(),
            **self._effects(recipe, len(self.x)),
        )

    def _categorical(self, recipe: Recipe, outcomes: bool) -> Any:
        place = np.where(self.eta + self.noise > 0, 0, 1 + (self.noise > 0))
        return dv.CategoricalOutcomes(
            self._own(),
            pd.DataFrame({"x": self.x}),
            np.array(["bus", "car", "walk"])[place] if outcomes else None,
            levels=["bus", "car", "walk"],
            **self._users(),
            **self._effects(recipe, len(self.x)),
        )

    def _survival(self, recipe: Recipe, outcomes: bool, family: str = "weibull") -> Any:
        time = np.exp(self.eta + 0.5 * self.noise)
        return dv.SurvivalOutcomes(
            self._own(),
            pd.DataFrame({"x": self.x}),
            *((np.minimum(time, 2.0), time < 2.0) if outcomes else (None, None)),
            family=family,
            **self._users(),
            **self._effects(recipe, len(self.x)),
        )

    def _logistic(self, recipe: Recipe, outcomes: bool) -> Any:
        return self._survival(recipe, outcomes, "log-logistic")

    def _choices(self, recipe: Recipe, outcomes: bool) -> Any:  # noqa: ARG002
        items = pd.DataFrame({"x": [-1.0, 0.0, 1.0]}, index=["a", "b", "c"])
        first, second = np.arange(len(self.x)) % 3, (np.arange(len(self.x)) + 1) % 3
        gap = items["x"].to_numpy()[first] - items["x"].to_numpy()[second]
        wins = self.latent[self.who] * gap + self.noise > 0
        names = items.index.to_numpy()
        return dv.PairwiseChoices(
            self._own(),
            names[np.where(wins, first, second)],
            names[np.where(wins, second, first)],
            items,
            **self._users(),
            **self._effects(recipe, len(self.x)),
        )

    def _rates(self, recipe: Recipe, outcomes: bool, family: Any = "negative binomial") -> Any:
        counts = np.random.default_rng(8).poisson(np.exp(0.5 * self.eta))
        return dv.CountOutcomes(
            self._own(),
            pd.DataFrame({"x": self.x}),
            counts if outcomes else None,
            exposure=np.where(self.x > 0, 1.0, 2.0),
            family=family,
            **self._users(),
            **self._effects(recipe, len(self.x)),
        )

    def _poisson(self, recipe: Recipe, outcomes: bool) -> Any:
        return self._rates(recipe, outcomes, "poisson")

    def _trials(self, recipe: Recipe, outcomes: bool) -> Any:
        trials = 1 + np.arange(len(self.x)) % 4
        wins = np.random.default_rng(8).binomial(trials, 1.0 / (1.0 + np.exp(-self.eta)))
        return dv.BinaryOutcomes(
            self._own(),
            pd.DataFrame({"x": self.x}),
            wins if outcomes else None,
            trials=trials,
            **self._users(),
            **self._effects(recipe, len(self.x)),
        )

    def _rankings(self, recipe: Recipe, outcomes: bool) -> Any:
        who = np.repeat(np.arange(self.n), 3)
        ranking = np.repeat(np.arange(self.n), 3)
        x = np.tile([-1.0, 0.0, 1.0], self.n)
        rng = np.random.default_rng(7)
        score = (self.latent[who] * x + rng.gumbel(size=len(who))).reshape(-1, 3)
        place = (-score).argsort(axis=1).argsort(axis=1).ravel() + 1
        return dv.Rankings(
            np.array(self.ids, dtype=object)[who],
            ranking,
            pd.DataFrame({"x": x}),
            place if outcomes else None,
            **self._users(),
            **self._effects(recipe, len(who)),
        )


@dataclass
class Fit:
    """A fitted recipe, with the world it was fitted to."""

    recipe: Recipe
    world: World
    model: dv.DualViewMixture

    def new(self) -> tuple[World, Any]:
        """Users who are new to the fit, and their features."""
        world = World(N_NEW, seed=1)
        X = world.table(self.recipe)
        return world, np.empty((N_NEW, 0)) if X is None else X


def fit(recipe: Recipe, folder: Path, length: dict[str, Any]) -> Fit:
    """The recipe, fitted."""
    world = World()
    parameters = length | {"engine": GIBBS} | recipe.parameters
    if recipe.checkpoint:
        parameters["checkpoint"] = folder / "checkpoint"
    X, y = world.table(recipe), world.behavior(recipe)
    if recipe.shards:
        X, y = dv.write_shards(folder / "shards", X, y), None
        parameters["engine"] = recipe.parameters.get("engine", "variational")
    elif (kinds := world.kinds(recipe)) is not None:
        parameters["columns"] = kinds
    return Fit(recipe, world, dv.DualViewMixture(**parameters).fit(X, y))


def _finite(values: Any) -> None:
    values = np.asarray(values, dtype=float)
    assert values.size, "no answer"
    assert np.isfinite(values).all()


def _as_list(found: Any) -> list[Any]:
    return (
        list(found.values()) if hasattr(found, "values") and not hasattr(found, "nll") else [found]
    )


def new_users(found: Fit) -> None:
    _, X = found.new()
    shares = found.model.predict_proba(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    _finite(found.model.score_samples(X))


def new_latent(found: Fit) -> None:
    world, X = found.new()
    given = world.behavior(found.recipe)
    for each in _as_list(found.model.predict_latent(X, behavior_new=given)):
        _finite(each.interval(0.5))


def known_outcomes(found: Fit) -> None:
    for each in _as_list(found.model.predict_outcome(found.world.behavior(found.recipe, False))):
        _finite(each.draws(5, seed=0) if callable(getattr(each, "draws", None)) else each.mean)


def new_outcomes(found: Fit) -> None:
    world, X = found.new()
    new = world.behavior(found.recipe, False)
    for each in _as_list(found.model.predict_outcome(new, X)):
        _finite(each.draws(5, seed=0) if callable(getattr(each, "draws", None)) else each.mean)


def imputation(found: Fit) -> None:
    assert found.model.impute(n_draws=5) is not None


def by_observation(found: Fit) -> None:
    table = dv.compare({"a": found.model, "b": found.model})
    assert len(table) == 2


def by_user(found: Fit) -> None:
    table = dv.compare({"a": found.model, "b": found.model}, by="user")
    assert len(table) == 2


def checks(found: Fit) -> None:
    assert len(list(found.model.check(refit=False)))


def saved(found: Fit, folder: Path) -> None:
    found.model.posterior_.save(folder / "run.nc")
    again = dv.DualViewMixture.from_posterior(dv.load(folder / "run.nc"))
    np.testing.assert_array_equal(again.labels_, found.model.labels_)


def tree(found: Fit) -> None:
    assert "posterior" in found.model.posterior_.to_arviz().children


def profiles(found: Fit) -> None:
    recipe, model = found.recipe, found.model
    table = model.profiles()
    _finite(table.drop(columns=["cluster", "column", "level", "quantity"]))
    assert set(table["cluster"]) == set(model.labels_)
    quantities = set(table["quantity"])
    assert ("latent" in quantities) == recipe.has_behavior
    assert bool(quantities - {"latent"}) == recipe.has_features
    contrasts = model.profiles("everybody", against="everybody")
    assert (contrasts["mean"] == 0).all()


def queries(found: Fit) -> None:
    model = found.model
    made = model.sample(3)
    _finite(model.log_density(made))
    column = next(iter(made))
    law = model.predict_cells(column, given=made.drop(columns=column)[:1], n_draws=20)
    _finite(law.probabilities if hasattr(law, "probabilities") else law.median)


def surprises(found: Fit) -> None:
    assert len(found.model.surprising_cells(2)) == 2


QUESTIONS: dict[str, Callable[..., None]] = {
    "new users": new_users,
    "new users' behavior": new_latent,
    "outcomes": known_outcomes,
    "new users' outcomes": new_outcomes,
    "imputation": imputation,
    "queries": queries,
    "surprising cells": surprises,
    "leave out observations": by_observation,
    "leave out users": by_user,
    "check": checks,
    "profiles": profiles,
    "files": saved,
    "ArviZ": tree,
}


class Refusal(NamedTuple):
    """Any of some with any of others is refused. why: a sentence for the table. says: what the
    library's error or warning contains; None where the pair contradicts itself, so that there is
    nothing to fit."""

    some: tuple[str, ...]
    others: tuple[str, ...]
    why: str
    says: str | None = None

    def holds(self, first: str, second: str) -> bool:
        return (first in self.some and second in self.others) or (
            second in self.some and first in self.others
        )


def _one_of(names: tuple[str, ...], why: str) -> list[Refusal]:
    return [Refusal((first,), (second,), why) for first, second in combinations(names, 2)]


_NOISES = ("noise by user", "noise by cluster", "Student noise")
_AGREEMENTS = ("agreement", "agreement by table")
_TABLES = tuple(name for name in COLUMNS if name != "no features")
_OUTCOMES = tuple(name for name in OUTCOMES if name != "no behavior")

NO_MEANING: list[Refusal] = [
    *_one_of(
        ("fixed number", "one cluster", "Pitman-Yor", "learned discount", "finite mixtures"),
        "A fit has one prior of its partition.",
    ),
    *_one_of(_NOISES, "A regression has one noise."),
    *_one_of(
        ("variational", "variational start"), "The start is that of the sampler, the other engine."
    ),
    Refusal(("no features",), _TABLES, "Without features there are no columns."),
    Refusal(
        ("no features",),
        ("heavy tails",),
        "Without features there are no clusters of features: the fit warns and continues.",
        "is not used: there is no such view in this fit",
    ),
    Refusal(
        ("no features",),
        ("link", *_AGREEMENTS),
        "The link and agreement are about features and behavior, so that both must be there.",
        "this fit lacks features X",
    ),
    Refusal(
        ("no behavior",),
        ("link", *_AGREEMENTS),
        "The link and agreement are about features and behavior, so that both must be there.",
        "this fit lacks a behavior",
    ),
    Refusal(("no features",), ("no behavior",), "Nothing is left to fit.", "got neither"),
    Refusal(
        ("no behavior",), _OUTCOMES, "Without a behavior there are no outcomes, noise or effects."
    ),
    Refusal(
        ("no behavior",),
        ("pooling", "empirical scale"),
        "Without a behavior there is nothing to pool or to scale: the fit warns and continues.",
        "is not used: there is no such view in this fit",
    ),
    Refusal(
        ("one cluster",),
        _AGREEMENTS,
        "In one cluster nobody can look and act differently.",
        "agreement has no meaning with n_clusters=1",
    ),
    Refusal(
        ("no features",), ("new users",), "Without features nothing places users.", "cannot place"
    ),
    Refusal(
        ("no features",), ("imputation",), "Without features there are no cells.", "has no cells"
    ),
    Refusal(
        ("no features",),
        ("queries", "surprising cells"),
        "Without features there are no cells.",
        "no columns to ask about",
    ),
    Refusal(
        ("no behavior",),
        ("new users' behavior", "outcomes", "new users' outcomes"),
        "Without a behavior there is nothing to predict.",
        "fitted without a behavior",
    ),
    Refusal(
        ("no behavior",),
        ("leave out observations", "leave out users"),
        "Without a behavior there is nothing to predict.",
        "compare needs fits with a behavior",
    ),
    Refusal(
        ("shards",), ("imputation",), "Shards have no missing cells: there is nothing to fill in."
    ),
]
_BY_VARIATIONAL = (
    "The variational engine has closed forms for one behavior with rows that are normal, yes or "
    "no, or choices, and expectations by quadrature for counts and times. Other likelihoods, links "
    "and labels of their own need bounds that nobody has derived and checked here."
)
_TAILS = (
    "The variational engine has no factor for the users' weights, and its cells that are not exact "
    "have normal moments: with weights these would have to be derived again."
)
_IN_SHARDS = (
    "Shards hold numbers and threads, and their engine makes passes over sums of these. Other "
    "tables need a file format and sums of their own; they can be fitted in memory."
)
_BY_CLUSTER = (
    "What a cluster shares, a latent vector or a noise, is written for one behavior: its moves and "
    "what new users' observations say would have to be derived for several."
)
_INTERVALS = (
    "Outcomes that are known to intervals are written for normal noise that all or a cluster "
    "share; noise of single users or rows would have to be derived and tested with them."
)
_BY_TABLE = (
    "Where each table has labels of its own, users who share a thread, or leave, move several "
    "labels at once; the sum over all of these is not written."
)
_IN_MEMORY = (
    "numbers",
    "rounded numbers",
    "yes or no",
    "ordered levels",
    "levels without an order",
    "times",
    "log-logistic times",
    "rates",
    "Poisson rates",
    "trials",
    "choices",
    "rankings",
    *_NOISES,
)
_NOT_APPROXIMATED = ("variational", "variational start")
NOT_WRITTEN: list[Refusal] = [
    Refusal(
        (
            "link",
            *_AGREEMENTS,
            "ordered levels",
            "levels without an order",
            "rankings",
            *_NOISES,
            "groups",
            "several behaviors",
        ),
        _NOT_APPROXIMATED,
        _BY_VARIATIONAL,
        "The variational approximation does not do",
    ),
    Refusal(
        ("pooling",),
        ("variational",),
        _BY_VARIATIONAL,
        "The variational approximation does not do",
    ),
    Refusal(
        ("heavy tails",),
        ("variational",),
        _TAILS,
        "The variational approximation does not do clusters with heavy tails",
    ),
    Refusal(("heavy tails",), ("shards",), _TAILS, "do not have clusters with heavy tails"),
    *(
        Refusal(("shards",), others, _IN_SHARDS, says)
        for others, says in (
            (("variational start",), 'Shards are for engine="variational"'),
            (("categories",), "users must hold numbers only"),
            (("censored columns", "missing cells"), "users must be finite"),
            (
                ("several tables", "agreement by table", "several behaviors"),
                "Shards hold one table of users and one behavior",
            ),
            (("no features",), "users must be a table with rows and columns"),
            (("link", "agreement", "pooling"), "Fits to shards do not have"),
            (("empirical scale",), 'behavior_prior="likelihood" is not for shards'),
            (_IN_MEMORY, "threads must be a SharedOutcome"),
            (("common", "groups"), "Shards hold participation and outcomes"),
            (
                ("leave out observations", "leave out users", "check"),
                "The observations of the fit are needed here",
            ),
            (("surprising cells",), "The cells of the fit are needed here"),
        )
    ),
    Refusal(("pooling",), ("several behaviors",), _BY_CLUSTER, "is for a fit of one behavior"),
    Refusal(
        ("noise by cluster",),
        (
            "threads",
            "yes or no",
            "ordered levels",
            "levels without an order",
            "times",
            "log-logistic times",
            "rates",
            "Poisson rates",
            "trials",
            "choices",
            "rankings",
            "several behaviors",
        ),
        _BY_CLUSTER,
        'noise="cluster" is for a fit of one behavior',
    ),
    Refusal(
        ("rounded numbers",),
        ("noise by user", "Student noise"),
        _INTERVALS,
        "needs outcomes that are exact numbers",
    ),
    Refusal(
        ("agreement by table",),
        ("new users' outcomes",),
        _BY_TABLE,
        "Outcomes of several new users together cannot be predicted",
    ),
    Refusal(
        ("agreement by table",),
        ("surprising cells",),
        _BY_TABLE,
        "Cells cannot be left out one at a time where several tables",
    ),
    Refusal(
        ("agreement by table",),
        ("leave out users",),
        _BY_TABLE,
        "Users cannot be left out one at a time where several tables",
    ),
]


def refusal(first: str, second: str) -> Refusal | None:
    """Why two do not go together; None where they do."""
    return next((each for each in NO_MEANING + NOT_WRITTEN if each.holds(first, second)), None)


_PYTHON = "Python only"
COMMAND_LINE: dict[str, str] = {
    **dict.fromkeys(
        ("counts", "ratings", "categories", "rounded columns", "censored columns"), "--columns"
    ),
    "missing cells": "empty cells",
    "several tables": _PYTHON,
    "no features": "a table of ids alone",
    "fixed number": "--clusters",
    "one cluster": "--clusters",
    "Pitman-Yor": "--partition",
    "learned discount": "--partition",
    "finite mixtures": "--partition",
    "link": "--link",
    "agreement": "--agreement",
    "agreement by table": _PYTHON,
    "pooling": "--pooling",
    "empirical scale": "--behavior-prior",
    "heavy tails": "--feature-prior",
    "threads": "--threads",
    "numbers": "--kind",
    "rounded numbers": "--outcome-kind",
    **dict.fromkeys(
        (
            "yes or no",
            "ordered levels",
            "levels without an order",
            "times",
            "rates",
            "choices",
            "rankings",
        ),
        "--kind",
    ),
    "log-logistic times": "--family",
    "Poisson rates": "--family",
    "trials": "--trials",
    "several behaviors": _PYTHON,
    **dict.fromkeys(_NOISES, _PYTHON),
    "common": "--common",
    "groups": "--groups",
    "no behavior": "no second table",
    "variational": "--engine",
    "variational start": _PYTHON,
    "shards": "written by `dualview shard`; fitted in Python",
    "checkpoint": "--out",
    "summary": "--keep",
}


def table() -> str:
    """The table in Markdown, with its footnotes."""
    notes = list(dict.fromkeys(each.why for each in NO_MEANING + NOT_WRITTEN))
    seconds = [*OPTIONS, *QUESTIONS]

    def cell(first: str, second: str) -> str:
        refused = None if first == second else refusal(first, second)
        if first == second:
            return ""
        return "✓" if refused is None else str(1 + notes.index(refused.why))

    letters = [f"{_letter(j)}" for j in range(len(seconds))]
    lines = ["| | | " + " | ".join(letters) + " |", "|---" * (2 + len(seconds)) + "|"]
    for letter, first in zip(letters, OPTIONS, strict=False):
        cells = " | ".join(cell(first, second) for second in seconds)
        lines.append(f"| {letter} | {first} | {cells} |")
    lines += ["", "On the command line, `dualview fit`:", "", "| option | said by |", "|---|---|"]
    said_by = {name: f"`{how}`" if how[0] == "-" else how for name, how in COMMAND_LINE.items()}
    lines += [f"| {name} | {said_by[name]} |" for name in OPTIONS]
    asked = zip(letters[len(OPTIONS) :], QUESTIONS, strict=True)
    lines += ["", "Questions: " + ", ".join(f"{one} {name}" for one, name in asked) + "."]
    unwritten = {each.why for each in NOT_WRITTEN}
    for title, is_unwritten in (("No meaning", False), ("Not written", True)):
        lines += ["", f"**{title}**", ""]
        for number, why in enumerate(notes, 1):
            if (why in unwritten) == is_unwritten:
                lines.append(f"- ({number}) {why}")
    return "\n".join(lines)


def _letter(j: int) -> str:
    first, second = divmod(j, 26)
    return (chr(ord("A") + first - 1) if first else "") + chr(ord("A") + second)


def pairs() -> Iterator[tuple[str, str]]:
    """All pairs of options, and of an option and a question."""
    yield from combinations(OPTIONS, 2)
    yield from ((option, question) for option in OPTIONS for question in QUESTIONS)


def fitted(names: tuple[str, ...], folder: Path, length: dict[str, Any] = TINY) -> Fit:
    """A fit with some options; whatever is wrong is raised."""
    recipe = Recipe()
    for name in names:
        OPTIONS[name](recipe)
    found = fit(recipe, folder, length)
    _finite(found.model.labels_)
    if recipe.has_behavior:
        _finite(found.model.latent_)
    return found


def said(do: Callable[[], Any]) -> tuple[Any, str]:
    """What it returns, and what the library said: its error, or warnings of what has no effect."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = do()
        except Exception as error:
            return None, f"{type(error).__name__}: {error}"
    heard = [str(warning.message) for warning in caught]
    return found, "; ".join(text for text in heard if "is not used" in text)


def fault(first: str, second: str, heard: str) -> str:
    """What is not as the table says; empty where all is."""
    refused = refusal(first, second)
    if refused is None:
        return heard
    if refused.says is None or (refused.says in heard):
        return ""
    return f"{heard or 'it works'}; the table has: {refused.says}"


def outcomes_of(
    first: str, seconds: list[str], folder: Path, is_known: Callable[[str, str], bool]
) -> Iterator[tuple[str, str]]:
    """What the library said to an option with each of some options or questions, by the name of
    the second; a fit answers all questions."""
    one: Fit | None = None
    for number, second in enumerate(seconds):
        if is_known(first, second):
            continue
        place = folder / f"{first} {number}"
        place.mkdir()
        if second in OPTIONS:
            yield second, said(partial(fitted, (first, second), place))[1]
            continue
        if one is None:
            one, heard = said(partial(fitted, (first,), place, ENOUGH))
        if one is None:
            yield second, heard
            continue
        ask = QUESTIONS[second]
        given = (one, place) if ask is saved else (one,)
        yield second, said(partial(ask, *given))[1]


def contradicts(first: str, second: str) -> bool:
    """Whether a pair contradicts itself, so that there is nothing to fit."""
    refused = refusal(first, second)
    return refused is not None and refused.says is None


def tried(share: tuple[int, int] = (0, 1), wanted: str | None = None) -> Iterator[str]:
    """Try all pairs, or those of a share of the options, or those with one: a line for each that
    is not as the table says, and the number of the others."""
    candidates._BASE_DRAWS, left_out_users._NODES = N_FRESH, NODES
    predictions._FEW_FRESH = 1
    n_right, firsts = 0, list(OPTIONS)[share[0] :: share[1]]
    for first in firsts:
        seconds = [second for one, second in pairs() if one == first]
        if wanted is not None and wanted != first:
            seconds = [second for second in seconds if second == wanted]
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            for second, heard in outcomes_of(first, seconds, Path(folder), contradicts):
                wrong = fault(first, second, heard)
                taken, start = time.perf_counter() - start, time.perf_counter()
                n_right += not wrong
                if os.environ.get("COMBINATIONS_TELL"):
                    print(f"{taken:6.1f} {first} × {second}: {heard or 'works'}", flush=True)
                if wrong:
                    yield f"{first} × {second}: {wrong}"
    yield f"{n_right} as the table says"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("option", nargs="?")
    parser.add_argument("--share", default="0/1")
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    if asked.write is None:
        part, of = map(int, asked.share.split("/"))
        for line in tried((part, of), asked.option):
            print(line, flush=True)
    else:
        page = asked.write.read_text(encoding="utf-8")
        asked.write.write_text(pasted(page, "combinations", table()), encoding="utf-8")
