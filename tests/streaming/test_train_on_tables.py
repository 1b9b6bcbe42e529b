"""``train`` and ``score`` on tables, from the outside: the same models as from svmlight text, and what mistakes say."""

import io
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score
from streams import fnv, standard_input, zstd

import opauc_bench
from opauc_bench import load_model
from opauc_bench.data.row_encoder import RowEncoder, scales_of
from opauc_bench.data.schema import BLANKS, Schema, read_names, written_names
from opauc_bench.errors import DataError
from opauc_bench.streaming.model import LinearModel, opened_for_writing

UNTUNED = ("--no-tune", "--learner", "ftrl_auc")
PLAIN = (*UNTUNED, "--quiet")


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    n = 3000
    x = rng.normal(size=(n, 3))
    city = rng.choice(["Bern", "Genf", "Zürich, ZH", 'the "Hague"'], n)
    margin = x @ [1, -1, 0.5] + (city == "Bern") + rng.normal(size=n)
    return pd.DataFrame(
        {
            "age": x[:, 0],
            "size": x[:, 1] * 10,
            "city": city,
            "clicked": np.where(margin > 1.5, "yes", "no"),
            "rate": np.where(rng.random(n) < 0.3, 0.0, x[:, 2]),
        }
    )


@pytest.fixture(scope="module")
def desk(tmp_path_factory, frame):
    desk = tmp_path_factory.mktemp("tables")
    frame.to_csv(desk / "clicks.csv", index=False)
    frame.to_parquet(desk / "clicks.parquet")
    return desk


@pytest.fixture(scope="module")
def model(invoke, desk):
    invoke("train", "clicks.csv", "--label", "clicked", "--out", "model.npz", *PLAIN, cwd=desk, exits=0)
    return desk / "model.npz"


def weights(path):
    return LinearModel.load(path).weights


# ------------------------------------------------------------------------------------------ the same models


