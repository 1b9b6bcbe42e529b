"""The command line from the outside: what it prints, what it writes, how it ends, and no traceback for any mistake."""

import codecs
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pandas as pd
import pytest
from command_line import Bench, Command
from folders import record_of, records_of, remove_records, rows_of, snapshot
from latex import check_latex, latex_cells

import opauc_bench
from opauc_bench import __version__
from opauc_bench.cli import in_plain_characters
from opauc_bench.cli import main as main_of_the_script
from opauc_bench.commands import doctor, learners
from opauc_bench.errors import LearnerError
from opauc_bench.learners import LEARNERS, LinearRanker, get_learner
from opauc_bench.results.manifest import read_manifest
from opauc_bench.results.store import Store

SMALL = """
title: A small experiment on scikit-learn's datasets, to see that everything works
datasets: [wine, breast_cancer, digits]
learners: [opauc, oam_seq, uni_log, {learner: uni_squ, title: "squared loss"}]
grids: {eta: {pow2: [-10, 0, 5]}, lambda: {pow2: [-10, 0, 10]}}
protocol: {trials: 1, folds: 3, inner_folds: 3}
"""

COMPARED = """
title: Two of the papers' datasets, which are not here
datasets: [wine, german]
learners: [opauc, uni_log]
grids: {eta: [0.25], lambda: [0.5]}
protocol: {trials: 1, folds: 2, inner_folds: 2}
report: {published: aij2016_table2}
"""

TABLES = ["folds.csv", "table.csv", "table.html", "table.md", "table.tex"]
WRITTEN = "\nwritten to results/small/\n"


def squeezed(text):
    """Return a text without line breaks and runs of blanks."""
    return " ".join(text.split())


def widest(text):
    """Return the lines that do not fit 80 columns, except for those that only hold a path or a hash."""
    return [line for line in text.splitlines() if len(line) > 80 and not re.search(r"/|[0-9a-f]{64}", line)]


@pytest.fixture(scope="module")
def small(bench, tmp_path_factory):
    """Return the folder of a small experiment that was run from the outside, and what that printed."""
    desk = tmp_path_factory.mktemp("small")
    (desk / "small.yaml").write_text(SMALL)
    done = bench("run", "small.yaml", "--offline", "--jobs", 1, cwd=desk, exits=0)
    return desk, done


# ---------------------------------------------------------------------- help


COMMANDS = [
    "run",
    "plan",
    "status",
    "report",
    "compare",
    "export",
    "verify",
    "merge",
    "pack",
    "train",
    "score",
    "doctor",
    "data",
    "data list",
    "data fetch",
    "data verify",
    "data check-links",
    "data info",
    "learners",
    "learners list",
    "learners show",
    "learners check",
]


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_every_command_explains_itself(command, tmp_path, name, flag):
    done = command(*name.split(), flag, cwd=tmp_path, exits=0)
    assert re.search(rf"Usage: .+ {name} ", done.stdout)
    assert widest(done.stdout) == []
    assert "<list[" not in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("name", COMMANDS)
def test_help_wraps_only_full_lines(command, tmp_path, name):
    """A line that the source breaks stays broken, in the middle of a sentence."""
    about = command(*name.split(), "--help", cwd=tmp_path).stdout.partition("╭")[0].splitlines()
    for line, following in itertools.pairwise(line.strip() for line in about):
        if line and following:
            assert len(line) + 1 + len(following.split()[0]) > 77, line


def test_help_lists_all_commands_and_exit_codes(command, tmp_path):
    done = command("--help", cwd=tmp_path, exits=0)
    assert all(re.search(rf"\b{name}\b", done.stdout) for name in COMMANDS if " " not in name)
    assert "0 all done, 1 some tasks failed, 2 bad config, 3 data missing, 130 interrupted" in squeezed(done.stdout)


def test_help_imports_no_heavy_module(environment, tmp_path):
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "opauc_bench", "--help"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert {"opauc_bench", "typer"} <= loaded
    assert not loaded & {"numpy", "scipy", "sklearn", "numba", "pandas", "joblib", "pydantic", "requests", "yaml"}


def test_the_installed_script_is_the_same_program(environment, tmp_path):
    script = shutil.which("opauc-bench", path=f"{sys.prefix}/bin")
    assert script, "the package has to be installed: pip install -e ."
    done = subprocess.run([script, "--version"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"opauc-bench {__version__}\n")


def test_without_a_command_there_is_help_and_an_error(command, tmp_path):
    done = command(cwd=tmp_path, exits=2)
    assert "Usage:" in done.stdout + done.stderr


# ---------------------------------------------------------------------- a run from end to end


def test_a_run_prints_its_table_and_nothing_else_on_standard_output(small):
    done = small[1]
    assert squeezed(done.stdout).startswith("A small experiment on scikit-learn's datasets, to see that everything")
    for name in ("wine", "breast_cancer", "digits", "squared loss", "win/tie/loss"):
        assert name in done.stdout
    assert done.stdout.endswith(WRITTEN)
    assert "36 of 36 tasks to compute" in done.stderr
    assert "N/A" not in done.stdout
    assert widest(done.stdout + done.stderr) == []


def test_a_run_writes_tables_records_and_a_manifest(small):
    folder = small[0] / "results" / "small"
    assert sorted(path.name for path in folder.glob("*.*") if not path.name.startswith(".")) == sorted(
        [*TABLES, "manifest.json"]
    )
    assert sorted(path.name for path in (folder / "records").iterdir()) == [
        "breast_cancer.jsonl",
        "digits.jsonl",
        "wine.jsonl",
    ]
    assert len(records_of(folder)) == 36
    assert not (folder / "running").exists()
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["config"] == "small.yaml"
    assert manifest["opauc_bench"] == __version__
    assert set(manifest["datasets"]) == {"wine", "breast_cancer", "digits"}
    assert manifest["datasets"]["wine"]["n_samples"] == 178
    assert manifest["experiment"]["protocol"]["trials"] == 1


def test_learners_do_better_than_chance(small):
    assert min(float(row["auc"]) for row in rows_of(small[0] / "results" / "small" / "folds.csv")) > 0.6


def test_second_run_prints_the_same_and_writes_nothing(small, command):
    desk, done = small
    before = snapshot(desk)
    again = command("run", "small.yaml", "--offline", cwd=desk, exits=0)
    assert again.stdout + WRITTEN == done.stdout
    dates = r"all have records from \d{4}-\d\d-\d\d( to \d{4}-\d\d-\d\d)?"
    assert re.fullmatch(rf"0 of 36 tasks to compute: {dates} \(--fresh .+\)", squeezed(again.stderr))
    after = snapshot(desk)
    assert {**after, "results/small/.lock": None} == {**before, "results/small/.lock": None}


def test_report_prints_what_the_run_printed(small, command):
    desk, done = small
    assert command("report", "small.yaml", cwd=desk).stdout + WRITTEN == done.stdout


def test_report_with_the_other_test_says_so(small, command):
    desk, _ = small
    corrected = command("report", "small.yaml", "--test", "corrected", cwd=desk, exits=0)
    assert "(corrected t-test, level 0.05)" in corrected.stdout


def test_report_with_the_bayesian_test(small, command, tmp_path):
    desk, _ = small
    done = command("report", "small.yaml", "--test", "bayes", "--rope", "0.02", "--to", tmp_path, cwd=desk, exits=0)
    assert "(±.02 AUC)" in done.stdout
    assert "Not tested over datasets, with fewer than 5 in common: " in done.stdout
    assert widest(done.stdout) == []
    assert [line.partition(" ")[0] for line in done.stdout.splitlines() if line.startswith(("better", "undec"))] == [
        "better",
        "undecided",
    ] * done.stdout.count("counted")
    assert "±.02 AUC" in (tmp_path / "table.md").read_text()
    rows = [row for row in rows_of(tmp_path / "table.csv") if row["verdict"]]
    assert len(rows) == 9
    for row in rows:
        probabilities = [float(row[name]) for name in ("p_better", "p_equivalent", "p_worse")]
        assert sum(probabilities) == pytest.approx(1, abs=1e-5)


def test_footnotes_in_the_terminal_take_three_lines(small):
    _, done = small
    block = done.stdout.partition("\n\nwritten to")[0].rpartition("\n\n")[2]
    edges, mean, rest = block.rpartition("Mean ± std")
    assert edges.count(": selected at the edge of the grid") == edges.count(").\n") > 0
    lines = (mean + rest).splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["Mean", "•", "How"]
    assert widest(block) == []
    assert block.endswith("docs/report.md")


def test_latex_goes_to_standard_output_and_nothing_is_written(small, command):
    desk, _ = small
    before = snapshot(desk)
    done = command("report", "results/small", "--latex", "-", cwd=desk)
    assert (done.returncode, done.stderr) == (0, "")
    check_latex(done.stdout)
    assert latex_cells(done.stdout)[0] == ["datasets", "opauc", r"oam\_seq", r"uni\_log", "squared loss"]
    assert latex_cells(done.stdout)[-1][0] == "win/tie/loss"
    assert snapshot(desk) == before


def test_latex_file_is_the_only_file_written(small, command, tmp_path):
    desk, _ = small
    before = snapshot(desk)
    place = tmp_path / "paper" / "tables.tex"
    style = ("--columns", "uni_log, opauc", "--rows", "digits,wine", "--digits", 2, "--bold", "best", "--no-std")
    done = command("report", "small.yaml", "--latex", place, *style, "--label", "tab:x", cwd=desk)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"written to {place}\n", "")
    assert snapshot(desk) == before
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [place]
    text = place.read_text()
    check_latex(text)
    assert r"\label{tab:x}" in text
    cells = latex_cells(text)
    assert [row[0] for row in cells] == ["datasets", "digits", "wine", "win/tie/loss"]
    assert cells[0][1:] == [r"uni\_log", "opauc"]
    table = pd.read_csv(desk / "results" / "small" / "table.csv").set_index(["dataset", "column"])
    for dataset, *values in cells[1:-1]:
        for column, value in zip(("uni_log", "opauc"), values):
            number = re.search(r"\d*\.\d\d", value)[0]
            assert float(number) == float(f"{table.loc[(dataset, column), 'mean']:.2f}")


