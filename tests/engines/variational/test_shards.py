"""The variational engine over shards: the numbers of the engine in memory, whoever does the
work."""

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import distributed
import numpy as np
import pytest
from joblib import parallel_config

import dualview as dv
import shard_tasks
from dualview.behaviors.approximation.many_threads import (
    N_PROBES,
    N_SIGNS,
    ManyEquations,
    SoftManyThreads,
)
from dualview.behaviors.likelihoods import restricted as threads_noise
from dualview.behaviors.likelihoods.systems import SparseRows
from dualview.engines.variational.mean_field import MeanField
from dualview.engines.variational.moves import split
from dualview.engines.variational.responsibilities import Given
from dualview.engines.variational.sharded import equations as noise
from dualview.engines.variational.sharded import worker, workers
from dualview.engines.variational.sharded.equations import ShardedEquations, gram
from dualview.engines.variational.sharded.model import ShardedModel
from dualview.engines.variational.sharded.users import ShardedUsers, feature_moments
from dualview.engines.variational.sharded.worker import LoadedShards, Source, Task
from dualview.engines.variational.sharded.workers import (
    DaskCluster,
    LocalProcesses,
    ThisProcess,
    Workers,
)
from dualview.errors import DualViewError, FileError, InputError
from dualview.inputs.data import checked_data
from dualview.inputs.parameters import Parameters
from dualview.inputs.problem import Problem, build_model
from dualview.inputs.shard_problem import build_shard_model, workers_of
from dualview.units import Whitening
from systems import needs_signals

N_USERS, N_THREADS = 50, 130
PRIOR = dv.GaussianPrior(40.0, 900.0)
ROUNDING = {
    "rtol": 1e-6,
    "atol": 1e-7,
}  # of sums in another order, through conjugate gradients that end early


@pytest.fixture(scope="module")
def forum() -> dv.datasets.Forum:
    return dv.datasets.agreement(N_USERS, N_THREADS, seed=3)


@pytest.fixture(scope="module")
def behavior(forum: dv.datasets.Forum) -> dv.SharedOutcome:
    return dv.SharedOutcome(forum.participation, forum.outcome)


@pytest.fixture(scope="module")
def estimator() -> dv.DualViewMixture:
    return dv.DualViewMixture(engine="variational", behavior_prior=PRIOR)


@pytest.fixture(scope="module")
def shards(
    forum: dv.datasets.Forum, behavior: dv.SharedOutcome, tmp_path_factory: pytest.TempPathFactory
) -> dv.Shards:
    folder = tmp_path_factory.mktemp("shards") / "forum"
    return dv.write_shards(
        folder, forum.features, behavior, users_per_shard=20, threads_per_shard=40
    )


@pytest.fixture(scope="module")
def inside(
    estimator: dv.DualViewMixture, forum: dv.datasets.Forum, behavior: dv.SharedOutcome
) -> Problem:
    """The model in memory."""
    return build_model(Parameters.of(estimator), checked_data(estimator, forum.features, behavior))


def sharded_model(
    estimator: dv.DualViewMixture, shards: dv.Shards, pool: Workers, key: str
) -> ShardedModel:
    model = build_shard_model(
        Parameters.of(estimator),
        ShardedUsers(shards, pool, Source(key, str(shards.folder), shards.cache)),
    ).model
    assert isinstance(model, ShardedModel)
    return model


@pytest.fixture(scope="module")
def model(estimator: dv.DualViewMixture, shards: dv.Shards) -> Iterator[ShardedModel]:
    with ThisProcess() as pool:
        yield sharded_model(estimator, shards, pool, "alone")


@pytest.fixture(scope="module")
def labels(forum: dv.datasets.Forum) -> np.ndarray:
    """A start that is not the truth: two clusters as one, one in two."""
    z = np.where(forum.labels == 4, 3, forum.labels)
    return np.where((z == 0) & (np.arange(N_USERS) % 2 == 0), 4, z).astype(np.int64)


