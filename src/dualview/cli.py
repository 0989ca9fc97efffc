"""The command line.

A command is a plain function in ``COMMANDS``; its docstring is its help, and it calls one function of the package. Heavy
imports stay inside. Results go to standard output, progress and errors to standard error.
"""

import re
import sys
import warnings
from collections.abc import Callable, Sequence
from inspect import signature
from pathlib import Path
from typing import Any, Literal

from dualview import __version__
from dualview.errors import DualViewError


def demo(
    *,
    out: Path = Path("demo"),
    seed: int = 0,
    users: int = 50,
    threads: int = 100,
    draws: int = 2000,
    quiet: bool = False,
) -> None:
    """Fit a made-up forum whose truth is known, and show what was found.

    Writes picture.png, report.md and users.csv. Takes about a minute the first time, most of it for compiling.

    Example: dualview demo --out demo --seed 0

    Parameters
    ----------
    out
        Folder for the results.
    seed
        Of the data and of the sampler: the same seed gives the same results.
    users
        Users of the forum, in five clusters.
    threads
        Threads to learn from. 100 more are kept for the test.
    draws
        Draws to keep of each of two chains, after half as many to warm up.
    quiet
        Print results only, no progress.
    """
    from dualview.demo import run

    run(out, seed, users, threads, draws, quiet)


def fit(
    users: Path,
    threads: Path | None = None,
    *,
    out: Path,
    outcomes: Path | None = None,
    user_column: str = "user",
    thread_column: str = "thread",
    weight_column: str = "weight",
    outcome_column: str = "outcome",
    covariates: tuple[str, ...] = (),
    intercept: bool = False,
    drop_unknown: bool = False,
    clusters: int | None = None,
    alpha: str | None = None,
    link: Literal["linear"] | None = None,
    pooling: Literal["cluster"] | None = None,
    feature_prior: Literal["diagonal", "shrunk"] | None = None,
    behavior_prior: Literal["likelihood"] | None = None,
    warmup: int = 1000,
    draws: int = 1000,
    thin: int = 1,
    chains: int = 4,
    keep: Literal["draws", "summary"] = "draws",
    whole: int = 100,
    seed: int = 0,
    jobs: int = -1,
    quiet: bool = False,
) -> None:
    """Fit tables of users and threads; saves as it goes, so that a run can be killed and resumed.

    Files are CSV, TSV or Parquet, compressed or not; threads may be a Matrix Market file (.mtx), threads by users.

    Example: dualview fit users.csv threads.csv --out run

    Parameters
    ----------
    users
        A row per user: an id column and features.
    threads
        A row per thread and participant: thread, user, perhaps weight, and the outcome unless --outcomes has it.
    out
        Folder of the run.
    outcomes
        A row per thread: thread, outcome, perhaps covariates. By default they are columns of the threads.
    user_column
        What the column of user ids is called.
    thread_column
        What the column of thread ids is called.
    weight_column
        What the column of weights is called.
    outcome_column
        What the column of outcomes is called.
    covariates
        Columns with properties of the threads, each with a slope outside the mixture.
    intercept
        Add a constant.
    drop_unknown
        Leave out rows of users who are not in the table of users.
    clusters
        Fixed number of clusters; inferred by default.
    alpha
        Prior of the concentration, more of which means more clusters: paper, a number that is known, "gamma(SHAPE,RATE)" or
        "inverse-gamma(SHAPE,SCALE)". By default gamma(0.25,0.25).
    link
        "linear" lets latent coefficients follow the features inside clusters too, along common slopes.
    pooling
        "cluster": the users of a cluster share one latent coefficient. By default each has its own.
    feature_prior
        For many features and few users: "shrunk" takes a covariance shrunk towards the diagonal for the features' scale,
        "diagonal" their variances alone. By default it is their covariance.
    behavior_prior
        "likelihood": the scale of latent coefficients by restricted likelihood, better than the default with few threads a
        user.
    warmup
        Iterations of each chain before draws are kept.
    draws
        Draws to keep of each chain.
    thin
        Iterations for each draw that is kept.
    chains
        Number of chains.
    keep
        Every draw whole, or, for very many users, a summary of them.
    whole
        Draws of each chain that a summary keeps whole.
    seed
        Same seed, same draws.
    jobs
        Chains at a time; all cores by default.
    quiet
        Errors and the summary only.
    """
    from dualview.runs import Request, fit_run
    from dualview.tables import Columns

    request = Request(
        users=str(users.absolute()),
        threads=None if threads is None else str(threads.absolute()),
        outcomes=None if outcomes is None else str(outcomes.absolute()),
        columns=Columns(user_column, thread_column, weight_column, outcome_column),
        covariates=covariates,
        intercept=intercept,
        drop_unknown=drop_unknown,
        n_clusters=clusters,
        alpha=alpha,
        link=link,
        pooling=pooling,
        feature_prior=feature_prior,
        behavior_prior=behavior_prior,
        n_warmup=warmup,
        n_draws=draws,
        thin=thin,
        n_chains=chains,
        keep=keep,
        n_whole=whole,
        seed=seed,
    )
    print(fit_run(request, out, n_jobs=jobs, quiet=quiet))


