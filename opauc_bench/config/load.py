"""Read an experiment file, and find it by its name."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import ConfigError, suggest
from ..yamlio import check_model, read_yaml
from .experiment import Experiment
from .known import KnownNames

__all__ = ["find_config", "is_bundled", "load_experiment"]


def load_experiment(
    path: str | Path,
    *,
    content: Mapping[str, Any] | None = None,
    change: Callable[[dict[Any, Any]], dict[Any, Any]] | None = None,
    **known: Any,
) -> Experiment:
    """Read and check an experiment file.

    With ``content``, the result of `Experiment.plain`, the file is not read and need not exist. ``change`` changes the
    content before it is checked. ``known`` are names of datasets, learners and tables that exist, as in `KnownNames`.
    ConfigError has all mistakes at once, each with ``file:line:column``, the key, what is expected and what was found.
    """
    path = Path(path)
    if not _is_text(path):
        raise ConfigError(f"{os.fsencode(path)!r}: expected a name in UTF-8, which the manifest can have", "rename it")
    context = KnownNames(path, **known)
    if content is None:
        document = read_yaml(path)
        if change is not None:
            document = replace(document, data=change(document.data))
        experiment = document.validate(Experiment, context=context)
    else:
        content = content if change is None else change(dict(content))
        experiment = check_model(content, Experiment, source=path, context=context)
    experiment._path = path
    return experiment


def find_config(text: str, wanted: str = "an experiment file") -> Path:
    """Return the experiment file of a path, or of a bare name such as ``table2``.

    Bare names are looked up in ``./configs`` and in the configs of the package. ConfigError, with a similar name or
    the known ones, if there is no such file.
    """
    path = Path(text)
    if path.name == "manifest.json":
        what = "this is the manifest of a results folder"
        raise ConfigError(f"{text}: {what}; expected {wanted} or the name of a bundled one", f"{path.parent}")
    if os.path.exists(path) and not os.path.isdir(path):  # os.path: no error for names that are invalid or too long
        return path
    folders = [Path("configs"), _packaged_configs()]
    if path.name == text:
        for folder in folders:
            for name in (text, f"{text}.yaml"):
                if os.path.isfile(folder / name):
                    return folder / name
    names = sorted({found.stem for folder in folders for found in folder.glob("*.yaml")})
    what = "this is a folder" if os.path.isdir(text) else "no such file" if text else "an empty name"
    near = suggest(path.stem, names)
    hint = "" if near or path.name != text else f"one of {', '.join(names)}"
    raise ConfigError(f"{text or repr(text)}: {what}; expected {wanted} or the name of a bundled one{near}", hint)


def _is_text(path: Path) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def is_bundled(path: Path) -> bool:
    """Whether a file is one of the configs of the package."""
    return os.path.isfile(path) and path.resolve().parent == _packaged_configs().resolve()


def _packaged_configs() -> Path:
    package = Path(__file__).parents[1]
    in_wheel = package / "configs"
    return in_wheel if in_wheel.is_dir() else package.parent / "configs"
