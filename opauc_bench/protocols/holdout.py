"""Kind ``holdout``: repeated splits into training, validation and test rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from ..evaluation.holdout import holdout_split
from ..evaluation.splits import Split
from ..sentences import Problem, Problems
from ..values import ratios
from .base import KnownKind
from .context import TaskContext, seed_learner
from .outcome import TestedOutcome, from_json, to_json
from .splitting import KEEP_SCORES, METRICS, SELECT, SplitProtocol

if TYPE_CHECKING:
    from ..data import Dataset

__all__ = ["Holdout", "HoldoutOutcome"]

# Expected rows of the rarer class in the smallest set: with so many, it has none with a probability below e^-40.
_SURELY_SOME = 40


class HoldoutOutcome(TestedOutcome):
    """One split into training, validation and test rows."""

    needs: ClassVar = ("metrics.auc", "metrics.sparse_ratio", *TestedOutcome.needs[1:])
    kind: Literal["holdout"]


class Holdout(SplitProtocol):
    """Repeated splits into training, validation and test rows; the setting that validates best is tested."""

    outcome: ClassVar = HoldoutOutcome
    quantities: ClassVar = ("auc", "sparse_ratio", "seconds")
    ddof: ClassVar = 0
    supports_axes_from: ClassVar = True
    added_later: ClassVar = SplitProtocol.added_later | {"order"}

    kind: Annotated[Literal["holdout"], KnownKind] = Field(
        "holdout", description="holdout: repeated splits into three sets."
    )
    trials: int = Field(10, ge=1, description="Repetitions, each with a new split.")
    shares: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (4, 1, 1), min_length=3, max_length=3, description="Relative sizes of training, validation and test set."
    )
    split: Literal["stratified", "released"] = Field(
        "stratified",
        description="stratified: each class is divided; released: the permutations of the FTRL-AUC program.",
    )
    imbalance: Annotated[float | tuple[float, ...] | None, BeforeValidator(ratios)] = Field(
        None, description="Positives kept for each negative, the first ones; of a list, each is a row of the table."
    )
    auc: Literal["exact", "released"] = Field(
        "exact", description="exact; released: that of the FTRL-AUC program, without the last trapezoid."
    )
    seed: int = Field(17, ge=0, le=2**32 - 1, description="Seed of all splits and orders.")
    order: Literal["random", "time"] = Field(
        "random", description="random; time: the sets are cut along time, and rows are visited in that order."
    )
    metrics: METRICS = ("auc",)
    select: SELECT = "auc"
    keep_scores: KEEP_SCORES = False

    @model_validator(mode="after")
    def _check_order(self) -> Holdout:
        if self.order == "time":
            self.require_one_trial()
            if self.split != "stratified":
                message = f"rows are cut along time: expected no 'split: {self.split}' beside it"
                raise Problems([Problem(("order",), message)])
            if self.imbalance is not None:
                message = (
                    "the positives that it keeps are the first ones, which along time are the oldest: expected one of "
                    "imbalance and 'order: time'; train_positives of kind cv draws them"
                )
                raise Problems([Problem(("imbalance",), message)])
        return self

    @property
    def summary(self) -> str:
        shares = " : ".join(map(str, self.shares))
        if self.order == "time":
            return f"one split {shares} along time"
        return f"{super().summary} of random splits {shares}"

    @property
    def table_notes(self) -> tuple[str, ...]:
        notes = []
        if self.order == "time":
            notes.append("Training rows are earlier than validation rows, and these than test rows.")
        if isinstance(self.imbalance, float):
            notes.append(f"{self.imbalance:g} positives for each negative are used, the first ones of the data.")
        elif self.imbalance is not None:
            notes.append("@: positives for each negative, the first ones of the data; the others are not used.")
        if self.auc == "released":
            notes.append(
                "The AUC is that of the FTRL-AUC program: without the last trapezoid below the ROC curve, which is up "
                "to 1 / n_neg of the test rows, and with equal scores in the order of the rows, which may make it "
                "higher or lower by far more. Records have the exact one as auc_exact."
            )
        return tuple(notes)

    @property
    def row_metadata(self) -> tuple[str, ...]:
        return ("time",) if self.order == "time" else ()

    @property
    def table_metrics(self) -> tuple[str, ...]:
        return (*self.metrics, "sparse_ratio", "seconds")

    @property
    def record_metrics(self) -> tuple[str, ...]:
        return (*self.metrics, *(("auc_exact",) if self.auc != "exact" else ()), "sparse_ratio")

    @property
    def test_fraction(self) -> float:
        """Share of the test rows among those of training and test."""
        return self.shares[2] / (self.shares[0] + self.shares[2])

    def cases(self) -> list[tuple[str, Self]]:
        """Each ratio of a list under ``imbalance``; see `Protocol.cases`."""
        if self.imbalance is None:
            return [("", self)]
        kept = self.imbalance if isinstance(self.imbalance, tuple) else (self.imbalance,)
        return [(f" @ {ratio:g}", self.model_copy(update={"imbalance": ratio})) for ratio in kept]

    def n_rows(self, n_samples: int, n_positive: int | None) -> int:
        """Rows of a dataset that are used; all of them while the classes are not known."""
        if self.imbalance is None or n_positive is None:
            return n_samples
        n_negative = n_samples - n_positive
        return n_negative + min(n_positive, self._n_kept(n_negative))

    def _n_kept(self, n_negative: int) -> int:
        """Positives that ``imbalance`` asks for."""
        assert isinstance(self.imbalance, float)
        return int(self.imbalance * n_negative)

    def sizes(self, n_samples: int, max_train: int | None) -> tuple[float, float, float]:
        train, validation, test = (n_samples * share / sum(self.shares) for share in self.shares)
        return train if max_train is None else min(train, max_train), validation, test

    def class_size_problem(self, n_positive: int, n_negative: int) -> str | None:
        """Why classes of these sizes cannot be split, or None: every set needs rows of both."""
        if self.imbalance is not None:
            asked = self._n_kept(n_negative)
            if asked > n_positive:
                return f"imbalance {self.imbalance:g} asks for {asked} positive rows, and it has {n_positive}"
            n_positive = asked
        rarer = min(n_positive, n_negative)
        if all(rarer * share >= sum(self.shares) for share in self.shares):
            return None
        return f"its rarer class has {rarer} rows, too few to be divided {' : '.join(map(str, self.shares))}"

    def data_problem(self, data: Dataset) -> str | None:
        if error := super().data_problem(data):
            return error
        n_positive = int(np.count_nonzero(data.y > 0))
        n_negative = len(data.y) - n_positive
        n_rarer = min(n_negative, n_positive if self.imbalance is None else self._n_kept(n_negative))
        may_lack = self.split == "released" and n_rarer * min(self.shares) < _SURELY_SOME * sum(self.shares)
        checked = 1 if self.order == "time" else self.trials if may_lack else 0
        try:
            for trial in range(checked):
                self._split(data, data.name, trial)
        except ValueError as error:
            how = "along time" if self.order == "time" else "at random, as 'split: released' does"
            return f"cut {' : '.join(map(str, self.shares))} {how}, {error}"
        return None

    def make_split(self, context: TaskContext) -> Split:
        split = self._split(context.data, context.task.dataset, context.task.trial)
        return replace(split, train=context.capped(split.train, 1, latest=self.order == "time"))

    def _split(self, data: Dataset, name: str, trial: int) -> Split:
        settings = {key: getattr(self, key) for key in ("shares", "split", "imbalance", "seed")}
        time = data.time if self.order == "time" else None
        return holdout_split(data.y, trial=trial, dataset=name, time=time, **settings)

    def inherit_axes(self, context: TaskContext, split: Split) -> str:
        from ..evaluation.selection import ranking

        if context.tuned_by is None:
            return ""
        other = context.task.tuned_by
        assert other is not None
        best = ranking(self._validate(context, *context.tuned_by, split, "tuned_by"))
        if len(best) == 0:
            return f"no setting of {other['learner']}, which selects the axes first, stayed finite"
        grid = context.tuned_by[1]
        inherited = {axis: np.full(context.n_settings, grid[axis][best[0]]) for axis in other["axes"]}
        context.grid = {**context.grid, **inherited}
        return ""

    def search(self, context: TaskContext, split: Split) -> np.ndarray:
        """AUC of every setting on the validation rows."""
        return self._validate(context, context.learner, context.grid, split, "validation")

    def own_metrics(self, y: np.ndarray, scores: np.ndarray, models: Any) -> dict[str, float | None]:
        """The AUC, the exact one beside another one, and the share of weights that are not 0, None without weights."""
        from ..evaluation.auc import auc_columns
        from ..evaluation.selection import sparse_ratios

        found = super().own_metrics(y, scores, models)
        if self.auc != "exact":
            found["auc_exact"] = float(auc_columns(y, scores[:, None])[0])
        ratio = float(sparse_ratios(models)[0])
        return {**found, "sparse_ratio": None if np.isnan(ratio) else ratio}

    def _validate(
        self, context: TaskContext, learner: Any, grid: dict[str, np.ndarray], split: Split, name: str
    ) -> np.ndarray:
        """AUC of every setting on the validation rows; finished ones are kept under ``name``."""
        from ..evaluation.selection import fit_and_evaluate

        assert split.validation is not None
        seed_learner(learner, split.seed)
        kept = context.partial.get(name, {})

        def keep(aucs: dict[int, float]) -> None:
            context.partial[name] = dict(zip(map(str, aucs), to_json(aucs.values())))
            context.keep({key: context.partial[key] for key in ("tuned_by", "validation") if key in context.partial})

        return fit_and_evaluate(
            learner,
            context.data.X,
            context.data.y,
            grid,
            split.train,
            split.validation,
            memory_bytes=context.memory_bytes,
            on_chunk=context.check_limits,
            metric=self.selected_by,
            finished=dict(zip(map(int, kept), from_json(list(kept.values())))),
            on_block=keep,
        )
