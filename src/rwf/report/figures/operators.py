"""The paper's figures of operators: input, truth, prediction and errors of some test functions, and of all of them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float

from rwf.precision import computing
from rwf.report.figures.drawing import Drawing
from rwf.report.figures.shown import said, seed_of, settings
from rwf.report.figures.style import COLOURS, INK, blank, log_where_positive
from rwf.report.names import PARAMETRIZATIONS
from rwf.report.records import Record
from rwf.signals.scaling import Scaling
from rwf.tree import materialize

if TYPE_CHECKING:
    import matplotlib.axes

_ACROSS = ("x", "y[0]")  # axes that are drawn from left to right, whichever comes first
_FEW = 10  # sensors: they are marked one by one
_QUANTILES = {"median": 0.5, "90 %": 0.9, "worst": 1.0}  # which test functions are shown, by RWF's error


class _Tested(NamedTuple):
    """What the first members of one setting make of the test functions, in the units of the data."""

    variant: str
    records: list[Record]
    holdout: Any
    scaling: Scaling
    inputs: Float[np.ndarray, "functions ..."]
    truth: Float[np.ndarray, "functions points"]
    predictions: dict[str, Float[np.ndarray, "functions points"]]
    errors: dict[str, Float[np.ndarray, " functions"]]


def predictions(records: Sequence[Record]) -> Drawing | None:
    """Three test functions: the input, the truth, a prediction, and the errors of all; needs the weights."""
    tested = _read(records)
    if tested is None or not tested.holdout.grid:
        return None
    shown = list(tested.predictions)[-1]  # RWF, where it was run
    draw, columns, parts = _draw_lines, 3, "true solution and predictions, and the absolute errors"
    if len(tested.holdout.grid) == 2:
        draw, columns = _draw_function, 3 + len(tested.predictions)
        parts = f"true solution, prediction ({PARAMETRIZATIONS[shown]}) on its scale, and the absolute errors, on one "
        parts += "scale a row"
    order = np.argsort(tested.errors[shown])
    functions = {name: int(order[round(q * (len(order) - 1))]) for name, q in _QUANTILES.items()}
    figure = blank(1.9 * len(functions))
    grid: Any = figure.subplots(len(functions), columns, squeeze=False)
    for row, (name, function) in zip(grid, functions.items(), strict=True):
        draw(row, tested, shown, function, name)
    caption = (
        f"Test functions by {PARAMETRIZATIONS[shown]}'s error: the median one, the one at 90 % and the worst. From the "
        f"left: input, {parts}, with the relative L² error; {seed_of(tested.records)} of each."
        f"{said(tested.variant)}"
    )
    return Drawing("Predictions", caption, figure, tested.records)


def spread(records: Sequence[Record]) -> Drawing | None:
    """The relative error of every test function, sorted: a mean alone hides its tail."""
    tested = _read(records)
    if tested is None or len(tested.truth) < 2:  # one function has no tail
        return None
    figure = blank(3.2, width=6.0)
    axes = figure.add_subplot()
    for name, errors in tested.errors.items():
        share = 100 * (np.arange(len(errors)) + 0.5) / len(errors)
        label = f"{PARAMETRIZATIONS[name]}: {100 * errors.mean():.2f} ± {100 * errors.std():.2f} %"
        axes.plot(share, np.sort(errors), color=COLOURS.get(name, INK), label=label)
    axes.set(xlabel="test functions (%)", ylabel="relative L² error")
    log_where_positive(axes, "rel_l2")
    axes.legend()
    caption = "The error of each test function, sorted; mean ± standard deviation over them; "
    caption += f"{seed_of(tested.records)} of each."
    if not tested.holdout.grid:
        caption += " The functions themselves are not drawn: their points are on no line, and no even grid in a plane."
    return Drawing("Error over the test functions", caption + said(tested.variant), figure, tested.records)


def unread(records: Sequence[Record]) -> list[str]:
    """Runs on a person's own data that cannot be read any more, and why: their test functions are not drawn."""
    found = {}
    for run in (part.run for record in records for part in record.parts):
        path = run and run.info["recipe"]["task"].get("path")
        if not run or not path or "sensors" not in run.info["recipe"]["net"]:
            continue
        try:
            run.task(0)
        except (OSError, ValueError) as error:
            found[path] = f"the test functions of {run.folder}: {str(error).partition('. ')[0]}"
    return list(found.values())


def _read(records: Sequence[Record]) -> _Tested | None:
    """The first setting of which there are weights, and test data on this machine."""
    return next((found for found in (_tested(*setting) for setting in settings(records)) if found), None)


def _tested(variant: str, mine: Mapping[str, Record]) -> _Tested | None:
    predicted, errors, seen = {}, {}, None
    for name, record in mine.items():
        if not record.at_hand:
            continue
        member, run = record.at_hand[0]
        if not (run.folder / "weights.safetensors").exists():
            continue
        if "sensors" not in run.info["recipe"]["net"]:
            return None  # it is no operator
        try:
            task = run.task(member.index)
        except (OSError, ValueError):
            return None  # a file of one's own, which is elsewhere now
        holdout, scaling = task.holdout, getattr(task, "scaling", None) or Scaling.none(task.inputs)
        with computing(run.job.recipe.precision):
            found = np.asarray(eqx.filter_jit(holdout.predict)(materialize(run.net(member.index))))
        prediction = scaling.restore(found)
        truth = np.asarray(scaling.restore(np.asarray(holdout.u)))
        seen = holdout, scaling, np.asarray(holdout.a) * scaling.a_size + scaling.a_shift, truth
        error = np.linalg.norm(prediction - truth, axis=1) / np.linalg.norm(truth, axis=1)
        recorded = member.final.get("rel_l2")
        if recorded is None or not abs(error.mean() - recorded) <= 0.002 + 0.05 * recorded:  # nor NaN
            return None  # this machine makes other data than the run was tested on
        predicted[name], errors[name] = prediction, error
    return _Tested(variant, [mine[name] for name in predicted], *seen, predicted, errors) if seen else None


