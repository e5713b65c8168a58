"""A small scene of our own, for where there is no data: solids on a plate, rendered by our own ray marcher.

Its views are made as the task renders its field, from colours and densities in closed form; so a net could be right.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from rwf.render import Camera, Picture, Sampling, look_at, render_view, sphere_point
from rwf.signals.scenes import Scene

TRAIN, VALIDATION, TEST = 100, 7, 13
RADIUS = 4.0  # of the sphere that the cameras are on: the scene fits into near 2 and far 6
_ANGLE = 0.6911  # of the camera, in radians
_SAMPLING = Sampling(near=2.4, far=5.6, samples=192)  # all solids lie within 1.6 of the origin
_DENSITY, _SOFTNESS = 100.0, 0.008  # inside, and how thick the surface is
_LIGHT = np.array([0.48, -0.6, 0.64], np.float32)  # of length 1
_BLOCK = 4096
_DIAGONAL = np.float32(np.sqrt(2))
_PAINTS = ((0.75, 0.8, 0.9), (0.95, 0.3, 0.2), (0.95, 0.75, 0.15), (0.3, 0.75, 0.4))  # plate, ball, ring, tower

_Axis = Float[Array, " points"]


def procedural_scene(size: int) -> Scene:
    """The scene as 120 views of `size` × `size` pixels: 100 to train on, 7 for validation, 13 to test on."""
    if size < 8:
        raise ValueError(f"A view needs 8 pixels or more a side; got {size}.")
    rng = np.random.default_rng(0)
    poses = np.stack([_camera_pose(rng) for _ in range(TRAIN + VALIDATION + TEST)])
    camera = Camera(size, size, size / 2 / np.tan(_ANGLE / 2))
    view = jax.jit(lambda pose: _as_bytes(render_view(radiance, camera, pose, _SAMPLING, block=_BLOCK)))
    images = np.stack([np.asarray(view(pose)) for pose in poses])
    return Scene(images, poses, camera.focal, (TRAIN, TRAIN + VALIDATION))


def radiance(points: Float[Array, "points 3"]) -> tuple[Float[Array, "points 3"], Float[Array, " points"]]:
    """The colour and the density at some points: what a net is to find out from the views."""
    x, y, z = points[:, 0], points[:, 1], points[:, 2] - 0.2  # by axis: a CPU is ten times slower on rows of three

    def distance(*at: _Axis) -> tuple[Array, list[_Axis]]:
        solids = _solids(*at)
        return jnp.sum(_nearest(solids)), solids

    slope, solids = jax.grad(distance, argnums=(0, 1, 2), has_aux=True)(x, y, z)
    nearest = _nearest(solids)
    # the light does not depend on the view, as in the paper's simplified NeRF
    lit = 0.3 + 0.7 * jnp.maximum(sum(light * part for light, part in zip(_LIGHT, slope, strict=True)), 0.0)
    checks = jnp.where((jnp.floor(4 * x) + jnp.floor(4 * y)) % 2 == 0, 1.0, 0.25)
    stripes = jnp.where(jnp.sin(25 * z) > 0, 1.0, 0.35)
    which = [solid == nearest for solid in solids]
    shade = lit * jnp.select(which, (checks, stripes, jnp.ones_like(x), stripes))
    colour = [shade * jnp.select(which, channel) for channel in zip(*_PAINTS, strict=True)]
    return jnp.stack(colour, axis=-1), _DENSITY * jax.nn.sigmoid(-nearest / _SOFTNESS)


def _solids(x: _Axis, y: _Axis, z: _Axis) -> list[_Axis]:
    """How far it is to the plate, the ball, the ring and the tower; negative inside."""
    plate = _box(x, y, z + 0.72, (1.05, 1.05, 0.06))
    ball = _length(x + 0.45, y - 0.4, z + 0.24) - 0.42
    ring = _length(_length(y - 0.35, z + 0.16) - 0.36, x - 0.45) - 0.13
    tower = _box((x + y - 0.6) / _DIAGONAL, (y - x + 1.3) / _DIAGONAL, z + 0.21, (0.24, 0.24, 0.45))
    return [plate, ball, ring, tower]


def _nearest(solids: list[_Axis]) -> _Axis:
    return functools.reduce(jnp.minimum, solids)


def _box(x: _Axis, y: _Axis, z: _Axis, half: tuple[float, float, float]) -> _Axis:
    beyond = [jnp.abs(part) - side for part, side in zip((x, y, z), half, strict=True)]
    inside = jnp.minimum(functools.reduce(jnp.maximum, beyond), 0.0)
    return _length(*[jnp.maximum(part, 0.0) for part in beyond]) + inside


def _length(*parts: _Axis) -> _Axis:
    """The small number keeps the slope of the root finite at zero."""
    return jnp.sqrt(sum((part**2 for part in parts), jnp.float32(1e-12)))


def _camera_pose(rng: np.random.Generator) -> Float[np.ndarray, "4 4"]:
    """Anywhere on the upper half of the sphere, but not straight above."""
    return look_at(RADIUS * sphere_point(rng.uniform(0, 2 * np.pi), np.arcsin(rng.uniform(0.05, 0.95))))


def _as_bytes(picture: Picture) -> Array:
    """RGBA with straight alpha, as the files of scenes have it."""
    alpha = jnp.clip(picture.opacity, 0.0, 1.0)[..., None]
    straight = jnp.where(alpha > 0, picture.colour / jnp.maximum(alpha, 1e-6), 0.0)
    return jnp.rint(255 * jnp.clip(jnp.concatenate([straight, alpha], axis=-1), 0.0, 1.0)).astype(jnp.uint8)
