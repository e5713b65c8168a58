"""The empirical neural tangent kernel of a net: K_ij = sum over outputs <df(x_i)/dtheta, df(x_j)/dtheta>."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from rwf.errors import choose
from rwf.tree import fold, materialize, trainable

_SPACES = ("trained", "weights")
_COLUMNS = 1024  # of a Jacobian, that are held in float64 at a time


def ntk(net: Any, points: Float[np.ndarray | Array, "n d"], *, space: str = "trained") -> Float[np.ndarray, "n n"]:
    """The empirical neural tangent kernel of a net at `points` (n, d), in float64.

    Gradients are taken for one leaf of the parameters and one output at a time: no array is larger than n
    times the largest leaf. They have the precision of the net; their products are summed in float64.

    **Arguments:**

    - `net`: not materialized; one net, not a stack of members. It maps a point (d,) to its outputs.
    - `space`: what theta is. `"trained"`: what the optimizer sees (s, V and b for RWF), as in the paper.
      `"weights"`: the weights W and biases b that the net computes with, i.e. the kernel of `rwf.fold(net)`.

    >>> import equinox as eqx, jax
    >>> net = eqx.nn.Linear(2, 1, key=jax.random.key(0))
    >>> ntk(net, np.array([[1.0, 2.0], [3.0, 4.0]], np.float32))  # x . x' + 1
    array([[ 6., 12.],
           [12., 26.]])
    """
    net = fold(net) if choose(space, _SPACES, "space of the kernel") == "weights" else net
    points = jnp.asarray(points)
    outputs = eqx.filter_eval_shape(lambda net, point: materialize(net)(point), net, points[0]).size
    kernel = np.zeros((len(points), len(points)))
    for index in range(len(jax.tree.leaves(eqx.filter(net, trainable(net))))):
        for output in range(outputs):
            kernel += _gram(np.asarray(_leaf_jacobian(net, points, jnp.asarray(output), index)))
    return kernel


def eigenvalues(kernel: Float[np.ndarray, "n n"]) -> Float[np.ndarray, " n"]:
    """The eigenvalues of a symmetric kernel, largest first, in float64; rounding may leave some below 0."""
    return np.linalg.eigvalsh(kernel.astype(np.float64))[::-1].copy()


@eqx.filter_jit
def _leaf_jacobian(net: Any, points: Array, output: Array, index: int) -> Float[Array, "n size"]:
    """The gradient of one output at every point for one trained leaf: n backward passes of one point."""
    parameters, constants = eqx.partition(net, trainable(net))
    leaves, structure = jax.tree.flatten(parameters)

    def value(leaf: Array, point: Array) -> Array:
        changed = jax.tree.unflatten(structure, [*leaves[:index], leaf, *leaves[index + 1 :]])
        return jnp.ravel(materialize(eqx.combine(changed, constants))(point))[output]

    # TF32, the default of some accelerators, would drown the small eigenvalues.
    with jax.default_matmul_precision("highest"):
        jacobian = jax.vmap(jax.grad(value), in_axes=(None, 0))(leaves[index], points)
    return jacobian.reshape(len(points), -1)


def _gram(jacobian: np.ndarray) -> Float[np.ndarray, "n n"]:
    """J J^T in float64, by blocks of columns, so that J itself is never copied to float64 whole."""
    total = np.zeros((len(jacobian), len(jacobian)))
    for start in range(0, jacobian.shape[1], _COLUMNS):
        block = jacobian[:, start : start + _COLUMNS].astype(np.float64)
        total += block @ block.T
    return total
