"""Learning a shape: the task, the surface that comes out, and how it is measured and drawn."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rwf.cli import main
from rwf.job import Job
from rwf.pictures import Pictured
from rwf.progress import Progress
from rwf.record import read_run
from rwf.registry import find_recipe
from rwf.report import load
from rwf.report.figures.shape import surfaces
from rwf.run import run_job
from rwf.signals.meshes import edges, mesh_of, read_mesh
from rwf.signals.pool import box_of, corners
from rwf.spec import with_values
from rwf.surface import (
    Samples,
    Surface,
    distance,
    marching_cubes,
    portrait,
    render,
    sample_surface,
    view,
    write_surface,
)
from rwf.tasks.shape import MeshOccupancy, Occupancy
from test_meshes import CUBE, FACES, OBJ
from test_occupancy import ball, cache

__all__ = ["cache"]  # a fixture

SPEC = MeshOccupancy("knot")


class Ball(eqx.Module):
    """A net that knows a ball by heart."""

    radius: jax.Array

    def __call__(self, x):
        return 10 * (self.radius - jnp.linalg.norm(x - 0.5, axis=-1, keepdims=True))


def task():
    mesh = ball()
    rng = np.random.default_rng(0)
    near = rng.uniform(size=(4, 512, 3)).astype(np.float32)
    truth = sample_surface(mesh.triangles, 1 << 13, rng)
    picture = portrait(mesh.triangles, *corners(box_of(mesh)), truth.points, 32)
    return Occupancy(
        bits=jnp.asarray(rng.integers(0, 256, 4096 // 8, dtype=np.uint8)),
        box=jnp.asarray(box_of(mesh)),
        near=jnp.asarray(near),
        inside=jnp.asarray(np.linalg.norm(near - 0.5, axis=-1) < 0.4),
        true_surface=jnp.asarray(np.stack([truth.points, truth.normals], axis=1), jnp.float32),
        spacing=jnp.asarray(truth.spacing, jnp.float32),
        picture=jnp.asarray(np.rint(255 * picture), jnp.uint8),
        size=1024,
        grid=48,
    )


TASK = task()
KEY = jax.random.key(0)


def test_every_point_of_the_pool_comes_once_before_any_comes_again():
    draw = eqx.filter_jit(TASK.batch)
    batches = [draw(KEY, jnp.int32(step)) for step in range(5)]
    x = np.concatenate([batch.points for batch in batches[:4]])
    assert len(np.unique(x, axis=0)) == 4096
    np.testing.assert_array_equal(batches[4].points, batches[0].points)
    bits = np.unpackbits(np.asarray(TASK.bits)).astype(bool)
    np.testing.assert_array_equal(np.concatenate([batch.inside for batch in batches[:4]]), bits)


def test_labels_of_batches_are_those_of_the_mesh(cache, tmp_path):
    pytest.importorskip("trimesh", reason="the extra `mesh` is not installed")
    (tmp_path / "cube.obj").write_text(OBJ.replace("v 2.0 2.0 2.0", "v 2.0 2.0 3.0"))
    spec = MeshOccupancy(str(tmp_path / "cube.obj"), pool=4096, batch=2048, near=1024, samples=64, pixels=16)
    batch = eqx.filter_jit(spec.build(0).batch)(KEY, jnp.int32(1))
    vertices = read_mesh(tmp_path / "cube.obj").vertices
    mean, largest = vertices.mean(axis=0), np.abs(vertices - vertices.mean(axis=0)).max()
    x = (np.asarray(batch.points) * 2 - 1) * largest + mean
    below = ((x > 0) & (x < 2)).all(axis=1)
    beyond = (x[:, 2] > 3) | (x[:, :2] < 0).any(axis=1) | (x[:, :2] > 2).any(axis=1)
    assert np.asarray(batch.inside)[below].all()
    assert not np.asarray(batch.inside)[beyond].any()
    assert spec.describe().startswith("cube.obj")


def test_the_loss_is_the_cross_entropy():
    batch = eqx.filter_jit(TASK.batch)(KEY, jnp.int32(0))
    net = Ball(jnp.array(0.3))
    p = np.asarray(jax.nn.sigmoid(net(batch.points)[:, 0]), np.float64)
    expected = -np.mean(np.where(batch.inside, np.log(p), np.log1p(-p)))
    found = eqx.filter_jit(TASK.losses)(net, batch, jnp.int32(0))
    np.testing.assert_allclose(found["cross_entropy"], expected, rtol=1e-5)


def test_iou_is_intersection_over_union():
    radius = np.linalg.norm(np.asarray(TASK.near) - 0.5, axis=-1)
    metrics = eqx.filter_jit(TASK.metrics)
    for guess in (0.4, 0.3, 0.5):
        expected = ((radius < 0.4) & (radius < guess)).sum() / ((radius < 0.4) | (radius < guess)).sum()
        np.testing.assert_allclose(metrics(Ball(jnp.array(guess)))["iou"], expected, rtol=1e-6)


def test_the_surface_is_compared_with_the_mesh_at_the_end():
    right, large = (TASK.conclude(Ball(jnp.array(radius))) for radius in (0.4, 0.42))
    assert float(right["chamfer"]) < 1e-3
    assert float(right["normal_consistency"]) > 0.99
    np.testing.assert_allclose(large["chamfer"], 0.02, rtol=0.06)


def test_a_net_without_a_surface_has_no_distance():
    nothing = TASK.conclude(Ball(jnp.array(-1.0)))
    assert np.isnan(nothing["chamfer"])
    assert np.isnan(nothing["normal_consistency"])


def test_marching_cubes_leave_nothing_open_whatever_the_values():
    values = np.random.default_rng(0).normal(size=(9, 10, 11))
    found = marching_cubes(values, np.zeros(3), np.ones(3))
    assert not edges(mesh_of("noise", found.vertices, found.faces)).open
    directed = found.faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    code, reverse = directed @ [10**6, 1], directed @ [1, 10**6]
    np.testing.assert_array_equal(np.sort(code), np.sort(reverse))  # neighbours are ordered alike


def test_marching_cubes_find_a_ball():
    a, b, c = np.moveaxis(ball(48).triangles - 0.5, 1, 0)
    normal = np.cross(b - a, c - a)
    np.testing.assert_allclose(np.linalg.norm(normal, axis=1).sum() / 2, 4 * np.pi * 0.16, rtol=0.005)
    np.testing.assert_allclose((a * normal).sum() / 6, 4 / 3 * np.pi * 0.064, rtol=0.01)  # positive: outward
    np.testing.assert_allclose(np.linalg.norm(a, axis=1), 0.4, atol=0.002)


@pytest.mark.filterwarnings("ignore:Setting the shape on a NumPy array:DeprecationWarning")  # inside scikit-image
def test_marching_cubes_agree_with_those_of_scikit_image():
    measure = pytest.importorskip("skimage.measure", reason="the extra `images` is not installed")
    x, y, z = np.meshgrid(*[np.linspace(-1, 1, 20)] * 3, indexing="ij")
    values = 0.5 - x**2 - 0.8 * y**2 - 1.5 * z**2 + 0.1 * np.sin(7 * x)
    ours = marching_cubes(values, np.zeros(3), np.full(3, 19.0)).vertices
    theirs = measure.marching_cubes(values, 0.0, method="lorensen")[0]
    ours, theirs = (np.unique(np.round(found, 3), axis=0) for found in (ours, theirs))
    np.testing.assert_allclose(ours, theirs, atol=2e-3)


def square(height, turned=0.0):
    corners = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], float)
    corners = corners @ np.array([[1, 0, 0], [0, np.cos(turned), np.sin(turned)], [0, 0, 1]]) + [0, 0, height]
    return corners[[[0, 1, 2], [0, 2, 3]]]


def test_distances_are_those_of_the_surfaces_and_not_of_their_samples():
    one, other, tilted = (
        sample_surface(square(h, turn), 4096, np.random.default_rng(i))
        for i, (h, turn) in enumerate(((0.0, 0.0), (1e-3, 0.0), (0.0, 0.5)))
    )
    assert one.spacing > 0.015  # ten times the distance that is measured
    found = distance(one, other)
    np.testing.assert_allclose(found.chamfer, 1e-3, rtol=0.1)
    np.testing.assert_allclose(found.normals, 1.0)
    np.testing.assert_allclose(distance(one, tilted).normals, np.cos(0.5), rtol=1e-3)
    far = Samples(one.points + np.array([5.0, 0.0, 0.0]), one.normals, one.spacing)
    np.testing.assert_allclose(distance(one, far).chamfer, 4.5, rtol=0.02)


def test_samples_are_even():
    triangles = np.concatenate([square(0.0), 3 * square(1.0)])
    x = sample_surface(triangles, 20_000, np.random.default_rng(0)).points
    np.testing.assert_allclose((x[:, 2] > 2).mean(), 0.9, atol=0.001)
    np.testing.assert_allclose(x[x[:, 2] > 2][:, :2].mean(axis=0), 1.5, atol=0.03)


def test_a_picture_shows_the_outline_and_the_front():
    box = {"low": np.zeros(3), "high": np.ones(3)}
    picture = render(ball().triangles, view(0.0, 0.0), size=64, finer=1, **box)
    assert picture.shape == (64, 64, 3)
    half = 1.02 / 2
    np.testing.assert_allclose((picture < 0.99).any(axis=-1).mean(), np.pi * 0.16 / (2 * half) ** 2, rtol=0.02)
    front = np.array([[[0.4, 0.4, 0.9], [0.6, 0.4, 0.9], [0.5, 0.6, 1.0]]])
    behind = render(np.concatenate([ball().triangles, front - [0, 0, 0.5]]), view(0.0, 0.0), size=64, finer=1, **box)
    np.testing.assert_array_equal(picture, behind)
    before = render(np.concatenate([ball().triangles, front]), view(0.0, 0.0), size=64, finer=1, **box)
    assert (before != picture).any()


def test_a_net_that_has_learnt_no_surface_is_a_white_picture():
    nothing = np.zeros((0, 3, 3))
    assert (portrait(nothing, np.zeros(3), np.ones(3), ball().vertices, size=16) == 1).all()


def test_views_are_right_handed_axes_with_y_up():
    axes = view(33.0, 12.0)
    np.testing.assert_allclose(axes @ axes.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(np.linalg.det(axes), 1)
    assert axes[1, 1] > 0.9


@pytest.mark.parametrize("suffix", [".ply", ".glb"])
def test_a_surface_is_written_to_a_file_and_read_again(suffix, tmp_path):
    pytest.importorskip("trimesh", reason="the extra `mesh` is not installed")
    path = write_surface(tmp_path / "new" / f"cube{suffix}", Surface(CUBE, FACES))
    mesh = read_mesh(path)
    np.testing.assert_allclose(np.sort(mesh.vertices, axis=0), np.sort(CUBE, axis=0))
    assert len(mesh.faces) == 12


def test_a_file_of_another_kind_is_refused(tmp_path):
    pytest.importorskip("trimesh", reason="the extra `mesh` is not installed")
    with pytest.raises(ValueError, match=r"cube\.txt ends in none"):
        write_surface(tmp_path / "cube.txt", Surface(CUBE, FACES))


@pytest.mark.parametrize("case", ["shape/dragon", "shape/armadillo"])
def test_features_have_norm_one_and_coordinates_go_to_minus_one(case):
    x = jax.random.uniform(jax.random.key(1), (5, 3))
    for variant, norm in (("positional", np.sqrt(255) / 16), ("gaussian", 1.0)):
        encode = find_recipe(f"{case}/{variant}").recipe.encoding.build(3, key=KEY)
        np.testing.assert_allclose(np.linalg.norm(encode(x), axis=-1), norm, rtol=1e-5)
    encode = find_recipe(f"{case}/none").recipe.encoding.build(3, key=KEY)
    np.testing.assert_allclose(encode(x), 2 * x - 1, atol=1e-7)


def test_no_point_is_seen_twice_and_a_quarter_million_are_for_the_test():
    for name in ("shape/dragon/gaussian", "shape/armadillo/none"):
        recipe = find_recipe(name).recipe
        assert recipe.task.pool == recipe.steps * recipe.task.batch
        assert (recipe.task.batch, recipe.task.near) == (8192, 2**18)
        assert recipe.task.remarks(recipe.steps) == []


def test_a_pool_whose_points_come_again_is_remarked_on():
    recipe = find_recipe("shape/dragon/gaussian-pool-16m").recipe
    (said,) = recipe.task.remarks(recipe.steps)
    assert "each comes 4.9 times" in said
    assert "--task.pool 81920000" in said


def _check_verb(folder, tmp_path, monkeypatch):
    """`rwf surface` of a run: its file, at the run's precision; what cannot be written is not computed."""
    words = ["surface", str(folder), "--resolution", "24", "--out", str(tmp_path / "ball.ply")]
    assert main(words) == 0
    assert not edges(read_mesh(tmp_path / "ball.ply")).words
    with monkeypatch.context() as patch:
        seen = []
        nothing = Surface(np.zeros((0, 3)), np.zeros((0, 3), int))
        found = lambda *_: (seen.append(jax.config.jax_default_matmul_precision), nothing)[1]  # noqa: E731
        patch.setattr(Occupancy, "surface", found)
        assert main(words) == 2  # no surface, no file
        assert seen == ["highest"]
        assert main([*words[:-1], str(tmp_path / "ball.xyz")]) == 2
        assert seen == ["highest"]


