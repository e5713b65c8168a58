"""Volume rendering: rays from poses, samples along them, and the colour that comes back along a ray.

Poses are camera to world, as Blender and NeRF have them: the camera looks along -z, with y up. A field is any
function from points to colours and densities.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

Radiance = Callable[[Float[Array, "points 3"]], tuple[Float[Array, "points 3"], Float[Array, " points"]]]

_BEYOND = 1e10  # the last interval of a ray: whatever is dense there ends the ray


@dataclass(frozen=True)
class Camera:
    """A pinhole camera: the size of its pictures and its focal length, all in pixels."""

    height: int
    width: int
    focal: float

    def resized(self, height: int) -> "Camera":
        """The same camera with pictures of another size."""
        share = height / self.height
        return Camera(height, round(self.width * share), self.focal * share)


@dataclass(frozen=True)
class Sampling:
    """Where a ray is sampled: so many intervals of one length between two distances from the camera."""

    near: float
    far: float
    samples: int


class Rays(NamedTuple):
    """Where rays start, and their directions of length 1."""

    origins: Float[Array, "rays 3"]
    directions: Float[Array, "rays 3"]


class Picture(NamedTuple):
    """Colour on black, and how much of the background is hidden."""

    colour: Float[Array, "*pixels 3"]
    opacity: Float[Array, "*pixels"]


def pixel_rays(
    camera: Camera, poses: Float[Array, "rays 4 4"], row: Int[Array, " rays"], column: Int[Array, " rays"]
) -> Rays:
    """The rays through the centres of some pixels, each with its own pose."""
    x = (column + 0.5 - camera.width / 2) / camera.focal
    y = (camera.height / 2 - row - 0.5) / camera.focal
    # three products and a sum, not a matrix product: those may be rounded to TF32, which is pixels wide
    rotation = poses[:, :3, :3]
    directions = rotation[..., 0] * x[:, None] + rotation[..., 1] * y[:, None] - rotation[..., 2]
    return Rays(poses[:, :3, 3], directions / jnp.linalg.norm(directions, axis=-1, keepdims=True))


def distances(
    sampling: Sampling, rays: int, *, key: PRNGKeyArray | None = None
) -> Float[Array, "{rays} {sampling.samples}"]:
    """Distances along each ray, one in each interval: anywhere in it with a key (stratified), else its middle."""
    shape = (rays, sampling.samples)
    within = jnp.full(shape, 0.5) if key is None else jax.random.uniform(key, shape)
    share = (jnp.arange(sampling.samples) + within) / sampling.samples
    return sampling.near + (sampling.far - sampling.near) * share


def composite(
    colour: Float[Array, "*rays samples 3"],
    density: Float[Array, "*rays samples"],
    t: Float[Array, "*rays samples"],
) -> Picture:
    """What a camera sees of samples at distances `t`: each hides a part of what is behind it."""
    beyond = jnp.full((*t.shape[:-1], 1), _BEYOND, t.dtype)
    depth = density * jnp.concatenate([jnp.diff(t, axis=-1), beyond], axis=-1)
    # summed without the last, whose length would swallow all the others in float32
    before = jnp.cumsum(depth[..., :-1], axis=-1)
    before = jnp.concatenate([jnp.zeros_like(before[..., :1]), before], axis=-1)
    weight = -jnp.exp(-before) * jnp.expm1(-depth)
    return Picture(jnp.sum(weight[..., None] * colour, axis=-2), jnp.sum(weight, axis=-1))


def render_rays(field: Radiance, rays: Rays, t: Float[Array, "rays samples"]) -> Picture:
    """The colours of some rays; all their samples go through the field at once."""
    points = rays.origins[:, None] + rays.directions[:, None] * t[..., None]
    colour, density = field(points.reshape(-1, 3))
    return composite(colour.reshape(*t.shape, 3), density.reshape(t.shape), t)


def render_view(
    field: Radiance, camera: Camera, pose: Float[Array, "4 4"], sampling: Sampling, *, block: int
) -> Picture:
    """A whole picture, `block` rays at a time, so that memory does not grow with its size."""
    pixels = camera.height * camera.width
    block = min(block, pixels)

    def render(first: Int[Array, ""]) -> Picture:
        pixel = jnp.minimum(first + jnp.arange(block), pixels - 1)  # the last block repeats the last pixel
        row, column = pixel // camera.width, pixel % camera.width
        rays = pixel_rays(camera, jnp.broadcast_to(pose, (block, 4, 4)), row, column)
        return render_rays(field, rays, distances(sampling, block))

    blocks = jax.lax.map(render, jnp.arange(0, pixels, block))
    return jax.tree.map(lambda x: _picture(x, camera), blocks)


def _picture(blocks: Float[Array, "blocks rays *channels"], camera: Camera) -> Float[Array, "..."]:
    pixels = blocks.reshape(-1, *blocks.shape[2:])[: camera.height * camera.width]
    return pixels.reshape(camera.height, camera.width, *blocks.shape[2:])


def look_at(position: Any) -> Float[np.ndarray, "4 4"]:
    """The pose of a camera at a position that looks at the origin, with z upwards.

    >>> look_at([0.0, -4.0, 0.0])[:3, 2].tolist()  # it looks along minus this
    [0.0, -1.0, 0.0]
    """
    position = np.asarray(position, np.float64)
    distance = np.linalg.norm(position)
    if not np.isfinite(distance) or distance == 0 or np.hypot(*position[:2]) < 1e-6 * distance:
        raise ValueError(f"A camera at {position.tolist()} cannot look at the origin with z upwards: move it aside.")
    back = position / distance
    right = np.cross([0.0, 0.0, 1.0], back)
    right /= np.linalg.norm(right)
    pose = np.eye(4)
    pose[:3] = np.stack([right, np.cross(back, right), back, position], axis=1)
    return pose.astype(np.float32)


def orbit(frames: int, *, radius: float, elevation: float) -> Float[np.ndarray, "{frames} 4 4"]:
    """Poses on a circle around the z axis that look at the origin; the elevation is in degrees."""
    angles, up = 2 * np.pi * np.arange(frames) / frames, np.deg2rad(elevation)
    return np.stack([look_at(radius * sphere_point(angle, up)) for angle in angles])


def sphere_point(azimuth: float, elevation: float) -> Float[np.ndarray, "3"]:
    """A point of the unit sphere; the angles are in radians."""
    flat = np.cos(elevation)
    return np.array([flat * np.cos(azimuth), flat * np.sin(azimuth), np.sin(elevation)])
