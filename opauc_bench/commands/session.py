"""An opened experiment: its parts, its results folder, and what the command line restricts it to."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..config import EstimatorEntry, Experiment, load_experiment
from ..data import DatasetEntry, Sources, load_catalogue
from ..errors import ConfigError, LearnerError, OpaucBenchError, suggest
from ..learners import learner_class, learner_parameters, refused_parameters, refused_values
from ..plan import Column, make_column, make_columns, recorded_column
from ..report.published import list_published
from ..results.manifest import Manifest, config_of, find_manifest, read_manifest
from ..results.reuse import beside
from ..sentences import Problems
from ..task import Task
from .shards import Shard, parse_shard

__all__ = ["Session", "shell_command"]

# Definition of a column without records.
_NOTHING: dict[str, Any] = {"learner": None, "version": None, "params": {}, "grid": {}}


@dataclass(frozen=True)
class Session:
    """An opened experiment."""

    experiment: Experiment
    catalogue: dict[str, DatasetEntry]
    columns: list[Column]
    sources: Sources
    folder: Path  # of the results
    datasets: tuple[str, ...]  # those selected on the command line; by default all
    learners: tuple[str, ...]  # likewise
    shard: Shard | None = None  # the part of the tasks that is computed here; None for all
    # Columns whose version or file is not that of the folder's records, each with what has changed. They have the
    # definition of the records, but for `with_present_versions`.
    changed_columns: Mapping[str, str] = field(default_factory=dict)
    # Columns whose learner or estimator is not on this machine, so that their records can only be read; each with why.
    absent_columns: Mapping[str, OpaucBenchError] = field(default_factory=dict)

    @classmethod
    def open(
        cls,
        config: Path,
        *,
        content: dict[str, Any] | None = None,
        change: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        **part: Any,
    ) -> Session:
        """Read and check an experiment file; ConfigError has all its mistakes. Nothing is fetched or computed.

        A file whose ``content`` is given is not read, and ``change`` changes its content before it is checked.
        For ``part`` see `of_experiment`.
        """
        return cls.of_experiment(_load(config, content, change), **part)

    @classmethod
    def of_folder(cls, folder: Path, **part: Any) -> Session:
        """Open a results folder by its manifest, which has the whole experiment; no config is read.

        Paths in the experiment (learners, data, a catalogue) are relative to its config, see `config_of`. Where a
        learner, an estimator or the catalogue is not on this machine, the records can be read all the same. For
        ``part`` see `of_experiment`.

        Raises
        ------
        ResultsError
            If the folder has no valid manifest.
        ConfigError, LearnerError
            If this version does not accept the experiment.
        """
        manifest = read_manifest(folder)
        config = config_of(folder, manifest.config)
        part |= {"out": folder, "shard": _shard_of(manifest)}
        session: Session | None
        try:
            session = cls.of_experiment(_load(config, manifest.experiment), **part)
        except (ConfigError, LearnerError):
            session = cls._of_records(manifest, config, **part)
            if session is None:
                raise
        return session._with_definitions(manifest)

    @classmethod
    def _of_records(cls, manifest: Manifest, config: Path, **part: Any) -> Session | None:
        """Open the experiment of a manifest without learners and a catalogue that are not here; None if others fail."""
        from ..learners.ranker import AbsentLearner

        columns: dict[str, Column] = {}
        absent: dict[str, OpaucBenchError] = {}
        path = manifest.experiment.get("catalogue")
        is_here = not isinstance(path, str) or (config.parent / path).is_file()
        content = manifest.experiment if is_here else {**manifest.experiment, "catalogue": None}
        try:
            experiment = load_experiment(config, known_published=list_published(), content=content)
            own = experiment.own_entries or experiment.catalogue_path
            catalogue = load_catalogue(own, experiment.path)
        except (ConfigError, Problems):
            return None
        if not is_here:
            experiment = experiment.model_copy(update={"catalogue": path})
        for entry in experiment.learners:
            try:
                if isinstance(entry, EstimatorEntry):
                    _check_estimator(**entry.described(config.parent), grid=entry.grid)
                columns[entry.name] = make_column(experiment, entry, learner_class)
            except (LearnerError, TypeError, ValueError) as error:  # the last two where it takes other parameters now
                last = manifest.definitions.get(manifest.last_run.get(entry.name, ""), _NOTHING)
                identity, tuned_by = _without(["protocol"], last), columns.get(entry.axes_from or "")
                columns[entry.name] = recorded_column(experiment, entry, identity, AbsentLearner(), tuned_by)
                named = LearnerError(f"{entry.name}: {error}")
                absent[entry.name] = error if isinstance(error, LearnerError) else named
        resolved = {"catalogue": catalogue, "columns": list(columns.values()), "absent_columns": absent}
        return cls.of_experiment(experiment, resolved=resolved, **part)

    @classmethod
    def of_experiment(
        cls,
        experiment: Experiment,
        *,
        sources: Sources,
        out: Path | None = None,
        datasets: Collection[str] | None = None,
        learners: Collection[str] | None = None,
        shard: Shard | None = None,
        resolved: Mapping[str, Any] | None = None,
    ) -> Session:
        """Open an experiment; ``out`` is the folder of its results, ``datasets`` and ``learners`` select some of it.

        ``resolved`` are catalogue and columns, where they are known.
        """
        resolved = resolved or {
            "catalogue": load_catalogue(experiment.own_entries or experiment.catalogue_path, experiment.path),
            "columns": make_columns(experiment, learner_class),
        }
        return cls(
            **resolved,
            experiment=experiment,
            sources=sources,
            folder=out or _usual_folder(experiment, shard),
            datasets=_restricted(datasets, experiment.datasets, "dataset", experiment.rows),
            learners=_restricted(learners, experiment.columns, "learner", {}),
            shard=shard,
        )

    def as_recorded(self) -> Session:
        """The session with the shard that its folder was run as, and with learners and estimators as they were then."""
        manifest = find_manifest(self.folder)
        session = replace(self, shard=_shard_of(manifest))
        return session if manifest is None else session._with_definitions(manifest)

    def with_present_versions(self) -> Session:
        """The session with learners and estimators as they are, where they are here."""
        columns = [
            column if column.key in self.absent_columns else make_column(self.experiment, entry, learner_class)
            for entry, column in zip(self.experiment.learners, self.columns)
        ]
        return replace(self, columns=columns)

    def _with_definitions(self, manifest: Manifest) -> Session:
        """Columns of another version or file get the definition that their last run had, so that records are found."""
        columns, changed = [], {}
        for column in self.columns:
            last = None
            if not any(map(column.defines, manifest.definitions.values())):
                last = _last_definition(column, manifest)
            if last is not None:
                changed[column.key] = _what_changed(last, column.identity)
                column = replace(column, identity=last)
            columns.append(column)
        return replace(self, columns=columns, changed_columns=changed)

    def with_columns_of(self, others: Iterable[Session]) -> Session:
        """The session with the definitions of ``others``, for columns of which all of these have the same one."""
        sessions, columns, changed = list(others), [], {}
        for position, column in enumerate(self.columns):
            first, *rest = [other.columns[position].identity for other in sessions]
            if first != column.identity and all(identity == first for identity in rest):
                changed[column.key] = sessions[0].changed_columns[column.key]
                column = replace(column, identity=first)
            columns.append(column)
        return replace(self, columns=columns, changed_columns=changed)

    def require_all(self) -> None:
        """Raise the error of a learner that is not on this machine, ConfigError for a dataset without an entry."""
        for error in self.absent_columns.values():
            raise error
        for name in self.experiment.datasets:
            if name not in self.catalogue:
                raise ConfigError(f"{self.experiment.path}: no catalogue here has an entry of {name}")

    def changed_versions(self) -> list[str]:
        """Sentences on columns that are shown as recorded, since their learner is another one now, or not here."""
        by_change: dict[str, list[str]] = {}
        for key, change in self.changed_columns.items():
            by_change.setdefault(change, []).append(key)
        run = shell_command(self, "run")
        lines = [f"{', '.join(keys)}: {change}; {run} computes them with it" for change, keys in by_change.items()]
        return lines + [f"{key}: shown as recorded: {error.message}" for key, error in self.absent_columns.items()]

    def change_of_config(self) -> str:
        """What the config says else than the manifest, and what to do; empty if they agree.

        The manifest may lack keys that are newer than itself.
        """
        config, command = self.experiment.path.name, shell_command(self, "report", "--write")
        changed = f"{config} has changed since the tables were written; {command} writes them as it is now"
        try:
            written = Session.of_folder(self.folder, sources=self.sources).experiment.plain()
        except OpaucBenchError:
            return changed
        present = self.experiment.plain()
        if written == present:
            return ""
        metrics, own = (plain["protocol"].pop("metrics", ["auc"]) for plain in (written, present))
        added = [name for name in metrics if name not in own]
        if added and written == present:
            return (
                f"the tables also have {', '.join(added)}, added by 'opauc-bench metrics'; to keep that, put metrics: "
                f"[{', '.join(metrics)}] under protocol of {config}"
            )
        return changed

    def selects(self, task: Task) -> bool:
        """Whether the command line selects the dataset and the column of a task."""
        return task.dataset in self.datasets and task.column in self.learners

    @property
    def is_part(self) -> bool:
        """Whether the command line leaves out any dataset or column."""
        experiment = self.experiment
        return len(self.datasets) < len(experiment.datasets) or len(self.learners) < len(experiment.columns)

    @property
    def reuse(self) -> list[Path]:
        """Folders whose records may be reused."""
        return [beside(self.folder, name) for name in self.experiment.reuse]


def _without(keys: Collection[str], definition: Mapping[str, Any]) -> dict[str, Any]:
    """A definition without some keys, also of the column that tunes its axes."""
    rest = {key: value for key, value in definition.items() if key not in keys}
    return {**rest, "axes_from": _without(keys, rest["axes_from"])} if "axes_from" in rest else rest


def _last_definition(column: Column, manifest: Manifest) -> dict[str, Any] | None:
    """The definition that a column's last run had, if only versions and files differ from the present one."""
    definitions = {name: _without(["protocol"], each) for name, each in manifest.definitions.items()}
    last = definitions.get(manifest.last_run.get(column.key, ""))
    if last is not None and _without(["version", "source"], last) == _without(["version", "source"], column.identity):
        return last
    found = [
        each for each in definitions.values() if _without(["version"], each) == _without(["version"], column.identity)
    ]
    # Versions of our learners are numbers that grow; those of packages are under `last_run`.
    return max(found, key=lambda each: str(each["version"]).zfill(9), default=None)


