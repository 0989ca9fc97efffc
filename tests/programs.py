"""Programs that run in a process of their own."""

import os
import subprocess
import sys
from pathlib import Path

import dualview


def run(package, program, **variables):
    """Numbers printed by a program that imports the package whose folder of numerics is given."""
    cleared = ("NUMBA_CACHE_DIR", "NUMBA_DISABLE_JIT", "PYTHONPATH")
    environment = {name: value for name, value in os.environ.items() if name not in cleared}
    environment |= {"PYTHONPATH": str(package.parents[1]), **variables}
    finished = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return [float(number) for number in finished.stdout.split()]


def run_here(program, cache=None, **variables):
    """Numbers printed by a program that imports this package, with a cache of its own where one is
    given."""
    package = Path(dualview.__file__).parent / "numerics"
    return run(
        package, program, **({} if cache is None else {"NUMBA_CACHE_DIR": str(cache)}), **variables
    )
