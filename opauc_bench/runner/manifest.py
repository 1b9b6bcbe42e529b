"""What a results folder says of itself: ``manifest.json``, with the whole experiment, its data and the software."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from ..config import find_config
from ..errors import ConfigError, ResultsError
from ..files import read_json
from .records import is_number

__all__ = ["config_of", "read_manifest", "recorded_datasets"]


def config_of(folder: Path, name: str) -> Path:
    """Where the config of a results folder is, or would be: beside the results, in ``configs``, or in the package."""
    beside = folder.resolve().parents[1] if len(folder.resolve().parents) > 1 else folder
    for path in (beside / name, beside / "configs" / name):
        if path.is_file():
            return Path(os.path.relpath(path))
    try:
        return find_config(name)
    except ConfigError:
        return folder / name


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read what a results folder says it holds: experiment, data, software.

    Raises
    ------
    ResultsError
        If there is no manifest, or it is not one.
    """
    path = folder / "manifest.json"
    mend = f"rm '{path}'  # the next run writes it again"
    try:
        manifest = read_json(path)
        json.dumps(manifest, allow_nan=False)  # Python reads NaN, and 1e999 as infinity
        if not isinstance(manifest["experiment"], dict):
            raise TypeError("the experiment is not a mapping")
        for name, entry in manifest["datasets"].items():
            if not isinstance(entry, dict):
                raise TypeError("an entry of a dataset is not a mapping")
            _check_entry(name, entry)
    except (FileNotFoundError, NotADirectoryError):
        raise ResultsError(
            f"{folder}: no manifest.json, so no run has written its results here",
            "opauc-bench run CONFIG, or --out with the folder that has them",
        ) from None
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ResultsError(f"{path} is not the manifest of a run: {error}", mend) from error
    return manifest


def _check_entry(name: str, entry: dict[str, Any]) -> None:
    """Look at what plans, shards and the page read of a dataset."""
    for key, (is_right, wanted) in _FACTS.items():
        if key in entry and not is_right(value := entry[key]):
            raise TypeError(f"{key} of {name} is {value!r}, expected {wanted}")


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 < value < 2**62


def _is_sum(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


_FACTS = {
    "fingerprint": (_is_sum, "a SHA-256"),
    "n_samples": (_is_size, "a count"),
    "n_features": (_is_size, "a count"),
    "n_positive": (_is_size, "a count"),
    "files": (
        lambda value: isinstance(value, list) and all(isinstance(file, dict) for file in value),
        "a list of files",
    ),
    "density": (lambda value: is_number(value) and 0 <= value <= 1, "a share"),
}


def recorded_datasets(folder: Path) -> dict[str, dict[str, Any]]:
    """What a folder's manifest says of the datasets, by name; nothing where no run has been."""
    if not os.path.lexists(folder / "manifest.json"):
        return {}
    return read_manifest(folder)["datasets"]
