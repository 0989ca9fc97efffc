"""The clusters of a fit in plain values and as a data frame: sizes, certainty, latent coefficients,
what distinguishes them in words, typical users.

Features are those that the model has seen, so that nothing is called by a column it did not use.
Numbers are told by ranks, which mean the same on any scale.
"""

from dataclasses import asdict, dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dualview.posterior.partition import crosstab
from dualview.posterior.partition.certainty import certainty_text
from dualview.posterior.partition.n_components import components_of
from dualview.posterior.partition.prior_clusters import prior_of
from dualview.posterior.partition.profiles import (
    MeanLatent,
    mean_latent,
    ranks_of,
    separation,
    standings,
    table_profile,
    typical_first,
)
from dualview.posterior.posterior import Posterior
from dualview.posterior.prediction.user_features import features_of
from dualview.words.clusters import (
    Summary,
    distinct_names,
    latents_by_name,
    summary_html,
    summary_text,
    traits_text,
    value_text,
)
from dualview.words.numbers import share

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
Users = NDArray[np.intp]

N_TYPICAL = 5  # users named
_STANDS_OUT = 0.2  # at least this share of users is between a cluster's median and that of all
_MOSTLY = 0.5  # of a cluster's users have the level that stands out
_UNSURE = 0.025  # a probability above which a latent coefficient may be on either side
_IN_NAME = 2  # phrases
_MOST_DRAWS = (0.05, 0.95)  # quantiles


def summarize(post: Posterior) -> Summary:
    """Clusters with their sizes, names and profiles, and the verdict on convergence, as plain
    values."""
    estimate = post.partition_estimate()
    labels = estimate.labels
    groups = [np.flatnonzero(labels == k) for k in range(int(labels.max()) + 1)]
    numbers = _known_numbers(post)
    ranks = None if numbers is None else numbers.ranks
    profiles = [table_profile(post, users) if post.has_features else {} for users in groups]
    latent = _latent_of(post, groups)
    portraits = _portraits(post, labels, groups, profiles, numbers, latent)
    names = distinct_names(
        [portrait.phrases for portrait in portraits],
        [max(1, min(_IN_NAME, len(portrait.out))) for portrait in portraits],
    )
    counts = post["n_clusters"] if post.summary is None else post.summary["n_clusters"].values
    clusters = []
    for k, users in enumerate(groups):
        typical = typical_first(users, estimate.membership, ranks)[:N_TYPICAL]
        cluster = {
            "cluster": k,
            "name": names[k] if len(groups) > 1 else "all users",
            "size": len(users),
            "share": len(users) / post.n_users,
            "certainty": float(estimate.membership[users].mean()),
            "words": portraits[k].text,
            "typical_users": [post.user_ids[u] for u in typical],
            **profiles[k],
        }
        clusters.append(cluster | ({"latent": _latent_values(post, latent[k])} if latent else {}))
    return {
        "users": post.n_users,
        "chains": post.n_chains,
        "draws_per_chain": post.n_draws,
        "draws_summarized": None if post.summary is None else counts.size,
        "length": None if post.length is None else post.length._asdict(),
        "features": _seen_columns(post),
        "observations": post.n_observations,
        "n_clusters": post.spec.n_clusters,
        "clusters": clusters,
        "certainty": certainty_text(post.flat("z"), estimate),
        "agreement": crosstab.text(post),
        "clusters_in_an_average_draw": float(counts.mean()),
        "clusters_in_most_draws": [
            int(n) for n in np.quantile(counts, _MOST_DRAWS, method="nearest")
        ],
        "alpha_prior": post.spec.alpha_prior,
        "process": post.spec.process,
        "discount": _discount(post),
        "prior_clusters": _prior_clusters(post),
        "components": _components(post),
        "converged": post.converged,
        "verdict": post.verdict(),
    }