def _percent(error: float) -> str:
    """An error in two digits, or in all before the point.

    >>> _percent(0.0123), _percent(0.997), _percent(1.34)
    ('1.2 %', '100 %', '134 %')
    """
    return f"{100 * error:.2g} %" if error < 0.99 else f"{100 * error:.0f} %"


def _draw_function(row: Any, tested: _Tested, shown: str, function: int, name: str) -> None:
    holdout, truth = tested.holdout, tested.truth[function]
    span = {"vmin": truth.min(), "vmax": truth.max()}
    _draw_input(row[0], tested, function, name)
    _draw_field(row[1], holdout, truth, cmap="viridis", **span)
    row[1].set_title("truth u", fontsize=10)
    field = _draw_field(row[2], holdout, tested.predictions[shown][function], cmap="viridis", **span)
    row[2].set_title(PARAMETRIZATIONS[shown], fontsize=10)
    _draw_bar(row[2], field, "u")
    missed = {key: np.abs(prediction[function] - truth) for key, prediction in tested.predictions.items()}
    top = max(float(np.quantile(error, 0.995)) for error in missed.values())
    images = [
        _draw_field(axes, holdout, error, cmap="magma", vmin=0, vmax=top)
        for axes, error in zip(row[3:], missed.values(), strict=True)
    ]
    for axes, key in zip(row[3:], missed, strict=True):
        axes.set_title(f"{PARAMETRIZATIONS[key]}: {_percent(tested.errors[key][function])}", fontsize=10)
    _draw_bar(row[-1], images[-1], "error")


def _draw_bar(axes: "matplotlib.axes.Axes", image: Any, name: str) -> None:
    bar: Any = axes.figure.colorbar(image, ax=axes, fraction=0.08, pad=0.04)
    bar.ax.set_title(name, fontsize=8, loc="left")
    bar.ax.tick_params(labelsize=8)


def _draw_lines(row: Any, tested: _Tested, shown: str, function: int, name: str) -> None:
    """A function of one coordinate."""
    _draw_input(row[0], tested, function, name)
    y = _places(tested)
    order, truth = np.argsort(y), tested.truth[function]
    for key, prediction in tested.predictions.items():
        color = COLOURS.get(key, INK)
        row[1].plot(y[order], prediction[function][order], color=color, label=PARAMETRIZATIONS[key])
        row[2].plot(y[order], np.abs(prediction[function] - truth)[order], color=color)
    row[1].plot(y[order], truth[order], "--", color=INK, linewidth=1.2, label="truth")
    row[1].legend(fontsize=8)
    missed = (f"{PARAMETRIZATIONS[key]} {_percent(errors[function])}" for key, errors in tested.errors.items())
    for axes, title in zip(row[1:], ("u", f"error: {', '.join(missed)}"), strict=True):
        axes.set_title(title, fontsize=10)
        axes.set_xlabel(tested.holdout.axes[0], fontsize=9, labelpad=1)
        axes.tick_params(labelsize=8)
        axes.margins(x=0)


def _places(tested: _Tested) -> Float[np.ndarray, " points"]:
    """Where the points are along their one coordinate, in the units of the data."""
    shift, size = tested.scaling.y_shift[0], tested.scaling.y_size[0]
    return np.asarray(tested.holdout.y)[:, 0] * size + shift


def _draw_input(axes: "matplotlib.axes.Axes", tested: _Tested, function: int, name: str) -> None:
    a, own = tested.inputs[function], tested.holdout.axes[0].startswith("y[")
    if a.ndim == 2:
        image = axes.imshow(a.T, origin="lower", extent=(0, 1, 0, 1), cmap="cividis", aspect="auto")
        axes.set(xticks=[], yticks=[])
        axes.grid(visible=False)
        _draw_bar(axes, image, "a")
    else:
        at = np.arange(a.size) if own else np.linspace(0, 1, a.size)
        axes.plot(at, a.reshape(-1), "o" if a.size < _FEW else "-", color=INK, linewidth=1.2)
        axes.margins(x=0 if a.size >= _FEW else 0.1)
        if a.size < _FEW:
            axes.set_xticks(at)
    axes.set_ylabel(name)
    axes.set_title("input a", fontsize=10)
    axes.set_xlabel("sensor" if own and a.ndim != 2 else "" if own else "x", fontsize=9, labelpad=1)
    axes.tick_params(labelsize=8)


def _draw_field(axes: "matplotlib.axes.Axes", holdout: Any, values: np.ndarray, **colours: Any) -> Any:
    """A function of two coordinates: the first of the grid's axes upwards, or across where the plane is space."""
    picture, (down, across) = values.reshape(holdout.grid), holdout.axes
    if down in _ACROSS:
        picture, down, across = picture.T, across, down
    image = axes.imshow(picture, origin="lower", extent=(0, 1, 0, 1), aspect="auto", **colours)
    axes.set(xticks=[], yticks=[])
    axes.set_xlabel(across, fontsize=9, labelpad=1)
    axes.set_ylabel(down, fontsize=9, labelpad=1)
    axes.grid(visible=False)
    return image
