"""Results folders that were edited, or damaged by a disk: what reads them says so, and never fails with a traceback."""

import json
from pathlib import Path

import pytest
from command_line import undrawn
from folders import signed, with_checksum
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from opauc_bench.commands.audit import audit
from opauc_bench.commands.figures import figures_of
from opauc_bench.commands.local_data import LocalData
from opauc_bench.commands.manifests import compose_manifest
from opauc_bench.commands.merge import merge_folders
from opauc_bench.commands.overview import describe_plan, describe_status
from opauc_bench.commands.page import page_text
from opauc_bench.commands.planning import plan_locally
from opauc_bench.commands.recorded import Recorded
from opauc_bench.commands.reports import write_report_files
from opauc_bench.commands.session import Session
from opauc_bench.commands.tables import build_report
from opauc_bench.data import Sources
from opauc_bench.errors import OpaucBenchError, ResultsError
from opauc_bench.report.figure_text import figure_to_terminal
from opauc_bench.results.manifest import write_manifest
from opauc_bench.results.record import record_of_line, record_to_line
from opauc_bench.results.store import Store
from opauc_bench.runner.worker import WorkerConfig, run_task

SPLITS = "{trials: 1, folds: 2, inner_folds: 2}"
PROTOCOLS = {
    "cv": SPLITS,
    "holdout": "{kind: holdout, trials: 2}",
    "sweep": f"{{kind: sweep, splits: {SPLITS}}}\nfigures: [{{x: eta, y: auc}}]",
    "convergence": f"{{kind: convergence, points: 3, splits: {SPLITS}}}\nfigures: [{{x: n_seen, y: auc}}]",
    "timing": f"{{kind: timing, repeats: 2, splits: {SPLITS}}}\nfigures: [{{x: dataset, y: seconds}}]",
    "sketch_error": "{kind: sketch_error, sizes: [2, 4], trials: 1}\nfigures: [{x: tau, y: positive_error}]",
}
EXPERIMENT = """
title: A small one of each kind
datasets: [wine]
learners: [{learner}]
grids: {{eta: [0.25, 0.5], lambda: [0.01, 0.1]}}
protocol: {protocol}
"""
NONSENSE = (
    None,
    True,
    -1,
    0,
    2,
    10**400,
    0.5,
    1e308,
    float("inf"),
    float("nan"),
    "x",
    "",
    [],
    ["x"],
    [1],
    {},
    {"x": []},
)
nonsense = st.sampled_from(NONSENSE)


class Folders(dict):
    """Sessions by kind; hypothesis does not print the data."""

    def __repr__(self):
        return "folders"


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> "Folders":
    """Return a session with its results for each kind of protocol."""
    place = tmp_path_factory.mktemp("hostile")
    sources = Sources(place / "cache", (), offline=True)
    sessions = Folders()
    for kind, protocol in PROTOCOLS.items():
        learner = "opauc_fd" if kind == "sketch_error" else "opauc"
        grids = (
            EXPERIMENT
            if kind != "sketch_error"
            else EXPERIMENT.replace("grids: {{eta: [0.25, 0.5], lambda: [0.01, 0.1]}}\n", "")
        )
        (place / f"{kind}.yaml").write_text(grids.format(learner=learner, protocol=protocol))
        session = Session.open(place / f"{kind}.yaml", out=place / "results" / kind, sources=sources)
        compute(session)
        assert read_everything(session) == []
        sessions[kind] = session
    return sessions


def compute(session: Session) -> None:
    """Run an experiment in this process."""
    before, local = Recorded.read(session), LocalData(session.catalogue, session.sources)
    local.prepare("wine", lambda text: None)
    tasks = plan_locally(before, local).tasks
    manifest = compose_manifest(
        session,
        datasets=local.facts(),
        memory_bytes=1e9,
        test=None,
        known=[],
        records=[],
        todo=tasks,
        reused={},
        selected_in={},
    )
    write_manifest(session.folder, manifest)
    config = WorkerConfig(session.folder, local.folders())
    assert all(run_task(task, config).ok for task in tasks)
    Store(session.folder).pack()
    with undrawn():
        write_report_files(Recorded.read(session), session.folder, None, page=not session.experiment.figures)


