"""Folders with the experiments of `runs`, before and after a run."""

import shutil

import pytest
from command_line import Command
from folders import contents
from runs import FAILING, KILLING, LEARNERS, PAUSED, QUICK, leftovers

from opauc_bench.runner.execute import LocalExecutor


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with the learners and the experiments; results go beside them."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "mine.py").write_text(LEARNERS)
    for name, text in {"paused": PAUSED, "failing": FAILING, "killing": KILLING, "quick": QUICK}.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


@pytest.fixture
def desk(place, tmp_path):
    """Return a folder of a test's own with the learners and the quick experiment."""
    for name in ("mine.py", "quick.yaml"):
        shutil.copy(place / name, tmp_path / name)
    return tmp_path


@pytest.fixture(scope="module")
def undisturbed(environment, place):
    """Return the folder of a run with two workers that is not disturbed."""
    done = Command(environment, processes=True)(
        "run", "paused.yaml", "--offline", "--jobs", 2, "--out", "undisturbed", cwd=place
    )
    assert done.returncode == 0, done.stderr
    assert len(contents(place / "undisturbed")) == 24
    assert leftovers(place / "undisturbed") == []
    return place / "undisturbed"


@pytest.fixture
def folder(desk, command):
    """Return the results of the quick experiment."""
    command("run", "quick.yaml", "--offline", "--jobs", 2, cwd=desk, exits=0)
    return desk / "results" / "quick"


@pytest.fixture
def idle(monkeypatch):
    """Make every computation an error."""

    def refuse(self, tasks, config):
        raise AssertionError(f"nothing was to be computed, but {len(tasks)} tasks were")

    def forbid():
        monkeypatch.setattr(LocalExecutor, "run", refuse)

    return forbid
