"""A posterior in a NetCDF file: no pickles, written whole or not at all, and checked against a
digest when it is read."""

import hashlib
import os
import shlex
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import xarray as xr

from dualview.checks import file_path
from dualview.errors import FileError
from dualview.files.digests import SAVED as DIGEST
from dualview.files.reading import check_input, is_stream
from dualview.files.writing import check_place, write_whole

FORMAT = "dualview posterior"
VERSION = 1


def save(tree: xr.DataTree, path: str | os.PathLike[str]) -> None:
    """Write a tree to one file, with a digest of its content."""
    target = file_path(path, "path")
    check_place(target)
    labeled = tree.copy()
    labeled.attrs |= {"format": FORMAT, "format_version": VERSION}
    labeled.attrs[DIGEST] = content_digest(labeled)
    write_whole(target, bytes(labeled.to_netcdf(engine="h5netcdf")))


def load(path: str | os.PathLike[str]) -> xr.DataTree:
    """Read a tree that :func:`save` wrote; files of versions that kept no digest are read without
    that check."""
    source = file_path(path, "path")
    tree = _opened(source)
    if tree.attrs.get("format") != FORMAT:
        raise FileError(
            f"{source} is a NetCDF file, but not a posterior written by dualview, or it was "
            f"damaged. {_remedy(source)}"
        )
    if tree.attrs.get("format_version") != VERSION:
        raise FileError(
            f"{source} was written in format {tree.attrs.get('format_version')}; this version "
            f"reads format {VERSION}. Use the "
            "version of dualview that wrote it."
        )
    if DIGEST in tree.attrs and tree.attrs[DIGEST] != content_digest(tree):
        raise FileError(
            f"{source} is damaged: its content differs from what was saved. (Changed on purpose? "
            "Then delete its attribute "
            f"{DIGEST}.) {_remedy(source)}"
        )
    missing = {"posterior", "components", "working"} - set(tree.children)
    if missing:
        raise FileError(
            f"{source} lacks {', '.join(sorted(missing))}: it was cut short or changed. "
            f"{_remedy(source)}"
        )
    return tree


def _opened(source: Path) -> xr.DataTree:
    try:
        check_input(source, "a file")
        if is_stream(source):
            raise FileError(f"{source} is a pipe or a device: a posterior is read from a file.")
        with h5py.File(
            source, "r"
        ) as file:  # h5netcdf complains from a destructor where this fails
            file.attrs.get("_nc3_strict")
        tree = xr.open_datatree(source, engine="h5netcdf").load()
        tree.close()
    except FileError:
        raise
    except Exception as error:  # a damaged file makes the layers below raise anything at all
        reason = " ".join(str(error).split()) or type(error).__name__
        raise FileError(
            f"{source} cannot be read as a posterior ({reason[:200]}): it is not a NetCDF file, "
            "or it was cut short or "
            f"damaged. {_remedy(source)}"
        ) from error
    return tree


def _remedy(source: Path) -> str:
    """How to get a whole file again: from the chains, where they are beside it."""
    if (source.parent / "request.json").is_file():
        return (
            "To write it again from the chains: "
            f"{shlex.join(['dualview', 'resume', str(source.parent)])}"
        )
    return "Use a copy of it, or fit again."


def content_digest(tree: xr.DataTree) -> str:
    """A digest of every variable and attribute of a tree, the same before it is saved and after it
    is loaded.

    Only what a reader sees counts: names, dimensions, values in little-endian order and text as
    UTF-8, not how the file stores them. A file that xarray has read and written again keeps its
    digest.
    """
    state = hashlib.blake2b(digest_size=16)
    for group in sorted(tree.subtree, key=lambda node: str(node.path)):
        _update(state, "group", group.path)
        for name, value in sorted(group.attrs.items()):
            if name != DIGEST:
                _update(state, "attribute", name, np.asarray(value))
        own = group.to_dataset(
            inherit=False
        ).variables  # coordinates of the groups above have been there
        for name in sorted(own, key=str):
            _update(state, "variable", name, *own[name].dims, np.asarray(own[name].values))
    return f"blake2b:{state.hexdigest()}"


def _update(state: Any, *parts: Any) -> None:
    """Add parts to a digest, each preceded by what it is and how long it is, so that no two
    sequences look the same."""
    for part in parts:
        if isinstance(part, np.ndarray) and part.dtype.kind in "biuf":
            kind = f"{part.dtype.kind}{part.dtype.itemsize} {part.shape}"
            content: Any = (
                np.ascontiguousarray(part, dtype=part.dtype.newbyteorder("<"))
                .reshape(-1)
                .view(np.uint8)
                .data
            )
        elif isinstance(part, np.ndarray):
            # Texts of damaged files too.
            texts = [str(value).encode(errors="surrogatepass") for value in part.reshape(-1)]
            kind, content = f"text {part.shape} {[len(text) for text in texts]}", b"".join(texts)
        else:
            kind, content = "name", str(part).encode()
        state.update(f"{kind} {len(content)}\n".encode())
        state.update(content)
