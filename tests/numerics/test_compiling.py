"""The cache of compiled code: it is used, an edit to any kernel file renews it, and its absence is
no error.

Each of these cases runs a copy of the kernels in a process of its own. ``make test-numba`` runs
them with parts and without.
"""

import gc
import importlib
import itertools
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba.core import bytecode, event

import dualview
from dualview.numerics import compiling
from dualview.numerics.compiling import uncached
from programs import run
from yardsticks import python_of

PROGRAM = """
import numba
import numpy as np
from dualview.views.base import Base
from dualview.views.gaussian.density import log_base_prior
value = log_base_prior(Base(np.ones(2), np.eye(2), np.eye(2), 3.0))
print(value, sum(log_base_prior.stats.cache_hits.values()))
"""


@pytest.fixture
def package(tmp_path):
    """The numerics of a copy of the package, without compiled code."""
    copy = tmp_path / "library" / "dualview"
    shutil.copytree(
        Path(dualview.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__")
    )
    return copy / "numerics"


def test_an_edit_to_a_called_kernel_renews_its_callers(package):
    first, hits = run(package, PROGRAM)
    assert hits == 0
    assert run(package, PROGRAM) == [first, 1]
    linalg = package / "linalg.py"
    text = linalg.read_text()
    assert "math.sqrt(rest)" in text
    linalg.write_text(text.replace("math.sqrt(rest)", "2.0 * math.sqrt(rest)"))
    edited, hits = run(package, PROGRAM)
    assert hits == 0
    assert edited != first


INLINED = """
import numba
import numpy as np
from dualview.numerics.draws import wishart_factor
factor = np.empty((1, 1))
wishart_factor(np.array([1, 2, 3, 4], dtype=np.uint64), 2.5, np.eye(1), factor)
print(factor[0, 0], sum(wishart_factor.stats.cache_hits.values()))
"""


@pytest.mark.slow
def test_an_edit_to_a_kernel_inlined_far_below_renews_its_callers(package):
    """A Wishart is drawn by an overload, which calls a kernel of another file, which has the edited
    one inside."""
    first, hits = run(package, INLINED)
    assert hits == 0
    assert run(package, INLINED) == [first, 1]
    streams = package / "streams.py"
    text = streams.read_text()
    assert text.count("word << np.uint64(by)") == 1
    streams.write_text(text.replace("word << np.uint64(by)", "word << np.uint64(by + 1)"))
    edited, hits = run(package, INLINED)
    assert hits == 0
    assert edited != first


def test_without_a_place_for_the_cache_kernels_are_compiled_in_memory(package):
    """Every place Numba would try is below a plain file, which not even root can write into."""
    for folder in [folder for folder in package.parent.rglob("*") if folder.is_dir()]:
        (folder / "__pycache__").touch()
    nowhere = package.parent / "__init__.py" / "below"
    places = {
        name: str(nowhere) for name in ("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA", "NUMBA_CACHE_DIR")
    }
    _, hits = run(package, PROGRAM, PYTHONDONTWRITEBYTECODE="1", **places)
    assert hits == 0
    assert not list(package.parents[1].rglob("*.nbi"))


BOUNDS = """
import numpy as np
from dualview.numerics.compiling import compiled, inlined, reordered
def cell(a, i):
    return a[i]
parts = [kind(cell) for kind in (compiled, inlined, reordered)]
first, second, third = parts
@compiled
def by_first(a, i): return first(a, i)
@compiled
def by_second(a, i): return second(a, i)
@compiled
def by_third(a, i): return third(a, i)
for kernel in (first, by_first, by_second, by_third):
    try:
        kernel(np.ones(3), 5)
        print(0)
    except IndexError:
        print(1)
"""


def test_bounds_are_checked_on_request_in_every_part(package):
    """What ``make test-bounds`` relies on."""
    assert run(package, BOUNDS, NUMBA_BOUNDSCHECK="1") == [1.0, 1.0, 1.0, 1.0]


@compiling.reordered
def dot(a, b):
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


def test_sums_in_any_order_are_the_same_up_to_rounding_and_keep_nan():
    a, b = np.random.default_rng(1).standard_normal((2, 1001))
    assert dot(a, b) == pytest.approx(python_of(dot)(a, b), rel=1e-12)
    for bad in (math.nan, math.inf):
        assert not math.isfinite(dot(np.append(a, bad), np.append(b, 1.0)))


def _row_sums(matrix):
    sums = np.zeros(matrix.shape[0])
    for i in range(matrix.shape[0]):
        if matrix[i, 0] < 0.0:
            raise ValueError("a row begins below zero")
        for j in range(matrix.shape[1]):
            sums[i] += matrix[i, j]
    return sums


def _pair():
    """A kernel and one that calls it, both never compiled before."""
    inner = compiling.uncached(_row_sums)

    @compiling.uncached
    def outer(matrix, n):
        last = inner(matrix)
        for _ in range(n):
            last = inner(matrix) + 0.0 * last
        return last, inner(matrix)[0]

    return inner, outer


IN_RANGE = compiling.TESTED[0] <= numba.version_info.short <= compiling.TESTED[1]


def _with_parts(monkeypatch):
    """Switch parts on, whatever the environment says."""
    if not IN_RANGE:
        pytest.skip("This Numba is used without parts.")
    parts = importlib.import_module("dualview.numerics.parts")
    monkeypatch.setattr(compiling, "_parts", parts)
    return parts


@pytest.mark.parametrize("largest", [100, 0, None])
def test_a_kernel_called_by_a_kernel_is_a_part_of_it(monkeypatch, largest):
    """With nothing made for Python until Python calls it, and errors that come through, optimised
    on its own or not.

    Without parts (None) the numbers and the errors are the same.
    """
    if largest is None:
        monkeypatch.setattr(compiling, "_parts", None)
    else:
        monkeypatch.setattr(_with_parts(monkeypatch), "_LARGEST_OPTIMISED", largest)
    inner, outer = _pair()
    matrix = np.arange(12.0).reshape(3, 4)
    sums, first = outer(matrix, 2)
    assert len(inner.overloads) == (largest is None)
    assert np.array_equal(sums, matrix.sum(axis=1))
    assert first == 6.0
    assert np.array_equal(inner(matrix), sums)
    assert len(inner.overloads) == 1
    with pytest.raises(ValueError, match="below zero"):
        outer(-1.0 - matrix, 2)


FOUND = """
import numba
{before}
from dualview.numerics import compiling
print(int(compiling._parts is not None))
"""
LACKS = "from numba.core import codegen; del codegen.CPUCodeLibrary._finalize_final_module"
LACKS_A_CLASS = "from numba.core import typed_passes; del typed_passes.NativeLowering"
OLDER = "numba.version_info = numba.version_info._replace(short=(0, 60))"
NEWER = "numba.version_info = numba.version_info._replace(short=(0, 69))"


@pytest.mark.parametrize(
    ("before", "switch", "found"),
    [
        pytest.param("", "", 1, id="the default"),
        pytest.param("", "1", 1, id="on"),
        pytest.param("", "0", 0, id="off"),
        pytest.param(OLDER, "1", 0, id="an older Numba"),
        pytest.param(NEWER, "1", 0, id="a newer Numba"),
        pytest.param(LACKS, "1", 0, id="a method is missing"),
        pytest.param(LACKS_A_CLASS, "1", 0, id="a class is missing"),
    ],
)
def test_parts_are_made_only_where_they_can_be(package, before, switch, found):
    assert run(package, FOUND.format(before=before), **{compiling.SWITCH: switch}) == [
        found and IN_RANGE
    ]


@pytest.mark.skipif(not compiling._parts, reason="This Numba is used without parts.")
def test_flags_are_equal_where_numba_says_so():
    """Numba's and ours, whichever comes first: both are keys of Numba's own tables."""
    from numba.core.compiler import Flags

    made = []
    for values in (
        {},
        {"nrt": True},
        {"nrt": False},
        {"nrt": True, "no_compile": True},
        {"no_compile": True, "nrt": True},
    ):
        made.append(Flags())
        for name, value in values.items():
            setattr(made[-1], name, value)
    ours = [compiling._parts._Flags(one) for one in made]
    for one, own in zip(made, ours, strict=True):
        assert hash(own) == hash(one)
        assert own.copy() == own
        assert own != 1
        for other, others_own in zip(made, ours, strict=True):
            assert (own == others_own) == (own == other) == (other == own) == (one == other)
    assert ours[0] == ours[2]  # False is the default
    assert ours[0] != ours[1]
    assert ours[3] == ours[4]


def test_no_numba_is_installed_that_is_newer_than_those_tested():
    """With a newer one a first fit would take five times as long, without a word."""
    folder = Path(__file__).parents[2]
    major, minor = compiling.TESTED[1]
    assert f'"numba>=0.61,<{major}.{minor + 1}"' in (folder / "pyproject.toml").read_text()
    ends = " ".join(f"{major}.{minor}" for major, minor in compiling.TESTED)
    assert f"NUMBAS ?= 0.61 {ends}\n" in (folder / "Makefile").read_text()


def test_the_switch_is_on_or_off(monkeypatch):
    monkeypatch.setenv(compiling.SWITCH, "maybe")
    with pytest.raises(ValueError, match=r"DUALVIEW_COMPILE_PARTS must be 1 .* or 0; got 'maybe'"):
        compiling._find_parts()


SMALL = """
from dualview.numerics.special import log_gamma_ratio
print(log_gamma_ratio(3.0, 0.5), sum(log_gamma_ratio.stats.cache_hits.values()))
"""


@pytest.mark.slow
@pytest.mark.skipif(not IN_RANGE, reason="This Numba is used without parts.")
def test_code_made_as_parts_and_whole_code_are_not_mixed(package):
    """Each finds what it made itself, and nothing that the other made; the numbers are the same."""
    parts, whole = {compiling.SWITCH: "1"}, {compiling.SWITCH: "0"}
    first, hits = run(package, SMALL, **parts)
    assert hits == 0
    for switched in (whole, parts):
        assert run(package, SMALL, **switched) == [first, 0]
        assert run(package, SMALL, **switched) == [first, 1]


FIT = """
import warnings
import dualview as dv
warnings.simplefilter("ignore")
forum = dv.datasets.agreement(20, 30, seed=0)
behavior = dv.SharedOutcome(forum.participation, forum.outcome)
model = dv.DualViewMixture(n_warmup=50, n_draws=5, n_chains=1, random_state=0)
post = model.fit(forum.features, behavior).posterior_
print(*post["latent"].ravel(), *post["z"].ravel(), *post["alpha"].ravel())
"""


@pytest.mark.slow
@pytest.mark.skipif(not IN_RANGE, reason="This Numba is used without parts.")
def test_a_fit_draws_the_same_numbers_with_and_without_parts(tmp_path):
    """Each compiles the whole sampler."""
    found = {}
    for switch in ("1", "0"):
        environment = os.environ | {
            compiling.SWITCH: switch,
            "NUMBA_CACHE_DIR": str(tmp_path / switch),
        }
        environment |= {"PYTHONPATH": str(Path(dualview.__file__).parents[1])}
        finished = subprocess.run(
            [sys.executable, "-c", FIT],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr
        found[switch] = finished.stdout.split()
    assert len(found["1"]) == 5 * (20 + 20 + 1)
    if numba.version_info.short == compiling.TESTED[1]:
        assert found["1"] == found["0"]
    else:  # older compilers add up long sums in another order
        assert np.array(found["1"], dtype=float) == pytest.approx(
            np.array(found["0"], dtype=float), rel=1e-9
        )


MEMORY = """
import numpy as np
from numba.core.runtime import rtsys
from dualview.numerics.linalg import cholesky
from dualview.numerics.compiling import uncached

@uncached
def many(matrix, n):
    total = 0.0
    for _ in range(n):
        total += cholesky(cholesky(matrix))[0, 0]
    return total

many(np.eye(3), 1)
before = rtsys.get_allocation_stats()
many(np.eye(3), 1000)
after = rtsys.get_allocation_stats()
print(after.mi_alloc - before.mi_alloc, after.mi_free - before.mi_free)
"""


def test_arrays_of_parts_are_given_back(package):
    taken, given = run(package, MEMORY, NUMBA_NRT_STATS="1")
    assert taken >= 2000
    assert given == taken


class _Look(event.Listener):
    """Notes how often the garbage collector works whenever a function is about to be compiled, and
    right after."""

    def __init__(self) -> None:
        self.starts: list[tuple[int, ...]] = []
        self.ends: list[tuple[int, ...]] = []

    def on_start(self, _: Any) -> None:
        self.starts.append(gc.get_threshold())

    def on_end(self, _: Any) -> None:
        self.ends.append(gc.get_threshold())


def _plus_one(x):
    return x + 1


def _nothing(x):
    return x.nothing


@pytest.fixture(
    params=[(700, 10, 10), (10**7, 10, 10), (0, 10, 10)], ids=["often", "rarely", "never"]
)
def collector(request):
    """How often the collector works before something is compiled."""
    before = gc.get_threshold()
    gc.set_threshold(*request.param)
    yield request.param
    gc.set_threshold(*before)


def _compile_one_and_fail_with_another(decorator) -> None:
    assert decorator(_plus_one)(1) == 2
    with pytest.raises(numba.TypingError):
        decorator(_nothing)(1)


def test_the_collector_works_rarely_while_a_kernel_is_compiled(monkeypatch, collector):
    """Also when that fails; afterwards it works as before. Nobody's choice of fewer collections, or
    none, is overruled."""
    rarely = _with_parts(monkeypatch)._NEW_OBJECTS
    kernel = compiling.uncached(_plus_one)

    def outer(x):
        return kernel(x)

    with event.install_listener("numba:compile", look := _Look()):
        assert compiling.uncached(outer)(1) == 2
        assert gc.get_threshold() == collector
    first, *others = collector
    inside = (max(first, rarely) if first else 0, *others)
    assert look.starts == [collector, inside]  # the part is compiled while its caller is
    _compile_one_and_fail_with_another(compiling.uncached)
    assert gc.get_threshold() == collector
    assert gc.isenabled()


def test_the_collector_works_as_always_while_other_functions_are_compiled(collector):
    with event.install_listener("numba:compile", look := _Look()):
        _compile_one_and_fail_with_another(numba.njit)
    assert look.starts == look.ends == [collector] * 2
    assert gc.get_threshold() == collector


def test_functions_of_one_name_and_number_keep_their_code(monkeypatch):
    """Numba counts functions from 1 in each process, and code that is read from disk keeps its
    numbers: the same numbers again are no other function's."""

    def times(factor):
        def inner(x):
            total = 0.0
            for i in range(int(x)):
                total += factor * math.sqrt(i + 1.0) + (1e-9 * total) ** 2
            return total

        return uncached(inner)

    def with_one(inner):
        def outer(x):
            return inner(x) + 1.0

        return uncached(outer)

    found = []
    for factor in (3.0, 5.0):
        monkeypatch.setattr(bytecode.FunctionIdentity, "_unique_ids", itertools.count(10**9))
        found.append(with_one(times(factor))(10.0))
    assert found[0] != found[1]
    assert found[1] - 1.0 == pytest.approx(5.0 / 3.0 * (found[0] - 1.0))
