"""The paper's figure of shapes: the mesh, and the surfaces that the four trained nets have learnt."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from rwf.pictures import read_pictures, render
from rwf.report.figures.drawing import Drawing
from rwf.report.figures.shown import said, seed_of, settings
from rwf.report.figures.style import blank
from rwf.report.names import PARAMETRIZATIONS
from rwf.report.records import Member, Record

_VARIANTS = ("gaussian", "positional", "none")  # the paper shows Gaussian features; what is there is shown


class _Seen(NamedTuple):
    """The picture of a trained net, and that of the mesh where this machine has it."""

    record: Record
    member: Member
    picture: Float[np.ndarray, "height width 3"]
    truth: Float[np.ndarray, "height width 3"] | None


def surfaces(records: Sequence[Record]) -> Drawing | None:
    """Truth and the predictions of Plain, AA, WN and RWF; from run folders with pictures or weights."""
    for variant, found in settings(records, _VARIANTS):
        seen = [one for one in map(_see, found.values()) if one is not None]
        if seen:
            return _drawing(variant, seen)
    return None


def _drawing(variant: str, seen: Sequence[_Seen]) -> Drawing:
    truth = next((one.truth for one in seen if one.truth is not None), None)
    columns = len(seen) + (truth is not None)
    figure = blank(4.9, width=2.3 * columns)
    grid: Any = figure.subplots(2, columns, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    panels = [("Truth", truth)] if truth is not None else []
    for one in seen:
        iou = one.member.final.get("iou")
        quality = f", IoU {iou:.4f}" if iou is not None else ""
        panels.append((PARAMETRIZATIONS[one.record.parametrization] + quality, one.picture))
    for (above, below), (title, picture) in zip(grid.T, panels, strict=True):
        assert picture is not None
        half = picture.shape[1] // 2  # a picture is two: the whole, and its top from near
        above.imshow(picture[:, :half], interpolation="antialiased")
        below.imshow(picture[:, half:], interpolation="antialiased")
        above.set_title(title)
    base = variant.partition("+")[0]
    mapping = {"none": "no input mapping"}.get(base, f"{base} features")
    mine = [one.record for one in seen]
    caption = (
        f"The surfaces that the nets of {seed_of(mine)} have learnt ({mapping}), by marching cubes; below, the top."
    )
    if truth is None:
        caption += " The mesh is not drawn: this machine has not the data of these runs."
    return Drawing("Surfaces", caption + said(variant), figure, mine)


def _see(record: Record) -> _Seen | None:
    """The picture that is kept in the run folder of a record's first member, or drawn from its weights."""
    if not record.at_hand:
        return None
    member, run = record.at_hand[0]
    # compared in words: the labels of a mesh that is not here would take minutes to make
    here = run.job.recipe.task.describe() == record.data
    truth = np.asarray(run.task(member.index).truth) if here else None
    kept = read_pictures(run).get(member.index)
    if kept is not None:
        return _Seen(record, member, kept / np.float32(255), truth)
    if here and (run.folder / "weights.safetensors").exists():
        return _Seen(record, member, render(run, member.index), truth)
    return None
