"""A person's own operator data: `rwf run data.npz` trains a DeepONet on it, in memory or read from disk as it goes."""

import atexit
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, UInt8

from rwf.recipe import Adam, DeepONet, Recipe, TaskSpec
from rwf.signals import operator_data
from rwf.signals.scaling import Scaling
from rwf.tasks.base import Task
from rwf.tasks.operator import Holdout, OperatorRegression, drawn

_LARGEST_TEST = 1_000  # functions that are held out at most where nobody says how many
_SAMPLE = 1_000  # functions of a large file that its scaling is measured on
SHORTER = {"steps": 1_000, "log_every": 100, "seeds": 2, "net.depth": 3}  # what --quick changes


@final
class StreamedRegression(Task):
    """`OperatorRegression` on a file that is larger than memory: each batch is read from disk when its step comes.

    Which functions a batch holds is drawn on the device; the host then reads those rows. So the batches are the
    same as from memory, and a step waits for the disk.
    """

    y: Float[Array, "... coordinates"]
    content: UInt8[Array, " bytes"]
    holdout: Holdout
    scaling: Scaling
    path: str = eqx.field(static=True)
    rows: int = eqx.field(static=True)
    shapes: operator_data.Shapes = eqx.field(static=True)
    functions: int = eqx.field(static=True)
    points: int = eqx.field(static=True)

    @property
    def inputs(self) -> int:
        return self.shapes.coordinates

    @property
    def outputs(self) -> int:
        return 1

    def batch(self, key: PRNGKeyArray, step: Array) -> tuple[Array, Array, Array]:
        key_functions, key_points = jax.random.split(key)
        i = drawn(key_functions, self.functions, self.rows)
        j = drawn(key_points, self.points, self.shapes.points)
        wanted = {"a": (len(i), *self.shapes.sensors), "u": (len(i), len(j))}
        if not self.shapes.shared_points:
            wanted["y"] = (len(i), len(j), self.shapes.coordinates)
        like = {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in wanted.items()}
        read = jax.pure_callback(
            functools.partial(_read, self.path, tuple(wanted)), like, i, j, vmap_method="sequential"
        )
        y = self.y[j] if self.shapes.shared_points else self.scaling.points(read["y"])
        return self.scaling.functions(read["a"]), y, self.scaling.values(read["u"])

    def losses(self, net: Any, batch: tuple[Array, Array, Array], step: Array) -> dict[str, Array]:
        a, y, u = batch
        return {"mse": jnp.mean((net(a, y) - u) ** 2)}

    def metrics(self, net: Any) -> dict[str, Array]:
        return self.holdout.metrics(net)


@dataclass(frozen=True)
class OwnOperator(TaskSpec):
    """Pairs of functions from a file; `rwf.signals.operator_data` says how it is laid out."""

    path: str
    content: str = ""  # a hash of the data, so that a run is known by what it was trained on
    test: int = 0  # functions held out at the end, where the file has no a_test; 0: a tenth, 1,000 at most
    functions: int = 64  # in a batch
    points: int = 0  # of each in a batch; 0: all
    memory: float = 4.0  # GB: a file with more numbers than this, as float32, is read from disk as it goes

    def build(self, signal: int) -> OperatorRegression | StreamedRegression:
        stat = Path(self.path).stat() if Path(self.path).is_file() else None
        return _build(self, stat.st_mtime_ns if stat else 0)

    def describe(self) -> str:
        return f"{Path(self.path).name}: own operator data"


def recipe_for(path: str) -> Recipe:
    """A recipe for a file: its net reads as many sensors as the file has, on a grid by convolutions."""
    found, content = operator_data.shapes(path), operator_data.check(path)
    grid = len(found.sensors) == 2 and min(found.sensors) >= 16
    return Recipe(
        name=path,
        case=Path(path).stem,
        variant="deeponet",
        task=OwnOperator(str(Path(path).resolve()), content),
        net=DeepONet(depth=4, width=128, activation="gelu", sensors=found.sensors, branch="cnn" if grid else "mlp"),
        optim=Adam(lr=1e-3, decay_rate=0.9, decay_steps=1_000),
        steps=20_000,
        log_every=200,
        seeds=3,
    )


