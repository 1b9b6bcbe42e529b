"""Published tables: the numbers, the marks, and known discrepancies.

One YAML file per table, beside this module. The marks are as printed. Notes state where a number is contradicted,
ambiguous or cannot be reproduced.
"""

from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Literal

import yaml

from ...errors import ConfigError, suggest
from ...evaluation.significance import Verdict
from ..table import TableColumn

__all__ = ["Note", "Published", "PublishedCell", "list_published", "load_published"]


@dataclass(frozen=True)
class PublishedCell:
    """One printed cell: mean and std over the paper's runs, and the mark from the side of the reference column.

    The reference column has no verdict, and N/A has neither mean nor std. The AUC is in [0, 1].
    """

    mean: float | None = None
    std: float | None = None
    verdict: Verdict | None = None


@dataclass(frozen=True)
class Note:
    """A known discrepancy of some published cells; empty datasets, columns or metrics mean all."""

    text: str  # full sentences
    kind: Literal["explained", "unexplained", "mark"]  # the cause of other values; mark: about the printed mark only
    datasets: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    ours: Literal["higher", "lower"] | None = None  # the side of the printed value on which our value is expected
    metrics: tuple[str, ...] = ()

    def concerns(self, dataset: str, column: str, metric: str = "auc") -> bool:
        """Whether the note is about this cell."""
        scope = ((self.datasets, dataset), (self.columns, column), (self.metrics, metric))
        return all(not names or name in names for names, name in scope)

    def expects(self, difference: float) -> bool:
        """Whether the note is about values that differ by `difference` (ours minus published)."""
        return self.kind != "mark" and (self.ours is None or (difference > 0) == (self.ours == "higher"))


@dataclass(frozen=True)
class Published:
    """A published table."""

    name: str  # such as aij2016_table2
    title: str
    source: str  # the publication
    table: str  # the number of the table there
    protocol: str  # what a mean is over, as `Protocol.summary`
    digits: int  # decimals of an AUC
    reference: str  # key of the column from whose side the marks are given; empty where the paper has no marks
    columns: tuple[TableColumn, ...]  # learner registry names with the printed headings, reference first
    datasets: tuple[str, ...]
    cells: dict[tuple[str, str], PublishedCell]  # every dataset with every column
    win_tie_loss: dict[str, tuple[int, int, int]]  # the printed counts, if any
    not_available: str  # why cells are printed as N/A
    remarks: tuple[str, ...]  # on the table as a whole
    notes: tuple[Note, ...]  # known discrepancies
    others: dict[str, dict[tuple[str, str], PublishedCell]] = field(default_factory=dict)  # other metrics than the AUC
    ddof: int | None = None  # a std has n - ddof in the denominator; None where the paper does not say it
    stand_for: dict[str, str] = field(default_factory=dict)  # the printed column of our columns with another name

    def cell(self, dataset: str, column: str, metric: str = "auc") -> PublishedCell | None:
        """Return the printed cell that our cell is compared with, or None."""
        cells = self.cells if metric == "auc" else self.others.get(metric, {})
        return cells.get((dataset, self.stand_for.get(column, column)))

    def notes_on(self, dataset: str, column: str, metric: str = "auc") -> tuple[Note, ...]:
        """Return the notes about one cell, in the file's order."""
        return tuple(note for note in self.notes if note.concerns(dataset, column, metric))


def list_published() -> list[str]:
    """Return the names of the published tables that `load_published` knows, sorted."""
    files = resources.files(__name__).iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


def load_published(name: str) -> Published:
    """Read one published table from the package; raises ConfigError if it is not one of `list_published`."""
    known = list_published()
    if name not in known:
        raise ConfigError(f"no published table {name!r}{suggest(name, known)}", f"known tables: {', '.join(known)}")
    raw = yaml.safe_load(resources.files(__name__).joinpath(f"{name}.yaml").read_text(encoding="utf-8"))
    reference = raw.get("reference", "")
    unmarked = {reference} if reference else set(raw["columns"])

    def read(table: dict) -> dict[tuple[str, str], PublishedCell]:
        return {
            (dataset, column): _cell(value, column in unmarked)
            for dataset, row in table.items()
            for column, value in row.items()
        }

    return Published(
        **{key: raw[key] for key in ("title", "source", "table", "protocol", "digits")},
        name=name,
        reference=reference,
        columns=tuple(TableColumn(key, title) for key, title in raw["columns"].items()),
        datasets=tuple(raw["cells"]),
        cells=read(raw["cells"]),
        win_tie_loss={key: tuple(counts) for key, counts in raw.get("win_tie_loss", {}).items()},
        not_available=raw.get("not_available", ""),
        remarks=tuple(raw["remarks"]),
        notes=tuple(Note(**{key: _frozen(value) for key, value in note.items()}) for note in raw["notes"]),
        others={metric: read(table) for metric, table in raw.get("others", {}).items()},
        ddof=raw.get("ddof"),
        stand_for=raw.get("stand_for", {}),
    )


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _cell(value: list[Any] | Literal["N/A"], is_unmarked: bool) -> PublishedCell:
    if value == "N/A":
        return PublishedCell()
    mean, std, *mark = value
    return PublishedCell(mean, std, None if is_unmarked else mark[0] if mark else "tie")
