"""What is trained: one small task, in the engine and by hand."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from rwf import train
from rwf.job import Job
from rwf.recipe import MLP, Adam, Parametrization, Recipe, TaskSpec
from rwf.tasks.base import Task

from .measure import Side


@final
class Curve(Task):
    """Full-batch regression; the metric is taken on 256 of the points."""

    x: Float[Array, "points inputs"]
    y: Float[Array, "points 1"]

    @property
    def inputs(self) -> int:
        return self.x.shape[-1]

    @property
    def outputs(self) -> int:
        return 1

    def batch(self, key: PRNGKeyArray, step: Array) -> None:
        return None

    def losses(self, net: Any, batch: None, step: Array) -> dict[str, Array]:
        return {"mse": jnp.mean((net(self.x) - self.y) ** 2)}

    def metrics(self, net: Any) -> dict[str, Array]:
        error = net(self.x[:256]) - self.y[:256]
        return {"rel_l2": jnp.linalg.norm(error) / jnp.linalg.norm(self.y[:256])}


@dataclass(frozen=True)
class Waves(TaskSpec):
    """A sum of waves on a line: data that cost nothing to make."""

    points: int = 256

    def build(self, signal: int) -> Curve:
        x = np.linspace(0, 1, self.points, dtype=np.float32)[:, None]
        return Curve(jnp.asarray(x), jnp.asarray(np.sin(20 * x) + np.sin(50 * x)))

    def describe(self) -> str:
        return f"generated: waves, {self.points} points"


SMALL = Recipe(
    name="speed",
    case="speed",
    task=Waves(points=256),
    net=MLP(depth=3, width=128, activation="relu"),
    optim=Adam(lr=1e-3, decay_rate=0.9, decay_steps=5_000),
    steps=5_000,
    log_every=100,
    seeds=1,
)
WIDE = replace(SMALL, task=Waves(points=4096), net=MLP(depth=3, width=256, activation="relu"))


def engine(recipe: Recipe, parametrization: Parametrization, every: int) -> Side:
    """A side that takes `every` steps and a look at the metrics: a chunk of the engine, which is compiled."""
    recipe = replace(recipe, log_every=every, steps=every * 1009)  # a prime: the engine takes one look a chunk
    job = Job(recipe, parametrization, recipe)
    task, shared = train.load_tasks(job)
    chunks = train.chunks(job, task, shared, train.start(job))
    next(chunks)

    def side() -> float:
        chunk = next(chunks)
        return chunk.seconds / len(chunk.steps)

    return side


def initial(recipe: Recipe, parametrization: Parametrization) -> tuple[list[dict[str, Array]], Curve]:
    """The engine's own initial parameters as a list of dictionaries, and its data."""
    job = Job(recipe, parametrization, recipe)
    net, task = train.start(job).net, train.load_tasks(job)[0]
    assert isinstance(task, Curve)
    names = {"v": "direction", "s": "scale"} if parametrization == "rwf" else {}
    layers = [
        {"b": layer.bias, **{k: getattr(layer.weight, v) for k, v in names.items()}}
        if names
        else {"b": layer.bias, "w": layer.weight}
        for layer in (*net.layers, net.output)
    ]
    return jax.tree.map(lambda leaf: leaf[0], layers), task


def hand_written(recipe: Recipe, parametrization: Parametrization) -> Callable[[int], float]:
    """The same maths in jax.numpy alone, as one would write it by hand: a scan of `log_every` steps, compiled.

    Returns a function that runs it so many times, and returns the loss of the last step.
    """
    layers, task = initial(recipe, parametrization)
    adam, x, y = recipe.optim, task.x, task.y

    def loss(layers: list[dict[str, Array]]) -> Array:
        f = x
        for index, layer in enumerate(layers):
            g = jnp.where(f > 0, f, 0) if index else f
            f = g @ (layer["s"] * layer["v"] if "s" in layer else layer["w"]) + layer["b"]
        return jnp.mean((f - y) ** 2)

    def step(carry: Any, _: None) -> Any:
        layers, m, v, t = carry
        value, gradient = jax.value_and_grad(loss)(layers)
        rate = adam.lr * adam.decay_rate ** (t / adam.decay_steps)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, gradient)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, gradient)
        c, d = 1 - 0.9 ** (t + 1), 1 - 0.999 ** (t + 1)
        layers = jax.tree.map(lambda p, m, v: p - rate * (m / c) / (jnp.sqrt(v / d) + 1e-8), layers, m, v)
        return (layers, m, v, t + 1), value

    program = jax.jit(lambda carry: jax.lax.scan(step, carry, None, length=recipe.log_every), donate_argnums=0)
    zeros = jax.tree.map(jnp.zeros_like, layers)
    carry = (layers, zeros, jax.tree.map(jnp.copy, zeros), jnp.float32(0))
    compiled = program.lower(carry).compile()

    def train_on(times: int) -> float:
        nonlocal carry
        losses = jnp.empty(0)
        for _ in range(times):  # they queue up: none waits for the host
            carry, losses = compiled(carry)
        return float(np.asarray(losses)[-1])

    return train_on