def resume(run: Path, *, draws: int | None = None, jobs: int = -1, quiet: bool = False) -> None:
    """Go on with a run that was stopped or killed; its draws are those of a run that was not.

    A forum's run gets its roles, scores, predictions and report anew, too.

    Example: dualview resume run

    Parameters
    ----------
    run
        Folder of the run.
    draws
        Draws per chain; more than were asked for at first are allowed.
    jobs
        Chains at a time; all cores by default.
    quiet
        Errors and the summary only.
    """
    from dualview.runs import Request, fit_run

    if (run / "forum.json").exists():
        from dualview.forum.application import resume_forum

        print(resume_forum(run, draws, n_jobs=jobs, quiet=quiet))
        report(run)
        return
    request = Request.load(run)
    if draws is not None:
        request = request.with_draws(draws)
    print(fit_run(request, run, n_jobs=jobs, quiet=quiet))


def predict(
    run: Path,
    threads: Path,
    *,
    out: Path | None = None,
    outcomes: Path | None = None,
    probability: float = 0.95,
    drop_unknown: bool = False,
) -> None:
    """Predict the outcomes of new threads of the run's users.

    Writes thread, median, mean, sd and interval; with known outcomes, their log densities too.

    Example: dualview predict run new_threads.csv --out predictions.csv

    Parameters
    ----------
    run
        Folder of a finished run.
    threads
        A table like the one of the fit, outcomes optional.
    out
        Where to write; predictions.csv in the run's folder by default.
    outcomes
        A row per thread: thread, covariates of the fit, perhaps outcome. By default they are columns of the threads.
    probability
        Of the interval.
    drop_unknown
        Leave out rows of users unknown to the fit.
    """
    from dualview.runs import predict_run

    place = run / "predictions.csv" if out is None else out
    print(predict_run(run, threads, place, probability, drop_unknown, outcomes))


def summary(run: Path, *, json: bool = False) -> None:
    """Clusters, their sizes and profiles, and whether the chains have converged.

    Example: dualview summary run --json

    Parameters
    ----------
    run
        Folder of a finished run.
    json
        For programs.
    """
    from json import dumps

    from dualview.runs import summarise, summary_text

    found = summarise(run)
    print(dumps(found, indent=2) if json else summary_text(found))


def compare(runs: tuple[Path, ...], *, out: Path | None = None) -> None:
    """Rank runs of the same threads by leave-one-out scores: with a link and without, with other numbers of clusters.

    elpd is the sum of the scores, more is better; behind is how far a run lies from the best; unsure counts threads whose
    score cannot be relied on. Reports of the runs will show the table.

    Example: dualview compare run linked

    Parameters
    ----------
    runs
        Folders of two finished runs or more.
    out
        Where to write the table, as JSON; comparison.json in the folder of each run by default.
    """
    from dualview.rankings import FILE, rank_runs

    ranking = rank_runs(runs)
    print(ranking.text(), flush=True)
    places = [run / FILE for run in runs] if out is None else [out]
    for place in places:
        ranking.save(place)
    print(f"Wrote {', '.join(map(str, places))}.")


