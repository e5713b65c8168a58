"""Importing rwf costs what importing JAX costs."""

import subprocess
import sys
from collections.abc import Iterator

from .measure import Row, Side, in_turns, ms, paired


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
