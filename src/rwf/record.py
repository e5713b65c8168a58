"""The run folder: what a run was, what it measured and what it learnt. Everything downstream reads it.

recipe.json          the job: recipe, parametrization, members, hash
environment.json     versions, commit, device, precision; `continued`: what was another from some step on
metrics.jsonl        one line for each look at the metrics, a value a member
weights.safetensors  the trained nets, members stacked along the first axis
summary.json         final metrics, rate, divergence, whose copy it is; a folder that has it is complete
pictures.safetensors small pictures of some members, where nets are pictures (`rwf.pictures`); written after all else
checkpoints/         the last two states of an unfinished run
"""

import fcntl
import functools
import json
import math
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from rwf import build
from rwf.environment import in_turn
from rwf.job import Job, experiment_in, hash_in, job_from_json, job_to_json
from rwf.recipe import TaskSpec
from rwf.spec import OWN_FILE, kinds
from rwf.tensors import DamagedFileError, from_named, read_tensors, to_named, write_atomically, write_tensors


def write_job(folder: Path, job: Job, environment: Mapping[str, Any]) -> None:
    """Opens a run folder."""
    write_recipe(folder, job)
    write_atomically(folder / "environment.json", _dumps(environment))


def write_recipe(folder: Path, job: Job) -> None:
    """Says what job a run folder is of; also when it goes on, since what decides no result, a path, may be another."""
    write_atomically(folder / "recipe.json", _dumps(job_to_json(job)))


def write_continued(folder: Path, step: int, environment: Mapping[str, Any]) -> dict[str, Any]:
    """Says where a run goes on, and returns what is not as it was before that step: device, commit, versions."""
    path = folder / "environment.json"
    recorded = _read_json(path, ())
    kept = [piece for piece in recorded.pop("continued", []) if piece["step"] < step]  # nothing is left of later ones
    _, before = in_turn(recorded | {"continued": kept})[-1]
    changed = {name: value for name, value in environment.items() if before.get(name) != value}
    if changed:
        kept.append({"step": step, **changed})
    write_atomically(path, _dumps(recorded | ({"continued": kept} if kept else {})))
    return changed


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
    """Throws away what a run has written, so that it can start anew."""
    (folder / "summary.json").unlink(missing_ok=True)  # first: without it nobody takes the rest for complete
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


def copy_result(folder: Path, job: Job, run: "Run", tuning: Mapping[str, Any] | None) -> None:
    """Closes a run folder with what another holds of the same training; the summary says whose copy it is."""
    clear(folder)
    write_recipe(folder, job)
    for path in run.folder.iterdir():
        if path.is_file() and path.name not in ("recipe.json", "summary.json") and not path.name.startswith("."):
            write_atomically(folder / path.name, path.read_bytes())
    origin = run.summary.get("copy_of") or run.folder.name
    summary = {**run.summary, "tuning": tuning, "copy_of": None if origin == folder.name else origin}
    write_atomically(folder / "summary.json", _dumps(summary))


def is_complete(folder: Path) -> bool:
    """Whether a run folder has been closed."""
    return (folder / "summary.json").exists()


def is_begun(folder: Path) -> bool:
    """Whether a run folder holds something of a training: one that was refused while it was compiled does not."""
    trained = bool(_checkpoints(folder)) or (folder / "metrics.jsonl").exists()
    return trained and (folder / "recipe.json").exists()


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
    """The newest state that is whole, or None; and what was wrong with those that were refused.

    Where there are only others', that is an error: they may be what somebody has trained for hours.
    """
    refused, others = [], False
    for path in reversed(_checkpoints(folder)):
        try:
            named, metadata = read_tensors(path)
        except DamagedFileError as error:
            refused.append(f"{error} The checkpoint before it is used.")
            continue
        if metadata != {"job": job.hash, "data": data}:
            refused.append(f"{path} belongs to another recipe or other data.")
            others = True
            continue
        return jax.tree.map(jax.numpy.asarray, from_named(template, named)), refused
    if others:
        raise ValueError(
            f"{folder} has no checkpoint to continue from: those that it holds belong to another recipe or other data. "
            "Name the same data as before, or throw them away and start anew with --fresh."
        )
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
        kind = self.info["recipe"]["task"]["kind"]
        if "." in kind and kind not in kinds():  # those of rwf have no module before their name
            file, _, name = kind.removeprefix(OWN_FILE).partition(".")
            raise ValueError(
                f"{self.folder} is a run of {name} in {file}.py, a file of your own: name it behind the run, by that "
                "name, or the file that imports it (rwf solution, rwf predict and rwf report take it)."
            )
        return job_from_json(self.info)

    @functools.cached_property
    def curves(self) -> dict[str, Float[np.ndarray, "..."]]:
        """`step` and `seconds` (looks), and every metric (looks, members) with NaN where there is none."""
        lines = read_metrics(self.folder)
        return {name: np.array([line[name] for line in lines], float) for name in lines[0]} if lines else {}

    def net(self, member: int) -> Any:
        """The trained net of one member, with its parametrization; the data that it was trained on is not needed."""
        self.check_member(member)
        stacked = build.shapes(self.job, *self._ends())
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

    def _ends(self) -> tuple[int, int]:
        """How many coordinates the net reads, and how many values it returns: old folders leave it to the data."""
        if kept := self.summary.get("net"):
            return kept["inputs"], kept["outputs"]
        if kept := self.summary.get("operator"):
            return kept["inputs"], 1
        task = self.task(0)
        return task.inputs, task.outputs

    def check_member(self, member: int) -> None:
        """Refuses the number of a member that there is not."""
        count = len(self.info["members"]["seed"])
        if not 0 <= member < count:
            raise ValueError(f"{self.folder} has the members 0 to {count - 1}; got {member}.")

    def task(self, member: int) -> Any:
        """The task of one member, with its data."""
        self.check_member(member)
        return self.job.recipe.task.build(self.info["members"]["signal"][member])


