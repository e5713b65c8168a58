"""The paper's figures of SIREN: PSNR over the scale of its sines, a panel for each data set."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rwf.report.figures.drawing import Drawing
from rwf.report.figures.style import FAINT, blank, colour
from rwf.report.names import CASES, PARAMETRIZATIONS, metric, place
from rwf.report.records import Record

if TYPE_CHECKING:
    import matplotlib.axes

_AXIS = "net.omega"
# What SIREN is compared with: Plain with no mapping, as in the paper, and with Gaussian features beside it.
_BASELINES = {"none": ("Plain, no mapping", "black", "--"), "gaussian": ("Plain, Gaussian features", FAINT, ":")}


def sweep(records: Sequence[Record], name: str = "psnr") -> Drawing | None:
    """The final metric of grids over `net.omega`: mean and standard deviation over pictures, with Plain beside it."""
    grid = [record for record in records if set(record.setting) == {_AXIS} and record.finals(name)]
    cases = sorted({record.case for record in grid}, key=lambda case: place(case, CASES))
    if not cases:
        return None
    figure = blank(3.8, width=1.0 + 5.0 * len(cases))
    first = None
    for i, case in enumerate(cases):
        first = axes = figure.add_subplot(1, len(cases), i + 1, sharey=first)
        axes.set(title=case, xlabel="ω₀, the scale of the sines", xscale="log")
        _draw_case(axes, [r for r in grid if r.case == case], [r for r in records if r.case == case], name)
        if i == 0:
            axes.set_ylabel(metric(name).title)
            axes.legend()
    pictures = "–".join(str(n) for n in sorted({len(record.members) for record in grid}))
    caption = (
        f"SIREN with one ω₀ in all its layers: mean and standard deviation over {pictures} pictures. Lines: the mean "
        "of Plain, without SIREN, over the same pictures where it has them."
    )
    if any(record.diverged for record in grid):
        caption += " Crosses: a member diverged, and counts at its last good state."
    beside = [record for record in records if record.case in cases and _is_baseline(record)]
    return Drawing("SIREN", caption, figure, [*grid, *beside])


def _draw_case(axes: "matplotlib.axes.Axes", grid: Sequence[Record], records: Sequence[Record], name: str) -> None:
    for parametrization in sorted({r.parametrization for r in grid}, key=lambda p: place(p, PARAMETRIZATIONS)):
        line = sorted((r for r in grid if r.parametrization == parametrization), key=lambda r: r.setting[_AXIS])
        x = np.array([record.setting[_AXIS] for record in line])
        values = [np.array(list(record.finals(name).values())) for record in line]
        mean = np.array([v.mean() for v in values])
        spread = np.array([v.std(ddof=1) if len(v) > 1 else 0.0 for v in values])
        label = "SIREN" + (f", {PARAMETRIZATIONS[parametrization]}" if parametrization != "plain" else "")
        shown = {"color": colour(line[0]), "marker": "o", "markersize": 5, "capsize": 2.5, "elinewidth": 1.1}
        axes.errorbar(x, mean, spread, label=label, **shown)
        gone = np.array([bool(record.diverged) for record in line])
        axes.plot(x[gone], mean[gone], "x", color="black", markersize=8, mew=1.8, zorder=5)
    omegas = sorted({record.setting[_AXIS] for record in grid})
    axes.set_xticks(omegas, [f"{omega:g}" for omega in omegas])
    axes.set_xticks([], minor=True)
    pairs = set.intersection(*(set(record.finals(name)) for record in grid))
    for variant, (label, line_colour, style) in _BASELINES.items():
        mean = _baseline(records, variant, name, pairs)
        if mean is not None:
            axes.axhline(mean, color=line_colour, linestyle=style, linewidth=1.4, label=label)


def _baseline(records: Sequence[Record], variant: str, name: str, pairs: set[tuple[int, int]]) -> float | None:
    """The mean of Plain over the pictures that SIREN was run on, where it was; otherwise over all of its own."""
    found = [record for record in records if record.variant == variant and _is_baseline(record)]
    values = found[0].finals(name) if found else {}
    same = [value for pair, value in values.items() if pair in pairs]
    return float(np.mean(same or list(values.values()))) if values else None


def _is_baseline(record: Record) -> bool:
    """Whether this is one of what SIREN is compared with."""
    as_it_is = not record.tuned and not record.setting
    return as_it_is and record.parametrization == "plain" and record.variant in _BASELINES
