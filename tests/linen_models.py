"""Flax Linen Modules as their users write them, and their variables. Imported only where Flax is."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

import rwf

KEY = jax.random.key(3)


class CNN(nn.Module):
    """A net as its users write it: every layer that we know, norms, dropout, an embedding, a stack of layers."""

    @nn.compact
    def __call__(self, x, train=False):
        x = nn.Conv(4, (3, 3), strides=2, use_bias=False)(x)
        x = nn.relu(nn.BatchNorm(use_running_average=not train)(x))
        x = nn.ConvTranspose(6, (2, 2), transpose_kernel=True)(x)
        x = nn.Dropout(0.1, deterministic=not train)(x.reshape(len(x), -1, 6))
        x = x + nn.MultiHeadDotProductAttention(num_heads=2, qkv_features=8, use_bias=False)(x)
        x = x + nn.Embed(3, 6)(jnp.arange(1))
        x, _ = nn.scan(Block, variable_axes={"params": 0}, split_rngs={"params": True}, length=3)()(x, None)
        return nn.Dense(3)(x.mean(1)) + self.param("shift", nn.initializers.normal(), (3,))


class Block(nn.Module):
    @nn.compact
    def __call__(self, x, _):
        return jnp.tanh(nn.Dense(6)(x)), None


SCALES = {
    "Conv_0.kernel": (4,),
    "ConvTranspose_0.kernel": (6,),
    "Dense_0.kernel": (3,),
    "MultiHeadDotProductAttention_0.key.kernel": (2, 4),
    "MultiHeadDotProductAttention_0.out.kernel": (6,),
    "MultiHeadDotProductAttention_0.query.kernel": (2, 4),
    "MultiHeadDotProductAttention_0.value.kernel": (2, 4),
    "ScanBlock_0.Dense_0.kernel": (3, 6),
}
X = jnp.asarray(np.random.default_rng(0).normal(size=(2, 4, 4, 1)), jnp.float32)


@functools.cache
def plain_and_factorized():
    """Variables of the CNN with numbers in them (to draw them by `init` takes long to compile), and their fold."""
    rng = np.random.default_rng(2)
    shapes = jax.eval_shape(rwf.factorize(CNN()).init, KEY, X)

    def draw(path, leaf):
        positive = jax.tree_util.keystr(path[-1:], simple=True) in ("scale", "var")
        return jnp.asarray(positive + 0.3 * rng.uniform(-1, 1, size=leaf.shape), leaf.dtype)

    variables = jax.tree_util.tree_map_with_path(draw, shapes)
    return rwf.fold(variables), variables


@functools.cache
def compiled(module):
    return jax.jit(module.apply)


class Two(nn.Module):
    """A small dense net; the first layer is called twice."""

    def setup(self):
        self.first = nn.Dense(4)
        self.last = nn.Dense(2)
        self.shift = self.param("shift", nn.initializers.normal(), (2,))

    def __call__(self, x):
        return self.last(jnp.tanh(self.first(jnp.tanh(self.first(x))))) + self.shift

    def twice(self, x):
        return 2 * self(x)


DENSE = jnp.asarray(np.random.default_rng(1).normal(size=(5, 4)), jnp.float32)
