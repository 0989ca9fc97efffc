"""The codebook of a table of users in a file, before a run."""

from pathlib import Path

from dualview.columns import codebook_text, describe_columns
from dualview.errors import InputError
from dualview.files.writing import check_place, write_whole, wrote
from dualview.inputs.tables import read_table

_WIDTH = 80  # of a reason in the printed table; the file has it whole


def write_codebook(users: Path, out: Path | None, user_column: str) -> str:
    """Write the codebook of a table to a TOML file and return a table to read; without a file,
    return the TOML."""
    if out is not None:
        check_place(out)
    table = read_table(users, [user_column]).drop(columns=user_column, errors="ignore")
    if not table.shape[1]:
        raise InputError(
            f"{users} has no columns besides {user_column!r}: there is nothing to describe."
        )
    if out is None:
        return codebook_text(table)
    write_whole(out, codebook_text(table).encode())
    described = describe_columns(table)
    shown = described.to_string(
        index=False, max_colwidth=_WIDTH, formatters={"missing": "{:.3f}".format}
    )
    return f"{shown}\n{wrote(out)}"
