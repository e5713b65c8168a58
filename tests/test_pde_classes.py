"""Classes of problems: what would be read as something else, or not at all, is refused before anything is trained."""

import functools
from dataclasses import dataclass, field

import pytest

from problems import Heat, small
from rwf.pde import Box, Curriculum, LossWeights, Problem, at, recipe


def _undecorated():
    class Rod(Heat):
        c: float = 2.0

    Rod(c=3.0)  # type: ignore[call-arg]


def _cached():
    class Rod(Heat):
        @functools.cached_property
        def squared(self):
            return self.d**2

    Rod()


def _as_a_field():
    line = Box(x=(0.0, 1.0))

    @dataclass(frozen=True)
    class Rod(Problem):
        domain: Box = line  # type: ignore[misc]

    Rod()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_undecorated, r"Rod has the field c, and is no dataclass.* Write @dataclass\(frozen=True\) above class Rod"),
        (_cached, "Rod.squared is a cached_property: .* Write @property"),
        (_as_a_field, r"Rod.domain is a Box; .* write it without a type, domain = Box\(\.\.\.\)"),
    ],
)
def test_a_class_that_means_something_else_than_it_says_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("name", "value"),
    [("points", 77), ("grid", (3, 4, 5)), ("sampling", "lattice"), ("weights", LossWeights((("start", 9.0),)))],
)
def test_a_setting_that_a_class_has_without_its_type_is_refused(name, value):
    """A dataclass would go on with the default, in silence."""
    kind = type(value).__name__
    with pytest.raises(ValueError, match=rf"P.{name} stands in the class .* P\({name}=\.\.\.\) .* {name}: {kind} = "):
        type("P", (Heat,), {name: value})()


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("source", lambda self, x: x, "setting source"),
        ("weights", lambda self, x: x, "setting weights"),
        ("points", at(t=0)(lambda self, u: u), "setting points"),
        ("build", at(t=0)(lambda self, u: u), "method build"),
        ("describe", at(t=0)(lambda self: self), "method describe"),
        ("counts", lambda self: (3, 4, 5), "property counts"),
        ("later", at(t=2)(lambda self, u: u), "property later"),
    ],
)
def test_a_name_of_every_problem_is_refused_for_something_else(name, value, what):
    with pytest.raises(ValueError, match=f"P.{name} is something else than the {what} .* Give it another name"):
        type("P", (Heat,), {name: value})()


def test_a_field_that_takes_the_name_of_a_setting_is_refused():
    """The hash of a file, `source`, says whether a run is of that file: a number in its place, and no run is."""

    @dataclass(frozen=True)
    class Sourced(Heat):
        source: float = 10.0  # type: ignore[assignment]

    @dataclass(frozen=True)
    class Weighted(Heat):
        weights: tuple[float, float] = (1.0, 2.0)  # type: ignore[assignment]

    for kind, name in ((Sourced, "source"), (Weighted, "weights")):
        with pytest.raises(ValueError, match=f"{kind.__name__}.{name} is something else than the setting {name}"):
            kind()


def test_a_class_may_have_defaults_of_its_own_methods_of_ours_and_slots():
    @dataclass(frozen=True)
    class Cold(Heat):
        points: int = 77
        weights: LossWeights = field(default_factory=lambda: LossWeights((("start", 9.0),)))

        def describe(self):
            return "cold"

        def helper(self, x):
            return x

    @dataclass(frozen=True, slots=True)
    class Slotted(Heat):
        c: float = 1.0

    problem = Cold()
    assert (problem.points, problem.weights.fixed, problem.describe()) == (77, (("start", 9.0),), "cold")
    assert Slotted(c=2.0).c == 2.0


@pytest.mark.parametrize("name", ["loss", "step", "rel_l2", "weight_change"])
def test_a_term_that_has_the_name_of_something_else_in_the_log_is_refused(name):
    with pytest.raises(ValueError, match=f"P.{name} makes the term {name}, and the log .* rename it"):
        small(type("P", (Heat,), {name: at(t=2)(lambda self, u: u)})).build(0)


def test_an_unknown_that_python_reads_as_another_letter_is_refused():
    with pytest.raises(ValueError, match=r"where 'ϕ' is 'φ' where Python reads it as an argument\. Give it another"):
        small(type("P", (Heat,), {"unknowns": ("ϕ",)})).build(0)


def _squared_beforehand(self):
    Heat.__post_init__(self)
    object.__setattr__(self, "squared", self.d**2)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"__post_init__": _squared_beforehand}, r"P.squared is made of d, .* as a @property, def squared\(self\)"),
        ({"domain": property(lambda self: Box(x=(0, self.d), y=(-1, 1), t=(0, 2)))}, "P.domain is made of d"),
    ],
)
def test_what_a_curriculum_would_not_change_is_refused(members, message):
    kind = type("P", (Heat,), {"walls": None} | members)
    small(kind).build(0)
    with pytest.raises(ValueError, match=message):
        small(kind, curriculum=Curriculum("d", (1.0,), 5)).build(0)


def test_an_object_that_is_made_anew_is_not_taken_for_one_of_the_parameter():
    def with_a_table(self):
        Heat.__post_init__(self)
        object.__setattr__(self, "table", {"a": object()})

    kind = type("P", (Heat,), {"walls": None, "__post_init__": with_a_table})
    assert small(kind, curriculum=Curriculum("d", (1.0,), 5)).build(0)


def test_a_curriculum_of_a_problem_without_numbers_says_what_to_write():
    class Still(Problem):
        domain = Box(x=(0.0, 1.0))

        def residual(self, u):
            return u.xx

    with pytest.raises(ValueError, match=r"Still has no number that a curriculum .* Write a field: c: float = 1\.0"):
        Still(curriculum=Curriculum("c", (1.0,), 5)).build(0)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("AllenCahn", "allen-cahn"), ("KdV", "kdv"), ("Heat2D", "heat2d"), ("NLSWave", "nls-wave"), ("Wave", "wave")],
)
def test_a_recipe_is_called_after_the_words_of_its_class(kind, name):
    assert recipe(type(kind, (Heat,), {})()).case == name
