"""The documentation is true: its commands parse, its snippets run, its tables name what the code has."""

import ast
import functools
import inspect
import math
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest
import typer
from reference.examples import examples
from reference.records import OUTCOMES, record_of, task_of

from opauc_bench import __version__, cli, errors
from opauc_bench.config import (
    EstimatorEntry,
    Experiment,
    LatexTable,
    LearnerEntry,
    Limits,
    Report,
    find_config,
    load_experiment,
)
from opauc_bench.data import load_catalogue
from opauc_bench.figures import FigureEntry
from opauc_bench.learners import LEARNERS, OnePassLearner, get_learner, learner_parameters
from opauc_bench.learners.state import State
from opauc_bench.protocols import (
    PROTOCOLS,
    Convergence,
    CrossValidation,
    Holdout,
    Predefined,
    Prequential,
    SketchError,
    Sweep,
    Timing,
)
from opauc_bench.report.published import list_published
from opauc_bench.results.frame import record_frame
from opauc_bench.results.manifest import read_manifest
from opauc_bench.results.record import STATUSES, Record
from opauc_bench.testing.contract import check_learner

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PACKAGE = ROOT / "opauc_bench"


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def fences(text, language):
    """Contents of the fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def section(text, heading):
    """What stands below a heading, up to the next one of its rank or a higher one."""
    match = re.search(rf"^(#+) {re.escape(heading)}.*?\n(.*?)(?=^#{{1,2}} |\Z)", text, re.DOTALL | re.MULTILINE)
    assert match, f"no section {heading!r}"
    return match[2]


def first_cells(text):
    """First cells of the rows of all tables in a text."""
    return [line.split("|")[1].strip() for line in text.splitlines() if re.match(r"\s*\|(?! ---)", line)]


def named(cells):
    """All that stands between backticks in table cells."""
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


README = read("README.md")
PYTHON = [
    pytest.param(code, marks=pytest.mark.large if '"results/' in code else (), id=f"{page.stem}-{number}")
    for page in PAGES
    for number, code in enumerate(fences(page.read_text(encoding="utf-8"), "python"))
]
COMMANDS = [
    line.partition(" #")[0].strip()
    for page in PAGES
    for block in fences(page.read_text(encoding="utf-8"), "(?:sh)?")
    for line in block.splitlines()
    if line.startswith("opauc-bench ")
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files that the pages show: code and YAML whose first line is a comment with a name."""
    folder = tmp_path_factory.mktemp("shown")
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for block in fences(text, "python") + fences(text, "yaml"):
            if name := re.match(r"# (\w+\.(?:py|yaml))\n", block):
                assert not (folder / name[1]).exists(), f"{name[1]} is shown twice"
                (folder / name[1]).write_text(block, encoding="utf-8")
    return folder


# ---------------------------------------------------------------------- the command line


def parse(arguments):
    """Parse a command line as the program does, without doing anything; returns the command and its parameters."""
    program, called = recording_program()
    called.clear()
    program.main(arguments, standalone_mode=False)
    return called[0]


@functools.cache
def recording_program():
    """Build the program with commands that only note their names and parameters in a list, which is returned too."""
    called = []

    def replace(command, name):
        for child, below in getattr(command, "commands", {}).items():
            replace(below, child)
        if not hasattr(command, "commands"):
            command.callback = lambda **parameters: called.append((name, parameters))

    program = typer.main.get_command(cli.app)
    replace(program, "")
    return program, called


def test_the_setup_commands_come_first_and_are_these_two():
    commands = [block.strip() for block in fences(README, "sh")]
    assert commands[0] == "pip install -e . && opauc-bench run configs/quickstart.yaml"
    assert commands[1] == "pip install -e '.[test]' && pytest"


def test_the_parser_refuses_what_the_program_refuses():
    with pytest.raises(Exception, match="No such option"):
        parse(["run", "configs/quickstart.yaml", "--no-such-option"])
    with pytest.raises(Exception, match="No such command"):
        parse(["walk"])


def test_there_are_commands_to_check():
    assert len(COMMANDS) >= 15


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_parse_and_name_what_exists(line, folder, monkeypatch):
    monkeypatch.chdir(ROOT)
    for command in line.split(" && "):
        name, given = parse(shlex.split(command)[1:])
        if "config" in given:
            config = given["config"]
            if (ROOT / config / "manifest.json").is_file():
                content = read_manifest(ROOT / config).experiment
                experiment = load_experiment(config, content=content)
            else:
                experiment = load_experiment(folder / config if (folder / config).is_file() else find_config(config))
            assert set(given.get("dataset") or ()) <= set(experiment.datasets)
            assert set(given.get("learner") or ()) <= set(experiment.columns)
        elif name in ("check", "show") and "name" in given:
            get_learner(given["name"], folder)
        else:
            datasets = [*(given.get("names") or ()), *filter(None, [given.get("name")])]
            assert set(datasets) <= set(load_catalogue())


