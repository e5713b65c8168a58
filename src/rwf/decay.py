"""Weight decay of factorized models: on V or on W, never on the scales.

Decoupled decay (AdamW) of V is decay of W: W = s V shrinks by the factor by which V shrinks. A penalty in the loss is
another matter: |V|² and |W|² have different gradients, so say which one is meant.

    optax.adamw(1e-3, weight_decay=1e-2, mask=rwf.decay.mask)                     # V and plain weights
    optax.multi_transform({...}, rwf.decay.labels)                                # any rule for each kind
    loss = data_loss(rwf.materialize(model)) + 1e-4 * rwf.decay.penalty(model)    # a penalty on W
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from rwf.errors import choose
from rwf.parametrize.factorized import Factorized, LogFactorized
from rwf.parametrize.frozen import Frozen
from rwf.parametrize.node import Node
from rwf.parametrize.weight_norm import WeightNorm

_SCALES = ("scale", "log_scale")


def labels(params: Any) -> Any:
    """A tree of the same structure that names each leaf: `direction`, `scale`, `weight` or `other`.

    `weight` is a floating-point array of two or more axes that is neither a factor nor a bias; `other` is the rest:
    biases, norms, constants. Works on a model, on Linen's parameters and on the state of an NNX model.
    """
    return _label(params, _role)


def mask(params: Any) -> Any:
    """A tree of the same structure that says which leaves decay, for Optax: those that shrink W when they shrink.

    That is V of a factorized weight, the norms g of weight normalization (to decay v changes nothing that the model
    computes) and every plain weight; no scales, slopes, biases, norms or constants.
    """
    return _label(params, lambda path, leaf, node: _decays(_role(path, leaf, node), node))


def penalty(model: Any, on: Literal["weight", "direction"] = "weight") -> Float[Array, ""]:
    """Half the sum of squares of all weights, or of their directions; scales are constants in its gradient."""
    choose(on, ("weight", "direction"), "what the penalty is on")

    def square(path: Any, leaf: Any) -> Any:
        node = leaf.as_node() if hasattr(type(leaf), "as_node") else leaf  # a kernel of Flax NNX
        if isinstance(node, Factorized | LogFactorized):
            name = "log_scale" if isinstance(node, LogFactorized) else "scale"
            held = replace(node, **{name: jax.lax.stop_gradient(getattr(node, name))})
            return _half_square(node.direction if on == "direction" else held.materialize())
        if isinstance(node, Frozen):
            return 0.0
        if isinstance(node, WeightNorm):
            return _half_square(node.direction if on == "direction" else node.scale)
        if isinstance(node, Node):
            return penalty(node.materialize(), on)
        return _half_square(leaf) if _role(path, leaf, None) == "weight" else 0.0

    terms = jax.tree_util.tree_map_with_path(square, model, is_leaf=_is_whole)
    return sum(jax.tree.leaves(terms), jnp.zeros(()))


def _label(params: Any, rule: Callable[[Any, Any, Any], Any]) -> Any:
    """Calls the rule with the path of each leaf, the leaf, and the node that holds it, if one does."""

    def visit(path: Any, value: Any, node: Any = None) -> Any:
        if not isinstance(value, Node):
            return rule(path, value, node)
        return jax.tree_util.tree_map_with_path(
            lambda inner, leaf: visit((*path, *inner), leaf, value), value, is_leaf=lambda x: _is_inner(x, value)
        )

    return jax.tree_util.tree_map_with_path(visit, params, is_leaf=lambda value: isinstance(value, Node))


def _role(path: Any, leaf: Any, node: Any) -> str:
    if isinstance(node, Frozen):
        return "other"
    names = [jax.tree_util.keystr((key,), simple=True) for key in path]
    names = names[:-1] if names[-1:] == ["value"] else names  # the value of an NNX Variable
    name = names[-1] if names else ""
    if name == "direction":
        return "direction"
    if name in _SCALES:
        return "scale"
    floating = hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)
    return "weight" if floating and leaf.ndim >= 2 and name != "bias" else "other"


def _decays(role: str, node: Any) -> bool:
    return role == "scale" if isinstance(node, WeightNorm) else role in ("direction", "weight")


def _half_square(array: Any) -> Any:
    return 0.5 * jnp.sum(jnp.square(array))


def _is_inner(value: Any, outer: Any) -> bool:
    return isinstance(value, Node) and value is not outer


def _is_whole(value: Any) -> bool:
    return isinstance(value, Node) or hasattr(type(value), "as_node")