def _discount(post: Posterior) -> dict[str, Any] | None:
    """The mean and the interval of a discount that is learned."""
    if "discount" not in post:
        return None
    drawn = post["discount"] if post.summary is None else post.summary["discount"].values
    return {"mean": float(drawn.mean()), "middle": np.quantile(drawn, _MOST_DRAWS).tolist()}


def _prior_clusters(post: Posterior) -> dict[str, Any] | None:
    """How many clusters the prior expects: mean, interval, and how many were drawn to know it."""
    prior = prior_of(post)
    if prior is None:
        return None
    return {"mean": prior.mean, "middle": list(prior.interval()), "n_draws": prior.n_draws}


def _components(post: Posterior) -> dict[str, Any] | None:
    """The mean and the interval of the number of components of a mixture of finite mixtures."""
    found = components_of(post)
    return None if found is None else {"mean": found.mean, "middle": list(found.interval())}


def _seen_columns(post: Posterior) -> list[str]:
    """Names of all columns that the model has seen, nominal ones too."""
    if post.cells is None or post.spec.codebook is None:
        return post.feature_names
    return [column.name for column in post.spec.codebook.columns if column.kind != "ignore"]


@dataclass(frozen=True)
class _Numbers:
    """What is known of the users' columns that are not nominal, by name: values (U, D), NaN where a
    cell is missing."""

    names: list[str]
    values: Array

    @cached_property
    def ranks(self) -> Array:
        return ranks_of(self.values)

    def places(self, groups: list[Users]) -> dict[str, Array]:
        """Where each cluster's median is among all users (K,), from 0 to 1, by column."""
        return {
            name: standings(values, groups)
            for name, values in zip(self.names, self.values.T, strict=True)
        }


def _known_numbers(post: Posterior) -> _Numbers | None:
    """None where there are no such columns, or where the draws came without their features."""
    features = features_of(post)
    found = [
        (block.columns, block.known(x))
        for block, x in zip(post.blocks, () if features is None else features.cells, strict=False)
        if not block.has_shares
    ]
    if not found:
        return None
    names = [column.name for columns, _ in found for column in columns]
    return _Numbers(names, np.column_stack([values for _, values in found]).astype(float))


class _Trait(NamedTuple):
    """In what a cluster stands out: how far from all users, from 0 to 0.5, the column, the words
    for it, and the cluster's median or share."""

    far: float
    column: str
    words: str
    value: str


@dataclass(frozen=True)
class _Portrait:
    """What distinguishes a cluster: in what it stands out, most of all first, and its medians of
    other columns, those that separate clusters best first."""

    out: list[_Trait]
    others: list[str]

    @property
    def phrases(self) -> list[str]:
        """Of these a name is made."""
        return [*([trait.words for trait in self.out] or ["ordinary"]), *self.others]

    @property
    def text(self) -> str:
        out = [f"{one.words} ({one.value})" if one.value else one.words for one in self.out]
        return traits_text(out, self.others)


def _portraits(
    post: Posterior,
    labels: Labels,
    groups: list[Users],
    profiles: list[Summary],
    numbers: _Numbers | None,
    means: list[list[MeanLatent]],
) -> list[_Portrait]:
    """Of each cluster; its features come before its latent coefficients."""
    places: dict[str, Array] = {}
    order: list[str] = []  # columns
    if numbers is not None:
        places = numbers.places(groups)
        by_separation = np.argsort(-separation(numbers.ranks, labels), kind="stable")
        order = [numbers.names[j] for j in by_separation]
    latent = _latent_places(post, groups) if means else {}
    of_all = table_profile(post, np.arange(post.n_users)).get("level_shares", {})
    found = []
    for k, profile in enumerate(profiles):
        medians = profile.get("feature_medians", {})
        common = _common_levels(profile.get("level_shares", {}))
        texts = {name: value_text(medians[name]) for name in order if name in medians}
        traits = [_side(places[name][k], name, text) for name, text in texts.items()]
        traits += [
            _Trait(0.5 * (own - of_all[column][level]), column, f"{column} {level}", share(own))
            for column, level, own in common
            if own >= _MOSTLY
        ]
        ordered = sorted(traits, key=lambda trait: -trait.far)
        ordered += [
            _side(at[k], name, "")
            for (name, at), mean in zip(latent.items(), means[k] if means else (), strict=True)
            if not _UNSURE < mean.above < 1 - _UNSURE
        ]
        out = [trait for trait in ordered if trait.far >= _STANDS_OUT]
        told = {trait.column for trait in out}
        texts |= {column: f"{level} {share(own)}" for column, level, own in common if own > 0}
        others = [f"{name} {text}" for name, text in texts.items() if name not in told]
        found.append(_Portrait(out, others))
    return found


