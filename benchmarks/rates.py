"""Steps a second of recipes on this device, as a full run takes them, and which kernels the time goes to.

    python benchmarks/rates.py advection/regular cavity/mlp:rwf burgers:plain:seeds=1,precision=tf32x3 [--json FILE]

A job is RECIPE[:PARAMETRIZATION[:SETTING=VALUE,...]]. All jobs load and compile side by side, each in a process of its
own; then they are timed one after the other, alone on the device, looks at the metrics included (`log_every=200` makes
chunks shorter, and looks more frequent). `--profile` traces one more chunk: the share of each kernel, and how long the
device was idle in between. `unroll=4` among the settings puts four steps into the body of the compiled loop;
`xla=--xla_gpu_enable_command_buffer=` adds a flag of XLA's for that job alone.
"""

import argparse
import collections
import fcntl
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the jobs share the device's memory

_LEAST_CHUNKS, _LEAST_SECONDS = 2, 3.0


def measure(job: str, meeting: Path, profile: bool) -> dict[str, Any]:
    """One job in this process: compiles, waits for the others, and has the device for itself while it is timed."""
    import jax

    from rwf import train

    clock = time.perf_counter()
    made, train.UNROLL, _ = job_of(job)
    task, shared = train.load_tasks(made)
    chunks = train.chunks(made, task, shared, train.start(made))
    compile_seconds = next(chunks).compile_seconds
    (meeting / f"ready-{os.getpid()}").touch()
    begun = time.perf_counter() - clock
    while not (meeting / "go").exists():
        time.sleep(0.1)
    with (meeting / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        seconds: list[float] = []
        while len(seconds) < _LEAST_CHUNKS or sum(seconds) < _LEAST_SECONDS:
            seconds.append(next(chunks).seconds)
        found = _profile(chunks, made.recipe.log_every, meeting / f"trace-{os.getpid()}") if profile else {}
    members = len(made.members()["seed"])
    rate = made.recipe.log_every * len(seconds) / sum(seconds)
    peak = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
    return {
        "job": job,
        "members": members,
        "precision": made.recipe.precision,
        "steps_a_second": rate,
        "member_steps_a_second": rate * members,
        "minutes_of_a_run": made.base.steps / rate / 60,
        "compile_seconds": compile_seconds,
        "begin_seconds": begun,
        "peak_gib": peak and peak / 2**30,
        **found,
    }


def job_of(text: str) -> tuple[Any, int, str]:
    """The job, how many steps the body of its loop has, and what it adds to XLA's flags."""
    from dataclasses import replace

    from rwf.job import Job
    from rwf.registry import find_recipe
    from rwf.spec import with_values

    name, parametrization, settings = [*text.split(":"), "", ""][:3]
    changes = {path: _value(value) for path, value in (pair.split("=", 1) for pair in settings.split(",") if pair)}
    unroll, flags, found = changes.pop("unroll", 1), changes.pop("xla", ""), find_recipe(name).recipe
    recipe = with_values(found, changes)
    # A prime number of looks: the engine then takes one look a chunk.
    recipe = replace(recipe, steps=recipe.log_every * 100_003)
    return Job(recipe, parametrization or "plain", found), unroll, flags  # pyright: ignore[reportArgumentType]


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _profile(chunks: Any, steps: int, folder: Path) -> dict[str, Any]:
    """Microseconds a step by kernel, from a trace of one chunk."""
    import jax

    with jax.profiler.trace(str(folder)):
        next(chunks)
    data = jax.profiler.ProfileData.from_file(str(next(folder.rglob("*.xplane.pb"))))
    spent: collections.Counter[str] = collections.Counter()
    launches, first, last = 0, float("inf"), 0.0
    for plane in data.planes:
        if not plane.name.startswith("/device:"):
            continue
        for line in plane.lines:
            if not line.name.startswith("Stream"):
                continue
            for event in line.events:
                spent[re.sub(r"[._]\d+$", "", event.name)] += event.duration_ns
                launches += 1
                first, last = min(first, event.start_ns), max(last, event.start_ns + event.duration_ns)
    busy = sum(spent.values())
    return {
        "busy_share": busy / (last - first) if spent else None,
        "kernels_a_step": launches / steps,
        "microseconds_a_step": {name: ns / 1e3 / steps for name, ns in spent.most_common(25)},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("jobs", nargs="+", metavar="JOB")
    parser.add_argument("--profile", action="store_true", help="also trace one chunk")
    parser.add_argument("--json", type=Path, metavar="FILE", help="save what was measured")
    parser.add_argument("--patience", type=float, default=240, help="seconds after which what is not compiled is left")
    parser.add_argument("--meeting", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.meeting:
        print(json.dumps(measure(options.jobs[0], options.meeting, options.profile)))
        return 0
    rows = []
    with tempfile.TemporaryDirectory() as meeting:
        arguments = ["--meeting", meeting, *(["--profile"] if options.profile else [])]
        workers = [(job, _started([sys.executable, __file__, job, *arguments], job_of(job)[2])) for job in options.jobs]
        _assemble([worker for _, worker in workers], Path(meeting), options.patience)
        with ThreadPoolExecutor(len(workers)) as pool:
            for done in as_completed([pool.submit(_row, *worker) for worker in workers]):
                rows.append(done.result())
                print(_line(rows[-1]), flush=True)
                if options.json:
                    options.json.write_text(json.dumps(rows, indent=1))
    return int(any("error" in row for row in rows))


def _started(command: list[str], flags: str) -> subprocess.Popen[str]:
    environment = os.environ | {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()}
    return subprocess.Popen(command, stdout=-1, stderr=-1, text=True, env=environment)


def _assemble(workers: list[subprocess.Popen[str]], meeting: Path, patience: float) -> None:
    """Waits until every worker has compiled or failed, gives up those that take too long, and lets the others go."""

    def compiling() -> list[subprocess.Popen[str]]:
        return [w for w in workers if w.poll() is None and not (meeting / f"ready-{w.pid}").exists()]

    end = time.monotonic() + patience
    while compiling() and time.monotonic() < end:
        time.sleep(0.1)
    for late in compiling():
        late.kill()
    (meeting / "go").touch()


def _row(job: str, worker: subprocess.Popen[str]) -> dict[str, Any]:
    out, errors = worker.communicate()
    if worker.returncode == 0:
        return json.loads(out.splitlines()[-1])
    return {"job": job, "error": errors.strip()[-1500:] or f"stopped ({worker.returncode}): it took too long"}


def _line(row: dict[str, Any]) -> str:
    if "error" in row:
        return f"{row['job']}: failed\n{row['error']}"
    line = (
        f"{row['job']:60s} {row['precision']:8s} {row['steps_a_second']:9.1f} steps/s × {row['members']:3d} members = "
        f"{row['member_steps_a_second']:9.1f}; full run {row['minutes_of_a_run']:.2f} min; compiled in "
        f"{row['compile_seconds']:.0f} s; {row['peak_gib'] or 0:.1f} GiB"
    )
    if row.get("busy_share"):
        line += f"; busy {100 * row['busy_share']:.0f} %, {row['kernels_a_step']:.0f} kernels a step"
    return line


if __name__ == "__main__":
    sys.exit(main())
