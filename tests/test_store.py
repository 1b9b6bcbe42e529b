"""Records on disk: written whole or not at all, believed only if they are what they should be, found by their path."""

import json
import math
import os

import pytest

from opauc_bench.errors import ResultsError
from opauc_bench.files import write_text
from opauc_bench.plan import Task
from opauc_bench.runner.records import SCHEMA, STATUSES
from opauc_bench.runner.store import Store, write_json


def task_of(**changes):
    content = {
        "dataset": "wine",
        "column": "opauc",
        "learner": "opauc",
        "trial": 0,
        "fold": 2,
        "fingerprint": "f" * 64,
        "params": {},
        "grid": {"eta": (0.5,)},
        "protocol": {"folds": 3},
        "seconds": 1.0,
        "memory_bytes": 1.0,
    } | changes
    identity = {key: content[key] for key in ("dataset", "learner", "trial", "fold", "fingerprint")}
    return Task(identity=identity, **content)


def record_of(task, **changes):
    return {
        "schema": SCHEMA,
        "id": task.id,
        "dataset": task.dataset,
        "column": task.column,
        "trial": task.trial,
        "fold": task.fold,
        "status": "ok",
        "message": "",
        "selection": {"n_settings": 1, "n_diverged": 0, "mean_auc": [0.75]},
        "test_auc": 0.1 + 0.2,
        "chosen": {"eta": 0.5},
        "timing": {"wall_seconds": 1.5, "fit_cpu_seconds": 0.5},
    } | changes


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results")


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


# ---------------------------------------------------------------------- writing


def test_a_record_comes_back_as_it_was(store):
    task = task_of()
    assert store.read(task) is None
    store.write(task, record_of(task))
    assert store.read(task) == record_of(task)
    assert files(store.folder) == [f"records/wine/opauc/t1-f3-{task.id}.json"]


def test_a_record_is_one_key_a_line(store):
    task = task_of()
    store.write(task, record_of(task))
    lines = store.record_path(task).read_text().splitlines()
    assert [lines[0], lines[-1]] == ["{", "}"]
    assert len(lines) == 2 + len(record_of(task))


def test_the_umask_decides_who_may_read(store):
    before = os.umask(0o027)
    try:
        write_text(store.folder / "a.txt", "a")
    finally:
        os.umask(before)
    assert (store.folder / "a.txt").stat().st_mode & 0o777 == 0o640


def test_a_failing_move_leaves_the_old_file_and_nothing_else(store, monkeypatch):
    task = task_of()
    store.write(task, record_of(task))
    store.write_partial(task, {"seconds": 9.0})

    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(ResultsError, match="cannot be written: No space left on device") as caught:
        store.write(task, record_of(task, test_auc=0.9))
    assert "--out" in caught.value.hint
    assert store.read(task)["test_auc"] == 0.1 + 0.2
    assert store.read_partial(task) == {"id": task.id, "seconds": 9.0}, "kept until the record is there"
    assert files(store.folder) == [f"partial/{task.id}.json", f"records/wine/opauc/t1-f3-{task.id}.json"]


def test_an_interruption_while_writing_leaves_the_old_file_and_nothing_else(store, monkeypatch):
    path = store.folder / "a.txt"
    write_text(path, "old")

    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert files(store.folder) == ["a.txt"]


def test_a_folder_that_cannot_be_written_is_an_error_that_says_so(tmp_path):
    (tmp_path / "results").write_text("a file where the folder should be")
    with pytest.raises(ResultsError, match="cannot be written"):
        Store(tmp_path / "results").write(task_of(), record_of(task_of()))
    (tmp_path / "there").mkdir()
    with pytest.raises(ResultsError, match="there cannot be written"):
        write_text(tmp_path / "there", "a folder where the file should be")
    assert files(tmp_path) == ["results"]


@pytest.mark.skipif(os.getuid() == 0, reason="nothing is read-only for root")
def test_a_read_only_folder_is_an_error_that_says_so(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ResultsError, match="Permission denied"):
        write_text(tmp_path / "a.txt", "a")


def test_json_has_no_nan(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"auc": math.nan})
    assert files(tmp_path) == []


