"""A trained model as a file: an ``.npz`` archive without pickles, so that opening one cannot run code."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import UnionType
from typing import Any, BinaryIO, get_args, get_origin, get_type_hints

import numpy as np
from scipy import sparse

from .. import __version__
from ..data.schema import Schema
from ..errors import DataError, ResultsError
from ..files import named_errors, written_at_once
from .calibration import Calibration
from .rows import unit_length

__all__ = ["LinearModel", "opened_for_writing", "require_free"]

_FORMAT, _FORMAT_VERSION = "opauc-bench linear model", 2
_STATE = "state/"  # arrays of the state have names that begin with it


@dataclass(frozen=True)
class LinearModel:
    """Weights, and how rows of another file are scored with them.

    Attributes
    ----------
    weights : ndarray of shape (n_features,), float64
    intercept : float
    classes : tuple of float or of str
        The labels of negatives and of positives.
    learner : str
        Name of the learner.
    parameters : dict
        All of its parameters.
    n_rows : int
        Rows that were learnt.
    complete : bool
        Whether that was the whole file; false if the training was interrupted.
    unit_length : bool
        Whether rows are divided by their length before they are learnt or scored.
    zero_based : bool
        Whether feature 0 of a file is the first one.
    leaderboard : list of dict
        As `TunedModel.leaderboard`. That of the model is the first.
    progress : list of [int, float]
        Numbers of rows, and the AUC of the scores that recent ones had before they were learnt; at most 60.
    schema : Schema or None
        The columns of the table that was learnt; None for svmlight text.
    n_centred : int
        Features that were centred and scaled while they were learnt; the weights are for them as they are.
    version : str
        Of this program.
    calibration : Calibration, optional
        From scores to probabilities.
    reliability : dict, optional
        How reliable the calibration is, see `opauc_bench.streaming.calibration.Reliability`.
    state : dict, optional
        What the training remembers, to continue: a tree of arrays, numbers and text.
    """

    weights: np.ndarray
    intercept: float
    classes: tuple[float, float] | tuple[str, str]
    learner: str
    parameters: dict[str, Any]
    n_rows: int
    complete: bool
    unit_length: bool
    zero_based: bool
    leaderboard: list[dict[str, Any]] = field(default_factory=list)
    progress: list[list] = field(default_factory=list)
    schema: Schema | None = None
    n_centred: int = 0
    version: str = field(default=__version__)
    calibration: Calibration | None = None
    reliability: dict[str, Any] | None = None
    state: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def about_weights(self) -> str:
        """How many weights are not 0, and whether they are averages."""
        averaged = bool(self.leaderboard) and self.leaderboard[0].get("averaged", False)
        n_used, n_features = np.count_nonzero(self.weights), len(self.weights)
        return f"{n_used:,} of {n_features:,} are not 0{', averaged over the end of the pass' if averaged else ''}"

    def scores(self, X: Any) -> tuple[np.ndarray, int]:
        """Scores of rows, and how many of them have features that the model does not know; these are ignored.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n, any)
            As in the file. Where rows are brought to unit length, all their features count for the length.

        Raises
        ------
        ValueError
            If X does not have two axes.
        """
        if not sparse.issparse(X):
            X = np.asarray(X, dtype=np.float64)
            if X.ndim != 2:
                raise ValueError(f"expected rows of features, an array of two axes; got {X.ndim}")
        X = sparse.csr_matrix(X)
        if self.unit_length:
            if not X.has_canonical_format:  # a feature that is stored twice has the sum as its value
                X = X.copy()
                X.sum_duplicates()
            X = unit_length(X)
        n_features, n_unknown = len(self.weights), 0
        if X.shape[1] > n_features:
            n_unknown = int(np.count_nonzero(X[:, n_features:].getnnz(axis=1)))
            X = X[:, :n_features]
        X = sparse.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], n_features))
        return np.asarray(X @ self.weights) + self.intercept, n_unknown

    def feature_name(self, place: int) -> str:
        """Name of a feature: that of its column, or its index in a svmlight file."""
        if self.schema is not None:
            return self.schema.feature_name(int(place))
        return str(int(place) + (0 if self.zero_based else 1))

    def to_json(self) -> dict[str, Any]:
        """What is known about the weights, as a dict of numbers, text and lists."""
        about = {name: value for name, value in vars(self).items() if name not in ("weights", "state")}
        return about | {
            "classes": list(self.classes),
            "schema": None if self.schema is None else asdict(self.schema),
            "calibration": None if self.calibration is None else self.calibration.to_json(),
        }

    def save(self, path: Path) -> None:
        """Write the model in one step: a file of this name is a whole model, at any time.

        Raises
        ------
        ResultsError
            If it cannot be written.
        """
        state_arrays: dict[str, Any] = {}
        state = None if self.state is None else _without_arrays(self.state, state_arrays)
        about = {"format": _FORMAT, "format_version": _FORMAT_VERSION, "n_features": len(self.weights)}
        indices = np.flatnonzero(self.weights)
        arrays: dict[str, Any] = {"weights": self.weights}
        if 2 * len(indices) < len(self.weights):  # an index takes as much room as a weight
            arrays = {"indices": indices.astype(np.int64), "values": self.weights[indices]}
        text = json.dumps(about | self.to_json() | {"state": state}, default=str)
        with opened_for_writing(path) as file:
            buffer = None if path.is_file() or not path.exists() else io.BytesIO()  # zipfile has to go back
            # A state has room for more features, and most of it is zeros then.
            write = np.savez_compressed if _mostly_zeros(state_arrays.values()) else np.savez
            write(file if buffer is None else buffer, about=np.array(text), **arrays, **state_arrays)
            if buffer is not None:
                file.write(buffer.getbuffer())

    @classmethod
    def load(cls, path: Path, with_state: bool = False) -> LinearModel:
        """Read a model.

        Parameters
        ----------
        path : Path
        with_state : bool, default=False
            Also read what is needed to continue training, which may be much larger than the model.

        Raises
        ------
        DataError
            If the file cannot be read, is not a model, is damaged, or comes from a later version of the format.
        """
        try:
            with open(path, "rb") as file:
                return cls._from_arrays(*_arrays_of(file, with_state))
        except FileNotFoundError:
            raise DataError(f"{path}: there is no such file", "opauc-bench train FILE --out MODEL.npz") from None
        except PermissionError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror})") from None
        except _NotAModel as problem:
            raise DataError(f"{path}: {problem}", "name a file that opauc-bench train has written") from None
        except MemoryError:
            raise DataError(f"{path}: the weights do not fit into memory") from None
        except Exception as error:  # many kinds, for damage, encryption and other formats
            reason = getattr(error, "strerror", None) or error
            raise DataError(
                f"{path}: this is not a model, or it is damaged ({reason})",
                "name a file that opauc-bench train has written",
            ) from None

    @classmethod
    def _from_arrays(cls, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> LinearModel:
        kinds = get_type_hints(cls)
        del kinds["weights"]
        n_features = about.pop("n_features", None)
        if set(about) != set(kinds):
            raise _NotAModel(f"expected other entries than {', '.join(sorted(about))}")
        of_state = {name: arrays.pop(name) for name in list(arrays) if name.startswith(_STATE)}
        try:
            about["classes"] = tuple(about["classes"]) if isinstance(about["classes"], list) else None
            about["state"] = _with_arrays(about["state"], of_state)
            if about["calibration"] is not None:
                about["calibration"] = Calibration.from_json(about["calibration"])
            if about["schema"] is not None:
                about["schema"] = Schema.from_json(about["schema"])
        except ValueError as error:
            raise _NotAModel(str(error)) from None
        for name, kind in kinds.items():
            allowed = [get_origin(one) or one for one in (get_args(kind) if isinstance(kind, UnionType) else [kind])]
            if type(about[name]) not in allowed:
                raise _NotAModel(f"expected {name} to be {allowed[0].__name__}, got {about[name]!r:.80}")
        classes = about["classes"]
        two = len(classes) == 2 and classes[0] != classes[1]
        if not (two and any(all(type(label) is kind for label in classes) for kind in (float, str))):
            raise _NotAModel(f"expected two labels, got {classes!r}")
        numbers = [about["intercept"], *(label for label in classes if type(label) is float)]
        if type(n_features) is not int or n_features < 1 or not np.isfinite(numbers).all():
            raise _NotAModel("the number of features, the intercept or a label is not valid")
        if not all(isinstance(point, list) and len(point) == 2 for point in about["progress"]):
            raise _NotAModel("the progress is not valid")
        if not all(isinstance(entry, dict) for entry in about["leaderboard"]):
            raise _NotAModel("the leaderboard is not valid")
        if about["schema"] is not None and about["schema"].n_features != n_features:
            n_columns = about["schema"].n_features
            raise _NotAModel(f"expected {n_columns:,} features by its columns, got {n_features:,}")
        return cls(weights=_weights_of(arrays, n_features), **about)


class _NotAModel(Exception):
    """Why a file is not a model."""


def _arrays_of(file: BinaryIO, with_state: bool) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The description of a model and its arrays, both as they are; those of the state only if they are wanted."""
    if file.read(2) != b"PK":
        raise _NotAModel("this is not a model: expected an .npz archive")
    file.seek(0)
    with np.load(file, allow_pickle=False) as archive:
        if "about" not in archive.files:
            raise _NotAModel("this .npz archive is not a model: it has no entry 'about'")
        text = archive["about"]
        about = json.loads(text.item()) if text.shape == () and text.dtype.kind == "U" else None
        if not isinstance(about, dict) or about.pop("format", None) != _FORMAT:
            raise _NotAModel("this .npz archive is not a model: its entry 'about' describes something else")
        version = about.pop("format_version", None)
        if version != _FORMAT_VERSION:
            raise _NotAModel(
                f"expected version {_FORMAT_VERSION} of the format, got {version!r}: it comes from another opauc-bench "
                f"({about.get('version')}; this is {__version__})"
            )
        names = [name for name in archive.files if name != "about"]
        if not with_state:
            names = [name for name in names if not name.startswith(_STATE)]
            about["state"] = None
        return about, {name: archive[name] for name in names}


