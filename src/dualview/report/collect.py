"""The first half: what a report says, read from a run's folder into a plain dict of words, numbers
and pictures.

A section that the run has nothing for has a word of explanation under ``missing``.
"""

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualview import plots
from dualview.columns import Column
from dualview.plots.canvas import groups_of
from dualview.posterior import Posterior
from dualview.posterior.partition import PartitionEstimate, crosstab
from dualview.posterior.partition.certainty import certainty_text
from dualview.posterior.partition.profiles import (
    Profile,
    profiles,
    ranks_of,
    separation,
    table_profile,
)
from dualview.posterior.prediction.imputation import imputed_of_fit
from dualview.report import pictures
from dualview.report.answers import (
    curves_section,
    effects_section,
    typical_decimals,
    vectors_section,
)
from dualview.report.checks import diagnostics_section
from dualview.report.comparison import comparison_section
from dualview.report.contrasts import contrasts_section
from dualview.report.extras import Predicted, read_activity, read_forum_files, read_predictions
from dualview.report.fits import fits_section
from dualview.report.model_fit import model_fit_section
from dualview.report.settings import settings_section
from dualview.runs.about_answers import read_about
from dualview.runs.run import load_run, summary_of_run
from dualview.words import report as words
from dualview.words.clusters import Summary, n_at_length, n_draws
from dualview.words.numbers import decimals, estimate, number, rounded, share
from dualview.words.report import sentence, vocabulary

Array = NDArray[np.float64]
Users = NDArray[np.intp]
Section = dict[str, Any]

MOST_USERS = 3000  # in the table and on the map
_MOST_DOTS = 250  # users of a role beside its interval
_SIMILARITY_USERS = 3000
_FEWEST_DRAWS = 40  # for the ends of a 95 % interval and for shares of draws
_MOST_LEVELS = 4  # of a nominal column in a role's profile
_COLUMNS = 4  # features in the table of users


def collect_run(folder: Path) -> dict[str, Any]:
    """Everything a report says about the finished run in a folder."""
    plots.require_matplotlib()
    run = _Run(folder)
    predicted = read_predictions(folder, run.called)
    return {
        "called": run.called,
        "title": words.title(folder, run.forum.settings),
        "notes": [sentence(note) for note in run.forum.settings.get("notes", [])],
        "words": words.overview(run.summary, run.forum.settings, run.about),
        "roles": _roles(run),
        "contrasts": contrasts_section(
            run.post,
            run.labels,
            run.looks,
            run.forum.settings.get("features", {}),
            words.rough(run.summary, _FEWEST_DRAWS),
        ),
        "power": _power(run),
        "vectors": vectors_section(run.clusters, run.looks),
        "effects": None if run.about is None else effects_section(run.post),
        "curves": None
        if run.about is None
        else curves_section(run.post, run.about, run.profiles, run.looks),
        "map": _map(run),
        "users": _users(run),
        "similarity": _similarity(run),
        "predictions": _predictions(predicted, run),
        "comparison": comparison_section(run.forum.evaluation),
        "fits": fits_section(folder, run.post, run.called),
        "diagnostics": diagnostics_section(run.post, run.called),
        "model_fit": model_fit_section(folder, run.post),
        "settings": settings_section(folder, run.forum.settings),
        "data": _data(run),
    }


class _Run:
    """A fitted model with what several sections need of it."""

    def __init__(self, folder: Path) -> None:
        self.model = model = load_run(folder)
        self.post: Posterior = model.posterior_
        self.estimate: PartitionEstimate = self.post.partition_estimate()
        self.labels = self.estimate.labels
        self.n_roles = int(self.labels.max()) + 1
        self.ids = self.post.user_ids
        self.summary = summary_of_run(folder)
        self.clusters = self.summary["clusters"]
        self.forum = read_forum_files(folder)
        self.about = read_about(folder)
        self.called = vocabulary(self.about)
        self.features, self.names, self.units = self.post.features, self.post.feature_names, ""
        self.columns: list[Column | None] = [None] * len(self.names)  # of a table of mixed kinds
        self.cells, self.codebook = self.post.cells, self.post.spec.codebook
        if self.cells is not None and self.codebook is not None:
            numbers = [block for block in self.post.blocks if not block.has_shares]
            found = [column for block in numbers for column in block.columns]
            self.columns, self.names = list(found), [column.name for column in found]
            if self.columns:
                self.features = imputed_of_fit(np.random.default_rng(0), self.post).numbers
                self.units = words.table_units(
                    int(self.cells.missing.sum()),
                    any(column.levels for column in self.codebook.of("features")),
                )
        activity = read_activity(folder, self.ids)
        if activity is not None:
            self.features, self.names = (
                activity.to_numpy(dtype=float),
                [str(name) for name in activity],
            )
            self.units = words.units(self.names, self.summary["features"])
            self.columns = [None] * len(self.names)
        self.ranks = None if self.features is None else ranks_of(self.features)
        groups = [users for _, users in groups_of(self.labels)]
        self.profiles: list[Profile] = profiles(groups, self.features)
        self.has_power = "latent" in self.post and self.post["latent"].ndim == 3
        if self.has_power:
            self.latent_median = self.post.latent_median
            self.low, self.high = self.post.interval("latent", 0.95).T
            self.powers = [cluster["latent"] for cluster in self.clusters]
            self.decimals = typical_decimals(self.powers)
        self.looks = [pictures.cluster_look(role) for role in range(self.n_roles)]

    @cached_property
    def level_shares(self) -> Summary:
        """Of all users, in the nominal columns."""
        everybody: Summary = table_profile(self.post, np.arange(len(self.labels)))
        return dict(everybody.get("level_shares", {}))

    @cached_property
    def by_separation(self) -> list[int]:
        """Features, in the order of how well they distinguish the roles."""
        if self.ranks is None:
            return []
        return [int(j) for j in np.argsort(-separation(self.ranks, self.labels), kind="stable")]

    @cached_property
    def shown(self) -> Users:
        """The users who are listed: all, or the surest of each role in proportion to its size."""
        if len(self.labels) <= MOST_USERS:
            return np.arange(len(self.labels))
        place, numbers = np.empty(len(self.labels)), {user: u for u, user in enumerate(self.ids)}
        for item, cluster in zip(self.profiles, self.clusters, strict=True):
            order = item.users[np.argsort(-self.estimate.membership[item.users], kind="stable")]
            place[order] = np.arange(len(order)) / len(order)
            named = [numbers[user] for user in cluster["typical_users"]]
            place[named] = -1.0  # they are on the cards
        return np.sort(np.argsort(place, kind="stable")[:MOST_USERS])


