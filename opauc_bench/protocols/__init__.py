"""How a number is measured: the kinds of protocol that an experiment file may name, a class and a file each.

To add a kind, add its file, import its class here and put it into `PROTOCOLS`. The union types of configs and records,
and everything that the plan, workers, tables and figures know of a kind, follow from the classes.
"""

from typing import TYPE_CHECKING, Annotated, Union

from pydantic import Field

from .base import Protocol, Section, TrainingCost, kind_of, union_of
from .convergence import Convergence
from .cross_validation import CrossValidation
from .holdout import Holdout
from .outcome import Outcome, is_share
from .predefined import Predefined
from .prequential import Prequential
from .sketch_error import SketchError
from .splitting import SplitProtocol
from .sweep import Sweep
from .timing import Timing

__all__ = [
    "KINDS",
    "PROTOCOLS",
    "AnyOutcome",
    "AnyProtocol",
    "Convergence",
    "CrossValidation",
    "Holdout",
    "Outcome",
    "Predefined",
    "Prequential",
    "Protocol",
    "Section",
    "SketchError",
    "SplitProtocol",
    "Sweep",
    "Timing",
    "TrainingCost",
    "is_share",
    "kind_of",
]

# The first one is the default.
PROTOCOLS: tuple[type[Protocol], ...] = (
    CrossValidation,
    Holdout,
    Sweep,
    Convergence,
    Timing,
    SketchError,
    Prequential,
    Predefined,
)

KINDS = tuple(map(kind_of, PROTOCOLS))
_SPLITS = union_of([protocol for protocol in PROTOCOLS if issubclass(protocol, SplitProtocol)], nearest=False)
for _protocol in PROTOCOLS:
    _protocol.model_rebuild(_types_namespace={"Splits": _SPLITS})

if TYPE_CHECKING:  # which does not know unions that are made at run time
    AnyProtocol = Protocol
    AnyOutcome = Outcome
else:
    AnyProtocol = union_of(PROTOCOLS, nearest=True)
    AnyOutcome = Annotated[Union[tuple(protocol.outcome for protocol in PROTOCOLS)], Field(discriminator="kind")]  # noqa: UP007
