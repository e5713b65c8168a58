"""The paper's inverse rendering: a NeRF without hierarchy and view dependence, from views of one scene."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, UInt8

from rwf.accumulate import mean_over_pieces
from rwf.errors import check_only_signal
from rwf.measure import psnr, ssim
from rwf.recipe import MLP, Adam, EncodingSpec, Factorization, Gaussian, NetSpec, Recipe, TaskSpec
from rwf.render import Camera, Radiance, Rays, Sampling, distances, pixel_rays, render_rays, render_view
from rwf.signals.scenes import distance_to_middle, load_scene, source
from rwf.study import Beside, Study
from rwf.tasks.base import Task

# Where the first net is fog, relu may settle on a veil in front of each camera: docs/scenes.md.
_DENSITIES = {"relu": jax.nn.relu, "softplus": lambda x: jax.nn.softplus(x - 1)}


@dataclass(frozen=True)
class SceneViews(TaskSpec):
    """Views of a scene: `lego` (a stand-in without data), `procedural`, or the path of a folder or an NPZ file."""

    shown_by: ClassVar[str] = "rwf turntable RUN"
    memory_only: ClassVar[tuple[str, ...]] = ("block", "pieces")
    later: ClassVar[tuple[str, ...]] = ("density",)

    scene: str = "lego"
    size: int = 400  # the height of the views in pixels; smaller ones are averages
    near: float = 2.0
    far: float = 6.0
    samples: int = 128  # on a ray; stratified in training, the middles of their intervals otherwise
    rays: int = 2_048  # a step, from pixels of all training views
    coordinates: Literal["world", "unit"] = "unit"  # world: x / 2 pi, so a feature is cos(b x); unit: in [0, 1)
    half_side: float = 1.5  # of the cube around the origin that is [0, 1) in unit coordinates
    block: int = 4_000  # rays at a time when a view is rendered
    pieces: int = 1  # a step's rays are taken in so many pieces, one after the other: less memory, the same gradient
    density: Literal["relu", "softplus"] = "relu"  # softplus(x - 1) has learnt from a start with which relu fails

    def __post_init__(self) -> None:
        if not 0 <= self.near < self.far:
            raise ValueError(f"Rays run from near to far, 0 <= near < far; got {self.near} and {self.far}.")
        if min(self.samples, self.rays, self.block, self.pieces) < 1 or self.rays % self.pieces or self.half_side <= 0:
            raise ValueError(
                f"samples {self.samples}, rays {self.rays}, block {self.block} and pieces {self.pieces} must be 1 or "
                f"more, half_side {self.half_side} more than 0, and pieces must divide rays."
            )

    def build(self, signal: int) -> "RadianceField":
        check_only_signal(signal, "A scene")
        scene = load_scene(self.scene, self.size)
        return RadianceField(jnp.asarray(scene.images), jnp.asarray(scene.poses), scene.camera, scene.split, self)

    def describe(self) -> str:
        return source(self.scene)

    def remarks(self, steps: int, net: NetSpec | None = None, encoding: EncodingSpec | None = None) -> list[str]:
        """Rays that end before what the cameras look at, or begin behind it, see nothing of it."""
        scene = load_scene(self.scene, self.size)
        away = distance_to_middle(scene.poses[: scene.split[0]])
        if away is None or self.near < away < self.far:
            return []
        return [
            f"the cameras look at a place {away:.3g} away, and rays are sampled from {self.near:g} to {self.far:g}: "
            "give --task.near and --task.far of this scene"
        ]


class Batch(NamedTuple):
    """Some rays with the distances to sample them at, and the colours that were photographed along them."""

    rays: Rays
    t: Float[Array, "rays samples"]
    colour: Float[Array, "rays 3"]


@final
class RadianceField(Task):
    """Colour and density from a place in space, so that rendered views are the photographed ones, on black."""

    images: UInt8[Array, "*member views height width 4"]
    poses: Float[Array, "*member views 4 4"]
    camera: Camera = eqx.field(static=True)
    split: tuple[int, int] = eqx.field(static=True)
    settings: SceneViews = eqx.field(static=True)

    @property
    def inputs(self) -> int:
        return 3

    @property
    def outputs(self) -> int:
        return 4

    @property
    def sampling(self) -> Sampling:
        """Where rays are sampled, in training and in rendering."""
        return Sampling(self.settings.near, self.settings.far, self.settings.samples)

    @property
    def test_views(self) -> list[int]:
        """The views that the final numbers are about."""
        return list(range(self.split[1], self.images.shape[0]))

    def batch(self, key: PRNGKeyArray, step: Array) -> Batch:
        of_pixels, of_distances = jax.random.split(key)
        shape = (self.split[0], *self.images.shape[1:3])
        pixel = jax.random.randint(of_pixels, (self.settings.rays,), 0, int(np.prod(shape)))
        view, row, column = jnp.unravel_index(pixel, shape)
        rays = pixel_rays(self.camera, self.poses[view], row, column)
        t = distances(self.sampling, self.settings.rays, key=of_distances)
        return Batch(rays, t, on_black(self.images[view, row, column]))

    def losses(self, net: Any, batch: Batch, step: Array) -> dict[str, Array]:
        def error(net: Any, batch: Batch) -> Float[Array, ""]:
            seen = render_rays(self.field(net), batch.rays, batch.t).colour
            return jnp.mean((seen - batch.colour) ** 2)

        return {"mse": mean_over_pieces(error, net, batch, self.settings.pieces)}

    def metrics(self, net: Any) -> dict[str, Array]:
        two = self.test_views[:: max(1, len(self.test_views) // 2)][:2]
        return {f"{name}_two_views": value for name, value in self._quality(net, two).items()}

    @eqx.filter_jit  # compiled once for all members of a run
    def conclude(self, net: Any) -> dict[str, Array]:
        """What the table is about: the means over all test views, once, after the last step."""
        return self._quality(net, self.test_views)

    def view(self, net: Any, pose: Float[Array, "4 4"], camera: Camera | None = None) -> Float[Array, "h w 3"]:
        """The picture that a camera would take of the net, on black; by default the scene's own camera."""
        picture = render_view(self.field(net), camera or self.camera, pose, self.sampling, block=self.settings.block)
        return picture.colour

    @property
    def truth(self) -> Float[Array, "h w 3"]:
        """The first test view, on black: the picture that is kept of a run."""
        return on_black(self.images[self.test_views[0]])

    def render(self, net: Any) -> Float[Array, "h w 3"]:
        """The first test view as the net shows it."""
        return self.view(net, self.poses[self.test_views[0]])

    def field(self, net: Any) -> Radiance:
        """The net as colours and densities in space."""

        def field(points: Float[Array, "points 3"]) -> tuple[Float[Array, "points 3"], Float[Array, " points"]]:
            x = points / (2 * jnp.pi) if self.settings.coordinates == "world" else self._unit(points)
            with jax.default_matmul_precision("highest"):  # a phase of a hundred radians has no bits to lose
                features = net.encode(x)
            values = net.decode(features)
            return jax.nn.sigmoid(values[:, :3]), _DENSITIES[self.settings.density](values[:, 3])

        return field

    def _unit(self, points: Float[Array, "points 3"]) -> Float[Array, "points 3"]:
        return (points / self.settings.half_side + 1) / 2

    def _quality(self, net: Any, views: list[int]) -> dict[str, Array]:
        """Means over views of each view's PSNR and SSIM; one view after the other, so that memory stays small."""

        def of_view(view: Array) -> tuple[Array, Array]:
            seen, truth = self.view(net, self.poses[view]), on_black(self.images[view])
            return psnr(seen, truth), ssim(seen, truth)

        of_views = jax.lax.map(of_view, jnp.asarray(views))
        return dict(zip(("psnr", "ssim"), map(jnp.mean, of_views), strict=True))


