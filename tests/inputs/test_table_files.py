"""Tables from files: the line of each row."""

import gzip
from pathlib import Path

import pytest

from dualview.errors import InputError
from dualview.inputs.table_files import read_table
from dualview.inputs.tables import GivenTable


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("user,x\na,1\nb,2\n", [2, 3]),
        ("\nuser,x\na,1\n \n\nb,2\n\n", [3, 6]),
        ('user,"x\ny"\na,"1\n\n2"\nb,"3"\nc,4', [3, 6, 7]),
        ('user,x\na,"say ""no"",\nor"\nb,5" long\nc,"1"\n', [2, 4, 5]),
        ("user\na\n\nb\n", [2, 4]),  # an empty cell of the only column is a blank line
        ("user,x\n", []),
    ],
)
def test_rows_know_their_lines(text: str, lines: list[int], end: str, tmp_path: Path) -> None:
    content = text.replace("\n", end).encode()
    (tmp_path / "t.csv").write_bytes(content)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(content))
    (tmp_path / "t.tsv").write_bytes(content.replace(b",", b"\t"))
    for name in ("t.csv", "t.csv.gz", "t.tsv"):
        assert (read_table(tmp_path / name).index + 2).tolist() == lines


@pytest.mark.parametrize("text", ["user,x\na,1\n\n\nb\0,y\n", 'user,x\na,"1\n\n2"\nb\0,y\n'])
def test_messages_name_the_line_of_a_cell(text: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text)
    table = GivenTable.read(tmp_path / "t.csv", ["user"])
    for part in (table, table.take([False, True])):
        with pytest.raises(InputError, match=r"must hold numbers; it does not in line\(s\) .*5\.$"):
            part.numbers("x")
        with pytest.raises(InputError, match=r"has a NUL character in line\(s\) 5\."):
            part.ids("user", "--user-column")