def test_a_run_learns_a_ball_measures_it_and_shows_it(cache, monkeypatch, tmp_path):
    monkeypatch.setattr("rwf.signals.shapes.SOLIDS", {"knot": ball})
    found = find_recipe("shape/dragon/gaussian")
    changes = {
        "task.pool": 4096,
        "task.batch": 1024,
        "task.near": 2048,
        "task.block": 1024,
        "task.grid": 24,
        "task.samples": 2048,
        "task.pixels": 16,
        "net.width": 16,
        "net.depth": 2,
        "encoding.of.frequencies": 16,
        "encoding.of.scale": 1.0,
        "encoding.factor": 0.25,
        "steps": 120,
        "log_every": 60,
        "optim.warmup_steps": 1,
        "optim.lr": 1e-2,
        "seeds": 2,
    }
    quick = Job(with_values(found.recipe, changes), "rwf", found.recipe, quick=changes)
    folder = run_job(quick, tmp_path, progress=Progress(quiet=True))
    run = read_run(folder)
    assert (run.curves["loss"][-1] < 0.2).all()
    assert max(run.summary["final"]["chamfer"]) < 0.05
    assert min(run.summary["final"]["normal_consistency"]) > 0.8
    _check_verb(folder, tmp_path, monkeypatch)
    (record,) = load([folder])
    drawing = surfaces([record])
    assert drawing is not None
    panels = [axes.get_title() for axes in drawing.figure.axes if axes.get_title()]
    assert panels == ["Truth", f"RWF, IoU {run.summary['final']['iou'][0]:.4f}"]
    (folder / "weights.safetensors").unlink()
    monkeypatch.setattr("rwf.tasks.shape.source", lambda mesh: "other data")
    drawing = surfaces(load([folder]))  # from the pictures that were kept, without the truth
    assert drawing is not None
    assert "not drawn" in drawing.caption


