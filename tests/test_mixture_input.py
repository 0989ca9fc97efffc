"""What DualViewMixture does with input of every kind: bad input is told why, odd input is used
right."""

import contextlib
import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from scipy.integrate import quad
from scipy.stats import wishart

import dualview as dv
from dualview.errors import DataWarning, DegenerateError, InputError
from dualview.inputs.features import can_shrink, repeats_text, tied_columns

# These runs are too short to converge, and say so.
pytestmark = pytest.mark.filterwarnings("ignore::dualview.errors.ConvergenceWarning")

QUICK = {"n_warmup": 5, "n_draws": 3, "n_chains": 1}
N_USERS, N_THREADS = 12, 20
_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(N_USERS, 2))
PARTICIPATION = (_RNG.random((N_THREADS, N_USERS)) < 0.5).astype(float)
OUTCOME = PARTICIPATION @ _RNG.normal(size=N_USERS) + _RNG.normal(size=N_THREADS)


def fit(features=X, behavior=None, **options):
    return dv.DualViewMixture(**(QUICK | options)).fit(features, behavior)


def shared(participation=PARTICIPATION, outcome=OUTCOME, **options):
    return dv.SharedOutcome(participation, outcome, **options)


def with_value(array, index, value):
    changed = np.array(array, dtype=None if isinstance(value, float) else object)
    changed[index] = value
    return changed


def finite(model):
    return all(np.isfinite(model.posterior_[name]).all() for name in model.posterior_.names)


