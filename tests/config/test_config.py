"""The experiment file: what it may say, what it means, and how its mistakes are told."""

import json
import math
import os
import pickle
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from opauc_bench import config
from opauc_bench.config import Experiment, find_config, load_experiment
from opauc_bench.errors import ConfigError, LearnerError
from opauc_bench.learners import learner_parameters
from opauc_bench.protocols import KINDS, CrossValidation, Holdout

PAPER_ORDER = (
    "diabetes, fourclass, german, splice, usps, letter, magic04, a9a, w8a, kddcup04, mnist, connect-4, "
    "acoustic, ijcnn1, epsilon, covtype"
)

MINIMAL = "title: t\ndatasets: [german]\nlearners: [opauc]\ngrids: {eta: [1], lambda: [1]}\n"


def parameters(name: str):
    """A stand-in for the registry, so that these tests say what is known."""
    known = {
        "opauc": (("eta", "lam"), ("eta", "lam")),
        "oam_seq": (("eta", "buffer_size", "step"), ("eta",)),
        "uni_log": (("eta", "weights"), ("eta",)),
    }
    if name.endswith(":Mine"):
        return {"eta", "depth"}, ("eta",)
    if name not in known:
        raise LearnerError(f"no learner is called '{name}'", f"known: {', '.join(known)}")
    return known[name]


@pytest.fixture(scope="module")
def write(tmp_path_factory):
    path = tmp_path_factory.mktemp("experiments") / "x.yaml"

    def write(text):
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def complaints(write):
    """Load a text with all names known and return the lines of the ConfigError."""

    def complaints(text):
        path = write(text)
        with pytest.raises(ConfigError) as caught:
            load_experiment(
                path,
                known_datasets=["german", "diabetes"],
                learner_parameters=parameters,
                known_published=["aij2016_table2"],
            )
        return caught.value.message.replace(f"{path.parent}/", "").split("\n")

    return complaints


# ------------------------------------------------------------------ what it means


def test_defaults(write):
    experiment = load_experiment(write(MINIMAL))
    assert (experiment.name, experiment.path.name, experiment.title) == ("x", "x.yaml", "t")
    assert experiment.datasets == ("german",)
    assert experiment.columns == ("opauc",)
    assert experiment.reference == "opauc"
    assert experiment.learners[0].heading == "opauc"
    assert experiment.catalogue_path is None
    assert experiment.plain() == {
        "title": "t",
        "description": "",
        "catalogue": None,
        "datasets": ["german"],
        "learners": [
            {
                "learner": "opauc",
                "name": "opauc",
                "title": "",
                "params": {},
                "grid": {},
                "axes_from": None,
                "max_train": None,
            }
        ],
        "grids": {"eta": [1.0], "lam": [1.0]},
        "protocol": {
            "kind": "cv",
            "trials": 5,
            "folds": 5,
            "inner_folds": 5,
            "stratified": True,
            "seed": 0,
        },
        "limits": {"seconds": None, "memory_gb": None},
        "reuse": [],
        "figures": [],
        "report": {
            "reference": None,
            "published": None,
            "test": "paired",
            "rope": 0.005,
            "latex": {
                "columns": [],
                "rows": [],
                "digits": None,
                "bold": "none",
                "std": True,
                "transpose": False,
                "marks": True,
                "label": "",
            },
        },
    }


def test_learner_entries(write):
    text = """
    title: t
    datasets: [german]
    learners:
      - opauc
      - learner: uni_log
        name: uni_log_balanced
        title: "Uni-Log (balanced)"
        params: {weights: balanced, eta: 1e-3}
      - {learner: opauc, name: fixed, params: {lambda: 2^-1}, grid: {eta: {pow2: [0, 4, 2]}}}
      - learner: own/mine.py:Mine
    grids: {eta: [0.5, 1], lambda: [1]}
    report: {reference: fixed}
    """
    path = write(text)
    experiment = load_experiment(path, learner_parameters=parameters)
    opauc, uni_log, fixed, mine = experiment.learners
    assert experiment.columns == ("opauc", "uni_log_balanced", "fixed", "Mine")
    assert experiment.reference == "fixed"
    assert uni_log.heading == "Uni-Log (balanced)"
    assert uni_log.params == {"weights": "balanced", "eta": 0.001}
    assert fixed.params == {"lam": 0.5}
    assert experiment.learner_of(uni_log) == "uni_log"
    assert experiment.learner_of(mine) == f"{path.parent.resolve()}/own/mine.py:Mine"
    assert experiment.grid_of(opauc, ("eta", "lam")) == {"eta": (0.5, 1.0), "lam": (1.0,)}
    assert experiment.grid_of(uni_log, ("eta",)) == {}
    assert experiment.grid_of(fixed, ("eta", "lam")) == {"eta": (1.0, 4.0, 16.0)}
    with pytest.raises(ConfigError, match="no values to try for tau of opauc"):
        experiment.grid_of(opauc, ("eta", "tau"))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("{pow2: [-12, 10]}", tuple(2.0**k for k in range(-12, 11))),
        ("{pow2: [-12, 10, 2]}", tuple(2.0**k for k in range(-12, 11, 2))),
        ("{pow2: [0, 5, 4]}", (1.0, 16.0)),
        ("{pow2: [3, 3]}", (8.0,)),
        ("{pow2: [-1074, -1074]}", (5e-324,)),
        ("{pow2: [1023, 1023]}", (2.0**1023,)),
        ("[1, 0.5, 1e-3]", (1.0, 0.5, 0.001)),
        ("[2^-12, 2**-6, 2^3, '.5^2', 10^-1]", (2.0**-12, 2.0**-6, 8.0, 0.25, 0.1)),
    ],
)
def test_grid_values(write, text, values):
    experiment = load_experiment(write(f"title: t\ndatasets: [a]\nlearners: [b]\ngrids: {{eta: {text}}}\n"))
    assert experiment.grids == {"eta": values}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("36000", 36000),
        ("1.5", 1.5),
        ("90s", 90),
        ("10m", 600),
        ("3h", 10800),
        ("2 d", 172800),
        ("0.5h", 1800),
    ],
)
def test_seconds(write, text, seconds):
    experiment = load_experiment(write(f"{MINIMAL}limits: {{seconds: {text}, memory_gb: 8}}\n"))
    assert (experiment.limits.seconds, experiment.limits.memory_gb) == (seconds, 8.0)


