"""A small transformer encoder: every token of a sequence sees all others, and is given one value a class."""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from rwf.nets.activations import Activation
from rwf.nets.dense import Dense, glorot

Hidden = Float[Array, "sequences tokens width"]


@final
class Norm(eqx.Module):
    """Layer normalization over the last axis, with a trained gain and offset; no parametrization touches it."""

    gain: Float[Array, " width"]
    offset: Float[Array, " width"]

    @classmethod
    def create(cls, width: int, dtype: Any = jnp.float32) -> "Norm":
        """Gains of one, offsets of zero."""
        return cls(jnp.ones(width, dtype), jnp.zeros(width, dtype))

    def __call__(self, x: Hidden) -> Hidden:
        centred = x - jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.mean(centred**2, axis=-1, keepdims=True)
        return centred * jax.lax.rsqrt(variance + 1e-5) * self.gain + self.offset


@final
class Attention(eqx.Module):
    """Attention of all tokens to all tokens, in several heads; its four projections are dense layers."""

    query: Dense
    key: Dense
    value: Dense
    merge: Dense
    heads: int = eqx.field(static=True)

    @classmethod
    def create(cls, width: int, heads: int, *, key: PRNGKeyArray, dtype: Any = jnp.float32) -> "Attention":
        """Glorot normal weights, biases of zero."""
        query, keys, value, merge = (glorot(width, width, key=k, dtype=dtype) for k in jax.random.split(key, 4))
        return cls(query, keys, value, merge, heads)

    def __call__(self, x: Hidden) -> Hidden:
        query, key, value = (self._split(layer(x)) for layer in (self.query, self.key, self.value))
        scores = jnp.einsum("sqhd,skhd->shqk", query, key) / jnp.sqrt(query.shape[-1]).astype(x.dtype)
        mixed = jnp.einsum("shqk,skhd->sqhd", jax.nn.softmax(scores), value)
        merged: Any = self.merge(mixed.reshape(x.shape))
        return merged

    def _split(self, x: Any) -> Float[Array, "sequences tokens heads features"]:
        return x.reshape(*x.shape[:-1], self.heads, -1)


@final
class Block(eqx.Module):
    """Attention, then a dense net of one hidden layer; each reads normalized values and adds to what it read."""

    norm_attention: Norm
    attention: Attention
    norm_hidden: Norm
    widen: Dense
    narrow: Dense
    activation: Activation = eqx.field(static=True)

    @classmethod
    def create(
        cls, width: int, heads: int, *, activation: Activation, key: PRNGKeyArray, dtype: Any = jnp.float32
    ) -> "Block":
        """Glorot normal weights, biases of zero; the hidden layer is twice as wide."""
        key_attention, key_widen, key_narrow = jax.random.split(key, 3)
        return cls(
            Norm.create(width, dtype),
            Attention.create(width, heads, key=key_attention, dtype=dtype),
            Norm.create(width, dtype),
            glorot(width, 2 * width, key=key_widen, dtype=dtype),
            glorot(2 * width, width, key=key_narrow, dtype=dtype),
            activation,
        )

    def __call__(self, x: Hidden) -> Hidden:
        x = x + self.attention(self.norm_attention(x))
        widened: Any = self.widen(self.norm_hidden(x))
        narrowed: Any = self.narrow(self.activation(widened))
        return x + narrowed


@final
class Transformer(eqx.Module):
    """Tokens and positions are embedded, pass the blocks, and a dense layer gives one value a class.

    The embeddings are plain arrays: a parametrization leaves them alone.
    """

    tokens: Float[Array, "vocabulary width"]
    positions: Float[Array, "length width"]
    blocks: tuple[Block, ...]
    norm: Norm
    output: Dense

    @classmethod
    def create(
        cls,
        length: int,
        vocabulary: int,
        *,
        depth: int,
        width: int,
        heads: int,
        activation: Activation,
        key: PRNGKeyArray,
        dtype: Any = jnp.float32,
    ) -> "Transformer":
        """Glorot normal weights, biases of zero, embeddings from N(0, 1); `depth` counts the blocks."""
        if width % heads:
            raise ValueError(f"A width of {width} does not split into {heads} heads. Choose a divisor of the width.")
        key_tokens, key_positions, key_output, *keys = jax.random.split(key, depth + 3)
        return cls(
            jax.random.normal(key_tokens, (vocabulary, width), dtype),
            jax.random.normal(key_positions, (length, width), dtype),
            tuple(Block.create(width, heads, activation=activation, key=k, dtype=dtype) for k in keys),
            Norm.create(width, dtype),
            glorot(width, vocabulary, key=key_output, dtype=dtype),
        )

    def __call__(self, x: Int[Array, "sequences tokens"]) -> Float[Array, "sequences tokens vocabulary"]:
        # A product and not a look-up, whose gradient would scatter: slow on a CPU, in any order on a GPU.
        h = jax.nn.one_hot(x, len(self.tokens), dtype=self.tokens.dtype) @ self.tokens + self.positions
        for block in self.blocks:
            h = block(h)
        output: Any = self.output(self.norm(h))
        return output
