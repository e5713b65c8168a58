"""What docs/operators.md says of files of others makes files that can be trained on."""

import re
from pathlib import Path

import numpy as np
import pytest

from rwf.signals import operator_data

DOCS = Path(__file__).parents[1] / "docs" / "operators.md"


def test_files_of_others_are_brought_into_the_layout(tmp_path, monkeypatch):
    """On stand-ins with the same names, axes and types, of fewer and random numbers."""
    h5py, io = pytest.importorskip("h5py"), pytest.importorskip("scipy.io")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    io.savemat("piececonst_r421_N1024_smooth1.mat", {n: rng.normal(size=(12, 41, 41)) for n in ("coeff", "sol")})
    with h5py.File("1D_Advection_Sols_beta0.4.hdf5", "w") as file:
        file["tensor"] = rng.normal(size=(12, 21, 64)).astype(np.float32)
        file["x-coordinate"], file["t-coordinate"] = np.linspace(0, 1, 64), np.linspace(0, 2, 26)  # more times
    pair = np.empty(2, object)
    pair[:] = rng.normal(size=(12, 30)).astype(np.float32), np.linspace(0, 1, 7, dtype=np.float32)[:, None]
    np.savez("antiderivative_aligned_train.npz", X=pair, y=rng.normal(size=(12, 7)))
    triples = {"X_train0": rng.normal(size=(12, 30)), "X_train1": rng.random((12, 1)), "y_train": rng.random((12, 1))}
    np.savez("antiderivative_unaligned_train.npz", **triples)
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    (code,) = (block for block in blocks if "loadmat" in block)
    exec(code, {})
    sizes = {}
    for name in ("darcy", "advection", "aligned", "unaligned"):
        assert operator_data.check(f"{name}.npz").content
        found = operator_data.shapes(f"{name}.npz")
        sizes[name] = found.functions, found.sensors, found.points, found.coordinates, found.shared_points
    assert sizes == {
        "darcy": (12, (5, 5), 25, 2, True),
        "advection": (12, (16,), 6 * 16, 2, True),
        "aligned": (12, (30,), 7, 1, True),
        "unaligned": (12, (30,), 1, 1, False),
    }
