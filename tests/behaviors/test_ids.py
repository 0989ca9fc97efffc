"""Who is who: users of observations matched with the rows of X by their ids, or by position."""

import uuid

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dualview as dv
from dualview.behaviors.ids import id_text, whole_numbers
from dualview.errors import InputError
from dualview.inputs.data import Data, checked_data
from dualview.inputs.more_data import append_data
from dualview.inputs.new_users import among_new_users
from dualview.posterior.observations import observations_of

N = 6
FEATURES = np.random.default_rng(0).normal(size=(N, 2))


def data_of(X, y) -> Data:
    """The data of a fit, without the fit."""
    return checked_data(dv.DualViewMixture(), X, y)


def table(ids) -> pd.DataFrame:
    """Features of users with these ids, in this order; the first feature tells the id."""
    return pd.DataFrame(
        {
            "number": np.exp([float(str(user).lstrip("u")) / 7 for user in ids]),
            "other": FEATURES[: len(ids), 1],
        },
        index=ids,
    )


def regression(user, **options) -> dv.UserRegression:
    """Observations whose outcome is the number of the user."""
    numbers = [float(str(value).lstrip("u")) for value in np.asarray(user).tolist()]
    return dv.UserRegression(user, np.ones((len(numbers), 1)), numbers, **options)


def names_agree(data: Data) -> bool:
    """Whether observations are of the users in whose row their number is."""
    assert isinstance(data.behavior, dv.UserRegression)
    assert data.features is not None
    return np.allclose(7 * np.log(data.features[data.behavior.user, 0]), data.behavior.observed)


SHUFFLED = [3, 0, 5, 1, 4, 2]
KINDS = {
    "regression": lambda user: dv.UserRegression(
        user, np.ones((len(user), 1)), np.arange(len(user)) + 0.0
    ),
    "binary": lambda user: dv.BinaryOutcomes(
        user, np.ones((len(user), 1)), np.arange(len(user)) % 2
    ),
    "ordinal": lambda user: dv.OrdinalOutcomes(
        user, np.ones((len(user), 1)), np.arange(len(user)) % 3
    ),
    "choices": lambda user: dv.PairwiseChoices(user, [0] * len(user), [1] * len(user), np.eye(2)),
    "rankings": lambda user: dv.Rankings(
        user.repeat(2),
        np.arange(len(user)).repeat(2),
        np.tile([[0.0], [1.0]], (len(user), 1)),
        [1, 2] * len(user),
    ),
}


