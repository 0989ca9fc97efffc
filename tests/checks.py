"""What correct means: the joint test of a sampler, mutants of compiled functions, tolerances from
the run's own error.

The joint test follows Geweke (2004) with one change that removes the guesswork about
autocorrelation: many independent chains each start from a draw of the prior and its data, and
alternate a sampler's step with a redraw of the data. If the step is right every state of every
chain is a draw from the joint prior, so the chain averages of a statistic are independent numbers
whose expectation is the prior's. Their spread gives the standard error.

The priors now and then reach matrices that are singular in rounding: components whose variances
differ by a factor of 1e32. A chain that meets one ends in an error and is begun anew; up to 2 % of
the chains may.
"""

import copy
import inspect
import itertools
import math
import types
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher
from numpy.typing import NDArray

from dualview.behaviors.likelihoods import threads as thread_regression
from dualview.behaviors.likelihoods.several import SeveralLikelihoods, own_params
from dualview.engines.gibbs import GibbsEngine, blocks, engine, steps
from dualview.engines.gibbs.moves import assignment
from dualview.engines.gibbs.working import WorkingState
from dualview.errors import DegenerateError
from dualview.model import Model, State
from dualview.numerics import dispatch, kinds
from dualview.numerics.compiling import compiled, uncached
from dualview.numerics.linalg import cholesky
from dualview.numerics.messages import Terms
from dualview.views import GaussianState, SharedVectorState
from dualview.views.blocked import BlockedState
from dualview.views.gaussian import density as densities
from rows import residual as residual_of

ACCEPT = 4.5
REJECT = 6.0
_FIRST = 5  # the first run of a mutant is smaller by this


class LostChainsError(AssertionError):
    """More chains left the range of numbers than rounding explains."""


def mutate(kernel: Any, /, *how: Any, **pieces: Any) -> Any:
    """The compiled function with a piece of its source replaced by another, or with changes of
    functions that it uses, however deep; and some of the global names it uses standing for
    something else. Not cached on disk."""
    if how and not isinstance(how[0], str):
        substitute = _Substitution(how)
        result = substitute(kernel)
        substitute.check()
        return result
    old, new = how or ("", "")
    function = kernel.py_func
    name, scope = function.__name__, {**function.__globals__, **pieces}
    missing = set(pieces) - set(function.__code__.co_names)
    assert not missing, f"{name} does not use {missing}"
    if not old:
        parts = function.__code__, scope, name, function.__defaults__, function.__closure__
        return uncached(types.FunctionType(*parts))
    source = inspect.getsource(function)
    assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times in {name}"
    exec(source[source.index("def ") :].replace(old, new), scope)
    return uncached(scope[name])


Change = tuple[Any, Any]


def changed(kernel: Any, *replaced: str, **pieces: Any) -> Change:
    """A compiled function, and what ``mutate`` makes of it, which is to stand for it."""
    return kernel, mutate(kernel, *replaced, **pieces)


def by_blocks(monkeypatch: pytest.MonkeyPatch, *changes: Change, n_users: int = 2) -> None:
    """Run a step move by move, with n_users users at a time, as is done with very many, and go
    through their threads. Changes: functions that stand for others in all moves, however deep.

    Every function on the way is compiled anew and not cached. Compiled code outside such a step has
    the functions that it had.
    """
    monkeypatch.setattr(assignment, "BLOCK", n_users)
    monkeypatch.setattr(thread_regression, "_MOST_WITH_GRAM", 0)
    substitute = _Substitution(changes)
    moves = tuple(move if move in engine._BY_BLOCKS else substitute(move) for move in steps.MOVES)
    monkeypatch.setattr(steps, "MOVES", moves)
    for name, value in substitute.replacements(vars(blocks)).items():
        monkeypatch.setattr(blocks, name, value)
    substitute.check()


