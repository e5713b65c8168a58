"""The neural tangent kernel takes less memory than one Jacobian."""

import ctypes
import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import rwf
from rwf.analyze.ntk import ntk

from .jobs import SMALL, Waves
from .measure import Row, in_turns, ms, paired, timed

SCRIPT = Path(__file__).parents[1] / "speed.py"


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
    call = [sys.executable, str(SCRIPT), "--ntk-memory", name]
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