@pytest.mark.parametrize("learner", ["ftrl_auc", "adagrad", "opauc", "uni_log"])
@given(data=st.data())
def test_a_table_of_numbers_gives_the_bits_of_svmlight_text_with_median_0_and_unit_scale(
    invoke, tmp_path_factory, learner, data
):
    folder = tmp_path_factory.mktemp("same")
    n = data.draw(st.integers(2, 30))
    number = st.floats(-10, 10).map(lambda x: float(f"{x:.6g}")) | st.just(0.0)
    X = np.array(data.draw(st.lists(st.lists(number, min_size=4, max_size=4), min_size=n, max_size=n)))
    y = np.array(data.draw(st.permutations([k % 2 for k in range(n)])))
    order = data.draw(st.permutations(["a", "b", "c", "d", "y"]))
    table = pd.DataFrame({**{name: X[:, k] for k, name in enumerate("abcd")}, "y": y})[order]
    table.to_csv(folder / "t.csv", index=False, sep=data.draw(st.sampled_from(",;\t")))
    kept = [name for name in order if name != "y"]
    offsets = np.sort(table[kept].to_numpy(), axis=0)[(n - 1) // 2]
    scales = np.array(scales_of(table[kept].to_numpy(), tuple(offsets)))
    lines = [
        f"{label} " + " ".join(f"{j + 1}:{float(v)!r}" for j, v in enumerate(row) if v)
        for label, row in zip(y, (table[kept].to_numpy() - offsets) / scales)
    ]
    (folder / "t.svm").write_text("\n".join(lines) + "\n")
    options = ("--no-tune", "--learner", learner, "--quiet")
    first = invoke("train", "t.csv", "--label", "y", "--out", "csv.npz", *options, cwd=folder)
    second = invoke("train", "t.svm", "--features", 4, "--out", "svm.npz", *options, cwd=folder)
    assert first.returncode == second.returncode, (first.stderr, second.stderr)
    if first.returncode == 0:
        model, centred = (LinearModel.load(folder / name) for name in ("csv.npz", "svm.npz"))
        assert model.weights.tobytes() == (centred.weights / scales).tobytes()
        assert model.intercept == pytest.approx(centred.intercept - model.weights @ offsets, rel=1e-12, abs=1e-9)
        assert list(model.schema.numbers) == kept
        assert (model.schema.offsets, model.schema.scales) == (tuple(offsets), tuple(scales))


@pytest.mark.parametrize("options", [(), ("--missing", "mean"), ("--missing", "indicator"), ("--normalize",)])
def test_columns_far_from_0_are_learnt_like_others(command, frame, tmp_path, options):
    holes = frame.assign(age=np.where((frame.index % 9 == 3) & ("--missing" in options), np.nan, frame["age"]))
    aucs = {}
    for name, shift in (("near", 0.0), ("far", 2000.0)):
        holes.assign(age=holes["age"] + shift).to_csv(tmp_path / f"{name}.csv", index=False)
        arguments = ("--label", "clicked", "--bits", 8, "--out", f"{name}.npz", "-q", *options)
        command("train", f"{name}.csv", *arguments, cwd=tmp_path, exits=0)
        model = LinearModel.load(tmp_path / f"{name}.npz")
        progressive = model.leaderboard[0]["auc"]
        done = command("score", f"{name}.npz", f"{name}.csv", cwd=tmp_path, exits=0)
        aucs[name] = roc_auc_score(holes["clicked"], np.array(done.stdout.split(), dtype=float))
        assert aucs[name] == pytest.approx(progressive, abs=0.03)  # the model scores raw columns as it learnt them
    if "--normalize" in options:  # rows of length 1 as they are: nothing is subtracted
        assert model.schema.offsets == ()
    else:
        assert aucs["far"] == pytest.approx(aucs["near"], abs=0.002)
        assert model.schema.offsets[0] == pytest.approx(2000, abs=1)


def test_offsets_are_the_medians_of_the_first_1000_good_rows(command, frame, tmp_path):
    rows = frame[["age", "rate", "clicked"]].assign(age=frame["age"] + 7, tiny=1e-300)
    rows.to_csv(tmp_path / "t.csv", index=False)
    lines = (tmp_path / "t.csv").read_text().splitlines(keepends=True)
    lines[5:5] = ["x,0,yes,1\n"] * 3
    (tmp_path / "bad.csv").write_text("".join(lines[:400]))
    (tmp_path / "rest.csv").write_text("".join([lines[0], *lines[400:]]))
    options = ("--label", "clicked", "--skip-bad-rows", *PLAIN)
    command("train", "t.csv", *options, "--out", "t.npz", cwd=tmp_path, exits=0)
    command("train", "bad.csv", "rest.csv", *options, "--out", "two.npz", cwd=tmp_path, exits=0)
    one, two = (LinearModel.load(tmp_path / name) for name in ("t.npz", "two.npz"))
    expected = np.sort(rows[["age", "rate"]][:1000].to_numpy(), axis=0)[499]
    assert one.schema.offsets == two.schema.offsets == (*expected, 1e-300)
    assert one.weights.tobytes() == two.weights.tobytes()


@pytest.mark.parametrize("policy", ["mean", "indicator"])
def test_columns_that_begin_late_are_centred_by_their_first_value(command, frame, tmp_path, policy):
    seconds = (1.7e9 + 1e5 * frame["age"]).round()
    late = frame.assign(age=seconds.where(frame.index >= 1500))
    late.to_csv(tmp_path / "late.csv", index=False)
    late[:1400].to_csv(tmp_path / "1.csv", index=False)
    late[1400:].to_csv(tmp_path / "2.csv", index=False)
    frame.assign(age=seconds.where(frame.index != 0)).to_csv(tmp_path / "first.csv", index=False)
    options = ("--label", "clicked", "--missing", policy, "--bits", 8, "-q")
    for name in ("late", "first", "1"):
        command("train", f"{name}.csv", *options, "--out", f"{name}.npz", cwd=tmp_path, exits=0)
    assert LinearModel.load(tmp_path / "1.npz").schema.offsets[0] is None
    command("train", "2.csv", "--continue", "1.npz", "--out", "2.npz", "-q", cwd=tmp_path, exits=0)
    with standard_input((tmp_path / "late.csv").read_bytes()):
        command("train", "-", *options, "--out", "pipe.npz", cwd=tmp_path, exits=0)
    whole = LinearModel.load(tmp_path / "late.npz")
    assert whole.schema.offsets[0] == seconds[1500]
    for name in ("2", "pipe"):
        same = LinearModel.load(tmp_path / f"{name}.npz")
        assert same.weights.tobytes() == whole.weights.tobytes()
        assert (same.intercept, same.schema) == (whole.intercept, whole.schema)
    for name in ("late", "first"):
        scores = command("score", f"{name}.npz", "first.csv", "-q", cwd=tmp_path, exits=0).stdout.split()
        assert roc_auc_score(frame["clicked"][1:], np.array(scores, dtype=float)[1:]) > 0.88


def test_a_note_on_memory(command, frame, tmp_path, monkeypatch):
    monkeypatch.setattr("opauc_bench.streaming.train_notes._MUCH_MEMORY", 1e8)
    frame[:200].to_csv(tmp_path / "t.csv", index=False)
    options = ("--label", "clicked", "--bits", 16, "--out")
    done = command("train", "t.csv", *options, "m.npz", cwd=tmp_path, exits=0)
    assert re.search(r"^note: 34 settings of 65,5\d\d features take up to \d+ GB of memory; ", done.stderr, re.M)
    assert "less with fewer --bits, --small, --no-tune\n" in done.stderr
    done = command("train", "t.csv", *options, "n.npz", "--no-tune", cwd=tmp_path, exits=0)
    assert "memory" not in done.stderr


def test_a_header_without_rows(command, tmp_path):
    (tmp_path / "t.csv").write_text("age,clicked\n")
    for positive in ([], ["--positive", "yes"]):
        done = command("train", "t.csv", "--label", "clicked", *positive, "--out", "m.npz", cwd=tmp_path, exits=3)
        assert "error: t.csv: expected rows of two labels, got no rows\n" in done.stderr


def test_a_note_on_values_far_from_the_others(command, frame, tmp_path):
    frame.assign(age=frame["age"].where(frame.index % 100 != 7, 9999)).to_csv(tmp_path / "t.csv", index=False)
    done = command("train", "t.csv", "--label", "clicked", "--out", "m.npz", *UNTUNED, cwd=tmp_path, exits=0)
    assert "note: values far from the others in 'age': 9999, where the median is " in done.stderr
    assert "(first t.csv:9); " in done.stderr
    late = frame.assign(age=frame["age"].where(frame.index != len(frame) - 1, -1e9))
    late.to_csv(tmp_path / "t.csv", index=False)
    done = command("train", "t.csv", "--label", "clicked", "--out", "late.npz", *UNTUNED, cwd=tmp_path, exits=0)
    assert "note: values far from the others in 'age': -1e+09, where the median is " in done.stderr
    assert f"(first t.csv:{len(frame) + 1}); " in done.stderr


def test_a_note_on_scores_that_drift(command, frame, tmp_path):
    frame.assign(time=1.7e9 + 7 * np.arange(len(frame))).to_csv(tmp_path / "t.csv", index=False)
    options = ("--label", "clicked", "--drop", "city", "--out")
    drifts = command("train", "t.csv", *options, "m.npz", "-l", "oam_seq", cwd=tmp_path, exits=0).stderr
    assert re.search(r"^note: the AUC is \.\d{4} among rows of the same time, and \.\d{4} among all", drifts, re.M)
    assert "note: column 'time' leaves the range of the first rows in 67% of all rows" in drifts
    good = command("train", "t.csv", *options, "n.npz", "-l", "oam_seq", "--drop", "time", cwd=tmp_path, exits=0).stderr
    assert "drift" not in good
    assert "leaves the range" not in good


def test_a_note_on_categories_that_share_features(command, frame, tmp_path):
    frame.to_csv(tmp_path / "t.csv", index=False)
    for bits, noted in ((4, True), (6, False)):
        options = ("--label", "clicked", "--bits", bits, "--out", f"{bits}.npz")
        done = command("train", "t.csv", *options, cwd=tmp_path, exits=0)
        assert ("note: categories take" in done.stderr) == noted
    assert re.search(
        r"take [34] of 16 features, .* another; --bits [56] has",
        command("train", "t.csv", "--label", "clicked", "--bits", 4, "--out", "n.npz", cwd=tmp_path, exits=0).stderr,
    )


def test_a_note_on_columns_of_ids(command, frame, tmp_path):
    days = pd.date_range("2020-01-01", periods=len(frame)).strftime("%Y-%m-%d")
    frame.assign(id=[f"u{k:x}" for k in range(len(frame))], when=days).to_csv(tmp_path / "t.csv", index=False)
    options = ("--label", "clicked", "--bits", 15, *UNTUNED, "--out")
    said = command("train", "t.csv", *options, "m.npz", cwd=tmp_path, exits=0).stderr
    assert "note: columns 'id', 'when' have another value in most rows, as an id or a date: such values" in said
    assert "; --drop id,when leaves them out\n" in said
    assert "--bits" not in said
    said = command("train", "t.csv", *options, "n.npz", "--drop", "id,when", cwd=tmp_path, exits=0).stderr
    assert "another value" not in said
    users = frame.assign(user=[f"u{k % 900}" for k in range(len(frame))])
    users.to_csv(tmp_path / "t.csv", index=False)
    users[:600].assign(user=[f"u{k}" for k in range(600)]).to_csv(tmp_path / "later.csv", index=False)
    for arguments in (("t.csv", *options, "u.npz"), ("later.csv", "--continue", "u.npz", "--out", "v.npz")):
        assert "another value" not in command("train", *arguments, cwd=tmp_path, exits=0).stderr


def test_a_note_on_a_column_that_begins_with_a_marker(command, frame, tmp_path):
    frame.assign(size=frame["size"].astype(str).where(frame.index % 20 > 0, "-")).to_csv(
        tmp_path / "t.csv", index=False
    )
    options = ("--label", "clicked", *UNTUNED, "--out")
    noted = command("train", "t.csv", *options, "m.npz", cwd=tmp_path, exits=0).stderr
    assert "note: column 'size' of t.csv has categories, as it begins with '-', but most of its values are" in noted
    named = command("train", "t.csv", *options, "n.npz", "--categorical", "size", cwd=tmp_path, exits=0)
    assert "begins with" not in named.stderr


def test_a_note_on_rows_that_are_sorted_by_label(command, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20_000, 3)), np.zeros(20_000, dtype=int)
    y[-9_000:] = 1
    y[-9_000::60] = 0
    pd.DataFrame({"a": X[:, 0] + y, "b": X[:, 1], "y": y}).to_csv(tmp_path / "s.csv", index=False)
    noted = command("train", "s.csv", "--label", "y", "--out", "s.npz", cwd=tmp_path, exits=0).stderr
    assert re.search(r"note: \S+ % of the last 1\S+ rows have the label 0 and 55.8 % of all: probabilities are", noted)