def test_options_override_the_latex_style_of_the_config(small, command, tmp_path):
    desk, _ = small
    style = "report: {latex: {columns: [uni_log, opauc], transpose: true, marks: false, digits: 3}}\n"
    text = SMALL.replace("uni_log,", "{learner: uni_log, title: 'Uni$_{\\log}$'},") + style
    (tmp_path / "small.yaml").write_text(text)
    given = ("report", "small.yaml", "--out", desk / "results" / "small", "--latex", "-")
    done = command(*given, cwd=tmp_path)
    assert [row[0] for row in latex_cells(done.stdout)] == ["learners", r"Uni$_{\log}$", "opauc"]
    assert latex_cells(done.stdout)[0][1:] == ["wine", r"breast\_cancer", "digits"]
    done = command(*given, "--no-transpose", "--columns", "opauc", "--marks", cwd=tmp_path)
    assert latex_cells(done.stdout)[0] == ["datasets", "opauc"]
    assert re.fullmatch(r"1?\.\d{3} .*", latex_cells(done.stdout)[1][1])


def test_latex_file_that_cannot_be_written_is_an_error(small, command):
    desk, _ = small
    done = command("report", "small.yaml", "--latex", "small.yaml/x.tex", cwd=desk, exits=1)
    assert "cannot be written" in done.stderr
    assert "select another folder" in done.stderr


def test_a_run_of_a_part_shows_that_part_beside_the_reference(small, command):
    desk, _ = small
    done = command("run", "small.yaml", "--offline", "-d", "wine", "-l", "uni_log", cwd=desk, exits=0)
    assert "wine" in done.stdout
    assert "uni_log" in done.stdout
    assert "opauc" in done.stdout
    assert "digits" not in done.stdout
    assert "squared loss" not in done.stdout
    assert "digits" in (desk / "results" / "small" / "table.md").read_text(), "the files have all there is"


def test_a_part_computes_that_part_only_and_the_rest_is_missing(small, command, tmp_path):
    shutil.copy(small[0] / "small.yaml", tmp_path)
    chosen = ("--dataset", "wine", "--learner", "uni_log", "--learner", "opauc")
    plan = command("plan", "small.yaml", "--offline", "--jobs", 3, *chosen, cwd=tmp_path)
    assert "0 tasks done, 6 to do" in plan.stdout
    assert "on 3 workers" in squeezed(plan.stdout)
    assert not (tmp_path / "results").exists(), "a plan starts and writes nothing"
    done = command("run", "small.yaml", "--offline", "--jobs", 2, "--out", "elsewhere", *chosen, cwd=tmp_path, exits=0)
    assert "6 of 6 tasks to compute" in done.stderr
    assert not (tmp_path / "results").exists()
    found = {(record.dataset, record.column) for record in records_of(tmp_path / "elsewhere")}
    assert found == {("wine", "opauc"), ("wine", "uni_log")}
    status = command("status", "small.yaml", "--out", "elsewhere", cwd=tmp_path).stdout.splitlines()
    start = status.index("") + 3  # below the headings of the table
    assert [line.split() for line in status[start : start + 3]] == [
        ["wine", "3/3", "0/3", "3/3", "0/3"],
        ["breast_cancer", "0/3", "0/3", "0/3", "0/3"],
        ["digits", "0/3", "0/3", "0/3", "0/3"],
    ]


def test_quiet_prints_only_the_table(small, command, tmp_path):
    shutil.copy(small[0] / "small.yaml", tmp_path)
    done = command("run", "small.yaml", "--offline", "-q", "-d", "wine", "-l", "uni_log", cwd=tmp_path, exits=0)
    assert done.stderr == ""
    assert done.stdout


def test_table_is_printed_from_records_alone(small, environment, tmp_path):
    """Without the data, the manifest tells which data the records are of."""
    desk, done = small
    shutil.copytree(desk / "results", tmp_path / "results")
    shutil.copy(desk / "small.yaml", tmp_path)
    alone = Command({**environment, "OPAUC_BENCH_CACHE": str(tmp_path / "empty")})("report", "small.yaml", cwd=tmp_path)
    assert (alone.returncode, alone.stderr) == (0, "")
    assert alone.stdout + WRITTEN == done.stdout
    assert not (tmp_path / "empty").exists()