class TestWhatStrangersMet:
    def test_shuffled_table_with_the_same_numbers_as_its_index(self) -> None:
        """Once by position: the correlation of latent_ with the truth was -0.28 in such a fit,
        without a warning."""
        long = pd.DataFrame({"id": [0, 0, 1, 2, 3, 4, 5, 5]})
        data = data_of(table(SHUFFLED), regression(long["id"]))
        assert names_agree(data)
        assert data.users == [str(user) for user in SHUFFLED]

    def test_from_1_with_the_last_user_unobserved(self) -> None:
        """Once shifted by one."""
        data = data_of(table(range(1, N + 1)), regression(pd.Series([1, 2, 3, 4, 5])))
        assert names_agree(data)
        assert data.users == ["1", "2", "3", "4", "5", "6"]
        for X in (FEATURES, pd.DataFrame(FEATURES), pl.DataFrame(FEATURES)):
            with pytest.raises(
                InputError, match=r"from 1 to 5, without 0.* say n_users=6.*users=range\(1, 7\)"
            ):
                data_of(X, regression([1, 2, 3, 4, 5]))

    @pytest.mark.parametrize("make", [list, np.array, pd.Series, pl.Series])
    def test_nine_judges_are_nine_users(self, make) -> None:
        """Once ten, one of them a ghost."""
        data = data_of(None, regression(make([1, 2, 3, 4, 5, 6, 7, 8, 9, 9])))
        assert data.n_users == 9
        assert data.users == [str(judge) for judge in range(1, 10)]
        assert data.behavior is not None
        assert data.behavior.user.tolist() == [*range(9), 8]  # type: ignore[attr-defined]

    @pytest.mark.parametrize("kind", list(KINDS))
    def test_in_every_behavior(self, kind) -> None:
        user = pd.Series([0, 1, 2, 3, 4, 5])
        behavior = data_of(table(SHUFFLED), KINDS[kind](user)).behavior
        each = behavior.user.tolist()[:: 2 if kind == "rankings" else 1]  # type: ignore[union-attr]
        assert each == [SHUFFLED.index(number) for number in range(N)]
        assert data_of(None, KINDS[kind](user + 1)).users == ["1", "2", "3", "4", "5", "6"]

    @pytest.mark.parametrize("make", [list, np.array, pd.Series])
    @pytest.mark.parametrize("first", [2**63, 2**63 - 3, 2**70])
    def test_ids_that_no_64_bits_hold(self, make, first) -> None:
        """Once negative numbers, or a recursion without end."""
        ids = [first + number for number in SHUFFLED]
        X = table(SHUFFLED).set_axis(pd.Index(ids, dtype=object))
        user = make([ids[2], ids[0], ids[2]])
        behavior = dv.UserRegression(user, np.ones((3, 1)), np.arange(3.0))
        assert data_of(X, behavior).behavior.user.tolist() == [2, 0, 2]  # type: ignore[union-attr]
        assert data_of(None, behavior).n_users == 2
        weights = pd.DataFrame(PARTICIPATION, columns=pd.Index(sorted(ids), dtype=object))
        threads = data_of(X, dv.SharedOutcome(weights, OUTCOME)).behavior
        np.testing.assert_array_equal(threads.participation, PARTICIPATION[:, SHUFFLED])  # type: ignore[union-attr]
        texts = dv.UserRegression([str(user) for user in ids], np.ones((6, 1)), np.arange(6.0))
        with pytest.raises(InputError, match="user names users by text"):
            data_of(FEATURES, texts)

    @pytest.mark.parametrize("kind", [float, np.float64])
    def test_ids_that_floats_cannot_tell_apart(self, kind) -> None:
        """Once users became one without a word: long ids of a column where others are missing."""
        long = [kind(2**60), kind(2**60 + 1), kind(2**60 + 512)]
        for user in (long, np.array(long, dtype=object), pd.Series(long)):
            with pytest.raises(InputError, match=r"1152921504606847488, came as floats.*\"Int64\""):
                dv.UserRegression(user, np.ones((3, 1)), np.arange(3.0))
        with pytest.raises(InputError, match="came as floats, which have lost their last digits"):
            data_of(pd.DataFrame(FEATURES[:3], index=long), None)
        with pytest.raises(InputError, match="came as floats"):
            dv.SharedOutcome(pd.DataFrame(PARTICIPATION[:, :3], columns=long), OUTCOME)

    @pytest.mark.parametrize(
        "make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "Arrow"]
    )
    def test_ids_among_the_features(self, make) -> None:
        """Once they were a feature, and rows were matched by position."""
        X = make({"id": SHUFFLED, "other": FEATURES[:, 1], "more": FEATURES[:, 0]})
        behavior, part = regression(pd.Series([0, 3, 5], name="id")), [0, 2, 5]
        for y in (behavior, [behavior, regression(part)], {"a": regression(part), "b": behavior}):
            with pytest.raises(InputError, match=r"X has a column 'id'.*set_index\('id'\)"):
                data_of(X, y)
        for fine in (regression(part), regression(pd.Series(part, name="who"))):
            assert data_of(X, fine).users == range(N)
        named = pd.Series(part, name="id")
        assert data_of(X, regression(named, n_users=N)).users == range(N)
        assert data_of(X, regression(named, users=SHUFFLED)).users == [str(u) for u in SHUFFLED]
        with_index = pd.DataFrame(FEATURES, index=pd.Index(SHUFFLED, name="id"))
        assert data_of(with_index, behavior).behavior.user.tolist() == [1, 0, 2]  # type: ignore[union-attr]


