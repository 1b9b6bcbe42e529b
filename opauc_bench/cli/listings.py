"""Commands about datasets, learners and the installation."""

from __future__ import annotations

from typing import Annotated

import typer

from .app import app, data_app, learners_app
from .options import Catalogue, Fresh, Mirror, Offline, find_sources


@data_app.command("list")
def data_list(catalogue: Catalogue = None, mirror: Mirror = None, offline: Offline = False) -> None:
    """List all datasets and where their files are available."""
    from ..commands.datasets import list_datasets
    from ..data import load_catalogue

    print(list_datasets(load_catalogue(catalogue), find_sources(mirror, offline)))


@data_app.command("fetch")
def data_fetch(
    names: Annotated[list[str], typer.Argument(help="Datasets.")],
    catalogue: Catalogue = None,
    mirror: Mirror = None,
    offline: Offline = False,
    fresh: Fresh = False,
) -> None:
    """Download, verify and prepare datasets."""
    from ..commands.datasets import fetch_datasets

    fetch_datasets(names, catalogue, find_sources(mirror, offline), fresh)


@data_app.command("verify")
def data_verify(
    names: Annotated[list[str] | None, typer.Argument(help="Datasets (default: all in the cache).")] = None,
    catalogue: Catalogue = None,
    mirror: Mirror = None,
) -> int:
    """Hash cached files and prepared arrays again and compare with the catalogue.

    Datasets of an experiment are checked with --catalogue EXPERIMENT.
    """
    from ..commands.datasets import verify_datasets

    text, good = verify_datasets(names or [], catalogue, find_sources(mirror, True))
    print(text)
    return 0 if good else 3


@data_app.command("check-links")
def data_check_links(
    names: Annotated[list[str] | None, typer.Argument(help="Datasets (default: all of the catalogue).")] = None,
    catalogue: Catalogue = None,
) -> int:
    """Ask every address of the datasets for its size, without downloading the files."""
    from ..commands.datasets import check_links

    text, good = check_links(names or [], catalogue)
    print(text)
    return 0 if good else 3


@data_app.command("info")
def data_info(
    name: Annotated[str, typer.Argument(help="Dataset.")],
    catalogue: Catalogue = None,
    mirror: Mirror = None,
    offline: Offline = False,
) -> None:
    """Describe a dataset: origin, sizes, labels, scaling, files."""
    from ..commands.datasets import describe_dataset, find_entries

    print(describe_dataset(find_entries([name], catalogue)[0], find_sources(mirror, offline)))


@learners_app.command("list")
def learners_list() -> None:
    """List all learners with their parameters and grid axes."""
    from ..commands.learners import list_learners

    print(list_learners())


@learners_app.command("show")
def learners_show(name: Annotated[str, typer.Argument(help="Name, or path/to/file.py:Class.")]) -> None:
    """Describe a learner: its parameters, their defaults and what they mean."""
    from ..commands.learners import describe_learner

    print(describe_learner(name))


@learners_app.command("check")
def learners_check(name: Annotated[str, typer.Argument(help="Name, or path/to/file.py:Class.")]) -> int:
    """Run the contract suite over a learner: the properties that the runner relies on."""
    from ..commands.learners import check_properties

    text, good = check_properties(name)
    print(text)
    return 0 if good else 1


@app.command()
def doctor() -> int:
    """Check this installation: versions, cores, cache, compiled kernels, mirrors."""
    from ..commands.doctor import examine_installation

    text, good = examine_installation(find_sources(None, False))
    print(text)
    return 0 if good else 1