def test_every_command_is_in_the_readme():
    words = set(re.findall(r"[\w-]+", " ".join(fences(README, "sh"))))
    program = typer.main.get_command(cli.app)
    for name, command in program.commands.items():
        assert name in words
        assert set(getattr(command, "commands", {})) <= words


def test_exit_codes():
    text = " ".join(README.split())
    told = dict(re.findall(r"(\d+) ([a-z ]+)", text[text.index("Exit codes:") :].partition(".")[0]))
    assert told == {
        "0": "all done",
        "1": "some tasks failed",
        str(errors.ConfigError.exit_code): "bad config",
        str(errors.DataError.exit_code): "data missing",
        "130": "interrupted",
    }
    assert all(f"{code} {meaning}" in " ".join(cli.app.info.epilog.split()) for code, meaning in told.items())


# ---------------------------------------------------------------------- snippets


@pytest.mark.parametrize("code", PYTHON)
def test_python_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").symlink_to(ROOT / "results")
    exec(compile(code, "<documentation>", "exec"), {"__name__": "snippet"})


def test_yaml_loads(folder):
    checked = 0
    for path in sorted(folder.glob("*.yaml")):
        if "\nlearners:" in path.read_text(encoding="utf-8"):
            experiment = load_experiment(
                path,
                known_datasets=load_catalogue,
                learner_parameters=learner_parameters,
                known_published=list_published(),
            )
            assert experiment.learners
            checked += 1
        else:
            assert set(load_catalogue(path)) > set(load_catalogue())
    assert checked >= 3


def test_the_learner_of_extending_trains_a_grid_as_it_trains_alone(folder):
    make = get_learner("my_learner.py:PairLog", folder)
    X, y = examples(300, 5)
    grid = {"eta": 2.0 ** np.arange(-8, 3)}
    coef = make().fit_grid(X, y, grid)
    alone = np.hstack([make(eta=eta).fit(X, y).coef_.T for eta in grid["eta"]])
    np.testing.assert_allclose(coef, alone, rtol=1e-10, atol=1e-13)
    assert np.ptp(coef, axis=1).min() > 0


def test_the_learner_of_extending_keeps_the_contract_that_the_docs_list(folder):
    results = check_learner(get_learner("my_learner.py:PairLog", folder))
    assert not [f"{result.name}: {result.detail}" for result in results if not result.passed]
    told = first_cells(section(read("docs/learners.md"), "Writing a learner"))
    assert told[told.index("check") + 1 :] == [result.name for result in results]
    assert f"{len(results)} passed, 0 failed" in read("docs/extending.md")


# ---------------------------------------------------------------------- what the pages list


def test_members_of_learners_exist():
    told = first_cells(section(read("docs/learners.md"), "Writing a learner"))
    members = named(told[told.index("member") : told.index("check")])
    assert len(members) > 25
    optional = {"expected_failed_checks", "contract_exceptions"}  # classes without them have none
    for member in members:
        name = member.removeprefix("State.").partition("(")[0]
        homes = [State] if member.startswith("State.") else [OnePassLearner, State]
        assert name in optional or any(hasattr(home, name) or name in home.__annotations__ for home in homes), member


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_is_documented(name):
    page = page_of(name)
    learner = get_learner(name)
    row = re.search(rf"^\| `{name}` \|.*$", page, re.MULTILINE)
    assert row, f"{name} is not in the first table"
    parameters, axes = learner_parameters(name)
    _, _, class_name, tuned, others, *_ = row[0].split("|")
    assert named([class_name]) == [learner.__name__]
    assert named([tuned]) == list(axes)
    assert named([others]) == [parameter for parameter in parameters if parameter not in axes]
    own = next(part for part in re.split(r"^## ", page, flags=re.MULTILINE) if f"`{name}`" in part.partition("\n")[0])
    assert set(parameters) <= set(named(first_cells(own)))
    assert name in README


def page_of(name):
    names = ("learners", "batch_learners", "sparse_learners", "sketched_learners")
    pages = (read(f"docs/{page}.md") for page in names)
    return next((page for page in pages if re.search(rf"^\| `{name}` \| `", page, re.MULTILINE)), "")


def test_defaults_of_learners():
    spelled = {2**-6: "2^-6", 2**-7: "2^-7", 2**-8: "2^-8", None: "none", 100: "100"}
    for name in LEARNERS:
        page = page_of(name)
        for parameter in inspect.signature(get_learner(name)).parameters.values():
            default = spelled.get(parameter.default, f"`{parameter.default}`")
            if isinstance(parameter.default, bool):  # equal to a number, and spelled otherwise
                default = f"`{str(parameter.default).lower()}`"
            assert f"| `{parameter.name}` | {default} |" in page


