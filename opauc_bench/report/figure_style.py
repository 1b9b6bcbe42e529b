"""The formats of figures, and one colour and one marker per learner, the same in every figure.

Colours are those of Okabe and Ito, which can be distinguished with any kind of colour blindness, and darker ones of
Paul Tol. Each learner also has its own marker, so that a figure can be read in grey.
"""

import hashlib
from dataclasses import dataclass

__all__ = ["DRAWING_FORMATS", "LEARNER_STYLES", "LineStyle", "style_of"]

DRAWING_FORMATS = ("pdf", "svg", "png")  # of drawings

BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9"
BLACK, WINE, OLIVE, INDIGO, GREY, BROWN = "#000000", "#882255", "#999933", "#332288", "#777777", "#8C510A"

_COLOURS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, BLACK, WINE, OLIVE, INDIGO, GREY, BROWN)
_MARKERS = ("o", "s", "D", "^", "v", "P", "X", "<", ">", "p", "h", "*", "d", "8")
_DASHES = ("solid", (0, (4, 1.5)), (0, (1, 1.2)), (0, (5, 1.2, 1, 1.2)))

LEARNER_STYLES = {
    "opauc": (BLUE, "o"),
    "oam_seq": (VERMILION, "s"),
    "oam_gra": (ORANGE, "D"),
    "uni_exp": (GREEN, "^"),
    "uni_log": (PURPLE, "v"),
    "uni_squ": (SKY, "<"),
    "opauc_fd": (INDIGO, "P"),
    "opauc_s": (BLACK, "X"),
    "opauc_r": (WINE, ">"),
    "opauc_h": (OLIVE, "p"),
    "opauc_feat": (GREY, "h"),
    "opauc_rp": (BROWN, "*"),
    "opauc_pca": (BLUE, "d"),
    "ftrl_auc": (BLUE, "X"),
    "spam_l1": (VERMILION, "<"),
    "spam_l2": (ORANGE, ">"),
    "spam_elastic": (PURPLE, "d"),
    "solam": (GREEN, "p"),
    "spauc": (BLACK, "h"),
    "fsauc": (SKY, "*"),
    "ftrl_proximal": (WINE, "s"),
    "rda_l1": (OLIVE, "D"),
    "adagrad": (GREY, "^"),
    "nag": (ORANGE, "*"),
    "ada_oam": (BROWN, "<"),
    "pair_sgd": (INDIGO, "d"),
    "rank_svm_l2": (GREEN, "X"),
    "svm_perf": (WINE, "v"),
    "svm_or": (OLIVE, "o"),
    "ls_svm": (VERMILION, "P"),
    "batch_uni_log": (PURPLE, "s"),
    "batch_uni_squ": (SKY, "^"),
    # Sketches without a learner, in the figure of their errors: in the style of their learner.
    "frequent_directions": (INDIGO, "P"),
    "sparse": (BLACK, "X"),
    "random_projection": (WINE, ">"),
    "hashing": (OLIVE, "p"),
}
_TAKEN = frozenset(LEARNER_STYLES.values())
_FREE = tuple((colour, marker) for marker in _MARKERS for colour in _COLOURS if (colour, marker) not in _TAKEN)


@dataclass(frozen=True)
class LineStyle:
    """Style of one line; ``dashes`` is a line style of matplotlib, ``filled`` is about the markers."""

    colour: str
    marker: str
    dashes: str | tuple
    filled: bool


def style_of(learner: str, variant: int = 0) -> LineStyle:
    """The style of a learner's line; names outside the registry have a style that is derived from the name.

    ``variant`` is 0 for its first line in a figure; further ones differ in dashes, filling and lightness.
    """
    colour, marker = LEARNER_STYLES.get(learner) or _FREE[_hash(learner) % len(_FREE)]
    if variant:
        colour = _lighter(colour, (0.0, 0.25, 0.45, 0.6)[min(variant, 3)])
    return LineStyle(colour, marker, _DASHES[variant % len(_DASHES)], variant % 2 == 0)


def _hash(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")


def _lighter(colour: str, share: float) -> str:
    """Mix a colour with a share of white."""
    parts = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return "#" + "".join(f"{round(part + (255 - part) * share):02X}" for part in parts)
