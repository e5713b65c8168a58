"""What looks like a mistake in a problem is said before training, and what may be right is not."""

import math
from dataclasses import dataclass, replace
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from problems import Heat, small
from rwf.derive import elementwise
from rwf.pde import Box, Problem, at, periodic, recipe
from rwf.pde.differences import Differences
from rwf.recipe import MLP, Gaussian, Periodic
from rwf.registry import find_recipe, recipes
from rwf.spec import with_values

EXAMPLES = Path(__file__).parents[1] / "examples"


@dataclass(frozen=True)
class Rod(Problem):
    """u_t = k u_xx with a sine."""

    k: float = 0.1

    domain = Box(x=(0.0, 1.0), t=(0.0, 1.0))

    def residual(self, u):
        return u.t - self.k * u.xx

    @at(t=0)
    def start(self, u, x):
        return u - jnp.sin(math.pi * x)

    @at(x=(0, 1))
    def ends(self, u):
        return u

    def exact(self, x, t):
        return np.exp(-self.k * math.pi**2 * t) * np.sin(math.pi * x)


class _Sign(Rod):
    def residual(self, u):
        return u.t + self.k * u.xx


class _Start(Rod):
    @at(t=0)
    def start(self, u, x):
        return u - 2 * jnp.sin(math.pi * x)


class _Insulated(Rod):
    @at(x=(0, 1))
    def ends(self, u):
        return u.x


class _Single(Rod):
    """Exact in single precision."""

    def exact(self, x, t):
        return super().exact(x, t).astype(np.float32)


class _OneGrid(Rod):
    """A table, which has its own points alone."""

    def exact(self, x, t):
        if x.shape != (100, 100):
            raise IndexError("no such points")
        return super().exact(x, t)


class _Table(Rod):
    """A table with straight lines between its entries: a solution with kinks."""

    def exact(self, x, t):
        line = np.linspace(0, 1, 40)
        return np.exp(-self.k * math.pi**2 * t) * np.interp(x, line, np.sin(math.pi * line))


@dataclass(frozen=True)
class Carried(Problem):
    """A wave of any shape, carried along."""

    c: float = 1.0
    shape: str = "sine"

    domain = Box(x=periodic(0.0, 2 * math.pi), t=(0.0, 1.0))

    def residual(self, u):
        return u.along(t=1, x=self.c)

    @at(t=0)
    def start(self, u):
        return u * 0.0

    def exact(self, x, t):
        y = (x - self.c * t) % (2 * math.pi)
        return {"sine": np.sin(y), "kink": np.abs(y - math.pi), "step": np.sign(y - math.pi)}[self.shape]


class _Against(Carried):
    def residual(self, u):
        return u.along(t=1, x=-self.c)


@dataclass(frozen=True)
class Pair(Problem):
    """Two unknowns."""

    domain = Box(x=(0.0, 1.0), t=(0.0, 1.0))
    unknowns = ("h", "q")

    def residual(self, h, q):
        return {"mass": h.t + q.x, "momentum": q.t - h.x}  # the sign of the second is wrong

    @at(t=0)
    def start(self, h, q, x):
        return {"h": h - jnp.sin(x), "q": q - jnp.sin(x)}

    def exact(self, x, t):
        return {"h": np.sin(x - t), "q": np.sin(x - t)}


class _HalfKnown(Pair):
    def exact(self, x, t):
        return {"h": np.sin(x - t)}


def named(problem, **settings):
    return [remark.partition(" and ")[0] for remark in problem.remarks(10, **settings)]


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (Rod(), []),
        (_Sign(), ["_Sign.residual"]),
        (_Start(), ["_Start.start"]),
        (_Insulated(), ["_Insulated.ends"]),
        (_Single(), []),
        (_OneGrid(), []),
        (_Table(), []),
        (Carried(), []),
        (Carried(c=50.0), []),
        (Carried(c=256 * math.pi), []),  # a grid of 128 sees nothing of it
        (Carried(shape="kink"), []),
        (Carried(shape="step"), []),
        (_Against(), ["_Against.residual"]),
        (Pair(), ["Pair.residual (residual_momentum)"]),
        (_HalfKnown(), []),
    ],
    ids=lambda p: type(p).__name__ if isinstance(p, Problem) else "",
)
def test_an_exact_solution_that_does_not_fit_names_the_function(problem, expected):
    assert named(problem) == expected