def _what_changed(last: Mapping[str, Any], present: Mapping[str, Any]) -> str:
    """Which version or file of a definition has changed, in words."""
    if last.get("source") != present.get("source"):
        return "the file has changed since these results were computed"
    if (old := last["version"]) != (new := present["version"]):
        if isinstance(new, str):
            return f"computed with {old}, and {new} is installed"
        return f"computed with version {old}, and the present one is {new}"
    return _what_changed(last["axes_from"], present["axes_from"])


def shell_command(session: Session, name: str, *options: str) -> str:
    """The command line of a command on this experiment and its folder."""
    shard = session.shard if name == "run" else None
    place = () if session.folder == _usual_folder(session.experiment, shard) else ("--out", str(session.folder))
    part = ("--shard", str(shard)) if shard else ()
    return shlex.join(["opauc-bench", name, str(session.experiment.path), *place, *part, *options])


def _restricted(
    names: Collection[str] | None, known: tuple[str, ...], what: str, rows: Mapping[str, str]
) -> tuple[str, ...]:
    if unknown := next((name for name in names or () if name not in known), None):
        why = f"not in this experiment{suggest(unknown, known)}; it has {', '.join(known)}"
        if unknown in rows:
            why = f"this is a row of the table; its dataset is {rows[unknown]}"
        raise ConfigError(f"--{what} {unknown}: {why}")
    return tuple(name for name in known if not names or name in names)


def _shard_of(manifest: Manifest | None) -> Shard | None:
    return parse_shard(manifest.shard) if manifest and manifest.shard else None


def _usual_folder(experiment: Experiment, shard: Shard | None) -> Path:
    return Path("results") / (experiment.name + (shard.suffix if shard else ""))


def _check_estimator(**entry: Any) -> bool:
    from ..learners import check_estimator_entry  # which imports scikit-learn

    return check_estimator_entry(**entry)


def _load(
    config: Path,
    content: dict[str, Any] | None = None,
    change: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
) -> Experiment:
    return load_experiment(
        config,
        known_datasets=load_catalogue,
        learner_parameters=learner_parameters,
        known_published=list_published(),
        check_estimator=_check_estimator,
        refused_parameters=refused_parameters,
        refused_values=refused_values,
        content=content,
        change=change,
    )
