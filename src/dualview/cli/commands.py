"""The commands.

A command is a plain function; its docstring is its help, and it calls one function of the package.
The fields of a record of settings are options of the commands that take it, with the help they
declare (``cli.program``). Heavy imports stay inside. Results go to standard output, progress and
errors to standard error.
"""

import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Literal

from dualview.cli.program import (
    CommandLine,
    RunSettings,
    WorkSettings,
    program,
    run_command,
    stoppable,
)
from dualview.errors import InputError
from dualview.files.writing import check_place, is_standard_output, wrote
from dualview.forum.columns import GivenColumns
from dualview.forum.options import GONE, ForumOptions, ForumSettings
from dualview.settings import AnswerSettings, Columns, Settings


def demo(
    *,
    out: Path = Path("demo"),
    seed: int = 0,
    users: int = 50,
    threads: int = 100,
    draws: int = 1000,
    max_draws: int | None = None,
    quiet: bool = False,
) -> None:
    """Fit a simulated forum and compare the results with the truth.

    Writes picture.png, report.md and users.csv. The first time takes about a minute, most of it for
    compiling the sampler.

    Example: dualview demo --out demo --seed 0

    Parameters
    ----------
    out
        Folder for the results.
    seed
        Seed of data and sampler; the same seed gives the same results.
    users
        Number of users, in five clusters.
    threads
        Number of training threads; 100 more are kept for testing.
    draws
        Draws to keep from each of four chains, at least 100. Chains run until they have converged.
    max_draws
        Stop after this many draws per chain, kept or not, even without convergence; 100 times
        --draws by default.
    quiet
        Print only the results, no progress.
    """
    from dualview.demo import run

    run(out, seed, users, threads, draws, max_draws, quiet)


def fit(
    users: Path,
    threads: Path | None = None,
    *,
    run: RunSettings,
    outcomes: Path | None = None,
    covariates: tuple[str, ...] = (),
    intercept: bool = False,
    noise_variance: float | Literal["paper"] | None = None,
    drop_unknown: bool = False,
    columns: Path | None = None,
    names: Columns = Columns(),
    answers: AnswerSettings = AnswerSettings(),
    settings: Settings = Settings(),
) -> None:
    """Fit the model to a table of users and a table of threads or answers.

    Files are CSV, TSV or Parquet, compressed or not. Threads can also be a Matrix Market file
    (.mtx) with one row per thread and one column per user. A run can be killed and resumed.

    Example: dualview fit users.csv threads.csv --out run

    Example: dualview fit users.csv answers.csv --kind regression --by dose,time --out run

    Parameters
    ----------
    users
        Table with one row per user: an id column and features.
    threads
        One row per thread and participant: thread, user, outcome unless in --outcomes, optionally
        weight. With --kind, one row per answer.
    outcomes
        Table with a row per thread: thread, outcome, optionally covariates.
    covariates
        Columns of threads with regression coefficients outside the mixture.
    intercept
        Add an intercept.
    noise_variance
        Constant of the noise's prior: a number, or "paper" for the variance of the outcomes. By
        default it is estimated by restricted likelihood.
    drop_unknown
        Leave out rows of users who are not in the table of users.
    columns
        File with the kinds of the columns of users, as 'dualview columns' writes it; by default
        they are detected.
    """
    with stoppable(run.out):
        from dualview.runs.request import Request
        from dualview.runs.run import fit_run

        request = Request(
            users=str(users.absolute()),
            threads=None if threads is None else str(threads.absolute()),
            outcomes=None if outcomes is None else str(outcomes.absolute()),
            columns=names,
            covariates=covariates,
            intercept=intercept,
            noise_variance=noise_variance,
            drop_unknown=drop_unknown,
            kinds=None if columns is None else str(columns.absolute()),
            settings=settings,
            answers=answers
            if answers.items is None
            else replace(answers, items=str(Path(answers.items).absolute())),
        )
        print(fit_run(request, run.out, n_jobs=run.jobs, quiet=run.quiet))


def columns(users: Path, *, out: Path | None = None, user_column: str = "user") -> None:
    """List the kind of each column of a table of users: count, category, rating, number. Writes a
    codebook that you can edit.

    Example: dualview columns users.csv --out columns.toml

    Parameters
    ----------
    users
        Table with one row per user: an id column and features, as CSV, TSV or Parquet.
    out
        TOML file to write, or - for standard output. By default it is printed.
    user_column
        Name of the column with user ids.
    """
    from dualview.runs.preparation import write_codebook

    _tell(write_codebook(users, out, user_column), out)


