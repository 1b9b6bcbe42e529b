"""Kind ``cv``: repeated cross-validation with a grid search inside each training set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from ..errors import ConfigError
from ..evaluation.splits import Split, inner_splits, n_positives_kept, outer_fold, thinned
from ..sentences import Problem, Problems
from ..values import percent, shares_or_all
from .base import KnownKind
from .context import TaskContext, seed_learner
from .outcome import TestedOutcome, from_json, to_json
from .splitting import KEEP_SCORES, METRICS, SELECT, SplitProtocol

if TYPE_CHECKING:
    from ..data import Dataset

__all__ = ["CrossValidation", "CrossValidationOutcome"]

_THINNING_VERSION = 2  # 1 kept the first positives in visiting order
_MANY_GROUPS = 1000  # in which a class is: enough for all folds, and too many to try every one


class CrossValidationOutcome(TestedOutcome):
    """One outer fold."""

    kind: Literal["cv"]


class CrossValidation(SplitProtocol):
    """Repeated cross-validation with a grid search inside each training set."""

    outcome: ClassVar = CrossValidationOutcome
    quantities: ClassVar = ("auc", "seconds")
    runs: ClassVar = "folds"
    added_later: ClassVar = SplitProtocol.added_later | {"train_positives", "least_positives", "groups", "order"}

    kind: Annotated[Literal["cv"], KnownKind] = Field("cv", description="cv: repeated cross-validation.")
    trials: int = Field(5, ge=1, description="Repetitions, each with new folds.")
    folds: int = Field(5, ge=2, description="Outer folds; each is the test set once per trial.")
    inner_folds: int = Field(5, ge=2, le=1_000_000, description="Folds of the grid search on the training set.")
    stratified: bool = Field(True, description="Whether each fold has its share of positives.")
    seed: int = Field(0, ge=0, description="Seed of all folds and orders.")
    train_positives: Annotated[float | tuple[float | None, ...] | None, BeforeValidator(shares_or_all)] = Field(
        None, description="Share of positives among training rows, others are left out; of a list, each is a row."
    )
    least_positives: int = Field(
        0, ge=0, description="Positive training rows, before max_train, below which a share is left out."
    )
    groups: bool = Field(False, description="Whether the rows of a group stay in one fold, outer and inner.")
    order: Literal["random", "time"] = Field(
        "random", description="random; time: training rows are earlier than test rows, and visited in that order."
    )
    metrics: METRICS = ("auc",)
    select: SELECT = "auc"
    keep_scores: KEEP_SCORES = False

    @model_validator(mode="after")
    def _check_order(self) -> CrossValidation:
        if self.order == "time":
            self.require_one_trial()
            if self.groups:
                message = "folds along time do not keep groups whole: expected one of 'groups: true' and 'order: time'"
                raise Problems([Problem(("order",), message)])
        return self

    @model_validator(mode="after")
    def _check_least_positives(self) -> CrossValidation:
        shares = self.train_positives if isinstance(self.train_positives, tuple) else (self.train_positives,)
        if self.least_positives and not any(shares):
            message = "expected a share under train_positives beside it, since it leaves out shares with too few rows"
            raise Problems([Problem(("least_positives",), message)])
        return self

    def identity(self) -> dict[str, Any]:
        """As `Protocol.identity`; which shares are left out changes no number."""
        identity = {key: value for key, value in super().identity().items() if key != "least_positives"}
        return identity | ({"thinning": _THINNING_VERSION} if isinstance(self.train_positives, float) else {})

    def cases(self) -> list[tuple[str, Self]]:
        """Each share under ``train_positives``; see `Protocol.cases`."""
        several = isinstance(self.train_positives, tuple)
        shares = self.train_positives if isinstance(self.train_positives, tuple) else (self.train_positives,)
        return [
            (
                "" if share is None or not several else f" @ {percent(share)}",
                self.model_copy(update={"train_positives": share}),
            )
            for share in shares
        ]

    def reason_left_out(self, n_samples: int, n_positive: int) -> str:
        if not isinstance(self.train_positives, float):
            return ""
        kept = self._n_kept(n_samples - n_positive)
        share = percent(self.train_positives)
        if kept >= int(n_positive * (self.folds - 1) / self.folds):
            return f"no more than {share} of its rows are positive"
        if kept < self.least_positives:
            return f"{share} are {kept} positive training rows, fewer than {self.least_positives}"
        return ""

    def _n_kept(self, n_negative: int) -> int:
        """Positives that ``train_positives`` leaves in a training set."""
        assert isinstance(self.train_positives, float)
        return n_positives_kept(self.train_positives, int(n_negative * (self.folds - 1) / self.folds))

    @property
    def summary(self) -> str:
        return f"{super().summary} of {self.folds}-fold cross-validation"

    @property
    def table_notes(self) -> tuple[str, ...]:
        notes = ["The rows of a group stay in one fold."] if self.groups else []
        if self.order == "time":
            notes.append("Training rows are earlier than test rows.")
        if isinstance(self.train_positives, float):
            notes.append(f"{percent(self.train_positives)} of the training rows are positive: the others are left out.")
        elif self.train_positives is not None:
            notes.append("@: share of positives among the training rows, of which the others are left out.")
        return tuple(notes)

    @property
    def row_metadata(self) -> tuple[str, ...]:
        return (*(("group",) if self.groups else ()), *(("time",) if self.order == "time" else ()))

    @property
    def table_metrics(self) -> tuple[str, ...]:
        return self.metrics

    @property
    def n_repetitions(self) -> int:
        return self.trials * self.folds

    @property
    def test_fraction(self) -> float:
        """Share of the rows in a test set; along time, of those in a test set and an average training set.

        Training rows that are left out count: it stands for the overlap of training sets, which that does not increase.
        """
        return 1.0 / self.folds if self.order == "random" else 2.0 / (self.folds + 3)

    def repetitions(self) -> Iterator[tuple[int, int]]:
        """Trial and fold of every repetition, in order."""
        for trial in range(self.trials):
            for fold in range(self.folds):
                yield trial, fold

    def sizes(self, n_samples: int, max_train: int | None) -> tuple[float, float, float]:
        # Along time, those of the last fold.
        n_parts = self.folds if self.order == "random" else self.folds + 1
        train = n_samples * (n_parts - 1) / n_parts
        return train if max_train is None else min(train, max_train), 0.0, n_samples / n_parts

    def class_size_problem(self, n_positive: int, n_negative: int) -> str | None:
        """Why classes of these sizes cannot be split, or None: every fold needs rows of both."""
        rarer = min(n_positive, n_negative)
        in_training = rarer - -(-rarer // self.folds)
        if rarer < self.folds or in_training < self.inner_folds:
            return (
                f"its rarer class has {rarer} rows, too few for {self.folds} folds with {self.inner_folds} inner folds"
            )
        if isinstance(self.train_positives, float) and (kept := self._n_kept(n_negative)) < self.inner_folds:
            return (
                f"train_positives: {self.train_positives:g} leaves {kept} positive training rows, too few for "
                f"{self.inner_folds} inner folds; least_positives: {self.inner_folds} leaves such datasets out"
            )
        return None

    def data_problem(self, data: Dataset) -> str | None:
        if not self.row_metadata:
            return super().data_problem(data)
        folds, inside = self.folds, ""
        if self.groups and min(len(np.unique(data.group[data.y == label])) for label in (-1, 1)) > _MANY_GROUPS:
            folds = 1
        try:
            for trial in range(self.trials):
                for fold in range(folds):
                    split = self._thinned(data.y, self._split(data, data.name, trial, fold))
                    inside = "the training set of a fold: "
                    self._inner_splits(data, split)
                    inside = ""
        except ValueError as error:
            return f"{inside}{error}"
        return None

    def make_split(self, context: TaskContext) -> Split:
        task = context.task
        split = self._thinned(context.data.y, self._split(context.data, task.dataset, task.trial, task.fold))
        capped = replace(split, train=context.capped(split.train, self.inner_folds, latest=self.order == "time"))
        if self.row_metadata and len(capped.train) < len(split.train):
            try:
                self._inner_splits(context.data, capped)
            except ValueError as error:
                hint = f"raise max_train of {task.column}"
                raise ConfigError(f"max_train {task.max_train} of {task.dataset}: {error}", hint) from None
        return capped

    def _inner_splits(self, data: Dataset, split: Split) -> None:
        """Divide the training set of a split; ValueError if that cannot be done."""
        inner_splits(
            data.y[split.train],
            inner_folds=self.inner_folds,
            stratified=self.stratified,
            seed=split.seed,
            **self._metadata_of(data, split.train),
        )

    def _split(self, data: Dataset, name: str, trial: int, fold: int) -> Split:
        return outer_fold(
            data.y,
            trial=trial,
            fold=fold,
            folds=self.folds,
            stratified=self.stratified,
            seed=self.seed,
            dataset=name,
            **self._metadata_of(data),
        )

    def _thinned(self, y: np.ndarray, split: Split) -> Split:
        if not isinstance(self.train_positives, float):
            return split
        return replace(split, train=thinned(y, split.train, self.train_positives, split.seed))

    def _metadata_of(self, data: Dataset, rows: Any = slice(None)) -> dict[str, np.ndarray]:
        """The row metadata of some rows that decide how these are divided, by name."""
        return {name: np.asarray(getattr(data, name)[rows]) for name in self.row_metadata}

    def search(self, context: TaskContext, split: Split) -> np.ndarray:
        """Mean AUC of every setting over the inner folds."""
        from ..evaluation.selection import cross_validate

        seed_learner(context.learner, split.seed)
        finished = {int(k): from_json(aucs) for k, aucs in context.partial.get("inner_aucs", {}).items()}

        def keep(inner_fold: int, aucs: np.ndarray) -> None:
            finished[inner_fold] = aucs
            context.keep({"inner_aucs": {k: to_json(v) for k, v in finished.items()}})

        learner, X, ties = None, None, None
        if len(finished) < self.inner_folds:
            learner, X, ties = context.search_problem(split.train, self.inner_folds)
        return cross_validate(
            learner,
            X,
            context.data.y,
            context.grid,
            split.train,
            inner_folds=self.inner_folds,
            stratified=self.stratified,
            seed=split.seed,
            **self._metadata_of(context.data),
            memory_bytes=context.memory_bytes,
            on_chunk=context.check_limits,
            finished=dict(finished),
            on_fold=keep,
            metric=self.selected_by,
            ties=ties,
        ).mean(axis=0)
