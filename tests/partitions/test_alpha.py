"""Priors of α as a user gives them: words, numbers and classes, what fits make of them, and a
warning of very many clusters."""

import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dualview as dv
from dualview import cli
from dualview.errors import DataWarning, InputError
from dualview.partitions.alpha import (
    DEFAULT,
    PAPER,
    Gamma,
    InverseGamma,
    Known,
    concentration,
    concentration_from_text,
)
from dualview.partitions.priors import FiniteDirichlet
from dualview.runs.run import load_run

SHORT = {"n_warmup": 10, "n_draws": 20, "n_chains": 1}
X = np.random.default_rng(1).standard_normal((14, 2))
pytestmark = pytest.mark.filterwarnings("ignore::dualview.errors.ConvergenceWarning")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, DEFAULT),
        ("paper", PAPER),
        (1.5, Known(1.5)),
        (np.int64(2), Known(2.0)),
        (Gamma(1, 2), Gamma(1.0, 2.0)),
    ],
)
def test_what_alpha_may_be(given, expected):
    assert concentration(given) == expected


def test_a_fixed_number_of_clusters_has_the_papers_prior():
    assert concentration(None, 4) == PAPER
    assert concentration(Gamma(1, 2), 4) == Gamma(1.0, 2.0)
    fixed = dv.DualViewMixture(3, **SHORT).fit(X).posterior_
    assert fixed.spec.alpha_prior == str(PAPER)
    assert fixed.spec.partition_prior == FiniteDirichlet(3, PAPER)


@pytest.mark.parametrize(
    "given", [0, -1.0, math.nan, math.inf, True, "papers", "1.5", [1.0], dv.Gamma]
)
def test_what_alpha_may_not_be(given):
    wanted = (
        'alpha must be None, "paper", a positive number, or a prior: Gamma(shape, rate) or '
        "InverseGamma(shape, scale); got "
    )
    with pytest.raises(InputError, match=re.escape(wanted)):
        dv.DualViewMixture(alpha=given, **SHORT).fit(X)


@pytest.mark.parametrize("kind", [Gamma, InverseGamma])
@pytest.mark.parametrize("parameters", [(0.01, 1.0), (1.0, 1e-200), (1e200, 1.0)])
def test_priors_that_leave_the_range_of_numbers_are_refused(kind, parameters):
    with pytest.raises(InputError, match=rf"{kind.__name__} takes a shape from 0\.05 .* got "):
        kind(*parameters)


@pytest.mark.parametrize("kind", [Gamma, InverseGamma])
def test_parameters_of_priors_are_positive_numbers(kind):
    for wrong in (0.0, -2.0, math.nan, "1", None):
        with pytest.raises(
            InputError, match=rf"{kind.__name__}: shape must be a positive number; got "
        ):
            kind(wrong, 1.0)


@pytest.mark.parametrize(
    "prior", [DEFAULT, PAPER, Gamma(0.1, 1 / 3), InverseGamma(2, 1e-9), Known(0.1 + 0.2)]
)
def test_the_text_of_a_prior_reads_as_that_prior(prior):
    assert concentration_from_text(str(prior)) == prior


def test_texts_of_the_command_line():
    assert concentration_from_text(None) is None
    assert concentration_from_text("paper") == PAPER
    assert concentration_from_text("Gamma(2,4)") == Gamma(2, 4)
    assert concentration_from_text("inverse-gamma(0.5, 0.5)") == PAPER
    for wrong in ("gamma(2)", "gamma(a,b)", "default", "", "nan"):
        with pytest.raises(InputError, match=r"alpha must be a positive number"):
            concentration_from_text(wrong)


@pytest.mark.parametrize("n_clusters", [None, 3])
def test_a_known_alpha_is_that_number_in_every_draw(n_clusters):
    model = dv.DualViewMixture(n_clusters, alpha=0.7, **SHORT).fit(X)
    assert (model.posterior_["alpha"] == 0.7).all()
    assert "log alpha" not in model.posterior_.scalars()
    assert model.predict_proba(X[:2]).sum(axis=1) == pytest.approx(1.0)