class TestDecisions:
    """The table in the docstring of the module."""

    @pytest.mark.parametrize(
        "X", [FEATURES, pd.DataFrame(FEATURES), pl.DataFrame(FEATURES), FEATURES.tolist()]
    )
    @pytest.mark.parametrize(
        "user",
        [[5, 0, 2, 2], np.array([5, 0, 2, 2]), pd.Series([5, 0, 2, 2]), [5.0, 0.0, 2.0, 2.0]],
    )
    def test_rows_are_counted_from_0_where_x_has_no_ids(self, X, user) -> None:
        data = data_of(X, regression(user))
        assert data.users == range(N)
        assert data.behavior.user.tolist() == [5, 0, 2, 2]  # type: ignore[union-attr]
        assert data.behavior.users is None  # type: ignore[union-attr]

    @pytest.mark.parametrize(
        "make",
        [list, np.array, pd.Series, pd.Index, pl.Series, lambda x: pd.Series(x, dtype="Int64")],
    )
    @pytest.mark.parametrize("kind", [int, float, str])
    @pytest.mark.parametrize(
        "ids", [SHUFFLED, [30, 10, 20, 60, 50, 40], range(5, -1, -1), range(1, 7)]
    )
    def test_numbers_in_the_index(self, make, kind, ids) -> None:
        if kind is not int and make is not list:
            return
        user = [kind(ids[u]) for u in (4, 1, 1, 2)]
        if kind is float:
            user = [float(value) for value in user]
        X = table(ids if isinstance(ids, range) else list(ids))
        data = data_of(
            X.set_axis(pd.RangeIndex(ids.start, ids.stop, ids.step))
            if isinstance(ids, range)
            else X,
            regression(make(user)),
        )
        assert data.users == [str(value) for value in ids]
        assert data.behavior.user.tolist() == [4, 1, 1, 2]  # type: ignore[union-attr]

    def test_texts_of_numbers_in_the_index(self) -> None:
        data = data_of(table([str(user) for user in SHUFFLED]), regression([0, 1, 5]))
        assert names_agree(data)

    def test_zeros_in_front(self) -> None:
        """7 is not 007, but may have been: once 1 and 2 counted rows, in a table that calls users
        001 and 002."""
        X = table(["002", "000", "001"])
        for user in ([0, 1, 2], pd.Series([0, 1, 2])):
            with pytest.raises(InputError, match=r"behavior: 0, 1, 2\..*from 0, say n_users=3"):
                data_of(X, regression(user))
        counted = data_of(X, regression([0, 1, 2], n_users=3)).behavior
        assert counted.user.tolist() == [0, 1, 2]  # type: ignore[union-attr]

    def test_floats_in_the_index(self) -> None:
        data = data_of(table([float(user) for user in SHUFFLED]), regression([0, 1, 5]))
        assert names_agree(data)
        assert data.users[0] == "3"

    def test_text_in_the_index(self) -> None:
        ids = [f"u{user}" for user in SHUFFLED]
        assert names_agree(data_of(table(ids), regression(["u0", "u5"])))
        assert names_agree(
            data_of(table(ids), regression(pd.Series(["u0", "u5"], dtype="category")))
        )
        by_position = data_of(table(ids), regression([0, 5, 5])).behavior
        assert by_position.user.tolist() == [0, 5, 5]  # type: ignore[union-attr]
        assert by_position.users == ids  # type: ignore[union-attr]
        with pytest.raises(InputError, match="only in the behavior: 0, 5"):
            data_of(table(ids), regression(pd.Series([0, 5])))
        with pytest.raises(
            InputError,
            match=r"from 1 to 5, without 0.*n_users=6.*index of X does, which holds u3, u0",
        ):
            data_of(table(ids), regression([1, 5]))

    def test_who_is_not_in_x_is_named(self) -> None:
        with pytest.raises(InputError, match=r"only in the behavior: 7, 9\.$"):
            data_of(table(SHUFFLED), regression([0, 7, 9]))
        with pytest.raises(
            InputError,
            match=r"only in the behavior: 0, 1\. .* if user counts the rows of X from 0, say "
            r"n_users=6",
        ):
            data_of(table([10, 20, 30, 40, 50, 60]), regression([0, 1]))
        with pytest.raises(
            InputError, match=r"X has 6 rows, 0 to 5, and user holds 6 besides.*users=range\(1, 7\)"
        ):
            data_of(FEATURES, regression([1, 2, 3, 4, 5, 6]))

    def test_n_users_says_positions(self) -> None:
        assert data_of(FEATURES, regression([1, 2], n_users=N)).behavior.user.tolist() == [1, 2]  # type: ignore[union-attr]
        assert data_of(None, regression([1, 2], n_users=4)).users == range(4)
        data = data_of(table([10, 20, 30, 40, 50, 60]), regression([1, 2], n_users=N))
        assert data.behavior.user.tolist() == [1, 2]  # type: ignore[union-attr]
        with pytest.raises(
            InputError, match=r"user 1 is the user at position 1, called 0, or the one called 1"
        ):
            data_of(table(SHUFFLED), regression([1, 2], n_users=N))
        with pytest.raises(
            InputError, match=r"n_users must be at least 7.*if user holds ids, leave it out"
        ):
            regression([1, 6], n_users=6)

    def test_users_says_ids(self) -> None:
        data = data_of(FEATURES, regression([1, 6], users=range(1, 7)))
        assert data.behavior.user.tolist() == [0, 5]  # type: ignore[union-attr]
        assert data.users == ["1", "2", "3", "4", "5", "6"]
        assert names_agree(data_of(table(SHUFFLED), regression([1, 5], users=range(6))))

    def test_text_where_x_has_no_ids(self) -> None:
        digits = data_of(FEATURES, regression(["5", "0", "2"]))
        assert digits.behavior.user.tolist() == [5, 0, 2]  # type: ignore[union-attr]
        ordered = data_of(FEATURES, regression([f"u{user}" for user in range(N)]))
        assert ordered.users == [f"u{user}" for user in range(N)]
        unordered = [f"u{user}" for user in SHUFFLED]
        with pytest.raises(InputError, match=r"user names users by text, u3, u0, .*users=ids"):
            data_of(FEATURES, regression(unordered))
        assert data_of(FEATURES, regression(unordered, users=unordered)).users == unordered
        assert data_of(None, regression(unordered)).users == unordered

    def test_ids_must_be_there_and_differ(self) -> None:
        for user in ([1.5, 2.0], [0.0, np.nan], pd.Series([1, None], dtype="Int64"), ["a", None]):
            with pytest.raises(InputError, match="fractions or missing values"):
                dv.UserRegression(user, np.ones((2, 1)), [1.0, 2.0])
        with pytest.raises(InputError, match="must name each user once; more than once: 1"):
            data_of(pd.DataFrame(FEATURES[:3], index=[1, 2, 1]), None)
        for missing in ([1.0, np.nan, 2.0], pd.Index([1, None, 2], dtype="Int64")):
            with pytest.raises(
                InputError, match="The index of X must name every user; an id is missing"
            ):
                data_of(pd.DataFrame(FEATURES[:3], index=missing), None)

    def test_ids_are_compared_as_text(self) -> None:
        assert [
            id_text(value)
            for value in (7, 7.0, np.float32(7), np.int8(7), "7", "007", 7.5, 2**60 + 1)
        ] == [
            *["7"] * 5,
            "007",
            "7.5",
            str(2**60 + 1),
        ]
        assert whole_numbers(np.array(["1"])) is None
        assert whole_numbers(np.array([1, 2.5], dtype=object)) is None

    def test_a_part_keeps_everybody(self) -> None:
        """A part of the observations has the users of all of them, whatever is left."""
        behavior = regression([1, 2, 3, 4])
        assert data_of(None, behavior.take([0, 1])).users == ["1", "2", "3", "4"]
        first, last = behavior.take([0]), behavior.take([3])
        fitted = data_of(None, first).behavior
        assert fitted.like(last, 0).user.tolist() == [3]  # type: ignore[union-attr]


