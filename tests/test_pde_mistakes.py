"""Mistakes in problems of one's own: each is told with the name of the function or of the setting."""

import math
import subprocess
import sys
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from problems import Heat, small
from rwf.pde import Box, Causal, Curriculum, LossWeights, Problem, at
from rwf.pde.functions import parts_of


class _Wrong(Heat):
    def residual(self, u):
        return u.value[:, None]


class _Scalar(Heat):
    def residual(self, u):
        return 1.0


class _Idle(Heat):
    def residual(self, x):
        return 0 * x


class _IdleCondition(Heat):
    @at(t=0)
    def start(self, u, x):
        return x - 1


class _Unnamed(Heat):
    def residual(self, u, time):
        return u.t


class _NoSuchDerivative(Heat):
    def residual(self, u):
        return u.z


class _ThirdDerivative(Heat):
    def residual(self, u):
        return u.xxx


class _Outside(Heat):
    @at(t=3)
    def late(self, u):
        return u


class _OtherAxis(Heat):
    @at(z=0)
    def floor(self, u):
        return u


class _Infinite(Heat):
    def exact(self, x, y, t):
        with np.errstate(divide="ignore"):
            return 1 / x


class _Flat(Heat):
    def exact(self, x, y, t):
        return x[0]


class _Zero(Heat):
    def exact(self, x, y, t):
        return 0 * x


class _Nameless(Heat):
    def exact(self, x, y, t):
        return {"v": x}


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (_Wrong, r"_Wrong.residual returned the shape \(7, 1\) for 7 points"),
        (_Scalar, "_Scalar.residual returned 1.0 for 7 points"),
        (_Idle, "_Idle.residual reads no unknown: .* Take u as an argument, .* such as u.x"),
        (_IdleCondition, "_IdleCondition.start reads no unknown"),
        (
            _Unnamed,
            "_Unnamed.residual takes 'time', which is neither an unknown nor a coord.* There are: u, x, y, t",
        ),
        (_NoSuchDerivative, "u.z is no derivative.*coordinates x, y, t"),
        (_ThirdDerivative, "u.xxx is no derivative up to the second"),
        (_Outside, r"_Outside.late holds t = 3, outside the domain, where t is in \[0, 2\]"),
        (_OtherAxis, "_OtherAxis.floor holds z = 0; the domain has no z. Its coordinates are x, y, t"),
        (_Infinite, "_Infinite.exact is inf at x = 0, y = -1, t = 0"),
        (_Flat, r"_Flat.exact returned the shape \(4, 5\) for u; the grid's is \(3, 4, 5\)"),
        (_Zero, "_Zero.exact is zero everywhere"),
        (_Nameless, "_Nameless.exact returned 'v'; the unknowns are u"),
    ],
)
def test_mistakes_in_a_problem_name_the_function(problem, message):
    with pytest.raises(ValueError, match=message):
        small(problem).build(0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"causal": Causal(chunks=3)}, "Heat: 3 causal chunks do not divide the 8 points.*--task.points 9"),
        (
            {"curriculum": Curriculum("c", (1.0,), 5)},
            "No parameter of Heat for a curriculum is called 'c'.* from: d",
        ),
        ({"curriculum": Curriculum("d", (1.0,), 0)}, "needs the steps of each value"),
        ({"curriculum": Curriculum("d", (math.nan,), 5)}, "Each of task.curriculum.values must be a finite number"),
        ({"weights": LossWeights((("strt", 2.0),))}, "No term of the loss is called 'strt'. Did you mean 'start'"),
        ({"grid": (3, 4)}, r"task.grid is \(3, 4\); give .* for each of the 3 coordinates"),
        ({"grid": (3, 0, 4)}, "1 or more, for each of the 3 coordinates"),
        ({"condition_points": 3}, r"Heat.walls holds on 4 faces, which 3 points cannot cover"),
        ({"points": 0}, "task.points is 0"),
    ],
)
def test_settings_that_do_not_fit_a_problem_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        replace(small(), **settings).build(0)


@pytest.mark.parametrize(
    "residual",
    [lambda self, u, x: np.sin(x) * u.t, lambda self, u: np.sin(u), lambda self, u, x: u.t - math.sin(x)],
    ids=["NumPy", "NumPy of an unknown", "math"],
)
def test_numpy_in_a_residual_is_told_to_be_jax_numpy(residual):
    wrong = type("Wrong", (Heat,), {"residual": residual})
    with pytest.raises(ValueError, match=r"Wrong\.residual cannot be computed: .*write jnp\.sin\(x\) for np\.sin\(x\)"):
        small(wrong).build(0)