def on_black(pixels: UInt8[Array, "*pixels 4"]) -> Float[Array, "*pixels 3"]:
    """Colours with straight alpha in front of black, in [0, 1]."""
    return pixels[..., :3].astype(jnp.float32) * pixels[..., 3:].astype(jnp.float32) / 255**2


_LEGO = Recipe(
    name="nerf/lego",
    case="nerf/lego",
    variant="gaussian",
    task=SceneViews("lego"),
    net=MLP(depth=5, width=256, activation="relu"),
    encoding=Gaussian(scale=10.0),
    optim=Adam(lr=1e-3, decay_rate=0.9, decay_steps=1_000, warmup_steps=5_000),
    rwf=Factorization(mean=1.0, stddev=0.1),
    steps=50_000,
    log_every=2_000,
    seeds=3,
    precision="float16",  # TF32's eleven bits, faster; features are computed in float32 all the same
)
RECIPES = {_LEGO.name: _LEGO}
QUICK = {
    _LEGO.name: {
        "task.size": 40,
        "task.rays": 256,
        "task.samples": 48,
        "task.block": 400,
        "net.width": 64,
        "encoding.frequencies": 64,
        "encoding.scale": 2.0,  # 600 steps do not learn what 40 pixels cannot show
        "steps": 600,
        "log_every": 100,
        "optim.warmup_steps": 60,
        "optim.decay_steps": 100,
        "seeds": 1,
    }
}
STUDIES = {_LEGO.case: Study(recipes=(_LEGO.name,), beside=(Beside(_LEGO.name, faster=True),))}
