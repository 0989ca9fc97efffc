"""The link on forums: does it take the best of all at every number of threads?

    python -m benchmarks.link --forum NAME POSTS [OPTION=VALUE ...] [--forum ...] --threads 200 500
    1000 --out docs/link

reads each file of posts as ``dualview forum`` does (options are those of ``dualview.read_forum``),
keeps about a hundred of the most active users, and predicts the later threads from random subsets
of the earlier ones, by

- mean: the covariates alone, or the mean;
- ridge: participants, each with an effect around zero;
- features: the features of participants, added up, a slope each, and one for the number of
  participants;
- both: the same slopes, and effects of participants besides;
- dual: the mixture without a link; link: the mixture with ``link="linear"``;
- dual* and link*: the same with ``behavior_prior="likelihood"``. By default the behavior view's
  constant is the variance of
  ridge estimates with hardly any penalty, which is far too large where threads are few; here it is
  that of users' effects that "both" finds.

All have the same covariates, an intercept at the least. The first four are linear mixed models:
their variances maximize the restricted likelihood of the training threads, and their predictive
distributions are normal, with the uncertainty of all coefficients in them. R² of the mixtures is of
the median over draws of what a thread is expected to be: a user without a training thread can have
a predictive distribution without a mean (column r2_of_mean). It writes forums.csv (a row per forum,
size, subset and model) and forums.md. A run that was stopped continues.

Shapes: X (T, U) participation, ã (U, D) whitened features, W (T, C) covariates, y (T,).
"""

import argparse
import itertools
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

import dualview as dv
from benchmarks.forums import add_forums, add_subsets, forum_of, read, subset
from dualview.behaviors.likelihoods.restricted import Columns, fit_restricted
from dualview.files.writing import write_whole
from dualview.forum.data import ForumData, ForumThreads
from dualview.posterior import diagnostics
from reproduction.sections.parts import table

Array = NDArray[np.float64]

LINEAR = ("mean", "ridge", "features", "both")
MODELS = (*LINEAR, "dual", "link", "dual*", "link*")
RIVALS = {
    "link": ("ridge", "features", "both", "dual"),
    "link*": ("ridge", "features", "both", "dual*", "link"),
}
_SCORES = {"r2": "Test R²", "nll": "NLL per test thread"}
_KEYS = ["forum", "threads", "subset", "model"]
_LOOKED_AT = 200  # test threads whose predictions are looked at for convergence
_FLAT = 1e6  # variance of what is not penalized, in variances of the outcome


def parts(threads: ForumThreads, features: Array, model: str) -> Columns:
    """What a linear model sees of threads."""
    x = threads.participation.toarray()
    fixed = np.column_stack([np.ones(len(x)), threads.covariates.to_numpy(dtype=float)])
    nothing = np.empty((len(x), 0))
    if model in ("features", "both"):
        fixed = np.column_stack([fixed, x.sum(axis=1)])
    return Columns(
        fixed,
        x @ features if model in ("features", "both") else nothing,
        x if model in ("ridge", "both") else nothing,
    )


LinearModel = Callable[[Columns], tuple[Array, Array]]  # means and variances of new outcomes


def fit_linear(train: Columns, y: Array) -> LinearModel:
    """Variances by restricted likelihood; fixed columns have a variance so large that it does not
    matter."""
    found = fit_restricted(train, y)
    ratios = (
        _FLAT,
        found.slope_variance / found.noise or 1.0,
        found.effect_variance / found.noise or 1.0,
    )
    columns = np.hstack(train)
    penalty = np.concatenate(
        [np.full(part.shape[1], 1.0 / ratio) for part, ratio in zip(train, ratios, strict=True)]
    )
    factor = cho_factor(columns.T @ columns + np.diag(penalty), lower=True)
    coefficients = cho_solve(factor, columns.T @ y)

    def predict(new: Columns) -> tuple[Array, Array]:
        columns = np.hstack(new)
        return columns @ coefficients, found.noise * (
            1.0 + np.einsum("ij,ji->i", columns, cho_solve(factor, columns.T))
        )

    return predict


def whitened(features: pd.DataFrame) -> Array:
    """ã: centered, and white where the covariance is not singular."""
    centered = features.to_numpy() - features.to_numpy().mean(axis=0)
    factor = np.linalg.cholesky(np.atleast_2d(np.cov(centered, rowvar=False)))
    return np.linalg.solve(factor, centered.T).T


