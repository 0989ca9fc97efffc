"""The demonstration: a simulated forum whose truth is known, fitted, scored, drawn and written
down."""

import math
import os
import platform
import sys
import time
import warnings
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.cluster import contingency_matrix

from dualview import plots
from dualview._version import __version__
from dualview.behaviors.shared_outcome import SharedOutcome
from dualview.chains.progress import Lines
from dualview.datasets import Forum, agreement
from dualview.errors import ConvergenceWarning, InputError
from dualview.files.spreadsheets import csv_bytes
from dualview.files.writing import check_folder_place, make_folder, write_whole
from dualview.mixture import DualViewMixture
from dualview.plots.canvas import png_of
from dualview.settings import Gibbs

_NOISE_VARIANCE = 5.0


def run(
    out: Path, seed: int, users: int, threads: int, draws: int, max_draws: int | None, quiet: bool
) -> None:
    """Fit both models, print what was found and write picture.png, report.md and users.csv to a
    folder."""
    began = time.monotonic()
    _check_folder(out)
    plots.require_matplotlib()
    forum = agreement(users, threads, seed=seed, noise_variance=_NOISE_VARIANCE)
    if not quiet:
        print(
            "The very first run compiles for about half a minute before sampling starts.",
            file=sys.stderr,
            flush=True,
        )
    lengths = {"n_draws": draws, "engine": Gibbs(max_draws=max_draws)}
    dual = _fit("dual-DP", forum.features, forum, lengths, seed, quiet)
    single = _fit("single", None, forum, lengths, seed, quiet)
    findings = _findings(forum, dual, single)
    picture = _picture(dual, forum)
    command = f"dualview demo --seed {seed} --users {users} --threads {threads} --draws {draws}"
    command += "" if max_draws is None else f" --max-draws {max_draws}"
    files = {
        "picture.png": picture,
        "report.md": _report(findings, command).encode(),
        "users.csv": _users_table(forum, dual),
    }
    make_folder(out)
    for name, content in files.items():
        write_whole(out / name, content)
    print(_summary(findings))
    print(
        f"Wrote {', '.join(str(out / name) for name in files)} in {time.monotonic() - began:.0f} s."
    )


def _picture(model: DualViewMixture, forum: Forum) -> bytes:
    """Users by features and by latent coefficients with the truth, as PNG."""
    from matplotlib import pyplot

    figure = plots.overview(model, forum.features, truth=forum.latent)[0].figure
    content = png_of(figure, 120)
    pyplot.close(figure)
    return content


def _check_folder(out: Path) -> None:
    """Raise before the work rather than after it."""
    check_folder_place(out)
    place = out.absolute()
    while not place.exists():
        place = place.parent
    if not place.is_dir():
        raise InputError(f"--out must be a folder; {place.name} is a file. Give another name.")
    if not os.access(place, os.W_OK | os.X_OK):
        raise InputError(
            f"--out {out} cannot be written: no permission in {place}. Give another folder."
        )


def _fit(
    name: str, X: Any, forum: Forum, lengths: dict[str, Any], seed: int, quiet: bool
) -> DualViewMixture:
    """The dual-DP model with features X, the single model without; their verdicts are among the
    findings."""
    progress: Any = False
    if not quiet:
        print(
            f"Fitting the {name} model until its chains have converged.",
            file=sys.stderr,
            flush=True,
        )
        progress = sys.stderr.isatty() or Lines(name)
    model = DualViewMixture(
        1 if X is None else None, **lengths, random_state=seed, progress=progress
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, SharedOutcome(forum.participation, forum.outcome))


@dataclass(frozen=True)
class _Score:
    """How a model did on the test threads and against the true coefficients."""

    model: str
    nll: float
    correlation: float
    rmse: float
    n_iterations: int
    verdict: str


@dataclass(frozen=True)
class _Findings:
    """The numbers of the summary and the report."""

    table: list[list[int]]  # users by found and by true cluster
    mean_n_clusters: float  # over draws
    rand: float
    scores: tuple[_Score, ...]
    floor: float

    @property
    def sizes(self) -> list[int]:
        return [sum(row) for row in self.table]

    @property
    def true_sizes(self) -> list[int]:
        return [sum(column) for column in zip(*self.table, strict=True)]


def _findings(forum: Forum, dual: DualViewMixture, single: DualViewMixture) -> _Findings:
    def score(name: str, model: DualViewMixture) -> _Score:
        predicted = model.predict_outcome(forum.test.participation)
        correlation = np.corrcoef(model.latent_, forum.latent)[0, 1]
        rmse = np.sqrt(np.mean((model.latent_ - forum.latent) ** 2))
        post = model.posterior_
        made = 0 if post.length is None else post.length.n_iterations
        return _Score(
            name,
            predicted.nll(forum.test.outcome),
            float(correlation),
            float(rmse),
            made,
            post.verdict(),
        )

    return _Findings(
        table=contingency_matrix(dual.labels_, forum.labels).tolist(),
        mean_n_clusters=float(dual.posterior_["n_clusters"].mean()),
        rand=float(adjusted_rand_score(forum.labels, dual.labels_)),
        scores=(score("dual-DP", dual), score("single", single)),
        floor=float(0.5 * (math.log(2 * math.pi * _NOISE_VARIANCE) + 1)),
    )


