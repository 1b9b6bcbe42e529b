"""One task, in this process: against the search, refit and test written out, and with its limits."""

import dataclasses
import resource
from pathlib import Path

import numpy as np
import pytest
from reference import records
from sklearn.metrics import roc_auc_score

from opauc_bench.commands.local_data import LocalData
from opauc_bench.commands.planning import plan_locally
from opauc_bench.commands.recorded import Recorded
from opauc_bench.commands.session import Session
from opauc_bench.data import Sources, load_catalogue, prepare
from opauc_bench.errors import ResultsError
from opauc_bench.evaluation.splits import outer_fold, random_folds
from opauc_bench.learners import OAMSeq, get_learner
from opauc_bench.memory import memory_limit
from opauc_bench.protocols import CrossValidation
from opauc_bench.results.environment import environment as environment_here
from opauc_bench.results.environment import environment_id
from opauc_bench.results.record import record_to_line
from opauc_bench.results.store import Store
from opauc_bench.runner import worker
from opauc_bench.runner.limits import Deadline, TimeLimitReached
from opauc_bench.runner.warm_up import load_learner
from opauc_bench.runner.worker import WorkerConfig, compute, run_task
from opauc_bench.task import content_hash


@pytest.fixture(scope="module")
def wine(environment):
    return prepare(load_catalogue()["wine"], Sources(Path(environment["OPAUC_BENCH_CACHE"]), offline=True))


def task_of(wine, learner, grid, **params):
    return records.task_of(
        column="mine",
        learner=learner,
        trial=1,
        fold=2,
        fingerprint=wine.fingerprint,
        definition={"learner": learner},
        params=params,
        grid=grid,
        protocol=CrossValidation(folds=3, inner_folds=3, seed=5),
    )


def config_of(wine, folder, **limits):
    return WorkerConfig(results=folder, prepared={"wine": str(wine.folder)}, **limits)


def test_task_equals_grid_search_refit_and_test_written_out_here(wine, tmp_path):
    etas = (2.0**-10, 2.0**-5, 1.0)
    found = compute(task_of(wine, "oam_seq", {"eta": etas}, buffer_size=10), config_of(wine, tmp_path))
    X, y = np.asarray(wine.X), wine.y
    fold = outer_fold(y, trial=1, fold=2, folds=3, stratified=True, seed=5, dataset="wine")
    inner = random_folds(y[fold.train], 3, np.random.default_rng([fold.seed, 1]))

    def auc(eta, train, test):
        learner = OAMSeq(eta=eta, buffer_size=10, random_state=fold.seed).fit(X[train], y[train])
        return roc_auc_score(y[test], learner.decision_function(X[test]))

    means = [
        np.mean([auc(eta, fold.train[inner != part], fold.train[inner == part]) for part in range(3)]) for eta in etas
    ]
    best = etas[int(np.argmax(np.round(means, 12)))]
    outcome = found["outcome"]
    assert found["status"] == "ok"
    assert outcome["selected"] == {"eta": best}
    assert outcome["selection"]["auc"] == pytest.approx(means, abs=1e-12)
    assert outcome["metrics"]["auc"] == pytest.approx(auc(best, fold.train, fold.test), abs=1e-12)
    assert (outcome["n_train"], outcome["n_test"]) == (len(fold.train), len(fold.test))


def test_setting_that_diverges_in_the_refit_is_replaced_by_the_next(wine, place, tmp_path):
    task = task_of(wine, f"{place / 'mine.py'}:StumblesLate", {"eta": (1.0, 0.5, 0.25)})
    found = compute(task, config_of(wine, tmp_path))
    assert found["status"] == "ok"
    outcome = found["outcome"]
    assert outcome["selection"]["n_diverged"] == 0, "the inner training sets have fewer than 100 rows"
    assert outcome["selected"] == {"eta": 0.5}
    assert outcome["diverged_in_refit"] == [{"eta": 1.0}]


def test_task_has_diverged_if_every_setting_diverges_in_the_refit(wine, place, tmp_path):
    task = task_of(wine, f"{place / 'mine.py'}:StumblesLate", {"eta": (1.0,)})
    found = compute(task, config_of(wine, tmp_path))
    assert found["status"] == "diverged"
    assert found["outcome"]["diverged_in_refit"] == [{"eta": 1.0}]


def test_inner_folds_of_an_interrupted_task_are_kept_and_used(wine, place, tmp_path):
    address = f"{place / 'mine.py'}:StopsAtTheThird"
    task, store = task_of(wine, address, {"eta": (0.5, 0.25)}), Store(tmp_path)
    left = {"inner_aucs": {"0": [0.25, None]}, "seconds": 60.0, "cpu_seconds": 30.0}
    store.write_partial(task, left)
    load_learner(task)
    get_learner(address).passes = 0
    with pytest.raises(RuntimeError, match="the third pass"):
        compute(task, config_of(wine, tmp_path), store)
    kept = store.read_partial(task)
    assert list(kept["inner_aucs"]) == ["0", "1", "2"]
    assert kept["inner_aucs"]["0"] == [0.25, None]
    assert 60.0 < kept["seconds"] < 90.0
    assert 30.0 < kept["cpu_seconds"] < 60.0
    record = run_task(task, config_of(wine, tmp_path))
    assert record.ok
    assert np.isnan(record.selection.auc[1]), "the inner fold that was left counts"
    assert record.timing.selection_cpu_seconds > 30.0
    assert store.read_partial(task) == {}
    assert record_to_line(store.read_loose(task)) == record_to_line(record)


