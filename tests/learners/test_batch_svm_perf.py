"""Running svm_perf_learn: with a stand-in that behaves, in turn, in each of the ways in which the real one can."""

import json
import os
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from command_line import parent_of, wait_until
from reference.examples import assert_close, examples
from scipy import sparse

from opauc_bench.commands.doctor import examine_installation
from opauc_bench.data import Sources
from opauc_bench.errors import LearnerError
from opauc_bench.learners import SVMPerf
from opauc_bench.learners.batch.cutting_plane import hinge_path
from opauc_bench.learners.batch.svm_perf_program import ENVIRONMENT, PROGRAM, find_program, read_model
from opauc_bench.report.cell_notes import origin_notes

CS = np.array([0.01, 1.0, 8.0])
X, Y = examples(60, 5)

HEADER = """\
SVM-light Version V6.20
0 # kernel type
3 # kernel parameter -d
1 # kernel parameter -g
1 # kernel parameter -s
1 # kernel parameter -r
empty# kernel parameter -u
6 # highest feature index
60 # number of training documents
2 # number of support vectors plus 1
0 # threshold b, each following line is a SV (starting with alpha*y)
"""

# Answers are looked up, so that the stand-in needs no solver and starts quickly.
SCRIPT = """\
#!{python} -S
import json, os, signal, subprocess, sys, time
home = {home!r}
args = sys.argv[1:]
with open(os.path.join(home, "calls"), "a") as calls:
    calls.write(json.dumps([args, os.getcwd(), open("train").read() if os.path.exists("train") else None]) + "\\n")
header = {header!r}
C, model = float(args[args.index("-c") + 1]), args[-1]
weights = json.load(open(os.path.join(home, "answers")))[str(C)]
body = "1 " + " ".join(f"{{k}}:{{w:.8g}}" for k, w in enumerate(weights, 1) if w) + " #\\n"
{behaviour}
open(model, "w").write(header + body)
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Make a program of a given behaviour and a learner that runs it."""
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    lam = 1 / (100 * CS)
    best = hinge_path(X, Y.astype(float), lam, gap=1e-9).coef
    (tmp_path / "answers").write_text(json.dumps({str(C): list(w) for C, w in zip(CS, best.T)}))

    def make(behaviour="", **params):
        program = tmp_path / PROGRAM
        code = SCRIPT.format(
            python=sys.executable, home=str(tmp_path), header=HEADER, behaviour=textwrap.dedent(behaviour)
        )
        program.write_text(code)
        program.chmod(0o755)
        return SVMPerf(engine="program", program=str(program), **params)

    make.best = best
    make.calls = lambda: [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]
    return make


def fails(learner, match, cs=CS):
    with pytest.raises(LearnerError, match=match):
        learner.fit_grid(X, Y, {"C": cs})


# ---------------------------------------------------------------------- when all is well


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_weights_come_from_the_model_file(stand_in, form):
    learner = stand_in()
    coef = learner.fit_grid(form(X), Y, {"C": CS})
    assert_close(coef, stand_in.best, 1e-7)
    info = learner.provenance()
    assert (info["engine"], info["program"], len(info["sha256"])) == ("program", PROGRAM, 64)
    assert "svm_perf_learn (sha256 " in info["note"]
    assert info["largest_excess"] < 1e-4


def test_how_the_program_is_called(stand_in):
    """With the loss ROCArea, an algorithm that has it, no bias feature, short relative names and full precision."""
    stand_in(eps=0.05).fit_grid(X, Y, {"C": CS})
    calls = stand_in.calls()
    assert [args[:-6] for args, _, _ in calls] == [["-v", "0", "-l", "10", "-w", "3", "--b", "0"]] * 3
    assert [args[-6] for args, _, _ in calls] == ["-e"] * 3
    assert [float(args[-5]) for args, _, _ in calls] == [0.05] * 3
    assert [float(args[-3]) for args, _, _ in calls] == CS.tolist()
    for args, folder, train in calls:
        assert args[-2:] == ["train", "model"]
        assert len(folder) < 100
        assert not os.path.exists(folder)
        rows = [line.split() for line in train.splitlines()]
        assert [int(row[0]) for row in rows] == Y.tolist()
        read = np.array([[float(entry.partition(":")[2]) for entry in row[1:]] for row in rows])
        np.testing.assert_array_equal(read.astype(np.float32), X.astype(np.float32))
        assert [entry.partition(":")[0] for entry in rows[0][1:]] == ["1", "2", "3", "4", "5"]


