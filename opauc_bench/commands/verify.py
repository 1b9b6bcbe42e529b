"""Check a results folder: compute some of its records again and compare them, digit by digit."""

from __future__ import annotations

import json
import secrets
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..data import foreign_files
from ..errors import DataError, ResultsError
from ..learners import ESTIMATOR
from ..report.text import auc_text, columns_text
from ..results.environment import differences, environment
from ..results.record import Record, TaskRecord
from ..results.store import Store
from ..runner.engines import workers
from ..runner.execute import LocalExecutor
from ..runner.worker import WorkerConfig
from ..task import Task
from .audit import Audit, audit
from .local_data import LocalData
from .progress import Estimate, Progress
from .recorded import Recorded
from .session import Session, shell_command
from .terminal import counted, duration_text, say, wrapped

__all__ = ["Recomputation", "compare_records", "draw", "verify_results"]

TOLERANCE = 1e-9
RECOMPUTABLE = ("ok", "diverged")  # the other statuses belong to the machine and its load


# Not part of the result: time, machine, text, the name of the column.
_CIRCUMSTANCES = ("environment", "timing", "message", "traceback", "column")
_SHOWN = 5


_ABSENT = object()  # instead of a value that only one of two records has


@dataclass(frozen=True)
class Recomputation:
    """A record and the same task computed again.

    ``same_platform`` states whether software and processor are the same, so that all bits have to be the same.
    Differences are (place in the record, recorded value, computed value). Those in ``within`` are allowed: numbers that
    differ by at most 1e-9, on another platform.
    """

    task: Task
    recorded: Record
    computed: Record
    same_platform: bool
    differences: list[tuple[str, Any, Any]] = field(default_factory=list)
    within: list[tuple[str, Any, Any]] = field(default_factory=list)
    unchecked: tuple[str, ...] = ()  # metrics that were added later, and are not computed again

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

    The records are drawn with `seed` (None for a random one) from those of the session's datasets and learners that
    took at most `max_seconds`. A `sample` of None takes all, 0 none. Returns the exit code: 0 if everything agrees.
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
    known = {name: recorded.known_fingerprint(name) for name in session.datasets}
    local = LocalData(session.catalogue, replace(session.sources, keeps=True), known)
    candidates, notes = _candidates(session, found.pairs, max_seconds)

    def is_available(task: Task) -> bool:
        if task.dataset not in session.catalogue:
            return False
        data = local.prepare(task.dataset, notify)
        return data is not None and data.fingerprint == task.fingerprint

    pairs, missing = draw(candidates, sample, seed, is_available)
    notes += [f"{name}: not drawn from, {_why(local, name)}" for name in missing]
    if changed := local.check({task.dataset for task, _ in pairs}, notify):
        pairs = [(task, record) for task, record in pairs if task.dataset not in changed]
        notes += [f"{name}: not computed on, {_why(local, name)}" for name in changed]
    if not pairs:
        error = DataError if missing else ResultsError
        if missing or changed:
            hint = _hint_on_data(session, local, [*missing, *changed])
        elif max_seconds is None:
            hint = shell_command(session, "run", *(["--retry-failed"] if notes else []))
        else:
            hint = "opauc-bench verify with another --max-seconds"
        raise error("\n".join([f"{session.folder}: no record can be computed again", *notes]), hint)
    n_jobs = min(n_jobs, len(pairs))
    wall = sum(record.timing.wall_seconds for _, record in pairs)
    which = "all" if sample is None else f"{len(pairs)} of {len(candidates)} at random (--seed {seed} draws the same)"
    print()
    print(wrapped(f"Computing again: {which}, about {duration_text(wall / n_jobs)} on {workers(n_jobs)}"), flush=True)
    start = time.monotonic()
    outcomes = recompute(recorded, local, pairs, n_jobs, quiet)
    headers = ["dataset", "learner", "fold", "AUC", "setting", "inner", "time", "result"]
    rows = [_row(outcome) for outcome in outcomes]
    widths = [max(map(len, column)) for column in zip(headers, *rows)]
    print("", *columns_text([headers, ["-" * width for width in widths], *rows], widths), "", sep="\n")
    summary = _summary(recorded, outcomes, time.monotonic() - start)
    for line in [*_explanations(outcomes), *notes, *summary]:
        print(wrapped(line))
    return 1 if found.findings or not all(outcome.agrees for outcome in outcomes) else 0


def _hint_on_data(session: Session, local: LocalData, names: list[str]) -> str:
    """What to do about datasets that are unavailable or have changed."""
    hint = "opauc-bench data list"
    for name in names:
        entry = session.catalogue.get(name)
        if entry is None or not entry.has_own_data:
            continue
        if name in local.unavailable and foreign_files(entry, local.sources):
            hint = local.unavailable[name].hint
        else:
            hint = f"{shell_command(session, 'run')}  # computes on the data as they are now"
    return hint


