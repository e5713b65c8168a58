"""Figures of PDEs in two coordinates, solutions and error maps as in the paper, and of ODEs, as lines."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from jaxtyping import Float

from rwf.pde import PDETask
from rwf.precision import computing
from rwf.report.figures.drawing import Drawing
from rwf.report.figures.style import INK, blank, colour, legend_below
from rwf.report.names import PARAMETRIZATIONS
from rwf.report.records import Record
from rwf.tree import materialize

if TYPE_CHECKING:
    import matplotlib.figure

_FLATTEST = 4  # times as long as high: what is longer is not drawn to scale


class _Solved(NamedTuple):
    """The first member of a record: what it found on the grid of test points, and what is exact, by unknown."""

    record: Record
    task: PDETask
    found: dict[str, Float[np.ndarray, "..."]]
    exact: dict[str, Float[np.ndarray, "..."]]


def solutions(records: Sequence[Record], variant: str | None = None) -> Drawing | None:
    """The figure of one way of training, or of the first there is; None without weights, or where it is no such PDE."""
    variant = variant or next((r.variant for r in records), "")
    found = {r.parametrization: r for r in records if r.variant == variant and not r.tuned}
    shown = [solved for name in PARAMETRIZATIONS if name in found and (solved := _read(found[name])) is not None]
    if not shown:
        return None
    lines = shown[0].task.inputs == 1
    figure, exact = _drawn_lines(shown) if lines else _drawn_maps(shown), bool(shown[0].exact)
    caption = "What the first seed of each found."
    if exact:
        caption = "Top: the exact solution, and what the first seed of each found. Below: the error, one scale for all."
        caption = "What the first seed of each found, and the exact solution, dashed." if lines else caption
    return Drawing(f"Solutions ({variant})", caption, figure)


def _read(record: Record) -> _Solved | None:
    """Reads the first member of a record of a differential equation in one or two coordinates."""
    member = record.members[0]
    run = record.parts[member.part].run
    if run is None or "curriculum" not in run.info["recipe"]["task"]:
        return None
    if not (run.folder / "weights.safetensors").exists():
        return None
    try:
        task = run.task(member.index)
    except ValueError:  # a person's own problem, whose file this process has not read
        return None
    if not isinstance(task, PDETask) or task.inputs > 2 or not task.problem.is_as_it_was:
        return None
    unknowns, counts = task.problem.unknowns, task.problem.counts
    with computing(run.job.recipe.precision):
        values = np.asarray(task.solution(materialize(run.net(member.index))))
    found = {name: values[..., i] for i, name in enumerate(unknowns)}
    target = np.zeros((0, 0)) if task.target is None else np.asarray(task.target)
    exact = {unknowns[i]: target[:, j].reshape(counts) for j, i in enumerate(task.compared)}
    return _Solved(record, task, found, exact)


def _drawn_lines(shown: Sequence[_Solved]) -> "matplotlib.figure.Figure":
    """The solutions of an ODE, a panel an unknown."""
    task, unknowns = shown[0].task, list(shown[0].found)
    columns = min(3, len(unknowns))
    rows = -(-len(unknowns) // columns)
    figure = blank(0.4 + 2.9 * rows, width=min(11.0, 3.0 + 4.0 * columns))
    along = np.asarray(task.test)[:, 0]
    for i, unknown in enumerate(unknowns):
        axes = figure.add_subplot(rows, columns, i + 1)
        for solved in shown:
            name = PARAMETRIZATIONS[solved.record.parametrization]
            axes.plot(along, solved.found[unknown], color=colour(solved.record), label=name)
        if unknown in shown[0].exact:
            axes.plot(along, shown[0].exact[unknown], "--", color=INK, linewidth=1.2, label="exact")
        axes.set(xlabel=task.problem.domain.names[0], ylabel=unknown)
        axes.margins(x=0)
    legend_below(figure)
    return figure


def _drawn_maps(shown: Sequence[_Solved]) -> "matplotlib.figure.Figure":
    """The unknown whose exact solution comes first, or the first; time is horizontal, or else the first coordinate."""
    first = shown[0]
    unknown = next(iter(first.exact), first.task.problem.unknowns[0])
    exact = first.exact.get(unknown)
    maps = {PARAMETRIZATIONS[s.record.parametrization]: s.found[unknown] for s in shown}
    rows = 1 if exact is None else 2
    if exact is not None:
        maps = {"exact": exact, **maps}
    domain = first.task.problem.domain
    axes, timed = list(domain.axes), "t" in domain.names
    if timed:
        axes.reverse()
    else:
        maps, exact = {name: values.T for name, values in maps.items()}, None if exact is None else exact.T
    (across, x), (up, y) = axes
    ratio = float((y.high - y.low) / (x.high - x.low))
    scaled = not timed and 1 / _FLATTEST <= ratio <= _FLATTEST
    style: dict[str, Any] = {"origin": "lower", "interpolation": "nearest", "aspect": "equal" if scaled else "auto"}
    style["extent"] = (x.low, x.high, y.low, y.high)
    figure = blank(rows * (0.8 + (min(2.3, 8.4 / len(maps) * ratio) if scaled else 1.5)))
    grid = cast("Any", figure.subplots(rows, len(maps), squeeze=False, sharex=True, sharey=True))
    colours = _colours([exact] if exact is not None else list(maps.values()))
    errors = {} if exact is None else {name: np.abs(found - exact) for name, found in maps.items() if name != "exact"}
    largest = max((float(error.max()) for error in errors.values()), default=1.0)
    for column, (name, values) in enumerate(maps.items()):
        grid[0, column].imshow(values, **colours, **style)
        grid[0, column].set_title(name)
        if name in errors:
            grid[1, column].imshow(errors[name], cmap="magma", vmin=0, vmax=largest, **style)
            grid[1, column].set_title(f"error, at most {errors[name].max():.2g}", fontsize=10)
        elif rows == 2:  # below the exact solution there is no error, and so no axis that it could share
            grid[1, column].set_visible(False)
            grid[0, column].tick_params(labelbottom=True)
            grid[0, column].set_xlabel(across)
        for row in range(rows):
            grid[row, column].grid(visible=False)
        grid[rows - 1, column].set_xlabel(across)
    for row, name in zip(range(rows), (unknown, "absolute error"), strict=False):
        figure.colorbar(grid[row, -1].get_images()[0], ax=list(grid[row]), shrink=0.9, label=name)
    if errors:
        grid[1, 1].set_ylabel(up)
        grid[1, 1].tick_params(labelleft=True)
    grid[0, 0].set_ylabel(up)
    return figure


def _colours(values: Sequence[Float[np.ndarray, "..."]]) -> dict[str, Any]:
    """A scale from low to high; where values change their sign, one that is white at zero."""
    low, high = min(float(v.min()) for v in values), max(float(v.max()) for v in values)
    if min(-low, high) > 0.05 * max(-low, high):
        top = max(-low, high)
        return {"cmap": "RdBu_r", "vmin": -top, "vmax": top}
    return {"cmap": "viridis", "vmin": low, "vmax": high}
