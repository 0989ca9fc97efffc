"""Pictures of a fitted model, by matplotlib.

A function takes axes and gives them back, or makes its own. A cluster has the same colour and marker in every picture; both
differ between clusters, so that pictures survive grey printing and colour blindness.
"""

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dualview.checks import column_names, numbers
from dualview.errors import InputError, MissingExtraError
from dualview.mixture import DualViewMixture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Users = NDArray[np.intp]

# The Okabe-Ito colours with wine for yellow, which is lost on white, and for black, which is kept for the truth. The two
# lengths have no common factor: 70 clusters before a pair comes again.
_COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#882255", "#56B4E9", "#D55E00")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", "*", ">")
_MUTED = "0.4"
_TRUTH: dict[str, Any] = {"marker": "_", "color": "black", "s": 36, "linewidths": 1.5, "zorder": 3}
_LEGEND_ROWS = 12
_GAP = 1.5  # between clusters, in users


def features(model: DualViewMixture, X: Any, ax: "Axes | None" = None, columns: Sequence[int | str] = (0, 1)) -> "Axes":
    """Users in two of their features, by cluster.

    Parameters
    ----------
    model : fitted DualViewMixture
    X : array or DataFrame (U, D)
        Features of the users of the fit. A model fitted without features can be shown in them too.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    columns : two positions or names
        The columns on the horizontal and the vertical axis.

    Examples
    --------
    >>> import dualview as dv
    >>> from dualview import plots
    >>> forum = dv.datasets.agreement(n_users=20, n_threads=30, seed=1)
    >>> model = dv.DualViewMixture(n_warmup=50, n_draws=50, n_chains=1).fit(forum.features)
    >>> ax = plots.features(model, forum.features)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('feature x0', 'feature x1')
    """
    groups = _groups(model)
    n_users = len(model.labels_)
    values = numbers(X, "X", n_dims=2)
    if len(values) != n_users:
        raise InputError(f"X must have a row for each of the {n_users} users of the fit; got shape {values.shape}.")
    names = _feature_names(model, X, values.shape[1])
    across, up = _positions(columns, names)
    ax = _axes(ax)
    for cluster, users in groups:
        ax.scatter(values[users, across], values[users, up], label=f"{cluster}  ({len(users)})", **_style(cluster, n_users))
    ax.set_xlabel(names[across])
    ax.set_ylabel(names[up])
    _legend_of_clusters(ax)
    return ax


def latent(
    model: DualViewMixture, ax: "Axes | None" = None, probability: float = 0.95, truth: ArrayLike | None = None
) -> "Axes":
    """Each user's latent coefficient: posterior mean and central interval.

    Clusters stand side by side in the order of their mean coefficients, and users inside a cluster likewise. The dashed line
    is the mean of all users.

    Parameters
    ----------
    model : DualViewMixture fitted with a behaviour
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    probability : float
        Of the interval.
    truth : array (U,), optional
        The true coefficients where they are known, drawn as ticks.

    Examples
    --------
    >>> import dualview as dv
    >>> from dualview import plots
    >>> forum = dv.datasets.agreement(n_users=20, n_threads=30, seed=1)
    >>> behavior = dv.SharedOutcome(forum.participation, forum.outcome)
    >>> model = dv.DualViewMixture(n_clusters=1, n_warmup=50, n_draws=50, n_chains=1).fit(None, behavior)
    >>> plots.latent(model, truth=forum.latent).get_ylabel()
    'latent coefficient'
    """
    groups = _groups(model)
    low, high = _interval(model, probability)
    true = _truth(truth, len(low))
    mean = model.latent_
    ax = _axes(ax)
    first = 0.0
    centres = []
    for cluster, users in sorted(groups, key=lambda group: float(mean[group[1]].mean())):
        users = users[np.argsort(mean[users], kind="stable")]
        places = first + np.arange(len(users))
        style = _style(cluster, len(mean))
        ax.vlines(places, low[users], high[users], color=style["color"], linewidth=1.5, zorder=1)
        ax.scatter(places, mean[users], **style)
        if true is not None:
            ax.scatter(places, true[users], **_TRUTH)
        centres.append((float(places.mean()), str(cluster)))
        first = places[-1] + 1.0 + _GAP
    _label_latent(ax, centres, first - _GAP)
    _legend_of_latent(ax, float(mean.mean()), probability, true is not None)
    return ax