def draw(
    candidates: list[TaskRecord], sample: int | None, seed: int, is_available: Callable[[Task], bool]
) -> tuple[list[TaskRecord], list[str]]:
    """Draw at most `sample` records uniformly, in the order of `candidates`; also return the unavailable datasets."""
    drawn: list[int] = []
    missing: dict[str, None] = {}
    for i in np.random.default_rng(seed).permutation(len(candidates)):
        if sample is not None and len(drawn) == sample:
            break
        task = candidates[i][0]
        if task.dataset in missing:
            continue
        if is_available(task):
            drawn.append(i)
        else:
            missing[task.dataset] = None
    return [candidates[i] for i in sorted(drawn)], list(missing)


def recompute(
    recorded: Recorded, local: LocalData, pairs: list[TaskRecord], n_jobs: int, quiet: bool = True
) -> list[Recomputation]:
    """Compute tasks again in a temporary folder, without a time limit, and compare."""
    estimate = Estimate()
    for task, record in pairs:
        estimate.learn(task, record)
    tasks = list({task.id: task for task, _ in pairs}.values())
    computed = {}
    # The longest first; of equal ones the last, which is not the order of the run: a state that tasks share shows.
    ordered = sorted(tasks, key=lambda task: task.seconds)[::-1]
    executor = LocalExecutor(max(1, n_jobs))
    memory = recorded.session.experiment.limits.memory_bytes
    with tempfile.TemporaryDirectory(prefix="opauc-bench-verify-") as folder:
        config = WorkerConfig(results=Path(folder), prepared=local.folders(), memory_bytes=memory)
        with Progress(tasks, n_jobs, estimate, Store(config.results), quiet) as progress:
            try:
                for task, record in executor.run(ordered, config):
                    computed[task.id] = record
                    progress.done(task, record)
            finally:
                executor.stop()
    here = environment()
    return [
        compare_records(task, record, computed[task.id], not differences(recorded.environment_of(record), here))
        for task, record in pairs
    ]


def compare_records(task: Task, recorded: Record, computed: Record, same_platform: bool) -> Recomputation:
    """Compare a record with the same task computed again.

    On the same platform numbers have to have the same bits, otherwise they may differ by 1e-9. Status, selection,
    diverged settings and counts have to be equal.
    """
    before, after = _result(recorded), _result(computed)
    added = tuple(name for name in recorded.metrics if name not in computed.metrics) if computed.ok else ()
    outcome = Recomputation(task, recorded, computed, same_platform, unchecked=added)
    for name in added:
        del before["metrics"][name]
    for place, old, new in _compared(before, after):
        close = isinstance(old, float) and isinstance(new, float) and abs(old - new) <= TOLERANCE
        (outcome.within if close and not same_platform else outcome.differences).append((place, old, new))
    return outcome


def _result(record: Record) -> dict[str, Any]:
    """The part of a record that has to be reproduced, with short names."""
    content = record.model_dump(mode="json", exclude=set(_CIRCUMSTANCES))
    outcome = content.pop("outcome") or {}
    outcome.pop("learner_info", None)
    return {**content, **outcome}


