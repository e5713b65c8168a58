"""What tasks that classify share: cross entropy on batches of labelled examples, and the error on those held out."""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from rwf.tasks.base import Task


@final
class Classification(Task):
    """Learn labels from examples: one label an example, or one for each token of a sequence.

    **Arguments:** `x` and `labels`: what is trained on, `examples` of them in a batch; `x_test` and `labels_test`:
    what is held out.
    """

    x: Shaped[Array, "train inputs"]
    labels: Int[Array, "train *tokens"]
    x_test: Shaped[Array, "test inputs"]
    labels_test: Int[Array, "test *tokens"]
    classes: int = eqx.field(static=True)
    examples: int = eqx.field(static=True)

    @property
    def inputs(self) -> int:
        return self.x.shape[-1]

    @property
    def outputs(self) -> int:
        return self.classes

    def batch(self, key: PRNGKeyArray, step: Array) -> tuple[Array, Array]:
        index = jax.random.randint(key, (self.examples,), 0, len(self.x))
        return self.x[index], self.labels[index]

    def losses(self, net: Any, batch: tuple[Array, Array], step: Array) -> dict[str, Array]:
        x, labels = batch
        return {"cross_entropy": cross_entropy(net(x), labels)}

    def metrics(self, net: Any) -> dict[str, Array]:
        values = net(self.x_test)
        wrong = jnp.argmax(values, axis=-1) != self.labels_test
        return {
            "test_error": jnp.mean(wrong.astype(values.dtype)),
            "test_loss": cross_entropy(values, self.labels_test),
        }


def cross_entropy(values: Float[Array, "*examples classes"], labels: Int[Array, "*examples"]) -> Float[Array, ""]:
    """The mean of -log p(label), with p the softmax of the values."""
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(values, labels))
