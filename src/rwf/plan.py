"""Which jobs a command means, and running them one after the other."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rwf.job import Job
from rwf.recipe import PARAMETRIZATIONS, Parametrization, Recipe
from rwf.registry import Found, find_recipe
from rwf.spec import with_values
from rwf.study import Study
from rwf.tune import tuned_job

RunJob = Callable[..., Path]


def comparison(
    found: Found,
    recipe: Recipe,
    parametrizations: Sequence[Parametrization],
    *,
    quick: bool = False,
    grid: Mapping[str, tuple[float, ...]] | None = None,
) -> list[Job]:
    """One recipe under several parametrizations; a grid of RWF's own settings is no grid of the others."""
    changed = found.quick if quick else {}
    return [Job(recipe, p, found.recipe, changed, _grid_of(p, grid or {})) for p in parametrizations]


def _grid_of(parametrization: Parametrization, grid: Mapping[str, tuple[float, ...]]) -> dict[str, tuple[float, ...]]:
    """The settings that a parametrization reads: the same net would be trained for every value of another."""
    return {path: values for path, values in grid.items() if parametrization == "rwf" or not path.startswith("rwf.")}


def study_jobs(study: Study, *, quick: bool, changes: Mapping[str, Any]) -> Iterator[tuple[Job, bool]]:
    """All jobs of a study, each with whether its learning rate is to be tuned first."""
    for name in study.recipes:
        found = find_recipe(name)
        recipe = with_values(found.at(quick=quick), changes)
        jobs = comparison(found, recipe, PARAMETRIZATIONS, quick=quick)
        rwf = next(job for job in jobs if job.parametrization == "rwf")
        yield from ((job, False) for job in jobs)
        for ablation in study.ablations:
            yield dataclasses.replace(rwf, recipe=with_values(recipe, ablation)), False
        if study.grid:
            seeds = 1 if quick else min(recipe.seeds, study.grid_seeds)
            yield dataclasses.replace(rwf, recipe=with_values(recipe, {"seeds": seeds}), grid=study.grid), False
        if name in study.tuned:
            yield from ((job, True) for job in jobs)
    for beside in study.beside:
        found = find_recipe(beside.recipe)
        recipe = with_values(found.at(quick=quick), changes)
        jobs = comparison(found, recipe, beside.parametrizations, quick=quick, grid=beside.grid_of(recipe))
        yield from ((job, False) for job in jobs)
        if beside.tuned and not quick:
            yield from ((job, True) for job in jobs)


def execute(jobs: Iterable[tuple[Job, bool]], run: RunJob) -> list[Path]:
    """Runs jobs, tuning first where that is asked; returns all run folders, those of the tuning included."""
    folders: list[Path] = []

    def remember(job: Job, **options: Any) -> Path:
        folders.append(run(job, **options))
        return folders[-1]

    for job, tune in jobs:
        if tune:
            winner, tuning = tuned_job(job, remember)
            remember(winner, tuning=tuning)
        else:
            remember(job)
    return folders
