"""Posteriors on disk."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import dualview as dv
from dualview.errors import FileError, InputError
from dualview.posterior import partition
from dualview.posterior.draws.files import content_digest


@pytest.fixture(scope="module")
def posterior() -> dv.Posterior:
    forum = dv.datasets.agreement(12, 20, seed=0)
    behavior = dv.SharedOutcome(forum.participation, forum.outcome, intercept=True)
    return (
        dv.DualViewMixture(n_warmup=20, n_draws=20, n_chains=2)
        .fit(forum.features, behavior)
        .posterior_
    )


@pytest.fixture(scope="module")
def content(posterior: dv.Posterior, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Of its file."""
    path = tmp_path_factory.mktemp("saved") / "run.nc"
    posterior.save(path)
    return path.read_bytes()


def test_round_trip_is_exact(posterior: dv.Posterior, tmp_path: Path) -> None:
    posterior.save(tmp_path / "run.nc")
    again = dv.load(tmp_path / "run.nc")
    assert again.names == posterior.names
    for name in posterior:
        np.testing.assert_array_equal(again[name], posterior[name])
    for name, values in posterior.components.items():
        np.testing.assert_array_equal(again.components[name], values)
    for view, units in posterior.spec.units.items():
        np.testing.assert_array_equal(again.spec.units[view].factor, units.factor)
    np.testing.assert_array_equal(again.partition("vi"), posterior.partition("vi"))
    assert again.spec.partition_prior == posterior.spec.partition_prior
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.nc"]


def test_arviz_reads_it(posterior: dv.Posterior) -> None:
    import arviz_stats

    summary = arviz_stats.summary(posterior.to_arviz(), var_names=["alpha", "latent"])
    assert len(summary) == 13