def _compared(old: Any, new: Any, place: str = "") -> list[tuple[str, Any, Any]]:
    """Places where two JSON documents differ, with both values."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [*old, *(key for key in new if key not in old)]
        parts = [(f"{place}.{key}" if place else key, old.get(key, _ABSENT), new.get(key, _ABSENT)) for key in keys]
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        parts = [(f"{place}[{i}]", a, b) for i, (a, b) in enumerate(zip(old, new))]
    else:
        same = old is new if _ABSENT in (old, new) else json.dumps(old) == json.dumps(new)
        return [] if same else [(place, old, new)]
    return [difference for name, a, b in parts for difference in _compared(a, b, name)]


def _candidates(
    session: Session, records: list[TaskRecord], max_seconds: float | None
) -> tuple[list[TaskRecord], list[str]]:
    """Records that may be drawn, and notes on those that may not."""
    wanted = [pair for pair in records if session.selects(pair[0])]
    failed = Counter(record.status for _, record in wanted if record.status not in RECOMPUTABLE)
    kept = [pair for pair in wanted if pair[1].status in RECOMPUTABLE]
    notes = [f"left out: {counted(n, 'record')} with status {status}" for status, n in sorted(failed.items())]
    if changed := [pair for pair in kept if pair[0].column in session.changed_columns]:
        notes.append(f"left out: {counted(len(changed), 'record')} of columns whose version or file has changed since")
        kept = [pair for pair in kept if pair[0].column not in session.changed_columns]
    if absent := [pair for pair in kept if pair[0].column in session.absent_columns]:
        notes.append(f"left out: {counted(len(absent), 'record')} of columns whose learner is not on this machine")
        kept = [pair for pair in kept if pair[0].column not in session.absent_columns]
    if max_seconds is not None:
        quick = [pair for pair in kept if pair[1].timing.wall_seconds <= max_seconds]
        if len(quick) < len(kept):
            slow = counted(len(kept) - len(quick), "record")
            notes.append(f"left out: {slow} that took over {max_seconds:g} s")
        kept = quick
    return kept, notes


def _why(local: LocalData, name: str) -> str:
    if name not in local.entries:
        return "no catalogue here has an entry of it"
    if name in local.unavailable:
        return f"its data are unavailable: {local.unavailable[name].message}"
    return "the data on this machine are not those of the manifest"


def _print_audit(session: Session, found: Audit) -> None:
    print(wrapped(f"{session.folder}/: {found.n_records} records, {len(found.pairs)} of the experiment are in order"))
    for mark, lines in (("WRONG", found.findings), ("note", found.notes)):
        for line in lines:
            print(wrapped(f"{mark:5}  {line}", " " * 7))
    if not found.findings:
        print(wrapped("checksums, ids, fingerprints, selected settings and tables agree with the records"))


def _row(outcome: Recomputation) -> list[str]:
    task, old, new = outcome.task, outcome.recorded, outcome.computed
    places = [place for place, *_ in outcome.differences]
    n_inner = sum(place.startswith("selection.auc") for place in places)
    total = len(old.selection.auc) if old.selection else 0
    selected, inner = "same", f"{n_inner}/{total} differ" if n_inner else f"{total} same"
    if not outcome.finished:
        selected = inner = "-"
    elif any(place.startswith("selected") for place in places):
        selected = "differs"
    auc = _auc(old) if _auc(old) == _auc(new) else f"{_auc(old)} > {_auc(new)}"
    fold = f"{task.trial + 1}.{task.fold + 1}"
    row = task.row or task.dataset
    return [row, task.column, fold, auc, selected, inner, duration_text(new.timing.wall_seconds), outcome.word]


def _auc(record: Record) -> str:
    auc = record.metrics.get("auc")
    return record.status if auc is None else auc_text(auc)


def _explanations(outcomes: list[Recomputation]) -> list[str]:
    lines = []
    for outcome in outcomes:
        if not outcome.finished:
            lines.append(f"{outcome.task.label}: {outcome.computed.status}: {outcome.computed.message}")
            continue
        for place, old, new in outcome.differences[:_SHOWN]:
            lines.append(f"{outcome.task.label}: {place} is {_short(old)} in the record, {_short(new)} computed again")
        if (more := len(outcome.differences) - _SHOWN) > 0:
            lines.append(f"{outcome.task.label}: {more} further differences")
    unchecked = Counter(name for outcome in outcomes for name in outcome.unchecked)
    lines += [f"{name} of {counted(n, 'record')}: added later, not computed again" for name, n in unchecked.items()]
    return lines


def _short(value: Any) -> str:
    text = "absent" if value is _ABSENT else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _summary(recorded: Recorded, outcomes: list[Recomputation], seconds: float) -> list[str]:
    good = sum(outcome.agrees for outcome in outcomes)
    words = Counter(outcome.word for outcome in outcomes)
    peak = max(outcome.computed.timing.peak_rss_bytes for outcome in outcomes)
    lines = [
        f"{good} of {len(outcomes)} agree: " + ", ".join(f"{count} {word}" for word, count in words.items()),
        f"{duration_text(seconds)}, at most {peak / 1e6:.0f} MB per worker",
    ]
    if elsewhere := [outcome for outcome in outcomes if not outcome.same_platform]:
        lines += _other_platforms(recorded, elsewhere)
    return lines


def _other_platforms(recorded: Recorded, outcomes: list[Recomputation]) -> Iterator[str]:
    """What is known of the platforms of records, and what to do about numbers that differ."""
    here = environment()
    there = [recorded.environment_of(outcome.recorded) for outcome in outcomes]
    values: dict[str, dict[str, None]] = {}
    for found in there:
        for key, value in differences(found, here).items():
            values.setdefault(key, {})[value] = None
    different = [f"{key} {value} (here {here.get(key)})" for key, found in values.items() for value in found if value]
    unknown = [f"{key} (here {here.get(key)})" for key, found in values.items() if None in found]
    parts = [", ".join(different), f"not recorded: {', '.join(unknown)}" if unknown else ""]
    what = "; ".join(filter(None, parts)) if any(there) else "the manifest does not say which"
    one = counted(len(outcomes), "record") + (" was" if len(outcomes) == 1 else " were")
    yield f"{one} computed on another platform, so that numbers may differ by 1e-9: {what}"
    if any(outcome.differences and outcome.task.learner == ESTIMATOR for outcome in outcomes):
        yield "Estimators that stop at a tolerance amplify rounding: their numbers may differ by more than that"
    if "blas" in values and any(outcome.differences for outcome in outcomes):
        kernels = [value.split()[1] for value in values["blas"] if value and value.startswith("openblas ")]
        yield (
            "Large steps amplify rounding, which depends on the kernels of BLAS. With OpenBLAS, "
            f"OPENBLAS_CORETYPE={kernels[0] if kernels else 'Haswell'} opauc-bench verify ... takes those of "
            + ("these records" if kernels else "other processors (Haswell, Zen, SkylakeX)")
        )
