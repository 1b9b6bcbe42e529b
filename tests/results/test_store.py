"""Records on disk: loose while a run is under way, packed when it ends, and whole whenever a process is killed."""

import errno
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from folders import forged
from reference.records import lines, record_of, task_of

from opauc_bench.errors import ResultsError
from opauc_bench.files import write_text
from opauc_bench.results.manifest import read_manifest
from opauc_bench.results.record import record_to_line
from opauc_bench.results.store import Records, Store


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results")


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def tasks_of(*datasets, trials=2, columns=("opauc",)):
    """Tasks with an id each."""
    return [
        task_of(dataset=dataset, column=column, learner=column, trial=trial, fold=0)
        for dataset in datasets
        for trial in range(trials)
        for column in columns
    ]


def filled(store, tasks):
    """Write a loose record for each task; returns all as text."""
    for task in tasks:
        store.write(record_of(task))
    return {task.id: record_to_line(record_of(task)) for task in tasks}


# ---------------------------------------------------------------------- loose records


def test_a_written_record_is_read_again(store):
    task = task_of()
    assert store.read_loose(task) is None
    store.write(record_of(task))
    assert record_to_line(store.read_loose(task)) == record_to_line(record_of(task))
    found = store.read()
    assert lines(found) == {task.id: record_to_line(record_of(task))}
    assert found.loose == {task.id}
    assert files(store.folder) == [f"running/{task.id}.json"]


def test_file_permissions_follow_the_umask(store):
    before = os.umask(0o027)
    try:
        write_text(store.folder / "a.txt", "a")
    finally:
        os.umask(before)
    assert (store.folder / "a.txt").stat().st_mode & 0o777 == 0o640


def test_a_failing_move_leaves_the_old_file_and_nothing_else(store, monkeypatch):
    task = task_of()
    store.write(record_of(task))
    store.write_partial(task, {"seconds": 9.0})

    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(ResultsError, match="cannot be written: No space left on device"):
        store.write(record_of(task, message="another"))
    assert store.read_loose(task).message == ""
    assert store.read_partial(task) == {"id": task.id, "seconds": 9.0}, "kept until the record is there"
    assert files(store.folder) == [f"running/{task.id}.json", f"running/{task.id}.partial"]


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


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "results").write_text("a file where the folder should be")
    with pytest.raises(ResultsError, match="cannot be written"):
        Store(tmp_path / "results").write(record_of(task_of()))
    (tmp_path / "there").mkdir()
    with pytest.raises(ResultsError, match="there cannot be written"):
        write_text(tmp_path / "there", "a folder where the file should be")
    assert files(tmp_path) == ["results"]


@pytest.mark.skipif(os.getuid() == 0, reason="nothing is read-only for root")
def test_a_read_only_folder_is_named(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ResultsError, match="Permission denied"):
        write_text(tmp_path / "a.txt", "a")


def test_a_folder_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    """Nothing is unreadable for root, so the system's answer is made up."""

    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "listdir", refuse)
    with pytest.raises(ResultsError, match="running cannot be read: Permission denied"):
        Store(tmp_path).read()
    monkeypatch.setattr("opauc_bench.results.manifest.read_json", refuse)
    with pytest.raises(ResultsError, match=r"manifest\.json cannot be read: Permission denied"):
        read_manifest(tmp_path)


def test_records_that_cannot_be_read_are_not_damaged(store, monkeypatch):
    filled(store, tasks_of("wine"))
    store.pack()

    def refuse(path, only=None):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("opauc_bench.results.store._packed_lines", refuse)
    with pytest.raises(ResultsError, match=r"wine\.jsonl cannot be read: Permission denied") as raised:
        store.read()
    assert raised.value.hint.startswith("chmod u+r ")


def test_records_that_are_packed_while_they_are_read_are_all_found(store, monkeypatch):
    tasks = tasks_of("wine", "german")
    filled(store, tasks)
    list_files = store._files

    def pack_after_listing(name, suffix):
        listed = list_files(name, suffix)
        if name == "running" and listed:
            Store(store.folder).pack()
        return listed

    monkeypatch.setattr(store, "_files", pack_after_listing)
    found = store.read()
    assert set(found) == {task.id for task in tasks}
    assert found.damaged == []


