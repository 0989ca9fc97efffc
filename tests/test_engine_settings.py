"""Engines as records with settings of their own, and parameters that have moved to them."""

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import dualview as dv
from dualview.errors import InputError
from dualview.inputs.parameters import Parameters

FORUM = dv.datasets.agreement(n_users=20, n_threads=30, seed=1)
OLD: dict[str, Any] = {
    "n_warmup": 6,
    "thin": 2,
    "n_auxiliary": 4,
    "max_draws": None,
    "init": "one",
    "checkpoint_interval": 0.5,
}
NEW = dv.Gibbs(n_warmup=6, thin=2, n_auxiliary=4, init="one", checkpoint_interval=0.5)
moved = pytest.mark.filterwarnings("default:Parameters of DualViewMixture:FutureWarning")


class TestRecords:
    def test_words_are_short_for_the_defaults(self) -> None:
        assert Parameters.of(dv.DualViewMixture()).engine == dv.Gibbs()
        assert Parameters.of(dv.DualViewMixture(engine="variational")).engine == dv.Variational()
        assert dv.Gibbs() != dv.Variational()

    def test_equal_where_all_settings_are(self) -> None:
        labels = np.arange(3)
        assert dv.Gibbs(init=labels) == dv.Gibbs(init=labels.copy())
        assert hash(dv.Gibbs(init=labels)) == hash(dv.Gibbs(init=labels.copy()))
        assert dv.Gibbs(init=labels) not in (
            dv.Gibbs(init=labels + 1),
            dv.Gibbs(),
            dv.Gibbs(thin=2),
        )

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: dv.Gibbs(n_warmup=-1), "n_warmup .* must be a whole number of at least 0"),
            (lambda: dv.Gibbs(thin=0), "thin must be"),
            (lambda: dv.Gibbs(n_auxiliary="many"), "n_auxiliary must be"),
            (lambda: dv.Gibbs(max_draws=0.5), "max_draws .* must be"),
            (lambda: dv.Gibbs(checkpoint_interval=0.0), "checkpoint_interval must be"),
            (lambda: dv.Variational(n_starts=0), "n_starts .* must be"),
            (lambda: dv.Variational(init="variational"), 'is for engine="gibbs"'),
        ],
    )
    def test_impossible_settings_are_refused_at_once(self, make: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            make()

    def test_other_engines_are_refused(self) -> None:
        for engine in ("em", None, 3, dv.Gibbs):
            with pytest.raises(InputError, match=r"engine must be .*dv.Gibbs\(...\)"):
                Parameters.of(dv.DualViewMixture(engine=engine))


@moved
class TestMoved:
    def test_settings_are_those_of_the_new_place(self) -> None:
        with pytest.warns(FutureWarning, match=r"use engine=dv.Gibbs\(n_warmup=6, thin=2, n_aux"):
            old = Parameters.of(dv.DualViewMixture(**OLD))
        assert old == Parameters.of(dv.DualViewMixture(engine=NEW))

    def test_the_number_of_clusters_may_be_a_process(self) -> None:
        process = dv.PitmanYor(0.25)
        with pytest.warns(FutureWarning, match=r"n_clusters=dv.PitmanYor\(...\)"):
            old = Parameters.of(dv.DualViewMixture(partition=process))
        assert old == Parameters.of(dv.DualViewMixture(process))
        assert (old.n_clusters, old.process) == (None, process)
        for n_clusters in (3, dv.PitmanYor(0.5)):
            with pytest.raises(InputError, match="partition is for an inferred number"):
                Parameters.of(dv.DualViewMixture(n_clusters, partition=process))

    def test_a_summary_keeps_as_many_full_draws_as_asked(self) -> None:
        with pytest.warns(FutureWarning, match="keep=20"):
            old = Parameters.of(dv.DualViewMixture(keep="summary", n_whole=20))
        assert old == Parameters.of(dv.DualViewMixture(keep=20))
        assert (old.n_full_draws, old.every, old.n_kept) == (20, 50, 80)
        assert Parameters.of(dv.DualViewMixture(keep="summary")).n_full_draws == 100
        assert Parameters.of(dv.DualViewMixture()).n_kept == 4000
        for keep in (0, True, 2.5, "some", None):
            with pytest.raises(InputError, match="keep must be "):
                Parameters.of(dv.DualViewMixture(keep=keep))

    def test_what_an_engine_lacks_has_no_effect(self) -> None:
        model = dv.DualViewMixture(engine="variational", n_warmup=5, init="one")
        with pytest.warns(FutureWarning, match=r"Variational\(init='one'\); .* leave out n_warmup"):
            found = Parameters.of(model)
        assert found.engine == dv.Variational(init="one")
        with pytest.raises(InputError, match=r"n_warmup .* must be"):
            Parameters.of(model.set_params(n_warmup=-1))

    def test_a_setting_is_given_once(self) -> None:
        with pytest.raises(InputError, match="thin: given both to the estimator and to its engine"):
            Parameters.of(dv.DualViewMixture(engine=dv.Gibbs(thin=2), thin=3))

    def test_only_a_fit_warns_and_values_stay(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = dv.DualViewMixture(**OLD)
            for one in (model, clone(model), pickle.loads(pickle.dumps(model))):
                own = one.get_params()
                assert {name: own[name] for name in OLD} == OLD
                assert own["engine"] == "gibbs"
            Parameters.of(dv.DualViewMixture(engine=NEW, thin=1, n_warmup=None))
            copy = clone(dv.DualViewMixture(engine=NEW))
            assert copy.engine == pickle.loads(pickle.dumps(copy)).engine == NEW

    def test_draws_are_the_same_bit_for_bit(self) -> None:
        short = {"n_draws": 5, "n_chains": 1}
        with pytest.warns(FutureWarning, match="have moved") as caught:
            old = dv.DualViewMixture(**OLD, **short).fit(FORUM.features).posterior_
        assert [one.filename for one in caught if one.category is FutureWarning] == [__file__]
        new = dv.DualViewMixture(engine=NEW, **short).fit(FORUM.features).posterior_
        for name in old.names:
            np.testing.assert_array_equal(old[name], new[name])

    def test_a_search_takes_engines_and_settings_that_have_moved(self) -> None:
        model = dv.DualViewMixture(2, n_draws=5, n_chains=1)
        engines = [dv.Gibbs(n_warmup=2), dv.Gibbs(n_warmup=2, n_auxiliary=1)]
        found = GridSearchCV(model, {"engine": engines}, cv=2).fit(FORUM.features)
        assert found.best_params_["engine"] in engines
        old = {"n_warmup": [2], "n_auxiliary": [3, 1]}
        with pytest.warns(FutureWarning, match="have moved"):
            again = GridSearchCV(model, old, cv=2).fit(FORUM.features)
        np.testing.assert_array_equal(
            again.cv_results_["mean_test_score"], found.cv_results_["mean_test_score"]
        )


def test_a_variational_fit_has_as_many_starts_as_asked() -> None:
    def starts(n: int | None) -> Any:
        model = dv.DualViewMixture(3, engine=dv.Variational(n_starts=n), n_draws=5, n_chains=2)
        return model.fit(FORUM.features).posterior_

    two, also = starts(None), starts(2)
    np.testing.assert_array_equal(two["z"], also["z"])
    assert two.n_chains == starts(1).n_chains == starts(5).n_chains == 2
    assert len(starts(1).approximation.starts) == 1
    assert len(two.approximation.starts) <= len(starts(5).approximation.starts) <= 5
