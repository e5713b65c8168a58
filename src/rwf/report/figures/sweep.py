"""Grids: where the runs of a sweep ended, over the setting that was swept, a line for each parametrization."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rwf.report.curves import QUANTILES
from rwf.report.figures.drawing import Drawing
from rwf.report.figures.style import blank, labels, legend_below, legend_rows, lines, log_where_positive
from rwf.report.names import headlines, metric
from rwf.report.records import Record

if TYPE_CHECKING:
    import matplotlib.axes

_RATES = 3  # that make a sweep: Plain at one other rate is none, and rates are in tables as well
_WIDE = 5.0  # times the smallest value, from which on an axis is logarithmic
_ELSEWHERE = {  # what the paper's figures show of a family of cases: siren.py, ablation.py
    ("image", ("net.omega",)),
    ("ct", ("net.omega",)),
    ("regression-1d", ("rwf.mean", "rwf.stddev")),
}


def sweeps(records: Sequence[Record]) -> list[Drawing]:
    """A figure for all settings of a variant that were swept together, with a panel for each metric of the tables."""
    swept = [record for record in records if record.setting and _axes(record) not in _ELSEWHERE]
    names = headlines(list(dict.fromkeys(name for record in swept for name in record.metrics)))
    grids: dict[tuple[str, ...], list[Record]] = {}
    for record in swept:
        grids.setdefault((record.variant.partition("+")[0], *_axes(record)[1]), []).append(record)
    several = len({variant for variant, *_ in grids}) > 1
    found = [_sweep(grid, names, f" ({variant})" if several else "") for (variant, *_), grid in grids.items()]
    return [drawing for drawing in found if drawing is not None]


def _axes(record: Record) -> tuple[str, tuple[str, ...]]:
    return record.case.partition("/")[0], tuple(sorted(record.setting))


def _sweep(grid: Sequence[Record], names: Sequence[str], of: str) -> Drawing | None:
    values = {path: {record.setting[path] for record in grid} for path in grid[0].setting}
    path = max(values, key=lambda path: len(values[path]))
    shown = [name for name in names if any(record.finals(name) for record in grid)]
    if not shown or (path == "optim.lr" and len(values[path]) < _RATES):
        return None
    first, groups = zip(*_groups(grid, path), strict=True)
    called, drawn = labels(first), lines(first)
    figure = blank(3.4 + 0.2 * legend_rows(called), width=min(11.0, 2.0 + 5.0 * len(shown)))
    for panel, name in enumerate(shown):
        axes = figure.add_subplot(1, len(shown), panel + 1)
        for group, label, line in zip(groups, called, drawn, strict=True):
            _draw(axes, group, name, path, label=label, **line)
        axes.set(xlabel=path, ylabel=metric(name).title)
        if min(values[path]) > 0 and max(values[path]) >= _WIDE * min(values[path]):
            axes.set_xscale("log")
        log_where_positive(axes, name)
    legend_below(figure)
    n = "–".join(str(n) for n in sorted({len(record.members) for record in grid}))
    caption = f"Where runs ended: the median of {n} at each value, with the band from 16 % to 84 % of them"
    gone = any(record.diverged for record in grid)
    caption += "; crosses: a member diverged, and counts at its last good state." if gone else "."
    return Drawing(f"Sweep of {path}{of}", caption, figure, grid)


def _groups(grid: Sequence[Record], path: str) -> list[tuple[Record, list[Record]]]:
    """The records of each line, behind one that stands for it: what else was swept is a setting of its variant."""
    found: dict[tuple[Any, ...], list[Record]] = {}
    for record in sorted(grid, key=lambda record: record.setting[path]):
        others = "".join(f"+{other}={value:g}" for other, value in record.setting.items() if other != path)
        found.setdefault((record.parametrization, record.swept + others, record.tuned), []).append(record)
    return [(replace(group[0], variant=variant), group) for (_, variant, _), group in found.items()]


def _draw(axes: "matplotlib.axes.Axes", group: Sequence[Record], name: str, path: str, **line: Any) -> None:
    ended = [(record, list(record.finals(name).values())) for record in group if record.finals(name)]
    x = np.array([record.setting[path] for record, _ in ended])
    median, low, high = np.array([np.quantile(values, QUANTILES) for _, values in ended]).T
    axes.plot(x, median, marker="o", markersize=4, **line)
    axes.fill_between(x, low, high, color=line["color"], alpha=0.18, linewidth=0)
    gone = np.array([bool(record.diverged) for record, _ in ended])
    axes.plot(x[gone], median[gone], "x", color="black", markersize=8, mew=1.8, zorder=5)
