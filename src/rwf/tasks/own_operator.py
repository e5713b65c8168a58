"""A person's own operator data: `rwf run data.npz` trains a DeepONet on it, in memory or read from disk as it goes."""

import atexit
import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray
from tyro.conf import Suppress

from rwf.errors import check_only_signal
from rwf.nets.blocks import fitting
from rwf.recipe import Adam, DeepONet, EncodingSpec, NetSpec, Recipe, TaskSpec
from rwf.signals import operator_data
from rwf.signals.scaling import Scaling
from rwf.tasks.base import Task
from rwf.tasks.operator import Holdout, OperatorRegression, drawn, hash_of_rows

_LARGEST_TEST = 1_000  # functions that are held out at most where nobody says how many,
_TEST_BYTES = 2**28  # and so many bytes of them, as float32: they stay in memory
_FEW = 10  # functions: with fewer to train on a remark is made
_SAMPLE = 1_000  # functions of a large file that its scaling is measured on
_OFFSET = 0.1  # of the mean: outputs that differ by less are remarked,
_HIDDEN = 1e-3  # of the deviation of all that sensors read: one that reads the same to within that,
_APART = 0.1  # of the deviation of u: points with two values that are further apart
SHORTER = {"steps": 1_000, "log_every": 100, "seeds": 2, "net.depth": 3}  # what --quick changes


@final
class StreamedRegression(Task):
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
    shapes: operator_data.Shapes = eqx.field(static=True)
    functions: int = eqx.field(static=True)
    points: int = eqx.field(static=True)

    @property
    def inputs(self) -> int:
        return self.shapes.coordinates

    @property
    def outputs(self) -> int:
        return 1

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
        a, y, u = batch
        return {"mse": jnp.mean((net(a, y) - u) ** 2)}

    def metrics(self, net: Any) -> dict[str, Array]:
        return self.holdout.metrics(net)


@dataclass(frozen=True)
class OwnOperator(TaskSpec):
    """Pairs of functions from a file, which is one signal; `rwf.signals.operator_data` says how it is laid out."""

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
        return list(_remarks(self, Path(self.path).stat().st_mtime_ns)) if Path(self.path).is_file() else []


def recipe_for(path: str) -> Recipe:
    """A recipe for a file: its net reads as many sensors as the file has, on a grid by convolutions.

    Its case is no case of the paper, whatever the file is called; files of one name differ in their variants.
    """
    found, content = operator_data.shapes(path), operator_data.check(path).content
    grid = len(found.sensors) == 2 and min(found.sensors) >= 16
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


@functools.lru_cache(maxsize=1)
def _build(spec: OwnOperator, modified: int) -> OperatorRegression | StreamedRegression:
    content, spans = operator_data.check(spec.path)
    if spec.content and content != spec.content:
        raise ValueError(
            f"{spec.path} is not what this recipe was made for: its content has changed. Start again with "
            f"`rwf run {spec.path}`, or put the old file back."
        )
    found = operator_data.shapes(spec.path)
    streamed = found.bytes > spec.memory * 1e9
    if streamed and found.compressed:
        raise ValueError(
            f"{spec.path} is compressed and has {found.bytes / 1e9:.3g} GB of numbers, more than --task.memory "
            f"{spec.memory:g}: it cannot be read in parts. Save it with np.savez or as HDF5, or raise --task.memory."
        )
    with operator_data.opened(spec.path) as arrays:
        rows = _trained(spec, found)
        scaling = _scaling(spec.path, arrays, rows)
        _refuse_far(spec.path, spans, scaling)
        load = functools.partial(_load, arrays)
        places = operator_data.places(arrays)
        holdout = _holdout(spec.path, arrays, rows, scaling)
        y = load("y", scaling.points) if found.shared_points else jnp.zeros((0, found.coordinates))
        if streamed:
            batch = (spec.functions, spec.points)
            return StreamedRegression(y, holdout, scaling, spec.path, content, places, rows, found, *batch)
        a, u = load("a", scaling.functions, 0, rows), load("u", scaling.values, 0, rows)
        y = y if found.shared_points else load("y", scaling.points, 0, rows)
    return OperatorRegression(a, y, u, holdout, spec.functions, spec.points, scaling, content, places)


@functools.lru_cache(maxsize=1)
def _remarks(spec: OwnOperator, modified: int) -> tuple[str, ...]:
    found, name = operator_data.shapes(spec.path), Path(spec.path).name
    rows = _trained(spec, found)
    tested = found.tested or found.functions - rows
    few = f"{name} has {rows} function{'s' if rows > 1 else ''} to train on and {tested} to test with: an operator is "
    few += "hardly learnt from so few, and its error hardly known"
    leaked = operator_data.repeated(spec.path, rows)
    leak = f"{leaked} of the {tested} functions of the test are trained on too (the same values of a in {name}): "
    leak += "their error says nothing about new functions"
    unread = f"nothing reads {', '.join(found.unread)} of {name}"
    told = {few: rows < _FEW, leak: leaked, unread: found.unread, **_offset(spec.path, name, rows)}
    told |= _hidden(spec.path, name, rows) | _contradicted(spec.path, name, rows)
    return tuple(remark for remark, holds in told.items() if holds)


