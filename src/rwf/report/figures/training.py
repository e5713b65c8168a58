"""What happened during training: loss, metrics and weight change."""

from collections.abc import Sequence

from rwf.report.curves import Band
from rwf.report.figures.drawing import Drawing
from rwf.report.figures.style import (
    FAINT,
    blank,
    colour,
    draw_band,
    labels,
    legend_below,
    legend_rows,
    lines,
    log_where_positive,
    step_axis,
)
from rwf.report.names import metric
from rwf.report.paper import paper_value
from rwf.report.reaching import METRIC, PERCENT
from rwf.report.records import Record


def training(records: Sequence[Record], names: Sequence[str], title: str) -> Drawing | None:
    """Loss, some metrics and the weight change over training: medians, with bands over runs, and the paper's end."""
    asked = dict.fromkeys(("loss", *names, "weight_change"))
    panels = [name for name in asked if any(name in record.curves.values for record in records)]
    if not panels:
        return None
    names_of = labels(records)
    figure = blank(3.4 + 0.2 * legend_rows(names_of))
    caption = "Median over the runs of a line, with the band from 16 % to 84 % of them"
    papers = percents = False
    drawn = lines(records)
    for panel, name in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), panel + 1)
        for record, called, line in zip(records, names_of, drawn, strict=True):
            draw_band(axes, _band(record, name), label=called, **line)
            if (paper := _paper(record, name)) is not None:
                papers = True
                axes.plot(record.curves.step[-1], paper, "x", color=colour(record), clip_on=False, mew=1.8)
        if name == METRIC and any(f"steps_to_{PERCENT[0]}_percent" in record.metrics for record in records):
            percents = True
            for percent in PERCENT:
                axes.axhline(percent / 100, color=FAINT, linewidth=0.8, linestyle="--")
                place = {"xycoords": ("axes fraction", "data"), "ha": "right", "va": "bottom"}
                axes.annotate(f"{percent} %", (1, percent / 100), color=FAINT, fontsize=8, **place)
        log_where_positive(axes, name)
        # A logarithmic axis has no power of ten above it: its title need not be moved, nor all ticks measured for that.
        axes.set_title(_words(name), y=1.0 if axes.get_yscale() == "log" else None)
        step_axis(axes)
    if papers:
        figure.axes[0].plot([], [], "x", color=FAINT, mew=1.8, label="the paper's final value")
    legend_below(figure)
    caption += f"; dashed: {' % and '.join(map(str, PERCENT))} %" if percents else ""
    caption += "; crosses: the paper's final values" if papers else ""
    return Drawing(title, f"{caption}.", figure)


def _words(name: str) -> str:
    words = metric(name).title
    return f"1 − {words}" if metric(name).near_one else words[:1].upper() + words[1:]


def _band(record: Record, name: str) -> Band | None:
    """What is drawn of a metric: itself, or what it lacks to one."""
    band = record.curves.band(name)
    if band is None or not metric(name).near_one:
        return band
    return Band(band.step, 1 - band.median, 1 - band.high, 1 - band.low)


def _paper(record: Record, name: str) -> float | None:
    """What the paper reached; a quick run ends elsewhere, and is another problem often."""
    if record.quick or record.tuned or record.stand_in:
        return None
    paper = paper_value(record.case, record.variant, record.parametrization, name)
    return 1 - paper if paper is not None and metric(name).near_one else paper
