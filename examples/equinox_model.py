"""An Equinox model factorized, trained with Optax and folded: a small convolutional net with attention."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

import rwf


class Net(eqx.Module):
    """Tells in which half of a small image the bright spot lies."""

    conv: eqx.nn.Conv2d
    attention: eqx.nn.MultiheadAttention
    output: eqx.nn.Linear

    def __init__(self, key):
        one, two, three = jax.random.split(key, 3)
        self.conv = eqx.nn.Conv2d(1, 8, 3, stride=2, key=one)
        self.attention = eqx.nn.MultiheadAttention(2, 8, key=two)
        self.output = eqx.nn.Linear(8 * 9, 1, key=three)

    def __call__(self, image):
        patches = jnp.tanh(self.conv(image)).reshape(8, -1).T
        return self.output(self.attention(patches, patches, patches).ravel())[0]


def images(key, n=64):
    """Images of 8 x 8 with one bright spot, and whether it lies on the right."""
    row, column = jax.random.randint(key, (2, n), 0, 8)
    spots = jax.nn.one_hot(row, 8)[:, :, None] * jax.nn.one_hot(column, 8)[:, None, :]
    return spots[:, None], (column >= 4).astype(jnp.float32)


def loss(params, static, x, y):
    net = rwf.materialize(eqx.combine(params, static))  # once, at the top of the loss: W = diag(s) V
    return optax.sigmoid_binary_cross_entropy(jax.vmap(net)(x), y).mean()


@eqx.filter_jit
def step(params, static, moments, x, y):
    value, gradient = jax.value_and_grad(loss)(params, static, x, y)
    updates, moments = optimizer.update(gradient, moments, params)
    return optax.apply_updates(params, updates), moments, value


optimizer = optax.adamw(3e-3, weight_decay=1e-2, mask=rwf.decay.mask)  # decay on V, which is decay on W; not on s

if __name__ == "__main__":
    x, y = images(jax.random.key(0))
    plain = Net(jax.random.key(1))
    model = rwf.factorize(plain, key=jax.random.key(2))  # where=eqx.nn.Linear would leave the convolution alone
    params, static = eqx.partition(model, rwf.trainable(model))
    moments = optimizer.init(params)
    losses = []
    for _ in range(100):
        params, moments, value = step(params, static, moments, x, y)
        losses.append(value)
    trained = eqx.combine(params, static)
    folded = rwf.fold(trained)  # the class and the structure of `plain`
    assert jax.tree.structure(folded) == jax.tree.structure(plain)
    difference = jnp.abs(jax.vmap(folded)(x) - jax.vmap(rwf.materialize(trained))(x)).max()
    print(f"loss {losses[-1]:.4f}; folded, the outputs differ by {difference:.1e}")
