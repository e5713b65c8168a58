"""The run folder: what a run was, what it measured and what it learnt. Everything downstream reads it.

recipe.json          the job: recipe, parametrization, members, hash
environment.json     versions, commit, device, precision
metrics.jsonl        one line for each look at the metrics, a value a member
weights.safetensors  the trained nets, members stacked along the first axis
summary.json         final metrics, rate, divergence; written last: a folder that has it is complete
checkpoints/         the last two states of an unfinished run
"""

import fcntl
import functools
import json
import math
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from rwf import build
from rwf.job import Job, job_from_json, job_to_json
from rwf.recipe import TaskSpec
from rwf.tensors import DamagedFileError, from_named, read_tensors, to_named, write_atomically, write_tensors


def write_job(folder: Path, job: Job, environment: Mapping[str, Any]) -> None:
    """Opens a run folder."""
    write_atomically(folder / "recipe.json", _dumps(job_to_json(job)))
    write_atomically(folder / "environment.json", _dumps(environment))


def append_metrics(folder: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Adds looks at the metrics to the log; values that are not finite become null."""
    with (folder / "metrics.jsonl").open("a") as file:
        file.writelines(json.dumps(_finite(line)) + "\n" for line in lines)


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The looks that were logged; a last line that was torn is left out."""
    path = folder / "metrics.jsonl"
    return _read_lines(path) if path.exists() else []


def truncate_metrics(folder: Path, step: int) -> None:
    """Drops what was logged after a step, and a last line that was torn."""
    kept = [line for line in read_metrics(folder) if line["step"] <= step]
    write_atomically(folder / "metrics.jsonl", "".join(json.dumps(line) + "\n" for line in kept))


def clear(folder: Path) -> None:
    """Throws away what an unfinished run has written."""
    (folder / "metrics.jsonl").unlink(missing_ok=True)
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keeps a second process out of a run folder; the system lifts the lock of a process that dies."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError(f"Another process is writing {folder}. Wait for it, or stop it.") from None
        yield


def write_result(folder: Path, nets: Any, summary: Mapping[str, Any]) -> None:
    """Closes a run folder: weights first, then the summary that makes it complete, then no more checkpoints."""
    write_tensors(folder / "weights.safetensors", to_named(nets), {"format": "rwf-1"})
    write_atomically(folder / "summary.json", _dumps(_finite(summary)))
    # With all that is in it: a process that was killed while it wrote one leaves the half of it.
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)


def is_complete(folder: Path) -> bool:
    """Whether a run folder has been closed."""
    return (folder / "summary.json").exists()


def write_checkpoint(folder: Path, state: Any, job: Job, data: str) -> Path:
    """Saves a state of the engine atomically; the one before it stays, older ones go."""
    named = to_named(state)
    step = int(named["step"].max())
    path = folder / "checkpoints" / f"step-{step:09d}.safetensors"
    write_tensors(path, named, {"job": job.hash, "data": data})
    for old in _checkpoints(folder)[:-2]:
        old.unlink()
    return path


def read_checkpoint(folder: Path, template: Any, job: Job, data: str) -> tuple[Any, list[str]]:
    """The newest state that is whole, or None; and what was wrong with those that were refused."""
    refused = []
    for path in reversed(_checkpoints(folder)):
        try:
            named, metadata = read_tensors(path)
        except DamagedFileError as error:
            refused.append(f"{error} The checkpoint before it is used.")
            continue
        if metadata != {"job": job.hash, "data": data}:
            refused.append(f"{path} belongs to another recipe or other data.")
            continue
        return jax.tree.map(jax.numpy.asarray, from_named(template, named)), refused
    return None, refused


@dataclass(frozen=True)
class Run:
    """A complete run folder, read back."""

    folder: Path
    info: dict[str, Any]
    environment: dict[str, Any]
    summary: dict[str, Any]

    @functools.cached_property
    def job(self) -> Job:
        """The job that made it; the tasks are imported, for the specs of their files."""
        from rwf.registry import recipes

        recipes()
        return job_from_json(self.info)

    @functools.cached_property
    def curves(self) -> dict[str, Float[np.ndarray, "..."]]:
        """`step` and `seconds` (looks), and every metric (looks, members) with NaN where there is none."""
        lines = read_metrics(self.folder)
        return {name: np.array([line[name] for line in lines], float) for name in lines[0]} if lines else {}

    def net(self, member: int) -> Any:
        """The trained net of one member, with its parametrization."""
        stacked = build.shapes(self.job)
        named, _ = read_tensors(self.folder / "weights.safetensors")
        return jax.tree.map(lambda x: jax.numpy.asarray(x[member]), from_named(stacked, named))

    def check_data(self, task: TaskSpec | None = None) -> None:
        """Refuses where the task, the run's own if none is given, would have other data here than the run had."""
        now = (task or self.job.recipe.task).describe()
        before = self.environment.get("data", now)
        if before != now:
            raise ValueError(
                f"{self.folder} was trained on other data ({before}) than there is now ({now}). Name the same data "
                "with --data or RWF_DATA, or run into another --out."
            )

    def task(self, member: int) -> Any:
        """The task of one member, with its data."""
        count = len(self.info["members"]["signal"])
        if not 0 <= member < count:
            raise ValueError(f"{self.folder} has the members 0 to {count - 1}; got {member}.")
        return self.job.recipe.task.build(self.info["members"]["signal"][member])


def read_run(folder: Path) -> Run:
    """Reads a complete run folder."""
    try:
        parts = [json.loads((folder / f"{n}.json").read_text()) for n in ("recipe", "environment", "summary")]
    except FileNotFoundError as error:
        missing = Path(error.filename).name
        raise FileNotFoundError(f"{folder} is no complete run folder: it has no {missing}.") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"A file of {folder} is damaged: {error}.") from None
    return Run(folder, *parts)


def find_runs(paths: Iterable[Path]) -> list[Run]:
    """All complete runs in some folders and below them, in the order of their names."""
    found = {}
    for path in paths:
        for summary in sorted(path.rglob("summary.json")):
            found[summary.parent.resolve()] = read_run(summary.parent)
    return list(found.values())


def only_run(folder: Path) -> Run:
    """The one complete run below a folder."""
    runs = find_runs([folder])
    if len(runs) != 1:
        named = "".join(f"\n  {run.folder}" for run in runs)
        raise ValueError(f"{folder} holds {len(runs)} complete runs. Name the folder of one.{named}")
    return runs[0]


def _checkpoints(folder: Path) -> list[Path]:
    return sorted((folder / "checkpoints").glob("step-*.safetensors"))


def _read_lines(path: Path) -> list[dict[str, Any]]:
    lines = []
    for text in path.read_text().splitlines():
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:  # the last line of a process that was killed
            break
    return lines


def _dumps(value: Any) -> str:
    return json.dumps(value, indent=1) + "\n"


def _finite(value: Any) -> Any:
    """JSON has no NaN: null stands for it."""
    if isinstance(value, Mapping):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_finite(item) for item in value]
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value
