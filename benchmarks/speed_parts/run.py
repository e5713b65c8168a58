"""The engine's whole run costs what a hand-written scan costs."""

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.monitoring
import numpy as np

from rwf.job import Job
from rwf.progress import Bar, Progress
from rwf.recipe import Parametrization, Recipe
from rwf.run import run_job

from .jobs import SMALL, hand_written
from .measure import Row, paired


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