positive = st.floats(min_value=0, exclude_min=True, allow_infinity=False)
powers_of_two = st.builds(
    lambda low, span, step: {"pow2": [low, min(low + span, 1023), *step]},
    st.integers(-1074, 1023),
    st.integers(0, 30),
    st.just([]) | st.integers(1, 40).map(lambda step: [step]),
)
grids = st.lists(positive, min_size=1, max_size=8, unique=True) | powers_of_two


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["eta", "lam", "tau"]), grids, min_size=1))
def test_any_grid_survives_a_round_trip_through_yaml(write, written):
    said = {
        "title": "t",
        "datasets": ["a"],
        "learners": [{"learner": "b", "grid": written}],
        "grids": written,
    }
    first = load_experiment(write(yaml.safe_dump(said)))
    again = load_experiment(write(yaml.safe_dump(first.plain())))
    assert again == first
    for axis, values in first.grids.items():
        assert first.learners[0].grid[axis] == values
        assert all(0 < value < math.inf for value in values)
        if isinstance(written[axis], list):
            assert list(values) == written[axis]
        else:
            low, high, step = (*written[axis]["pow2"], 1)[:3]
            assert [math.log2(value) for value in values] == list(range(low, high + 1, step))


def test_plain_is_json_with_all_defaults(write):
    text = MINIMAL + "limits: {seconds: 3h}\nreuse: [table2]\nreport: {test: corrected}\nprotocol: {seed: 7}\n"
    first = load_experiment(write(text))
    again = load_experiment(write(json.dumps(first.plain())))
    assert again == first
    assert (again.limits.seconds, again.reuse, again.report.test, again.protocol.seed) == (
        10800.0,
        ("table2",),
        "corrected",
        7,
    )


def test_experiment_is_frozen_and_can_be_sent_to_workers(write):
    experiment = load_experiment(write(MINIMAL))
    with pytest.raises(ValidationError, match="frozen"):
        experiment.title = "other"
    with pytest.raises(ValidationError, match="frozen"):
        experiment.protocol.seed = 1
    copy = pickle.loads(pickle.dumps(experiment))
    assert copy == experiment
    assert copy.path == experiment.path


def test_every_field_is_described():
    models = [config.Experiment, config.LearnerEntry, CrossValidation, config.Limits, config.Report, config.LatexTable]
    assert all(info.description for model in models for info in model.model_fields.values())


def test_latex_options_override_the_file_and_fill_in_its_columns(write):
    text = MINIMAL.replace("[opauc]", "[opauc, oam_seq]") + "report: {latex: {digits: 3, bold: best, std: false}}\n"
    experiment = load_experiment(write(text), learner_parameters=parameters)
    table = experiment.latex_table({"std": True, "rows": ["german"]})
    assert table.columns == ("opauc", "oam_seq")
    assert (table.rows, table.digits, table.bold, table.std) == (("german",), 3, "best", True)
    assert experiment.latex_table({"columns": ["oam_seq"]}).columns == ("oam_seq",)
    with pytest.raises(ConfigError) as caught:
        experiment.latex_table({"columns": ["oam_sec", "opauc", "opauc"], "rows": ["iris"]})
    assert caught.value.message.split("\n") == [
        "--columns: 'opauc' is listed twice",
        "--columns: no column 'oam_sec' (did you mean 'oam_seq'?); columns: opauc, oam_seq",
        "--rows: no row 'iris'; rows: german",
    ]
    with pytest.raises(ConfigError) as caught:
        experiment.latex_table({"digits": -1, "label": "}"})
    assert caught.value.message.split("\n") == [
        "--digits: expected at least 0, got -1",
        "--label: expected a label of letters, digits and _ : . / + -, got '}'",
    ]