# ---------------------------------------------------------------------- reading


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"schema": 1', "\0\0\0", "[" * 30],
    ids=["empty", "cut off", "cut off later", "zeros", "nonsense"],
)
def test_a_damaged_record_is_named_with_the_command_that_mends_it(store, text):
    task = task_of()
    store.write(task, record_of(task))
    path = store.record_path(task)
    path.write_text(text)
    with pytest.raises(ResultsError, match="cannot be read") as caught:
        store.read(task)
    assert str(path) in caught.value.message
    assert caught.value.hint.startswith(f"rm '{path}'")


def test_bytes_that_are_no_text_are_damage_too(store):
    task = task_of()
    store.write(task, record_of(task))
    store.record_path(task).write_bytes(b"\xff\xfe{}")
    with pytest.raises(ResultsError, match="cannot be read"):
        store.read(task)


def without(record, key):
    return {name: value for name, value in record.items() if name != key}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"schema": 99}, "schema is 99, expected 1"),
        ({"id": "0" * 16}, "id is '0000000000000000', expected"),
        ({"dataset": "german"}, "dataset is 'german', expected 'wine'"),
        ({"column": "uni_log"}, "column is 'uni_log', expected 'opauc'"),
        ({"trial": 1}, "trial is 1, expected 0"),
        ({"fold": "2"}, "fold is '2', expected 2"),
        ({"status": "done"}, "status is 'done', expected one of ok, diverged"),
        ({"status": None}, "status is None"),
        ({"test_auc": 1.5}, "test_auc is 1.5, expected a number in"),
        ({"test_auc": -0.1}, "test_auc is -0.1"),
        ({"test_auc": math.nan}, "test_auc is nan"),
        ({"test_auc": "0.5"}, "test_auc is '0.5'"),
        ({"test_auc": None}, "test_auc is None"),
        ({"test_auc": True}, "test_auc is True"),
        ({"message": None}, "message is None, expected a str"),
        ({"timing": 3}, "timing is 3, expected a dict"),
        ({"chosen": [0.5]}, r"chosen is \[0.5\], expected a dict"),
        ({"chosen": {"eta": "x"}}, r"chosen is \{'eta': 'x'\}, expected a number for each axis"),
        ({"selection": "x"}, "selection is 'x', expected a dict"),
        ({"selection": {"mean_auc": ["x"]}}, r"selection.mean_auc is \['x'\], expected a list of shares and nulls"),
        ({"selection": {"auc": [None, 1e308]}}, r"selection.auc is \[None, 1e\+308\], expected a list of shares"),
        ({"selection": {"n_diverged": 1.5}}, "selection.n_diverged is 1.5, expected a count"),
        ({"timing": {}}, "timing.fit_cpu_seconds is None, expected a finite number"),
        ({"timing": {"fit_cpu_seconds": 1, "wall_seconds": -1}}, "timing.wall_seconds is -1, expected a finite number"),
        ({"trial": False}, "trial is False, expected 0"),
        ({"environment": "x"}, "environment is 'x', expected a dict"),
    ],
)
def test_a_file_that_is_not_this_tasks_record_is_not_believed(store, change, problem):
    task = task_of()
    store.record_path(task).parent.mkdir(parents=True)
    store.record_path(task).write_text(json.dumps(record_of(task, **change)))
    with pytest.raises(ResultsError, match=f"is not a record of this task: {problem}") as caught:
        store.read(task)
    assert caught.value.hint.startswith(f"rm '{store.record_path(task)}'")


@pytest.mark.parametrize("content", [[], 3, None, "text", {}])
def test_json_of_another_kind_is_not_believed(store, content):
    task = task_of()
    store.record_path(task).parent.mkdir(parents=True)
    store.record_path(task).write_text(json.dumps(content))
    with pytest.raises(ResultsError, match="schema is None"):
        store.read(task)


@pytest.mark.parametrize("status", [status for status in STATUSES if status != "ok"])
def test_a_failure_needs_no_number(store, status):
    task = task_of()
    record = without(without(without(record_of(task, status=status, message="why"), "test_auc"), "chosen"), "selection")
    store.write(task, record)
    assert store.read(task) == record


def test_a_task_without_data_has_no_record(store):
    task = task_of(fingerprint=None)
    assert store.read(task) is None
    assert store.find(task) is None