def predict_linear(name: str, data: ForumData, train: ForumThreads) -> tuple[Array, Array]:
    """Means and variances of the outcomes of the test threads by one of ``LINEAR``."""
    features = whitened(data.numbers)
    predict = fit_linear(parts(train, features, name), train.outcome)
    return predict(parts(data.test, features, name))


def score_linear(name: str, data: ForumData, train: ForumThreads) -> dict[str, float]:
    mean, variance = predict_linear(name, data, train)
    nll = 0.5 * np.log(2 * np.pi * variance) + 0.5 * (data.test.outcome - mean) ** 2 / variance
    r2 = r_squared(data.test.outcome, mean)
    return {"nll": float(nll.mean()), "r2": r2, "r2_of_mean": r2}


def score_mixture(
    name: str, data: ForumData, train: ForumThreads, sampler: dict[str, int]
) -> dict[str, float]:
    prior = "likelihood" if name.endswith("*") else None
    link = "linear" if name.startswith("link") else None
    model = dv.DualViewMixture(alpha="paper", link=link, behavior_prior=prior, **sampler)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dv.errors.ConvergenceWarning)  # R-hat is in the table
        warnings.simplefilter(
            "ignore", dv.errors.DataWarning
        )  # users without a thread in the subset
        model.fit(
            data.numbers.to_numpy(), train.behavior
        )  # taken for exact: the link knows no intervals
    predicted = model.predict_outcome(data.test.behavior)
    expected = expected_outcomes(model.posterior_, data.test)
    scalars = model.posterior_.diagnostics()
    return {
        "nll": float(predicted.nll(data.test.outcome)),
        "r2": r_squared(data.test.outcome, np.median(expected, axis=(0, 1))),
        "r2_of_mean": r_squared(data.test.outcome, predicted.mean),
        "r_hat": float(scalars["r_hat"].max()),
        "ess": float(scalars["ess_bulk"].min()),
        **predicted_convergence(expected[..., :_LOOKED_AT]),
        "n_clusters": float(model.posterior_["n_clusters"].mean()),
    }


def expected_outcomes(post: dv.Posterior, test: ForumThreads) -> Array:
    """What each draw expects of each test thread, (chain, draw, thread)."""
    design = np.column_stack([np.ones(len(test.ids)), test.covariates.to_numpy(dtype=float)])
    return np.asarray(
        post["latent"] @ test.participation.toarray().T + post["coefficients"] @ design.T
    )


def predicted_convergence(expected: Array) -> dict[str, float]:
    """R-hat and bulk ESS of what is expected of a thread: the 95 % and the 5 % quantile over
    threads."""
    found = diagnostics.table(
        {str(i): expected[..., i] for i in range(expected.shape[-1])}, brief=True
    )
    return {
        "prediction_r_hat": float(found["r_hat"].quantile(0.95)),
        "prediction_ess": float(found["ess_bulk"].quantile(0.05)),
    }


def r_squared(y: Array, mean: Array) -> float:
    """1 − squared error / squared deviation from the test threads' mean."""
    return 1.0 - float(((y - mean) ** 2).sum() / ((y - y.mean()) ** 2).sum())


def run(forums: dict[str, tuple[Path, dict[str, Any]]], plan: argparse.Namespace) -> pd.DataFrame:
    """All rows; those that the file has already are not computed again."""
    place = plan.out / "forums.csv"
    rows: list[dict[str, Any]] = pd.read_csv(place).to_dict("records") if place.exists() else []
    done = {tuple(row[key] for key in _KEYS) for row in rows}
    read_in = {name: read(path, options, plan.users) for name, (path, options) in forums.items()}
    for k, (name, data) in itertools.product(range(plan.subsets), read_in.items()):
        about = {
            "users": len(data.features),
            "features": data.features.shape[1],
            "tests": len(data.test.ids),
        }
        if not k:
            print(
                f"{name}: {about}, {len(data.training.ids)} training threads; "
                f"{', '.join(data.features)}",
                flush=True,
            )
        order = np.random.default_rng([plan.seed, k]).permutation(len(data.training.ids))
        for n, model in itertools.product([n for n in plan.threads if n <= len(order)], MODELS):
            if (name, n, k, model) in done:
                continue
            began = time.process_time()
            scores = score(model, data, subset(data.training, np.sort(order[:n])), plan, k)
            row = {"forum": name, "threads": n, "subset": k, "model": model, **about, **scores}
            rows.append(row | {"cpu_seconds": time.process_time() - began})
            write_whole(place, pd.DataFrame(rows).to_csv(index=False, float_format="%.6g").encode())
            print(
                f"{name}, {n} threads, subset {k}, {model}: R² {scores['r2']:.4f}, NLL "
                f"{scores['nll']:.4f}",
                flush=True,
            )
    order = {name: number for number, name in enumerate(forums)}
    return pd.read_csv(place).sort_values(
        ["forum", "threads", "subset"], key=lambda v: v.map(order) if v.name == "forum" else v
    )