def _latent_places(post: Posterior, groups: list[Users]) -> dict[str, Array]:
    """Where each cluster's latent coefficients are among all users', (K,), by name."""
    parts = post.latent_median.reshape(post.n_users, -1).T
    several = len(post.latent_names) > 1
    names = [f"latent {name}" if several else "latent" for name in post.latent_names]
    return {name: standings(own, groups) for name, own in zip(names, parts, strict=True)}


def _side(place: float, column: str, text: str) -> _Trait:
    words = f"{'high' if place > 0.5 else 'low'} {column}"
    return _Trait(round(abs(place - 0.5), 9), column, words, text)


def _common_levels(own: Summary) -> list[tuple[str, str, float]]:
    """Each nominal column with its most frequent level and its share."""
    found = []
    for column, shares in own.items():
        level, most = max(shares.items(), key=itemgetter(1))
        found.append((column, level, most))
    return found


def _latent_of(post: Posterior, groups: list[Users]) -> list[list[MeanLatent]]:
    """The mean of each latent coefficient over each cluster's users; none without a behavior."""
    if "latent" not in post:
        return []
    draws = post.flat("latent").reshape(-1, post.n_users, len(post.latent_names))
    return [[mean_latent(own, users) for own in np.moveaxis(draws, 2, 0)] for users in groups]


def _latent_values(post: Posterior, means: list[MeanLatent]) -> dict[str, Any]:
    """Those of a cluster in plain values; by name, where each user has several coefficients."""
    values = [asdict(mean) for mean in means]
    return values[0] if len(values) == 1 else dict(zip(post.latent_names, values, strict=True))


class ClusterTable(pd.DataFrame):  # type: ignore[misc]
    """A row per cluster; shown as the summary that it was made of, as long as it is unchanged."""

    _metadata: ClassVar[list[str]] = ["summary"]

    @classmethod
    def of(cls, summary: Summary) -> "ClusterTable":
        clusters = summary["clusters"]
        found: dict[str, Any] = {
            "name": [cluster["name"] for cluster in clusters],
            "users": [cluster["size"] for cluster in clusters],
            "share": [cluster["share"] for cluster in clusters],
            "certainty": [cluster["certainty"] for cluster in clusters],
        }
        named = [latents_by_name(cluster) for cluster in clusters]
        for name in named[0]:
            for end in ("median", "low", "high"):
                found[f"{name.replace(' ', '.', 1)}_{end}"] = [own[name][end] for own in named]
        found["stands_out"] = [cluster["words"] for cluster in clusters]
        found["typical_users"] = [cluster["typical_users"] for cluster in clusters]
        index = pd.RangeIndex(len(clusters), name="cluster")
        table = cls(found, index=index)
        table.summary = summary
        return table

    @property
    def _is_whole(self) -> bool:
        summary = getattr(self, "summary", None)
        return summary is not None and self.equals(ClusterTable.of(summary))

    def __repr__(self) -> str:
        return summary_text(self.summary) if self._is_whole else str(super().__repr__())

    def _repr_html_(self) -> str | None:
        return summary_html(self.summary) if self._is_whole else super()._repr_html_()
