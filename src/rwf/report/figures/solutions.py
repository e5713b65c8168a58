"""The paper's figures of PDEs in one space and time: solutions and error maps."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from jaxtyping import Float

from rwf.pde import PDETask
from rwf.report.figures.drawing import Drawing
from rwf.report.figures.style import blank
from rwf.report.names import PARAMETRIZATIONS
from rwf.report.records import Record
from rwf.tree import materialize

if TYPE_CHECKING:
    import matplotlib.figure


class _Solved(NamedTuple):
    """The first member of a record: what it found on the grid of test points, and what is exact, of one unknown."""

    record: Record
    task: PDETask
    unknown: str
    found: Float[np.ndarray, "first second"]
    exact: Float[np.ndarray, "first second"] | None


def solutions(records: Sequence[Record], variant: str | None = None) -> Drawing | None:
    """The figure of one way of training, or of the first there is; None without weights, or where it is no such PDE."""
    variant = variant or next((r.variant for r in records), "")
    found = {r.parametrization: r for r in records if r.variant == variant and not r.tuned}
    shown = [solved for name in PARAMETRIZATIONS if name in found and (solved := _read(found[name])) is not None]
    if not shown:
        return None
    figure = blank(4.6 if shown[0].exact is not None else 2.6)
    _draw_maps(figure, shown)
    caption = "Top: the exact solution, and what the first seed of each found. Below: the error, one scale for all."
    if shown[0].exact is None:
        caption = "What the first seed of each found."
    return Drawing(f"Solutions ({variant})", caption, figure)


def _read(record: Record) -> _Solved | None:
    """Reads the first member of a record of a PDE in two coordinates."""
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
    if not isinstance(task, PDETask) or task.inputs != 2 or not task.problem.is_as_it_was:
        return None
    column = task.compared[0] if task.compared else 0  # the unknown whose exact solution comes first
    found = np.asarray(task.solution(materialize(run.net(member.index))))[..., column]
    exact = None if task.target is None else np.asarray(task.target)[:, 0].reshape(task.problem.counts)
    return _Solved(record, task, task.problem.unknowns[column], found, exact)


def _draw_maps(figure: "matplotlib.figure.Figure", shown: Sequence[_Solved]) -> None:
    first = shown[0]
    exact, names = first.exact, first.task.problem.domain.names
    maps = {PARAMETRIZATIONS[s.record.parametrization]: s.found for s in shown}
    rows = 1 if exact is None else 2
    if exact is not None:
        maps = {"exact": exact, **maps}
    grid = cast("Any", figure.subplots(rows, len(maps), squeeze=False, sharex=True, sharey=True))
    reference = [exact] if exact is not None else list(maps.values())
    limits = {"vmin": float(np.min(reference)), "vmax": float(np.max(reference))}
    errors = {} if exact is None else {name: np.abs(found - exact) for name, found in maps.items() if name != "exact"}
    largest = max((float(error.max()) for error in errors.values()), default=1.0)
    (low_x, high_x, _), (low_t, high_t, _) = first.task.problem.domain.intervals
    style = {"origin": "lower", "aspect": "auto", "extent": (low_t, high_t, low_x, high_x), "interpolation": "nearest"}
    for column, (name, values) in enumerate(maps.items()):
        grid[0, column].imshow(values, cmap="RdBu_r", **limits, **style)
        grid[0, column].set_title(name)
        if name in errors:
            grid[1, column].imshow(errors[name], cmap="magma", vmin=0, vmax=largest, **style)
            grid[1, column].set_title(f"error, at most {errors[name].max():.2g}", fontsize=10)
        elif rows == 2:  # below the exact solution there is no error, and so no axis that it could share
            grid[1, column].set_visible(False)
            grid[0, column].tick_params(labelbottom=True)
            grid[0, column].set_xlabel(names[1])
        for row in range(rows):
            grid[row, column].grid(visible=False)
        grid[rows - 1, column].set_xlabel(names[1])
    for row, name in zip(range(rows), (first.unknown, "absolute error"), strict=False):
        figure.colorbar(grid[row, -1].get_images()[0], ax=list(grid[row]), shrink=0.9, label=name)
    if errors:
        grid[1, 1].set_ylabel(names[0])
        grid[1, 1].tick_params(labelleft=True)
    grid[0, 0].set_ylabel(names[0])