def score(
    model: str, data: ForumData, train: ForumThreads, plan: argparse.Namespace, seed: int
) -> dict[str, float]:
    if model in LINEAR:
        return score_linear(model, data, train)
    sampler = {
        "engine": dv.Gibbs(n_warmup=plan.warmup, thin=plan.thin),
        "n_draws": plan.draws,
        "n_chains": plan.chains,
        "n_jobs": plan.jobs,
    }
    return score_mixture(model, data, train, {**sampler, "random_state": seed})


class Gain(NamedTuple):
    """What the link gains over a rival, subset by subset (above zero: the link is better), and its
    standard error."""

    mean: float
    error: float

    @property
    def verdict(self) -> str:
        if abs(self.mean) <= 2 * self.error:
            return "="
        return "+" if self.mean > 0 else "−"


def gains(rows: pd.DataFrame, score: str, model: str) -> dict[tuple[str, int, str], Gain]:
    """Of "link" or "link*", by forum, number of threads and rival."""
    wide = rows.pivot_table(index=_KEYS[:3], columns="model", values=score, sort=False)
    sign = -1.0 if score == "nll" else 1.0
    result = {}
    for (forum, n), part in wide.groupby(level=[0, 1], sort=False):
        for rival in RIVALS[model]:
            difference = sign * (part[model] - part[rival])
            result[str(forum), int(n), rival] = Gain(
                float(difference.mean()), float(difference.sem())
            )
    return result


def as_markdown(rows: pd.DataFrame, command: str) -> str:
    """Tables of both scores, what the link gains, and convergence."""
    parts = [
        f"{words}, mean over training subsets:\n\n{_scores(rows, score)}"
        for score, words in _SCORES.items()
    ]
    for model, rivals in RIVALS.items():
        found = gains(rows, "nll", model)
        places = list(dict.fromkeys((forum, n) for forum, n, _ in found))
        body = [
            [forum, str(n), *(_gain(found[forum, n, rival]) for rival in rivals)]
            for forum, n in places
        ]
        head = ["forum", "threads", *(f"over {rival}" for rival in rivals)]
        parts.append(
            f"NLL that {model} gains, mean and standard error over training subsets, paired (+ "
            "better, − worse by more than two standard errors, = neither):\n\n"
            f"{table(head, body)}"
        )
        parts.append(_verdict(model, found, gains(rows, "r2", model), places))
    return "\n\n".join([f"```\n{command}\n```", _about(rows), *parts, _convergence(rows)]) + "\n"


def _about(rows: pd.DataFrame) -> str:
    listed = []
    for forum, part in rows.groupby("forum", sort=False):
        one = part.iloc[0]
        listed.append(
            f"{forum} ({one['users']} users, {one['features']} features, {one['tests']} test "
            "threads)"
        )
    failed = int((rows["r2_of_mean"] < -1.0).sum())
    fits = int(rows["r_hat"].notna().sum())
    return (
        f"{'; '.join(listed)}. {rows['subset'].nunique()} random training subsets of each size, "
        "the same for all models. R² of "
        "the mixtures is that of posterior medians: by predictive means it is below −1 in "
        f"{failed} of {fits} fits, because a "
        "user without a training thread can have a predictive distribution without a mean."
    )


