"""Problems of one's own: what is computed, how points lie, causal weights and curricula."""

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from problems import Heat, small
from rwf import derive
from rwf.pde import Box, Causal, Curriculum, LossWeights, Problem, at, periodic, recipe
from rwf.recipe import Identity, Periodic
from rwf.registry import find_recipe
from rwf.spec import from_json, to_json, with_values

EXAMPLES = Path(__file__).parents[1] / "examples"


def exactly(x):
    """A net that is x² y + t, of which all derivatives are known; it takes Jets and arrays."""
    column = [x[..., i : i + 1] for i in range(3)]
    return column[0] * column[0] * column[1] + column[2]


def losses(problem, net=exactly, step=0, key=0):
    task = problem.build(0)

    @jax.jit
    def found(key, step):
        batch = task.batch(key, step)
        return task.losses(net, batch, step), batch

    terms, batch = found(jax.random.key(key), jnp.asarray(step))
    return terms, np.asarray(batch)


def test_the_loss_is_that_of_the_equation():
    terms, points = losses(small())
    x, y, t = np.asarray(points, float).T
    residual, flux, start = slice(0, 8), slice(8, 14), slice(14, 20)
    if not (points[start, 2] == 0).all():  # conditions stand in the order of what they want
        flux, start = start, flux
    expected = {
        "residual": np.mean((1 - 0.5 * 2 * y[residual]) ** 2),
        "walls_flux": np.mean((2 * x * y)[flux] ** 2),
        "walls_value": np.mean((x**2 * y + t)[flux] ** 2),
        "start": np.mean((x**2 * y + t - x * y)[start] ** 2),
    }
    assert {name: pytest.approx(float(value), rel=1e-5) for name, value in terms.items()} == expected


def test_points_lie_in_the_domain_and_on_their_faces():
    task = replace(small(), points=200, condition_points=100).build(0)
    points = np.asarray(eqx.filter_jit(task.batch)(jax.random.key(0), jnp.asarray(0)))
    assert points.shape == (400, 3)
    assert (points >= [0, -1, 0]).all()
    assert (points <= [1, 1, 2]).all()
    assert points[:200].std(axis=0) == pytest.approx([0.29, 0.58, 0.58], rel=0.15)
    for part, start, stop in task.draw.sections:
        x, y, t = points[start:stop].T
        if part.name == "start":
            assert (t == 0).all()
        if part.name == "walls":
            assert [int((side).sum()) for side in (x == 0, x == 1, y == -1, y == 1)] == [25, 25, 25, 25]


def test_a_step_draws_all_points_with_one_call():
    task = small(causal=Causal(chunks=4)).build(0)
    drawn = str(jax.make_jaxpr(lambda key: task.batch(key, jnp.asarray(0)))(jax.random.key(0)))
    assert drawn.count("random_bits[") == 1


def test_only_the_derivatives_that_are_named_are_carried():
    wanted = {part.name: part.wanted for part, _, _ in small().build(0).draw.sections}
    assert wanted == {
        "residual": derive.Wanted(first=(2,), laplacian=(0, 1)),
        "start": derive.Wanted(),
        "walls": derive.Wanted(first=(0,)),
    }


def test_the_error_is_relative_to_the_exact_solution():
    task = small().build(0)
    x, _, t = np.meshgrid(np.linspace(0, 1, 3), np.linspace(-1, 1, 4), np.linspace(0, 2, 5), indexing="ij")
    exact = np.exp(-t) * x
    error = float(jax.jit(lambda: task.metrics(lambda points: jnp.ones((60, 1))))()["rel_l2"])
    assert error == pytest.approx(np.linalg.norm(1 - exact) / np.linalg.norm(exact), rel=1e-5)


@dataclass(frozen=True)
class Unsolved(Problem):
    """No exact solution, and no conditions."""

    domain = Box(x=(0.0, 1.0))

    def residual(self, u):
        return u.x - 3


class Held(Unsolved):
    """With conditions."""

    @at(x=(0, 1))
    def ends(self, u):
        return {"value": u - 4, "slope": u.x}


def test_without_an_exact_solution_the_residual_is_measured():
    metrics = Unsolved(points=4, grid=(5,)).build(0).metrics(lambda x: x * 2)
    assert metrics == {"rms_residual": 1.0}


def test_without_an_exact_solution_the_conditions_are_measured_too():
    task = Held(points=4, condition_points=2, grid=(5,)).build(0)
    metrics = jax.jit(lambda: task.metrics(lambda x: x * 2))()
    assert float(metrics["rms_residual"]) == 1
    assert float(metrics["rms_conditions"]) == pytest.approx(math.sqrt((4**2 + 2**2) / 2 + 2**2))


class _Unsolved(Heat):
    exact = None  # Heat's is none of its solutions, which is remarked too


@pytest.mark.parametrize(("steps", "told"), [(10, True), (11, False)])
def test_a_training_that_ends_before_its_curriculum_says_so(steps, told):
    remarks = small(_Unsolved, curriculum=Curriculum("d", (1.0, 2.0), steps=5)).remarks(steps)
    assert ["is never trained" in remark for remark in remarks] == [True] * told
    assert small(_Unsolved).remarks(steps) == []


def test_a_term_without_weight_is_left_out_of_the_balance():
    weights = LossWeights((("b", 0.0),), balance_every=1)
    old = {name: jnp.ones(()) for name in "abc"}
    new = weights.rebalanced(
        old, lambda p: weights.apply({"a": p**2, "b": 7 * p, "c": 5 * p**2}), jnp.float32(1), jnp.int32(0)
    )
    assert {n: float(x) for n, x in new.items()} == {"a": pytest.approx(3.0), "b": 1.0, "c": pytest.approx(0.6)}


