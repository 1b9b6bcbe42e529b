"""What all kinds of protocol build on: `Protocol`, sections of an experiment file, and unions of kinds."""

from __future__ import annotations

import difflib
import math
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, Union
from typing import Protocol as Callback

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Tag, model_serializer

from ..errors import suggest
from ..sentences import show
from .outcome import Outcome

if TYPE_CHECKING:
    from ..data import Dataset
    from ..learners import Learner
    from ..task import Shape, Task
    from .context import TaskContext

__all__ = ["Cost", "KnownKind", "Protocol", "Section", "TrainingCost", "kind_of", "scoring_seconds", "union_of"]

Cost = tuple[float, float]  # CPU seconds and bytes

_SECONDS_PER_AUC_ROW = 2.5e-8


class TrainingCost(Callback):
    """Cost of training."""

    def __call__(self, n_rows: float, n_settings: int, folds: int = 0, alone: bool = False) -> Cost:
        """Cost of training some settings on ``n_rows``; with ``folds``, that many times on the rows but one fold.

        If ``alone``, a pass includes what is otherwise computed once for all passes over the dataset.
        """
        ...


class Section(BaseModel):
    """A part of an experiment file: no unknown keys, and frozen once it is checked."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Protocol(Section):
    """A kind of protocol: its settings, repetitions, identity and cost, and how one repetition is computed.

    A subclass has a field ``kind`` (a literal with that default) and ``seed``, and defines `outcome`, `cost` and
    `compute`. Everything else has a default. Heavy modules are imported inside `compute`, so that reading a config
    stays quick.

    Attributes
    ----------
    outcome : type of Outcome
        What a record of this kind contains.
    table_metrics : tuple of str
        What a table can show, "auc" first; empty for kinds that only draw figures.
    quantities : tuple of str
        What a figure can show.
    record_metrics : tuple of str
        Metrics of every record; a record that has more got them from the command ``metrics``.
    selecting_metric : str
        Metric by which a setting is selected.
    selects_by_probabilities : bool
        Whether that metric needs the probabilities of a model.
    keeps_scores : bool
        Whether the test scores are stored beside the records.
    runs : str
        What a table calls the repetitions.
    same_rows : bool
        Whether the repetitions have the same rows, in other orders.
    ddof : int
        Standard deviations divide by n less this.
    test_fraction : float
        n_test / (n_train + n_test), for the corrected t-test.
    exclusive : bool
        Whether nothing else should run meanwhile.
    trains : bool
        Whether learners are trained, so that every grid axis needs a value.
    sweeps : bool
        Whether each setting of the grid is measured, so that figures may show its axes.
    own_axes : tuple of str
        Axes of figures that the protocol sets, instead of the grid's.
    supports_axes_from : bool
        Whether a column may inherit axes from another one.
    row_metadata : tuple of str
        What it needs to know of each row: those of "split", "group" and "time" that a dataset has to have.
    added_later : frozenset of str
        Settings that are left out of plain data where they have their default, so that older identities stay valid.
    """

    outcome: ClassVar[type[Outcome]]
    runs: ClassVar[str] = "trials"
    same_rows: ClassVar[bool] = False
    trains: ClassVar[bool] = True
    sweeps: ClassVar[bool] = False
    own_axes: ClassVar[tuple[str, ...]] = ()
    added_later: ClassVar[frozenset[str]] = frozenset()

    if TYPE_CHECKING:
        kind: str
        trials: int

        @property
        def test_fraction(self) -> float: ...

    # Class variables of some kinds; those of others depend on their settings.
    @property
    def table_metrics(self) -> tuple[str, ...]:
        return ()

    @property
    def quantities(self) -> tuple[str, ...]:
        return ()

    @property
    def record_metrics(self) -> tuple[str, ...]:
        return ()

    @property
    def selecting_metric(self) -> str:
        return "auc"

    @property
    def selects_by_probabilities(self) -> bool:
        from ..evaluation.metrics import needs_probabilities

        return needs_probabilities(self.selecting_metric)

    @property
    def keeps_scores(self) -> bool:
        return False

    @property
    def ddof(self) -> int:
        return 1

    @property
    def exclusive(self) -> bool:
        return False

    @property
    def supports_axes_from(self) -> bool:
        return False

    @property
    def row_metadata(self) -> tuple[str, ...]:
        return ()

    @property
    def summary(self) -> str:
        """What the mean of a cell is over, such as ``5 trials``, to compare with that of a published table."""
        return f"{self.trials} {'trials' if self.trials > 1 else 'trial'}"

    @property
    def table_notes(self) -> tuple[str, ...]:
        """Sentences on the rows that are used and on what is measured, where that is not the default."""
        return ()

    @property
    def n_repetitions(self) -> int:
        """Numbers per cell of the table, or per point of the figure."""
        return self.trials

    def repetitions(self) -> Iterator[tuple[int, int]]:
        """Trial and fold of every repetition, in order; here, a trial has one fold."""
        return ((trial, 0) for trial in range(self.trials))

    def cases(self) -> list[tuple[str, Self]]:
        """What a dataset is measured under, each a row of the table or a panel: the end of its name, the settings."""
        return [("", self)]

    @model_serializer(mode="wrap")
    def _plain(self, to_plain: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        fields = type(self).model_fields
        left_out = {name for name in self.added_later if getattr(self, name) == fields[name].default}
        return {name: value for name, value in to_plain(self).items() if name not in left_out}

    def on(self, shape: Shape) -> Self:
        """The protocol with the costs on a dataset: another one where its rows determine the sizes of sets."""
        return self

    def n_rows(self, n_samples: int, n_positive: int | None) -> int:
        """Rows of a dataset that are used."""
        return n_samples

    def identity(self) -> dict[str, Any]:
        """What defines the numbers of one repetition: five trials can become ten."""
        return self.model_dump(mode="json", exclude={"trials"})

    def reason_left_out(self, n_samples: int, n_positive: int) -> str:
        """Why a dataset is not measured under these settings on purpose; empty if it is."""
        return ""

    def class_size_problem(self, n_positive: int, n_negative: int) -> str | None:
        """Why classes of these sizes cannot be used, or None."""
        return None

    def data_problem(self, data: Dataset) -> str | None:
        """Why a dataset cannot be used, or None."""
        n_positive = data.manifest["n_positive"]
        return self.class_size_problem(n_positive, data.manifest["n_samples"] - n_positive)

    def learner_error(self, learner: type[Learner]) -> tuple[str, str] | None:
        """Why a learner cannot be used, after its name, with a hint; None if it can."""
        return None

    def lacks(self, metrics: Collection[str]) -> bool:
        """Whether a record with these metrics has not all that the settings ask for."""
        return False

    @abstractmethod
    def cost(self, n_samples: int, n_settings: int, max_train: int | None, training: TrainingCost) -> Cost:
        """Cost of one repetition on ``n_samples`` rows, with at most ``max_train`` training rows."""

    def load(self) -> None:
        """Import modules that only this kind computes with, before the memory of a task is limited."""

    @abstractmethod
    def compute(self, context: TaskContext) -> dict[str, Any]:
        """Compute one repetition.

        Returns
        -------
        dict
            Status, message, outcome (with the fields of `outcome`) and timing of the record. Columns of times are
            under ``timing``: computed again, they differ.
        """

    def point_axes(self, task: Task) -> dict[str, Sequence[float]]:
        """What the points of an outcome's columns are about; empty where they are numbered."""
        return {}

    def point_rows(self, repetitions: Sequence[Mapping[str, np.ndarray]]) -> list[np.ndarray]:
        """For the columns of each repetition, their rows at the points of a figure: the same points for all of them."""
        return [np.arange(len(next(iter(columns.values()), ()))) for columns in repetitions]

    def n_points(self, task: Task) -> int | None:
        """Length of an outcome's columns; None where it depends on the data."""
        axes = self.point_axes(task)
        return len(next(iter(axes.values()))) if axes else None