class TestFeatures:
    @pytest.mark.parametrize("value", [np.inf, -np.inf])
    def test_not_finite(self, value):
        bad = with_value(with_value(X, (3, 1), value), (7, 1), value)
        with pytest.raises(
            InputError,
            match=r"X must be finite; .* in rows 3, 7, column\(s\) x1\. Drop or fill them first",
        ):
            fit(bad)
        with pytest.raises(
            InputError, match=r"Column 'height' has infinite values, in rows 3, 7\."
        ):
            fit(pd.DataFrame(bad, columns=["age", "height"]))
        with pytest.raises(InputError, match=r"Column 'x1' has infinite values, in rows 3, 7\."):
            fit(with_value(bad, (1, 0), np.nan))

    def test_missing_values(self):
        for table in (
            pd.DataFrame({"a": pd.array([1, None, *range(10)], dtype="Int64"), "b": X[:, 0]}),
            pl.DataFrame({"a": [1.0, None, *X[2:, 0]], "b": X[:, 0]}),
            with_value(X, (1, 0), np.nan),
        ):
            assert finite(fit(table))
        with pytest.raises(InputError, match=r"in row 2, column\(s\) x0\."):
            fit(with_value(X, (2, 0), None))

    @pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
    def test_text(self, library):
        assert finite(fit(library({"age": X[:, 0], "job": ["nurse", "clerk"] * 6})))
        with pytest.raises(
            InputError,
            match=r"Column 'job' has 12 levels for 12 users, .* columns=\{'job': 'ignore'\}",
        ):
            fit(library({"age": X[:, 0], "job": [str(i) for i in range(N_USERS)]}))

    def test_other_things_that_are_no_numbers(self):
        with pytest.raises(
            InputError, match=r"X must hold numbers only; got text, such as a, in column\(s\) 0, 1"
        ):
            fit([["a", "b"]] * N_USERS)
        with pytest.raises(InputError, match=r"Column 'day' holds dates or time spans"):
            fit(pd.DataFrame({"day": pd.date_range("2020", periods=N_USERS), "b": X[:, 0]}))
        with pytest.raises(InputError, match="X must hold numbers only; got complex numbers"):
            fit(X + 1j)

    @pytest.mark.parametrize("unit", ["D", "ms", "us", "ns"])
    def test_dates_and_spans_of_polars(self, unit):
        days = np.datetime64("2020-01-01") + np.arange(N_USERS)
        series = (
            pl.Series(days).cast(pl.Date)
            if unit == "D"
            else pl.Series(days).cast(pl.Datetime(unit))
        )
        for odd in (series, series - series[0]):
            table = pl.DataFrame({"a": X[:, 0], "when": odd, "b": X[:, 1]})
            with pytest.raises(InputError, match=r"Column 'when' holds dates or time spans"):
                fit(table)
        hours = pl.DataFrame({"clock": pl.Series([datetime.time(h) for h in range(N_USERS)])})
        with pytest.raises(InputError, match=r"Column 'clock' holds dates or time spans"):
            fit(hours)
        with pytest.raises(
            InputError, match=r"covariates must hold numbers only; got .*, in column\(s\) when\."
        ):
            shared(covariates=pl.DataFrame({"when": pl.Series(np.arange(N_THREADS)).cast(pl.Date)}))
        with pytest.raises(InputError, match="outcome must hold numbers only; got "):
            shared(outcome=pl.Series(np.arange(N_THREADS)).cast(pl.Date))

    def test_periods_and_intervals_of_pandas(self):
        months = pd.period_range("2020-01", periods=N_USERS, freq="M")
        with pytest.raises(InputError, match=r"Column 'month' holds dates or time spans"):
            fit(pd.DataFrame({"a": X[:, 0], "month": months}))
        assert finite(fit(pd.DataFrame({"a": X[:, 0], "bin": pd.cut(X[:, 1], 3)})))
        with pytest.raises(InputError, match=r"Column 'pair' holds lists or records"):
            fit(pd.DataFrame({"a": X[:, 0], "pair": [[1.0, 2.0]] * N_USERS}))

    def test_repeated_names_of_columns(self):
        table = pd.DataFrame(np.column_stack([X, X[:, 0] ** 2]), columns=["age", "height", "age"])
        with pytest.raises(
            InputError,
            match=r"X must name each column once; more than once: age\. Rename or drop them",
        ):
            fit(table)
        with pytest.raises(
            InputError, match=r"covariates must name each column once; more than once: hour\."
        ):
            shared(covariates=pd.DataFrame(np.zeros((N_THREADS, 2)), columns=["hour", "hour"]))
        with pytest.raises(
            InputError, match=r"design must name each column once; more than once: dose\."
        ):
            dv.UserRegression(
                [0, 1], pd.DataFrame(np.zeros((2, 2)), columns=["dose", "dose"]), [1.0, 2.0]
            )

    def test_names_with_a_nul(self):
        with pytest.raises(
            InputError,
            match=r"The name of a feature has a NUL character: 'a\\x00ge'\. Give it another",
        ):
            fit(pd.DataFrame(X, columns=["a\0ge", "height"]))

    def test_more_columns_than_memory_has_room_for(self, monkeypatch):
        monkeypatch.setattr("dualview.checks.memory", lambda: 1e3)
        with pytest.raises(
            InputError,
            match=r"X has 2 columns: 100 draws of two 2 × 2 matrices take .* Leave columns out",
        ):
            fit(n_draws=100)
        assert finite(fit(n_draws=3))

    @pytest.mark.parametrize("bad", [X[:, 0], 3.0, np.zeros((3, 3, 3))])
    def test_wrong_dimensions(self, bad):
        with pytest.raises(
            InputError, match=r"X must be .*, a row per user; .* X\.reshape\(-1, 1\)"
        ):
            fit(bad)

    @pytest.mark.parametrize("bad", [pd.Series(X[:, 0]), pl.Series(X[:, 0])])
    def test_a_series(self, bad):
        with pytest.raises(
            InputError, match=r"X must be .*, a row per user; got a Series\. .* X\.to_frame\(\)"
        ):
            fit(bad)

    @pytest.mark.parametrize("n_users", [0, 1])
    def test_fewer_than_two_users(self, n_users):
        with pytest.raises(
            InputError, match=rf"A mixture needs at least two users; X has {n_users} sample\(s\)"
        ):
            fit(X[:n_users])
        if n_users:
            with pytest.raises(InputError, match="A mixture needs at least two users; got 1"):
                fit(None, shared(PARTICIPATION[:, :1]))

    def test_sparse(self):
        with pytest.raises(TypeError, match=r"dense data is required.*\.toarray\(\)"):
            fit(sparse.csr_array(X))

    def test_a_behavior_in_their_place(self):
        with pytest.raises(
            InputError,
            match=r"X takes the users' features; got a behavior\. .* fit\(None, behavior\)",
        ):
            fit(shared())

    def test_nothing_at_all(self):
        with pytest.raises(
            InputError, match="fit needs features X, a behavior, or both; got neither"
        ):
            fit(None)

    @pytest.mark.parametrize(
        "form",
        [np.float32, object, lambda x: x.tolist(), np.asfortranarray, pl.DataFrame, pd.DataFrame],
    )
    def test_every_form_of_numbers_is_the_same(self, form):
        rounded = X.astype(np.float32).astype(float)
        given = (
            rounded.astype(form)
            if isinstance(form, type) and form in (np.float32, object)
            else form(rounded)
        )
        np.testing.assert_array_equal(fit(given).posterior_["z"], fit(rounded).posterior_["z"])

    def test_integers(self):
        integers = np.round(1000 * X).astype(int)
        np.testing.assert_array_equal(
            fit(integers).posterior_["z"], fit(integers.astype(float)).posterior_["z"]
        )


