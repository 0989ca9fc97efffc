"""What a build of the site has taken, said at its end."""

import os

from joblib.externals.loky import get_reusable_executor
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

BEGAN = os.times()


def taken(began: os.times_result, ended: os.times_result) -> str:
    """The time between two readings of the clocks, and what processors have worked in it for this
    process and those that it started."""
    cpu = sum(ended[:4]) - sum(began[:4])
    return f"{_minutes(ended.elapsed - began.elapsed)}; processors worked {_minutes(cpu)}"


def _minutes(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def say_time(app: Sphinx, _: Exception | None) -> None:
    """Print it. The clock of processors counts a worker of the chains when it has ended."""
    get_reusable_executor().shutdown(wait=True)
    print(f"The site, {app.builder.name}: {taken(BEGAN, os.times())}")


def setup(app: Sphinx) -> ExtensionMetadata:
    app.connect("build-finished", say_time, priority=900)  # after all others
    return {"parallel_read_safe": True, "parallel_write_safe": True}
