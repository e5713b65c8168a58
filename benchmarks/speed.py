"""The project's speed targets, measured on this CPU as ratios: what is compared runs in turns, in one run.

    python benchmarks/speed.py [--quick] [--json FILE] [--only step run torch import ntk]

See README.md beside this file for how each number is made. The exit status is 1 if a target is missed.
"""

import argparse
import ctypes
import gc
import importlib
import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, final

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # before JAX is imported: the targets are a CPU's

import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from rich.console import Console
from rich.table import Table

import rwf
from rwf import train
from rwf.analyze.ntk import ntk
from rwf.environment import environment
from rwf.job import Job
from rwf.progress import Bar, Progress
from rwf.recipe import MLP, Adam, Parametrization, Recipe, TaskSpec
from rwf.run import run_job
from rwf.tasks.base import Task

Side = Callable[[], float]  # does a piece of work, and returns the seconds that it took


@dataclass(frozen=True)
class Row:
    """One line of the table. `ratio` is ours / other with its 95 % interval; the target is a limit for it."""

    what: str
    how: str
    ours: str = ""
    other: str = ""
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    target: float | None = None
    skipped: str = ""

    @property
    def met(self) -> bool | None:
        return None if self.ratio is None or self.target is None else self.ratio <= self.target


# --- Measuring -------------------------------------------------------------------------------------------


def in_turns(sides: Mapping[str, Side], seconds: float, rounds: int = 90) -> dict[str, np.ndarray]:
    """Runs all sides once a round, forwards and backwards by turns, until time or rounds are up."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    deadline = time.perf_counter() + seconds
    for turn in range(rounds):
        if turn >= 8 and time.perf_counter() > deadline:
            break
        for name in list(sides)[:: 1 if turn % 2 else -1]:
            times[name].append(sides[name]())
    return {name: np.array(values) for name, values in times.items()}


def paired(ours: np.ndarray, other: np.ndarray, plus: float = 0.0) -> tuple[float, tuple[float, float]]:
    """The median of the rounds' ratios, plus a constant, and its 95 % bootstrap interval.

    Of two runs of the same program on a loaded machine, the ratio of medians was off by up to 11 %, of
    minima by 10 %, and the median of ratios by 3 %: the two halves of a round meet the same noise.
    """
    ratios = ours / other + plus
    draws = np.random.default_rng(0).integers(0, len(ratios), (2000, len(ratios)))
    low, high = np.quantile(np.median(ratios[draws], axis=1), (0.025, 0.975))
    return float(np.median(ratios)), (float(low), float(high))


def timed(function: Callable[[], Any]) -> Side:
    """A side that calls a function, and waits for its arrays."""

    def side() -> float:
        clock = time.perf_counter()
        jax.block_until_ready(function())
        return time.perf_counter() - clock

    return side


def ms(seconds: np.ndarray, steps: int = 1) -> str:
    return f"{1e3 * np.median(seconds) / steps:.3g} ms"


# --- The jobs --------------------------------------------------------------------------------------------


@final
class Curve(Task):
    """Full-batch regression; the metric is taken on 256 of the points."""

    x: Float[Array, "points inputs"]
    y: Float[Array, "points 1"]

    @property
    def inputs(self) -> int:
        return self.x.shape[-1]

    @property
    def outputs(self) -> int:
        return 1

    def batch(self, key: PRNGKeyArray, step: Array) -> None:
        return None

    def losses(self, net: Any, batch: None, step: Array) -> dict[str, Array]:
        return {"mse": jnp.mean((net(self.x) - self.y) ** 2)}

    def metrics(self, net: Any) -> dict[str, Array]:
        error = net(self.x[:256]) - self.y[:256]
        return {"rel_l2": jnp.linalg.norm(error) / jnp.linalg.norm(self.y[:256])}


@dataclass(frozen=True)
class Waves(TaskSpec):
    """A sum of waves on a line: data that cost nothing to make."""

    points: int = 256

    def build(self, signal: int) -> Curve:
        x = np.linspace(0, 1, self.points, dtype=np.float32)[:, None]
        return Curve(jnp.asarray(x), jnp.asarray(np.sin(20 * x) + np.sin(50 * x)))

    def describe(self) -> str:
        return f"generated: waves, {self.points} points"


SMALL = Recipe(
    name="speed",
    case="speed",
    task=Waves(points=256),
    net=MLP(depth=3, width=128, activation="relu"),
    optim=Adam(lr=1e-3, decay_rate=0.9, decay_steps=5_000),
    steps=5_000,
    log_every=100,
    seeds=1,
)
WIDE = replace(SMALL, task=Waves(points=4096), net=MLP(depth=3, width=256, activation="relu"))


def engine(recipe: Recipe, parametrization: Parametrization, every: int) -> Side:
    """A side that takes `every` steps and a look at the metrics: a chunk of the engine, which is compiled."""
    recipe = replace(recipe, log_every=every, steps=every * 1009)  # a prime: the engine takes one look a chunk
    job = Job(recipe, parametrization, recipe)
    task, shared = train.load_tasks(job)
    chunks = train.chunks(job, task, shared, train.start(job))
    next(chunks)

    def side() -> float:
        chunk = next(chunks)
        return chunk.seconds / len(chunk.steps)

    return side


def initial(recipe: Recipe, parametrization: Parametrization) -> tuple[list[dict[str, Array]], Curve]:
    """The engine's own initial parameters as a list of dictionaries, and its data."""
    job = Job(recipe, parametrization, recipe)
    net, task = train.start(job).net, train.load_tasks(job)[0]
    assert isinstance(task, Curve)
    names = {"v": "direction", "s": "scale"} if parametrization == "rwf" else {}
    layers = [
        {"b": layer.bias, **{k: getattr(layer.weight, v) for k, v in names.items()}}
        if names
        else {"b": layer.bias, "w": layer.weight}
        for layer in (*net.layers, net.output)
    ]
    return jax.tree.map(lambda leaf: leaf[0], layers), task


