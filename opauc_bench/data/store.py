"""Prepared datasets on disk: arrays that worker processes map into memory, with a manifest."""

import contextlib
import fnmatch
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError
from .cache import RawFile, cache_error, local_files
from .entry import FILE_SOURCES, ROW_METADATA, DatasetEntry, FileSpec, Form
from .fourier import RandomFourierRows
from .sources import Notify, Sources

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = ["Dataset", "find_prepared", "is_intact", "open_prepared", "prepared_as", "write_prepared"]

PREPARE_VERSION = 1  # to be raised when the same files and entry give other arrays
META = "meta.json"
_LARGE = 4 << 30  # bytes that take some seconds to hash
ARRAYS = {
    "dense": ("X", "y"),
    "csr": ("data", "indices", "indptr", "y"),
    "fourier": ("X", "omega", "phase", "y"),
}
DTYPES = {
    **{"X": "<f8", "data": "<f8", "indices": "<i4", "indptr": "<i4", "omega": "<f8", "phase": "<f8", "y": "|i1"},
    **{"split": "|i1", "group": "<i4", "time": "<f8"},
}
# Settings of an entry, beside those of its form, that affect the arrays or their checks.
_ENTRY_SETTINGS = {"n_samples", "n_features", "n_features_at_most", "n_positive", "scaling", "range", "fourier"}

Filled = tuple[np.ndarray, dict[str, Any]]  # y and the manifest of new arrays


@dataclass(frozen=True)
class Dataset:
    """A prepared dataset; its arrays are read-only and mapped into memory.

    Attributes
    ----------
    name : str
    X : np.memmap, scipy.sparse.csr_matrix or RandomFourierRows
        Shape (n_samples, n_features), float64; CSR has int32 indices. Rows are in the order of the files.
    y : np.ndarray
        Shape (n_samples,), int8, -1 or +1.
    fingerprint : str
        SHA-256 (hex) of kind, shape and bytes of the arrays: the identity of the data.
    manifest : dict
        JSON: source and hash of each file, counts, density, value range, positive classes, scaling, row metadata.
    folder : Path
    split, group, time : np.ndarray or None
        Row metadata, of shape (n_samples,): the position of the part in `entry.PARTS` (int8), the number of the
        group from 0 (int32), the time (float64; seconds since 1970 where it is given as dates).
    """

    name: str
    X: "np.memmap | csr_matrix | RandomFourierRows"
    y: np.ndarray
    fingerprint: str
    manifest: dict[str, Any]
    folder: Path
    split: np.ndarray | None = None
    group: np.ndarray | None = None
    time: np.ndarray | None = None


def prepared_folder(entry: DatasetEntry, sources: Sources) -> Path:
    """Return the folder of a dataset's prepared arrays."""
    return sources.cache / entry.name / "prepared"


def prepared_folders(entry: DatasetEntry, sources: Sources, pattern: str) -> list[Path]:
    """Return the folders of a dataset's sets of arrays whose names match a pattern."""
    folder = prepared_folder(entry, sources)
    try:
        return [folder / name for name in fnmatch.filter(os.listdir(folder), pattern)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:  # from Python 3.13 on, Path.glob would leave such a folder out
        raise cache_error(entry, sources, error) from None


def recipe_key(entry: DatasetEntry, form: Form) -> str:
    """Hash those settings of an entry that affect the arrays or their checks; a new setting's default keeps the key."""
    form_settings = set(Form.model_fields) - {"files", "source", *ROW_METADATA}
    recipe = {
        "version": PREPARE_VERSION,
        "files": [_content_of(file) for file in form.data_files],
        **form.model_dump(mode="json", include=form_settings, exclude_defaults=True),
        **entry.model_dump(mode="json", include=_ENTRY_SETTINGS, exclude_defaults=True),
    }
    if form.source is not None:  # where the files are is not part of the data
        source = form.source.model_dump(mode="json", exclude_defaults=True, exclude=set(FILE_SOURCES))
        recipe["source"] = source | ({"kind": form.source.kind} if form.source.files else {})
    for name in form.row_metadata:
        value = getattr(form, name)
        if value is not None:  # otherwise it is a column of the source
            recipe[name] = _content_of(value) if isinstance(value, FileSpec) else list(value)
    return hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:16]


