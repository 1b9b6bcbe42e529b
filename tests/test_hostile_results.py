"""Results folders that somebody has edited, or a disk has damaged: what reads them says so, and never breaks down."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from opauc_bench.data import Sources
from opauc_bench.errors import OpaucBenchError, ResultsError
from opauc_bench.report.figure_text import figure_to_terminal
from opauc_bench.runner.audit import audit
from opauc_bench.runner.command import describe_plan, describe_status
from opauc_bench.runner.figures import figures_of
from opauc_bench.runner.folds import write_folds
from opauc_bench.runner.merge import merge_folders
from opauc_bench.runner.page import PAGE, page_text
from opauc_bench.runner.records import columns_of
from opauc_bench.runner.session import Session
from opauc_bench.runner.store import Store
from opauc_bench.runner.tables import build_report
from opauc_bench.runner.task import Workplace, run_task

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
        session.prepare_data(lambda text: None)
        session.write_manifest()
        workplace = Workplace(session.folder, {name: str(data.folder) for name, data in session.prepared.items()})
        for task in session.tasks():
            assert run_task(task, workplace)["status"] == "ok"
        read_everything(session)
        sessions[kind] = session
    return sessions


def read_everything(session: Session) -> None:
    """Let every reader of records have a look, without processes and drawings."""
    describe_status(session)
    describe_plan(session, 2)
    if session.experiment.figures:
        for figure in figures_of(session):
            figure_to_terminal(figure, 80)
    else:
        build_report(session, None)
        (session.folder / PAGE).write_text(page_text(session))
    write_folds(session.folder / "folds.csv", session.records())
    assert audit(session).findings == []


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


@several
@given(st.sampled_from(list(PROTOCOLS)), st.data())
def test_a_record_with_one_thing_changed_is_refused_or_does_no_harm(folders, kind, data):
    session = folders[kind]
    path = sorted(session.folder.glob("records/*/*/*.json"))[0]
    before = path.read_text()
    record = json.loads(before)
    place = data.draw(st.sampled_from(list(places_in(record))))
    path.write_text(dumped(replaced(record, place, data.draw(nonsense | st.just("gone")))))
    try:
        refusals = [
            refusal
            for reader in (describe_status, lambda session: describe_plan(session, 1), audit, _shown)
            if (refusal := refusal_of(reader, session))
        ]
        assert all(str(path) in refusal for refusal in refusals)
        assert not refusals or audit(session).findings
    finally:
        path.write_text(before)


def refusal_of(reader, session: Session) -> str:
    """What a reader says that refuses a folder; any other exception goes on its way."""
    try:
        reader(session)
    except OpaucBenchError as error:
        return str(error)
    return ""


def _shown(session: Session) -> None:
    if session.experiment.figures:
        for figure in figures_of(session):
            figure_to_terminal(figure, 80)
    else:
        build_report(session, None)
        page_text(session)


@several
@given(st.sampled_from(list(PROTOCOLS)), st.data())
def test_a_manifest_with_one_thing_changed_is_refused_or_does_no_harm(folders, kind, data):
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
    audit(recorded)


def _merged_into_itself(session: Session) -> None:
    merge_folders(session, [session.folder])


@several
@given(
    st.recursive(nonsense, lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(), inside, max_size=3))
)
@example([[[]]])
def test_inner_folds_of_another_make_are_dropped(folders, content):
    store, task = Store(folders["cv"].folder), folders["cv"].tasks()[0]
    path = store.partial_path(task)
    path.parent.mkdir(exist_ok=True)
    if isinstance(content, dict):
        content = {"id": task.id, "seconds": float("nan"), "seal": "0" * 64, **content}
    path.write_text(dumped(content))
    assert store.read_partial(task) == {}
    path.unlink()


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" * 100_000 + "]" * 100_000, "1" * 5000])
def test_json_that_is_nested_or_long_without_end(folders, text):
    session = folders["cv"]
    record = sorted(session.folder.glob("records/*/*/*.json"))[0]
    for path in (record, session.folder / "manifest.json"):
        before = path.read_text()
        path.write_text(text)
        with pytest.raises(ResultsError, match=str(path)):
            describe_status(session if path == record else Session.of_folder(session.folder, sources=session.sources))
        path.write_text(before)
    store, task = session.store, session.tasks()[0]
    store.partial_path(task).parent.mkdir(exist_ok=True)
    store.partial_path(task).write_text(text)
    assert store.read_partial(task) == {}


def test_what_is_merged_agrees_in_all_that_a_figure_shows(folders, tmp_path):
    """Records of figures have columns, and no test AUC."""
    session = folders["sweep"]
    task = session.tasks()[0]
    other = Store(tmp_path / "other")
    record = session.store.read(task)
    record["measured"]["auc"][0] = 0.25
    other.write(task, record)
    (tmp_path / "other/manifest.json").write_text((session.folder / "manifest.json").read_text())
    assert columns_of(other.read(task)) != columns_of(session.store.read(task))
    with pytest.raises(ResultsError, match=f"two records of {task.label} differ"):
        merge_folders(session, [tmp_path / "other"])


def test_what_was_committed_is_believed():
    """The first record of every cell: what was published once has to be readable by every later version."""
    root = Path(__file__).resolve().parents[1]
    read = 0
    for manifest in sorted((root / "results").glob("*/manifest.json")):
        session = Session.of_folder(manifest.parent, sources=Sources(root / "nowhere", (), offline=True))
        firsts = (task for task in session.all_tasks() if task.trial == task.fold == 0)
        read += sum(session.store.read(task) is not None for task in firsts)
    assert read > 200
