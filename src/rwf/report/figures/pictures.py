"""The paper's figures of pictures: the truth, what the four parametrizations make of it, and where they err."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from rwf.pictures import Pictured, read_pictures, render
from rwf.record import Run
from rwf.report.figures.drawing import Drawing
from rwf.report.figures.style import blank
from rwf.report.names import PARAMETRIZATIONS
from rwf.report.records import Member, Record

if TYPE_CHECKING:
    import matplotlib.axes

_VARIANTS = ("gaussian", "positional", "none")  # the paper shows Gaussian features; otherwise what is there is shown
_MAPPINGS = {"gaussian": "Gaussian features", "positional": "positional encoding", "none": "no input mapping"}
_SHOWN = 2  # pictures
_SAME = 0.5  # dB between the PSNR that was recorded and that of a picture against the truth that is made here


class _Shown(NamedTuple):
    """One picture of the data: the truth, and what each record made of it."""

    truth: Float[np.ndarray, "height width *channels"] | None
    predictions: dict[str, Float[np.ndarray, "height width *channels"]]
    psnr: dict[str, float | None]


def comparison(records: Sequence[Record]) -> Drawing | None:
    """The four predictions of some pictures with their errors; from run folders with pictures or weights."""
    mine = [record for record in records if not record.tuned and not record.setting]
    shown: tuple[str, dict[str, Record], list[int]] = ("", {}, [])
    for variant in dict.fromkeys((*_VARIANTS, *(record.variant for record in mine))):
        found = {r.parametrization: r for r in mine if r.variant == variant and _sources(r)}
        found = {name: found[name] for name in PARAMETRIZATIONS if name in found}
        signals = _signals(list(found.values()))
        if signals and len(found) > len(shown[1]):  # the first with the most parametrizations
            shown = variant, found, signals
    variant, found, signals = shown
    if not signals:
        return None
    drawing = _drawing(variant, [_read(found, signal) for signal in signals])
    return drawing._replace(records=list(found.values()))


def own(records: Sequence[Record]) -> Drawing | None:
    """The same of a case that is not ours: of runs that kept pictures, which others have none of."""
    return comparison([r for r in records if any(part.run and read_pictures(part.run) for part in r.parts)])


def _sources(record: Record) -> dict[int, tuple[Member, bool]]:
    """The first member of each signal that can be shown, and whether its picture is at hand or must be rendered."""
    kept = [set(read_pictures(part.run)) if part.run else set() for part in record.parts]
    weights = [part.run is not None and (part.run.folder / "weights.safetensors").exists() for part in record.parts]
    found: dict[int, tuple[Member, bool]] = {}
    for member in record.members:
        at_hand = member.index in kept[member.part]
        if member.signal not in found and (at_hand or weights[member.part]):
            found[member.signal] = member, at_hand
    return found


def _signals(records: Sequence[Record]) -> list[int]:
    """The first signals that all records can show; those whose pictures are at hand come before others."""
    sources = [_sources(record) for record in records]
    common = [signal for signal in sources[0] if all(signal in source for source in sources)] if sources else []
    return sorted(common, key=lambda signal: not all(source[signal][1] for source in sources))[:_SHOWN]


def _read(records: dict[str, Record], signal: int) -> _Shown:
    predictions, recorded, truth = {}, {}, None
    for name, record in records.items():
        member, at_hand = _sources(record)[signal]
        run = record.parts[member.part].run
        assert run is not None  # or it would be no source
        picture = read_pictures(run)[member.index] / 255 if at_hand else render(run, member.index)
        predictions[name], recorded[name] = np.clip(picture, 0, 1), member.final.get("psnr")
        truth = _truth(run, member.index)
    same = truth is not None and all(_agrees(predictions[n], truth, recorded[n]) for n in predictions)
    return _Shown(truth if same else None, predictions, recorded)


def _truth(run: Run, member: int) -> Float[np.ndarray, "height width *channels"] | None:
    """What a run was trained on, where this machine has it."""
    try:
        task = run.task(member)
    except (OSError, ValueError):  # a person's own picture that was moved, or changed
        return None
    return np.asarray(task.truth) if isinstance(task, Pictured) else None


def _agrees(picture: np.ndarray, truth: np.ndarray, psnr: float | None) -> bool:
    """Whether the truth that this machine makes is what the run was measured against, as far as 8 bits tell."""
    if picture.shape != truth.shape or psnr is None:
        return False
    found = -10 * float(np.log10(np.mean((picture - truth) ** 2) + 1e-12))
    return abs(found - psnr) < _SAME or min(found, psnr) > 48  # where 8 bits are the error


def _drawing(variant: str, shown: Sequence[_Shown]) -> Drawing:
    known = any(picture.truth is not None for picture in shown)  # or there is no place for it, nor for errors
    columns = known + max(len(picture.predictions) for picture in shown)
    rows = (1 + known) * len(shown)
    height, width, *_ = next(iter(shown[0].predictions.values())).shape
    figure = blank((0.15 + 2.2 * height / width) * rows, width=2.2 * columns)
    grid: Any = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for i, picture in enumerate(shown):
        if known:
            _draw_truth(grid[2 * i], grid[2 * i + 1], picture)
        _draw_pictures(grid[(1 + known) * i][known:], picture)
    base, plus, changed = variant.partition("+")
    mapping = _MAPPINGS.get(base, base) + plus + changed
    caption = (
        f"The truth, and what each parametrization makes of it ({mapping}), with the PSNR of this picture; below, "
        "the absolute error, the mean over channels. One scale a row."
    )
    if any(picture.truth is None for picture in shown):
        caption += " Truth and errors are not drawn where this machine has other data than the run was trained on."
    return Drawing("Pictures", caption, figure)


def _draw_pictures(row: Sequence["matplotlib.axes.Axes"], picture: _Shown) -> None:
    for axes, (name, prediction) in zip(row, picture.predictions.items(), strict=False):
        _show(axes, prediction)
        psnr = picture.psnr[name]
        axes.set_title(PARAMETRIZATIONS[name] + (f", {psnr:.2f} dB" if psnr is not None else ""))


def _draw_truth(
    above: Sequence["matplotlib.axes.Axes"], below: Sequence["matplotlib.axes.Axes"], picture: _Shown
) -> None:
    """The truth before the predictions, and their errors under them."""
    if picture.truth is None:
        return
    _show(above[0], picture.truth)
    above[0].set_title("Truth")
    errors = [np.abs(p - picture.truth).reshape(*p.shape[:2], -1).mean(axis=-1) for p in picture.predictions.values()]
    # a few pixels at edges would leave the rest black
    top = max(float(np.quantile(errors, 0.995)), 1e-3)
    images = [
        axes.imshow(error, cmap="magma", vmin=0, vmax=top, interpolation="nearest")
        for axes, error in zip(below[1:], errors, strict=False)
    ]
    bar = below[0].figure.colorbar(images[0], cax=below[0].inset_axes((0.88, 0.04, 0.07, 0.92)), extend="max")
    bar.set_label("absolute error")
    bar.ax.grid(visible=False)
    bar.ax.yaxis.set_ticks_position("left")
    bar.ax.yaxis.set_label_position("left")


def _show(axes: "matplotlib.axes.Axes", picture: np.ndarray) -> None:
    axes.imshow(picture, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
