"""``merge``: join the records of several folders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from shlex import quote

import numpy as np

from ..errors import ResultsError
from ..protocols.splitting import SplitProtocol
from ..results.manifest import DatasetFacts, Manifest, write_manifest
from ..results.record import Record
from ..results.reuse import join_references
from ..results.store import Records, Store
from ..task import Task
from .manifests import compose_manifest
from .recorded import Recorded
from .reports import print_report, write_report_files
from .session import Session, shell_command
from .shards import Shard, parse_shard
from .tables import check_published, check_test
from .terminal import counted, say, wrapped
from .verify import TOLERANCE

__all__ = ["Merged", "merge_folders", "merge_results"]


@dataclass(frozen=True)
class Merged:
    """The result of a merge: counts of copied records and of those that the folder had already, and what is missing.

    ``absent_shards`` are those without a folder of which tasks are missing. ``outdated`` has, by folder, how many of
    these have a record there that an interrupted run was to compute again.
    """

    recorded: Recorded
    copied: int
    present: int
    missing: list[Task]
    absent_shards: list[Shard]
    outdated: dict[Path, int]


def merge_results(session: Session, folders: Sequence[Path], test: str | None) -> int:
    """Merge the folders of shards, write and print the report; returns the exit code."""
    check_test(test)
    check_published(session.experiment)
    with Store(session.folder).locked():
        merged = merge_folders(session, folders, test)
        write_report_files(merged.recorded, session.folder, test)
    say(f"{counted(merged.copied, 'record')} merged into {session.folder}/, {merged.present} were there")
    print_report(merged.recorded, test)
    print(f"\nwritten to {session.folder}/")
    for line in (lacking := merged.recorded.lacking_metrics()):
        say(wrapped(line))
    for folder, count in merged.outdated.items():
        records = f"{counted(count, 'record')} that an interrupted run was to compute again"
        say(wrapped(f"{folder}: without {records}; the same run with --shard continues it"))
    if not merged.missing:
        return 1 if lacking else 0
    names = ", ".join(task.label for task in merged.missing[:3])
    more = f" and {len(merged.missing) - 3} more" if len(merged.missing) > 3 else ""
    say(wrapped(f"{len(merged.missing)} of {len(merged.recorded.tasks)} tasks have no record: {names}{more}"))
    for shard in merged.absent_shards:
        say(
            wrapped(
                f"no folder has shard {shard}: opauc-bench run {quote(str(session.experiment.path))} --shard {shard}"
            )
        )
    say(wrapped(f"{shell_command(session, 'run')} computes the missing tasks here"))
    return 1


def merge_folders(session: Session, folders: Sequence[Path], test: str | None = None) -> Merged:
    """Copy the records of an experiment from several folders into the session's, which is locked; all or nothing.

    Refused are folders without a manifest, from other data, with records of another definition or with damaged ones,
    and two records of one task that differ in their numbers.
    """
    for folder in folders:
        if not (folder / "manifest.json").is_file():
            reason = "it has no manifest.json" if folder.is_dir() else "there is no such folder"
            raise ResultsError(f"{folder} is not a results folder: {reason}", "opauc-bench merge --help")
    read = {
        folder: Recorded.read_intact(replace(session, folder=folder).as_recorded())
        for folder in (session.folder, *folders)
    }
    own, manifests = read[session.folder], [recorded.manifest for recorded in read.values()]
    session = session.with_columns_of(each.session for each in read.values() if each is not own or own.records)
    datasets = _joined_data(read)
    tasks = Recorded(session, own.manifest.model_copy(update={"datasets": datasets}), Records()).tasks
    by_id = {task.id: task for task in tasks if task.id is not None}
    kept: dict[str, tuple[Record, Path]] = {}
    for folder, others in read.items():
        foreign = [record for record in others.records.own() if record.id not in by_id]
        if foreign and folder != session.folder:
            raise ResultsError(
                f"{folder} has {counted(len(foreign), 'record')} of another experiment than "
                f"{session.experiment.path}: another grid, protocol, learner or dataset, or more trials or folds; "
                f"such as {foreign[0].label}",
                "merge with the config that the shards were run with, or after a change of it run this shard again, "
                f"then: opauc-bench pack {quote(str(folder))} --prune; nothing was merged",
            )
        for id, record in others.records.items():
            # What an interrupted run of a shard was to compute again is not finished.
            if id in by_id and (id not in others.records.again or folder == session.folder):
                _keep(kept, by_id[id], record, folder)
    session = _with_added_metrics(session, own.manifest, manifests, [record for record, _ in kept.values()])
    orphaned = [record for record in own.records.own() if record.id not in by_id]
    copied = [record for record, folder in kept.values() if folder != session.folder]
    manifest = compose_manifest(
        session,
        datasets=datasets,
        memory_bytes=min(manifest.memory_bytes for manifest in manifests),
        test=test,
        known=manifests,
        records=[*orphaned, *(record for record, _ in kept.values())],
        reused=own.manifest.reused,
        selected_in=join_references(*(manifest.selected_in for manifest in manifests)),
    )
    write_manifest(session.folder, manifest)
    store = Store(session.folder)
    store.pack(copied)
    referred = own.records.reused.keys() - {record.id for record in copied}
    for others in read.values():  # a record with the same number may have its scores in another folder
        for record in others.records.values():
            if record.ok and record.id in kept and record.id not in referred:
                store.copy_scores(others.store_of(record), record.id)
    records = Records({id: record for id, (record, _) in kept.items()}, reused=own.records.reused)
    recorded = Recorded(session, manifest, records)
    missing = [task for task in recorded.tasks if task.id is not None and task.id not in kept]
    absent = [shard for shard in _absent_shards(manifests) if shard.select(missing, session.experiment)]
    outdated = {
        folder: len(left)
        for folder, others in read.items()
        if (left := (others.records.again & others.records.keys() & by_id.keys()) - kept.keys())
    }
    return Merged(recorded, len(copied), len(kept) - len(copied), missing, absent, outdated)


def _with_added_metrics(
    session: Session, own: Manifest, manifests: Iterable[Manifest], records: Sequence[Record]
) -> Session:
    """The session with metrics that were added later to its folder, or to others if all records have them."""
    protocol = session.experiment.protocol
    if not isinstance(protocol, SplitProtocol):
        return session
    here, *elsewhere = (manifest.experiment["protocol"].get("metrics", ()) for manifest in (own, *manifests))
    here = (name for name in here if any(name in each.metrics for each in records))
    everywhere = (name for name in chain(*elsewhere) if all(name in each.metrics for each in records if each.ok))
    shown = tuple(dict.fromkeys([*protocol.metrics, *here, *everywhere]))
    protocol = protocol.model_copy(update={"metrics": shown})
    return replace(session, experiment=session.experiment.model_copy(update={"protocol": protocol}))


def _joined_data(read: dict[Path, Recorded]) -> dict[str, DatasetFacts]:
    """Facts about the data in all manifests, which must not contradict each other."""
    datasets: dict[str, DatasetFacts] = {}
    origin: dict[str, Path] = {}
    for folder, recorded in read.items():
        for name, facts in recorded.manifest.datasets.items():
            known = datasets[name].fingerprint if name in datasets else None
            if known and facts.fingerprint not in (None, known):
                raise ResultsError(
                    f"{folder} was computed on another {name} than {origin[name]}: fingerprints "
                    f"{facts.fingerprint[:16]} and {known[:16]}",
                    "opauc-bench data verify, on both machines; nothing was merged",
                )
            if not known:
                datasets[name], origin[name] = facts, folder
    return datasets


def _keep(kept: dict[str, tuple[Record, Path]], task: Task, record: Record, folder: Path) -> None:
    """Keep a record unless there is one of the same task already; a number replaces a failure."""
    if record.id not in kept or (not kept[record.id][0].ok and record.ok):
        kept[record.id] = (record, folder)
    elif record.ok:
        other, place = kept[record.id]
        if what := _difference(record, other):
            values = [f"{each.metrics['auc']!r} in " if "auc" in each.metrics else "" for each in (other, record)]
            raise ResultsError(
                f"two records of {task.label} differ{what}: {values[0]}{place} and {values[1]}{folder}",
                f"opauc-bench verify {quote(str(place))}  # likewise {folder}; nothing was merged",
            )
        if not record.metrics.keys() <= other.metrics.keys():  # some were added later
            kept[record.id] = (other.with_metrics({**record.metrics, **other.metrics}), folder)


def _difference(one: Record, other: Record) -> str:
    """In which numbers that do not depend on the machine two records differ; empty if they agree."""
    columns = getattr(one.outcome, "columns", {}), getattr(other.outcome, "columns", {})
    common = one.metrics.keys() & other.metrics.keys()  # some may have been added later
    first, second = (np.empty(0) if each.selection is None else each.selection.auc for each in (one, other))
    if any(one.metrics[name] != other.metrics[name] for name in common):
        return " in the test set's metrics"
    if columns[0].keys() != columns[1].keys() or not all(
        np.array_equal(values, columns[1][name], equal_nan=True) for name, values in columns[0].items()
    ):
        return " in their curves"
    if one.selected != other.selected:
        return " in the selected setting"
    if first.shape != second.shape or not np.allclose(first, second, rtol=0.0, atol=TOLERANCE, equal_nan=True):
        return " in the inner AUCs"
    return ""


def _absent_shards(manifests: Iterable[Manifest]) -> list[Shard]:
    """Shards that none of the folders has, if all are of one division."""
    present = [parse_shard(manifest.shard) for manifest in manifests if manifest.shard]
    counts = {shard.count for shard in present}
    if len(counts) != 1:
        return []
    (count,) = counts
    return [shard for i in range(1, count + 1) if (shard := Shard(i, count)) not in present]