class TestUsers:
    def test_mismatch(self):
        with pytest.raises(
            InputError,
            match=r"X has 5 rows, the behavior has 12 users\. Give both the same users, in the "
            r"same order",
        ):
            fit(X[:5], shared())

    def test_transposed_participation(self):
        with pytest.raises(
            InputError, match=r"got \(12, 20\)\. It looks transposed: pass participation\.T\."
        ):
            shared(PARTICIPATION.T)
        with pytest.raises(
            InputError,
            match=r"It has 12 threads: .* it is transposed and participation\.T is right",
        ):
            fit(X, shared(PARTICIPATION.T, None))
        with pytest.raises(
            InputError, match=r"got \(12, 20\)\. It looks transposed: pass participation\.T\."
        ):
            fit(X, shared()).predict_outcome(PARTICIPATION.T)

    def test_a_behavior_without_outcome(self):
        with pytest.raises(InputError, match="Outcomes are needed here"):
            fit(X, shared(outcome=None))

    def test_one_thread(self):
        with pytest.raises(InputError, match="A fit needs at least two threads; got 1"):
            fit(X, shared(PARTICIPATION[:1], OUTCOME[:1]))

    def test_a_class_in_the_place_of_a_behavior(self):
        with pytest.raises(InputError, match="y must be a behavior; got the class SharedOutcome"):
            fit(X, dv.SharedOutcome)

    def test_constant_outcome(self):
        with pytest.raises(InputError, match="outcome is constant"):
            fit(X, shared(outcome=np.full(N_THREADS, 0.1)))


