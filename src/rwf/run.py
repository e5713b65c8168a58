"""From a job to its run folder: skip what is complete, resume what is not, record everything."""

import hashlib
import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from rwf import record, train
from rwf.environment import environment
from rwf.job import Job
from rwf.pictures import save_pictures
from rwf.precision import computing
from rwf.progress import Progress
from rwf.tree import materialize

# What may decide the last digits of a run that is continued elsewhere, in words.
_TOLD = {"device": "device", "matmul": "precision", "jax": "version of jax", "source": "state of rwf's code"}


class UnfinishedRunError(RuntimeError):
    """There is an unfinished run of the same job, and nobody said what to do with it."""


class InterruptedRunError(RuntimeError):
    """Ctrl-C, or the time is over: the state was saved."""


def run_job(
    job: Job,
    root: Path,
    *,
    progress: Progress,
    resume: bool = False,
    fresh: bool = False,
    tuning: dict[str, Any] | None = None,
    checkpoint_seconds: float = 20.0,
    deadline: float = math.inf,
) -> Path:
    """Trains a job and writes its run folder below `root`; a folder that is complete is left as it is.

    A rate that was tuned may be the recipe's own: the same training is then copied where it is complete, either way.

    **Arguments:** `resume` continues an unfinished run from its last checkpoint, `fresh` throws it away, and a
    complete one whose files are damaged;
    `tuning` is recorded beside the result: how the learning rate was found; past `deadline`, a time of
    `time.monotonic()`, the run is saved and left.
    """
    folder = root / job.folder
    if _is_done(folder, job, progress, fresh=fresh):
        return folder
    if twin := _twin(root, job):
        with record.locked(folder):
            record.copy_result(folder, job, twin, tuning)
        progress.note(f"{job.title}: the same training as {twin.folder}, and a copy of it")
        return folder
    if time.monotonic() > deadline:
        raise InterruptedRunError(f"{job.title}: not begun, the time is over")
    for remark in job.recipe.task.remarks(job.recipe.steps, job.recipe.net, job.recipe.encoding):
        progress.note(f"{job.recipe_title}: {remark}", once=True)  # it holds for all parametrizations
    task, shared = train.load_tasks(job)
    data = data_hash(job, task, shared)
    with record.locked(folder):
        state = _open(folder, job, data, progress, resume=resume, fresh=fresh)
        with _deferred_interrupt(deadline) as interrupted:
            state, timing = _train(job, task, shared, state, folder, data, progress, checkpoint_seconds, interrupted)
        summary = _summary(job, state, record.read_metrics(folder), timing, tuning)
        summary["final"] |= _concluded(job, task, shared, state.net)
        summary |= _kept(job, task)
        record.write_result(folder, state.net, summary)
    save_pictures(record.read_run(folder))
    for note in divergences(job, summary):
        progress.note(note)
    return folder


def _is_done(folder: Path, job: Job, progress: Progress, *, fresh: bool) -> bool:
    """Whether a folder holds this job, complete; one that is damaged is refused, or to be made anew."""
    if not record.is_complete(folder):
        return False
    try:
        run = record.read_run(folder)
        if run.info["hash"] != job.hash or not record.is_as_written(run):
            raise record.damaged(folder / "recipe.json", "was changed: it does not hash to what it records")
        record.check_weights(run)
    except record.DamagedRunError as error:
        if not fresh:
            raise
        progress.note(f"{job.title}: starts anew. {error}")
        return False
    run.check_data(job.recipe.task)
    progress.note(f"{job.title}: done before, in {folder}")
    return True


def _twin(root: Path, job: Job) -> record.Run | None:
    """A complete run of the same training in another row: the tuned rate may be the recipe's own."""
    twin = replace(job, tuned=not job.tuned)
    try:
        run = record.read_run(root / twin.folder)
        record.check_weights(run)
    except (FileNotFoundError, record.DamagedRunError):
        return None
    same_data = run.environment.get("data") == job.recipe.task.describe()
    return run if same_data and run.info["hash"] == twin.hash and record.is_as_written(run) else None


def data_hash(job: Job, task: Any, shared: bool) -> str:
    """Of what a job trains on, each signal once: the same whatever seeds and settings its members have."""
    if known := task.data_hash():
        return known
    signals = job.members()["signal"]
    once = np.array([signals.index(signal) for signal in job.recipe.signals])
    content = hashlib.sha256()
    for leaf in jax.tree.leaves(task):
        content.update((np.asarray(leaf) if shared else np.asarray(leaf)[once]).tobytes())
    return content.hexdigest()[:16]


def divergences(job: Job, summary: dict[str, Any]) -> list[str]:
    """One sentence for each member that diverged."""
    members, every = job.members(), job.recipe.log_every
    return [
        f"{job.title}: the member with {', '.join(f'{k} {v[i]:g}' for k, v in members.items())} diverged before "
        f"step {step}; its state at step {step - every} was kept"
        for i, step in enumerate(summary["diverged"])
        if step is not None
    ]


