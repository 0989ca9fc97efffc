"""The part that each column of a file plays: given by an option, or recognized by the names that
exports use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dualview.errors import InputError
from dualview.settings import setting

# In order of preference. Reddit, Discourse and Zulip exports come with names of their own.
KNOWN: dict[str, tuple[str, ...]] = {
    "thread": (
        "thread",
        "thread_id",
        "link_id",
        "topic_id",
        "submission_id",
        "discussion_id",
        "conversation_id",
        "topic",
    ),
    "user": (
        "user",
        "author",
        "username",
        "user_name",
        "user_id",
        "author_id",
        "sender_email",
        "sender_id",
        "sender",
        "poster",
    ),
    "time": (
        "time",
        "t",
        "timestamp",
        "created_utc",
        "created_at",
        "date_sent",
        "datetime",
        "date",
        "created",
        "posted_at",
    ),
    "post": ("post", "post_id", "id", "message_id", "comment_id"),
    "number": ("pos", "post_number", "position", "number"),
    "parent": (
        "parent",
        "parent_id",
        "reply_to_post_number",
        "reply_to",
        "in_reply_to",
        "parent_post_id",
    ),
    "section": (
        "section",
        "subreddit",
        "category",
        "category_id",
        "forum",
        "board",
        "stream",
        "display_recipient",
        "stream_id",
    ),
    "score": ("score", "like_count", "likes", "points", "upvotes"),
    "length": ("text_len", "text_length", "length", "n_chars"),
    "text": ("body", "raw", "content", "text", "cooked", "message"),
}
ROLES = tuple(KNOWN)
REQUIRED = ("thread", "user", "time")
ABSENT = "none"  # as a name: do without this column

# In Zulip a thread is a topic of a stream: neither names it alone.
_STREAMS = ("recipient", "recipient_id", "stream_id", "display_recipient", "stream", "stream_name")
_TOPICS = ("subject", "topic")


@dataclass(frozen=True, kw_only=True)
class GivenColumns:
    """What columns are called, by option; those without a name are guessed."""

    thread: tuple[str, ...] = setting(
        (),
        "Name of the column with threads; repeat the option if several columns together name a "
        "thread.",
    )
    user: str | None = setting(None, "Name of the column with users.")
    time: str | None = setting(None, "Name of the column with times.")
    post: str | None = setting(
        None,
        "Name of the column with post ids. For this and the following options, none means no "
        "such column.",
    )
    number: str | None = setting(None, "Name of the column with each post's place in its thread.")
    parent: str | None = setting(
        None, "Name of the column with the post replied to: its id, or its place in the thread."
    )
    section: str | None = setting(None, "Name of the column with sections.")
    score: str | None = setting(None, "Name of the column with scores.")
    length: str | None = setting(None, "Name of the column with text lengths.")
    text: str | None = setting(None, "Name of the column with texts; only their length is read.")

    def given(self) -> dict[str, str | tuple[str, ...]]:
        """The names that were given, by part."""
        return {role: name for role in ROLES if (name := getattr(self, role))}


@dataclass(frozen=True)
class Names:
    """The file's columns by the part they play; None where there is none. A thread may be named by
    several together."""

    thread: tuple[str, ...]
    user: str
    time: str
    post: str | None = None
    number: str | None = None
    parent: str | None = None
    section: str | None = None
    score: str | None = None
    length: str | None = None
    text: str | None = None

    @property
    def parent_is_number(self) -> bool:
        """Whether a parent is given by its place in the thread rather than by its id."""
        return self.number is not None and (
            self.post is None or self.parent == "reply_to_post_number"
        )

    @property
    def used(self) -> list[str]:
        """All columns that are read, each once."""
        rest = [getattr(self, role) for role in ROLES if role != "thread"]
        return list(dict.fromkeys([*self.thread, *(name for name in rest if name is not None)]))


def find_names(found: Sequence[str], given: Mapping[str, str | Sequence[str]], where: str) -> Names:
    """The columns' parts; raises where a given name is not there, or a column that is needed cannot
    be guessed."""
    unknown = sorted(set(given) - set(ROLES))
    if unknown:
        raise InputError(f"columns can be named for {', '.join(ROLES)}; got {', '.join(unknown)}.")
    chosen = {
        role: _given(role, given[role], found, where) if role in given else _guessed(role, found)
        for role in ROLES
    }
    missing = [role for role in REQUIRED if not chosen[role]]
    if missing:
        options = " and ".join(f"--{role}-column" for role in missing)
        raise InputError(
            f"{where} must have a column for {' and '.join(missing)}; none is called so, nor "
            f"{', '.join(KNOWN[missing[0]][1:])}. It has "
            f"{', '.join(found) or 'no columns'}. Name it with {options}."
        )
    single = {
        role: (names[0] if names else None) for role, names in chosen.items() if role != "thread"
    }
    if single["length"] is not None and "text" not in given:
        single["text"] = None
    return Names(thread=chosen["thread"], **single)  # type: ignore[arg-type]


def _given(
    role: str, value: str | Sequence[str], found: Sequence[str], where: str
) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else tuple(value)
    if names == (ABSENT,):
        return ()
    absent = [name for name in names if name not in found]
    if absent:
        raise InputError(
            f"{where} has no column {', '.join(map(repr, absent))}, which was named for {role}; "
            f"it has {', '.join(found)}."
        )
    if role != "thread" and len(names) > 1:
        raise InputError(
            f"Only a thread may be named by several columns; got {', '.join(names)} for {role}."
        )
    return names


def _guessed(role: str, found: Sequence[str]) -> tuple[str, ...]:
    plain = {name.strip().lower(): name for name in reversed(found)}
    if role == "thread":
        stream = next((plain[name] for name in _STREAMS if name in plain), None)
        topic = next((plain[name] for name in _TOPICS if name in plain), None)
        if stream is not None and topic is not None and "thread" not in plain:
            return (stream, topic)
    return next(((plain[name],) for name in KNOWN[role] if name in plain), ())
