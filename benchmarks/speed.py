"""The project's speed targets, measured on this CPU as ratios: what is compared runs in turns, in one run.

    python benchmarks/speed.py [--quick] [--json FILE] [--only step run torch import ntk]

See README.md beside this file for how each number is made. The exit status is 1 if a target is missed.
"""

import argparse
import importlib.metadata
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # before JAX is imported: the targets are a CPU's

from rich.console import Console
from rich.table import Table

from rwf.environment import environment
from speed_parts.imports import import_rows
from speed_parts.measure import Row
from speed_parts.ntk import ntk_memory, ntk_rows
from speed_parts.pytorch import torch_rows
from speed_parts.run import run_rows
from speed_parts.step import step_rows

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
