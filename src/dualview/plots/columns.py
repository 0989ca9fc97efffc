"""Plots of columns: a heat map of how much they tell about each other."""

from typing import TYPE_CHECKING

import numpy as np

from dualview.mixture import DualViewMixture
from dualview.plots.canvas import ALERT, Array, Users, one_panel, posterior_of
from dualview.posterior.prediction.dependence import Dependence

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_NUMBERS = 12  # columns whose cells carry their numbers
_CELL = 0.5  # inches


def dependence(model: DualViewMixture | Dependence, ax: "Axes | None" = None) -> "Axes":
    """How much each pair of columns tell about each other, from 0 to 1: the ``correlation`` of
    ``model.dependence()``.

    Of two columns that are jointly normal it is the absolute correlation. Columns that go together
    are next to each other. A cell is marked where the mutual information is hardly known: where
    the interval over draws is wider than its mean.

    Parameters
    ----------
    model : fitted DualViewMixture or Dependence
        A model, or what its ``dependence()`` has returned.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Examples
    --------
    >>> import numpy as np
    >>> import dualview as dv
    >>> from dualview import plots
    >>> x = np.random.default_rng(0).normal(size=(40, 3))
    >>> model = dv.DualViewMixture(1, engine=dv.Gibbs(n_warmup=50), n_draws=50, n_chains=1)
    >>> plots.dependence(model.fit(x)).images[0].get_array().shape
    (3, 3)
    """
    found = _found(model)
    strength = found.correlation.to_numpy()
    order = _by_likeness(strength)
    shown, n = strength[np.ix_(order, order)], len(order)
    size = max(3.6, 1.6 + _CELL * n)
    ax = one_panel(ax, (size + 0.8, size))
    image = ax.imshow(shown, cmap="Greys", vmin=0.0, vmax=1.0)
    ax.figure.colorbar(image, ax=ax, label="strength of dependence")
    names = [found.columns[place] for place in order]
    ax.set_xticks(range(n), names, rotation=90 if n > 4 else 0)
    ax.set_yticks(range(n), names)
    ax.tick_params(length=0)
    width = (found.high - found.low).to_numpy()[np.ix_(order, order)]
    unsure = width > found.matrix.to_numpy()[np.ix_(order, order)]
    for i in range(n):
        for j in range(n):
            if i != j and n <= _MOST_NUMBERS:
                color = "white" if shown[i, j] > 0.5 else "black"
                text = f"{shown[i, j]:.2f}"
                ax.text(j, i, text, ha="center", va="center", color=color, fontsize=8)
    rows, columns = np.nonzero(unsure & ~np.eye(n, dtype=bool))
    ax.plot(columns + 0.36, rows - 0.36, ".", color=ALERT, markersize=4)
    return ax


def _found(model: DualViewMixture | Dependence) -> Dependence:
    if isinstance(model, Dependence):
        return model
    posterior_of(model)  # refuses what is no fitted model
    return model.dependence()


def _by_likeness(strength: Array) -> Users:
    """Columns in an order in which those that go together are next to each other: from the one that
    goes with most, each time the one that goes best with the last."""
    left, order = list(range(len(strength))), []
    known = np.nan_to_num(strength, nan=0.0)
    here = int(np.argmax(known.sum(axis=0)))
    while left:
        left.remove(here)
        order.append(here)
        if left:
            here = max(left, key=lambda place: float(known[order[-1], place]))
    return np.array(order)
