"""Pieces of SVG, escaped."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape

__all__ = ["MARKERS", "element", "marker", "number", "picture", "text"]

# Outlines in a box from -1 to 1, for the marker letters of `figure_style`; "o" is a circle.
MARKERS = {
    "s": [(-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85)],
    "D": [(0, -1.15), (1.15, 0), (0, 1.15), (-1.15, 0)],
    "d": [(0, -1.2), (0.75, 0), (0, 1.2), (-0.75, 0)],
    "^": [(0, -1.1), (1.05, 0.8), (-1.05, 0.8)],
    "v": [(0, 1.1), (1.05, -0.8), (-1.05, -0.8)],
    "<": [(-1.1, 0), (0.8, -1.05), (0.8, 1.05)],
    ">": [(1.1, 0), (-0.8, -1.05), (-0.8, 1.05)],
    "P": [
        *((-0.4, -1.1), (0.4, -1.1), (0.4, -0.4), (1.1, -0.4), (1.1, 0.4), (0.4, 0.4)),
        *((0.4, 1.1), (-0.4, 1.1), (-0.4, 0.4), (-1.1, 0.4), (-1.1, -0.4), (-0.4, -0.4)),
    ],
    "X": [
        *((-0.55, -1.1), (0, -0.55), (0.55, -1.1), (1.1, -0.55), (0.55, 0), (1.1, 0.55)),
        *((0.55, 1.1), (0, 0.55), (-0.55, 1.1), (-1.1, 0.55), (-0.55, 0), (-1.1, -0.55)),
    ],
    "p": [(0, -1.1), (1.05, -0.34), (0.65, 0.89), (-0.65, 0.89), (-1.05, -0.34)],
    "h": [(0, -1.1), (0.95, -0.55), (0.95, 0.55), (0, 1.1), (-0.95, 0.55), (-0.95, -0.55)],
    "8": [
        *((-0.45, -1.05), (0.45, -1.05), (1.05, -0.45), (1.05, 0.45)),
        *((0.45, 1.05), (-0.45, 1.05), (-1.05, 0.45), (-1.05, -0.45)),
    ],
    "*": [
        *((0, -1.2), (0.28, -0.39), (1.14, -0.37), (0.46, 0.15), (0.71, 0.97)),
        *((0, 0.48), (-0.71, 0.97), (-0.46, 0.15), (-1.14, -0.37), (-0.28, -0.39)),
    ],
}


def number(value: float) -> str:
    """A coordinate with two decimals at most, the same on every machine."""
    return f"{round(float(value), 2) + 0.0:.2f}".rstrip("0").rstrip(".")


def element(name: str, *content: str | Markup, **attributes: str | float) -> Markup:
    """One element; ``stroke_width`` becomes ``stroke-width``, and a trailing underscore is dropped."""
    written = Markup("").join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), value if isinstance(value, str) else number(value))
        for key, value in attributes.items()
    )
    inner = Markup("").join(escape(piece) for piece in content)
    return (
        Markup("<{0}{1}>{2}</{0}>").format(name, written, inner) if inner else Markup("<{0}{1}/>").format(name, written)
    )


def text(x: float, y: float, words: str, **attributes: str | float) -> Markup:
    """A line of text."""
    return element("text", words, x=x, y=y, **attributes)


def marker(kind: str, x: float, y: float, size: float, colour: str) -> Markup:
    """A filled marker with its centre at (x, y)."""
    if kind not in MARKERS:
        return element("circle", cx=x, cy=y, r=size, fill=colour)
    corners = " ".join(f"{number(x + size * a)},{number(y + size * b)}" for a, b in MARKERS[kind])
    return element("polygon", points=corners, fill=colour)


def picture(width: float, height: float, label: str, pieces: Iterable[Markup], **attributes: str) -> Markup:
    """A whole drawing with a name that screen readers speak."""
    return element(
        "svg",
        *pieces,
        viewBox=f"0 0 {number(width)} {number(height)}",
        width=width,
        height=height,
        role="img",
        aria_label=label,
        **attributes,
    )