def test_a_folder_that_is_a_file_has_no_records(tmp_path):
    (tmp_path / "results").write_text("")
    assert Store(tmp_path / "results").read(task_of()) is None


# ---------------------------------------------------------------------- inner folds, claims, leftovers


def test_inner_folds_are_kept_until_the_record_is_written(store):
    task = task_of()
    assert store.read_partial(task) == {}
    store.write_partial(task, {"inner_aucs": {"0": [0.5, None]}, "seconds": 6.5})
    assert store.read_partial(task) == {"id": task.id, "inner_aucs": {"0": [0.5, None]}, "seconds": 6.5}
    store.write(task, record_of(task))
    assert store.read_partial(task) == {}


def test_inner_folds_that_somebody_has_changed_are_dropped(store):
    """Their numbers would end in a record; and with less time used the limit would be another one."""
    task = task_of()
    store.write_partial(task, {"inner_aucs": {"0": [0.5, None]}, "seconds": 6.5})
    path = store.partial_path(task)
    whole = path.read_text()
    for old, new in (("0.5", "0.6"), ("6.5", "NaN"), ("6.5", "-1e9"), ("null", "2"), ('"seal"', '"sea"')):
        path.write_text(whole.replace(old, new))
        assert store.read_partial(task) == {}
    path.write_text(whole)
    assert store.read_partial(task)["seconds"] == 6.5


@pytest.mark.parametrize("text", ["{", "[]", "null", '{"id": "another"}', "\0"])
def test_damaged_inner_folds_are_dropped(store, text):
    task = task_of()
    store.write_partial(task, {"seconds": 6.5})
    store.partial_path(task).write_text(text)
    assert store.read_partial(task) == {}


def test_discarding_forgets_a_task_and_no_other(store):
    task, other = task_of(), task_of(fold=1)
    for each in (task, other):
        store.write(each, record_of(each))
        store.write_partial(each, {})
    store.discard(task)
    store.discard(task)
    assert store.read(task) is None
    assert store.read_partial(task) == {}
    assert store.read(other) == record_of(other)
    assert store.read_partial(other) == {"id": other.id}


def test_claims_tell_who_was_at_work(store):
    task, twin = task_of(), task_of(column="again")
    assert task.id == twin.id
    store.claim(task, 123)
    assert not store.clear_claim(twin), "the same computation in another column is another piece of work"
    assert store.clear_claim(task)
    assert not store.clear_claim(task)
    assert files(store.folder) == []


def test_sweeping_removes_what_killed_writers_left_and_nothing_else(store):
    task = task_of()
    store.write(task, record_of(task))
    store.write_partial(task, {})
    keep = files(store.folder)
    store.claim(task, 123)
    (store.record_path(task).parent / ".t1-f3-x.json.abc.tmp").write_text("{")
    (store.folder / "partial" / ".x.json.abc.tmp").write_text("{")
    (store.folder / ".manifest.json.a1b2c3_4.tmp").write_text("{")
    (store.folder / ".mine.tmp").write_text("somebody's own")
    store.sweep()
    assert files(store.folder) == [".mine.tmp", *keep]
    Store(store.folder / "nowhere").sweep()


# ---------------------------------------------------------------------- other folders


def test_the_same_task_is_found_under_whatever_column(store):
    task, other = task_of(column="opauc"), task_of(column="mine")
    assert task.id == other.id
    store.write(other, record_of(other))
    assert store.read(task) is None
    assert store.find(task) == record_of(task), "as if it were this task's own"
    assert store.find(task_of(fold=1)) is None
    assert store.find(task_of(dataset="german")) is None


def test_what_is_found_elsewhere_has_to_be_a_record(store):
    task = task_of()
    store.write(task, record_of(task, test_auc=7.0))
    assert store.find(task) is None


def test_strangers_are_records_of_none_of_the_tasks(store):
    mine, changed, gone = task_of(), task_of(fold=1), task_of(dataset="german")
    for task in (mine, changed, gone):
        store.write(task, record_of(task))
    assert store.strangers([mine, changed, gone]) == []
    assert store.strangers([mine, task_of(fingerprint=None)]) == sorted(
        [store.record_path(changed), store.record_path(gone)]
    )