@pytest.mark.faults
@pytest.mark.parametrize("buffering", [{}, {"PYTHONUNBUFFERED": "1"}], ids=["buffered", "unbuffered"])
def test_closed_pipe_is_not_an_error(small, environment, buffering):
    kept = {name: value for name, value in environment.items() if name != "PYTHONUNBUFFERED"}
    process = Bench(kept | buffering).start("report", "small.yaml", cwd=small[0])
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait() == 0


@pytest.mark.faults
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_output_into_a_full_disk_is_an_error_without_a_traceback(small, bench):
    with open("/dev/full", "w") as full:
        process = bench.start("report", "small.yaml", cwd=small[0], stdout=full)
    assert process.communicate()[1] == "error: the output cannot be written: no space left on device\n"
    assert process.returncode == 1


def test_ascii_terminal_gets_plain_characters(small, environment):
    done = Command(environment, encoding="ascii")("report", "small.yaml", cwd=small[0])
    assert (done.returncode, done.stderr) == (0, "")
    assert " +- ." in done.stdout
    assert " * / o: " in " ".join(done.stdout.split())
    assert "?" not in done.stdout


@pytest.mark.parametrize(
    ("encoding", "text", "expected"),
    [
        ("ascii", "2⁻¹⁰ ± 8² • ◦ ≈ …", "2^-10 +- 8^2 * o = ..."),
        ("latin-1", "± 2⁻⁸ •", "± 2^-8 *"),
        ("ascii", "名\udc80é", "???"),
    ],
)
def test_characters_that_an_encoding_lacks(encoding, text, expected):
    codecs.register_error("opauc-bench", in_plain_characters)
    assert text.encode(encoding, "opauc-bench").decode(encoding) == expected


