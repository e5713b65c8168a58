"""A person's own operator data: `rwf run data.npz` trains a DeepONet on it, in memory or read from disk as it goes."""

import atexit
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from tyro.conf import Suppress

from rwf.errors import check_only_signal
from rwf.nets.blocks import fitting
from rwf.recipe import Adam, DeepONet, EncodingSpec, NetSpec, Recipe, TaskSpec
from rwf.signals import operator_data, sensors
from rwf.signals.operator_layout import Shapes
from rwf.signals.scaling import Scaling, extremes, moments
from rwf.tasks.operator import Holdout, OperatorRegression, OperatorTask, drawn, hash_of_rows, lattice, mean_square
from rwf.tasks.own_operator_doubts import doubts

_LARGEST_TEST = 1_000  # functions that are held out at most where nobody says how many,
_TEST_BYTES = 2**28  # and so many bytes of them, as float32: they stay in memory
_TOGETHER = {"a": 10, "y": 2, "u": 10}  # numbers that may become one in float32, on average; a may have other units
_SHORTER = {"steps": 1_000, "log_every": 100, "seeds": 2, "net.depth": 3}  # what --quick changes,
_POINTS = 2_000  # of each function in its batches: with all of a fine grid it would be no minutes


@final
class StreamedRegression(OperatorTask):
    """`OperatorRegression` on a file that is larger than memory: each batch is read from disk when its step comes.

    Which functions a batch holds is drawn on the device; the host then reads those rows. So the batches are the
    same as from memory, and a step waits for the disk.
    """

    y: Float[Array, "... coordinates"]
    holdout: Holdout
    scaling: Scaling
    path: str = eqx.field(static=True)
    content: str = eqx.field(static=True)
    places: str = eqx.field(static=True)
    rows: int = eqx.field(static=True)
    shapes: Shapes = eqx.field(static=True)
    functions: int = eqx.field(static=True)
    points: int = eqx.field(static=True)

    @property
    def inputs(self) -> int:
        return self.shapes.coordinates

    def data_hash(self) -> str | None:
        return hash_of_rows(self.content, self.rows)

    def batch(self, key: PRNGKeyArray, step: Array) -> tuple[Array, Array, Array]:
        key_functions, key_points = jax.random.split(key)
        i = drawn(key_functions, self.functions, self.rows)
        j = drawn(key_points, self.points, self.shapes.points)
        wanted = {"a": (len(i), *self.shapes.sensors), "u": (len(i), len(j))}
        if not self.shapes.shared_points:
            wanted["y"] = (len(i), len(j), self.shapes.coordinates)
        like = {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in wanted.items()}
        read = jax.pure_callback(
            functools.partial(_read, self.path, self.content, tuple(wanted), self.scaling),
            like,
            i,
            j,
            vmap_method="sequential",
        )
        return read["a"], self.y[j] if self.shapes.shared_points else read["y"], read["u"]

    def losses(self, net: Any, batch: tuple[Array, Array, Array], step: Array) -> dict[str, Array]:
        return mean_square(net, batch)


@dataclass(frozen=True)
class OwnOperator(TaskSpec):
    """Pairs of functions from a file, which is one signal; `rwf.signals.operator_layout` says how it is laid out."""

    shown_by: ClassVar[str] = "rwf predict RUN NEW.npz"
    memory_only: ClassVar[tuple[str, ...]] = ("memory", "path")

    path: Suppress[str]  # these two say which data it is: no settings
    content: Suppress[str] = ""  # a hash of it: a run is known by what it was trained on, wherever the file lies
    test: int = 0  # functions held out at the end, where the file has no a_test; 0: a tenth, 1,000 and 268 MB at most
    functions: int = 64  # in a batch
    points: int = 0  # of each in a batch; 0: all
    memory: float = 4.0  # GB: a file with more numbers than this, as float32, is read from disk as it goes

    def __post_init__(self) -> None:
        for name in ("test", "functions", "points", "memory"):
            if not getattr(self, name) >= 0:  # NaN is neither
                raise ValueError(f"--task.{name} is {getattr(self, name)}; expected 0 or more.")

    def build(self, signal: int) -> OperatorRegression | StreamedRegression:
        check_only_signal(signal, "A file of operator data")
        stat = Path(self.path).stat() if Path(self.path).is_file() else None
        return _build(self, stat.st_mtime_ns if stat else 0)

    def describe(self) -> str:
        return f"own operator data ({self.content[:8] or self.path})"

    def remarks(self, steps: int, net: NetSpec | None = None, encoding: EncodingSpec | None = None) -> list[str]:
        if not Path(self.path).is_file():
            return []
        found = operator_data.shapes(self.path)
        modified = Path(self.path).stat().st_mtime_ns
        return list(doubts(self.path, found, _trained(self, found), _is_streamed(self, found), modified))