class TestParameters:
    @pytest.mark.parametrize(
        "name", ["n_draws", "n_warmup", "thin", "n_chains", "n_auxiliary", "n_clusters"]
    )
    @pytest.mark.parametrize("value", [-1, 0, 1.5, 2.0, True, "3"])
    def test_counts(self, name, value):
        if (name, value) == ("n_warmup", 0) and value is not False:
            assert finite(fit(n_warmup=0))
            return
        with pytest.raises(
            InputError, match=rf"{name}.* must be a whole number of at least [01]; got {value!r}\."
        ):
            fit(**{name: value})

    def test_fits_that_would_never_end(self):
        message = (
            r"at most 1,000,000,000 iterations per chain; got 5 \+ 3 × 1,000,000,000,000 "
            r"= 3,000,000,000,005\. Draw fewer"
        )
        with pytest.raises(InputError, match=message):
            fit(thin=10**12)
        with pytest.raises(InputError, match=r"n_chains must be at most 10,000; got 1,000,000,000"):
            fit(n_chains=10**9)

    def test_more_clusters_than_users(self):
        with pytest.raises(
            InputError, match=r"n_clusters must be at most the number of users, 12; got 13\."
        ):
            fit(n_clusters=13)
        assert fit(n_clusters=12).n_clusters_ <= 12

    @pytest.mark.parametrize("name", ["feature_prior", "behavior_prior"])
    def test_priors(self, name):
        wanted = (
            rf"{name} must be a GaussianPrior\(mean, covariance\)(, \"shrunk\", "
            r"\"diagonal\"|, \"likelihood\") or None; got "
        )
        for value in ((0.0, 1.0), "wide", dv.GaussianPrior):
            with pytest.raises(InputError, match=wanted):
                fit(X, shared(), **{name: value})
        with pytest.raises(InputError, match=rf"{name} must have [12] dimension\(s\); got 3"):
            fit(X, shared(), **{name: dv.GaussianPrior(np.zeros(3), np.eye(3))})

    def test_priors_of_absent_views(self):
        with pytest.warns(DataWarning, match="behavior_prior is not used"):
            fit(X, behavior_prior=dv.GaussianPrior(0, 1))
        with pytest.warns(DataWarning, match="feature_prior is not used"):
            fit(None, shared(), feature_prior=dv.GaussianPrior(0, 1))

    @pytest.mark.parametrize(
        ("init", "message"),
        [
            (
                "k-means",
                r"init must be 'kmeans', 'one', 'variational' or an array of labels; got "
                r"'k-means'\.",
            ),
            ([0] * 5, r"a label per user, shape \(12,\); got list of shape \(5,\)"),
            (np.zeros((12, 1)), r"got ndarray of shape \(12, 1\)"),
            (None, "got NoneType"),
            (3, "got int"),
            (
                [0, np.nan] * 6,
                r"got NaN in rows 1, 3, 5, 7, 9, … \(6 in all\)\. .* init\.astype\(int\)",
            ),
            ([0.0, 0.5] * 6, r"got floats\. .* init\.astype\(int\)"),
            ([None, 1] * 6, r"init must hold a whole number or a name per user; got \[None, 1"),
        ],
    )
    def test_init(self, init, message):
        with pytest.raises(InputError, match=message):
            fit(init=init)

    def test_init_with_too_many_clusters(self):
        with pytest.raises(InputError, match="init has 12 clusters, more than n_clusters = 3"):
            fit(init=np.arange(12), n_clusters=3)

    @pytest.mark.parametrize("value", ["a", 1.5, -1, True, [1, 2]])
    def test_random_state(self, value):
        with pytest.raises(
            InputError,
            match="random_state must be an int from 0, a Generator, a RandomState or None; got ",
        ):
            fit(random_state=value)

    @pytest.mark.parametrize(
        "make", [np.random.default_rng, np.random.RandomState, np.int64, lambda _: 2**70]
    )
    def test_random_states(self, make):
        one, other = (fit(random_state=make(3)).posterior_["features.base_mean"] for _ in range(2))
        np.testing.assert_array_equal(one, other)
        assert not np.array_equal(fit(random_state=None).posterior_["features.base_mean"], one)

    @pytest.mark.parametrize("value", [0, 1.5, "two"])
    def test_n_jobs(self, value):
        with pytest.raises(InputError, match="n_jobs must be None or a whole number other than 0"):
            fit(n_jobs=value)

    def test_progress(self, capsys):
        with pytest.raises(InputError, match="progress must be True, False or a function"):
            fit(progress="yes")
        seen = []
        fit(progress=lambda *now: seen.append(now), n_chains=2)
        assert sorted(now[:2] for now in seen) == [(c, i) for c in range(2) for i in range(1, 9)]
        fit(progress=True)
        assert "8 of 8 iterations" in capsys.readouterr().err