PARTICIPATION = np.arange(24.0).reshape(4, N) + 1.0
OUTCOME = np.arange(4.0)


class TestThreads:
    def threads(self, columns) -> dv.SharedOutcome:
        """Participation whose weights are the numbers of the users."""
        weights = np.tile([float(str(user).lstrip("u")) + 1.0 for user in columns], (4, 1))
        return dv.SharedOutcome(pd.DataFrame(weights, columns=columns), OUTCOME)

    def weights(self, X, columns) -> list[float]:
        behavior = data_of(X, self.threads(columns)).behavior
        assert isinstance(behavior, dv.SharedOutcome)
        return (behavior.participation[0] - 1.0).tolist()

    def test_columns_with_numbers(self) -> None:
        assert self.weights(table(SHUFFLED), [5, 4, 3, 2, 1, 0]) == SHUFFLED
        assert self.weights(table(SHUFFLED), [0, 1, 2, 3, 4, 5]) == SHUFFLED
        assert self.weights(table(range(1, 7)), [6, 5, 4, 3, 2, 1]) == [1, 2, 3, 4, 5, 6]
        assert self.weights(table([str(user) for user in SHUFFLED]), [5, 4, 3, 2, 1, 0]) == SHUFFLED
        assert self.weights(table(SHUFFLED), ["5", "4", "3", "2", "1", "0"]) == SHUFFLED

    def test_columns_with_numbers_where_x_has_no_ids(self) -> None:
        assert self.weights(pd.DataFrame(FEATURES), [5, 4, 3, 2, 1, 0]) == [0, 1, 2, 3, 4, 5]
        assert self.weights(FEATURES, [0, 1, 2, 3, 4, 5]) == [0, 1, 2, 3, 4, 5]
        assert data_of(FEATURES, self.threads([0, 1, 2, 3, 4, 5])).users == range(N)
        assert data_of(FEATURES, self.threads([1, 2, 3, 4, 5, 6])).users == [
            "1",
            "2",
            "3",
            "4",
            "5",
            "6",
        ]
        for X, columns in ((FEATURES, SHUFFLED), (pd.DataFrame(FEATURES), [6, 5, 4, 3, 2, 1])):
            with pytest.raises(InputError, match=r"pass participation\.to_numpy\(\).*give X ids"):
                data_of(X, self.threads(columns))

    def test_columns_that_pandas_has_counted(self) -> None:
        plain = dv.SharedOutcome(pd.DataFrame(PARTICIPATION), OUTCOME)
        assert data_of(FEATURES, plain).users == range(N)
        assert data_of(table(["u1", "u0", "u2", "u5", "u4", "u3"]), plain).users[0] == "u1"
        with pytest.raises(
            InputError, match=r"users=participation\.columns.*participation\.to_numpy\(\)"
        ):
            data_of(table(SHUFFLED), plain)
        named = dv.SharedOutcome(pd.DataFrame(PARTICIPATION), OUTCOME, users=range(N))
        behavior = data_of(table(SHUFFLED), named).behavior
        np.testing.assert_array_equal(behavior.participation, PARTICIPATION[:, SHUFFLED])  # type: ignore[union-attr]

    @pytest.mark.parametrize(
        "ids",
        [
            pd.MultiIndex.from_product([["x", "y"], [1, 2, 3]]),
            pd.Index([uuid.UUID(int=number) for number in range(N)]),
            pd.date_range("2020-01-01", periods=N),
            pd.Index([number + 0.5 for number in range(N)]),
            pd.Index(["a", 1, 2, 3, 4, "b"], dtype=object),
        ],
        ids=["pairs", "UUIDs", "dates", "fractions", "text and numbers"],
    )
    def test_columns_called_by_anything(self, ids) -> None:
        """Once taken for positions, without a word."""
        threads = dv.SharedOutcome(pd.DataFrame(PARTICIPATION, columns=ids), OUTCOME)
        X = pd.DataFrame(FEATURES, index=ids[SHUFFLED])
        data = data_of(X, threads)
        assert data.users == [str(user) for user in X.index.tolist()]
        np.testing.assert_array_equal(
            data.behavior.participation,  # type: ignore[union-attr]
            PARTICIPATION[:, SHUFFLED],
        )
        with pytest.raises(InputError, match="of the same users, by their ids; only in X"):
            data_of(table(SHUFFLED), threads)

    def test_columns_with_texts_of_numbers(self) -> None:
        texts = [str(user) for user in SHUFFLED]
        assert self.weights(pd.DataFrame(FEATURES), texts) == [0, 1, 2, 3, 4, 5]
        with pytest.raises(InputError, match="called by numbers, 3, 0, 5"):
            data_of(FEATURES, self.threads(texts))
        polars = dv.SharedOutcome(pl.DataFrame(PARTICIPATION, schema=texts), OUTCOME)
        np.testing.assert_array_equal(
            data_of(table(SHUFFLED), polars).behavior.participation, PARTICIPATION
        )  # type: ignore
        assert data_of(FEATURES, self.threads(["0", "1", "2", "3", "4", "5"])).users == [
            "0",
            "1",
            "2",
            "3",
            "4",
            "5",
        ]

    def test_without_x(self) -> None:
        assert data_of(None, self.threads([3, 1, 2])).users == ["3", "1", "2"]
        assert data_of(None, self.threads([0, 1, 2])).users == range(3)
        assert data_of(None, self.threads([3, 1, 2]).take([0, 1])).users == ["3", "1", "2"]

    def test_new_threads(self) -> None:
        fitted = data_of(table(SHUFFLED), self.threads([5, 4, 3, 2, 1, 0])).behavior
        assert isinstance(fitted, dv.SharedOutcome)
        with pytest.raises(InputError, match=r"users=participation\.columns"):
            fitted.like(pd.DataFrame(PARTICIPATION), 0)
        new = fitted.like(self.threads([1, 0, 3]), 0)
        assert (new.participation.toarray()[0] - 1.0).tolist() == [3.0, 0.0, -1.0, 1.0, -1.0, -1.0]
        counted = data_of(FEATURES, self.threads([0, 1, 2, 3, 4, 5])).behavior
        new = counted.like(self.threads([5, 4, 3, 2, 1, 0]), 0)  # type: ignore[union-attr]
        assert (new.participation.toarray()[0] - 1.0).tolist() == [0, 1, 2, 3, 4, 5]
        new = counted.like(self.threads([7, 6]), 2)  # type: ignore[union-attr]
        assert (new.participation.toarray()[0, 6:] - 1.0).tolist() == [6, 7]