def test_rows_of_a_table_have_the_cases_of_the_protocol(write):
    text = MINIMAL + "protocol: {kind: holdout, imbalance: [0.1, 0.05]}\n"
    text += "report: {latex: {rows: [german @ 0.05]}}\n"
    experiment = load_experiment(write(text))
    assert experiment.rows == {"german @ 0.1": "german", "german @ 0.05": "german"}
    with pytest.raises(ConfigError, match=r"--rows: no row 'german' .*; rows: german @ 0.1, german @ 0.05"):
        experiment.latex_table({"rows": ["german"]})


# ------------------------------------------------------------------ mistakes


def test_all_mistakes_are_reported_at_once_with_positions(complaints):
    text = """\
titel: x
datasets: [germann, diabetes, diabetes]
learners:
  - opaucc
  - {learner: uni_log, params: {wieghts: none}, grid: {lambda: [1]}}
  - 5
  - learner: oam_seq
    buffersize: 3
    grid: {eta: [0, 1, x]}
    params: {buffer_size: [1]}
grids:
  eta: {pow2: [-12, 1e1]}
  lambda: {pow: [1, 2]}
  lam: 0.5
  opauc: {eta: [1, 2]}
protocol: {kind: cvv, trials: 0, folds: five, stratified: yes, seed: -1, inner_folds: 5.0, limits: {}}
limits: {seconds: 10 min, memory_gb: .inf}
reuse: [a/b, c]
report: {published: aij2016_table9, test: pared, rope: .nan}
"""
    assert complaints(text) == [
        "x.yaml:1:1: titel: unknown key (did you mean 'title'?); allowed: title, description, catalogue, "
        "datasets, learners, grids, protocol, limits, reuse, report, figures",
        "x.yaml:1:1: title: this key is required and missing",
        "x.yaml:2:12: datasets[0]: unknown dataset 'germann' (did you mean 'german'?); known: diabetes, german",
        "x.yaml:2:31: datasets[2]: 'diabetes' is listed twice",
        "x.yaml:4:5: learners[0]: no learner is called 'opaucc'; known: opauc, oam_seq, uni_log",
        "x.yaml:5:33: learners[1].params.wieghts: uni_log has no parameter 'wieghts' (did you mean "
        "'weights'?); known: eta, weights",
        "x.yaml:5:56: learners[1].grid.lambda: uni_log has no grid axis 'lambda'; known: eta",
        "x.yaml:6:5: learners[2]: expected a learner's name, or 'learner: name' with its settings, got 5",
        "x.yaml:8:5: learners[3].buffersize: unknown key; allowed: learner, name, title, params, grid, axes_from, "
        "max_train",
        "x.yaml:9:24: learners[3].grid.eta[2]: expected 0 or a positive finite number, got 'x'",
        "x.yaml:10:27: learners[3].params.buffer_size: expected text, a finite number, true, false or null, got a list",
        "x.yaml:12:15: grids.eta.pow2: expected the lowest and the highest exponent and, if not 1, the step, "
        "all whole numbers, as in [-12, 10, 2]; got [-12, 10.0]",
        "x.yaml:13:12: grids.lambda.pow: unknown key (did you mean 'pow2'?); allowed: pow2",
        "x.yaml:14:8: grids.lam: expected a list of positive numbers or {pow2: [lowest, highest]}, got 0.5; "
        "a single value that is not tuned belongs under params",
        "x.yaml:15:10: grids.opauc: expected a list of positive numbers or {pow2: [lowest, highest]}, got a mapping "
        "with 'eta'; axes stand directly under grids, those of one learner under its grid",
        f"x.yaml:16:18: protocol.kind: expected {' or '.join(map(repr, KINDS))}, got 'cvv' (did you mean 'cv'?)",
        "x.yaml:16:31: protocol.trials: expected at least 1, got 0",
        "x.yaml:16:41: protocol.folds: expected a whole number, got 'five'",
        "x.yaml:16:59: protocol.stratified: expected true or false, got 'yes'",
        "x.yaml:16:70: protocol.seed: expected at least 0, got -1",
        "x.yaml:16:87: protocol.inner_folds: expected a whole number, got 5.0",
        "x.yaml:16:92: protocol.limits: unknown key here; it belongs further up, beside 'protocol'; allowed: kind, "
        "trials, folds, inner_folds, stratified, seed, train_positives, least_positives, groups, order, metrics, "
        "select, keep_scores",
        "x.yaml:17:19: limits.seconds: expected seconds, or text like 90s, 10m, 3h, 2d; got '10 min'",
        "x.yaml:17:38: limits.memory_gb: expected a finite number, got inf",
        "x.yaml:18:9: reuse[0]: expected a name of letters, digits, '_', '.' and '-', got 'a/b'",
        "x.yaml:19:21: report.published: no published table 'aij2016_table9' (did you mean "
        "'aij2016_table2'?); known: aij2016_table2",
        "x.yaml:19:43: report.test: expected 'paired', 'corrected' or 'bayes', got 'pared' (did you mean 'paired'?)",
        "x.yaml:19:56: report.rope: expected a finite number, got nan",
    ]