def test_a_folder_that_is_removed_while_it_is_locked_hides_no_error(tmp_path):
    def work():
        with Store(tmp_path / "new").locked():
            shutil.rmtree(tmp_path / "new")
            raise KeyError("the reason")

    with pytest.raises(KeyError, match="the reason"):
        work()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda content: content.update(colour="red"), "colour: unknown key"),
        (lambda content: content.update(status="skipped", message="why"), "status: "),
        (lambda content: content["outcome"].update(kind="other"), "outcome.kind: "),
    ],
)
def test_the_record_of_another_version_is_an_error_and_never_removed(change, problem, store):
    tasks = tasks_of("wine")
    filled(store, tasks)
    store.pack()
    path = store.packed_path("wine")
    first, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([forged(first, change) + b"\n", *rest]))
    before = path.read_bytes()
    store.write(record_of(tasks[1]))
    for action in (store.read, store.remove_damaged, store.pack, lambda: store.remove(tasks[1:])):
        with pytest.raises(ResultsError, match=f"line 1: {problem}.*; another version of opauc-bench"):
            action()
    assert path.read_bytes() == before


def test_a_task_without_data_has_no_record(store):
    assert store.read().of(task_of(fingerprint=None)) is None


def test_a_folder_that_is_a_file_has_no_records(tmp_path):
    (tmp_path / "results").write_text("")
    assert len(Store(tmp_path / "results").read()) == 0


# ---------------------------------------------------------------------- packing


def test_packed_records_are_sorted_lines_of_one_file_per_dataset(store):
    tasks = tasks_of("wine", "german", columns=("uni_log", "opauc"))
    written = filled(store, tasks)
    assert store.pack() == 8
    assert files(store.folder) == ["records/german.jsonl", "records/wine.jsonl"]
    places = [
        (record["column"], record["trial"], record["fold"])
        for record in map(json.loads, store.packed_path("wine").read_text().splitlines())
    ]
    assert places == [("opauc", 0, 0), ("opauc", 1, 0), ("uni_log", 0, 0), ("uni_log", 1, 0)]
    found = store.read()
    assert lines(found) == written
    assert found.loose == set()


def test_packing_adds_to_what_is_packed_and_does_nothing_the_second_time(store):
    first, second = tasks_of("wine", trials=1), tasks_of("wine", trials=3)
    filled(store, first)
    store.pack()
    written = filled(store, second[1:]) | {first[0].id: record_to_line(record_of(first[0]))}
    assert store.pack() == 2
    assert lines(store.read()) == written
    before = store.packed_path("wine").stat().st_mtime_ns
    assert store.pack() == 0
    assert store.packed_path("wine").stat().st_mtime_ns == before


def test_the_order_of_writing_does_not_change_the_file(tmp_path):
    tasks = tasks_of("wine", trials=5)
    for name, order in (("a", tasks), ("b", tasks[::-1])):
        filled(Store(tmp_path / name), order[:3])
        Store(tmp_path / name).pack()
        filled(Store(tmp_path / name), order[3:])
        Store(tmp_path / name).pack()
    assert (
        Store(tmp_path / "a").packed_path("wine").read_bytes() == Store(tmp_path / "b").packed_path("wine").read_bytes()
    )


def test_of_a_loose_and_a_packed_record_the_loose_one_counts(store):
    task = task_of()
    store.write(record_of(task))
    store.pack()
    store.write(record_of(task, message="computed again"))
    assert store.read()[task.id].message == "computed again"
    store.pack()
    assert store.read()[task.id].message == "computed again"
    assert len(store.packed_path("wine").read_text().splitlines()) == 1


@pytest.mark.parametrize(("status", "replaces"), [("timeout", False), ("error", False), ("diverged", True)])
def test_a_failure_does_not_replace_a_number(store, status, replaces):
    task = task_of()
    store.write(record_of(task))
    store.pack()
    failed = record_of(task).model_copy(update={"status": status, "message": "computed again"})
    store.write(failed)
    for _ in range(2):
        assert (store.read()[task.id].status == status) == replaces
        assert store.read().again == set()
        store.pack()
    records = Records({task.id: record_of(task)})
    assert records.add(failed) == replaces
    assert (records[task.id].status == status) == replaces
    store.write(record_of(task, message="a number"))
    assert store.read()[task.id].message == "a number"


def test_inner_folds_of_unfinished_tasks_survive_packing(store):
    done, unfinished = tasks_of("wine")
    store.write_partial(unfinished, {"seconds": 6.0})
    filled(store, [done])
    store.pack()
    assert store.read_partial(unfinished) == {"id": unfinished.id, "seconds": 6.0}


