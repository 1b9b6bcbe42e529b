"""The honest check of a results folder: compute some of its records again and compare, digit by digit."""

from __future__ import annotations

import json
import secrets
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError, ResultsError
from ..report.text import auc_text, columns_text
from ..results.environment import environment
from ..results.record import Record
from ..runner.engines import workers
from ..runner.execute import LocalExecutor
from ..runner.worker import Workplace
from ..task import Task
from .audit import Audit, audit
from .local_data import LocalData, Notify
from .progress import Estimate, Progress, duration
from .recorded import Recorded
from .session import Session, shell_command
from .terminal import say, wrapped

__all__ = ["Outcome", "compare_records", "draw", "verify_results"]

TOLERANCE = 1e-9
RECOMPUTABLE = ("ok", "diverged")  # the other statuses belong to the machine and its load

Pair = tuple[Task, Record]

# What is not the result itself: how long it took, where, in which words, under which column, and whose program did it.
_CIRCUMSTANCES = ("environment", "timing", "message", "traceback", "column")
_SHOWN = 5


class _Absent:
    """What stands at a place that only one of two records has."""

    def __str__(self) -> str:
        return "absent"


_ABSENT = _Absent()


@dataclass(frozen=True)
class Outcome:
    """A record beside the same task computed again.

    Attributes
    ----------
    task : Task
    recorded, computed : Record
    same_platform : bool
        Whether both are of the same software and processor, so that all bits have to be the same.
    differences : list of (str, object, object)
        Place in the record, what it says there, what came now.
    within : list of (str, object, object)
        Differences of numbers that are allowed: at most 1e-9, and on another platform.
    """

    task: Task
    recorded: Record
    computed: Record
    same_platform: bool
    differences: list[tuple[str, Any, Any]] = field(default_factory=list)
    within: list[tuple[str, Any, Any]] = field(default_factory=list)

    @property
    def finished(self) -> bool:
        return self.computed.status in RECOMPUTABLE

    @property
    def agrees(self) -> bool:
        return self.finished and not self.differences

    @property
    def word(self) -> str:
        if not self.finished:
            return "NOT COMPUTED"
        if self.differences:
            return "DIFFERS"
        return "within 1e-9" if self.within else "same bits"


def verify_results(
    session: Session, *, sample: int | None, seed: int | None, max_seconds: float | None, n_jobs: int, quiet: bool
) -> int:
    """Check a results folder, compute some of its records again, and print what agrees; nothing in it is written.

    Parameters
    ----------
    session : Session
        Its datasets and learners restrict what is drawn.
    sample : int or None
        How many records to compute again; None for all, 0 for none.
    seed : int or None
        Of the draw; None for a fresh one, which is printed.
    max_seconds : float or None
        Leave out records that took longer than that.
    n_jobs : int
    quiet : bool

    Returns
    -------
    int
        Exit code: 0 if everything agrees, 1 otherwise.

    Raises
    ------
    ResultsError
        If the folder has no records, or none that could be computed again.
    DataError
        If no dataset of the records is available.
    """
    recorded = Recorded.read(session)
    found = audit(recorded)
    if not found.n_records:
        raise ResultsError(f"{session.folder}: no records", shell_command(session, "run"))
    _print_audit(session, found)
    if sample == 0:
        return 1 if found.findings else 0
    seed = secrets.randbelow(2**31) if seed is None else seed
    notify = (lambda text: None) if quiet else say
    local = LocalData(session.catalogue, session.sources)
    candidates, notes = _candidates(session, found.pairs, max_seconds)
    pairs, missing = draw(candidates, sample, seed, lambda task: _is_available(local, task, notify))
    notes += [f"{name}: not drawn from, {_why(local, name)}" for name in missing]
    if changed := local.check({task.dataset for task, _ in pairs}, notify):
        pairs = [(task, record) for task, record in pairs if task.dataset not in changed]
        notes += [f"{name}: not computed on, {_why(local, name)}" for name in changed]
    if not pairs:
        error = DataError if missing else ResultsError
        raise error("\n".join([f"{session.folder}: no record can be computed again", *notes]), "opauc-bench data list")
    n_jobs = min(n_jobs, len(pairs))
    wall = sum(record.timing.wall_seconds for _, record in pairs)
    which = "all" if sample is None else f"{len(pairs)} of {len(candidates)} at random (--seed {seed} draws the same)"
    print()
    print(wrapped(f"Computing again: {which}, about {duration(wall / n_jobs)} on {workers(n_jobs)}"), flush=True)
    start = time.monotonic()
    outcomes = recompute(recorded, local, pairs, n_jobs, quiet)
    print(f"\n{_table(outcomes)}\n")
    elsewhere = _elsewhere(recorded, outcomes)
    for line in [*_explanations(outcomes), *notes, *_summary(outcomes, time.monotonic() - start), *elsewhere]:
        print(wrapped(line))
    return 1 if found.findings or not all(outcome.agrees for outcome in outcomes) else 0


