"""The paper's ablation: RWF's final error over the mean of log s, a line for each of its spreads."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rwf.report.figures.drawing import Drawing
from rwf.report.figures.style import blank, log_where_positive, shade
from rwf.report.names import metric
from rwf.report.records import Record

if TYPE_CHECKING:
    import matplotlib.axes


def ablation(records: Sequence[Record], name: str = "rel_l2") -> Drawing | None:
    """The final metric of a grid of `rwf.mean` and `rwf.stddev`, with Plain as a dashed line."""
    swept = [r for r in records if set(r.setting) == {"rwf.mean", "rwf.stddev"} and r.finals(name)]
    swept = [r for r in swept if r.parametrization == "rwf" and not r.tuned]
    if not swept:
        return None
    shown = min(("+" in r.swept, r.quick, r.swept) for r in swept)[-1]  # the recipe's own first
    grid = [r for r in swept if r.swept == shown]
    figure = blank(4.4, width=8.0)
    axes = figure.add_subplot()
    same = [r for r in records if r.variant == grid[0].swept and not r.tuned and r.finals(name)]
    plain = [r for r in same if r.parametrization == "plain"]
    told = len({len(record.finals(name)) for record in (*grid, *plain[:1])}) > 1
    spreads = sorted({record.setting["rwf.stddev"] for record in grid})
    for i, spread in enumerate(spreads):
        line = [record for record in grid if record.setting["rwf.stddev"] == spread]
        _draw_line(axes, line, name, i, len(spreads), told)
    if plain:
        mean = float(np.mean(list(plain[0].finals(name).values())))
        label = f"Plain{_number(plain[:1], name) if told else ''}"
        axes.axhline(mean, color="black", linestyle="--", linewidth=1.4, label=label)
    if any(record.diverged for record in grid):
        axes.plot([], [], "x", color="black", markersize=8, mew=1.8, label="a seed diverged")
    axes.set(xlabel="μ, the mean of log s", ylabel=metric(name).title)
    log_where_positive(axes, name)
    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda i: not labels[i].startswith("σ"))
    axes.legend([handles[i] for i in order], [labels[i] for i in order], loc="center left", bbox_to_anchor=(1, 0.5))
    seeds = "–".join(str(n) for n in sorted({len(record.members) for record in grid}))
    caption = (
        f"RWF with log s drawn from N(μ, σ): mean of the final values of {seeds} seeds, with one standard "
        "deviation of their logarithms. A member that diverged counts at its last good state."
    )
    return Drawing("Ablation of μ and σ", caption, figure, [*grid, *plain[:1]])


def _number(records: Sequence[Record], name: str) -> str:
    """How many runs each of some records has."""
    return f" (n = {'–'.join(str(n) for n in sorted({len(record.finals(name)) for record in records}))})"


def _draw_line(
    axes: "matplotlib.axes.Axes", line: Sequence[Record], name: str, index: int, count: int, told: bool
) -> None:
    line = sorted(line, key=lambda record: record.setting["rwf.mean"])
    values = [np.array(list(record.finals(name).values())) for record in line]
    # Side by side, or the bars of one spread would hide those of the next.
    x = np.array([record.setting["rwf.mean"] for record in line]) + 0.03 * (index - (count - 1) / 2)
    mean = np.array([v.mean() for v in values])
    factor = np.array([np.exp(np.std(np.log(v), ddof=1)) if len(v) > 1 else 1.0 for v in values])
    bars = np.stack([mean - mean / factor, mean * factor - mean])
    label = f"σ = {line[0].setting['rwf.stddev']:g}{_number(line, name) if told else ''}"
    colour = shade("rwf", index, count)
    axes.errorbar(x, mean, bars, color=colour, marker="o", markersize=5, capsize=2.5, elinewidth=1.1, label=label)
    gone = np.array([bool(record.diverged) for record in line])
    axes.plot(x[gone], mean[gone], "x", color="black", markersize=8, mew=1.8, zorder=5)