# Every call that touches the disk is one at which a process can be killed.
KILLED = """
import os, sys
from pathlib import Path
from reference.records import task_of
from opauc_bench.results.store import Store

steps, last = [0], int(sys.argv[2])

def counted(call):
    def step(*arguments, **options):
        if steps[0] == last:
            os._exit(9)
        steps[0] += 1
        return call(*arguments, **options)
    return step

for name in ("open", "mkdir", "replace", "rename", "unlink", "rmdir", "fsync", "chmod", "write"):
    setattr(os, name, counted(getattr(os, name)))
Path.unlink, Path.rmdir, Path.mkdir = counted(Path.unlink), counted(Path.rmdir), counted(Path.mkdir)
store = Store(Path(sys.argv[1]))
store.pack() if sys.argv[3] == "pack" else store.note_again([task_of(dataset="wine")])
"""


def killed_after(folder, step, what):
    """Pack or note in a process of its own that is gone after so many steps; returns whether it came to the end."""
    command = [sys.executable, "-c", KILLED, str(folder), str(step), what]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True)
    assert done.returncode in (0, 9), done.stderr
    return done.returncode == 0


@pytest.mark.faults
@pytest.mark.parametrize("what", ["pack", "note_again"])
def test_a_process_killed_at_any_step_neither_loses_nor_duplicates_records(tmp_path, what):
    tasks = tasks_of("wine", "german")
    for step in range(100):
        store = Store(tmp_path / f"{step}")
        written = filled(store, tasks[:1] + tasks[2:])
        store.pack()
        written |= filled(store, tasks)
        finished = killed_after(store.folder, step, what)
        found = store.read()
        assert found.damaged == []
        assert lines(found) == written, f"after step {step}"
        store.remove_leftovers()
        store.forget_other_tasks([])
        store.pack()
        assert lines(store.read()) == written
        assert files(store.folder) == ["records/german.jsonl", "records/wine.jsonl"]
        assert [len(store.packed_path(name).read_text().splitlines()) for name in ("wine", "german")] == [2, 2]
        if finished:
            break
    assert 10 < step < 99, "the process came to its end at last"


# ---------------------------------------------------------------------- damaged records


def packed(store, *datasets, **options):
    tasks = tasks_of(*datasets, **options)
    filled(store, tasks)
    store.pack()
    return tasks


def test_all_damaged_lines_are_listed_and_the_others_are_read(store):
    tasks = packed(store, "wine", trials=4)
    path = store.packed_path("wine")
    texts = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([texts[0], texts[1][:-20], texts[2].replace(b"0.75", b"0.85"), texts[3], b"<<<<<<<"]))
    found = store.read()
    assert set(found) == {tasks[0].id, tasks[3].id}
    assert [damage.partition(": ")[0] for damage in found.damaged] == [f"{path}, line {number}" for number in (2, 3, 5)]
    with pytest.raises(ResultsError) as caught:
        found.raise_if_damaged("opauc-bench run wine.yaml")
    assert caught.value.message.startswith("3 damaged records:\n")
    assert "line 2: it does not end with a checksum" in caught.value.message
    assert "line 3: its checksum is" in caught.value.message
    assert caught.value.hint == "opauc-bench run wine.yaml  # computes them again"


def test_blank_lines_are_not_damage(store):
    packed(store, "wine")
    path = store.packed_path("wine")
    path.write_bytes(b"\n" + path.read_bytes().replace(b"\n", b"\r\n") + b"\n")
    assert len(store.read()) == 2
    assert store.read().damaged == []


def test_read_takes_identical_lines_as_one_record(store):
    packed(store, "wine", trials=1)
    path = store.packed_path("wine")
    path.write_bytes(path.read_bytes() * 2)
    assert len(store.read()) == 1
    assert store.read().damaged == []


def test_two_lines_of_one_id_that_differ_in_times_alone_are_one_record(store):
    packed(store, "wine", trials=1)
    path = store.packed_path("wine")
    (record,) = store.read().values()
    later = record.model_copy(update={"timing": record.timing.model_copy(update={"wall_seconds": 99.0})})
    path.write_bytes(path.read_bytes() + record_to_line(later) + b"\n")
    read = store.read()
    assert (read.damaged, [one.timing.wall_seconds for one in read.values()]) == ([], [record.timing.wall_seconds])
    store.remove_damaged()
    assert len(store.read()) == 1


def test_read_lists_two_lines_of_one_id_as_damage_if_they_differ(store):
    packed(store, "wine", trials=1)
    path = store.packed_path("wine")
    (record,) = store.read().values()
    path.write_bytes(path.read_bytes() + record_to_line(record.model_copy(update={"message": "other"})) + b"\n")
    (damage,) = store.read().damaged
    assert "line 2: another line has the same id" in damage
    path.write_bytes(path.read_bytes() + record_to_line(record) + b"\n")
    assert len(store.read()) == 0  # neither is known to be the right one
    store.remove_damaged()
    assert not path.exists()