@pytest.mark.parametrize(
    "residual", [lambda self, u: jnp.sin(u), lambda self, u, x: u.value - x[:5]], ids=["an unknown", "other points"]
)
def test_what_jax_refuses_is_said_with_the_name_of_the_function(residual):
    wrong = type("Wrong", (Heat,), {"residual": residual})
    with pytest.raises(ValueError, match=r"Wrong\.residual cannot be computed: .*jnp\.sin\(u\.value\)"):
        replace(wrong(), grid=(3, 4, 5)).build(0)


@pytest.mark.parametrize("method", ["residual", "late", "exact", "ansatz"])
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda self: speed, "NameError: name 'speed' is not defined"),  # pyright: ignore
        (lambda self: self.speed, "AttributeError: 'Wrong' object has no attribute 'speed'"),
        (lambda self: 1 / 0, "ZeroDivisionError: division by zero"),
    ],
    ids=["a name", "a setting", "a number"],
)
def test_what_python_refuses_is_said_with_the_name_of_the_function(method, body, message):
    functions = {
        "residual": lambda self, u: body(self) * u.t,
        "late": at(t=2)(lambda self, u: body(self) * u),
        "exact": lambda self, x, y, t: body(self) * x,
        "ansatz": lambda self, net, points: body(self) * net(points),
    }
    wrong = type("Wrong", (Heat,), {method: functions[method]})
    with pytest.raises(ValueError, match=rf"Wrong\.{method} cannot be computed: {message}"):
        small(wrong).build(0)


@pytest.mark.parametrize(
    ("residual", "message"),
    [
        (lambda self, u: u.t == u.xx, "returned values of type bool; .* left side minus right side"),
        (lambda self, u: u.t if u.x > 0 else u.xx, r"cannot be computed: .* write jnp.where\(condition, a, b\)"),
        (lambda self, u: u.z, "cannot be computed: u.z is no derivative.* Write u.x"),
    ],
    ids=["an equation", "an if", "no derivative"],
)
def test_a_residual_that_is_no_number_to_be_zero_is_refused_by_name(residual, message):
    with pytest.raises(ValueError, match=rf"Wrong\.residual {message}"):
        small(type("Wrong", (Heat,), {"residual": residual})).build(0)


@pytest.mark.parametrize(
    ("exact", "message"),
    [
        (lambda self, x, y, t: math.sin(x), r"cannot be computed: .* write np.sin\(x\) for math.sin\(x\)"),
        (lambda self, x, y, t: np.exp(1j * x), "returned complex numbers for u; expected a real number"),
        (lambda self, x, y, t: "sin x", "returned 'sin x' for u; expected a real number"),
    ],
    ids=["math", "complex", "words"],
)
def test_an_exact_solution_that_is_no_number_is_refused_by_name(exact, message):
    with pytest.raises(ValueError, match=rf"Wrong\.exact {message}"):
        small(type("Wrong", (Heat,), {"exact": exact})).build(0)


def test_problems_without_domain_residual_or_time_are_refused():
    class Empty(Problem):
        pass

    class Steady(Problem):
        domain = Box(x=(0.0, 1.0))

        def residual(self, u):
            return u.xx

    class Nothing(Problem):
        domain = Box(x=(0.0, 1.0))

    for problem, message in [
        (Empty(), "Empty has no domain"),
        (Nothing(), "Nothing has no residual"),
        (Steady(causal=Causal(chunks=4)), "Steady has causal chunks but no time"),
    ]:
        with pytest.raises(ValueError, match=message):
            problem.build(0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Box(), "needs coordinates"),
        (lambda: Box(time=(0.0, 1.0)), "must be one letter"),
        (lambda: Box(x=(1.0, 0.0)), "must be finite and rise"),
        (lambda: small().build(1), "Heat is one signal, number 0; number 1 is asked for. Leave out --signals"),
        (lambda: at(), "needs the coordinate"),
        (lambda: at(Heat.exact), r"Heat.exact: at\(\) needs the coordinate that is held, by its name: @at\(t=0\)"),
        (lambda: Causal(chunks=-1), "must not be negative"),
        (lambda: Causal(chunks=4, epsilon=math.nan), "must not be negative, and finite; they are 4 and nan"),
    ],
)
def test_boxes_and_faces_that_cannot_be_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("between", [classmethod, staticmethod, property])
def test_a_mark_above_what_is_no_method_is_refused(between):
    """A class gives back something else in its place, without the mark: the condition would be left out."""
    with pytest.raises(ValueError, match=rf"@at stands above a {between.__name__}; it marks a method, with no other"):
        at(t=0)(between(lambda self, u: u))