GIVEN = {
    "title": "t",
    "datasets": "[german]",
    "learners": "[opauc]",
    "grids": "{eta: [1], lambda: [1]}",
}


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("title", '"a\\nb"', "title: expected one line of text, got several"),
        ("title", '"a\\Lb"', "title: expected one line of text, got several"),
        ("title", '"a\\x7Fb"', "title: expected text, got a control character (U+007F)"),
        ("title", '" "', "title: expected text, got nothing"),
        ("title", "5", "title: expected text, got 5"),
        ("datasets", "[]", "datasets: expected at least 1 item(s), got an empty list"),
        ("datasets", "german", "datasets: expected a list, got 'german'"),
        ("catalogue", "no.yaml", "catalogue: no such file: no.yaml"),
        ("catalogue", "x" * 5000, f"catalogue: no such file: {'x' * 5000}"),
        ("learners", "[]", "learners: expected at least 1 item(s), got an empty list"),
        ("learners", "opauc", "learners: expected a list, got 'opauc'"),
        (
            "learners",
            "[opauc, opauc]",
            "learners[1]: 'opauc' is listed twice; give one of these columns another name",
        ),
        (
            "learners",
            "[opauc, {learner: uni_log, name: opauc}]",
            "learners[1].name: 'opauc' is listed twice; give one of these columns another name",
        ),
        (
            "learners",
            "[{learner: opauc, name: a b}]",
            "learners[0].name: expected a name of letters, digits, '_', '.' and '-', got 'a b'",
        ),
        ("learners", "[a b]", "learners[0]: expected a learner's name or path/to/file.py:Class, got 'a b'"),
        ("learners", "[{name: x}]", "learners[0].learner: this key is required and missing"),
        (
            "learners",
            "[{learner: opauc, params: {lambda: 1}, grid: {lam: [1]}}]",
            "learners[0].grid.lam: lam is fixed under params and tuned here; keep one of them",
        ),
        (
            "learners",
            "[{learner: opauc, grid: {lambda: [1], lam: [1]}}]",
            "learners[0].grid.lam: lam and lambda are the same; keep one of them",
        ),
        (
            "learners",
            "[{learner: opauc, params: {eta: .nan}}]",
            "learners[0].params.eta: expected text, a finite number, true, false or null, got nan",
        ),
        (
            "learners",
            "[{learner: own.py:Mine, params: {dept: 3}}]",
            "learners[0].params.dept: own.py:Mine has no parameter 'dept' (did you mean 'depth'?); known: depth, eta",
        ),
        (
            "grids",
            "{eta: [1]}",
            "learners[0]: no values to try for lam of opauc; give them under grids or under grid of this "
            "learner, or fix them under params",
        ),
        (
            "grids",
            "{eta: [1], lamda: [1]}",
            "grids.lamda: no learner here has the axis 'lamda' (did you mean 'lam'?); known: eta, lam",
        ),
        ("grids", "[1]", "grids: expected 'name: value' lines, got a list"),
        ("grids", "{eta: []}", "grids.eta: expected at least one value, got an empty list"),
        ("grids", "{eta: [1, .inf]}", "grids.eta[1]: expected 0 or a positive finite number, got inf"),
        ("grids", "{eta: [1, true]}", "grids.eta[1]: expected 0 or a positive finite number, got true"),
        ("grids", "{eta: [1, '1']}", "grids.eta[1]: expected 0 or a positive finite number, got '1'"),
        ("grids", "{eta: [2, 1, 1.0]}", "grids.eta[2]: 1.0 is listed twice"),
        ("grids", "{eta: [2, 2^1]}", "grids.eta[1]: 2.0 is listed twice"),
        ("grids", "{eta: [2^9999]}", "grids.eta[0]: expected 0 or a positive finite number, got '2^9999'"),
        ("grids", "{eta: [-2^1]}", "grids.eta[0]: expected 0 or a positive finite number, got '-2^1'"),
        ("grids", "{eta: {}}", "grids.eta: expected {pow2: [lowest, highest]}, got an empty mapping"),
        (
            "grids",
            "{eta: {pow2: [2, 1]}}",
            "grids.eta.pow2: expected -1074 <= lowest <= highest <= 1023 and a step above 0, got [2, 1]",
        ),
        (
            "grids",
            "{eta: {pow2: [1, 2000]}}",
            "grids.eta.pow2: expected -1074 <= lowest <= highest <= 1023 and a step above 0, got [1, 2000]",
        ),
        (
            "grids",
            "{eta: {pow2: [1, 2, 0]}}",
            "grids.eta.pow2: expected -1074 <= lowest <= highest <= 1023 and a step above 0, got [1, 2, 0]",
        ),
        (
            "grids",
            "{eta: {pow2: [1]}}",
            "grids.eta.pow2: expected the lowest and the highest exponent and, if not 1, the step, all whole "
            "numbers, as in [-12, 10, 2]; got [1]",
        ),
        ("protocol", "{folds: 1}", "protocol.folds: expected at least 2, got 1"),
        ("protocol", "{inner_folds: 1}", "protocol.inner_folds: expected at least 2, got 1"),
        ("limits", "{seconds: 0}", "limits.seconds: expected seconds, or text like 90s, 10m, 3h, 2d; got 0"),
        (
            "limits",
            "{seconds: 10:30}",
            "limits.seconds: expected seconds, or text like 90s, 10m, 3h, 2d; got '10:30'",
        ),
        ("limits", "{memory_gb: 0}", "limits.memory_gb: expected more than 0, got 0"),
        ("limits", "{memory_gb: 1.0e+300}", "limits.memory_gb: expected at most 1e+09, got 1e+300"),
        ("limits", "", "limits: expected 'key: value' lines, got nothing"),
        ("reuse", "[a, a]", "reuse[1]: 'a' is listed twice"),
        ("reuse", "['..']", "reuse[0]: expected a name of letters, digits, '_', '.' and '-', got '..'"),
        (
            "report",
            "{latex: {columns: [opac]}}",
            "report.latex.columns[0]: no column 'opac' (did you mean 'opauc'?); columns: opauc",
        ),
        (
            "report",
            "{latex: {rows: [german, gremany]}}",
            "report.latex.rows[1]: no row 'gremany' (did you mean 'german'?); rows: german",
        ),
        (
            "report",
            "{latex: {bold: bst}}",
            "report.latex.bold: expected 'best' or 'none', got 'bst' (did you mean 'best'?)",
        ),
        ("report", "{latex: {digits: 16}}", "report.latex.digits: expected at most 15, got 16"),
        (
            "report",
            '{latex: {label: "tab x"}}',
            "report.latex.label: expected a label of letters, digits and _ : . / + -, got 'tab x'",
        ),
        (
            "report",
            "{reference: opuac}",
            "report.reference: no column 'opuac' (did you mean 'opauc'?); columns: opauc",
        ),
    ],
)
def test_one_mistake(complaints, key, value, complaint):
    text = "".join(f"{k}: {v}\n" for k, v in {**GIVEN, key: value}.items())
    (line,) = complaints(text)
    assert re.sub(r"^x\.yaml:\d+:\d+: ", "", line) == complaint


