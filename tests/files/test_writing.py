"""Files that are written whole or not at all, whatever fails on the way."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dualview.errors import FileError
from dualview.files.writing import make_folder, write_whole


def failing(name: str) -> Callable[..., Any]:
    def fail(*_: object) -> None:
        raise OSError(28, f"No space left on device ({name})")

    return fail


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_fault_leaves_the_old_file(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    write_whole(path, b"old")
    monkeypatch.setattr(os, step, failing(step))
    with pytest.raises(FileError, match=f"a could not be written: No space left on device .{step}."):
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
