"""Derivatives along a direction: what `u.along` computes is what its components would sum to, in fewer rows."""

import functools
from dataclasses import dataclass, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import precision
from rwf.derive import Wanted, known
from rwf.encode import Identity
from rwf.nets import MLP
from rwf.pde import Box, Curriculum, Problem, at


@dataclass(frozen=True)
class OneByOne(Problem):
    """Carried by a flow that turns, and a wall along which nothing changes; the derivatives one by one."""

    c: float = 3.0

    domain = Box(x=(-1.0, 1.0), y=(0.0, 1.0), t=(0.0, 1.0))
    unknowns = ("u", "v")

    def residual(self, u, v, x, y):
        return {"u": u.t + self.c * (y * u.x - x * u.y), "v": v.t + 2 * v.x + u.value}

    @at(x=1)
    def wall(self, u, y):
        return 0.6 * u.x + y * u.y


@dataclass(frozen=True)
class Along(OneByOne):
    """The same along directions."""

    def residual(self, u, v, x, y):
        return {"u": u.along(t=1, x=self.c * y, y=-self.c * x), "v": v.along(t=1, x=2) + u.value}

    @at(x=1)
    def wall(self, u, y):
        return u.along(x=0.6, y=y)


@dataclass(frozen=True)
class Lifted(Along):
    """The same with an ansatz that knows something of the coordinates."""

    def ansatz(self, net, points):
        return net(points) * known(lambda x: jnp.sin(x[..., 0:1] + x[..., 2:3] ** 2), points)


@dataclass(frozen=True)
class LiftedOneByOne(OneByOne):
    """That ansatz with the derivatives one by one."""

    ansatz = Lifted.ansatz


NET = MLP.create(Identity(3), 2, depth=2, width=8, activation=jnp.tanh, key=jax.random.key(0))
SIZES = {"points": 12, "condition_points": 6, "grid": (3, 3, 3)}


def loss_and_gradient(problem, step=0):
    task = problem.build(0)

    @eqx.filter_jit
    def both(net, step):
        batch = task.batch(jax.random.key(1), step)
        return eqx.filter_value_and_grad(lambda net: sum(task.losses(net, batch, step).values()))(net)

    return both(NET, jnp.asarray(step))


@pytest.mark.parametrize(("along", "apart"), [(Along, OneByOne), (Lifted, LiftedOneByOne)])
def test_the_loss_and_its_gradient_are_those_of_the_components(along, apart):
    found, expected = (loss_and_gradient(problem(**SIZES)) for problem in (along, apart))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), found, expected)


def test_a_curriculum_turns_the_direction():
    stages = Curriculum("c", (0.5,), steps=10)
    problem = Along(**SIZES, curriculum=stages)
    for step, c in ((0, 0.5), (10, 3.0)):
        expected = loss_and_gradient(OneByOne(**SIZES, c=c))[0]
        assert float(loss_and_gradient(problem, step)[0]) == pytest.approx(float(expected), rel=1e-5)


def test_a_direction_is_one_row():
    wanted = {part.name: part.wanted for part, _, _ in Along(**SIZES).build(0).draw.sections}
    assert wanted == {"residual": Wanted(first=(3, 4)), "wall": Wanted(first=(3,))}


def test_functions_with_equally_many_directions_keep_their_own():
    two = type("Two", (Along,), {"residual": lambda self, u: u.along(t=1)})
    apart = type("Apart", (OneByOne,), {"residual": lambda self, u: u.t})
    found, expected = (loss_and_gradient(replace(kind(), **SIZES))[0] for kind in (two, apart))
    assert float(found) == pytest.approx(float(expected), rel=1e-5)


def test_directions_are_as_exact_as_the_points():
    part = Along(**SIZES).build(0).draw.sections[0].part
    with precision(jnp.float64):
        jet = part.seed(Along(**SIZES), jnp.ones((2, 3), jnp.float64))
        assert {row.dtype for row in jax.tree.leaves(jet)} == {jnp.dtype("float64")}
    assert {row.dtype for row in jax.tree.leaves(part.seed(Along(**SIZES), jnp.ones((2, 3))))} == {jnp.dtype("float32")}


def test_gauss_newton_sees_the_same_squares():
    found = []
    for problem in (Along(**SIZES), OneByOne(**SIZES)):
        task = problem.build(0)

        @eqx.filter_jit
        def residuals(net, task=task):
            groups = task.squares(net, task.batch(jax.random.key(1), jnp.asarray(0)), jnp.asarray(0))
            return [jax.vmap(functools.partial(group.residuals, net))(group.samples) for group in groups]

        found.append(residuals(NET))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), *found)


def test_without_an_exact_solution_the_residual_is_measured_along_it_too():
    found, expected = (eqx.filter_jit(problem(**SIZES).build(0).metrics)(NET) for problem in (Along, OneByOne))
    assert float(found["rms_residual"]) == pytest.approx(float(expected["rms_residual"]), rel=1e-5)


@pytest.mark.parametrize(
    ("residual", "message"),
    [
        (lambda self, u: u.along(t=1, x=u), "depends on an unknown"),
        (lambda self, u: u.along(t=1, x=u.value), r"Wrong\.residual .* direction that depends on an unknown"),
        (lambda self, u: u.along(t=1, x=jnp.where(u.x > 0, 1.0, -1.0)), "depends on an unknown"),
        (lambda self, u: u.along(z=1), r"u\.along has the component 'z'.*x, y, t"),
        (lambda self, u: u.along(), r"u\.along has no components"),
    ],
)
def test_what_is_no_direction_is_refused(residual, message):
    wrong = type("Wrong", (OneByOne,), {"residual": residual})
    with pytest.raises(ValueError, match=message):
        replace(wrong(), **SIZES).build(0)
