"""``train`` and ``score`` from the outside, as a user types them: what they print, and what mistakes lead to."""

import contextlib
import gzip
import itertools
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import wait_until
from sklearn.datasets import load_svmlight_file
from sklearn.metrics import roc_auc_score
from streams import estimator, rows, standard_input, trained, write

from opauc_bench.streaming.model import LinearModel
from opauc_bench.streaming.progress import Meter


def piped(environment, cwd, shell):
    """Run a line of the shell, where ``$OB`` is the program."""
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", shell],
        cwd=cwd,
        env=environment | {"OB": f"{sys.executable} -m opauc_bench"},
        capture_output=True,
        text=True,
        timeout=300,
    )


def progressive_auc(X, y, window):
    """AUC within the last blocks, at least ``window`` rows, each scored by a model of the blocks before."""
    learner, pairs, ordered = estimator("ftrl_auc"), 0, 0.0
    bounds = [*range(0, min(8192, X.shape[0]), 64), *range(8192, X.shape[0], 128), X.shape[0]]
    for start, stop in itertools.pairwise(bounds):
        block, positive = X[start:stop], y[start:stop] > 0
        if stop > X.shape[0] - window and start:
            scores = block @ learner.coef_[0]
            here = positive.sum() * (~positive).sum()
            pairs += here
            ordered += here * roc_auc_score(positive, scores)
        learner.partial_fit(block, y[start:stop], classes=[-1, 1])
    return ordered / pairs


# ---------------------------------------------------------------------- what they print


@pytest.fixture
def no_progress(monkeypatch):
    """A machine under load would print a line on the way."""
    monkeypatch.setattr("opauc_bench.streaming.progress._ELSEWHERE", 1e9)


def test_train_says_what_it_has_trained(command, desk, no_progress):
    done = command("train", "data.svm", "-l", "ftrl_auc", "--no-tune", "--window", 3996, "--out", "said.npz", cwd=desk)
    assert (done.returncode, done.stderr) == (0, "")
    X, y = load_svmlight_file(str(desk / "data.svm"))
    said = re.search(
        r"^AUC +(\.\d{4}), of the last 4,008 rows, by the weights from before their block$", done.stdout, re.M
    )
    assert float(said[1]) == pytest.approx(progressive_auc(X, y, 3996), abs=6e-5)
    assert re.search(r"^rows +9,000 in [\d.]+ s \([\d,]+ rows/s\)$", done.stdout, re.M)
    assert f"labels    {100 * (y > 0).mean():.3g} % 1 (positive), the others -1\n" in done.stdout
    assert "weights   9 of 9 are not 0\n" in done.stdout
    assert "gamma=0.1" in done.stdout.partition("\n")[0]
    assert done.stdout.endswith("model     said.npz\n")
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_rows_that_came_before_anything_was_learnt_have_no_auc(command, desk, tmp_path):
    lines = (desk / "data.svm").read_text().splitlines(keepends=True)
    (tmp_path / "short.svm").write_text("".join(lines[:64]))
    options = ("-l", "ftrl_auc", "--no-tune", "--out")
    done = command("train", "short.svm", *options, "m.npz", cwd=tmp_path)
    assert "\nAUC       -, with 64 rows or fewer, none is scored before it is learnt\n" in done.stdout
    assert done.stderr == ""
    done = command("train", "short.svm", "--out", "tuned.npz", cwd=tmp_path)
    assert "note: settings could not be compared, the rows are too few; " in done.stderr
    assert "nearest to the defaults of nag\n" in done.stderr
    assert re.search(r"^nag +eta=0\.5 +- +64 +chosen$", done.stdout, re.M)
    (tmp_path / "longer.svm").write_text("".join(lines[:4000]))
    done = command("train", "longer.svm", *options, "n.npz", cwd=tmp_path)
    said = re.search(
        r"^AUC +(\.\d{4}), of the last 2,016 rows, by the weights from before their block$", done.stdout, re.M
    )
    X, y = load_svmlight_file(str(tmp_path / "longer.svm"))
    assert float(said[1]) == pytest.approx(progressive_auc(X[:4000], y[:4000], 2016), abs=6e-5)


def test_a_note_on_rows_sorted_by_label(command, desk, tmp_path):
    lines = sorted((desk / "data.svm").read_text().splitlines(keepends=True), key=lambda line: line.split()[0])
    (tmp_path / "sorted.svm").write_text("".join([*lines, *lines[-500:] * 20]))
    done = command("train", "sorted.svm", "--out", "m.npz", cwd=tmp_path, exits=0)
    assert (
        "has rows of both classes, so that settings could not be compared at the end; shuffle the rows" in done.stderr
    )
    assert "\nAUC       -, of the last " in done.stdout
    shown = command("model", "show", "m.npz", cwd=tmp_path, exits=0).stdout
    assert "\nAUC       -, of the latest rows" in shown


