"""One experiment in one results folder: what it consists of, what is done, and how the rest gets done."""

from __future__ import annotations

import fcntl
import os
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import __version__
from ..config import Experiment, load_experiment
from ..data import Dataset, DatasetEntry, Sources, find_prepared, load_catalogue, prepare
from ..errors import ConfigError, DataError, ResultsError
from ..learners import get_learner, learner_parameters, zero_axes
from ..plan import Column, Shape, Task, make_columns, make_plan
from ..protocol import FIGURE_KINDS
from ..report.published import list_published
from ..yamlio import suggest
from .execute import Executor
from .folds import Records
from .manifest import config_of, read_manifest, recorded_datasets
from .shards import Shard
from .store import Store, write_json
from .task import Workplace, environment

__all__ = ["Session", "status_counts"]

Notify = Callable[[str], None]


@dataclass
class Session:
    """An experiment, its datasets, and the folder of its results.

    Parameters
    ----------
    experiment : Experiment
    catalogue : dict of str to DatasetEntry
    columns : list of Column
    sources : Sources
    folder : Path
    datasets, learners : tuple of str
        What the command line restricts this run to; empty for everything.
    shard : Shard, optional
        The share of the tasks that this run computes; by default all of them.
    as_recorded : bool
        Whether tasks are those on the data that the folder's manifest names, and not on the data at hand.

    Attributes
    ----------
    prepared : dict of str to Dataset
        Datasets that are ready.
    unavailable : dict of str to DataError
        Why others are not.
    told : dict of str to dict
        What the manifests of other folders know of datasets that are not at hand.
    """

    experiment: Experiment
    catalogue: dict[str, DatasetEntry]
    columns: list[Column]
    sources: Sources
    folder: Path
    datasets: tuple[str, ...] = ()
    learners: tuple[str, ...] = ()
    as_recorded: bool = False
    shard: Shard | None = None
    prepared: dict[str, Dataset] = field(default_factory=dict)
    unavailable: dict[str, DataError] = field(default_factory=dict)
    told: dict[str, dict[str, Any]] = field(default_factory=dict)
    _hashed: set[str] = field(default_factory=set, init=False)

    @classmethod
    def open(
        cls,
        config: Path,
        *,
        out: Path | None = None,
        sources: Sources,
        datasets: tuple[str, ...] = (),
        learners: tuple[str, ...] = (),
        shard: Shard | None = None,
    ) -> Session:
        """Read and check an experiment; nothing is fetched or computed.

        Raises
        ------
        ConfigError
            All mistakes of the file at once.
        """
        return cls._opened(_load(config), out, sources, datasets, learners, shard)

    @classmethod
    def of_folder(
        cls, folder: Path, *, sources: Sources, datasets: tuple[str, ...] = (), learners: tuple[str, ...] = ()
    ) -> Session:
        """Open a results folder by its manifest, which has the whole experiment; no config is read.

        Files that the experiment names (learners, a catalogue) are looked for relative to its config, and that where
        configs usually are.

        Raises
        ------
        ResultsError
            If the folder has no manifest, or one that cannot be read.
        ConfigError
            If the experiment is not one that this version understands.
        LearnerError
            If a learner's file is not there.
        """
        manifest = read_manifest(folder)
        config = config_of(folder, str(manifest.get("config") or f"{folder.name}.yaml"))
        session = cls._opened(_load(config, manifest["experiment"]), folder, sources, datasets, learners)
        session.as_recorded = True
        return session

    @classmethod
    def _opened(
        cls,
        experiment: Experiment,
        folder: Path | None,
        sources: Sources,
        datasets: tuple[str, ...],
        learners: tuple[str, ...],
        shard: Shard | None = None,
    ) -> Session:
        catalogue = load_catalogue(experiment.catalogue_path)
        return cls(
            experiment=experiment,
            catalogue=catalogue,
            columns=make_columns(experiment, get_learner),
            sources=sources,
            folder=folder or _usual_folder(experiment, shard),
            datasets=_chosen(datasets, experiment.datasets, "dataset"),
            learners=_chosen(learners, experiment.columns, "learner"),
            shard=shard,
            prepared=_ready(experiment, catalogue, sources),
        )

    @property
    def store(self) -> Store:
        return Store(self.folder)

    def prepare_data(self, notify: Notify) -> None:
        """Get the chosen datasets ready; those that cannot be had are noted with the reason."""
        for name in self.datasets or self.experiment.datasets:
            self.prepare_dataset(name, notify)

    def prepare_dataset(self, name: str, notify: Notify) -> Dataset | None:
        """Get one dataset ready, or note why it cannot be had."""
        if name not in self.prepared and name not in self.unavailable:
            self._prepare(name, notify)
        return self.prepared.get(name)

    def check_data(self, names: Collection[str], notify: Notify) -> list[str]:
        """Hash the arrays of datasets that are about to be computed on, once; those that have changed are made anew.

        Returns
        -------
        list of str
            Datasets with another fingerprint than before, or none: what was planned with them does not hold.
        """
        changed = []
        for name in sorted(set(names) - self._hashed):
            planned = self.prepared.pop(name).fingerprint
            self._prepare(name, notify)
            if name not in self.prepared or self.prepared[name].fingerprint != planned:
                changed.append(name)
        return changed

    def _prepare(self, name: str, notify: Notify) -> None:
        self._hashed.add(name)
        try:
            self.prepared[name] = prepare(self.catalogue[name], self.sources, notify, hashed=True)
        except DataError as error:
            self.unavailable[name] = error

    def memory_at_hand(self) -> float:
        """Bytes that one task may use: the limit of the config, else the memory of this machine."""
        limit = self.experiment.limits.memory_gb
        return limit * 1e9 if limit else float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))

    def is_hopeless(self, task: Task) -> bool:
        """Whether a task needs far more memory than it may use; estimates are good to a factor of two."""
        return task.memory_bytes > 2 * self.memory_at_hand()

    def command(self, name: str) -> str:
        """A command about this experiment and folder, as a user would type it."""
        place = () if self.folder == _usual_folder(self.experiment, self.shard) else ("--out", str(self.folder))
        return shlex.join(["opauc-bench", name, str(self.experiment.path), *place])

    def shapes(self) -> dict[str, Shape]:
        """What is known of each dataset.

        Sizes of datasets that are not at hand are the catalogue's, and their identity is the one that the folder's
        manifest remembers: a table can be printed wherever its records are.
        """
        remembered = {**recorded_datasets(self.folder), **self.told}
        shapes = {}
        for name in self.experiment.datasets:
            entry, data = self.catalogue[name], self.prepared.get(name)
            known = {"fingerprint": data.fingerprint, **data.manifest} if data else {}
            if not data or (self.as_recorded and "fingerprint" in remembered.get(name, {})):
                known = remembered.get(name, {})
            shapes[name] = Shape(
                known.get("n_samples", entry.n_samples),
                known.get("n_features", entry.width),
                known.get("density", entry.density),
                known.get("fingerprint"),
                known.get("n_positive", entry.n_positive),
                generated=entry.fourier is not None,
            )
        return shapes

    def tasks(self) -> list[Task]:
        """Tasks of the datasets and learners that were chosen, in the order in which they are computed."""
        tasks = make_plan(self.experiment, self.shapes(), self.columns, self._chosen_elsewhere())
        if self.shard:
            tasks = self.shard.choose(tasks, self.experiment)
        return [
            task
            for task in tasks
            if (not self.datasets or task.dataset in self.datasets)
            and (not self.learners or task.column in self.learners)
        ]

    def _chosen_elsewhere(self) -> dict[tuple[str, str, int, int], dict[str, float]]:
        """Settings that are to be looked at and that a folder named under ``reuse`` has chosen in the same way."""
        protocol = self.experiment.protocol
        if not (protocol.kind in FIGURE_KINDS and protocol.chooses and self.experiment.reuse):
            return {}
        choosing = self.experiment.model_copy(update={"protocol": protocol.splits})
        others = [Store(self.folder.parent / name) for name in self.experiment.reuse]
        chosen = {}
        for task in make_plan(choosing, self.shapes(), [column for column in self.columns if column.n_settings > 1]):
            found = (other.find(task) for other in others)
            if record := next((record for record in found if record and record["status"] == "ok"), None):
                chosen[task.place] = record["chosen"]
        return chosen

    def rows(self) -> dict[str, str]:
        """Rows of the table, each with its dataset: the protocol may have several cases of one dataset."""
        cases = self.experiment.protocol.cases()
        return {f"{dataset}{end}": dataset for dataset in self.experiment.datasets for end, _ in cases}

    def all_tasks(self) -> list[Task]:
        """Every task of the experiment whose dataset is known, in the order in which they would be computed."""
        return make_plan(self.experiment, self.shapes(), self.columns)

    def records(self) -> Records:
        """All tasks of the experiment with their records, by row and column, ordered by trial and fold."""
        found: dict[tuple[str, str], list] = {(row, column.key): [] for row in self.rows() for column in self.columns}
        store, shared = self.store, {}
        for task in sorted(self.all_tasks(), key=lambda task: (task.trial, task.fold)):
            record = store.read(task)
            if record is not None:
                _share(record, task, shared)
            found[task.row, task.column].append((task, record))
        return found

    def not_to_be_had(self) -> set[str]:
        """Datasets that this run, or the last one of the folder, could not get."""
        remembered = recorded_datasets(self.folder)
        return set(self.unavailable) | {
            name
            for name, entry in remembered.items()
            if entry.get("unavailable") and (self.as_recorded or name not in self.prepared)
        }

    def take_over(self, tasks: list[Task]) -> None:
        """Copy finished records of the same tasks from the folders named under ``reuse``."""
        for other in (Store(self.folder.parent / name) for name in self.experiment.reuse):
            for task in tasks:
                if self.store.read(task) is None and (record := other.find(task)) and record["status"] == "ok":
                    self.store.write(task, record)

    def belongs_to_another(self) -> str | None:
        """The config that the results in the folder come from, where that is not this one."""
        if not (self.folder / "manifest.json").is_file():
            return None
        other = read_manifest(self.folder).get("config")
        return other if other not in (None, self.experiment.path.name) else None

    def write_manifest(self) -> None:
        """Write what defines the results: the experiment, the data and the software."""
        known = recorded_datasets(self.folder)
        known |= {name: {"unavailable": True} for name in self.unavailable if "fingerprint" not in known.get(name, {})}
        known |= {name: {"fingerprint": data.fingerprint, **data.manifest} for name, data in self.prepared.items()}
        self.remember({name: known[name] for name in self.experiment.datasets if name in known})

    def remember(self, datasets: dict[str, dict[str, Any]]) -> None:
        """Write the manifest with what is known of these datasets."""
        write_json(
            self.folder / "manifest.json",
            {
                "experiment": self.experiment.plain(),
                "config": self.experiment.path.name,
                "opauc_bench": __version__,
                "datasets": datasets,
                "environment": environment(),
            },
        )

    def run(self, tasks: list[Task], executor: Executor) -> Iterator[tuple[Task, dict[str, Any]]]:
        """Compute tasks, yielding each with its record. The folder must be locked."""
        limits = self.experiment.limits
        workplace = Workplace(
            results=self.folder.resolve(),
            prepared={name: str(data.folder) for name, data in self.prepared.items()},
            seconds=limits.seconds,
            memory_bytes=limits.memory_gb * 1e9 if limits.memory_gb else None,
        )
        yield from executor.run(tasks, workplace)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs out of the folder; the lock goes with the process, however it ends.

        Raises
        ------
        ResultsError
            If another run is at work there, or the folder cannot be written.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            file = open(self.folder / ".lock", "a+", encoding="ascii")  # noqa: SIM115 (held open on purpose)
        except OSError as error:
            raise ResultsError(
                f"{self.folder} cannot be written: {error.strerror}", "choose another folder with --out"
            ) from error
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.seek(0)
                owner = file.read().strip() or "?"
                raise ResultsError(
                    f"{self.folder}: another run (process {owner}) is at work in this folder",
                    "wait for it, or give this one a folder of its own with --out",
                ) from None
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            self.store.sweep()
            yield