def test_truncated_file(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "run.nc"
    for size in (0, 10, len(content) // 2, len(content) - 200):
        path.write_bytes(content[:size])
        with pytest.raises(FileError, match=r"run\.nc"):
            dv.load(path)


def equal(one: dv.Posterior, other: dv.Posterior) -> bool:
    """Whether two posteriors have the same numbers, names and attributes."""
    trees = one.to_arviz(), other.to_arviz()
    return trees[0].identical(trees[1])


@pytest.mark.parametrize("n", [8, pytest.param(100, marks=pytest.mark.slow)])
def test_a_changed_byte_is_noticed_or_harmless(n: int, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "run.nc"
    path.write_bytes(content)
    saved = dv.load(path)
    rng = np.random.default_rng(0)
    said: list[str] = []
    for place, change in zip(
        rng.integers(len(content), size=n), rng.integers(1, 256, size=n), strict=True
    ):
        damaged = bytearray(content)
        damaged[place] ^= int(change)
        path.write_bytes(damaged)
        try:
            assert equal(dv.load(path), saved), place
        except FileError as error:
            said.append(str(error))
    assert len(said) > n / 2  # most bytes are numbers
    for message in said:
        assert message.startswith(str(path))
        assert "\n" not in message
        assert "fit again" in message


def test_a_damaged_file_beside_its_chains_names_the_command_that_mends_it(
    posterior: dv.Posterior, content: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "posterior.nc"
    (tmp_path / "request.json").write_text("{}")
    place = content.index(posterior["alpha"].astype("<f8").tobytes())
    path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    with pytest.raises(
        FileError,
        match=rf"is damaged: its content differs .* from the chains: dualview resume {tmp_path}",
    ):
        dv.load(path)


def test_the_digest_is_of_the_content_and_not_of_how_it_is_stored(
    content: bytes, tmp_path: Path
) -> None:
    (tmp_path / "run.nc").write_bytes(content)
    tree = xr.open_datatree(tmp_path / "run.nc", engine="h5netcdf").load()
    tree.to_netcdf(
        tmp_path / "again.nc",
        engine="h5netcdf",
        encoding={"/posterior": {"latent": {"zlib": True}}},
    )
    assert equal(dv.load(tmp_path / "again.nc"), dv.load(tmp_path / "run.nc"))
    big_endian = tree.map_over_datasets(
        lambda part: part.map(lambda v: v.astype(v.dtype.newbyteorder(">")))
    )
    assert content_digest(big_endian) == content_digest(tree) == tree.attrs["content_digest"]
    tree["posterior"]["alpha"][0, 0] += 1e-9
    assert content_digest(tree) != tree.attrs["content_digest"]


def test_files_without_a_digest_still_load(
    posterior: dv.Posterior, content: bytes, tmp_path: Path
) -> None:
    (tmp_path / "run.nc").write_bytes(content)
    tree = xr.open_datatree(tmp_path / "run.nc", engine="h5netcdf").load()
    del tree.attrs["content_digest"]
    tree.to_netcdf(tmp_path / "older.nc", engine="h5netcdf")
    np.testing.assert_array_equal(dv.load(tmp_path / "older.nc")["latent"], posterior["latent"])


def test_foreign_files(tmp_path: Path) -> None:
    text = tmp_path / "notes.nc"
    text.write_text("not a posterior")
    with pytest.raises(FileError, match="not a NetCDF file, or it was cut short"):
        dv.load(text)
    xr.Dataset({"x": ("i", [1.0])}).to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    with pytest.raises(FileError, match="not a posterior written by dualview"):
        dv.load(tmp_path / "other.nc")
    newer = xr.Dataset(
        {"x": ("i", [1.0])}, attrs={"format": "dualview posterior", "format_version": 99}
    )
    newer.to_netcdf(tmp_path / "newer.nc", engine="h5netcdf")
    with pytest.raises(FileError, match="format 99; this version reads format 1"):
        dv.load(tmp_path / "newer.nc")
    with pytest.raises(FileError, match="no such file"):
        dv.load(tmp_path / "absent.nc")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pipes with names")
def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    """Once said not to be there."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="pipe is a pipe or a device: a posterior is read from a"):
        dv.load(tmp_path / "pipe")


def test_nothing_is_left_when_writing_fails(
    posterior: dv.Posterior, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.nc"
    path.write_bytes(content)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(
        FileError,
        match=r"could not be written: No space left on device\. What was saved before is unchanged",
    ):
        posterior.save(path)
    assert path.read_bytes() == content
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.nc"]
    with pytest.raises(FileError, match="there is no folder"):
        posterior.save(tmp_path / "absent" / "run.nc")


def test_unknown_name(posterior: dv.Posterior) -> None:
    with pytest.raises(InputError, match="has no 'beta'; it has z, n_clusters, alpha"):
        posterior["beta"]
    assert "alpha" in posterior
    assert "beta" not in posterior


def test_estimates_are_saved_and_not_searched_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a posterior of its own, so that no other test sees what it keeps."""
    forum = dv.datasets.agreement(12, 20, seed=0)
    model = dv.DualViewMixture(n_warmup=20, n_draws=20, n_chains=2).fit(forum.features)
    post = model.posterior_
    cut_short = partition.Found(post.partition("binder"), False)
    post._keep("binder", cut_short)
    post.save(tmp_path / "run.nc")
    again = dv.load(tmp_path / "run.nc")
    monkeypatch.setattr(partition, "least_loss", None)
    for method in partition.LOSSES:
        np.testing.assert_array_equal(again.partition(method), post.partition(method))
    assert again.partition_estimate("vi").finished
    assert not again.partition_estimate("binder").finished


def test_a_search_can_be_continued(posterior: dv.Posterior) -> None:
    draws = partition.Draws(posterior.flat("z"), "vi")
    before = draws.distances(posterior.partition("vi")).mean()
    better = posterior.partition("vi", max_time=np.inf)
    assert draws.distances(better).mean() <= before + 1e-12
    assert posterior.partition_estimate("vi").finished
    np.testing.assert_array_equal(posterior.partition(), better)
    with pytest.raises(InputError, match="'dahl' compares all draws: leave max_time out"):
        posterior.partition("dahl", max_time=1.0)
    with pytest.raises(InputError, match="max_time must be a positive number; got -1"):
        posterior.partition("vi", max_time=-1)


def test_a_fit_with_a_limit_of_time_limits_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def search(z: Any, loss: str, limits: partition.Limits, **_: Any) -> partition.Found:
        asked.append((loss, limits))
        return partition.Found(np.zeros(z.shape[1], dtype=np.int64), False)

    monkeypatch.setattr(partition, "least_loss", search)
    forum = dv.datasets.agreement(12, 20, seed=0)
    engine = dv.Gibbs(n_warmup=20, max_draws=200)
    model = dv.DualViewMixture(engine=engine, n_draws=200, n_chains=2, max_time=50.0)
    model.fit(forum.features)
    assert asked == [("vi", partition.limits_in_fit(50.0))]
    assert asked[0][1].seconds == pytest.approx(1.5)
    assert not model.posterior_.partition_estimate().finished
