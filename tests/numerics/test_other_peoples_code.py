"""Other people's Numba code in the same process: it compiles as if this package were not there.

Each case runs in a process of its own, which compiles other people's functions, kernels, or both.
"""

import os
import subprocess
import sys
from pathlib import Path

import dualview
from dualview.numerics import compiling

THEIRS = """
import operator, sys, threading
from typing import NamedTuple
import numba
from numba.core import event
from numba.extending import overload

class Rate(NamedTuple):
    value: float

@overload(operator.truediv)
def divide(a, b):
    if getattr(a, "instance_class", None) is Rate:
        return lambda a, b: a.value / b

def outcome(function, *arguments):
    try:
        return function(*arguments)
    except ZeroDivisionError:
        return "ZeroDivisionError"

def look():
    "What functions never compiled before give: with NumPy's division, then with Python's."
    found = []
    for options in ({"error_model": "numpy"}, {}):
        own = numba.njit(**options)(lambda a, b: a / b)
        found += [outcome(own, Rate(1.0), 0.0), outcome(own, 1.0, 0.0)]
    return found

signature_of = numba.core.registry.cpu_target.typing_context.resolve_function_type

def ask(found):
    for a in (numba.float64, numba.int64, numba.types.literal(2)):
        found.append(str(signature_of(operator.truediv, (a, numba.float64), {})))

def in_thread(function, *arguments):
    thread = threading.Thread(target=function, args=arguments)
    thread.start()
    return thread

class During(event.Listener):
    "Threads at work while a kernel is compiled: one compiles, one asks what needs no lock."
    def __init__(self):
        self.compiled, self.asked, self.threads = [], [], []
    def on_start(self, data):
        if data.data["dispatcher"].py_func is theirs.py_func:
            self.threads.append(in_thread(lambda: self.compiled.extend(look())))
            in_thread(ask, self.asked).join()
    def on_end(self, data):
        pass

theirs = numba.njit(error_model="python")(lambda a, b: a / b)
"""

ALL_TIMES = """
if sys.argv[1] == "with us":
    from dualview.numerics.compiling import uncached as kernel
else:
    kernel = numba.njit(error_model="numpy", nogil=True)
part = kernel(lambda a, b: (a / b, a.value / b))
nested = kernel(lambda a, b: (part(a, b), theirs(a, 4.0), a / b))
raising = kernel(lambda a, b: part(a, b)[0] + theirs(a, b))
failing = kernel(lambda a, b: a / b + a.nothing)
print("before", look())
with event.install_listener("numba:compile", during := During()):
    print("inside", outcome(nested, Rate(1.0), 0.0), outcome(raising, Rate(1.0), 0.0))
during.threads[0].join()
print("during", during.compiled, during.asked)
print("after", look())
try:
    failing(Rate(1.0), 0.0)
except numba.TypingError:
    print("after an error", look())
"""


def _printed(program, *arguments):
    environment = os.environ | {"PYTHONPATH": str(Path(dualview.__file__).parents[1])}
    command = [sys.executable, "-c", program, *arguments]
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_it_gives_the_same_before_during_and_after_our_compilations():
    ours, alone = (_printed(THEIRS + ALL_TIMES, whose) for whose in ("with us", "alone"))
    assert ours == alone
    assert len(alone.splitlines()) == 5
    assert alone.count("'ZeroDivisionError'") == 8
    assert "inside ((inf, inf), 0.25, inf) ZeroDivisionError" in alone


UNCHANGED = """
import sys, types
import numba, numba.core.typed_passes, numba.core.runtime.context
import numpy as np

def attributes():
    "Every function, class and method of Numba and of what it compiles with, by its place."
    found = {}
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] in ("numba", "llvmlite"):
            found |= {(name, each): value for each, value in vars(module).items() if is_code(value)}
            for owner in vars(module).values():
                if isinstance(owner, type) and owner.__module__ == name:
                    found |= {
                        (name, owner.__qualname__, each): value
                        for each, value in vars(owner).items() if is_code(value)
                    }
    return found

def is_code(value):
    return isinstance(value, (type, types.FunctionType, property, classmethod, staticmethod))

def add(a):
    return np.sum(a) + 1.0 / a[0]

numba.njit(add)(np.ones(2))  # whatever Numba itself puts off until then
before = attributes()
import dualview
from dualview.numerics import compiling, streams
print("imported", compiling._parts is not None)
kernel = compiling.uncached(add)
named = compiling.standalone()(lambda a: kernel(a))
for body in (lambda a: named(a) + kernel(a), lambda a: kernel(a) + a.nothing):
    try:
        print(compiling.uncached(body)(np.ones(2)))
    except numba.TypingError:
        print("failed")
now = attributes()
changed = [place for place, value in before.items() if now.get(place) is not value]
modules = {place[0] for place in before}
added = [place for place in now if place[0] in modules and len(place) == 3 and place not in before]
print(changed, added)
"""


def test_nothing_of_numba_is_replaced_or_added():
    lines = _printed(UNCHANGED).splitlines()
    assert lines == [f"imported {compiling._parts is not None}", "6.0", "failed", "[] []"]