def plot(run: Path) -> None:
    """Draw what the run has: users by features, latent coefficients, similarity, numbers of clusters, traces.

    Example: dualview plot run

    Parameters
    ----------
    run
        Folder of a finished run; pictures go to its folder plots.
    """
    from dualview.runs import plot_run

    print(f"Wrote {', '.join(str(path) for path in plot_run(run))}.")


def report(run: Path, *, out: Path | None = None, against: tuple[Path, ...] = ()) -> None:
    """Write one HTML file about a run: roles, catalytic powers, users, predictions, whether to trust it. It opens offline.

    Example: dualview report run --out report.html

    Parameters
    ----------
    run
        Folder of a finished run.
    out
        The file to write; report.html in the run's folder by default.
    against
        Other runs of the same threads, to say which predicts best; kept as comparison.json in the run's folder.
    """
    from dualview.report import write_report

    print(f"Wrote {write_report(run, out, against)}.")


def reproduce(
    names: tuple[str, ...] = ("all",),
    *,
    out: Path,
    quick: bool = False,
    seed: int = 0,
    jobs: int = -1,
    quiet: bool = False,
) -> None:
    """Run the paper's experiments and set the published numbers beside the new ones.

    Writes results.csv, figures and report.md. Killed, it goes on with the same command. "all" takes about 40 minutes of CPU
    time, shared by the cores; --quick takes about two, and the very first run a minute more for compiling.

    Example: dualview reproduce all --out reproduced --quick

    Parameters
    ----------
    names
        Studies: all (= agreement disagreement iris cost), or any of agreement, disagreement, iris, cost, models, information,
        starts, sensitivity, randomised, unstructured, overlap, shapes, users, draws, baselines.
    out
        Folder for the results. Studies that are asked for later may share it.
    quick
        Few sizes, two repetitions, short chains.
    seed
        Of the data and of the sampler: the same seed gives the same results.
    jobs
        Fits at a time; all cores by default.
    quiet
        Print results only, no progress.
    """
    from dualview.experiments.reproduce import run

    run(names, out, quick=quick, seed=seed, jobs=jobs, quiet=quiet)


