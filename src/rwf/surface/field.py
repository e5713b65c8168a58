"""From a net that says inside or outside to triangles, and to a mesh file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from rwf.errors import missing_extra
from rwf.surface.marching_cubes import Surface, marching_cubes

_BLOCK = 1 << 17  # points at once
FILES = (".ply", ".glb", ".stl", ".obj")


def field_surface(
    net: Callable[[Float[Array, "points 3"]], Float[Array, "points 1"]],
    low: Float[np.ndarray, "3"],
    high: Float[np.ndarray, "3"],
    resolution: int,
) -> Surface:
    """The surface where a net's output changes its sign in a box, by marching cubes.

    The whole grid is computed, block by block: a finer search around a coarse surface would miss what floats alone.

    **Arguments:** `net`, positive inside; `resolution`, nodes along the longest side of the box.
    """
    size = high - low
    counts = np.maximum(2, np.ceil(size / size.max() * (resolution - 1)).astype(int) + 1)
    return marching_cubes(_values(net, low, high, counts), low, high)


def _values(net: Any, low: np.ndarray, high: np.ndarray, counts: np.ndarray) -> Float[np.ndarray, "x y z"]:
    axes = [jnp.linspace(a, b, int(n), dtype=jnp.float32) for a, b, n in zip(low, high, counts, strict=True)]
    total = int(np.prod(counts))
    blocks = [np.asarray(_block(net, axes, jnp.int32(start))) for start in range(0, total, _BLOCK)]
    return np.concatenate(blocks)[:total].reshape(*counts)


@eqx.filter_jit
def _block(net: Any, axes: list[Float[Array, "_"]], start: Array) -> Float[Array, " points"]:
    """The values at some nodes of the grid; compiled once for all nets of a shape."""
    counts = tuple(len(axis) for axis in axes)
    index = jnp.minimum(start + jnp.arange(_BLOCK), int(np.prod(counts)) - 1)
    nodes = jnp.unravel_index(index, counts)
    return net(jnp.stack([axis[i] for axis, i in zip(axes, nodes, strict=True)], axis=-1))[:, 0]


def check_surface_file(path: str | Path) -> Path:
    """Refuses a name that ends in no format of meshes, and a machine without trimesh: before the work, not after it."""
    try:
        import trimesh  # noqa: F401
    except ImportError:
        raise missing_extra("trimesh", "mesh", "Writing a mesh") from None
    path = Path(path)
    if path.suffix.lower() not in FILES:
        raise ValueError(f"A mesh is written as {', '.join(FILES)}; {path.name} ends in none of them.")
    return path


def write_surface(path: str | Path, surface: Surface) -> Path:
    """Writes a surface to a PLY, GLB, STL or OBJ file, as its name ends."""
    path = check_surface_file(path)
    import trimesh

    path.parent.mkdir(parents=True, exist_ok=True)
    trimesh.Trimesh(surface.vertices, surface.faces, process=False).export(path)
    return path
