"""Files that are written whole or not at all, whatever fails on the way."""

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dualview import cli
from dualview.errors import FileError
from dualview.files.reading import readable_json
from dualview.files.writing import check_place, make_folder, write_json, write_whole


def failing(name: str) -> Callable[..., Any]:
    def fail(*_: object) -> None:
        raise OSError(28, f"No space left on device ({name})")

    return fail


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_fault_leaves_the_old_file(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    write_whole(path, b"old")
    monkeypatch.setattr(os, step, failing(step))
    with pytest.raises(
        FileError, match=f"a could not be written: No space left on device .{step}."
    ):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_a_fault_while_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.fdopen

    def fdopen(handle: int, mode: str) -> Any:
        file = opened(handle, mode, buffering=0)

        class Torn:
            def __enter__(self) -> "Torn":
                return self

            def __exit__(self, *_: object) -> None:
                file.close()

            def write(self, content: bytes) -> None:
                file.write(content[:2])
                raise OSError(28, "No space left on device")

        return Torn()

    monkeypatch.setattr(os, "fdopen", fdopen)
    with pytest.raises(FileError, match="No space left on device"):
        write_whole(tmp_path / "a", b"content")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_files_have_the_mode_of_any_new_file(umask: int, mode: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        write_whole(tmp_path / "a", b"content")
        assert (tmp_path / "a").stat().st_mode & 0o777 == mode
    finally:
        os.umask(before)


def test_a_place_inside_a_file(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(FileError, match="a could not be written: Not a directory"):
        write_whole(tmp_path / "taken" / "a", b"content")


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(FileError, match="taken cannot be made a folder"):
        make_folder(tmp_path / "taken")


posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")


@posix
class TestWhatIsNoFile:
    @pytest.mark.parametrize("before", [b"old", None], ids=["old", "dangling"])
    def test_links_stay_and_their_targets_get_the_content(
        self, before: bytes | None, tmp_path: Path
    ) -> None:
        target, link = tmp_path / "below" / "target", tmp_path / "link"
        target.parent.mkdir()
        if before is not None:
            target.write_bytes(before)
        (tmp_path / "between").symlink_to(target)
        link.symlink_to("between")
        write_whole(link, b"new")
        assert link.is_symlink()
        assert target.read_bytes() == b"new"
        assert os.listdir(target.parent) == ["target"]

    def test_pipes_are_written_through(self, tmp_path: Path) -> None:
        pipe, content = tmp_path / "pipe", os.urandom(1 << 20)
        os.mkfifo(pipe)
        read: list[bytes] = []
        reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
        reader.start()
        write_whole(pipe, content)
        reader.join()
        assert read == [content]
        assert stat.S_ISFIFO(pipe.stat().st_mode)
        assert os.listdir(tmp_path) == ["pipe"]

    def test_devices_are_written_through(self) -> None:
        write_whole(Path(os.devnull), b"content")
        assert stat.S_ISCHR(os.stat(os.devnull).st_mode)

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device")
    def test_a_full_device_is_an_error(self) -> None:
        with pytest.raises(
            FileError, match="/dev/full could not be written: No space left on device"
        ):
            write_whole(Path("/dev/full"), b"content")
        assert stat.S_ISCHR(os.stat("/dev/full").st_mode)

    def test_open_files_are_written_through(self, tmp_path: Path) -> None:
        with open(tmp_path / "a", "wb", buffering=0) as file:
            file.write(b"before ")
            write_whole(Path(f"/dev/fd/{file.fileno()}"), b"after")
        assert (tmp_path / "a").read_bytes() == b"before after"

    @pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/fd/1"])
    def test_standard_output(self, name: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
        print("before")
        write_whole(Path(name), b"\xff\0")
        assert capfdbinary.readouterr().out == b"before\n\xff\0"

    def test_folders_and_sockets_are_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import socket

        with pytest.raises(FileError, match="is a folder: name the file to write"):
            write_whole(tmp_path, b"content")
        monkeypatch.chdir(tmp_path)  # names of sockets are short
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("door")
            with pytest.raises(FileError, match="door is a socket"):
                write_whole(Path("door"), b"content")
        assert stat.S_ISSOCK(os.stat("door").st_mode)

    @pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/fd/1"])
    def test_no_folder_is_made_of_standard_output(
        self,
        name: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """Once a folder that was called by a dash."""
        monkeypatch.chdir(tmp_path)
        Path("users.csv").write_text("user,age\na,1\nb,2\n")
        for command in (["demo"], ["forum", "--example"], ["shard", "users.csv"]):
            assert cli.main([*command, "--out", name]) == 2
            assert "it means an open file. Name a folder." in capsys.readouterr().err
        with pytest.raises(FileError, match="cannot be made a folder"):  # as fit and plot do
            make_folder(Path(name))
        assert os.listdir() == ["users.csv"]

    def test_a_circle_of_links_is_an_error(self, tmp_path: Path) -> None:
        (tmp_path / "a").symlink_to("b")
        (tmp_path / "b").symlink_to("a")
        with pytest.raises(FileError, match="a could not be written"):
            write_whole(tmp_path / "a", b"content")
        assert (tmp_path / "a").is_symlink()

    @pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
    def test_an_old_file_keeps_its_mode(self, mode: int, tmp_path: Path) -> None:
        (tmp_path / "a").write_bytes(b"old")
        (tmp_path / "a").chmod(mode)
        write_whole(tmp_path / "a", b"new")
        assert (tmp_path / "a").read_bytes() == b"new"
        assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == mode

    def test_a_read_only_file_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "a").write_bytes(b"old")
        (tmp_path / "a").chmod(0o444)
        monkeypatch.setattr(os, "access", lambda *_: False)  # root may write to everything
        with pytest.raises(FileError, match="a could not be written: it is read-only"):
            write_whole(tmp_path / "a", b"new")


def test_a_name_as_long_as_the_system_allows(tmp_path: Path) -> None:
    write_whole(tmp_path / ("a" * 250), b"content")
    assert os.listdir(tmp_path) == ["a" * 250]


def test_places_are_checked_before_the_work(tmp_path: Path) -> None:
    check_place(tmp_path / "new")
    with pytest.raises(FileError, match="there is no folder"):
        check_place(tmp_path / "nowhere" / "new")
    with pytest.raises(FileError, match=r"n\\0ew could not be written"):
        check_place(tmp_path / "n\0ew")
    assert os.listdir(tmp_path) == []


def test_json_is_utf8_and_errors_of_its_readers_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"name": "Zoë"})
    assert "Zoë".encode() in path.read_bytes()
    with readable_json(path, "Make it again.") as content:
        assert content == {"name": "Zoë"}
    with (
        pytest.raises(FileError, match=r"a\.json cannot be read \('size'\)\. Make it again\."),
        readable_json(path, "Make it again.") as content,
    ):
        content["size"]
    path.write_bytes(b"{")
    with pytest.raises(FileError, match="Make it again"), readable_json(path, "Make it again."):
        pass