SECTIONS = {
    Experiment: "Top level:",
    LearnerEntry: "An entry of `learners`",
    EstimatorEntry: "An entry with `estimator`",
    CrossValidation: "`protocol`:",
    Holdout: "`protocol` of kind `holdout`",
    Predefined: "`protocol` of kind `predefined`",
    Sweep: "`protocol` of kind `sweep`",
    Convergence: "`protocol` of kind `convergence`",
    Timing: "`protocol` of kind `timing`",
    SketchError: "`protocol` of kind `sketch_error`",
    Prequential: "`protocol` of kind `prequential`",
    FigureEntry: "An entry of `figures`",
    Limits: "`limits`:",
    Report: "`report`:",
    LatexTable: "`report.latex`",
}


def test_every_kind_of_protocol_is_documented():
    assert set(PROTOCOLS) <= set(SECTIONS)


@pytest.mark.parametrize("model", SECTIONS, ids=lambda model: model.__name__)
def test_every_config_key_is_documented(model):
    text = section(read("docs/protocol.md"), "Config")
    start = text.index(f"\n{SECTIONS[model]}")
    table = text[text.index("| key |", start) :].partition("\n\n")[0]
    assert named(first_cells(table)) == list(model.model_fields)
    for name, field in model.model_fields.items():
        told = re.search(rf"^\| `{name}` \| ([^|]+) \|", table, re.MULTILINE)[1]
        assert (told == "required") == field.is_required()
        if isinstance(field.default, bool | int | str) and field.default != "":
            assert told.strip("`") == str(field.default).lower()


def test_statuses_and_columns_and_tables():
    page = read("docs/protocol.md")
    assert named(first_cells(section(page, "Statuses"))) == list(STATUSES)
    assert all(f"`{name}`" in page for name in list_published())


def test_columns_of_frames_are_documented():
    task = task_of("holdout")
    frame = record_frame([(task, record_of(task))], {task.column: "OPAUC"})
    text = section(read("docs/results_api.md"), "Results in pandas")
    told = named(first_cells(text[text.index("| column |") :].partition("\n\n")[0]))
    assert [name for name in told if name != "lam"] == list(frame.columns)


def test_keys_of_records_are_documented():
    text = section(read("docs/protocol.md"), "Records")
    tables = [table.partition("\n\n")[0] for table in text.split("| key |")[1:]]
    of_record, of_outcome = (named(first_cells("| key |" + table)) for table in tables)
    assert sorted(of_record) == sorted([*Record.model_fields, "checksum"])
    keys = {key for kind in OUTCOMES for key in type(record_of(task_of(kind)).outcome).model_fields}
    assert sorted(of_outcome) == sorted(keys - {"kind"})
    assert set(type(record_of(task_of()).timing).model_fields) - {"passes", "load"} <= set(
        re.findall(r"`(?:timing\.)?(\w+)`", text)
    )


def test_critical_values():
    from scipy.stats import t

    rows = re.findall(r"^\| `(paired|corrected)` \|.*\| ([\d.]+) \|$", read("docs/protocol.md"), re.MULTILINE)
    for (test, told), factor in zip(rows, (1 / 25, 1 / 25 + 1 / 4), strict=True):
        assert float(told) == pytest.approx(t.ppf(0.975, 24) * factor**0.5, abs=5e-4), test
    page = read("docs/statistics.md")
    assert f"above .005 + {t.ppf(0.95, 24) * (1 / 25 + 1 / 4) ** 0.5:.3f} s" in page
    assert f"s below {0.005 / (t.ppf(0.975, 24) * (1 / 25 + 1 / 4) ** 0.5):.4f}" in page


def test_environment_variables_are_those_of_the_code():
    code = "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    in_code = set(re.findall(r"OPAUC_BENCH_[A-Z_]*[A-Z]", code))
    in_tests = {"OPAUC_BENCH_GOLDEN"}
    in_docs = {
        name for page in PAGES for name in re.findall(r"OPAUC_BENCH_[A-Z_]*[A-Z]", page.read_text(encoding="utf-8"))
    }
    assert in_docs == in_code | in_tests
    assert in_code <= set(re.findall(r"OPAUC_BENCH_[A-Z_]*[A-Z]", README))


def test_imports_go_as_the_map_says():
    rows = re.findall(
        r"^\| `(\w+)` \| ([^|]*)\|$", section(read("docs/architecture.md"), "Who imports whom"), re.MULTILINE
    )
    told = {name: set(named([imported])) for name, imported in rows}
    assert told == _imports()
    order = list(told)
    assert all(order.index(below) > order.index(name) for name in told for below in told[name]), "imports go back up"


