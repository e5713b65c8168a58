"""Computed tomography: what it trains on, and what it is judged by."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from skimage.metrics import structural_similarity

from rwf import train
from rwf.data import VARIABLE
from rwf.job import Job
from rwf.project import project
from rwf.registry import find_recipe, studies
from rwf.spec import with_values
from rwf.tasks.ct import Projections, Tomography

SIDE = 16
PICTURE = jax.random.uniform(jax.random.key(0), (SIDE, SIDE), minval=0.1, maxval=0.9)
TASK = Tomography(PICTURE, angles=4, interpolation="nearest", output="sigmoid", blocks=4)


def reader(picture):
    """A net that knows the picture by heart."""

    def net(x):
        index = jnp.round(x * SIDE).astype(int)
        value = picture[index[..., 0], index[..., 1]]
        return (jnp.log(value) - jnp.log1p(-value))[..., None]

    return net


@eqx.filter_jit
def compiled_loss(task, picture):
    return task.losses(reader(picture), None, jnp.int32(0))["half_mse"]


def loss(task, picture):
    return float(compiled_loss(task, picture))


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_the_loss_is_half_the_mean_square_error_of_the_projections(interpolation):
    task = Tomography(PICTURE, 4, interpolation, "sigmoid", 4)
    guess = jnp.clip(PICTURE[::-1] + 0.05, 0.1, 0.9)
    rays = project(PICTURE, 4, interpolation), project(guess, 4, interpolation)
    np.testing.assert_allclose(loss(task, guess), 0.5 * np.mean((np.subtract(*rays)) ** 2), rtol=1e-3)


def test_the_truth_has_no_loss():
    assert loss(TASK, PICTURE) < 1e-12


def test_what_no_ray_sees_costs_nothing():
    # two angles see the sums of rows and of columns, which this leaves alone
    two = Tomography(PICTURE, angles=2, interpolation="nearest", output="sigmoid", blocks=4)
    unseen = jnp.zeros((SIDE, SIDE)).at[4, 4].set(0.1).at[9, 9].set(0.1).at[4, 9].set(-0.1).at[9, 4].set(-0.1)
    assert loss(two, PICTURE + unseen) < 1e-12
    assert loss(TASK, PICTURE + unseen) > 1e-8


def test_psnr_and_ssim_are_those_of_the_whole_picture():
    guess = jnp.clip(PICTURE + 0.05, 0.1, 0.9)
    measured = jax.jit(lambda guess: TASK.metrics(reader(guess)))(guess)
    a, b = np.asarray(guess, np.float64), np.asarray(PICTURE, np.float64)
    np.testing.assert_allclose(measured["psnr"], -10 * np.log10(np.mean((a - b) ** 2)), rtol=1e-4)
    np.testing.assert_allclose(measured["ssim"], structural_similarity(a, b, data_range=1.0), atol=1e-4)


def test_rendering_in_blocks_changes_nothing():
    np.testing.assert_allclose(TASK.render(reader(PICTURE)), PICTURE, rtol=1e-5)


def test_pictures_are_members_of_one_program():
    found = find_recipe("ct/shepp/gaussian")
    changes = {
        "task.size": 16,
        "net.width": 8,
        "encoding.frequencies": 4,
        "steps": 20,
        "log_every": 10,
        "signals": (0, 1),
    }
    job = Job(with_values(found.recipe, changes), "rwf", found.recipe)
    task, shared = train.load_tasks(job)
    assert not shared
    assert task.picture.shape == (2, 16, 16)
    (*_, last) = train.chunks(job, task, shared, train.start(job))
    assert last.looks["psnr"].shape == (1, 2)
    assert np.isfinite(last.looks["ssim"]).all()


def test_the_papers_settings():
    shepp, brain = (find_recipe(f"ct/{name}/gaussian").recipe for name in ("shepp", "brain"))
    assert (shepp.task.angles, brain.task.angles) == (20, 40)
    assert shepp.task.size == brain.task.size == 512
    assert len(shepp.signals) == len(brain.signals) == 20
    assert shepp.encoding.scale == find_recipe("ct/shepp/positional").recipe.encoding.scale == 3
    assert {"ct/shepp", "ct/brain"} <= set(studies())
    assert len(find_recipe("ct/brain/siren").recipe.signals) == 4
    assert find_recipe("ct/shepp/siren").recipe.net.depth == shepp.net.depth


def test_data_say_what_they_are(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert Projections("shepp").describe() == "generated: Shepp–Logan phantoms; 20 projections"
    assert Projections("brain", angles=40).describe() == "stand-in: 20 generated heads, not MRI; 40 projections"


@pytest.mark.parametrize(
    ("pictures", "settings", "signal", "message"),
    [
        ("shepp", {"size": 100}, 0, "divide 512"),
        ("shepp", {"size": 0}, 0, "task.size must be even"),
        ("shepp", {"size": -64}, 0, "it is -64"),
        ("shepp", {"size": 64, "blocks": 7}, 0, "task.blocks must divide the 4,096 pixels"),
        ("shepp", {"blocks": 0}, 0, "task.blocks"),
        ("shepp", {}, -1, "got seed -1"),
        ("brain", {}, 20, "pictures 0 to 19; got 20"),
        ("brain", {}, -1, "got -1"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(pictures, settings, signal, message):
    with pytest.raises(ValueError, match=message):
        Projections(pictures, **settings).build(signal)


def test_there_are_more_phantoms_than_those_of_the_set():
    a, b = (Projections("shepp", size=64).build(signal).picture for signal in (0, 20))
    assert not np.array_equal(a, b)
