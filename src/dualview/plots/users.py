"""Plots of single users: their features, and their latent coefficients. X (U, D), labels (U,)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from dualview.checks import column_names, listed, numbers
from dualview.errors import InputError
from dualview.mixture import DualViewMixture
from dualview.plots.canvas import (
    MUTED,
    TRUTH,
    Array,
    Panels,
    apart,
    cluster_style,
    groups_of,
    one_panel,
    panels,
    percent,
    place_of,
    posterior_of,
)
from dualview.posterior.prediction.user_features import Features

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LEGEND_ROWS = 12
_GAP = 1.5  # between clusters, in users
_CONTOUR = 0.95  # of a normal distribution, inside an ellipse
# In standard deviations: the squared radius is exponential.
_RADIUS = float(np.sqrt(-2 * np.log(1 - _CONTOUR)))
_FEWEST = 3  # users that have an ellipse


def features(
    model: DualViewMixture,
    X: Any = None,
    ax: "Axes | None" = None,
    columns: Sequence[int | str] = (0, 1),
    ellipses: bool = True,
) -> "Axes":
    """Users in two of their features, by cluster.

    Parameters
    ----------
    model : fitted DualViewMixture
    X : array or DataFrame (U, D), optional
        Features of the users of the fit; by default those that were fitted. A model fitted without
        features can be plotted in any features you give. Users with a missing cell in one of the
        two columns are left out. Nominal columns have no axis here; see :func:`levels`.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    columns : two positions or names
        The columns on the horizontal and the vertical axis.
    ellipses : bool
        Whether to draw the 95 % contour of the normal distribution with the mean and covariance of
        a cluster's users, for clusters of at least three.

    Examples
    --------
    >>> import dualview as dv
    >>> from dualview import plots
    >>> forum = dv.datasets.agreement(n_users=20, n_threads=30, seed=1)
    >>> model = dv.DualViewMixture(engine=dv.Gibbs(n_warmup=50), n_draws=50, n_chains=1)
    >>> model = model.fit(forum.features)
    >>> ax = plots.features(model, forum.features)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('feature x0', 'feature x1')
    """
    values, names = _values(model, X)
    n_users = len(model.labels_)
    if len(values) != n_users:
        raise InputError(
            f"X must have a row for each of the {n_users} users of the fit; got shape "
            f"{values.shape}."
        )
    across, up = _positions(columns, names)
    ax = one_panel(ax)
    groups = groups_of(model.labels_)
    for cluster, users in groups:
        style = cluster_style(cluster, n_users)
        points = values[users][:, [across, up]]
        points = points[np.isfinite(points).all(axis=1)]
        ax.scatter(*points.T, label=f"{cluster}  ({len(users)})", **style)
        if ellipses and len(points) >= _FEWEST:
            _draw_ellipse(
                ax,
                points,
                color=style["color"],
                linewidth=float(np.clip(14 / len(groups), 0.7, 1.4)),
            )
    ax.set_xlabel(names[across])
    ax.set_ylabel(names[up])
    _legend_of_clusters(ax)
    return ax


def latent(
    model: DualViewMixture,
    ax: "Axes | None" = None,
    probability: float = 0.95,
    truth: ArrayLike | None = None,
    part: int | str = 0,
) -> "Axes":
    """Each user's latent coefficient: posterior median and central interval.

    Clusters are side by side, ordered by their mean coefficients, and so are users inside a
    cluster. The dashed line is the mean of all users.

    Parameters
    ----------
    model : DualViewMixture fitted with a behavior
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    probability : float
        Probability of the interval.
    truth : array (U,), optional
        The true coefficients, if they are known, drawn as ticks.
    part : int or str
        Which element of the latent vector to draw, by position or name, if it has several.

    Examples
    --------
    >>> import dualview as dv
    >>> from dualview import plots
    >>> forum = dv.datasets.agreement(n_users=20, n_threads=30, seed=1)
    >>> behavior = dv.SharedOutcome(forum.participation, forum.outcome)
    >>> model = dv.DualViewMixture(1, engine=dv.Gibbs(n_warmup=50), n_draws=50, n_chains=1)
    >>> model = model.fit(None, behavior)
    >>> plots.latent(model, truth=forum.latent).get_ylabel()
    'latent coefficient'
    """
    name, median, interval = _latent_part(model, part, probability)
    low, high = interval.T
    true = _truth(truth, len(low))
    ax = one_panel(ax)
    place = np.empty(len(median))
    first = 0.0
    centers = []
    for cluster, users in sorted(
        groups_of(model.labels_), key=lambda group: float(median[group[1]].mean())
    ):
        users = users[np.argsort(median[users], kind="stable")]
        places = place[users] = first + np.arange(len(users))
        style = cluster_style(cluster, len(median))
        width = float(np.clip(300 / len(median), 0.4, 1.5))
        ax.vlines(places, low[users], high[users], color=style["color"], linewidth=width, zorder=1)
        ax.scatter(places, median[users], **style)
        if true is not None:
            ax.scatter(places, true[users], **TRUTH)
        centers.append((float(places.mean()), str(cluster)))
        first = places[-1] + 1.0 + _GAP
    _label_latent(ax, centers, first - _GAP, name)
    _legend_of_latent(ax, float(median.mean()), probability, true is not None)
    _make_room(ax, place, high if true is None else np.maximum(high, true))
    return ax


def overview(
    model: DualViewMixture,
    X: Any = None,
    columns: Sequence[int | str] = (0, 1),
    probability: float = 0.95,
    truth: ArrayLike | None = None,
    axes: Any = None,
    part: int | str = 0,
) -> Panels:
    """Users by their features and by their latent behavior, side by side.

    A fit without a behavior has the first panel only, a fit without features the second, unless X
    is given.

    Parameters
    ----------
    model, X, columns : as in :func:`features`
    probability, truth, part : as in :func:`latent`
    axes : array of matplotlib Axes, one for each panel, optional
        Where to draw; a new figure by default.

    Returns
    -------
    array of Axes, one for each panel
    """
    has_latent = "latent" in posterior_of(model)
    has_features = X is not None or len(posterior_of(model).feature_names) > 1 or not has_latent
    widths = [1.0] * has_features + [1.35] * has_latent
    row = panels(axes, 1, len(widths), (4.7 * sum(widths), 4.6), width_ratios=widths)[0]
    if has_features:
        features(model, X, row[0], columns).set_title("Features", loc="left")
    if has_latent:
        latent(model, row[-1], probability, truth, part).set_title("Latent behavior", loc="left")
    return np.asarray(row)


def _values(model: DualViewMixture, X: Any) -> tuple[Array, list[str]]:
    """Features (U, D) of the users of the fit in their own units, NaN where they are missing, and
    their names."""
    post = posterior_of(model)
    if post.cells is not None and post.spec.codebook is not None:
        cells = post.cells if X is None else post.spec.codebook.cells(X, unknown="missing")
        parts = [
            (block.columns, block.known(own))
            for block, own in zip(post.blocks, Features.of(post, cells.data).cells, strict=True)
            if not block.has_shares
        ]
        names = [column.name for columns, _ in parts for column in columns]
        _check_two(len(names), "of the fit", " plots.levels shows nominal ones.")
        return np.hstack([values for _, values in parts]), names
    if X is None and post.features is None:
        raise InputError(
            "This model was fitted without features: give the users' features X to show them in."
        )
    values = numbers(post.features if X is None else X, "X", n_dims=2)
    _check_two(values.shape[1], "of the fit" if X is None else "X")
    return values, _feature_names(model, X, values.shape[1])


def _check_two(n_columns: int, table: str, besides: str = "") -> None:
    """Raise where a table has too few columns for the two axes of a picture."""
    if n_columns < 2:
        raise InputError(
            "A picture of features needs two columns that are not nominal; the table "
            f"{table} has {n_columns}.{besides}"
        )


def _feature_names(model: DualViewMixture, X: Any, n_features: int) -> list[str]:
    names = column_names(X)
    if names is None:
        names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    return names if len(names) == n_features else [f"feature x{j}" for j in range(n_features)]


def _positions(columns: Sequence[int | str], names: list[str]) -> tuple[int, int]:
    """The two columns as positions."""
    try:
        across, up = (place_of(column, names) for column in columns)
    except (TypeError, ValueError, IndexError):
        raise InputError(
            f"columns must be two positions or names among the {len(names)} column(s) of X "
            f"({listed(names)}); got {columns!r}."
        ) from None
    return across, up


def _draw_ellipse(ax: "Axes", points: Array, **line: Any) -> None:
    """The 95 % contour of the normal distribution with the mean and covariance of points (n, 2)."""
    from matplotlib.patches import Ellipse

    variances, directions = np.linalg.eigh(np.cov(points.T))
    height, width = 2 * _RADIUS * np.sqrt(np.maximum(variances, 0.0))
    angle = float(np.degrees(np.arctan2(directions[1, 1], directions[0, 1])))
    center = (float(points[:, 0].mean()), float(points[:, 1].mean()))
    ax.add_patch(Ellipse(center, width, height, angle=angle, fill=False, zorder=1, **line))
    ax.autoscale_view()


def _latent_part(
    model: DualViewMixture, part: int | str, probability: float
) -> tuple[str, Array, Array]:
    """What one number of the latent vectors is called, its medians (U,), and its central intervals
    (U, 2)."""
    post = posterior_of(model)
    if "latent" not in post:
        raise InputError(
            "This model was fitted without a behavior, so it has no latent coefficients: call "
            "fit(X, behavior)."
        )
    names, median = post.latent_names, model.latent_
    intervals = post.interval("latent", probability)
    if len(names) == 1:
        return "latent coefficient", median, intervals
    try:
        place = place_of(part, names)
    except (TypeError, ValueError, IndexError):
        raise InputError(
            f"part must be a position or a name among {', '.join(names)}; got {part!r}."
        ) from None
    return f"latent coefficient of {names[place]}", median[:, place], intervals[:, place]


def _truth(truth: ArrayLike | None, n_users: int) -> Array | None:
    if truth is None:
        return None
    values = numbers(truth, "truth", n_dims=1)
    if len(values) != n_users:
        raise InputError(
            f"truth must have a value for each of the {n_users} users of the fit; got "
            f"{len(values)}."
        )
    return values


def _label_latent(ax: "Axes", centers: list[tuple[float, str]], width: float, name: str) -> None:
    """The clusters' names under their middles."""
    ax.set_xticks(*apart(centers, width))
    ax.set_xlim(-1.0, width)
    ax.tick_params(axis="x", length=0)
    ax.set_xlabel("users, by cluster")
    ax.set_ylabel(name)