class _Substitution:
    """What a compiled function, a verb or a module of these becomes when some functions stand for
    others."""

    _versions = itertools.count()

    def __init__(self, changes: tuple[Change, ...]) -> None:
        self._wanted = {id(old): new for old, new in changes}
        self._names = {id(old): old.__name__ for old, _ in changes}
        self._kept: dict[
            int, tuple[Any, Any]
        ] = {}  # with what they were made of, so that no id is used twice

    def check(self) -> None:
        """Every function that is to be replaced must have been met."""
        unused = [name for key, name in self._names.items() if key not in self._kept]
        assert not unused, f"no move uses {unused}"

    def __call__(self, thing: Any) -> Any:
        if id(thing) not in self._kept:
            self._kept[id(thing)] = thing, thing
            self._kept[id(thing)] = (
                thing,
                self._wanted[id(thing)] if id(thing) in self._wanted else self._made(thing),
            )
        return self._kept[id(thing)][1]

    def _made(self, thing: Any) -> Any:
        if isinstance(thing, types.ModuleType):
            return self._module(thing) if thing.__name__.startswith("dualview.") else thing
        if isinstance(thing, Dispatcher):
            new = self._used(thing.py_func)
            return mutate(thing, **new) if new else thing
        if (
            isinstance(thing, types.FunctionType)
            and thing.__module__ == dispatch.__name__
            and thing.__closure__
        ):
            return self._verb(thing)
        return thing

    def _module(self, module: types.ModuleType) -> types.ModuleType:
        """A module, or one like it some of whose names stand for something else."""
        parts = self.replacements(vars(module))
        if not parts:
            return module
        twin = types.ModuleType(module.__name__)
        vars(twin).update({**vars(module), **parts})
        return twin

    def _used(self, function: Any) -> dict[str, Any]:
        """What changes among the globals of a function; of a module it uses only what it names."""
        names = function.__code__.co_names
        before = {
            name: function.__globals__[name] for name in names if name in function.__globals__
        }
        return {
            name: new
            for name, new in self.replacements(before).items()
            if not isinstance(new, types.ModuleType)
            or any(vars(new).get(part) is not vars(before[name]).get(part) for part in names)
        }

    def replacements(self, names: Mapping[str, Any]) -> dict[str, Any]:
        """What changes among some names."""
        return {
            name: new for name, value in list(names.items()) if (new := self(value)) is not value
        }

    def _verb(self, call: Any) -> Any:
        """A verb, or what ``each``, ``total``, ``in_turn`` and others like them, and ``selected``
        have made."""
        maker, parts = call.__qualname__.split(".")[0], inspect.getclosurevars(call).nonlocals
        if maker == "selected":
            choose = parts["choose"]
            new = self._used(choose)
            return dispatch.selected(lambda kinds: self(choose(kinds))) if new else call
        if maker != "verb":
            over = parts["over"]
            one = self(over.one)
            if one is over.one:
                return call
            changed_over = copy.copy(over)
            changed_over.one = one
            return getattr(dispatch, maker)(changed_over)
        name = call.__name__
        functions = {kind: known[name] for kind, known in kinds.KINDS.items() if name in known}
        if all(self(function) is function for function in (*functions.values(), call.default)):
            return call

        def stub() -> None: ...

        stub.__name__ = f"{name}_{next(self._versions)}"
        stub.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(parameter, inspect.Parameter.POSITIONAL_OR_KEYWORD)
                for parameter in call.parameters
            ]
        )
        for kind, function in functions.items():
            kinds.register(kind, **{stub.__name__: self(function)})
        return dispatch.verb(stub, self(call.default))


def misfit(factor: NDArray[np.float64], base_covariance: NDArray[np.float64]) -> float:
    """ln|S W_0| − tr(S W_0) + D, by the kernel."""
    n = len(factor)
    return float(
        densities.misfit(
            factor, base_covariance, cholesky(base_covariance), np.empty((n, n)), np.empty(n)
        )
    )