def _offset(path: str, name: str, rows: int) -> dict[str, bool]:
    """Of outputs that are nearly one number, which has a small relative error: a remark, and whether they are."""
    with operator_data.opened(path) as arrays:
        mean, deviation = _moments(part for _, part in operator_data.parts(arrays["u"], _sample(rows)))
    share = deviation / abs(mean) if mean else 1.0
    remark = f"u of {name} is {mean:.6g} give or take {deviation:.2g}: that number alone has a relative error of "
    remark += f"{share:.1g}, and what there is to learn is below it. Save u less {mean:.6g}, and add it again later"
    return {remark: share < _OFFSET}


def _hidden(path: str, name: str, rows: int) -> dict[str, bool]:
    """Of sensors that vary so little, beside what all hold, that a net is nearly given one number there: a remark."""
    with operator_data.opened(path) as arrays:
        read = functools.partial(operator_data.parts, arrays["a"], _sample(rows))
        deviation = _moments(part for _, part in read())[1]
        ends = [(part.min(axis=0) / 2, part.max(axis=0) / 2) for _, part in read()]  # halves: a span may overflow
    span = np.max([high for _, high in ends], axis=0) - np.min([low for low, _ in ends], axis=0)
    hidden = np.argwhere((span > 0) & (span < _HIDDEN * deviation)).tolist()
    first = ", ".join(map(str, hidden[0])) if hidden else ""
    remark = f"{len(hidden)} of the {span.size} sensors of a in {name}, the first a[:, {first}], differ between "
    remark += f"functions by less than {_HIDDEN:g} of the deviation of all, {deviation:.2g}: the net hardly sees that. "
    remark += "Save a less its mean over the functions, and each quantity in it divided by its own deviation"
    return {remark: bool(hidden)}


def _contradicted(path: str, name: str, rows: int) -> dict[str, bool]:
    """Of points that stand twice, at which a function has two values: a remark."""
    with operator_data.opened(path) as arrays:
        y = np.asarray(arrays["y"])
        if y.ndim == 3:
            return {}
        _, first, place = np.unique(y, axis=0, return_index=True, return_inverse=True)
        twice = np.flatnonzero(first[place.reshape(-1)] != np.arange(len(y)))
        other = first[place.reshape(-1)[twice]]
        if not len(twice):
            return {}
        read = functools.partial(operator_data.parts, arrays["u"], _sample(rows))
        deviation = _moments(part for _, part in read())[1]
        apart = np.zeros(len(twice), bool)
        for _, u in read():
            apart |= (np.abs(u[:, twice] / 2 - u[:, other] / 2) > _APART / 2 * deviation).any(axis=0)
    remark = f"{apart.sum()} of the {len(y)} points of y in {name} stand there before, where u has other values. An "
    remark += "operator has one value at a point: is a coordinate missing, such as the time?"
    return {remark: bool(apart.any())}


def _sample(rows: int) -> Int[np.ndarray, " rows"]:
    """Some functions of those that are trained on, evenly spread."""
    return np.unique(np.linspace(0, rows - 1, min(rows, _SAMPLE)).astype(int))


def _trained(spec: OwnOperator, found: operator_data.Shapes) -> int:
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
    sample = _sample(rows)
    y, of_y = arrays["y"], sample if len(arrays["y"].shape) == 3 else np.arange(len(arrays["y"]))
    spans = [(p.min(axis=0), p.max(axis=0)) for p in (_flat(part) for _, part in operator_data.parts(y, of_y))]
    low, high = np.min([low for low, _ in spans], axis=0), np.max([high for _, high in spans], axis=0)
    size = np.where(high > low, high - low, 1.0)
    a, u = (_moments(part for _, part in operator_data.parts(arrays[name], sample)) for name in ("a", "u"))
    numbers = (a[0], a[1] or 1.0, tuple(low.tolist()), tuple(size.tolist()), float(np.hypot(*u)) or 1.0)
    if not np.isfinite(np.hstack(numbers)).all():
        raise ValueError(f"{path}: its numbers are too large for float64 to tell their size. Use other units.")
    return Scaling(*numbers)


def _flat(y: np.ndarray) -> Float[np.ndarray, "points coordinates"]:
    return y.reshape(-1, y.shape[-1]).astype(np.float64)


def _moments(parts: Iterable[np.ndarray]) -> tuple[float, float]:
    """Mean and standard deviation of all numbers of some parts; large ones are divided before they are squared."""
    found = []
    for part in parts:
        top = float(max(part.max(), -float(part.min()))) or 1.0
        x = part / np.float64(top)
        found.append((x.size, top * x.mean(), top * x.std()))
    sizes, means, deviations = np.array(found).T
    top = np.abs([means, deviations]).max() or 1.0
    mean = np.average(means / top, weights=sizes)
    squares = (deviations / top) ** 2 + (means / top - mean) ** 2
    return float(top * mean), float(top * np.sqrt(np.average(squares, weights=sizes)))


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
            "as zero beside the others: it has no relative error. Leave it out of the test."
        )
    return Holdout(a, y, u, block=fitting(a.shape[1:], u.shape))


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
            raise ValueError(f"{path}: {name!r} has values so far from the others that float32 cannot hold both.")


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
