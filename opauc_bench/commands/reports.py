"""``report`` and ``compare``: tables, figures and the page, printed and, on request, written."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..files import remove_file, write_text
from ..protocols import KINDS, PROTOCOLS
from ..protocols.outcome import TestedOutcome
from ..report.compare_render import comparison_to_terminal
from ..report.figure_text import figure_to_terminal
from ..report.grid_edges import edge_notes
from ..report.latex import paper_table
from ..report.over_datasets import cases_of, over_datasets
from ..report.terminal import over_datasets_to_terminal, to_terminal
from ..report.titles import plain_title
from ..report.write import Files, figure_files, names_of_files, table_files, write_files
from ..results.frame import folds_text
from ..results.manifest import Manifest, config_of, find_manifest, place_of_config, write_manifest
from ..results.store import Store
from .figures import figures_of
from .manifests import rendered_test
from .page import PAGE, page_text
from .recorded import Recorded
from .session import Session, shell_command
from .tables import build_report, check_test, notes_on_protocol, plain_titles
from .terminal import say, width, wrapped

__all__ = [
    "has_other_folds",
    "print_comparison",
    "print_report",
    "remove_outdated_files",
    "report",
    "report_files",
    "write_latex",
    "write_report_files",
]

_FOLDS = "folds.csv"
_MISSING_GLYPH = re.compile(r"Glyph (\d+) .* missing from")


def report(session: Session, test: str | None, *, write: bool, to: Path | None, page: bool) -> None:
    """Print the recorded results; with `write` or `to`, write the report into the results folder or into another one.

    With `page`, the HTML page is written as well. The manifest of the results folder names the test of its tables.
    """
    check_test(test)
    if write and to:
        raise ConfigError(f"--write writes into {session.folder}, and --to into {to}: expected one of them")
    if page and not session.experiment.protocol.table_metrics:
        raise ConfigError(
            f"{session.experiment.path}: draws figures; the page is about tables", shell_command(session, "report")
        )
    if page and not (write or to):
        raise ConfigError(
            f"--html writes {PAGE}, and report only prints without --write",
            shell_command(session, "report", "--write", "--html"),
        )
    folder = to or session.folder
    elsewhere = folder.resolve() != session.folder.resolve()
    if elsewhere and (folder / "manifest.json").exists():
        raise ConfigError(f"--to {to}: expected a folder without results of its own", "--to with another folder")
    own_files = (write or to is not None) and not elsewhere
    with Store(session.folder).locked() if own_files else nullcontext():  # a run may end before the lock is there
        recorded = Recorded.read_intact(session)
        for line in [*recorded.changed_data(), *recorded.session.changed_versions()]:
            say(f"note: {line}")
        if own_files:
            _write_own_files(recorded, test, page)
        elif elsewhere:
            write_report_files(recorded, folder, test, page)
    print_report(recorded, test)
    if write or to:
        print(f"\nwritten to {folder}/")


def _write_own_files(recorded: Recorded, test: str | None, page: bool) -> None:
    """Write the report into the results folder, and what it was made from into the manifest."""
    session, place = recorded.session, recorded.manifest.config
    if config_of(session.folder, place) != session.experiment.path:
        place = place_of_config(session.folder, session.experiment.path)
    changes = {"experiment": session.experiment.plain(), "config": place, "test": rendered_test(session, test)}
    manifest = recorded.manifest.model_copy(update=changes)
    remove_outdated_files(session.folder, recorded.manifest, manifest)
    write_report_files(recorded, session.folder, test, page)
    if manifest != find_manifest(session.folder):
        write_manifest(session.folder, manifest)


def write_latex(session: Session, file: str, options: dict[str, Any], test: str | None) -> None:
    """Write the table of a paper to a file, or to standard output if that is ``-``, and nothing else."""
    check_test(test)
    if not session.experiment.protocol.table_metrics:
        raise ConfigError(f"{session.experiment.path}: draws figures, and --latex is about tables")
    if file != "-" and Path(file).suffix != ".tex":
        raise ConfigError(f"--latex {file}: expected a name that ends in .tex, or - for standard output")
    style = session.experiment.latex_table(options)
    recorded = Recorded.read_intact(session)
    table, _ = build_report(recorded, test)
    keys = style.columns or [column.key for column in table.columns]
    rows = {row: table.sources[row] for row in style.rows or table.datasets}
    edges = edge_notes(recorded.edges, rows, keys, table.runs)
    table = replace(table, edges=edges, protocol_notes=notes_on_protocol(session, rows, keys))
    text = paper_table(table, **style.model_dump())
    if file == "-":
        print(text, end="")
    else:
        write_text(Path(file), text)
        print(f"written to {file}")


def write_report_files(recorded: Recorded, folder: Path, test: str | None, page: bool = False) -> None:
    """Write tables, comparison, figures and the list of folds into a folder.

    The page is written if requested, and if there is one already, which would be out of date.
    """
    session, draw = recorded.session, find_spec("matplotlib") is not None
    with _missing_glyphs_said_once():
        files = report_files(recorded, test, page or (folder / PAGE).is_file(), draw)
    write_files(folder, files)
    if session.experiment.figures and not draw:
        say("figures are not drawn without matplotlib; their numbers are in the CSV files")
        say(f"  try: pip install 'opauc-bench[plots]' && {shell_command(session, 'report', '--write')}")


@contextmanager
def _missing_glyphs_said_once() -> Iterator[None]:
    """Print one note in place of matplotlib's warning for each character and file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    missing: dict[str, None] = {}  # in the order of their first warning
    for warning in caught:
        if found := _MISSING_GLYPH.match(str(warning.message)):
            missing[chr(int(found[1]))] = None
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    if missing:
        say(
            f"note: no font here has {' '.join(missing)}, which figures show as boxes: install one that has, "
            "such as Noto Sans CJK SC"
        )