class TestPrediction:
    def test_wrong_threads(self):
        model = fit(X, shared())
        for bad, message in (
            (
                PARTICIPATION[:, :5],
                r"New threads must be of the 12 users of the fit, \(n_threads, 12\); got \(20, 5\)",
            ),
            (PARTICIPATION[0], r"participation must be a table .* participation\.reshape\(1, -1\)"),
            (PARTICIPATION * np.nan, "participation must be finite"),
            (None, "participation must be a table"),
            (
                shared(intercept=True),
                r"must have the coefficients of the fit, none; got \['intercept'\]",
            ),
        ):
            with pytest.raises(InputError, match=message):
                model.predict_outcome(bad)

    def test_wrong_covariates(self):
        hour = pd.DataFrame({"hour": np.arange(20.0)})
        model = fit(X, shared(covariates=hour, intercept=True))
        for bad in (
            {},
            {"intercept": True},
            {"covariates": hour},
            {"covariates": hour.to_numpy(), "intercept": True},
        ):
            with pytest.raises(
                InputError,
                match=r"must have the coefficients of the fit, \['intercept', 'hour'\]; got ",
            ):
                model.predict_outcome(shared(outcome=None, **bad))
        assert (
            len(model.predict_outcome(shared(outcome=None, covariates=hour, intercept=True))) == 20
        )

    def test_new_users(self):
        model, without = fit(X, shared()), fit(None, shared())
        assert model.predict_proba(X[:1]).shape == (1, model.n_clusters_ + 1)
        with pytest.raises(InputError, match="Give at least one user; X has 0"):
            model.predict(X[:0])
        with pytest.raises(
            InputError, match=r"fitted without features, so it cannot place users by them"
        ):
            without.predict(X)
        with pytest.raises(InputError, match=r"give behavior_new"):
            without.predict_latent()
        with pytest.raises(InputError, match=r"has the 12 users of the fit and no new one"):
            without.predict_latent(None, shared())

    def test_without_behavior(self):
        with pytest.raises(
            InputError, match=r"fitted without a behavior, .* call fit\(X, behavior\)"
        ):
            fit().predict_outcome(PARTICIPATION)

    def test_every_form_of_new_threads_is_the_same(self):
        model = fit(X, shared())
        expected = model.predict_outcome(PARTICIPATION).mean
        for new in (
            PARTICIPATION.astype(bool),
            sparse.coo_matrix(PARTICIPATION),
            pl.DataFrame(PARTICIPATION),
            shared(),
        ):
            np.testing.assert_allclose(model.predict_outcome(new).mean, expected, rtol=1e-9)


def same_draws(one, other):
    np.testing.assert_array_equal(one.posterior_["z"], other.posterior_["z"])
    for name in ("latent", "noise_precision", "features.base_mean"):
        np.testing.assert_allclose(
            one.posterior_[name], other.posterior_[name], rtol=1e-6, atol=1e-9
        )


LONGER = {"n_warmup": 30, "n_draws": 20}


class TestFormsOfParticipation:
    @pytest.mark.parametrize(
        "form",
        [
            sparse.csr_array,
            sparse.csc_array,
            sparse.coo_array,
            sparse.csr_matrix,
            sparse.csc_matrix,
            sparse.coo_matrix,
            lambda p: p.astype(bool),
            lambda p: p.astype(np.int8),
            lambda p: p.astype(object),
            lambda p: sparse.csr_array(p.astype(bool)),
            lambda p: p.tolist(),
            pd.DataFrame,
            pl.DataFrame,
        ],
    )
    def test_all_are_the_same(self, form):
        same_draws(fit(X, shared(form(PARTICIPATION)), **LONGER), fit(X, shared(), **LONGER))

    @pytest.mark.parametrize("n_threads", [4, 20])
    def test_sparse_is_dense_with_covariates_and_few_threads(self, n_threads):
        extra = {
            "covariates": np.random.default_rng(1).normal(size=(n_threads, 2)),
            "intercept": True,
        }
        dense, other = (
            fit(X, shared(form(PARTICIPATION[:n_threads]), OUTCOME[:n_threads], **extra), **LONGER)
            for form in (np.asarray, sparse.csr_array)
        )
        same_draws(dense, other)

    def test_duplicates_and_explicit_zeros(self):
        rows, columns = np.nonzero(PARTICIPATION)
        halves = (
            np.full(2 * len(rows) + 1, 0.5),
            (np.append(np.tile(rows, 2), 0), np.append(np.tile(columns, 2), 0)),
        )
        halves[0][-1] = 0.0
        given = sparse.coo_array(halves, shape=PARTICIPATION.shape)
        same_draws(fit(X, shared(given), **LONGER), fit(X, shared(), **LONGER))

    @pytest.mark.parametrize("form", [pd.Series, pl.Series, list, lambda y: y.astype(object)])
    def test_outcomes(self, form):
        same_draws(fit(X, shared(outcome=form(OUTCOME))), fit(X, shared()))


