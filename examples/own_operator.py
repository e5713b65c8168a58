"""Your own operator data, from a file to a function: here the antiderivative, u(y) = the integral of a from 0 to y.

python examples/own_operator.py make antiderivative.npz         writes a file in the layout of docs/operators.md
rwf run antiderivative.npz --quick                              four parametrizations, a table and a report
python examples/own_operator.py use RUN                         calls what a run has learnt, and saves it folded

RUN is a folder below runs/own/antiderivative/, which the last line of `rwf run` names.
"""

import sys
from pathlib import Path

import numpy as np

from rwf.operators import Operator
from rwf.signals.grf import grf_1d_set

SENSORS, POINTS = 50, 40


def antiderivative(a: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The integral of piecewise linear functions from 0 to each y."""
    x = np.linspace(0, 1, a.shape[1])
    steps = (a[:, 1:] + a[:, :-1]) / 2 * np.diff(x)
    whole = np.concatenate([np.zeros((len(a), 1)), np.cumsum(steps, axis=1)], axis=1)
    return np.stack([np.interp(y, x, u) for u in whole])


def make(path: Path, functions: int = 1_000) -> None:
    """Writes a (functions, sensors), y (points, 1) and u (functions, points); the last functions become the test."""
    a = grf_1d_set(SENSORS, 0.2, functions, seed=0)
    y = np.linspace(0, 1, POINTS)
    np.savez(path, a=a.astype(np.float32), y=y[:, None].astype(np.float32), u=antiderivative(a, y).astype(np.float32))
    print(f"{path}: {functions} functions. Now: rwf run {path} --quick")


def use(folder: Path) -> None:
    """Calls a trained operator on a function that it never saw, at points of our choice, and saves it folded."""
    operator = Operator.from_run(folder)
    a, y = np.sin(3 * np.linspace(0, 1, SENSORS))[None], np.linspace(0, 1, 7)
    found, exact = np.asarray(operator(a, y[:, None]))[0], antiderivative(a, y)[0]
    for point, one, other in zip(y, found, exact, strict=True):
        print(f"y = {point:.3f}: {one:+.4f}, exactly {other:+.4f}")
    operator.fold().save("operator.safetensors")
    again = Operator.load("operator.safetensors")
    print("saved, loaded and folded: largest difference", np.abs(np.asarray(again(a, y[:, None]))[0] - found).max())


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("make", "use"):
        sys.exit(__doc__)
    (make if sys.argv[1] == "make" else use)(Path(sys.argv[2]))
