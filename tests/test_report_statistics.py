"""Statistics: intervals against known values, paired comparisons, and verdicts that may go either way."""

import numpy as np
import pytest
from scipy import stats

from fabricate import job, run_folder
from rwf import report
from rwf.report.statistics import (
    crossed_interval,
    interval_of_mean,
    summarize,
    t_interval,
    verdict,
)


def seeds(values):
    return {(seed, 0): float(value) for seed, value in enumerate(values)}


def test_t_interval_is_students():
    values = np.random.default_rng(0).normal(3.0, 2.0, 7)
    expected = stats.t.interval(0.95, 6, loc=values.mean(), scale=stats.sem(values))
    assert t_interval(values) == pytest.approx(expected)
    # The textbook: 9 degrees of freedom, t = 2.262.
    known = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0])
    assert t_interval(known) == pytest.approx((5.5 - 2.2622 * 0.957427, 5.5 + 2.2622 * 0.957427), abs=1e-4)


@pytest.mark.parametrize(("draw", "least"), [("normal", 0.94), ("exponential", 0.87)])
@pytest.mark.parametrize("n", [3, 6, 8, 10, 16])
def test_intervals_of_differences_cover_the_mean(n, draw, least):
    """Nineteen times of twenty where values are normal; a percentile bootstrap of eight does so 88 % of the time."""
    rng = np.random.default_rng(0)
    values = getattr(rng, draw)(size=(4_000, n))
    intervals = [interval_of_mean(seeds(row))[0] for row in values]
    mean = {"normal": 0.0, "exponential": 1.0}[draw]
    assert least < np.mean([found is not None and found[0] < mean < found[1] for found in intervals]) < 0.96


def test_no_values_and_one_value():
    assert summarize({}).mean is None
    assert summarize(seeds([1.0])).low is None
    assert interval_of_mean(seeds([1.0])) == (None, "t")


def crossed(seed_spread, signal_spread, rng, shape=(3, 16)):
    """A table whose true mean is 0: an effect of each seed, of each signal, and noise."""
    effects = rng.normal(0, seed_spread, (shape[0], 1)) + rng.normal(0, signal_spread, (1, shape[1]))
    return effects + rng.normal(0, 1, shape)


@pytest.mark.parametrize("spreads", [(0.0, 0.0), (1.0, 0.0), (0.0, 2.0), (1.0, 1.0)])
def test_intervals_over_seeds_and_signals_cover_the_mean(spreads):
    """Where values share seeds, an interval that takes them for independent misses the mean most of the time."""
    rng = np.random.default_rng(0)
    tables = [crossed(*spreads, rng) for _ in range(1_000)]
    covered = np.mean([low < 0 < high for low, high in map(crossed_interval, tables)])
    assert 0.93 < covered < 1.0
    if spreads[0]:
        naive = np.mean([low < 0 < high for low, high in (t_interval(table.ravel()) for table in tables)])
        assert naive < 0.6


def test_several_seeds_of_several_signals_are_crossed():
    table = crossed(1.0, 1.0, np.random.default_rng(1))
    sample = {(seed, signal): value for (seed, signal), value in np.ndenumerate(table)}
    assert interval_of_mean(sample) == (crossed_interval(table), "seeds and signals")
    found = summarize(sample)
    assert (found.low, found.high) == crossed_interval(table)
    assert (found.n, found.mean) == (48, pytest.approx(table.mean()))
    sample.pop((2, 3))  # uneven: the means of the 16 signals
    means = [np.mean([sample[pair] for pair in sample if pair[1] == signal]) for signal in range(16)]
    assert interval_of_mean(sample) == (t_interval(np.array(means)), "t")


@pytest.mark.parametrize(
    ("interval", "higher", "expected"),
    [
        ((0.1, 0.2), True, "better"),
        ((0.1, 0.2), False, "worse"),
        ((-0.2, -0.1), False, "better"),
        ((-0.2, -0.1), True, "worse"),
        ((-0.1, 0.2), True, "not distinguishable at this n"),
        ((0.0, 0.2), True, "not distinguishable at this n"),
        (None, True, "not distinguishable at this n"),
    ],
)
def test_verdict(interval, higher, expected):
    assert verdict(interval, higher=higher) == expected


def compared(tmp_path):
    return {(c.one, c.other): c for c in report.compare_all([tmp_path])}


