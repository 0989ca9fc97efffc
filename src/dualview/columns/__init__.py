"""The codebook: the kinds of the columns of a table of users, and the table as the model sees
it."""

from dualview.columns.cells import Cells
from dualview.columns.codebook import Columns, describe_columns, doubt_text
from dualview.columns.codebook_file import codebook_text, read_columns_file
from dualview.columns.column import Censored, Column
from dualview.columns.levels import level_shares

__all__ = [
    "Cells",
    "Censored",
    "Column",
    "Columns",
    "codebook_text",
    "describe_columns",
    "doubt_text",
    "level_shares",
    "read_columns_file",
]