class TestSilence:
    def test_silent_users_and_empty_threads_are_allowed(self):
        participation = PARTICIPATION.copy()
        participation[:, 3] = 0.0
        participation[5] = 0.0
        for form in (np.asarray, sparse.csr_array):
            model = fit(X, shared(form(participation)), n_draws=50)
            assert finite(model)
            assert model.predict_outcome(np.zeros((1, N_USERS))).mean == pytest.approx(0.0)


class TestScale:
    @pytest.mark.parametrize("scale", [1e-150, 1e-98, 1e-30, 1e30, 1e98, 1e150])
    @pytest.mark.parametrize("what", ["X", "column", "outcome", "participation", "covariates"])
    def test_far_scales_work_or_are_told(self, scale, what):
        features = X * {"X": scale, "column": np.array([1.0, scale])}.get(what, 1.0)
        covariates = np.random.default_rng(0).normal(size=(N_THREADS, 2))

        def model():
            behavior = shared(
                PARTICIPATION * (scale if what == "participation" else 1.0),
                OUTCOME * (scale if what == "outcome" else 1.0),
                covariates=covariates * (scale if what == "covariates" else 1.0),
                intercept=True,
            )
            return fit(features, behavior, n_draws=50)

        if 1e-100 < scale < 1e100:
            assert finite(model())
        else:
            with pytest.raises(
                InputError, match=r"is too (small|large) to compute with.* Use another unit\."
            ):
                model()

    @pytest.mark.parametrize("outlier", [1e3, 1e6, 1e9, 1e12])
    def test_an_extreme_outlier(self, outlier):
        features = with_value(X, (4, 0), outlier)
        model = fit(features, n_warmup=200, n_draws=200)
        assert finite(model)
        assert (model.posterior_["z"] == model.posterior_["z"][..., 4:5]).sum(axis=-1).mean() < 1.5
        assert finite(fit(X, shared(outcome=with_value(OUTCOME, 4, outlier)), n_draws=100))

    def test_an_outlier_that_swallows_every_digit(self):
        with pytest.raises(
            DegenerateError, match=r"features view has collapsed|extreme value in its row"
        ):
            fit(with_value(X, (4, 0), 1e18), n_draws=300)

    @pytest.mark.parametrize("offset", [1e6, -1e9])
    def test_a_far_origin(self, offset):
        assert finite(fit(X + offset, shared(outcome=OUTCOME + offset, intercept=True), n_draws=50))


class TestRank:
    @pytest.mark.filterwarnings(
        "ignore:The features span .* there are only"
    )  # tests/test_many_features.py
    @pytest.mark.parametrize(
        ("features", "message"),
        [
            (np.column_stack([X, np.full(12, 0.1)]), r"span 2 of 3 dimensions \(constant: x2\)"),
            (
                np.column_stack([X, X[:, 0] - 3 * X[:, 1] + 1]),
                r"span 2 of 3 dimensions \(linearly dependent: x0, x1, x2\)",
            ),
            (
                np.column_stack([X, 1e9 * X[:, 0]]),
                r"span 2 of 3 dimensions \(linearly dependent: x0, x2\)",
            ),
            (
                np.column_stack([1e12 * X[:, 0], X[:, 1], 7e-6 * X[:, 1]]),
                r"span 2 of 3 dimensions \(linearly dependent: x1, x2\)",
            ),
            (
                np.random.default_rng(0).normal(size=(5, 8)),
                r"span 4 of 8 dimensions \(only 5 users for 8 features;",
            ),
            (X[:2], r"span 1 of 2 dimensions \(only 2 users for 2 features;"),
            (np.random.default_rng(0).normal(size=(4, 50)), r"x0, x1, x2, x3, x4, … \(50 in all\)"),
        ],
    )
    def test_deficient_features_work_with_a_warning(self, features, message):
        with pytest.warns(DataWarning, match=message):
            model = fit(features, n_draws=100)
        assert finite(model)
        assert model.posterior_["features.base_mean"].shape == (1, 100, features.shape[1])

    def test_the_warning_names_the_columns(self):
        table = pl.DataFrame({"age": X[:, 0], "height": X[:, 1], "inches": X[:, 1] / 0.0254})
        with pytest.warns(DataWarning, match=r"span 2 of 3 .*linearly dependent: height, inches\)"):
            fit(table)
        with pytest.raises(
            InputError,
            match=r"Column 'planet' has one value only, 3: .* columns=\{'planet': 'ignore'\}",
        ):
            fit(table.with_columns(planet=3.0))

    def test_constant_columns_change_no_draws(self):
        with pytest.warns(DataWarning, match="constant: x2"):
            model = fit(np.column_stack([X, np.ones(12)]), n_draws=50)
        assert np.ptp(model.posterior_["features.base_mean"][..., 2]) == 0.0

    def test_all_constant(self):
        with pytest.raises(InputError, match=r"All features are constant: .* Pass X=None"):
            fit(np.ones((5, 2)))