def _open(folder: Path, job: Job, data: str, progress: Progress, *, resume: bool, fresh: bool) -> train.State:
    """The state to train from, with the folder made ready for it."""
    if record.is_begun(folder) and not resume and not fresh:
        raise UnfinishedRunError(
            f"{folder} holds an unfinished run of this job. Add --resume to continue it, or --fresh to start anew."
        )
    state = train.start(job)
    where = environment(job.recipe.precision) | {"data": job.recipe.task.describe(), "data_hash": data}
    if resume and not fresh and (folder / "recipe.json").exists():
        saved, refused = record.read_checkpoint(folder, state, job, data)
        for reason in refused:
            progress.note(reason)
        if saved is not None:
            step = int(saved.step.max())
            record.write_recipe(folder, job)
            changed = record.write_continued(folder, step, where)
            record.truncate_metrics(folder, step)
            other = " and ".join(words for name, words in _TOLD.items() if name in changed)
            progress.note(f"{job.title}: continues at step {step:,}{f', with another {other}' if other else ''}")
            return saved
        progress.note(f"{job.title}: no checkpoint to continue from, starts anew")
    record.clear(folder)
    record.write_job(folder, job, where)
    return state


def _train(
    job: Job,
    task: Any,
    shared: bool,
    state: train.State,
    folder: Path,
    data: str,
    progress: Progress,
    checkpoint_seconds: float,
    interrupted: Callable[[], bool],
) -> tuple[train.State, dict[str, float]]:
    """Trains to the end, logging and saving between chunks."""
    before = record.read_metrics(folder)
    timing = {"before": before[-1]["seconds"] if before else 0.0, "compile": 0.0, "train": 0.0, "steps": 0.0}
    first, unsaved = int(state.step.max()), 0.0
    with progress.bar(job.title, job.recipe.steps, first) as bar:
        for chunk in train.chunks(job, task, shared, state):
            state, step = chunk.state, int(chunk.steps[-1])
            lines = _lines(chunk, timing["before"] + timing["train"])
            record.append_metrics(folder, lines)
            timing["compile"] += chunk.compile_seconds
            timing["train"] += chunk.seconds
            timing["steps"] = step - first
            unsaved += chunk.seconds
            bar.advance(step, lines[-1])
            if step < job.recipe.steps and (interrupted() or unsaved >= checkpoint_seconds):
                record.write_checkpoint(folder, state, job, data)
                unsaved = 0.0
            if interrupted() and step < job.recipe.steps:
                raise InterruptedRunError(f"{job.title}: stopped at step {step:,}; saved in {folder}")
    return state, timing


def _lines(chunk: train.Chunk, seconds: float) -> list[dict[str, Any]]:
    """The looks of a chunk as lines of the log. A member that diverged has the metrics of its last good state."""
    shares = seconds + chunk.seconds * np.arange(1, len(chunk.steps) + 1) / len(chunk.steps)
    return [
        {"step": int(step), "seconds": float(share), **{name: looks[i].tolist() for name, looks in chunk.looks.items()}}
        for i, (step, share) in enumerate(zip(chunk.steps, shares, strict=True))
    ]


def _summary(
    job: Job,
    state: train.State,
    lines: list[dict[str, Any]],
    timing: dict[str, float],
    tuning: dict[str, Any] | None,
) -> dict[str, Any]:
    members = len(state.alive)
    names = [name for name in lines[-1] if name not in ("step", "seconds", "alive")]
    rate = timing["steps"] * members / timing["train"] if timing["train"] else None
    return {
        "steps": job.recipe.steps,
        "members": members,
        "rate": rate,
        "compile_seconds": timing["compile"],
        "train_seconds": timing["before"] + timing["train"],
        "final": {name: [_last(lines, name, i) for i in range(members)] for name in names},
        "diverged": [int(step) if step >= 0 else None for step in np.asarray(state.diverged)],
        "tuning": tuning,
    }


def _concluded(job: Job, task: Any, shared: bool, nets: Any) -> dict[str, list[float]]:
    """What a task measures once, at the end: one member after the other, at the precision of the training."""

    def member(i: int) -> dict[str, Any]:
        one_task, net = jax.tree.map(lambda leaf: leaf[i], (None if shared else task, nets))
        return (task if shared else one_task).conclude(materialize(net))

    with computing(job.recipe.precision):
        found = [member(i) for i in range(len(job.members()["seed"]))]
    return {name: [float(values[name]) for values in found] for name in found[0]}


def _kept(job: Job, task: Any) -> dict[str, Any]:
    """What is kept of a run's data, for its net to be used without: coordinates, values, an operator's scaling."""
    ends = {"net": {"inputs": task.inputs, "outputs": task.outputs}}
    if not hasattr(job.recipe.net, "sensors"):
        return ends
    scaling, places = getattr(task, "scaling", None), getattr(task, "places", "")
    known = {"scaling": scaling and asdict(scaling), "places": places}
    return ends | {"operator": {"inputs": task.inputs} | {name: value for name, value in known.items() if value}}


def _last(lines: list[dict[str, Any]], name: str, member: int) -> float | None:
    """The last value that a member had; a training loss that never was finite is None."""
    return next((line[name][member] for line in reversed(lines) if line[name][member] is not None), None)


@contextmanager
def _deferred_interrupt(deadline: float) -> Iterator[Callable[[], bool]]:
    """Turns the first Ctrl-C, and the deadline, into a flag that is looked at between chunks.

    The second Ctrl-C stops at once.
    """
    seen = []

    def asked() -> bool:
        return bool(seen) or time.monotonic() > deadline

    def note(*_: Any) -> None:
        if seen:
            raise KeyboardInterrupt
        seen.append(True)

    try:
        previous = signal.signal(signal.SIGINT, note)
    except ValueError:  # not the main thread: Ctrl-C is somebody else's there
        yield asked
        return
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, previous)