def answers(user, **options) -> dv.BinaryOutcomes:
    return dv.BinaryOutcomes(user, np.ones((len(user), 1)), np.arange(len(user)) % 2, **options)


class TestSeveral:
    def test_each_by_its_own_ids(self) -> None:
        threads = dv.SharedOutcome(pd.DataFrame(np.ones((4, 2)), columns=[5, 3]), OUTCOME)
        behaviors = {
            "visits": regression(pd.Series([0, 1, 5])),
            "answers": answers([4, 2]),
            "posts": threads,
        }
        both = data_of(table(SHUFFLED), behaviors).behavior
        assert both["visits"].user.tolist() == [1, 3, 2]  # type: ignore[index]
        assert both["answers"].user.tolist() == [4, 5]  # type: ignore[index]
        assert both["posts"].participation.toarray()[0].tolist() == [1, 0, 1, 0, 0, 0]  # type: ignore[index]
        with pytest.raises(
            InputError,
            match=r"answers: X and behavior must be of the same users, .* only in the behavior: 9",
        ):
            data_of(table(SHUFFLED), {"visits": regression([0, 1]), "answers": answers([0, 9])})

    def test_without_x(self) -> None:
        data = data_of(None, [regression([1, 2, 2]), answers([3, 2])])
        assert data.users == ["1", "2", "3"]
        assert data.behavior["binary"].user.tolist() == [2, 1]  # type: ignore[index]
        data = data_of(None, [regression([0, 2]), answers([1, 0], n_users=2)])
        assert data.users == range(3)
        assert data.behavior["regression"].user.tolist() == [0, 2]  # type: ignore[index]
        threads = dv.SharedOutcome(pd.DataFrame(PARTICIPATION[:, :3], columns=[3, 1, 2]), OUTCOME)
        data = data_of(None, [threads, answers([1, 4, 3])])
        assert data.users == ["3", "1", "2", "4"]
        assert data.behavior["binary"].user.tolist() == [1, 3, 0]  # type: ignore[index]

    def test_rows_are_counted_where_x_has_no_ids(self) -> None:
        data = data_of(FEATURES, [regression([5, 0]), answers([5, 0, 1])])
        assert data.users == range(N)
        assert data.behavior["binary"].user.tolist() == [5, 0, 1]  # type: ignore[index]
        with pytest.raises(
            InputError, match="binary: user holds whole numbers from 1 to 5, without 0"
        ):
            data_of(FEATURES, [regression([5, 0]), answers([5, 1])])
        with pytest.raises(InputError, match="without 0, and another behavior has 6 users"):
            data_of(None, [dv.SharedOutcome(PARTICIPATION, OUTCOME), answers([5, 1])])

    def test_text_and_numbers(self) -> None:
        with pytest.raises(InputError, match="without ids: binary"):
            data_of(None, [regression(["u1", "u2"]), answers([1, 2])])
        assert data_of(None, [regression(["1", "2"]), answers([2, 3])]).users == ["1", "2", "3"]
        with pytest.raises(InputError, match="users=ids"):
            data_of(FEATURES[:3], [regression(["u2", "u1"]), answers(["u0", "u2"])])

    def test_splits_keep_everybody(self) -> None:
        over = dv.ObservationKFold(
            dv.DualViewMixture(), table(SHUFFLED), [regression([0, 1, 5]), answers([4, 2])]
        )
        part = over._taken(np.array([[1], [3]]))
        assert part.users == [str(user) for user in SHUFFLED]
        assert data_of(over.features, part).behavior["regression"].user.tolist() == [3]  # type: ignore[index]


