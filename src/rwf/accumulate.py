"""A loss over a large batch in pieces: the same value and gradient, with the memory of one piece."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def mean_over_pieces(
    loss: Callable[[Any, Any], Float[Array, ""]], net: Any, batch: Any, pieces: int
) -> Float[Array, ""]:
    """The mean of `loss(net, piece)` over equal pieces of a batch, taken one after the other.

    The gradient of each piece is computed right after its value, so no piece's activations outlive it and nothing
    is computed twice, as checkpointing would. First derivatives in the net alone; the batch is data.

    **Arguments:** `batch`: arrays whose first axis `pieces` divides.
    """
    size = jax.tree.leaves(batch)[0].shape[0]
    if pieces < 1 or size % pieces:
        raise ValueError(f"A batch of {size} cannot be cut into {pieces} equal pieces. Use a number that divides it.")
    if pieces == 1:
        return loss(net, batch)
    cut = jax.tree.map(lambda x: x.reshape(pieces, -1, *x.shape[1:]), batch)
    arrays, static = eqx.partition(net, eqx.is_inexact_array)

    @jax.custom_vjp
    def total(arrays: Any, cut: Any) -> Float[Array, ""]:
        return jnp.mean(jax.lax.map(lambda piece: loss(eqx.combine(arrays, static), piece), cut))

    def forward(primals: Any, cut: Any) -> tuple[Float[Array, ""], Any]:
        arrays, cut = (jax.tree.map(lambda p: p.value, part, is_leaf=_is_primal) for part in (primals, cut))
        # what is not trained, such as frequencies, is not differentiated either: that would be a pass more
        trained = jax.tree.map(lambda p: p.perturbed, primals, is_leaf=_is_primal)
        moving, still = eqx.partition(arrays, trained)

        def of_piece(moving: Any, piece: Any) -> Float[Array, ""]:
            return loss(eqx.combine(moving, still, static), piece)

        def add(sums: Any, piece: Any) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, sums, jax.value_and_grad(of_piece)(moving, piece)), None

        start = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, moving))
        value, gradient = jax.tree.map(lambda x: x / pieces, jax.lax.scan(add, start, cut)[0])
        return value, gradient

    def backward(gradient: Any, cotangent: Float[Array, ""]) -> tuple[Any, None]:
        return jax.tree.map(lambda x: cotangent * x, gradient), None  # None: zero

    total.defvjp(forward, backward, symbolic_zeros=True)
    return total(arrays, cut)


def _is_primal(value: Any) -> bool:
    return isinstance(value, jax.custom_derivatives.CustomVJPPrimal)
