"""A Flax NNX model factorized in place, trained with nnx.Optimizer and folded: a convolution and attention."""

# pyright: reportMissingImports=false

import jax
import jax.numpy as jnp
import optax
from flax import nnx

import rwf


class Net(nnx.Module):
    """Tells in which half of a small image the bright spot lies."""

    def __init__(self, rngs: nnx.Rngs):
        self.conv = nnx.Conv(1, 8, (3, 3), strides=2, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(num_heads=2, in_features=8, decode=False, rngs=rngs)
        self.output = nnx.Linear(8 * 16, 1, rngs=rngs)

    def __call__(self, x):
        patches = nnx.tanh(self.conv(x)).reshape(len(x), -1, 8)
        return self.output(self.attention(patches).reshape(len(x), -1))[:, 0]


def images(key, n=64):
    """Images of 8 x 8 with one bright spot, and whether it lies on the right."""
    row, column = jax.random.randint(key, (2, n), 0, 8)
    spots = jax.nn.one_hot(row, 8)[:, :, None] * jax.nn.one_hot(column, 8)[:, None, :]
    return spots[..., None], (column >= 4).astype(jnp.float32)


@nnx.jit
def step(model, optimizer, x, y):
    def loss(model):
        return optax.sigmoid_binary_cross_entropy(model(x), y).mean()

    value, gradient = nnx.value_and_grad(loss)(model)
    optimizer.update(model, gradient)
    return value


if __name__ == "__main__":
    x, y = images(jax.random.key(0))
    model = Net(nnx.Rngs(1))
    graph, _ = nnx.split(model)
    model = rwf.factorize(model, key=jax.random.key(2))  # in place; in_place=False makes a copy
    optimizer = nnx.Optimizer(  # made afterwards: it has to see s and V
        model, optax.adamw(3e-3, weight_decay=1e-2, mask=rwf.decay.mask), wrt=nnx.Param
    )
    losses = [step(model, optimizer, x, y) for _ in range(100)]
    before = model(x)
    model = rwf.fold(model)  # plain nnx.Params again, and the structure of before
    assert nnx.split(model)[0] == graph
    print(f"loss {losses[-1]:.4f}; folded, the outputs differ by {jnp.abs(model(x) - before).max():.1e}")