def read_everything(session: Session) -> list[str]:
    """Let every reader of records have a look, without processes and drawings; returns what an audit finds."""
    describe_status(session)
    describe_plan(session, 2)
    _shown(session)
    return audit(Recorded.read(session)).findings


def places_in(content, place=()):
    """Every place of a piece of JSON."""
    yield place
    children = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, child in children:
        yield from places_in(child, (*place, key))


def replaced(content, place, value):
    """Return a copy with another value at a place; the value "gone" takes it away."""
    if not place:
        return value
    copy = content.copy()
    if len(place) == 1 and value == "gone":
        del copy[place[0]]
    else:
        copy[place[0]] = replaced(copy[place[0]], place[1:], value)
    return copy


def dumped(content) -> str:
    return json.dumps(content).replace("Infinity", "1e999")


# Each example is a path and a value: there is nothing to make smaller.
several = settings(
    max_examples=60,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def packed(session: Session) -> Path:
    """The file of the records."""
    return session.folder / "records" / "wine.jsonl"


@pytest.mark.faults
@several
@given(st.sampled_from(list(PROTOCOLS)), st.booleans(), st.data())
def test_record_with_one_change_is_refused_or_harmless(folders, kind, forged, data):
    session = folders[kind]
    path = packed(session)
    before = path.read_bytes()
    first, _, others = before.partition(b"\n")
    record = json.loads(first)
    checksum = record.pop("checksum").encode()
    place = data.draw(st.sampled_from(list(places_in(record))))
    changed = dumped(replaced(record, place, data.draw(nonsense | st.just("gone")))).encode()
    body = changed.removesuffix(b"}")
    line = with_checksum(body) if forged else body + b',"checksum":"' + checksum + b'"}'
    path.write_bytes(line + b"\n" + others)
    try:
        refusals = [
            refusal
            for reader in (describe_status, lambda session: describe_plan(session, 1), _audited, _shown)
            if (refusal := refusal_of(reader, session))
        ]
        assert all(str(session.folder) in refusal for refusal in refusals)
        assert not refusals or _audited(session).findings
        if not forged and line != first:
            assert f"{path}, line 1: its checksum is" in refusal_of(_shown, session)
    finally:
        path.write_bytes(before)


def refusal_of(reader, session: Session) -> str:
    """What a reader says that refuses a folder; any other exception goes on its way."""
    try:
        reader(session)
    except OpaucBenchError as error:
        return str(error)
    return ""


def _audited(session: Session):
    return audit(Recorded.read(session))


def _shown(session: Session) -> None:
    recorded = Recorded.read_intact(session)
    if session.experiment.figures:
        for figure in figures_of(recorded):
            figure_to_terminal(figure, 80)
    else:
        build_report(recorded, None)
        page_text(recorded)


@pytest.mark.faults
@several
@given(st.sampled_from(list(PROTOCOLS)), st.data())
def test_manifest_with_one_change_is_refused_or_harmless(folders, kind, data):
    session = folders[kind]
    path = session.folder / "manifest.json"
    before = path.read_text()
    manifest = json.loads(before)
    place = data.draw(st.sampled_from(list(places_in(manifest))))
    path.write_text(dumped(replaced(manifest, place, data.draw(nonsense | st.just("gone")))))
    try:
        for reader in (_opened_by_manifest, describe_status, _merged_into_itself):
            refusal_of(reader, session)
    finally:
        path.write_text(before)


def _opened_by_manifest(session: Session) -> None:
    recorded = Session.of_folder(session.folder, sources=session.sources)
    describe_status(recorded)
    _shown(recorded)
    _audited(recorded)


def _merged_into_itself(session: Session) -> None:
    merge_folders(session, [session.folder])


@pytest.mark.parametrize(
    ("place", "value", "expected"),
    [
        (("protocol",), "gone", "a title and a protocol"),
        (("title",), 5, "a title and a protocol"),
        (("protocol",), {"metrics": "auc"}, "a list of names under metrics"),
    ],
)
def test_manifest_without_what_every_experiment_has_is_refused(folders, place, value, expected):
    session = folders["cv"]
    path = session.folder / "manifest.json"
    before = path.read_text()
    path.write_text(dumped(replaced(json.loads(before), ("experiment", *place), value)))
    try:
        for reader in (_opened_by_manifest, describe_status, _merged_into_itself):
            assert expected in refusal_of(reader, session)
    finally:
        path.write_text(before)


@pytest.mark.parametrize("kind", ["definitions", "environments"])
def test_changed_definition_or_environment_is_reported(folders, kind):
    session = folders["cv"]
    path = session.folder / "manifest.json"
    before = path.read_text()
    manifest = json.loads(before)
    (name, entry), *_ = manifest[kind].items()
    entry["version"] = entry["numpy"] = "99"
    path.write_text(json.dumps(manifest))
    try:
        assert f"{kind}.{name} has the hash" in refusal_of(_shown, session)
    finally:
        path.write_text(before)


@pytest.mark.faults
@several
@given(
    st.recursive(nonsense, lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(), inside, max_size=3))
)
@example([[[]]])
def test_invalid_inner_folds_are_dropped(folders, content):
    session = folders["cv"]
    store, task = Store(session.folder), Recorded.read(session).tasks[0]
    path = store.partial_path(task)
    path.parent.mkdir(exist_ok=True)
    if isinstance(content, dict):
        content = {"id": task.id, "seconds": float("nan"), "checksum": "0" * 64, **content}
    path.write_text(dumped(content))
    assert store.read_partial(task) == {}
    path.unlink()
    path.parent.rmdir()


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" * 100_000 + "]" * 100_000, "1" * 5000])
def test_deeply_nested_or_very_long_json_is_refused(folders, text):
    session = folders["cv"]
    for path in (packed(session), session.folder / "manifest.json"):
        before = path.read_text()
        path.write_text(text)
        assert str(path) in refusal_of(_shown, session)
        path.write_text(with_checksum(text.encode()).decode())
        assert str(path) in refusal_of(_shown, session)
        path.write_text(before)
    store, task = Store(session.folder), Recorded.read(session).tasks[0]
    store.partial_path(task).parent.mkdir(exist_ok=True)
    store.partial_path(task).write_text(text)
    assert store.read_partial(task) == {}
    store.partial_path(task).unlink()