def test_a_loose_record_counts_although_packed_lines_of_its_id_differ(store):
    packed(store, "wine", trials=1)
    record = record_of(task_of())
    with store.packed_path("wine").open("ab") as file:
        file.write(record_to_line(record.model_copy(update={"message": "other"})) + b"\n")
    store.write(record)
    assert store.read().of(task_of()).message == ""


def test_removal_takes_the_test_scores_with_it(store):
    tasks = [task_of(trial=trial) for trial in range(2)]
    for task in tasks:
        store.write(record_of(task))
        store.write_scores(task, np.arange(2), np.array([1, -1]), np.zeros(2), None)
    store.pack()
    store.remove(tasks[:1])
    assert [store.read_scores(task.id) is None for task in tasks] == [True, False]


def test_inner_folds_of_another_task_are_dropped(store):
    one, other = task_of(trial=0), task_of(trial=1)
    store.write_partial(one, {"seconds": 6.5})
    store.partial_path(one).rename(store.partial_path(other))
    assert store.read_partial(other) == {}


def test_a_record_that_is_computed_here_is_no_reference_any_more():
    record = record_of(task_of())
    records = Records({record.id: record}, {record.id: "other"})
    records.add(record)
    assert (records.reused, list(records.own())) == ({}, [record])


def test_records_that_are_packed_without_being_computed_stay_due(store):
    packed(store, "wine", trials=2)
    one, other = task_of(trial=0), task_of(trial=1)
    store.note_again([one, other])
    store.write(record_of(one))
    store.pack([record_of(other, message="with another metric")])
    assert store.read().again == {other.id}
    store.write(record_of(other).model_copy(update={"status": "timeout"}))
    store.discard(record_of(other))
    assert (store.read().again, store.read()[other.id].message) == (set(), "with another metric")
    assert not store.again_path.exists()


def test_only_what_belongs_to_the_given_tasks_is_kept(store):
    known, unknown = task_of(trial=0), task_of(trial=1)
    store.note_again([known, unknown])
    for task in (known, unknown):
        store.write_partial(task, {"seconds": 6.0})
    store.forget_other_tasks([known])
    assert store.partial_path(known).exists()
    assert not store.partial_path(unknown).exists()
    assert store.read().again == {known.id}
    store.forget_other_tasks([])
    assert not store.again_path.exists()


def test_a_record_counts_until_the_one_that_replaces_it_is_written(store):
    packed(store, "wine", trials=2)
    old = record_of(task_of(trial=0))
    store.write(old.model_copy(update={"message": "of an interrupted run"}))
    store.write_partial(task_of(trial=1), {"seconds": 6.0})
    store.note_again([task_of(trial=0), task_of(trial=1)])
    assert not store.partial_path(task_of(trial=1)).exists()
    assert (store.read()[old.id].message, len(store.read().loose)) == ("of an interrupted run", 0)
    assert store.read().again == {task_of(trial=0).id, task_of(trial=1).id}
    store.write(old.model_copy(update={"message": "new"}))
    assert store.read()[old.id].message == "new"
    assert store.read().again == {task_of(trial=1).id}
    store.pack()
    assert store.read()[old.id].message == "new"
    assert store.read().again == {task_of(trial=1).id}
    store.write(record_of(task_of(trial=1)))
    store.pack()
    assert (len(store.read()), store.read().again, store.again_path.exists()) == (4, set(), False)


def test_a_record_in_the_file_of_another_dataset_is_damage(store):
    packed(store, "wine", trials=1)
    store.packed_path("wine").rename(store.packed_path("german"))
    (damage,) = store.read().damaged
    assert "it is about wine" in damage


@pytest.mark.parametrize("content", [b"", b"{", b"\0\0\0", b"\xff\xfe{}", b"[]"])
def test_a_damaged_loose_record_counts_as_none(store, content):
    task = task_of()
    store.write(record_of(task))
    store.loose_path(task).write_bytes(content)
    assert store.read_loose(task) is None
    (damage,) = store.read().damaged
    assert damage.startswith(f"{store.loose_path(task)}: ")


def test_a_loose_record_under_another_name_is_damage(store):
    store.write(record_of(task_of()))
    store.loose_path(task_of()).rename(store.folder / "running" / f"{'0' * 16}.json")
    assert "it has the id" in str(store.read().damaged[0])