def test_several_tables() -> None:
    first, second = table(SHUFFLED), table(sorted(SHUFFLED)).reset_index(drop=True)
    for tables in (
        {"a": first, "b": second},
        {"a": second, "b": first},
        {"a": first, "b": second.iloc[::-1]},
    ):
        data = data_of(tables, regression(pd.Series([0, 3])))
        assert data.users == [
            str(user)
            for user in (SHUFFLED if tables["a"] is first or tables["b"] is first else range(N))
        ]
        np.testing.assert_allclose(data.features[:, 0], data.features[:, 2])  # type: ignore[index]
        assert names_agree(data)
    with_array = data_of({"a": first, "b": first.to_numpy()}, None)
    np.testing.assert_array_equal(with_array.features[:, 0], with_array.features[:, 2])  # type: ignore[index]


class TestItems:
    def test_items_by_the_numbers_of_their_index(self) -> None:
        items = pd.DataFrame({"price": [1.0, 2.0, 3.0]}, index=[2, 0, 1])
        choices = dv.PairwiseChoices([0, 1], [0, 2], pd.Series([2, 1]), items)
        assert choices.winner.tolist() == [1, 0]
        assert choices.loser.tolist() == [0, 2]
        assert dv.PairwiseChoices(
            [0, 1], [0, 2], [2, 1], items.reset_index(drop=True)
        ).winner.tolist() == [0, 2]

    def test_rankings_taken_apart_keep_ids(self) -> None:
        user = pd.Series([4, 2])
        made = dv.PairwiseChoices.from_rankings(user, [[0, 1], [1, 0]], np.eye(2))
        with pytest.raises(InputError, match="only in the behavior: 2, 4"):
            data_of(table(["u0", "u1", "u2", "u3", "u4", "u5"]), made)
        assert data_of(table(SHUFFLED), made).behavior.user.tolist() == [4, 5]  # type: ignore[union-attr]


