"""What is written into a problem, before anything is computed: terms, settings, unknowns, grids, encodings."""

import math
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from problems import Heat, small
from rwf.pde import Box, Curriculum, Problem, at, periodic, recipe
from rwf.recipe import Affine, Gaussian, Identity, Periodic
from rwf.registry import find_recipe
from rwf.spec import flat, with_values


@dataclass(frozen=True)
class Rod(Problem):
    """u_t = k u_xx."""

    k: float = 1.0

    domain = Box(x=(0.0, 1.0), t=(0.0, 1.0))

    def residual(self, u):
        return u.t - self.k * u.xx

    @at(t=0)
    def start(self, u, x):
        return u - x


def variant(base=Rod, **members):
    return type("P", (base,), members)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (
            {"start": at(t=0)(lambda self, u: {"u": u, "v": u.t}), "start_u": at(x=0)(lambda self, u: u)},
            "P.start and P.start_u both make the term start_u; rename one",
        ),
        (
            {"residual": lambda self, u: {"a": u.t}, "residual_a": at(x=0)(lambda self, u: u)},
            "P.residual and P.residual_a both make the term residual_a; rename one",
        ),
        ({"residual": at(t=0)(lambda self, u: u.t)}, "P.residual is marked with @at, and is no condition"),
    ],
)
def test_no_term_takes_the_place_of_another(members, message):
    with pytest.raises(ValueError, match=message):
        variant(**members)().build(0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Rod(sampling="sobol"), "Rod.sampling is 'sobol'; expected 'random' or 'lattice'"),
        (lambda: Rod(weights={"start": 10.0}), r"Rod.weights is {'start': 10.0}; expected LossWeights\("),
        (lambda: Rod(causal=16), r"Rod.causal is 16; expected Causal\(...\)"),
        (lambda: Rod(grid=20), r"Rod.grid is 20; expected a tuple such as \(10, 10\)"),
        (lambda: Rod(points=1e3), "Rod.points is 1000.0; expected a whole number. Write 1000"),
        (lambda: Rod(k="1"), "Rod.k is '1'; expected a number"),
        (lambda: recipe(Rod(), steps=1e4), "Recipe.steps is 10000.0; expected a whole number. Write 10000"),
        (lambda: recipe(Rod(), net="mlp"), r"Recipe.net is 'mlp'; expected a \w+\(...\)"),
    ],
)
def test_settings_of_another_type_are_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_traced_settings_are_not_looked_at():
    changed = jax.eval_shape(lambda k: with_values(recipe(Rod()), {"task.k": k}).task.k + 1, jnp.float32(2))
    assert changed.shape == ()


@pytest.mark.parametrize(
    ("axes", "counts"), [("x", (100,)), ("xy", (100,) * 2), ("xyz", (40,) * 3), ("xyzt", (16,) * 4)]
)
def test_the_grid_stays_small_however_many_coordinates_there_are(axes, counts):
    problem = variant(domain=Box(**dict.fromkeys(axes, (0.0, 1.0))))()
    assert problem.counts == counts
    assert problem.grid == ()  # what is hashed


def test_a_grid_that_memory_cannot_hold_is_refused():
    with pytest.raises(ValueError, match=r"Rod: task.grid is .* 100,000,000 test points.* Use --task.grid"):
        Rod(grid=(10_000, 10_000)).build(0)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": 1}, "P.f is a dict; a field is a number, .* compute what is made of them in a method"),
        (np.ones(3), "P.f is a ndarray"),
        (math.sin, "P.f is a builtin_function_or_method"),
        ((1.0, {"a": 1}), "P.f is a tuple"),
        ([1.0], r"P.f is a list; .* Write a tuple, \(1, 2\)"),
        (np.float32(1), r"P.f is a float32; .* Write float\(...\)"),
    ],
    ids=["dict", "array", "function", "within", "list", "scalar"],
)
def test_fields_that_cannot_be_written_down_are_refused_by_name(value, message):
    @dataclass(frozen=True)
    class P(Rod):
        f: object = None

    assert P().f is None
    assert P(f=(1.0, ("a", None))).f == (1.0, ("a", None))
    with pytest.raises(ValueError, match=message):
        P(f=value)