@pytest.fixture(scope="module")
def latent(inside: Problem) -> SoftManyThreads:
    """q of coefficients in memory, with the random numbers that shards have."""
    likelihood = inside.model.likelihood
    rows = SparseRows(likelihood.design)
    drawn = noise.normals("threads", slice(0, N_PROBES), 0, N_THREADS)
    gram_noise = np.stack(
        [rows.transposed_times(np.ascontiguousarray(column)) for column in drawn.T], axis=1
    )
    signs = np.stack([noise.signs(column, 0, N_USERS) for column in range(N_SIGNS)], axis=1)
    weighted = rows.transposed_times(likelihood.outcome)
    own = noise.normals("users", slice(0, N_PROBES), 0, N_USERS)
    return SoftManyThreads.start(ManyEquations(likelihood, rows, weighted, own, gram_noise, signs))


@pytest.fixture(scope="module")
def steps_inside(inside: Problem, labels: np.ndarray, latent: SoftManyThreads) -> list[MeanField]:
    return _steps(MeanField.start(inside.model, labels, latent), 3)


def begun(model: ShardedModel, labels: np.ndarray) -> MeanField:
    return MeanField.begun(model, Given(labels, int(labels.max()) + 1))


@pytest.fixture(scope="module")
def steps(model: ShardedModel, labels: np.ndarray) -> list[MeanField]:
    return _steps(begun(model, labels), 3)


def _steps(q: MeanField, n: int) -> list[MeanField]:
    found = [q]
    for _ in range(n):
        found.append(found[-1].step())
    return found


def numbers(q: MeanField) -> np.ndarray:
    """Everything that a step changes."""
    assert q.latent is not None
    parts = [
        [q.bound, q.evidence, q.entropy],
        q.counts,
        q.weights.log_weights,
        *q.numbers(),
        q.responsibilities.ravel(),
    ]
    return np.concatenate([*parts, q.latent.means.ravel(), q.latent.covariances.ravel()])


def pids(pool: LocalProcesses) -> list[int]:
    """Of the processes that run now."""
    return [pid for executor in pool._executors for pid in executor._processes]


def test_units_are_those_in_memory(inside: Problem, model: ShardedModel) -> None:
    assert model.users is not None
    features = model.users.observed["features"].means
    np.testing.assert_allclose(features, inside.model.features, rtol=1e-10, atol=1e-12)
    assert model.n_users == N_USERS


@pytest.mark.parametrize("prior", ["shrunk", "diagonal"])
def test_units_by_a_word_are_those_in_memory(
    prior: str, shards: dv.Shards, forum: dv.datasets.Forum
) -> None:
    estimator = dv.DualViewMixture(engine="variational", feature_prior=prior, behavior_prior=PRIOR)
    with ThisProcess() as pool:
        model = sharded_model(estimator, shards, pool, prior)
        assert model.users is not None
        found = model.users.source.features
    assert found is not None
    expected = Whitening.of_data(forum.features, prior)
    np.testing.assert_allclose(found.factor, expected.factor, rtol=1e-10)


def test_the_constant_of_the_noise_is_that_in_memory(
    model: ShardedModel,
    behavior: dv.SharedOutcome,
    monkeypatch: pytest.MonkeyPatch,
    shards: dv.Shards,
    estimator: dv.DualViewMixture,
) -> None:
    assert model.likelihood.noise_variance == behavior.noise_constant
    monkeypatch.setattr(threads_noise, "_MOST_EXACT", 10)
    with ThisProcess() as pool:
        estimated = sharded_model(
            estimator, shards, pool, "by Lanczos' method"
        ).likelihood.noise_variance
    assert estimated != behavior.noise_constant
    assert estimated == pytest.approx(behavior.noise_constant, rel=0.3)


def test_steps_are_those_in_memory(steps: list[MeanField], steps_inside: list[MeanField]) -> None:
    for own, other in zip(steps, steps_inside, strict=True):
        np.testing.assert_allclose(numbers(own), numbers(other), **ROUNDING)
    assert steps[-1].latent.reported_bound() == pytest.approx(
        steps_inside[-1].latent.reported_bound(), rel=1e-9
    )
    assert not np.allclose(numbers(steps[1]), numbers(steps[2]), rtol=1e-4)