def test_one_value_far_from_all_others_spoils_no_score(command, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((24_000, 3))
    y = (rng.random(24_000) < 1 / (1 + np.exp(-2 * X[:, 0]))).astype(int)
    X[16_000, 1] = 1e30
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y)
    table[:20_000].to_csv(tmp_path / "t.csv", index=False)
    table[20_000:].to_csv(tmp_path / "new.csv", index=False)
    command("train", "t.csv", "--label", "y", "--out", "m.npz", cwd=tmp_path, exits=0)
    scored = command("score", "m.npz", "new.csv", "--probability", cwd=tmp_path, exits=0)
    p = np.array(scored.stdout.split(), dtype=float)
    assert roc_auc_score(y[20_000:], p) > 0.8
    assert np.mean((p - y[20_000:]) ** 2) < 0.19
    predicted = p > 0.5
    assert 0.3 < predicted.mean() < 0.7


def test_after_many_rows_a_bad_one_does_not_discard_the_model(command, frame, tmp_path):
    many = pd.concat([frame[["age", "size", "clicked"]]] * 40)
    (tmp_path / "t.csv").write_text(many.to_csv(index=False) + "1,2\n")
    done = command("train", "t.csv", "--label", "clicked", "--out", "m.npz", *PLAIN, cwd=tmp_path, exits=3)
    assert "t.csv:120002: expected 3 columns, got 2" in done.stderr
    assert not (tmp_path / "m.npz").exists()
    partial = LinearModel.load(tmp_path / "m.partial.npz")
    assert f"the model of the first {partial.n_rows:,} rows is in m.partial.npz" in done.stderr
    assert f"--continue goes on with it and the rows from row {partial.n_rows + 1:,} on" in done.stderr
    assert not partial.complete
    assert 100_000 <= partial.n_rows <= 120_000
    kept = (tmp_path / "m.partial.npz").read_bytes()
    done = command("train", "t.csv", "--label", "clicked", "--out", "m.npz", *PLAIN, cwd=tmp_path, exits=3)
    assert "rows is in m.partial-2.npz" in done.stderr
    assert (tmp_path / "m.partial.npz").read_bytes() == kept
    (tmp_path / "short.csv").write_text("age,size,clicked\n1,2,yes\n2,1,no\n1,2\n")
    command("train", "short.csv", "--label", "clicked", "--out", "s.npz", *PLAIN, cwd=tmp_path, exits=3)
    assert not list(tmp_path.glob("s*.npz"))