def test_merged_records_agree_in_all_that_a_figure_shows(folders, tmp_path):
    """Records of figures have columns, and no test AUC."""
    session = folders["sweep"]
    first, _, others = packed(session).read_bytes().partition(b"\n")
    content = json.loads(first)
    content["outcome"]["columns"]["auc"][0] = 0.25
    del content["checksum"]
    line = signed(content)
    (tmp_path / "other/records").mkdir(parents=True)
    (tmp_path / "other/records/wine.jsonl").write_bytes(line + b"\n" + others)
    (tmp_path / "other/manifest.json").write_text((session.folder / "manifest.json").read_text())
    assert record_to_line(record_of_line(line)) == line
    with pytest.raises(ResultsError, match="two records of wine opauc trial 1 fold 1 differ"):
        merge_folders(session, [tmp_path / "other"])


@pytest.mark.large
def test_committed_results_are_whole():
    """Every record that was published is read, belongs to a task, and has a definition and an environment."""
    root = Path(__file__).resolve().parents[2]
    read = 0
    for manifest in sorted((root / "results").glob("*/manifest.json")):
        session = Session.of_folder(manifest.parent, sources=Sources(root / "nowhere", (), offline=True))
        recorded = Recorded.read_intact(session)
        assert recorded.orphaned == []
        assert all(recorded.environment_of(record) for _, record in recorded.pairs)
        assert audit(recorded).findings == []
        read += len(recorded.records)
    assert read > 11_000
