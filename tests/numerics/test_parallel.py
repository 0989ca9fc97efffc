"""Cores that a process may use."""

import os

import pytest

from dualview.numerics import parallel

NESTED = "/system.slice/job.scope"


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        pytest.param("", {}, 8, id="no control groups"),
        pytest.param(f"0::{NESTED}", {"cpu.max": "max 100000"}, 8, id="no quota"),
        pytest.param("0::/", {"cpu.max": "200000 100000"}, 2, id="two cores"),
        pytest.param("0::/", {"cpu.max": "150000 100000"}, 1, id="one and a half"),
        pytest.param("0::/", {"cpu.max": "50000 100000"}, 1, id="half a core"),
        pytest.param("0::/", {"cpu.max": "6400000 100000"}, 8, id="more than there are"),
        pytest.param(
            f"0::{NESTED}",
            {"system.slice/cpu.max": "300000 100000"},
            3,
            id="a group that holds ours",
        ),
        pytest.param(
            f"0::{NESTED}",
            {"cpu.max": "400000 100000", f"{NESTED[1:]}/cpu.max": "max 100000"},
            4,
            id="only the outermost",
        ),
        pytest.param(
            "0::/elsewhere", {f"{NESTED[1:]}/cpu.max": "100000 100000"}, 8, id="somebody else's"
        ),
        pytest.param(
            "2:memory:/m\n1:cpu,cpuacct:/docker/1",
            {
                "cpu,cpuacct/cpu.cfs_quota_us": "300000",
                "cpu,cpuacct/cpu.cfs_period_us": "100000",
                "memory/cpu.max": "1 1",
            },
            3,
            id="version 1",
        ),
        pytest.param(
            "1:cpu:/",
            {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"},
            8,
            id="version 1, no quota",
        ),
    ],
)
def test_no_more_than_a_quota_allows(tmp_path, monkeypatch, groups, files, expected):
    (tmp_path / "groups").write_text(groups)
    for name, text in files.items():
        (tmp_path / "controls" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "controls" / name).write_text(f"{text}\n")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(parallel, "_GROUPS", tmp_path / "groups")
    monkeypatch.setattr(parallel, "_CONTROLS", tmp_path / "controls")
    monkeypatch.setattr(parallel, "_quotas", parallel._quotas.__wrapped__)
    assert parallel.n_cores() == expected


def test_no_more_than_it_may_run_on(monkeypatch):
    monkeypatch.setattr(parallel, "_quotas", lambda: (3,))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5}, raising=False)
    assert parallel.n_cores() == 1