def shard(
    users: Path,
    threads: Path | None = None,
    *,
    out: Path,
    users_per_shard: int = 131_072,
    threads_per_shard: int = 262_144,
    drop_unknown: bool = False,
    names: Columns = Columns(),
) -> None:
    """Write tables as a folder of shards, for data that are larger than memory.

    Tables are read once, in pieces. In Python,
    dv.DualViewMixture(engine="variational").fit(dv.Shards(FOLDER)) fits them, also on several
    machines.

    Example: dualview shard users.parquet threads.parquet --out shards

    Parameters
    ----------
    users
        Table with one row per user: an id column and features, all of them numbers and none
        missing.
    threads
        Table with one row per thread and participant: thread, user, outcome, optionally weight. The
        rows of a thread follow each other.
    out
        Folder to write. It must not exist, or be empty.
    users_per_shard
        Users of a shard.
    threads_per_shard
        Threads of a shard.
    drop_unknown
        Leave out rows of users who are not in the table of users.
    """
    from dualview.runs.preparation import write_shards

    sizes = users_per_shard, threads_per_shard
    print(write_shards(users, threads, out, names, sizes, drop_unknown))


def resume(
    run: Path,
    *,
    draws: int | None = None,
    max_time: float | None = None,
    max_draws: int | None = None,
    work: WorkSettings = WorkSettings(),
) -> None:
    """Continue a run that was stopped or killed. The draws stay the same.

    For a run of dualview forum, roles, scores, predictions and the report are also made again.

    Example: dualview resume run

    Parameters
    ----------
    run
        Folder of the run.
    draws
        Draws per chain, for a run of fixed length; may be more than before.
    max_time
        Stop after this many seconds from now, even without convergence.
    max_draws
        Stop after this many draws per chain, kept or not, counted from the start of the run, even
        without convergence.
    """
    with stoppable(run):
        from dualview.runs.request import Longer, Request
        from dualview.runs.run import fit_run

        more = Longer(draws, max_time, max_draws)
        if (run / "forum.json").exists():
            from dualview.forum.application import resume_forum

            print(resume_forum(run, more, n_jobs=work.jobs, quiet=work.quiet))
            report(run)
            return
        request = Request.load(run).longer(more)
        print(fit_run(request, run, n_jobs=work.jobs, quiet=work.quiet))


def predict(
    run: Path,
    threads: Path | None = None,
    *,
    out: Path | None = None,
    outcomes: Path | None = None,
    users: Path | None = None,
    so_far: Path | None = None,
    probability: float = 0.95,
    drop_unknown: bool = False,
    stacked: bool = False,
) -> None:
    """Predict the outcomes of new threads, or new answers, of the run's users and of new ones.

    Writes median, mean, standard deviation and interval for each; if outcomes are known, also their
    log densities and levels (values of the predictive distribution function). Of yes-or-no answers
    and choices it writes probabilities with intervals.

    Example: dualview predict run new_threads.csv --out predictions.csv

    Example: dualview predict run --users newcomers.csv --so-far their_answers.csv

    Parameters
    ----------
    run
        Folder of a finished run.
    threads
        Table in the format of the fit; outcomes are optional. Without it, new users are predicted
        themselves: cluster and latent coefficients.
    out
        File to write, or - for standard output; in the run's folder by default: predictions.csv, or
        new_users.csv where no threads are given.
    outcomes
        Table with one row per thread: thread, covariates, optionally outcome. By default these are
        columns of the threads.
    users
        Table of users unknown to the run, with the columns of the fit.
    so_far
        Table of what these new users did so far, in the format of the fit.
    probability
        Probability of the interval.
    drop_unknown
        Leave out rows of users unknown to the fit.
    stacked
        Predict by the run and the models that 'dualview choose' has fitted beside it, each with its
        weight.
    """
    from dualview.runs.predictions import Asked, predict_run

    usual = "new_users.csv" if threads is None else "predictions.csv"
    asked = Asked(threads, outcomes, probability, drop_unknown, stacked, users, so_far)
    _tell(predict_run(run, run / usual if out is None else out, asked), out)