def test_packing_drops_damaged_lines_of_the_files_that_it_writes(store):
    tasks = packed(store, "wine", "german", trials=2)
    for name in ("wine", "german"):
        path = store.packed_path(name)
        path.write_bytes(path.read_bytes().replace(b"0.75", b"0.85", 1))
    assert len(store.read().damaged) == 2
    store.write(record_of(tasks[0]))
    store.pack()
    assert [damage.partition(",")[0] for damage in store.read().damaged] == [str(store.packed_path("german"))]


def test_only_some_ids_are_read(store):
    tasks = packed(store, "wine", trials=3)
    store.write(record_of(task_of(dataset="german")))
    assert set(store.read(only={tasks[1].id})) == {tasks[1].id}
    assert set(store.read(only={task_of(dataset="german").id})) == {task_of(dataset="german").id}
    assert set(store.read(only=())) == set()


# ---------------------------------------------------------------------- discarding, inner folds, claims, leftovers


def test_removal_is_of_the_given_tasks_only(store):
    tasks = packed(store, "wine", "german", trials=2)
    loose = task_of(trial=9)
    store.write(record_of(loose))
    store.write_partial(tasks[0], {})
    before = store.packed_path("german").stat().st_mtime_ns
    store.remove([tasks[0], loose])
    store.remove([tasks[0], loose])
    assert set(store.read()) == {task.id for task in tasks[1:]}
    assert store.read_partial(tasks[0]) == {}
    assert store.packed_path("german").stat().st_mtime_ns == before
    store.remove(tasks)
    assert files(store.folder) == []


def test_inner_folds_are_kept_until_the_record_is_written(store):
    task = task_of()
    assert store.read_partial(task) == {}
    store.write_partial(task, {"inner_aucs": {"0": [0.5, None]}, "seconds": 6.5})
    assert store.read_partial(task) == {"id": task.id, "inner_aucs": {"0": [0.5, None]}, "seconds": 6.5}
    store.write(record_of(task))
    assert store.read_partial(task) == {}


def test_edited_inner_folds_are_dropped(store):
    """Their numbers would end in a record; and with less time used the limit would be another one."""
    task = task_of()
    store.write_partial(task, {"inner_aucs": {"0": [0.5, None]}, "seconds": 6.5})
    path = store.partial_path(task)
    whole = path.read_text()
    for old, new in (("0.5", "0.6"), ("6.5", "NaN"), ("6.5", "-1e9"), ("null", "2"), ('"checksum"', '"check"')):
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


def test_inner_folds_are_json(store):
    with pytest.raises(ValueError, match="not JSON compliant"):
        store.write_partial(task_of(), {"auc": math.nan})
    assert not store.folder.exists()


def test_claims_name_the_tasks_that_are_under_way(store):
    task = task_of()
    store.claim(task, 123)
    assert json.loads(store.clear_claim(task)) == {"pid": 123}
    assert store.clear_claim(task) is None
    assert files(store.folder) == []


def test_sweeping_removes_only_leftovers_of_killed_writers(store):
    packed(store, "wine")
    task = task_of(trial=5)
    store.write(record_of(task))
    store.write_partial(task, {})
    keep = files(store.folder)
    store.claim(task, 123)
    (store.folder / "running" / ".x.json.abc.tmp").write_text("{")
    (store.folder / "records" / ".wine.jsonl.abc.tmp").write_text("{")
    (store.folder / ".manifest.json.a1b2c3_4.tmp").write_text("{")
    (store.folder / "scores").mkdir()
    (store.folder / "scores/.x.npz.abc.tmp").write_text("P")
    (store.folder / ".mine.tmp").write_text("a file of the user")
    store.remove_leftovers()
    assert files(store.folder) == [".mine.tmp", *keep]
    Store(store.folder / "nowhere").remove_leftovers()


# ---------------------------------------------------------------------- the lock


def test_a_second_run_is_refused_while_the_first_is_under_way(store):
    with (
        store.locked(),
        pytest.raises(ResultsError, match=rf"another run \(process {os.getpid()}\) is at work"),
        store.locked(),
    ):
        pass
    with store.locked():
        pass


def test_lock_without_writes_leaves_no_files(tmp_path):
    store = Store(tmp_path / "results" / "new")
    with store.locked():
        pass
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "results").mkdir()
    with store.locked():
        pass
    assert list(tmp_path.iterdir()) == [tmp_path / "results"], "this one was there"


def test_lock_with_writes_keeps_the_files(store):
    with store.locked():
        store.write(record_of(task_of()))
    assert files(store.folder) == [".lock", f"running/{task_of().id}.json"]
