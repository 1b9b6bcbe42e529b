"""Shares of an experiment are disjoint, complete and agreed on, and joining them gives what one run gives."""

import json
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opauc_bench.config import load_experiment
from opauc_bench.errors import ConfigError
from opauc_bench.learners import get_learner
from opauc_bench.plan import Shape, make_columns, make_plan
from opauc_bench.runner.shards import Shard, parse_shard

TEXT = """
title: An experiment in shares
datasets: [wine, breast_cancer]
learners: [uni_log, uni_squ]
grids: {eta: [0.25, 0.5]}
protocol: {trials: 2, folds: 2, inner_folds: 2}
"""
NUMBERS = ("folds.csv", "table.csv", "table.md", "table.html", "table.tex")


@pytest.fixture
def experiment(tmp_path):
    (tmp_path / "shared.yaml").write_text(TEXT)
    return load_experiment(tmp_path / "shared.yaml")


@given(count=st.integers(1, 20), sizes=st.lists(st.integers(10, 10**6), min_size=2, max_size=2))
def test_shares_are_disjoint_complete_even_and_do_not_depend_on_costs(tmp_path_factory, count, sizes):
    path = tmp_path_factory.mktemp("x") / "shared.yaml"
    path.write_text(TEXT)
    experiment = load_experiment(path)
    columns = make_columns(experiment, get_learner)

    def shares(sizes):
        shapes = {name: Shape(n, 5, 1.0, "f") for name, n in zip(experiment.datasets, sizes)}
        tasks = make_plan(experiment, shapes, columns)
        return tasks, [Shard(i, count).choose(tasks, experiment) for i in range(1, count + 1)]

    tasks, parts = shares(sizes)
    names = [{task.label for task in part} for part in parts]
    assert sorted(label for part in names for label in part) == sorted(task.label for task in tasks)
    assert max(map(len, names)) - min(map(len, names)) <= 1
    assert [{task.label for task in part} for part in shares(sizes[::-1])[1]] == names


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "a/b", "1/0", "-1/3", "1/3/5", ""])
def test_what_is_no_share_is_refused(text):
    with pytest.raises(ConfigError, match="expected i/n"):
        parse_shard(text)


def test_joined_shares_are_what_one_run_gives(command, experiment, tmp_path):
    whole = command("run", "shared.yaml", "--jobs", 1, "--out", "whole", cwd=tmp_path)
    assert whole.returncode == 0
    folders = []
    for i in (1, 2, 3):
        assert command("run", "shared.yaml", "--jobs", 1, "--shard", f"{i}/3", cwd=tmp_path).returncode == 0
        folders.append(f"results/shared.shard-{i}-of-3")
    counts = [len(list((tmp_path / folder / "records").rglob("*.json"))) for folder in folders]
    assert sorted(counts) == [5, 5, 6]
    merged = command("merge", "shared.yaml", *folders, cwd=tmp_path)
    assert merged.returncode == 0
    assert "16 records merged" in merged.stderr
    for name in NUMBERS:
        assert (tmp_path / "results/shared" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    again = command("merge", "shared.yaml", *folders, cwd=tmp_path)
    assert "0 records merged into results/shared/, 16 were there" in again.stderr


def test_what_does_not_belong_together_is_not_merged(command, experiment, tmp_path):
    for i in (1, 2):
        command("run", "shared.yaml", "--jobs", 1, "--shard", f"{i}/2", cwd=tmp_path)
    first, second = (tmp_path / f"results/shared.shard-{i}-of-2" for i in (1, 2))

    missing = command("merge", "shared.yaml", tmp_path / "nowhere", cwd=tmp_path)
    assert (missing.returncode, "it has no manifest.json" in missing.stderr) == (1, True)

    (tmp_path / "other.yaml").write_text(TEXT.replace("[0.25, 0.5]", "[0.25]"))
    other = command("merge", "other.yaml", first, second, cwd=tmp_path)
    assert other.returncode == 1
    assert "records that are not of other.yaml: another grid" in other.stderr
    assert not (tmp_path / "results/other/records").exists()

    copy = tmp_path / "copy"
    shutil.copytree(first, copy)
    path = sorted((copy / "records").rglob("*.json"))[0]
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "test_auc": record["test_auc"] / 2}))
    torn = command("merge", "shared.yaml", first, second, copy, cwd=tmp_path)
    assert torn.returncode == 1
    assert "two records of" in torn.stderr
    assert "nothing was merged" in torn.stderr
    assert not (tmp_path / "results/shared/records").exists()

    path.write_text(json.dumps({**record, "status": "error", "message": "lost"}))
    good = command("merge", "shared.yaml", copy, first, second, cwd=tmp_path)
    assert good.returncode == 0
    assert "16 records merged" in good.stderr
    assert json.loads((tmp_path / "results/shared" / path.relative_to(copy)).read_text())["status"] == "ok"

    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["datasets"]["wine"]["fingerprint"] = "0" * 64
    (copy / "manifest.json").write_text(json.dumps(manifest))
    data = command("merge", "shared.yaml", first, copy, "--out", "third", cwd=tmp_path)
    assert data.returncode == 1
    assert "on another wine than" in data.stderr
