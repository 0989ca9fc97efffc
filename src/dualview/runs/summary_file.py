"""summary.json in a run's folder: the clusters as they were when the fit ended.

It is read at once: nothing that computes is imported.
"""

from pathlib import Path
from typing import Any

from dualview._version import __version__
from dualview.chains.run_folder import check_not_newer
from dualview.files.digests import saved_digest
from dualview.files.reading import readable_json
from dualview.files.writing import write_json
from dualview.words.clusters import Summary, summary_text

FILE = "summary.json"
_FORM = 2  # of the record: one of another form is made anew


def keep_summary(folder: Path, summary: Summary) -> None:
    """Write the summary of the posterior that is in the folder."""
    write_json(folder / FILE, {**_made_of(folder), "summary": summary})


def kept_summary(folder: Path) -> Summary | None:
    """The summary that was kept of a finished run; None where there is none of this posterior, by
    this version."""
    if (folder / FILE).is_file() and (folder / "posterior.nc").is_file():
        check_not_newer(folder)
        with readable_json(folder / FILE, "Delete it: it will be made again.") as content:
            made_of = _made_of(folder)
            if None not in made_of.values() and made_of.items() <= content.items():
                return dict(content["summary"])
    return None


def _made_of(folder: Path) -> dict[str, Any]:
    digest = saved_digest(folder / "posterior.nc")
    return {"form": _FORM, "version": __version__, "posterior": digest}


def text_for_commands(summary: Summary) -> str:
    """The summary in words, with options of the command line in place of parameters."""
    verdict = summary["verdict"].replace("(n_warmup, n_draws)", "(--warmup, --draws)")
    verdict = verdict.replace("(max_time, max_draws)", "(--max-time, --max-draws)")
    verdict = verdict.replace("plots.traces", "the pictures of 'dualview plot'")
    return summary_text(summary | {"verdict": verdict})
