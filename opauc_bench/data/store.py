"""Prepared datasets on disk: arrays that worker processes map into memory, and what is known about them."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import DataError
from .cache import changed_at_origin
from .catalogue import DatasetEntry, Form
from .download import Notify
from .fourier import RandomFourierRows
from .sources import Sources

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = ["Dataset", "Filled", "find_prepared", "is_intact", "open_folder", "open_prepared", "write_prepared"]

PREPARE_VERSION = 1  # raise when the same files and the same entry would give other arrays
META = "meta.json"
_LARGE = 4 << 30  # bytes that take some seconds to hash
ARRAYS = {
    "dense": ("X", "y"),
    "csr": ("data", "indices", "indptr", "y"),
    "fourier": ("X", "omega", "phase", "y"),
}
DTYPES = {"X": "<f8", "data": "<f8", "indices": "<i4", "indptr": "<i4", "omega": "<f8", "phase": "<f8", "y": "|i1"}
# Of an entry and a form, what earlier versions did not know: it stays out of the key where it is not used.
_LATER = ("n_features_at_most", "fourier", "first_index", "drop_empty", "largest_class")


@dataclass(frozen=True)
class Dataset:
    """A prepared dataset; its arrays are read-only and mapped into memory.

    Attributes
    ----------
    name : str
        As in the catalogue.
    X : np.memmap, scipy.sparse.csr_matrix or RandomFourierRows
        Shape (n_samples, n_features), float64; CSR has int32 indices. Rows are in the order of the files.
    y : np.ndarray
        Shape (n_samples,), int8, -1 or +1.
    fingerprint : str
        SHA-256 (hex) over kind, shape and bytes of the arrays: the identity of the data.
    manifest : dict
        Plain JSON: origin and hash of each file, counts, density, value range, binary rule, scaling.
    folder : Path
        Where the arrays are.
    """

    name: str
    X: "np.memmap | csr_matrix | RandomFourierRows"
    y: np.ndarray
    fingerprint: str
    manifest: dict[str, Any]
    folder: Path


def prepared_folder(entry: DatasetEntry, sources: Sources) -> Path:
    """Return the folder of a dataset's prepared arrays."""
    return sources.cache / entry.name / "prepared"


def recipe_key(entry: DatasetEntry, form: Form) -> str:
    """Hash all of an entry that affects the arrays or what is asserted about them."""
    include = set(Form.model_fields) - set(_LATER) - ({"files"} if form.files else set())
    recipe = {
        "version": PREPARE_VERSION,
        "form": form.model_dump(mode="json", include=include),
        "files": [[file.name, file.sha256, file.confirmed] for file in form.files],
        "entry": entry.model_dump(mode="json", include={"n_samples", "n_features", "n_positive", "scaling", "range"}),
    }
    later = entry.model_dump(mode="json", include=set(_LATER), exclude_defaults=True)
    later |= form.model_dump(mode="json", include=set(_LATER), exclude_defaults=True)
    if later:
        recipe["later"] = later
    return hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:16]


def content_key(hashes: list[str]) -> str:
    """Hash the hashes of the raw files."""
    return hashlib.sha256(" ".join(hashes).encode()).hexdigest()[:8]


def find_prepared(entry: DatasetEntry, sources: Sources) -> Dataset | None:
    """Return what the cache holds ready for use, or None; asks no network and parses nothing.

    A damaged prepared folder counts as absent here, and so does one whose ``file://`` origin has changed; `prepare`
    makes it again. Where files without a known hash gave several sets of arrays, the newest counts.
    """
    for form in entry.forms:
        if any(changed_at_origin(entry, file, sources) for file in form.files):
            continue
        folders = prepared_folder(entry, sources).glob(f"{recipe_key(entry, form)}-*")
        for folder in sorted(folders, key=_age):
            try:
                return open_folder(folder)
            except DataError:
                continue
    return None


def _age(folder: Path) -> float:
    try:
        return -(folder / META).stat().st_mtime_ns
    except OSError:  # another process may be replacing it
        return 0.0


def open_prepared(folder: Path, fingerprint: str) -> Dataset:
    """Map a prepared dataset into memory.

    Parameters
    ----------
    folder : Path
        `Dataset.folder`.
    fingerprint : str
        `Dataset.fingerprint`.

    Raises
    ------
    DataError
        The folder is missing or damaged, or holds other data than the fingerprint says.
    """
    dataset = open_folder(Path(folder))
    if dataset.fingerprint != fingerprint:
        raise DataError(
            f"{folder}: expected data with fingerprint {fingerprint}, got {dataset.fingerprint}",
            f"opauc-bench data fetch {dataset.name} --fresh",
        )
    return dataset