def draw(
    candidates: list[Pair], sample: int | None, seed: int, can_be_had: Callable[[Task], bool]
) -> tuple[list[Pair], list[str]]:
    """Draw records uniformly, without replacement; those whose data cannot be had are passed over.

    Returns
    -------
    pairs : list of (Task, dict)
        At most `sample` of them, in the order of `candidates`.
    missing : list of str
        Datasets that were passed over.
    """
    drawn: list[int] = []
    missing: dict[str, None] = {}
    for i in np.random.default_rng(seed).permutation(len(candidates)):
        if sample is not None and len(drawn) == sample:
            break
        task = candidates[i][0]
        if task.dataset in missing:
            continue
        if can_be_had(task):
            drawn.append(i)
        else:
            missing[task.dataset] = None
    return [candidates[i] for i in sorted(drawn)], list(missing)


def recompute(
    recorded: Recorded, local: LocalData, pairs: list[Pair], n_jobs: int, quiet: bool = True
) -> list[Outcome]:
    """Compute tasks again in a folder that is thrown away, without a time limit, and compare."""
    estimate = Estimate()
    for task, record in pairs:
        estimate.learn(task, record)
    tasks = list({task.id: task for task, _ in pairs}.values())
    computed = {}
    executor = LocalExecutor(max(1, n_jobs))
    memory = recorded.session.experiment.limits.memory_gb
    with tempfile.TemporaryDirectory(prefix="opauc-bench-verify-") as folder:
        workplace = Workplace(
            results=Path(folder), prepared=local.folders(), memory_bytes=memory * 1e9 if memory else None
        )
        with Progress(tasks, n_jobs, estimate, quiet) as progress:
            try:
                for task, record in executor.run(sorted(tasks, key=lambda task: -task.seconds), workplace):
                    computed[task.id] = record
                    progress.done(task, record)
            except BaseException:
                executor.stop()
                raise
    here = environment()
    return [
        compare_records(task, record, computed[task.id], _same_platform(recorded.environment_of(record), here))
        for task, record in pairs
    ]


def compare_records(task: Task, recorded: Record, computed: Record, same_platform: bool) -> Outcome:
    """Set a record beside the same task computed again.

    Numbers have to have the same bits if both were computed with the same versions on the same kind of processor, and
    to be within 1e-9 otherwise. All else has to be equal: status, selected setting, which settings diverged, counts.
    """
    outcome = Outcome(task, recorded, computed, same_platform)
    for place, old, new in _compared(_result(recorded), _result(computed)):
        close = isinstance(old, float) and isinstance(new, float) and abs(old - new) <= TOLERANCE
        (outcome.within if close and not same_platform else outcome.differences).append((place, old, new))
    return outcome