class TestNewObservations:
    by_ids = data_of(table(SHUFFLED), regression([0, 1, 2, 3, 4, 5])).behavior
    by_text = data_of(
        table([f"u{user}" for user in SHUFFLED]), regression([0, 1, 2, 3, 4, 5])
    ).behavior
    by_position = data_of(FEATURES, regression([0, 1, 2, 3, 4, 5])).behavior

    @pytest.mark.parametrize("user", [[5, 0], pd.Series([5, 0]), ["5", "0"], [5.0, 0.0]])
    def test_numbers_are_read_as_those_of_the_fit(self, user) -> None:
        new = regression(user)
        assert self.by_ids.like(new, 0).user.tolist() == [2, 1]
        if not isinstance(user[0], str):
            assert self.by_position.like(new, 0).user.tolist() == [5, 0]

    def test_positions_among_users_with_text_as_ids(self) -> None:
        assert self.by_text.like(regression([5, 0]), 0).user.tolist() == [5, 0]
        assert self.by_text.like(regression(["u5", "u0"]), 0).user.tolist() == [2, 1]
        with pytest.raises(InputError, match=r"2 user\(s\) unknown to the fit \(0, 5\)"):
            self.by_text.like(regression(pd.Series([5, 0])), 0)

    def test_what_may_be_both(self) -> None:
        with pytest.raises(
            InputError,
            match=r"user 5 is the user at position 5, called 2.*leave n_users "
            r"out.*X\.index\[user\]",
        ):
            self.by_ids.like(regression([5], n_users=N), 0)

    def test_ids_where_the_fit_has_none(self) -> None:
        with pytest.raises(
            InputError,
            match=r"knows its users by position, and new observations name them by ids \(u5, …\)",
        ):
            self.by_position.like(regression(["u5"]), 0)

    @pytest.mark.parametrize("make", [list, pd.Series])
    def test_new_users_are_those_of_the_rows_of_x_new(self, make) -> None:
        new = regression(make([9, 7, 3]))
        found = self.by_ids.like(among_new_users(self.by_ids, new, ["9", "8", "7"]), 3)
        assert found.user.tolist() == [6, 8, 0]
        found = self.by_position.like(among_new_users(self.by_position, new, ["9", "8", "7"]), 3)
        assert found.user.tolist() == [6, 8, 3]
        alone = regression(make([0, 1]))
        found = self.by_position.like(among_new_users(self.by_position, alone, ["1", "0"]), 2)
        assert found.user.tolist() == [7, 6]
        assert self.by_position.like(
            among_new_users(self.by_position, alone, ["6", "7"]), 2
        ).user.tolist() == [6, 7]

    @pytest.mark.parametrize("kind", list(KINDS))
    def test_numbers_that_may_count_new_users_alone(self, kind) -> None:
        """Once users 0 and 1 of the fit were predicted as the two new ones."""
        fitted = data_of(FEATURES, KINDS[kind](pd.Series(range(N)))).behavior
        new = KINDS[kind](pd.Series([0, 1, 1]))
        message = r"of the fit, or the new ones alone.* say n_users=8\..* alone, say n_users=2\."
        with pytest.raises(InputError, match=message):
            fitted.forecast(new, np.zeros((3, N, 1)), {}, 2)  # type: ignore[union-attr]
        for user in ([0, 5, 5], [6, 7, 7]):
            fitted.check_who_is_new(KINDS[kind](pd.Series(user)), 2)  # type: ignore[union-attr]
        for n_users, user in ((2, [6, 7]), (8, [0, 1])):
            said = new.with_users([0, 1], None, n_users)
            fitted.check_who_is_new(said, 2)  # type: ignore[union-attr]
            assert np.unique(fitted.like(said, 2).user).tolist() == user  # type: ignore[union-attr]

    def test_new_users_with_text_as_ids(self) -> None:
        new = regression(["u9", "u3", "u7"])
        assert self.by_text.like(
            among_new_users(self.by_text, new, ["u7", "u9"]), 2
        ).user.tolist() == [7, 0, 6]
        alone = regression(["u9", "u7"])
        assert self.by_position.like(
            among_new_users(self.by_position, alone, ["u7", "u9"]), 2
        ).user.tolist() == [7, 6]

    def test_threads_of_new_users(self) -> None:
        threads = dv.SharedOutcome(np.eye(N), np.arange(N), users=SHUFFLED)
        new = pd.DataFrame([[1.0, 2.0, 3.0]], columns=[9, 3, 7])
        found = threads.like(among_new_users(threads, new, ["7", "9"]), 2)
        assert found.participation.toarray()[0].tolist() == [2, 0, 0, 0, 0, 0, 3, 1]

    def test_several_behaviors(self) -> None:
        fitted = data_of(
            table(SHUFFLED), {"a": regression([0, 1, 5]), "b": answers([4, 2])}
        ).behavior
        new = among_new_users(fitted, {"a": regression([9, 3]), "b": answers([7, 9])}, ["7", "9"])
        found = fitted.new(new)  # type: ignore[union-attr]
        assert found.parts["a"].user.tolist() == [7, 0]
        assert found.parts["b"].user.tolist() == [6, 7]


