"""The figure of section 2.1: a loss of one weight, the same loss over its factors, and how near they lie."""

from typing import TYPE_CHECKING

import numpy as np

from rwf.report.figures.drawing import Drawing
from rwf.report.figures.style import COLOURS, FAINT, INK, blank

if TYPE_CHECKING:
    import matplotlib.axes

    from rwf.analyze import Landscape

# In the order of Landscape.hyperbolas.
_POINTS = {"initial point": INK, "local minimum": COLOURS["plain"], "global minimum": COLOURS["rwf"]}


def figure() -> Drawing:
    """The loss over w, over the plane of s and v, and the distance to the global minimum over s."""
    from rwf.analyze import landscape

    data = landscape()
    drawn = blank(3.9)
    line, plane, distance = (drawn.add_subplot(1, 3, i + 1) for i in range(3))
    _draw_line(line, data)
    _draw_plane(plane, data)
    _draw_distance(distance, data)
    return Drawing("The loss landscape of one weight", _caption(data), drawn)


def _draw_line(axes: "matplotlib.axes.Axes", data: "Landscape") -> None:
    axes.plot(data.weights, data.losses, color=FAINT)
    points = (data.initial, data.local_minimum, data.global_minimum)
    for (name, colour), weight in zip(_POINTS.items(), points, strict=True):
        loss = np.interp(weight, data.weights, data.losses)
        axes.plot(weight, loss, "o", color=colour, markersize=8, label=name)
    axes.set(xlabel="w", ylabel="loss", title="The loss over w")
    axes.legend()


def _draw_plane(axes: "matplotlib.axes.Axes", data: "Landscape") -> None:
    axis, losses = data.plane_axis, data.plane_losses
    # The loss grows as w^4: levels by its logarithm show the wells and do not drown them.
    shown = np.log10(losses - losses.min() + 1e-2)
    dark = 2 * shown.max() - shown.min()  # half of the colours: the curves must stand out
    axes.pcolormesh(axis, axis, shown, cmap="Greys", vmax=dark, shading="gouraud")
    axes.contour(axis, axis, shown, levels=10, colors="white", linewidths=0.6, alpha=0.6, linestyles="solid")
    for colour, branches in zip(_POINTS.values(), data.hyperbolas, strict=True):
        for branch in branches:
            axes.plot(*branch.T, color=colour, linewidth=1.6)
    for path in data.trajectories:
        if path.scale is not None and path.end != "diverged":
            axes.plot(path.scales, path.directions, color=COLOURS["wn"], linewidth=1.3)
            axes.plot(path.scales[0], path.directions[0], "o", color=COLOURS["wn"], markersize=4)
    extent = axis[-1]
    axes.set(xlim=(-extent, extent), ylim=(-extent, extent), xlabel="s", ylabel="v", title="The loss over w = s v")
    axes.grid(visible=False)


def _draw_distance(axes: "matplotlib.axes.Axes", data: "Landscape") -> None:
    axes.plot(data.distance_scales, data.distances, color=COLOURS["rwf"], label="distance")
    axes.plot(data.distance_scales, data.distance_limits, "--", color=FAINT, label="|w* − w₀| / s")
    axes.set(xscale="log", yscale="log", xlabel="s", title="Distance to the global minimum")
    axes.legend()


def _caption(data: "Landscape") -> str:
    ends = [f"s = {p.scale:g}: {p.end}" for p in data.trajectories if p.scale is not None]
    controls = [f"{path.rate:.2g}: {path.end}" for path in data.controls]
    same = [path.end for path in data.trajectories[1:]] == [path.end for path in data.controls]
    moral = "what the factorization does here, the rate does alone" if same else "the factorization does more here"
    return (
        "The paper's figure of section 2.1. A point of the line is a hyperbola of the plane, and hyperbolas "
        "come as near as one likes when s grows (right). Green: gradient descent in (s, v) from the initial "
        f"point. At the rate {data.trajectories[0].rate:g} it ends, from {', '.join(ends)}; in w it ends "
        f"{data.trajectories[0].end}. In w at the rate times s² + v² it ends, at {', '.join(controls)}: "
        f"{moral}."
    )