def _imports():
    """Modules and subpackages at the top of the package, and which of them each imports."""
    imports = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts[0] in ("__init__", "__main__"):
            continue
        found = imports.setdefault(parts[0], set())
        package = parts[:-1]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level:
                base = package[: len(package) - node.level + 1]
                names = [node.module] if node.module else [alias.name for alias in node.names]
                found |= {(*base, *name.split("."))[0] for name in names}
    return {name: found - {name, "__version__"} for name, found in imports.items()}


def test_api_pages_have_the_modules_of_all_learners_and_protocols():
    described = set(
        re.findall(r"^::: ([\w.]+)", read("docs/api/learners.md") + read("docs/api/protocols.md"), re.MULTILINE)
    )
    assert {address.partition(":")[0] for address in LEARNERS.values()} <= described
    assert {protocol.__module__ for protocol in PROTOCOLS} <= described


def test_docstrings_have_no_roles_of_sphinx():
    """mkdocs shows them as text."""
    assert [path for path in PACKAGE.rglob("*.py") if re.search(r":[a-z]+:`", path.read_text())] == []


def test_what_the_package_imports_is_declared_and_what_is_declared_is_imported():
    project = tomllib.loads(read("pyproject.toml"))["project"]
    extras = project["optional-dependencies"]
    declared = [
        re.match(r"[\w-]+", name)[0]
        for name in sum([extras[name] for name in ("dask", "plots", "parquet", "river")], project["dependencies"])
    ]
    imported = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(node.module.partition(".")[0])
    modules = {"scikit-learn": "sklearn", "pyyaml": "yaml"}
    assert {modules.get(name, name) for name in declared} == imported - sys.stdlib_module_names


def test_the_version_is_the_same_everywhere():
    project = tomllib.loads(read("pyproject.toml"))["project"]
    assert project["version"] == __version__
    assert f"\nversion: {__version__}\n" in read("CITATION.cff")
    assert re.search(rf"^## \[{re.escape(__version__)}\] - ", read("CHANGELOG.md"), re.MULTILINE)


def test_every_dependency_has_a_lower_bound():
    project = tomllib.loads(read("pyproject.toml"))["project"]
    extras = project["optional-dependencies"].values()
    assert not [name for name in sum(extras, project["dependencies"]) if not re.search(r">=\d|^opauc-bench\[", name)]


# ---------------------------------------------------------------------- links and words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_paths_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in link]
    broken = [link for link in links if not (page.parent / link).exists()]
    paths = re.findall(r"(?<![\w/.<>-])((?:[\w.-]+/)+[\w.-]+\.(?:py|md|yaml))\b", text)
    broken += [
        path
        for path in paths
        if not path.startswith("path/to/") and not any((base / path).exists() for base in (ROOT, page.parent, PACKAGE))
    ]
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_speak_of_no_particular_machine(page):
    text = page.read_text(encoding="utf-8")
    assert not re.findall(r"(?<![\w/.:>*])/[\w.-]+/[\w.-]*", text), "an absolute path"
    assert not re.findall(r"TODO|FIXME|XXX", text)


@pytest.fixture(scope="module")
def page_script():
    return runpy.run_path(str(ROOT / "scripts" / "write_results_page.py"))


@pytest.mark.large
def test_pages_of_results_are_what_the_records_give(page_script):
    assert page_script["outdated"]() == [], "python scripts/write_results_page.py writes them again"


@pytest.mark.large
def test_the_study_page_has_the_means_and_verdicts_of_the_report(page_script):
    study, table = page_script["study_page"], page_script["report"]("does_it_pay_1trial")[0]
    means = study.wide("does_it_pay_1trial")
    if "logreg" not in means.columns:
        pytest.skip("LogisticRegression of this scikit-learn has other parameters than that of the records")
    n_tested = 0
    for (row, column), entry in table.entries.items():
        if entry.mean is None:
            assert row not in means.index or math.isnan(means.loc[row, column])
            continue
        assert means.loc[row, column] == pytest.approx(entry.mean, abs=1e-12)
        if entry.posterior is not None:
            n_tested += 1
            found = study.posterior("does_it_pay_1trial", "logreg", row, column)
            assert astuple(found) == pytest.approx(astuple(entry.posterior))
    assert n_tested > 200


def test_language_is_plain_technical_english():
    """Letters in brackets, so that this file does not match."""
    forbidden = (
        "c[a]n be had|t[o] be had|who[e]ver|some[b]ody|no[b]ody|fore[t]old|rec[k]on|of one's o[w]n|for w[a]nt of|"
        "slip of the p[e]n"
    )
    found = subprocess.run(["git", "grep", "-niE", forbidden], cwd=ROOT, capture_output=True, text=True)
    if found.returncode > 1:
        pytest.skip("not a git checkout")
    assert found.stdout == ""