def sample(
    run: Path,
    *,
    n: int = 100,
    given: tuple[str, ...] = (),
    out: Path | None = None,
    seed: int = 0,
) -> None:
    """Make up users: rows of a table, drawn from the posterior predictive distribution of the
    features.

    Example: dualview sample run --n 100 --given town=Lyon --out users.csv

    Parameters
    ----------
    run
        Folder of a finished run.
    n
        Number of users.
    given
        Cells that all of them have, as column=value.
    out
        File to write, or - for standard output; sample.csv in the run's folder by default.
    seed
        Random seed; the same seed gives the same users.
    """
    from dualview.runs.predictions import sample_run

    place = run / "sample.csv" if out is None else out
    _tell(sample_run(run, n, given, place, seed), out)


def summary(run: Path, *, json: bool = False) -> None:
    """Print the clusters with their sizes, latent coefficients and typical users, what
    distinguishes them, and the verdict on convergence.

    Certainty is the probability that two members, chosen at random, are in the same cluster.

    Example: dualview summary run --json

    Parameters
    ----------
    run
        Folder of a finished run.
    json
        Print JSON, for programs.
    """
    from json import dumps

    from dualview.runs.summary_file import kept_summary, text_for_commands

    found = kept_summary(run)
    if found is None:
        from dualview.runs.run import summary_of_run  # and with it all that computes

        found = summary_of_run(run)
    print(dumps(found, indent=2) if json else text_for_commands(found))


def compare(
    runs: tuple[Path, ...],
    *,
    by: Literal["observation", "user"] = "observation",
    folds: int | None = None,
    out: Path | None = None,
) -> None:
    """Rank runs on the same threads or answers by leave-one-out scores or by refits.

    elpd is the sum of the scores, computed without refits by PSIS-LOO (higher is better), behind is
    the difference from the best run, and unsure is the number of threads or answers with an
    unreliable score. weight is that of each run in the mixture of all of them that predicts best
    (stacking). Reports of the runs will show the table.

    Example: dualview compare run linked

    Parameters
    ----------
    runs
        Folders of two or more finished runs.
    by
        What is left out: one observation (a thread or an answer), or all observations of a user,
        who is then predicted like a new user. Scores by user are printed; they are written to a
        file only with --out.
    folds
        Fit every run again this many times, each time without one part of the threads or answers,
        and score that part. No score is then unsure, and it takes as many times longer.
    out
        File to write the table to, as JSON, or - for standard output; comparison.json in the folder
        of each run by default.
    """
    from dualview.runs.comparison import FILE, rank_runs

    if out is not None:
        check_place(out)
    ranking = rank_runs(runs, by, folds)
    _tell(ranking.text(), out)
    if by == "user" and out is None:
        return
    places = [run / FILE for run in runs] if out is None else [out]
    for place in places:
        ranking.save(place)
    _tell(wrote(*places), out)


def choose(run: Path, *, jobs: int = -1, quiet: bool = False) -> None:
    """Fit the other models worth trying beside a run, compare them, and stack all of them.

    The others are one in which users need not act as they look, and one without features and
    clusters. They have the settings of the run otherwise, and are runs themselves, in subfolders of
    it. The same command continues what was stopped. Then 'dualview predict run threads.csv
    --stacked' predicts by all of them.

    Example: dualview choose run

    Parameters
    ----------
    run
        Folder of a finished run.
    jobs
        Chains to run in parallel; by default as many as there are cores.
    quiet
        Print errors and the comparison only.
    """
    from dualview.runs.choices import choose as choose_models
    from dualview.runs.comparison import FILE

    print(choose_models(run, n_jobs=jobs, quiet=quiet).text())
    print(wrote(run / FILE))


def check(run: Path, *, refit: bool = False, seed: int = 0) -> None:
    """Check whether the model fits its data, with a verdict on each part and what to try.

    Chains can converge although the model is wrong. The checks of outcomes, features, clusters,
    link and priors each say "fine", "look here" or "the model is wrong here". Writes checks.json to
    the run's folder; reports show it with pictures.

    Example: dualview check run --refit

    Parameters
    ----------
    run
        Folder of a finished run.
    refit
        Also fit the features alone and the threads alone, with short chains, to see whether both
        suggest the same clusters.
    seed
        Random seed; the same seed gives the same results.
    """
    from dualview.runs.checks import check_run

    print(check_run(run, refit=refit, seed=seed))


def plot(run: Path) -> None:
    """Plot users by features, latent coefficients, similarity, clusters and traces.

    Example: dualview plot run

    Parameters
    ----------
    run
        Folder of a finished run; pictures are written to its subfolder plots.
    """
    from dualview.runs.run import load_run
    from dualview.runs.summaries import plot_run

    print(wrote(*plot_run(load_run(run), run / "plots")))


