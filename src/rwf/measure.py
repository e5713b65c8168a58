"""How near a picture is to the truth: PSNR and SSIM, for values in [0, 1]."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

_WINDOW = 7  # pixels, the side of the window that SSIM slides over the picture
_LUMINANCE, _CONTRAST = 0.01**2, 0.03**2  # the constants of Wang et al. (2004)


def psnr(prediction: Float[Array, "..."], truth: Float[Array, "..."]) -> Float[Array, ""]:
    """The peak signal-to-noise ratio in decibels, where the peak is 1."""
    _check(prediction, truth)
    return -10 * jnp.log10(jnp.mean((prediction - truth) ** 2))


def ssim(prediction: Float[Array, "height width *channels"], truth: Float[Array, "..."]) -> Float[Array, ""]:
    """The structural similarity of Wang et al. (2004): 1 where both are equal; the mean over channels.

    The windows are uniform, 7 × 7, and lie inside the picture; variances are those of a sample: what
    scikit-image computes by default.
    """
    _check(prediction, truth)
    if truth.ndim not in (2, 3) or min(truth.shape[:2]) < _WINDOW:
        raise ValueError(
            f"SSIM needs pictures of {_WINDOW} × {_WINDOW} pixels or more, channels last; got {truth.shape}."
        )
    # variances do not change when both move, and around zero their float32 loses less to cancellation
    x, y = prediction - 0.5, truth - 0.5
    mean_x, mean_y, xx, yy, xy = _window_means(jnp.stack([x, y, x * x, y * y, x * y]))
    sample = _WINDOW**2 / (_WINDOW**2 - 1)
    variances = sample * (xx - mean_x**2 + yy - mean_y**2)
    covariance = sample * (xy - mean_x * mean_y)
    mean_x, mean_y = mean_x + 0.5, mean_y + 0.5
    likeness = (2 * mean_x * mean_y + _LUMINANCE) * (2 * covariance + _CONTRAST)
    return jnp.mean(likeness / ((mean_x**2 + mean_y**2 + _LUMINANCE) * (variances + _CONTRAST)))


def _window_means(pictures: Float[Array, "n height width *channels"]) -> Float[Array, "n inner_h inner_w *channels"]:
    """Means over all windows that lie inside, one axis after the other."""
    for axis in (1, 2):
        count = pictures.shape[axis] - _WINDOW + 1
        shifted = [jax.lax.slice_in_dim(pictures, i, i + count, axis=axis) for i in range(_WINDOW)]
        pictures = sum(shifted[1:], shifted[0]) / _WINDOW
    return pictures


def _check(prediction: Array, truth: Array) -> None:
    if prediction.shape != truth.shape:
        raise ValueError(f"Two pictures of one shape are compared; got {prediction.shape} and {truth.shape}.")