def rwf_against_plain(tmp_path):
    (found,) = report.compare_all([tmp_path])
    assert (found.one.parametrization, found.other.parametrization) == ("rwf", "plain")
    return found


@pytest.mark.parametrize("n", [4, 8])
def test_what_a_seed_does_to_both_sides_cancels(tmp_path, n):
    seeds = np.random.default_rng(0).uniform(0.1, 0.9, n)  # far more than the difference below
    run_folder(tmp_path, job("plain", seeds=n), seeds)
    run_folder(tmp_path, job("rwf", seeds=n), seeds - 0.01 + np.linspace(-1e-3, 1e-3, n))
    found = rwf_against_plain(tmp_path)
    assert found.verdict == "better"
    assert found.low is not None
    assert found.high is not None
    assert -0.012 < found.low < found.difference < found.high < -0.008


def test_only_shared_seeds_are_compared(tmp_path):
    run_folder(tmp_path, job("plain", seeds=4), [0.1, 0.2, 0.3, 0.4])
    run_folder(tmp_path, job("rwf", seeds=4, first_seed=2), [0.2, 0.3, 9.0, 9.0])
    found = rwf_against_plain(tmp_path)
    assert (found.n, found.difference) == (2, pytest.approx(-0.1))
    assert (found.one_mean, found.other_mean) == (pytest.approx(0.25), pytest.approx(0.35))
    assert found.ratio == pytest.approx(0.25 / 0.35)


def test_it_can_be_said_that_rwf_loses_or_ties(tmp_path):
    noise = np.random.default_rng(0).normal(0, 1e-3, (3, 8))
    noise -= noise.mean(axis=1, keepdims=True) - [[0], [0], [1e-5]]
    run_folder(tmp_path, job("rwf", seeds=8), 0.034 + noise[0])
    run_folder(tmp_path, job("plain", seeds=8), 0.54 + noise[1])
    run_folder(tmp_path, job("plain", seeds=8, changes={"optim.lr": 0.01}, tuned=True), 0.014 + noise[1])
    run_folder(tmp_path, job("rwf", seeds=8, changes={"rwf.trains": "nothing"}), 0.034 + noise[2])
    sentences = report.sentences([tmp_path])
    assert len(sentences) == 3
    assert sentences[0].startswith("RWF is better than Plain: rel_l2 0.034 against 0.54 (difference -0.506, ")
    assert sentences[0].endswith("n = 8).")
    assert sentences[1].startswith("RWF is worse than Plain (tuned rate): rel_l2 0.034 against 0.014")
    assert sentences[2].startswith("RWF+frozen is not distinguishable from RWF at this n:")


def test_means_are_told_to_the_digit_that_differs(tmp_path):
    run_folder(tmp_path, job("rwf"), [0.54180, 0.54182, 0.54181])
    run_folder(tmp_path, job("plain"), [0.54310, 0.54312, 0.54313])
    (sentence,) = report.sentences([tmp_path])
    assert "rel_l2 0.5418 against 0.5431 (difference -0.00131," in sentence


def test_one_pair_says_nothing(tmp_path):
    run_folder(tmp_path, job("plain", seeds=1), 0.5)
    run_folder(tmp_path, job("rwf", seeds=1), 0.1)
    found = rwf_against_plain(tmp_path)
    assert found.verdict == "not distinguishable at this n"
    assert "no interval from one pair" in found.sentence()


def test_quick_is_not_compared_with_full_nor_other_data(tmp_path):
    run_folder(tmp_path, job("rwf"), 0.1)
    run_folder(tmp_path, job("plain", quick=True), 0.5)
    run_folder(tmp_path, job("aa"), 0.5, environment={"data": "something else"})
    assert report.compare_all([tmp_path]) == []


def test_tuned_is_compared_with_tuned_and_grids_with_nothing(tmp_path):
    for name in ("plain", "aa", "rwf"):
        run_folder(tmp_path, job(name, changes={"optim.lr": 0.01}, tuned=True), 0.1)
    run_folder(tmp_path, job("rwf", grid={"rwf.mean": (1.0, 2.0)}), 0.2)
    pairs = [(one.tuned, other.parametrization, other.tuned) for one, other in compared(tmp_path)]
    assert pairs == [(True, "plain", True), (True, "aa", True)]
