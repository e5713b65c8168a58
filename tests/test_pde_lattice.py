"""Points on a lattice: evenly spread, shifted as a whole, in the order of time where that is asked."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from rwf.pde import Box, Causal, Problem, at


@dataclass(frozen=True)
class SpreadHeat(Problem):
    """u_t = u_xx + u_yy in a square."""

    domain = Box(x=(0.0, 1.0), y=(-1.0, 1.0), t=(0.0, 2.0))

    def residual(self, u):
        return u.t - u.laplacian

    @at(t=0)
    def start(self, u, x, y):
        return u - x * y


def test_a_lattice_spreads_points_evenly_and_moves_as_a_whole():
    problem = SpreadHeat(points=400, condition_points=60, sampling="lattice")
    task = problem.build(0)
    first, second = (np.asarray(task.batch(jax.random.key(key), jnp.asarray(0))) for key in (0, 1))
    assert (first != second).any()
    low, high = np.array([0.0, -1.0, 0.0]), np.array([1.0, 1.0, 2.0])
    assert ((first >= low) & (first <= high)).all()
    inside, moved = ((points[:400] - low) / (high - low) for points in (first, second))
    shift = (moved - inside) % 1.0
    assert np.abs((shift - shift[0] + 0.5) % 1.0 - 0.5).max() < 1e-5


def test_means_over_a_lattice_have_less_noise():
    def spread(sampling):
        draw = SpreadHeat(points=400, sampling=sampling).build(0).batch
        points = [np.asarray(draw(jax.random.key(key), jnp.asarray(0)))[:400] for key in range(30)]
        return np.std([np.mean(np.exp(p[:, 0] * p[:, 1]) * np.cos(p[:, 2])) for p in points])

    assert spread("lattice") < 0.3 * spread("random")


def test_a_lattice_stays_one_when_it_is_put_in_the_order_of_time():
    settings = {"points": 400, "condition_points": 60, "sampling": "lattice"}
    plain, sorted_ = (SpreadHeat(causal=Causal(chunks=n), **settings).build(0) for n in (0, 4))
    before, after = (np.asarray(task.batch(jax.random.key(0), jnp.asarray(0)))[:400] for task in (plain, sorted_))
    assert (np.diff(after[:, 2]) >= 0).all()
    np.testing.assert_array_equal(before[np.argsort(before[:, 2], kind="stable")], after)
