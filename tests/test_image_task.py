"""Image regression: what it trains on, and what it is judged by."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rwf import train
from rwf.job import Job
from rwf.registry import find_recipe
from rwf.spec import with_values
from rwf.tasks.image import ImageRegression, ImageSet
from rwf.tasks.pixels import pixel_grid

TASK = ImageRegression(jax.random.uniform(jax.random.key(0), (8, 8, 3)), output="sigmoid", blocks=4)


def logit(p):
    return jnp.log(p) - jnp.log1p(-p)


def reader(image):
    """A net that knows the image by heart."""

    def net(x):
        index = jnp.round(x * jnp.array([8, 8])).astype(int)
        return logit(image[index[..., 0], index[..., 1]])

    return net


@jax.jit
def metrics(image):
    return TASK.metrics(reader(image))


def test_coordinates_are_in_zero_to_one_and_the_end_is_left_out():
    grid = pixel_grid(4, 8)
    assert grid.shape == (4, 8, 2)
    np.testing.assert_allclose(grid[:, 0, 0], [0, 0.25, 0.5, 0.75])
    np.testing.assert_allclose(grid[0, :, 1], np.arange(8) / 8)


def test_only_every_second_pixel_is_trained_on():
    spoilt = np.array(TASK.image)
    spoilt[1::2], spoilt[:, 1::2] = 0.5, 0.5
    loss = jax.jit(lambda image: TASK.losses(reader(image), None, jnp.int32(0))["half_mse"])(spoilt)
    assert float(loss) < 1e-12
    assert float(metrics(spoilt)["psnr"]) < 20


def test_psnr_is_that_of_the_whole_image_and_of_the_unseen_pixels():
    wrong = np.clip(TASK.image, 0.2, 0.8)
    measured = metrics(wrong)
    error = (np.asarray(wrong) - np.asarray(TASK.image)) ** 2
    np.testing.assert_allclose(measured["psnr"], -10 * np.log10(error.mean()), rtol=1e-4)
    np.testing.assert_allclose(measured["psnr_unseen"], -10 * np.log10(error[1::2, 1::2].mean()), rtol=1e-4)


def test_the_loss_is_half_the_mean_square_error():
    flat = jax.jit(lambda: TASK.losses(lambda x: jnp.zeros((*x.shape[:-1], 3)), None, jnp.int32(0))["half_mse"])()
    seen = np.asarray(TASK.image)[::2, ::2]
    np.testing.assert_allclose(flat, 0.5 * np.mean((seen - 0.5) ** 2), rtol=1e-5)


def test_rendering_in_blocks_changes_nothing():
    net = reader(TASK.image)
    blocks, whole = jax.jit(lambda: (TASK.render(net), jax.nn.sigmoid(net(pixel_grid(8, 8)))))()
    np.testing.assert_allclose(blocks, whole, rtol=1e-6)


def test_images_are_members_of_one_program():
    found = find_recipe("image/text/gaussian")
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
    assert task.image.shape == (2, 16, 16, 3)
    (*_, last) = train.chunks(job, task, shared, train.start(job))
    assert last.looks["psnr"].shape == (1, 2)
    assert np.isfinite(last.looks["psnr_unseen"]).all()


def test_a_size_that_does_not_divide_is_refused():
    with pytest.raises(ValueError, match="divide 512"):
        ImageSet("text", size=100).build(0)


@pytest.mark.parametrize("images", ["natural", "text"])
def test_the_quick_setting_has_frequencies_that_its_training_pixels_can_tell(images):
    """With those of the whole picture a quick net fits the pixels that it sees, and guesses between them."""
    positional, gaussian = (find_recipe(f"image/{images}/{name}").with_quick() for name in ("positional", "gaussian"))
    highest = positional.task.size / 2 / 2  # cycles a picture, two of the training pixels each
    assert 2**positional.encoding.scale <= highest
    assert 2 * gaussian.encoding.scale <= highest
