"""Records: one line of JSON, typed by the kind of protocol, with a checksum; anything else is refused with a reason."""

import pickle

import numpy as np
import pytest
from folders import forged, with_checksum
from hypothesis import given
from hypothesis import strategies as st
from reference.records import OUTCOMES, content_of, record_of, task_of

from opauc_bench import protocols
from opauc_bench.results.record import STATUSES, make_record, record_of_line, record_to_line
from opauc_bench.task import content_hash, identity_of

KINDS = list(OUTCOMES)


def line_of(kind="cv", **changes) -> bytes:
    return record_to_line(record_of(task_of(kind), **changes))


def test_records_of_all_kinds_are_tested():
    assert set(KINDS) == set(protocols.KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_record_survives_a_line(kind):
    record = record_of(task_of(kind))
    line = record_to_line(record)
    assert b"\n" not in line
    assert record_to_line(record_of_line(line)) == line
    assert record_to_line(pickle.loads(pickle.dumps(record))) == line


def test_a_line_may_end_with_a_line_end():
    assert record_to_line(record_of_line(line_of() + b"\r\n")) == line_of()


@given(auc=st.floats(0, 1), inner=st.lists(st.none() | st.floats(0, 1), min_size=2, max_size=2))
def test_record_line_keeps_all_bits_of_numbers(auc, inner):
    outcome = {"kind": "cv", **OUTCOMES["cv"], "metrics": {"auc": auc}}
    outcome["selection"] = {"n_settings": 2, "n_diverged": inner.count(None), "auc": inner}
    record = record_of_line(line_of(outcome=outcome))
    assert record.metrics == {"auc": auc}
    expected = np.array([np.nan if value is None else value for value in inner])
    assert record.selection.auc.tobytes() == expected.tobytes()


def test_selection_is_an_array_that_cannot_be_changed():
    auc = record_of(task_of()).selection.auc
    np.testing.assert_array_equal(auc, [0.75, np.nan])
    with pytest.raises(ValueError, match="read-only"):
        auc[0] = 1.0


def test_id_follows_from_the_definition_and_the_place():
    task = task_of(max_train=7)
    identity = identity_of(task.definition, record_of(task))
    assert content_hash(identity) == task.id
    assert identity["max_train"] == 7


# ---------------------------------------------------------------------- what is damaged


@given(place=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_record_line_with_a_changed_byte_is_refused(place, byte):
    line = line_of()
    place %= len(line)
    changed = line[:place] + bytes([byte]) + line[place + 1 :]
    if changed.rstrip(b"\r\n") != line:
        with pytest.raises(ValueError, match=r"checksum"):
            record_of_line(changed)


@given(st.integers(0, 10_000))
def test_record_line_that_is_cut_off_is_refused(length):
    line = line_of()
    with pytest.raises(ValueError, match="it does not end with a checksum: it is cut off, or not a record"):
        record_of_line(line[: length % len(line)])


def test_record_line_with_an_edited_number_is_refused():
    with pytest.raises(ValueError, match=r"its content gives [0-9a-f]{16}: it was changed after it was written"):
        record_of_line(line_of().replace(b"0.75", b"0.85"))


@pytest.mark.parametrize("line", [b"", b"{}", b"null", b"\xff\xfe", b"<<<<<<< HEAD", b"[" * 100_000])
def test_lines_that_are_no_records_are_refused(line):
    with pytest.raises(ValueError, match="it is cut off, or not a record"):
        record_of_line(line)


def put(*path, value):
    """A change of one value of a record."""

    def change(content):
        for name in path[:-1]:
            content = content[name]
        content[path[-1]] = value

    return change


def drop(*path):
    def change(content):
        for name in path[:-1]:
            content = content[name]
        del content[path[-1]]

    return change


@pytest.mark.parametrize(
    ("kind", "change", "problem"),
    [
        ("cv", put("id", value="x"), "id: expected text that matches"),
        ("cv", put("fingerprint", value=None), "fingerprint: expected text, got nothing"),
        ("cv", put("trial", value=-1), "trial: expected at least 0, got -1"),
        ("cv", put("fold", value="2"), "fold: expected a whole number, got '2'"),
        ("cv", put("trial", value=False), "trial: expected a whole number, got false"),
        ("cv", put("status", value="done"), "status: expected 'ok', 'diverged'"),
        ("cv", put("colour", value=1), "colour: unknown key"),
        ("cv", drop("timing"), "timing: this key is required and missing"),
        ("cv", put("timing", "wall_seconds", value=-1), "timing.wall_seconds: expected at least 0, got -1"),
        ("cv", put("timing", "finished", value="today"), "timing.finished: expected text that matches"),
        ("cv", put("outcome", "kind", value="cw"), "outcome.kind: expected 'cv' or 'holdout'"),
        ("cv", put("outcome", "metrics", "auc", value=1.5), r"expected a number in \[0, 1\] for metrics.auc, got 1.5"),
        ("cv", put("outcome", "metrics", "auc", value="x"), "outcome.metrics.auc: expected a number, got 'x'"),
        ("cv", put("outcome", "metrics", "auc", value=True), "outcome.metrics.auc: expected a number, got true"),
        ("cv", put("outcome", "selected", value=[0.5]), "outcome.selected: expected 'key: value' lines, got a list"),
        ("cv", put("outcome", "selection", "auc", value=[2.0]), r"selection.auc\[0\]: expected at most 1, got 2"),
        ("cv", put("outcome", "selection", "n_diverged", value=0.5), "n_diverged: expected a whole number"),
        ("cv", drop("outcome", "metrics"), "expected metrics.auc with status ok"),
        ("cv", drop("outcome", "selected"), "expected selected with status ok"),
        ("cv", drop("outcome"), "expected an outcome with status ok"),
        ("cv", drop("timing", "fit_cpu_seconds"), "expected timing.fit_cpu_seconds with status ok"),
        ("holdout", drop("outcome", "metrics", "sparse_ratio"), "expected metrics.sparse_ratio with status ok"),
        ("sweep", drop("outcome", "columns", "auc"), "expected columns.auc with status ok"),
        ("sweep", put("outcome", "columns", "auc", value=[0.5]), "expected columns of equal length"),
        ("sweep", put("outcome", "columns", "auc", value=["x", 1]), r"outcome.columns.auc\[0\]: expected a number"),
        ("sweep", put("outcome", "columns", "auc", value=3), "outcome.columns.auc: expected a list, got 3"),
        ("sweep", put("outcome", "columns", value=None), "outcome.columns: expected 'key: value' lines, got nothing"),
        ("sweep", put("outcome", "columns", "auc", value=[2, 2]), r"expected numbers in \[0, 1\] in columns.auc"),
        ("convergence", drop("timing", "columns"), "expected columns.seconds with status ok"),
        ("timing", drop("timing", "columns", "seconds"), "expected columns.seconds with status ok"),
        ("sketch_error", drop("outcome", "columns"), "expected columns.positive_error with status ok"),
    ],
)
def test_content_of_another_type_is_refused_with_its_place(kind, change, problem):
    """Also where the checksum was made to fit."""
    with pytest.raises(ValueError, match=problem):
        record_of_line(forged(line_of(kind), change))


@pytest.mark.parametrize("number", ["1e999", "NaN", "Infinity"])
def test_numbers_that_are_not_finite_are_refused(number):
    line = forged(line_of(), put("timing", "wall_seconds", value=123456.5)).replace(b"123456.5", number.encode())
    with pytest.raises(ValueError, match="wall_seconds"):
        record_of_line(with_checksum(line.rpartition(b',"checksum"')[0]))


@pytest.mark.parametrize("status", [status for status in STATUSES if status != "ok"])
def test_a_failed_task_needs_no_outcome(status):
    record = make_record(task_of(), {"status": status, "message": "why", "timing": {}}, "e" * 16)
    again = record_of_line(record_to_line(record))
    assert (again.status, again.message, again.ok) == (status, "why", False)
    assert again.metrics == again.selected == again.columns == {}
    assert again.selection is None


def test_make_record_refuses_an_invalid_outcome():
    content = content_of(outcome={"kind": "cv", **OUTCOMES["cv"], "metrics": {"auc": float("nan")}})
    with pytest.raises(ValueError, match=r"outcome.metrics.auc: .*finite"):
        make_record(task_of(), content, "e" * 16)


# ---------------------------------------------------------------------- whose record it is


@pytest.mark.parametrize("kind", KINDS)
def test_mismatch_is_empty_for_the_record_of_a_task(kind):
    assert record_of(task_of(kind)).mismatch(task_of(kind)) == ""


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (put("dataset", value="german"), "dataset is 'german', expected 'wine'"),
        (put("trial", value=3), "trial is 3, expected 0"),
        (put("fold", value=1), "fold is 1, expected 2"),
        (put("fingerprint", value="0" * 64), "fingerprint is"),
        (put("max_train", value=5), "max_train is 5, expected None"),
        (put("outcome", "selection", "auc", value=[0.5]), "1 AUCs of 2 settings, and the grid has 2"),
    ],
)
def test_mismatch_names_the_difference_from_the_task(change, problem):
    record = record_of_line(forged(line_of(), change))
    assert problem in record.mismatch(task_of())


@pytest.mark.parametrize(("kind", "n_rows"), [("sweep", 2), ("timing", 1), ("sketch_error", 2)])
def test_mismatch_checks_the_length_of_columns(kind, n_rows):
    def longer(content):
        for part in (content["outcome"], content["timing"]):
            for values in part.get("columns", {}).values():
                values.append(0.5)

    problem = record_of_line(forged(line_of(kind), longer)).mismatch(task_of(kind))
    assert problem.endswith(f"has {n_rows + 1} values, expected {n_rows}")


def test_mismatch_names_another_kind():
    record = record_of(task_of("holdout")).model_copy(update={"id": task_of().id})
    assert record.mismatch(task_of()) == "its kind is holdout, expected cv"
