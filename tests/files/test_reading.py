"""Input from pipes, and archives that would unpack to very much."""

import bz2
import gzip
import io
import lzma
import os
import tarfile
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from dualview.errors import FileError
from dualview.files.reading import copy_stream, first_lines, input_file, is_stream, probe, unpacked

TEXT = b"user,x\na,1\nb,2\n"


def zipped(content: bytes, n_files: int = 1) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(n_files):
            archive.writestr(f"{number}.csv", content)
    return file.getvalue()


def tarred(content: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        member = tarfile.TarInfo("table.csv")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


PACKED: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.compress,
    ".zip": zipped,
    ".tar.gz": tarred,
}


@pytest.mark.parametrize("ending", PACKED)
def test_packed_files_and_bombs(ending: str, tmp_path: Path) -> None:
    good, bomb = tmp_path / f"good.csv{ending}", tmp_path / f"bomb.csv{ending}"
    good.write_bytes(PACKED[ending](TEXT))
    probe(good)
    with unpacked(good) as file:
        assert file.read() == TEXT
    bomb.write_bytes(PACKED[ending](bytes(3 << 26)))
    with pytest.raises(ValueError, match="it unpacks to more than 300 times its size"):
        probe(bomb)
    with pytest.raises(ValueError, match="unpack it first"), unpacked(bomb) as file:
        file.read()


def test_archives_with_several_files(tmp_path: Path) -> None:
    (tmp_path / "two.zip").write_bytes(zipped(TEXT, 2))
    with (
        pytest.raises(ValueError, match="a ZIP archive must hold one file; it holds 2"),
        unpacked(tmp_path / "two.zip"),
    ):
        pass


def test_a_first_line_without_an_end(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(bytes(1 << 24))
    with pytest.raises(
        ValueError, match="its first line must name columns, and has no end within 16 MB"
    ):
        first_lines(tmp_path / "a.csv")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
class TestPipes:
    @pytest.fixture
    def pipe(self, tmp_path: Path) -> Callable[[bytes], Path]:
        """A pipe that somebody writes this content to, once."""

        def make(content: bytes) -> Path:
            path = tmp_path / "pipe"
            os.mkfifo(path)
            threading.Thread(target=path.write_bytes, args=(content,), daemon=True).start()
            return path

        return make

    @pytest.mark.parametrize(
        ("content", "ending"),
        [
            (TEXT, ".csv"),
            (TEXT.replace(b",", b"\t"), ".tsv"),
            (gzip.compress(TEXT, mtime=0), ".csv.gz"),
            (zstandard.compress(TEXT.replace(b",", b"\t")), ".tsv.zst"),
            (b"%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 1\n", ".mtx"),
            (b"PAR1 and so on", ".parquet"),
            (gzip.compress(TEXT, mtime=0)[:9], ".csv.gz"),
            (b"", ".csv"),
        ],
    )
    def test_a_copy_is_called_what_its_content_is(
        self, content: bytes, ending: str, pipe: Callable[[bytes], Path], tmp_path: Path
    ) -> None:
        path = pipe(content)
        assert is_stream(path)
        with input_file(path) as file:
            assert file.name == f"content{ending}"
            assert file.read_bytes() == file.read_bytes() == content
        assert not file.exists()
        assert os.listdir(tmp_path) == ["pipe"]

    def test_files_are_read_where_they_are(self, tmp_path: Path) -> None:
        (tmp_path / "a.csv").write_bytes(TEXT)
        (tmp_path / "link.csv").symlink_to("a.csv")
        for name in ("a.csv", "link.csv"):
            with input_file(tmp_path / name) as file:
                assert file == tmp_path / name

    def test_what_the_shell_has_opened_is_copied(self, tmp_path: Path) -> None:
        """The path has no ending, and means something else to the next process."""
        (tmp_path / "a.csv.gz").write_bytes(gzip.compress(TEXT, mtime=0))
        with open(tmp_path / "a.csv.gz") as opened:
            path = Path(f"/dev/fd/{opened.fileno()}")
            assert is_stream(path)
            with input_file(path) as file:
                assert file.name == "content.csv.gz"

    @pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="there is no such device")
    def test_an_endless_device(self, tmp_path: Path) -> None:
        with pytest.raises(FileError, match="/dev/zero gives nothing but NUL characters"):
            copy_stream(Path("/dev/zero"), tmp_path, "a")

    def test_folders_and_nothing(self, tmp_path: Path) -> None:
        with pytest.raises(FileError, match="is a folder, not a table"), input_file(tmp_path):
            pass
        with pytest.raises(FileError, match="there is no such file"), input_file(tmp_path / "a"):
            pass
