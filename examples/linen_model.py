"""A Flax Linen model factorized, trained with TrainState and Optax, and folded: a small convolutional net."""

# pyright: reportMissingImports=false

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax.training.train_state import TrainState

import rwf


class CNN(nn.Module):
    """Tells in which half of a small image the bright spot lies."""

    @nn.compact
    def __call__(self, x, train: bool = False):
        x = nn.Conv(8, (3, 3), strides=2, use_bias=False)(x)
        x = nn.relu(nn.BatchNorm(use_running_average=not train)(x))
        return nn.Dense(1)(x.reshape(len(x), -1))[:, 0]


def images(key, n=64):
    """Images of 8 x 8 with one bright spot, and whether it lies on the right."""
    row, column = jax.random.randint(key, (2, n), 0, 8)
    spots = jax.nn.one_hot(row, 8)[:, :, None] * jax.nn.one_hot(column, 8)[:, None, :]
    return spots[..., None], (column >= 4).astype(jnp.float32)


@jax.jit
def step(state, statistics, x, y):
    def loss(params):
        variables = {"params": params, "batch_stats": statistics}
        logits, changed = state.apply_fn(variables, x, train=True, mutable=["batch_stats"])
        return optax.sigmoid_binary_cross_entropy(logits, y).mean(), changed["batch_stats"]

    (value, statistics), gradient = jax.value_and_grad(loss, has_aux=True)(state.params)
    return state.apply_gradients(grads=gradient), statistics, value


if __name__ == "__main__":
    x, y = images(jax.random.key(0))
    model = rwf.factorize(CNN())  # a Module: init and apply as always
    variables = model.init(jax.random.key(1), x)  # the weights that CNN().init makes, as s and V
    optimizer = optax.adamw(3e-3, weight_decay=1e-2, mask=rwf.decay.mask)  # decay on V, not on s
    state = TrainState.create(apply_fn=model.apply, params=variables["params"], tx=optimizer)
    statistics = variables["batch_stats"]
    losses = []
    for _ in range(100):
        state, statistics, value = step(state, statistics, x, y)
        losses.append(value)

    trained = {"params": state.params, "batch_stats": statistics}
    plain = rwf.fold(trained)  # plain kernels, for CNN itself
    assert jax.tree.structure(plain) == jax.tree.structure(jax.eval_shape(CNN().init, jax.random.key(1), x))
    of_plain, of_factors = jax.jit(CNN().apply), jax.jit(model.apply)
    difference = jnp.abs(of_plain(plain, x) - of_factors(trained, x)).max()
    print(f"loss {losses[-1]:.4f}; folded, the outputs differ by {difference:.1e}")

    again = rwf.factorize(plain, key=jax.random.key(2))  # trained variables are factorized likewise
    difference = jnp.abs(of_factors(again, x) - of_plain(plain, x)).max()
    print(f"factorized again, they differ by {difference:.1e}")