def test_a_full_disk_is_no_failure_of_the_task(wine, tmp_path, monkeypatch):
    def refuse(*_):
        raise ResultsError("No space left on device")

    task = task_of(wine, "uni_log", {"eta": (0.5, 0.25)})
    monkeypatch.setattr("opauc_bench.runner.worker._WORTH_KEEPING", -1.0)
    monkeypatch.setattr(Store, "write_partial", refuse)
    assert run_task(task, config_of(wine, tmp_path)).ok, "inner folds only save time"
    monkeypatch.setattr(Store, "write", refuse)
    with pytest.raises(ResultsError, match="No space left"):
        run_task(task, config_of(wine, tmp_path))
    monkeypatch.setattr("opauc_bench.runner.worker.compute", refuse)
    monkeypatch.setattr(Store, "write", lambda *_: pytest.fail("there is nothing to record"))
    with pytest.raises(ResultsError, match="No space left"):
        run_task(task, config_of(wine, tmp_path))


@pytest.mark.parametrize(("options", "used"), [((), True), (("--fresh",), False)], ids=["resumed", "fresh"])
def test_a_run_uses_inner_folds_that_an_interrupted_one_has_left_unless_it_is_fresh(desk, command, options, used):
    session = Session.open(
        desk / "quick.yaml", sources=Sources(desk / "cache", offline=True), out=desk / "results/quick"
    )
    local = LocalData(session.catalogue, session.sources)
    local.prepare("wine", lambda text: None)
    task = plan_locally(Recorded.read(session), local).tasks[0]
    Store(session.folder).write_partial(task, {"inner_aucs": {"0": [0.25, None]}, "seconds": 6.0, "cpu_seconds": 6.0})
    command("run", "quick.yaml", "--offline", "--jobs", 1, *options, cwd=desk, exits=0)
    assert np.isnan(Store(session.folder).read()[task.id].selection.auc).any() == used


def test_time_limit_counts_what_an_interrupted_run_has_used(wine, tmp_path):
    task, store = task_of(wine, "uni_log", {"eta": (0.5,)}), Store(tmp_path)
    store.write_partial(task, {"inner_aucs": {}, "seconds": 100.0})
    record = run_task(task, config_of(wine, tmp_path, seconds=50.0))
    assert (record.status, record.message) == ("timeout", "time limit of 50 s reached")
    assert run_task(task, config_of(wine, tmp_path, seconds=50.0)).ok, "a retry starts from nothing"


def test_other_data_than_planned_is_an_error(wine, tmp_path):
    task = task_of(wine, "uni_log", {"eta": (0.5,)})
    record = run_task(dataclasses.replace(task, fingerprint="0" * 64), config_of(wine, tmp_path))
    assert record.status == "error"
    assert "expected data with fingerprint 000" in record.message


def test_record_refers_to_its_definition_and_environment(wine, tmp_path):
    task = task_of(wine, "uni_log", {"eta": (0.5,)})
    record = run_task(task, config_of(wine, tmp_path))
    assert record.environment == environment_id() == content_hash(environment_here())
    assert environment_here()["numpy"] == np.__version__
    parts = {"python", "opauc-bench", "scipy", "scikit-learn", "numba", "processor", "cpu_name", "blas"}
    assert parts < set(environment_here())
    assert record.definition == content_hash({"learner": "uni_log"})
    assert record.timing.wall_seconds > 0
    assert record.timing.peak_rss_bytes > 1e7


def test_memory_limit_is_enforced_and_lifted_afterwards():
    with memory_limit(1e8):
        small = np.ones(10**6)
        with pytest.raises(MemoryError):
            np.ones(10**8)
    assert small.sum() == 10**6
    assert np.ones(4 * 10**7).sum() == 4 * 10**7
    with memory_limit(None):
        assert np.ones(4 * 10**7).sum() == 4 * 10**7


def test_memory_is_limited_while_a_learner_is_loaded(wine, tmp_path, monkeypatch):
    limits = []
    monkeypatch.setattr(worker, "load_learner", lambda task: limits.append(resource.getrlimit(resource.RLIMIT_DATA)[0]))
    task = task_of(wine, "uni_log", {"eta": (0.5,)})
    for n_bytes in (None, 3e8):
        assert run_task(task, config_of(wine, tmp_path, memory_bytes=n_bytes)).ok
    assert limits[0] == resource.RLIM_INFINITY
    assert 2.3e9 < limits[1] < 2e10


def test_messages_have_no_control_characters(wine, tmp_path):
    (tmp_path / "red.py").write_text(
        "from opauc_bench.learners import UniLog\n\n\nclass Red(UniLog):\n"
        "    def fit_grid(self, *args, **options):\n        raise ValueError('\\x1b[31mred\\nand\\x07 more')\n"
    )
    task = task_of(wine, f"{tmp_path / 'red.py'}:Red", {"eta": (0.5,)})
    assert run_task(task, config_of(wine, tmp_path)).message == "ValueError: ?[31mred\nand? more (red.py:6)"


def test_deadline_is_checked_on_each_tick():
    Deadline(None, used=1e9).check()
    Deadline(100.0, used=99.0).check(17)
    with pytest.raises(TimeLimitReached, match="time limit of 100 s reached"):
        Deadline(100.0, used=100.5).check()
