"""A posterior in a NetCDF file: no pickles, written whole or not at all."""

import os
from pathlib import Path

import xarray as xr

from dualview.errors import FileError
from dualview.writing import write_whole

FORMAT = "dualview posterior"
VERSION = 1


def save(tree: xr.DataTree, path: str | os.PathLike[str]) -> None:
    """Write a tree to one file."""
    target = Path(path)
    if not target.parent.is_dir():
        raise FileError(f"{target}: there is no folder {target.parent}; make it first.")
    labelled = tree.copy()
    labelled.attrs |= {"format": FORMAT, "format_version": VERSION}
    write_whole(target, bytes(labelled.to_netcdf(engine="h5netcdf")))


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