def forum(
    posts: Path | None = None,
    *,
    out: Path,
    example: bool = False,
    first: int = 5,
    outcome: str = "length",
    outcome_from: Literal["same", "first", "last", "sum", "mean", "max"] = "same",
    scale: Literal["log", "raw"] | None = None,
    weights: Literal["binary", "counts"] = "binary",
    normalise: bool = False,
    covariates: tuple[str, ...] = ("section", "speed", "hour", "weekday"),
    min_threads: int = 5,
    rare: Literal["pool", "drop"] = "pool",
    ties: Literal["drop", "jitter"] = "drop",
    bots: Literal["remove", "keep"] = "remove",
    bot_names: tuple[str, ...] = (),
    deleted: Literal["anonymous", "remove"] = "anonymous",
    deleted_names: tuple[str, ...] = (),
    test_share: float = 0.2,
    split: Literal["time", "random"] = "time",
    thread_column: tuple[str, ...] = (),
    user_column: str | None = None,
    time_column: str | None = None,
    post_column: str | None = None,
    number_column: str | None = None,
    parent_column: str | None = None,
    section_column: str | None = None,
    score_column: str | None = None,
    length_column: str | None = None,
    text_column: str | None = None,
    time_unit: str | None = None,
    relative_time: bool = False,
    encoding: str = "utf-8",
    skip_bad_rows: bool = False,
    clusters: int | None = None,
    alpha: str | None = None,
    link: Literal["linear"] | None = None,
    feature_prior: Literal["diagonal", "shrunk"] | None = None,
    behavior_prior: Literal["likelihood"] | None = None,
    warmup: int = 1000,
    draws: int = 1000,
    thin: int = 1,
    chains: int = 4,
    keep: Literal["draws", "summary"] = "draws",
    whole: int = 100,
    seed: int = 0,
    jobs: int = -1,
    quiet: bool = False,
) -> None:
    """From a file of posts to roles, their catalytic power and predictions, compared with simpler models on later threads.

    Reads CSV, JSON lines and Parquet, plain or packed (gz, zst, bz2, xz). Columns are guessed from the names that Reddit,
    Discourse and Zulip exports use. The same command again goes on with a run that was stopped.

    Example: dualview forum --example --out run

    Parameters
    ----------
    posts
        A row per post: thread, user, time, and where there, parent, section, score, text or its length.
    out
        Folder of the run.
    example
        Make a forum of about 30,000 posts and take that; it is written to posts.csv in the run's folder.
    first
        The participants of a thread's first so many posts explain its outcome. Only longer threads are used.
    outcome
        length, remaining (posts after the first), or a column of the file.
    outcome_from
        How a column becomes one number per thread; by default it must be the same in all posts of a thread.
    scale
        Of the outcome; by default the logarithm of lengths, and columns as they are.
    weights
        Whether somebody was early, or with how many posts.
    normalise
        Divide the weights of a thread by their sum.
    covariates
        What else explains the outcome: section, speed, hour, weekday, each after an option of its own; none for nothing.
    min_threads
        Users who were early in fewer training threads are rare and have no coefficient of their own.
    rare
        Rare participants are counted, and the count has a coefficient; or they are left out.
    ties
        Features in which many users share a value are left out, or spread by noise of the size of their rounding.
    bots
        Posts of bots are removed, or kept.
    bot_names
        More accounts that are bots, each after an option of its own.
    deleted
        Posts of deleted accounts are nobody's but count in lengths, or are removed.
    deleted_names
        More names that stand for nobody, each after an option of its own; write --deleted-names=-1 for a name with a dash.
    test_share
        Share of the threads for the test.
    split
        The last threads to begin are for the test; or it is drawn at random, where their order is not known.
    thread_column
        What the column of threads is called; several together, each after an option of its own.
    user_column
        What the column of users is called.
    time_column
        What the column of times is called.
    post_column
        What the column of the posts' ids is called. For this and the next ones, none does without.
    number_column
        What the column of the posts' places in their threads is called.
    parent_column
        What the column of the posts replied to is called: ids of posts or places in the thread.
    section_column
        What the column of sections is called.
    score_column
        What the column of scores is called.
    length_column
        What the column of text lengths is called.
    text_column
        What the column of texts is called; only their length is read.
    time_unit
        Of times that are numbers: nanoseconds, microseconds, milliseconds, seconds, minutes, hours, days.
    relative_time
        Times count from the beginning of each thread; threads are in the order of the file.
    encoding
        Of a text file; mixed for UTF-8 with lines in Windows-1252.
    skip_bad_rows
        Leave out posts without a thread or a time that can be read.
    clusters
        Fixed number of roles; inferred by default.
    alpha
        Prior of the concentration, more of which means more roles: paper, a number that is known, "gamma(SHAPE,RATE)" or
        "inverse-gamma(SHAPE,SCALE)". By default gamma(0.25,0.25).
    link
        "linear" lets catalytic powers follow the features inside roles too, along common slopes.
    feature_prior
        For many features and few users: "shrunk" takes a covariance shrunk towards the diagonal for the features' scale,
        "diagonal" their variances alone. By default it is their covariance.
    behavior_prior
        "likelihood": the scale of catalytic powers by restricted likelihood, better than the default with few threads a user.
    warmup
        Iterations of each chain before draws are kept.
    draws
        Draws to keep of each chain.
    thin
        Iterations for each draw that is kept.
    chains
        Number of chains.
    keep
        Every draw whole, or, for very many users, a summary of them.
    whole
        Draws of each chain that a summary keeps whole.
    seed
        Same seed, same results.
    jobs
        Chains at a time; all cores by default.
    quiet
        Errors and the summary only.
    """
    from dualview.forum.application import Sampler, run_forum

    named = {
        "thread": thread_column,
        "user": user_column,
        "time": time_column,
        "post": post_column,
        "number": number_column,
        "parent": parent_column,
        "section": section_column,
        "score": score_column,
        "length": length_column,
        "text": text_column,
    }
    options: dict[str, Any] = {
        "columns": {role: name for role, name in named.items() if name},
        "first": first,
        "outcome": outcome,
        "outcome_from": outcome_from,
        "scale": scale,
        "weights": weights,
        "normalise": normalise,
        "covariates": () if covariates == ("none",) else covariates,
        "min_threads": min_threads,
        "rare": rare,
        "ties": ties,
        "bots": bots,
        "bot_names": bot_names,
        "deleted": deleted,
        "deleted_names": deleted_names,
        "test_share": test_share,
        "split": split,
        "time_unit": time_unit,
        "relative_time": relative_time,
        "encoding": encoding,
        "skip_bad_rows": skip_bad_rows,
        "seed": seed,
    }
    sampler = Sampler(clusters, warmup, draws, thin, chains, keep, whole, seed, link, behavior_prior, alpha, feature_prior)
    print(run_forum(posts, out, options, sampler, example=example, n_jobs=jobs, quiet=quiet))
    report(out)


