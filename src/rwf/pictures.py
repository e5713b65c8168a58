"""Small pictures of what some members of a run learnt, kept in the run folder beside the weights.

Weights are most of a run folder's size and often stay where the run was made; a few pictures of 8 bits go along.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, UInt8

from rwf.errors import missing_extra
from rwf.precision import computing
from rwf.record import Run
from rwf.tensors import read_tensors, write_tensors
from rwf.tree import materialize

FILE = "pictures.safetensors"  # uint8 arrays, rows first, named by the number of the member
CHOSEN = 2  # members that are kept where nobody says which


@runtime_checkable
class Pictured(Protocol):
    """A task whose nets are pictures: grey or three channels, in [0, 1].

    One whose `render` is no function that JAX can compile says so by a class variable `drawn_on_host`.
    """

    @property
    def truth(self) -> Array:
        """What a perfect net would render."""
        ...

    def render(self, net: Any) -> Array:
        """The picture that a net has learnt."""
        ...


def save_pictures(run: Run, members: Sequence[int] | None = None) -> Path | None:
    """Renders some members of a run into its folder and returns the file; None where nets are no pictures.

    **Arguments:** `members`, by number; the first ones where it is None, or none of a run that sweeps a grid.
    """
    count = len(run.info["members"]["seed"])
    if members is None:
        members = () if run.info["grid"] else range(min(CHOSEN, count))
    wrong = [member for member in members if not 0 <= member < count]
    if wrong:
        raise ValueError(f"{run.folder} has members 0 to {count - 1}; got {wrong}.")
    if not members or not isinstance(run.task(members[0]), Pictured):
        return None
    named = {str(member): as_bytes(render(run, member)) for member in members}
    write_tensors(run.folder / FILE, named, {"format": "rwf-pictures-1"})
    return run.folder / FILE


def read_pictures(run: Run) -> dict[int, UInt8[np.ndarray, "height width *channels"]]:
    """The pictures that a run folder holds, by number of the member; none where there is no such file."""
    path = run.folder / FILE
    return {int(name): array for name, array in read_tensors(path)[0].items()} if path.exists() else {}


def render(run: Run, member: int, **options: int) -> Float[np.ndarray, "height width *channels"]:
    """The picture of one member, from its weights, at the precision of the run; `options` are its task's own."""
    task, net = run.task(member), materialize(run.net(member))
    draw = task.render if getattr(task, "drawn_on_host", False) else partial(_rendered, task)
    with computing(run.job.recipe.precision):
        return np.asarray(draw(net, **options))


@eqx.filter_jit  # compiled once for all members of a run
def _rendered(task: Any, net: Any, **options: int) -> Array:
    return task.render(net, **options)


def check_picture_file(path: Path) -> None:
    """Refuses a name that ends in no format of pictures, and a machine without Pillow, before anything is rendered."""
    try:
        from PIL import Image
    except ImportError:
        raise missing_extra("pillow", "images", "Writing a picture") from None
    formats = {suffix for suffix, name in Image.registered_extensions().items() if name in Image.SAVE}
    if path.suffix.lower() not in formats:
        raise ValueError(f"{path.name} has no ending that names a format of pictures. Use .png.")


def write_picture(path: Path, picture: Float[np.ndarray, "height width *channels"]) -> Path:
    """Writes a picture in [0, 1] to a file, in the format that its ending names."""
    check_picture_file(path)
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(as_bytes(picture)).save(path)
    return path


def as_bytes(picture: Float[np.ndarray, "..."]) -> UInt8[np.ndarray, "..."]:
    """A picture in [0, 1] with 8 bits; what lies outside is clipped."""
    return np.rint(np.clip(picture, 0, 1) * 255).astype(np.uint8)
