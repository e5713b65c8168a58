"""The control that the paper lacks: the same baselines with their learning rate tuned."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rwf.job import Job
from rwf.record import Run, read_run
from rwf.spec import with_values

RATES = 5  # half a decade apart, around the recipe's
WIDENINGS = 3  # of two rates each, while the best is at an edge
TAIL = 0.25  # the share of the last looks whose median counts: a training loss has spikes, tens of times its size


def tuned_job(job: Job, run: Callable[[Job], Path]) -> tuple[Job, dict[str, Any]]:
    """The job with the learning rate that reaches the lowest training loss, and how it was found.

    The rates are members of one program, on one seed and at most two signals, for as many steps as the job.
    A winner at the edge of the grid widens it.
    """
    rates = tuple(_step(job.recipe.optim.lr, k) for k in range(-(RATES // 2), RATES // 2 + 1))
    probes = [read_run(run(_probe(job, rates)))]
    tried = training_losses(probes[0])
    for _ in range(WIDENINGS):
        wider = _beyond(tried)
        if not wider:
            break
        probes.append(read_run(run(_probe(job, wider))))
        tried |= training_losses(probes[-1])
    best = min(tried, key=tried.__getitem__)
    ends = {rate: end for probe in probes for rate, end in final_metrics(probe).items()}
    found = {
        "chosen": best,
        "at_edge": bool(_beyond(tried)),
        "losses": {f"{rate:g}": _or_none(tried[rate]) for rate in sorted(tried)},
        "final": {f"{rate:g}": ends[rate] for rate in sorted(ends)},
        "runs": [probe.folder.name for probe in probes],
    }
    return at_rate(job, best), found


def at_rate(job: Job, rate: float) -> Job:
    """The job with the learning rate that a search has found for it."""
    recipe = with_values(job.recipe, {"optim.lr": rate})
    return Job(recipe, job.parametrization, job.base, job.quick, tuned=True)


def training_losses(run: Run) -> dict[float, float]:
    """The training loss at the end for each rate, the geometric mean over its members; infinite where one diverged."""
    loss, rates = run.curves["loss"], np.array(run.info["members"]["optim.lr"])
    tail = np.median(loss[-max(1, math.ceil(TAIL * len(loss))) :], axis=0)
    tail = np.where([step is None for step in run.summary["diverged"]], tail, np.inf)
    with np.errstate(divide="ignore"):  # a loss of zero is the best there is
        return {float(rate): float(np.exp(np.log(tail[rates == rate]).mean())) for rate in np.unique(rates)}


def final_metrics(run: Run) -> dict[float, dict[str, float | None]]:
    """What each rate has led to, the means over its members: to be looked at, since a lower loss may err more."""
    rates = np.array(run.info["members"]["optim.lr"])
    finals = {name: np.array(values, float) for name, values in run.summary["final"].items()}
    return {
        float(rate): {name: _or_none(float(values[rates == rate].mean())) for name, values in finals.items()}
        for rate in np.unique(rates)
    }


def _probe(job: Job, rates: tuple[float, ...]) -> Job:
    recipe = with_values(job.recipe, {"seeds": 1, "signals": job.recipe.signals[:2]})
    return Job(recipe, job.parametrization, job.base, job.quick, {"optim.lr": rates}, purpose="tune")


def _beyond(tried: dict[float, float]) -> tuple[float, ...]:
    """Two rates beyond the best one where that is at an edge of those tried; otherwise none."""
    best = min(tried, key=tried.__getitem__)
    if best == min(tried):
        return _step(best, -2), _step(best, -1)
    return (_step(best, 1), _step(best, 2)) if best == max(tried) else ()


def _step(rate: float, half_decades: int) -> float:
    """A rate some half decades away, rounded so that a grid that is widened meets itself."""
    return float(f"{rate * 10 ** (half_decades / 2):.2g}")


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None
