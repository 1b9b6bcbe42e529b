"""opauc-bench data: datasets."""

from __future__ import annotations

from typing import Annotated

import typer

from .app import data_app
from .options import Catalogue, Fresh, Mirror, Offline, find_sources, say


@data_app.command("list")
def data_list(catalogue: Catalogue = None, mirror: Mirror = None, offline: Offline = False) -> None:
    """List all datasets and where their files are available."""
    from ..commands.listings import list_datasets
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
    from ..commands.listings import find_entries
    from ..data import prepare

    for entry in find_entries(names, catalogue):
        data = prepare(entry, find_sources(mirror, offline), say, fresh)
        print(f"{entry.name}: {data.X.shape[0]:,} rows, {data.X.shape[1]:,} features, ready")


@data_app.command("verify")
def data_verify(
    names: Annotated[list[str] | None, typer.Argument(help="Datasets (default: all in the cache).")] = None,
    catalogue: Catalogue = None,
    mirror: Mirror = None,
) -> int:
    """Hash cached files and prepared arrays again and compare with the catalogue."""
    from ..commands.listings import verify_datasets

    lines, good = verify_datasets(names or [], catalogue, find_sources(mirror, True))
    print("\n".join(lines))
    return 0 if good else 3


@data_app.command("info")
def data_info(
    name: Annotated[str, typer.Argument(help="Dataset.")],
    catalogue: Catalogue = None,
    mirror: Mirror = None,
    offline: Offline = False,
) -> None:
    """Describe a dataset: origin, sizes, labels, scaling, files."""
    from ..commands.listings import describe_dataset, find_entries

    print(describe_dataset(find_entries([name], catalogue)[0], find_sources(mirror, offline)))
