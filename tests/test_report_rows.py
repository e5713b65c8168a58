"""Rows: what a program reads of a report, from run folders made at different times."""

import json

import numpy as np
import pytest

from fabricate import job, run_folder
from rwf import report

KEYS = [  # the issue's
    *("case", "variant", "parametrization", "tuned", "metric"),
    *("n", "mean", "std", "median", "low", "high", "paper"),
    *("quick", "data", "rate", "run"),
]


def rows(*sources, metric="rel_l2"):
    return [row for row in report.rows_of(sources) if row.metric == metric]


def test_json_has_exactly_the_keys_of_the_issue(tmp_path):
    run = run_folder(tmp_path, job("plain"), [0.1, 0.2, 0.6])
    found = json.loads(report.rows_json([tmp_path]))
    assert all(list(row) == KEYS for row in found)
    assert {row["metric"] for row in found} == {"loss", "mse", "rel_l2", "weight_change"}
    (row,) = [row for row in found if row["metric"] == "rel_l2"]
    assert (row["case"], row["variant"], row["parametrization"]) == ("regression-1d", "none", "plain")
    assert (row["tuned"], row["quick"], row["n"], row["paper"]) == (False, False, 3, None)
    assert row["mean"] == pytest.approx(0.3)
    assert row["median"] == pytest.approx(0.2)
    assert row["std"] == pytest.approx(np.std([0.1, 0.2, 0.6], ddof=1))
    assert row["low"] < 0.3 < row["high"]
    assert (row["data"], row["rate"], row["run"]) == (run.environment["data"], 1000.0, str(run.folder))


def test_runs_of_one_experiment_are_parts_of_one_row(tmp_path):
    run_folder(tmp_path, job("plain", seeds=2), [0.1, 0.2])
    run_folder(tmp_path, job("plain", seeds=3, first_seed=2), [0.3, 0.4, 0.5], rate=500.0)
    (row,) = rows(tmp_path)
    assert (row.n, row.mean) == (5, pytest.approx(0.3))
    assert row.run.count("none-plain") == 2
    assert row.rate == pytest.approx(5 / (2 / 1000 + 3 / 500))  # all steps over all seconds


def test_a_seed_that_was_run_twice_counts_once(tmp_path):
    run_folder(tmp_path, job("plain", seeds=2), [0.1, 0.2], time=1)
    run_folder(tmp_path, job("plain", seeds=2, first_seed=1), [0.25, 0.3], time=2)
    (row,) = rows(tmp_path)
    assert (row.n, row.mean) == (3, pytest.approx((0.1 + 0.25 + 0.3) / 3))  # the newer seed 1


def test_a_folder_that_is_named_twice_counts_once(tmp_path):
    run = run_folder(tmp_path, job("plain"), 0.1)
    (row,) = rows(tmp_path, run.folder, run)
    assert (row.n, row.run) == (3, str(run.folder))


def test_a_full_run_beats_a_quick_one_with_more_seeds(tmp_path):
    run_folder(tmp_path, job("plain", seeds=5, quick=True), 0.5)
    (row,) = rows(tmp_path)
    assert (row.quick, row.n) == (True, 5)
    run_folder(tmp_path, job("plain", seeds=3), 0.1)
    (row,) = rows(tmp_path)
    assert (row.quick, row.n) == (False, 3)


@pytest.mark.parametrize(("seeds", "expected"), [((2, 3), 0.2), ((3, 2), 0.1), ((2, 2), 0.2)])
def test_then_the_larger_n_then_the_newest(tmp_path, seeds, expected):
    run_folder(tmp_path, job("plain", seeds=seeds[0]), 0.1, time=1)
    run_folder(tmp_path, job("plain", seeds=seeds[1], changes={"precision": "tf32x3"}), 0.2, time=2)
    (row,) = rows(tmp_path)
    assert row.mean == pytest.approx(expected)


