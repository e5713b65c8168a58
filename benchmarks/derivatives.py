"""All the ways to a net's derivatives, side by side: value, Jacobian and Laplacian, and the gradient in the parameters.

    python benchmarks/derivatives.py [--points 1024] [--width 128] [--depth 5] [--seconds 20] [--precision float32]

On whatever device JAX finds, `--repeat` times in a loop there (100 on an accelerator, once on a CPU). The methods take
turns; what is judged is the median over rounds of the ratio to jacfwd(jacrev). The exit status is 1 if carrying Jets is
less than 4 times faster, or if two methods disagree.
"""

import argparse
import functools
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from rwf import encode, nets
from rwf.derive import Bundle, Wanted, by_jvp, forward, seed
from rwf.derive.jet import Jet
from rwf.precision import PRECISIONS, resolve

TARGET = 4.0
_JUDGED = "Jet (rwf.derive.forward)"
_BASELINE = "jacfwd(jacrev), vmapped"
Rows = tuple[jax.Array, jax.Array, jax.Array]  # values, Jacobian (points, outputs, inputs), Laplacian
Method = Callable[[Any, jax.Array], Rows]


def _rows(jet: Jet) -> Rows:
    return jet.value, jnp.stack(jet.first, axis=-1), jet.laplacian()


def _nested(net: Any, x: jax.Array) -> Rows:
    hessian = jax.vmap(jax.jacfwd(jax.jacrev(net)))(x)
    return net(x), jax.vmap(jax.jacrev(net))(x), jnp.trace(hessian, axis1=-2, axis2=-1)


def _jvp_vmapped(net: Any, x: jax.Array) -> Rows:
    """jvp of jvp at one point at a time, along all directions at once, by vmap."""

    def along(point: jax.Array, direction: jax.Array) -> tuple[jax.Array, jax.Array]:
        def slope(p: jax.Array) -> jax.Array:
            return jax.jvp(net, (p,), (direction,))[1]

        return jax.jvp(slope, (point,), (direction,))

    first, second = jax.vmap(lambda p: jax.vmap(lambda d: along(p, d))(jnp.eye(x.shape[-1])))(x)
    return net(x), jnp.moveaxis(first, 1, -1), second.sum(axis=1)


def _folx(net: Any, x: jax.Array) -> Rows:
    import folx

    found: Any = jax.vmap(folx.forward_laplacian(net))(x)
    return found.x, jnp.moveaxis(found.dense_jacobian, 1, -1), found.laplacian


def _methods(wanted: Wanted) -> dict[str, Method]:
    methods: dict[str, Method] = {
        _JUDGED: lambda net, x: _rows(forward(net, x, wanted)),
        "Jets in a Bundle": lambda net, x: _rows(net(Bundle((seed(x, wanted),))).jets[0]),
        "jvp of jvp, batched (rwf.derive.by_jvp)": lambda net, x: _rows(by_jvp(net, x, wanted)),
        "jvp of jvp, vmapped": _jvp_vmapped,
        _BASELINE: _nested,
    }
    try:
        import folx  # noqa: F401  # type: ignore[import-not-found]
    except ImportError:
        print("folx is not installed (pip install folx): its row is left out.")
        return methods
    return {**methods, "folx.forward_laplacian": _folx}


def _lowered(method: Method, net: Any, x: jax.Array, repeat: int) -> Any:
    """The loss and its gradient in all parameters, `repeat` times in a loop on the device, to be compiled.

    Training has them in such a loop too. Called one by one, the host takes longer than the kernels of a small net.
    """
    static = eqx.filter(net, eqx.is_inexact_array, inverse=True)

    def loss(params: Any, x: jax.Array) -> jax.Array:
        return sum((jnp.sum(row**2) for row in method(eqx.combine(params, static), x)), jnp.zeros(()))

    def repeated(start: tuple[jax.Array, Any], params: Any, x: jax.Array) -> tuple[jax.Array, Any]:
        def once(found: tuple[jax.Array, Any], _: None) -> tuple[tuple[jax.Array, Any], None]:
            # Nothing changes, but the compiler cannot know that, and takes nothing out of the loop.
            given = jax.lax.optimization_barrier((params, x + 1e-30 * found[0]))
            return jax.value_and_grad(loss)(*given), None

        return jax.lax.scan(once, start, None, length=repeat)[0]

    return jax.jit(repeated).lower(*_given(net, x))


