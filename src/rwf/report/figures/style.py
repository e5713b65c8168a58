"""One style for all figures: the same colour for a parametrization everywhere, and bands over runs."""

import functools
import io
import itertools
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from rwf.report.apart import apart
from rwf.report.curves import Band
from rwf.report.extras import need
from rwf.report.names import contender, metric
from rwf.report.records import Record

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

# Okabe and Ito's colours, which people with any colour vision can tell apart.
COLOURS = {"plain": "#0072B2", "aa": "#E69F00", "wn": "#009E73", "rwf": "#D55E00"}
OTHERS = ("#CC79A7", "#56B4E9", "#7F7F7F")
INK, FAINT, MARK = "#222222", "#888888", "#A06A00"
# Numbers of tints and of lines that have no common factor: taken side by side, no pair comes again for long.
_TINTS = (*OTHERS, INK)
_LINES: tuple[Any, ...] = ("--", ":", "-.", (0, (6, 1)), (0, (4, 1, 1, 1, 1, 1)))
WIDTH = 11.0  # inches: the width of the page
DPI = 130

_STYLE = {
    "axes.edgecolor": "#666666",
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 11,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 12,
    "font.size": 11,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.8,
    "legend.fontsize": 10,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "text.color": INK,
    "xtick.color": "#444444",
    "xtick.labelsize": 10,
    "ytick.color": "#444444",
    "ytick.labelsize": 10,
}


@contextmanager
def style() -> Iterator[None]:
    """Draws in our style within, and leaves matplotlib's settings as they were."""
    matplotlib = need("matplotlib", "Drawing figures")
    with matplotlib.rc_context(_STYLE):
        yield


def blank(height: float, width: float = WIDTH) -> "matplotlib.figure.Figure":
    """An empty figure, in inches; without pyplot there is no window and no global list of figures."""
    figure = need("matplotlib", "Drawing figures", "matplotlib.figure")
    return figure.Figure(figsize=(width, height), layout="constrained")


def png(figure: "matplotlib.figure.Figure") -> bytes:
    """A figure as PNG; the same figure gives the same bytes.

    It is laid out and drawn at once: `savefig` would draw it once before, for the layout alone.
    """
    agg = need("matplotlib", "Drawing figures", "matplotlib.backends.backend_agg")
    _place_empty_labels(figure)
    with style(), io.BytesIO() as buffer:
        figure.set_dpi(DPI)
        agg.FigureCanvasAgg(figure).print_png(buffer, metadata={"Software": None})
        return buffer.getvalue()


def _place_empty_labels(figure: "matplotlib.figure.Figure") -> None:
    """Or matplotlib measures all ticks of an axis again and again to find a place for a label that is not there."""
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        if not axis.get_label_text():
            axis.set_label_coords(0, 0)


def labels(records: Sequence[Record]) -> list[str]:
    """What a legend calls each record of a figure."""
    variants = apart([record.variant for record in records]) if records else []
    return [contender(r.parametrization, r.tuned, variant) for r, variant in zip(records, variants, strict=True)]


def colour(record: Record) -> str:
    """The colour of a record's parametrization."""
    return COLOURS.get(record.parametrization, INK)


def lines(records: Sequence[Record]) -> list[dict[str, Any]]:
    """The first of a parametrization has its colour; ablations beside it have others, no two alike."""
    found, others = [], zip(itertools.cycle(_TINTS), itertools.cycle(_LINES), strict=False)
    for i, record in enumerate(records):
        first = record.parametrization not in {other.parametrization for other in records[:i]}
        tint, style = (colour(record), "-") if first else next(others)
        found.append({"color": tint, "linestyle": style})
    return found


