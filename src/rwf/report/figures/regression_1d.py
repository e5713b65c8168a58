"""The paper's figure of 1D regression: predictions, loss, weight change and tangent kernels of the four."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from rwf.report.figures.drawing import Drawing
from rwf.report.figures.style import FAINT, blank, colour, draw_band, label, log_where_positive
from rwf.report.names import PARAMETRIZATIONS
from rwf.report.records import Member, Record

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

_PREDICTIONS = 4  # members that are drawn, the first of them boldly
_KERNELS = 3  # members whose tangent kernel is computed


def comparison(records: Sequence[Record]) -> Drawing | None:
    """The paper's figure at its own setting; it needs the weights, so run folders and not results files."""
    found = {r.parametrization: r for r in records if r.variant == "none" and not r.tuned and _at_hand(r)}
    shown = [found[name] for name in PARAMETRIZATIONS if name in found]
    if not shown:
        return None
    figure = blank(6.6)
    above, below = cast("Any", figure.subfigures(2, 1, height_ratios=[1, 1.2]))
    _draw_predictions(above, shown)
    _draw_training(below, shown)
    kernels = min(_KERNELS, *(len(_at_hand(record)) for record in shown))
    caption = (
        f"Top: the target (grey) and the prediction of the first seed; up to {_PREDICTIONS - 1} others are "
        "faint. Bottom: training loss; relative change of the weights in the original parameter space "
        "(median and 16–84 % band over seeds); eigenvalues of the empirical neural tangent kernel at the end "
        "of training, largest first, solid in the parameters that are trained, as in the paper, and dashed in "
        f"W, where the four can be compared (median over seeds, {kernels} of them)."
    )
    return Drawing("Plain, AA, WN and RWF", caption, figure)


def _draw_predictions(figure: "matplotlib.figure.SubFigure", records: Sequence[Record]) -> None:
    first = None
    for i, record in enumerate(records):
        first = axes = figure.add_subplot(1, len(records), i + 1, sharey=first)
        _draw_prediction(axes, record)
        axes.set(title=PARAMETRIZATIONS[record.parametrization], xlabel="x")
        axes.tick_params(labelleft=i == 0)
        axes.margins(x=0.01)


def _draw_prediction(axes: "matplotlib.axes.Axes", record: Record) -> None:
    from rwf.tree import materialize

    members = _at_hand(record)
    x, y = (np.asarray(values) for values in _points(record, members[0]))
    axes.plot(x[:, 0], y[:, 0], color="#AAAAAA", linewidth=3)
    shown = [member for member in members if member.signal == members[0].signal][:_PREDICTIONS]
    for member in reversed(shown):
        bold = member is shown[0]
        prediction = np.asarray(materialize(_net(record, member))(x))[:, 0]
        axes.plot(
            x[:, 0],
            prediction,
            color=colour(record),
            linewidth=1.4 if bold else 0.8,
            alpha=1 if bold else 0.3,
        )


def _draw_training(figure: "matplotlib.figure.SubFigure", records: Sequence[Record]) -> None:
    loss, change, kernel = (figure.add_subplot(1, 3, i + 1) for i in range(3))
    for record in records:
        line = {"color": colour(record), "label": label(record)}
        draw_band(loss, record.curves.band("loss"), **line)
        draw_band(change, record.curves.band("weight_change"), **line)
        _draw_spectra(kernel, record)
    for axes, name in ((loss, "loss"), (change, "weight_change")):
        log_where_positive(axes, name)
        axes.set_xlabel("step")
        axes.margins(x=0)
    loss.set_title("Mean square error")
    change.set_title("Relative change of W")
    loss.legend()
    kernel.set(xlabel="index", title="Eigenvalues of the kernel", yscale="log")
    kernel.plot([], [], color=FAINT, label="trained parameters")
    kernel.plot([], [], color=FAINT, linestyle="--", label="W")
    kernel.legend()


def _draw_spectra(axes: "matplotlib.axes.Axes", record: Record) -> None:
    from rwf.analyze import eigenvalues, ntk

    members = _at_hand(record)[:_KERNELS]
    # What Plain trains is W: its two kernels are one.
    for space, line in (("trained", "-"), ("weights", "--"))[: 1 if record.parametrization == "plain" else 2]:
        kernels = [ntk(_net(record, m), np.asarray(_points(record, m)[0]), space=space) for m in members]
        spectrum = np.median([eigenvalues(kernel) for kernel in kernels], axis=0)
        seen = spectrum > 1e-14 * spectrum[0]  # what is smaller is the rounding of float32 gradients
        index = np.arange(1, len(spectrum) + 1)
        axes.plot(index[seen], spectrum[seen], line, color=colour(record), linewidth=1.5)


def _at_hand(record: Record) -> list[Member]:
    """The members whose weights are there."""
    return [member for member in record.members if record.parts[member.part].run is not None]


def _net(record: Record, member: Member) -> Any:
    run = record.parts[member.part].run
    assert run is not None
    return run.net(member.index)


def _points(record: Record, member: Member) -> tuple[Any, Any]:
    run = record.parts[member.part].run
    assert run is not None
    task = run.task(member.index)
    return task.x, task.y