@pytest.mark.faults
def test_closed_standard_output_is_not_an_error(small, environment):
    closed = f"'{sys.executable}' -m opauc_bench report small.yaml >&-"
    done = subprocess.run(["bash", "-c", closed], cwd=small[0], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


# ---------------------------------------------------------------------- what is only read, and what is written


READING = [
    ["status", "small.yaml"],
    ["status", "results/small"],
    ["plan", "small.yaml", "--offline"],
    ["report", "small.yaml"],
    ["report", "results/small", "--test", "corrected"],
    ["verify", "results/small", "--sample", 0],
    ["verify", "results/small", "--sample", 1, "--seed", 0, "--jobs", 1, "--offline"],
]


@pytest.fixture
def readable(small, tmp_path):
    """The folder of the experiment, writable for root only."""
    desk = shutil.copytree(small[0], tmp_path / "readable")
    paths = [desk, *desk.rglob("*")]
    for path in paths:
        path.chmod(path.stat().st_mode & ~0o222)
    yield desk
    for path in paths:
        path.chmod(path.stat().st_mode | 0o200)


@pytest.mark.parametrize("arguments", READING, ids=lambda arguments: " ".join(map(str, arguments)))
def test_reading_commands_change_nothing_and_need_no_permission_to_write(readable, command, arguments):
    """Not the lock, either."""
    before = snapshot(readable)
    command(*arguments, cwd=readable, exits=0)
    assert snapshot(readable) == before


def test_compare_and_figures_change_nothing(command, tmp_path):
    (tmp_path / "compared.yaml").write_text(COMPARED + "figures: [{x: dataset, y: auc}]\n")
    command("run", "compared.yaml", "--offline", "--jobs", 1, cwd=tmp_path, exits=3)
    before = snapshot(tmp_path)
    for name in ("compare", "report", "status", "plan"):
        command(name, "compared.yaml", cwd=tmp_path, exits=0)
    assert snapshot(tmp_path) == before


def test_results_can_be_loaded_and_exported_without_permission_to_write(readable, command, tmp_path, monkeypatch):
    before = snapshot(readable)
    monkeypatch.chdir(readable)
    assert len(opauc_bench.load_results("results/small")) == 36
    done = command("export", "results/small", "--out", tmp_path / "all.csv", cwd=readable, exits=0)
    assert f"36 rows written to {tmp_path / 'all.csv'}" in done.stderr
    assert snapshot(readable) == before


def test_report_to_writes_elsewhere(small, command, tmp_path):
    desk, done = small
    before = snapshot(desk)
    refused = command("report", "results/small", "--write", "--to", tmp_path / "paper/tables", cwd=desk, exits=2)
    assert "--write writes into results/small, and --to into" in refused.stderr
    written = command("report", "results/small", "--to", tmp_path / "paper/tables", cwd=desk)
    assert written.stdout == done.stdout.replace(WRITTEN, f"\nwritten to {tmp_path}/paper/tables/\n")
    assert sorted(path.name for path in (tmp_path / "paper/tables").iterdir()) == TABLES
    for name in TABLES:
        assert (tmp_path / "paper/tables" / name).read_bytes() == (desk / "results/small" / name).read_bytes()
    command("report", "results/small", "--to", tmp_path / "other", "--test", "corrected", "--html", cwd=desk, exits=0)
    assert sorted(path.name for path in (tmp_path / "other").iterdir()) == sorted([*TABLES, "report.html"])
    assert "corrected" in (tmp_path / "other/table.md").read_text()
    assert snapshot(desk) == before


def test_report_writes_the_tables_of_a_run_that_ends_before_it_has_the_lock(small, command, tmp_path, monkeypatch):
    whole = small[0] / "results/small"
    desk = shutil.copytree(small[0], tmp_path / "copy")
    folder = desk / "results/small"
    for path in folder.glob("records/*"):
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    locked = Store.locked

    def run_ends_first(store, *arguments):
        shutil.copytree(whole, folder, dirs_exist_ok=True)
        return locked(store, *arguments)

    monkeypatch.setattr(Store, "locked", run_ends_first)
    command("report", "small.yaml", "--write", cwd=desk, exits=0)
    for name in [*TABLES, "manifest.json"]:
        assert (folder / name).read_bytes() == (whole / name).read_bytes()


def test_report_writes_the_test_into_the_manifest_and_verify_agrees(small, command, tmp_path):
    desk = shutil.copytree(small[0], tmp_path / "copy")
    folder = desk / "results/small"
    done = command("report", "small.yaml", "--test", "corrected", "--write", cwd=desk)
    assert done.stdout.endswith(WRITTEN)
    assert read_manifest(folder) == read_manifest(small[0] / "results/small").model_copy(update={"test": "corrected"})
    assert "corrected" in (folder / "table.md").read_text()
    command("verify", folder, "--sample", 0, cwd=desk, exits=0)
    before = snapshot(folder / "records")
    command("report", "small.yaml", "--write", cwd=desk, exits=0)
    for name in [*TABLES, "manifest.json"]:
        assert (folder / name).read_bytes() == (small[0] / "results/small" / name).read_bytes()
    assert snapshot(folder / "records") == before


def test_report_into_the_results_folder_by_another_name_is_as_with_write(small, command, tmp_path):
    desk = shutil.copytree(small[0], tmp_path / "copy")
    command("report", "small.yaml", "--test", "corrected", "--to", "results/../results/small", cwd=desk, exits=0)
    assert read_manifest(desk / "results/small").test == "corrected"


def test_page_needs_a_folder_to_write_to(small, command):
    before = snapshot(small[0])
    done = command("report", "small.yaml", "--html", cwd=small[0], exits=2)
    assert "report only prints without --write" in done.stderr
    assert "try: opauc-bench report small.yaml --write --html" in done.stderr
    assert snapshot(small[0]) == before


MINE = """
datasets:
  mine:
    title: Forty rows of two numbers
    format: csv
    files: [{name: mine.csv, sha256: null, urls: ["%s"]}]
    n_samples: 40
    n_features: 2
    n_positive: 20
    positive: [1]
    scaling: minmax
"""

OF_MINE = """
title: A file of the user's own beside wine
catalogue: mine.yaml
datasets: [wine, mine]
learners: [opauc, uni_log]
grids: {eta: [0.25, 0.5], lambda: [0.5]}
protocol: {trials: 1, folds: 2, inner_folds: 2}
"""


@pytest.fixture
def own_data(environment, command, tmp_path, monkeypatch):
    """A folder with a file of the user's own, and a caller of the program that has a cache by its name."""
    (tmp_path / "own.yaml").write_text(OF_MINE)
    (tmp_path / "mine.yaml").write_text(MINE % (tmp_path / "mine.csv").as_uri())
    (tmp_path / "mine.csv").write_text("".join(f"{i * 7 % 11},{i % 5},{i % 2}\n" for i in range(40)))

    def call(cache, *arguments, exits=None):
        monkeypatch.setitem(environment, "OPAUC_BENCH_CACHE", str(tmp_path / "caches" / cache))
        return command(*arguments, cwd=tmp_path, exits=exits)

    return tmp_path, call


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_tables_do_not_depend_on_the_data_of_this_machine(own_data):
    """One dataset was unavailable when the results were computed, and is there now; the other one is not any more."""
    desk, call = own_data
    (desk / "mine.csv").rename(desk / "away.csv")
    done = call("first", "run", "own.yaml", "--offline", "--jobs", 1, exits=3)
    assert "unavailable: mine" in done.stderr
    (desk / "away.csv").rename(desk / "mine.csv")
    call("full", "data", "fetch", "wine", "mine", "--catalogue", "mine.yaml", exits=0)
    said = set()
    for cache in ("empty", "first", "full"):
        call(cache, "report", "results/own", "--to", f"to-{cache}", "--html", exits=0)
        said.add(call(cache, "report", "own.yaml").stdout)
        call(cache, "verify", "results/own", "--sample", 0, exits=0)
    assert not (desk / "caches/empty").exists()
    assert len(said) == 1
    assert "N/A" in said.pop()
    assert contents(desk / "to-empty") == contents(desk / "to-first") == contents(desk / "to-full")
    for name, content in contents(desk / "to-full").items():
        assert name == "report.html" or (desk / "results/own" / name).read_bytes() == content


def test_tables_do_not_depend_on_the_memory_of_this_machine(small, command, tmp_path, monkeypatch):
    """Tasks without a record are missing here, and were not too large for the machine that computed the others."""
    desk = shutil.copytree(small[0], tmp_path / "copy")
    folder = desk / "results/small"
    remove_records(folder, *(record_of(folder, fold=fold) for fold in (1, 2, 3)))
    before = command("report", "small.yaml", cwd=desk).stdout
    assert "0/3" in before
    monkeypatch.setattr("os.sysconf", lambda name: 1)
    assert command("report", "small.yaml", cwd=desk).stdout == before


@pytest.mark.parametrize("prepared_again", [False, True])
def test_changed_local_file_is_detected(own_data, prepared_again):
    desk, call = own_data
    call("cache", "run", "own.yaml", "--offline", "--jobs", 1, exits=0)
    told = "mine: the data on this machine have changed since these results were computed"
    assert told not in squeezed(call("cache", "status", "own.yaml").stdout)
    assert call("cache", "report", "own.yaml").stderr == ""
    (desk / "mine.csv").write_text((desk / "mine.csv").read_text().replace("3,", "4,"))
    if prepared_again:
        call("cache", "data", "fetch", "mine", "--catalogue", "mine.yaml", exits=0)
    before = snapshot(desk)
    status = call("cache", "status", "own.yaml", exits=0)
    assert told in squeezed(status.stdout)
    assert "wine:" not in status.stdout
    report = call("cache", "report", "own.yaml", exits=0)
    assert squeezed(report.stderr) == f"note: {told}"
    assert snapshot(desk) == before
    again = call("cache", "run", "own.yaml", "--offline", "--jobs", 1, exits=0)
    assert "4 of 8 tasks to compute" in again.stderr
    assert told not in squeezed(call("cache", "status", "own.yaml").stdout)


# ---------------------------------------------------------------------- data that is not there, and comparing


def test_unavailable_dataset_affects_only_its_row(command, tmp_path):
    (tmp_path / "compared.yaml").write_text(COMPARED)
    done = command("run", "compared.yaml", "--offline", "--jobs", 2, cwd=tmp_path, exits=3)
    assert "unavailable: german" in done.stderr
    assert "4 of 4 tasks to compute" in done.stderr
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("german")]
    assert "N/A" in row
    assert "Beside Table 2" in done.stdout
    assert widest(done.stdout) == []
    folder = tmp_path / "results" / "compared"
    assert "german" in (folder / "comparison.md").read_text()
    compared = command("compare", "compared.yaml", cwd=tmp_path, exits=0)
    assert "german" in compared.stdout
    assert widest(compared.stdout) == []
    report = command("report", "compared.yaml", cwd=tmp_path, exits=0)
    assert row in report.stdout, "the manifest remembers that it was unavailable"
    plan = command("plan", "compared.yaml", "--offline", cwd=tmp_path)
    assert "Unavailable: german." in plan.stdout


def test_tasks_that_exceed_memory_are_refused_with_the_reason_and_the_rest_is_run(command, tmp_path):
    (tmp_path / "large.yaml").write_text(
        "title: One column is too large\ndatasets: [digits]\nlearners: [uni_squ, opauc]\n"
        "grids: {eta: [0.01], lambda: [0.01]}\nprotocol: {trials: 1, folds: 2, inner_folds: 2}\n"
        "limits: {memory_gb: 0.000015}\n"
    )
    plan = command("plan", "large.yaml", cwd=tmp_path)
    said = " ".join(plan.stdout.split())
    assert re.search(r"digits opauc needs about 0\.\d*[1-9]\d* MB per task, limits.memory_gb allows 1.5e-05 GB", said)
    assert "0 tasks done, 2 to do" in said
    assert (
        "2 tasks that need more than twice the available memory are not counted here, and run leaves them out" in said
    )
    done = command("run", "large.yaml", "--jobs", 1, cwd=tmp_path, exits=1)
    assert "not started: digits opauc needs about" in done.stderr
    assert "not started (too little memory)" in " ".join(done.stdout.split())
    assert {record.column for record in records_of(tmp_path / "results/large")} == {"uni_squ"}
    report = command("report", "results/large", cwd=tmp_path)
    assert "not started (too little memory)" in squeezed(report.stdout), "the manifest says how much there was"
    nothing = command("run", "large.yaml", "--learner", "opauc", "--out", "nothing", cwd=tmp_path, exits=2)
    assert "error: no task fits in memory\ndigits opauc needs about" in nothing.stderr
    assert "try: raise limits.memory_gb in large.yaml" in nothing.stderr
    assert not (tmp_path / "nothing").exists()