def _roles(run: _Run) -> Section:
    roles = [_role(run, role) for role in range(run.n_roles)]
    n_cards = n_at_length([role["size"] for role in roles])
    return {
        "intro": [
            *words.roles_intro(run.summary),
            certainty_text(run.post.flat("z"), run.estimate, "role"),
            *filter(None, [crosstab.text(run.post, "role")]),
        ],
        "crosstab": _crosstab(run.post),
        "cards": roles[:n_cards],
        "others": roles[n_cards:],
        "has_features": run.post.has_features or run.features is not None,
        "units": run.units,
        "meanings": run.forum.meanings,
        "outcome": words.plain_outcome(run.forum.settings),
    }


def _crosstab(post: Posterior) -> Section | None:
    """Users by the role they look like and the one they act like, where the fit asked."""
    if "agreement" not in post:
        return None
    table = post.crosstab()
    rows = [
        {"looks": int(looks), "counts": counts.tolist()}
        for looks, counts in zip(table.index, table.to_numpy(), strict=True)
    ]
    return {"acts": [int(acts) for acts in table.columns], "rows": rows}


def _role(run: _Run, role: int) -> dict[str, Any]:
    found, cluster = run.profiles[role], run.clusters[role]
    result: dict[str, Any] = {
        "role": role,
        "look": run.looks[role],
        "size": cluster["size"],
        "share": share(cluster["share"]),
        "certainty": share(cluster["certainty"]),
        "typical": cluster["typical_users"],
        "label": cluster["name"],
        "features": [],
        "words": "" if role in run.forum.roles else sentence(cluster["words"]),
    }
    if found.quartiles is not None and found.standing is not None:
        result["features"] = [
            {
                "name": run.names[j],
                "low": _value_text(run.columns[j], found.quartiles[0, j]),
                "median": _value_text(run.columns[j], found.quartiles[1, j]),
                "high": _value_text(run.columns[j], found.quartiles[2, j]),
                "standing": round(100 * float(found.standing[j]), 1),
                "standing_text": share(float(found.standing[j])),
            }
            for j in run.by_separation
        ]
    result["categories"] = _categories(cluster.get("level_shares", {}), run.level_shares)
    if run.has_power:
        result["latent"] = estimate(run.powers[role], run.decimals)
        factor = run.forum.roles.get(role, {}).get("factor")
        if factor is not None:  # files of versions before medians have a mean
            factor = estimate({"median": factor.get("mean"), **factor}, 2)
        result["factor"] = factor
    return result


def _value_text(column: Column | None, value: float) -> str:
    """A number, or the name of a level where an ordinal column has it."""
    return number(value) if column is None or not column.levels else column.levels[int(value + 0.5)]


def _categories(shares: Summary, everybody: Summary) -> list[dict[str, Any]]:
    """Shares of levels in the nominal columns, the largest first, beside those of all users."""
    return [
        {
            "name": name,
            "levels": [
                {"name": level, "share": share(own[level]), "of_all": share(everybody[name][level])}
                for level in sorted(own, key=own.__getitem__, reverse=True)[:_MOST_LEVELS]
            ],
        }
        for name, own in shares.items()
    ]