def test_a_learner_from_a_file_that_raises_is_told_with_its_line(command, desk, tmp_path):
    (tmp_path / "own.py").write_text(
        "from opauc_bench.learners import UniLog\n\nclass Mine(UniLog):\n"
        "    def _consume(self, state, X, y):\n        raise KeyError('mine')\n"
    )
    done = command("train", desk / "data.svm", "--learner", "own.py:Mine", "--out", "m.npz", cwd=tmp_path, exits=1)
    assert f"error: own.py:Mine raised KeyError: 'mine' ({tmp_path / 'own.py'}:5)\n" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "m.npz").exists()


def test_quiet_train_prints_nothing(command, desk, tmp_path):
    done = command("train", desk / "data.svm", "-q", "--out", "m.npz", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_progress_on_the_way(command, desk, tmp_path, monkeypatch):
    monkeypatch.setattr("opauc_bench.streaming.progress._ELSEWHERE", 0.0)
    done = command("train", desk / "data.svm", "--out", "m.npz", cwd=tmp_path)
    lines = done.stderr.splitlines()
    size = f"{os.path.getsize(desk / 'data.svm'):,}"
    assert len(lines) >= 3, size
    pattern = (
        r"[\d,]+ rows  [\d,]+ rows/s(  \d+ %  0:00:\d\d left)?  AUC (\.\d{4}|-|1\.0000) \(last [\d,]+\)"
        r"(  [a-z_]+, \d+ settings)?"
    )
    assert all(re.fullmatch(pattern, line) for line in lines), lines
    assert lines[-1].startswith("9,000 rows")


def test_progress_is_that_of_the_rows_that_have_been_learnt(monkeypatch, capsys):
    monkeypatch.setattr("opauc_bench.streaming.progress._ELSEWHERE", 0.0)
    source = SimpleNamespace(size=4_000_000, position=4_000_000)  # a thread reads ahead
    meter = Meter(source)
    meter.tick(100, position=1_000_000)
    meter.tick(400, position=4_000_000)
    source.size = None
    meter.tick(500)
    first, last, pipe = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"100 rows  [\d,]+ rows/s  25 %  0:00:00 left", first)
    assert re.fullmatch(r"400 rows  [\d,]+ rows/s", last), "the rest may take a while"
    assert re.fullmatch(r"500 rows  [\d,]+ rows/s  4 MB", pipe)