def test_the_default_is_a_gamma_prior_and_others_draw_other_numbers():
    post = {
        str(alpha): dv.DualViewMixture(alpha=alpha, **SHORT).fit(X).posterior_["alpha"]
        for alpha in (None, Gamma(0.25, 0.25), "paper")
    }
    assert (post["None"] == post["gamma(0.25, 0.25)"]).all()
    assert not (post["None"] == post["paper"]).any()


def test_larger_alphas_have_more_clusters():
    few, many = (
        dv.DualViewMixture(alpha=alpha, **SHORT).fit(X).posterior_["n_clusters"].mean()
        for alpha in (1e-6, 1e6)
    )
    assert few < 2.0
    assert many > 12.0


def test_with_one_cluster_there_is_no_alpha():
    with pytest.warns(DataWarning, match="alpha is not used: with one cluster there is none"):
        model = dv.DualViewMixture(1, alpha=2.0, **SHORT).fit(X)
    assert "alpha" not in model.posterior_
    assert model.posterior_.spec.alpha_prior is None


def test_a_saved_posterior_knows_its_prior(tmp_path):
    model = dv.DualViewMixture(alpha=dv.Gamma(2, 4), **SHORT).fit(X)
    model.posterior_.save(tmp_path / "post.nc")
    again = dv.DualViewMixture.from_posterior(dv.load(tmp_path / "post.nc"))
    assert again.alpha == dv.Gamma(2, 4)
    assert again.posterior_.spec.alpha_prior == "gamma(2, 4)"


def test_a_partition_of_users_alone_is_warned_of():
    x = np.random.default_rng(2).standard_normal((24, 2))
    message = r"has \d\d clusters for 24 users: most users are alone .* give alpha a prior"
    with pytest.warns(DataWarning, match=message) as caught:
        dv.DualViewMixture(alpha=1e6, **SHORT).fit(x)
    assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.parametrize("options", [{"alpha": 1e-3}, {"n_clusters": 20}])
def test_few_clusters_and_those_that_were_asked_for_are_not(options, recwarn):
    dv.DualViewMixture(**options, **SHORT).fit(np.random.default_rng(2).standard_normal((24, 2)))
    assert not [warning for warning in recwarn if issubclass(warning.category, DataWarning)]


@pytest.mark.filterwarnings("ignore::dualview.errors.DataWarning")
def test_the_default_finds_one_cluster_where_there_is_one():
    """Under the paper's prior everybody alone is as likely as everybody together, and the estimate
    has very many clusters."""
    x = np.random.default_rng([0, 2]).standard_normal((50, 2))
    settings = {"n_warmup": 300, "n_draws": 600, "n_chains": 2}
    assert dv.DualViewMixture(**settings).fit(x).n_clusters_ == 1
    assert dv.DualViewMixture(alpha="paper", **settings).fit(x).n_clusters_ > 25


def test_the_command_line_takes_a_prior_and_resuming_keeps_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    users = tmp_path / "users.csv"
    pd.DataFrame(X, columns=["a", "b"]).rename_axis("user").reset_index().to_csv(users, index=False)
    out, options = tmp_path / "run", ["--warmup", "5", "--draws", "10", "--chains", "1", "--quiet"]
    command = ["fit", str(users), "--out", str(out), *options]
    assert cli.main([*command, "--alpha", "gamma(0)"]) == 2
    assert "alpha must be a positive number, paper, gamma(SHAPE,RATE)" in capsys.readouterr().err
    assert not out.exists()
    assert cli.main([*command, "--alpha", "gamma(2,4)"]) == 0
    assert "Prior of the concentration alpha: gamma(2, 4)." in capsys.readouterr().out
    assert load_run(out).posterior_.spec.alpha_prior == "gamma(2, 4)"
    assert cli.main([*command, "--alpha", "paper"]) == 2
    assert "alpha was 'gamma(2, 4)', now 'inverse gamma(0.5, 0.5)'" in capsys.readouterr().err
    assert cli.main(["resume", str(out), "--draws", "12", "--quiet"]) == 0
    assert load_run(out).posterior_.spec.alpha_prior == "gamma(2, 4)"
