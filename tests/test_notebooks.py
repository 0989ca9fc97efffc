"""What notebooks show: small tables, with everything escaped."""

import re

import numpy as np
import pytest

import dualview as dv
from dualview.files.html import small_table


def cells(text: str) -> dict[str, str]:
    return dict(re.findall(r"<tr><th>(.*?)</th><td>(.*?)</td>", text))


def test_a_small_table_escapes_what_it_shows():
    shown = small_table("<b>", [("<script>", "&", 1)], ("<i>", "x"), note="a < b")
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert "<p>a &lt; b</p>" in shown


def test_behaviors_show_what_they_hold():
    threads = dv.SharedOutcome(
        np.eye(3), [1.0, 2.0, 6.0], covariates=np.array([[1.0], [2.0], [4.0]]), intercept=True
    )
    found = cells(threads._repr_html_())
    assert (found["users"], found["threads"], found["outside the mixture"]) == (
        "3",
        "3",
        "intercept, x0",
    )
    assert found["outcome"] == "3 from 1 to 6, mean 3"
    measures = dv.UserRegression(
        ["<ann>", "<ann>", "bob"], [[1.0], [2.0], [3.0]], [1.0, 2.0, 3.0], intercept=True
    )
    assert cells(measures._repr_html_())["observations"] == "3, of 2 users"
    assert cells(measures._repr_html_())["latent"] == "intercept, x0"
    asked = dv.BinaryOutcomes([0, 1], [[1.0], [2.0]])
    assert cells(asked._repr_html_())["outcome"] == "none: to be predicted"


@pytest.fixture(scope="module")
def model() -> dv.DualViewMixture:
    forum = dv.datasets.agreement(n_users=20, n_threads=30, seed=1)
    behavior = dv.SharedOutcome(forum.participation, forum.outcome)
    return dv.DualViewMixture(n_warmup=50, n_draws=50, n_chains=1).fit(forum.features, behavior)


def test_a_posterior_shows_scalars_shapes_and_the_verdict(model):
    post = model.posterior_
    shown = post._repr_html_()
    assert "1 chains × 50 draws, 20 users" in shown
    assert f"<tr><th>z</th><td>{20}</td><td></td><td></td></tr>" in shown
    median = f"{np.median(post['alpha']):.4g}"
    assert f"<tr><th>alpha</th><td></td><td>{median}</td>" in shown
    assert "Too few draws to tell" in shown


def test_an_estimator_shows_its_parameters(model):
    assert "DualViewMixture" in model._repr_html_()
    assert "n_draws" in model._repr_html_()
