"""Files of models: saved and loaded unchanged, and refused where they are damaged."""

import json
import pickle
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from streams import a_model

from opauc_bench.errors import DataError
from opauc_bench.streaming.model import LinearModel


@pytest.mark.parametrize("weights", [[1.0, -2.0, 3.0], [0.0] * 50 + [0.1 + 0.2], [0.0]])
def test_saved_model_loads_unchanged(tmp_path, weights):
    model = a_model(weights)
    model.save(tmp_path / "m.npz")
    back = LinearModel.load(tmp_path / "m.npz")
    np.testing.assert_array_equal(back.weights, model.weights)
    assert {**vars(back), "weights": 0} == {**vars(model), "weights": 0}


def test_mostly_zeros_take_little_room(tmp_path):
    a_model(np.r_[np.zeros(100_000), 1.0]).save(tmp_path / "m.npz")
    assert (tmp_path / "m.npz").stat().st_size < 5000
    with np.load(tmp_path / "m.npz", allow_pickle=False) as archive:
        assert sorted(archive.files) == ["about", "indices", "values"]


def test_features_unknown_to_a_model_are_ignored():
    X = sparse.csr_matrix([[1.0, 2.0, 0.0, 4.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]])
    scores, strange = a_model([1.0, 10.0]).scores(X)
    assert scores.tolist() == [20.5, 0.5, -0.5, -0.5]
    assert strange == 2
    assert a_model(np.ones(9)).scores(X)[1] == 0


class Bomb:
    """What runs code when it is unpickled."""

    def __reduce__(self):
        return pytest.fail, ("a pickle was opened",)


def tampered(path, **changes):
    """Write a model with entries replaced, or (None) left out."""
    a_model([1.0, 2.0]).save(path)
    with np.load(path) as archive:
        entries = dict(archive)
    about = json.loads(entries["about"].item())
    for name, value in changes.items():
        if name in about or name == "more":
            about[name] = value
        else:
            entries[name] = value
    entries = {name: array for name, array in entries.items() if array is not None}
    if "about" in entries and "about" not in changes:
        entries["about"] = np.array(json.dumps(about))
    np.savez(path, **entries)
    return path


TAMPERED = {
    "no description": ({"about": None}, "no entry 'about'"),
    "a description that is not text": ({"about": np.arange(3)}, "describes something else"),
    "a description that is not JSON": ({"about": np.array("{")}, "is not a model, or it is damaged"),
    "a list as a description": ({"about": np.array("[1]")}, "describes something else"),
    "another format": ({"format": "something"}, "describes something else"),
    "a later format": ({"format_version": 3}, "expected version 2 of the format, got 3"),
    "an entry too many": ({"more": 1}, "expected other entries"),
    "no weights": ({"weights": None}, "expected weights, or indices and values"),
    "too few weights": ({"weights": np.ones(1)}, "expected 2 weights, got 1"),
    "weights of another type": ({"weights": np.ones(2, dtype=np.float32)}, "float64 numbers, got float32"),
    "a matrix of weights": ({"weights": np.ones((2, 1))}, "got float64 (2, 1)"),
    "weights that are not finite": ({"weights": np.array([1.0, np.nan])}, "expected finite weights"),
    "weights as pickled objects": ({"weights": np.array([Bomb(), Bomb()], dtype=object)}, "damaged"),
    "a description as a pickled object": ({"about": np.array(Bomb(), dtype=object)}, "damaged"),
    "rows as text": ({"n_rows": "7"}, "expected n_rows to be int, got '7'"),
    "three classes": ({"classes": [0.0, 1.0, 2.0]}, "expected two labels"),
    "no features": ({"n_features": 0}, "is not valid"),
    "an index beyond": (
        {"weights": None, "indices": np.array([2]), "values": np.ones(1)},
        "expected a value for each index",
    ),
    "indices that do not ascend": (
        {"weights": None, "indices": np.array([1, 0]), "values": np.ones(2)},
        "expected a value for each index",
    ),
    "indices as numbers with a point": (
        {"weights": None, "indices": np.array([0.0]), "values": np.ones(1)},
        "expected indices to be a row of int64 numbers",
    ),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_invalid_models_are_refused(tmp_path, what):
    changes, message = TAMPERED[what]
    path = tampered(tmp_path / "m.npz", **changes)
    with pytest.raises(DataError) as raised:
        LinearModel.load(path)
    assert str(path) in raised.value.message
    assert message in raised.value.message
    assert "opauc-bench train" in raised.value.hint


def test_files_of_other_kinds_are_refused(tmp_path):
    path = tmp_path / "m.npz"
    a_model(np.arange(1000.0)).save(path)
    whole = path.read_bytes()
    pickled = pickle.dumps(Bomb())
    np.save(tmp_path / "array.npy", np.ones(3))
    for content in (b"", b"1 1:0.5\n", whole[: len(whole) // 2], whole[:-40], pickled, b"PK" + bytes(50)):
        path.write_bytes(content)
        with pytest.raises(DataError, match="not a model"):
            LinearModel.load(path)
    for other in ("absent.npz", "array.npy", "."):
        with pytest.raises(DataError):
            LinearModel.load(tmp_path / other)


def test_archives_of_other_kinds_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "m.npz", "w") as archive:
        archive.writestr("about", "text")
    with pytest.raises(DataError, match="not a model"):
        LinearModel.load(tmp_path / "m.npz")


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A folder, and the bytes of a model."""
    folder = tmp_path_factory.mktemp("sound")
    a_model([0.0, 1.5, 0.0, 0.0, 0.0]).save(folder / "m.npz")
    return folder, (folder / "m.npz").read_bytes()


@given(data=st.data())
def test_damage_of_any_kind_is_refused_or_does_not_matter(sound, data):
    folder, whole = sound
    content = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (folder / "damaged.npz").write_bytes(content[: data.draw(st.integers(len(content) - 20, len(content)))])
    try:
        model = LinearModel.load(folder / "damaged.npz")
    except DataError:
        return
    # Names, times and the like are not part of what a checksum covers.
    assert model.weights.tolist() == [0.0, 1.5, 0.0, 0.0, 0.0]


def test_a_bit_that_has_flipped_is_found(tmp_path):
    path = tmp_path / "m.npz"
    a_model(np.arange(1000.0) + 0.1).save(path)
    content = bytearray(path.read_bytes())
    place = content.index(np.float64(500.1).tobytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="damaged"):
        LinearModel.load(path)