def _share(record: dict[str, Any], task: Task, shared: dict[str, dict]) -> None:
    """Let a record have in common with others what is the same: most of the memory of a hundred thousand of them."""
    if record.get("identity") == task.identity:
        record["identity"] = task.identity
    if (environment := record.get("environment")) is not None:
        record["environment"] = shared.setdefault(repr(environment), environment)


def status_counts(tasks: list[Task], store: Store) -> Counter:
    """How many tasks have which status; ``missing`` for those without a record."""
    return Counter((store.read(task) or {"status": "missing"})["status"] for task in tasks)


def _chosen(asked: tuple[str, ...], known: tuple[str, ...], what: str) -> tuple[str, ...]:
    if strangers := [name for name in asked if name not in known]:
        raise ConfigError(
            f"--{what} {strangers[0]}: not in this experiment{suggest(strangers[0], known)}; it has {', '.join(known)}"
        )
    return tuple(name for name in known if name in asked)


def _ready(experiment: Experiment, catalogue: dict[str, DatasetEntry], sources: Sources) -> dict[str, Dataset]:
    """Datasets of an experiment that are in the cache."""
    found = {name: find_prepared(catalogue[name], sources) for name in experiment.datasets}
    return {name: dataset for name, dataset in found.items() if dataset is not None}


def _usual_folder(experiment: Experiment, shard: Shard | None) -> Path:
    return Path("results") / (experiment.name + (shard.suffix if shard else ""))


def _load(config: Path, content: dict[str, Any] | None = None) -> Experiment:
    return load_experiment(
        config,
        known_datasets=load_catalogue,
        learner_parameters=learner_parameters,
        known_published=list_published(),
        zero_axes=zero_axes,
        content=content,
    )
