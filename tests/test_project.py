"""Projections: against scikit-image and a plain rotation in float64, and their transpose."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from skimage.transform import radon

from rwf import project as module
from rwf.signals.phantoms import shepp_logan

INTERPOLATIONS = ["nearest", "bilinear"]
project = jax.jit(module.project, static_argnums=(1, 2))
back_project = jax.jit(module.back_project, static_argnums=1)


def noise(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def inside_the_circle(picture):
    """The picture with a rim of zeros, as scikit-image wants it."""
    offsets = np.arange(len(picture)) - len(picture) // 2
    return np.where(np.hypot(*np.meshgrid(offsets, offsets)) < len(picture) // 2 - 1, picture, 0)


def rotated(picture, angle):
    """The nearest pixels of the rotated grid, in float64."""
    side = len(picture)
    y, x = np.meshgrid(*[np.arange(side) - side // 2] * 2, indexing="ij")
    row = np.floor(x * np.sin(angle) + y * np.cos(angle) + 0.5).astype(int) + side // 2
    column = np.floor(x * np.cos(angle) - y * np.sin(angle) + 0.5).astype(int) + side // 2
    inside = (row >= 0) & (row < side) & (column >= 0) & (column < side)
    return np.where(inside, picture[row.clip(0, side - 1), column.clip(0, side - 1)], 0)


@pytest.mark.parametrize(("interpolation", "within"), [("bilinear", 0.001), ("nearest", 0.02)])
def test_projections_are_scikit_images(interpolation, within):
    picture = inside_the_circle(shepp_logan(seed=3, size=128))
    angles = 12
    # theirs turn the other way, and are sums where ours are means
    theirs = radon(picture.astype(np.float64), theta=-np.arange(angles) * 180 / angles).T / 128
    ours = np.asarray(project(jnp.asarray(picture), angles, interpolation))
    assert np.linalg.norm(ours - theirs) < within * np.linalg.norm(theirs)


@pytest.mark.parametrize("side", [32, 101])
def test_nearest_projections_are_means_of_the_rotated_grid(side):
    picture = np.asarray(noise(side, side), np.float64)
    expected = [rotated(picture, angle).mean(axis=0) for angle in np.linspace(0, np.pi, 8)[:-1]]
    np.testing.assert_allclose(project(noise(side, side), 7, "nearest"), expected, atol=1e-6)


def test_without_a_turn_a_projection_is_the_mean_of_the_rows():
    picture = noise(16, 16)
    for interpolation in INTERPOLATIONS:
        first, quarter = project(picture, 2, interpolation)
        np.testing.assert_allclose(first, picture.mean(axis=0), atol=1e-6)
        # after a quarter turn the column that has no mirror image about the centre lies outside
        np.testing.assert_allclose(quarter, picture[:, 1:].sum(axis=1) / 16, atol=1e-6)


@pytest.mark.parametrize(("interpolation", "side"), [("nearest", 31), ("nearest", 64), ("bilinear", 31)])
def test_the_gradient_is_the_exact_transpose(interpolation, side):
    picture, rays = noise(side, side), noise(9, side, seed=1)
    (mine,) = jax.vjp(lambda p: project(p, 9, interpolation), picture)[1](rays)
    # what the compiler makes of the same function, without our rule: a scatter
    without = jax.jit(module._project.fun, static_argnums=(1, 2))
    (scattered,) = jax.vjp(lambda p: without(p, 9, interpolation), picture)[1](rays)
    np.testing.assert_allclose(mine, scattered, atol=1e-6)
    np.testing.assert_allclose(jnp.vdot(project(picture, 9, interpolation), rays), jnp.vdot(picture, mine), rtol=1e-3)


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_the_gradient_of_a_loss_is_its_finite_difference(interpolation):
    picture, direction = noise(24, 24), noise(24, 24, seed=1)

    @jax.jit
    def loss(p):
        return jnp.sum(project(p, 5, interpolation) ** 2)

    slope = jnp.vdot(jax.grad(loss)(picture), direction)
    difference = (loss(picture + 0.1 * direction) - loss(picture - 0.1 * direction)) / 0.2  # exact for a quadratic
    np.testing.assert_allclose(slope, difference, rtol=1e-3)


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_pictures_can_be_stacked(interpolation):
    pictures, rays = noise(3, 16, 16), noise(3, 4, 16, seed=1)
    stacked = jax.vmap(lambda p: project(p, 4, interpolation))(pictures)
    np.testing.assert_allclose(stacked, [project(p, 4, interpolation) for p in pictures], atol=1e-6)
    back = jax.vmap(lambda r: back_project(r, interpolation))(rays)
    np.testing.assert_allclose(back, [back_project(r, interpolation) for r in rays], atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "angles", "message"),
    [((2049, 2049), 3, "1 to 2048 pixels"), ((8, 8), 0, "1 angle or more"), ((0, 0), 1, "1 to 2048 pixels")],
)
def test_what_cannot_be_projected_is_refused(shape, angles, message):
    with pytest.raises(ValueError, match=message):
        project(jnp.zeros(shape), angles, "nearest")


def test_the_gradient_scatters_nothing():
    def loss(p):
        return jnp.sum(project(p, 4, "nearest") ** 2)

    lowered = jax.jit(jax.vmap(jax.grad(loss))).lower(noise(2, 16, 16)).as_text()
    assert "gather" in lowered
    assert "scatter" not in lowered
