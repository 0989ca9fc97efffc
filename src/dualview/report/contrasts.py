"""The section on what distinguishes the roles: how the averages of a role's members differ from
those of all users, with intervals. Latent coefficients have a section of their own."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dualview.errors import AbsentError
from dualview.posterior import Posterior
from dualview.posterior.partition.averages import EVERYBODY, profiles_of
from dualview.words import report as words
from dualview.words.clusters import n_at_length
from dualview.words.numbers import estimate, number, share, tenths

_MOST_COLUMNS = 5  # of a role


def contrasts_section(
    post: Posterior,
    labels: NDArray[np.int64],
    looks: Sequence[Mapping[str, str]],
    made: Mapping[str, str],
    rough: str,
) -> dict[str, Any]:
    """Rows for each role that has a card: the columns that distinguish it most.

    made: how columns were made from what they are named after, where they were. rough: a sentence
    of caution where intervals rest on few draws.
    """
    sizes = np.bincount(labels)
    if len(sizes) == 1:
        return {"missing": words.ONE_ROLE}
    if not post.has_features:
        return {"missing": words.NO_CONTRASTS}
    n_roles = n_at_length(sizes.tolist())
    try:
        table = profiles_of(post, labels, range(n_roles), EVERYBODY, 0.95)
    except AbsentError as error:
        return {"missing": str(error)}
    table = table[table["quantity"] != "latent"]
    if table.empty:
        return {"missing": words.NO_AVERAGES}
    roles = [
        {"role": role, "look": looks[role], "rows": _rows(own, made)}
        for role, own in table.groupby("cluster")
    ]
    n_shown, n_columns = len(roles[0]["rows"]), table["column"].nunique()
    return {
        "missing": None,
        "intro": words.contrasts_intro(n_shown, n_columns, len(sizes) - n_roles, rough),
        "roles": roles,
    }


def _rows(table: pd.DataFrame, made: Mapping[str, str]) -> list[dict[str, Any]]:
    """The first columns of a role, which distinguish it most; of levels the one that differs most,
    of two the last."""
    found: list[dict[str, Any]] = []
    for column, rows in table.groupby("column", sort=False):
        if len(found) == _MOST_COLUMNS:
            break
        size = rows["standardized"].abs()
        row = rows.iloc[-1] if len(rows) == 2 else rows.loc[size.idxmax()]
        found.append(
            {
                "name": str(column),
                "level": row["level"],
                "quantity": words.quantity(row["quantity"], made.get(str(column), "")),
                **_texts(row),
                # no number of draws makes it certain
                "above": share(float(np.clip(row["above"], 1e-3, 1 - 1e-3))),
                "standardized": tenths(row["standardized"]),
            }
        )
    return found


def _texts(row: pd.Series) -> dict[str, str]:
    """The median and the interval, of probabilities in percentage points."""
    scale = 100.0 if row["quantity"] == "probability" else 1.0
    ends = {name: scale * float(row[name]) for name in ("median", "low", "high")}
    if not all(map(math.isfinite, ends.values())):
        return {name: number(value) for name, value in ends.items()}
    return estimate(ends)
