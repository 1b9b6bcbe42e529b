"""A file of sparse rows and its model, for tests of training and scoring."""

import pytest
from streams import rows, write


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A folder with an svmlight file."""
    desk = tmp_path_factory.mktemp("desk")
    write(desk / "data.svm", *rows())
    return desk


@pytest.fixture(scope="module")
def model(invoke, desk):
    """The model of that file."""
    invoke("train", "data.svm", "--learner", "ftrl_auc", "--no-tune", "--out", "model.npz", cwd=desk, exits=0)
    return desk / "model.npz"
