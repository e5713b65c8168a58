"""What a mistake in a problem's functions is answered with: the cause, and what to write instead."""

import math
import subprocess
import sys
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from problems import Heat, small
from rwf.pde import Box, Curriculum, Problem, at


def built(**members):
    small(type("P", (Heat,), members)).build(0)


@pytest.mark.parametrize(
    ("residual", "message"),
    [
        (
            lambda self, u: u.xxx,
            r"For a higher one take another unknown, w say: let u.xx - w .* write w.x in the place",
        ),
        (lambda self, u: u.dt, r"u.dt is no derivative .* Write u.t\."),
        (lambda self, u: u.dx_dt, r"Write u.xt\."),
        (lambda self, u: u.du_dt, r"Write u.t\."),
        (lambda self, u: u.u_xx, r"Write u.xx\."),
        (lambda self, u: u.speed, "Write u.x, u.xt or u.laplacian"),
        (lambda self, u, x: u(x), "An unknown is no function: u stands for its values, and u.x, u.xt"),
        (lambda self, u, x: jax.grad(u)(x), "An unknown is no function"),
        (lambda self, u: u.t - 1j * u.xx, "returned complex numbers; .* as two unknowns"),
        (lambda self, u: {"a": u.t, "b": 0.0}, r"P.residual \(residual_b\) returned 0.0"),
        (lambda self, u: None, "returned None for 7 points; .* Is the return missing?"),
        (lambda self, u: [u.t, u.xx], 'returned a list of 2 for 7 points; .* Name each term: {"first": ..., "second"'),
        (lambda self, u: (u, u), "returned a tuple of 2 for 7 points"),
        (lambda self, u: {"a": {"b": u.t}}, r"P.residual \(residual_a\) returned a dict of 1 for 7 points"),
        (lambda self, u, x: u == x, "returned False for 7 points; .* Write left side minus right side"),
        (lambda self, u: u.t - (u * u.x).x, r"Only an unknown has derivatives: .* product rule k \* u.xx \+ k_x"),
        (lambda self, u: u.x.x, "write u.xx for u.x.x"),
        (lambda self, u: u.along(1, 2), r"nameless components; .* u.along\(x=1, y=1, t=1\)"),
        (lambda u: u.t, r"P.residual takes u first; expected self .*: def residual\(self, u, x, y, t\)"),
        (lambda: 0.0, "P.residual takes no arguments; expected self"),
    ],
)
def test_a_residual_that_fails_is_told_what_to_write(residual, message):
    with pytest.raises(ValueError, match=message):
        built(residual=residual)


@pytest.mark.parametrize(
    ("exact", "message"),
    [
        (lambda self, u, x: x, "P.exact takes 'u', which is no coordinate: exact is given coordinates alone"),
        (lambda self, x: None, "P.exact returned None; .* Is the return missing?"),
        (staticmethod(lambda x, y, t: x), r"P.exact takes x first; expected self .* no @staticmethod"),
    ],
)
def test_an_exact_solution_that_fails_is_told_what_to_write(exact, message):
    with pytest.raises(ValueError, match=message):
        built(exact=exact)


@pytest.mark.parametrize(
    ("ansatz", "message"),
    [
        (lambda self, u, x, t: u, r"P.ansatz takes self, u, x, t; expected def ansatz\(self, net, points\)\.$"),
        (lambda net, points: net(points), r"P.ansatz takes net, points; expected def ansatz\(self, net, points\)"),
        (lambda self, net, points: points[:, 0] * net(points), r"this is \[\(slice.*0\)\]\. Its points carry"),
        (
            lambda self, net, points: jnp.sin(points[..., 0:1]) * net(points),
            r"at position 0\. Its points carry derivatives",
        ),
    ],
)
def test_an_ansatz_that_fails_is_told_what_to_write(ansatz, message):
    with pytest.raises(ValueError, match=message):
        built(ansatz=ansatz)