def test_changes_of_components_are_those_in_memory(
    steps: list[MeanField], steps_inside: list[MeanField]
) -> None:
    trials = [
        [
            q.merged(0, 1),
            q.deleted(2),
            split(q, 1, list(q.views)),
            q.reordered(np.array([2, 0, 1, 4, 3])),
        ]
        for q in (steps[-1], steps_inside[-1])
    ]
    for own, other in zip(*trials, strict=True):
        np.testing.assert_allclose(numbers(own), numbers(other), **ROUNDING)
        np.testing.assert_allclose(
            numbers(own.trial_step()), numbers(other.trial_step()), **ROUNDING
        )
    twice = [split(q.merged(0, 1), 2, ["features"]) for q in (steps[-1], steps_inside[-1])]
    np.testing.assert_allclose(numbers(twice[0]), numbers(twice[1]), **ROUNDING)


def test_the_log_joint_is_that_in_memory(inside: Problem, model: ShardedModel) -> None:
    state = replace(inside.model.draw_prior(np.random.default_rng(2)))
    assert model.log_joint(state) == pytest.approx(inside.model.log_joint(state), rel=1e-10)


def test_other_sizes_of_shards_give_the_same_to_rounding(
    estimator: dv.DualViewMixture,
    forum: dv.datasets.Forum,
    behavior: dv.SharedOutcome,
    labels: np.ndarray,
    steps: list[MeanField],
    tmp_path: Path,
) -> None:
    other = dv.write_shards(
        tmp_path / "forum", forum.features, behavior, users_per_shard=7, threads_per_shard=100
    )
    with ThisProcess() as pool:
        found = _steps(begun(sharded_model(estimator, other, pool, "other sizes"), labels), 2)
    np.testing.assert_allclose(numbers(found[-1]), numbers(steps[2]), **ROUNDING)


@needs_signals
def test_processes_give_the_same_to_the_last_bit(
    estimator: dv.DualViewMixture,
    shards: dv.Shards,
    labels: np.ndarray,
    steps: list[MeanField],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also when one of them dies in the middle of its work. In the end none is left."""
    with LocalProcesses(2) as pool:
        q = begun(sharded_model(estimator, shards, pool, "processes"), labels)
        np.testing.assert_array_equal(numbers(q), numbers(steps[0]))
        source, first, argument = q.users.source, pids(pool), (str(tmp_path / "died"), 1.0)
        own = list(
            pool.run(
                source,
                [Task(shard_tasks.die_once, "users", number, argument) for number in range(3)],
            )
        )
        assert (tmp_path / "died").exists()
        np.testing.assert_array_equal(
            own, [1.0 + LoadedShards(source, 0.0).features(number).sum() for number in range(3)]
        )
        assert pids(pool)[0] == first[0]
        assert pids(pool)[1] != first[1]
        np.testing.assert_array_equal(numbers(q.step()), numbers(steps[1]))
        with pytest.raises(
            FileError, match="no such folder"
        ):  # an error of a task is that of the fit
            list(
                pool.run(
                    replace(source, key="gone", folder=str(tmp_path / "gone")),
                    [Task(gram, "threads", 0)],
                )
            )
        monkeypatch.setattr(workers, "MOST_DEATHS", 1)
        with pytest.raises(DualViewError, match="died 1 times with the same shard"):
            list(pool.run(source, [Task(shard_tasks.die, "users", 0)]))
        left = pids(pool)
    for pid in left:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.slow
@needs_signals
def test_three_processes_too(
    estimator: dv.DualViewMixture, shards: dv.Shards, labels: np.ndarray, steps: list[MeanField]
) -> None:
    """Also when one of them is killed from outside."""
    with LocalProcesses(3) as pool:
        q = begun(sharded_model(estimator, shards, pool, "three"), labels).step()
        np.testing.assert_array_equal(numbers(q), numbers(steps[1]))
        os.kill(pids(pool)[2], signal.SIGKILL)
        np.testing.assert_array_equal(numbers(q.step()), numbers(steps[2]))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
@needs_signals
def test_a_dask_cluster_too(
    estimator: dv.DualViewMixture,
    shards: dv.Shards,
    labels: np.ndarray,
    steps: list[MeanField],
    tmp_path: Path,
) -> None:
    """Also when one of its workers is killed, and where it is found by joblib's context."""
    options = {
        "n_workers": 2,
        "threads_per_worker": 1,
        "dashboard_address": None,
        "local_directory": str(tmp_path),
    }
    with (
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster) as client,
        parallel_config("dask"),
    ):
        pool = workers_of(None)
        assert isinstance(pool, DaskCluster)
        q = begun(sharded_model(estimator, shards, pool, "dask"), labels).step()
        np.testing.assert_array_equal(numbers(q), numbers(steps[1]))
        before = client.run(os.getpid)
        assert set(client.run(lambda: len(worker._loaded)).values()) == {
            2
        }  # before and in working units
        os.kill(next(iter(before.values())), signal.SIGKILL)
        np.testing.assert_array_equal(numbers(q.step()), numbers(steps[2]))
        assert set(client.run(os.getpid).values()) != set(before.values())