def test_a_grid_gives_a_row_for_each_setting(tmp_path):
    grid = {"rwf.mean": (0.5, 2.0), "rwf.stddev": (0.01, 1.0)}
    made = job("rwf", seeds=2, grid=grid)
    run_folder(tmp_path, made, np.array(made.members()["rwf.mean"]) + made.members()["rwf.stddev"])
    found = {row.variant: row for row in rows(tmp_path)}
    assert list(found) == [
        "none+mean=0.5+stddev=0.01",
        "none+mean=0.5+stddev=1",
        "none+mean=2+stddev=0.01",
        "none+mean=2+stddev=1",
    ]
    assert all(row.n == 2 and row.mean == pytest.approx(eval_setting(name)) for name, row in found.items())


def eval_setting(variant):
    return sum(float(part.partition("=")[2]) for part in variant.split("+")[1:])


def test_a_grid_and_the_run_at_the_recipes_setting_stay_apart(tmp_path):
    run_folder(tmp_path, job("rwf"), 0.1)
    run_folder(tmp_path, job("rwf", seeds=4, grid={"rwf.mean": (1.0, 2.0)}), 0.2)
    assert [(row.variant, row.n) for row in rows(tmp_path)] == [
        ("none", 3),
        ("none+mean=1", 4),
        ("none+mean=2", 4),
    ]


def test_ablations_tuned_and_quick_runs_are_told_apart(tmp_path):
    run_folder(tmp_path, job("rwf"), 0.1)
    run_folder(tmp_path, job("rwf", changes={"rwf.trains": "nothing"}), 0.2)
    run_folder(tmp_path, job("rwf", changes={"optim.lr": 3e-3}, tuned=True), 0.3)
    run_folder(tmp_path, job("rwf", changes={"net.width": 64}), 0.4)
    found = {(row.variant, row.tuned): row.quick for row in rows(tmp_path)}
    assert found == {
        ("none", False): False,
        ("none", True): False,
        ("none+frozen", False): False,
        ("none+net.width=64", False): True,
    }


def test_a_run_that_tunes_the_rate_is_no_row(tmp_path):
    run_folder(tmp_path, job("rwf", seeds=1, grid={"optim.lr": (1e-3, 1e-2)}, purpose="tune"), 0.1)
    assert report.rows_of([tmp_path]) == []


def test_one_run_has_no_spread_and_no_interval(tmp_path):
    run_folder(tmp_path, job("plain", seeds=1), 0.1)
    (row,) = rows(tmp_path)
    assert (row.n, row.mean, row.median) == (1, pytest.approx(0.1), pytest.approx(0.1))
    assert (row.std, row.low, row.high) == (None, None, None)


def test_a_value_that_never_was_does_not_count_and_no_nan_reaches_json(tmp_path):
    run_folder(tmp_path, job("plain"), [0.1, np.nan, 0.3], diverged={1: 1})
    run_folder(tmp_path, job("aa"), np.nan, diverged={0: 1, 1: 1, 2: 1})
    text = report.rows_json([tmp_path])
    assert "NaN" not in text
    found = {row.parametrization: row for row in rows(tmp_path)}
    assert (found["plain"].n, found["plain"].mean) == (2, pytest.approx(0.2))
    assert (found["aa"].n, found["aa"].mean, found["aa"].low) == (0, None, None)


def test_the_order_is_the_papers(tmp_path):
    for name in ("rwf", "plain", "wn", "aa"):
        run_folder(tmp_path, job(name), 0.1)
        run_folder(tmp_path, job(name, changes={"optim.lr": 0.01}, tuned=True), 0.1)
    found = [(row.tuned, row.parametrization) for row in rows(tmp_path)]
    assert found == [(tuned, name) for tuned in (False, True) for name in ("plain", "aa", "wn", "rwf")]


def test_a_path_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no"):
        report.load([tmp_path / "nowhere"])


def test_a_curve_goes_on_at_the_last_good_state_of_a_member_that_diverged(tmp_path):
    run_folder(tmp_path, job("plain", seeds=1), 0.1, diverged={0: 50_001})
    (record,) = report.load([tmp_path])
    band = record.curves.band("rel_l2")
    assert band is not None
    assert len(band.step) == 12
    assert np.ptp(band.median[5:]) == 0
    assert band.median[4] > band.median[5]
