"""The paper's 2D computed tomography: fit projections of a density, be judged on the density."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32

from rwf.measure import psnr, ssim
from rwf.project import Interpolation, project
from rwf.recipe import MLP, Adam, Factorization, Gaussian, Identity, Positional, Recipe, TaskSpec
from rwf.signals.brain import brain_slice, brain_source
from rwf.signals.phantoms import shepp_logan
from rwf.study import Beside, Study
from rwf.tasks.image import OMEGAS, siren
from rwf.tasks.pixels import Output, PixelTask, every, pixel_grid

PICTURES = 20  # in each of the two sets


@final
class Tomography(PixelTask):
    """A density from coordinates: trained on its projections alone, every pixel in each step; measured on all of it."""

    picture: Float[Array, "*member side side"]
    angles: int = eqx.field(static=True)
    interpolation: Interpolation = eqx.field(static=True)
    output: Output = eqx.field(static=True)
    blocks: int = eqx.field(static=True)

    @property
    def outputs(self) -> int:
        return 1

    def losses(self, net: Any, batch: Float[Array, "pixels features"] | None, step: Array) -> dict[str, Array]:
        density = self.seen_values(net, batch).reshape(self.picture.shape)
        # A projection is linear: that of the difference is the difference of the projections, to less rounding.
        # So nothing but projections of the truth is seen here, though they are never stored.
        error = project(density - self.picture, self.angles, self.interpolation)
        return {"half_mse": 0.5 * jnp.mean(error**2)}

    @property
    def seen_pixels(self) -> Float[Array, "pixels 2"]:
        """All of them, row by row."""
        return pixel_grid(*self.picture.shape[-2:]).reshape(-1, 2)

    @property
    def truth(self) -> Float[Array, "*member side side"]:
        return self.picture

    def metrics(self, net: Any) -> dict[str, Array]:
        density = jnp.clip(self.render(net), 0, 1)
        return {"psnr": psnr(density, self.picture), "ssim": ssim(density, self.picture)}


@dataclass(frozen=True)
class Projections(TaskSpec):
    """Twenty phantoms or brain slices, seen from so many angles; the signal is the number of the picture."""

    shown_by: ClassVar[str] = "rwf picture RUN"
    memory_only: ClassVar[tuple[str, ...]] = ("blocks",)

    pictures: Literal["shepp", "brain"] = "shepp"
    angles: int = 20  # evenly spaced over half a turn
    interpolation: Literal["nearest", "bilinear"] = "nearest"  # of the picture where a ray crosses it
    size: int = 512  # smaller for a quick look: every so many pixels of the picture are taken
    output: Output = "sigmoid"  # what makes density of a net's values
    blocks: int = 16

    def build(self, signal: int) -> Tomography:
        picture = _picture(self.pictures, signal)
        picture = jnp.asarray(every(picture, self.size, self.blocks, least=8))  # SSIM's window is 7 wide
        return Tomography(
            picture=picture,
            angles=self.angles,
            interpolation=self.interpolation,
            output=self.output,
            blocks=self.blocks,
        )

    def describe(self) -> str:
        source = brain_source() if self.pictures == "brain" else "generated: Shepp–Logan phantoms"
        return f"{source}; {self.angles} projections"


def _picture(name: Literal["shepp", "brain"], index: int) -> Float32[np.ndarray, "512 512"]:
    """A slice of the set, or a phantom: of those there are as many as there are seeds, and the first 20 are the set."""
    if name == "shepp":
        return shepp_logan(seed=index)
    if not 0 <= index < PICTURES:
        raise ValueError(f"There are pictures 0 to {PICTURES - 1}; got {index}.")
    return brain_slice(index)


_SHEPP = Recipe(
    name="ct/shepp/none",
    case="ct/shepp",
    variant="none",
    task=Projections("shepp", angles=20),
    net=MLP(depth=4, width=256, activation="relu"),  # the paper's five with the output layer: docs/images-measured.md
    optim=Adam(lr=1e-3, warmup_steps=200),
    rwf=Factorization(mean=1.0, stddev=0.1),
    steps=2_000,
    log_every=100,
    seeds=1,
    signals=tuple(range(PICTURES)),
    precision="float16",  # docs/images-measured.md
)
_BRAIN = replace(_SHEPP, name="ct/brain/none", case="ct/brain", task=Projections("brain", angles=40))


def _deeper(recipe: Recipe) -> Recipe:
    """Five hidden layers, for those who do not count the output layer in the paper's five."""
    return recipe.named(f"{recipe.variant}-five-hidden", net=replace(recipe.net, depth=5))


_ALL = [
    recipe.named(variant, encoding=encoding)
    for recipe in (_SHEPP, _BRAIN)
    for variant, encoding in (
        ("none", Identity()),
        ("positional", Positional(scale=3.0)),
        ("gaussian", Gaussian(scale=3.0)),
    )
]
_ALL += [_deeper(recipe) for recipe in _ALL if recipe.variant == "gaussian"]
# On the first four pictures, in turns: 28 members with all their pixels would fill an accelerator.
_ALL += [replace(siren(recipe), signals=(0, 1, 2, 3), together=14) for recipe in (_SHEPP, _BRAIN)]
RECIPES = {recipe.name: recipe for recipe in _ALL}
QUICK = {
    name: {
        "task.size": 64,
        "task.angles": 10,
        "net.width": 64,
        "steps": 150,
        "log_every": 25,
        "signals": (0, 1),
        "optim.warmup_steps": 20,
        **({"encoding.frequencies": 64} if hasattr(recipe.encoding, "frequencies") else {}),
    }
    for name, recipe in RECIPES.items()
}
STUDIES = {
    case: Study(
        recipes=tuple(f"{case}/{mapping}" for mapping in ("none", "positional", "gaussian")),
        ablations=ablations,
        tuned=(f"{case}/gaussian",),
        beside=(
            Beside(f"{case}/gaussian", faster=True),
            Beside(f"{case}/gaussian-five-hidden", ("plain", "rwf")),
            Beside(f"{case}/siren", grid={"net.omega": OMEGAS}),
        ),
    )
    # Of the brain the paper has no value that a norm could explain.
    for case, ablations in {"ct/shepp": ({"rwf.scales": "norm"},), "ct/brain": ()}.items()
}