def _content_of(file: FileSpec) -> list[Any]:
    return [file.name, file.sha256, file.confirmed]


def find_prepared(entry: DatasetEntry, sources: Sources) -> Dataset | None:
    """Return the prepared dataset of the cache, or None; downloads and parses nothing.

    Damaged folders are ignored, and so are those of other files than the cache has now, or should have; `prepare`
    replaces them. If the cache's files are not known, the newest folder is returned.
    """
    for form in entry.forms:
        files = local_files(entry, form, sources)
        if any(file.outdated for file in files):
            continue
        if any(file.is_unknown for file in files):
            continue
        hashes = [sha256 for file in files if (sha256 := file.note.get("sha256")) is not None]
        content = _content_key(hashes) if len(hashes) == len(files) else "*"
        for folder in sorted(prepared_folders(entry, sources, f"{recipe_key(entry, form)}-{content}"), key=_age):
            with contextlib.suppress(DataError):
                return open_prepared(folder)
    return None


def prepared_as(entry: DatasetEntry, sources: Sources, fingerprint: str) -> Dataset | None:
    """Return the arrays of the cache with this fingerprint, whatever files they are of, or None."""
    for folder in prepared_folders(entry, sources, "[!.]*"):
        with contextlib.suppress(DataError):
            return open_prepared(folder, fingerprint)
    return None


def _content_key(hashes: list[str]) -> str:
    return hashlib.sha256(" ".join(hashes).encode()).hexdigest()[:8]


def _age(folder: Path) -> float:
    try:
        return -(folder / META).stat().st_mtime_ns
    except OSError:  # another process may be replacing it
        return 0.0


def open_prepared(folder: Path, fingerprint: str | None = None) -> Dataset:
    """Map the dataset with this `Dataset.folder` and, if given, this `Dataset.fingerprint` into memory.

    Raises
    ------
    DataError
        The folder is missing or damaged, or its data have another fingerprint.
    """
    folder = Path(folder)
    again = f"opauc-bench data fetch {folder.parent.parent.name} --fresh"
    try:
        meta = json.loads((folder / META).read_text("utf-8"))
        name, kind, shape = meta["name"], meta["kind"], tuple(meta["shape"])
        found, manifest = meta["fingerprint"], meta["manifest"]
        sizes = {array: int(meta["files"][f"{array}.npy"]) for array in _arrays_of(manifest)}
        if manifest["storage"] != kind or meta["seal"] != _seal(meta):
            raise ValueError("it was changed")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            f"{folder}: expected a prepared dataset, {META} cannot be read ({type(error).__name__})", again
        ) from None
    loaded = {array: _map(folder, array, size, again) for array, size in sizes.items()}
    X: np.memmap | csr_matrix | RandomFourierRows
    if kind == "dense":
        X = loaded["X"]
    elif kind == "fourier":
        X = RandomFourierRows(loaded["X"], loaded["omega"], loaded["phase"])
    else:
        from scipy import sparse

        try:
            X = sparse.csr_matrix((loaded["data"], loaded["indices"], loaded["indptr"]), shape=shape, copy=False)
        except ValueError as error:
            raise DataError(f"{folder}: expected the arrays of a CSR matrix ({error})", again) from None
    metadata = {name: loaded[name] for name in ROW_METADATA if name in loaded}
    if X.shape != shape or any(values.shape != shape[:1] for values in (loaded["y"], *metadata.values())):
        raise DataError(f"{folder}: expected {shape} values and {shape[:1]} labels, got {X.shape}", again)
    if found != (fingerprint or found):
        raise DataError(f"{folder}: expected data with fingerprint {fingerprint}, got {found}", again)
    return Dataset(name, X, loaded["y"], found, manifest, folder, **metadata)


