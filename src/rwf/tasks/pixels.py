"""What tasks on a fixed grid of pixels share: a net of their coordinates, trained on the same ones in each step."""

import abc
from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from rwf.tasks.base import Task

Output = Literal["sigmoid", "linear"]


class PixelTask(Task):
    """A picture from coordinates. Every step sees `seen_pixels`, so their features are computed once."""

    output: eqx.AbstractVar[Output]  # what makes brightness of a net's values
    blocks: eqx.AbstractVar[int]  # that a picture is rendered in

    @property
    @abc.abstractmethod
    def truth(self) -> Float[Array, "..."]:
        """What a perfect net would render."""

    @property
    @abc.abstractmethod
    def seen_pixels(self) -> Float[Array, "pixels 2"]:
        """The coordinates of the pixels that are trained on."""

    @property
    def inputs(self) -> int:
        return 2

    def batch(self, key: PRNGKeyArray, step: Array) -> None:
        return None

    def fixed(self, encode: Callable[[Array], Array]) -> Float[Array, "pixels features"]:
        return encode(self.seen_pixels)

    def seen_values(self, net: Any, batch: Float[Array, "pixels features"] | None) -> Float[Array, "pixels channels"]:
        """The brightness of the pixels that are trained on; `batch` is their features where they are at hand."""
        return squash(net(self.seen_pixels) if batch is None else net.decode(batch), self.output)

    def render(self, net: Any, scale: int = 1) -> Float[Array, "height width *channels"]:
        """The whole picture as the net sees it, `scale` times as large, in blocks so that memory stays small."""
        height, width, *channels = self.truth.shape
        x = pixel_grid(scale * height, scale * width)
        pixels, blocks = x.reshape(-1, 2), scale**2 * self.blocks
        padded = jnp.pad(pixels, ((0, -len(pixels) % blocks), (0, 0))).reshape(blocks, -1, 2)
        values = jax.lax.map(lambda block: squash(net(block), self.output), padded).reshape(-1, self.outputs)
        return values[: len(pixels)].reshape(*x.shape[:2], *channels)


def every(picture: np.ndarray, size: int, blocks: int, *, least: int) -> np.ndarray:
    """Every so many pixels of a square picture, so that `size` are left along a side, which `blocks` can share."""
    side = picture.shape[0]
    if size < least or size % 2 or side % size:
        raise ValueError(f"task.size must be even, {least} or more, and divide {side}; it is {size}. Use 512 or 128.")
    if blocks < 1 or size**2 % blocks:
        raise ValueError(f"task.blocks must divide the {size**2:,} pixels of a picture; it is {blocks}. Use 16.")
    return picture[:: side // size, :: side // size]


def squash(values: Float[Array, "..."], output: Output) -> Float[Array, "..."]:
    """What a net returns as brightness: through a sigmoid, or as it is, for SIREN."""
    return jax.nn.sigmoid(values) if output == "sigmoid" else values


def pixel_grid(height: int, width: int) -> Float[Array, "height width 2"]:
    """The coordinates of pixels in [0, 1): row, then column."""
    rows, columns = (jnp.arange(n, dtype=jnp.float32) / n for n in (height, width))
    return jnp.stack(jnp.meshgrid(rows, columns, indexing="ij"), axis=-1)