def test_time_is_sorted_for_causal_training_and_nothing_else_is():
    task = small(causal=Causal(chunks=4)).build(0)
    points = np.asarray(eqx.filter_jit(task.batch)(jax.random.key(0), jnp.asarray(0)))[:8]
    assert (np.diff(points[:, 2]) > 0).all()
    assert not (np.diff(points[:, 0]) > 0).all()


def test_causal_weights_are_the_papers_and_carry_no_gradient():
    causal = Causal(chunks=4, epsilon=0.7)
    losses = np.array([0.5, 1.0, 2.0, 3.0], np.float32)
    expected = np.exp(-0.7 * np.array([0, 0.5, 1.5, 3.5]))
    np.testing.assert_allclose(causal.weights(jnp.asarray(losses)), expected, rtol=1e-6)
    squares = jnp.repeat(jnp.asarray(losses), 2)  # two points a chunk
    mean, gradient = jax.value_and_grad(lambda s: causal.means({"residual": s})["residual"])(squares)
    assert float(mean) == pytest.approx(np.mean(expected * losses), rel=1e-6)
    np.testing.assert_allclose(gradient, np.repeat(expected, 2) / 8, rtol=1e-6)


def test_a_system_shares_its_causal_weights():
    squares = {"a": jnp.array([1.0, 1.0]), "b": jnp.array([2.0, 5.0])}
    found = Causal(chunks=2, epsilon=1.0).means(squares)
    assert float(found["b"]) == pytest.approx((2 + math.exp(-3) * 5) / 2, rel=1e-6)


def test_a_curriculum_goes_through_its_values_and_ends_at_the_problems():
    problem = small(curriculum=Curriculum("d", (0.1, 0.2), steps=10))
    found = [float(problem.curriculum.at(problem, jnp.asarray(step)).d) for step in (0, 9, 10, 19, 20, 1_000)]
    assert found == pytest.approx([0.1, 0.1, 0.2, 0.2, 0.5, 0.5])
    early, late = losses(problem)[0]["residual"], losses(problem, step=99)[0]["residual"]
    assert float(early) != float(late)
    assert float(late) == pytest.approx(float(losses(small())[0]["residual"]))


def test_weights_multiply_the_terms_that_they_name():
    plain, _ = losses(small())
    weighted, _ = losses(small(weights=LossWeights((("start", 100.0),))))
    ratio = {name: float(weighted[name] / plain[name]) for name in plain}
    assert ratio == pytest.approx({"residual": 1, "walls_flux": 1, "walls_value": 1, "start": 100})


def test_a_condition_can_be_built_into_the_solution():
    class Held(Heat):
        def ansatz(self, net, points):
            return points[..., 0:1] * net(points)

    jet = Held().ansatz(exactly, derive.seed(jnp.ones((2, 3)), derive.Wanted(first=(0,))))
    assert jet.by(0).tolist() == [[4.0], [4.0]]  # of x³ y + x t


def test_an_unknown_reads_like_the_equation():
    @dataclass(frozen=True)
    class Odd(Problem):
        """Every operation at once."""

        domain = Box(x=(0.0, 1.0))

        def residual(self, u):
            return -u + 2 * u - u / 2 + 1 - (u**2) * u + (1 - u) + 1 / u + jnp.exp(u.value) + u.value - u * u.x

    terms, points = losses(replace(Odd(), points=4, grid=(4,)), net=lambda x: x + 1)
    u = np.asarray(points[:, 0], float) + 1
    expected = -u + 2 * u - u / 2 + 1 - u**3 + (1 - u) + 1 / u + np.exp(u) + u - u
    assert float(terms["residual"]) == pytest.approx(np.mean(expected**2), rel=1e-4)


def test_periodic_coordinates_choose_the_encoding():
    @dataclass(frozen=True)
    class Ring(Heat):
        """A ring."""

        domain = Box(x=periodic(0.0, 3.0), y=(0.0, 1.0), t=(0.0, 1.0))

    assert recipe(Ring()).encoding == Periodic((3.0, None, None))
    assert recipe(Heat()).encoding == Identity()
    assert recipe(Ring()).name == "ring"
    assert Box(x=periodic(0.0, 3.0)).grid((3,))[0].tolist() == [0, 1, 2]


def test_a_problem_survives_json_and_settings():
    problem = small(
        causal=Causal(chunks=4), curriculum=Curriculum("d", (0.1,), 5), weights=LossWeights((("start", 2.0),))
    )
    assert from_json(json.loads(json.dumps(to_json(problem)))) == problem
    assert with_values(problem, {"d": 0.3, "causal.chunks": 2}).causal.chunks == 2


def test_a_changed_equation_is_another_experiment(tmp_path):
    text = (EXAMPLES / "wave.py").read_text()
    hashes = []
    for old, new in [
        ("", ""),
        ("u.tt - self", "u.tt + self"),
        ("held at both ends", "tied"),
        ("steps=20_000", "steps=10_000"),
    ]:
        (tmp_path / "mine.py").write_text(text.replace(old, new))
        hashes.append(find_recipe(str(tmp_path / "mine.py")).recipe.task.source)
    assert hashes[0] != hashes[1]
    assert hashes[0] == hashes[2] == hashes[3]


def test_a_problem_without_a_docstring_is_described_by_its_name():
    @dataclass(frozen=True)
    class Quiet(Heat):
        k: float = 1.0

    assert Quiet.__doc__ is not None
    assert Quiet.__doc__.startswith("Quiet(")
    assert small(Quiet).describe() == "generated: Quiet; 3 × 4 × 5 test points"
    assert small().describe() == "generated: u_t = d (u_xx + u_yy) in a square; 3 × 4 × 5 test points"
