"""PReMiuM beside dualview, where R and the package PReMiuM are installed."""

import json
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import adjusted_rand_score

from benchmarks.profiles.designs import DESIGNS, Design, People
from benchmarks.profiles.fits import Result, Task, data_of

N_WARMUP, N_SWEEPS = 2000, 5000  # of one chain: PReMiuM has no verdict
_OUTCOMES = {
    "Bernoulli": "Bernoulli",
    "binomial": "Binomial",
    "Poisson": "Poisson",
    "normal": "Normal",
    "categorical": "Categorical",
    "survival": "Survival",
}
_PROGRAM = """
library(PReMiuM)
asked <- jsonlite::fromJSON("asked.json", simplifyVector = TRUE)
table <- read.csv("table.csv")
given <- list(yModel = asked$outcome, xModel = asked$covariates, data = table, outcome = "outcome",
  covNames = c(asked$levels, asked$numbers), output = "run", nBurn = asked$warmup,
  nSweeps = asked$sweeps, nProgress = asked$sweeps, seed = asked$seed)
if (asked$covariates == "Mixed") {
  given$discreteCovs <- asked$levels
  given$continuousCovs <- asked$numbers
}
if (length(asked$common)) given$fixedEffectsNames <- asked$common
if ("outcomeT" %in% names(table)) given$outcomeT <- "outcomeT"
spent <- system.time({
  run <- do.call(profRegr, given)
  best <- calcOptimalClustering(calcDissimilarityMatrix(run))
})
jsonlite::write_json(list(labels = best$clustering, seconds = sum(spent[c(1, 2, 4, 5)])),
  "found.json", auto_unbox = TRUE, digits = NA)
"""
ABSENT = (
    "PReMiuM is left out: R with the packages PReMiuM and jsonlite is not installed where this ran."
)


def is_installed() -> bool:
    """Whether R and the packages are there."""
    if shutil.which("Rscript") is None:
        return False
    asked = "quit(status = !all(sapply(c('PReMiuM', 'jsonlite'), requireNamespace)))"
    found = subprocess.run(["Rscript", "-e", asked], capture_output=True, check=False)
    return found.returncode == 0


def run(task: Task) -> Result:
    """PReMiuM's partition of the people of a task, and its seconds."""
    design = DESIGNS[task.design]
    people, _ = data_of(task)
    with TemporaryDirectory() as place:
        folder = Path(place)
        table, asked = _inputs(design, people, task.seed)
        table.to_csv(folder / "table.csv", index=False)
        (folder / "asked.json").write_text(json.dumps(asked), encoding="utf-8")
        (folder / "program.R").write_text(_PROGRAM, encoding="utf-8")
        ran = subprocess.run(
            ["Rscript", "program.R"], cwd=folder, capture_output=True, text=True, check=False
        )
        if ran.returncode:
            return Result(note=ran.stderr.strip().splitlines()[-1])
        found = json.loads((folder / "found.json").read_text(encoding="utf-8"))
    labels = np.array(found["labels"])
    return Result(
        len(labels),
        len(design.groups),
        len(np.unique(labels)),
        float(adjusted_rand_score(people.labels, labels)),
        float(adjusted_rand_score(people.labels, design.best_labels(people))),
        seconds=float(found["seconds"]),
    )


def _inputs(design: Design, people: People, seed: int) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The table that PReMiuM reads, levels as 0, 1, 2, …, and what it is asked for."""
    table = people.covariates.rename(columns=lambda name: name.replace(" ", "."))
    levels = [name for name in table if name.startswith("level")]
    numbers = [name for name in table if name.startswith("number")]
    for name in levels:
        codes = pd.Categorical(table[name], list("abcd")).codes
        table[name] = pd.Series(codes, dtype="Int64").mask(codes < 0)
    common = [f"common.{j}" for j in range(people.common.shape[1])]
    table[common] = people.common
    table["outcome"] = people.outcome
    for own in people.rows.values():
        table["outcomeT"] = own
    return table, {
        "outcome": _OUTCOMES[design.outcome],
        "covariates": design.covariates.capitalize(),
        "levels": levels,
        "numbers": numbers,
        "common": common,
        "warmup": N_WARMUP,
        "sweeps": N_SWEEPS,
        "seed": seed,
    }