def test_what_is_left_is_said_in_parts_of_the_largest_term():
    (remark,) = _Sign().remarks(10)
    assert "_Sign.exact do not fit: with the exact solution put in, 202 % of its largest term is left" in remark


def test_the_tests_own_heat_has_an_exact_solution_that_is_none():
    assert "Heat.residual" in named(small(Heat))


def test_examples_and_registered_problems_give_no_cause():
    found = [find_recipe(str(EXAMPLES / f"{name}.py")) for name in ("wave", "allen_cahn")]
    found += [one for one in recipes().values() if isinstance(one.recipe.task, Problem)]
    for made in (each for one in found for each in (one.recipe, one.with_quick())):
        assert made.task.remarks(made.steps, made.net, made.encoding) == [], made.name


def test_time_without_a_condition_is_remarked():
    class Free(Problem):
        domain = Box(x=(0.0, 1.0), t=(0.0, 1.0))

        def residual(self, u):
            return u.t - u.xx

    class Built(Free):
        def ansatz(self, net, points):
            return points[..., 1:2] * net(points)

    class Around(Free):
        domain = Box(x=(0.0, 1.0), t=periodic(0.0, 1.0))

    (remark,) = Free().remarks(10)
    assert remark.startswith("Free has time and not one condition")
    assert Built().remarks(10) == Around().remarks(10) == []


def test_a_steady_problem_without_a_condition_is_remarked():
    class Bent(Problem):
        domain = Box(x=(0.0, 1.0), y=periodic(0.0, 1.0))

        def residual(self, u):
            return u.laplacian

    class Fitted(Bent):
        def residual(self, u, x):
            return u - jnp.sin(x)

    class Around(Bent):
        domain = Box(x=periodic(0.0, 1.0), y=periodic(0.0, 1.0))

    (remark,) = Bent().remarks(10)
    assert remark.startswith("Bent has not one condition")
    assert remark.endswith("marked @at(x=...)")
    assert Fitted().remarks(10) == Around().remarks(10) == []


def test_a_condition_that_is_not_marked_is_remarked_and_a_function_that_is_called_is_not():
    class Loose(Rod):
        def ends(self, u):
            return u

        def stress(self, u, x):
            return x * u.x

        def length(self, x):
            return x

        @at(x=1)
        def free(self, u, x):
            return (lambda: self.stress(u, x))()

    (remark,) = [r for r in Loose().remarks(10) if "no condition" in r]
    assert remark.startswith("Loose.ends takes u, and nothing calls it: it is no condition without a line above it")


def test_a_condition_that_is_written_anew_without_its_mark_is_remarked_even_where_it_calls_the_old_one():
    class Cooler(Rod):
        def start(self, u, x):
            return super().start(u, x) + 1

    (remark,) = [r for r in Cooler().remarks(10) if "no condition" in r]
    assert remark.startswith("Cooler.start takes u, x, and nothing calls it")


def test_a_condition_that_another_of_its_name_replaces_is_remarked():
    class Copied(Rod):
        @at(x=0)
        def held(self, u):
            return u

        @at(x=1)
        def held(self, u):  # noqa: F811
            return u - 1

        @property
        def rate(self):
            return 1.0

        @rate.setter
        def rate(self, value):
            pass

    class Below(Copied):
        def residual(self, u):
            return u.t - 0.1 * u.xx

    for kind in (Copied, Below):
        (remark,) = [r for r in kind().remarks(10) if "written" in r]
        assert remark == "Copied.held is written 2 times, and Python keeps the last: give each its name"


class _Square(Problem):
    domain = Box(x=(0.0, 1.0), y=(0.0, 1.0), t=(0.0, 1.0))

    def residual(self, u):
        return u.t - u.laplacian

    @at(t=0)
    def start(self, u):
        return u - 1

    @at(x=(0, 1))
    @at(y=(0, 1))
    @at(x=0.5, y=0.5, t=1)
    def walls(self, u):
        return u