def test_every_way_to_the_same_rows_gives_the_same_model(command, desk, model, frame, tmp_path):
    text = (desk / "clicks.csv").read_bytes()
    half = text.index(b"\n", len(text) // 2) + 1
    head = text[: text.index(b"\n") + 1]
    (tmp_path / "a.csv.zst").write_bytes(zstd(text[:half]))
    (tmp_path / "b.tsv").write_bytes(b"")
    frame[text[:half].count(b"\n") - 1 :].to_csv(tmp_path / "b.tsv", index=False, sep="\t")
    (tmp_path / "c.txt").write_bytes(head + text[half:])
    pa.ipc.new_stream(tmp_path / "s.arrow", pa.Table.from_pandas(frame).schema).close()
    with pa.ipc.new_stream(tmp_path / "s.arrow", pa.Table.from_pandas(frame).schema) as sink:
        sink.write_table(pa.Table.from_pandas(frame), max_chunksize=700)
    expected = weights(model).tobytes()
    for number, files in enumerate(
        [["a.csv.zst", "b.tsv"], [desk / "clicks.parquet"], ["s.arrow"], ["a.csv.zst", "c.txt", "--format", "csv"]]
    ):
        done = command("train", *files, "--label", "clicked", "--out", f"{number}.npz", *PLAIN, cwd=tmp_path, exits=0)
        assert weights(tmp_path / f"{number}.npz").tobytes() == expected, files
    for number, content in enumerate([text, zstd(text)], 10):
        with standard_input(content):
            done = command("train", "-", "--label", "clicked", "--out", f"{number}.npz", *PLAIN, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert weights(tmp_path / f"{number}.npz").tobytes() == expected


# ------------------------------------------------------------------------------------------ what they print


def test_train_says_what_the_columns_are(command, desk, tmp_path):
    done = command(
        *("train", desk / "clicks.csv", "--label", "clicked", "--positive", "no", "--drop", "age,size"),
        *("--bits", 10, "--out", "m.npz", "--no-tune", "--learner", "ftrl_auc"),
        cwd=tmp_path,
        exits=0,
    )
    assert "\ncolumns   1 of numbers, 1 of categories (2^10 features); missing values: error\n" in done.stdout
    assert re.search(r"^labels +[\d.]+ % no \(positive\), the others yes$", done.stdout, re.M)
    model = LinearModel.load(tmp_path / "m.npz")
    assert model.classes == ("yes", "no")
    schema = model.schema
    assert schema.dropped == ("age", "size")
    assert set(np.flatnonzero(model.weights)) == {0} | {
        1 + fnv("city", name, schema.bits) for name in ("Bern", "Genf", "Zürich, ZH", 'the "Hague"')
    }


def test_tuning_takes_tables(command, desk, tmp_path):
    done = command("train", desk / "clicks.csv", "--label", "clicked", "--out", "m.npz", cwd=tmp_path, exits=0)
    assert "\ncolumns   3 of numbers, 1 of categories (2^18 features)" in done.stdout
    assert float(re.search(r"^AUC +(\.\d+)", done.stdout, re.M)[1]) > 0.8


def test_scores_are_by_the_names_of_columns(command, desk, model, frame, tmp_path):
    expected = command("score", model, desk / "clicks.csv", cwd=tmp_path)
    scores = [float(line) for line in expected.stdout.split()]
    said = roc_auc_score(frame["clicked"] == "yes", scores)
    assert expected.stderr.splitlines() == [
        f"3,000 rows of {desk / 'clicks.csv'} scored",
        f"AUC {said:.4f}, exact over all rows".replace("0.", "."),
    ]
    frame[["city", "rate", "clicked", "size", "age"]].to_parquet(tmp_path / "other.parquet")
    assert command("score", model, "other.parquet", "--quiet", cwd=tmp_path).stdout == expected.stdout
    more = frame.drop(columns="clicked").assign(comment="new", weight=1)
    more.to_csv(tmp_path / "more.csv", index=False)
    done = command("score", model, "more.csv", cwd=tmp_path)
    assert done.stdout == expected.stdout
    assert done.stderr.splitlines() == [
        "3,000 rows of more.csv scored",
        "note: columns of more.csv that are not features are ignored: 'comment', 'weight'",
    ]
    more.iloc[:1000].to_csv(tmp_path / "first.csv", index=False)
    more.iloc[1000:].to_csv(tmp_path / "rest.csv.gz", index=False)
    assert command("score", model, "first.csv", "rest.csv.gz", "-q", cwd=tmp_path).stdout == expected.stdout
    with standard_input((tmp_path / "more.csv").read_bytes()):
        assert command("score", model, "-", "-q", cwd=tmp_path).stdout == expected.stdout


def test_labels_of_other_kinds_give_no_auc(command, model, frame, tmp_path):
    frame.assign(clicked=1).to_csv(tmp_path / "numbers.csv", index=False)
    done = command("score", model, "numbers.csv", cwd=tmp_path)
    assert "no AUC: 3,000 rows have labels other than no and yes (first: 1 at numbers.csv:2)" in done.stderr
    for name, value in (("gap", None), ("other", "maybe")):
        clicked = np.where(np.arange(3000) == 7, value, frame["clicked"])
        frame.assign(clicked=clicked).to_csv(tmp_path / f"{name}.csv", index=False)
    done = command("score", model, "gap.csv", cwd=tmp_path)
    assert len(done.stdout.split()) == 3000
    assert re.search(r"^AUC \.\d{4}, exact over the 2,999 rows with labels$", done.stderr, re.M)
    done = command("score", model, "other.csv", cwd=tmp_path)
    assert "no AUC: 1 row has a label other than no and yes (first: maybe at other.csv:9)" in done.stderr


def test_score_names_the_number_of_rows_with_labels(command, frame, model, tmp_path):
    frame[:300].to_csv(tmp_path / "labelled.csv", index=False)
    frame[300:500].drop(columns="clicked").to_csv(tmp_path / "others.csv", index=False)
    one, two = (
        command("score", model, *files, cwd=tmp_path, exits=0).stderr.splitlines()
        for files in (["labelled.csv"], ["labelled.csv", "others.csv"])
    )
    assert one[1].endswith("exact over all rows")
    assert two == [
        "500 rows of 2 files from labelled.csv scored",
        one[1].replace("all rows", "the 300 rows with labels"),
    ]


def test_labels_of_text_for_a_model_whose_labels_are_numbers(command, frame, tmp_path):
    rows = frame[["age", "clicked"]][:300].assign(clicked=(frame["clicked"] == "yes").astype(int))
    rows.to_csv(tmp_path / "t.csv", index=False)
    command("train", "t.csv", "--label", "clicked", "--out", "m.npz", *PLAIN, cwd=tmp_path, exits=0)
    auc = command("score", "m.npz", "t.csv", cwd=tmp_path).stderr.splitlines()[1]
    assert re.fullmatch(r"AUC \.\d{4}, exact over all rows", auc)
    rows.astype({"clicked": str}).to_parquet(tmp_path / "text.parquet")
    assert command("score", "m.npz", "text.parquet", cwd=tmp_path).stderr.splitlines()[1] == auc
    words = rows["clicked"].map(["no", "yes"].__getitem__)
    rows.assign(clicked=words).to_parquet(tmp_path / "words.parquet")
    rows.assign(clicked=words).to_csv(tmp_path / "words.csv", index=False)
    rows.assign(clicked=np.where(rows.index == 3, np.inf, rows["clicked"])).to_parquet(tmp_path / "inf.parquet")
    rows.assign(clicked=None).to_csv(tmp_path / "gaps.csv", index=False)
    for file, n, first in [
        ("words.parquet", "300 rows have labels", f"{words[0]} at words.parquet, row 1"),
        ("words.csv", "300 rows have labels", f"{words[0]} at words.csv:2"),
        ("inf.parquet", "1 row has a label", "inf at inf.parquet, row 4"),
    ]:
        done = command("score", "m.npz", file, cwd=tmp_path)
        assert done.stderr.splitlines()[1] == f"no AUC: {n} other than 0 and 1 (first: {first})"
    done = command("score", "m.npz", "gaps.csv", cwd=tmp_path)
    assert done.stderr.splitlines() == ["300 rows of gaps.csv scored"]
    rows.assign(clicked=rows["clicked"].where(rows.index >= 50)).to_csv(tmp_path / "some.csv", index=False)
    done = command("score", "m.npz", "some.csv", cwd=tmp_path)
    assert re.fullmatch(r"AUC \.\d{4}, exact over the 250 rows with labels", done.stderr.splitlines()[1])
    rows.assign(clicked=pd.Timestamp("2024-01-01")).to_parquet(tmp_path / "times.parquet")
    done = command("score", "m.npz", "times.parquet", cwd=tmp_path)
    assert "note: column 'clicked' of times.parquet has no labels: they are numbers or text, and it ha" in done.stderr


def test_missing_values_are_part_of_the_model(command, frame, tmp_path):
    holes = frame[["age", "city", "clicked"]].copy()
    holes.loc[holes.index % 5 == 3, "age"] = np.nan
    holes.loc[holes.index % 7 == 3, "city"] = None
    holes.to_csv(tmp_path / "t.csv", index=False)
    done = command("train", "t.csv", "--label", "clicked", "--out", "m.npz", *PLAIN, cwd=tmp_path, exits=3)
    assert "error: t.csv:5: column 'age': expected a value, got nothing\n" in done.stderr
    assert "--missing mean" in done.stderr
    for policy in ("mean", "indicator"):
        done = command(
            *("train", "t.csv", "--label", "clicked", "--missing", policy, "--out", f"{policy}.npz", *PLAIN),
            cwd=tmp_path,
            exits=0,
        )
    mean, indicator = (LinearModel.load(tmp_path / f"{policy}.npz") for policy in ("mean", "indicator"))
    assert mean.schema.means == (pytest.approx(holes["age"].mean(), rel=1e-12),)
    (tmp_path / "new.csv").write_text("age,city\n,\n")
    (score,) = command("score", "mean.npz", "new.csv", "-q", cwd=tmp_path).stdout.split()
    assert float(score) == pytest.approx(mean.weights[0] * holes["age"].mean() + mean.intercept)
    (score,) = command("score", "indicator.npz", "new.csv", "-q", cwd=tmp_path).stdout.split()
    empty = 2 + fnv("city", "", indicator.schema.bits)
    at_offset = indicator.weights[0] * indicator.schema.offsets[0]
    assert float(score) == pytest.approx(at_offset + indicator.weights[[1, empty]].sum() + indicator.intercept)


def test_bad_rows_are_left_out_and_counted(command, desk, model, tmp_path):
    lines = (desk / "clicks.csv").read_text().splitlines(keepends=True)
    lines[10:10] = ["oops,1,Bern,yes,1\n", "1,2\n"]
    lines.append("nan,1,Bern,no,inf\n")
    (tmp_path / "t.csv").write_text("".join(lines))
    done = command("train", "t.csv", "--label", "clicked", "--out", "m.npz", *PLAIN, cwd=tmp_path, exits=3)
    assert "error: t.csv:11: column 'age': expected a number, got 'oops'\n" in done.stderr
    assert not (tmp_path / "m.npz").exists()
    done = command(
        "train", "t.csv", "--label", "clicked", "--skip-bad-rows", "--out", "m.npz", *PLAIN[:-1], cwd=tmp_path, exits=0
    )
    first = "t.csv:11: column 'age': expected a number, got 'oops'"
    assert f"note: 3 bad rows left out; the first: {first}\n" in done.stderr
    assert weights(tmp_path / "m.npz").tobytes() == weights(model).tobytes()


def test_bad_rows_have_the_score_nan(command, desk, model, tmp_path):
    expected = command("score", model, desk / "clicks.csv", cwd=tmp_path)
    scores = expected.stdout.splitlines()
    lines = (desk / "clicks.csv").read_text().splitlines(keepends=True)
    lines[6:6] = ["1,2\n"]
    lines[3000:3000] = ["1,x,Bern,yes,1\n", ",2,Bern,yes,1\n"]
    (tmp_path / "t.csv").write_text("".join(lines))
    command("score", model, "t.csv", "--out", "scores.txt", cwd=tmp_path, exits=3)
    assert not (tmp_path / "scores.txt").exists()
    done = command("score", model, "t.csv", "--skip-bad-rows", cwd=tmp_path, exits=0)
    scores[5:5], scores[2999:2999] = ["nan"], ["nan", "nan"]
    assert done.stdout.splitlines() == scores
    auc = expected.stderr.splitlines()[1].replace("all rows", "the 3,000 rows with scores")
    note = "note: 3 bad rows without a score (nan); the first: t.csv:7: expected 5 columns, got 2"
    assert done.stderr.splitlines() == ["3,000 rows of t.csv scored", auc, note]
    lines = ["1 1:1", "1 x:1", "0 2:1", "0 1:1 1:1", "nan 1:1"]
    (tmp_path / "good.svm").write_text("1 1:1\n0 2:1\n" * 20)
    (tmp_path / "t.svm").write_text("\n".join(lines))
    command("train", "good.svm", "--out", "m.npz", *PLAIN, cwd=tmp_path, exits=0)
    done = command("score", "m.npz", "t.svm", "--skip-bad-rows", cwd=tmp_path)
    assert [line == "nan" for line in done.stdout.splitlines()] == [False, True, False, True, True]
    assert "2 rows of t.svm scored\nAUC 1.0000, exact over the 2 rows with scores" in done.stderr
    assert "note: 3 bad rows without a score (nan); the first: t.svm:2: " in done.stderr


def test_an_array_for_a_model_with_categories_is_refused_unless_it_is_encoded(model, frame):
    classifier = opauc_bench.load_model(model)
    for rows in (frame[["age", "city"]].to_numpy(), frame[["age", "size"]].to_numpy()):
        with pytest.raises(ValueError, match=r"expected a DataFrame, .* columns of categories: city$"):
            classifier.predict(rows)
    assert classifier.decision_function(np.zeros((2, classifier.n_features_in_))).shape == (2,)


def test_score_names_columns_whose_categories_are_unknown(command, model, frame, tmp_path):
    rows = frame[:6].assign(city=["bern", "Bern", "bern ", "Bern", "?", "Basel"])
    rows.to_csv(tmp_path / "t.csv", index=False)
    rows.to_parquet(tmp_path / "t.parquet")
    for files, counts in ((["t.csv"], "4 of 6"), (["t.parquet"], "4 of 6"), (["t.csv", "t.parquet"], "8 of 12")):
        done = command("score", model, *files, cwd=tmp_path, exits=0)
        note = f"column 'city': {counts} values did not occur in the training and are ignored; the first: 'bern'"
        assert done.stderr.splitlines()[2:] == [f"note: {note}"]
    assert command("score", model, "t.csv", "--quiet", cwd=tmp_path, exits=0).stderr == ""


def test_unknown_categories_are_not_counted_unless_all_names_are_kept():
    names = tuple((position, f"city={position}") for position in range(5000))
    for known, expected in ((names[:-1], ["city", "kind"]), (names, ["kind"])):
        encoder = RowEncoder(Schema("y", (), ("city", "kind"), names=(*known, (7000, "kind=a"))))
        encoder.count_unknown(np.array([[5, 7000], [20_000, 6000]]), lambda row, column: f"{column} of row {row}")
        sentences = encoder.unknown_categories()
        assert [one.partition(":")[0] for one in sentences] == [f"column {name!r}" for name in expected]
        assert all(": 1 of 2 values did not occur" in one and " of row 1'" in one for one in sentences)
    many = [f"c{k}" for k in range(30)]
    encoder = RowEncoder(Schema("y", (), tuple(many)))
    encoder.learn_names(np.arange(1500)[:, None] + 2000 * np.arange(30), lambda row, column: f"{row}")
    learnt = encoder.schema(encoder.statistics()).names
    assert len(learnt) == 30 * 1000, "a thousand of each column"
    assert RowEncoder(Schema("y", (), tuple(many), names=learnt))._has_all_names.sum() == 0


def test_bad_lines_of_svmlight_are_left_out_as_well(command, tmp_path):
    good = [f"{k % 2} 1:{k} {2 + k % 3}:1\n" for k in range(10_000)]
    (tmp_path / "good.svm").write_text("".join(good))
    bad = [*good[:5000], "1 2:x\n", "1 3:1 2:1\n", *good[5000:], "0 1:nan\n"]
    (tmp_path / "bad.svm").write_text("".join(bad))
    done = command("train", "bad.svm", "--out", "bad.npz", cwd=tmp_path, exits=3)
    assert "try: --skip-bad-rows leaves such rows out" in done.stderr
    command("train", "good.svm", "--out", "good.npz", *PLAIN, cwd=tmp_path, exits=0)
    done = command("train", "bad.svm", "--out", "bad.npz", "--skip-bad-rows", *PLAIN[:-1], cwd=tmp_path, exits=0)
    assert (
        "note: 3 bad rows left out; the first: bad.svm:5001: expected the value of feature 2 to be a number"
        in done.stderr
    )
    assert weights(tmp_path / "bad.npz").tobytes() == weights(tmp_path / "good.npz").tobytes()
    (tmp_path / "zero.svm").write_text("1 0:1\n0 1:1\n")
    done = command("train", "zero.svm", "--out", "z.npz", "--skip-bad-rows", cwd=tmp_path, exits=3)
    assert "--zero-based" in done.stderr


# ------------------------------------------------------------------------------------------ using a model


def test_training_goes_on_with_tables(command, frame, tmp_path):
    holes = frame.copy()
    holes.loc[holes.index % 4 == 1, "age"] = np.nan
    holes.to_csv(tmp_path / "all.csv", index=False)
    holes[:1700].to_csv(tmp_path / "monday.csv", index=False)
    holes[1700:].drop(columns="clicked").assign(clicked=holes["clicked"]).to_parquet(tmp_path / "tuesday.parquet")
    options = ("--label", "clicked", "--missing", "mean", "--bits", 10, "--quiet")
    command("train", "all.csv", *options, "--out", "all.npz", cwd=tmp_path, exits=0)
    command("train", "monday.csv", *options, "--out", "monday.npz", cwd=tmp_path, exits=0)
    more = ("train", "tuesday.parquet", "--continue", "monday.npz", "--out", "both.npz")
    command(*more, "-q", cwd=tmp_path, exits=0)
    whole, both = (LinearModel.load(tmp_path / name) for name in ("all.npz", "both.npz"))
    assert whole.weights.tobytes() == both.weights.tobytes()
    assert whole.schema == both.schema
    assert whole.classes == both.classes == ("no", "yes")
    for contradicting, message in [
        (("--label", "city"), "--label city with --continue: monday.npz was trained with --label clicked"),
        (("--drop", "age"), "--drop age with --continue: monday.npz was trained with no --drop"),
        (("--missing", "indicator"), "--missing indicator with --continue: monday.npz was trained with --missing mean"),
        (("--missing", "error"), "--missing error with --continue: monday.npz was trained with --missing mean"),
        (("--bits", 5), "--bits 5 with --continue: monday.npz was trained with --bits 10"),
        (("--bits", 18), "--bits 18 with --continue: monday.npz was trained with --bits 10"),
        (("--positive", "no"), "--positive no with --continue: monday.npz was trained with --positive yes"),
    ]:
        done = command(*more, "--overwrite", *contradicting, cwd=tmp_path, exits=2)
        assert message in done.stderr
    agreeing = ("--label", "clicked", "--missing", "mean", "--bits", 10, "--positive", "yes", "--overwrite", "-q")
    command(*more, *agreeing, cwd=tmp_path, exits=0)
    (tmp_path / "rows.svm").write_text("1 1:1\n0 2:1\n" * 50)
    done = command("train", "rows.svm", "--continue", "monday.npz", "--out", "x.npz", cwd=tmp_path, exits=3)
    assert "rows.svm: expected a table with the columns 'age'" in done.stderr
    command("train", "rows.svm", "--out", "svm.npz", *PLAIN, cwd=tmp_path, exits=0)
    for label in ((), ("--label", "clicked")):
        done = command("train", "all.csv", *label, "--continue", "svm.npz", "--out", "x.npz", cwd=tmp_path, exits=3)
        assert "error: all.csv: expected svmlight text, on which svm.npz was trained, got a table" in done.stderr
        assert "--label" not in done.stderr
    done = command("train", "rows.svm", "--bits", 18, "--continue", "svm.npz", "--out", "x.npz", cwd=tmp_path)
    assert "rows.svm: --bits is for tables, and svm.npz was trained on svmlight text\n  try: leave" in done.stderr
    assert not (tmp_path / "x.npz").exists()


def test_a_model_of_a_table_takes_frames_by_column(command, desk, model, frame):
    scores = [float(line) for line in command("score", model, "clicks.csv", "-q", cwd=desk).stdout.split()]
    classifier = opauc_bench.load_model(model)
    arrow = pa.Table.from_pandas(frame.iloc[::-1, ::-1])
    np.testing.assert_array_equal(classifier.decision_function(arrow)[::-1], classifier.decision_function(frame))
    with pytest.raises(DataError, match="expected a column 'age'") as caught:
        classifier.predict(frame.drop(columns="age"))
    assert caught.value.hint == "the DataFrame needs the columns of the model"
    shuffled = frame[["rate", "city", "clicked", "age", "size"]]
    assert classifier.decision_function(shuffled).tolist() == scores
    assert classifier.predict(shuffled).tolist() == np.where(np.array(scores) > 0, "yes", "no").tolist()
    with pytest.raises(DataError, match="the DataFrame: expected a column 'city'"):
        classifier.predict(frame[["age", "size", "rate"]])
    assert not hasattr(classifier, "feature_names_in_")


def test_model_show_has_the_names_of_columns(command, desk, model, tmp_path):
    shown = command("model", "show", model, cwd=desk).stdout
    assert "columns   3 of numbers, 1 of categories (2^18 features); missing values: error" in shown
    assert re.search(r"^age +\d", shown, re.M)
    assert re.search(r"^city=Bern +\d", shown, re.M)
    assert re.search(r'^city=the "Hague" +-?\d', shown, re.M)
    assert all(len(line) <= 80 for line in shown.splitlines()[1:])
    options = ("--label", "clicked", "--drop", "city", "--out", "numbers.npz", *PLAIN)
    command("train", desk / "clicks.csv", *options, cwd=tmp_path, exits=0)
    assert opauc_bench.load_model(tmp_path / "numbers.npz").feature_names_in_.tolist() == ["age", "size", "rate"]


def test_names_of_columns_with_commas(command, desk, frame, tmp_path):
    odd = {"age": "age, in years", "size": 'the "size", in cm'}
    frame.rename(columns=odd).to_csv(tmp_path / "odd.csv", index=False)
    for number, options in enumerate(
        (
            ("--drop", '"age, in years",  city,"the ""size"", in cm"'),
            ("--drop", '"age, in years"', "--drop", 'city,"the ""size"", in cm"'),
        )
    ):
        out = tmp_path / f"{number}.npz"
        done = command("train", "odd.csv", "--label", "clicked", *options, "--out", out, *PLAIN, cwd=tmp_path, exits=0)
        schema = LinearModel.load(out).schema
        assert schema.numbers == ("rate",)
        assert set(schema.dropped) == {*odd.values(), "city"}
    more = ("train", "odd.csv", "--continue", "0.npz", "-q")
    for number, names in enumerate((schema.dropped, schema.dropped[::-1])):
        agreeing = ("--drop", written_names(names), "--out", f"more{number}.npz")
        command(*more, *agreeing, cwd=tmp_path, exits=0)
    done = command(*more, "--out", "more.npz", "--drop", "city", cwd=tmp_path)
    assert """--drop city with --continue: 0.npz was trained with --drop "age, in years",""" in done.stderr


@pytest.mark.parametrize(
    ("first_lines", "hint"),
    [
        ("sep=;\nage;clicked\n", "remove the first line, 'sep=': the names of the columns have to come first"),
        ("# of May\nage,clicked\n", "remove the first line, '# of May': the names of the columns have to come first"),
        ("17,yes\n", "--label NAME; if these are values, the names of the columns have to be in the line before"),
        (",\n1,yes\n", "--label NAME"),
        ("1 1:.5 2:1\n", "--format svmlight"),
        ("age,yes\n", "--label NAME"),
    ],
)
def test_a_table_without_names_of_columns(command, tmp_path, first_lines, hint):
    (tmp_path / "my.csv").write_text(first_lines + "18,no\n")
    done = command("train", "my.csv", "--out", "none.npz", cwd=tmp_path)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (3, f"  try: {hint}")


@given(
    st.lists(
        st.text('ab ",\n\xa0', min_size=1).map(lambda name: name.strip(BLANKS)).filter(bool), min_size=1, max_size=5
    )
)
def test_written_names_are_read_again(names):
    assert read_names(written_names(names), "--drop") == names


# ------------------------------------------------------------------------------------------ mistakes


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("clicks.csv",), 3, "clicks.csv: expected the name of the column of labels; the columns are 'age', 'size',"),
        (("clicks.csv", "--label", "click"), 3, "expected a column 'click' (did you mean 'clicked'?)"),
        (("clicks.csv", "--label", "clicked", "--drop", "agee"), 3, "expected a column 'agee' (did you mean 'age'?)"),
        (("clicks.csv", "--label", "clicked", "--drop", "clicked"), 3, "clicks.csv: 'clicked' is the label"),
        (("clicks.csv", "--label", "clicked", "--drop", '"age'), 3, "--drop: expected names separated by commas, got"),
        (("clicks.csv", "--label", "clicked", "--weights", "size"), 1, "--weights size: no learner uses weights"),
        (("clicks.csv", "--label", "clicked", "--missing", "drop"), 2, "--missing drop: expected error, mean or indic"),
        (
            ("clicks.csv", "--label", "clicked", "--format", "xls"),
            2,
            "--format xls: expected svmlight, csv, parq",
        ),
        (("clicks.csv", "--label", "clicked", "--features", "9"), 2, "--features is for svmlight text"),
        (("clicks.csv", "--label", "clicked", "--positive", "Yes"), 3, "expected Yes to be one of the labels"),
        (("clicks.csv", "--label", "city"), 3, "expected the labels "),
        (("clicks.csv", "no.csv", "--label", "clicked"), 3, "no.csv: cannot be read"),
        (("-", "-", "--label", "clicked"), 3, "standard input is listed twice"),
        (("rows.svm", "--drop", "a"), 2, "expected a column 'a'"),
        (("rows.svm", "--missing", "mean"), 2, "--missing is for tables"),
        (("rows.svm", "--missing", "error"), 2, "--missing is for tables"),
        (("rows.svm", "--bits", "18"), 2, "--bits is for tables"),
        (("clicks.csv", "--label", "clicked", "--zero-based"), 2, "--zero-based is for svmlight text"),
        (("rows.svm", "--positive", "yes"), 3, "expected yes to be one of the labels (--positive); the labels are num"),
        (("rows.svm", "clicks.csv"), 3, "clicks.csv: expected a svmlight file like the first one, got a table"),
    ],
)
def test_mistakes_of_train(command, desk, arguments, code, message):
    (desk / "rows.svm").write_text("1 1:1\n0 2:1\n")
    if arguments[:3] == ("rows.svm", "--drop", "a"):
        message = "--drop is for tables"
    done = command("train", *arguments, "--out", "none.npz", "--no-tune", "--learner", "ftrl_auc", cwd=desk)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr
    assert not (desk / "none.npz").exists()


