"""The tuned rate: what is tried, what counts, and when the grid is widened."""

import numpy as np
import pytest

from fabricate import ENVIRONMENT, job
from rwf import tune
from rwf.record import append_metrics, write_job, write_result

LOOKS = 20


def probe(root, made, final, *, spike=None, diverged=()):
    """The folder of a few rates, each with losses that fall to `final(rate)`; one rate jumps at the last look."""
    rates, folder = made.members()["optim.lr"], root / made.folder
    loss = np.array([final(rate) for rate in rates]) * np.linspace(2, 1, LOOKS)[:, None]
    loss[-1] *= np.where(np.array(rates) == spike, 100, 1)
    steps = made.recipe.steps // LOOKS * np.arange(1, LOOKS + 1)
    write_job(folder, made, ENVIRONMENT)
    lines = zip(steps.tolist(), loss.tolist(), strict=True)
    append_metrics(folder, [{"step": s, "seconds": 1.0, "alive": [True] * len(rates), "loss": v} for s, v in lines])
    lost = [7 if rate in diverged else None for rate in rates]
    ends = {"loss": loss[-1].tolist(), "rel_l2": [10 * rate for rate in rates]}
    summary = {"steps": made.recipe.steps, "members": len(rates), "rate": 1.0, "final": ends}
    write_result(folder, {}, summary | {"diverged": lost, "tuning": None, "compile_seconds": 0.0, "train_seconds": 1.0})
    return folder


def best_at(rate):
    return lambda tried: 10 ** abs(np.log10(tried / rate))


def tuned(root, final, **how):
    """What is chosen, and the rates of each probe, where training is replaced by what is known of it."""
    asked, made = [], job("plain", changes={"optim.lr": 1e-3})

    def run(found):
        assert (found.purpose, found.recipe.seeds) == ("tune", 1)
        asked.append(found.grid["optim.lr"])
        return probe(root, found, final, **how)

    chosen, found = tune.tuned_job(made, run)
    assert (chosen.tuned, chosen.recipe.optim.lr) == (True, found["chosen"])
    return found, asked


def test_the_rate_of_the_lowest_loss_is_taken(tmp_path):
    found, asked = tuned(tmp_path, best_at(3.2e-3))
    assert (found["chosen"], found["at_edge"]) == (3.2e-3, False)
    assert asked == [(1e-4, 3.2e-4, 1e-3, 3.2e-3, 1e-2)]


def test_what_each_rate_led_to_is_kept(tmp_path):
    ends = tuned(tmp_path, best_at(1e-1))[0]["final"]
    assert list(ends) == ["0.0001", "0.00032", "0.001", "0.0032", "0.01", "0.032", "0.1", "0.32", "1"]
    assert ends["0.032"]["rel_l2"] == pytest.approx(0.32)


def test_a_spike_at_the_end_decides_nothing(tmp_path):
    assert tuned(tmp_path, best_at(3.2e-3), spike=3.2e-3)[0]["chosen"] == 3.2e-3


def test_a_rate_that_lost_a_member_is_not_taken(tmp_path):
    found, _ = tuned(tmp_path, best_at(3.2e-3), diverged=(3.2e-3, 1e-2))
    assert found["chosen"] == 1e-3
    assert found["losses"]["0.0032"] is None


@pytest.mark.parametrize(("best", "widened"), [(1e-1, (3.2e-2, 1e-1)), (1e-5, (1e-5, 3.2e-5))])
def test_a_winner_at_the_edge_widens_the_grid(tmp_path, best, widened):
    found, asked = tuned(tmp_path, best_at(best))
    assert found["chosen"] == best
    assert asked[1] == widened


def test_an_edge_that_stays_one_is_said(tmp_path):
    found, asked = tuned(tmp_path, best_at(1e3))
    assert found["at_edge"]
    assert len(asked) == 1 + tune.WIDENINGS