@functools.lru_cache(maxsize=1)
def _build(spec: OwnOperator, modified: int) -> OperatorRegression | StreamedRegression:
    content = operator_data.check(spec.path)
    if spec.content and content != spec.content:
        raise ValueError(
            f"{spec.path} is not what this recipe was made for: its content has changed. Start again with "
            f"`rwf run {spec.path}`, or put the old file back."
        )
    found = operator_data.shapes(spec.path)
    with operator_data.opened(spec.path) as arrays:
        rows, test = _split(spec, found, arrays)
        sample = np.unique(np.linspace(0, rows - 1, min(rows, _SAMPLE)).astype(int))
        scaling = _scaling(arrays, sample)
        holdout = _holdout(test, scaling)
        y = jnp.asarray(arrays["y"], jnp.float32) if found.shared_points else jnp.zeros((0, found.coordinates))
        if found.bytes > spec.memory * 1e9:
            name = jnp.frombuffer(content.encode(), jnp.uint8)
            batch = (spec.functions, spec.points)
            return StreamedRegression(scaling.points(y), name, holdout, scaling, spec.path, rows, found, *batch)
        a, u = (jnp.asarray(arrays[name][:rows], jnp.float32) for name in ("a", "u"))
        y = y if found.shared_points else jnp.asarray(arrays["y"][:rows], jnp.float32)
    a, y, u = scaling.functions(a), scaling.points(y), scaling.values(u)
    return OperatorRegression(a, y, u, holdout, spec.functions, spec.points, scaling)


def _split(spec: OwnOperator, found: operator_data.Shapes, arrays: Any) -> tuple[int, dict[str, np.ndarray]]:
    """How many functions are trained on, and those that are held out."""
    if found.has_test:
        y = np.asarray(arrays["y_test"] if "y_test" in arrays else arrays["y"])
        return found.functions, {"a": np.asarray(arrays["a_test"]), "y": y, "u": np.asarray(arrays["u_test"])}
    test = spec.test or min(max(1, found.functions // 10), _LARGEST_TEST)
    rows = found.functions - test
    if rows < 1:
        raise ValueError(
            f"{spec.path} has {found.functions} functions, of which {test} would be held out: none is left to train "
            "on. Use --task.test with a smaller number, or more data."
        )
    y = np.asarray(arrays["y"] if found.shared_points else arrays["y"][rows:])
    return rows, {"a": np.asarray(arrays["a"][rows:]), "y": y, "u": np.asarray(arrays["u"][rows:])}


def _scaling(arrays: Any, sample: np.ndarray) -> Scaling:
    a, u = (np.asarray(arrays[name][sample], np.float64) for name in ("a", "u"))
    y = np.asarray(arrays["y"] if len(arrays["y"].shape) == 2 else arrays["y"][sample], np.float64)
    flat = y.reshape(-1, y.shape[-1])
    low, size = flat.min(axis=0), np.ptp(flat, axis=0)
    rms = float(np.sqrt(np.mean(u**2)))
    numbers = (a.mean(), a.std() or 1.0, low, np.where(size > 0, size, 1.0), rms or 1.0)
    return Scaling(*(jnp.atleast_1d(jnp.asarray(number, jnp.float32)) for number in numbers))


def _holdout(test: dict[str, np.ndarray], scaling: Scaling) -> Holdout:
    a, y, u = (jnp.asarray(test[name], jnp.float32) for name in ("a", "y", "u"))
    zero = np.flatnonzero(~np.any(np.asarray(test["u"]) != 0, axis=1))
    if len(zero):
        raise ValueError(
            f"Test function {zero[0]} is zero everywhere: it has no relative error. Leave it out of the test."
        )
    block = max(1, 2**18 // u.shape[1])  # some hundred thousand values at a time
    return Holdout(scaling.functions(a), scaling.points(y), scaling.values(u), block=min(block, len(u)))


@functools.lru_cache
def _handle(path: str) -> Any:
    """The arrays of a file that stays open for as long as the process runs."""
    context = operator_data.opened(path)
    arrays = context.__enter__()
    atexit.register(context.__exit__, None, None, None)
    return arrays


def _read(path: str, names: tuple[str, ...], i: Any, j: Any) -> dict[str, np.ndarray]:
    """The rows `i` of a file, and of its points the columns `j`."""
    arrays = _handle(path)
    rows, back = np.unique(np.asarray(i), return_inverse=True)  # HDF5 reads rows in order, each of them once
    found = {name: np.asarray(arrays[name][rows], np.float32)[back] for name in names}
    return {name: part if name == "a" else part[:, np.asarray(j)] for name, part in found.items()}
