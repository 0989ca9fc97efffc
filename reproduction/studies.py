"""The studies by name, and the cells each consists of."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from dualview.errors import InputError
from reproduction.baselines import BASELINES, CLUSTERINGS
from reproduction.cells import Cell, Effort
from reproduction.forums import SCENARIOS, SHAPES
from reproduction.models import COMPARED, MODELS

ALL = ("agreement", "disagreement", "iris", "cost")
INFORMATION = (
    ("disagreement", 10, 100),
    ("disagreement", 25, 25),
    ("disagreement", 100, 10),
    ("iris", 50, 10),
    ("iris", 50, 100),
)
RADII = (0.45, 0.3, 0.2, 0.1)
SCALES = (0.25, 4.0)
FEW_THREADS = 50  # of studies that vary something else
LINKED = (("link", "linear"),)
SIZES_AT = 50  # threads of the figure of cluster sizes


@dataclass(frozen=True)
class Plan:
    """How much of everything."""

    seed: int
    sizes: tuple[int, ...]  # threads of the main figures
    repetitions: int
    few_sizes: tuple[int, ...]  # threads and repetitions of the other studies
    few_repetitions: int
    users: tuple[int, ...]
    draw_sizes: tuple[
        int, ...
    ]  # threads of the study of other draws: where dual-DP lost to the published ARI with seed 0
    link_sizes: tuple[int, ...]
    effort: Effort
    cost_effort: Effort
    link_effort: Effort  # less: an iteration with the link takes more than twice as long

    @classmethod
    def full(cls, seed: int) -> "Plan":
        """The paper's sizes and repetitions, 30,000 iterations a fit as in the paper."""
        return cls(
            seed=seed,
            sizes=tuple(range(10, 101, 10)),
            repetitions=5,
            few_sizes=(10, 30, 50, 100),
            few_repetitions=3,
            users=(10, 25, 50, 75, 100),
            draw_sizes=(20, 30, 50, 70),
            link_sizes=(10, 20, 30, 50, 70, 100),
            effort=Effort(n_chains=2, n_warmup=5000, n_draws=2000, thin=5),
            cost_effort=Effort(n_chains=1, n_warmup=15000, n_draws=15000, thin=1),
            link_effort=Effort(n_chains=2, n_warmup=1000, n_draws=1000, thin=2),
        )

    @classmethod
    def quick(cls, seed: int) -> "Plan":
        """A look: three sizes, two repetitions, 4,000 iterations a fit."""
        return cls(
            seed=seed,
            sizes=(10, 50, 100),
            repetitions=2,
            few_sizes=(10, 100),
            few_repetitions=1,
            users=(10, 50, 100),
            draw_sizes=(20, 50),
            link_sizes=(10, 50, 100),
            effort=Effort(n_chains=2, n_warmup=500, n_draws=750, thin=2),
            cost_effort=Effort(n_chains=1, n_warmup=1000, n_draws=4000, thin=1),
            link_effort=Effort(n_chains=2, n_warmup=250, n_draws=250, thin=2),
        )

    def cell(
        self,
        scenario: str,
        model: str,
        n_threads: int = FEW_THREADS,
        repetition: int = 0,
        **others: Any,
    ) -> Cell:
        """A cell with the plan's seed and effort."""
        return Cell(
            scenario, model, n_threads, repetition, self.seed, **{"effort": self.effort, **others}
        )


def _scenario(name: str) -> Callable[[Plan], list[Cell]]:
    """The figure of a scenario: three models at all sizes."""

    def cells(plan: Plan) -> list[Cell]:
        return [
            plan.cell(name, model, n, repetition, extras=_wanted(name, model, n, repetition))
            for n in plan.sizes
            for model in COMPARED
            for repetition in range(plan.repetitions)
        ]

    return cells


def _wanted(scenario: str, model: str, n_threads: int, repetition: int) -> tuple[str, ...]:
    """Cluster sizes of the one fit whose figure shows them."""
    return (
        ("sizes",)
        if (scenario, model, n_threads, repetition) == ("iris", "dual-DP", SIZES_AT, 0)
        else ()
    )


def _cost(plan: Plan) -> list[Cell]:
    chains = [
        plan.cell("agreement", model, 100, effort=plan.cost_effort, extras=("autocorrelation",))
        for model in COMPARED
    ]
    sizes = [
        plan.cell("agreement", "dual-DP", 100, n_users=n, effort=plan.cost_effort)
        for n in plan.users
        if n != 50
    ]
    return chains + sizes


def _models(plan: Plan) -> list[Cell]:
    """Models without a behavior do not see the threads: one size is enough for them."""
    return [
        plan.cell(scenario, model, n, repetition)
        for scenario in SCENARIOS
        for model, kind in MODELS.items()
        for n in (plan.few_sizes if kind.behavior else (plan.few_sizes[-1],))
        for repetition in range(plan.few_repetitions if kind.behavior else 1)
    ]


def _information(plan: Plan) -> list[Cell]:
    return [
        plan.cell(
            scenario, "dual-DP", n_threads, n_users=n_users, extras=("predictions", "similarity")
        )
        for scenario, n_users, n_threads in INFORMATION
    ]


