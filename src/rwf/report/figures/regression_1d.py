"""The paper's figure of 1D regression: predictions, loss, weight change and tangent kernels of the four."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from jaxtyping import Float

from rwf.precision import computing
from rwf.record import Run
from rwf.report.figures.drawing import Drawing
from rwf.report.figures.shown import one_seed
from rwf.report.figures.style import FAINT, blank, colour, draw_band, labels, log_where_positive, step_axis
from rwf.report.names import PARAMETRIZATIONS
from rwf.report.records import Record
from rwf.tree import materialize

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

_NETS = 3  # members whose prediction is drawn and whose kernel is computed, the first of them boldly


class _Trained(NamedTuple):
    """The first members of a record, read from its run folders: their nets, what they predict; of the first its data.

    The target is None where what this machine makes of the recipe is not what the run was trained on.
    """

    record: Record
    seed: int
    nets: list[Any]
    predictions: list[Float[np.ndarray, "points 1"]]
    x: Float[np.ndarray, "points 1"]
    y: Float[np.ndarray, "points 1"] | None


def comparison(records: Sequence[Record]) -> Drawing | None:
    """The paper's figure at its own setting; it needs the weights, so run folders and not results files."""
    found = {r.parametrization: r for r in records if r.variant == "none" and not r.tuned}
    shown = [_read(found[name]) for name in PARAMETRIZATIONS if name in found]
    shown = [trained for trained in shown if trained is not None]
    if not shown:
        return None
    figure = blank(6.6)
    above, below = cast("Any", figure.subfigures(2, 1, height_ratios=[1, 1.2]))
    _draw_predictions(above, shown)
    _draw_training(below, shown)
    mine, seed = [trained.record for trained in shown], one_seed(trained.seed for trained in shown)
    caption = (
        f"Top: the target (grey) and the prediction of {seed}; up to {_NETS - 1} others are faint. "
        "Bottom: training loss; relative change of the weights in the original parameter space (median and "
        "16–84 % band over seeds); eigenvalues of the empirical neural tangent kernel at the end, largest "
        "first, solid in the trained parameters, as in the paper, and dashed in W, where the four can be "
        f"compared (median over seeds, {min(len(trained.nets) for trained in shown)} of them)."
    )
    if any(trained.y is None for trained in shown):
        caption += " The target is not drawn where this machine makes other data than the run was trained on."
    return Drawing("Plain, AA, WN and RWF", caption, figure, mine)


def _read(record: Record) -> _Trained | None:
    """Reads a record's first members that share their signal; None where the weights are not there."""
    found = [(run, member) for member, run in record.at_hand if _has_weights(run)]
    found = [(run, member) for run, member in found if member.signal == found[0][1].signal][:_NETS]
    if not found:
        return None
    task = found[0][0].task(found[0][1].index)
    nets = [run.net(member.index) for run, member in found]
    with computing(found[0][0].job.recipe.precision):
        error, recorded = float(task.metrics(materialize(nets[0]))["rel_l2"]), found[0][1].final.get("rel_l2")
        predictions = [np.asarray(materialize(net)(task.x)) for net in nets]
    same = recorded is not None and abs(error - recorded) <= 0.02 + 0.1 * recorded
    y = np.asarray(task.y) if same else None
    return _Trained(record, found[0][1].seed, nets, predictions, np.asarray(task.x), y)


def _has_weights(run: Run) -> bool:
    """Folders may be copied without their weights, which are most of their size."""
    return (run.folder / "weights.safetensors").exists()


def _draw_predictions(figure: "matplotlib.figure.SubFigure", shown: Sequence[_Trained]) -> None:
    first = None
    for i, (record, _, _, predictions, x, y) in enumerate(shown):
        first = axes = figure.add_subplot(1, len(shown), i + 1, sharey=first)
        if y is not None:
            axes.plot(x[:, 0], y[:, 0], color="#AAAAAA", linewidth=3)
        for j, prediction in reversed(list(enumerate(predictions))):
            width, alpha = (0.8, 0.3) if j else (1.4, 1.0)
            axes.plot(x[:, 0], prediction[:, 0], color=colour(record), linewidth=width, alpha=alpha)
        axes.set(title=PARAMETRIZATIONS[record.parametrization], xlabel="x")
        axes.tick_params(labelleft=i == 0)
        axes.margins(x=0.01)


def _draw_training(figure: "matplotlib.figure.SubFigure", shown: Sequence[_Trained]) -> None:
    loss, change, kernel = (figure.add_subplot(1, 3, i + 1) for i in range(3))
    for trained, called in zip(shown, labels([trained.record for trained in shown]), strict=True):
        curves, line = trained.record.curves, {"color": colour(trained.record), "label": called}
        draw_band(loss, curves.band("loss"), **line)
        draw_band(change, curves.band("weight_change"), **line)
        _draw_spectra(kernel, trained)
    for axes, name in ((loss, "loss"), (change, "weight_change")):
        log_where_positive(axes, name)
        step_axis(axes)
    loss.set_title("Mean square error")
    change.set_title("Relative change of W")
    loss.legend()
    kernel.set(xlabel="index", title="Eigenvalues of the kernel", yscale="log")
    kernel.plot([], [], color=FAINT, label="trained parameters")
    kernel.plot([], [], color=FAINT, linestyle="--", label="W")
    kernel.legend()


def _draw_spectra(axes: "matplotlib.axes.Axes", trained: _Trained) -> None:
    from rwf.analyze import eigenvalues, ntk

    # What Plain trains is W: its two kernels are one.
    spaces = {"trained": "-"} if trained.record.parametrization == "plain" else {"trained": "-", "weights": "--"}
    for space, line in spaces.items():
        spectra = [eigenvalues(ntk(net, trained.x, space=space)) for net in trained.nets]
        spectrum = np.median(spectra, axis=0)
        seen = spectrum > 1e-14 * spectrum[0]  # what is smaller is the rounding of float32 gradients
        index = np.arange(1, len(spectrum) + 1)
        axes.plot(index[seen], spectrum[seen], line, color=colour(trained.record), linewidth=1.5)