def test_the_other_reading_of_C(stand_in):
    coef = stand_in(loss_scale="mean").fit_grid(X, Y, {"C": 100 * CS})
    assert_close(coef, stand_in.best, 1e-7)


def test_features_of_zeros_are_not_passed_on(stand_in):
    wide = np.insert(X, 2, 0.0, axis=1)
    coef = stand_in().fit_grid(wide, Y, {"C": CS})
    assert_close(np.delete(coef, 2, axis=0), stand_in.best, 1e-7)
    assert (coef[2] == 0).all()


# ---------------------------------------------------------------------- finding it


def test_search_path_of_the_program(stand_in, tmp_path, monkeypatch):
    named = stand_in().program
    other = tmp_path / "bin" / PROGRAM
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", "")
    assert find_program() is None
    monkeypatch.setenv("PATH", str(other.parent))
    assert find_program() == other.resolve()
    monkeypatch.setenv(ENVIRONMENT, named)
    assert find_program() == Path(named).resolve()
    assert find_program(str(other)) == other.resolve()


def test_auto_takes_the_program_where_there_is_one(stand_in, monkeypatch):
    learner = stand_in().set_params(engine="auto")
    learner.fit_grid(X, Y, {"C": CS})
    assert learner.provenance()["engine"] == "program"
    monkeypatch.setenv("PATH", "")
    learner.set_params(program=None).fit_grid(X, Y, {"C": CS})
    assert learner.provenance()["engine"] == "native"
    fails(learner.set_params(engine="program"), "engine is 'program', but no svm_perf_learn is on PATH")


@pytest.mark.parametrize("make", ["absent", "text", "folder"])
def test_a_named_program_that_cannot_be_run_is_not_passed_over(tmp_path, monkeypatch, make):
    path = tmp_path / PROGRAM
    if make == "text":
        path.write_text("not executable")
    elif make == "folder":
        path.mkdir()
    fails(SVMPerf(program=str(path)), rf"program is '.*{PROGRAM}', which is not a program that can be run")
    monkeypatch.setenv(ENVIRONMENT, str(path))
    fails(SVMPerf(), f"{ENVIRONMENT} is '.*', which is not a program")


def test_a_program_for_another_machine(tmp_path):
    path = tmp_path / PROGRAM
    path.write_bytes(b"\x7fELF\x00\x00")
    path.chmod(0o755)
    fails(SVMPerf(program=str(path)), "cannot be run: Exec format error")


# ---------------------------------------------------------------------- when it goes wrong


def test_usage_errors_wait_for_a_key_and_end_with_0(stand_in):
    start = time.monotonic()
    fails(
        stand_in('print("Usage: svm_perf_learn [options]"); print("(more)"); sys.stdin.read(1); sys.exit(0)'),
        r"ended without writing a model: Usage: svm_perf_learn \[options\] \(more\)",
    )
    assert time.monotonic() - start < 20


def test_failures_include_the_output_of_the_program(stand_in):
    fails(
        stand_in('print("Parsing error in line 3!"); sys.exit(1)'),
        r"ended with exit code 1: Parsing error in line 3!(.|\n)*called as: .*svm_perf_learn -v 0 -l 10",
    )


def test_crashes(stand_in):
    fails(stand_in("os.kill(os.getpid(), signal.SIGSEGV)"), "was ended by signal 11: it said nothing")


def test_an_exit_code_that_says_failure_outweighs_a_model(stand_in):
    fails(stand_in('open(model, "w").write(header + body); sys.exit(1)'), "ended with exit code 1")


def test_the_model_of_the_value_before_is_not_taken_for_a_new_one(stand_in):
    fails(stand_in("if C > 0.5: sys.exit(0)"), "ended without writing a model")