@pytest.mark.parametrize(
    "members",
    [
        {"residual": lambda self, u: u.t - math.exp(self.d) * u.xx},
        {"residual": lambda self, u: u.t if self.d > 0 else u.xx},
        {"residual": lambda self, u: sum(u.xx for _ in range(self.d))},
        {"ansatz": lambda self, net, points: math.exp(self.d) * net(points)},
    ],
    ids=["math", "if", "range", "ansatz"],
)
def test_a_curriculums_parameter_is_told_to_be_no_number_of_python(members):
    @dataclass(frozen=True)
    class P(Heat):
        d: int = 3  # type: ignore[assignment]

    problem = type("P", (P,), members)
    small(problem).build(0)
    with pytest.raises(ValueError, match=r"cannot be computed: .* d goes through the values .* jnp.exp\(self.d\)"):
        small(problem, curriculum=Curriculum("d", (1.0,), 5)).build(0)


def test_a_laplacian_over_time_alone_is_refused():
    class Decay(Problem):
        domain = Box(t=(0.0, 1.0))

        def residual(self, u):
            return u.laplacian

    with pytest.raises(
        ValueError, match=r"u.laplacian is over all coordinates but t, and there is no other. Write u.tt"
    ):
        Decay().build(0)


_ANSWERS = {
    'Box(x=(0, "pi"))': "The range of x is (0, 'pi'); expected numbers: x=(0, math.pi).",
    "Box(x=(0, 0.5, 1))": "The range of x is (0, 0.5, 1); give where it begins and ends: x=(0, 1).",
    'Solution(type("P", (Problem,), {"domain": Box(x=(0, 1), t=(0, 1))})(), None)(0, 1)': (
        "Coordinates are given by their names: solution(x=..., t=...). "
        'Unknowns and derivatives, "u.x", come before them.'
    ),
    'at(t="0")': "at() holds t = '0'; expected a number, or several: @at(t=(0, 1)).",
    'Curriculum("k", 1.0, 5)': "Curriculum.values is 1.0; expected a tuple such as (1.0, 1.0).",
    'Causal(chunks="16")': "Causal.chunks is '16'; expected a whole number.",
    'LossWeights(("start", 10.0))': (
        'LossWeights.fixed is (\'start\', 10.0); expected a tuple such as (("name", 1.0), ("name", 1.0)).'
    ),
    'LossWeights({"start": 10.0})': "LossWeights(fixed=(('start', 10.0),), balance_every=0, memory=0.9)",
    "recipe(Fraction(1, 2))": (
        "recipe takes a problem, and was given Fraction(1, 2). Write @dataclass(frozen=True) and class "
        "Fraction(Problem): above its functions."
    ),
}
_ASK = """import sys
from fractions import Fraction
from rwf.pde import *
for words in sys.argv[1:]:
    try:
        print(eval(words))
    except (ValueError, TypeError) as error:
        print(error)
"""


def test_what_is_given_to_the_parts_of_a_problem_is_answered_by_name():
    """In a process of its own, where nothing checks types before we do."""
    done = subprocess.run([sys.executable, "-c", _ASK, *_ANSWERS], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == list(_ANSWERS.values())


def test_a_list_of_faces_is_as_good_as_a_tuple():
    marked = [at(x=faces)(lambda self, u: u).faces for faces in ([0, 1], (0, 1))]
    assert marked[0] == marked[1] == [{"x": 0.0}, {"x": 1.0}]


@pytest.mark.parametrize(
    ("residual", "expected"),
    [
        (lambda self, u: u.t + (+u), lambda u: u),
        (lambda self, u: u.t + abs(u), abs),
        (lambda self, u: u.t + 2**u, lambda u: 2**u),
        (lambda self, u: u.t + abs(u) ** u, lambda u: abs(u) ** u),
        (lambda self, u: u.t + np.ones(1) * u, lambda u: u),
    ],
    ids=["plus", "abs", "power", "both", "NumPy"],
)
def test_arithmetic_with_an_unknown(residual, expected):
    task = small(type("P", (Heat,), {"residual": residual})).build(0)
    batch = jnp.linspace(-1, 1, task.draw.sections[-1].stop)[:, None] * jnp.array([1.0, 0.5, 0.0])
    ((_, values), *_) = task.values(lambda points: points[..., 0:1], batch, task.problem)
    np.testing.assert_allclose(values["residual"], expected(batch[:8, 0]), rtol=1e-6)
