"""``manifest.json`` of a results folder: the experiment, facts about its data, and by hash the definitions and
environments that records refer to.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationError

from ..config import find_config, is_bundled
from ..errors import ConfigError, ResultsError
from ..files import read_json, write_text
from ..protocols.outcome import Count, Part
from ..sentences import problems_of
from ..task import content_hash
from .record import Fingerprint, Hash

__all__ = [
    "MANIFEST",
    "DatasetFacts",
    "Manifest",
    "add_environment",
    "config_of",
    "find_manifest",
    "place_of_config",
    "read_manifest",
    "write_manifest",
]

MANIFEST = "manifest.json"

Size = Annotated[int, Field(gt=0, lt=2**62)]


class Parts(Part):
    """Numbers of rows of each part of a dataset."""

    train: Count
    validation: Count
    test: Count


class RowMetadata(Part, extra="allow"):
    """What is known of the parts, groups and times of the rows of a dataset."""

    split: Parts | None = None


class DatasetFacts(Part, extra="allow"):
    """Facts about a dataset of the runs of a folder, or that it was unavailable."""

    unavailable: bool = False
    fingerprint: Fingerprint | None = None
    n_samples: Size | None = None
    n_features: Size | None = None
    n_positive: Size | None = None
    density: Annotated[float, Field(ge=0, le=1)] | None = None
    files: list[dict[str, Any]] = Field(default_factory=list)
    row_metadata: RowMetadata = RowMetadata()

    @property
    def parts(self) -> tuple[int, int, int] | None:
        """Rows for training, validation and test, where the dataset says so."""
        split = self.row_metadata.split
        return None if split is None else (split.train, split.validation, split.test)

    def plain(self) -> dict[str, Any]:
        """Return all facts as JSON values."""
        return self.model_dump(mode="json", exclude_unset=True)


def _check_experiment(experiment: dict[str, Any]) -> dict[str, Any]:
    """What is read of an experiment without checking all of it: its title, and the metrics of its protocol."""
    protocol = experiment.get("protocol")
    if not (isinstance(experiment.get("title"), str) and isinstance(protocol, dict)):
        raise ValueError("expected an experiment with a title and a protocol")
    metrics = protocol.get("metrics", [])
    if not (isinstance(metrics, list) and all(isinstance(name, str) for name in metrics)):
        raise ValueError("expected a list of names under metrics of the protocol")
    return experiment


class Manifest(Part):
    """The contents of ``manifest.json``."""

    experiment: Annotated[dict[str, Any], AfterValidator(_check_experiment)]  # the experiment file with all defaults
    config: str  # its file name, or its path from this folder: see `place_of_config`
    opauc_bench: str  # version of the program that wrote the manifest
    shard: str | None = None  # the shard of the experiment in this folder, such as 2/8
    datasets: dict[str, DatasetFacts]
    memory_bytes: Annotated[float, Field(gt=0)]  # that a task could use: tasks that need far more were not started
    test: str | None = None  # significance test of the tables beside the manifest; None where there are none
    definitions: dict[Hash, dict[str, Any]] = Field(default_factory=dict)
    # By column with a learner from elsewhere, or an estimator, one of the definitions that its last run had.
    last_run: dict[str, Hash] = Field(default_factory=dict)
    environments: dict[Hash, dict[str, Any]] = Field(default_factory=dict)
    # By folder, ids of records there that are used for tasks of this experiment.
    reused: dict[str, tuple[Hash, ...]] = Field(default_factory=dict)
    # By folder, ids of records there whose selected setting was used here.
    selected_in: dict[str, tuple[Hash, ...]] = Field(default_factory=dict)

    @property
    def config_name(self) -> str:
        """The file name of the config."""
        return Path(self.config).name


def config_of(folder: Path, place: str) -> Path:
    """The path of a folder's config, which need not be there any more; ``place`` is what the manifest says.

    A name alone is looked for beside the folder, one folder up, in the package, and in the working directory, to which
    the paths of an experiment from Python were relative. A path counts if there is a file, or else if there is none of
    its name near the folder: paths of data stay relative to it.
    """
    path, name = Path(os.path.relpath(folder.resolve() / place)), Path(place).name
    if name != place and os.path.isfile(path):
        return path
    if near := _config_near(folder, name):
        return Path(os.path.relpath(near))
    if name != place:
        return path
    try:
        return find_config(name)
    except ConfigError:
        return Path(name)


def place_of_config(folder: Path, path: Path) -> str:
    """What a manifest says of its config: the name, where that is enough to find it, or the path from the folder.

    The folder and its config may be moved together, so that no path is absolute.
    """
    found = _config_near(folder, path.name)
    if is_bundled(path) if found is None else os.path.isfile(path) and found.samefile(path):
        return path.name
    return Path(os.path.relpath(path, folder.resolve())).as_posix()


def _config_near(folder: Path, name: str) -> Path | None:
    places = (path for parent in folder.resolve().parents[:2] for path in (parent / name, parent / "configs" / name))
    return next(filter(os.path.isfile, places), None)


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a results folder; raises ResultsError if there is none, or if it is damaged."""
    path = folder / MANIFEST
    try:
        content = read_json(path)
        manifest = Manifest.model_validate_json(json.dumps(content, allow_nan=False))
        for kind in ("definitions", "environments"):
            for name, entry in getattr(manifest, kind).items():
                if (computed := content_hash(entry)) != name:
                    raise ValueError(f"{kind}.{name} has the hash {computed}: it was changed")
    except (FileNotFoundError, NotADirectoryError):
        lacking = f"no {MANIFEST}, so no run has written its results here"
        if not os.path.isdir(folder):
            lacking = "this is a file, not a results folder" if os.path.exists(folder) else "there is no such folder"
        raise ResultsError(
            f"{folder}: {lacking}",
            "opauc-bench run CONFIG, or --out with the folder of the results",
        ) from None
    except OSError as error:
        raise ResultsError(f"{path} cannot be read: {error.strerror}", f"chmod u+r '{path}'") from error
    except ValueError as error:
        problem = str(error)
        if isinstance(error, ValidationError):
            problem = str(problems_of(error, Manifest, content)[0])
        raise ResultsError(
            f"{path} is not the manifest of a run: {problem}", f"git checkout '{path}', or rm '{path}' and run again"
        ) from error
    return manifest


