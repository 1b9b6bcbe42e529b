"""What is found out about own data while they become arrays: files, labels, means, and the facts of the manifest."""

import numpy as np
import pandas as pd
import pytest

from opauc_bench.data import Sources, load_catalogue, prepare
from opauc_bench.data.entry import Form
from opauc_bench.data.transform import binary_labels
from opauc_bench.errors import DataError


def prepared(tmp_path, entry, note=lambda line: None):
    return prepare(load_catalogue({"mine": entry})["mine"], Sources(tmp_path / "cache", offline=True), note)


def table(tmp_path, frame, note=lambda line: None, **source):
    frame.to_csv(tmp_path / "t.csv", index=False)
    source |= {"csv": str(tmp_path / "t.csv"), "label": "y"}
    return prepared(tmp_path, {"source": source, "scaling": "none", "range": None}, note)


def sparse_rows(tmp_path, rows, **more):
    (tmp_path / "w.svm").write_text("\n".join(rows) + "\n")
    files = [{"name": "w.svm", "urls": [str(tmp_path / "w.svm")]}]
    entry = {"format": "svmlight", "files": files, "title": "t", "positive": [1], "scaling": "none", "range": None}
    return prepared(tmp_path, entry | more)


def test_files_of_equal_names_are_all_read(tmp_path):
    """The third would have had the name of the first."""
    paths = [tmp_path / "2-a.csv", tmp_path / "x" / "a.csv", tmp_path / "y" / "a.csv"]
    for k, path in enumerate(paths):
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"a,y\n{k},0\n{k},1\n")
    source = {"csv": list(map(str, paths)), "label": "y"}
    X = prepared(tmp_path, {"source": source, "scaling": "none", "range": None}).X
    assert np.asarray(X)[:, 0].tolist() == [0, 0, 1, 1, 2, 2]


def test_means_of_columns_with_indicators_are_those_of_all_chunks(tmp_path):
    frame = pd.DataFrame({"a": np.r_[np.full(5000, 1.0), np.full(5000, 3.0)], "y": [0, 1] * 5000})
    frame.loc[[10, 9000], "a"] = np.nan
    X = table(tmp_path, frame, missing="indicator").X
    np.testing.assert_allclose(np.asarray(X)[[10, 9000], 0], frame["a"].mean(), rtol=1e-12)


def test_facts_of_wide_sparse_rows(tmp_path):
    """Features that no row has are 0 and count as such."""
    assert sparse_rows(tmp_path, ["1 1:2 20000:3", "0 5:4"]).manifest["value_range"] == [0.0, 4.0]
    padded = sparse_rows(tmp_path, ["1 1:2 200:3", "0 5:4"], n_features=20_000, n_features_at_most=True)
    assert padded.manifest["density"] == 3 / 40_000


def test_sparse_rows_of_a_dense_dataset_are_copied_in_parts(tmp_path):
    rows = [f"{k % 2} 1:{k + 1} 3:1" for k in range(5000)]
    dataset = sparse_rows(tmp_path, rows, drop_empty=True)
    assert dataset.manifest["storage"] == "dense"
    np.testing.assert_array_equal(np.asarray(dataset.X)[:, 0], np.arange(5000) + 1)


def test_the_largest_class_is_counted_by_row():
    form = Form(format="svmlight_multilabel", files=({"name": "t"},), largest_class=True)
    y, _ = binary_labels(np.array(["3,3,3", "5", "5"]), form)
    assert y.tolist() == [-1, 1, 1]


@pytest.mark.parametrize(("n_labels", "hints"), [(19, False), (20, True)])
def test_many_labels_may_be_the_wrong_column(n_labels, hints):
    form = Form(format="csv", files=({"name": "t"},), positive=("g",))
    with pytest.raises(DataError) as raised:
        binary_labels(np.array([f"l{k}" for k in range(n_labels)]), form)
    assert ("set 'label_column'" in str(raised.value)) == hints


def test_no_note_on_columns_that_are_far_from_0_in_the_first_rows_only(tmp_path):
    said = []
    table(tmp_path, pd.DataFrame({"a": 1e4 + np.arange(400.0) * 10, "y": [0, 1] * 200}), said.append)
    assert not any("times its spread" in line for line in said)


def test_no_note_on_ids_where_categories_come_back(tmp_path):
    said = []
    table(tmp_path, pd.DataFrame({"c": [f"v{k % 150}" for k in range(400)], "y": [0, 1] * 200}), said.append)
    assert not any("is one of them an id" in line for line in said)
