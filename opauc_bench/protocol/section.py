"""What all protocols build on: sections of an experiment file, the names of the kinds, and the cost of scoring."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Discriminator

from ..sentences import show, suggest

__all__ = [
    "FIGURE_KINDS",
    "KINDS",
    "SPLIT_KINDS",
    "Section",
    "TrainingCost",
    "known_kind",
    "scoring_seconds",
    "told_by_kind",
]

# Those that split rows and choose a setting, and fill tables; and those that only draw figures.
SPLIT_KINDS = ("cv", "holdout")
FIGURE_KINDS = ("sweep", "convergence", "timing", "sketch_error")
KINDS = SPLIT_KINDS + FIGURE_KINDS

# Seconds and bytes of training some settings on some rows: (n_rows, n_settings) -> (seconds, bytes).
TrainingCost = Callable[[float, int], tuple[float, float]]

_SECONDS_PER_AUC_ROW = 2.5e-8


class Section(BaseModel):
    """A part of an experiment file: no unknown keys, and frozen once it is checked."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def scoring_seconds(n_rows: float, n_settings: int) -> float:
    """CPU seconds of the AUC of ``n_settings`` models on ``n_rows`` rows."""
    return _SECONDS_PER_AUC_ROW * n_rows * n_settings * max(1.0, math.log10(max(n_rows, 1.0)))


def known_kind(kind: Any) -> Any:
    """Accept the name of a kind."""
    if kind not in KINDS:
        expected = " or ".join(repr(known) for known in KINDS)
        raise ValueError(f"expected {expected}, got {show(kind)}{suggest(str(kind), KINDS)}")
    return kind


def told_by_kind(kinds: Sequence[str]) -> Discriminator:
    """How a union of protocols is told apart: by ``kind``, and of a misspelt kind, as the one that is nearest."""

    def branch(document: Any) -> str:
        kind = document.get("kind", "cv") if isinstance(document, Mapping) else getattr(document, "kind", "cv")
        near = difflib.get_close_matches(kind, kinds, n=1) if isinstance(kind, str) else []
        return near[0] if near else kinds[0]

    return Discriminator(branch)
