"""The lid-driven cavity: speed, its error and the centreline, of the four parametrizations beside the reference."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from rwf.precision import computing
from rwf.report.figures.drawing import Drawing
from rwf.report.figures.shown import seed_of
from rwf.report.figures.style import INK, blank, colour
from rwf.report.names import PARAMETRIZATIONS, VARIANTS
from rwf.report.records import Record
from rwf.tree import materialize

if TYPE_CHECKING:
    import matplotlib.axes

_SPEEDS, _ERRORS = "viridis", "magma"


class _Flow(NamedTuple):
    """The flow of a record's first member on the grid, and the reference's, indexed [x, y]."""

    record: Record
    u: Float[np.ndarray, "nx ny"]
    speed: Float[np.ndarray, "nx ny"]
    target: Float[np.ndarray, "nx ny"]


def mlp(records: Sequence[Record]) -> Drawing | None:
    """The paper's figure of the MLP."""
    return _solutions(records, "mlp")


def modified_mlp(records: Sequence[Record]) -> Drawing | None:
    """The paper's figure of the modified MLP."""
    return _solutions(records, "modified-mlp")


def under_soap(records: Sequence[Record]) -> Drawing | None:
    """The same of the modified MLP under SOAP."""
    return _solutions(records, "cavity")


def ours(records: Sequence[Record]) -> Drawing | None:
    """The same for the setting that solves it."""
    return _solutions(records, "ours")


def best_beyond(records: Sequence[Record]) -> Drawing | None:
    """The same for the best of the other settings that are not the paper's."""
    known = (*VARIANTS, "ours")
    others = [r for r in records if r.variant.partition("+")[0] not in known and not r.setting and not r.tuned]
    reached = {r.variant: min(r.finals("rel_l2").values()) for r in reversed(others) if r.finals("rel_l2")}
    return _solutions(records, min(reached, key=reached.__getitem__)) if reached else None


def _solutions(records: Sequence[Record], variant: str) -> Drawing | None:
    """It needs the weights, so run folders and not results files."""
    found = {r.parametrization: r for r in records if r.variant == variant and not r.tuned and not r.setting}
    read = [_read(found[name]) for name in PARAMETRIZATIONS if name in found]
    flows = [flow for flow in read if flow is not None]
    if not flows:
        return None
    figure = blank(4.9)
    grid = figure.subplots(2, len(flows) + 1, squeeze=False)
    worst = max(float(np.quantile(np.abs(f.speed - f.target), 0.99)) for f in flows)
    speeds = _map(grid[0, 0], flows[0].target, _SPEEDS, 1.0)
    grid[0, 0].set_title("reference")
    errors: Any = None
    for above, below, flow in zip(grid[0, 1:], grid[1, 1:], flows, strict=True):
        _map(above, flow.speed, _SPEEDS, 1.0)
        errors = _map(below, np.abs(flow.speed - flow.target), _ERRORS, worst)
        above.set_title(PARAMETRIZATIONS[flow.record.parametrization], color=colour(flow.record))
        error = float(np.linalg.norm(flow.speed - flow.target) / np.linalg.norm(flow.target))
        below.set_title(f"error {100 * error:.{2 if error < 0.1 else 1}f} %", fontsize=10)
    figure.colorbar(speeds, ax=grid[0], shrink=0.9, label="speed")
    figure.colorbar(errors, ax=grid[1], shrink=0.9, label="error of the speed")
    _draw_centreline(grid[1, 0], flows)
    mine = [flow.record for flow in flows]
    caption = (
        f"The speed of the flow, {seed_of(mine)} of each, and how far it is from the reference. Bottom left: u along "
        "the vertical centreline, in the colours of the names, the reference of our own solver dashed. The error below "
        "each name is that of the whole grid."
    )
    return Drawing(f"Solutions ({variant})", caption, figure, mine)


def _read(record: Record) -> _Flow | None:
    """The flow of the first member; None where the weights are not there."""
    if not record.at_hand:
        return None
    member, run = record.at_hand[0]
    if not (run.folder / "weights.safetensors").exists():
        return None
    task = run.task(member.index)
    counts = task.pde.problem.counts
    with computing(run.job.recipe.precision):
        u, v = (np.asarray(values).reshape(counts) for values in task.velocity(materialize(run.net(member.index))))
    return _Flow(record, u, np.hypot(u, v), np.asarray(task.speed).reshape(counts))


def _map(axes: "matplotlib.axes.Axes", values: Float[np.ndarray, "nx ny"], colours: str, top: float) -> Any:
    axes.set(xticks=[0, 1], yticks=[0, 1])
    axes.set_xlabel("x", labelpad=-8)
    axes.set_ylabel("y", labelpad=-6)
    axes.grid(visible=False)
    return axes.imshow(values.T, origin="lower", extent=(0, 1, 0, 1), cmap=colours, vmin=0, vmax=top)


def _draw_centreline(axes: "matplotlib.axes.Axes", flows: Sequence[_Flow]) -> None:
    from rwf.solvers.cavity import reference

    for flow in flows:
        middle = flow.u.shape[0] // 2
        line = 0.5 * (flow.u[middle - 1] + flow.u[middle])  # the grid has an even number of points: x = 1/2 is between
        axes.plot(line, np.linspace(0, 1, len(line)), color=colour(flow.record), linewidth=1.4)
    job = flows[0].record.parts[0].info["recipe"]["task"]
    y = np.linspace(0, 1, 101)
    axes.plot(reference(job["reynolds"]).velocity(np.array([0.5]), y)[0][0], y, "--", color=INK, linewidth=1.2)
    axes.set(xlabel="u(1/2, y)", ylabel="y", ylim=(0, 1))
