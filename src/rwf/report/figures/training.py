"""What happened during training: loss, metrics and weight change."""

from collections.abc import Sequence

from rwf.report.figures.drawing import Drawing
from rwf.report.figures.style import OTHERS, blank, colour, draw_band, label, log_where_positive, step_axis
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
            # The first of a parametrization has its colour; ablations beside it have others.
            count = used[record.parametrization] = used.get(record.parametrization, -1) + 1
            line = {
                "color": ([colour(record), *OTHERS] * len(records))[count],
                "linestyle": _LINES[count % 4],
            }
            draw_band(axes, record.curves.band(name), label=label(record), **line)
        log_where_positive(axes, name)
        step_axis(axes)
        axes.set_title(metric(name).title[:1].upper() + metric(name).title[1:])
        if panel == 0:
            axes.legend()
    return Drawing(title, "Median over seeds, with the band from 16 % to 84 % of them.", figure)
