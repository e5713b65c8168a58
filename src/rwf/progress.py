"""Progress for people: a live bar on a terminal, plain lines elsewhere, nothing when quiet."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

# What is shown before the terms of a loss.
_RESULTS = ("psnr", "psnr_two_views", "iou", "rel_l2", "test_error", "rms_residual", "rms_conditions")
LINE_SECONDS = 10.0  # how often a line is printed where there is no terminal


class Bar(Protocol):
    """What a run reports to."""

    def advance(self, step: int, look: dict[str, Any]) -> None:
        """Shows a step that was reached and the values there."""
        ...


class Progress:
    """Makes bars, and prints notes between them. It goes to standard error: standard output is for results."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self.console = Console(stderr=True)
        self._noted: set[str] = set()

    def note(self, text: str, *, once: bool = False) -> None:
        """A line that should be read, even after the bars are gone; not printed when quiet, nor again if `once`."""
        if not self.quiet and not (once and text in self._noted):
            self.console.print(escape(text), highlight=False, soft_wrap=True)
        self._noted.add(text)

    @contextmanager
    def bar(self, title: str, steps: int, first: int = 0) -> Iterator[Bar]:
        """A bar for one run that starts at step `first`."""
        if self.quiet:
            yield _Silent()
        elif self.console.is_terminal:
            columns = (
                TextColumn("[bold]{task.description:<28}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[values]}"),
                TimeRemainingColumn(compact=True),
            )
            with RichProgress(*columns, console=self.console) as rich:
                task = rich.add_task(escape(title), total=steps, completed=first, values="compiling")
                yield _Live(rich, task)
        else:
            yield _Lines(title, steps)


class _Silent:
    def advance(self, step: int, look: dict[str, Any]) -> None:
        pass


class _Live:
    def __init__(self, rich: RichProgress, task: Any) -> None:
        self.rich, self.task, self.rate = rich, task, _Rate()

    def advance(self, step: int, look: dict[str, Any]) -> None:
        values = f"{describe(look)}  {_speed(self.rate(step))}"
        self.rich.update(self.task, completed=step, values=values)


class _Lines:
    def __init__(self, title: str, steps: int) -> None:
        self.title, self.steps, self.rate, self.printed = title, steps, _Rate(), time.monotonic()

    def advance(self, step: int, look: dict[str, Any]) -> None:
        rate, now = self.rate(step), time.monotonic()
        if step < self.steps and now - self.printed < LINE_SECONDS:
            return
        self.printed = now
        left = f"{(self.steps - step) / rate:.0f} s left" if rate else ""
        text = f"{self.title}  step {step:,}/{self.steps:,}  {describe(look)}  {_speed(rate)}  {left}"
        print(text.rstrip(), file=sys.stderr, flush=True)


class _Rate:
    """Steps a second since the first chunk came back, so that compilation is not counted; None until then."""

    def __init__(self) -> None:
        self.began: tuple[int, float] | None = None

    def __call__(self, step: int) -> float | None:
        now = time.monotonic()
        if self.began is None:
            self.began = step, now
            return None
        return (step - self.began[0]) / max(now - self.began[1], 1e-9)


def _speed(rate: float | None) -> str:
    """In words, also where a step takes seconds."""
    return "" if rate is None else f"{rate:,.0f} steps/s" if rate >= 10 else f"{rate:.2g} steps/s"


def describe(look: dict[str, Any]) -> str:
    """Loss and metrics of a look, the median over members.

    >>> describe({"step": 100, "alive": [True, True], "loss": [0.5, 0.1], "rel_l2": [0.2, 0.4]})
    'loss 0.3  rel_l2 0.3'
    """
    terms = [name for name in look if name not in ("step", "seconds", "alive", "weight_change")]
    others = [name for name in terms if name != "loss" and list(look[name]) != list(look["loss"])]
    others.sort(key=lambda name: name not in _RESULTS)
    shown = ["loss", *others][:3]  # a single term of the loss would only say it again
    dead = sum(not alive for alive in look["alive"])
    values = [f"{name} {_median(look[name]):.3g}" for name in shown]
    return "  ".join(values + ([f"{dead} diverged"] if dead else []))


def _median(values: Any) -> float:
    finite = [value for value in np.asarray(values, float) if np.isfinite(value)]
    return float(np.median(finite)) if finite else float("nan")