def _blocks(
    model: Model, state: State
) -> list[tuple[str, Any, NDArray[np.float64], NDArray[np.int64]]]:
    """Name, state, vectors and labels of every view, and of every block of one that has several."""
    found: list[Any] = []
    for name, vectors in model.vectors(state).items():
        own, labels = state.views[name], state.labels.of(name)
        if not isinstance(own, BlockedState):
            found.append((name, own, vectors, labels))
            continue
        ends = np.cumsum([0, *(block.n_dims for block in own.view.parts)])
        for b, (part, table) in enumerate(zip(own.parts, own.view.tables, strict=True)):
            z = labels if labels.ndim == 1 else labels[table]
            found.append((f"{name}{b}", part, vectors[:, ends[b] : ends[b + 1]], z))
    return found


_OF_GAUSSIANS = (
    "base_mean",
    "base_mean_size",
    "base_precision",
    "base_precision_det",
    "base_covariance",
    "base_covariance_det",
    "means",
    "means_spread",
    "means_fit",
    "precisions_det",
    "precisions_fit",
    "vectors",
    "vectors_size",
    "fit",
    "fit_square",
)


def _gaussian_statistics(
    view: GaussianState, vectors: NDArray[np.float64], labels: NDArray[np.int64]
) -> list[tuple[str, float]]:
    """Statistics of one block by name; a warning as NumPy's where one is the logarithm of nothing
    positive."""
    parts = (*view.components, view.base.mean, view.base.precision, view.base.covariance, vectors)
    means, least = _summed(*map(np.ascontiguousarray, parts), labels)
    if least <= 0.0:
        warnings.warn("logarithm of a number that is not positive", RuntimeWarning, stacklevel=2)
    dof = float(np.log(view.base.dof - len(view.base.mean) + 1))
    return [("dof", dof), *zip(_OF_GAUSSIANS, means.tolist(), strict=True)]


@compiled
def _summed(means, factors, base_mean, base_precision, base_covariance, vectors, labels):
    """The statistics of ``_OF_GAUSSIANS`` in their order, and the least number of which a logarithm
    is taken."""
    (n_components, n), n_users, least = means.shape, len(vectors), np.inf
    root, product, column = cholesky(base_covariance), np.empty((n, n)), np.empty(n)
    found = np.zeros(15)
    found[3], found[5] = _log_determinant(base_precision), _log_determinant(base_covariance)
    for i in range(n):
        size, precision, variance = abs(base_mean[i]), base_precision[i, i], base_covariance[i, i]
        least = min(min(least, size), min(precision, variance))
        found[0] += math.atan(base_mean[i]) / n
        found[1] += math.log(size) / n
        found[2] += math.log(precision) / n
        found[4] += math.log(variance) / n
    for k in range(n_components):
        square, log_det = 0.0, 0.0
        for i in range(n):
            column[i] = means[k, i] - base_mean[i]
        for i in range(n):
            least = min(min(least, abs(column[i])), factors[k, i, i])
            found[6] += math.atan(means[k, i]) / (n_components * n)
            found[7] += math.log(abs(column[i])) / (n_components * n)
            log_det += 2.0 * math.log(factors[k, i, i])
            for j in range(n):
                square += column[i] * base_precision[i, j] * column[j]
        away = -densities.misfit(factors[k], base_covariance, root, product, column)
        least = min(least, min(square, away))
        found[8] += math.log(square) / n_components
        found[9] += log_det / n_components
        found[10] += math.log(away) / n_components
    for u in range(n_users):
        k = labels[u]
        for i in range(n):
            projection = 0.0
            for j in range(n):
                projection += factors[k, j, i] * (vectors[u, j] - means[k, j])
            least = min(least, abs(projection))
            found[11] += math.atan(vectors[u, i]) / (n_users * n)
            found[12] += math.atan(vectors[u, i] ** 2) / (n_users * n)
            found[13] += math.log(abs(projection)) / (n_users * n)
            found[14] += math.atan(projection**2) / (n_users * n)
    return found, least


