"""Files of a person's own operator data, for the tests that read them and train on them."""

import numpy as np
import pytest

from rwf.job import Job
from rwf.registry import find_recipe
from rwf.spec import with_values


def own(**changes):
    """A file's arrays: u(y) = a . (1, y, y^2), which a net can learn."""
    rng = np.random.default_rng(0)
    a, y = rng.normal(3.0, 5.0, size=(20, 3)), rng.uniform(-2, 2, size=(6, 1))
    arrays = {"a": a, "y": y, "u": 100 * a @ np.stack([y[:, 0] ** k for k in range(3)])}
    arrays = {name: array.astype(np.float32) for name, array in arrays.items()} | changes
    return {name: array for name, array in arrays.items() if array is not None}


def write(path, arrays, *, compressed=False):
    if path.suffix == ".npz":
        (np.savez_compressed if compressed else np.savez)(path, **arrays)
        return path
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name] = array
    return path


def own_job(path, **settings):
    found = find_recipe(str(path))
    changes = {"net.depth": 1, "net.width": 8, "steps": 20, "log_every": 10, "seeds": 1, "task.functions": 4}
    return Job(with_values(found.recipe, {**changes, **settings}), "rwf", found.recipe)


OFFSETS = {
    "y": lambda arrays: {"y": arrays["y"] + 1.7e9},
    "a": lambda arrays: {"a": 101325 + 1e-3 * arrays["a"]},
    "u": lambda arrays: {"u": 1e300 * arrays["u"]},
}


def doubles():
    return {name: array.astype(np.float64) for name, array in own().items()}
