"""Causal weights stay where they are while an optimizer compares losses: they grow as residuals fall."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest

from problems import small
from rwf.job import Job
from rwf.pde import Causal
from rwf.recipe import LBFGS, GaussNewton
from rwf.tasks.advection import RECIPES
from small import train_all
from test_advection import TINY

TASK = small(causal=Causal(chunks=4, epsilon=0.5)).build(0)
BATCH = TASK.batch(jax.random.key(0), jnp.int32(0))


def net_of(size):
    """x² y + size t: its residual is the same at all times, and smaller where size is near y."""

    def net(x):
        column = [x[..., i : i + 1] for i in range(3)]
        return column[0] * column[0] * column[1] + column[2] * size

    return net


def loss(task, size):
    return sum(task.losses(net_of(size), BATCH, jnp.int32(0)).values(), jnp.zeros(()))


def test_at_the_net_that_they_are_held_of_nothing_changes():
    held = TASK.holding(net_of(1.5), BATCH, jnp.int32(0))
    for one, other in zip(
        *(jax.value_and_grad(lambda s, t=task: loss(t, s))(1.5) for task in (TASK, held)), strict=True
    ):
        assert float(one) == pytest.approx(float(other), rel=1e-6)


def test_elsewhere_the_loss_changes_as_its_gradient_says():
    size, step = 1.5, 0.02
    held = TASK.holding(net_of(size), BATCH, jnp.int32(0))
    slope = float(jax.grad(lambda s: loss(held, s))(size))
    moved = {
        name: float(loss(task, size + step) - loss(task, size - step)) / (2 * step)
        for name, task in {"held": held, "moving": TASK}.items()
    }
    assert moved["held"] == pytest.approx(slope, rel=1e-3)
    assert abs(moved["moving"] - slope) > 0.1 * abs(slope)


def test_without_causal_weights_there_is_nothing_to_hold():
    task = small().build(0)
    assert task.holding(net_of(1.5), BATCH, jnp.int32(0)) is task


@pytest.mark.parametrize(("optim", "reached"), [(LBFGS(hold=60), 0.1), (GaussNewton(hold=60), 1e-6)])
def test_optimizers_that_search_train_with_causal_weights(optim, reached):
    recipe = RECIPES["advection/regular"]
    task = replace(TINY["task"], c=4.0, causal=Causal(chunks=16, epsilon=1.0))
    _, looks = train_all(Job(replace(recipe, **(TINY | {"task": task, "optim": optim})), "rwf", recipe))
    assert (looks["loss"][-1] < reached).all()  # with weights that move both stop at their start, or one of two
