"""A pool of points that nobody stores: any piece of it is made anew, the same bits on every device."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int32, UInt32

from rwf.signals.meshes import Mesh

UNIT = 1024  # points that one key makes; a batch is some of these
_GRID = 1 << 23  # coordinates are multiples of 2^-23, which float32 has all of up to 2
_MARGIN = 0.001


def box_of(mesh: Mesh) -> Int32[np.ndarray, "2 3"]:
    """The bounding box of a mesh and 0.001 around it: its low corner and its size, in steps of the pool's grid."""
    low = np.floor((mesh.vertices.min(axis=0) - _MARGIN) * _GRID)
    high = np.ceil((mesh.vertices.max(axis=0) + _MARGIN) * _GRID)
    return np.stack([low, high - low]).astype(np.int32)


def corners(box: Int32[np.ndarray, "2 3"]) -> tuple[Float[np.ndarray, "3"], Float[np.ndarray, "3"]]:
    """The low and the high corner of a box as coordinates."""
    return box[0] / _GRID, (box[0].astype(np.int64) + box[1]) / _GRID


def pool_points(
    box: Int32[np.ndarray, "2 3"] | Int32[Array, "2 3"], first: Any, count: int
) -> Float[Array, "{count} 3"]:
    """Uniform points of a box, from unit `first` on; `first` may be traced, and `count` is a multiple of 1,024.

    All is done in integers until the last, exact, step: a device that fuses a multiplication and an addition rounds
    otherwise than one that does not, and a label must belong to its point wherever it was computed.
    """
    if count % UNIT:
        raise ValueError(f"The pool is made of {UNIT} points at a time; {count} is no multiple of it.")
    return _points(jnp.asarray(box), jnp.asarray(first, jnp.uint32), count // UNIT)


@partial(jax.jit, static_argnums=2)
def _points(box: Int32[Array, "2 3"], first: UInt32[Array, ""], units: int) -> Float[Array, "points 3"]:
    # The generator is named, so that a release of JAX does not change the points under their labels.
    key = jax.random.key(0, impl="threefry2x32")
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, first + jnp.arange(units, dtype=jnp.uint32))
    bits = jax.vmap(lambda k: jax.random.bits(k, (UNIT, 3), jnp.uint32))(keys).reshape(-1, 3)
    steps = box[0][None] + _upper(bits, box[1].astype(jnp.uint32)[None]).astype(jnp.int32)
    return steps.astype(jnp.float32) * (1 / _GRID)


def _upper(a: UInt32[Array, "..."], b: UInt32[Array, "..."]) -> UInt32[Array, "..."]:
    """The upper 32 bits of a product of 64, by halves of 16: a random a in [0, 2^32) gives [0, b)."""
    a_high, a_low, b_high, b_low = a >> 16, a & 0xFFFF, b >> 16, b & 0xFFFF
    middle = a_high * b_low + (a_low * b_low >> 16)
    other = a_low * b_high + (middle & 0xFFFF)
    return a_high * b_high + (middle >> 16) + (other >> 16)