def _starts(plan: Plan) -> list[Cell]:
    settings = [(("init", start), ("n_auxiliary", 3)) for start in ("one", "truth")]
    settings += [(("init", "kmeans"), ("n_auxiliary", n)) for n in (3, 4, 5)]
    return [
        plan.cell(scenario, "dual-DP", repetition=repetition, fit=setting)
        for scenario in SCENARIOS
        for setting in settings
        for repetition in range(plan.few_repetitions)
    ]


def _sensitivity(plan: Plan) -> list[Cell]:
    settings = [((f"{view}_scale", scale),) for view in ("feature", "behavior") for scale in SCALES]
    cells = []
    for scenario in SCENARIOS:
        for repetition in range(plan.few_repetitions):
            cells.append(
                plan.cell(scenario, "dual-DP", repetition=repetition, extras=("alpha_prior",))
            )
            cells += [
                plan.cell(scenario, "dual-DP", repetition=repetition, fit=setting)
                for setting in settings
            ]
    return cells


def _changed_features(*options: tuple[str, float]) -> Callable[[Plan], list[Cell]]:
    """The agreement scenario with other features, at a few sizes; the single model does not see
    them."""

    def cells(plan: Plan) -> list[Cell]:
        return [
            plan.cell("agreement", model, n, repetition, data=() if model == "single" else options)
            for n in plan.few_sizes
            for model in COMPARED
            for repetition in range(plan.few_repetitions)
        ]

    return cells


def _at_few_threads(plan: Plan, variants: Iterable[tuple[str, float | str]]) -> list[Cell]:
    """Variants of the agreement scenario's features at one size."""
    return [
        plan.cell("agreement", model, repetition=repetition, data=(variant,))
        for variant in variants
        for model in ("dual-DP", "dual-fixed")
        for repetition in range(plan.few_repetitions)
    ] + [
        plan.cell("agreement", "single", repetition=repetition)
        for repetition in range(plan.few_repetitions)
    ]


def _overlap(plan: Plan) -> list[Cell]:
    return _at_few_threads(plan, [("radius", radius) for radius in RADII])


def _shapes(plan: Plan) -> list[Cell]:
    return _at_few_threads(plan, [("shape", shape) for shape in SHAPES])


def _users(plan: Plan) -> list[Cell]:
    return [
        plan.cell(scenario, model, repetition=repetition, n_users=n)
        for scenario in ("agreement", "disagreement")
        for n in plan.users
        for model in COMPARED
        for repetition in range(plan.few_repetitions)
    ]


def _draws(plan: Plan) -> list[Cell]:
    """The disagreement scenario with other users, coefficients and test threads: the paper's figure
    shows one draw of them."""
    return [
        replace(plan.cell("disagreement", model, n), seed=plan.seed + draw)
        for n in plan.draw_sizes
        for model in ("dual-DP", "dual-fixed")
        for draw in range(plan.repetitions)
    ]


def _link(plan: Plan) -> list[Cell]:
    """Each draw of users and threads with and without the link, on the same seeds."""
    return [
        replace(
            plan.cell(scenario, "dual-DP", n, effort=plan.link_effort, fit=setting),
            seed=plan.seed + draw,
        )
        for scenario in SCENARIOS
        for n in plan.link_sizes
        for setting in ((), LINKED)
        for draw in range(plan.repetitions)
    ]


def _baselines(plan: Plan) -> list[Cell]:
    """Clusterings do not see the threads: their repetitions differ in the seed of the algorithm
    only."""
    return [
        plan.cell(scenario, name, n, repetition)
        for scenario in SCENARIOS
        for name in (*BASELINES, *COMPARED)
        for n in ((plan.few_sizes[-1],) if name in CLUSTERINGS else plan.few_sizes)
        for repetition in range(plan.few_repetitions)
    ]


STUDIES: dict[str, Callable[[Plan], list[Cell]]] = {
    "agreement": _scenario("agreement"),
    "disagreement": _scenario("disagreement"),
    "iris": _scenario("iris"),
    "cost": _cost,
    "models": _models,
    "information": _information,
    "starts": _starts,
    "sensitivity": _sensitivity,
    "randomized": _changed_features(("shuffled", 1)),
    "unstructured": _changed_features(("radius", 0.0)),
    "overlap": _overlap,
    "shapes": _shapes,
    "users": _users,
    "draws": _draws,
    "link": _link,
    "baselines": _baselines,
}


def chosen(names: Iterable[str]) -> list[str]:
    """Names of studies in their order, "all" for the main ones; an unknown name is an error."""
    asked = list(names) or ["all"]
    unknown = [name for name in asked if name not in STUDIES and name != "all"]
    if unknown:
        raise InputError(
            f"Studies are all (= {', '.join(ALL)}), {', '.join(STUDIES)}; got "
            f"{', '.join(map(repr, unknown))}. Give some of "
            "these."
        )
    wanted = {*asked, *(ALL if "all" in asked else ())}
    return [name for name in STUDIES if name in wanted]
