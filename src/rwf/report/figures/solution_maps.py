"""Maps of an unknown of a PDE: the exact solution, what each parametrization found, and how far it is off."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from jaxtyping import Float

from rwf.pde import PDETask
from rwf.report.figures.style import blank
from rwf.report.names import PARAMETRIZATIONS
from rwf.report.records import Record

if TYPE_CHECKING:
    import matplotlib.figure

_FLATTEST = 4  # times as long as high: what is longer is not drawn to scale


class Cut(NamedTuple):
    """A part of the grid of test points that can be drawn: which it is, and where it holds the other coordinates."""

    part: tuple[int | slice, ...]
    at: dict[str, float]


class Solved(NamedTuple):
    """The first member of a record: what it found on some cuts of the grid, and what is exact there, by unknown."""

    record: Record
    task: PDETask
    cuts: list[Cut]
    found: dict[str, Float[np.ndarray, "cuts ..."]]
    exact: dict[str, Float[np.ndarray, "cuts ..."]]


def cuts(task: PDETask) -> list[Cut]:
    """The whole grid of one or two coordinates; of more, three planes of the first two.

    They are at the first, the middle and the last t, or else last coordinate; any others are held in the middle.
    """
    domain, counts = task.problem.domain, dict(zip(task.problem.domain.names, task.problem.counts, strict=True))
    if len(counts) <= 2:
        return [Cut((), {})]
    sliced = "t" if "t" in counts else domain.names[-1]
    _, _, *others = (name for name in counts if name != sliced)
    lines = domain.lines(task.problem.counts)
    found = []
    for place in sorted({0, counts[sliced] // 2, counts[sliced] - 1}):
        held = {sliced: place} | {name: counts[name] // 2 for name in others}
        part = tuple(held.get(name, slice(None)) for name in counts)
        found.append(Cut(part, {name: float(lines[name][i]) for name, i in held.items()}))
    return found


def drawn_maps(shown: Sequence[Solved], unknown: str) -> "matplotlib.figure.Figure":
    """One unknown; time is horizontal where there is one coordinate besides, or else the first coordinate."""
    first = shown[0]
    exact = first.exact.get(unknown)
    maps = {PARAMETRIZATIONS[s.record.parametrization]: s.found[unknown] for s in shown}
    if exact is not None:
        maps = {"exact": exact, **maps}
    held = first.cuts[0].at
    (across, x), (up, y) = axes = [axis for axis in first.task.problem.domain.axes if axis[0] not in held][:2]
    timed = "t" in (across, up)
    if timed:
        (across, x), (up, y) = reversed(axes)
    else:
        maps = {name: values.swapaxes(-1, -2) for name, values in maps.items()}
    ratio = float((y.high - y.low) / (x.high - x.low))
    scaled = not timed and 1 / _FLATTEST <= ratio <= _FLATTEST
    style: dict[str, Any] = {"origin": "lower", "interpolation": "nearest", "aspect": "equal" if scaled else "auto"}
    style["extent"] = (x.low, x.high, y.low, y.high)
    errors = {} if exact is None else {n: np.abs(found - maps["exact"]) for n, found in maps.items() if n != "exact"}
    above = len(first.cuts)  # rows of solutions, and as many of errors
    rows = above * (1 + bool(errors))
    most, beside = (2.3, 0.8) if above == 1 else (1.6, 0.5)  # inches: of a map, and of what is written around it
    figure = blank(rows * (beside + (min(most, 8.4 / len(maps) * ratio) if scaled else 1.5)))
    grid = cast("Any", figure.subplots(rows, len(maps), squeeze=False, sharex=True, sharey=True))
    colours = _colours(list(maps.values()) if exact is None or _is_flat(exact) else [exact])
    largest = max((float(error.max()) for error in errors.values()), default=1.0)
    for column, (name, values) in enumerate(maps.items()):
        grid[0, column].set_title(name)
        for row in range(above):
            grid[row, column].imshow(values[row], **colours, **style)
            if name in errors:
                error, below = errors[name][row], grid[above + row, column]
                below.imshow(error, cmap="magma", vmin=0, vmax=largest, **style)
                below.set_title(f"error, at most {float(f'{error.max():.2g}'):g}", fontsize=10)
            elif errors:  # below the exact solution there is no error, and so no axis that it could share
                grid[above + row, column].set_visible(False)
        if errors and name not in errors:
            grid[above - 1, column].tick_params(labelbottom=True)
            grid[above - 1, column].set_xlabel(across)
        for row in range(rows):
            grid[row, column].grid(visible=False)
            # As many ticks whatever the size: labels beside longer ones would run into their neighbours.
            grid[row, column].locator_params(axis="both" if above > 1 else "x", nbins=3)
        grid[rows - 1, column].set_xlabel(across)
    for part, name in zip(range(0, rows, above), (unknown, "absolute error"), strict=False):
        panels = list(grid[part : part + above].flat)
        figure.colorbar(panels[-1].get_images()[0], ax=panels, shrink=0.9 if above == 1 else 0.5, label=name)
    for row in range(rows):
        left = grid[row, 1 if row >= above else 0]
        left.set_ylabel("\n".join([*_value(first.cuts[row % above]), up]))
        left.tick_params(labelleft=True)
    return figure


def _value(cut: Cut) -> list[str]:
    """Where a row is, for its label; nothing where it is the whole."""
    return [f"{name} = {value:.3g}" for name, value in list(cut.at.items())[:1]]


def _is_flat(values: Float[np.ndarray, "..."]) -> bool:
    """Whether values are one, but for rounding: no scale of colours, which would not be one for all maps."""
    return bool(np.ptp(values) <= 1e-5 * np.abs(values).max())


def _colours(values: Sequence[Float[np.ndarray, "..."]]) -> dict[str, Any]:
    """A scale from low to high; where values change their sign, one that is white at zero."""
    low, high = min(float(v.min()) for v in values), max(float(v.max()) for v in values)
    if min(-low, high) > 0.05 * max(-low, high):
        top = max(-low, high)
        return {"cmap": "RdBu_r", "vmin": -top, "vmax": top}
    return {"cmap": "viridis", "vmin": low, "vmax": high}