@compiled
def _log_determinant(matrix):
    """ln|det|, by elimination with pivots, also of a matrix that rounding has made indefinite."""
    rest, n, total = matrix.copy(), len(matrix), 0.0
    for i in range(n):
        pivot = i
        for j in range(i + 1, n):
            if abs(rest[j, i]) > abs(rest[pivot, i]):
                pivot = j
        for k in range(i, n):
            rest[i, k], rest[pivot, k] = rest[pivot, k], rest[i, k]
        total += math.log(abs(rest[i, i]))
        for j in range(i + 1, n):
            by = rest[j, i] / rest[i, i]
            for k in range(i, n):
                rest[j, k] -= by * rest[i, k]
    return total


def view_statistics(model: Model, state: State) -> dict[str, float]:
    """Bounded or logarithmic statistics of every block of every view."""
    result: dict[str, float] = {}
    for name, view, vectors, labels in _blocks(model, state):
        if isinstance(view, SharedVectorState):
            result |= {
                f"{name}.{part}": float(value)
                for part, value in shared_statistics(view, vectors).items()
            }
            continue
        if not isinstance(view, GaussianState):  # a kind from outside has statistics of its own
            continue
        result |= {
            f"{name}.{part}": value for part, value in _gaussian_statistics(view, vectors, labels)
        }
    return result


def shared_statistics(view: SharedVectorState, vectors: NDArray[np.float64]) -> dict[str, float]:
    """The same of a view whose users share their clusters' vectors."""
    from_base = view.means - view.base_mean
    return {
        "base_mean": np.arctan(view.base_mean).mean(),
        "base_mean_size": np.log(np.abs(view.base_mean)).mean(),
        "base_precision": np.log(np.diagonal(view.base_precision)).mean(),
        "base_precision_det": np.linalg.slogdet(view.base_precision)[1],
        "means": np.arctan(view.means).mean(),
        "means_spread": np.log(np.abs(from_base)).mean(),
        "means_fit": np.log(
            np.einsum("ki,ij,kj->k", from_base, view.base_precision, from_base)
        ).mean(),
        "vectors": np.arctan(vectors).mean(),
        "vectors_size": np.arctan(vectors**2).mean(),
    }


def statistics(model: Model, state: State) -> dict[str, float]:
    """Bounded or logarithmic statistics of everything learnt and of the data: the priors have no
    moments."""
    counts = np.sort(state.counts)[::-1]
    result = view_statistics(model, state)
    if model.partition.n_components != 1:
        result["occupied"] = float(np.count_nonzero(counts))
        result["largest"] = float(counts[0])
        result["together"] = float(state.z[0] == state.z[1])
        result["log_alpha"] = float(np.log(state.alpha))
        result["alpha_and_clusters"] = float(
            np.arctan(np.log(state.alpha)) * np.count_nonzero(counts)
        )
    if state.discount is not None:
        result["discount"] = state.discount
        result["discount_and_clusters"] = state.discount * np.count_nonzero(counts)
    result |= _agreement_statistics(state)
    if model.likelihood is not None:
        result |= _likelihood_statistics(model.held(state).likelihood, state)
    return result


def _agreement_statistics(state: State) -> dict[str, float]:
    """Of who agrees, of all labels, and of how they go together."""
    (acts, *tables), all_agree, shares = state.labels
    result = {}
    for t, (looks, agrees, share) in enumerate(zip(tables, all_agree, shares, strict=True)):
        own = {
            "share": float(share),
            "agrees": float(agrees.mean()),
            "share_and_agrees": float(share * agrees.mean()),
            "same": float((acts == looks).mean()),
            "apart_but_same": float(((acts == looks) & ~agrees).mean()),
            "acting_together": float(acts[0] == acts[1]),
            "looking_together": float(looks[0] == looks[1]),
            "looks_as_another_acts": float(looks[0] == acts[1]),
            "clusters_seen": float(len(np.unique(looks))),
            "clusters_acting": float(len(np.unique(acts))),
        }
        result |= {f"{name}{t or ''}": value for name, value in own.items()}
    if len(tables) > 1:
        first, second, *_ = tables
        both = all_agree.all(axis=0)
        result |= {
            "tables_alike": float((first == second).mean()),
            "agrees_in_all": float(both.mean()),
        }
        result["tables_alike_but_not_behavior"] = float(
            ((first == second) & (first != acts)).mean()
        )
    return result