def test_another_order_of_tasks_gives_the_same(model: ShardedModel) -> None:
    assert model.users is not None
    tasks = [Task(feature_moments, "users", number) for number in (2, 0, 1)]
    found = [result.n for result in ThisProcess().run(model.users.source, tasks)]
    assert found == [10, 20, 20]


def test_memory_has_the_shards_that_it_has_room_for(
    shards: dv.Shards, steps: list[MeanField]
) -> None:
    """Results do not depend on it: shards and rows of q(z) that have no room are made anew each
    time."""
    q = steps[-1]
    assert isinstance(q.users, ShardedUsers)
    one = 8 * 2 * 20
    for room, n_kept in ((0.0, 0), (one, 1), (2.5 * one, 3), (1e9, 3)):  # the last shard is smaller
        loaded = LoadedShards(q.users.source, room)
        found = [
            loaded.rows(number, q.recipe.of_users(entry.users))[0]
            for number, entry in enumerate(shards.users)
        ]
        assert sum(kind == "users" for kind, _ in loaded.kept) == n_kept
        held = sum(part.nbytes for part in loaded.kept.values()) + sum(
            rows.nbytes for _, rows, _ in loaded._rows.values()
        )
        assert held == loaded.used <= room
        np.testing.assert_array_equal(np.hstack(found), q.responsibilities)
    assert {rows.shape[1] for _, rows, _ in loaded._rows.values()} == {20, 10}


