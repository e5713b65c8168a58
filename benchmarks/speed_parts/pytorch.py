"""A step beats PyTorch's, in the fastest of the ways that PyTorch has."""

import importlib
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Array

from .jobs import SMALL, Curve, engine, hand_written, initial
from .measure import Row, Side, in_turns, ms, paired


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