def _scores(rows: pd.DataFrame, score: str) -> str:
    means = rows.groupby(["forum", "threads", "model"], sort=False)[score].agg(["mean", "sem"])
    body = []
    for forum, n in dict.fromkeys(zip(rows["forum"], rows["threads"], strict=True)):
        values = {model: means.loc[(forum, n, model)] for model in MODELS}
        ranked = [values[model]["mean"] * (1 if score == "r2" else -1) for model in MODELS]
        best = MODELS[int(np.argmax(ranked))]
        cells = [f"{values[model]['mean']:.4f}" for model in MODELS]
        body.append(
            [
                str(forum),
                str(n),
                *(f"**{c}**" if m == best else c for m, c in zip(MODELS, cells, strict=True)),
            ]
        )
    return table(["forum", "threads", *MODELS], body)


def _gain(gain: Gain) -> str:
    return f"{gain.verdict} {gain.mean:+.4f} ± {gain.error:.4f}"


def _verdict(
    model: str,
    nll: dict[tuple[str, int, str], Gain],
    r2: dict[tuple[str, int, str], Gain],
    places: list[tuple[str, int]],
) -> str:
    lines = []
    for rival in RIVALS[model]:
        counts = {
            sign: sum(nll[forum, n, rival].verdict == sign for forum, n in places) for sign in "+=−"
        }
        change = np.mean([r2[forum, n, rival].mean for forum, n in places])
        mean = np.mean([nll[forum, n, rival].mean for forum, n in places])
        lines.append(
            f"- {model} against {rival}: better at {counts['+']} of {len(places)} points, worse "
            f"at {counts['−']}, neither at "
            f"{counts['=']}; on average {mean:+.4f} nats a thread and {change:+.4f} of R²."
        )
    return "\n".join(lines)


def _convergence(rows: pd.DataFrame) -> str:
    sentences = []
    for model in MODELS[len(LINEAR) :]:
        part = rows[rows["model"] == model]
        r_hat, predicted, ess = part["r_hat"], part["prediction_r_hat"], part["prediction_ess"]
        sentences.append(
            f"- {model}: the largest R-hat of a fit is {r_hat.median():.3f} in the median and "
            f"{r_hat.max():.3f} at worst "
            f"({int((r_hat > 1.05).sum())} of {len(part)} above 1.05). That of the expected "
            "outcomes of test threads (95 % "
            f"quantile over threads) is {predicted.median():.3f} in the median and "
            f"{predicted.max():.3f} at worst, with a bulk "
            f"ESS of {ess.median():.0f} and {ess.min():.0f}. {part['n_clusters'].mean():.1f} "
            "clusters on average."
        )
    return "\n".join(sentences)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.link", description="Held-out scores of the link on forums."
    )
    add_forums(parser)
    add_subsets(parser, threads=[200, 500, 1000], subsets=4)
    parser.add_argument("--warmup", type=int, default=500)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--thin", type=int, default=1)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("link"))
    plan = parser.parse_args(arguments)
    forums = {name: (path, options) for name, path, options in map(forum_of, plan.forum)}
    command = command_of(forums, plan)
    claim(plan.out, command)
    rows = run(forums, plan)
    write_whole(plan.out / "forums.md", as_markdown(rows, command).encode())
    print(f"Wrote {plan.out / 'forums.csv'} and {plan.out / 'forums.md'}.")


def command_of(forums: dict[str, tuple[Path, dict[str, Any]]], plan: argparse.Namespace) -> str:
    """What to type to get the same numbers, with the files' last two names."""
    words = [
        f"--forum {name} {path.parent.name}/{path.name} {' '.join(words[2:])}".strip()
        for (name, (path, _)), words in zip(forums.items(), plan.forum, strict=True)
    ]
    sizes = (
        f"--threads {' '.join(map(str, plan.threads))} --subsets {plan.subsets} --users "
        f"{plan.users}"
    )
    chains = (
        f"--warmup {plan.warmup} --draws {plan.draws} --thin {plan.thin} --chains "
        f"{plan.chains} --seed {plan.seed}"
    )
    return " \\\n    ".join(["python -m benchmarks.link", *words, sizes, chains])


def claim(out: Path, command: str) -> None:
    """Rows of one command only in a folder."""
    out.mkdir(parents=True, exist_ok=True)
    place = out / "forums.txt"
    if place.exists() and place.read_text(encoding="utf-8") != command:
        raise SystemExit(
            f"{out} has rows of another command ({place}). Give another folder with --out."
        )
    write_whole(place, command.encode())


if __name__ == "__main__":
    main()