def legend_below(figure: "matplotlib.figure.Figure") -> None:
    """The legend of the first panel below all, in as many rows as it needs: inside it would lie on the lines."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    labels = _wrapped(labels)
    figure.legend(handles, labels, loc="outside lower center", ncols=_columns(labels, figure.get_figwidth()))


def legend_rows(labels: Sequence[str], width: float = WIDTH) -> int:
    """How many lines of text such a legend has."""
    labels = _wrapped(labels)
    rows = -(-len(labels) // _columns(labels, width))
    return rows * max((label.count("\n") + 1 for label in labels), default=1)


def _wrapped(labels: Sequence[str]) -> list[str]:
    return ["\n".join(textwrap.wrap(label, 100)) for label in labels]


def _columns(labels: Sequence[str], width: float) -> int:
    """How many columns of a legend go into so many inches."""
    size = _STYLE["legend.fontsize"]
    longest = max((_length(word, size) for label in labels for word in label.split("\n")), default=0.0)
    return max(1, min(len(labels), int(72 * width / (longest + 5.2 * size))))  # beside it: the line, and gaps


@functools.cache
def _length(word: str, size: int) -> float:
    """How long a word is, in points; figures of one report have the same ones in their legends."""
    from matplotlib.textpath import TextPath

    return float(TextPath((0, 0), word, size=size).get_extents().width)


def mark(figure: "matplotlib.figure.Figure", text: str) -> None:
    """Writes above a figure what must be known where it is shown without its page."""
    layout: Any = figure.get_layout_engine()
    inch = 1 / figure.get_figheight()
    layout.set(rect=(0, 0, 1, 1 - 0.26 * inch))
    figure.text(1, 1 - 0.04 * inch, f"{text} ", ha="right", va="top", fontsize=9, color=MARK)


def draw_band(axes: "matplotlib.axes.Axes", band: Band | None, **line: Any) -> None:
    """A median with its 16 to 84 % band over runs."""
    if band is None or not len(band.step):
        return
    axes.plot(band.step, band.median, marker="o" if len(band.step) == 1 else None, **line)
    axes.fill_between(band.step, band.low, band.high, color=line.get("color"), alpha=0.18, linewidth=0)


def log_where_positive(axes: "matplotlib.axes.Axes", name: str) -> None:
    """A logarithmic axis for errors, losses and changes that are positive and not all alike; decibels stay as they are.

    Within a factor of three a logarithm straightens nothing, and leaves an axis with one label or none.
    """
    lines = [np.asarray(line.get_ydata(), float) for line in axes.get_lines()]
    values = np.concatenate([line[np.isfinite(line)] for line in lines]) if lines else np.zeros(0)
    falls = metric(name).near_one or not metric(name).higher
    if falls and len(values) and values.min() > 0 and values.max() >= 3 * values.min():
        axes.set_yscale("log")
        _few_decades(axes)


def _few_decades(axes: "matplotlib.axes.Axes") -> None:
    """Within two decades powers of ten are too few labels, and matplotlib's own beside them too long."""
    low, high = axes.get_ylim()
    if high / low < 100:
        labelled = "2345678" if high / low < 6 else "235"
        axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
        axes.yaxis.set_minor_formatter(lambda y, _: f"{y:g}" if f"{y:e}"[0] in labelled else "")


def step_axis(axes: "matplotlib.axes.Axes") -> None:
    """Steps along the x axis, thousands as k: five zeros a label would run into each other."""
    axes.xaxis.set_major_formatter(lambda x, _: f"{x / 1000:g}k" if x >= 1000 else f"{x:g}")
    axes.set_xlabel("step")
    axes.margins(x=0)


def shade(parametrization: str, index: int, count: int) -> tuple[float, float, float]:
    """One of several shades of a parametrization's colour, from light to dark."""
    rgb = np.array([int(COLOURS[parametrization][i : i + 2], 16) / 255 for i in (1, 3, 5)])
    share = index / max(1, count - 1)
    red, green, blue = rgb + (1 - rgb) * 0.6 * (1 - 2 * share) if share < 0.5 else rgb * (1.8 - 1.6 * share)
    return float(red), float(green), float(blue)
