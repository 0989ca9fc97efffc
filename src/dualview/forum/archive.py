"""Posts in an embedded database: read once, cleaned by stated rules, sorted inside their threads.

What does not fit into its memory goes to a temporary folder, so that an archive of any size can be
grouped. Its table ``posts`` has a row per post: thread and user as codes from 0 (user is null for
nobody), seconds, position in the thread from 0, previous and starter (users), and number, post,
parent, section, score, length and outcome where the file has them.
"""

import tempfile
from pathlib import Path
from typing import Any, Self

from dualview.checks import listed
from dualview.errors import InputError
from dualview.forum.columns import Names, find_names
from dualview.forum.options import UNITS, ForumOptions
from dualview.forum.sources import (
    Source,
    file_error,
    first_wrong_byte,
    identifier,
    literal,
    open_source,
    require_duckdb,
)

MEMORY = "1GB"  # of the engine; more goes to disk
_NOBODY = ("", "[deleted]", "[removed]", "None", "null")
# Well-known accounts that are programs, and names that end in a word bot.
_BOTS = (
    r"^(automoderator|discobot|system|notification[ -]bot|welcome[ -]bot|remindmebot)$|[-_ .]bot$"
)
_CAPITAL_BOT = r"[a-z0-9]Bot$"
_NUMBERS = (
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "HUGEINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL",
    "UTINYINT",
    "USMALLINT",
    "UINT",
    "UBIG",
)
_SHOWN = 5