def test_grids_are_not_for_estimators(complaints):
    learners = "[opauc, {estimator: sklearn.linear_model.LogisticRegression, name: lr, grid: {C: [1]}}]"
    grids = "{eta: [1], lam: [1], C: [1]}"
    text = "".join(f"{k}: {v}\n" for k, v in {**GIVEN, "learners": learners, "grids": grids}.items())
    (line,) = complaints(text)
    told = "grids.C: an estimator takes its values under grid of its own entry, and no learner here has the axis 'C'"
    assert told in line


def test_error_of_an_unreadable_catalogue_is_passed_on(write):
    path = write(MINIMAL + "catalogue: mine.yaml\n")
    (path.parent / "mine.yaml").write_text("x: 1\n")
    asked = []

    def names(catalogue):
        asked.append(catalogue)
        if catalogue is not None:
            raise ConfigError(f"{catalogue}:1:1: broken")
        return {"german"}

    with pytest.raises(ConfigError, match=r"mine\.yaml:1:1: broken"):
        load_experiment(path, known_datasets=names)
    assert asked == [path.parent / "mine.yaml"]
    assert load_experiment(write(MINIMAL), known_datasets=names).datasets == ("german",)
    assert asked[1:] == [None]


def test_learners_are_looked_up_once_each_and_from_the_folder_of_the_file(write):
    asked = []

    def remember(name):
        asked.append(name)
        return parameters(name)

    path = write(MINIMAL.replace("[opauc]", "[opauc, {learner: opauc, name: b}, own.py:Mine]"))
    load_experiment(path, learner_parameters=remember)
    assert asked == ["opauc", f"{path.parent.resolve()}/own.py:Mine"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(["opauc", "eta", "a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["learner", "eta", "lambda", "pow2", "seed", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.sampled_from(sorted(Experiment.model_fields)), json_values)
def test_any_value_of_a_field_is_accepted_or_explained(write, key, value):
    said = {"title": "t", "datasets": ["german"], "learners": ["opauc"], "grids": {"eta": [1], "lam": [1]}}
    path = write(yaml.safe_dump({**said, key: value}, sort_keys=False))
    try:
        loaded = load_experiment(path, known_datasets=["german"], learner_parameters=parameters)
    except ConfigError as error:
        messages = error.message.split("\n")
    else:
        messages = []
        assert json.loads(json.dumps(loaded.plain(), allow_nan=False)) == loaded.plain()
    assert all(re.match(re.escape(str(path)) + r":\d+:\d+: ", message) for message in messages)


# ------------------------------------------------------------------ what comes with the package


@pytest.mark.parametrize("name", ["quickstart", "table2", "table2_balanced", "table3", "table3_balanced"])
def test_shipped_experiments_fit_the_learners(name):
    experiment = load_experiment(find_config(name), learner_parameters=learner_parameters)
    assert experiment.name == name
    assert experiment.protocol == CrossValidation(trials=5, folds=5, inner_folds=5, stratified=True, seed=0)
    assert experiment.reference == "opauc"


def test_table2_is_the_papers_protocol():
    experiment = load_experiment(find_config("table2"))
    assert ", ".join(experiment.datasets) == PAPER_ORDER
    assert experiment.columns == ("opauc", "oam_seq", "oam_gra", "uni_exp", "uni_log", "uni_squ")
    assert experiment.grids["eta"] == tuple(2.0**k for k in range(-12, 11))
    assert experiment.grids["lam"] == tuple(2.0**k for k in range(-10, 3))
    assert [entry.params for entry in experiment.learners] == [
        {},
        {"buffer_size": 100, "step": "C"},
        {"buffer_size": 100, "step": "C"},
        *[{"weights": "none", "intercept": False}] * 3,
    ]
    assert experiment.limits == config.Limits(seconds=None, memory_gb=8.0)
    assert experiment.report == config.Report(reference="opauc", published="aij2016_table2", test="paired")


def test_table2_balanced_differs_from_table2_in_the_weights_only():
    plain, balanced = (load_experiment(find_config(name)) for name in ("table2", "table2_balanced"))
    for field in ("datasets", "grids", "protocol", "limits", "report"):
        assert getattr(balanced, field) == getattr(plain, field)
    assert balanced.reuse == ("table2",)
    assert balanced.learners[0] == plain.learners[0]
    ours = {entry.name: entry for entry in plain.learners}
    for entry in balanced.learners[1:]:
        assert entry.learner == ours[entry.name].learner
        assert entry.params == {**ours[entry.name].params, "weights": "balanced"}


def test_table3_is_the_papers_protocol():
    experiment, table2 = (load_experiment(find_config(name)) for name in ("table3", "table2"))
    for field in ("datasets", "protocol", "limits"):
        assert getattr(experiment, field) == getattr(table2, field)
    assert experiment.report == config.Report(reference="opauc", published="aij2016_table3", test="paired")
    assert experiment.reuse == ("table2",)
    assert experiment.columns == ("opauc", "svm_perf", "svm_or", "ls_svm", "batch_uni_log", "batch_uni_squ")
    opauc, *batch = experiment.learners
    assert experiment.grid_of(opauc, ("eta", "lam")) == table2.grid_of(table2.learners[0], ("eta", "lam"))
    assert opauc.max_train is None
    for entry in batch:
        axis = "C" if entry.learner == "svm_perf" else "lam"
        assert experiment.grid_of(entry, (axis,)) == {axis: tuple(2.0**k for k in range(-10, 11))}
        assert (entry.max_train_on("mnist"), entry.max_train_on("epsilon")) == (8000, 2000)


def test_table3_balanced_differs_from_table3_in_the_weights_only():
    plain, balanced = (load_experiment(find_config(name)) for name in ("table3", "table3_balanced"))
    for field in ("datasets", "grids", "protocol", "limits", "report"):
        assert getattr(balanced, field) == getattr(plain, field)
    assert balanced.reuse == ("table2", "table3")
    ours = {entry.name: entry for entry in plain.learners}
    for entry in balanced.learners:
        weights = {"weights": "balanced"} if "weights" in ours[entry.name].params else {}
        assert entry.params == {**ours[entry.name].params, **weights}
        assert entry.max_train == ours[entry.name].max_train


def test_quickstart_title_names_the_reduced_grid():
    experiment = load_experiment(find_config("quickstart"))
    assert experiment.datasets == ("breast_cancer", "wine", "digits")
    assert experiment.columns == ("opauc", "oam_seq", "oam_gra", "uni_exp", "uni_log", "uni_squ")
    assert experiment.grids["eta"] == tuple(2.0**k for k in range(-12, 11, 2))
    assert experiment.grids["lam"] == tuple(2.0**k for k in range(-10, 3, 2))
    assert "every second power of two" in experiment.title
    assert experiment.report.published is None


def test_find_config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    packaged = find_config("table2")
    assert packaged.is_file()
    assert packaged.is_absolute()
    assert find_config("table2.yaml") == packaged

    (tmp_path / "configs").mkdir()
    for name in ("configs/table2.yaml", "configs/mine.yaml", "here.yml"):
        (tmp_path / name).write_text("title: x\n")
    assert find_config("table2") == Path("configs/table2.yaml")
    assert find_config("mine") == Path("configs/mine.yaml")
    assert find_config("here.yml") == Path("here.yml")
    assert find_config(str(tmp_path / "here.yml")) == tmp_path / "here.yml"


@pytest.mark.parametrize(
    ("text", "complaint", "hint"),
    [
        (
            "tabel2",
            "tabel2: no such file; expected an experiment file or the name of a bundled one (did you mean 'table2'?)",
            "",
        ),
        (
            "else/table2.yaml",
            "else/table2.yaml: no such file; expected an experiment file or the name of a bundled one "
            "(did you mean 'table2'?)",
            "",
        ),
        (
            "nothing",
            "nothing: no such file; expected an experiment file or the name of a bundled one",
            "one of quickstart, table2, table2_balanced",
        ),
        (".", ".: this is a folder; expected an experiment file or the name of a bundled one", ""),
        (
            "",
            "'': an empty name; expected an experiment file or the name of a bundled one",
            "one of quickstart, table2, table2_balanced",
        ),
        (
            "mine/manifest.json",
            "mine/manifest.json: this is the manifest of a results folder; expected an experiment file or the name of "
            "a bundled one",
            "mine",
        ),
    ],
)
def test_find_config_lists_the_known_names(tmp_path, monkeypatch, text, complaint, hint):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(config.load, "_packaged_configs", lambda: tmp_path / "shipped")
    (tmp_path / "shipped").mkdir()
    for name in ("quickstart", "table2", "table2_balanced"):
        (tmp_path / f"shipped/{name}.yaml").write_text("")
    with pytest.raises(ConfigError) as caught:
        find_config(text)
    assert (caught.value.message, caught.value.hint) == (complaint, hint)


def test_find_config_refuses_an_invalid_file_name():
    with pytest.raises(ConfigError, match="no such file"):
        find_config("x" * 5000)


# ------------------------------------------------------------------ other protocols than cross-validation


def ftrl_parameters(name):
    """A stand-in for the registry that knows learners with axes in common."""
    axes = {"spam_l2": ("xi", "l2"), "spam_elastic": ("xi", "l1", "l2"), "rda_l1": ("gamma", "l1", "rho")}[name]
    return (*axes, "variant"), axes


HOLDOUT = """
title: t
datasets: [german]
learners:
  - spam_l2
  - {learner: spam_elastic, axes_from: spam_l2}
  - {learner: rda_l1, grid: {gamma: [1], rho: [0, 0.005]}}
grids: {xi: [1], l1: [1, 2], l2: [1]}
protocol: {kind: holdout}
"""


def read_holdout(path, old="", new=""):
    assert old in HOLDOUT
    path.write_text(HOLDOUT.replace(old, new, 1), encoding="utf-8")
    return load_experiment(path, learner_parameters=ftrl_parameters)


def test_a_kind_of_protocol_has_its_own_keys_and_defaults(tmp_path):
    experiment = read_holdout(tmp_path / "x.yaml")
    assert experiment.protocol == Holdout(trials=10, shares=(4, 1, 1), split="stratified", auc="exact", seed=17)
    assert experiment.learners[2].grid["rho"] == (0.0, 0.005)
    assert experiment.tuner_of(experiment.learners[1]).name == "spam_l2"
    assert experiment.tuner_of(experiment.learners[0]) is None
    several = read_holdout(tmp_path / "x.yaml", "kind: holdout", "kind: holdout, imbalance: [0.1, 0.05]")
    assert several.protocol.imbalance == (0.1, 0.05)
    (tmp_path / "x.yaml").write_text(yaml.safe_dump(several.plain()), encoding="utf-8")
    assert load_experiment(tmp_path / "x.yaml") == several


@pytest.mark.parametrize(
    ("old", "new", "complaints"),
    [
        (
            "kind: holdout",
            "kind: holdot, trials: 0, folds: 3",
            [
                f"x.yaml:9:18: protocol.kind: expected {' or '.join(map(repr, KINDS))}, got 'holdot' "
                "(did you mean 'holdout'?)",
                "x.yaml:9:34: protocol.trials: expected at least 1, got 0",
                "x.yaml:9:37: protocol.folds: unknown key; allowed: kind, trials, shares, split, imbalance, auc, seed, "
                "order, metrics, select, keep_scores",
            ],
        ),
        (
            "kind: holdout",
            "kind: holdout, shares: [0, 1.5, 1], imbalance: [0.1, x], split: own, auc: 1, seed: -1",
            [
                "x.yaml:9:36: protocol.shares[0]: expected at least 1, got 0",
                "x.yaml:9:39: protocol.shares[1]: expected a whole number, got 1.5",
                "x.yaml:9:65: protocol.imbalance[1]: expected a positive finite number, got 'x'",
                "x.yaml:9:76: protocol.split: expected 'stratified' or 'released', got 'own'",
                "x.yaml:9:86: protocol.auc: expected 'exact' or 'released', got 1",
                "x.yaml:9:95: protocol.seed: expected at least 0, got -1",
            ],
        ),
        (
            "kind: holdout",
            "kind: holdout, shares: [4, 1], imbalance: 0",
            [
                "x.yaml:9:35: protocol.shares: expected at least 3 item(s), got 2",
                "x.yaml:9:54: protocol.imbalance: expected a positive number or a list of them, got 0",
            ],
        ),
        (
            "kind: holdout",
            "kind: holdout, trials: 1, order: time, imbalance: 0.1",
            [
                "x.yaml:9:62: protocol.imbalance: the positives that it keeps are the first ones, which along time are "
                "the oldest: expected one of imbalance and 'order: time'; train_positives of kind cv draws them"
            ],
        ),
        (
            "kind: holdout",
            "kind: holdout, imbalance: [0.3333333, 0.33333333]",
            [
                "x.yaml:9:50: protocol.imbalance[1]: 0.33333333 and 0.3333333 would both be the row '@ 0.333333'; keep "
                "one of them",
            ],
        ),
        ("{kind: holdout}", "holdout", ["x.yaml:9:11: protocol: expected 'key: value' lines, got 'holdout'"]),
        (
            "kind: holdout",
            "folds: 3",
            ["x.yaml:6:40: learners[1].axes_from: expected with protocol.kind holdout only, and this is cv"],
        ),
        (
            "axes_from: spam_l2",
            "axes_from: spaml2",
            [
                "x.yaml:6:40: learners[1].axes_from: no other column is called 'spaml2' (did you mean 'spam_l2'?); "
                "columns: spam_l2, rda_l1"
            ],
        ),
        (
            "axes_from: spam_l2",
            "axes_from: spam_l2, params: {l2: 1}",
            [
                "x.yaml:6:40: learners[1].axes_from: l2 cannot be inherited from spam_l2: given here, or fixed there",
            ],
        ),
        (
            "- spam_l2",
            "- {learner: spam_l2, axes_from: rda_l1}",
            ["x.yaml:6:40: learners[1].axes_from: spam_l2 has axes_from as well"],
        ),
        (
            "gamma: [1], rho: [0, 0.005]",
            "gamma: [x, 1], rho: [-1]",
            [
                "x.yaml:7:38: learners[2].grid.gamma[0]: expected 0 or a positive finite number, got 'x'",
                "x.yaml:7:51: learners[2].grid.rho[0]: expected 0 or a positive finite number, got -1",
            ],
        ),
        (
            "l1: [1, 2]",
            "mu: [1]",
            None,
        ),
    ],
)
def test_mistakes_in_a_holdout_are_reported_at_once(tmp_path, old, new, complaints):
    with pytest.raises(ConfigError) as caught:
        read_holdout(tmp_path / "x.yaml", old, new)
    lines = caught.value.message.replace(f"{tmp_path}/", "").split("\n")
    if complaints is None:
        assert "x.yaml:8:18: grids.mu: no learner here has the axis 'mu'; known: xi, l2, l1, gamma, rho" in lines[-1:]
        return
    assert lines == complaints


def test_table_iii_of_the_ftrl_paper_has_the_grids_of_its_appendix():
    experiments = [load_experiment(find_config(f"ftrl_table{number}")) for number in (2, 3)]
    for experiment in experiments:
        assert experiment.protocol.split == experiment.protocol.auc == "released"
        assert (experiment.protocol.trials, experiment.protocol.seed, experiment.protocol.shares) == (10, 17, (4, 1, 1))
        assert len(experiment.grids["gamma"]) == 12
        assert len(experiment.grids["l1"]) == 16
        assert set(experiment.datasets) == {"farm-ads", "real-sim", "rcv1b", "news20b", "reviews", "imdb"}
    two, three = experiments
    assert two.grids["mu"] == pytest.approx([10 ** (-7 + k / 2) for k in range(10)], rel=1e-15)
    assert two.grids["l2"] == two.grids["l1"]
    assert three.protocol.imbalance == (0.1, 0.05)
    released = next(entry for entry in three.learners if entry.name == "rda_l1_released")
    paper = next(entry for entry in three.learners if entry.name == "rda_l1")
    assert released.grid["gamma"] == (10, 50, 100, 500, 1000, 5000)
    assert paper.grid["gamma"][-6:] == released.grid["gamma"]
    assert min(paper.grid["gamma"]) == 1e-3
    for name in ("ftrl_auc", "adagrad", "rda_l1", "ftrl_proximal"):
        variants = [entry.params["variant"] for entry in three.learners if entry.learner == name]
        assert variants == ["paper", "released"]


def test_a_name_that_is_not_text_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="expected a name in UTF-8, which the manifest can have"):
        load_experiment(tmp_path / os.fsdecode(b"exp\xff.yaml"))
