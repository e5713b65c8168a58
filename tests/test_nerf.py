"""Inverse rendering: what it trains on, what it is judged by, and the pictures and films made of it."""

import stat
from dataclasses import replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rwf.cli import main
from rwf.encode import Gaussian
from rwf.job import Job
from rwf.nets import MLP
from rwf.nets.half import halved
from rwf.pictures import FILE, read_pictures
from rwf.progress import Progress
from rwf.record import read_run
from rwf.render import Camera, orbit
from rwf.report import turntable as films
from rwf.report.figures import nerf as figures
from rwf.report.source import load
from rwf.run import run_job
from rwf.signals.procedural_scene import radiance
from rwf.spec import to_json, with_values
from rwf.tasks.nerf import RECIPES, RadianceField, SceneViews, on_black

Image = pytest.importorskip("PIL.Image", reason="films are written by Pillow: pip install 'rwf[images]'")

TINY = {
    "task.size": 10,
    "task.rays": 16,
    "task.samples": 8,
    "task.block": 100,
    "net.width": 8,
    "net.depth": 1,
    "encoding.frequencies": 4,
    "steps": 4,
    "log_every": 2,
    "seeds": 2,
}
SETTINGS = SceneViews(rays=64, samples=4, block=10, coordinates="world")


@pytest.fixture(autouse=True)
def no_data(monkeypatch):
    """The stand-in is what all of this runs on."""
    monkeypatch.delenv("RWF_DATA", raising=False)


def numbered(settings=SETTINGS):
    """A task whose pixels say their view, row and column; two views to train on, five to test on."""
    view, row, column = np.meshgrid(np.arange(8), np.arange(9), np.arange(11), indexing="ij")
    images = np.stack([20 * view, 20 * row, 20 * column, np.full_like(view, 255)], axis=-1).astype(np.uint8)
    poses = orbit(8, radius=4.0, elevation=30.0)
    return RadianceField(jnp.asarray(images), jnp.asarray(poses), Camera(9, 11, 12.0), (2, 3), settings)


class Known:
    """A net that knows a field by heart, and the world coordinates."""

    def __init__(self, field):
        self.field = field

    def encode(self, x):
        return 2 * jnp.pi * x

    def decode(self, points):
        colour, density = self.field(points)
        colour = jnp.clip(colour, 1e-4, 1 - 1e-4)
        return jnp.concatenate([jnp.log(colour) - jnp.log1p(-colour), density[:, None]], axis=-1)


class Tinted(eqx.Module):
    """A net that darkens a picture."""

    tint: jax.Array

    def decode(self, picture):
        return self.tint * picture


def tiny_job(parametrization="rwf", **changes):
    recipe = RECIPES["nerf/lego"]
    return Job(with_values(recipe, TINY | changes), parametrization, recipe, quick=TINY | changes)


@pytest.fixture(scope="module")
def stand_in():
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RWF_DATA", raising=False)
        return tiny_job().recipe.task.build(0)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run folder of a tiny training."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RWF_DATA", raising=False)
        return read_run(run_job(tiny_job(), tmp_path_factory.mktemp("runs"), progress=Progress(quiet=True)))


# What is trained on


def test_each_ray_of_a_batch_has_the_colour_of_its_own_pixel_in_a_training_view():
    task = numbered()
    batch = eqx.filter_jit(task.batch)(jax.random.key(0), jnp.int32(0))
    view, row, column = np.rint(np.asarray(batch.colour) * 255 / 20).astype(int).T
    assert set(view) == {0, 1}
    assert set(row) == set(range(9))
    assert set(column) == set(range(11))
    poses = np.asarray(task.poses)[view]
    np.testing.assert_allclose(batch.rays.origins, poses[:, :3, 3])
    in_camera = np.einsum("rij,ri->rj", poses[:, :3, :3], np.asarray(batch.rays.directions))
    x, y = (12 * in_camera[:, i] / -in_camera[:, 2] for i in (0, 1))
    np.testing.assert_allclose(x, column + 0.5 - 11 / 2, atol=1e-3)
    np.testing.assert_allclose(y, 9 / 2 - row - 0.5, atol=1e-3)


