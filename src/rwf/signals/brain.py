"""Slices of a head: twenty from a file, and a generator of heads for those who do not have it."""

import numpy as np
from jaxtyping import Bool, Float, Float32

from rwf.data import find_data, named
from rwf.signals.npz import read_bytes_array

SLICES, SIDE = 20, 512
_FILE = "brain.npz"


def brain_slice(index: int) -> Float32[np.ndarray, "512 512"]:
    """Slice `index`, 0 to 19, in [0, 1]: from brain.npz in the folder that RWF_DATA names, or a generated head."""
    if not 0 <= index < SLICES:
        raise ValueError(f"There are slices 0 to {SLICES - 1}; got {index}.")
    path = find_data(_FILE)
    if path is None:
        return generated_head(seed=index, size=SIDE)
    return read_bytes_array(path, "slices", (SLICES, SIDE, SIDE))[index].astype(np.float32) / 255


def brain_source() -> str:
    """In words where the slices come from, without reading one."""
    path = find_data(_FILE)
    if path is not None:
        return named(path, "20 sagittal T1 slices of Colin27, in the place of ATLAS")
    return "stand-in: 20 generated heads, not MRI"


def generated_head(*, seed: int, size: int = 512) -> Float32[np.ndarray, "{size} {size}"]:
    """A head of our own making: scalp, dark skull, folded tissue and ventricles, in [0, 1], smooth over a pixel.

    It has the edges and the fine detail of a T1 slice, and no anatomy. **Arguments:** `seed`, not negative; `size`,
    the side in pixels.
    """
    if seed < 0 or size < 16:
        raise ValueError(f"A head needs a seed >= 0 and a size >= 16 pixels; got seed {seed} and size {size}.")
    rng = np.random.Generator(np.random.PCG64(seed))
    y, x = np.meshgrid(*[np.linspace(-1, 1, size)] * 2, indexing="ij")
    wide, tall = rng.uniform(0.62, 0.72), rng.uniform(0.78, 0.88)
    # distance from the middle, 1 at the scalp; a little noise, so that no outline is an ellipse
    radius = np.hypot(x / wide, y / tall) * (1 + 0.02 * _field(rng, size, 4.0))
    folds = np.tanh(4 * np.sin(5 * _field(rng, size, 7.0) + 12 * radius))
    tissue = 0.55 + 0.13 * folds + 0.03 * _field(rng, size, 40.0)
    head = np.where(radius < 0.82, tissue, 0.06)  # the brain, and what is dark around it
    head = np.where(radius > 0.92, 0.85 + 0.08 * _field(rng, size, 20.0), head)
    head = np.where(_ventricles(rng, x, y), 0.12, head)
    head = np.where(radius > 1, 0, head)
    return np.clip(_smooth(head), 0, 1).astype(np.float32)


def _ventricles(
    rng: np.random.Generator, x: Float[np.ndarray, "size size"], y: Float[np.ndarray, "size size"]
) -> Bool[np.ndarray, "size size"]:
    wide, tall, apart = rng.uniform(0.05, 0.08), rng.uniform(0.16, 0.26), rng.uniform(0.1, 0.14)
    tilt = 0.35 * y
    return np.hypot((np.abs(x) - apart + tilt) / wide, y / tall) < 1


def _field(rng: np.random.Generator, size: int, waves: float) -> Float[np.ndarray, "size size"]:
    """A smooth random field of variance 1 with about so many waves across the picture."""
    frequency = np.hypot(*np.meshgrid(np.fft.fftfreq(size, 1 / size), np.fft.fftfreq(size, 1 / size)))
    noise = np.fft.fft2(rng.standard_normal((size, size)))
    field = np.fft.ifft2(noise * np.exp(-0.5 * (frequency / waves) ** 2)).real
    return (field - field.mean()) / field.std()


def _smooth(picture: Float[np.ndarray, "size size"]) -> Float[np.ndarray, "size size"]:
    """Softens edges over a pixel or two, as a scanner does."""
    for axis in (0, 1):
        picture = (np.roll(picture, 1, axis) + 2 * picture + np.roll(picture, -1, axis)) / 4
    return picture
