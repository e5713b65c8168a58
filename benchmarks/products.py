"""Tall products in three passes of bfloat16: XLA's, and ours by Pallas, in microseconds on the GPU that JAX finds.

    python benchmarks/products.py [--rows 104704] [--width 128] [--compile]

A step of Burgers has eighteen products of 104,704 rows with one matrix of 128 × 128, and XLA takes 55 µs for each on an
H200, whose memory would allow 25. Ours loads a split weight once, and lets a program take many tiles of rows one after
the other. Beside its time stands how far each is from float64. `--compile` compiles them for a described H200, which
needs no GPU (see kernels.py), and says what fails.
"""

import argparse
import functools
import itertools
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float

_TIMES, _ROUNDS = 50, 5
_ROWS_AND_WARPS = ((64, 4), (128, 8))
_TILES = tuple(itertools.product(_ROWS_AND_WARPS, (1, 2, 3), (0, 264)))  # stages, programs (0: a tile each)


def split(values: Array) -> tuple[Array, Array]:
    """float32 as two bfloat16: rounded by hand, for XLA takes what `astype` leaves to be zero."""
    high = jax.lax.reduce_precision(values, 8, 7)
    return high.astype(jnp.bfloat16), (values - high).astype(jnp.bfloat16)


def split_in_kernel(values: Array) -> tuple[Array, Array]:
    """The same where XLA does not simplify."""
    high = values.astype(jnp.bfloat16)
    return high, (values - high.astype(jnp.float32)).astype(jnp.bfloat16)


def passes(one: tuple[Array, Array], other: tuple[Array, Array]) -> Array:
    """Three products of split factors, the smallest first."""
    precision = jax.lax.DotAlgorithmPreset.BF16_BF16_F32
    product = functools.partial(jnp.dot, precision=precision, preferred_element_type=jnp.float32)
    return product(one[1], other[0]) + product(one[0], other[1]) + product(one[0], other[0])


def tiled(
    rows: Float[Array, "rows features"],
    weight: Array,
    tile: int,
    warps: int,
    stages: int,
    programs: int,
    **options: Any,
) -> Float[Array, "rows outputs"]:
    """rows @ weight, tile by tile; `programs` share the tiles, or have one each."""
    count = rows.shape[0] // tile
    programs = min(programs or count, count)

    def kernel(source: Any, high: Any, low: Any, out: Any) -> None:
        held, first = (high[...], low[...]), pl.program_id(0)

        def one(turn: Array, _: None) -> None:
            at = pl.ds((first + turn * programs) * tile, tile)
            out[at, :] = passes(split_in_kernel(source[at, :]), held)

        jax.lax.fori_loop(0, (count - first + programs - 1) // programs, one, None)

    shape = jax.ShapeDtypeStruct((rows.shape[0], weight.shape[1]), jnp.float32)
    params = triton.CompilerParams(num_warps=warps, num_stages=stages)
    call = pl.pallas_call(kernel, out_shape=shape, grid=(programs,), compiler_params=params, name="product", **options)
    return call(rows, *split(weight))


def ways() -> dict[str, Callable[[Array, Array], Array]]:
    """All ways by name."""
    presets = {"three passes of bfloat16": "BF16_BF16_F32_X3", "three of TF32": "TF32_TF32_F32_X3"}
    found: dict[str, Callable[[Array, Array], Array]] = {
        f"XLA, {name}": functools.partial(jnp.dot, precision=preset) for name, preset in presets.items()
    }
    for (tile, warps), stages, programs in _TILES:
        name = f"ours, {tile} rows, {warps} warps, {stages} stages, {programs or 'all'} programs"
        found[name] = functools.partial(tiled, tile=tile, warps=warps, stages=stages, programs=programs)
    return found


def measured(way: Callable[[Array, Array], Array], rows: Array, weight: Array) -> tuple[Array, float]:
    """What a way gives, and its seconds in a loop on the device: each product reads what the last has written."""
    loop = jax.jit(lambda x, times: jax.lax.fori_loop(0, times, lambda _, x: way(x, weight), x))
    once, taken = jax.block_until_ready(loop(rows, 1)), []
    for _ in range(_ROUNDS):
        clock = time.perf_counter()
        jax.block_until_ready(loop(rows, _TIMES))
        taken.append((time.perf_counter() - clock) / _TIMES)
    return once, float(np.median(taken))


def attempted(what: Callable[[], str]) -> str:
    """What is told, or why a way does not fit this device."""
    try:
        return what()
    except jax.errors.JaxRuntimeError as error:
        return str(error).splitlines()[0][:100]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=104_704)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()
    if options.rows % (largest := max(rows for rows, _ in _ROWS_AND_WARPS)):
        parser.error(f"--rows must be a multiple of {largest}, the largest tile; it is {options.rows}")
    key_rows, key_weight = jax.random.split(jax.random.key(0))
    if options.compile:
        from kernels import described, h200

        sizes = (options.rows, options.width), (options.width, options.width)
        shapes = described([jax.ShapeDtypeStruct(size, jnp.float32) for size in sizes], h200())
        for name, way in ways().items():
            print(f"{name:58s} {attempted(lambda way=way: jax.jit(way).lower(*shapes).compile() and 'compiles')}")
        return 0
    if jax.default_backend() == "cpu":
        raise SystemExit("Products are timed on a GPU, and JAX finds none here. --compile needs none.")
    rows = jax.random.normal(key_rows, (options.rows, options.width))
    weight = jnp.linalg.qr(jax.random.normal(key_weight, (options.width, options.width)))[0]  # so that nothing grows
    exact = np.asarray(rows, np.float64) @ np.asarray(weight, np.float64)
    print(f"{options.rows:,} × {options.width}: memory at 4.3 TB/s would take {2 * rows.nbytes / 4.3e6:.0f} µs")
    for name, way in ways().items():

        def told(way: Callable[[Array, Array], Array] = way) -> str:
            found, seconds = measured(way, rows, weight)
            error = np.linalg.norm(np.asarray(found) - exact) / np.linalg.norm(exact)
            return f"{1e6 * seconds:8.1f} µs, relative error {error:.0e}"

        print(f"{name:58s} {attempted(told)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