def _without_arrays(tree: Any, arrays: dict[str, np.ndarray]) -> Any:
    """A tree for JSON: each array is ``{"array": name}`` and goes into ``arrays`` under that name."""
    if isinstance(tree, np.ndarray):
        name = f"{_STATE}{len(arrays)}"
        arrays[name] = tree
        return {"array": name}
    if isinstance(tree, dict):
        return {key: _without_arrays(one, arrays) for key, one in tree.items()}
    return [_without_arrays(one, arrays) for one in tree] if isinstance(tree, list) else tree


def _with_arrays(tree: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The tree from which `_without_arrays` took the arrays; ValueError if one is not there."""
    if isinstance(tree, list):
        return [_with_arrays(one, arrays) for one in tree]
    if not isinstance(tree, dict):
        return tree
    if set(tree) != {"array"}:
        return {key: _with_arrays(one, arrays) for key, one in tree.items()}
    if not isinstance(tree["array"], str) or tree["array"] not in arrays:
        raise ValueError("an array of the state is not there")
    return arrays[tree["array"]]


def _mostly_zeros(arrays: Iterable[np.ndarray]) -> bool:
    numbers = [array for array in arrays if array.dtype == np.float64]
    return 2 * sum(map(np.count_nonzero, numbers)) < sum(array.size for array in numbers)


def _weights_of(arrays: dict[str, np.ndarray], n_features: int) -> np.ndarray:
    """Check and return the weights, of which either all are stored or those that are not 0."""
    for name, array in arrays.items():
        expected = np.dtype(np.int64 if name == "indices" else np.float64)
        if array.dtype != expected or array.ndim != 1:
            raise _NotAModel(f"expected {name} to be a row of {expected} numbers, got {array.dtype} {array.shape}")
        if not np.isfinite(array).all():
            raise _NotAModel(f"expected finite {name}")
    if set(arrays) == {"weights"}:
        if len(arrays["weights"]) != n_features:
            raise _NotAModel(f"expected {n_features:,} weights, got {len(arrays['weights']):,}")
        return arrays["weights"]
    if set(arrays) != {"indices", "values"}:
        raise _NotAModel(f"expected weights, or indices and values; got {', '.join(sorted(arrays)) or 'neither'}")
    indices, values = arrays["indices"], arrays["values"]
    inside = not len(indices) or (indices[0] >= 0 and indices[-1] < n_features)
    if len(indices) != len(values) or not inside or (np.diff(indices) <= 0).any():
        raise _NotAModel("expected a value for each index, and indices that ascend")
    weights = np.zeros(n_features)
    weights[indices] = values
    return weights


# ---------------------------------------------------------------------- files


def require_free(path: Path, overwrite: bool, inputs: Iterable[str | Path]) -> None:
    """Find out before the work whether a file can be written.

    Raises
    ------
    ResultsError
        If it exists and may not be overwritten, is an input, or its folder does not exist or cannot be written.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:  # a folder that may not be searched, a name that is too long, a link to itself
        raise ResultsError(f"{path} cannot be written: {error.strerror}", "choose another place with --out") from None
    if path.is_dir():
        raise ResultsError(f"{path} is a folder", "name a file with --out")
    if path.is_file() and not overwrite:
        raise ResultsError(f"{path} already exists", "another name, or --overwrite")
    if path.is_file() and any(os.path.exists(file) and path.samefile(file) for file in inputs):
        raise ResultsError(f"{path} is an input file", "another name with --out")
    if path.is_symlink():
        path = path.resolve()
    if not path.parent.is_dir():
        missing = path.parent
        if file := next((above for above in (missing, *missing.parents) if above.is_file()), None):
            raise ResultsError(f"{path} cannot be written: {file} is not a folder", "choose another place with --out")
        raise ResultsError(
            f"{path} cannot be written: there is no folder {missing}", f"mkdir -p {shlex.quote(str(missing))}"
        )
    if not os.access(path if path.exists() and not path.is_file() else path.parent, os.W_OK):
        raise ResultsError(f"{path} cannot be written: permission denied", "choose another place with --out")


@contextlib.contextmanager
def opened_for_writing(path: Path) -> Iterator[BinaryIO]:
    """Open a file that is written in one step; what is not a regular file, such as a pipe, is written to directly.

    Raises
    ------
    ResultsError
        If it cannot be written.
    """
    if path.is_file() or not path.exists():
        with written_at_once(path.resolve()) as file:  # a link stays a link
            yield file
    else:
        with named_errors(path), open(path, "wb") as file:
            yield file
