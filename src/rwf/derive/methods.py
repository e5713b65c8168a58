"""Two ways to the same derivatives: carried through a net layer by layer, or by jvp of jvp through any function."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from rwf.derive.jet import Bundle, Jet, Row
from rwf.derive.wanted import Wanted

Vectors = Float[Array, "*points inputs"]
Directions = Sequence[Vectors]


def seed(
    points: Float[Array, "*points inputs"], wanted: Wanted, directions: Directions = (), drift: Vectors | None = None
) -> Jet:
    """The coordinates as a Jet: each is differentiated by itself, and has no second derivative.

    **Arguments:** `directions`: vectors at the points, numbered after the coordinates: of two coordinates, `by(2)` is
    the derivative along the first direction. One row is carried for it, and not one for each of its components;
    `drift`: a direction whose first derivative is added to the Laplacian, in the same row: with directions of the
    length sqrt(a) and a drift of -d/dt, the Laplacian's row is a u_xx - u_t.

    >>> along = seed(jnp.array([[2.0, 3.0]]), Wanted(first=(2,)), (jnp.array([[1.0, 10.0]]),))
    >>> float((along[..., 0:1] * along[..., 1:2]).by(2)[0, 0])  # of x y: y + 10 x
    23.0
    """
    tangents = _tangents(points, wanted, directions)
    first = tuple(tangents(axis) for axis in wanted.first)
    return Jet(points, first, (None,) * len(wanted.second), drift, wanted)


def forward(net: Callable[[Any], Any], points: Float[Array, "*points inputs"], wanted: Wanted) -> Jet:
    """The values of a net at some points with the derivatives that are wanted, carried forward layer by layer.

    **Arguments:** `net`: materialized, and written with `elementwise` and `concat`, as all of `rwf.nets` are.

    >>> jet = forward(lambda x: x[..., 0:1] * x[..., 1:2], jnp.array([[2.0, 3.0]]), Wanted(first=(0,)))
    >>> float(jet.value[0, 0]), float(jet.by(0)[0, 0])
    (6.0, 3.0)
    """
    return net(seed(points, wanted))


def by_jvp(
    net: Callable[[Any], Any],
    points: Float[Array, "*points inputs"],
    wanted: Wanted,
    directions: Directions = (),
    drift: Vectors | None = None,
) -> Jet:
    """The same for anybody's net, from an array of points to an array of values, by jvp of jvp."""
    tangents = _tangents(points, wanted, directions)

    def slope(axis: int) -> Callable[[Any], Row]:
        return lambda x: jax.jvp(net, (x,), (tangents(axis),))[1]

    def bend(i: int, j: int) -> Row:
        return jax.jvp(slope(i), (points,), (tangents(j),))[1]

    first = tuple(slope(axis)(points) for axis in wanted.first)
    second = tuple(bend(i, j) for i, j in wanted.second)
    bends = [bend(axis, axis) for axis in wanted.laplacian]
    if drift is not None:
        bends.append(jax.jvp(net, (points,), (drift,))[1])
    return Jet(net(points), first, second, sum(bends[1:], bends[0]) if bends else None, wanted)


def known(function: Callable[[Any], Any], points: Any) -> Any:
    """A known function of the coordinates beside a net: values of an array, derivatives of a Jet or Bundle of `seed`.

    >>> jet = known(lambda x: jnp.sin(x), seed(jnp.zeros((1, 1)), Wanted(first=(0,))))
    >>> float(jet.by(0)[0, 0])
    1.0
    """
    if isinstance(points, Bundle):
        return Bundle(tuple(known(function, jet) for jet in points.jets))
    if not isinstance(points, Jet):
        return function(points)
    own = sum(axis < points.shape[-1] for axis in points.wanted.first)  # directions come after the coordinates
    return by_jvp(function, points.value, points.wanted, points.first[own:], points.laplace)


def _tangents(
    points: Float[Array, "*points inputs"], wanted: Wanted, directions: Directions
) -> Callable[[int], Float[Array, "*points inputs"]]:
    """The vector at every point that belongs to a number: of a coordinate, or of a direction after them."""
    inputs = points.shape[-1]
    known = inputs + len(directions)
    if wanted.first and wanted.first[-1] >= known:
        raise ValueError(
            f"A derivative by coordinate {wanted.first[-1]} was wanted of points with {inputs} coordinates"
            f"{f' and {len(directions)} directions' if directions else ''}; they are counted from 0 to {known - 1}."
        )
    units = np.eye(inputs)
    return lambda axis: (
        jnp.broadcast_to(jnp.asarray(units[axis], points.dtype), points.shape)
        if axis < inputs
        else directions[axis - inputs]
    )
