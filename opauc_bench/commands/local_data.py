"""The datasets of an experiment on this machine: which are ready, and why others are not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from ..data import Dataset, DatasetEntry, Sources, find_prepared, is_intact, prepare, prepared_as
from ..errors import DataError, DataUnavailable
from ..results.manifest import DatasetFacts

__all__ = ["LocalData", "Notify"]

Notify = Callable[[str], None]


@dataclass
class LocalData:
    """Datasets on this machine: the catalogue, those that are ready, and why others are unavailable.

    Where a dataset is unavailable, the arrays with its fingerprint among `recorded`, if the cache has them, are used.
    """

    entries: Mapping[str, DatasetEntry]
    sources: Sources
    recorded: Mapping[str, str | None] = field(default_factory=dict)
    prepared: dict[str, Dataset] = field(default_factory=dict)
    unavailable: dict[str, DataError] = field(default_factory=dict)
    _hashed: set[str] = field(default_factory=set, init=False)

    def find(self, names: Collection[str]) -> None:
        """Open the datasets that are in the cache; nothing is fetched or parsed."""
        found = {name: find_prepared(self.entries[name], self.sources) for name in names if name not in self.prepared}
        self.prepared |= {name: dataset for name, dataset in found.items() if dataset is not None}

    def prepare(self, name: str, notify: Notify) -> Dataset | None:
        """Prepare a dataset, or note why it is unavailable."""
        if name not in self.prepared and name not in self.unavailable:
            self.find([name])
            if name not in self.prepared:
                self._prepare(name, notify)
        return self.prepared.get(name)

    def check(self, names: Collection[str], notify: Notify) -> list[str]:
        """Hash the arrays of datasets before they are used, once per dataset; changed arrays are prepared again.

        Returns the datasets whose fingerprint has changed, or which are unavailable now: the plan does not hold for
        them.
        """
        changed = []
        for name in sorted(set(names) - self._hashed):
            planned = self.prepared.pop(name).fingerprint
            self._prepare(name, notify)
            if name not in self.prepared or self.prepared[name].fingerprint != planned:
                changed.append(name)
        return changed

    def absences(self) -> list[str]:
        """Sentences on the unavailable datasets, each reason with its hint; a single one has more lines."""
        errors = list(self.unavailable.values())
        if len(errors) <= 1:
            return [f"unavailable: {error}" for error in errors]
        lines = [f"unavailable: {', '.join(self.unavailable)}"]
        for error in errors:
            reason = "; ".join(line.strip(" -") for line in error.message.splitlines())
            lines += [reason, *([f"  hint: {error.hint}"] if error.hint else [])]
        return lines

    def facts(self) -> dict[str, DatasetFacts]:
        """Facts about the ready datasets, for a manifest."""
        return {
            name: DatasetFacts.model_validate({"fingerprint": data.fingerprint, **data.manifest}, strict=False)
            for name, data in self.prepared.items()
        }

    def folders(self) -> dict[str, str]:
        """Folders of the arrays."""
        return {name: str(data.folder) for name, data in self.prepared.items()}

    def _prepare(self, name: str, notify: Notify) -> None:
        self._hashed.add(name)
        try:
            self.prepared[name] = prepare(self.entries[name], self.sources, notify, hashed=True)
        except DataError as error:
            found, known = None, self.recorded.get(name)
            if known and isinstance(error, DataUnavailable):
                found = prepared_as(self.entries[name], self.sources, known)
            if found is not None and is_intact(found, notify):
                self.prepared[name] = found
            else:
                self.unavailable[name] = error