def _power(run: _Run) -> Section:
    """Roles from the most powerful to the least, with places along a common axis in percent."""
    if not run.has_power:
        return {"missing": words.SEVERAL_LATENT if "latent" in run.post else words.NO_LATENT}
    found = run.powers
    dots = [_spread(item.users, run.latent_median) for item in run.profiles]
    ends = [
        *run.latent_median[np.concatenate(dots)],
        *(item["low"] for item in found),
        *(item["high"] for item in found),
        0.0,
    ]
    axis = pictures.Axis(float(min(ends)), float(max(ends)))
    rows = []
    for role in sorted(range(run.n_roles), key=lambda role: -found[role]["median"]):
        latent = found[role]
        rows.append(
            {
                "role": role,
                "look": run.looks[role],
                "size": len(run.profiles[role].users),
                **estimate(latent, run.decimals),
                "above": share(
                    float(np.clip(latent["above"], 1e-3, 1 - 1e-3))
                ),  # no number of draws makes it certain
                "at": axis.place(latent["median"]),
                "from": axis.place(latent["low"]),
                "to": axis.place(latent["high"]),
                "dots": [axis.place(value) for value in run.latent_median[dots[role]]],
            }
        )
    return {
        "missing": None,
        "intro": words.power_intro(run.summary, run.forum.settings, _FEWEST_DRAWS, run.about),
        "rows": rows,
        "most_dots": _MOST_DOTS
        if max(len(item.users) for item in run.profiles) > _MOST_DOTS
        else None,
        "ticks": [{"at": axis.place(tick), "text": number(tick)} for tick in axis.ticks],
        "zero": axis.place(0.0),
        "average": axis.place(float(run.latent_median.mean())),
    }


def _spread(users: Users, values: Array) -> Users:
    """All of these users, or as many as are drawn, evenly over their values."""
    order = users[np.argsort(values[users], kind="stable")]
    places = np.linspace(0, len(order) - 1, min(len(order), _MOST_DOTS)).astype(np.intp)
    return np.asarray(order[places])


def _map(run: _Run) -> Section:
    """Which two quantities the map starts with."""
    if run.features is None and not run.has_power:
        return {
            "missing": "There is nothing to map: the run has neither features nor latent "
            "coefficients."
        }
    chosen = [run.names[j] for j in run.by_separation[:2]]
    intro = words.map_intro(run.features is not None, run.has_power, chosen, run.called)
    return {"missing": None, "intro": intro}


def _users(run: _Run) -> Section:
    n_shown = len(run.shown)
    return {
        "n": len(run.labels),
        "n_shown": n_shown,
        "note": words.users_note(len(run.labels), n_shown),
    }


def _similarity(run: _Run) -> Section:
    if len(run.labels) > _SIMILARITY_USERS:
        return {"missing": words.too_many_for_similarity(len(run.labels), _SIMILARITY_USERS)}
    if n_draws(run.summary) < _FEWEST_DRAWS:
        return {"missing": words.too_few_draws(run.summary, _FEWEST_DRAWS)}
    return {
        "missing": None,
        "picture": pictures.similarity(run.model),
        "intro": words.similarity_intro(run.summary),
    }


def _predictions(predicted: Predicted | str, run: _Run) -> Section:
    if isinstance(predicted, str):
        return {"missing": predicted}
    scores = predicted.scores()
    return {
        "missing": None,
        "words": words.predictions(scores, run.forum.settings, run.called),
        "scores": words.score_rows(scores, run.called),
        "pictures": [
            {
                **pictures.predictions(predicted.distribution, predicted.outcome),
                "alt": words.predictions_alt(scores, run.called),
                "caption": f"Predictions of test {run.called.observations} and outcomes, from "
                "the smallest outcome to the "
                "largest.",
            },
            {
                **pictures.calibration(predicted.distribution, predicted.outcome),
                "alt": words.calibration_alt(scores),
                "caption": "Calibration: share of outcomes inside central intervals, against the "
                "nominal share.",
            },
        ],
    }


def _data(run: _Run) -> dict[str, Any]:
    """What the page's script works with: columns of users, and how roles look."""
    shown = run.shown
    columns: list[dict[str, Any]] = []
    if run.has_power:
        columns.append({"name": run.called.power, "values": rounded(run.latent_median[shown])})
        columns[0] |= {"low": rounded(run.low[shown]), "high": rounded(run.high[shown])}
        columns[0]["decimals"] = decimals(float(np.median(run.high - run.low)))
    first = len(columns)
    if run.features is not None:
        columns += [
            {"name": name, "values": rounded(run.features[shown, j])}
            for j, name in enumerate(run.names)
        ]
    separating = [first + j for j in run.by_separation]
    axes = ([*separating, *range(first), -1, -1])[:2]
    return {
        "users": [run.ids[u] for u in shown],
        "role": run.labels[shown].tolist(),
        "certainty": rounded(run.estimate.membership[shown], 3),
        "columns": columns,
        "power": 0 if run.has_power else None,
        "listed": sorted(separating[:_COLUMNS]),
        "axes": axes,
        "roles": [
            {"size": len(item.users), **look}
            for item, look in zip(run.profiles, run.looks, strict=True)
        ],
    }
