"""Volume rendering against closed forms, and losses in pieces."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rwf.accumulate import mean_over_pieces
from rwf.render import (
    Camera,
    Rays,
    Sampling,
    composite,
    distances,
    look_at,
    orbit,
    pixel_rays,
    render_rays,
    render_view,
)

CAMERA = Camera(height=6, width=9, focal=7.0)
POSE = jnp.asarray(look_at([2.0, -3.0, 1.5]))


def ball(density, radius, colour=(0.2, 0.5, 0.9)):
    """A ball around the origin, of one density and colour."""

    def field(points):
        inside = jnp.sum(points**2, axis=-1) < radius**2
        return jnp.broadcast_to(jnp.array(colour), points.shape), density * inside

    return field


# Rays


def test_a_point_on_the_ray_of_a_pixel_is_seen_at_the_centre_of_that_pixel():
    row, column = (jnp.arange(54) // 9, jnp.arange(54) % 9)
    rays = pixel_rays(CAMERA, jnp.broadcast_to(POSE, (54, 4, 4)), row, column)
    points = rays.origins + 3.7 * rays.directions
    in_camera = np.asarray((points - POSE[:3, 3]) @ POSE[:3, :3])  # x to the right, y up, z backwards
    assert (in_camera[:, 2] < 0).all()
    x, y = (in_camera[:, i] / -in_camera[:, 2] * CAMERA.focal for i in (0, 1))
    np.testing.assert_allclose(x + CAMERA.width / 2, column + 0.5, atol=1e-4)
    np.testing.assert_allclose(CAMERA.height / 2 - y, row + 0.5, atol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(rays.directions, axis=-1), 1, rtol=1e-6)


def test_a_camera_that_looks_at_the_origin_has_it_in_the_middle():
    for pose in orbit(5, radius=4.0, elevation=20.0):
        rotation, position = pose[:3, :3], pose[:3, 3]
        np.testing.assert_allclose(rotation.T @ rotation, np.eye(3), atol=1e-6)
        assert np.linalg.det(rotation) > 0
        np.testing.assert_allclose(position - 4.0 * rotation[:, 2], 0, atol=1e-5)
        assert rotation[2, 1] > 0  # upright
        assert position[2] == pytest.approx(4 * np.sin(np.deg2rad(20)), rel=1e-5)


@pytest.mark.parametrize("position", [[0.0, 0.0, 0.0], [0.0, 0.0, 3.0], [np.nan, 1.0, 0.0]])
def test_a_camera_that_has_no_upright_is_refused(position):
    with pytest.raises(ValueError, match="move it aside"):
        look_at(position)


def test_a_resized_camera_sees_the_same():
    small = CAMERA.resized(2)
    assert (small.height, small.width) == (2, 3)
    assert small.width / small.focal == pytest.approx(CAMERA.width / CAMERA.focal)


# Samples


def test_there_is_one_sample_in_each_interval_and_anywhere_in_it():
    t = np.asarray(distances(Sampling(2.0, 6.0, 8), 500, key=jax.random.key(0)))
    edges = np.linspace(2, 6, 9)
    assert (t >= edges[:-1]).all()
    assert (t <= edges[1:]).all()
    within = (t - edges[:-1]) / 0.5
    np.testing.assert_allclose(within.mean(0), 0.5, atol=0.05)
    np.testing.assert_allclose(within.std(0), 12**-0.5, atol=0.03)


def test_without_a_key_the_samples_are_the_middles():
    np.testing.assert_allclose(distances(Sampling(2.0, 6.0, 4), 2), [[2.5, 3.5, 4.5, 5.5]] * 2)


# Compositing


def test_light_fades_exponentially_in_a_slab():
    t = jnp.linspace(0, 1, 101)[None]
    density = jnp.where(t < 0.795, 3.0, 0.0)  # 80 intervals of 0.01
    picture = composite(jnp.ones((1, 101, 3)) * jnp.array([1.0, 0.5, 0.0]), density, t)
    np.testing.assert_allclose(picture.opacity, 1 - np.exp(-3 * 0.8), rtol=1e-5)
    np.testing.assert_allclose(picture.colour[0], picture.opacity[0] * np.array([1, 0.5, 0]), rtol=1e-5)


def test_what_is_opaque_hides_what_is_behind_it():
    colour = jnp.array([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]])[None]
    picture = composite(colour, jnp.array([[0.0, 1e4, 1e4]]), jnp.array([[1.0, 2.0, 3.0]]))
    np.testing.assert_allclose(picture.colour, [[0, 1, 0]], atol=1e-6)


def test_nothing_is_black():
    picture = composite(jnp.ones((2, 5, 3)), jnp.zeros((2, 5)), jnp.tile(jnp.arange(5.0), (2, 1)))
    assert not picture.colour.any()
    assert not picture.opacity.any()


def test_whatever_is_dense_at_the_end_ends_the_ray():
    picture = composite(jnp.ones((1, 3, 3)), jnp.array([[0.0, 0.5, 1e-3]]), jnp.array([[0.0, 1.0, 2.0]]))
    np.testing.assert_allclose(picture.opacity, 1, rtol=1e-6)


@pytest.mark.parametrize("size", [0.0, 1e-12, 1.0, 1e6])
def test_gradients_are_finite_whatever_the_density(size):
    raw = size * jax.random.normal(jax.random.key(0), (4, 16))

    def brightness(raw):
        return composite(jnp.ones((4, 16, 3)), jax.nn.relu(raw), jnp.tile(jnp.arange(16.0), (4, 1))).colour.sum()

    assert np.isfinite(jax.grad(brightness)(raw)).all()


def test_the_opacity_of_a_ball_is_that_of_its_chords():
    offset = jnp.array([0.0, 0.3, 0.6, 0.9, 1.1])
    origins = jnp.stack([jnp.full(5, -4.0), offset, jnp.zeros(5)], axis=-1)
    rays = Rays(origins, jnp.broadcast_to(jnp.array([1.0, 0, 0]), (5, 3)))
    picture = render_rays(ball(1.3, 1.0), rays, distances(Sampling(2.0, 6.0, 4000), 5))
    chord = 2 * np.sqrt(np.maximum(1 - np.asarray(offset) ** 2, 0))
    np.testing.assert_allclose(picture.opacity, 1 - np.exp(-1.3 * chord), atol=2e-3)


@pytest.mark.parametrize("block", [7, 1000])
def test_a_view_does_not_depend_on_the_block(block):
    def view(block):
        return render_view(ball(5.0, 1.5), CAMERA, POSE, Sampling(2.0, 6.0, 16), block=block)

    whole = view(54)
    assert whole.colour.shape == (6, 9, 3)
    assert 0.1 < float((whole.opacity > 0).mean()) < 0.9
    np.testing.assert_allclose(view(block).colour, whole.colour, atol=1e-6)


def test_a_view_is_upright():
    def above(points):
        return jnp.ones_like(points), 10.0 * (points[:, 2] > 0.1)

    opacity = render_view(above, CAMERA, jnp.asarray(look_at([4.0, 0, 0])), Sampling(2.0, 6.0, 64), block=54).opacity
    assert float(opacity[0].min()) > 0.99
    assert float(opacity[-1].max()) < 0.01


# Losses in pieces


def loss(net, batch):
    x, y = batch
    return jnp.mean((jnp.tanh(x @ net["weight"] + net["bias"]) - y) ** 2)


NET = {"weight": jnp.arange(6.0).reshape(3, 2) / 6, "bias": jnp.array([0.1, -0.2]), "name": "mine"}
BATCH = jax.random.normal(jax.random.key(0), (12, 3)), jax.random.normal(jax.random.key(1), (12, 2))


def gradient(pieces):
    def of_weight(weight, bias):
        return 3 * mean_over_pieces(loss, {**NET, "weight": weight, "bias": bias}, BATCH, pieces)

    return jax.jit(jax.value_and_grad(of_weight, argnums=(0, 1)))(NET["weight"], NET["bias"])


@pytest.mark.parametrize("pieces", [2, 3, 12])
def test_pieces_change_neither_loss_nor_gradient(pieces):
    whole = gradient(1)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), gradient(pieces), whole)
    value = mean_over_pieces(loss, NET, BATCH, pieces)  # where nothing is differentiated
    np.testing.assert_allclose(3 * value, whole[0], rtol=1e-5)


@jax.custom_vjp
def _fixed(x):
    return x


def _refuse(residual, cotangent):
    raise AssertionError("differentiated")


_fixed.defvjp(lambda x: (x, None), _refuse)


def test_what_is_not_trained_is_not_differentiated():
    def of_weight(weight, bias):
        def with_fixed(net, batch):
            return loss({**net, "bias": _fixed(net["bias"])}, batch)

        return mean_over_pieces(with_fixed, {**NET, "weight": weight, "bias": bias}, BATCH, 2)

    assert jax.grad(of_weight)(NET["weight"], NET["bias"]).shape == (3, 2)
    with pytest.raises(AssertionError, match="differentiated"):
        jax.grad(of_weight, argnums=1)(NET["weight"], NET["bias"])


def test_members_side_by_side_have_their_own_gradients():
    def of_weight(weight):
        return mean_over_pieces(loss, {**NET, "weight": weight}, BATCH, 4)

    weights = jnp.stack([NET["weight"], 1 - NET["weight"]])
    stacked = jax.vmap(jax.grad(of_weight))(weights)
    for weight, one in zip(weights, stacked, strict=True):
        np.testing.assert_allclose(one, jax.grad(of_weight)(weight), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("pieces", [0, 5])
def test_pieces_that_do_not_divide_are_refused(pieces):
    with pytest.raises(ValueError, match="A batch of 12 cannot be cut"):
        mean_over_pieces(loss, NET, BATCH, pieces)
