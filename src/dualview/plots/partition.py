"""Plots of the partition: similarity, number and sizes of clusters. z (draws, U), labels (U,)."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dualview.checks import interval_ends
from dualview.mixture import DualViewMixture
from dualview.plots.canvas import (
    ALERT,
    MAIN,
    TRUTH,
    Array,
    Panels,
    Users,
    apart,
    groups_of,
    labels_of,
    one_panel,
    panels,
    percent,
    posterior_of,
)
from dualview.posterior import Posterior
from dualview.posterior.partition.prior_clusters import PriorClusters, prior_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_NUMBERS = 8  # bars that carry their probability as a number
_MOST_TICKS = 12


def similarity(model: DualViewMixture | Posterior, ax: "Axes | None" = None) -> "Axes":
    """Posterior similarity matrix: how often two users are together, with users ordered by
    estimated cluster.

    Lines separate the clusters. Inside a cluster the most certain members come first. For up to a
    few thousand users.

    Parameters
    ----------
    model : fitted DualViewMixture or Posterior
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Examples
    --------
    >>> import dualview as dv
    >>> from dualview import plots
    >>> forum = dv.datasets.agreement(n_users=20, n_threads=30, seed=1)
    >>> model = dv.DualViewMixture(engine=dv.Gibbs(n_warmup=50), n_draws=50, n_chains=1)
    >>> model = model.fit(forum.features)
    >>> plots.similarity(model).images[0].get_array().shape
    (20, 20)
    """
    matrix = posterior_of(model).similarity()
    labels = labels_of(model)
    order = _by_closeness(matrix, labels)
    ax = one_panel(ax, (5.6, 4.6))
    image = ax.imshow(
        matrix[np.ix_(order, order)].astype(np.float32), cmap="Greys", vmin=0.0, vmax=1.0
    )
    ax.figure.colorbar(image, ax=ax, label="probability of being in the same cluster")
    _part_clusters(ax, np.unique(labels, return_counts=True))
    return ax


def clusters(
    model: DualViewMixture | Posterior, axes: Any = None, probability: float = 0.9
) -> Panels:
    """Number and sizes of clusters, in two panels.

    The first shows the posterior probability of each number of clusters, and as points what the
    prior expected (:func:`prior_clusters`). The second shows the size
    of the largest cluster, of the second largest and so on: posterior mean and central interval,
    where a draw with fewer clusters counts as a size of zero. Ticks are the sizes in the partition
    estimate.

    Parameters
    ----------
    model : fitted DualViewMixture or Posterior
    axes : array of two matplotlib Axes, optional
        Where to draw; a new figure by default.
    probability : float
        Probability of the intervals of sizes.

    Returns
    -------
    array of two matplotlib Axes

    Examples
    --------
    >>> import dualview as dv
    >>> from dualview import plots
    >>> forum = dv.datasets.agreement(n_users=20, n_threads=30, seed=1)
    >>> model = dv.DualViewMixture(engine=dv.Gibbs(n_warmup=50), n_draws=50, n_chains=1)
    >>> model = model.fit(forum.features)
    >>> number, sizes = plots.clusters(model)
    >>> number.get_xlabel(), sizes.get_ylabel()
    ('number of clusters', 'size (users)')
    """
    post = posterior_of(model)
    interval_ends(probability)  # refuses what is no probability before anything is drawn
    sizes = _sizes_by_rank(post.flat("z"))
    estimate = _sizes_by_rank(labels_of(model)[None, :])[0]
    number, size = panels(axes, 1, 2, (9.5, 3.8), width_ratios=(1, 1.25))[0]
    _draw_number(number, post.flat("n_clusters"), prior_of(post))
    _draw_sizes(size, sizes, estimate, probability)
    return np.array([number, size], dtype=object)


def _by_closeness(matrix: Array, labels: NDArray[np.int64]) -> Users:
    """Users by cluster, and inside it by their mean similarity to its members, the largest
    first."""
    closeness = np.empty(len(labels))
    for _, users in groups_of(labels):
        closeness[users] = matrix[np.ix_(users, users)].mean(axis=1)
    return np.lexsort((-closeness, labels))


def _part_clusters(ax: "Axes", clusters: tuple[NDArray[np.int64], NDArray[np.intp]]) -> None:
    """Lines between clusters of these (names, sizes), and their names beside the middles."""
    names, sizes = clusters
    n_users = int(sizes.sum())
    ends = np.cumsum(sizes) - 0.5
    width = 1.0 if len(sizes) <= 15 else 0.4
    for draw in (ax.hlines, ax.vlines):
        draw(ends[:-1], -0.5, n_users - 0.5, color=ALERT, linewidth=width)
    places, shown = apart(
        [
            (float(end - size / 2), str(name))
            for name, size, end in zip(names, sizes, ends, strict=True)
        ],
        n_users,
    )
    ax.set_xticks(places, shown)
    ax.set_yticks(places, shown)
    ax.tick_params(length=0)
    ax.set_xlabel("users, by cluster")
    ax.set_ylabel("users, by cluster")


def _sizes_by_rank(z: NDArray[np.integer]) -> NDArray[np.int64]:
    """Sizes of the clusters of each draw from the largest down, then zeros, (draws, most
    clusters)."""
    n_labels = int(z.max()) + 1
    sizes = np.array([np.bincount(draw, minlength=n_labels) for draw in z])
    sizes = -np.sort(-sizes, axis=1)
    return sizes[:, : np.count_nonzero(sizes.any(axis=0))]


def _draw_number(ax: "Axes", n_clusters: NDArray[np.integer], prior: PriorClusters | None) -> None:
    """Bars of the share of draws with each number of clusters, and points of its prior."""
    numbers = np.arange(n_clusters.min(), n_clusters.max() + 1)
    shares = np.array([np.mean(n_clusters == number) for number in numbers])
    bars = ax.bar(numbers, shares, color=MAIN, width=0.8)
    if len(numbers) <= _MOST_NUMBERS:
        ax.bar_label(bars, [_share_text(share) for share in shares], padding=2)
    middle, reach = 0.5 * (numbers[0] + numbers[-1]), max(0.5 * len(numbers), 2.0) + 0.2
    ax.set_xlim(middle - reach, middle + reach)
    ax.set_ylim(0.0, 1.12 * shares.max())
    _count(ax, numbers)
    ax.set_xlabel("number of clusters")
    ax.set_ylabel("posterior probability")
    if prior is not None:
        own = numbers[numbers <= prior.n_users]
        ax.scatter(own, prior.probabilities[own - 1], **TRUTH, label="prior")
        ax.set_ylim(0.0, 1.12 * max(shares.max(), prior.probabilities[own - 1].max()))
        ax.legend(frameon=False)


def _share_text(share: float) -> str:
    if share == 0:
        return "0"
    return "<0.01" if share < 0.01 else f"{share:.2f}"


def _draw_sizes(
    ax: "Axes", sizes: NDArray[np.int64], estimate: NDArray[np.int64], probability: float
) -> None:
    """Means and intervals over draws (N, K) of sizes by rank, and the sizes of an estimate."""
    ranks = np.arange(1, sizes.shape[1] + 1)
    low, high = np.quantile(sizes, interval_ends(probability), axis=0)
    marker = float(np.clip(150 / len(ranks), 3, 6.5))
    ticks = TRUTH | {"s": (2.2 * marker) ** 2}
    ax.vlines(
        ranks, low, high, color=MAIN, linewidth=float(np.clip(60 / len(ranks), 1.5, 3)), zorder=1
    )
    ax.scatter(
        np.arange(1, len(estimate) + 1),
        estimate,
        label="partition estimate",
        **ticks | {"zorder": 2},
    )
    ax.plot(
        ranks,
        sizes.mean(axis=0),
        "o",
        color="white",
        markersize=marker,
        markeredgecolor=MAIN,
        label="posterior mean",
    )
    ax.plot([], [], color=MAIN, linewidth=3, label=f"{percent(probability)} interval")
    ax.legend(loc="upper right", ncols=2, frameon=False, columnspacing=1.2)
    ax.set_xlim(min(0.4, 1 - 0.02 * len(ranks)), max(2.6, 1.02 * len(ranks) + 0.6))
    top = max(float(high.max()), float(estimate.max()))
    ax.set_ylim(-0.02 * top, 1.25 * top)  # with room for the legend
    _count(ax, ranks)
    ax.set_xlabel("clusters, from the largest")
    ax.set_ylabel("size (users)")


def _count(ax: "Axes", numbers: NDArray[np.integer]) -> None:
    """Ticks at whole numbers only: at all of them when they are few."""
    from matplotlib.ticker import MaxNLocator

    if len(numbers) <= _MOST_TICKS:
        ax.set_xticks(numbers)
    else:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