def _legend_of_latent(ax: "Axes", overall: float, probability: float, has_truth: bool) -> None:
    """In the upper left corner, which is free because clusters rise to the right."""
    handles: list[Any] = [ax.errorbar([], [], yerr=[], fmt="o", color=MUTED)]
    names = [f"posterior median, {percent(probability)} interval"]
    if has_truth:
        handles.append(ax.scatter([], [], **TRUTH))
        names.append("truth")
    handles.append(ax.axhline(overall, color=MUTED, linestyle="--", linewidth=1, zorder=0))
    ax.legend(handles, [*names, "mean of all users"], loc="upper left", frameon=False)


def _make_room(ax: "Axes", place: Array, top: Array) -> None:
    """Raise the upper limit until the users on the left, with these tops, leave the legend its
    corner."""
    highest = top[place <= 0.7 * place.max()].max()
    low, high = ax.get_ylim()
    ax.set_ylim(low, max(high, low + (highest - low) / 0.76))


def _legend_of_clusters(ax: "Axes") -> None:
    """Beside the axes, where it hides nobody; the largest clusters when there are many."""
    handles, names = ax.get_legend_handles_labels()
    title = (
        "cluster (users)"
        if len(names) <= _LEGEND_ROWS
        else f"cluster (users)\n{_LEGEND_ROWS} largest of {len(names)}"
    )
    handles, names = handles[:_LEGEND_ROWS], names[:_LEGEND_ROWS]
    if ax.patches:
        handles.append(*ax.plot([], [], color=MUTED, linewidth=1.4))
        names.append(f"{percent(_CONTOUR)} contour")
    ax.legend(
        handles, names, title=title, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False
    )
