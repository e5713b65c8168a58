"""How is measured: both sides of a ratio in turns, and the median of the rounds' ratios with its interval."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

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
