"""The manifest after a run or a merge, composed from known manifests and from what the records refer to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from .. import __version__
from ..learners import LEARNERS
from ..results.environment import environment, environment_id
from ..results.manifest import DatasetFacts, Manifest, place_of_config
from ..results.record import Record
from ..task import Task, content_hash
from .session import Session

__all__ = ["compose_manifest", "definitions_of", "rendered_test"]


def compose_manifest(
    session: Session,
    *,
    datasets: Mapping[str, DatasetFacts],
    memory_bytes: float,
    test: str | None,
    known: Iterable[Manifest],
    records: Iterable[Record],
    todo: Iterable[Task] = (),
    reused: Mapping[str, tuple[str, ...]],
    selected_in: Mapping[str, tuple[str, ...]],
) -> Manifest:
    """Compose a manifest from facts about the data, the memory that a task may use, and the test of the tables.

    `known` manifests have the definitions and environments of the `records` that the folder has or refers to. The tasks
    of `todo` will be computed on this machine. For `reused` and `selected_in` see `Manifest`.
    """
    definitions: dict[str, dict[str, Any]] = {}
    environments = {environment_id(): environment()}
    known = list(known)
    for manifest in known:
        definitions |= manifest.definitions
        environments |= manifest.environments
    planned = definitions_of(todo)
    definitions |= planned
    needed = {record.definition for record in records} | set(planned)
    used = {record.environment for record in records} | ({environment_id()} if planned else set())
    definitions = {name: definitions[name] for name in sorted(needed & definitions.keys())}
    return Manifest(
        experiment=session.experiment.plain(),
        config=place_of_config(session.folder, session.experiment.path),
        opauc_bench=__version__,
        shard=str(session.shard) if session.shard else None,
        datasets={name: datasets[name] for name in session.experiment.datasets if name in datasets},
        memory_bytes=memory_bytes,
        test=rendered_test(session, test),
        definitions=definitions,
        last_run=_last_run(session, definitions, known),
        environments={name: environments[name] for name in sorted(used & environments.keys())},
        reused=dict(reused),
        selected_in=dict(selected_in),
    )


def definitions_of(tasks: Iterable[Task]) -> dict[str, dict[str, Any]]:
    """The definitions of tasks by hash; those of one row and column have one definition."""
    one_per_cell = {(task.row, task.column): task for task in tasks}.values()
    return {content_hash(task.definition): task.definition for task in one_per_cell}


def _last_run(session: Session, definitions: Mapping[str, dict[str, Any]], known: Iterable[Manifest]) -> dict[str, str]:
    """The definition of each column whose versions have no order: that of the present one, or else of the last run."""
    found: dict[str, str] = {}
    for column in session.columns:
        if _has_ordered_versions(column.identity):
            continue
        earlier = (manifest.last_run.get(column.key) for manifest in known)
        present = (name for name, definition in definitions.items() if column.defines(definition))
        if name := next(chain(present, (name for name in earlier if name in definitions)), None):
            found[column.key] = name
    return found


def _has_ordered_versions(definition: Mapping[str, Any]) -> bool:
    """Whether it is of a learner of this package, whose version is a number that grows."""
    nested = definition.get("axes_from")
    ordered = "source" not in definition and definition["learner"] in LEARNERS
    return ordered and (nested is None or _has_ordered_versions(nested))


def rendered_test(session: Session, test: str | None) -> str | None:
    """The significance test of the tables that are written; None for experiments that draw figures only."""
    if not session.experiment.protocol.table_metrics:
        return None
    return test or session.experiment.report.test
