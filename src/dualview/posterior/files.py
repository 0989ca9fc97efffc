"""A posterior in a NetCDF file: no pickles, written whole or not at all."""

import os
import tempfile
from pathlib import Path

import xarray as xr

from dualview.errors import FileError

FORMAT = "dualview posterior"
VERSION = 1


def save(tree: xr.DataTree, path: str | os.PathLike[str]) -> None:
    """Write a tree beside its place, then move it there."""
    target = Path(path)
    if not target.parent.is_dir():
        raise FileError(f"{target}: there is no folder {target.parent}; make it first.")
    labelled = tree.copy()
    labelled.attrs |= {"format": FORMAT, "format_version": VERSION}
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    os.close(handle)
    try:
        labelled.to_netcdf(temporary, engine="h5netcdf")
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, target)
    except OSError as error:
        raise FileError(f"{target} could not be written: {error.strerror or error}. Nothing was changed.") from error
    finally:
        Path(temporary).unlink(missing_ok=True)


def load(path: str | os.PathLike[str]) -> xr.DataTree:
    """Read a tree that :func:`save` wrote."""
    source = Path(path)
    if not source.is_file():
        raise FileError(f"{source}: there is no such file.")
    try:
        tree = xr.open_datatree(source, engine="h5netcdf").load()
        tree.close()
    except (OSError, ValueError, KeyError, RuntimeError, TypeError) as error:
        raise FileError(
            f"{source} cannot be read as a posterior ({error}): it is not a NetCDF file, or it was cut short."
        ) from error
    if tree.attrs.get("format") != FORMAT:
        raise FileError(f"{source} is a NetCDF file, but not one of dualview's posteriors.")
    if tree.attrs.get("format_version") != VERSION:
        raise FileError(
            f"{source} was written in format {tree.attrs.get('format_version')}; this version reads format {VERSION}. Use the "
            "version of dualview that wrote it."
        )
    missing = {"posterior", "components", "working"} - set(tree.children)
    if missing:
        raise FileError(f"{source} lacks {', '.join(sorted(missing))}: it was cut short or changed.")
    return tree
