"""What a results folder says of itself: ``manifest.json``, with the whole experiment, its data and the software."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ..config import find_config
from ..errors import ConfigError, ResultsError

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
        manifest = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(manifest["experiment"], dict):
            raise TypeError("the experiment is not a mapping")
        if not all(isinstance(entry, dict) for entry in manifest["datasets"].values()):
            raise TypeError("an entry of a dataset is not a mapping")
    except (FileNotFoundError, NotADirectoryError):
        raise ResultsError(f"{folder}: no manifest.json, so this is no results folder") from None
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ResultsError(f"{path} is not the manifest of a run: {error}", mend) from error
    return manifest


def recorded_datasets(folder: Path) -> dict[str, dict[str, Any]]:
    """What a folder's manifest says of the datasets, by name; nothing where no run has been."""
    if not os.path.lexists(folder / "manifest.json"):
        return {}
    return read_manifest(folder)["datasets"]