@pytest.mark.parametrize(
    ("behaviour", "match"),
    [
        ("body = body[: len(body) // 2]", "model that cannot be used: a vector is cut off"),
        ("body = ''", "it has 0 vectors instead of 1"),
        ("body = body + body", "it has 2 vectors instead of 1"),
        ("header, body = '', ''", "a model file without its header"),
        ("header = header.replace('SVM-light', 'SVM-other')", "its first line does not name SVM-light"),
        ("header = header.replace('0 # kernel type', '2 # kernel type')", "its kernel is not linear"),
        ("header = header.replace('2 # number of support', '# something else')", "does not say how many vectors"),
        ("body = '1 1:nan 2:0.5 #\\n'", "it has weights that are not finite"),
        ("body = '1 1:0.5 6:0.5 #\\n'", "it has a feature 6"),
        ("body = '1 0:0.5 #\\n'", "it has a feature 0"),
        ("body = '1 1:half #\\n'", "could not convert string to float"),
        ("body = '1 #\\n'", "weights are all zero for lam=1, 0.01, 0.00125, which is not a minimum"),
        ("body = body.replace(':', ':-').replace('--', '')", "weights are not a solution: for lam="),
        ("body = '1 1:3 2:-4 #\\n'", r"objective lies \S+ above a minimum of \S+, where its tolerance allows 0.0021"),
    ],
)
def test_invalid_models_are_errors(stand_in, behaviour, match):
    fails(stand_in(behaviour), match)


def test_support_vectors_are_summed(tmp_path):
    """The general form of a linear model file: a sum of vectors with their factors."""
    path = tmp_path / "model"
    header = HEADER.replace("2 # number of support", "3 # number of support")
    path.write_text(header + "2 1:0.5 3:1 #\n-1 3:0.5 4:2 # comment\n")
    np.testing.assert_array_equal(read_model(path, 4), [1.0, 0.0, 1.5, -2.0])


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e35])
def test_data_that_the_program_misreads_is_refused(stand_in, value, tmp_path):
    bad = X.copy()
    bad[3, 2] = value
    with pytest.raises(LearnerError, match="needs finite features below 1e\\+30"):
        stand_in().fit_grid(bad, Y, {"C": CS})
    assert not (tmp_path / "calls").exists()


# ---------------------------------------------------------------------- when it is no longer wanted

CHILD = """
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
open(os.path.join(home, "pids.new"), "w").write(f"{os.getpid()} {child.pid}")
os.rename(os.path.join(home, "pids.new"), os.path.join(home, "pids"))
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks at processes through /proc")
@pytest.mark.parametrize("hangs", [True, False])
def test_no_process_is_left_behind(stand_in, tmp_path, hangs):
    learner = stand_in(CHILD + ("time.sleep(60)" if hangs else ""))

    def time_is_up(_):
        if (tmp_path / "pids").exists():
            raise TimeoutError

    if hangs:
        with pytest.raises(TimeoutError):
            learner.fit_grid(X, Y, {"C": CS}, on_chunk=time_is_up)
    else:
        learner.fit_grid(X, Y, {"C": CS[:1]})
    pids = (tmp_path / "pids").read_text().split()
    wait_until(lambda: not any(map(parent_of, pids)), seconds=20)
    [(_, folder, _)] = stand_in.calls()
    assert not os.path.exists(folder)


# ---------------------------------------------------------------------- doctor and reports


def test_doctor_says_which_engine_there_is(stand_in, tmp_path, monkeypatch):
    def said():
        text, good = examine_installation(Sources(cache=tmp_path / "cache"))
        return next(line for line in text.splitlines() if "svm_perf: " in line), good

    program = stand_in().program
    monkeypatch.setenv("PATH", "")
    assert said() == (
        "     svm_perf: our own solver, since there is no svm_perf_learn on PATH or in " + ENVIRONMENT,
        True,
    )
    monkeypatch.setenv(ENVIRONMENT, program)
    assert said() == (f"     svm_perf: the program {Path(program).resolve()}", True)
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))
    line, good = said()
    assert line.startswith(f"BAD  svm_perf: {ENVIRONMENT} is")
    assert not good


def test_footnote_names_the_engines():
    native, program = "our own solver", "the program svm_perf_learn"
    assert origin_notes([]) == []
    assert origin_notes([native] * 25) == ["our own solver."]
    assert origin_notes([native] * 5 + [program] * 20) == [
        "our own solver (5 folds).",
        "the program svm_perf_learn (20 folds).",
    ]
