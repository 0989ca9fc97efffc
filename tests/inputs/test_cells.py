"""Tables as ``fit`` is given them: what the model sees, and what is refused."""

import numpy as np
import pandas as pd
import pytest

import dualview as dv
from dualview.errors import DataWarning, InputError
from dualview.inputs.cells import cell_coords
from dualview.inputs.data import checked_data
from dualview.inputs.parameters import Parameters
from dualview.inputs.problem import build_model


def users(n=30, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": rng.normal(40.0, 9.0, n).round(),
            "income": rng.lognormal(8.0, 0.4, n),
            "town": rng.choice(["Lyon", "Metz", "Nancy"], n),
        }
    )
    table.loc[2, "town"] = None
    table.loc[3, "income"] = np.nan
    return table


def data_of(X, y=None, **options):
    estimator = dv.DualViewMixture(**options)
    return estimator, checked_data(estimator, X, y)


class TestWhatTheModelSees:
    def test_a_table_of_mixed_kinds(self):
        estimator, data = data_of(users())
        model = build_model(Parameters.of(estimator), data).model
        assert data.features is None
        assert data.feature_names == ["age", "income"]
        assert [column.kind for column in data.codebook.columns] == [
            "count",
            "continuous",
            "nominal",
        ]
        assert model.intervals.n_cells == 31  # every age, and one income
        assert model.intervals.is_missing.sum() == 1
        assert model.others["categories"].vectors[2, 0] == -1.0
        assert list(estimator.feature_names_in_) == ["age", "income", "town"]

    def test_a_complete_array_is_what_it_was(self):
        X = users()[["age", "income"]].fillna(1.0).to_numpy()
        estimator, data = data_of(X)
        assert data.cells is None
        assert data.codebook is None
        np.testing.assert_array_equal(data.features, X)
        assert build_model(Parameters.of(estimator), data).model.intervals is None

    def test_an_array_with_gaps_is_continuous_with_missing_cells(self):
        X = np.random.default_rng(0).standard_normal((20, 2))
        X[4, 1] = np.nan
        estimator, data = data_of(X)
        assert data.cells.missing.sum() == 1
        assert build_model(Parameters.of(estimator), data).model.intervals.n_cells == 1

    def test_a_complete_table_of_continuous_columns_stays_a_matrix(self):
        X = pd.DataFrame(np.random.default_rng(0).standard_normal((20, 2)), columns=["a", "b"])
        _, data = data_of(X)
        assert data.cells is None
        assert [column.kind for column in data.codebook.columns] == ["continuous", "continuous"]

    def test_categories_alone(self):
        estimator, data = data_of(users()[["town"]].fillna("Lyon"))
        model = build_model(Parameters.of(estimator), data)
        assert model.model.features is None
        assert model.start_vectors().shape == (30, 3)

    def test_columns_can_be_set(self):
        _, data = data_of(users(), columns={"age": "continuous", "town": "ignore"})
        assert data.feature_names == ["age", "income"]
        assert not data.codebook.of("categories")

    def test_cells_are_named_in_the_order_in_which_they_are_drawn(self):
        estimator, data = data_of(users(6), columns={"income": "continuous"})
        model = build_model(Parameters.of(estimator), data).model
        rows, columns = model.intervals.cells
        expected = [f"{u}/{data.feature_names[d]}" for u, d in zip(rows, columns, strict=True)]
        assert cell_coords(data.codebook, data.cells, data.users)["cell"] == expected

    def test_indicators_have_a_total_variance_of_one_for_each_column(self):
        estimator, data = data_of(users(4000)[["town"]].fillna("Metz"))
        found = build_model(Parameters.of(estimator), data).start_vectors()
        assert found.var(axis=0).sum() == pytest.approx(1.0, abs=1e-3)

    @pytest.mark.parametrize(
        "prior",
        [None, "diagonal", "shrunk", dv.GaussianPrior([40.0, 3000.0], np.diag([80.0, 1e6]))],
    )
    def test_constants_of_the_prior(self, prior):
        estimator, data = data_of(users(), feature_prior=prior)
        units = build_model(Parameters.of(estimator), data).spec.units["features"]
        covariance = units.prior[1]
        assert np.linalg.eigvalsh(covariance)[0] > 0.0
        assert (prior == "diagonal") <= (covariance[0, 1] == 0.0)
        if isinstance(prior, dv.GaussianPrior):
            np.testing.assert_allclose(covariance, prior.covariance)


def test_a_link_follows_numbers_and_levels():
    behavior = dv.UserRegression(
        np.arange(30), np.ones((30, 1)), np.random.default_rng(0).standard_normal(30)
    )
    estimator, data = data_of(users(), behavior, link="linear")
    found = build_model(Parameters.of(estimator), data)
    names = found.coords["slope"]
    columns = found.model.likelihood.link.features
    assert columns.shape == (30, len(names))
    n_numbers = len(data.feature_names)
    np.testing.assert_array_equal(columns[:, :n_numbers], found.model.features)
    level, shares = names.index(names[n_numbers]), data.codebook.of("categories")[0].shares
    codes = data.cells.data["codes"][:, 0]
    expected = np.where(codes < 0, 0.0, (codes == 0) - shares[0])
    np.testing.assert_allclose(columns[:, level], expected)


class TestWhatIsRefused:
    def test_a_column_without_any_value(self):
        table = users().assign(shoe=np.nan)
        with pytest.raises(InputError, match="'shoe'"):
            data_of(table)

    def test_dates(self):
        table = users().assign(
            joined=pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(30), unit="D")
        )
        with pytest.raises(InputError, match="'joined' holds dates"):
            data_of(table)

    def test_a_kind_for_a_column_that_is_not_there(self):
        with pytest.raises(InputError, match="columns names 'agee', which X does not have"):
            data_of(users(), columns={"agee": "count"})

    def test_numbers_out_of_range(self):
        table = users().assign(
            big=np.where(np.arange(30) == 3, 1e200, np.random.default_rng(0).standard_normal(30))
        )
        with pytest.raises(InputError, match="big"):
            data_of(table)

    def test_infinite_numbers(self):
        table = users()
        table.loc[0, "income"] = np.inf
        with pytest.raises(InputError, match="income"):
            data_of(table)

    def test_a_single_user(self):
        with pytest.raises(InputError, match="at least two users"):
            data_of(
                pd.DataFrame({"a": [1.5], "b": [np.nan]}),
                columns={"a": "continuous", "b": "ignore"},
            )

    def test_a_user_without_any_cell_is_named_and_kept(self):
        table = users().drop(columns="age")
        table.loc[5] = [np.nan, None]
        with pytest.warns(
            DataWarning, match=r"1 user\(s\) have no cell observed in X: 5\. Nothing is known"
        ):
            _, data = data_of(table)
        assert data.n_users == 30

    def test_ties_among_numbers_that_are_taken_for_exact_are_named(self):
        table = users().assign(
            likes=np.where(np.arange(30) % 2, 0.0, np.random.default_rng(1).standard_normal(30))
        )
        estimator, data = data_of(table)
        with pytest.warns(
            DataWarning,
            match=r"share a value in column\(s\) likes, .* say in columns that they are counts",
        ):
            build_model(Parameters.of(estimator), data)

    def test_rounded_numbers_and_counts_are_no_ties(self, recwarn):
        estimator, data = data_of(users().drop(columns="income"))
        build_model(Parameters.of(estimator), data)
        assert not recwarn