class DamagedRunError(ValueError):
    """A run folder does not hold what was written to it, or not all of it."""


def damaged(path: Path, how: str) -> DamagedRunError:
    """The error about a file of a run folder."""
    return DamagedRunError(f"{path} {how}. Repeat this run with --fresh, or delete {path.parent}.")


def read_run(folder: Path) -> Run:
    """Reads a complete run folder, and refuses one that is damaged."""
    if not is_complete(folder):
        raise FileNotFoundError(f"{folder} is no complete run folder: it has no summary.json.")
    info = _read_json(folder / "recipe.json", ("hash", "experiment", "members", "recipe", "parametrization", "purpose"))
    environment = _read_json(folder / "environment.json", ())
    summary = _read_json(folder / "summary.json", ("steps", "final", "diverged"))
    lines = read_metrics(folder)
    reached = lines[-1]["step"] if lines else 0
    if reached != summary["steps"]:
        told = f"is cut short: it ends at step {reached:,} of {summary['steps']:,}"
        raise damaged(folder / "metrics.jsonl", told)
    return Run(folder, info, environment, summary)


def check_weights(run: Run) -> None:
    """Refuses a run whose weights are missing or damaged; tables and curves do without, so reading a run does not."""
    path = run.folder / "weights.safetensors"
    if not path.exists():
        raise damaged(path, "is missing")
    try:
        read_tensors(path)
    except DamagedFileError as error:
        raise damaged(path, str(error).removeprefix(f"{path} ").rstrip(".")) from None


def find_runs(paths: Iterable[Path], note: Callable[[str], None] | None = None) -> list[Run]:
    """All complete runs in some folders and below them, in the order of their names.

    A damaged one is an error; where a `note` is given, it is told of it, and the others are returned.
    """
    found = {}
    for path in paths:
        for summary in sorted(path.rglob("summary.json")):
            try:
                run = read_run(summary.parent)
            except DamagedRunError as error:
                if note is None:
                    raise
                note(f"left out: {error}")
                continue
            found[summary.parent.resolve()] = run
            if note is not None and not is_as_written(run):
                note(
                    f"{run.folder / 'recipe.json'} does not hash to what it records: it was changed, or another "
                    "version of rwf wrote it. If it was changed, repeat this run with --fresh, or delete the folder."
                )
    return list(found.values())


def is_as_written(run: Run) -> bool:
    """Whether the job of a run folder still is the one whose hash it records."""
    from rwf.registry import recipes

    info = run.info
    try:
        if info["recipe"]["task"]["kind"] not in kinds():
            recipes()  # imports our tasks
        experiment = experiment_in(info) or info["experiment"]
        return hash_in(info) == info["hash"] and experiment == info["experiment"]
    except (KeyError, TypeError, AttributeError):
        return False


def only_run(folder: Path) -> Run:
    """The one complete run below a folder."""
    if not folder.exists():
        raise ValueError(f"There is no folder {folder}. Name the folder of a complete run.")
    runs = find_runs([folder])
    if len(runs) != 1:
        named = "".join(f"\n  {run.folder}" for run in runs)
        raise ValueError(f"{folder} holds {len(runs)} complete runs. Name the folder of one.{named}")
    return runs[0]


def _read_json(path: Path, names: Iterable[str]) -> dict[str, Any]:
    """What a file of a run folder holds, which is a dictionary with these names at least."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise damaged(path, "is missing") from None
    except ValueError as error:  # no JSON, or no text
        raise damaged(path, f"cannot be read ({error})") from None
    missing = [name for name in names if name not in found] if isinstance(found, dict) else names
    if missing or not isinstance(found, dict):
        raise damaged(path, f"has no {', '.join(missing)}" if missing else "does not hold what was written")
    return found


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