def test_a_later_file_without_names_of_columns(command, desk, model, tmp_path):
    (tmp_path / "my.csv").write_text("18,1.5,no\n19,2.5,yes\n")
    for arguments in (("score", model, "my.csv"), ("train", "my.csv", "--continue", model, "--out", "more.npz")):
        done = command(*arguments, cwd=tmp_path, exits=3)
        assert done.stderr.endswith("; if these are values, the names of the columns have to be in the line before\n")


def test_a_positive_label_of_most_rows_is_noted(command, tmp_path):
    (tmp_path / "t.csv").write_text("x,status\n" + "1,ok\n2,ok\n3,fraud\n" * 50)
    options = ("t.csv", "--label", "status", "--out", "m.npz", "--overwrite")
    assert "note: the positive label is 'ok', the later one" in command("train", *options, cwd=tmp_path, exits=0).stderr
    for label in ("fraud", "ok"):
        done = command("train", *options, "--positive", label, cwd=tmp_path, exits=0)
        assert "the positive label is" not in done.stderr


def test_mistakes_of_score(command, desk, model, frame, tmp_path):
    frame.drop(columns="size").to_csv(tmp_path / "less.csv", index=False)
    done = command("score", model, "less.csv", cwd=tmp_path, exits=3)
    assert "less.csv: expected a column 'size'; the columns are 'age', 'city', 'clicked', 'rate'\n" in done.stderr
    (tmp_path / "rows.svm").write_text("1 1:1\n0 2:1\n")
    done = command("score", model, "rows.svm", "--format", "svmlight", cwd=tmp_path)
    assert "rows.svm: expected a table with the columns of the model, got svmlight text" in done.stderr
    for arguments in (("score", model, "rows.svm"), ("train", "rows.svm", "--continue", model, "--out", "more.npz")):
        done = command(*arguments, cwd=tmp_path, exits=3)
        told = "rows.svm: expected a table with the columns 'age', 'size', 'rate', 'city', got svmlight text"
        assert told in done.stderr
    command("train", "rows.svm", "--out", "svm.npz", *PLAIN, cwd=tmp_path, exits=0)
    done = command("score", "svm.npz", desk / "clicks.csv", cwd=tmp_path, exits=3)
    assert "expected svmlight text, on which svm.npz was trained, got a table" in done.stderr
    frame.to_parquet(buffer := io.BytesIO())
    with standard_input(buffer.getvalue()):
        done = command("score", model, "-", cwd=tmp_path)
    assert done.returncode == 3
    assert "standard input: a Parquet file cannot be read from a pipe" in done.stderr