def _summary(findings: _Findings) -> str:
    true, found = findings.true_sizes, findings.sizes
    lines = [
        f"true clusters   {len(true)}, sizes {_listed(true)}",
        f"found clusters  {len(found)}, sizes {_listed(found)}; {findings.mean_n_clusters:.1f} "
        "in an average draw",
        f"adjusted Rand   {findings.rand:.3f} (1: found = true; 0: no better than chance)",
        "",
        "model        test NLL   correlation   RMSE of latent coefficients",
        *(
            f"{s.model:<11}  {s.nll:8.3f}   {s.correlation:11.3f}   {s.rmse:4.1f}"
            for s in findings.scores
        ),
        f"noise alone  {findings.floor:8.3f}",
        "",
        *(
            f"{s.model}, {s.n_iterations:,} iterations per chain. {s.verdict}"
            for s in findings.scores
        ),
    ]
    return "\n".join(lines)


_REPORT = """\
# A forum whose truth is known

{n_users} simulated users in {n_true} clusters. Members of a cluster are alike in two features and
in a latent coefficient: what a user adds to the outcome of a thread. The model sees the features,
who took part in which thread and the outcomes of the threads. It sees neither the clusters nor the
coefficients, and it does not know the number of clusters.

![Users by features and by latent coefficients, colored by cluster](picture.png)

Left: users by their features. Right: each user's coefficient, posterior median with 95 % interval;
black ticks are the truth. Colors and markers are the estimated clusters.

## Clusters

Adjusted Rand index against the truth: **{rand:.3f}** (1 when the partitions are the same, 0 on
average by chance). The truth has {n_true} clusters, the partition estimate {n_found}, an average
draw of the posterior {mean_n_clusters:.1f}.

{clusters}

## Predictions

{scores}

*Test NLL* is the negative log-likelihood per test thread, lower is better. *Dual-DP* uses features
and threads and infers the number of clusters; *single* uses only the threads and has all users in
one cluster. *Noise alone* is the entropy of the noise, ½ ln(2πe · {noise_variance:g}): the expected
score if every coefficient and the noise variance were known. *Correlation* and *RMSE* compare the
posterior medians of the coefficients with the truth, user by user.

## Can it be trusted?

{verdicts}

## To repeat it

```
{command}
```

{versions}. `users.csv` has a row per user: cluster, coefficient with 95 % interval, truth.
"""


def _report(findings: _Findings, command: str) -> str:
    columns = [f"true {k}" for k in range(len(findings.true_sizes))]
    clusters = [[str(c), str(sum(row)), *map(str, row)] for c, row in enumerate(findings.table)]
    scores = [
        [s.model, f"{s.nll:.3f}", f"{s.correlation:.3f}", f"{s.rmse:.1f}"] for s in findings.scores
    ]
    packages = ("numpy", "scipy", "numba", "scikit-learn", "matplotlib")
    versions = [
        f"dualview {__version__}",
        f"Python {platform.python_version()}",
        *(f"{p} {version(p)}" for p in packages),
    ]
    return _REPORT.format(
        n_users=sum(findings.sizes),
        n_true=len(findings.true_sizes),
        n_found=len(findings.sizes),
        mean_n_clusters=findings.mean_n_clusters,
        rand=findings.rand,
        clusters=_markdown(["found cluster", "users", *columns], clusters),
        scores=_markdown(
            ["model", "test NLL", "correlation", "RMSE"],
            [*scores, ["noise alone", f"{findings.floor:.3f}", "", ""]],
        ),
        noise_variance=_NOISE_VARIANCE,
        verdicts="\n".join(
            f"- *{s.model}*, {s.n_iterations:,} iterations per chain. {s.verdict}"
            for s in findings.scores
        ),
        command=command,
        versions=", ".join(versions),
    )


def _users_table(forum: Forum, model: DualViewMixture) -> bytes:
    """A row per user, as CSV."""
    low, high = model.posterior_.interval("latent", 0.95).T
    columns = {
        "user": range(len(forum.labels)),
        "cluster": model.labels_,
        "latent_median": model.latent_,
        "latent_low": low,
        "latent_high": high,
        "true_latent": forum.latent,
        "true_cluster": forum.labels,
    }
    return csv_bytes(pd.DataFrame(columns), float_format="%.6g")


def _markdown(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _listed(sizes: list[int]) -> str:
    return ", ".join(map(str, sizes))
