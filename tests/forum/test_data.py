"""What is made of the posts, against slow twins."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import dualview as dv
from dualview.columns import Columns
from dualview.errors import InputError
from dualview.forum.covariates import section_levels
from forum import small

POSTS = small.posts()
M = 3


def read(posts: Any = POSTS, **options: Any) -> dv.forum.ForumData:
    return dv.forum.read_forum(posts, **{"first": M, "min_threads": 3} | options)


def lengths(posts: pd.DataFrame = POSTS) -> pd.Series:
    return posts.groupby("thread", sort=False).size()


def dense(data: dv.forum.ForumData) -> pd.DataFrame:
    """Participation of all threads by thread and user."""
    parts = [
        pd.DataFrame(t.participation.toarray(), index=t.ids, columns=t.users)
        for t in (data.training, data.test)
    ]
    return pd.concat(parts)


def test_only_longer_threads_are_used_and_the_log_says_so() -> None:
    data = read()
    used = set(data.training.ids + data.test.ids)
    assert used == set(lengths().index[lengths() > M])
    assert any(f"{len(used)} of 60 threads have more than 3 posts" in note for note in data.notes)
    assert (data.training.length > M).all()


def test_participants_of_the_first_posts() -> None:
    wanted = small.early_counts(POSTS, M)
    counts = dense(read(weights="counts"))
    pd.testing.assert_frame_equal(
        counts, wanted.loc[counts.index, counts.columns].astype(float), check_names=False
    )
    binary = dense(read())
    np.testing.assert_array_equal(binary, counts > 0)


def test_normalized_rows_and_rare_participants_sum_to_one() -> None:
    data = read(normalize=True, min_threads=12)
    total = data.training.participation.sum(axis=1) + data.training.covariates["rare_participants"]
    np.testing.assert_allclose(total, 1.0)
    assert 0 < data.training.covariates["rare_participants"].max() <= 1


def test_rare_users_are_pooled_or_dropped_by_the_stated_rule() -> None:
    data = read(min_threads=12)
    training = small.early_counts(POSTS, M).loc[data.training.ids]
    regulars = (training > 0).sum() >= 12
    assert set(data.activity.index) == set(regulars.index[regulars])
    rare = (training.loc[:, ~regulars] > 0).sum(axis=1)
    np.testing.assert_array_equal(data.training.covariates["rare_participants"], rare)
    assert "rare_participants" not in read(min_threads=12, rare="drop").training.covariates
    assert rare.sum() > 0
    with pytest.raises(
        InputError, match=r"Only 0 user.*of at least 99 training threads.*--min-threads"
    ):
        read(min_threads=99)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, lambda n: np.log(n)),
        ({"outcome": "remaining"}, lambda n: np.log(n - M)),
        ({"outcome": "remaining", "scale": "raw"}, lambda n: n - M),
        ({"scale": "raw"}, lambda n: n),
    ],
)
def test_outcomes_of_length(options: dict[str, Any], wanted: Any) -> None:
    data = read(**options)
    np.testing.assert_allclose(data.test.outcome, wanted(lengths()[data.test.ids].to_numpy()))


@pytest.mark.parametrize("how", ["first", "last", "sum", "mean", "max"])
def test_outcomes_from_a_column(how: str) -> None:
    data = read(outcome="score", outcome_from=how)
    wanted = POSTS.groupby("thread")["score"].agg(how)
    np.testing.assert_allclose(data.training.outcome, wanted[data.training.ids])


def test_an_outcome_must_be_one_number_per_thread() -> None:
    with pytest.raises(InputError, match=r"score differs between the posts.*--outcome-from"):
        read(outcome="score")
    views = POSTS["thread"].str.split().str[1].astype(float) + 1
    data = read(POSTS.assign(views=views), outcome="views", scale="log")
    np.testing.assert_allclose(
        data.training.outcome, np.log([float(i.split()[1]) + 1 for i in data.training.ids])
    )
    with pytest.raises(InputError, match=r"logarithm of views.*--scale raw"):
        read(POSTS.assign(views=views - 30), outcome="views", scale="log")
    with pytest.raises(InputError, match="no column 'likes', which was named as the outcome"):
        read(outcome="likes")
    with pytest.raises(InputError, match="views has no number in"):
        read(POSTS.assign(views=None), outcome="views")


def test_the_test_threads_are_the_last_to_begin() -> None:
    data = read(test_share=0.3)
    assert len(data.test.ids) == round(0.3 * data.facts["threads_used"])
    assert data.training.start.max() < data.test.start.min()
    assert data.cut is not None
    assert pd.Timestamp(data.cut).timestamp() == data.test.start.min()


def test_a_random_split_keeps_test_threads_out_of_the_features() -> None:
    data = read(split="random")
    other = read(split="random", seed=1)
    assert set(data.test.ids) != set(other.test.ids)
    assert not set(data.test.ids) & set(data.training.ids)
    assert len(data.test.ids) == len(read().test.ids)
    assert data.cut is None
    test = POSTS["thread"].isin(data.test.ids)
    changed = POSTS.assign(score=np.where(test, 99, POSTS["score"]))
    pd.testing.assert_frame_equal(read(changed, split="random").activity, data.activity)
    posts = POSTS[~test].groupby("user").size()
    np.testing.assert_array_equal(data.activity["posts"], posts[data.activity.index])


def test_what_happens_after_the_cut_does_not_reach_the_features() -> None:
    data = read()
    later = POSTS["time"] >= data.test.start.min()
    changed = POSTS.assign(
        score=np.where(later, 99, POSTS["score"]),
        text_length=np.where(later, 10**6, POSTS["text_length"]),
    )
    pd.testing.assert_frame_equal(read(changed).activity, data.activity)
    earlier = POSTS.assign(score=np.where(later, POSTS["score"], 99))
    assert not read(earlier).activity.equals(data.activity)


def test_activity_against_a_slow_twin() -> None:
    data = read()
    cut = data.test.start.min()
    begun = POSTS.groupby("thread")["time"].transform("min") < cut
    past = POSTS[begun & (POSTS["time"] < cut)]
    position = past.groupby("thread").cumcount()
    author = past.set_index("post")["user"]
    target = past["parent"].map(author)
    reply = target.notna() & (target != past["user"])
    wanted = pd.DataFrame(
        {
            "posts": past.groupby("user").size(),
            "threads": past.groupby("user")["thread"].nunique(),
            "started": past[position == 0].groupby("user").size(),
            "replies_given": past[reply].groupby("user").size(),
            "replies_received": target[reply].value_counts(),
            "out_degree": target[reply].groupby(past["user"]).nunique(),
            "in_degree": past["user"][reply].groupby(target).nunique(),
            "tenure_days": (past.groupby("user")["time"].max() - past.groupby("user")["time"].min())
            / small.DAY,
        }
    )
    early = past[position < M].groupby("user")["thread"].nunique()
    wanted["early_share"] = (early + early.sum() / wanted["threads"].sum()) / (
        wanted["threads"] + 1
    )
    characters = past.groupby("user")["text_length"].sum()
    wanted["text_length"] = (characters + characters.sum() / len(past)) / (wanted["posts"] + 1)
    users = list(data.activity.index)
    for name in wanted:
        np.testing.assert_allclose(data.activity[name], wanted.loc[users, name], err_msg=name)


def test_every_cell_holds_what_was_counted() -> None:
    data = read(small.posts(200, n_users=40), min_threads=2)
    codebook = Columns.from_table(data.features)
    cells, numbers = (
        codebook.cells(data.features),
        data.numbers[[column.name for column in codebook.of("features")]].to_numpy(),
    )
    assert {"censored", "continuous"} <= {column.kind for column in codebook.of("features")}
    assert ((cells.low <= numbers) & (numbers <= cells.high)).all()
    counts = [column.name for column in codebook.of("features") if column.kind == "count"]
    pd.testing.assert_frame_equal(data.features[counts].astype(float), data.activity[counts])
    assert set(data.features) | set(data.left_out) == set(data.activity)


def test_without_parents_a_reply_goes_to_the_post_before() -> None:
    data = read(POSTS.drop(columns=["post", "parent"]))
    cut = data.test.start.min()
    past = POSTS[(POSTS.groupby("thread")["time"].transform("min") < cut) & (POSTS["time"] < cut)]
    before = past.groupby("thread")["user"].shift()
    given = past[before.notna() & (before != past["user"])].groupby("user").size()
    np.testing.assert_array_equal(data.activity["replies_given"], given[data.activity.index])


def test_bots_and_deleted_accounts() -> None:
    posts = POSTS.assign(
        user=POSTS["user"].replace({"u0": "AutoModerator", "u1": "[deleted]", "u2": "help-bot"})
    )
    data = read(posts)
    assert not {"AutoModerator", "[deleted]", "help-bot"} & set(data.activity.index)
    human = posts[~posts["user"].isin(["AutoModerator", "help-bot"])]
    np.testing.assert_array_equal(data.training.length, lengths(human)[data.training.ids])
    kept = read(posts, bots="keep")
    assert {"AutoModerator", "help-bot"} <= set(kept.activity.index)
    gone = read(posts, deleted="remove", bot_names=["U3"], deleted_names=["u4"])
    rest = human[~human["user"].isin(["[deleted]", "u3", "u4"])]
    np.testing.assert_array_equal(gone.training.length, lengths(rest)[gone.training.ids])
    assert gone.facts["bots"] == 3


def test_covariates() -> None:
    data = read(small.posts(400), min_threads=20)
    table, start = data.training.covariates, data.training.start
    when = pd.to_datetime(start, unit="s")
    np.testing.assert_array_equal(table["sunday"], when.day_of_week == 6)
    np.testing.assert_array_equal(table["tuesday"], when.day_of_week == 1)
    np.testing.assert_allclose(
        table["hour_sin"], np.sin(2 * np.pi * (start % small.DAY) / small.DAY)
    )
    posts = small.posts(400)
    third = posts[posts.groupby("thread").cumcount() == M - 1].set_index("thread")["time"]
    np.testing.assert_allclose(
        np.expm1(table["log_seconds_early"]), third[data.training.ids] - start
    )
    section = posts.groupby("thread")["section"].first()[data.training.ids]
    sections = [str(name) for name in table if str(name).startswith("section")]
    assert len(sections) == 1
    np.testing.assert_array_equal(table[sections[0]], section == sections[0].split()[1])
    assert read(small.posts(400), covariates=(), rare="drop").training.covariates.shape[1] == 0


def test_constant_covariates_are_left_out_with_a_note() -> None:
    data = read()  # everybody is regular
    assert "rare_participants" not in data.training.covariates
    assert any(
        "same in all training threads left out" in n and "rare_participants" in n
        for n in data.notes
    )
    assert data.behavior.coefficient_units()  # the behavior takes what is left


def test_sections_need_threads_and_one_is_left_to_compare_with() -> None:
    values = np.array(["a"] * 50 + ["b"] * 40 + ["c"] * 5, dtype=object)
    assert section_levels(values) == ["a", "b"]
    assert section_levels(values[:90]) == ["b"]


def test_relative_times_follow_the_file() -> None:
    began = POSTS.groupby("thread")["time"].transform("min")
    posts = POSTS.assign(time=(POSTS["time"] - began) / 60)
    data = read(posts, relative_time=True, time_unit="minutes")
    wanted = read()
    assert data.test.ids == wanted.test.ids
    np.testing.assert_allclose(
        data.test.covariates["log_seconds_early"], wanted.test.covariates["log_seconds_early"]
    )
    assert "tenure_days" not in data.activity
    assert not {"hour_sin", "sunday"} & set(data.test.covariates)
    assert data.cut is None
    with pytest.raises(InputError, match="need a unit"):
        read(posts, relative_time=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"first": 0}, "first must be a whole number of at least 1"),
        ({"weights": "some"}, 'weights must be "binary" or "counts"; got \'some\''),
        (
            {"covariates": ("weather",)},
            "covariates must be chosen from section, speed, hour, weekday; got weather",
        ),
        ({"test_share": 1.5}, "test_share must be between 0 and 1"),
        ({"min_thread": 3}, "no option min_thread; there are first, outcome"),
        ({"time_unit": "years"}, 'time_unit must be None, "nanoseconds"'),
        ({"ties": "jitter"}, "ties: this option was removed. .* Leave the option out"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(**options)
