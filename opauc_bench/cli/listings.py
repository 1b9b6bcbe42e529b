"""Commands about datasets, learners and the installation."""

from __future__ import annotations

from typing import Annotated

import typer

from .app import app, data_app, learners_app
from .options import Catalogue, Fresh, Mirror, Offline, find_sources


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
    from ..commands.terminal import say
    from ..data import prepare
    from ..errors import DataError

    failures = []
    for entry in find_entries(names, catalogue):
        try:
            data = prepare(entry, find_sources(mirror, offline), say, fresh)
        except DataError as error:
            failures.append(error)
        else:
            print(f"{entry.name}: {data.X.shape[0]:,} rows, {data.X.shape[1]:,} features, ready")
    if len(failures) > 1:
        raise DataError("\n".join(map(str, failures)))
    for failure in failures:
        raise failure


@data_app.command("verify")
def data_verify(
    names: Annotated[list[str] | None, typer.Argument(help="Datasets (default: all in the cache).")] = None,
    catalogue: Catalogue = None,
    mirror: Mirror = None,
) -> int:
    """Hash cached files and prepared arrays again and compare with the catalogue.

    Datasets of an experiment are checked with --catalogue EXPERIMENT.
    """
    from ..commands.listings import verify_datasets

    lines, good = verify_datasets(names or [], catalogue, find_sources(mirror, True))
    print("\n".join(lines))
    return 0 if good else 3


@data_app.command("check-links")
def data_check_links(
    names: Annotated[list[str] | None, typer.Argument(help="Datasets (default: all of the catalogue).")] = None,
    catalogue: Catalogue = None,
) -> int:
    """Ask every address of the datasets for its size, without downloading the files."""
    from ..commands.listings import check_links

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
    from ..commands.listings import describe_dataset, find_entries

    print(describe_dataset(find_entries([name], catalogue)[0], find_sources(mirror, offline)))


@learners_app.command("list")
def learners_list() -> None:
    """List all learners with their parameters and grid axes."""
    from ..commands.listings import list_learners

    print(list_learners())


@learners_app.command("show")
def learners_show(name: Annotated[str, typer.Argument(help="Name, or path/to/file.py:Class.")]) -> None:
    """Describe a learner: its parameters, their defaults and what they mean."""
    from ..commands.listings import describe_learner

    print(describe_learner(name))


@learners_app.command("check")
def learners_check(name: Annotated[str, typer.Argument(help="Name, or path/to/file.py:Class.")]) -> int:
    """Run the contract suite over a learner: the properties that the runner relies on."""
    from ..learners import get_learner
    from ..testing.contract import check_learner

    results = check_learner(get_learner(name))
    printed = set()
    for result in results:
        print(f"{'ok  ' if result.passed else 'FAIL'}  {result.name}")
        if not result.passed:
            print(f"      {'the same as above' if result.detail in printed else result.detail}")
            printed.add(result.detail)
    failed = sum(not result.passed for result in results)
    print(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


@app.command()
def doctor() -> int:
    """Check this installation: versions, cores, cache, compiled kernels, mirrors."""
    from ..commands.listings import examine

    lines, good = examine(find_sources(None, False))
    print("\n".join(lines))
    return 0 if good else 1
