"""Parallel projections of a picture, as in computed tomography, and their exact transpose.

For each angle the pixel grid is rotated about its centre, the picture is sampled there, zero outside, and the mean
is taken along the rays. Positions are integers with a binary point: the same samples on every machine, and nothing
to store, because the compiler computes them where they are used. The transpose is no scatter (on a GPU that is slow,
or its sums come in any order) but asks, for each pixel, which samples can have read it: so it is a gather too.
"""

import functools
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num

from rwf.errors import choose

Interpolation = Literal["nearest", "bilinear"]

_BITS = 20  # behind the binary point: in a picture of 512 pixels no sample is off by more than 0.0002 pixels
_ONE = 1 << _BITS
MAX_SIDE = 2048  # beyond it the integers would overflow


class _Kernel(NamedTuple):
    """How a sample reads pixels, along each axis."""

    lift: int  # what is added before the bits behind the binary point are cut off, to find the first pixel
    pixels: int  # how many are read, from the first
    reach: int  # how many samples beyond the nearest two can have read a pixel, to each side


_KERNELS = {"nearest": _Kernel(_ONE // 2, 1, 0), "bilinear": _Kernel(0, 2, 1)}


def project(
    picture: Float[Array, "side side"], angles: int, interpolation: Interpolation = "nearest"
) -> Float[Array, "angles side"]:
    """Means along parallel rays at evenly spaced angles of the half turn: linspace(0, π, angles + 1)[:-1].

    Linear and differentiable. **Arguments:** `picture`, rows and columns; `angles`, how many; `interpolation`, how
    the picture is read between its pixels: nearest (Tancik's and the paper's) or bilinear.
    """
    _check(picture.shape, angles, interpolation)
    return _project(picture, angles, interpolation)  # pyright: ignore[reportReturnType]


def back_project(
    rays: Float[Array, "angles side"], interpolation: Interpolation = "nearest"
) -> Float[Array, "side side"]:
    """The transpose of `project`: each pixel sums the rays that read it, as often as they did."""
    angles, side = rays.shape
    _check((side, side), angles, interpolation)
    reach = _KERNELS[interpolation].reach
    p, q = _offsets(side)  # of pixels, in the picture
    sine, cosine = _turns(angles)
    # where a sample that reads exactly this pixel would lie in the rotated grid; those that can read it lie around
    above, left = (cosine * p - sine * q) >> _BITS, (sine * p + cosine * q) >> _BITS
    steps = range(-reach, reach + 2)
    total = jnp.zeros((), rays.dtype)
    for right in steps:
        x = left + right
        weight = jnp.zeros((), rays.dtype)
        for down in steps:
            y = above + down
            row, column = sine * x + cosine * y - p * _ONE, cosine * x - sine * y - q * _ONE
            read = _weight(row, interpolation) * _weight(column, interpolation)
            weight += jnp.where(_within(y + side // 2, side), read, 0).astype(rays.dtype)
        inside = _within(x + side // 2, side)
        index = jnp.clip(x + side // 2, 0, side - 1) + side * jnp.arange(angles)[:, None, None]
        values = rays.reshape(-1).at[index].get(mode="promise_in_bounds")
        total += jnp.where(inside, weight * values, 0)
    return total.sum(axis=0) / side


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _project(picture: Array, angles: int, interpolation: Interpolation) -> Array:
    kernel = _KERNELS[interpolation]
    side = picture.shape[0]
    y, x = _offsets(side)
    sine, cosine = _turns(angles)
    row, column = sine * x + cosine * y, cosine * x - sine * y
    sampled = jnp.zeros((), picture.dtype)
    for down in range(kernel.pixels):
        for right in range(kernel.pixels):
            i, j = (((at + kernel.lift) >> _BITS) + step for at, step in ((row, down), (column, right)))
            weight = _weight(row - i * _ONE, interpolation) * _weight(column - j * _ONE, interpolation)
            inside = _within(i + side // 2, side) & _within(j + side // 2, side)
            read = jnp.clip((i + side // 2) * side + j + side // 2, 0, side * side - 1)
            values = picture.reshape(-1).at[read].get(mode="promise_in_bounds")
            sampled += jnp.where(inside, weight.astype(picture.dtype) * values, 0)
    return sampled.mean(axis=1)


def _forward(picture: Array, angles: int, interpolation: Interpolation) -> tuple[Array, None]:
    return _project(picture, angles, interpolation), None


def _backward(angles: int, interpolation: Interpolation, _: None, rays: Array) -> tuple[Array]:
    return (back_project(rays, interpolation),)


_project.defvjp(_forward, _backward)


def _offsets(side: int) -> tuple[Int[Array, "side 1"], Int[Array, "1 side"]]:
    """Rows and columns, counted from the centre of the picture."""
    offsets = jnp.arange(side, dtype=jnp.int32) - side // 2
    return offsets[:, None], offsets[None, :]


def _turns(angles: int) -> tuple[Int[Array, "angles 1 1"], Int[Array, "angles 1 1"]]:
    """Sines and cosines of the angles, as integers with a binary point."""
    theta = np.linspace(0, np.pi, angles + 1)[:-1, None, None]
    sine, cosine = (jnp.asarray(np.rint(f(theta) * _ONE), jnp.int32) for f in (np.sin, np.cos))
    return sine, cosine


def _weight(distance: Int[Array, "..."], interpolation: Interpolation) -> Num[Array, "..."]:
    """How much a sample reads of a pixel that lies so far off along one axis."""
    if interpolation == "nearest":
        return ((distance >= -_ONE // 2) & (distance < _ONE // 2)).astype(jnp.int32)
    return jnp.maximum(0, 1 - jnp.abs(distance).astype(jnp.float32) / _ONE)


def _within(index: Int[Array, "..."], side: int) -> Array:
    return (index >= 0) & (index < side)


def _check(shape: tuple[int, ...], angles: int, interpolation: str) -> None:
    if len(shape) != 2 or shape[0] != shape[1] or not 1 <= shape[0] <= MAX_SIDE:
        raise ValueError(f"Projections are of square pictures with a side of 1 to {MAX_SIDE} pixels; got {shape}.")
    if angles < 1:
        raise ValueError(f"There must be 1 angle or more; got {angles}.")
    choose(interpolation, _KERNELS, "interpolation")
