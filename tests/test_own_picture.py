"""A person's own picture: any shape is fitted, told apart by its pixels, and comes back at any size."""

import jax
import numpy as np
import pytest

from rwf import report
from rwf.cli import main
from rwf.recipe import Gaussian, Identity
from rwf.registry import find_recipe
from rwf.signals.images import reduced
from rwf.spec import with_values
from rwf.tasks.image import ImageRegression

Image = pytest.importorskip("PIL.Image", reason="reading pictures needs pillow (pip install 'rwf[images]')")
_SHORT = ["--quick", "--steps", "4", "--log-every", "2", "--optim.warmup-steps", "1", "--quiet"]
_SHORT += ["--net.width", "8", "--net.depth", "2"]


@pytest.fixture
def picture(tmp_path, monkeypatch):
    """A file of odd sides in a folder of its own, which the command line is in."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (15, 21, 3), dtype=np.uint8)).save("mine.PNG")
    return tmp_path / "mine.PNG"


def test_a_recipe_is_made_for_it(picture):
    recipe = find_recipe("mine.PNG").recipe
    assert (recipe.case, recipe.variant) == ("own/mine", f"gaussian-{recipe.task.content[:4]}")
    assert recipe.task.build(0).image.shape == (15, 21, 3)
    assert recipe.task.describe() == f"mine.PNG ({recipe.task.content[:8]}): own picture"


def test_what_is_saved_otherwise_is_the_same_picture_and_a_pixel_makes_another(picture):
    before = find_recipe("mine.PNG").recipe.task.content
    with Image.open(picture) as opened:
        pixels = np.asarray(opened).copy()
    Image.fromarray(pixels).save("mine.bmp")
    assert find_recipe("mine.bmp").recipe.task.content == before
    pixels[3, 4, 0] ^= 1
    Image.fromarray(pixels).save("mine.bmp")
    assert find_recipe("mine.bmp").recipe.task.content != before


def test_a_picture_that_was_changed_is_refused(picture):
    task = find_recipe("mine.PNG").recipe.task
    Image.fromarray(np.zeros((15, 21, 3), np.uint8)).save(picture)
    with pytest.raises(ValueError, match=r"its pixels have changed\. Start again with `rwf run"):
        task.build(0)


@pytest.mark.parametrize(("shape", "side", "expected"), [((40, 60), 30, (20, 30)), ((60, 40), 30, (30, 20))])
def test_a_large_one_is_reduced_and_keeps_its_shape(shape, side, expected):
    pytest.importorskip("skimage")
    flat = np.full((*shape, 3), 0.25, np.float32)
    found = reduced(flat, side)
    assert (found.shape, found.dtype) == ((*expected, 3), np.float32)
    np.testing.assert_allclose(found, 0.25, atol=1e-6)
    assert reduced(flat, 60) is flat


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task.side": 4}, "has 3 × 4 pixels here; 4 or more"),
        ({"task.every": 15}, "leaves no more than a line"),
        ({"task.every": 0}, "task.every must be 1 or more"),
    ],
)
def test_what_cannot_be_trained_on_is_refused(picture, changes, message):
    recipe = find_recipe("mine.PNG").recipe
    with pytest.raises(ValueError, match=message):
        with_values(recipe, changes).task.build(0)


def test_a_picture_is_one_signal(picture):
    with pytest.raises(ValueError, match="one signal, number 0; number 1"):
        find_recipe("mine.PNG").recipe.task.build(1)


def test_all_pixels_or_every_second():
    image = jax.random.uniform(jax.random.key(0), (5, 7, 3))

    def net(x):
        return x @ jax.numpy.ones((2, 3))

    some, all_of_them = (ImageRegression(image, output="linear", blocks=4, every=n) for n in (2, 1))
    assert (len(some.seen_pixels), len(all_of_them.seen_pixels)) == (3 * 4, 5 * 7)
    assert set(some.metrics(net)) == {"psnr", "psnr_unseen"}
    assert set(all_of_them.metrics(net)) == {"psnr"}
    assert all_of_them.losses(net, None, jax.numpy.array(0))["half_mse"].shape == ()


def test_all_pixels_that_are_not_trained_on_are_unseen_where_few_are():
    image = jax.random.uniform(jax.random.key(0), (10, 13, 3))
    task = ImageRegression(image, output="linear", blocks=4, every=4)
    found = jax.jit(lambda: task.metrics(lambda x: jax.numpy.zeros((len(x), 3))))()
    unseen = np.ones((10, 13), bool)
    unseen[::4, ::4] = False
    expected = -10 * np.log10(np.mean(np.asarray(image)[unseen] ** 2))
    np.testing.assert_allclose(found["psnr_unseen"], expected, rtol=1e-5)


def test_features_that_the_trained_pixels_cannot_tell_are_remarked(tmp_path):
    for shape, name in (((30, 60), "small.png"), ((90, 60), "large.png")):
        Image.fromarray(np.full((*shape, 3), 200, np.uint8)).save(tmp_path / name)
    small, large = (find_recipe(str(tmp_path / name)).recipe for name in ("small.png", "large.png"))
    (remark,) = small.task.remarks(10, small.net, Gaussian(scale=5.0))
    assert remark.startswith("15 × 30 pixels are trained on, too few for features of scale 5")
    assert remark.endswith("Use --encoding.scale 1.5 or --task.every 1")
    assert small.task.remarks(10, small.net, Gaussian(scale=1.5)) == []
    assert small.task.remarks(10, small.net, Identity()) == large.task.remarks(10, large.net, Gaussian(scale=5.0)) == []


def test_a_picture_of_12_bits_in_16_is_remarked(tmp_path):
    Image.fromarray(np.full((64, 64), 4095, np.uint16)).save(tmp_path / "dark.png")
    (remark,) = find_recipe(str(tmp_path / "dark.png")).recipe.task.remarks(10)
    assert "nothing is brighter than 0.062 of white" in remark


def test_a_larger_picture_has_the_smaller_one_in_it():
    task = ImageRegression(jax.numpy.zeros((5, 7, 3)), output="linear", blocks=4)

    def net(x):
        return jax.numpy.stack([x[:, 0], x[:, 1], x[:, 0] * x[:, 1]], axis=-1)

    once, thrice = task.render(net), task.render(net, scale=3)
    assert (once.shape, thrice.shape) == ((5, 7, 3), (15, 21, 3))
    np.testing.assert_allclose(thrice[::3, ::3], once, atol=1e-6)


def test_from_a_picture_to_a_report_and_back_to_a_picture(picture, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    assert main(["run", "mine.PNG", *_SHORT, "--parametrization", "plain", "rwf"]) == 0
    assert "own picture" in capsys.readouterr().out
    assert _drawings(tmp_path / "runs")[0].title == "Pictures"
    assert main(["picture", "runs", "--out", "a.png"]) == 2
    assert "2 complete runs" in capsys.readouterr().err
    (run,) = (tmp_path / "runs" / "own" / "mine").glob("*-rwf-*")
    assert main(["picture", str(run), "--out", "a.png", "--scale", "2"]) == 0
    with Image.open("a.png") as written:
        assert written.size == (42, 30)
    assert main(["picture", str(run), "--out", "a.what"]) == 2
    assert "Use .png" in capsys.readouterr().err

    picture.rename(tmp_path / "moved.png")  # what was learnt is still drawn
    caption = _drawings(tmp_path / "runs")[0].caption
    assert "Truth and errors are not drawn" in caption
    assert main(["run", "mine.PNG", *_SHORT]) == 2
    assert "There is no picture mine.PNG" in capsys.readouterr().err


def test_a_run_is_known_by_the_pixels_wherever_the_file_lies(picture, tmp_path, capsys):
    words = ["--parametrization", "plain", "--out", str(tmp_path / "runs"), "--no-report"]
    assert main(["run", "mine.PNG", *_SHORT, *words]) == 0
    (tmp_path / "albums").mkdir()
    picture.rename(tmp_path / "albums" / "mine.PNG")
    capsys.readouterr()
    loud = [word for word in _SHORT if word != "--quiet"]
    assert main(["run", "albums/mine.PNG", *loud, *words]) == 0
    assert "done before" in capsys.readouterr().err


def test_a_run_of_something_else_is_no_picture(tmp_path, capsys):
    words = ["run", "regression-1d", "--quick", "--steps", "100", "--seeds", "1", "--quiet", "--no-report"]
    assert main([*words, "--parametrization", "plain", "--out", str(tmp_path)]) == 0
    assert main(["picture", str(tmp_path)]) == 2
    assert "regression-1d, which is no picture" in capsys.readouterr().err


def _drawings(runs):
    from rwf.report.drawn import drawings

    return drawings("own/mine", report.load([runs]))