def test_a_function_that_two_classes_share_is_held_where_each_says():
    def nothing(self, u):
        return u

    class Left(Heat):
        walls = at(x=0)(nothing)

    class Floor(Left):
        walls = at(y=-1)(Left.walls)

    held = {kind: [part.faces for part in parts_of(small(kind)) if part.name == "walls"] for kind in (Left, Floor)}
    assert held == {Left: [((("x", 0.0),),)], Floor: [((("y", -1.0),), (("x", 0.0),))]}
    assert not hasattr(nothing, "faces")


@pytest.mark.parametrize("weight", [-1.0, math.inf, math.nan])
def test_a_weight_that_makes_no_loss_is_refused(weight):
    with pytest.raises(ValueError, match="The weight of start in the loss is"):
        LossWeights((("start", weight),))


@pytest.mark.parametrize(
    ("ansatz", "message"),
    [
        (lambda self, net, points: jnp.sin(points[..., 0:1]) * net(points), r"ansatz cannot .* elementwise\(jnp.sin"),
        (lambda self, net, points: points, r"ansatz returned a \w+ of shape \(1, 3\) .* like net\(points\)"),
        (lambda self, net, points: None, "ansatz returned a NoneType for one point"),
    ],
)
def test_an_ansatz_that_cannot_be_is_refused_by_name(ansatz, message):
    problem = type("Bent", (Heat,), {"ansatz": ansatz})
    with pytest.raises(ValueError, match=rf"Bent\.{message}"):
        problem().build(0)


_FILE = """import math
from dataclasses import dataclass
from rwf.pde import Box, Problem, at, recipe

@dataclass(frozen=True)
class Rod(Problem):
    domain = Box(x=(0.0, 1.0), t=(0.0, 1.0))

    def residual(self, u):
        return u.t - u.xx

    @at(t=0)
    def start(self, u):
        return u

RECIPES = {"rod": recipe(Rod())}
"""
_EDITS = {
    "    domain = Box(x=(0.0, 1.0), t=(0.0, 1.0))": (
        "",
        "line 16: Rod has no domain. Write, for example: domain = Box(",
    ),
    "Box(x=(0.0, 1.0)": ("Box(x=1.0", "line 7: The range of x is 1.0; give where it begins and ends: x=(0, 1)"),
    "recipe(Rod())": ("recipe(Rod)", "line 16: recipe takes a problem, .* the class Rod. Write recipe(Rod(), ...)"),
    "@at(t=0)": ("@at", "line 12: Rod.start: at() needs the coordinate that is held, by its name: @at(t=0)"),
    "(frozen=True)": ("", "line 5: cannot inherit .* Write @dataclass(frozen=True) above the class."),
    "u.t - u.xx": ("(u.t - u.xx", "line 10: '(' was never closed: return (u.t - u.xx"),
    "import math": ("import maths", "line 1: No module named 'maths'"),
    "return u\n": ("return u\n\nk = l\n", "line 16: NameError: name 'l' is not defined"),
}


def test_mistakes_in_a_file_are_told_with_its_line_and_the_cure(tmp_path):
    """In a process of its own, where nothing checks types before we do."""
    for i, (old, (new, _)) in enumerate(_EDITS.items()):
        assert old in _FILE
        (tmp_path / f"{i}.py").write_text(_FILE.replace(old, new))
    program = "import sys; from rwf.cli import main; [main(['show', path]) for path in sys.argv[1:]]"
    files = [str(tmp_path / f"{i}.py") for i in range(len(_EDITS))]
    done = subprocess.run([sys.executable, "-c", program, *files], capture_output=True, text=True, check=True)
    told = [line for line in done.stderr.splitlines() if not line.startswith("(RWF_DEBUG")]
    for file, line, (_, words) in zip(files, told, _EDITS.values(), strict=True):
        parts = words.split(" .* ")
        assert line.startswith(f"rwf: {file}, {parts[0]}"), line
        assert parts[-1] in line
