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

from rwf.errors import choose_setting
from rwf.norms import is_norm, is_norm_name
from rwf.parametrize.factorized import Factorized, LogFactorized
from rwf.parametrize.frozen import Frozen
from rwf.parametrize.node import Node
from rwf.parametrize.weight_norm import WeightNorm

_SCALES = ("scale", "log_scale")
_KERNELS = ("kernel", "embedding")  # what holds the factors in the state of an NNX model, which knows no types


def labels(params: Any) -> Any:
    """A tree of the same structure that names each leaf: `direction`, `scale`, `weight` or `other`.

    `direction` and `scale` are the factors of a weight, and nothing else. `weight` is a floating-point array of two or
    more axes that is neither a factor nor a bias nor part of a norm; `other` is the rest: biases, norms, constants.
    Works on a model, on Linen's parameters and on the state of an NNX model. A norm is known by the name of its type;
    in dictionaries, by its own name (`LayerNorm_0`, `norm1`) or by that of its array, `scale`.
    """
    return _map(_role, params)


def mask(params: Any) -> Any:
    """A tree of the same structure that says which leaves decay, for Optax: those that shrink W when they shrink.

    That is V of a factorized weight, the norms g of weight normalization (to decay v changes nothing that the model
    computes) and every plain weight; no scales, slopes, biases, norms or constants.
    """
    return _map(lambda path, leaf, owner: _decays(_role(path, leaf, owner), owner), params)


def penalty(model: Any, on: Literal["weight", "direction"] = "weight") -> Float[Array, ""]:
    """Half the sum of squares of all weights, or of their directions; scales are constants in its gradient."""
    choose_setting("on", on, ("weight", "direction"))

    def square(path: Any, leaf: Any, owner: Any) -> Any:
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
        return _half_square(leaf) if _role(path, leaf, owner) == "weight" else 0.0

    terms = _map(square, model, _is_whole)
    return sum(jax.tree.leaves(terms), jnp.zeros(()))


def _map(
    rule: Callable[[Any, Any, Any], Any],
    tree: Any,
    whole: Callable[[Any], bool] = lambda _: False,
    path: Any = (),
    owner: Any = None,
) -> Any:
    """Maps a rule over a tree: it gets the path of each leaf, the leaf, and the node or norm that holds it directly.

    What is `whole` is given to the rule as it is.
    """

    def visit(inner: Any, value: Any) -> Any:
        here = (*path, *inner)
        if value is not owner and _owns(value) and not whole(value):
            return _map(rule, value, whole, here, value)
        direct = isinstance(owner, Frozen) or len(_keys(inner)) <= 1
        return rule(here, value, owner if direct else None)

    return jax.tree_util.tree_map_with_path(
        visit, tree, is_leaf=lambda value: value is not owner and (whole(value) or _owns(value))
    )


def _role(path: Any, leaf: Any, owner: Any) -> str:
    if isinstance(owner, Frozen):
        return "other"
    keys = _keys(path)
    *_, holder, name = ("", "", *(jax.tree_util.keystr((key,), simple=True) for key in keys))
    if isinstance(owner, Node) or holder in _KERNELS:
        if name == "direction":
            return "direction"
        if name in _SCALES:
            return "scale"
    # A dictionary does not say what its layers are; their names do.
    in_dictionary = bool(keys) and isinstance(keys[-1], jax.tree_util.DictKey)
    norm = is_norm(owner) or (in_dictionary and name != "kernel" and is_norm_name(holder))
    floating = hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)
    return "weight" if floating and leaf.ndim >= 2 and not norm and name not in ("bias", *_SCALES) else "other"


def _decays(role: str, owner: Any) -> bool:
    return role == "scale" if isinstance(owner, WeightNorm) else role in ("direction", "weight")


def _keys(path: Any) -> Any:
    """A path without the last step into an NNX Variable, to its value."""
    return path[:-1] if path and jax.tree_util.keystr(path[-1:], simple=True) == "value" else path


def _half_square(array: Any) -> Any:
    return 0.5 * jnp.sum(jnp.square(array))


def _owns(value: Any) -> bool:
    return isinstance(value, Node) or is_norm(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, Node) or hasattr(type(value), "as_node")
