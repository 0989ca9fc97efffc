"""The heat map of dependence shows its numbers, columns that go together beside each other."""

import numpy as np
import pytest

from dualview import plots
from dualview.errors import InputError
from dualview.posterior.prediction.dependence import Dependence


def known():
    """Four columns: a goes with c and b with d; a and d are hardly known."""
    draws = np.zeros((40, 4, 4))
    for i, j, value in ((0, 2, 1.0), (1, 3, 0.5), (0, 3, 0.01)):
        draws[:, i, j] = draws[:, j, i] = value
    draws[:, 0, 3] = draws[:, 3, 0] = np.linspace(0.0, 0.1, 40)
    draws[:, range(4), range(4)] = np.nan
    return Dependence(list("abcd"), 0.95, draws, np.zeros((4, 4)))


def test_cells_are_those_of_the_pairs(axes):
    found = known()
    assert plots.dependence(found, axes) is axes
    names = [tick.get_text() for tick in axes.get_xticklabels()]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == names
    assert abs(names.index("a") - names.index("c")) == 1
    assert abs(names.index("b") - names.index("d")) == 1
    shown = np.asarray(axes.images[0].get_array())
    expected = found.correlation.loc[names, names].to_numpy()
    np.testing.assert_allclose(shown, expected)
    assert shown[names.index("a"), names.index("c")] == pytest.approx(np.sqrt(1 - np.exp(-2.0)))
    assert sorted(text.get_text() for text in axes.texts)[-1] == "0.93"


def test_pairs_that_are_hardly_known_are_marked(axes):
    plots.dependence(known(), axes)
    names = [tick.get_text() for tick in axes.get_xticklabels()]
    marked = {
        frozenset((names[round(float(x))], names[round(float(y))]))
        for x, y in axes.lines[0].get_xydata()
    }
    assert marked == {frozenset("ad")}


def test_what_is_no_model_is_refused():
    with pytest.raises(InputError, match="Plots need a fitted DualViewMixture"):
        plots.dependence([1, 2])