class TestMoreData:
    def test_by_ids(self) -> None:
        data = data_of(table(SHUFFLED), regression([0, 1, 5]))
        estimator = dv.DualViewMixture()
        estimator.n_features_in_, estimator.feature_names_in_ = (
            2,
            np.array(["number", "other"], dtype=object),
        )
        more = append_data(estimator, data, table([8, 7]), regression([7, 3, 8]))
        assert more.data.users == [*data.users, "8", "7"]
        assert names_agree(more.data)

    def test_rows_that_continue(self) -> None:
        data = data_of(pd.DataFrame(FEATURES[:4], columns=["a", "b"]), regression([0, 1, 3]))
        estimator = dv.DualViewMixture()
        estimator.n_features_in_, estimator.feature_names_in_ = (
            2,
            np.array(["a", "b"], dtype=object),
        )
        frame = pd.DataFrame(FEATURES, columns=["a", "b"])
        more = append_data(estimator, data, frame[4:], regression([4, 5, 0]))
        assert more.data.users == range(N)
        assert more.data.behavior.user.tolist() == [0, 1, 3, 4, 5, 0]  # type: ignore[union-attr]
        with pytest.raises(InputError, match="by position"):
            append_data(estimator, data, frame[2:], None)

    def test_numbers_that_may_count_new_users_alone(self) -> None:
        data = data_of(FEATURES[:4], regression([0, 1, 3]))
        estimator = dv.DualViewMixture()
        estimator.n_features_in_ = 2
        with pytest.raises(InputError, match=r"say n_users=6\..* alone, say n_users=2\."):
            append_data(estimator, data, FEATURES[4:], regression([1, 0]))
        for n_users, user in ((2, [5, 4]), (6, [1, 0])):
            more = append_data(estimator, data, FEATURES[4:], regression([1, 0], n_users=n_users))
            assert more.data.behavior.user.tolist() == [0, 1, 3, *user]  # type: ignore[union-attr]

    def test_without_features(self) -> None:
        judges = data_of(None, regression([1, 2, 3]))
        more = append_data(dv.DualViewMixture(), judges, None, regression([4, 2]))
        assert more.data.users == ["1", "2", "3", "4"]
        assert more.data.behavior.user.tolist() == [0, 1, 2, 3, 1]  # type: ignore[union-attr]
        counted = data_of(None, regression([0, 1, 2]))
        assert append_data(
            dv.DualViewMixture(), counted, None, regression([3, 1])
        ).data.users == range(4)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    st.permutations(range(N)),
    st.sampled_from(["numbers", "texts of numbers", "texts"]),
    st.sampled_from(list(KINDS)),
)
def test_shuffled_rows_change_the_order_of_users_only(order, names, kind) -> None:
    make = {"numbers": int, "texts of numbers": str, "texts": lambda number: f"u{number}"}[names]
    ids = [make(number) for number in range(2, N + 2)]
    behavior = KINDS[kind](pd.Series([ids[u] for u in (4, 1, 0, 3, 1)]))
    sorted_rows, shuffled = (
        data_of(table([ids[u] for u in rows]), behavior) for rows in (range(N), order)
    )
    assert [sorted_rows.users[u] for u in order] == shuffled.users
    owners = [[data.users[u] for u in data.behavior.user] for data in (sorted_rows, shuffled)]  # type: ignore[union-attr]
    assert owners[0] == owners[1]


def test_fits_and_their_files(tmp_path) -> None:
    rng = np.random.default_rng(3)
    judges, truth = np.repeat(np.arange(1, 10), 6), np.tile([-4.0, 0.0, 4.0], 3)
    behavior = dv.UserRegression(
        judges, np.ones((54, 1)), truth[judges - 1] + 0.1 * rng.normal(size=54)
    )
    model = dv.DualViewMixture(n_warmup=30, n_draws=30, n_chains=1).fit(None, behavior)
    np.testing.assert_allclose(model.latent_, truth, atol=0.5)
    model.posterior_.save(tmp_path / "judges.nc")
    again = dv.DualViewMixture.from_posterior(dv.load(tmp_path / "judges.nc"))
    assert again.posterior_.user_ids == [str(judge) for judge in range(1, 10)]
    for user in ([9, 1], pd.Series([9, 1]), ["9", "1"]):
        np.testing.assert_allclose(
            again.predict_outcome(dv.UserRegression(user, np.ones((2, 1)))).mean,
            [4.0, -4.0],
            atol=0.5,
        )
    reversed_rows = behavior.take(np.arange(54)[::-1])
    found = observations_of(again.posterior_, reversed_rows)
    assert found.user.tolist() == (judges[::-1] - 1).tolist()  # type: ignore[union-attr]

    order = rng.permutation(9)
    features = pd.DataFrame(
        {"a": truth + rng.normal(size=9), "b": rng.normal(size=9)}, index=range(1, 10)
    ).iloc[order]
    model = dv.DualViewMixture(n_warmup=30, n_draws=30, n_chains=1).fit(features, behavior)
    np.testing.assert_allclose(model.latent_, truth[order], atol=0.5)
    assert model.posterior_.user_ids == [str(judge) for judge in features.index]