# --- 1. An RWF step costs what a Plain step costs --------------------------------------------------------


def step_rows(quick: bool) -> Iterator[Row]:
    every, times = 4, {"plain": np.empty(0), "rwf": np.empty(0)}
    instances = 1 if quick else 4  # a compiled program can be lucky with its memory and threads
    for _ in range(instances):
        sides = {name: engine(WIDE, name, every) for name in ("plain", "rwf")}
        more = in_turns(sides, 3 if quick else 9)
        times = {name: np.append(times[name], more[name]) for name in times}
    ratio, interval = paired(times["rwf"], times["plain"])
    how = f"{len(times['rwf'])} rounds of {every} steps and a look at the metrics, {instances} × compiled"
    what = "RWF step / Plain step, 3 × 256, batch 4,096"
    yield Row(what, how, ms(times["rwf"], every), ms(times["plain"], every), ratio, interval, 1.05)


# --- 2. The engine's whole run costs what a hand-written scan costs --------------------------------------


def hand_written(recipe: Recipe, parametrization: Parametrization) -> Callable[[int], float]:
    """The same maths in jax.numpy alone, as one would write it by hand: a scan of `log_every` steps, compiled.

    Returns a function that runs it so many times, and returns the loss of the last step.
    """
    layers, task = initial(recipe, parametrization)
    adam, x, y = recipe.optim, task.x, task.y

    def loss(layers: list[dict[str, Array]]) -> Array:
        f = x
        for index, layer in enumerate(layers):
            g = jnp.where(f > 0, f, 0) if index else f
            f = g @ (layer["s"] * layer["v"] if "s" in layer else layer["w"]) + layer["b"]
        return jnp.mean((f - y) ** 2)

    def step(carry: Any, _: None) -> Any:
        layers, m, v, t = carry
        value, gradient = jax.value_and_grad(loss)(layers)
        rate = adam.lr * adam.decay_rate ** (t / adam.decay_steps)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, gradient)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, gradient)
        c, d = 1 - 0.9 ** (t + 1), 1 - 0.999 ** (t + 1)
        layers = jax.tree.map(lambda p, m, v: p - rate * (m / c) / (jnp.sqrt(v / d) + 1e-8), layers, m, v)
        return (layers, m, v, t + 1), value

    program = jax.jit(lambda carry: jax.lax.scan(step, carry, None, length=recipe.log_every), donate_argnums=0)
    zeros = jax.tree.map(jnp.zeros_like, layers)
    carry = (layers, zeros, jax.tree.map(jnp.copy, zeros), jnp.float32(0))
    compiled = program.lower(carry).compile()

    def train_on(times: int) -> float:
        nonlocal carry
        losses = jnp.empty(0)
        for _ in range(times):  # they queue up: none waits for the host
            carry, losses = compiled(carry)
        return float(np.asarray(losses)[-1])

    return train_on


