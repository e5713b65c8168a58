"""Taylor's flow in a corner: on its walls, without divergence, and a solution of Stokes' equations."""

import jax
import jax.numpy as jnp
import numpy as np

from rwf.derive import Wanted, known, seed
from rwf.solvers.corner_flow import corner_flow, lid_corners

POINTS = jnp.asarray(np.random.default_rng(0).uniform(0.05, 0.9, (50, 2)), jnp.float32)


def test_it_moves_with_the_lid_and_stands_at_the_wall():
    r, zero = jnp.geomspace(0.01, 1, 9), jnp.zeros(9)
    along, away, _ = corner_flow(r, zero, 0.1)
    np.testing.assert_allclose(along, 1, atol=1e-4)
    np.testing.assert_allclose(away, 0, atol=1e-4)
    along, away, _ = corner_flow(zero, r, 0.1)
    np.testing.assert_allclose([along, away], 0, atol=1e-6)


def test_the_corner_itself_counts_to_the_wall():
    np.testing.assert_allclose(corner_flow(jnp.zeros(()), jnp.zeros(()), 0.1)[:2], 0, atol=1e-6)


def test_both_corners_solve_stokes_equations():
    with jax.enable_x64(True):
        viscosity = 0.1
        wanted = Wanted(first=(0, 1), laplacian=(0, 1))
        jet = known(lambda x: lid_corners(x, viscosity), seed(jnp.asarray(POINTS, jnp.float64), wanted))
        by_x, by_y = jet.by(0), jet.by(1)
        np.testing.assert_allclose(by_x[:, 0] + by_y[:, 1], 0, atol=1e-6)
        forces = viscosity * jet.laplacian()
        np.testing.assert_allclose(by_x[:, 2], forces[:, 0], atol=1e-5)
        np.testing.assert_allclose(by_y[:, 2], forces[:, 1], atol=1e-5)


def test_what_is_left_on_the_boundary_is_continuous_where_lid_and_walls_meet():
    # On the lid u is 1 and on the walls 0: what a net must add has no jump, neither in u nor in v.
    near = 1e-4
    lid = jnp.array([1.0, 0.0]) - lid_corners(jnp.array([[near, 1.0], [1 - near, 1.0]]), 0.1)[:, :2]
    wall = -lid_corners(jnp.array([[0.0, 1 - near], [1.0, 1 - near]]), 0.1)[:, :2]
    np.testing.assert_allclose(lid, wall, atol=2e-3)