def open_folder(folder: Path) -> Dataset:
    """Map whatever a prepared folder holds; see `open_prepared`."""
    mend = f"opauc-bench data fetch {folder.parent.parent.name} --fresh"
    try:
        meta = json.loads((folder / META).read_text("utf-8"))
        name, kind, shape = meta["name"], meta["kind"], tuple(meta["shape"])
        fingerprint, manifest = meta["fingerprint"], meta["manifest"]
        sizes = {array: int(meta["files"][f"{array}.npy"]) for array in ARRAYS[kind]}
        # Earlier versions wrote no seal.
        if manifest["storage"] != kind or meta.get("seal", _seal(meta)) != _seal(meta):
            raise ValueError("it was changed")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            f"{folder}: expected a prepared dataset, {META} cannot be read ({type(error).__name__})", mend
        ) from None
    loaded = {array: _map(folder, array, size, mend) for array, size in sizes.items()}
    if kind == "dense":
        X = loaded["X"]
    elif kind == "fourier":
        X = RandomFourierRows(loaded["X"], loaded["omega"], loaded["phase"])
    else:
        from scipy.sparse import csr_matrix

        try:
            X = csr_matrix((loaded["data"], loaded["indices"], loaded["indptr"]), shape=shape, copy=False)
        except ValueError as error:
            raise DataError(f"{folder}: expected the arrays of a CSR matrix ({error})", mend) from None
    if X.shape != shape or loaded["y"].shape != shape[:1]:
        raise DataError(f"{folder}: expected {shape} values and {shape[:1]} labels, got {X.shape}", mend)
    return Dataset(name, X, loaded["y"], fingerprint, manifest, folder)


def _map(folder: Path, array: str, size: int, mend: str) -> np.ndarray:
    path = folder / f"{array}.npy"
    try:
        came = path.stat().st_size
        if came != size:
            raise DataError(f"{path}: expected {size:,} bytes, got {came:,}", mend)
        values = np.lib.format.open_memmap(path, mode="r")
    # NumPy evaluates the header as a literal of Python, and says all this where it is damaged.
    except (
        OSError,
        ValueError,
        TypeError,
        SyntaxError,
        TokenError,
        OverflowError,
        RecursionError,
        MemoryError,
    ) as error:
        raise DataError(f"{path}: expected an array, it cannot be read ({error})", mend) from None
    if values.dtype.str != DTYPES[array] or not values.flags.c_contiguous or values.offset + values.nbytes != size:
        raise DataError(f"{path}: expected an array of {DTYPES[array]}, got {values.dtype.str}", mend)
    return values


def _seal(meta: dict[str, Any]) -> str:
    """Hash what `META` says, so that a change of it is noticed."""
    content = {key: value for key, value in meta.items() if key != "seal"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def is_intact(dataset: Dataset, notify: Notify) -> bool:
    """Whether the arrays on disk are still those that the fingerprint was taken of.

    All of them are read, at about 1 GB/s; where that takes long, it is said.
    """
    folder, kind = dataset.folder, dataset.manifest["storage"]
    size = sum((folder / f"{array}.npy").stat().st_size for array in ARRAYS[kind])
    if size > _LARGE:
        notify(f"{dataset.name}: checking {size / 1e9:.0f} GB of arrays")
    return fingerprint_of(folder, kind, dataset.X.shape) == dataset.fingerprint


def fingerprint_of(folder: Path, kind: str, shape: tuple[int, int]) -> str:
    """Hash prepared arrays as they are on disk."""
    sha256 = hashlib.sha256(f"{kind} {shape[0]} {shape[1]}\n".encode())
    for array in ARRAYS[kind]:
        values = np.load(folder / f"{array}.npy", mmap_mode="r")
        sha256.update(f"{array} {values.size}\n".encode())
        flat = values.reshape(-1)
        for start in range(0, flat.size, 1 << 20):
            sha256.update(np.ascontiguousarray(flat[start : start + (1 << 20)]))
    return sha256.hexdigest()


class Filled(NamedTuple):
    """What was written to a folder, beside ``y``: the kind of `ARRAYS`, the shape of X, and the manifest."""

    kind: str
    shape: tuple[int, int]
    y: np.ndarray
    manifest: dict[str, Any]


def write_prepared(entry: DatasetEntry, key: str, sources: Sources, fill: Callable[[Path], Filled]) -> Dataset:
    """Let arrays be written to a new folder and move it into place; the caller holds the dataset's lock.

    Parameters
    ----------
    key : str
        Name of the folder.
    fill : callable
        Writes all arrays but y to the folder that it is given.
    """
    parent = prepared_folder(entry, sources)
    parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=".new-", dir=parent))
    try:
        kind, shape, y, manifest = fill(new)
        np.save(new / "y.npy", y.astype(DTYPES["y"]))
        meta = {
            "name": entry.name,
            "kind": kind,
            "shape": shape,
            "fingerprint": fingerprint_of(new, kind, shape),
            "files": {f"{array}.npy": (new / f"{array}.npy").stat().st_size for array in ARRAYS[kind]},
            "manifest": manifest,
        }
        meta["seal"] = _seal(json.loads(json.dumps(meta)))
        (new / META).write_text(json.dumps(meta, indent=1), "utf-8")
        new.chmod(0o755)
        final = parent / key
        if final.exists():
            os.rename(final, Path(tempfile.mkdtemp(prefix=".new-", dir=parent)) / "old")
        os.rename(new, final)
    finally:
        for leftover in parent.glob(".new-*"):  # also of a killed process: nobody else holds the lock
            shutil.rmtree(leftover)
    return open_folder(final)
