"""Seeds that ended far behind the others are told beside the table."""

import numpy as np
import pytest

from fabricate import job, run_folder
from rwf import report
from rwf.report.outliers import log_error, outlier_notes, outlying


@pytest.mark.parametrize(
    ("errors", "far"),
    [
        ([0.10, 0.11, 0.5], [2]),
        ([0.10, 0.11, 0.29], []),  # less than three times the median
        ([0.10, 0.11, 0.01], []),  # ahead, not behind
        ([0.10, 0.11], []),  # who of two?
        ([0.1, 0.2, 0.4, 0.8, 1.6], []),  # a spread, no outlier
        ([0.1, 0.1, 0.1, 0.1, 0.9, 0.7], [4, 5]),
        ([0.0, 0.0, 0.1], [2]),
        ([], []),
    ],
)
def test_far_behind_is_three_times_the_error_and_five_deviations(errors, far):
    logs = np.array([log_error("rel_l2", error) for error in errors])
    assert np.flatnonzero(outlying(logs)).tolist() == far


def test_errors_behind_other_metrics():
    assert log_error("psnr", 20.0) - log_error("psnr", 30.0) == pytest.approx(np.log(10))  # ten times the mean square
    assert log_error("iou", 0.98) - log_error("iou", 0.99) == pytest.approx(np.log(2))


def test_a_seed_that_failed_is_told_beside_the_table(tmp_path):
    run_folder(tmp_path / "runs", job("plain", seeds=4), [0.1, 0.11, 0.12, 0.13])
    run_folder(tmp_path / "runs", job("rwf", seeds=4), [0.1, 0.11, 0.9, 0.1])
    said = "RWF, none: 1 of 4 ended far behind the other seeds, relative L² error 0.9 (the median is 0.105)."
    records = report.load([tmp_path / "runs"])
    assert outlier_notes(records) == [said]
    assert said in report.markdown(records)
    (path,) = report.save_results(records, tmp_path / "results")
    assert outlier_notes(report.load([path])) == [said]


def test_trainings_that_learnt_nothing_are_told_however_many_they_are(tmp_path):
    """Two of three, so that their median is a failure too; and one of three that is an outlier is told once."""
    run_folder(tmp_path, job("rwf", seeds=3), [0.027, 1.19, 1.2])
    run_folder(tmp_path, job("plain", seeds=3), [0.027, 0.028, 1.19])
    assert outlier_notes(report.load([tmp_path])) == [
        "Plain, none: 1 of 3 ended no nearer than zero would be, relative L² error 1.19.",
        "RWF, none: 2 of 3 ended no nearer than zero would be, relative L² error 1.19, 1.2.",
    ]


def test_signals_are_not_compared_with_each_other(tmp_path):
    """Three pictures of which one is hard are no failure; three seeds of one picture of which one is behind are."""
    made = job("rwf", seeds=3, changes={"signals": (0, 1)})
    errors = {0: [0.7, 0.8, 0.9], 1: [0.01, 0.011, 0.2]}
    members = made.members()
    finals = [errors[signal][seed] for seed, signal in zip(members["seed"], members["signal"], strict=True)]
    run_folder(tmp_path, made, finals)
    (note,) = outlier_notes(report.load([tmp_path]))
    assert "1 of 6 ended far behind" in note
    assert "0.2 (the median is 0.011)" in note
