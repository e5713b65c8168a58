"""Shepp–Logan phantoms: a head of ten ellipses, and as many others like it as are wanted."""

import numpy as np
from jaxtyping import Float, Float32

# The head phantom of Shepp and Logan (1974) with Toft's contrast (1996), on [-1, 1] x [-1, 1]: for each ellipse the
# density it adds, its half axes along x and y, its centre (x, y), and how far it is turned, in degrees.
_ELLIPSES = (
    (1.0, 0.69, 0.92, 0.0, 0.0, 0.0),
    (-0.8, 0.6624, 0.874, 0.0, -0.0184, 0.0),
    (-0.2, 0.11, 0.31, 0.22, 0.0, -18.0),
    (-0.2, 0.16, 0.41, -0.22, 0.0, 18.0),
    (0.1, 0.21, 0.25, 0.0, 0.35, 0.0),
    (0.1, 0.046, 0.046, 0.0, 0.1, 0.0),
    (0.1, 0.046, 0.046, 0.0, -0.1, 0.0),
    (0.1, 0.046, 0.023, -0.08, -0.605, 0.0),
    (0.1, 0.023, 0.023, 0.0, -0.605, 0.0),
    (0.1, 0.023, 0.046, 0.06, -0.605, 0.0),
)


def shepp_logan(*, seed: int | None, size: int = 512, spread: float = 0.05) -> Float32[np.ndarray, "{size} {size}"]:
    """A phantom with every parameter moved by `spread` times N(0, 1), clipped to [0, 1], as Tancik et al. drew theirs.

    All six parameters of an ellipse move, its angle in radians. The numbers come from numpy's PCG64, so that a seed
    means one phantom. **Arguments:** `seed`, not negative, or None for the phantom itself; `size`, the side in pixels.
    """
    if (seed is not None and seed < 0) or size < 2:
        raise ValueError(f"A phantom needs a seed >= 0 and a size >= 2 pixels; got seed {seed} and size {size}.")
    ellipses = np.array(_ELLIPSES)
    ellipses[:, 5] = np.deg2rad(ellipses[:, 5])
    if seed is not None:
        ellipses += spread * np.random.Generator(np.random.PCG64(seed)).standard_normal(ellipses.shape)
    density = sum((_ellipse(size, ellipse) for ellipse in ellipses), np.zeros((size, size)))
    return np.clip(density, 0, 1).astype(np.float32)


def _ellipse(size: int, parameters: Float[np.ndarray, " 6"]) -> Float[np.ndarray, "size size"]:
    """One ellipse of constant density; the first row of the picture is the top of the head."""
    density, a, b, x0, y0, angle = parameters
    x, y = np.meshgrid(np.linspace(-1, 1, size) - x0, np.linspace(1, -1, size) - y0)
    along, across = x * np.cos(angle) + y * np.sin(angle), y * np.cos(angle) - x * np.sin(angle)
    # a half axis that the noise made negative is one all the same: only its square counts
    return density * ((along / a) ** 2 + (across / b) ** 2 <= 1)
