"""The reference of the lid-driven cavity at Re = 1,000 that was published as a file; our own is in rwf.solvers."""

import numpy as np
from jaxtyping import Float

from rwf.data import find_data

FILE = "cavity_re1000.mat"
_SHAPE, _REYNOLDS = (128, 128), 1_000.0


def published(
    reynolds: float, counts: tuple[int, ...]
) -> tuple[Float[np.ndarray, "nx ny"], Float[np.ndarray, "nx ny"]] | None:
    """u and v of the file, indexed [x, y]; None where it is not there, or is of another flow or grid.

    The file is a second-order solution that has not converged: its speed lies 3.2 % from the converged one.

    **Arguments:** `counts`, the points of the grid along x and y, both ends included.
    """
    path = find_data(FILE)
    if path is None or reynolds != _REYNOLDS or tuple(counts) != _SHAPE:
        return None
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        content = loadmat(path)
        u, v = (np.asarray(content[name], float) for name in ("u", "v"))
    except (MatReadError, ValueError, KeyError, TypeError, NotImplementedError, OSError) as error:
        raise ValueError(f"{FILE} cannot be read as a MATLAB file with u and v: {error}. Fetch it anew.") from None
    if u.shape != _SHAPE or v.shape != _SHAPE or not (np.isfinite(u).all() and np.isfinite(v).all()):
        raise ValueError(f"{FILE} should hold finite u and v of the shape {_SHAPE}; they are {u.shape} and {v.shape}.")
    return u, v