def test_scores_go_to_a_pipe_and_not_over_what_is_read(command, desk, model, tmp_path):
    shutil.copy(model, tmp_path / "m.npz")
    shutil.copy(desk / "clicks.csv", tmp_path / "t.csv")
    for out in ("m.npz", "t.csv"):
        before = (tmp_path / out).read_bytes()
        done = command("score", "m.npz", "t.csv", "--out", out, "--overwrite", cwd=tmp_path, exits=1)
        assert f"{out} is an input file" in done.stderr
        assert (tmp_path / out).read_bytes() == before
    reader, writer = os.pipe()  # a shell gives one by such a name: --out >(gzip > scores.gz)
    with opened_for_writing(Path(f"/dev/fd/{writer}")) as file:
        file.write(b"0.5\n")
    os.close(writer)
    with open(reader, "rb") as file:
        assert file.read() == b"0.5\n"


def test_hints_name_options_that_the_command_has(command, desk, model, frame, tmp_path):
    frame.assign(age=np.where(np.arange(len(frame)) == 4, None, frame["age"])).to_csv(tmp_path / "t.csv", index=False)
    done = command("score", model, "t.csv", cwd=tmp_path)
    assert "column 'age': expected a value, got nothing\n  try: --skip-bad-rows prints nan" in done.stderr
    assert "--missing" not in done.stderr
    done = command("train", "t.csv", "--continue", model, "--out", "m.npz", cwd=tmp_path)
    assert done.stderr.endswith(
        "column 'age': expected a value, got nothing\n  try: --skip-bad-rows leaves such rows out\n"
    )
    frame.assign(clicked=np.where(np.arange(len(frame)) == 4, None, frame["clicked"])).to_csv(tmp_path / "t.csv")
    done = command("train", "t.csv", "--label", "clicked", "--out", "m.npz", cwd=tmp_path)
    assert "column 'clicked': expected a value, got nothing\n  try: --skip-bad-rows leaves" in done.stderr
    with pytest.raises(DataError) as raised:
        load_model(model).decision_function(frame.assign(age=frame["city"]))
    assert raised.value.hint == ""


