"""What happened during training: loss, metrics and weight change."""

from collections.abc import Sequence

from rwf.report.figures.drawing import Drawing
from rwf.report.figures.style import blank, colour, draw_band, label, log_where_positive
from rwf.report.names import metric
from rwf.report.records import Record

_LINES = ("-", "--", ":", "-.")


def training(records: Sequence[Record], names: Sequence[str], title: str) -> Drawing | None:
    """Loss, some metrics and the weight change over training: medians, with bands over seeds."""
    asked = dict.fromkeys(("loss", *names, "weight_change"))
    panels = [name for name in asked if any(name in record.curves.values for record in records)]
    if not panels:
        return None
    figure = blank(3.3)
    for panel, name in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), panel + 1)
        used: dict[str, int] = {}
        for record in records:
            # Records of one parametrization share its colour: their lines tell them apart.
            count = used[record.parametrization] = used.get(record.parametrization, -1) + 1
            line = {"color": colour(record), "linestyle": _LINES[count % len(_LINES)], "label": label(record)}
            draw_band(axes, record.curves.band(name), **line)
        log_where_positive(axes, name)
        axes.set(xlabel="step", title=metric(name).title[:1].upper() + metric(name).title[1:])
        axes.margins(x=0)
        if panel == 0:
            axes.legend()
    return Drawing(title, "Median over seeds, with the band from 16 % to 84 % of them.", figure)
