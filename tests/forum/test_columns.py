"""Which column plays which part."""

import pytest

from dualview.errors import InputError
from dualview.forum.columns import find_names

REDDIT = [
    "id",
    "author",
    "created_utc",
    "link_id",
    "parent_id",
    "subreddit",
    "score",
    "body",
    "gilded",
]
DISCOURSE = [
    "id",
    "username",
    "user_id",
    "created_at",
    "topic_id",
    "post_number",
    "reply_to_post_number",
    "category_id",
    "raw",
]
ZULIP = [
    "id",
    "sender_id",
    "sender_email",
    "timestamp",
    "display_recipient",
    "stream_id",
    "subject",
    "content",
]


def test_reddit() -> None:
    names = find_names(REDDIT, {}, "posts")
    assert (names.thread, names.user, names.time) == (("link_id",), "author", "created_utc")
    assert (names.post, names.parent, names.section, names.score, names.text) == (
        "id",
        "parent_id",
        "subreddit",
        "score",
        "body",
    )
    assert not names.parent_is_number


def test_discourse() -> None:
    names = find_names(DISCOURSE, {}, "posts")
    assert (names.thread, names.user, names.time) == (("topic_id",), "username", "created_at")
    assert (names.parent, names.number, names.section, names.text) == (
        "reply_to_post_number",
        "post_number",
        "category_id",
        "raw",
    )
    assert names.parent_is_number


def test_a_zulip_thread_is_a_topic_of_a_stream() -> None:
    names = find_names(ZULIP, {}, "posts")
    assert names.thread == ("stream_id", "subject")
    assert (names.user, names.time, names.section, names.text) == (
        "sender_email",
        "timestamp",
        "display_recipient",
        "content",
    )
    assert names.used == [
        "stream_id",
        "subject",
        "sender_email",
        "timestamp",
        "id",
        "display_recipient",
        "content",
    ]


def test_given_names_win_and_none_does_without() -> None:
    names = find_names(
        REDDIT, {"user": "gilded", "score": "none", "thread": ("subreddit", "link_id")}, "posts"
    )
    assert (names.user, names.score, names.thread) == ("gilded", None, ("subreddit", "link_id"))


def test_names_are_guessed_in_any_case_and_a_length_is_preferred_to_texts() -> None:
    names = find_names(["Thread", " USER ", "Time", "text_len", "body"], {}, "posts")
    assert (names.thread, names.user, names.length, names.text) == (
        ("Thread",),
        " USER ",
        "text_len",
        None,
    )


@pytest.mark.parametrize(
    ("found", "given", "message"),
    [
        (
            ["a", "user", "when"],
            {},
            "column for thread and time.*It has a, user, when.*--thread-column and --time-column",
        ),
        (
            REDDIT,
            {"user": "member"},
            "no column 'member', which was named for user; it has id, author",
        ),
        (REDDIT, {"person": "author"}, "columns can be named for thread, user.*got person"),
        (REDDIT, {"user": ("author", "id")}, "Only a thread may be named by several columns"),
        (REDDIT, {"time": "none"}, "must have a column for time"),
    ],
)
def test_what_is_missing_is_named(found: list[str], given: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        find_names(found, given, "posts.csv")