def test_a_damaged_schema_is_refused(command, desk, model, tmp_path):
    import json

    with np.load(model) as archive:
        arrays = dict(archive)
    about = json.loads(arrays["about"].item())
    for changes in ({"bits": 5}, {"numbers": 3}, {"missing": "mean"}):
        about_changed = about | {"schema": about["schema"] | changes}
        np.savez(tmp_path / "m.npz", **(arrays | {"about": np.array(json.dumps(about_changed))}))
        done = command("score", "m.npz", desk / "clicks.csv", cwd=tmp_path, exits=3)
        assert "error: m.npz: " in done.stderr


def test_no_row_to_go_on_from_is_named_where_bad_rows_were_left_out(command, tmp_path, monkeypatch):
    """They count in the file and not in the model."""
    monkeypatch.setattr("opauc_bench.streaming.train._ROWS_TO_KEEP", 100)
    (tmp_path / "a.csv").write_text("x,y\n1,0\nbad,1\n2,1\n" + "1,0\n2,1\n" * 599)
    (tmp_path / "b.csv").write_text("z,y\n1,0\n")
    options = ("--label", "y", "--out", "m.npz", "--skip-bad-rows", *PLAIN)
    done = command("train", "a.csv", "b.csv", *options, cwd=tmp_path, exits=3)
    assert "the model of the first 1,200 rows is in m.partial.npz; --continue goes on with it\n" in done.stderr
