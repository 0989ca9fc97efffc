"""The whole tree for ArviZ: the draws with the data, their predictions, their likelihoods and their
priors.

Groups besides those of a posterior: sample_stats, observed_data, constant_data, expected,
posterior_predictive, log_likelihood, log_prior, prior and prior_predictive. ``outcome``
(observation) and ``features`` (user, feature) have these names in each, and so have ``codes``
(user, category), the levels of nominal columns. The ends of cells that are not exact are in
observed_data as ``low`` and ``high``. log_likelihood has one variable unless more are asked for, as
ArviZ's scores want it: the outcome's, or without a behavior the features'. left_out is made on
request only.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from dualview.behaviors.base import Behavior
from dualview.behaviors.records import Forecast
from dualview.behaviors.several import SeveralBehaviors, refuse_several
from dualview.chains.storage import Store
from dualview.checks import whole_number
from dualview.errors import DegenerateError, InputError
from dualview.model import Model, State
from dualview.posterior.draws.fit_facts import FitFacts
from dualview.posterior.draws.from_records import tree_of
from dualview.posterior.draws.log_priors import log_priors
from dualview.posterior.observations import fitted_model, observations_of
from dualview.posterior.prediction.left_out import left_out_densities
from dualview.posterior.prediction.user_features import features_of, rows_by_table
from dualview.views.features import FeatureBlock, feature_kinds

Array = NDArray[np.float64]
Variables = dict[str, tuple[tuple[str, ...], NDArray[Any]]]

CELLS = 20_000_000  # numbers of a group, draws × observations, up to which nothing is left out
_FEWEST_DRAWS = 100  # of a chain that large data leave
_FEWEST_OF_PRIOR = 20
_TRIES = 4  # draws from the prior for each that is wanted, at most
_OF_DRAWS = ("expected", "posterior_predictive", "log_likelihood", "log_prior")
_OF_PRIOR = ("prior", "prior_predictive")
_VARIABLES = {
    "outcome": ("outcome", "outcome_low", "outcome_high"),
    "features": ("features",),
}
_OF_DATA = (
    "observed_data",
    "expected",
    "posterior_predictive",
    "log_likelihood",
    "prior_predictive",
)
GROUPS = ("observed_data", "constant_data", *_OF_DRAWS, *_OF_PRIOR)
LEFT_OUT = "left_out"  # a group that is made on request only


def _are_names(given: Any, known: Iterable[str]) -> bool:
    """Whether these are some names in a list, or None for all."""
    if given is None:
        return True
    return isinstance(given, list | tuple | set | dict) and all(
        isinstance(name, str) and name in known for name in given
    )


@dataclass(frozen=True)
class Asked:
    """What is asked of a tree.

    groups: names, all of ``GROUPS`` by default, or ``LEFT_OUT``. variables: of "outcome" and
    "features", those that the groups of data, replicates and likelihoods have; all by default, but
    of likelihoods the first there is. n_draws (of each chain), n_observations: as many as are kept;
    by default all, or as many as make ``CELLS`` numbers. n_prior: draws from the prior.
    """

    groups: Sequence[str] | None = None
    variables: Sequence[str] | None = None
    n_draws: int | None = None
    n_observations: int | None = None
    n_prior: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        possible = (*GROUPS, LEFT_OUT)
        if not _are_names(self.groups, possible):
            raise InputError(
                f"groups must be a list of names among {', '.join(possible)}; got {self.groups!r}."
            )
        if not _are_names(self.variables, _VARIABLES):
            raise InputError(
                f"variables must be a list of names among {', '.join(_VARIABLES)}; got "
                f"{self.variables!r}."
            )
        for name in ("n_draws", "n_observations"):
            if getattr(self, name) is not None:
                whole_number(getattr(self, name), name, 1)
        whole_number(self.n_prior, "n_prior", 1)
        whole_number(self.seed, "seed", 0)


def whole_tree(post: FitFacts, asked: Asked, behavior: Behavior | None) -> xr.DataTree:
    """A posterior's tree with the groups that are asked for.

    Without names, a posterior that was read from a file and holds no observations gets the groups
    that can do without.
    """
    known = (
        asked.groups is not None
        or behavior is not None
        or "behavior" not in post.spec.units
        or post.observations is not None
    )
    if asked.groups is not None or behavior is not None:
        refuse_several(post.observations or post.behavior, "A group of outcomes")
    if not known or isinstance(post.observations, SeveralBehaviors):
        return _as_kept(post.tree)
    return _Maker(post, asked, observations_of(post, behavior)).tree()


def saved_tree(post: FitFacts) -> xr.DataTree:
    """All draws, with all groups beside them, as a file holds them: the features of all users,
    which predictions need."""
    refuse_several(post.observations, "save(whole=True)")
    made, tree = _Maker(post, Asked(), observations_of(post, None)).tree(), post.tree.copy()
    for name in GROUPS:
        if name in made.children:
            tree[name] = made[name]
    if post.has_features:
        of_users = _observed_features(post, np.arange(post.n_users))
        others = (
            tree["observed_data"]
            .to_dataset()
            .drop_dims(["user", *(block.dim for block in post.blocks)], errors="ignore")
        )
        coords = {
            dim: post.tree["posterior"].coords[dim]
            for dim in ("user", "feature")
            if dim in post.tree["posterior"].coords
        }
        tree["observed_data"] = xr.DataTree(others.merge(xr.Dataset(of_users, coords=coords)))
    return tree


def _as_kept(kept: xr.DataTree) -> xr.DataTree:
    """A tree as a file holds it; where groups were made of some draws or users only, with these."""
    tree = kept.copy()
    draws = [tree[name].coords["draw"].values for name in _OF_DRAWS if name in tree.children]
    if draws and len(draws[0]) < tree["posterior"].sizes["draw"]:
        _keep_draws(tree, draws[0])
    users = [
        tree[name].coords["user"].values
        for name in _OF_DATA[1:]
        if name in tree.children and "user" in tree[name].dims
    ]
    if users and "observed_data" in tree.children:
        tree["observed_data"] = xr.DataTree(tree["observed_data"].to_dataset().sel(user=users[0]))
    tree["sample_stats"] = xr.DataTree(_sample_stats(tree["posterior"].to_dataset()))
    return tree


def _keep_draws(tree: xr.DataTree, draws: NDArray[np.intp]) -> None:
    """In place: the posterior of some draws; without the groups from which all draws predict."""
    for name in ("components", "working"):
        del tree[name]
    tree["posterior"] = xr.DataTree(tree["posterior"].to_dataset().isel(draw=draws))


def _sample_stats(draws: xr.Dataset) -> xr.Dataset:
    """The log joint density of each draw, by ArviZ's name for it."""
    return xr.Dataset({"lp": draws["log_joint"]})