class TestTies:
    """A column in which many users share a value lets clusters shrink onto it."""

    rng = np.random.default_rng(5)
    numbers = rng.normal(size=(60, 2))

    def column(self, values):
        return np.column_stack([self.numbers, values])

    @pytest.mark.parametrize(
        "values",
        [
            rng.integers(0, 2, 60),
            rng.integers(0, 9, 60),
            np.where(rng.random(60) < 0.5, 0.0, rng.normal(size=60)),
        ],
        ids=["flag", "category", "many zeros"],
    )
    def test_are_named(self, values):
        features = self.column(values.astype(float))
        np.testing.assert_array_equal(tied_columns(features), [False, False, True])
        table = pd.DataFrame(features, columns=["age", "height", "likes"])
        kinds = {
            "columns": dict.fromkeys(table, "continuous")
        }  # else they are categories, counts or rounded numbers
        for options in (
            {},
            {"n_clusters": 3},
            {"feature_prior": dv.GaussianPrior(np.zeros(3), np.eye(3))},
        ):
            warned = pytest.warns(
                DataWarning, match=r"share a value in column\(s\) likes, .* Leave these columns out"
            )
            with (
                warned,
                contextlib.suppress(DegenerateError),
            ):  # a cluster may shrink onto the value at once
                fit(table, **kinds, **options)

    def test_one_cluster_cannot_shrink(self):
        assert finite(fit(self.column(self.rng.integers(0, 2, 60)), n_clusters=1, n_draws=100))

    @pytest.mark.parametrize(
        "values",
        [rng.normal(size=60), np.round(rng.normal(size=60), 1), rng.integers(18, 70, 60)],
        ids=["numbers", "rounded", "years"],
    )
    def test_measurements_are_left_alone(self, values):
        assert not tied_columns(self.column(values.astype(float))).any()

    @pytest.mark.parametrize("seed", range(5))
    def test_iris_is_left_alone(self, seed):
        assert not tied_columns(dv.datasets.iris(seed=seed).features).any()

    def test_small_samples_are_left_alone(self):
        assert not tied_columns(X[:5]).any()
        assert not tied_columns(np.array([[1.0], [2.0], [2.0], [3.0], [4.0]])).any()

    @pytest.mark.filterwarnings("ignore:Many users share a value")
    def test_what_the_warning_is_about(self):
        """Half the users at 0: their variance shrinks until the run stops, or to where rounding
        holds it."""
        values = np.where(np.arange(60) < 30, 0.0, self.numbers[:, 0])
        smallest = 0.0
        with contextlib.suppress(DegenerateError):
            model = fit(np.column_stack([values, self.numbers[:, 1]]), n_draws=2000)
            smallest = model.posterior_["features.base_covariance"][0, :, 0, 0].min()
        assert smallest < 1e-25