@pytest.mark.parametrize(
    "settings", [{"batch": 1000}, {"pool": 10_240}, {"batch": 0}, {"near": 3 << 10, "block": 2 << 10}]
)
def test_sizes_that_do_not_divide_are_refused(settings):
    with pytest.raises(ValueError, match=r"multiple of 1024|do not divide"):
        MeshOccupancy("knot", **settings)


@pytest.mark.parametrize(
    "settings", [{"block": 0}, {"near": 0}, {"samples": 0}, {"samples": -1}, {"pixels": 0}, {"grid": 1}, {"grid": -3}]
)
def test_settings_that_leave_nothing_are_refused_by_their_value(settings):
    ((name, value),) = settings.items()
    with pytest.raises(ValueError, match=rf"{name} {value}\b.* or more"):
        MeshOccupancy("knot", **settings)


def test_a_mesh_is_one_signal():
    with pytest.raises(ValueError, match="one signal"):
        SPEC.build(1)


def test_a_task_shows_what_a_net_has_learnt_beside_the_truth():
    assert isinstance(TASK, Pictured)
    right, small = (np.asarray(TASK.render(Ball(jnp.array(radius)), 32)) for radius in (0.4, 0.2))
    assert right.shape == TASK.truth.shape == (32, 64, 3)
    whole = slice(0, 32)
    assert np.abs(right - TASK.truth)[:, whole].mean() < 0.05
    assert (small[:, whole] < 0.99).sum() < 0.4 * (right[:, whole] < 0.99).sum()