def _likelihood_statistics(likelihood: Any, state: State) -> dict[str, float]:
    """Of the likelihood's parameters and the observations, as far as it has them."""
    params, result = state.params, {}
    coefficients = params.get("coefficients", np.empty(0))
    latent = state.latent
    if "slopes" in params:
        latent, likelihood = likelihood.functions(latent, params), likelihood.inner
        result["slopes"] = float(np.arctan(params["slopes"]).mean())
        result["slopes_size"] = float(np.log(np.abs(params["slopes"])).mean())
        result["slope_precision"] = float(np.log(params["slope_precision"]))
        result["slopes_fit"] = float(
            np.arctan(params["slope_precision"] * params["slopes"] ** 2).mean()
        )
    if isinstance(likelihood, SeveralLikelihoods):
        return result | _statistics_of_several(likelihood, replace(state, latent=latent))
    if "group_sd" in params:
        result["log_group_sd"] = float(np.log(params["group_sd"]).mean())
    if "common" in params:
        effects, sds = params["group_effects"], params["group_sd"]
        result |= (
            {"common": float(np.arctan(params["common"]).mean())} if len(params["common"]) else {}
        )
        result["group_effects"] = float(np.arctan(effects).mean())
        result["group_effects_size"] = float(np.log(np.abs(effects)).mean())
        result["group_effects_fit"] = float(
            np.arctan(effects[: likelihood.bounds[1] - likelihood.n_common] / sds[0]).std()
        )
        likelihood, _ = likelihood._inside(params)
    if "noise_precision" in params:
        panel = getattr(likelihood, "panel", None)
        residual = (
            likelihood.residual(latent, coefficients)
            if panel is None
            else residual_of(likelihood, latent)
        )
        outcome = likelihood.outcome if panel is None else panel.outcome
        noise = np.asarray(params["noise_precision"])
        result["log_noise"] = float(np.log(noise).mean())
        if noise.ndim:  # of each user's cluster
            result["log_noise_of_one"] = float(np.log(noise[0]))
            result["noises"] = float(len(np.unique(noise)))
            noise = noise[panel.user]
        if getattr(likelihood, "values", None) is None:  # else no number is observed for each row
            result["residual_fit"] = float(np.arctan(residual**2 * noise).mean())
            result["outcome_size"] = float(np.log(np.abs(outcome)).mean())
    else:
        odds, outcome = likelihood.rows(latent, params).eta, likelihood.panel.outcome
        result["yes"] = float(outcome.mean())
        result["odds"] = float(np.arctan(odds).mean())
        result["odds_fit"] = float((np.arctan(odds) * (outcome - 0.5)).mean())
    if len(coefficients):
        result["coefficients"] = float(np.arctan(coefficients).mean())
        result["coefficients_size"] = float(np.arctan(coefficients**2).mean())
    return result


def _statistics_of_several(likelihood: SeveralLikelihoods, state: State) -> dict[str, float]:
    """Of each behavior by its name, and of how their vectors go together."""
    assert state.latent is not None
    result = {}
    for name, part in likelihood.parts.items():
        own = replace(
            state,
            latent=likelihood.blocks[name].of(state.latent),
            params=own_params(state.params, name),
        )
        result |= {
            f"{name}.{key}": value for key, value in _likelihood_statistics(part, own).items()
        }
    first, last = np.arctan(state.latent[:, 0]), np.arctan(state.latent[:, -1])
    return result | {"across": float((first * last).mean())}