def _same_platform(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return {**one, "cores": None} == {**other, "cores": None}


def _result(record: Record) -> dict[str, Any]:
    """All of a record that has to come out again, with short names."""
    content = record.model_dump(mode="json", exclude=set(_CIRCUMSTANCES))
    outcome = content.pop("outcome") or {}
    outcome.pop("learner_info", None)
    return {**content, **outcome}


def _compared(old: Any, new: Any, place: str = "") -> list[tuple[str, Any, Any]]:
    """Places where two pieces of JSON differ, with what stands there."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [*old, *(key for key in new if key not in old)]
        parts = [(f"{place}.{key}" if place else key, old.get(key, _ABSENT), new.get(key, _ABSENT)) for key in keys]
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        parts = [(f"{place}[{i}]", a, b) for i, (a, b) in enumerate(zip(old, new))]
    else:
        same = old is new if _ABSENT in (old, new) else json.dumps(old) == json.dumps(new)
        return [] if same else [(place, old, new)]
    return [difference for name, a, b in parts for difference in _compared(a, b, name)]


# ---------------------------------------------------------------------------------------------- what is drawn


def _candidates(session: Session, records: list[Pair], max_seconds: float | None) -> tuple[list[Pair], list[str]]:
    """Records that may be drawn, and notes on those that may not."""
    wanted = [
        (task, record)
        for task, record in records
        if (not session.datasets or task.dataset in session.datasets)
        and (not session.learners or task.column in session.learners)
    ]
    failed = Counter(record.status for _, record in wanted if record.status not in RECOMPUTABLE)
    kept = [pair for pair in wanted if pair[1].status in RECOMPUTABLE]
    notes = [f"{count} records with status {status} were not drawn from" for status, count in sorted(failed.items())]
    if max_seconds is not None:
        quick = [pair for pair in kept if pair[1].timing.wall_seconds <= max_seconds]
        if len(quick) < len(kept):
            notes.append(f"{len(kept) - len(quick)} records that took over {max_seconds:g} s were not drawn from")
        kept = quick
    return kept, notes


def _is_available(local: LocalData, task: Task, notify: Notify) -> bool:
    data = local.prepare(task.dataset, notify)
    return data is not None and data.fingerprint == task.fingerprint


def _why(local: LocalData, name: str) -> str:
    if name in local.unavailable:
        return f"its data are unavailable: {local.unavailable[name].message}"
    return "the data on this machine are not those of the manifest"


# ---------------------------------------------------------------------------------------------- what is printed


def _print_audit(session: Session, found: Audit) -> None:
    print(wrapped(f"{session.folder}/: {found.n_records} records, {len(found.pairs)} of the experiment are in order"))
    for mark, lines in (("WRONG", found.findings), ("note", found.notes)):
        for line in lines:
            print(wrapped(f"{mark:5}  {line}", " " * 7))
    if not found.findings:
        print(wrapped("checksums, ids, fingerprints, selected settings and tables agree with the records"))


def _table(outcomes: list[Outcome]) -> str:
    headers = ["dataset", "learner", "fold", "AUC", "setting", "inner", "time", "result"]
    rows = [_row(outcome) for outcome in outcomes]
    widths = [max(map(len, column)) for column in zip(headers, *rows)]
    return "\n".join(columns_text([headers, ["-" * width for width in widths], *rows], widths))


def _row(outcome: Outcome) -> list[str]:
    task, old, new = outcome.task, outcome.recorded, outcome.computed
    places = [place for place, *_ in outcome.differences]
    inner = [place for place in places if place.startswith("selection.auc")]
    total = len(old.selection.auc) if old.selection else 0
    if not outcome.finished:
        selected = inner_text = "-"
    else:
        selected = "differs" if any(place.startswith("selected") for place in places) else "same"
        inner_text = f"{len(inner)}/{total} differ" if inner else f"{total} same"
    return [
        task.dataset,
        task.column,
        f"{task.trial + 1}.{task.fold + 1}",
        _auc(old) if _auc(old) == _auc(new) else f"{_auc(old)} > {_auc(new)}",
        selected,
        inner_text,
        duration(new.timing.wall_seconds),
        outcome.word,
    ]


def _auc(record: Record) -> str:
    auc = record.metrics.get("auc")
    return record.status if auc is None else auc_text(auc)


def _explanations(outcomes: list[Outcome]) -> list[str]:
    lines = []
    for outcome in outcomes:
        if not outcome.finished:
            lines.append(f"{outcome.task.label}: {outcome.computed.status}: {outcome.computed.message}")
            continue
        for place, old, new in outcome.differences[:_SHOWN]:
            lines.append(f"{outcome.task.label}: {place} is {_short(old)} in the record, {_short(new)} computed again")
        if (more := len(outcome.differences) - _SHOWN) > 0:
            lines.append(f"{outcome.task.label}: {more} further differences")
    return lines


def _short(value: Any) -> str:
    text = str(value) if value is _ABSENT else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _summary(outcomes: list[Outcome], seconds: float) -> list[str]:
    good = sum(outcome.agrees for outcome in outcomes)
    words = Counter(outcome.word for outcome in outcomes)
    lines = [f"{good} of {len(outcomes)} agree: " + ", ".join(f"{count} {word}" for word, count in words.items())]
    peak = max(outcome.computed.timing.peak_rss_bytes for outcome in outcomes)
    return [*lines, f"{duration(seconds)}, at most {peak / 1e6:.0f} MB per worker"]


def _elsewhere(recorded: Recorded, outcomes: list[Outcome]) -> list[str]:
    """Say how the platform of records differs from this one."""
    here = environment()
    records = [outcome.recorded for outcome in outcomes if not outcome.same_platform]
    if not records:
        return []
    differing = dict.fromkeys(
        f"{key} {value} (here {here.get(key)})"
        for record in records
        for key, value in recorded.environment_of(record).items()
        if key != "cores" and here.get(key) != value
    )
    what = ", ".join(differing) or "the manifest does not say which"
    one = "1 record was" if len(records) == 1 else f"{len(records)} records were"
    return [f"{one} computed on another platform, so that numbers may differ by 1e-9: {what}"]
