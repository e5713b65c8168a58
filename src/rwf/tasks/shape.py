"""The paper's 3D shapes: is a point inside a mesh? Trained all over its box, judged near its surface."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int32, PRNGKeyArray, UInt8

from rwf.errors import check_only_signal
from rwf.recipe import (
    MLP,
    Adam,
    Affine,
    EncodingSpec,
    Factorization,
    Gaussian,
    Identity,
    NetSpec,
    Positional,
    Recipe,
    TaskSpec,
)
from rwf.signals.occupancy import mesh_picture, pool_bits, surroundings
from rwf.signals.pool import UNIT, corners, pool_points
from rwf.signals.shapes import find_shape, source
from rwf.study import Beside, Study
from rwf.surface import Samples, Surface, distance, field_surface, portrait, sample_surface
from rwf.tasks.base import Task


class Batch(NamedTuple):
    """Points of the box, and whether each is inside."""

    points: Float[Array, "points 3"]
    inside: Bool[Array, " points"]


@final
class Occupancy(Task):
    """Inside or outside, by the sign of the net's output, its logit.

    The points of the pool are made on the device, from a key; their labels, a bit each, were computed before.
    """

    bits: UInt8[Array, "*member bytes"]
    box: Int32[Array, "*member 2 3"]
    near: Float[Array, "*member blocks points 3"]
    inside: Bool[Array, "*member blocks points"]
    true_surface: Float[Array, "*member samples 2 3"]
    spacing: Float[Array, "*member"]
    picture: UInt8[Array, "*member height width 3"]
    size: int = eqx.field(static=True)
    grid: int = eqx.field(static=True)

    drawn_on_host: ClassVar[bool] = True  # by marching cubes and columns, which are NumPy's

    @property
    def inputs(self) -> int:
        return 3

    @property
    def outputs(self) -> int:
        return 1

    def batch(self, key: PRNGKeyArray, step: Array) -> Batch:
        """The next points of the pool, each of which comes once before any comes again."""
        block = step % (8 * self.bits.shape[0] // self.size)
        points = pool_points(self.box, block * (self.size // UNIT), self.size)
        packed = jax.lax.dynamic_slice_in_dim(self.bits, block * (self.size // 8), self.size // 8)
        return Batch(points, jnp.unpackbits(packed).astype(bool))

    def losses(self, net: Any, batch: Batch, step: Array) -> dict[str, Array]:
        logit = net(batch.points)[:, 0]
        return {"cross_entropy": jnp.mean(jax.nn.softplus(logit) - jnp.where(batch.inside, logit, 0))}

    def metrics(self, net: Any) -> dict[str, Array]:
        def counts(block: tuple[Array, Array]) -> tuple[Array, Array]:
            said, true = net(block[0])[:, 0] > 0, block[1]
            return jnp.sum(said & true), jnp.sum(said | true)

        both, either = jax.lax.map(counts, (self.near, self.inside))
        return {"iou": both.sum() / jnp.maximum(either.sum(), 1)}

    def conclude(self, net: Any) -> dict[str, Array]:
        """Distance and normals of the surface that was learnt, in units of the cube; NaN where there is none."""
        faces = self.surface(net).triangles
        if not len(faces):
            return {"chamfer": jnp.array(jnp.nan), "normal_consistency": jnp.array(jnp.nan)}
        points, normals = np.moveaxis(np.asarray(self.true_surface, np.float64), 1, 0)
        truth = Samples(points, normals, float(self.spacing))
        found = distance(sample_surface(faces, len(points), np.random.default_rng(0)), truth)
        return {"chamfer": jnp.array(found.chamfer), "normal_consistency": jnp.array(found.normals)}

    def surface(self, net: Any, resolution: int | None = None) -> Surface:
        """The surface that a net has learnt, by marching cubes; `resolution` nodes along the longest side."""
        low, high = corners(np.asarray(self.box))
        return field_surface(net, low, high, resolution or self.grid)

    @property
    def truth(self) -> Float[Array, "height width 3"]:
        """A picture of the mesh: all of it, and its top from near."""
        return self.picture / jnp.float32(255)

    def render(self, net: Any, resolution: int | None = None) -> Float[Array, "height width 3"]:
        """The same picture of what a net has learnt; it takes seconds, on the host."""
        low, high = corners(np.asarray(self.box))
        triangles = self.surface(net, resolution).triangles
        picture = portrait(triangles, low, high, np.asarray(self.true_surface[:, 0]), size=self.picture.shape[0])
        return jnp.asarray(picture, jnp.float32)


@dataclass(frozen=True)
class MeshOccupancy(TaskSpec):
    """A mesh to be learnt."""

    shown_by: ClassVar[str] = "rwf surface RUN"

    mesh: str = "dragon"  # dragon, armadillo, knot, gyroid, or a mesh file of your own
    pool: int = 81_920_000  # distinct training points, as many as 10,000 steps take; their labels are kept
    batch: int = 8_192
    near: int = 1 << 18  # test points near the surface
    block: int = 1 << 16  # test points at once
    grid: int = 256  # nodes along the longest side, for the surface whose distance is measured
    samples: int = 1 << 17  # points of a surface that distances are measured from
    pixels: int = 400  # the height of a picture

    def __post_init__(self) -> None:
        if self.batch < 1 or self.batch % UNIT or self.pool < 1 or self.pool % self.batch:
            raise ValueError(
                f"The batch must be a multiple of {UNIT}, and the pool of the batch; they are {self.batch} and "
                f"{self.pool}. Use --task.batch 8192 --task.pool 81920000."
            )
        if min(self.near, self.block, self.samples, self.pixels) < 1 or self.grid < 2:
            raise ValueError(
                f"near {self.near}, block {self.block}, samples {self.samples} and pixels {self.pixels} must be 1 or "
                f"more, and grid {self.grid} 2 or more."
            )
        if self.near % min(self.block, self.near):
            raise ValueError(f"{self.block} test points at once do not divide {self.near}. Use powers of two.")

    def build(self, signal: int) -> Occupancy:
        check_only_signal(signal, "A mesh")
        found = find_shape(self.mesh)
        around = surroundings(found, near=self.near, samples=self.samples)
        blocks = self.near // min(self.block, self.near)
        return Occupancy(
            bits=jnp.asarray(pool_bits(found, pool=self.pool)),
            box=jnp.asarray(around.box),
            near=jnp.asarray(around.near.reshape(blocks, -1, 3)),
            inside=jnp.asarray(around.inside.reshape(blocks, -1)),
            true_surface=jnp.asarray(around.surface),
            spacing=jnp.asarray(around.spacing, jnp.float32),
            picture=jnp.asarray(mesh_picture(found, around, self.pixels)),
            size=self.batch,
            grid=self.grid,
        )

    def describe(self) -> str:
        return source(self.mesh)

    def remarks(self, steps: int, net: NetSpec | None = None, encoding: EncodingSpec | None = None) -> list[str]:
        """Points that come again teach less than new ones: docs/shapes.md has how much."""
        if steps * self.batch <= self.pool:
            return []
        return [
            f"{steps:,} steps take {steps * self.batch:,} points and the pool has {self.pool:,}: each comes "
            f"{steps * self.batch / self.pool:.1f} times, which costs accuracy (--task.pool {steps * self.batch})"
        ]


_DRAGON = Recipe(
    name="shape/dragon/none",
    case="shape/dragon",
    variant="none",
    task=MeshOccupancy("dragon"),
    net=MLP(depth=8, width=256, activation="relu"),
    optim=Adam(lr=5e-4, decay_rate=0.1, decay_steps=5_000, warmup_steps=1_000),
    rwf=Factorization(mean=1.0, stddev=0.1),
    steps=10_000,
    log_every=250,
    seeds=3,
    precision="float16",  # as good as three passes of TF32 here, in a quarter of the time: docs/shapes.md
)
_ARMADILLO = replace(_DRAGON, name="shape/armadillo/none", case="shape/armadillo", task=MeshOccupancy("armadillo"))

# The scales are Tancik's for meshes, and so is what is done to the features: Fourier features are divided by 16,
# the norm of 256 pairs of cosine and sine; without a mapping, coordinates go from [0, 1] to [-1, 1].
_MAPPINGS = {
    "none": Affine(Identity(), factor=2.0, offset=-1.0),
    "positional": Affine(Positional(scale=6.0), factor=1 / 16),
    "gaussian": Affine(Gaussian(scale=12.0), factor=1 / 16),
}


_CASES = {recipe.case: recipe for recipe in (_DRAGON, _ARMADILLO)}
_ALL = [recipe.named(name, encoding=encoding) for recipe in _CASES.values() for name, encoding in _MAPPINGS.items()]

# Pools whose points come again, 4.9, 2.4 and 1.2 times in 10,000 steps: how many distinct points does a shape need?
_POOLS = [
    replace(
        _DRAGON.named("gaussian", encoding=_MAPPINGS["gaussian"]),
        name=f"shape/dragon/gaussian-pool-{millions}m",
        variant=f"gaussian+pool of {millions}m",
        task=MeshOccupancy("dragon", pool=pool),
    )
    for millions, pool in ((16, 1 << 24), (33, 1 << 25), (67, 1 << 26))
]
RECIPES = {recipe.name: recipe for recipe in [*_ALL, *_POOLS]}
QUICK = {
    name: {
        "task.pool": 307_200,
        "task.batch": 1_024,
        "task.near": 1 << 13,
        "task.grid": 48,
        "task.samples": 1 << 14,
        "task.pixels": 200,
        "net.depth": 4,
        "net.width": 64,
        "steps": 300,
        "log_every": 60,
        "seeds": 2,
        "optim.lr": 5e-3,
        "optim.warmup_steps": 30,
        "optim.decay_steps": 150,
    }
    for name in RECIPES
}
# Half the features, and frequencies that 300 steps can learn: with the recipe's the nets learn no surface at all.
QUICK |= {
    name: QUICK[name]
    | {
        "encoding.of.frequencies": 128,
        "encoding.of.scale": 3.0 if recipe.variant == "positional" else 4.0,
        "encoding.factor": float(f"{128**-0.5:.4g}"),
    }
    for name, recipe in RECIPES.items()
    if recipe.variant != "none"
}
QUICK |= {
    recipe.name: QUICK[recipe.name] | {"task.pool": pool}
    for recipe, pool in zip(_POOLS, (1 << 16, 1 << 17, 1 << 18), strict=True)
}


STUDIES = {
    case: Study(
        recipes=tuple(f"{case}/{mapping}" for mapping in _MAPPINGS),
        beside=tuple(Beside(f"{case}/{mapping}", faster=True) for mapping in _MAPPINGS) + others,
    )
    for case, others in {
        "shape/dragon": tuple(Beside(recipe.name, ("plain", "rwf")) for recipe in _POOLS),
        "shape/armadillo": (),
    }.items()
}