def test_progress_on_a_terminal_is_one_line(environment, desk, tmp_path):
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "opauc_bench", "train", "-", "--out", str(tmp_path / "m.npz")],
        env=environment | {"TERM": "xterm"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    text = (desk / "data.svm").read_bytes()
    shown = []

    def read():
        # Closed only after the last write: a closed terminal is another error.
        with contextlib.suppress(OSError), os.fdopen(ours, "rb", buffering=0) as screen:
            while part := screen.read(4096):
                shown.append(part)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    for _ in range(400):
        process.stdin.write(text)
        if shown:
            break
        time.sleep(0.02)
    process.stdin.close()
    ended = process.wait(timeout=300)
    reader.join(timeout=60)
    screen = b"".join(shown).decode()
    assert ended == 0, screen
    assert re.search(r"\r[\d,]+ rows  [\d,]+ rows/s  \d+ MB  AUC \.\d{4} \(last [\d,]+\)[a-z_0-9, ]*\x1b\[K", screen)
    assert "\n" not in screen
    assert screen.endswith("\r\x1b[K")


def test_score_prints_a_score_a_line_and_the_auc(command, desk, model):
    done = command("score", "model.npz", "data.svm", cwd=desk, exits=0)
    X, y = load_svmlight_file(str(desk / "data.svm"))
    expected = estimator("ftrl_auc").fit(X, y).decision_function(X)
    np.testing.assert_array_equal(np.array(done.stdout.splitlines(), dtype=float), expected)
    auc = f"{roc_auc_score(y, expected):.4f}".removeprefix("0")
    assert done.stderr.splitlines() == ["9,000 rows of data.svm scored", f"AUC {auc}, exact over all rows"]


def test_score_into_a_file(command, desk, model, tmp_path):
    done = command("score", model, desk / "data.svm", "--out", "scores.txt", "-q", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    printed = command("score", model, desk / "data.svm", "-q", cwd=tmp_path)
    assert printed.stderr == ""
    assert (tmp_path / "scores.txt").read_text() == printed.stdout
    again = command("score", model, desk / "data.svm", "--out", "scores.txt", cwd=tmp_path, exits=1)
    assert "scores.txt already exists" in again.stderr
    command("score", model, desk / "data.svm", "--out", "scores.txt", "--overwrite", cwd=tmp_path, exits=0)


def test_a_sample_where_memory_ends(command, desk, model, tmp_path, monkeypatch):
    monkeypatch.setattr("opauc_bench.streaming.score._KEPT", 2500)
    done = command("score", model, desk / "data.svm", cwd=tmp_path)
    _, y = load_svmlight_file(str(desk / "data.svm"))
    n_positive, n_negative = min(2500, (y > 0).sum()), min(2500, (y < 0).sum())
    said = re.search(r"AUC (\.\d+), exact over a random sample of ([\d,]+) positive and ([\d,]+) negative", done.stderr)
    assert said.groups()[1:] == (f"{n_positive:,}", f"{n_negative:,}")
    exact = roc_auc_score(y, np.array(done.stdout.split(), dtype=float))
    assert float(said[1]) == pytest.approx(exact, abs=0.02)


def test_pipes(environment, command, desk):
    done = piped(
        environment,
        desk,
        "cat data.svm | $OB train - -l adagrad --out 1.npz -q && $OB train data.svm -l adagrad --out 2.npz -q",
    )
    assert done.returncode == 0, done.stderr
    with standard_input(gzip.compress((desk / "data.svm").read_bytes())):
        done = command("score", "1.npz", "-", cwd=desk)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 9000
    assert "9,000 rows of standard input scored" in done.stderr
    of_pipe, of_file = LinearModel.load(desk / "1.npz"), LinearModel.load(desk / "2.npz")
    np.testing.assert_array_equal(of_pipe.weights, of_file.weights)
    assert (of_pipe.leaderboard, of_pipe.progress) == (of_file.leaderboard, of_file.progress)


@pytest.mark.faults
def test_a_reader_that_goes_away_is_no_error(environment, desk, model):
    done = piped(environment, desk, "for k in {1..40}; do cat data.svm; done | $OB score model.npz - | head -2")
    assert len(done.stdout.splitlines()) == 2
    assert done.stderr in ("", "cat: write error: Broken pipe\n")


@pytest.mark.faults
def test_closed_standard_streams(environment, desk, model):
    done = piped(environment, desk, "$OB score model.npz data.svm >&-")
    assert done.returncode == 1
    assert done.stderr == "error: standard output, where the scores go, is closed\n  try: --out FILE\n"
    done = piped(environment, desk, "$OB score model.npz data.svm --out closed.txt >&-")
    assert (done.returncode, len(done.stderr.splitlines())) == (0, 2)
    done = piped(environment, desk, "$OB score model.npz data.svm 2>&-")
    assert done.returncode == 0
    assert done.stdout == (desk / "closed.txt").read_text()


def test_dev_null_stays_what_it_is(command, desk, tmp_path):
    command("train", desk / "data.svm", "--out", os.devnull, cwd=tmp_path, exits=0)
    assert not os.path.isfile(os.devnull)


def test_learners_that_need_sizes_count_them_first(command, desk, tmp_path, no_progress):
    done = command("train", desk / "data.svm", "-l", "fsauc", "--out", "m.npz", cwd=tmp_path)
    assert done.stderr == "counting rows first: fsauc needs them\n"
    done = command("train", desk / "data.svm", "-l", "solam", "--out", "n.npz", cwd=tmp_path)
    assert done.stderr == "counting features first: solam needs them\n"
    options = ("-l", "fsauc", "--rows", 10_000, "--out", "o.npz")
    done = command("train", desk / "data.svm", *options, cwd=tmp_path)
    assert done.stderr == "note: expected 10,000 rows, got 9,000\n"


def test_a_pipe_cannot_be_counted(command, desk):
    rows = (desk / "data.svm").read_bytes()
    with standard_input(rows):
        done = command("train", "-", "-l", "solam", "--out", "s.npz", cwd=desk)
    assert done.returncode == 2
    assert "solam needs the number of features before the first row" in done.stderr
    assert "try: --features N" in done.stderr
    with standard_input(rows):
        done = command("train", "-", "-l", "fsauc", "--no-tune", "--rows", 9000, "--out", "f.npz", "-q", cwd=desk)
    assert done.returncode == 0
    fitted = estimator("fsauc").fit(*load_svmlight_file(str(desk / "data.svm")))
    np.testing.assert_array_equal(LinearModel.load(desk / "f.npz").weights, fitted.coef_[0])


def test_a_learner_from_a_file(command, desk, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from opauc_bench.learners.univariate import UniLog\nclass Mine(UniLog):\n    '''Mine.'''\n"
    )
    model = trained(command, desk, tmp_path, "-l", tmp_path / "mine.py:Mine", "--eta", "0.5", "--no-tune")
    fitted = estimator("uni_log", eta=0.5).fit(*load_svmlight_file(str(desk / "data.svm")))
    np.testing.assert_array_equal(model.weights, fitted.coef_[0])


# ---------------------------------------------------------------------- mistakes


def refused(command, cwd, *arguments, code):
    """Run what is a mistake; returns the message, with its hint."""
    done = command(*arguments, cwd=cwd)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    return done.stderr


def lines(path, *texts):
    path.write_text("".join(f"{text}\n" for text in texts))
    return path


OF_FILES = {
    "no such file": (None, "file.svm: cannot be read (No such file or directory)"),
    "empty": ([], "expected rows, got none"),
    "comments only": (["# nothing"], "expected rows of two labels, got no rows"),
    "a bad value": (["1 1:0.5", "-1 1:x"], "file.svm:2: "),
    "a number that is none": (["1 1:0.5", "-1 1:nan"], "file.svm:2: "),
    "query ids": (["1 qid:7 1:0.5"], "got 'qid:7'; query ids are not read (sed 's/ qid:[0-9]*//' FILE > NEW)"),
    "no label": (["1:0.5"], "file.svm:1: "),
    "one class": (["1 1:0.5", "1 2:0.5"], "expected rows of two labels, got only 1"),
    "three labels": (
        ["1 1:1", "", "# a comment", "2 1:1", " ", "1 2:1 # 2", "3 1:1"],
        "file.svm:7: expected the labels 1 and 2, got a third one, 3",
    ),
    "index 0": (["1 0:0.5", "-1 1:1"], "file.svm:1: expected indices from 1, got '0:0.5'; is the file zero-based?"),
}


@pytest.mark.parametrize("what", OF_FILES)
def test_mistakes_in_files_have_a_place(command, tmp_path, what):
    texts, message = OF_FILES[what]
    if texts is not None:
        lines(tmp_path / "file.svm", *texts)
    message = "got no rows" if what in ("empty", "comments only") else message
    assert message in refused(command, tmp_path, "train", "file.svm", "--out", "m.npz", code=3)
    assert os.listdir(tmp_path) in ([], ["file.svm"])


def test_index_0_comes_with_advice(command, tmp_path):
    lines(tmp_path / "zero.svm", "1 0:0.5", "-1 1:1")
    message = refused(command, tmp_path, "train", "zero.svm", "--out", "m.npz", code=3)
    assert "try: --zero-based, if 0 is the first feature" in message
    command("train", "zero.svm", "--zero-based", "--out", "m.npz", cwd=tmp_path, exits=0)


def test_one_label_for_too_long(command, tmp_path):
    lines(tmp_path / "sorted.svm", *["1 1:1"] * 70_000, "-1 1:1")
    message = refused(command, tmp_path, "train", "sorted.svm", "--out", "m.npz", code=3)
    assert re.search(r"the first 6\d,\d{3} rows all have the label 1, so that it is not known", message)
    assert "--positive LABEL" in message
    command("train", "sorted.svm", "--positive", 1, "--out", "m.npz", cwd=tmp_path, exits=0)


def test_a_positive_label_that_is_none(command, desk, tmp_path):
    message = refused(command, tmp_path, "train", desk / "data.svm", "--positive", 2, "--out", "m.npz", code=3)
    assert "expected 2 to be one of the labels (--positive); they are " in message
    for text in ("nan", "inf", "x"):
        message = refused(command, tmp_path, "train", desk / "data.svm", "--positive", text, "--out", "m.npz", code=3)
        assert f"expected {text} to be one of the labels (--positive); the labels are numbers" in message


OF_LEARNERS = {
    "unknown": (["-l", "ftrl_auk"], ["no learner is called 'ftrl_auk' (did you mean 'ftrl_auc'?)"]),
    "batch": (
        ["-l", "svm_perf"],
        ["svm_perf needs the whole training set: it cannot learn from a stream", "try: one of ", "opauc, "],
    ),
    "one that looks at all rows first": (["-l", "opauc_pca"], ["opauc_pca needs the whole training set"]),
    "another's parameter": (["-l", "opauc", "--l1", "1"], ["opauc has no parameter l1", "it has eta=0.015625, lam="]),
    "a misspelt parameter": (
        ["-l", "ftrl_auc", "--set", "gama=1"],
        ["ftrl_auc has no parameter gama (did you mean 'gamma'?)"],
    ),
    "no assignment": (["--set", "gamma"], ["error: --set: expected name=value, got 'gamma'", "try: --set gamma=0.1"]),
    "twice": (["-l", "ftrl_auc", "--eta", "1", "--gamma", "2"], ["gamma of ftrl_auc is given twice: 1 and 2"]),
    "no number": (
        ["-l", "ftrl_auc", "--eta", "small"],
        ["gamma of ftrl_auc: expected a number such as 0.1, 1e-3 or 2^-8, got 'small'"],
    ),
    "none of auto has it": (
        ["--set", "tau=1"],
        [
            "no learner of auto can be made (nag, ",
            "nag has no parameter tau",
            "try: --learner NAME, if it is for another",
        ],
    ),
    "no number, for one of auto": (
        ["--l1", "0,01"],
        ["l1 of adagrad: expected a number such as 0.1, 1e-3 or 2^-8, got"],
    ),
    "infinite": (["--eta", "inf"], ["expected a number such as"]),
    "too large a power": (["--eta", "10^999"], ["expected a number such as"]),
    "no whole number": (["-l", "oam_seq", "--set", "buffer_size=1.5"], ["expected a whole number, got '1.5'"]),
    "no boolean": (["-l", "ftrl_auc", "--set", "lazy=1"], ["lazy of ftrl_auc: expected true or false, got '1'"]),
    "a value that the learner refuses": (
        ["-l", "ftrl_auc", "--eta", "-1"],
        ["FTRLAUC: gamma has to be a number > 0, got -1.0"],
    ),
    "a word that it refuses": (
        ["-l", "ftrl_auc", "--set", "variant=new"],
        ["variant has to be one of paper, released, got 'new'"],
    ),
}


def test_too_few_features_are_told_how_to_count_them(command, desk, tmp_path):
    message = refused(command, tmp_path, "train", desk / "data.svm", "--out", "m.npz", "--features", "3", code=3)
    assert "expected indices up to 3, got " in message
    assert "try: --features with a larger number" in message


def test_a_table_without_a_label_is_told_how_to_name_it(command, tmp_path):
    (tmp_path / "clicks").write_text("age,clicked\n1,0\n2,1\n")
    message = refused(command, tmp_path, "train", "clicks", "--out", "m.npz", code=3)
    assert "is this a csv file?\n  try: --label COLUMN reads a table with a header line" in message


@pytest.mark.parametrize("what", OF_LEARNERS)
def test_mistakes_about_learners(command, desk, tmp_path, what):
    options, messages = OF_LEARNERS[what]
    message = refused(command, tmp_path, "train", desk / "data.svm", "--out", "m.npz", *options, code=2)
    assert all(part in message for part in messages), message
    assert os.listdir(tmp_path) == []


def test_divergence_comes_with_advice(command, desk, tmp_path):
    options = ("-l", "uni_squ", "--eta", "1e30", "--out", "m.npz")
    message = refused(command, tmp_path, "train", desk / "data.svm", *options, code=1)
    assert re.search(r"UniSqu overflowed within \d+ rows \(eta=1e\+30\): the steps are too large", message)
    assert "no model is written" in message
    assert "try: --normalize, which brings rows to unit length; or a smaller --eta" in message
    assert os.listdir(tmp_path) == []


def test_a_first_line_that_is_not_svmlight_has_advice_on_the_format(command, tmp_path):
    lines(tmp_path / "t.svm", "1 |f a:1 b:2", "-1 |f a:2")
    done = command("train", "t.svm", "--out", "m.npz", cwd=tmp_path, exits=3)
    assert "t.svm:1: expected index:value, got '|f'\n  try: rows of svmlight text are a number" in done.stderr
    lines(tmp_path / "t.svm", "1 3:1 2:1")
    done = command("train", "t.svm", "--out", "m.npz", cwd=tmp_path, exits=3)
    assert "rows of svmlight text are" not in done.stderr
    lines(tmp_path / "t.svm", "1 1:2", "-1 x:2")
    done = command("train", "t.svm", "--out", "m.npz", cwd=tmp_path, exits=3)
    assert "try: --skip-bad-rows leaves such rows out" in done.stderr


def test_rows_without_labels_have_advice(command, desk, model, tmp_path):
    lines(tmp_path / "t.svm", "1:2 2:3", "1:1")
    done = command("score", model, "t.svm", cwd=tmp_path, exits=3)
    assert (
        "try: put a 0 in front of each line, which stands for a label that is not known: sed 's/^/0 /'" in done.stderr
    )


def test_a_large_index_comes_with_a_note_on_memory(command, tmp_path, monkeypatch):
    monkeypatch.setattr("opauc_bench.streaming.train_notes._MUCH_MEMORY", 1e8)
    lines(tmp_path / "t.svm", "1 400000:1", *[f"{k % 2} 1:{k}" for k in range(150)])
    said = command("train", "t.svm", "--out", "m.npz", cwd=tmp_path, exits=0).stderr
    assert re.search(
        r"^note: \d+ settings of 400,000 features take up to \d+ GB of memory; less with indices", said, re.M
    )
    assert said.count("of memory") == 1


def test_an_index_above_features(command, desk, tmp_path):
    message = refused(command, tmp_path, "train", desk / "data.svm", "--features", 5, "--out", "m.npz", code=3)
    assert "data.svm:1: expected indices up to 5, got 6" in message


@pytest.mark.parametrize("index", [2_000_000_000, 3_000_000_000])
def test_an_index_that_no_memory_has_room_for(command, tmp_path, index):
    lines(tmp_path / "far.svm", "1 1:1", "-1 1:0.5", f"1 {index}:1")
    done = command("train", "far.svm", "-l", "opauc", "--out", "m.npz", cwd=tmp_path)
    assert done.returncode in (1, 3)
    assert re.search(r"would need [\d,.]+ GB for 2,000,000,000 features|far.svm:3: expected ", done.stderr)


def test_places_a_model_can_be_written_to(command, desk, tmp_path):
    data = desk / "data.svm"
    (tmp_path / "there.npz").write_text("mine")
    message = refused(command, tmp_path, "train", data, "--out", "there.npz", code=1)
    assert message == "error: there.npz already exists\n  try: another name, or --overwrite\n"
    assert (tmp_path / "there.npz").read_text() == "mine"
    assert "is a folder" in refused(command, tmp_path, "train", data, "--out", ".", code=1)
    assert "try: mkdir -p 'no such'\n" in refused(command, tmp_path, "train", data, "--out", "no such/m.npz", code=1)
    message = refused(command, tmp_path, "train", data, "--out", "there.npz/a/m.npz", code=1)
    assert "there.npz is not a folder" in message
    message = refused(command, tmp_path, "train", data, "--out", 256 * "m", code=1)
    assert "cannot be written: File name too long" in message
    (tmp_path / "loop.npz").symlink_to("loop.npz")
    assert "cannot be written: Too many levels" in refused(
        command, tmp_path, "train", data, "--out", "loop.npz", code=1
    )
    (tmp_path / "loop.npz").unlink()
    (tmp_path / "link.npz").symlink_to("no/m.npz")
    assert "there is no folder" in refused(command, tmp_path, "train", data, "--out", "link.npz", code=1)
    (tmp_path / "link.npz").unlink()
    message = refused(command, desk, "train", "data.svm", "--out", "data.svm", "--overwrite", code=1)
    assert "data.svm is an input file" in message
    command("train", data, "--out", "there.npz", "--overwrite", cwd=tmp_path, exits=0)
    assert LinearModel.load(tmp_path / "there.npz").n_rows == 9000
    longest = 251 * "m" + ".npz"
    command("score", "there.npz", data, "--out", longest, cwd=tmp_path, exits=0)
    assert sorted(os.listdir(tmp_path)) == [longest, "there.npz"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(command, desk, tmp_path):
    tmp_path.chmod(0o500)
    assert "permission denied" in refused(command, tmp_path, "train", desk / "data.svm", "--out", "m.npz", code=1)


def test_score_of_a_wrong_file(command, desk, model, tmp_path):
    assert "not a model" in refused(command, desk, "score", "data.svm", "data.svm", code=3)
    message = refused(command, desk, "score", "absent.npz", "data.svm", code=3)
    assert "absent.npz: there is no such file" in message
    assert "absent.svm: cannot be read" in refused(command, desk, "score", model, "absent.svm", code=3)
    message = refused(command, desk, "score", model, 256 * "m", code=3)
    assert "cannot be read (File name too long)" in message
    lines(tmp_path / "bad.svm", "1 1:0.5", "x")
    done = command("score", model, tmp_path / "bad.svm", cwd=tmp_path, exits=3)
    assert "bad.svm:2: " in done.stderr


def test_score_of_rows_that_the_model_knows_little_of(command, model, tmp_path):
    lines(tmp_path / "new.svm", "1 1:1", "-1 2:1 1000:5", "# a comment", "7 3:1", "1", "-1 12:1")
    done = command("score", model, "new.svm", cwd=tmp_path, exits=0)
    assert len(done.stdout.splitlines()) == 5
    assert done.stderr.splitlines() == [
        "5 rows of new.svm scored",
        "note: 2 rows have features above 9, which the model has not seen: they are ignored",
        "no AUC: 1 row has a label other than -1 and 1 (first: 7 at new.svm:4)",
    ]
    lines(tmp_path / "new.svm", "1 1:1", "1 2:1")
    done = command("score", model, "new.svm", cwd=tmp_path)
    assert done.stderr.splitlines()[-1] == "no AUC: not both labels, -1 and 1, occur"
    lines(tmp_path / "zero.svm", "1 0:1", "-1 1:1")
    command("train", "zero.svm", "--zero-based", "--no-tune", "--out", "m.npz", cwd=tmp_path, exits=0)
    lines(tmp_path / "new.svm", "1 0:1 2:1")
    done = command("score", "m.npz", "new.svm", cwd=tmp_path, exits=0)
    assert "note: 1 rows have features above 1, which the model has not seen" in done.stderr


@pytest.mark.parametrize("options", [(), ("--probability",)])
@pytest.mark.filterwarnings("error")
def test_scores_that_overflow_are_the_reason_for_no_auc(command, desk, tmp_path, options):
    plain = ("--no-tune", "--calibration", "platt", "-q")
    command("train", desk / "data.svm", *plain, "--out", "m.npz", cwd=tmp_path, exits=0)
    trained = LinearModel.load(tmp_path / "m.npz")
    largest = np.finfo(float).max
    row = " ".join(f"{j + 1}:{np.sign(w) * largest}" for j, w in enumerate(trained.weights) if w)
    lines(tmp_path / "new.svm", "1 1:1", f"-1 {row}", f"1 {row}", "-1 2:1", f"1 1:{largest}")
    done = command("score", "m.npz", "new.svm", *options, cwd=tmp_path, exits=0)
    assert done.stderr.splitlines() == [
        "5 rows of new.svm scored",
        "no AUC: 2 scores are not finite (first: inf at new.svm:2)",
    ]


# ---------------------------------------------------------------------- interruptions, slow pipes, and memory


@pytest.mark.parametrize("kind", ["svm", "csv"])
def test_rows_of_a_slow_pipe_are_scored_as_they_come(bench, command, tmp_path, kind):
    rows = [("1 1:1 2:.5", "1,1,.5"), ("0 2:1", "0,0,1")] * 100
    header = {"svm": "", "csv": "y,a,b\n"}[kind]
    lines = [row[kind == "csv"] + "\n" for row in rows]
    (tmp_path / f"t.{kind}").write_text(header + "".join(lines))
    label = ("--label", "y") if kind == "csv" else ()
    command("train", f"t.{kind}", *label, "--no-tune", "--out", "m.npz", cwd=tmp_path, exits=0)
    expected = command("score", "m.npz", f"t.{kind}", cwd=tmp_path, exits=0).stdout.splitlines()
    process = bench.start("score", "m.npz", "-", cwd=tmp_path, stdin=subprocess.PIPE)
    process.stdin.write(header)
    for first in (0, 3):  # what the first write brings is answered before the second one
        process.stdin.write("".join(lines[first : first + 3]))
        process.stdin.flush()
        came = [process.stdout.readline().rstrip() for _ in range(3)]
        assert came == expected[first : first + 3]
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0
    assert "6 rows of standard input scored" in err


@pytest.mark.faults
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_writes_the_model_so_far(bench, desk, tmp_path, hangups, sent):
    process = bench.start("train", "-", "--out", "m.npz", cwd=tmp_path, stdin=subprocess.PIPE)
    text = (desk / "data.svm").read_text()
    for _ in range(40):  # more than the pipe holds: when all is written, most of it has been read
        process.stdin.write(text)
    process.stdin.flush()
    time.sleep(1.0)
    process.send_signal(sent)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 130
    said = re.search(r"interrupted: the model of the first ([\d,]+) rows is written", err)
    model = LinearModel.load(tmp_path / "m.npz")
    assert not model.complete
    assert f"{model.n_rows:,}" == said[1]
    assert 0 < model.n_rows <= 40 * 9000
    assert os.listdir(tmp_path) == ["m.npz"]
    assert "AUC" in out
    scored = bench("score", "m.npz", desk / "data.svm", cwd=tmp_path)
    assert f"note: the training of this model was interrupted after {model.n_rows:,} rows" in scored.stderr


INTERRUPTED = """
import signal
import time
from opauc_bench.learners import UniSqu

class Interrupted(UniSqu):
    rows = 0

    def _consume(self, state, X, y):
        super()._consume(state, X, y)
        before, Interrupted.rows = Interrupted.rows, Interrupted.rows + len(y)
        if before < 2000 <= Interrupted.rows:
            signal.raise_signal(signal.{sent})
            time.sleep({pause})
            signal.raise_signal(signal.{sent})
"""


@pytest.mark.parametrize(
    ("sent", "pause", "saved"), [("SIGINT", 0.0, True), ("SIGHUP", 0.0, True), ("SIGINT", 1.1, False)]
)
def test_a_second_interruption_while_rows_are_learnt_writes_no_model(
    bench, desk, tmp_path, hangups, sent, pause, saved
):
    """The rows of the block that were not learnt would be taken for learnt by ``--continue``.

    Two at once are one: a shell and the system both send SIGHUP when a terminal is closed.
    """
    (tmp_path / "mine.py").write_text(INTERRUPTED.format(sent=sent, pause=pause))
    done = bench(
        *("train", desk / "data.svm", "--learner", "mine.py:Interrupted", "--no-tune", "--out", "m.npz"), cwd=tmp_path
    )
    assert done.returncode == 130
    if saved:
        assert "interrupted: the model of the first 4,096 rows is written" in done.stderr
        assert LinearModel.load(tmp_path / "m.npz").n_rows == 4096
    else:
        assert done.stderr.endswith("interrupted at once: no model is written\n")
        assert not (tmp_path / "m.npz").exists()


@pytest.mark.faults
def test_a_closed_terminal_costs_no_model(bench, desk, tmp_path, hangups):
    """Each write to it is an error then."""
    terminal, of_process = pty.openpty()
    process = bench.start("train", "-", "--out", "m.npz", cwd=tmp_path, stdin=subprocess.PIPE, stderr=of_process)
    os.close(of_process)
    text, shown = (desk / "data.svm").read_text(), b""
    for _ in range(40):
        process.stdin.write(text)
    process.stdin.flush()
    while b"rows" not in shown:
        shown += os.read(terminal, 4096)
    os.close(terminal)
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=300)
    assert process.returncode == 130
    assert 0 < LinearModel.load(tmp_path / "m.npz").n_rows <= 40 * 9000


@pytest.mark.faults
def test_an_interruption_before_anything_came(bench, tmp_path):
    process = bench.start("train", "-", "--out", "m.npz", cwd=tmp_path, stdin=subprocess.PIPE)
    process.stdin.write("1 1:1\n")
    process.stdin.flush()
    wait_until(lambda: len(os.listdir(f"/proc/{process.pid}/task")) > 1)  # the thread that reads rows
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert err == "interrupted before there was anything to save: no model is written\n"
    assert os.listdir(tmp_path) == []


@pytest.mark.faults
def test_a_model_that_cannot_be_written_where_it_should_be_is_not_lost(bench, desk, tmp_path):
    (tmp_path / "gone").mkdir()
    elsewhere = ("env", f"TMPDIR={tmp_path}")
    process = bench.start("train", "-", "--out", "gone/m.npz", cwd=tmp_path, prefix=elsewhere, stdin=subprocess.PIPE)
    text = (desk / "data.svm").read_text()
    for _ in range(40):
        process.stdin.write(text)
    (tmp_path / "gone").rmdir()
    _, err = process.communicate(timeout=300)
    assert process.returncode == 1
    said = re.search(r"gone/m.npz cannot be written: No such file or directory; the model is in (\S+)\n", err)
    assert LinearModel.load(Path(said[1])).n_rows == 40 * 9000
    assert f"mv {said[1]} gone/m.npz" in err


@pytest.mark.faults
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGHUP])
def test_score_ended_by_a_signal_leaves_no_file(bench, desk, tmp_path, hangups, sent):
    bench("train", desk / "data.svm", "--out", "m.npz", cwd=tmp_path, exits=0)
    process = bench.start("score", "m.npz", "-", "--out", "scores.txt", cwd=tmp_path, stdin=subprocess.PIPE)
    process.stdin.write("1 1:1\n")
    process.stdin.flush()
    # Once the score is there, it waits for rows; before, an exception may end in a callback while kernels are loaded.
    wait_until(lambda: any(path.stat().st_size for path in tmp_path.iterdir() if path.name != "m.npz"))
    process.send_signal(sent)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert os.listdir(tmp_path) == ["m.npz"]