def test_a_batch_is_drawn_from_its_key():
    task = numbered()
    draw = eqx.filter_jit(task.batch)
    first, again, other = (draw(jax.random.key(seed), jnp.int32(0)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.t, again.t)
    assert not np.array_equal(first.t, other.t)
    assert not np.array_equal(first.colour, other.colour)
    assert len(np.unique(np.asarray(first.t)[:, 0])) > 60  # stratified: each ray has its own distances


def test_transparent_pixels_are_black():
    pixels = jnp.array([[200, 100, 50, 255], [200, 100, 50, 0], [255, 255, 255, 51]], jnp.uint8)
    expected = np.array([[200, 100, 50], [0, 0, 0], [51, 51, 51]]) / 255
    np.testing.assert_allclose(on_black(pixels), expected, atol=1e-6)


@pytest.mark.parametrize("pieces", [1, 4])
def test_the_loss_is_the_mean_square_error_of_colours_however_it_is_cut(pieces):
    task = numbered(replace(SETTINGS, pieces=pieces))
    empty = Known(lambda x: (0.5 * jnp.ones_like(x), jnp.zeros(x.shape[0])))  # nothing to be seen: black
    batch = eqx.filter_jit(task.batch)(jax.random.key(0), jnp.int32(0))
    loss = jax.jit(lambda: task.losses(empty, batch, jnp.int32(0))["mse"])()
    np.testing.assert_allclose(loss, np.mean(np.asarray(batch.colour) ** 2), rtol=1e-5)


def test_colours_go_through_a_sigmoid_and_densities_through_relu():
    net = Known(lambda x: (0.25 * jnp.ones_like(x), x[:, 0]))
    colour, density = numbered().field(net)(jnp.array([[-1.0, 0, 0], [2.0, 0, 0]]))
    np.testing.assert_allclose(colour, 0.25, rtol=1e-5)
    np.testing.assert_allclose(density, [0, 2], atol=1e-6)


def test_a_net_in_float16_has_nearly_the_same_loss_and_gradient():
    task = numbered(replace(SETTINGS, pieces=2))
    encode = Gaussian.create(3, frequencies=8, scale=10.0, key=jax.random.key(0))
    net = MLP.create(encode, 4, depth=2, width=16, activation=jax.nn.relu, key=jax.random.key(1))
    batch = eqx.filter_jit(task.batch)(jax.random.key(2), jnp.int32(0))

    def loss(weight, half):
        changed = eqx.tree_at(lambda net: net.layers[1].weight, net, weight)
        return task.losses(halved(changed) if half else changed, batch, jnp.int32(0))["mse"]

    for full, half in zip(
        *(jax.value_and_grad(loss)(net.layers[1].weight, half) for half in (False, True)), strict=True
    ):
        assert np.linalg.norm(full - half) < 0.05 * np.linalg.norm(full)


# The two readings of the paper's scale


def features(settings, points):
    """What the first layer reads of some points."""
    seen = []
    encode = Gaussian.create(3, frequencies=5, scale=10.0, key=jax.random.key(0))

    class Net:
        def encode(self, x):
            return encode(x)

        def decode(self, features):
            seen.append(features)
            return jnp.zeros((len(features), 4))

    numbered(settings).field(Net())(points)
    return np.asarray(seen[0]), np.asarray(encode.frequencies.value)


def test_in_world_coordinates_a_feature_is_a_cosine_without_two_pi():
    points = jnp.array([[0.3, -1.2, 0.7], [0.0, 0.0, 0.0]])
    found, b = features(SETTINGS, points)
    np.testing.assert_allclose(found[:, :5], np.cos(np.asarray(points) @ b), atol=1e-4)


def test_unit_coordinates_are_those_of_the_cube():
    corners = jnp.array([[-1.5, -1.5, -1.5], [1.5, 0.0, -0.75]])
    found, b = features(replace(SETTINGS, coordinates="unit", half_side=1.5), corners)
    unit = np.array([[0, 0, 0], [1, 0.5, 0.25]])
    np.testing.assert_allclose(found[:, 5:], np.sin(2 * np.pi * unit @ b), atol=1e-3)


@pytest.mark.parametrize("density", ["relu", "softplus"])
def test_a_density_of_softplus_learns_where_relu_is_zero(density):
    class Constant(NamedTuple):
        value: jax.Array

        def encode(self, x):
            return x

        def decode(self, features):
            return jnp.full((len(features), 4), self.value)

    def found(value):
        return numbered(replace(SETTINGS, density=density)).field(Constant(value))(jnp.zeros((1, 3)))[1][0]

    above, below = jnp.float32(0.5), jnp.float32(-2.0)
    expected = {
        "relu": (0.5, 0.0, 0.0),
        "softplus": (np.log1p(np.exp(-0.5)), np.log1p(np.exp(-3.0)), 1 / (1 + np.e**3)),
    }
    np.testing.assert_allclose([found(above), found(below), jax.grad(found)(below)], expected[density], rtol=1e-5)


def test_runs_from_before_the_choice_of_a_density_keep_their_names():
    assert "density" not in to_json(SETTINGS)
    assert to_json(replace(SETTINGS, density="softplus"))["density"] == "softplus"


# What is measured


def test_a_net_that_knows_the_scene_is_near_the_truth_on_every_test_view(stand_in):
    settings = SceneViews(samples=128, block=100, coordinates="world")
    task = RadianceField(stand_in.images, stand_in.poses, stand_in.camera, stand_in.split, settings)
    assert len(task.test_views) == 13
    conclude = jax.jit(lambda shift: task.conclude(Known(lambda x: radiance(x + shift))))
    measured, shifted = conclude(0.0), conclude(0.2)
    assert set(measured) == {"psnr", "ssim"}
    assert float(measured["psnr"]) > 24  # with half the samples of the truth, at edges one pixel wide
    assert float(measured["ssim"]) > 0.9
    assert float(shifted["psnr"]) < float(measured["psnr"]) - 5


def test_during_training_two_of_the_test_views_are_looked_at():
    task = numbered()
    black = Known(lambda x: (0.5 * jnp.ones_like(x), jnp.zeros(x.shape[0])))
    measured = jax.jit(lambda: task.metrics(black))()
    truth = np.asarray(on_black(task.images))
    expected = np.mean([-10 * np.log10(np.mean(truth[view] ** 2)) for view in (3, 5)])
    assert set(measured) == {"psnr_two_views", "ssim_two_views"}
    np.testing.assert_allclose(measured["psnr_two_views"], expected, rtol=1e-4)


def test_what_is_measured_at_the_end_is_compiled_once_for_all_seeds(stand_in, monkeypatch):
    traced = []
    monkeypatch.setattr(RadianceField, "view", lambda self, net, pose: traced.append(pose) or net.decode(self.truth))
    values = [stand_in.conclude(Tinted(jnp.array(tint))) for tint in (0.5, 0.25)]
    assert len(traced) == 1
    assert values[0]["psnr"] != values[1]["psnr"]


def test_seeds_are_members_of_one_program(run):
    curves = run.curves
    assert curves["step"].tolist() == [2, 4]
    assert curves["psnr_two_views"].shape == (2, 2)
    assert np.isfinite(curves["loss"]).all()
    assert len(np.unique(curves["loss"])) == 4


# Settings


def test_a_stand_in_says_that_it_is_one():
    assert RECIPES["nerf/lego"].task.describe().startswith("stand-in: a procedural scene")
    assert SceneViews("procedural").describe().startswith("generated: a procedural scene")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"near": 6.0}, "near < far"),
        ({"far": float("nan")}, "near < far"),
        ({"samples": 0}, "samples 0"),
        ({"pieces": 5}, "pieces must divide rays"),
        ({"half_side": 0.0}, "half_side 0"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        SceneViews(**settings)


def test_rays_that_miss_what_the_cameras_look_at_are_remarked():
    assert SceneViews("procedural", size=8).remarks(100) == []
    (remark,) = SceneViews("procedural", size=8, near=5.0).remarks(100)
    assert "look at a place 4 away, and rays are sampled from 5 to 6: give --task.near and --task.far" in remark


# Pictures and films


def test_a_report_shows_the_truth_the_predictions_and_their_errors(run):
    from rwf.report.figures import figures_for, png, style

    (record,) = load([run])
    with style():
        drawing = figures.views([record])
    assert drawing is not None
    titles = [axes.get_title() for axes in drawing.figure.axes]
    assert titles[0] == "Truth"
    assert titles[1].startswith("RWF, ")
    shown = [image.get_array().shape for axes in drawing.figure.axes for image in axes.get_images()]
    assert shown.count((10, 10, 3)) == 2
    assert (10, 10) in shown
    assert png(drawing.figure).startswith(b"\x89PNG")
    training = [d for d in figures_for("nerf/lego", [record]) if d.title == "Training"]
    panels = [axes.get_title() for axes in training[0].figure.axes]
    assert panels.count("Training loss") == 1
    assert "PSNR of two test views (dB)" in panels


def test_without_the_data_only_kept_pictures_are_shown(run):
    (record,) = load([run])
    elsewhere = replace(record, data="lego.npz: not on this machine")
    drawing = figures.views([elsewhere])
    assert drawing is not None
    assert "has not the data" in drawing.caption
    assert [axes.get_title() for axes in drawing.figure.axes if axes.get_title()] == ["RWF"]


def test_without_kept_pictures_they_are_rendered_from_the_weights(run):
    (record,) = load([run])
    kept, aside = run.folder / FILE, run.folder / "aside"
    before = read_pictures(run)[0]
    kept.rename(aside)
    try:
        drawing = figures.views([record])
        assert figures.views([replace(record, data="lego.npz: not on this machine")]) is None
    finally:
        aside.rename(kept)
    assert drawing is not None
    np.testing.assert_allclose(drawing.figure.axes[1].get_images()[0].get_array(), before / 255, atol=0.003)


def test_a_view_is_drawn_smaller_on_a_cpu_where_it_would_take_minutes():
    assert figures._height_on_cpu(400, 400, 128) == 100
    assert figures._height_on_cpu(40, 40, 128) == 40


def test_a_turntable_is_a_gif_with_a_frame_for_each_pose(run, tmp_path, capsys):
    out = tmp_path / "film.gif"
    words = [str(run.folder), "--out", str(out), "--frames", "3", "--height", "12"]
    assert main(["turntable", *words]) == 0
    assert "film.gif" in capsys.readouterr().out
    with Image.open(out) as film:
        assert (film.n_frames, film.size) == (3, (12, 12))
        assert film.info["loop"] == 0


def test_a_turntable_turns_around_what_it_shows(run):
    pictures = films.turntable(run, frames=4, height=8)
    assert pictures.shape == (4, 8, 8, 3)
    assert len(np.unique(pictures.reshape(4, -1), axis=0)) == 4


def test_an_mp4_is_made_by_ffmpeg_of_frames_with_even_sides(tmp_path, monkeypatch):
    program = tmp_path / "ffmpeg"
    program.write_text('#!/bin/sh\nfor last; do :; done\n{ echo "$@"; cat; } > "$last"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr("shutil.which", lambda name: str(program))
    path = films.write_film(np.full((2, 9, 11, 3), 65, np.uint8), tmp_path / "film.mp4")
    command, _, content = path.read_bytes().partition(b"\n")
    assert b"-s 10x8 " in command
    assert content == b"A" * (2 * 8 * 10 * 3)
    program.write_text("#!/bin/sh\ncat > /dev/null\necho no codec >&2\nexit 1\n")
    with pytest.raises(RuntimeError, match="ffmpeg failed: no codec"):
        films.write_film(np.zeros((2, 8, 8, 3), np.uint8), tmp_path / "film.mp4")


def test_films_that_cannot_be_made_are_refused(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("shutil.which", lambda name: None)
    pictures = np.zeros((2, 8, 8, 3), np.uint8)
    with pytest.raises(ValueError, match=r"ffmpeg, which is not installed. Write a \.gif"):
        films.write_film(pictures, tmp_path / "film.mp4")
    with pytest.raises(ValueError, match=r"\.gif or an \.mp4"):
        films.write_film(pictures, tmp_path / "film.avi")
    with pytest.raises(ValueError, match="got 0 frames"):
        films.turntable(run, frames=0)
    with pytest.raises(ValueError, match="members 0 to 1; got 7"):
        films.turntable(run, member=7)
    monkeypatch.setattr(films, "turntable", lambda *_, **__: pytest.fail("rendered what cannot be written"))
    for name, why in (("film.mp4", "ffmpeg"), ("film.avi", "got film.avi")):
        assert main(["turntable", str(run.folder), "--out", str(tmp_path / name)]) == 2
        assert why in capsys.readouterr().err
    assert main(["turntable", str(tmp_path)]) == 2
    assert "holds 0 complete runs" in capsys.readouterr().err
