"""Options by options: which pairs of abilities work together, by tiny fits.

``python tests/combinations.py`` fits every pair of options, and every option with every question
that a fit is asked afterwards, and prints what came of it: that it works, or the sentence by which
it is refused. ``python tests/combinations.py link`` does so for the pairs with a link alone.

An option changes a :class:`Recipe`; options of one kind add up: two kinds of columns are a table
with both, two kinds of outcomes are two behaviors of the same users.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dualview as dv

N_USERS = 14
N_PER_USER = 4
N_NEW = 3
QUICK: dict[str, Any] = {"n_draws": 8, "n_chains": 2, "n_jobs": 1}
GIBBS = dv.Gibbs(n_warmup=6)


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
        wanted = ["numbers"] if self.noise != "shared" else []
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


COLUMNS: dict[str, Callable[[Recipe], None]] = {
    "counts": column("counts"),
    "ratings": column("ratings"),
    "categories": column("categories"),
    "censored numbers": column("censored"),
    "missing cells": attribute("missing", True),
    "several tables": attribute("several_tables", True),
    "no features": attribute("has_features", False),
}
MODELS: dict[str, Callable[[Recipe], None]] = {
    "fixed number": parameter(n_clusters=3),
    "one cluster": parameter(n_clusters=1),
    "Pitman-Yor": parameter(n_clusters=dv.PitmanYor(0.3)),
    "link": parameter(link="linear"),
    "agreement": parameter(agreement="learned"),
    "pooling": parameter(pooling="cluster"),
    "empirical scale": parameter(behavior_prior="likelihood"),
}
OUTCOMES: dict[str, Callable[[Recipe], None]] = {
    "threads": outcome("threads"),
    "numbers": outcome("numbers"),
    "rounded numbers": outcome("rounded"),
    "yes or no": outcome("binary"),
    "ordered levels": outcome("ordinal"),
    "choices": outcome("choices"),
    "rankings": outcome("rankings"),
    "noise by user": attribute("noise", "user"),
    "noise by cluster": attribute("noise", "cluster"),
    "Student noise": attribute("noise", "student"),
    "common": effect("common"),
    "groups": effect("groups"),
    "no behavior": attribute("has_behavior", False),
}
ENGINES: dict[str, Callable[[Recipe], None]] = {
    "variational": parameter(engine="variational"),
    "variational start": parameter(engine=dv.Gibbs(n_warmup=6, init="variational")),
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
            "town": np.where(rng.random(n) < 0.3 + 0.2 * level, "Aix", "Bonn"),
            "low": np.where(rng.random(n) < 0.5, 1.0, -np.inf),
        }
        made["earned"] = np.where(np.isfinite(made["low"]), 1.0, level + rng.normal(size=n))
        made["earned_high"] = np.where(np.isfinite(made["low"]), np.inf, made["earned"])
        names = {
            "numbers": ["height", "weight"],
            "counts": ["posts"],
            "ratings": ["grade"],
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
        taken = (rng.random((n_threads, self.n)) < 0.3).astype(float)
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

    def _rankings(self, recipe: Recipe, outcomes: bool) -> Any:
        who = np.repeat(np.arange(self.n), 6)
        ranking = np.repeat(np.arange(2 * self.n), 3)
        x = np.tile([-1.0, 0.0, 1.0], 2 * self.n)
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
        return world, world.table(self.recipe)


def fit(recipe: Recipe, folder: Path) -> Fit:
    """The recipe, fitted."""
    world = World()
    parameters = QUICK | {"engine": GIBBS} | recipe.parameters
    if recipe.checkpoint:
        parameters["checkpoint"] = folder / "checkpoint"
    X, y = world.table(recipe), world.behavior(recipe)
    if recipe.shards:
        X, y = dv.write_shards(folder / "shards", X, y), None
        parameters["engine"] = "variational"
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
    _finite(found.model.predict_latent(X, behavior_new=given).quantile(0.5))


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


QUESTIONS: dict[str, Callable[..., None]] = {
    "new users": new_users,
    "new users' behavior": new_latent,
    "outcomes": known_outcomes,
    "new users' outcomes": new_outcomes,
    "imputation": imputation,
    "leave out observations": by_observation,
    "leave out users": by_user,
    "check": checks,
    "files": saved,
    "ArviZ": tree,
}


def pairs() -> Iterator[tuple[str, str]]:
    """All pairs of options, and of an option and a question."""
    yield from combinations(OPTIONS, 2)
    yield from ((option, question) for option in OPTIONS for question in QUESTIONS)


def run(first: str, second: str, folder: Path) -> None:
    """Fit a pair, and ask if its second is a question; whatever is wrong is raised."""
    recipe = Recipe()
    for name in (first, second):
        if name in OPTIONS:
            OPTIONS[name](recipe)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = fit(recipe, folder)
        _finite(found.model.labels_)
        if found.recipe.has_behavior:
            _finite(found.model.latent_)
        if second in QUESTIONS:
            ask = QUESTIONS[second]
            ask(found, folder) if ask is saved else ask(found)


if __name__ == "__main__":
    import sys
    import tempfile
    import time

    for first, second in pairs():
        if len(sys.argv) > 1 and sys.argv[1] not in (first, second):
            continue
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            try:
                run(first, second, Path(folder))
                said = "works"
            except Exception as error:
                said = f"{type(error).__name__}: {str(error)[:230]}"
        print(f"{time.perf_counter() - start:6.1f} {first} × {second}: {said}", flush=True)