def recipe_for(path: str) -> Recipe:
    """A recipe for a file: its net reads as many sensors as the file has, on a grid by convolutions.

    Its case is no case of the paper, whatever the file is called; files of one name differ in their variants.
    """
    found, content = operator_data.shapes(path), operator_data.check(path).content
    grid = len(found.sensors) == 2 and min(found.sensors) >= 16 and not found.channels
    return Recipe(
        name=path,
        case=f"own/{Path(path).stem}",
        variant=f"deeponet-{content[:4]}",
        task=OwnOperator(str(Path(path).resolve()), content),
        net=DeepONet(depth=4, width=128, activation="gelu", sensors=found.sensors, branch="cnn" if grid else "mlp"),
        optim=Adam(lr=1e-3, decay_rate=0.9, decay_steps=1_000),
        steps=20_000,
        log_every=200,
        seeds=3,
    )


def quick_for(path: str) -> dict[str, Any]:
    """What --quick changes of such a recipe."""
    return _SHORTER | ({"task.points": _POINTS} if operator_data.shapes(path).points > _POINTS else {})


@functools.lru_cache(maxsize=1)
def _build(spec: OwnOperator, modified: int) -> OperatorRegression | StreamedRegression:
    content, spans = operator_data.check(spec.path)
    if spec.content and content != spec.content:
        raise ValueError(
            f"{spec.path} is not what this recipe was made for: its content has changed. Start again with "
            f"`rwf run {spec.path}`, or put the old file back."
        )
    found = operator_data.shapes(spec.path)
    streamed = _is_streamed(spec, found)
    if streamed and found.compressed:
        raise ValueError(
            f"{spec.path} is compressed and has {found.bytes / 1e9:.3g} GB of numbers, more than --task.memory "
            f"{spec.memory:g}: it cannot be read in parts. Save it with np.savez or as HDF5, or raise --task.memory."
        )
    with operator_data.opened(spec.path) as arrays:
        rows = _trained(spec, found)
        scaling = _scaling(spec.path, arrays, rows)
        _refuse_far(spec.path, spans, scaling)
        _refuse_near(spec.path, arrays, rows, scaling)
        load = functools.partial(_load, arrays)
        places = sensors.places(arrays)
        holdout = _holdout(spec.path, arrays, rows, scaling)
        y = load("y", scaling.points) if found.shared_points else jnp.zeros((0, found.coordinates))
        shared: dict[str, Any] = {"holdout": holdout, "functions": spec.functions, "points": spec.points}
        shared |= {"scaling": scaling, "content": content, "places": places}
        if streamed:
            return StreamedRegression(y=y, path=spec.path, rows=rows, shapes=found, **shared)
        a, u = load("a", scaling.functions, 0, rows), load("u", scaling.values, 0, rows)
        y = y if found.shared_points else load("y", scaling.points, 0, rows)
    return OperatorRegression(a=a, y=y, u=u, **shared)


def _is_streamed(spec: OwnOperator, found: Shapes) -> bool:
    return found.bytes > spec.memory * 1e9