def overview(
    model: DualViewMixture,
    X: Any,
    columns: Sequence[int | str] = (0, 1),
    probability: float = 0.95,
    truth: ArrayLike | None = None,
) -> "Figure":
    """Both pictures side by side, on a figure of their own.

    Parameters
    ----------
    model, X, columns : as in :func:`features`
    probability, truth : as in :func:`latent`
    """
    require_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.35))
    features(model, X, left, columns).set_title("Features", loc="left")
    latent(model, right, probability, truth).set_title("Latent behaviour", loc="left")
    return figure


def require_matplotlib() -> None:
    """Raise unless matplotlib can be imported."""
    try:
        import matplotlib as _  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("Plots need matplotlib, which is not installed: pip install 'dualview[plots]'.") from error


def _axes(ax: "Axes | None") -> "Axes":
    if ax is not None:
        return ax
    require_matplotlib()
    from matplotlib import pyplot

    return pyplot.subplots(layout="constrained")[1]


def _groups(model: DualViewMixture) -> list[tuple[int, Users]]:
    """Each cluster of the partition estimate with its users."""
    if not hasattr(model, "posterior_"):
        raise InputError("The model is not fitted yet: call model.fit(X, behavior) first.")
    labels = model.labels_
    return [(int(cluster), np.flatnonzero(labels == cluster)) for cluster in np.unique(labels)]


def _style(cluster: int, n_users: int) -> dict[str, Any]:
    """Colour and marker of a cluster, smaller where users are many. A dark edge keeps light colours visible on white."""
    color, marker = _COLORS[cluster % len(_COLORS)], _MARKERS[cluster % len(_MARKERS)]
    size = float(np.clip(4200 / n_users, 6, 42))
    return {"color": color, "marker": marker, "s": size, "edgecolors": "0.15", "linewidths": 0.6, "zorder": 2}


def _feature_names(model: DualViewMixture, X: Any, n_features: int) -> list[str]:
    names = column_names(X)
    if names is None:
        names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    return names if len(names) == n_features else [f"feature x{j}" for j in range(n_features)]


def _positions(columns: Sequence[int | str], names: list[str]) -> tuple[int, int]:
    """The two columns as positions."""
    try:
        across, up = (names.index(c) if isinstance(c, str) else range(len(names))[operator.index(c)] for c in columns)
    except (TypeError, ValueError, IndexError):
        shown = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
        raise InputError(
            f"columns must be two positions or names among the {len(names)} column(s) of X ({shown}); got {columns!r}."
        ) from None
    return across, up


def _interval(model: DualViewMixture, probability: float) -> Array:
    """Ends of the central interval of each user's coefficient, (2, U)."""
    if "latent" not in model.posterior_:
        raise InputError("This model was fitted without a behaviour, so it has no latent coefficients: fit(X, behavior) has.")
    return model.posterior_.interval("latent", probability)


def _truth(truth: ArrayLike | None, n_users: int) -> Array | None:
    if truth is None:
        return None
    values = numbers(truth, "truth", n_dims=1)
    if len(values) != n_users:
        raise InputError(f"truth must have a value for each of the {n_users} users of the fit; got {len(values)}.")
    return values


def _label_latent(ax: "Axes", centres: list[tuple[float, str]], width: float) -> None:
    """The clusters' names under their middles, except where two would run into each other."""
    shown = centres[:1]
    for centre in centres[1:]:
        if centre[0] - shown[-1][0] > width / 30:
            shown.append(centre)
    ax.set_xticks([place for place, _ in shown], [name for _, name in shown])
    ax.set_xlim(-1.0, width)
    ax.tick_params(axis="x", length=0)
    ax.set_xlabel("users, by cluster")
    ax.set_ylabel("latent coefficient")


def _legend_of_latent(ax: "Axes", overall: float, probability: float, has_truth: bool) -> None:
    """In the upper left corner, which is free because clusters rise to the right."""
    handles: list[Any] = [ax.errorbar([], [], yerr=[], fmt="o", color=_MUTED)]
    names = [f"posterior mean, {100 * probability:g} % interval"]
    if has_truth:
        handles.append(ax.scatter([], [], **_TRUTH))
        names.append("truth")
    handles.append(ax.axhline(overall, color=_MUTED, linestyle="--", linewidth=1, zorder=0))
    ax.legend(handles, [*names, "mean of all users"], loc="upper left", frameon=False)


def _legend_of_clusters(ax: "Axes") -> None:
    """Beside the axes, where it hides nobody; the largest clusters when there are many."""
    handles, names = ax.get_legend_handles_labels()
    left_out = len(names) - _LEGEND_ROWS
    title = "cluster (users)" if left_out <= 0 else f"cluster (users)\n{_LEGEND_ROWS} largest of {len(names)}"
    ax.legend(
        handles[:_LEGEND_ROWS], names[:_LEGEND_ROWS], title=title, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False
    )