def test_corners_in_the_place_of_sides_are_remarked():
    class Edges(_Square):
        @at(x=(0, 1), y=(0, 1))
        def walls(self, u):
            return u

    class Stretch(_Square):
        @at(y=0, x=(0.25, 0.75))
        def heater(self, u):
            return u - 2

    assert _Square().remarks(10) == []
    (remark,) = Edges().remarks(10)
    assert remark.startswith("Edges.walls holds x and y together, at 4 places such as x = 0, y = 0, and nowhere betw")
    assert remark.endswith("For whole sides write a line for each, @at(x=...) and @at(y=...)")
    (remark,) = Stretch().remarks(10)
    assert remark.startswith("Stretch.heater holds y and x together, at 2 places such as y = 0, x = 0.25, and")


def test_an_encoding_that_repeats_within_a_period_is_remarked():
    class Ring(Problem):
        length: float = 1.0

        @property
        def domain(self):
            return Box(x=periodic(0.0, self.length), t=(0.0, 1.0))

        def residual(self, u):
            return u.t - u.x

        @at(t=0)
        def start(self, u, x):
            return u - jnp.sin(x)

    ring = dataclass(frozen=True)(Ring)
    made = recipe(ring())
    longer = with_values(made, {"task.length": 2.0})
    (remark,) = longer.task.remarks(10, longer.net, longer.encoding)
    assert remark == (
        "Ring has the period 2 in x, and with the encoding every net repeats after 1. If that is not meant: "
        "--encoding.periods 2.0 None"
    )
    for encoding in (Periodic((2.0, None)), Periodic((2.0, 0.1)), Gaussian(), None):
        assert longer.task.remarks(10, longer.net, encoding) == []


@pytest.mark.parametrize("of", [jnp.mean, jnp.sum, jnp.cumsum, jnp.flip, jnp.max], ids=lambda f: f.__name__)
def test_a_function_that_takes_the_points_together_is_remarked(of):
    """Points are drawn anew in every step, and Gauss–Newton takes them one by one."""

    class Integral(Rod):
        exact = None

        def residual(self, u):
            return {"heat": u.t - u.xx, "mass": u - of(u.value)}

    (remark,) = Integral().remarks(10)
    assert remark.startswith("Integral.residual (residual_mass) is another at the same point among other points")


def test_what_is_zero_but_for_rounding_is_not_taken_for_something_that_depends_on_other_points():
    class Hard(Rod):
        def ansatz(self, net, points):
            x, t = points[..., 0:1], points[..., 1:2]
            return t * net(points) + elementwise(jnp.sin, math.pi * x)

    assert Hard().remarks(10) == []


def test_an_activation_without_a_second_derivative_is_remarked_where_one_is_wanted():
    (remark,) = Rod().remarks(10, MLP(activation="relu"))
    assert "Rod.residual has second derivatives, and relu has none" in remark
    assert Rod().remarks(10, MLP(activation="tanh")) == Carried().remarks(10, MLP(activation="relu")) == []


def test_differences_are_of_fourth_order_up_to_the_ends():
    domain, errors = Box(x=(0.0, 2.0), y=periodic(0.0, 2 * math.pi)), []
    for count in (20, 40):
        x, y = domain.grid((count, count))
        found = Differences(np.exp(x) * np.sin(y), domain)
        everywhere = np.arange(count**2)
        exact = {(0,): np.exp(x) * np.sin(y), (0, 1): np.exp(x) * np.cos(y), "laplacian": 0 * x}
        read = {what: found.read(what, everywhere)[0].reshape(x.shape) for what in exact}
        errors.append([np.abs(read[what] - exact[what]).max() for what in exact])
    assert (np.array(errors[0]) / errors[1] > 7).all()
    along = found.read({"x": 2.0, "y": -1.0}, everywhere)[0].reshape(x.shape)
    np.testing.assert_allclose(along, np.exp(x) * (2 * np.sin(y) - np.cos(y)), atol=1e-3)


def test_a_setting_of_the_problem_is_that_of_its_solution():
    assert named(replace(Rod(), k=0.5)) == []