def test_probes_in_groups_are_the_same(model: ShardedModel, steps: list[MeanField]) -> None:
    """Vectors of all users that are in memory at a time are fewer with more users."""
    equations = model.likelihood.equations
    assert isinstance(equations, ShardedEquations)
    covariance = steps[-1].latent.covariance
    whole = covariance.renewed(2.0 * covariance.own, 1.5, 4)
    apart = replace(equations, groups=tuple(slice(i, i + 4) for i in range(0, N_PROBES, 4)))
    parts = replace(covariance, equations=apart).renewed(2.0 * covariance.own, 1.5, 4)
    np.testing.assert_allclose(parts.draws, whole.draws, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(parts.variances, whole.variances, rtol=1e-9)


def normal(kind: str, column: int, first: int, stop: int, seed: int = 0) -> np.ndarray:
    return noise.normals(kind, slice(column, column + 1), first, stop, seed)[:, 0]


def test_numbers_belong_to_positions() -> None:
    whole = normal("users", 3, 0, 200_000)
    np.testing.assert_array_equal(normal("users", 3, 65_000, 140_000), whole[65_000:140_000])
    assert set(noise.signs(0, 10, 500)) == {-1.0, 1.0}
    assert abs(whole.mean()) < 4.5 / np.sqrt(len(whole))
    others = [
        normal("users", 2, 0, 9),
        normal("threads", 3, 0, 9),
        normal("users", 3, 0, 9, seed=1),
    ]
    assert all((other != whole[:9]).all() for other in others)


@pytest.fixture(scope="module")
def fitted(shards: dv.Shards, tmp_path_factory: pytest.TempPathFactory) -> dv.DualViewMixture:
    settings = {"n_clusters": 2, "n_chains": 1, "n_draws": 6}
    settings |= {"checkpoint": tmp_path_factory.mktemp("run"), "progress": lambda *_: None}
    return dv.DualViewMixture(engine="variational", **settings).fit(shards)


def test_an_estimator_has_everything(
    fitted: dv.DualViewMixture, forum: dv.datasets.Forum, tmp_path: Path
) -> None:
    assert fitted.labels_.shape == fitted.latent_.shape == (N_USERS,)
    assert fitted.posterior_["z"].shape == (1, 6, N_USERS)
    assert fitted.posterior_.n_observations == N_THREADS
    assert np.isfinite(fitted.posterior_["log_joint"]).all()
    assert np.corrcoef(fitted.latent_, forum.latent)[0, 1] > 0.8
    fitted.posterior_.save(tmp_path / "run.nc")
    again = dv.DualViewMixture.from_posterior(dv.load(tmp_path / "run.nc"))
    for model in (fitted, again):
        assert model.predict(forum.features[:4]).shape == (4,)
        assert np.isfinite(model.predict_outcome(forum.test.participation).nll(forum.test.outcome))


def test_a_folder_notes_the_shards(fitted: dv.DualViewMixture, tmp_path: Path) -> None:
    manifest = json.loads((fitted.checkpoint / "manifest.json").read_text())
    assert manifest["made_with"]["shards"].startswith("sha256:")
    other = dv.write_shards(tmp_path / "other", np.random.default_rng(0).standard_normal((6, 2)))
    with pytest.raises(InputError, match="shards has changed"):
        dv.DualViewMixture(**fitted.get_params()).fit(other)


def test_progress_and_interrupts_reach_a_fit(shards: dv.Shards) -> None:
    seen: list[tuple[int, int, int]] = []

    def stop(*news: int) -> None:
        seen.append(news)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dv.DualViewMixture(2, engine="variational", n_chains=1, progress=stop).fit(shards)
    assert seen == [(0, 3, 2)]
    assert not any("working" in key for key in worker._loaded)  # nothing is kept


def test_features_alone(forum: dv.datasets.Forum, tmp_path: Path) -> None:
    shards = dv.write_shards(tmp_path / "users", forum.features, users_per_shard=20)
    model = dv.DualViewMixture(2, engine="variational", n_chains=1, n_draws=5, init="one").fit(
        shards
    )
    assert model.behavior_ is None
    assert model.score(forum.features) > -5.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"engine": "gibbs"}, 'Shards are for engine="variational"'),
        ({"link": "linear"}, "do not have link yet"),
        ({"pooling": "cluster"}, "do not have pooling yet"),
        ({"behavior_prior": "likelihood"}, 'behavior_prior="likelihood" is not for shards'),
        ({"n_clusters": 51}, "at most the number of users, 50"),
        ({"init": [0, 1]}, "a label per user"),
        ({"n_draws": 10**9}, "take .* GB, and this machine has"),
    ],
)
def test_what_shards_cannot_do_is_refused(settings: dict, message: str, shards: dv.Shards) -> None:
    with pytest.raises(InputError, match=message):
        dv.DualViewMixture(**{"engine": "variational", "n_chains": 1, **settings}).fit(shards)


def test_a_behavior_beside_shards_is_refused(shards: dv.Shards, behavior: dv.SharedOutcome) -> None:
    with pytest.raises(InputError, match="without a behavior"):
        dv.DualViewMixture(engine="variational").fit(shards, behavior)
