"""Posteriors on disk."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import dualview as dv
from dualview.errors import FileError, InputError


@pytest.fixture(scope="module")
def posterior() -> dv.Posterior:
    forum = dv.datasets.agreement(12, 20, seed=0)
    behavior = dv.SharedOutcome(forum.participation, forum.outcome, intercept=True)
    return dv.DualViewMixture(n_warmup=30, n_draws=40, n_chains=2).fit(forum.features, behavior).posterior_


def test_round_trip_is_exact(posterior: dv.Posterior, tmp_path: Path) -> None:
    posterior.save(tmp_path / "run.nc")
    again = dv.load(tmp_path / "run.nc")
    assert again.names == posterior.names
    for name in posterior:
        np.testing.assert_array_equal(again[name], posterior[name])
    for name, values in posterior.components.items():
        np.testing.assert_array_equal(again.components[name], values)
    for view, units in posterior.units.items():
        np.testing.assert_array_equal(again.units[view].factor, units.factor)
    np.testing.assert_array_equal(again.partition("vi"), posterior.partition("vi"))
    assert again.partition_prior == posterior.partition_prior
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.nc"]


def test_arviz_reads_it(posterior: dv.Posterior) -> None:
    import arviz_stats

    summary = arviz_stats.summary(posterior.to_arviz(), var_names=["alpha", "latent"])
    assert len(summary) == 13


def test_truncated_file(posterior: dv.Posterior, tmp_path: Path) -> None:
    path = tmp_path / "run.nc"
    posterior.save(path)
    whole = path.read_bytes()
    for size in (0, 10, len(whole) // 2, len(whole) - 200):
        path.write_bytes(whole[:size])
        with pytest.raises(FileError, match=r"run\.nc"):
            dv.load(path)


def test_foreign_files(posterior: dv.Posterior, tmp_path: Path) -> None:
    text = tmp_path / "notes.nc"
    text.write_text("not a posterior")
    with pytest.raises(FileError, match="not a NetCDF file, or it was cut short"):
        dv.load(text)
    xr.Dataset({"x": ("i", [1.0])}).to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    with pytest.raises(FileError, match="not one of dualview's"):
        dv.load(tmp_path / "other.nc")
    tree = posterior.to_arviz()
    tree.attrs |= {"format": "dualview posterior", "format_version": 99}
    tree.to_netcdf(tmp_path / "newer.nc", engine="h5netcdf")
    with pytest.raises(FileError, match="format 99; this version reads format 1"):
        dv.load(tmp_path / "newer.nc")
    with pytest.raises(FileError, match="no such file"):
        dv.load(tmp_path / "absent.nc")


def test_nothing_is_left_when_writing_fails(posterior: dv.Posterior, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.nc"
    posterior.save(path)
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(FileError, match=r"could not be written: No space left on device\. What was saved before is as it was"):
        posterior.save(path)
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.nc"]
    with pytest.raises(FileError, match="there is no folder"):
        posterior.save(tmp_path / "absent" / "run.nc")


def test_unknown_name(posterior: dv.Posterior) -> None:
    with pytest.raises(InputError, match="has no 'beta'; it has z, n_clusters, alpha"):
        posterior["beta"]
    assert "alpha" in posterior
    assert "beta" not in posterior
