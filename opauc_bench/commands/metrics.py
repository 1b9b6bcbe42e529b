"""``metrics``: which metrics the records have, and further ones from kept test scores, without training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from ..errors import ConfigError, ResultsError
from ..evaluation.metrics import evaluate, metric_name
from ..protocols import PROTOCOLS, SplitProtocol, kind_of
from ..results.manifest import write_manifest
from ..results.record import Record
from ..results.store import Store
from .recorded import Recorded
from .reports import print_report, write_report_files
from .session import Session, shell_command
from .terminal import counted, say, table_text, width, wrapped

__all__ = ["add_metrics", "list_metrics"]

_SAME_AUC = 1e-9  # sums of the same numbers may differ in their last bits from processor to processor


def list_metrics(session: Session) -> str:
    """A table of the metrics of each column's records, and of how many of them have their test scores."""
    recorded = Recorded.read(session)
    recorded.records.raise_if_damaged(shell_command(session, "run"))
    n_records: Counter[str] = Counter()
    n_kept: Counter[str] = Counter()
    found: dict[str, Counter[str]] = {}
    for task, record in recorded.pairs:
        if record.ok and record.metrics:
            n_records[task.column] += 1
            n_kept[task.column] += recorded.store_of(record).scores_path(record.id).is_file()
            found.setdefault(task.column, Counter()).update(
                name for name, value in record.metrics.items() if value is not None
            )
    if not found:
        _require_metrics(session, str(session.folder))
        raise ResultsError(f"{session.folder}: no records with metrics", shell_command(session, "run"))
    rows = []
    for column, names in found.items():
        texts = [name if n == n_records[column] else f"{name} ({n})" for name, n in names.items()]
        rows.append([column, n_records[column], str(n_kept[column]), ", ".join(texts)])
    headers = ["column", "records", "scores", "metrics"]
    of_names = max(20, width() - max(map(len, found)) - sum(len(name) + 4 for name in headers[1:3]) - 2)
    return table_text(rows, headers, disable_numparse=True, maxcolwidths=[None, None, None, of_names])


def add_metrics(session: Session, names: Sequence[str]) -> int:
    """Compute metrics from kept test scores and put them into the records; returns the exit code.

    ConfigError if there is no such metric, or the kind of protocol tests no setting; ResultsError if no record has its
    test scores, or a file of them is damaged.
    """
    try:
        wanted = [metric_name(name) for name in names]
    except ValueError as error:
        raise ConfigError(f"--add: {error}") from None
    protocol = _require_metrics(session, "--add")
    store = Store(session.folder)
    with store.locked():
        recorded = Recorded.read_intact(session)
        if not any(record.ok for _, record in recorded.pairs):
            raise ResultsError(f"{session.folder}: no records with metrics", shell_command(session, "run"))
        changed, without = [], []
        for task, record in recorded.pairs:
            missing = [name for name in wanted if name not in record.metrics]
            if not (record.ok and missing):
                continue
            home = recorded.store_of(record)
            kept = kept_scores(home, record, protocol)
            if kept is None:
                without.append(task.label)
                continue
            if home.folder != store.folder:
                store.copy_scores(home, record.id)
            found = evaluate(missing, kept["y"], kept["scores"], kept.get("probabilities"))
            changed.append(record.with_metrics({**record.metrics, **found}))
        if without and not changed:
            raise ResultsError(
                f"{session.folder}: no test scores of {without[0]}{_more(without)}",
                "keep_scores: true under protocol of the config, then opauc-bench run ... --fresh, keeps them; or name "
                "the metric under protocol.metrics: opauc-bench run computes the records that lack it",
            )
        store.pack(changed)
        content = recorded.manifest.experiment
        shown = list(dict.fromkeys([*protocol.metrics, *content["protocol"].get("metrics", ()), *wanted]))
        content = {**content, "protocol": {**content["protocol"], "metrics": shown}}
        write_manifest(session.folder, recorded.manifest.model_copy(update={"experiment": content}))
        session = Session.of_folder(session.folder, sources=session.sources)
        recorded = Recorded.read(session)
        write_report_files(recorded, session.folder, recorded.manifest.test)
    print_report(recorded, recorded.manifest.test)
    say(f"{counted(len(changed), 'record')} completed; training was not needed")
    say(wrapped(f"for the tables of {session.experiment.path}, add to its protocol: metrics: [{', '.join(shown)}]"))
    if without:
        say(wrapped(f"{counted(len(without), 'record')} without test scores: {without[0]}{_more(without)}"))
    return 1 if without else 0


def kept_scores(home: Store, record: Record, protocol: SplitProtocol) -> dict[str, np.ndarray] | None:
    """The test scores of a record, as `Store.read_scores` returns them.

    Raises
    ------
    ResultsError
        The file is damaged, or its AUC is not that of the record.
    """
    if (kept := home.read_scores(record.id)) is None:
        return None
    try:
        auc = float(protocol.auc_columns(kept["y"], kept["scores"][:, None])[0])
    except (TypeError, ValueError) as error:
        raise home.damaged_scores_error(record.id, str(error)) from None
    if not abs(auc - record.auc) <= _SAME_AUC:  # which NaN is not either
        reason = f"their AUC is {auc:.7f}, the record's {record.auc:.7f}"
        raise home.damaged_scores_error(record.id, reason)
    return kept


def _require_metrics(session: Session, place: str) -> SplitProtocol:
    protocol = session.experiment.protocol
    if not isinstance(protocol, SplitProtocol):
        kinds = " or ".join(kind_of(each) for each in PROTOCOLS if issubclass(each, SplitProtocol))
        raise ConfigError(f"{place}: expected an experiment of kind {kinds}, and this is {protocol.kind}")
    return protocol


def _more(labels: Sequence[str]) -> str:
    return f" and {len(labels) - 1} others" if len(labels) > 1 else ""