def test_run_without_an_available_dataset_ends_with_3(command, tmp_path):
    (tmp_path / "compared.yaml").write_text(COMPARED)
    done = command("run", "compared.yaml", "--offline", "-d", "german", cwd=tmp_path, exits=3)
    assert "unavailable: german" in done.stderr
    assert "none of the datasets is available" in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "results").exists()


# ---------------------------------------------------------------------- data, learners, doctor


def test_data_list_names_every_dataset_and_where_it_is(small, command, tmp_path):
    done = command("data", "list", "--offline", cwd=tmp_path, exits=0)
    rows = {line.split()[0]: line for line in done.stdout.splitlines()[2:]}
    assert rows["wine"].split()[1:3] == ["178", "13"]
    assert rows["wine"].endswith("prepared")
    assert rows["german"].endswith("unavailable")
    assert len(rows) >= 19
    assert widest(done.stdout) == []
    online = command("data", "list", cwd=tmp_path).stdout
    assert re.search(r"^german .* download", online, re.MULTILINE)


def test_data_info_describes_a_dataset(small, command, tmp_path):
    done = command("data", "info", "wine", "--offline", cwd=tmp_path, exits=0)
    assert "178, 59 of them positive" in done.stdout
    assert "each feature to [-1, 1]" in done.stdout
    assert re.search(r"fingerprint +[0-9a-f]{64}", done.stdout)
    assert "sha256" in command("data", "info", "german", "--offline", cwd=tmp_path).stdout


def test_fetch_tries_all_datasets_and_names_removed_files(command, tmp_path):
    entries = "".join(f"  {name}: {{source: {{csv: {name}.csv, label: y}}}}\n" for name in ("late", "here", "away"))
    (tmp_path / "own.yaml").write_text("datasets:\n" + entries)
    (tmp_path / "here.csv").write_text("a,y\n1,0\n2,1\n")
    done = command(
        "data", "fetch", "late", "here", "away", "--catalogue", "own.yaml", "--offline", cwd=tmp_path, exits=3
    )
    assert done.stdout == "here: 2 rows, 1 features, ready\n"
    assert done.stderr.count("put the file there, or correct its address") == 2
    (tmp_path / "here.csv").unlink()
    done = command("data", "fetch", "late", "here", "--catalogue", "own.yaml", "--offline", cwd=tmp_path)
    assert "here.csv does not exist any more; its copy in the cache is used" in done.stderr
    done = command("data", "list", "--catalogue", "own.yaml", cwd=tmp_path)
    assert re.search(r"^here .* prepared \(the file was removed\)$", done.stdout, re.MULTILINE)


def test_data_are_fetched_verified_and_repaired(environment, tmp_path):
    cache = tmp_path / "cache"
    own = Command({**environment, "OPAUC_BENCH_CACHE": str(cache)})

    def data(*arguments):
        return own("data", *arguments, cwd=tmp_path)

    assert "nothing of the catalogue is in the cache" in data("verify").stdout
    fetched = data("fetch", "wine", "--offline")
    assert (fetched.returncode, fetched.stdout) == (0, "wine: 178 rows, 13 features, ready\n")
    (array,) = cache.glob("wine/prepared/*/X.npy")
    content = bytearray(array.read_bytes())
    content[-1] ^= 1
    array.write_bytes(content)
    bad = data("verify", "wine")
    assert bad.returncode == 3
    assert bad.stdout.startswith("BAD  wine arrays: ")
    assert "try: opauc-bench data fetch wine --fresh" in bad.stdout
    assert data("fetch", "wine", "--offline", "--fresh").returncode == 0
    good = data("verify")
    assert good.returncode == 0
    assert good.stdout.startswith("ok   wine arrays: fingerprint ")


def test_learners_list_names_every_learner(command, tmp_path):
    done = command("learners", "list", cwd=tmp_path, exits=0)
    assert all(re.search(rf"^{name} ", done.stdout, re.MULTILINE) for name in LEARNERS)
    assert widest(done.stdout) == []


def test_learners_list_takes_a_learner_without_a_docstring(monkeypatch):
    bare = type("Bare", (LinearRanker,), {"grid_axes": ("eta",)})
    monkeypatch.setattr(learners, "learner_addresses", lambda: {"bare": "package:Bare"})
    monkeypatch.setattr(learners, "learner_parameters", lambda name: (("eta",), ("eta",)))
    monkeypatch.setattr(learners, "get_learner", lambda name: bare)
    assert "(Bare)" in learners.list_learners()


@pytest.mark.parametrize("name", LEARNERS)
def test_learners_show_keeps_to_the_terminal(name, monkeypatch):
    texts = {}
    for columns in ("80", "300"):
        monkeypatch.setenv("COLUMNS", columns)
        texts[columns] = learners.describe_learner(name)
    assert max(map(len, texts["80"].splitlines())) <= 80
    assert texts["80"].split() == texts["300"].split()
    for heading in ("\nParameters\n----------\n", "\nReferences\n----------\n"):
        assert (heading in texts["80"]) == (heading in texts["300"])


