"""Studies: what `rwf reproduce` runs, and how its controls stand in tables and comparisons."""

import math

import pytest

from fabricate import job, run_folder
from rwf import report
from rwf.job import Job
from rwf.plan import comparison, study_jobs
from rwf.registry import find_recipe, recipes, studies
from rwf.spec import with_values
from rwf.study import Beside


@pytest.mark.parametrize("case", sorted(studies()))
def test_every_study_names_recipes_that_exist_and_runs_quick_too(case):
    study = studies()[case]
    for quick in (False, True):
        jobs = [job for job, _ in study_jobs(study, quick=quick, changes={})]
        assert {job.recipe.case for job in jobs} == {case} or case not in {r.recipe.case for r in recipes().values()}
        assert all(job.is_full != quick for job in jobs)


@pytest.mark.parametrize(("quick", "rows"), [(False, ["plain", "aa", "wn", "rwf"]), (True, [])])
def test_the_other_targets_of_the_regression_are_tuned_in_full_runs(quick, rows):
    jobs = study_jobs(studies()["regression-1d"], quick=quick, changes={})
    assert [job.parametrization for job, tuned in jobs if tuned and job.variant == "other-targets"] == rows


def test_the_faster_control_takes_the_rate_of_the_recipe_that_is_run():
    recipe = find_recipe("regression-1d").recipe
    slower = with_values(recipe, {"optim.lr": 1e-4})
    assert Beside(recipe.name, faster=True).grid_of(recipe) == {"optim.lr": (pytest.approx(1e-3 * math.e, rel=1e-2),)}
    assert Beside(recipe.name, faster=True).grid_of(slower) == {"optim.lr": (pytest.approx(1e-4 * math.e, rel=1e-2),)}


def test_the_faster_control_is_a_line_of_the_table_and_is_compared(tmp_path):
    run_folder(tmp_path, job("plain"), [0.3, 0.31, 0.32])
    run_folder(tmp_path, job("rwf"), [0.1, 0.11, 0.12])
    run_folder(tmp_path, job("plain", grid={"optim.lr": (0.00272,)}), [0.2, 0.21, 0.22])
    records = report.load([tmp_path])
    assert "| none | 0.00272 |" in report.markdown(records)
    assert any("Plain (rate 0.00272)" in sentence for sentence in report.sentences(records))
    assert "What was swept" not in report.markdown(records)


def test_a_grid_of_rwfs_own_settings_is_no_grid_of_the_others():
    found, grid = find_recipe("regression-1d"), {"rwf.mean": (0.0, 1.0), "optim.lr": (1e-3, 1e-2)}
    plain, rwf = comparison(found, found.recipe, ("plain", "rwf"), grid=grid)
    assert (set(plain.grid), set(rwf.grid)) == ({"optim.lr"}, {"rwf.mean", "optim.lr"})
    assert [len(job.members()["seed"]) for job in (plain, rwf)] == [2 * found.recipe.seeds, 4 * found.recipe.seeds]


def test_settings_of_memory_alone_do_not_make_another_run():
    recipe = find_recipe("image/natural/gaussian").recipe
    ours, theirs = (Job(with_values(recipe, {"task.blocks": n}), "plain", recipe) for n in (16, 64))
    assert (theirs.variant, theirs.is_full, theirs.hash) == ("gaussian", True, ours.hash)


def test_a_more_exact_run_is_a_full_one_of_its_own_name():
    recipe = find_recipe("image/natural/gaussian").recipe
    exact, coarse = (Job(with_values(recipe, {"precision": name}), "plain", recipe) for name in ("float32", "bfloat16"))
    assert (exact.is_full, exact.variant) == (True, "gaussian+precision=float32")
    assert not coarse.is_full
