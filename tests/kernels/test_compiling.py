"""The cache of compiled code: it is used, an edit to any kernel file renews it, and its absence is no error.

Each case runs a copy of the kernels in a process of its own.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dualview.kernels

PROGRAM = """
import numpy as np
from dualview.kernels.densities import log_base_prior
print(log_base_prior(np.ones(2), np.eye(2), np.eye(2), 3.0), sum(log_base_prior.stats.cache_hits.values()))
"""


@pytest.fixture
def package(tmp_path):
    """A copy of the kernels alone, without compiled code."""
    source = Path(dualview.kernels.__file__).parent
    copy = tmp_path / "library" / "dualview" / "kernels"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy.parent / "__init__.py").touch()
    return copy


def run(package, program=PROGRAM, **variables):
    """Numbers printed by a program that imports the copy."""
    cleared = ("NUMBA_CACHE_DIR", "NUMBA_DISABLE_JIT", "PYTHONPATH")
    environment = {name: value for name, value in os.environ.items() if name not in cleared}
    environment |= {"PYTHONPATH": str(package.parents[1]), **variables}
    finished = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return [float(number) for number in finished.stdout.split()]


def test_an_edit_to_a_called_kernel_renews_its_callers(package):
    first, hits = run(package)
    assert hits == 0
    assert run(package) == [first, 1]
    linalg = package / "linalg.py"
    text = linalg.read_text()
    assert text.count("math.sqrt(rest)") == 1
    linalg.write_text(text.replace("math.sqrt(rest)", "2.0 * math.sqrt(rest)"))
    edited, hits = run(package)
    assert hits == 0
    assert edited != first


def test_without_a_place_for_the_cache_kernels_are_compiled_in_memory(package):
    """Every place Numba would try is below a plain file, which not even root can write into."""
    (package / "__pycache__").touch()
    nowhere = package.parent / "__init__.py" / "below"
    places = {name: str(nowhere) for name in ("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA", "NUMBA_CACHE_DIR")}
    _, hits = run(package, PYTHONDONTWRITEBYTECODE="1", **places)
    assert hits == 0
    assert not list(package.parents[1].rglob("*.nbi"))
