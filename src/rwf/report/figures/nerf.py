"""The paper's figure of inverse rendering: a test view as the four trained nets see it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from rwf.measure import psnr
from rwf.pictures import read_pictures
from rwf.precision import computing
from rwf.record import Run
from rwf.report.figures.drawing import Drawing
from rwf.report.figures.shown import said, seed_of, settings
from rwf.report.figures.style import blank
from rwf.report.names import PARAMETRIZATIONS
from rwf.report.records import Record
from rwf.tree import materialize

if TYPE_CHECKING:
    import matplotlib.axes

_SAMPLES_ON_CPU = 1_500_000  # of a view that is drawn on a CPU, where the paper's 400 × 400 takes minutes a net


class _Seen(NamedTuple):
    """The first test view as a trained net shows it and, where this machine has the data, as it was photographed."""

    record: Record
    picture: Float[np.ndarray, "height width 3"]
    truth: Float[np.ndarray, "height width 3"] | None


def views(records: Sequence[Record]) -> Drawing | None:
    """Truth, the predictions of Plain, AA, WN and RWF, and their errors; from run folders with pictures or weights."""
    for variant, found in settings(records):
        seen = [one for one in map(_see, found.values()) if one is not None]
        if seen:
            return _drawing(variant, seen)
    return None


def _drawing(variant: str, seen: Sequence[_Seen]) -> Drawing:
    figure = blank(5.0)
    axes = figure.subplots(2, len(seen) + 1, squeeze=False)
    for empty in axes.flat:
        empty.set_axis_off()
    for above, one in zip(axes[0, 1:], seen, strict=True):
        quality = "" if one.truth is None else f", {float(psnr(*map(jnp.asarray, (one.picture, one.truth)))):.2f} dB"
        above.imshow(one.picture, interpolation="nearest")
        above.set_title(PARAMETRIZATIONS[one.record.parametrization] + quality)
    caption = f"The first test view as the nets of {seed_of(one.record for one in seen)} show it"
    if all(one.truth is not None for one in seen):
        axes[0, 0].imshow(seen[0].truth, interpolation="nearest")
        axes[0, 0].set_title("Truth")
        _draw_errors(axes[1], seen)
        caption += ", with the PSNR of this view alone. Below: the absolute error, the mean over the three colours."
    else:
        caption += ". The truth and the errors are not drawn: this machine has not the data of these runs."
    heights = sorted({len(one.picture) for one in seen})
    caption = f"{caption} {heights[0]} pixels high.{said(variant)}"
    return Drawing("A test view", caption, figure, [one.record for one in seen])


def _draw_errors(row: Sequence["matplotlib.axes.Axes"], seen: Sequence[_Seen]) -> None:
    errors = [np.abs(one.picture - one.truth).mean(-1) for one in seen]
    # a few pixels at edges would leave the rest black
    largest = max(1e-3, *(float(np.quantile(error, 0.995)) for error in errors))
    shown = [
        axes.imshow(error, cmap="magma", vmin=0.0, vmax=largest, interpolation="nearest")
        for axes, error in zip(row[1:], errors, strict=True)
    ]
    bar = row[0].figure.colorbar(shown[0], cax=row[0].inset_axes((0.88, 0.04, 0.07, 0.92)), extend="max")
    bar.set_label("absolute error")
    bar.ax.grid(visible=False)
    bar.ax.yaxis.set_ticks_position("left")
    bar.ax.yaxis.set_label_position("left")


def _see(record: Record) -> _Seen | None:
    """The picture that is kept in the run folder of a record's first member, or rendered from its weights."""
    if not record.at_hand:
        return None
    member, run = record.at_hand[0]
    # compared in words first: to make the stand-in of a scene that is not here would take long
    task = run.task(member.index) if run.job.recipe.task.describe() == record.data else None
    kept = read_pictures(run).get(member.index)
    if kept is not None:
        picture = kept / np.float32(255)
    elif task is not None and (run.folder / "weights.safetensors").exists():
        picture = _rendered(run, task, member.index)
    else:
        return None
    return _Seen(record, picture, None if task is None else _averaged(np.asarray(task.truth), len(picture)))


def _rendered(run: Run, task: Any, member: int) -> Float[np.ndarray, "height width 3"]:
    camera, pose = task.camera, task.poses[task.test_views[0]]
    if jax.default_backend() == "cpu":
        camera = camera.resized(_height_on_cpu(camera.height, camera.width, task.sampling.samples))
    render = jax.jit(lambda net: task.view(net, pose, camera))
    with computing(run.job.recipe.precision):
        return np.clip(np.asarray(render(materialize(run.net(member)))), 0, 1)


def _height_on_cpu(height: int, width: int, samples: int) -> int:
    """The largest height that divides the view's own and can be drawn in seconds."""
    factors = [n for n in range(1, height // 8 + 1) if height % n == 0 and width % n == 0]
    allowed = [n for n in factors if (height // n) * (width // n) * samples <= _SAMPLES_ON_CPU]
    return height // (allowed[0] if allowed else factors[-1])


def _averaged(truth: Float[np.ndarray, "h w 3"], height: int) -> Float[np.ndarray, "height width 3"]:
    factor = truth.shape[0] // height
    return truth.reshape(height, factor, truth.shape[1] // factor, factor, 3).mean((1, 3))
