"""Independent draws from q: states of the model, and how far q is from the posterior at them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from dualview.behaviors.approximation.latent import LatentDraws
from dualview.engines.variational.mean_field import MeanField
from dualview.model import State
from dualview.partitions.agreement import LabelsByView
from dualview.views.soft_vectors import SoftVectors

Array = NDArray[np.float64]


class Drawn(NamedTuple):
    """n draws from q but for the clusters of users: α (n,), discounts (n,), ln weights (n, K), each
    view's states, and the latent vectors."""

    alpha: Array
    discount: Array
    log_weights: Array
    views: Mapping[str, list[Any]]
    latent: LatentDraws | None


def drawn(rng: np.random.Generator, q: MeanField, n: int) -> Drawn:
    """Draws of everything but z."""
    alpha, discount, log_weights = q.weights.draws(rng, n)
    views = {name: list(view.draws(rng, n)) for name, view in q.views.items()}
    latent = None if q.latent is None else q.latent.draws(rng, n)
    if latent is not None and latent.means is not None:
        restored = q.model.views["behavior"].restored
        views["behavior"] = [
            restored(state.component_parts | state.base_parts | {"means": means})
            for state, means in zip(views["behavior"], latent.means, strict=True)
        ]
    return Drawn(alpha, discount, log_weights, views, latent)


def log_importance(q: MeanField, draws: Drawn) -> Array:
    """ln p(data, draw) − ln q(draw) up to a constant, (n,); z is summed over in p and left out of
    q."""
    found = (
        np.zeros(len(draws.alpha))
        if draws.latent is None or q.latent is None
        else q.latent.log_ratios(draws.latent)
    )
    for i, weights in enumerate(draws.log_weights):
        table = np.repeat(weights[:, None], q.model.n_users, axis=1)
        for name, states in draws.views.items():
            drawn_here = draws.latent is not None and name == "behavior"
            vectors = (
                SoftVectors(draws.latent.latent[i])
                if drawn_here and draws.latent
                else q.vectors(name)
            )
            table += q.views[name].scores(states[i], vectors)
            found[i] += q.views[name].log_ratio(states[i])
        found[i] += float(logsumexp(table, axis=0).sum()) + q.weights.log_ratio(weights)
    return found


def states(rng: np.random.Generator, q: MeanField, n: int) -> list[State]:
    """Draws of everything, components without users left out where their number varies, else all of
    the model's."""
    draws = drawn(rng, q, n)
    found = []
    for i in range(n):
        z = q.drawn_labels(rng)
        views = {
            name: q.views[name].with_hidden(rng, own[i], z, q.vectors(name))
            for name, own in draws.views.items()
        }
        latent, params = (
            (None, {}) if draws.latent is None else (draws.latent.latent[i], draws.latent.params[i])
        )
        labels = LabelsByView.agreeing(z)
        learns = q.model.partition.discount_prior is not None
        discount = float(draws.discount[i]) if learns else None
        state = State(labels, float(draws.alpha[i]), views, latent, params, discount)
        found.append(_with_components(rng, q, state))
    return found


def _with_components(rng: np.random.Generator, q: MeanField, state: State) -> State:
    """The state with the components that the model's partition prior has, those that q lacks drawn
    from their base."""
    occupied, z = np.unique(state.z, return_inverse=True)
    n_all = q.model.partition.n_components
    views = {}
    for name, own in state.views.items():
        parts = {part: values[occupied] for part, values in own.component_parts.items()}
        if n_all is not None and n_all > len(occupied):
            fresh = q.views[name].from_base(rng, own, n_all - len(occupied)).component_parts
            parts = {part: np.concatenate([values, fresh[part]]) for part, values in parts.items()}
        views[name] = q.model.views[name].restored(parts | own.base_parts)
    labels = LabelsByView.agreeing(z.astype(np.int64))
    return replace(state, labels=labels, views=views)
