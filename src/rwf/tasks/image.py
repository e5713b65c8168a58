"""The paper's 2D image regression: fit every second pixel of an image, be judged on all of them."""

from dataclasses import dataclass, replace
from typing import Any, Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from rwf.recipe import MLP, Adam, EncodingSpec, Factorization, Gaussian, Identity, Positional, Recipe, TaskSpec
from rwf.signals.images import image_set, source
from rwf.study import Study
from rwf.tasks.base import Task


@final
class ImageRegression(Task):
    """Colours from coordinates: trained on the pixels [::2, ::2], measured on all and on [1::2, 1::2], unseen."""

    image: Float[Array, "*member height width 3"]
    blocks: int = eqx.field(static=True)

    @property
    def inputs(self) -> int:
        return 2

    @property
    def outputs(self) -> int:
        return 3

    def batch(self, key: PRNGKeyArray, step: Array) -> None:
        return None

    def losses(self, net: Any, batch: None, step: Array) -> dict[str, Array]:
        seen = self.image[::2, ::2].reshape(-1, 3)
        x = pixel_grid(*self.image.shape[:2])[::2, ::2].reshape(-1, 2)
        return {"half_mse": 0.5 * jnp.mean((jax.nn.sigmoid(net(x)) - seen) ** 2)}

    def metrics(self, net: Any) -> dict[str, Array]:
        error = (self.render(net) - self.image) ** 2
        return {"psnr": _psnr(error), "psnr_unseen": _psnr(error[1::2, 1::2])}

    def render(self, net: Any) -> Float[Array, "height width 3"]:
        """The whole image as the net sees it, computed in blocks so that memory stays small."""
        height, width, _ = self.image.shape
        x = pixel_grid(height, width).reshape(self.blocks, -1, 2)
        return jax.lax.map(lambda block: jax.nn.sigmoid(net(block)), x).reshape(height, width, 3)


def pixel_grid(height: int, width: int) -> Float[Array, "height width 2"]:
    """The coordinates of pixels in [0, 1): row, then column."""
    rows, columns = (jnp.arange(n, dtype=jnp.float32) / n for n in (height, width))
    return jnp.stack(jnp.meshgrid(rows, columns, indexing="ij"), axis=-1)


def _psnr(squared_error: Float[Array, "..."]) -> Float[Array, ""]:
    return -10 * jnp.log10(jnp.mean(squared_error))


@dataclass(frozen=True)
class ImageSet(TaskSpec):
    """One of the paper's two sets of 16 images; the signal is the number of the image."""

    images: Literal["natural", "text"] = "natural"
    size: int = 512  # smaller for a quick look: every so many pixels of the image are taken
    blocks: int = 16

    def build(self, signal: int) -> ImageRegression:
        image, _ = image_set(self.images, signal)
        stride, rest = divmod(image.shape[0], self.size)
        if rest or self.size % 2 or self.size**2 % self.blocks:
            raise ValueError(f"The size must be even and divide {image.shape[0]}; it is {self.size}. Use 512 or 128.")
        return ImageRegression(jnp.asarray(image[::stride, ::stride]), self.blocks)

    def describe(self) -> str:
        return source(self.images)


_NATURAL = Recipe(
    name="image/natural/none",
    case="image/natural",
    variant="none",
    task=ImageSet("natural"),
    net=MLP(depth=4, width=256, activation="relu"),
    optim=Adam(lr=1e-3, warmup_steps=200),
    rwf=Factorization(mean=2.0, stddev=0.01),
    steps=2_000,
    log_every=100,
    seeds=1,
    signals=tuple(range(16)),
    precision="float32",  # with TF32 some RWF images collapsed late in training that float32 kept
)
_TEXT = replace(
    _NATURAL,
    name="image/text/none",
    case="image/text",
    task=ImageSet("text"),
    rwf=Factorization(mean=1.0, stddev=0.1),
)


def _mapped(recipe: Recipe, variant: str, encoding: EncodingSpec) -> Recipe:
    return replace(recipe, name=f"{recipe.case}/{variant}", variant=variant, encoding=encoding)


# The scales are Tancik's: he tuned them on these images, and the paper took them over.
_ALL = [
    _mapped(_NATURAL, "none", Identity()),
    _mapped(_NATURAL, "positional", Positional(scale=6.0)),
    _mapped(_NATURAL, "gaussian", Gaussian(scale=10.0)),
    _mapped(_TEXT, "none", Identity()),
    _mapped(_TEXT, "positional", Positional(scale=5.0)),
    _mapped(_TEXT, "gaussian", Gaussian(scale=14.0)),
]
RECIPES = {recipe.name: recipe for recipe in _ALL}
QUICK = {
    name: {"task.size": 64, "steps": 200, "log_every": 50, "signals": (0, 1, 2), "optim.warmup_steps": 20}
    for name in RECIPES
}
STUDIES = {
    case: Study(recipes=tuple(n for n in RECIPES if n.startswith(case)), tuned=(f"{case}/gaussian",))
    for case in ("image/natural", "image/text")
}