class Archive:
    """The posts of a forum while they are worked on. A context manager: leaving it deletes the
    database."""

    def __init__(self, posts: Any, options: ForumOptions) -> None:
        self.options = options
        self.notes: list[str] = []
        self.facts: dict[str, int] = {}
        duckdb = require_duckdb()
        self._folder = tempfile.TemporaryDirectory(prefix="dualview-forum-")
        self.connection: Any = None
        try:
            folder = Path(self._folder.name)
            self.connection = duckdb.connect(":memory:", config={"temp_directory": str(folder)})
            self.connection.execute(
                f"SET memory_limit = '{MEMORY}'; SET TimeZone = 'UTC'; SET enable_progress_bar "
                "= false"
            )
            source = open_source(self.connection, posts, options.encoding, folder)
            self.names = find_names(list(source.types), options.columns, source.name)
            self._read(source)
            self._check_rows(source)
            self._drop_duplicates()
            self._name_people()
            self._order()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        self._folder.cleanup()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The answer to a query, row by row."""
        return list(self.connection.execute(query).fetchall())

    def arrays(self, query: str) -> dict[str, Any]:
        """The answer to a query, column by column, as NumPy arrays."""
        return dict(self.connection.execute(query).fetchnumpy())

    def one(self, query: str) -> tuple[Any, ...]:
        return self.rows(query)[0]

    def _read(self, source: Source) -> None:
        """The columns that are used, ids as text as they are written."""
        duckdb = require_duckdb()
        parts = _selection(self.names, source, self.options.outcome_column)
        selection = ", ".join(
            f"{expression} AS {identifier(name)}" for name, expression in parts.items()
        )
        try:
            self.connection.execute(
                f"CREATE TEMP TABLE raw AS SELECT {selection} FROM {source.relation}"
            )
        except duckdb.Error as error:
            wrong = first_wrong_byte(source)
            if wrong is not None:
                raise InputError(
                    f"{source.name} is not UTF-8: {wrong}. Name its encoding with --encoding, "
                    "such as latin-1; 'mixed' takes "
                    "UTF-8 line by line and Windows-1252 where a line is not."
                ) from error
            raise file_error(source.name, error) from error
        self._parts = list(parts)
        self._refuse_nul(source)
        self.facts["posts_read"] = self.one("SELECT count(*) FROM raw")[0]
        if self.facts["posts_read"] == 0:
            raise InputError(
                f"{source.name} has no posts: it must have a row per post below its header."
            )

    def _refuse_nul(self, source: Source) -> None:
        """Raise on names with a NUL character, which files of results cannot hold."""
        for part in ("thread", "user", "section"):
            if part in self._parts:
                condition = f"contains({identifier(part)}, chr(0))"
                posts = self._first_where(condition)
                if posts:
                    raise InputError(
                        f"{source.name}: the {part} has a NUL character in post(s) {posts} of "
                        "the file. Fix it."
                    )

    def _first_where(self, condition: str) -> str:
        """Numbers of the first few such posts, from 1."""
        query = f"SELECT rowid + 1 FROM raw WHERE {condition} ORDER BY rowid LIMIT {_SHOWN}"
        return ", ".join(str(row[0]) for row in self.rows(query))

    def _check_rows(self, source: Source) -> None:
        n, numbers, stamps, largest, no_thread = self.one(
            "SELECT count(*), count(time_number), count(time_stamp), max(abs(time_number)), "
            "count(*) - count(thread) FROM raw"
        )
        column = "time_number" if numbers >= stamps else "time_stamp"
        if no_thread:
            self._refuse(
                source,
                "thread IS NULL",
                no_thread,
                f"no thread (column {' + '.join(self.names.thread)})",
            )
        if n > max(numbers, stamps):
            self._refuse(
                source,
                f"{column} IS NULL",
                n - max(numbers, stamps),
                f"no time that can be read{self._examples(source, column)}",
            )
        left = self.one("SELECT count(*) FROM raw")[0]
        if left == 0:
            raise InputError(
                f"{source.name} has no post with a thread and a time that can be read."
            )
        unit = self._unit(numbers >= stamps, largest, source)
        self.connection.execute(
            f"ALTER TABLE raw ADD COLUMN seconds DOUBLE; UPDATE raw SET seconds = {column} * "
            f"{unit!r}"
        )

    def _refuse(self, source: Source, condition: str, n: int, what: str) -> None:
        """Raise on bad rows, or leave them out where that was asked."""
        if self.options.skip_bad_rows:
            self.connection.execute(f"DELETE FROM raw WHERE {condition}")
            self.notes.append(f"{n} posts with {what} were left out")
            return
        more = ", …" if n > _SHOWN else ""
        raise InputError(
            f"{source.name}: {n} of {self.facts['posts_read']} posts have {what}: post(s) "
            f"{self._first_where(condition)}{more} of the file. "
            "Fix them, or leave them out with --skip-bad-rows."
        )

    def _examples(self, source: Source, column: str) -> str:
        name = identifier(self.names.time)
        test = _times(self.names.time, source.types[self.names.time])[column]
        found = self.rows(
            f"SELECT {name}::VARCHAR FROM {source.relation} WHERE {test} IS NULL LIMIT 3"
        )
        shown = ", ".join("nothing" if row[0] is None else repr(row[0][:40]) for row in found)
        return f" (column {self.names.time} has {shown})"

    def _unit(self, numbers: bool, largest: float | None, source: Source) -> float:
        if not numbers:
            if self.options.relative_time:
                raise InputError(
                    f"relative_time needs numbers in column {self.names.time}; it has dates."
                )
            return 1.0
        if self.options.time_unit is not None:
            return UNITS[self.options.time_unit]
        assert largest is not None
        for least, unit in (
            (1e17, "nanoseconds"),
            (1e14, "microseconds"),
            (1e11, "milliseconds"),
            (1e8, "seconds"),
        ):
            if largest >= least:
                if unit != "seconds":
                    self.notes.append(f"times are up to {largest:.3g}: taken as {unit} since 1970")
                return UNITS[unit]
        raise InputError(
            f"{source.name}: times in column {self.names.time} are numbers up to {largest:g}, too "
            "small for seconds since 1970. Give --time-unit, and --relative-time if they count "
            "from the beginning of each thread."
        )

    def _drop_duplicates(self) -> None:
        """Posts with the same id in a thread, or, without ids, the same in all columns that are
        read: the first stays."""
        key = (
            "thread, post"
            if self.names.post is not None
            else ", ".join(identifier(part) for part in self._parts)
        )
        condition = "WHERE post IS NOT NULL" if self.names.post is not None else ""
        # Hashes are quick, and say whether there is anything to do at all.
        doubles = self.one(
            f"SELECT count(*) FROM (SELECT hash({key}) AS h FROM raw {condition} GROUP BY h "
            "HAVING count(*) > 1)"
        )[0]
        if not doubles:
            self.facts["duplicates"] = 0
            return
        before = self.one("SELECT count(*) FROM raw")[0]
        also = "" if not condition else "AND post IS NOT NULL"
        self.connection.execute(
            f"DELETE FROM raw WHERE rowid NOT IN (SELECT min(rowid) FROM raw {condition} GROUP "
            f"BY {key}) {also}"
        )
        removed = before - self.one("SELECT count(*) FROM raw")[0]
        self.facts["duplicates"] = removed
        if removed:
            self.notes.append(f"{removed} posts appear more than once; the first of each was kept")

    def _name_people(self) -> None:
        """Codes of users and threads, in the order in which the file has them; who is a bot, who is
        nobody."""
        nobody = ", ".join(
            literal(name) for name in (*_NOBODY, *map(str, self.options.deleted_names))
        )
        named = ", ".join(literal(str(name).lower()) for name in self.options.bot_names)
        bot = (
            f"regexp_matches(lower(name), {literal(_BOTS)}) OR regexp_matches(name, "
            f"{literal(_CAPITAL_BOT)})"
        )
        if named:
            bot = f"{bot} OR lower(name) IN ({named})"
        if self.options.bots == "keep":
            bot = "false"
        self.connection.execute(
            f"""
            CREATE TEMP TABLE people AS
            SELECT row_number() OVER (ORDER BY first) - 1 AS code, name, posts,
                name IN ({nobody}) AS nobody, {bot} AS bot
            FROM (
                SELECT "user" AS name, min(rowid) AS first, count(*) AS posts
                FROM raw WHERE "user" IS NOT NULL GROUP BY ALL
            );
            CREATE TEMP TABLE thread_names AS
            SELECT row_number() OVER (ORDER BY first) - 1 AS code, name
            FROM (SELECT thread AS name, min(rowid) AS first FROM raw GROUP BY ALL)
            """
        )
        bots = self.rows(
            "SELECT name, posts FROM people WHERE bot AND NOT nobody ORDER BY posts DESC, name"
        )
        self.facts["bots"], self.facts["bot_posts"] = len(bots), sum(posts for _, posts in bots)
        if bots:
            shown = listed([name for name, _ in bots])
            self.notes.append(
                f"{self.facts['bot_posts']} posts of {len(bots)} bots removed ({shown}); --bots "
                "keep keeps them"
            )
        self.facts["nobodys_posts"] = self.one(
            f'SELECT count(*) FROM raw WHERE "user" IS NULL OR "user" IN ({nobody})'
        )[0]
        if self.facts["nobodys_posts"]:
            fate = (
                "they count as posts of nobody"
                if self.options.deleted == "anonymous"
                else "they are removed"
            )
            self.notes.append(
                f"{self.facts['nobodys_posts']} posts have no user or a deleted one; {fate}"
            )

    def _order(self) -> None:
        """The table of posts, by thread and time."""
        rest = [
            part
            for part in self._parts
            if part not in ("thread", "user", "time_number", "time_stamp")
        ]
        columns = ", ".join(identifier(part) for part in rest)
        number = "number," if "number" in rest else ""
        gone = (
            ""
            if self.options.deleted == "anonymous"
            else "WHERE p.code IS NOT NULL AND NOT p.nobody"
        )
        self.connection.execute(
            f"""
            CREATE TEMP TABLE coded AS
            SELECT t.code AS thread, CASE WHEN p.nobody THEN NULL ELSE p.code END AS "user",
                seconds, r.rowid AS place {"," if rest else ""} {columns}
            FROM (SELECT *, rowid FROM raw) r JOIN thread_names t ON r.thread = t.name
                LEFT JOIN people p ON r."user" = p.name
            {"WHERE" if not gone else gone + " AND"} NOT coalesce(p.bot AND NOT p.nobody, false);
            DROP TABLE raw;
            CREATE TEMP TABLE posts AS
            SELECT thread, "user", seconds, (row_number() OVER w - 1)::INTEGER AS position,
                lag("user") OVER w AS previous, first_value("user") OVER w AS starter,
                coalesce(lag(place) OVER w > place, false) AS moved {"," if rest else ""} {columns}
            FROM coded WINDOW w AS (PARTITION BY thread ORDER BY seconds, {number} place);
            DROP TABLE coded
            """
        )
        self.facts["posts"], self.facts["threads"], self.facts["users"], moved = self.one(
            'SELECT count(*), count(DISTINCT thread), count(DISTINCT "user"), count(DISTINCT '
            "thread) FILTER (WHERE moved) FROM posts"
        )
        if self.facts["posts"] == 0:
            raise InputError(
                "No posts are left after bots and deleted accounts were removed: keep them "
                "(--bots keep)."
            )
        if moved:
            self.notes.append(
                f"the posts of {moved} threads were not in the order of their times; they were "
                "put in order"
            )
        if self.facts["users"] < 2:
            raise InputError(
                f"A forum needs at least two users; these posts have {self.facts['users']} "
                f"(column {self.names.user}), deleted "
                "accounts and bots aside. Is another column meant? Name it with --user-column."
            )


def _selection(names: Names, source: Source, outcome: str | None) -> dict[str, str]:
    """Expressions of what is read, by the names that the database has for it."""
    thread = " || ' / ' || ".join(f"{identifier(name)}::VARCHAR" for name in names.thread)
    parts = {"thread": f"nullif({thread}, '')", "user": f"{identifier(names.user)}::VARCHAR"}
    parts |= _times(names.time, source.types[names.time])
    reddit = names.thread == ("link_id",)
    if names.post is not None:
        parts["post"] = f"hash({_without_kind(names.post, reddit)})"
    if names.number is not None:
        parts["number"] = f"try_cast({identifier(names.number)} AS BIGINT)"
    if names.parent is not None and (names.post is not None or names.number is not None):
        if names.parent_is_number:
            parts["parent"] = f"try_cast({identifier(names.parent)} AS BIGINT)"
        else:
            parts["parent"] = f"hash({_without_kind(names.parent, reddit)})"
    if names.section is not None:
        parts["section"] = f"{identifier(names.section)}::VARCHAR"
    if names.score is not None:
        parts["score"] = f"try_cast({identifier(names.score)} AS DOUBLE)"
    if names.length is not None:
        parts["length"] = f"try_cast({identifier(names.length)} AS DOUBLE)"
    elif names.text is not None:
        parts["length"] = f"length({identifier(names.text)}::VARCHAR)::DOUBLE"
    if outcome is not None:
        if outcome not in source.types:
            raise InputError(
                f"{source.name} has no column {outcome!r}, which was named as the outcome; it has "
                f"{', '.join(source.types)}. Or ask for 'length' or 'remaining'."
            )
        parts["outcome"] = f"try_cast({identifier(outcome)} AS DOUBLE)"
    return parts


def _without_kind(name: str, reddit: bool) -> str:
    """An id as text; Reddit's say with t1_ or t3_ what they are ids of, but not everywhere."""
    text = f"{identifier(name)}::VARCHAR"
    return f"regexp_replace({text}, '^t[0-9]_', '')" if reddit else text


def _times(name: str, kind: str) -> dict[str, str]:
    """Times as numbers and as seconds since 1970, whichever the column has."""
    column = identifier(name)
    if kind.startswith(("TIMESTAMP", "DATE")):
        return {"time_number": "NULL::DOUBLE", "time_stamp": f"epoch({column})"}
    number = f"try_cast({column} AS DOUBLE)"
    finite = f"CASE WHEN isfinite({number}) THEN {number} END"
    if kind.startswith(_NUMBERS):
        return {"time_number": finite, "time_stamp": "NULL::DOUBLE"}
    stamp = f"epoch(try_cast(CASE WHEN {number} IS NULL THEN {column} END AS TIMESTAMPTZ))"
    return {"time_number": finite, "time_stamp": stamp}