@pytest.mark.parametrize(
    ("unknowns", "message"),
    [
        ("psi", r"P.unknowns is 'psi'; expected names in a tuple: .* or \(\"psi\",\) for one"),
        ((), r"P.unknowns is \(\); expected names"),
        (("u", "u"), "'u' is there twice"),
        (("u", "x"), "'x' is a coordinate too"),
        (("u-1", "u"), "'u-1' is no name that an argument can have"),
        (("lambda", "u"), "'lambda' is no name"),
    ],
)
def test_unknowns_that_cannot_be_are_refused(unknowns, message):
    with pytest.raises(ValueError, match=message):
        recipe(variant(unknowns=unknowns)())


def test_an_unknown_that_no_function_reads_is_remarked():
    (remark,) = variant(unknowns=("u", "v"))().remarks(10)
    assert remark.startswith("P has the unknown v, and no function reads it")


@pytest.mark.parametrize("residual", [lambda self, u, x: u.t / (0 * x), lambda self, u: u.t - jnp.sqrt(u.value)])
def test_a_residual_that_is_not_finite_before_training_is_remarked(residual):
    (remark,) = variant(residual=residual)().remarks(10)
    assert remark.startswith("P.residual is not finite at ")


def test_an_encoding_that_breaks_a_period_is_refused():
    ring = variant(domain=Box(x=periodic(0.0, 2.0), t=(0.0, 1.0)))()
    for encoding in (Gaussian(scale=1.0, frequencies=4), Identity(), Periodic((1.5, None))):
        with pytest.raises(ValueError, match=r"P is periodic in x, .* for Periodic\(\(2.0, None\)\); .* x=\(0, 2\)"):
            recipe(ring, encoding=encoding)
        with pytest.raises(ValueError, match="P is periodic in x"):
            replace(recipe(ring), encoding=encoding)
    for encoding in (Periodic((2.0, None)), Periodic((1.0, 7.0)), Affine(Periodic((2.0, None)), 3.0)):
        assert recipe(ring, encoding=encoding).encoding == encoding
        assert replace(recipe(ring), encoding=encoding).encoding == encoding
    assert recipe(Rod(), encoding=Gaussian()).encoding == Gaussian()


def test_an_encoding_that_is_not_the_recipes_own_goes_through_a_program():
    """Recipes are made in there too, of settings that are traced: an encoding's may be among them."""
    made = recipe(variant(domain=Box(x=periodic(0.0, 2.0), t=(0.0, 1.0)))(), encoding=Affine(Periodic((2.0, None))))
    for path in ("optim.lr", "encoding.factor"):
        assert float(jax.jit(lambda x, path=path: flat(with_values(made, {path: x}))[path])(3.0)) == 3.0


def test_the_operator_of_burgers_keeps_its_period():
    with pytest.raises(ValueError, match="Burgers is periodic in x, and with the encoding Identity a net is not"):
        replace(find_recipe("burgers").recipe, encoding=Identity())


def test_an_ansatz_may_make_a_net_periodic_itself():
    members = {"domain": Box(x=periodic(0.0, 2.0), t=(0.0, 1.0)), "ansatz": lambda self, net, points: net(points)}
    assert recipe(variant(**members)(), encoding=Identity()).encoding == Identity()


@pytest.mark.parametrize("curriculum", [Curriculum("d"), Curriculum(steps=5)])
def test_a_curriculum_without_values_is_remarked(curriculum):
    problem = replace(small(Heat), curriculum=curriculum)
    problem.build(0)  # so that one is switched off: by taking its values away
    assert any("has no values, and is not used" in remark for remark in problem.remarks(100))