def report(run: Path, *, out: Path | None = None, against: tuple[Path, ...] = ()) -> None:
    """Write one HTML file about a run, which opens offline: roles, latent coefficients, users,
    predictions, convergence.

    Example: dualview report run --out report.html

    Parameters
    ----------
    run
        Folder of a finished run.
    out
        File to write, or - for standard output; by default report.html in the run's folder.
    against
        Other runs on the same threads or answers, to show which predicts best; saved as
        comparison.json in the run's folder.
    """
    from dualview.report import write_report

    _tell(wrote(write_report(run, out, against)), out)


def reproduce(
    names: tuple[str, ...] = ("all",),
    *,
    out: Path,
    quick: bool = False,
    seed: int = 0,
    jobs: int = -1,
    quiet: bool = False,
) -> None:
    """Moved: the paper's experiments are now run by python -m reproduction, in a checkout of the
    source.

    In a checkout this command still runs them, with a warning.

    Example: dualview reproduce all --out reproduced --quick

    Parameters
    ----------
    names
        Studies; python -m reproduction --help lists them.
    out
        Folder for the results. Later studies can use the same folder.
    quick
        Few sizes, two repetitions, short chains.
    seed
        Seed of data and sampler; the same seed gives the same results.
    jobs
        Fits to run in parallel; by default as many as there are cores.
    quiet
        Print only the results, no progress.
    """
    checkout = Path(__file__).parents[3]
    if not (checkout / "reproduction" / "reproduce.py").exists():
        raise InputError(
            "The paper's experiments are no longer installed with dualview; they are in the folder "
            "reproduction of its source. In a checkout: python -m reproduction all --out "
            "reproduced."
        )
    warnings.warn(
        "dualview reproduce will go in the next release: in a checkout, run python -m reproduction "
        "with the same options.",
        FutureWarning,
        stacklevel=2,
    )
    if str(checkout) not in sys.path:
        sys.path.insert(0, str(checkout))
    import_module("reproduction.reproduce").run(
        names, out, quick=quick, seed=seed, jobs=jobs, quiet=quiet
    )


def forum(
    posts: Path | None = None,
    *,
    run: RunSettings,
    example: bool = False,
    rules: ForumSettings = ForumSettings(),
    columns: GivenColumns = GivenColumns(),
    settings: Settings = Settings(),
) -> None:
    """Find roles in a file of posts, with their catalytic power, and compare predictions of later
    threads with simpler models.

    Reads CSV, JSON Lines and Parquet, plain or compressed (gz, zst, bz2, xz). Columns are
    recognized by the names that exports from Reddit, Discourse and Zulip use. The same command
    continues a run that was stopped. For the sampler, clusters are roles and latent coefficients
    are catalytic powers.

    Example: dualview forum --example --out run

    Parameters
    ----------
    posts
        File with one row per post: thread, user, time and, if available, parent, section, score,
        text or its length.
    example
        Simulate a forum of about 30,000 posts; writes them to posts.csv.
    """
    with stoppable(run.out):
        from dualview.forum.application import run_forum

        options = ForumOptions.asked(rules, columns, settings.seed)
        print(
            run_forum(
                posts,
                run.out,
                options,
                settings,
                example=example,
                n_jobs=run.jobs,
                quiet=run.quiet,
            )
        )
        report(run.out)


def completion(shell: Literal["bash", "zsh", "fish"]) -> None:
    """Print a script by which a shell completes commands, options and their values with Tab.

    Example: source <(dualview completion bash)

    Parameters
    ----------
    shell
        The shell that will read the script.
    """
    print(program(LINE).generate_completion(shell=shell))


def _tell(words: str, out: Path | None) -> None:
    """Print words; to standard error where the result itself went to standard output, so that it
    can be piped."""
    print(words, file=sys.stderr if is_standard_output(out) else sys.stdout, flush=True)


LINE = CommandLine(
    (
        demo,
        columns,
        fit,
        shard,
        resume,
        predict,
        sample,
        summary,
        check,
        plot,
        compare,
        choose,
        report,
        reproduce,
        forum,
        completion,
    ),
    several=(report,),
    gone={forum: GONE},
    brief={fit: ("intercept", "noise_variance", "drop_unknown"), forum: ()},
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, or 2 with a line on standard error."""
    return run_command(LINE, list(sys.argv[1:] if arguments is None else arguments))
