"""One HTML file about a finished run, which opens offline and can be sent to a colleague.

In two halves: ``collect_run`` reads the run's folder into a plain dict, ``render_page`` makes a
page of the dict.
"""

from dualview.report.collect import collect_run
from dualview.report.render import render_page, write_report

__all__ = ["collect_run", "render_page", "write_report"]
