"""Figures with matplotlib: the same bytes for the same numbers, without a window, time stamps or global settings.

Imported only where something is drawn; matplotlib is in the extra ``[plots]``.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogFormatterMathtext, LogLocator, MaxNLocator, NullFormatter, NullLocator

from ..protocols import is_share
from .figure import DATASET, Figure, Line, Panel
from .figure_style import DRAWING_FORMATS, style_of
from .text import quantity_label

__all__ = ["draw", "render"]

_WIDTH = 7.0  # inches: a text block of the journals
_PANEL_HEIGHT = {1: 3.2, 2: 2.5, 3: 2.0, 4: 1.65}
_MARKERS_ON_A_LINE = 9
# The mathematics of matplotlib has no characters beyond the basic plane.
_INDEX = re.compile(r"(?<=[A-Z])([_^])([^\W\U00010000-\U0010FFFF]+)")
_RC = {
    "font.size": 8.0,
    "axes.titlesize": 8.0,
    "axes.titlepad": 3.0,
    "axes.labelsize": 8.0,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "legend.fontsize": 7.5,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.minor.size": 1.5,
    "ytick.minor.size": 1.5,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.8,
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "svg.hashsalt": "opauc-bench",
    "savefig.dpi": 150,
}
# The first one comes with matplotlib, for the same glyphs everywhere; the others have what it lacks, Chinese above all.
_FONTS = (
    "DejaVu Sans",
    *("Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "WenQuanYi Zen Hei", "WenQuanYi Micro Hei"),
    *("Microsoft YaHei", "SimHei", "PingFang SC", "Hiragino Sans GB", "Arial Unicode MS", "Droid Sans Fallback"),
)
# No time stamps and program names in the files.
_METADATA = {
    "pdf": {"CreationDate": None, "ModDate": None, "Creator": None, "Producer": None},
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
}


def render(figure: Figure) -> dict[str, bytes]:
    """Draw a figure, which has at least one panel to draw, in every format, by file ending."""
    installed = {font.name for font in font_manager.fontManager.ttflist}
    fonts = [name for name in _FONTS if name in installed]
    with mpl.rc_context({**mpl.rcParamsDefault, **_RC, "font.family": fonts}):  # type: ignore[dict-item]
        canvas = draw(figure)
        files = {}
        for ending in DRAWING_FORMATS:
            file = io.BytesIO()
            canvas.savefig(file, format=ending, metadata=_METADATA[ending])
            files[ending] = file.getvalue()
    return files


def draw(figure: Figure) -> Canvas:
    """Lay out the panels, and the legend above them."""
    panels = figure.drawn_panels
    by_dataset = figure.spec.x == DATASET
    n_across = 1 if by_dataset else _n_across(len(panels))
    n_down = -(-len(panels) // n_across)
    height = 3.0 if by_dataset else _PANEL_HEIGHT[n_across] * n_down
    lines = _for_legend(panels)
    canvas = Canvas(figsize=(_WIDTH, height + 0.3 * (1 + _legend_rows(lines))), layout="constrained")
    FigureCanvasAgg(canvas)
    grid = canvas.subplots(n_down, n_across, squeeze=False)
    for axes, panel in zip(grid.flat, panels):
        (_draw_datasets if by_dataset else _draw_lines)(axes, figure, panel)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    _label_outer(grid, figure, len(panels))
    title = _text(figure.spec.title) if figure.spec.title else None
    if len(lines) > 1:
        _legend(canvas, lines, title)
    elif title:
        canvas.suptitle(title, fontsize=9)
    return canvas


def _n_across(n_panels: int) -> int:
    if n_panels <= 4:
        return {4: 2}.get(n_panels, max(1, n_panels))
    return min((3, 4), key=lambda n: (-n_panels % n, -n))


def _for_legend(panels: Sequence[Panel]) -> list[Line]:
    """Each line once, in the order in which the experiment has them."""
    lines: dict[tuple[str, int], Line] = {}
    for panel in panels:
        for line in panel.lines:
            lines.setdefault((line.learner, line.variant), line)
    return list(lines.values())


def _draw_lines(axes, figure: Figure, panel: Panel) -> None:
    spec = figure.spec
    for line in panel.lines:
        points = list(line.points)
        if spec.along or figure.exact_x:  # grids, and columns, are in the order of the config
            points.sort(key=lambda point: point.along if spec.along else point.x)
        x, x_std, y, y_std = (
            np.array([getattr(point, name) if figure.is_drawn(point) else math.nan for point in points])
            for name in ("x", "x_std", "y", "y_std")
        )
        look = _look(line)
        every = 1 if spec.along else max(1, -(-len(x) // _MARKERS_ON_A_LINE))
        axes.plot(x, y, markevery=every, **look)
        y_band = _band(spec.y, y, y_std)
        if spec.along or np.count_nonzero(np.isfinite(y)) == 1:  # one point has no band
            bars = {"xerr": abs(_band(spec.x, x, x_std) - x), "yerr": abs(y_band - y)}
            axes.errorbar(x, y, **bars, fmt="none", ecolor=look["color"], elinewidth=0.6, alpha=0.45)
        else:
            axes.fill_between(x, *y_band, color=look["color"], alpha=0.16, linewidth=0)
    axes.set_title(_text(panel.dataset))
    if figure.exact_x:  # the same axis in all panels, even if lines end at different places
        xs = [
            point.x for each in figure.panels for line in each.lines for point in line.points if figure.is_drawn(point)
        ]
        axes.update_datalim([(min(xs), 0.0), (max(xs), 0.0)], updatey=False)
    _scale(axes, "x", spec.x_scale)
    _scale(axes, "y", spec.y_scale)


def _band(name: str, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    """Lower and upper end of mean ± std, within what the quantity can be; of shape (2, n_points)."""
    band = np.stack([mean - std, mean + std])
    return np.clip(band, 0.0, 1.0) if is_share(name) else band


def _draw_datasets(axes, figure: Figure, panel: Panel) -> None:
    """Datasets side by side, with an offset per learner."""
    names = list(dict.fromkeys(point.x for line in panel.lines for point in line.points if figure.is_drawn(point)))
    for k in range(0, len(names), 2):
        axes.axvspan(k - 0.5, k + 0.5, color="#F4F4F4", linewidth=0, zorder=0)
    offsets = np.linspace(-0.36, 0.36, len(panel.lines)) if len(panel.lines) > 1 else [0.0]
    for line, offset in zip(panel.lines, offsets):
        points = [point for point in line.points if figure.is_drawn(point)]
        look = {**_look(line), "linestyle": "none", "markersize": 4.5}
        y, y_std = (np.array([getattr(point, name) for point in points], dtype=float) for name in ("y", "y_std"))
        bars = np.abs(_band(figure.spec.y, y, y_std) - y)
        if figure.spec.y_scale != "linear":
            bars[0] = np.minimum(bars[0], 0.9 * y)  # the lower end stays above zero
        axes.errorbar([names.index(point.x) + offset for point in points], y, bars, elinewidth=0.7, **look)
    axes.set_xticks(range(len(names)), [_text(str(name)) for name in names])
    if len(names) > 7:
        axes.tick_params(axis="x", rotation=35)
        for label in axes.get_xticklabels():
            label.set_horizontalalignment("right")
            label.set_rotation_mode("anchor")
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.grid(visible=False, axis="x")
    axes.tick_params(axis="x", length=0)
    _scale(axes, "y", figure.spec.y_scale)


def _look(line: Line) -> dict:
    style = style_of(line.learner, line.variant)
    return {
        "color": style.colour,
        "marker": style.marker,
        "linestyle": style.dashes,
        "markerfacecolor": style.colour if style.filled else "white",
        "markeredgecolor": style.colour,
        "markeredgewidth": 0.8,
    }


def _scale(axes, which: str, scale: str) -> None:
    axis = getattr(axes, f"{which}axis")
    low, high = axis.get_data_interval()
    if scale == "linear":
        axis.set_major_locator(MaxNLocator(nbins=4 if which == "x" else 5, min_n_ticks=3))
        if high >= 10_000:  # thousands as k, so that neighbouring panels keep their ticks apart
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 1000:g}k" if value else "0"))
        return
    base = 2 if scale == "log2" else 10
    getattr(axes, f"set_{which}scale")("log", base=base)
    # Whole multiples of 1, 2, 4, ... between exponents: the same ticks in neighbouring panels.
    exponents = math.log(high / low, base) if 0 < low < high else 1.0
    step = next(step for step in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024) if exponents / step <= 4.5)
    axis.set_major_locator(LogLocator(base=base**step, numticks=10))
    axis.set_major_formatter(LogFormatterMathtext(base=base))
    axis.set_minor_formatter(NullFormatter())  # labels of minor ticks run into each other
    if base == 2 or step > 1:
        axis.set_minor_locator(NullLocator())
    elif 0 < low < high and math.floor(math.log10(high)) - math.ceil(math.log10(low)) < 1:
        # Otherwise at most one tick would be labelled.
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        n_inside = sum(low <= factor * 10.0**k <= high for k in powers for factor in (1, 2, 5))
        axis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5)) if n_inside > 1 else MaxNLocator(nbins=4))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _label_outer(grid, figure: Figure, n_panels: int) -> None:
    """Label the axes once: at the left, and below the lowest panel of each column."""
    spec = figure.spec
    n_across = grid.shape[1]
    for k, axes in enumerate(grid.flat[:n_panels]):
        if k + n_across >= n_panels:
            axes.set_xlabel(_text(spec.x_label or quantity_label(spec.x)))
        if k % n_across == 0:
            axes.set_ylabel(_text(spec.y_label or quantity_label(spec.y)))


def _text(text: str) -> str:
    """OAM_seq and OPAUC^rp with a real index; a dollar sign is a dollar sign."""
    text = _INDEX.sub(_index, text.replace("$", r"\$"))
    return f" {text}" if text.startswith("_") else text  # matplotlib leaves such names out of legends


def _index(found: re.Match) -> str:
    sign, name = found[1], found[2].replace("_", r"\_")  # a further index in it would be an error of the mathematics
    return f"${sign}{{\\mathrm{{{name}}}}}$"


def _legend_rows(lines: list[Line]) -> int:
    return -(-len(lines) // _legend_columns(lines)) if len(lines) > 1 else 0


def _legend_columns(lines: list[Line]) -> int:
    """As many entries side by side as fit the width, rows filled evenly."""
    widest = max(len(line.label) for line in lines)
    fitting = max(1, min(len(lines), int(_WIDTH / (0.45 + 0.075 * widest))))
    return -(-len(lines) // -(-len(lines) // fitting))


def _legend(canvas: Canvas, lines: list[Line], title: str | None) -> None:
    """The legend above the panels, with the title of the figure: matplotlib would draw a second one over it."""

    by_dataset = any(isinstance(point.x, str) for line in lines for point in line.points)
    looks = [{**_look(line), **({"linestyle": "none"} if by_dataset else {})} for line in lines]
    handles = [Line2D([], [], label=_text(line.label), **look) for line, look in zip(lines, looks)]
    canvas.legend(
        handles=handles,
        loc="outside upper center",
        ncols=_legend_columns(lines),
        handlelength=2.4,
        columnspacing=1.4,
        title=title,
        title_fontsize=9,
    )
