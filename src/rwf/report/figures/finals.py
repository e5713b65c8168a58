"""Where each run of one variant ended: at the paper's learning rate, at tuned rates, and ablated."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rwf.report.apart import apart
from rwf.report.figures.drawing import Drawing
from rwf.report.figures.style import FAINT, blank, colour, legend_below, log_where_positive
from rwf.report.names import PARAMETRIZATIONS, metric
from rwf.report.records import Record
from rwf.report.rows import rows

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

_GAP = 0.5  # between groups, in columns
_LINE = 12  # letters that a column has room for


def finals(records: Sequence[Record], names: Sequence[str], title: str) -> Drawing | None:
    """A column for each record, a panel for each metric; groups that were not run are left out."""
    groups = {
        "at the recipe's rate": [r for r in records if "+" not in r.variant and not r.tuned],
        "faster": [r for r in records if r.setting],
        "at tuned rates": [r for r in records if "+" not in r.variant and r.tuned],
        "other settings": [r for r in records if "+" in r.variant and not r.setting],
    }
    groups = {name: group for name, group in groups.items() if group}
    if not groups or not names:
        return None
    columns = sum(len(group) for group in groups.values())
    figure = blank(3.6 * len(names) + 0.3, width=max(5.0, 2.0 + 0.9 * columns))
    for panel, name in enumerate(names):
        _draw_panel(figure.add_subplot(len(names), 1, panel + 1), groups, name)
    papers = any(row.paper is not None for row in rows(records))
    _draw_key(figure, papers)
    caption = (
        "A dot a run; diamond and bar: the mean and its 95 % interval (t), no further down than a third of the smallest"
    )
    caption += "; cross: the paper's value." if papers else "."
    if "faster" in groups:
        caption += " Faster: at RWF's first effective rate, the recipe's times e to the mean of log s."
    if "at tuned rates" in groups:
        caption = (
            "Is RWF's gain more than a faster learning rate? Beside the recipe's rate, the rate of each was "
            f"tuned on the training loss; the rates are below the names. {caption}"
        )
    return Drawing(title, caption, figure)


def _draw_key(figure: "matplotlib.figure.Figure", papers: bool) -> None:
    """What the marks are: a picture may leave its page."""
    axes = figure.axes[0]
    axes.plot([], [], "o", color=FAINT, alpha=0.45, markersize=5, mew=0, label="a run")
    axes.plot([], [], "D", color=FAINT, markersize=7, mec="white", mew=0.9, label="mean")
    axes.plot([], [], color=FAINT, linewidth=2, label="95 % interval")
    if papers:
        axes.plot([], [], "x", color="black", markersize=7, mew=1.6, label="the paper")
    legend_below(figure)


def _draw_panel(axes: "matplotlib.axes.Axes", groups: dict[str, list[Record]], name: str) -> None:
    start, ticks = 0.0, {}
    variants = iter(apart([record.variant for group in groups.values() for record in group]))
    for group_title, group in groups.items():
        for i, record in enumerate(group):
            draw_final(axes, record, name, start + i)
            ticks[start + i] = _tick(record, next(variants))
        middle = start + (len(group) - 1) / 2
        axes.annotate(group_title, (middle, 1.02), xycoords=("data", "axes fraction"), ha="center", color=FAINT)
        start += len(group) + _GAP
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.set_xlim(-0.6, start - _GAP - 0.4)
    axes.set_ylabel(metric(name).title)
    axes.grid(axis="x", visible=False)
    log_where_positive(axes, name)


def draw_final(axes: "matplotlib.axes.Axes", record: Record, name: str, place: float) -> None:
    """The final values of one record, with their mean, its interval, and what the paper has."""
    row = next((row for row in rows([record]) if row.metric == name), None)
    if row is None or row.mean is None:
        return
    values = np.array(list(record.finals(name).values()))
    spread = np.linspace(-0.16, 0.16, len(values)) if len(values) > 1 else 0.0
    axes.plot(place + spread, values, "o", color=colour(record), alpha=0.45, markersize=5, mew=0)
    if row.low is not None and row.high is not None:
        # A logarithmic axis has no zero: a bar that would reach it is cut where the values are long past.
        low = max(row.low, values.min() / 3) if values.min() > 0 else row.low
        axes.plot([place, place], [low, row.high], color=colour(record), linewidth=2)
    axes.plot(place, row.mean, "D", color=colour(record), markersize=7, mec="white", mew=0.9)
    if row.paper is not None:
        axes.plot(place, row.paper, "x", color="black", markersize=7, mew=1.6)


def _tick(record: Record, variant: str) -> str:
    """What is below a column: the parametrization, the settings that were changed, and a rate that tells more."""
    changed = [setting for setting in variant.split("+")[1:] if setting.partition("=")[0] not in record.setting]
    changed += ["tuned"] if changed and record.tuned else []
    rate = record.setting.get("optim.lr") or record.parts[0].info.get("recipe", {}).get("optim", {}).get("lr")
    told = isinstance(rate, float) and (record.setting or not changed)
    below = [*_lines(changed), *([f"{rate:g}"] if told else [])]
    return "\n".join([PARAMETRIZATIONS.get(record.parametrization, record.parametrization), *below])


def _lines(settings: Sequence[str]) -> list[str]:
    """Settings in lines that do not run into their neighbours'; a name is broken behind its dots and underscores.

    >>> _lines(["task.causal.chunks=16", "2 more"])
    ['task.causal.', 'chunks=', '16', '2', 'more']
    """
    found = []
    for setting in settings:
        name, equals, value = setting.partition("=")
        line = ""
        for piece in re.findall(r"[^._ ]+[._]?|[._]", name + equals) if equals else []:
            if line and len(line + piece) > _LINE:
                found.append(line)
                line = ""
            line += piece
        found += [line, *value.split(" ")] if equals else name.split(" ")
    return found
