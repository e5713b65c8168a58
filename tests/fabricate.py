"""Run folders without training: what a report reads, with numbers that a test chooses."""

import os
from pathlib import Path

import jax
import numpy as np

from rwf.build import member_arrays, member_net
from rwf.job import Job
from rwf.record import append_metrics, read_run, write_job, write_result
from rwf.spec import with_values
from rwf.tasks.regression_1d import QUICK, RECIPES

ENVIRONMENT = {
    "rwf": "0.1.0",
    "python": "3.11.7",
    "jax": "0.10.2",
    "commit": "0123456789abcdef0123456789abcdef01234567",
    "dirty": False,
    "platform": "cpu",
    "device": "cpu",
    "devices": 1,
    "precision": "float32",
    "matmul": "highest",
    "data": "generated: GRF, l = 0.02, 256 points",
}
LOOKS = 12


def job(parametrization="rwf", *, seeds=3, first_seed=0, quick=None, changes=None, **options):
    """A job of the 1D regression; `quick` is what a quick setting changes, `True` for the task's own."""
    base = RECIPES["regression-1d"]
    quick = QUICK["regression-1d"] if quick is True else quick or {}
    settings = {**quick, **(changes or {}), "seeds": seeds, "first_seed": first_seed}
    return Job(with_values(base, settings), parametrization, base, quick, **options)


def run_folder(
    root: Path,
    made: Job,
    rel_l2,
    *,
    diverged=None,
    weights=False,
    tuning=None,
    rate=1000.0,
    environment=None,
    time=None,
):
    """Writes a complete run folder whose members end at these errors; `diverged` holds steps by member.

    The weights are those of initialization, or none at all, as where a folder was copied without them.
    """
    folder = root / made.folder
    members, steps = made.members(), made.recipe.steps
    final = np.broadcast_to(np.asarray(rel_l2, float), len(members["seed"]))
    diverged = diverged or {}
    write_job(folder, made, {**ENVIRONMENT, **(environment or {})})
    append_metrics(folder, _lines(final, steps, diverged))
    summary = {
        "steps": steps,
        "members": len(final),
        "rate": rate,
        "compile_seconds": 1.5,
        "train_seconds": steps * len(final) / rate,
        "final": {"loss": final**2, "mse": final**2, "rel_l2": final, "weight_change": 1 / (1 + final)},
        "diverged": [diverged.get(i) for i in range(len(final))],
        "tuning": tuning,
    }
    write_result(folder, _nets(made) if weights else {}, summary)
    if not weights:
        (folder / "weights.safetensors").unlink()
    if time is not None:
        os.utime(folder / "summary.json", (time, time))
    return read_run(folder)


def _lines(final, steps, diverged):
    for i in range(1, LOOKS + 1):
        step = steps * i // LOOKS
        error = final * 30 ** (1 - i / LOOKS)
        alive = [step < diverged.get(m, steps + 1) for m in range(len(final))]
        values = {
            "loss": error**2,
            "mse": error**2,
            "rel_l2": error,
            "weight_change": i / LOOKS / (1 + final),
        }
        shown = {name: np.where(alive, value, np.nan) for name, value in values.items()}
        yield {"step": step, "seconds": step / 1000, "alive": alive, **shown}


def _nets(made):
    return jax.vmap(lambda member: member_net(made, member, 1, 1))(member_arrays(made))