def _trained(spec: OwnOperator, found: Shapes) -> int:
    """How many functions are trained on: all, or all but the last ones."""
    if found.tested and spec.test:
        raise ValueError(
            f"--task.test is {spec.test}, and {spec.path} names the functions of its test itself, {found.tested} in "
            "a_test. Leave out --task.test, or a_test, u_test and y_test of the file."
        )
    if found.tested:
        return found.functions
    if found.functions == 1:
        raise ValueError(
            f"{spec.path} has a single function; one is needed to train on and another one for the test. Add functions."
        )
    numbers = int(np.prod(found.sensors)) + found.points * (1 if found.shared_points else 1 + found.coordinates)
    test = spec.test or max(1, min(found.functions // 10, _LARGEST_TEST, _TEST_BYTES // (4 * numbers)))
    if test >= found.functions:
        raise ValueError(
            f"{spec.path} has {found.functions} functions, of which {test} would be held out: none is left to train "
            "on. Use --task.test with a smaller number, or more data."
        )
    return found.functions - test


def _scaling(path: str, arrays: Any, rows: int) -> Scaling:
    """What brings the functions that are trained on to the size that nets are made for, from a sample of them."""
    sample = operator_data.sample(rows)
    y, of_y = arrays["y"], sample if len(arrays["y"].shape) == 3 else np.arange(len(arrays["y"]))
    low, high = extremes(_flat(part) for _, part in operator_data.parts(y, of_y))
    a, u = (moments(part for _, part in operator_data.parts(arrays[name], sample)) for name in ("a", "u"))
    numbers = (a[0], a[1] or 1.0, tuple(low.tolist()), tuple((high - low).tolist()), float(np.hypot(*u)) or 1.0)
    if not np.isfinite(np.hstack(numbers)).all():
        raise ValueError(f"{path}: its numbers are too large for float64 to tell their size. Use other units.")
    return Scaling(*numbers)


def _flat(y: np.ndarray) -> Float[np.ndarray, "points coordinates"]:
    return y.reshape(-1, y.shape[-1]).astype(np.float64)


def _holdout(path: str, arrays: Any, rows: int, scaling: Scaling) -> Holdout:
    """The functions of the test: those that the file names so, or its last ones."""
    load = functools.partial(_load, arrays)
    end, first = ("_test", 0) if "a_test" in arrays else ("", rows)
    points = "y_test" if "y_test" in arrays else "y"
    a, u = load("a" + end, scaling.functions, first), load("u" + end, scaling.values, first)
    y = load(points, scaling.points, first if len(arrays[points].shape) == 3 else 0)
    zero = np.flatnonzero(np.asarray(jnp.linalg.norm(u, axis=1)) == 0)  # by which its error would be divided
    if len(zero):
        raise ValueError(
            f"{path}: row {first + zero[0]} of {'u' + end!r}, a function of the test, is zero everywhere, or as good "
            f"as zero beside the others, as {len(zero)} of {len(u)} are: it has no relative error. Leave such out of "
            "the test."
        )
    grid, axes = lattice(y) if y.ndim == 2 else ((), ())
    return Holdout(a, y, u, grid, axes, fitting(a.shape[1:], u.shape))


def _load(
    arrays: Any, name: str, scale: Callable[[np.ndarray], Any], first: int = 0, last: int | None = None
) -> Float[Array, "..."]:
    """Some rows of an array as the net reads them, made part by part."""
    rows = np.arange(first, arrays[name].shape[0] if last is None else last)
    loaded = np.empty((len(rows), *arrays[name].shape[1:]), np.float32)
    for start, part in operator_data.parts(arrays[name], rows):
        loaded[start : start + len(part)] = scale(part)
    return jnp.asarray(loaded)


def _refuse_far(path: str, spans: Mapping[str, tuple[np.ndarray, np.ndarray]], scaling: Scaling) -> None:
    """Looks at the smallest and the largest number of each array as the net would read them, loaded or streamed."""
    for name, span in spans.items():
        if not np.isfinite(_scales(scaling)[name[0]](np.stack(span))).all():
            raise _cannot_hold(path, name)


def _refuse_near(path: str, arrays: Any, rows: int, scaling: Scaling) -> None:
    """Looks whether numbers fall together once they are divided by the largest, as a sample of them is read."""
    for name, scale in _scales(scaling).items():
        shared = name == "y" and len(arrays["y"].shape) == 2
        sample = np.arange(len(arrays["y"])) if shared else operator_data.sample(rows)
        _, part = next(operator_data.parts(arrays[name], sample))
        columns = part.reshape(-1, part.shape[-1] if name == "y" else 1)
        for before, after in zip(columns.T, np.asarray(scale(columns)).T, strict=True):
            if _TOGETHER[name] * len(np.unique(after)) < len(np.unique(before)):
                raise _cannot_hold(path, name)


def _cannot_hold(path: str, name: str) -> ValueError:
    return ValueError(f"{path}: {name!r} has values so far from the others that float32 cannot hold both.")


def _scales(scaling: Scaling) -> dict[str, Callable[[np.ndarray], Any]]:
    return {"a": scaling.functions, "y": scaling.points, "u": scaling.values}


@functools.lru_cache
def _handle(path: str, content: str) -> Any:
    """The arrays of a file that stays open for as long as the process runs; anew where it was written over."""
    context = operator_data.opened(path)
    arrays = context.__enter__()
    atexit.register(context.__exit__, None, None, None)
    return arrays


def _read(path: str, content: str, names: tuple[str, ...], scaling: Scaling, i: Any, j: Any) -> dict[str, np.ndarray]:
    """The rows `i` of a file, and of its points the columns `j`, as the net reads them."""
    arrays, scales = _handle(path, content), _scales(scaling)
    rows, back = np.unique(np.asarray(i), return_inverse=True)  # HDF5 reads rows in order, each of them once

    def read(name: str) -> np.ndarray:
        found = np.asarray(arrays[name][rows])
        return scales[name](found if name == "a" else found[:, np.asarray(j)])[back]

    return {name: read(name) for name in names}
