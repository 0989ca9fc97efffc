"""Queries of a fitted mixture: what its columns say about each other, and about their own cells."""

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dualview.checks import interval_ends, whole_number
from dualview.errors import InputError
from dualview.inputs.given_cells import read_cells, together
from dualview.posterior import Posterior
from dualview.posterior.prediction.candidates import Candidates
from dualview.posterior.prediction.cell_table import CellTable, places_of
from dualview.posterior.prediction.cells_given import cell_given
from dualview.posterior.prediction.densities import log_density
from dualview.posterior.prediction.dependence import Dependence, dependence_of
from dualview.posterior.prediction.simulation import simulated
from dualview.posterior.prediction.surprise import Surprise

Unknown = Literal["error", "missing"]


class Queries:
    """Questions about the features of a fit: densities, draws and predictions of some cells given
    others, dependence of columns, surprising cells.

    All of them are about the posterior predictive distribution of a user who is new to the fit: the
    mean over draws of the mixture of all clusters and a new one. What is given reweights draws and
    clusters, as a user with these cells would. Behavior has no part in it but for the clusters it
    has helped to find.
    """

    if TYPE_CHECKING:
        posterior_: Posterior

        def _candidates(self) -> Candidates: ...
        def _few_candidates(self) -> Candidates: ...

    def sample(
        self, n: int, given: Any = None, *, unknown: Unknown = "error", seed: int = 0
    ) -> pd.DataFrame:
        """Made-up users: n independent draws of rows from the posterior predictive distribution.

        Parameters
        ----------
        n : int
            Number of users.
        given : dict, pandas row or table with one row, optional
            Cells that all of them have: ``{"town": "Lyon", "age": 30}``. Columns that are not named
            are drawn.
        unknown : "error" or "missing"
            How to handle a level of a category that the fit has not seen.
        seed : int
            Seed; the same seed gives the same users.

        Returns
        -------
        pandas.DataFrame
            A row for each user with the columns of the fit: whole counts, rounded numbers, levels
            as categories; of censored columns numbers by the column's name.

        Examples
        --------
        >>> import numpy as np, pandas as pd
        >>> import dualview as dv
        >>> rng = np.random.default_rng(0)
        >>> town = np.where(np.arange(40) % 2, "Metz", "Lyon")
        >>> rent = rng.normal(np.where(np.arange(40) % 2, 900.0, 600.0), 50.0)
        >>> users = pd.DataFrame({"town": town, "rent": rent})
        >>> model = dv.DualViewMixture(2, engine=dv.Gibbs(n_warmup=100), n_draws=100, n_chains=1)
        >>> made = model.fit(users).sample(200, {"town": "Metz"})
        >>> list(made), bool(800 < made["rent"].median() < 1000)
        (['town', 'rent'], True)
        """
        self._check_features()
        whole_number(n, "n", 1)
        whole_number(seed, "seed", 0)
        found = read_cells(self, self.posterior_, given, "given", unknown)
        if len(found) != 1:
            raise InputError(
                f"given must be one row, which all users that are made up have; it has "
                f"{len(found)}. Call sample for each."
            )
        return simulated(np.random.default_rng(seed), self._candidates(), found, n)

    def log_density(
        self, rows: Any, given: Any = None, *, unknown: Unknown = "error"
    ) -> NDArray[np.float64]:
        """Log posterior predictive density of the cells of each row, given others, (J,).

        Exact numbers count with their density in the units of the table, all other cells with
        their probability: rounded numbers, counts, ratings, intervals, categories. Missing cells
        are integrated out, and so are columns that are not there. For full rows without ``given``
        it is :meth:`score_samples`.

        Parameters
        ----------
        rows : table, array or dict
            Rows with some or all columns of the fit.
        given : dict, table or array, optional
            Cells of other columns: one row, or one for each of ``rows``.
        unknown : "error" or "missing"
            How to handle a level of a category that the fit has not seen.

        Examples
        --------
        >>> import numpy as np
        >>> import dualview as dv
        >>> x = np.random.default_rng(0).normal(size=(30, 2))
        >>> model = dv.DualViewMixture(1, engine=dv.Gibbs(n_warmup=50), n_draws=50, n_chains=1)
        >>> model = model.fit(x)
        >>> first = model.log_density({"x0": 0.5})
        >>> second = model.log_density({"x1": 1.0}, given={"x0": 0.5})
        >>> bool(np.allclose(first + second, model.log_density({"x0": 0.5, "x1": 1.0})))
        True
        """
        self._check_features()
        asked = read_cells(self, self.posterior_, rows, "rows", unknown)
        whole, known = together(asked, read_cells(self, self.posterior_, given, "given", unknown))
        found = log_density(self._candidates(), whole)
        return found if given is None else found - log_density(self._candidates(), known)

    def predict_cells(
        self,
        column: str,
        given: Any = None,
        *,
        n_draws: int = 1000,
        unknown: Unknown = "error",
        seed: int = 0,
    ) -> Any:
        """Predictive distribution of one column given cells of others.

        Parameters
        ----------
        column : str
            Name of the column.
        given : dict, table or array, optional
            Cells of other columns: one row, or several, for each of which there is a prediction.
        n_draws : int
            Draws of given cells that are known to an interval only, as counts and ratings are. If
            there are none the distribution is a sum over all draws of the posterior.
        unknown : "error" or "missing"
            How to handle a level of a category that the fit has not seen.
        seed : int
            Seed of these draws.

        Returns
        -------
        NormalMixture, IntervalMixture, CountMixture or CellLevels
            With mean, median, std, interval, quantile, draws and log_density for numbers; of levels
            their ``probabilities``, and ``most_probable``.

        Examples
        --------
        >>> import numpy as np
        >>> import dualview as dv
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(60, 2))
        >>> x[:, 1] = x[:, 0] + 0.1 * x[:, 1]
        >>> model = dv.DualViewMixture(1, engine=dv.Gibbs(n_warmup=100), n_draws=100, n_chains=1)
        >>> p = model.fit(x).predict_cells("x1", given={"x0": [1.0, -1.0]})
        >>> p.median.round(), bool((p.std < 0.2).all())
        (array([ 1., -1.]), True)
        """
        self._check_features()
        whole_number(n_draws, "n_draws", 1)
        whole_number(seed, "seed", 0)
        known = list(places_of(self.posterior_))
        if column not in known:
            raise InputError(
                f"The fit has no column {column!r}; its columns are {', '.join(known[:8])}"
                f"{', …' if len(known) > 8 else ''}."
            )
        asked = read_cells(self, self.posterior_, given, "given", unknown)
        if not asked.missing[:, known.index(column)].all():
            raise InputError(
                f"{column!r} is to be predicted, but given has a value of it: make it missing, or "
                "ask for its density by log_density."
            )
        return cell_given(self._candidates(), asked, column, n_draws, seed)

    def dependence(self, *, probability: float = 0.95) -> Dependence:
        """How much columns tell about each other: the mutual information of each pair, with its
        interval over draws of the posterior.

        It is computed in 200 draws: by a sum if both columns have levels, else by a mean over users
        that are made up, whose number grows until the standard error of the mean is a tenth of the
        interval's width, up to 8192 users. 0: independent; dependence of any form counts, inside
        clusters and between them. Counts, ratings and rounded numbers count as they are recorded.

        Parameters
        ----------
        probability : float
            Probability of the intervals.

        Returns
        -------
        Dependence
            ``matrix``, ``low``, ``high`` and ``correlation`` are data frames with a row and a
            column for each column of the fit; ``pairs`` has a row for each pair, the strongest
            first. ``dv.plots.dependence`` draws it.

        Examples
        --------
        >>> import numpy as np
        >>> import dualview as dv
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(60, 3))
        >>> x[:, 1] = x[:, 0] + 0.5 * x[:, 1]
        >>> model = dv.DualViewMixture(1, engine=dv.Gibbs(n_warmup=100), n_draws=100, n_chains=1)
        >>> found = model.fit(x).dependence()
        >>> found.pairs.loc[0, ["column", "other"]].tolist()
        ['x0', 'x1']
        """
        self._check_features()
        interval_ends(probability)
        nothing = CellTable.nothing(self.posterior_)
        if len(nothing.names) < 2:
            raise InputError("Dependence is of two columns; the fit has one.")
        return dependence_of(self._few_candidates(), nothing, probability)

    def surprising_cells(self, n: int = 20) -> pd.DataFrame:
        """Which entries of the fit's table look wrong: the cells that are least probable given the
        rest of their rows.

        Each cell is judged as if it had not been there: its user is taken out of the clusters, and
        200 draws are weighted so that they are those of a fit without the cell. Behavior is not
        used. Columns of kinds that were registered from outside the package are left out.

        Parameters
        ----------
        n : int
            Number of cells.

        Returns
        -------
        pandas.DataFrame
            A row for each cell, the most surprising first. Columns: user, column, value; expected,
            low_95, high_95: what the rest of the row lets expect, median and interval, or the most
            probable level; probability: of a value at least as far out on either side, half of its
            own included where values repeat, and of categories of the levels that are at most as
            probable; unsure: the weights rest on fewer than a tenth of the draws. Of U × D cells
            that are as the model says about U × D × p have a probability below p.

        Examples
        --------
        >>> import numpy as np
        >>> import dualview as dv
        >>> x = np.random.default_rng(0).normal(size=(60, 2))
        >>> x[:, 1] = x[:, 0] + 0.1 * x[:, 1]
        >>> x[7] = [1.5, -1.5]
        >>> model = dv.DualViewMixture(1, engine=dv.Gibbs(n_warmup=100), n_draws=100, n_chains=1)
        >>> model.fit(x).surprising_cells(2)["user"].tolist()
        [7, 7]
        """
        self._check_features()
        whole_number(n, "n", 1)
        candidates = self._few_candidates()
        return Surprise(candidates.post, candidates).most_surprising(n)

    def _check_features(self) -> None:
        check_is_fitted(self, "posterior_")
        if not self.posterior_.has_features:
            raise InputError(
                "This model was fitted without features, so there are no columns to ask about: "
                "call fit(X, behavior)."
            )
