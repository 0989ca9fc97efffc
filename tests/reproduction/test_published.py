"""The paper's numbers as facts."""

import pytest

from dualview.errors import InputError
from reproduction import published

MODELS = ("dual-DP", "dual-fixed", "single")


@pytest.mark.parametrize("scenario", ["agreement", "disagreement", "iris"])
@pytest.mark.parametrize("metric", ["nll", "ari"])
@pytest.mark.parametrize("model", MODELS)
def test_curves_have_every_size_but_the_papers_own_gap(scenario, metric, model):
    sizes = [point.n_threads for point in published.curve(scenario, metric, model)]
    wanted = list(range(10, 101, 10))
    if (scenario, model) == ("agreement", "dual-fixed"):
        wanted.remove(40)
    if (metric, model) == ("ari", "single"):
        wanted = []
    assert sizes == wanted


def test_points_lie_where_such_scores_can_lie():
    for scenario in ("agreement", "disagreement", "iris"):
        for model in MODELS:
            assert all(
                2.224 < p.mean < 6 and p.error > 0 for p in published.curve(scenario, "nll", model)
            )
            assert all(
                0 < p.mean < 1 and p.error > 0 for p in published.curve(scenario, "ari", model)
            )


def test_a_known_point():
    assert published.curve("agreement", "nll", "dual-DP")[0] == (10, 3.3665, 0.1179)


def test_the_source_is_named():
    assert "Lumbreras" in published.citation()
    assert "2016" in published.citation()


def test_numbers_of_the_text():
    assert published.number("autocorrelation_time") == 79
    assert published.number("effective_sample_size") == 189


def test_an_unknown_scenario_is_an_error():
    with pytest.raises(InputError, match="agreement, disagreement, iris"):
        published.curve("peace", "nll", "single")