def _given(net: Any, x: jax.Array) -> tuple[tuple[jax.Array, Any], Any, jax.Array]:
    params = eqx.filter(net, eqx.is_inexact_array)
    return (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params)), params, x


def _calls(methods: dict[str, Method], net: Any, x: jax.Array, repeat: int) -> dict[str, Callable[[], Any]]:
    """A call of each method, compiled: on a GPU that takes half a minute for one.

    There XLA finds the tiles of products by trial. So the two that are judged are compiled by themselves, and the
    others at the same time.
    """
    lowered = {name: _lowered(method, net, x, repeat) for name, method in methods.items()}
    programs = {name: lowered.pop(name).compile() for name in (_JUDGED, _BASELINE)}
    with ThreadPoolExecutor() as pool:
        programs |= zip(lowered, pool.map(lambda program: program.compile(), lowered.values()), strict=True)
    given = _given(net, x)

    def call(program: Any) -> Any:
        return jax.block_until_ready(program(*given))

    return {name: functools.partial(call, program) for name, program in programs.items()}


def measure(
    points: int, width: int, depth: int, inputs: int, outputs: int, seconds: float, repeat: int
) -> dict[str, np.ndarray]:
    """The seconds of each method, measured in turns; refuses methods that disagree."""
    key, place = jax.random.split(jax.random.key(0))
    net = nets.MLP.create(encode.Identity(inputs), outputs, depth=depth, width=width, activation=jnp.tanh, key=key)
    x = jax.random.uniform(place, (points, inputs))
    calls = _calls(_methods(Wanted(laplacian=tuple(range(inputs)))), net, x, repeat)
    values = {name: call() for name, call in calls.items()}
    for name, (loss, gradient) in values.items():
        _agree(name, loss, values[_BASELINE][0])
        for ours, theirs in zip(jax.tree.leaves(gradient), jax.tree.leaves(values[_BASELINE][1]), strict=True):
            _agree(name, ours, theirs)
    times: dict[str, list[float]] = {name: [] for name in calls}
    deadline = time.perf_counter() + seconds
    while len(times[_BASELINE]) < 5 or time.perf_counter() < deadline:
        for name in list(calls)[:: 1 if len(times[_BASELINE]) % 2 else -1]:
            clock = time.perf_counter()
            calls[name]()
            times[name].append((time.perf_counter() - clock) / repeat)
    return {name: np.array(found) for name, found in times.items()}


def _agree(name: str, ours: jax.Array, theirs: jax.Array) -> None:
    distance = float(jnp.abs(ours - theirs).max() / jnp.maximum(jnp.abs(theirs).max(), 1e-30))
    if not distance < 5e-2:  # TF32 keeps three digits; float32 five and more
        raise SystemExit(f"{name} disagrees with {_BASELINE}: {distance:.1e} of the largest value.")


def main() -> int:
    """Measures, prints the table and judges it."""
    read = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in {"points": 1024, "width": 128, "depth": 5, "inputs": 2, "outputs": 3}.items():
        read.add_argument(f"--{name}", type=int, default=default)
    read.add_argument("--seconds", type=float, default=20.0)
    read.add_argument("--precision", choices=list(PRECISIONS), default="float32")
    read.add_argument("--repeat", type=int, default=1 if jax.default_backend() == "cpu" else 100)
    asked = vars(read.parse_args())
    with jax.default_matmul_precision(resolve(asked.pop("precision"), jax.default_backend())):
        times = measure(**asked)
    device = jax.devices()[0].device_kind
    table = Table(
        title=f"{asked['depth']} × {asked['width']} tanh, {asked['points']} points, {device}, jax {jax.__version__}"
    )
    for heading in ("method", "median ms", "fastest ms", "times faster than jacfwd(jacrev)"):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    ratios = {name: float(np.median(times[_BASELINE] / found)) for name, found in times.items()}
    for name in sorted(times, key=lambda name: -ratios[name]):
        row = (f"{1e3 * np.median(times[name]):.3f}", f"{1e3 * times[name].min():.3f}", f"{ratios[name]:.2f}")
        table.add_row(name, *row)
    Console(width=110).print(table)
    reached = ratios[_JUDGED]
    print(f"target: {TARGET:g} times; reached: {reached:.1f}")
    return 0 if reached >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