class Interleaved(Progress):
    """Takes the hand-written program on by as many steps after each chunk of the engine, and times both."""

    def __init__(self, other: Callable[[int], float], every: int) -> None:
        super().__init__(quiet=True)
        self.other, self.every, self.step = other, every, 0
        self.mark, self.started = 0.0, 0.0
        self.ours_seconds: list[float] = []
        self.other_seconds: list[float] = []
        self.difference = 0.0  # of the two losses, at the first look

    @contextmanager
    def bar(self, title: str, steps: int, first: int = 0) -> Iterator[Bar]:
        yield self

    def advance(self, step: int, look: dict[str, Any]) -> None:
        now = time.perf_counter()
        # Before the first chunk there is compilation; what comes between later ones is the engine's own.
        self.ours_seconds.append(now - self.mark if self.mark else look["seconds"])
        loss = self.other((step - self.step) // self.every)
        self.step = step
        if not self.mark:
            self.started = now - look["seconds"]
            self.difference = abs(loss / look["loss"][0] - 1)
        self.mark = time.perf_counter()
        self.other_seconds.append(self.mark - now)


class Compilation:
    """The seconds that JAX spends on tracing, lowering and compiling, from its own events."""

    def __init__(self) -> None:
        self.spans: list[tuple[float, float]] = []
        jax.monitoring.register_event_duration_secs_listener(self._note)

    def _note(self, event: str, duration_secs: float, **_: Any) -> None:
        if event.startswith("/jax/core/compile/"):
            end = time.perf_counter()
            self.spans.append((end - duration_secs, end))

    def since(self, start: float) -> float:
        """Spans nest (a trace in a trace): their union."""
        total, reached = 0.0, start
        for begin, end in sorted(self.spans):
            total += max(0.0, end - max(begin, reached))
            reached = max(reached, end)
        return total


def run_rows(quick: bool) -> Iterator[Row]:
    names: tuple[Parametrization, ...] = ("rwf",) if quick else ("plain", "rwf")
    recipe, compilation = SMALL, Compilation()
    engines: dict[str, list[float]] = {name: [] for name in names}
    others: dict[str, list[float]] = {name: [] for name in names}
    rests: dict[str, list[float]] = {name: [] for name in names}
    for name in names:  # a first run imports what runs import; after ten steps it must be where ours is
        difference = _whole_run(replace(recipe, steps=10, log_every=10), name, compilation)[0].difference
        if difference > 1e-5:
            raise AssertionError(f"{name}: the hand-written program is other maths, {difference:.1e} apart")
    for name in names * (1 if quick else 3):
        run, rest = _whole_run(recipe, name, compilation)
        engines[name] += run.ours_seconds
        others[name] += run.other_seconds
        rests[name].append(rest)
    for name in names:
        ours, other, rest = np.array(engines[name]), np.array(others[name]), statistics.median(rests[name])
        chunks = len(ours) // len(rests[name])
        alone, _ = paired(ours, other)
        ratio, interval = paired(ours, other, plus=rest / (chunks * float(np.median(other))))
        how = (
            f"run_job, {len(rests[name])} × {recipe.steps:,} steps, chunk by chunk in turns; its loop alone "
            f"{alone:.3f}; {1e3 * rest:.0f} ms for the rest: set-up, folder; compilation excluded"
        )
        what = f"whole run / jit(scan) by hand, {name}, 3 × 128"
        seconds = f"{chunks * np.median(ours) + rest:.3g} s", f"{chunks * np.median(other):.3g} s"
        yield Row(what, how, *seconds, ratio, interval, 1.05)


def _whole_run(recipe: Recipe, name: Parametrization, compilation: Compilation) -> tuple[Interleaved, float]:
    """A run of the engine, and the seconds of it that are neither a chunk nor compilation."""
    progress = Interleaved(hand_written(recipe, name), recipe.log_every)
    with tempfile.TemporaryDirectory() as folder:
        clock = time.perf_counter()
        run = run_job(Job(recipe, name, recipe), Path(folder), progress=progress)
        wall = time.perf_counter() - clock
        own = json.loads((run / "summary.json").read_text())["compile_seconds"]  # ended as the first chunk began
    compilation.spans.append((progress.started - own, progress.started))
    spent = sum(progress.ours_seconds) + sum(progress.other_seconds) + compilation.since(clock)
    return progress, wall - spent


# --- 3. It beats PyTorch ---------------------------------------------------------------------------------


def torch_rows(quick: bool) -> Iterator[Row]:
    what = "our step / {}'s best, Plain, 3 × 128, full batch of 256"
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        for name in ("eager", "compile"):
            yield Row(what.format(f"PyTorch {name}"), "", skipped="PyTorch is not installed")
        return
    every = 25
    sides = torch_sides(torch, every, quick)
    ours = {"ours": engine(SMALL, "plain", every)}
    trial = in_turns(sides, 0, rounds=4 if quick else 6)
    for kind in ("eager", "compile"):
        typical = {name: np.median(t) for name, t in trial.items() if name.startswith(kind)}
        if not typical:
            yield Row(what.format("torch.compile"), "", skipped="--quick: it takes long to compile")
            continue
        finalists = {n: sides[n] for n, t in typical.items() if t < 1.3 * min(typical.values())}
        times = in_turns(ours | finalists, 2 if quick else 8)
        best = max(finalists, key=lambda name: paired(times["ours"], times[name])[0])
        ratio, interval = paired(times["ours"], times[best])
        how = f"{len(times['ours'])} rounds of {every} steps; best of {len(typical)}: {best}; Adam with decay"
        numbers = ms(times["ours"], every), ms(times[best], every)
        yield Row(what.format(f"PyTorch {kind}"), how, *numbers, ratio, interval, 1.0)


def torch_sides(torch: Any, every: int, quick: bool) -> dict[str, Side]:
    """The step in PyTorch, in all the ways that may be its fastest; warmed up, and checked against ours."""
    cores = sorted({1, os.cpu_count() or 1})
    adams = {"foreach": {"foreach": True}, "fused": {"fused": True}, "for-loop": {"foreach": False}}
    start, sides = initial(SMALL, "plain"), {}
    expected = hand_written(replace(SMALL, log_every=100), "plain")(1)
    for threads in cores:
        for adam, options in [("fused", adams["fused"])] if quick else adams.items():
            name = f"eager, {adam} Adam, {threads} threads"
            sides[name] = torch_side(torch, start, every, threads, options, None, expected)
        for mode in () if quick else ("default", "reduce-overhead"):
            name = f"compile, {mode}, fused Adam, {threads} threads"
            sides[name] = torch_side(torch, start, every, threads, adams["fused"], mode, expected)
    return sides


def torch_side(
    torch: Any,
    start: tuple[list[dict[str, Array]], Curve],
    every: int,
    threads: int,
    adam: dict[str, bool],
    mode: str | None,
    expected: float,
) -> Side:
    """One of these ways; `expected` is our loss at the hundredth step."""
    torch.set_num_threads(threads)
    layers, task = start
    x, y = (torch.tensor(np.asarray(a)) for a in (task.x, task.y))
    modules = []
    for layer in layers:
        linear = torch.nn.Linear(*layer["w"].shape)
        with torch.no_grad():
            linear.weight.copy_(torch.tensor(np.asarray(layer["w"]).T))
            linear.bias.zero_()
        modules += [linear, torch.nn.ReLU()]
    net, optim = torch.nn.Sequential(*modules[:-1]), SMALL.optim
    optimizer = torch.optim.Adam(net.parameters(), lr=optim.lr, **adam)

    def loss() -> Any:
        return torch.nn.functional.mse_loss(net(x), y)

    fast = torch.compile(loss, mode=mode) if mode else loss
    count, value = 0, torch.zeros(())

    def steps(number: int) -> None:
        nonlocal count, value
        for _ in range(number):
            optimizer.param_groups[0]["lr"] = optim.lr * optim.decay_rate ** (count / optim.decay_steps)
            optimizer.zero_grad(set_to_none=True)
            value = fast()
            value.backward()
            optimizer.step()
            count += 1

    def side() -> float:
        torch.set_num_threads(threads)
        steps(1)  # wakes its threads
        clock = time.perf_counter()
        steps(every)
        return time.perf_counter() - clock

    steps(100)
    if abs(float(value.detach()) / expected - 1) > 1e-2:
        raise AssertionError(f"PyTorch's step is other maths: a loss of {float(value):.4g}, ours {expected:.4g}")
    return side


# --- 4. Import -------------------------------------------------------------------------------------------


def import_rows(quick: bool) -> Iterator[Row]:
    scripts = {
        "jax": "import jax",
        "import rwf": "import rwf",
        "import rwf, and all its names": "import rwf; [getattr(rwf, name) for name in rwf.__all__]",
    }

    def side(script: str) -> Side:
        code = f"import time; c = time.perf_counter(); {script}; print(time.perf_counter() - c)"
        call = [sys.executable, "-c", code]
        return lambda: float(subprocess.run(call, capture_output=True, text=True, check=True).stdout)

    sides = {name: side(script) for name, script in scripts.items()}
    for run in sides.values():  # the files are in memory, and compiled
        run()
    times = in_turns(sides, 0, rounds=5 if quick else 8)
    for name in list(scripts)[1:]:
        ratio, interval = paired(times[name], times["jax"])
        how = f"{len(times[name])} fresh interpreters each, in turns; their start excluded"
        yield Row(f"{name} / import jax", how, ms(times[name]), ms(times["jax"]), ratio, interval, 1.5)


# --- 5. The neural tangent kernel ------------------------------------------------------------------------


def ntk_rows(quick: bool) -> Iterator[Row]:
    for name in ("rwf",) if quick else ("plain", "rwf"):
        yield ntk_memory_row(name)
    if quick:
        return
    example = ntk_example("rwf")
    sides = {"ours": timed(lambda: ntk(*example)), "whole": timed(lambda: whole_ntk(*example))}
    for run in sides.values():  # compiles
        run()
    times = in_turns(sides, 5)
    ratio, interval = paired(times["ours"], times["whole"])
    how = f"{len(times['ours'])} rounds; the other: the whole Jacobian at once; products in float64 in both"
    yield Row("NTK of 256 points, rwf: time", how, ms(times["ours"]), ms(times["whole"]), ratio, interval)


def ntk_memory_row(name: str) -> Row:
    what = f"NTK of 256 points, {name}, 3 × 128: peak memory / one Jacobian"
    if not Path("/proc/self/clear_refs").exists():
        return Row(what, "", skipped="peak memory is read from Linux's /proc")
    # From this size on, blocks go back to the system when they are freed: the peak is what was in use.
    surroundings = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}
    call = [sys.executable, __file__, "--ntk-memory", name]
    found = json.loads(subprocess.run(call, env=surroundings, capture_output=True, text=True, check=True).stdout)
    one = found["jacobian"]
    if not 0.95 < found["gauge"] / one < 1.05:
        raise AssertionError(f"The gauge reads {found['gauge']} bytes for an array of {one}.")
    how = (
        "resident memory, peak of a second call in a fresh process less what it had before; the same gauge "
        f"reads {found['gauge'] / one:.2f} for an array of this size, {found['whole'] / one:.2f} for the kernel "
        "from the whole Jacobian at once"
    )
    ours, other = f"{found['peak'] / 2**20:.1f} MiB", f"{one / 2**20:.1f} MiB"
    return Row(what, how, ours, other, found["peak"] / one, None, 1.0)


