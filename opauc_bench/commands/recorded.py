"""An experiment with its records: a folder is read once, and everything is computed from that.

Nothing here depends on the data or the memory of this machine: the manifest states what the runs had.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from shlex import quote
from typing import Any

from .. import __version__
from ..data import find_prepared, foreign_files, has_changed_files
from ..errors import ResultsError
from ..plan import make_plan
from ..report.grid_edges import Edges, edges_of
from ..results.manifest import DatasetFacts, Manifest, find_manifest
from ..results.record import Record
from ..results.reuse import beside, read_results
from ..results.store import Records, Store
from ..runner.limits import available_memory
from ..task import Shape, Task
from .manifests import definitions_of
from .session import Session, shell_command
from .terminal import counted

__all__ = ["Cells", "Pair", "Recorded", "shapes_of"]

Pair = tuple[Task, Record | None]
Cells = dict[tuple[str, str], list[Pair]]


@dataclass
class Recorded:
    """An opened experiment, the manifest and the records of its folder, and all its tasks.

    The manifest is empty if nothing has been run. The records include those of other folders that it refers to.
    """

    session: Session
    manifest: Manifest
    records: Records

    @classmethod
    def read(cls, session: Session) -> Recorded:
        """Read the folder of a session."""
        experiment, manifest = session.experiment, find_manifest(session.folder)
        records = read_results(session.folder, manifest)
        if manifest is None:
            manifest = Manifest(
                experiment=experiment.plain(),
                config=experiment.path.name,
                opauc_bench=__version__,
                datasets={},
                memory_bytes=available_memory(experiment.limits.memory_bytes),
            )
        return cls(session, manifest, records)

    @classmethod
    def read_intact(cls, session: Session) -> Recorded:
        """Read the folder of a session.

        Raises
        ------
        ResultsError
            If records are damaged, or missing where it refers to, or if there are records without a manifest.
        """
        recorded, folder = cls.read(session), session.folder
        if recorded.lacks_manifest:
            raise ResultsError(
                f"{folder}: there are records, but no manifest.json, which says what they belong to",
                f"{shell_command(session, 'run')}  # writes it again, and computes only what has no record",
            )
        recorded.records.raise_if_damaged(shell_command(session, "run"))
        for name, count in recorded.missing_references().items():
            other = beside(folder, name)
            state = "does not have them" if other.is_dir() else "does not exist"
            raise ResultsError(
                f"{folder}/ refers to {counted(count, 'record')} of {other}/, which {state}",
                f"{shell_command(session, 'run')}  # computes them here; or put {other}/ back, and "
                f"opauc-bench pack {quote(str(folder))} --self-contained copies them",
            )
        return recorded

    def __post_init__(self):
        for task in self.tasks if self.records else ():
            record = self.records.of(task)
            if record is not None and (problem := record.mismatch(task)):
                del self.records[record.id]
                self.records.damaged.append(f"{self.session.folder}, {task.label}: {problem}")

    @property
    def lacks_manifest(self) -> bool:
        """Whether there are records, but no manifest."""
        return bool(self.records) and find_manifest(self.session.folder) is None

    @cached_property
    def shapes(self) -> dict[str, Shape]:
        """The shape of each dataset whose size is known by the manifest or the catalogue."""
        return shapes_of(self.session, self.manifest.datasets)

    @cached_property
    def tasks(self) -> list[Task]:
        """Every task of the experiment on the data of the manifest, in the order of computation."""
        return make_plan(self.session.experiment, self.shapes, self.session.columns)

    @cached_property
    def cells(self) -> Cells:
        """All tasks with their records, by row and column, ordered by trial and fold."""
        found: Cells = {
            (row, column.key): [] for row in self.session.experiment.rows for column in self.session.columns
        }
        for task in sorted(self.tasks, key=lambda task: (task.trial, task.fold)):
            found[task.row, task.column].append((task, self.records.of(task)))
        return found

    @cached_property
    def edges(self) -> Edges:
        """Edges of the grid at which settings were selected, by row and column."""
        return edges_of(self.cells if self.records else {})

    @property
    def pairs(self) -> Iterable[tuple[Task, Record]]:
        """All tasks with a record."""
        return ((task, record) for tasks in self.cells.values() for task, record in tasks if record is not None)

    def lacking_metrics(self) -> list[str]:
        """A sentence on records that lack a metric of the config, if there are any."""
        count = sum(record.ok and task.protocol.lacks(record.metrics) for task, record in self.pairs)
        if not count:
            return []
        run, add = (
            shell_command(self.session, "run"),
            f"opauc-bench metrics {quote(str(self.session.folder))} --add NAME",
        )
        return [
            f"{counted(count, 'record')} without a metric of the config: {run} computes them again; {add} does without "
            "training, where test scores are kept"
        ]

    @property
    def orphaned(self) -> list[Record]:
        """Records of the folder that belong to no task: of another definition, or of another experiment."""
        known = {task.id for task in self.tasks}
        return [record for record in self.records.own() if record.id not in known]

    def missing_references(self) -> dict[str, int]:
        """Number of missing records that this folder refers to, per other folder."""
        absent = {task.id for task in self.tasks if self.records.of(task) is None}
        missing = {name: len(absent.intersection(ids)) for name, ids in self.manifest.reused.items()}
        return {name: count for name, count in missing.items() if count}

    def store_of(self, record: Record) -> Store:
        """The folder of a record and its test scores: that of the session, or one that it takes records from."""
        other = self.records.reused.get(record.id)
        return Store(beside(self.session.folder, other) if other else self.session.folder)

    def changed_data(self) -> list[str]:
        """Sentences on datasets that have changed on this machine since the results were computed, or may have."""
        sources, sentences = self.session.sources, []
        for name in self.session.experiment.datasets:
            known, entry = self.known_fingerprint(name), self.session.catalogue.get(name)
            if known is None or entry is None:
                continue
            data = find_prepared(entry, sources)
            if data is None and (foreign := foreign_files(entry, sources)):
                sentences += [f"{name}: {line}; whether the data have changed is not known" for line in foreign]
            elif has_changed_files(entry, sources) or (data is not None and data.fingerprint != known):
                sentences.append(f"{name}: the data on this machine have changed since these results were computed")
        return sentences

    @cached_property
    def definitions(self) -> dict[str, dict[str, Any]]:
        """Definitions of the manifest and of the tasks, by hash."""
        return {**definitions_of(self.tasks), **self.manifest.definitions}

    def environment_of(self, record: Record) -> dict[str, Any]:
        """Software and machine of a record; empty if the manifest has lost it."""
        return self.manifest.environments.get(record.environment, {})

    @property
    def known_datasets(self) -> set[str]:
        """Datasets of the manifest that were available, so that their size is known."""
        return {name for name, facts in self.manifest.datasets.items() if not facts.unavailable}

    def known_fingerprint(self, dataset: str) -> str | None:
        """Fingerprint of the data of the results."""
        return self.manifest.datasets.get(dataset, DatasetFacts()).fingerprint


def shapes_of(session: Session, facts: Mapping[str, DatasetFacts]) -> dict[str, Shape]:
    """The shape of each dataset whose size is known, for the plan: from facts, else from the catalogue."""
    shapes = {}
    for name in session.experiment.datasets:
        entry, known = session.catalogue.get(name), facts.get(name, DatasetFacts())
        n_samples, n_features = known.n_samples, known.n_features
        density, n_positive = known.density, known.n_positive
        if entry is not None:  # it may have been in a catalogue that is not here
            n_samples, n_features = n_samples or entry.n_samples, n_features or entry.width
            density, n_positive = entry.density if density is None else density, n_positive or entry.n_positive
        if n_samples is None or n_features is None or density is None:  # counted when the data are read
            continue
        generated = entry is not None and entry.fourier is not None
        shapes[name] = Shape(n_samples, n_features, density, known.fingerprint, n_positive, generated, known.parts)
    return shapes