def find_manifest(folder: Path) -> Manifest | None:
    """Read the manifest of a folder; None if there is none."""
    return read_manifest(folder) if os.path.lexists(folder / MANIFEST) else None


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write a manifest atomically: a line per key, and below it a line per entry."""
    content = manifest.model_dump(mode="json", exclude={"datasets"}, exclude_none=True)
    if not manifest.last_run:
        del content["last_run"]
    content["datasets"] = {name: facts.plain() for name, facts in manifest.datasets.items()}
    lines = (f"{json.dumps(key)}: {_entries(content[key])}" for key in Manifest.model_fields if key in content)
    write_text(folder / MANIFEST, "{\n" + ",\n".join(lines) + "\n}\n")


def add_environment(folder: Path, environment: dict[str, Any]) -> None:
    """Add the environment of another process or machine, to which records refer, to the manifest if there is one."""
    if (manifest := find_manifest(folder)) is None:  # a temporary folder, as that of verify
        return
    environments = {**manifest.environments, content_hash(environment): environment}
    if len(environments) > len(manifest.environments):
        write_manifest(folder, manifest.model_copy(update={"environments": environments}))


def _entries(value: Any) -> str:
    if not isinstance(value, dict) or not value:
        return json.dumps(value, allow_nan=False)
    return "{\n" + ",\n".join(f" {json.dumps(key)}: {json.dumps(below)}" for key, below in value.items()) + "\n}"