def ntk_example(name: str) -> tuple[Any, Array]:
    recipe = SMALL.net
    net = recipe.build(rwf.encode.Identity(1), 1, key=jax.random.key(0))
    return rwf.reparametrize(net, name, key=jax.random.key(1)), Waves().build(0).x


@jax.jit
def whole_jacobian(net: Any, points: Array) -> Float[Array, "n parameters"]:
    gradient = jax.grad(lambda net, point: rwf.materialize(net)(point)[0])
    gradients = jax.tree.leaves(jax.vmap(gradient, in_axes=(None, 0))(net, points))
    return jnp.concatenate([leaf.reshape(len(points), -1) for leaf in gradients], axis=1)


def whole_ntk(net: Any, points: Array) -> np.ndarray:
    jacobian = np.asarray(whole_jacobian(net, points)).astype(np.float64)
    return jacobian @ jacobian.T


def ntk_memory(name: str) -> None:
    """Prints peaks in bytes, above what is there before; runs in a process of its own."""
    net, points = ntk_example(name)
    size = len(points) * sum(leaf.size for leaf in jax.tree.leaves(net)) * 4
    ours = _peak(lambda: ntk(net, points))
    whole = _peak(lambda: whole_ntk(net, points))
    gauge = _peak(lambda: np.ones(size, np.uint8))
    np.testing.assert_allclose(ntk(net, points), whole_ntk(net, points), rtol=1e-4, atol=1e-4)
    print(json.dumps({"peak": ours, "whole": whole, "gauge": gauge, "jacobian": size}))