def report_files(recorded: Recorded, test: str | None, page: bool, draw: bool) -> Files:
    """Render tables, comparison, figures and the list of folds; with `page` the page, with `draw` drawings."""
    session = recorded.session
    files: dict[str, str | bytes | None] = {}
    for figure in figures_of(recorded):
        files |= figure_files(figure, draw)
    if session.experiment.protocol.table_metrics:
        files |= table_files(*build_report(recorded, test))
        if page:
            files[PAGE] = page_text(recorded, test)
    return {**files, _FOLDS: _folds_of(recorded)}


def remove_outdated_files(folder: Path, before: Manifest, after: Manifest) -> None:
    """Remove tables and figures that an experiment had before, and does not have any more."""
    for name in _files_of(before) - _files_of(after):
        remove_file(folder / name)


def _files_of(manifest: Manifest) -> set[str]:
    experiment = manifest.experiment
    outcomes = {kind: protocol.outcome for kind, protocol in zip(KINDS, PROTOCOLS)}
    has_table = issubclass(outcomes.get(experiment["protocol"].get("kind"), object), TestedOutcome)
    figures = [str(figure.get("name", "")) for figure in experiment.get("figures", ())]
    names = names_of_files([name for name in figures if name == Path(name).name], has_table)
    return {*names, PAGE} if has_table else names


def has_other_folds(recorded: Recorded) -> bool:
    """Whether the results folder has a list of folds that is not that of its records.

    True after a change of a learner or of data was undone: the folder has records of both versions, and its tables show
    those that were computed last.
    """
    path = recorded.session.folder / _FOLDS
    return path.is_file() and path.read_bytes() != _folds_of(recorded).encode()


def _folds_of(recorded: Recorded) -> str:
    return folds_text(recorded.pairs, plain_titles(recorded.session.columns))


def print_report(recorded: Recorded, test: str | None) -> None:
    """Print the table and the numbers of the figures."""
    session = recorded.session
    if session.experiment.protocol.table_metrics:
        _print_table(recorded, test)
    else:
        print(wrapped(plain_title(session.experiment.title)))
    for figure in figures_of(recorded, restricted=True):
        print()
        print(figure_to_terminal(figure, width()).rstrip("\n"))


def _print_table(recorded: Recorded, test: str | None) -> None:
    table, comparison = build_report(recorded, test)
    session = recorded.session
    if session.is_part:
        table, _ = build_report(recorded, test, restricted=True)
    print(to_terminal(table, width()).rstrip("\n"))
    if table.test == "bayes" and table.compares:
        for end, rows in cases_of(table).items():
            print(f"\nOver the datasets, rows {end}:\n" if end else "")
            print(over_datasets_to_terminal(over_datasets(rows), width()).rstrip("\n"))
    if comparison is not None:
        print()
        sentences = [f"Beside {comparison.published.title}:", *comparison.summary().sentences()]
        print("\n".join(map(wrapped, [*sentences, f"Cell by cell: {shell_command(session, 'compare')}"])))


def print_comparison(session: Session, test: str | None) -> None:
    """Print our values beside the published ones."""
    if not session.experiment.protocol.table_metrics:
        raise ConfigError(f"{session.experiment.path}: draws figures, and there is no published table of them")
    recorded = Recorded.read_intact(session)
    _, comparison = build_report(recorded, test)
    if comparison is None:
        raise ConfigError(
            f"{session.experiment.path}: names no published table to compare with",
            "add e.g. 'report: {published: aij2016_table2}' to the config",
        )
    print(comparison_to_terminal(comparison, width()))