Step = Callable[[np.random.Generator, Model, State], State]
Look = Callable[[Model, State], dict[str, float]]


def gibbs_step(rng: np.random.Generator, model: Model, state: State) -> State:
    """The shipped step with two auxiliary components."""
    return GibbsEngine(2).step(rng, model, state)


def working_state(
    rng: np.random.Generator, model: Model, state: State, n_auxiliary: int = 2
) -> WorkingState:
    """The state as moves see it, with terms that the likelihood has just made."""
    terms = Terms.none(model.n_users)
    if model.likelihood is not None and state.latent is not None:
        terms = model.likelihood.terms(rng, state.latent, state.params)
    return GibbsEngine(n_auxiliary).working_state(model, state, terms)


def joint_test(
    model: Model,
    seed: int,
    *,
    n_chains: int = 250,
    length: int = 40,
    n_prior: int = 4000,
    step: Step = gibbs_step,
    look: Look = statistics,
) -> dict[str, float]:
    """z-score of each statistic: averages over stationary chains against prior draws."""
    rng = np.random.default_rng(seed)
    prior = _prior_looks(rng, model, look, n_prior)
    averages: list[Mapping[str, float]] = []
    n_lost = 0
    while len(averages) < n_chains:
        try:
            averages.append(_chain_average(rng, model, length, step, look))
        except (DegenerateError, ValueError, RuntimeWarning):  # the last: a statistic is ln 0
            n_lost += 1
            if n_lost > 0.02 * n_chains:
                raise LostChainsError("too many chains ran out of the range of numbers") from None
    scores = {}
    for name in prior[0]:
        expected = np.array([draw[name] for draw in prior])
        chains = np.array([average[name] for average in averages])
        error = np.sqrt(expected.var(ddof=1) / n_prior + chains.var(ddof=1) / n_chains)
        difference = float(chains.mean() - expected.mean())
        # Something known that never moves has no error but rounding, and may not differ by more.
        rounding = 1e-12 * (1.0 + abs(float(expected.mean())))
        scores[name] = (
            difference / error
            if error > rounding
            else (0.0 if abs(difference) <= rounding else np.inf)
        )
    return scores


def _prior_looks(
    rng: np.random.Generator, model: Model, look: Look, n: int
) -> list[dict[str, float]]:
    """Statistics of n draws from the prior; up to one in a thousand may be lost, where one is ln
    0."""
    found: list[dict[str, float]] = []
    n_lost = 0
    while len(found) < n:
        try:
            found.append(look(*_prior_draw(rng, model)))
        except RuntimeWarning:
            n_lost += 1
            if n_lost > 0.001 * n:
                raise
    return found


def _prior_draw(rng: np.random.Generator, model: Model) -> tuple[Model, State]:
    state = model.draw_prior(rng)
    return _simulated(rng, model, state)


def _simulated(rng: np.random.Generator, model: Model, state: State) -> tuple[Model, State]:
    """New data given the state, and what of them is not observed."""
    model = model.simulate(rng, state)
    return model, model.restarted(state)


def _chain_average(
    rng: np.random.Generator, model: Model, length: int, step: Step, look: Look
) -> Mapping[str, float]:
    current, state = _prior_draw(rng, model)
    totals: dict[str, float] = {}
    for iteration in range(length):
        current, state = _simulated(rng, current, step(rng, current, state))
        if iteration % 2:  # looking costs as much as stepping
            for name, value in look(current, state).items():
                totals[name] = totals.get(name, 0.0) + 2.0 * value / length
    return totals