def _peak(function: Callable[[], Any]) -> int:
    peak = 0
    for _ in range(2):  # the first call compiles
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        before = _memory("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
        result = function()
        peak = _memory("VmHWM") - before
        del result
    return peak


def _memory(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


# --- The table -------------------------------------------------------------------------------------------

PARTS: dict[str, Callable[[bool], Iterator[Row]]] = {
    "step": step_rows,
    "run": run_rows,
    "import": import_rows,
    "ntk": ntk_rows,
    "torch": torch_rows,  # last: it brings threads of its own into the process
}


def table(rows: list[Row]) -> Table:
    drawn = Table(title="Speed, as ratios on this CPU", show_lines=True)
    for name in ("what", "ours", "other", "ratio", "target", "met", "how measured"):
        drawn.add_column(name, justify="right" if name in ("ours", "other", "ratio", "target") else "left")
    verdict = {True: "[green]yes", False: "[red]no", None: ""}
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.3f}"
        if row.interval:
            ratio += f"\n{row.interval[0]:.3f}–{row.interval[1]:.3f}"
        target = "" if row.target is None else f"≤ {row.target:g}"
        how = f"skipped: {row.skipped}" if row.skipped else row.how
        drawn.add_row(row.what, row.ours, row.other, ratio, target, verdict[row.met], how)
    return drawn


def versions() -> dict[str, Any]:
    where = environment("float32")
    try:
        where["torch"] = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        where["torch"] = None
    return where | {"load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None}


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures rwf's speed targets, as ratios on this CPU.")
    parser.add_argument("--quick", action="store_true", help="shorter, and without torch.compile")
    parser.add_argument("--json", type=Path, metavar="FILE", help="save the rows and the versions")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="some of the parts")
    parser.add_argument("--ntk-memory", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ntk_memory:
        ntk_memory(options.ntk_memory)
        return 0
    console, clock, rows, where = Console(), time.perf_counter(), [], versions()
    if where["load"] and where["load"] > 0.5:
        console.print(
            f"[yellow]The load of this machine is {where['load']:.1f} as we begin: ratios near their target "
            "need a quiet one."
        )
    for name in options.only:
        with console.status(f"measuring: {name}"):
            rows += PARTS[name](options.quick)
    console.print(table(rows))
    console.print(
        "A ratio is the median over rounds of ours / other, each taken in turns, with its 95 % interval by "
        "bootstrap; ours and other are medians. Ratios without a target are for information."
    )
    console.print(", ".join(f"{key} {value}" for key, value in where.items() if value is not None))
    console.print(f"{time.perf_counter() - clock:.0f} s")
    if options.json:
        options.json.write_text(json.dumps({"rows": [asdict(row) for row in rows], "where": where}, indent=1))
    return int(any(row.met is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
