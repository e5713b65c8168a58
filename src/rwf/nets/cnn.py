"""A convolutional branch for functions that are given on a grid of two dimensions."""

import math
from typing import Any, ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from rwf.derive import elementwise
from rwf.nets.activations import Activation
from rwf.nets.dense import Dense, glorot
from rwf.parametrize.layer import Layer


class Convolution(eqx.Module):
    """A convolution with a square kernel, as a product of patches with a matrix; a parametrization leaves it alone.

    As a product it obeys the precision of matrix products, and members side by side stay products: a batch of
    convolutions with different kernels becomes a grouped one, which is slow. The rows of the weight are the columns
    of the kernel, then its rows, then the input channels.
    """

    weight: Float[Array, "patch outputs"]
    bias: Float[Array, " outputs"]
    size: int = eqx.field(static=True)
    stride: int = eqx.field(static=True)

    def __call__(
        self, x: Float[Array, "functions height width channels"]
    ) -> Float[Array, "functions rows columns outputs"]:
        _, height, width, _ = x.shape
        rows, columns = -(-height // self.stride), -(-width // self.stride)
        edge = self.size // 2
        x = jnp.pad(x, ((0, 0), (edge, edge), (edge, edge), (0, 0)))
        # first along one axis, then along the other: twice five slices compile sooner than five times five
        last = self.stride * (rows - 1) + 1, self.stride * (columns - 1) + 1
        x = jnp.concatenate([x[:, i : i + last[0] : self.stride] for i in range(self.size)], axis=-1)
        x = jnp.concatenate([x[:, :, j : j + last[1] : self.stride] for j in range(self.size)], axis=-1)
        return x @ self.weight + self.bias


@final
class ParametrizedConvolution(Convolution):
    """A convolution that takes part in RWF, WN and AA, with one scale for each output channel."""

    rwf_layer: ClassVar[Layer] = Layer("weight", "bias", (-1,))


@final
class ConvolutionalBranch(eqx.Module):
    """Convolutions that halve the grid, then a hidden dense layer and a linear one."""

    convolutions: tuple[Convolution, ...]
    layers: tuple[Dense, ...]
    output: Dense
    activation: Activation = eqx.field(static=True)

    @classmethod
    def create(
        cls,
        grid: tuple[int, int],
        features: int,
        *,
        channels: tuple[int, ...] = (64, 128),
        size: int = 5,
        width: int = 128,
        activation: Activation,
        parametrized: bool = False,
        key: PRNGKeyArray,
        dtype: Any = jnp.float32,
    ) -> "ConvolutionalBranch":
        """Glorot normal weights, biases of zero; `parametrized` says whether RWF, WN and AA see the convolutions."""
        *keys, key_hidden, key_output = jax.random.split(key, len(channels) + 2)
        kind = ParametrizedConvolution if parametrized else Convolution
        convolutions = []
        for inputs, outputs, k in zip((1, *channels), channels, keys, strict=False):
            weight = jax.nn.initializers.glorot_normal()(k, (size, size, inputs, outputs), dtype)
            convolutions.append(kind(weight.reshape(-1, outputs), jnp.zeros(outputs, dtype), size, 2))
        pixels = math.prod(-(-n // 2 ** len(channels)) for n in grid)
        hidden = glorot(pixels * channels[-1], width, key=key_hidden, dtype=dtype)
        return cls(tuple(convolutions), (hidden,), glorot(width, features, key=key_output, dtype=dtype), activation)

    def __call__(self, a: Float[Array, "functions height width"]) -> Float[Array, "functions features"]:
        x = a[..., None]
        for convolution in self.convolutions:
            x = self.activation(convolution(x))
        h: Any = x.reshape(len(x), -1)
        for layer in self.layers:
            h = elementwise(self.activation, layer(h))
        output: Any = self.output(h)
        return output