# A process of little memory of its own: what it starts begins with its size.
PEAK = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
print(status, usage.ru_maxrss / 1024)
"""


@pytest.mark.faults
def test_memory_does_not_grow_with_rows(environment, desk, tmp_path):
    text = (desk / "data.svm").read_bytes()
    peaks = {"train": [], "score": []}
    for times in (2, 60):
        path = tmp_path / f"{times}.svm"
        path.write_bytes(text * times)
        for job in (["train", str(path), "--overwrite", "--out", "m.npz"], ["score", "m.npz", str(path)]):
            done = subprocess.run(
                [sys.executable, "-c", PEAK, sys.executable, "-m", "opauc_bench", *job, "-q"],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                check=True,
                timeout=300,
            )
            status, peak = done.stdout.split()
            assert (status, done.stderr) == ("0", "")
            peaks[job[0]].append(float(peak))
    more = 58 * len(text) / 1e6
    assert more > 40
    assert all(after - before < more / 2 for before, after in peaks.values()), peaks


@pytest.mark.parametrize("name", ["fsauc", "solam"])
def test_sizes_are_those_of_all_files_together(command, tmp_path, name):
    X, y = rows(600)
    X = X.toarray()
    X[300:, 8] = 0.0  # the first file has the largest index
    for file, part in (("both", slice(None)), ("1", slice(300)), ("2", slice(300, None))):
        write(tmp_path / f"{file}.svm", X[part], y[part])
    for out, files in (("whole.npz", ["both.svm"]), ("parts.npz", ["1.svm", "2.svm"])):
        command("train", *files, "-l", name, "--no-tune", "--out", out, "--quiet", cwd=tmp_path, exits=0)
    whole, parts = (LinearModel.load(tmp_path / out) for out in ("whole.npz", "parts.npz"))
    np.testing.assert_array_equal(parts.weights, whole.weights)
