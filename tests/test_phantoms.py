"""Phantoms and heads: the same for a seed, in [0, 1], and like what they stand for."""

import numpy as np
import pytest
from skimage.data import shepp_logan_phantom

from rwf.data import VARIABLE
from rwf.signals.brain import brain_slice, brain_source, generated_head
from rwf.signals.phantoms import shepp_logan


def test_the_phantom_is_shepp_and_logans():
    # scikit-image has it as a picture of 400 pixels with smoothed edges
    ours, theirs = shepp_logan(seed=None, size=400), shepp_logan_phantom()
    assert np.mean(np.abs(ours - theirs) > 0.05) < 0.02
    assert np.corrcoef(ours.ravel(), theirs.ravel())[0, 1] > 0.95


@pytest.mark.parametrize("make", [shepp_logan, generated_head])
def test_a_seed_is_one_picture_and_another_seed_another(make):
    one = make(seed=1, size=64)
    np.testing.assert_array_equal(one, make(seed=1, size=64))
    assert np.abs(one - make(seed=2, size=64)).mean() > 0.01
    assert one.dtype == np.float32
    assert one.min() == 0
    assert one.max() <= 1


def test_phantoms_are_the_same_in_every_release():
    first = shepp_logan(seed=0, size=32)
    np.testing.assert_allclose([first.sum(), first[16, 16], first[10, 20]], [166.95085, 0.092068, 0.271487], atol=1e-4)


def test_without_spread_every_phantom_is_the_phantom():
    np.testing.assert_array_equal(shepp_logan(seed=5, size=64, spread=0.0), shepp_logan(seed=None, size=64))


@pytest.mark.parametrize("make", [shepp_logan, generated_head])
@pytest.mark.parametrize(("seed", "size"), [(-1, 64), (0, 1)])
def test_what_is_no_picture_is_refused(make, seed, size):
    with pytest.raises(ValueError, match=f"got seed {seed} and size {size}"):
        make(seed=seed, size=size)


def test_slices_come_from_the_file(tmp_path, monkeypatch):
    slices = np.zeros((20, 512, 512), np.uint8)
    slices[7, 3, 4] = 51
    np.savez_compressed(tmp_path / "brain.npz", slices=slices)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    np.testing.assert_allclose(brain_slice(7)[3, 4], 0.2)
    assert brain_slice(8).max() == 0
    assert brain_source().startswith("stand-in: brain.npz (")  # these are none
    assert "ATLAS" in brain_source()


def test_a_file_of_other_slices_is_refused(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "brain.npz", slices=np.zeros((2, 8, 8), np.uint8))
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(ValueError, match=r"brain\.npz holds 'slices' of shape \(2, 8, 8\).*\(20, 512, 512\) uint8"):
        brain_slice(0)


def test_without_the_file_heads_are_generated_and_said_to_be(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    np.testing.assert_array_equal(brain_slice(3), generated_head(seed=3))
    assert brain_source().startswith("stand-in: ")
    with pytest.raises(ValueError, match="slices 0 to 19; got 20"):
        brain_slice(20)
