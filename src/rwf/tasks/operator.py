"""What tasks that learn operators share: functions held out for the test, and regression on functions and points."""

import math
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from rwf.nets.blocks import in_blocks
from rwf.spec import digest
from rwf.tasks.base import Task

_EVEN = 0.1  # of a step between points: what a grid may be uneven by, to be drawn as a picture


@final
class Holdout(eqx.Module):
    """Functions that training never sees, with their true solutions.

    **Arguments:** `a` (functions, *sensors); `y` (points, coordinates), or one such set a function; `u` (functions,
    points); `grid` and `axes`: the points as a picture, rows and columns, and what these are called; `block`: so
    many functions are evaluated at a time, all where it is 0: that bounds the memory.
    """

    a: Float[Array, "functions ..."]
    y: Float[Array, "... coordinates"]
    u: Float[Array, "functions points"]
    grid: tuple[int, ...] = eqx.field(static=True, default=())
    axes: tuple[str, ...] = eqx.field(static=True, default=())
    block: int = eqx.field(static=True, default=0)

    def predict(self, net: Any) -> Float[Array, "functions points"]:
        """What a net makes of all the functions."""
        return in_blocks(net, self.a, self.y, self.block or len(self.a))

    def errors(self, net: Any) -> Float[Array, " functions"]:
        """The relative L2 error of each function."""
        return jnp.linalg.norm(self.predict(net) - self.u, axis=1) / jnp.linalg.norm(self.u, axis=1)

    def metrics(self, net: Any) -> dict[str, Array]:
        """The mean error over the functions, and their spread."""
        errors = self.errors(net)
        return {"rel_l2": jnp.mean(errors), "rel_l2_std": jnp.std(errors)}


class OperatorTask(Task):
    """Functions of one value, judged on those that are held out."""

    holdout: eqx.AbstractVar[Holdout]

    @property
    def outputs(self) -> int:
        return 1

    def metrics(self, net: Any) -> dict[str, Array]:
        return self.holdout.metrics(net)


@final
class OperatorRegression(OperatorTask):
    """Learn G from pairs (a, u = G(a)) by the mean square error: some functions a step, at all or some of their points.

    **Arguments:** `a`, `y` and `u` as in `Holdout`; `functions` and `points` in a batch, all where one is 0;
    `scaling` is what a person's own data was divided by, which predictions need (`rwf.operators`); `content` a hash of
    the file that it is from, `places` where its sensors are (`rwf.signals.sensors`).
    """

    a: Float[Array, "functions ..."]
    y: Float[Array, "... coordinates"]
    u: Float[Array, "functions points"]
    holdout: Holdout
    functions: int = eqx.field(static=True)
    points: int = eqx.field(static=True, default=0)
    scaling: Any = None
    content: str = eqx.field(static=True, default="")
    places: str = eqx.field(static=True, default="")

    @property
    def inputs(self) -> int:
        return self.y.shape[-1]

    def data_hash(self) -> str | None:
        return hash_of_rows(self.content, len(self.u)) if self.content else None

    def batch(self, key: PRNGKeyArray, step: Array) -> tuple[Array, Array, Array]:
        key_functions, key_points = jax.random.split(key)
        i = drawn(key_functions, self.functions, len(self.u))
        a, u, y = self.a[i], self.u[i], self.y if self.y.ndim == 2 else self.y[i]
        if 0 < self.points < u.shape[1]:
            j = drawn(key_points, self.points, u.shape[1])
            u, y = u[:, j], y[..., j, :]
        return a, y, u

    def losses(self, net: Any, batch: tuple[Array, Array, Array], step: Array) -> dict[str, Array]:
        return mean_square(net, batch)


def mean_square(net: Any, batch: tuple[Array, Array, Array]) -> dict[str, Array]:
    """The loss of a batch (a, y, u) of functions at points."""
    a, y, u = batch
    return {"mse": jnp.mean((net(a, y) - u) ** 2)}


def hash_of_rows(content: str, rows: int) -> str:
    """A hash of the first so many functions of a file of this content."""
    return digest([content, rows])


def drawn(key: PRNGKeyArray, count: int, among: int) -> Int[Array, " count"]:
    """Indices drawn uniformly, with repetition; all of them in order where none or all are asked for."""
    if not 0 < count < among:
        return jnp.arange(among)
    return jax.random.randint(key, (count,), 0, among)


def lattice(y: Float[Array | np.ndarray, "points coordinates"]) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The `grid` and the `axes` of a `Holdout` at these points: on a line, or on an even grid in a plane.

    >>> lattice(grid_points(jnp.linspace(0, 1, 3), jnp.linspace(5, 9, 2)))
    ((3, 2), ('y[0]', 'y[1]'))
    """
    y = np.asarray(y)
    if y.shape[1] == 1:
        return (len(y),), ("y[0]",)
    for slow, fast in ((0, 1), (1, 0)) if y.shape[1] == 2 else ():
        counts = len(np.unique(y[:, slow])), len(np.unique(y[:, fast]))
        ends = [np.linspace(y[0, axis], y[-1, axis], count) for axis, count in zip((slow, fast), counts, strict=True)]
        if len(y) == math.prod(counts) and min(counts) > 1:
            even = np.stack(np.meshgrid(*ends, indexing="ij"), axis=-1).reshape(-1, 2)
            if np.allclose(y[:, [slow, fast]], even, rtol=0, atol=_EVEN * float(np.ptp(y, axis=0).min()) / max(counts)):
                return counts, (f"y[{slow}]", f"y[{fast}]")
    return (), ()


def grid_points(*axes: Float[Array, " _"]) -> Float[Array, "points coordinates"]:
    """All points of a grid, the last axis fastest."""
    return jnp.stack(jnp.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