class _Maker:
    """Makes the groups of one tree, all with the same draws, observations and users."""

    def __init__(self, post: FitFacts, asked: Asked, behavior: Behavior | None) -> None:
        self._post, self._asked, self._whole_behavior = post, asked, behavior
        self._rng = np.random.default_rng(asked.seed)
        n_observations = 0 if behavior is None else len(behavior.observed)
        largest = max(n_observations, post.n_users * _n_columns(post))
        fitting = max(min(_FEWEST_DRAWS, post.n_draws), CELLS // max(post.n_chains * largest, 1))
        n_draws = min(asked.n_draws or fitting, post.n_draws)
        self._draws = np.linspace(0, post.n_draws - 1, n_draws).round().astype(np.intp)
        room = CELLS // (post.n_chains * n_draws)
        self._observations = self._some(n_observations, asked.n_observations or room)
        if behavior is not None and len(self._observations) < n_observations:
            self._observations = behavior.whole(self._observations)
        self._users = self._some(post.n_users, max(1, room // max(_n_columns(post), 1)))
        self._behavior = behavior
        if behavior is not None and len(self._observations) < n_observations:
            self._behavior = behavior.take(self._observations)

    def _some(self, n: int, most: int) -> NDArray[np.intp]:
        """All of n positions, or as many as there is room for, at random, in order."""
        return np.arange(n) if n <= most else np.sort(self._rng.choice(n, most, replace=False))

    @cached_property
    def _model(self) -> Model:
        return fitted_model(self._post, self._whole_behavior)

    @cached_property
    def _flat_draws(self) -> NDArray[np.intp]:
        """The kept draws among those of all chains in a row."""
        return (np.arange(self._post.n_chains)[:, None] * self._post.n_draws + self._draws).ravel()

    def tree(self) -> xr.DataTree:
        tree = self._post.tree.copy()
        if len(self._draws) < self._post.n_draws:
            _keep_draws(tree, self._draws)
        tree["sample_stats"] = xr.DataTree(_sample_stats(tree["posterior"].to_dataset()))
        if "observed_data" in tree.children:
            del tree["observed_data"]
        makers: dict[str, Callable[[], xr.Dataset]] = {
            "observed_data": self._observed,
            "constant_data": self._constant,
            "expected": self._expected,
            "posterior_predictive": self._predictive,
            "log_likelihood": self._log_likelihood,
            LEFT_OUT: self._left_out,
            "log_prior": self._log_prior,
            "prior": lambda: self._prior.draws,
            "prior_predictive": self._prior_predictive,
        }
        wanted = GROUPS if self._asked.groups is None else self._asked.groups
        for name in makers:
            if name in wanted:
                made = makers[name]()
                if name in _OF_DATA and self._asked.variables is not None:
                    others = [
                        name
                        for part in _VARIABLES
                        if part not in self._asked.variables
                        for name in _VARIABLES[part]
                    ]
                    if "features" not in self._asked.variables:
                        for kind in feature_kinds():
                            others += kind.arrays
                    made = made.drop_vars(others, errors="ignore")
                if made.data_vars:
                    tree[name] = xr.DataTree(made)
        return tree

    @property
    def _coords(self) -> dict[str, Any]:
        """Ids of observations and users, names of features, latent functions and coefficients."""
        found: dict[str, Any] = {}
        if self._behavior is not None:
            ids = self._behavior.observation_ids
            found["observation"] = self._observations if ids is None else np.asarray(ids)
            found |= self._behavior.coords()
        draws = self._post.tree["posterior"].coords
        dims = {block.dim for block in self._post.blocks}
        return found | {dim: draws[dim].values for dim in dims if dim in draws}

    def _dataset(
        self,
        data: Mapping[str, tuple[tuple[str, ...], NDArray[Any]]],
        sampled: bool = True,
        others: dict[str, Any] | None = None,
    ) -> xr.Dataset:
        """Variables with the coordinates of their dimensions; where sampled, of the kept users.
        others: in place of these."""
        dims = {dim for names, _ in data.values() for dim in names}
        users = self._post.tree["posterior"].coords["user"].values
        coords = self._coords | {"user": users[self._users] if sampled else users}
        coords |= {"chain": np.arange(self._post.n_chains), "draw": self._draws} | (others or {})
        return xr.Dataset(
            data, coords={dim: values for dim, values in coords.items() if dim in dims}
        )

    def _observed(self) -> xr.Dataset:
        data: dict[str, Any] = {}
        if self._behavior is not None:
            observed = self._behavior.observed
            if observed.ndim == 1:
                data["outcome"] = (("observation",), observed)
            else:  # lower and upper ends
                data |= {
                    f"outcome_{end}": (("observation",), observed[:, i])
                    for i, end in enumerate(("low", "high"))
                }
        return self._dataset(data | _observed_features(self._post, self._users))

    def _constant(self) -> xr.Dataset:
        return self._dataset(
            {} if self._behavior is None else self._behavior.constant_data(), sampled=False
        )

    @cached_property
    def _forecast(self) -> Forecast | None:
        """The outcomes of the fit given each kept draw."""
        if self._behavior is None:
            return None
        rows, post = self._flat_draws, self._post
        params = {name: post.flat(name)[rows] for name in self._behavior.param_names}
        return self._behavior.forecast(self._behavior, post.flat("latent")[rows], params, 0)

    def _by_draw(self, values: Array) -> Array:
        return values.reshape(self._post.n_chains, len(self._draws), *values.shape[1:])

    def _expected(self) -> xr.Dataset:
        """Locations of the outcomes, for Bayesian R², and the standard deviation of the noise,
        where there is one."""
        if self._forecast is None:
            return xr.Dataset()
        everything = slice(0, self._forecast.n)
        dims: tuple[str, ...] = ("chain", "draw", "observation")
        each = self._forecast.outcome.n_locations
        locations = self._by_draw(self._forecast.known(everything))
        if each > 1:
            dims, locations = (*dims, "level"), locations.reshape(*locations.shape[:2], -1, each)
        data: dict[str, Any] = {"outcome": (dims, locations)}
        spread = self._forecast.outcome.spread(everything)
        if spread.shape == (len(self._flat_draws), 1):
            data["noise_sd"] = (("chain", "draw"), self._by_draw(spread[:, 0]))
        return self._dataset(data)

    def _predictive(self) -> xr.Dataset:
        """A replicate of the outcomes and of the features for each draw."""
        data: dict[str, Any] = {}
        if self._forecast is not None:
            everything = slice(0, self._forecast.n)
            drawn = self._forecast.outcome.draw(
                self._rng, self._forecast.known(everything), everything
            )
            data["outcome"] = (("chain", "draw", "observation"), self._by_draw(drawn))
        replicates = [
            self._by_draw(block.replicates(self._rng, self._rows[block.table]))
            for block in self._post.blocks
        ]
        return self._dataset(data | _by_variable(self._post.blocks, replicates))

    @cached_property
    def _rows(self) -> NDArray[np.int64]:
        """The clusters that kept users look like in the kept draws, as rows of the table of
        components, (T, S, U)."""
        return rows_by_table(self._post, self._flat_draws)[:, :, self._users]

    def _log_likelihood(self) -> xr.Dataset:
        """Of every outcome given the latent behavior, or of every user's features given the
        cluster; both if asked for."""
        data: dict[str, Any] = {}
        if self._forecast is not None and self._behavior is not None:
            everything = slice(0, self._forecast.n)
            values = self._forecast.outcome.log_density(
                self._behavior.observed, self._forecast.known(everything), everything
            )
            data["outcome"] = (
                ("chain", "draw", self._forecast.outcome.case),
                self._by_draw(values),
            )
            if self._asked.variables is None:
                return self._dataset(data)
        features = features_of(self._post)
        if features is not None:
            blocks = zip(self._post.blocks, features[self._users].cells, strict=True)
            total = sum(block.log_density(x, self._rows[block.table]) for block, x in blocks)
            data["features"] = (("chain", "draw", "user"), self._by_draw(np.asarray(total)))
        return self._dataset(data)

    def _left_out(self) -> xr.Dataset:
        """Log density of every outcome given all others and the clusters and parameters of a draw,
        vectors integrated out."""
        behavior = self._whole_behavior
        values = None if behavior is None else left_out_densities(self._post, behavior)
        if values is None or self._forecast is None:
            what = "a fit without a behavior" if behavior is None else type(behavior).__name__
            raise InputError(
                f"The group left_out needs outcomes given all others, which {what} cannot give. "
                "Leave it out."
            )
        kept = values[:, self._draws][:, :, self._observations]
        return self._dataset({"outcome": (("chain", "draw", self._forecast.outcome.case), kept)})

    def _log_prior(self) -> xr.Dataset:
        values = log_priors(self._post, self._model)
        kept = {
            name: (("chain", "draw"), self._by_draw(part[self._flat_draws]))
            for name, part in values.items()
        }
        return self._dataset(kept)

    @cached_property
    def _prior(self) -> "_PriorDraws":
        n_features = max(1, _n_columns(self._post))
        room = CELLS // max(self._post.n_users * n_features, len(self._observations))
        return _PriorDraws(
            self._rng,
            self._model,
            self._post,
            min(self._asked.n_prior, max(room, _FEWEST_OF_PRIOR)),
        )

    def _prior_predictive(self) -> xr.Dataset:
        """A replicate of the outcomes and of the features for each draw from the prior."""
        drawn = self._prior
        data: dict[str, Any] = {}
        if self._behavior is not None:
            params = {name: drawn.flat(name) for name in self._behavior.param_names}
            forecast = self._behavior.forecast(self._behavior, drawn.flat("latent"), params, 0)
            everything = slice(0, forecast.n)
            with np.errstate(over="ignore"):  # heavy tails
                values = forecast.outcome.draw(self._rng, forecast.known(everything), everything)
            data["outcome"] = (("chain", "draw", "observation"), values[None])
        blocks = self._post.blocks
        features = [own[None][:, :, self._users] for own in drawn.features(self._rng)]
        data |= _by_variable(blocks, features)
        made = self._dataset(data, others={"chain": [0], "draw": np.arange(len(drawn.states))})
        return made.assign_attrs(drawn.draws.attrs)


class _PriorDraws:
    """Draws from the prior as the posterior has them: one chain, the same names and units.

    The priors have heavy tails. A draw that leaves the range of numbers is left out and another
    made; ``n_left_out``, an attribute of the draws, says how many.
    """

    def __init__(self, rng: np.random.Generator, model: Model, post: FitFacts, n: int) -> None:
        self._model, self._post = model, post
        self.states: list[State] = []
        n_tried = 0
        while len(self.states) < n:
            if n_tried == _TRIES * n + 10:
                raise DegenerateError(
                    f"Only {len(self.states)} of {n_tried} draws from the prior were finite."
                )
            n_tried += 1
            state = finite_draw(rng, model)
            if state is not None:
                self.states.append(state)
        self._n_left_out = n_tried - n

    @cached_property
    def draws(self) -> xr.Dataset:
        store = Store(self._model)
        for state in self.states:
            store.append(state)
        coords = {
            str(name): part.values for name, part in self._post.tree["posterior"].coords.items()
        }
        made = tree_of([store.drain()], self._post.spec, self._model.likelihood, coords)
        return made["posterior"].to_dataset().assign_attrs(n_left_out=self._n_left_out)

    def flat(self, name: str) -> NDArray[Any]:
        return np.asarray(self.draws[name].values[0])

    def features(self, rng: np.random.Generator) -> list[NDArray[Any]]:
        """Features of all users given each draw, as they would be recorded, (S, U, columns) of
        every block."""
        drawn = {
            name: np.array(
                [
                    self._model.views[name].simulate(rng, state.views[name], state.labels.of(name))
                    for state in self.states
                ]
            )
            for name in self._model.observed
        }
        return [block.recorded(drawn[block.view]) for block in self._post.blocks]


def _n_columns(post: FitFacts) -> int:
    """Of all kinds."""
    return sum(len(block.columns) for block in post.blocks)


def _observed_features(post: FitFacts, users: NDArray[np.intp]) -> Variables:
    """What is known of some users: NaN stands for a missing number, −1 for a missing level. The
    ends of intervals besides."""
    kept = post.tree.children.get("observed_data")
    found: Variables = {}
    if kept is not None:
        for name, values in post.data.items():
            found[name] = tuple(map(str, kept[name].dims)), values[users]
    features = features_of(post)
    if features is not None:
        cells = zip(post.blocks, features[users].cells, strict=True)
        found |= _by_variable(post.blocks, [block.known(own) for block, own in cells], ("user",))
    return found


def _by_variable(
    blocks: Sequence[FeatureBlock],
    values: Sequence[NDArray[Any]],
    dims: tuple[str, ...] = ("chain", "draw", "user"),
) -> Variables:
    """Values (…, columns) of the blocks, those of one kind side by side."""
    found: Variables = {}
    for block, own in zip(blocks, values, strict=True):
        before = [found[block.variable][1]] if block.variable in found else []
        found[block.variable] = (*dims, block.dim), np.concatenate([*before, own], axis=-1)
    return found


def finite_draw(rng: np.random.Generator, model: Model) -> State | None:
    """A draw from the prior whose vectors are numbers that can be squared; None where it is not."""
    try:
        with np.errstate(all="ignore"):
            state = _with_cells(rng, model, model.draw_prior(rng))
            parts = [
                part for view in state.views.values() for part in view.component_parts.values()
            ]
            numbers = [*parts, np.empty(0) if state.latent is None else state.latent]
            density = model.log_joint(state)
    except (np.linalg.LinAlgError, ZeroDivisionError, OverflowError):
        return None
    return (
        state
        if np.isfinite(density) and all(np.abs(part).max(initial=0.0) < 1e100 for part in numbers)
        else None
    )


def _with_cells(rng: np.random.Generator, model: Model, state: State) -> State:
    """The state with cells that are not exact drawn given the rest of it, whatever their intervals
    are."""
    if model.features is None or model.intervals is None:
        return state
    features = model.views["features"].simulate(
        rng, state.views["features"], state.labels.of("features")
    )
    return replace(model, features=features).restarted(state)