COMMANDS: tuple[Callable[..., None], ...] = (demo, fit, resume, predict, summary, plot, compare, report, reproduce, forum)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, or 2 with a line on standard error."""
    try:
        import cyclopts
    except ImportError:
        return _complain("The command line needs cyclopts, which is not installed: pip install 'dualview[cli]'.")
    app = cyclopts.App(
        "dualview",
        help="Clusters of users from features you can see and behaviours you can only see through their effects.",
        version=__version__,
        help_format="plaintext",
        default_parameter=cyclopts.Parameter(negative="", show_default=lambda value: None if value == () else value),
        suppress_keyboard_interrupt=False,
    )
    for command in COMMANDS:
        several = cyclopts.Parameter(consume_multiple=(1, None)) if command is report else None
        app.command(command, default_parameter=several)
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    called = next((command for command in COMMANDS if tokens and command.__name__ == tokens[0]), None)
    more = "Try dualview --help." if called is None else f"Try dualview {called.__name__} --help."
    warnings.showwarning = _warn  # type: ignore[assignment]
    try:
        app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
    except cyclopts.UnusedCliTokensError as error:
        unused = ", ".join(error.unused_tokens or ())
        return _complain(f"{unused}: no place for it. An option with several values is written once for each. {more}")
    except cyclopts.CycloptsError as error:
        return _complain(f"{error} {more}")
    except (DualViewError, OSError) as error:
        return _complain(_with_options(str(error), called))
    except MemoryError as error:
        return _complain(f"Out of memory ({error or 'no size given'}). Use fewer users, columns or draws, or --keep summary.")
    except KeyboardInterrupt as error:
        return _complain(f"stopped: {str(error).removeprefix('stopped ')}" if str(error) else "stopped", code=130)
    return 0


def _with_options(message: str, command: Callable[..., None] | None) -> str:
    """A message with the command's options in the place of Python's arguments: --draws for n_draws."""
    parameters = {} if command is None else signature(command).parameters
    options = [name for name, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY]
    names = {f"n_{name}": name for name in options} | {name: name for name in options if "_" in name}
    names |= {"random_state": "seed"} if "seed" in options else {}
    return re.sub(r"\b\w+\b", lambda word: f"--{names[word[0]].replace('_', '-')}" if word[0] in names else word[0], message)


def _warn(message: Warning | str, *_: Any) -> None:
    """A warning as one line."""
    print(f"dualview: warning: {' '.join(str(message).split())}", file=sys.stderr)


def _complain(message: str, code: int = 2) -> int:
    print(f"dualview: {' '.join(message.split())}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
