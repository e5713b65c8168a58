"""An RWF step costs what a Plain step costs."""

from collections.abc import Iterator

import numpy as np

from .jobs import WIDE, engine
from .measure import Row, in_turns, ms, paired


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
