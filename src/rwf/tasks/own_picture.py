"""A person's own picture: `rwf run photo.png` fits a net to it, four parametrizations side by side."""

import functools
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from tyro.conf import Suppress

from rwf.errors import check_only_signal
from rwf.recipe import MLP, Adam, EncodingSpec, Factorization, Gaussian, NetSpec, Recipe, TaskSpec
from rwf.recipe.checks import check
from rwf.signals.images import read_image, reduced
from rwf.tasks.image import ImageRegression
from rwf.tasks.pixels import Output

SHORTER = {  # what --quick changes
    "task.side": 128,
    "net.width": 64,
    "steps": 200,
    "log_every": 50,
    "optim.warmup_steps": 20,
    "encoding.scale": 6.0,  # frequencies that so few pixels can tell
}
_LEAST = 4  # pixels along the shorter side
_TELLING, _GOOD = 6, 10  # trained pixels along the shorter side for each unit of the features' scale: fewer alias
_DARK = 1 / 8  # of white: nothing is brighter in a picture that is remarked on


@dataclass(frozen=True)
class OwnPicture(TaskSpec):
    """A picture from a file, whatever its shape; it is the only signal."""

    shown_by: ClassVar[str] = "rwf picture RUN --scale 2"
    memory_only: ClassVar[tuple[str, ...]] = ("blocks", "path")

    path: Suppress[str]  # these two say which picture it is: no settings
    content: Suppress[str] = ""  # a hash of its pixels: by that a run is known, wherever the file lies
    side: int = 512  # pixels along the longer side: a larger picture is reduced to so many
    every: int = 2  # trained on every so many pixels of a row and of a column; 1 is all of them
    output: Output = "sigmoid"  # what makes brightness of a net's values
    blocks: int = 16

    def __post_init__(self) -> None:
        check("1 or more", **{f"task.{name}": getattr(self, name) for name in ("side", "every", "blocks")})

    def build(self, signal: int) -> ImageRegression:
        check_only_signal(signal, "A picture")
        stat = Path(self.path).stat() if Path(self.path).is_file() else None
        return _build(self, stat.st_mtime_ns if stat else 0)

    def remarks(self, steps: int, net: NetSpec | None = None, encoding: EncodingSpec | None = None) -> list[str]:
        """Features that turn faster than the trained pixels can tell, and pictures that are all but black."""
        image, said = self.build(0).image, []
        rows, columns = (-(-n // self.every) for n in image.shape[:2])
        fewest = min(rows, columns)
        if isinstance(encoding, Gaussian) and fewest < _TELLING * abs(encoding.scale):
            every = " or --task.every 1" if self.every > 1 else ""
            said.append(
                f"{rows} × {columns} pixels are trained on, too few for features of scale {encoding.scale:g}: what "
                f"lies between them is fitted at random. Use --encoding.scale {fewest / _GOOD:.2g}{every}"
            )
        brightest = float(image.max())
        if brightest < _DARK:
            said.append(
                f"nothing is brighter than {brightest:.2g} of white, against which PSNR is measured, and flattered so: "
                "spread its values over the range of its bits (12 bits fill a sixteenth of 16)"
            )
        return said

    def describe(self) -> str:
        known = f" ({self.content[:8]})" if self.content else ""
        return f"{Path(self.path).name}{known}: own picture"


def recipe_for(path: str) -> Recipe:
    """The setting of the paper's natural images with the mean of all its other benchmarks.

    Its case is no case of the paper; pictures of one name differ in their variants.
    """
    content = _content(read_image(path))
    return Recipe(
        name=path,
        case=f"own/{Path(path).stem}",
        variant=f"gaussian-{content[:4]}",
        task=OwnPicture(str(Path(path).resolve()), content),
        net=MLP(depth=3, width=256, activation="relu"),
        encoding=Gaussian(scale=10.0),
        optim=Adam(lr=1e-3, warmup_steps=200),
        rwf=Factorization(mean=1.0, stddev=0.1),
        steps=2_000,
        log_every=100,
        seeds=1,
    )


def _content(picture: np.ndarray) -> str:
    return hashlib.sha256(repr(picture.shape).encode() + picture.tobytes()).hexdigest()[:16]


@functools.lru_cache(maxsize=1)
def _build(spec: OwnPicture, modified: int) -> ImageRegression:
    picture = read_image(spec.path)
    if spec.content and _content(picture) != spec.content:
        raise ValueError(
            f"{spec.path} is not what this recipe was made for: its pixels have changed. Start again with "
            f"`rwf run {spec.path}`, or put the old file back."
        )
    image = reduced(picture, spec.side)
    height, width, _ = image.shape
    if min(height, width) < _LEAST:
        raise ValueError(
            f"{spec.path} has {height} × {width} pixels here; {_LEAST} or more along each side are needed."
        )
    if spec.every >= min(height, width):
        raise ValueError(f"--task.every is {spec.every}: of {height} × {width} pixels that leaves no more than a line.")
    return ImageRegression(image=jnp.asarray(image), output=spec.output, blocks=spec.blocks, every=spec.every)