class TestRepeats:
    """Users with the same features in all columns."""

    names = tuple("abcdefghijkl")

    def repeated(self, n_sets=2):
        features = np.random.default_rng(3).normal(size=(12, 3))
        features[12 - n_sets :] = features[:n_sets]
        return pd.DataFrame(features, index=list(self.names))

    def test_are_named(self):
        warned = pytest.warns(
            DataWarning,
            match=r"same features in all columns: a, k; b, l\. .* give X as a table and say so "
            r"in columns",
        )
        with warned, contextlib.suppress(DegenerateError):
            fit(self.repeated())

    def test_rows_have_numbers_where_they_have_no_names(self):
        warned = pytest.warns(DataWarning, match=r"same features in all columns: 0, 11\.")
        with warned, contextlib.suppress(DegenerateError):
            fit(self.repeated(1).to_numpy())

    def test_many_are_not_all_named(self):
        rows = [np.arange(6), np.array([6, 9]), np.array([7, 10]), np.array([8, 11])]
        text = repeats_text(rows, self.names)
        assert text.endswith("columns: a, b, c, d, … (6 users); g, j; h, k; … (4 sets of users).")

    def test_the_error_names_them_too(self):
        """Pairs alone in their clusters: within some hundreds of steps W_0 is singular."""
        features = np.random.default_rng(1).normal(size=(40, 3))
        features[35:] = features[:5]
        with (
            pytest.warns(DataWarning, match="same features"),
            pytest.raises(
                DegenerateError,
                match=r"features view has collapsed.* same features in all columns: 0, 35; 1, 36; ",
            ),
        ):
            fit(features, n_warmup=0, n_draws=20_000, alpha="paper")

    @pytest.mark.parametrize(
        ("sizes", "n_dims", "n_clusters", "expected"),
        [
            ([], 1, None, False),
            ([2], 5, None, True),
            ([2], 2, 3, False),
            ([4], 2, 3, True),
            ([3], 2, 3, False),
            ([2, 2, 2], 2, 4, True),
            ([2, 2, 2], 2, 3, False),
            ([2], 5, 19, True),
            ([2], 5, 18, False),
            ([9], 1, 1, False),
        ],
    )
    def test_which_make_the_posterior_improper(self, sizes, n_dims, n_clusters, expected):
        sets = [np.arange(size) for size in sizes]
        assert can_shrink(sets, 20, n_dims, n_clusters) is expected

    @pytest.mark.parametrize("n_dims", [1, 2, 4])
    def test_a_pair_is_enough(self, n_dims):
        """(M6) times the density of a pair without its mean goes as 1/ω as the variance ω of W_0 in
        one direction goes to 0.

        That has an infinite integral. d is the distance of the mean from the pair in that
        direction.
        """
        dof, omegas, logs = n_dims + 1.0, [1e-6, 1e-8], []
        for omega in omegas:
            covariance = np.diag(np.append(omega, np.ones(n_dims - 1)))
            edge = np.sqrt(omega)
            pair, _ = quad(
                lambda d, w=dof * omega: (1 + 2 * d * d / w) ** (-0.5 * (dof + 2)) / w,
                -1,
                1,
                points=[-edge, edge],
            )
            logs.append(wishart(n_dims, np.eye(n_dims) / n_dims).logpdf(covariance) + np.log(pair))
        assert np.diff(logs)[0] / np.diff(np.log(omegas))[0] == pytest.approx(-1.0, abs=1e-3)


def test_warnings_point_at_the_line_that_calls_fit():
    even = PARTICIPATION / PARTICIPATION.sum(axis=1, keepdims=True)
    few = dv.UserRegression(
        np.arange(N_USERS), _RNG.normal(size=(N_USERS, 2)), _RNG.normal(size=N_USERS)
    )
    cases = {
        "is ignored, as scikit-learn": (X, np.zeros(N_USERS)),
        "span 2 of 3 dimensions": (np.column_stack([X, np.ones(N_USERS)]), None),
        "share a value": (np.column_stack([X[:, 0], X[:, 1] > 0]), None),
        "same features": (with_value(X, 1, X[0]), None),
        "pooling is not used": (X, None),
        "add up to the same total": (None, shared(even, intercept=True)),
        "observations and 2 coefficients": (None, few),
    }
    for text, (features, behavior) in cases.items():
        options = {"pooling": "cluster" if text.startswith("pooling") else None}
        with pytest.warns(DataWarning) as caught:
            dv.DualViewMixture(**QUICK, **options).fit(features, behavior)
        assert [warning.filename for warning in caught if text in str(warning.message)] == [
            __file__
        ], text