def kind_of(protocol: type[Protocol]) -> str:
    """The name of a kind."""
    return protocol.model_fields["kind"].default


def union_of(protocols: Sequence[type[Protocol]], *, nearest: bool) -> Any:
    """The union of some kinds, discriminated by ``kind``.

    With ``nearest``, which is for all kinds, the one that a misspelt kind is nearest to reports it with its other
    mistakes.
    """
    kinds = [kind_of(protocol) for protocol in protocols]

    def kind(document: Any) -> str:
        found = document.get("kind", kinds[0]) if isinstance(document, Mapping) else getattr(document, "kind", kinds[0])
        if not nearest:
            return str(found)
        near = difflib.get_close_matches(found, kinds, n=1) if isinstance(found, str) else []
        return near[0] if near else kinds[0]

    branches = tuple(Annotated[protocol, Tag(kind)] for protocol, kind in zip(protocols, kinds))
    return Annotated[Union[branches], Discriminator(kind)]  # noqa: UP007 (made of a tuple)


def _known_kind(kind: Any) -> Any:
    from . import KINDS

    if kind not in KINDS:
        raise ValueError(f"expected {' or '.join(map(repr, KINDS))}, got {show(kind)}{suggest(str(kind), KINDS)}")
    return kind


KnownKind = BeforeValidator(_known_kind)


def scoring_seconds(n_rows: float, n_settings: int) -> float:
    """CPU seconds of the AUC of ``n_settings`` models on ``n_rows`` rows."""
    return _SECONDS_PER_AUC_ROW * n_rows * n_settings * max(1.0, math.log10(max(n_rows, 1.0)))
