"""Adaptive activations (Jagtap et al., 2020): sigma(a f), one trained a for each neuron, starting at 1."""

from dataclasses import dataclass
from typing import Any, final

import jax.numpy as jnp

from rwf.parametrize.layer import Layer, child, with_children
from rwf.parametrize.node import Node, register


@final
@dataclass(frozen=True)
class Adaptive(Node):
    """Stands in the place of a layer f = W x + b and computes a f, by scaling W and b with one vector."""

    layer: Any
    scale: Any
    spec: Layer

    def materialize(self) -> Any:
        weight = child(self.layer, self.spec.weight)
        inputs = self.spec.inputs(weight.ndim - (self.scale.ndim - len(self.spec.axis)))
        scaled = {self.spec.weight: jnp.expand_dims(self.scale, inputs) * weight}
        bias = child(self.layer, self.spec.bias) if self.spec.bias else None
        if bias is not None and self.spec.bias:
            behind = tuple(range(-self.spec.tail, 0))
            scaled[self.spec.bias] = jnp.expand_dims(self.scale, behind) * bias
        return with_children(self.layer, scaled)


register(Adaptive, arrays=("layer", "scale"), static=("spec",))


def adaptive(layer: Any, spec: Layer) -> Adaptive:
    """Gives a layer a trained slope for each of its neurons, all 1 at the start."""
    weight = child(layer, spec.weight)
    shape = tuple(weight.shape[axis] for axis in sorted(spec.axis))
    return Adaptive(layer, jnp.ones_like(weight, shape=shape), spec)