def assert_joint(
    model: Model,
    seed: int,
    *,
    n_chains: int = 250,
    length: int = 40,
    n_prior: int = 4000,
    step: Step = gibbs_step,
    look: Look = statistics,
) -> None:
    """The step leaves the joint prior as it is: no statistic of ``joint_test`` has |z| ≥ ACCEPT.

    All models together have thousands of statistics, of which one meets that by chance now and
    then. Where one does, a second run with another seed and four times the chains and prior draws
    decides alone: an error that shows at 4.5 in the first would show at 9 there.
    """
    for more, again in ((1, seed), (4, seed + 1_000_000)):
        scores = joint_test(
            model,
            again,
            n_chains=more * n_chains,
            length=length,
            n_prior=more * n_prior,
            step=step,
            look=look,
        )
        name, size = worst(scores)
        if size < ACCEPT:
            return
    pytest.fail(f"{name}: |z| = {size:.1f}, in a second run with four times the chains")


def assert_rejected(
    model: Model,
    seed: int,
    *,
    n_chains: int = 250,
    n_prior: int = 4000,
    ends: tuple[type[Exception], ...] = (),
    **options: Any,
) -> None:
    """A deliberate error is seen: some statistic of ``joint_test`` has |z| > REJECT.

    Most errors show in a fifth of the chains and prior draws. There |z| has heavier tails, and must
    be larger by 2; where it is not, or draws are lost, the whole run decides alone. ends: errors
    in which the whole run may end too, as they fail the test of a right sampler.
    """
    run = {"n_chains": n_chains, "n_prior": n_prior}
    try:
        first = {name: size // _FIRST for name, size in run.items()}
        if worst(joint_test(model, seed, **first, **options))[1] > REJECT + 2.0:
            return
    except (LostChainsError, RuntimeWarning, *ends):
        pass
    try:
        name, size = worst(joint_test(model, seed, **run, **options))
    except ends:
        return
    assert size > REJECT, f"{name} has the largest |z|, {size:.1f}"


Models = Mapping[str, Callable[[], Model]]


def joint_tests(
    models: Models,
    names: Iterable[str] | None = None,
    *,
    seeds: Iterable[int] = (0,),
    change: Callable[[pytest.MonkeyPatch], None] = lambda _: None,
    **run: Any,
) -> Any:
    """A slow test of every model, or of some, and every seed: ``assert_joint`` after a change of
    how steps are made."""

    @pytest.mark.slow
    @pytest.mark.parametrize("seed", seeds)
    @pytest.mark.parametrize("name", models if names is None else names)
    def test(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        change(monkeypatch)
        assert_joint(models[name](), seed, **run)

    return test


def mutant_tests(
    models: Models,
    mutants: Mapping[str, Any],
    name: str = "",
    *,
    block: int = 0,
    own: Mapping[str, Mapping[str, Any]] = types.MappingProxyType({}),
    **run: Any,
) -> Any:
    """A slow test of every mutant: ``assert_rejected`` by the model of this name, or the one beside
    the mutant.

    A mutant changes what it is given to, a MonkeyPatch; with block it takes nothing and returns
    changes of a step by blocks of so many users. own: options of some mutants.
    """

    @pytest.mark.slow
    @pytest.mark.parametrize("mutant", mutants)
    def test(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
        found = mutants[mutant]
        change, of = found if isinstance(found, tuple) else (found, name)
        if block:
            by_blocks(monkeypatch, *change(), n_users=block)
        else:
            change(monkeypatch)
        assert_rejected(models[of](), 0, **{**run, **own.get(mutant, {})})

    return test


def worst(scores: Mapping[str, float]) -> tuple[str, float]:
    """The statistic with the largest |z|, and that |z|; NaN counts as infinite."""
    sizes = {name: abs(score) if np.isfinite(score) else np.inf for name, score in scores.items()}
    name = max(sizes, key=sizes.__getitem__)
    return name, sizes[name]


def batch_scores(
    hits: NDArray[Any], expected: NDArray[np.float64], n_batches: int = 50
) -> NDArray[np.float64]:
    """z-scores of the column means of a chain's values (N, J), with standard errors from batch
    means."""
    size = len(hits) // n_batches
    batches = hits[: size * n_batches].reshape(n_batches, size, -1).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(n_batches)
    return np.asarray((batches.mean(axis=0) - expected) / error)
