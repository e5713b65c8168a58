"""How far the weights of a net have moved from their initial values, in the original parameter space."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from rwf.encode import Encoding
from rwf.tree import fold, trainable


def dense_weights(net: Any) -> list[Array]:
    """The weights W that a net computes with, materialized or not: trained arrays of rank 2 or more.

    Encodings are left out by type: after `rwf.materialize` their frozen frequencies look like any array.
    """
    plain = jax.tree.map(lambda x: None if _is_encoding(x) else x, fold(net), is_leaf=_is_encoding)
    return [leaf for leaf in jax.tree.leaves(eqx.filter(plain, trainable(plain))) if leaf.ndim >= 2]


def weight_change(net: Any, initial: Any) -> Float[Array, ""]:
    """The relative change |W - W0| / |W0| over all dense weights together; biases are not counted.

    The paper plots it and does not define it: this is the Frobenius norm of all layers taken as one vector.
    Traceable. For a stack of members vmap it, or the norms run over the members too.

    >>> before = {"kernel": jnp.ones((2, 3)), "bias": jnp.zeros(3)}
    >>> float(weight_change({"kernel": 1.5 * jnp.ones((2, 3)), "bias": jnp.ones(3)}, before))
    0.5
    """
    now, before = dense_weights(net), dense_weights(initial)
    shapes = [[weight.shape for weight in weights] for weights in (now, before)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"The two nets have different weights: {shapes[0]} and {shapes[1]}. Compare a net with its own "
            "initial state; each may be parametrized or folded."
        )
    if not now:
        raise ValueError(f"{type(net).__name__} holds no trained array of rank 2 or more: it has no weights.")
    return _norm([w - w0 for w, w0 in zip(now, before, strict=True)]) / _norm(before)


def _is_encoding(value: Any) -> bool:
    return isinstance(value, Encoding)


def _norm(arrays: list[Array]) -> Float[Array, ""]:
    wide = [array.astype(jnp.promote_types(array.dtype, jnp.float32)) for array in arrays]
    return jnp.sqrt(sum((jnp.sum(array * array) for array in wide), jnp.zeros(())))
