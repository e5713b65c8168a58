"""PSNR and SSIM against scikit-image."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from rwf.measure import psnr, ssim


def pair(shape, noise, seed=0):
    """A smooth picture and a noisy one, both in [0, 1]."""
    rng = np.random.default_rng(seed)
    rows, columns = np.meshgrid(np.linspace(0, 3, shape[0]), np.linspace(0, 4, shape[1]), indexing="ij")
    truth = 0.5 + 0.5 * np.sin(rows * columns)
    truth = np.broadcast_to(truth.reshape(*shape[:2], *[1] * (len(shape) - 2)), shape).astype(np.float32)
    return np.clip(truth + noise * rng.normal(size=shape), 0, 1).astype(np.float32), truth


@pytest.mark.parametrize("shape", [(64, 48), (33, 40, 3), (7, 7)])
@pytest.mark.parametrize("noise", [0.0, 0.003, 0.1, 1.0])
def test_ssim_is_that_of_scikit_image(shape, noise):
    prediction, truth = pair(shape, noise)
    axis = -1 if len(shape) == 3 else None
    expected = structural_similarity(
        *(x.astype(np.float64) for x in (prediction, truth)), data_range=1.0, channel_axis=axis
    )
    np.testing.assert_allclose(jax.jit(ssim)(jnp.asarray(prediction), jnp.asarray(truth)), expected, atol=1e-5, rtol=0)


def test_flat_regions_do_not_lose_ssim_to_rounding():
    truth = np.full((64, 64), 0.9, np.float32)
    truth[20:40, 20:40] = 1.0
    prediction = np.clip(truth + 1e-3 * np.random.default_rng(0).normal(size=truth.shape), 0, 1).astype(np.float32)
    expected = structural_similarity(*(x.astype(np.float64) for x in (prediction, truth)), data_range=1.0)
    np.testing.assert_allclose(jax.jit(ssim)(jnp.asarray(prediction), jnp.asarray(truth)), expected, atol=1e-5, rtol=0)


def test_psnr_is_that_of_scikit_image():
    prediction, truth = pair((33, 40, 3), 0.1)
    expected = peak_signal_noise_ratio(truth, prediction, data_range=1.0)
    np.testing.assert_allclose(psnr(jnp.asarray(prediction), jnp.asarray(truth)), expected, rtol=1e-5)


@pytest.mark.parametrize("measure", [psnr, ssim])
def test_pictures_can_be_stacked_and_compiled(measure):
    pairs = [pair((16, 20, 3), 0.1, seed) for seed in range(3)]
    stacked = [jnp.asarray(np.stack(x)) for x in zip(*pairs, strict=True)]
    each = [jax.jit(measure)(jnp.asarray(a), jnp.asarray(b)) for a, b in pairs]
    np.testing.assert_allclose(jax.jit(jax.vmap(measure))(*stacked), each, rtol=1e-5)


@pytest.mark.parametrize("measure", [psnr, ssim])
def test_pictures_of_two_shapes_are_refused(measure):
    with pytest.raises(ValueError, match="one shape"):
        measure(jnp.zeros((8, 8, 1)), jnp.zeros((8, 8, 3)))


def test_a_picture_smaller_than_the_window_is_refused():
    with pytest.raises(ValueError, match="7 × 7 pixels or more"):
        ssim(jnp.zeros((6, 9)), jnp.zeros((6, 9)))