def test_learners_show_has_the_parameters_of_an_own_learner(command, tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    shown = command("learners", "show", "own.py:Mine", cwd=tmp_path).stdout
    assert shown.startswith("own.py:Mine: Mine has no description.\n\nParameters: eta=0.1\n\nTuned in experiments: eta")
    (tmp_path / "own.py").write_text(OWN.replace("    grid_axes", '    """Learns."""\n\n    grid_axes'))
    shown = command("learners", "show", "own.py:Mine", cwd=tmp_path).stdout
    assert shown.startswith("own.py:Mine: Learns.\n\nParameters: eta=0.1\n")


def test_packages_with_names_already_registered_are_reported(command, tmp_path, monkeypatch):
    for package, offers in {"one": "opauc = one:A\nmine = one:B\n", "two": "mine = two:C\n"}.items():
        home = tmp_path / f"{package}-1.0.dist-info"
        home.mkdir()
        (home / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (home / "entry_points.txt").write_text(f"[opauc_bench.learners]\n{offers}")
    monkeypatch.syspath_prepend(tmp_path)
    for command_line in (["learners", "list"], ["doctor"]):
        told = command(*command_line, cwd=tmp_path).stdout
        assert "opauc is the built-in learner; one:A are not available by that name" in told
        assert "mine could be one:B or two:C, of different packages" in told
    assert get_learner("opauc").__module__ == "opauc_bench.learners.opauc.full"
    refused = command("learners", "show", "mine", cwd=tmp_path, exits=1)
    assert "learner 'mine' is offered by several packages: one:B, two:C" in refused.stderr


def test_learners_check_accepts_a_valid_learner_and_rejects_an_invalid_one(command, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from opauc_bench.learners import UniSqu\n"
        "class Mine(UniSqu):\n    pass\n"
        "class Bad(UniSqu):\n"
        "    def fit_grid(self, X, y, grid, **options):\n"
        "        return -super().fit_grid(X, y, grid, **options)\n"
    )
    good = command("learners", "check", "mine.py:Mine", cwd=tmp_path, exits=0)
    assert good.stdout.endswith(" passed, 0 failed\n")
    bad = command("learners", "check", "mine.py:Bad", cwd=tmp_path, exits=1)
    assert "FAIL  grid == loop of single fits" in bad.stdout


def test_doctor_reports_no_problem_of_this_installation(command, tmp_path):
    done = command("doctor", cwd=tmp_path, exits=0)
    assert "ok   compiled kernels" in done.stdout
    assert "BAD" not in done.stdout
    assert "no mirror" in done.stdout


def test_doctor_finds_mirrors_of_every_form(environment, tmp_path):
    (tmp_path / "mirror").mkdir()
    own = {**environment, "OPAUC_BENCH_MIRROR": f"{tmp_path.as_uri()}/mirror:{tmp_path}/mirror"}
    done = Command(own)("doctor", cwd=tmp_path, exits=0)
    assert done.stdout.count("mirror") >= 2
    assert "no such folder" not in done.stdout


def test_doctor_reports_a_package_that_is_not_installed(command, tmp_path, monkeypatch):
    def refuse(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "requires", refuse)
    assert "BAD  opauc-bench is not installed" in command("doctor", cwd=tmp_path, exits=1).stdout


def test_doctor_says_what_an_optional_package_that_is_absent_is_for(command, tmp_path, monkeypatch):
    declared = ["numpy>=2", "nothing-like-it>=1; extra == 'plots'", "neither>=2; extra == 'test'"]
    monkeypatch.setattr(doctor, "requires", lambda name: declared)
    said = command("doctor", cwd=tmp_path, exits=0).stdout
    assert "     no nothing-like-it, for figures only; pip install 'opauc-bench[plots]'\n" in said
    assert "neither" not in said


def test_doctor_reports_a_cache_that_is_not_writable(environment, tmp_path):
    (tmp_path / "file").write_text("")
    own = {**environment, "OPAUC_BENCH_CACHE": str(tmp_path / "file" / "cache"), "OPAUC_BENCH_MIRROR": "/somewhere"}
    done = Command(own)("doctor", cwd=tmp_path)
    assert done.returncode == 1
    assert "cannot be written" in done.stdout
    assert "mirror /somewhere" in done.stdout
    assert done.stderr == ""


@pytest.mark.faults
def test_an_installation_that_cannot_be_written_compiles_in_memory(environment, tmp_path):
    # What numba finds in a read-only installation without a home: no place for machine code.
    program = (
        "import sys; from numba.core import caching; "
        "caching.CacheImpl._locator_classes = []; from opauc_bench.cli import main; "
        "sys.argv = ['opauc-bench', 'doctor']; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.stderr == ""
    assert done.returncode == 0
    assert "ok   compiled kernels" in done.stdout
    assert "set NUMBA_CACHE_DIR" in done.stdout


def test_no_more_workers_are_started_than_there_are_tasks_and_cores(command, tmp_path, monkeypatch):
    """Ninety-nine of them took nine minutes for two seconds of work."""
    monkeypatch.setattr("opauc_bench.cli.options.n_cores", lambda: 2)
    text = changed("datasets: [wine, breast_cancer, digits]", "datasets: [wine]")
    (tmp_path / "small.yaml").write_text(text)
    done = command("run", "small.yaml", "--offline", "--jobs", 99, "-l", "opauc", cwd=tmp_path, exits=0)
    assert "note: 4 workers instead of 99" in done.stderr
    assert re.search(r"(\d+) of \1 tasks to compute, .* on [234] workers\n", done.stderr)
    remove_records(tmp_path / "results/small", record_of(tmp_path / "results/small"))
    again = command("run", "small.yaml", "--offline", "--jobs", 2, "-l", "opauc", cwd=tmp_path)
    assert "1 of " in again.stderr
    assert "on 1 worker\n" in again.stderr


def test_plan_names_downloads_of_unknown_size(command, monkeypatch, tmp_path):
    monkeypatch.setitem(command.environment, "OPAUC_BENCH_CACHE", str(tmp_path / "cache"))
    text = "datasets: [kddcup04, letter]\nlearners: [uni_log]\ngrids: {eta: [0.1]}\ntitle: t\n"
    (tmp_path / "x.yaml").write_text(text)
    plan = command("plan", "x.yaml", cwd=tmp_path)
    assert "To download: 2.7 MB, and kddcup04 of unknown size." in plan.stdout


def test_plan_reports_folds_that_are_impossible(command, tmp_path):
    text = "datasets: [wine]\nlearners: [uni_log]\ngrids: {eta: [0.1]}\ntitle: t\nprotocol: {trials: 1, folds: 99}\n"
    (tmp_path / "x.yaml").write_text(text)
    command("data", "fetch", "wine", cwd=tmp_path, exits=0)
    plan = command("plan", "x.yaml", cwd=tmp_path)
    assert "It would not start: wine: its rarer class has 59 rows, too few for 99 folds" in squeezed(plan.stdout)
    command("run", "x.yaml", "--offline", cwd=tmp_path, exits=2)


def test_impossible_folds_are_reported_before_their_tasks_are_listed(command, monkeypatch, tmp_path):
    monkeypatch.setitem(command.environment, "OPAUC_BENCH_CACHE", str(tmp_path / "cache"))
    made = []
    monkeypatch.setattr("opauc_bench.plan._Case.task", lambda *arguments: made.append(arguments))
    text = "datasets: [wine]\nlearners: [uni_log]\ngrids: {eta: [0.1]}\ntitle: t\nprotocol: {folds: 300000}\n"
    (tmp_path / "x.yaml").write_text(text)
    told = "wine: its rarer class has 59 rows, too few for 300000 folds"
    for state in ("cached", "prepared"):
        plan = command("plan", "x.yaml", cwd=tmp_path, exits=0)
        assert re.search(rf"^wine +{state} +0 +[?] ", plan.stdout, re.M)
        assert f"It would not start: {told}" in squeezed(plan.stdout)
        assert told in squeezed(command("run", "x.yaml", cwd=tmp_path, exits=2).stderr)
    assert not made


# ---------------------------------------------------------------------- mistakes


def changed(before, after):
    assert before in SMALL
    return SMALL.replace(before, after)


MISTAKES = {
    "no such file": (["run", "nothing.yaml"], 2, "nothing.yaml: no such file"),
    "a folder": (["run", "."], 2, "this is a folder"),
    "no such bundled config": (["run", "tabel2"], 2, "did you mean"),
    "no config": (["run"], 2, "Missing argument"),
    "unknown command": (["ran"], 2, "No such command"),
    "unknown option": (["run", "good.yaml", "--fast"], 2, "No such option"),
    "no workers": (["run", "good.yaml", "--jobs", "0"], 2, "--jobs"),
    "workers in words": (["run", "good.yaml", "--jobs", "two"], 2, "--jobs"),
    "no such test": (["run", "good.yaml", "--offline", "--test", "nonsense"], 2, "expected paired, corrected or bayes"),
    "no such test of a report": (
        ["report", "good.yaml", "--test", "nonsense"],
        2,
        "expected paired, corrected or bayes",
    ),
    "a rope without a Bayesian test": (["report", "good.yaml", "--rope", "0.01"], 2, "together with --test bayes"),
    "a rope for the results folder": (
        ["report", "good.yaml", "--test", "bayes", "--rope", "0.01", "--write"],
        2,
        "report: {rope: 0.01} in the config",
    ),
    "a rope below 0": (["report", "good.yaml", "--test", "bayes", "--rope", "-1"], 2, "--rope: expected at least 0"),
    "no such column of LaTeX": (
        ["report", "good.yaml", "--latex", "x.tex", "--columns", "opauc,oam_sec"],
        2,
        "--columns: no column 'oam_sec' (did you mean 'oam_seq'?); columns: opauc, oam_seq, uni_log, uni_squ",
    ),
    "no such row of LaTeX": (
        ["report", "good.yaml", "--latex", "-", "--rows", "wyne"],
        2,
        "--rows: no row 'wyne' (did you mean 'wine'?); rows: wine, breast_cancer, digits",
    ),
    "no such highlighting": (
        ["report", "good.yaml", "--latex", "-", "--bold", "worst"],
        2,
        "--bold: expected 'best' or 'none', got 'worst'",
    ),
    "a style without LaTeX": (["report", "good.yaml", "--no-std"], 2, "--std: expected together with --latex"),
    "LaTeX and a page": (
        ["report", "good.yaml", "--latex", "-", "--html"],
        2,
        "--latex writes one file and nothing else",
    ),
    "LaTeX to a file of another kind": (
        ["report", "good.yaml", "--latex", "good.yaml"],
        2,
        "--latex good.yaml: expected a name that ends in .tex, or - for standard output",
    ),
    "an export to a manifest": (
        ["export", "good.yaml", "--out", "results/good/manifest.json"],
        2,
        "the manifest of a results folder has this name",
    ),
    "a folder with an empty name": (["run", "good.yaml", "--out", ""], 2, "expected a name, got an empty one"),
    "a report to an empty name": (
        ["report", "good.yaml", "--to", ""],
        2,
        "Invalid value for '--to': expected a name, got an empty one",
    ),
    "a dataset not in it": (["run", "good.yaml", "-d", "german"], 2, "--dataset german: not in this experiment"),
    "a learner not in it": (["plan", "good.yaml", "-l", "opaac"], 2, "did you mean"),
    "a mirror that is no address": (
        ["run", "good.yaml", "--mirror", "file://[x"],
        2,
        "mirror 'file://[x': ",
    ),
    "a mirror of an unknown user": (
        ["run", "good.yaml", "--offline", "--mirror", "~unknown-user/x", "--dataset", "no_such"],
        2,
        "--dataset no_such: not in this experiment",
    ),
    "a mirror of another kind": (["run", "good.yaml", "--mirror", "ftp://a/b"], 2, "expected a folder, or an http"),
    "nothing to report": (["report", "good.yaml"], 1, "no records of this experiment"),
    "no results folder": (
        ["status", "results/nothing"],
        2,
        "expected an experiment file, a results folder or the name",
    ),
    "nothing to verify": (["verify", "good.yaml"], 1, "results/good: no records"),
    "nothing to compare": (["compare", "good.yaml"], 1, "no records of this experiment"),
    "out is a file": (
        ["run", "good.yaml", "--offline", "--out", "good.yaml"],
        1,
        "good.yaml cannot be written: it is a file",
    ),
    "out is in a file": (
        ["run", "good.yaml", "--offline", "--out", "good.yaml/x"],
        1,
        "cannot be written: it is in a file",
    ),
    "report of a file": (["report", "good.yaml", "--out", "good.yaml"], 1, "no records of this experiment"),
    "info of no dataset": (["data", "info", "wyne"], 3, "no dataset is called 'wyne'"),
    "fetch of no dataset": (["data", "fetch", "wine", "wyne"], 3, "did you mean"),
    "fetch of nothing": (["data", "fetch"], 2, "Missing argument"),
    "fetch without sources": (["data", "fetch", "german", "--offline"], 3, "german"),
    "verify of no dataset": (["data", "verify", "wyne"], 3, "no dataset is called 'wyne'"),
    "check of no learner": (["learners", "check", "opaac"], 1, "no learner is called 'opaac'"),
    "check of the internal name": (["learners", "check", ":estimator"], 1, "no learner is called ':estimator'"),
    "show of the internal name": (["learners", "show", ":estimator"], 1, "no learner is called ':estimator'"),
    "check of no file": (["learners", "check", "nowhere.py:Mine"], 1, "no file"),
    "check of no class": (["learners", "check", "mine.py:Yours"], 1, "defines no 'Yours'"),
    "check of another class": (["learners", "check", "mine.py:Path"], 1, "Path has to be a"),
    "check of a file": (["learners", "check", "mine.py"], 1, "expected the name of a class after the file"),
    "check of a misspelt class": (
        ["learners", "check", "own.py:Mein"],
        1,
        "defines no 'Mein'; its learners are Mine",
    ),
    "report of a folder": (["report", "."], 2, "got a folder without manifest.json"),
    "check of broken code": (["learners", "check", "broken.py:Mine"], 1, "cannot be imported: SyntaxError"),
    "unknown key": (changed("protocol", "protocoll"), 2, "bad.yaml:6:1: protocoll: "),
    "unknown dataset": (changed("wine", "wyne"), 2, "bad.yaml:3:12: datasets[0]: unknown dataset 'wyne'"),
    "unknown learner": (changed("oam_seq", "oam_sec"), 2, "bad.yaml:4:19: learners[1]"),
    "unknown parameter": (changed('title: "squared loss"', "params: {size: 3}"), 2, "uni_squ has no parameter"),
    "parameter of another type": (
        changed("oam_seq", "{learner: oam_seq, params: {buffer_size: many}}"),
        2,
        "bad.yaml:4:60: learners[1].params.buffer_size: OAMSeq: buffer_size has to be an integer from 1 to ",
    ),
    "number as text": (changed("{pow2: [-10, 0, 5]}", '["1e-3"]'), 2, "bad.yaml:5:15: grids.eta[0]"),
    "duplicate key": (changed("trials: 1,", "trials: 1, trials: 2,"), 2, "bad.yaml:6:"),
    "no values": (changed("lambda: {pow2: [-10, 0, 10]}", ""), 2, "no values to try for lam of opauc"),
    "a learner from no file": (changed("oam_seq", '"nowhere.py:Mine"'), 2, "nowhere.py"),
    "a learner from broken code": (changed("oam_seq", '"broken.py:Mine"'), 2, "cannot be imported: SyntaxError"),
    "a learner from a script that exits": (changed("oam_seq", '"exits.py:Mine"'), 2, "cannot be imported: SystemExit"),
    "a published table that is not there": (SMALL + "report: {published: aij2016_table1}\n", 2, "aij2016_table1"),
    "no YAML": ("title: [", 2, "bad.yaml:1:"),
    "no text": ("\0", 2, "bad.yaml"),
    "nothing": ("", 2, "bad.yaml"),
    "a list": ("- wine\n", 2, "bad.yaml:1:1"),
}


OWN = """from opauc_bench.learners import OnePassLearner

class Mine(OnePassLearner):
    grid_axes = ("eta",)

    def __init__(self, eta=0.1):
        self.eta = eta
"""
SLIPS = {
    "no default": (("eta=0.1", "eta"), "needs a default for eta in __init__, such as eta=0.1"),
    "any parameters": (("eta=0.1", "**others"), "has **others in __init__"),
    "an axis that is not a parameter": (('("eta",)', '("step",)'), "has 'step' in grid_axes, but the parameters of"),
    "an axis that is not a tuple": (('("eta",)', '("eta")'), "needs a tuple of names as grid_axes, such as ('eta',)"),
    "no axis": (('("eta",)', "()"), "has no grid_axes: name at least one parameter to tune"),
    "another attribute": (("self.eta", "self.step"), "write self.eta = eta in __init__"),
    "a default that is not a number": (
        ("eta=0.1", "eta=None"),
        "needs a number as default of eta, which is tuned; got None",
    ),
    "an __init__ that raises": (
        ("self.eta = eta", "self.eta = 1 / 0"),
        "Mine() raised ZeroDivisionError: division by zero",
    ),
    "a parameter that is not kept as given": (
        ("self.eta = eta", "self.eta = 2 * eta"),
        "has to keep its parameters as they are given: write self.eta = eta in __init__",
    ),
    "a default that is an array": (
        ("eta=0.1", "eta=0.1, size=__import__('numpy').ones(2)"),
        "needs a default for size that records can store, such as a number or a list; got array([1., 1.])",
    ),
    "no __init__": (("def __init__(self, eta=0.1)", "def other(self, eta=0.1)"), "the parameters of __init__ are none"),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_error_in_the_class_of_a_learner_is_one_sentence(tmp_path, slip):
    (before, after), message = SLIPS[slip]
    (tmp_path / "own.py").write_text(OWN.replace(before, after))
    with pytest.raises(LearnerError) as caught:
        get_learner(f"{tmp_path / 'own.py'}:Mine")
    assert message in caught.value.message


def test_error_names_the_line_that_raises(tmp_path):
    (tmp_path / "own.py").write_text(OWN.replace("self.eta = eta", "int('x')"))
    with pytest.raises(LearnerError, match=rf"{tmp_path / 'own.py'}:7\)"):
        get_learner(f"{tmp_path / 'own.py'}:Mine")


@pytest.mark.parametrize("mistake", MISTAKES)
def test_user_error_has_no_traceback(command, tmp_path, mistake):
    arguments, code, message = MISTAKES[mistake]
    (tmp_path / "good.yaml").write_text(SMALL)
    (tmp_path / "mine.py").write_text("from pathlib import Path\n")
    (tmp_path / "broken.py").write_text("class Mine(:\n")
    (tmp_path / "exits.py").write_text("import sys\nsys.exit(7)\n")
    (tmp_path / "own.py").write_text(OWN)
    if isinstance(arguments, str):
        (tmp_path / "bad.yaml").write_text(arguments)
        arguments = ["run", "bad.yaml", "--offline"]
    done = command(*arguments, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert message in squeezed(done.stderr.replace("│", ""))
    assert done.stdout == ""
    assert not (tmp_path / "results").exists()


def test_all_errors_of_a_config_are_reported_at_once(command, tmp_path):
    text = changed("wine", "wyne").replace("trials: 1", "trials: one").replace("uni_log", "uni_lag")
    (tmp_path / "bad.yaml").write_text(text)
    done = command("run", "bad.yaml", cwd=tmp_path, exits=2)
    places = re.findall(r"bad\.yaml:(\d+):\d+: ", done.stderr)
    assert places == ["3", "4", "6"]


def test_comparing_needs_a_published_table(small, command):
    done = command("compare", "small.yaml", cwd=small[0], exits=2)
    assert "names no published table to compare with" in done.stderr
    assert "published: aij2016_table2" in done.stderr


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_status_of_many_learners_fits_the_terminal(environment, columns):
    folder = Path(__file__).resolve().parents[2] / "results" / "table6"
    done = Command(environment | {"COLUMNS": str(columns)})("status", folder, cwd=folder.parent)
    table = [line for line in done.stdout.splitlines() if line.startswith(("dataset ", "---", "sector "))]
    assert max(map(len, table)) <= columns
    assert sum(line.count("opauc_h") for line in table) == 1
    assert all(line.split()[1:] for line in table)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", "{}", '{"datasets": []}', '{"datasets": {"wine": 3}}', "\0"], ids=repr
)
@pytest.mark.parametrize("name", ["run", "report", "status", "plan"])
def test_damaged_manifest_error_names_the_file_and_the_command(small, command, tmp_path, name, text):
    shutil.copy(small[0] / "small.yaml", tmp_path)
    manifest = tmp_path / "results" / "small" / "manifest.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(text)
    done = command(name, "small.yaml", cwd=tmp_path, exits=1)
    assert "manifest.json is not the manifest of a run" in done.stderr
    path = "'results/small/manifest.json'"
    assert f"try: git checkout {path}, or rm {path} and run again" in done.stderr


def test_missing_manifest_is_named_and_written_again(small, command, tmp_path):
    shutil.copy(small[0] / "small.yaml", tmp_path)
    shutil.copytree(small[0] / "results/small", tmp_path / "results/small")
    manifest = tmp_path / "results/small/manifest.json"
    before = manifest.read_text()
    manifest.unlink()
    done = command("report", "small.yaml", cwd=tmp_path, exits=1)
    assert "results/small: there are records, but no manifest.json" in done.stderr
    assert "opauc-bench run small.yaml" in done.stderr
    said = " ".join(command("status", "small.yaml", cwd=tmp_path, exits=0).stdout.split())
    assert "but no manifest.json, which says what they belong to" in said
    assert "orphaned" not in said
    assert "0 of " in command("run", "small.yaml", cwd=tmp_path, exits=0).stderr
    assert set(json.loads(manifest.read_text())["datasets"]) == set(json.loads(before)["datasets"])


def test_internal_error_keeps_its_traceback(monkeypatch):
    def broken(**options):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("opauc_bench.cli.app", broken)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        main_of_the_script()


def test_too_few_rows_for_the_folds_is_reported_once_before_any_work(command, tmp_path):
    (tmp_path / "rare.csv").write_text("".join(f"{i},{i % 7},{'a' if i < 4 else 'b'}\n" for i in range(60)))
    (tmp_path / "own.yaml").write_text(
        "datasets:\n  rare:\n    title: rare\n    format: csv\n"
        f"    files: [{{name: rare.csv, sha256: null, urls: ['{(tmp_path / 'rare.csv').as_uri()}']}}]\n"
        "    n_samples: 60\n    n_features: 2\n    n_positive: 4\n    positive: [a]\n    scaling: minmax\n"
    )
    (tmp_path / "rare.yaml").write_text(
        "title: t\ncatalogue: own.yaml\ndatasets: [rare]\nlearners: [uni_squ]\ngrids: {eta: [0.1]}\n"
    )
    done = command("run", "rare.yaml", cwd=tmp_path, exits=2)
    assert "rare: its rarer class has 4 rows, too few for 5 folds with 5 inner folds" in done.stderr
    assert "fewer folds" in done.stderr
    assert not (tmp_path / "results").exists()


def test_report_does_not_overwrite_results_of_another_experiment(small, command):
    desk, _ = small
    other = desk / "other"
    other.mkdir()
    (other / "manifest.json").write_text("{}")
    before = snapshot(other)
    done = command("report", "small.yaml", "--to", "other", cwd=desk, exits=2)
    assert "expected a folder without results of its own" in done.stderr
    assert snapshot(other) == before
    shutil.rmtree(other)