def _arrays_of(manifest: dict[str, Any]) -> tuple[str, ...]:
    """The names of all arrays of a dataset; those of row metadata are last."""
    found = manifest.get("row_metadata", {})
    return (*ARRAYS[manifest["storage"]], *(name for name in ROW_METADATA if name in found))


def _map(folder: Path, array: str, size: int, hint: str) -> np.memmap:
    path = folder / f"{array}.npy"
    try:
        found = path.stat().st_size
        values = np.lib.format.open_memmap(path, mode="r") if found == size else None
    except Exception as error:  # NumPy evaluates the header as a Python literal: a damaged one may raise anything
        raise DataError(f"{path}: expected an array, it cannot be read ({error})", hint) from None
    if values is None:
        raise DataError(f"{path}: expected {size:,} bytes, got {found:,}", hint)
    if values.dtype.str != DTYPES[array] or not values.flags.c_contiguous or values.offset + values.nbytes != size:
        raise DataError(f"{path}: expected an array of {DTYPES[array]}, got {values.dtype.str}", hint)
    return values


def _seal(meta: dict[str, Any]) -> str:
    """Hash the content of `META`, so that changes are noticed."""
    content = {key: value for key, value in meta.items() if key != "seal"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def is_intact(dataset: Dataset, notify: Notify) -> bool:
    """Whether the arrays on disk still have their fingerprint; all of them are read, at about 1 GB/s."""
    folder = dataset.folder
    size = sum((folder / f"{array}.npy").stat().st_size for array in _arrays_of(dataset.manifest))
    if size > _LARGE:
        notify(f"{dataset.name}: checking {size / 1e9:.0f} GB of arrays")
    return fingerprint_of(folder, dataset.manifest, dataset.X.shape) == dataset.fingerprint


def fingerprint_of(folder: Path, manifest: dict[str, Any], shape: tuple[int, int]) -> str:
    """Hash prepared arrays as they are on disk."""
    sha256 = hashlib.sha256(f"{manifest['storage']} {shape[0]} {shape[1]}\n".encode())
    for array in _arrays_of(manifest):
        values = np.load(folder / f"{array}.npy", mmap_mode="r")
        sha256.update(f"{array} {values.size}\n".encode())
        flat = values.reshape(-1)
        for start in range(0, flat.size, 1 << 20):
            sha256.update(np.ascontiguousarray(flat[start : start + (1 << 20)]).data)
    return sha256.hexdigest()


def write_prepared(
    entry: DatasetEntry, form: Form, raw: list[RawFile], sources: Sources, fill: Callable[[Path], Filled]
) -> Dataset:
    """Let ``fill`` write arrays to a new folder, complete it and move it into place; the caller holds the lock."""
    parent = prepared_folder(entry, sources)
    parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=".new-", dir=parent))
    try:
        y, manifest = fill(new)
        kind, shape = manifest["storage"], (len(y), manifest["n_features"])
        np.save(new / "y.npy", y.astype(DTYPES["y"]))
        meta = {
            "name": entry.name,
            "kind": kind,
            "shape": shape,
            "fingerprint": fingerprint_of(new, manifest, shape),
            "files": {f"{array}.npy": (new / f"{array}.npy").stat().st_size for array in _arrays_of(manifest)},
            "manifest": manifest,
        }
        meta["seal"] = _seal(json.loads(json.dumps(meta)))
        (new / META).write_text(json.dumps(meta, indent=1), "utf-8")
        new.chmod(0o755)
        final = parent / f"{recipe_key(entry, form)}-{_content_key([file.sha256 for file in raw])}"
        if final.exists():
            os.rename(final, Path(tempfile.mkdtemp(prefix=".new-", dir=parent)) / "old")
        os.rename(new, final)
    finally:
        for leftover in parent.glob(".new-*"):  # also of a killed process, since this one holds the lock
            shutil.rmtree(leftover)
    return open_prepared(final)
