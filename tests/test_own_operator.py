"""The operator that is learnt from a person's own data: trained, saved, loaded, and called as a function."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from own_data import OFFSETS, doubles, own, own_job, write
from rwf import report
from rwf.cli import main
from rwf.job import _experiment, hash_in
from rwf.nets.blocks import fitting
from rwf.operators import Operator
from rwf.progress import Progress
from rwf.recipe import DeepONet, Identity
from rwf.registry import find_recipe, recipes
from rwf.run import run_job
from rwf.signals.scaling import Scaling
from rwf.tasks import own_operator
from rwf.tensors import read_tensors, write_tensors


def test_a_trained_operator_is_a_function_that_is_saved_loaded_and_folded(tmp_path):
    """Trained on a file that is read as it goes: a host call a step, within the engine's program."""
    path = write(tmp_path / "mine.npz", own())
    job = own_job(path, **{"task.memory": 0.0})
    folder = run_job(job, tmp_path / "runs", progress=Progress(quiet=True))
    operator, summary = Operator.from_run(folder), json.loads((folder / "summary.json").read_text())
    a, y, truth = own()["a"][18:], np.linspace(-2, 2, 5)[:, None], own()["u"][18:]
    value = operator(a, y)
    assert value.shape == (2, 5)
    # in the units of the data: the error that was recorded is that of these numbers
    error = np.linalg.norm(operator(a, own()["y"]) - truth, axis=1) / np.linalg.norm(truth, axis=1)
    np.testing.assert_allclose(error.mean(), summary["final"]["rel_l2"][0], rtol=1e-4)
    for changed in (operator, operator.fold()):
        changed.save(tmp_path / "operator.safetensors")
        loaded = Operator.load(tmp_path / "operator.safetensors")
        np.testing.assert_allclose(loaded(a, y), value, rtol=1e-5)
    assert loaded.parametrization == "plain"
    with pytest.raises(ValueError, match=r"points have shape \(5, 2\); expected \(points, 1\)"):
        operator(a, np.zeros((5, 2)))


def test_a_file_is_no_case_of_the_paper_whatever_it_is_called(tmp_path):
    """Two files of one name that run into one folder are two lines of a report, and neither has the paper's value."""
    folders = []
    for folder, factor in (("c1", 1), ("c2", 2)):
        (tmp_path / folder).mkdir()
        path = write(tmp_path / folder / "dr.npz", own(u=factor * own()["u"]))
        folders.append(run_job(own_job(path), tmp_path / "runs", progress=Progress(quiet=True)))
    assert find_recipe(str(path)).recipe.case not in {found.recipe.case for found in recipes().values()}
    rows = [row for row in json.loads(report.rows_json(report.load(folders))) if row["metric"] == "rel_l2"]
    assert [row["case"] for row in rows] == ["own/dr"] * 2
    assert all(row["paper"] is None for row in rows)
    assert len({row["data"] for row in rows}) == 2


def test_seeds_of_one_content_are_one_line_wherever_the_file_lay(tmp_path):
    """And what was run from one place is done when it is asked for from another."""
    (tmp_path / "copy").mkdir()
    paths = [write(tmp_path / name, own()) for name in ("mine.npz", "copy/mine.h5")]
    jobs = [own_job(path, first_seed=seed) for seed, path in enumerate(paths)]
    folders = [run_job(job, tmp_path / "runs", progress=Progress(quiet=True)) for job in jobs]
    rows = [row for row in json.loads(report.rows_json(report.load(folders))) if row["metric"] == "rel_l2"]
    assert [(row["case"], row["n"]) for row in rows] == [("own/mine", 2)]
    written = (folders[0] / "summary.json").stat().st_mtime_ns
    assert run_job(own_job(paths[1]), tmp_path / "runs", progress=Progress(quiet=True)) == folders[0]
    assert (folders[0] / "summary.json").stat().st_mtime_ns == written


def test_a_run_folder_of_before_the_path_was_left_out_of_its_hash_is_read(tmp_path):
    path = write(tmp_path / "mine.npz", own())
    folder = run_job(own_job(path), tmp_path / "runs", progress=Progress(quiet=True))
    value = Operator.from_run(folder)(own()["a"], own()["y"])
    info = json.loads((folder / "recipe.json").read_text())
    info["experiment"] = _experiment(info["recipe"], ("memory",), "rwf", info["tuned"], info["purpose"])
    info["hash"] = hash_in(info)
    (folder / "recipe.json").write_text(json.dumps(info))
    told = json.loads((folder / "environment.json").read_text()) | {"data": "mine.npz (12345678): own operator data"}
    (folder / "environment.json").write_text(json.dumps(told))
    path.unlink()
    notes = []
    (record,) = report.load([folder], notes.append)
    assert (record.case, record.data) == ("own/mine", "mine.npz (12345678): own operator data")
    assert len(notes) == 1
    assert "another version of rwf wrote it" in notes[0]
    np.testing.assert_array_equal(Operator.from_run(folder)(own()["a"], own()["y"]), value)


@pytest.mark.parametrize("name", OFFSETS)
def test_an_operator_reads_doubles_with_an_offset(tmp_path, name):
    arrays = doubles()
    predictions = []
    for file, content in (("one", arrays), ("other", arrays | OFFSETS[name](arrays))):
        job = own_job(write(tmp_path / f"{file}.npz", content))
        folder = run_job(job, tmp_path / "runs", progress=Progress(quiet=True))
        operator = Operator.from_run(folder)
        operator.save(tmp_path / "operator.safetensors")
        operator = Operator.load(tmp_path / "operator.safetensors")
        assert operator.scaling == job.recipe.task.build(0).scaling
        found = operator(content["a"], content["y"])
        assert isinstance(found, np.ndarray)
        predictions.append(found / np.sqrt(np.mean((content["u"] / content["u"].max()) ** 2)) / content["u"].max())
    np.testing.assert_allclose(*predictions, atol=1e-3)


def test_an_operator_of_jax_arrays_can_be_differentiated():
    operator = random_operator(Scaling(3.0, 5.0, (-2.0,), (4.0,), 100.0))
    a, y = jnp.asarray(own()["a"]), jnp.asarray(own()["y"])
    value, slope = jax.jvp(lambda y: operator(a, y), (y,), (jnp.ones_like(y),))
    np.testing.assert_allclose(value, operator(own()["a"], own()["y"]), rtol=1e-4, atol=1e-3)
    assert isinstance(value, jax.Array)
    assert np.abs(slope).max() > 0


def test_an_operator_is_compiled_as_the_function_that_it_is():
    operator, a, y = random_operator(Scaling.none(1)), jnp.asarray(own()["a"]), jnp.asarray(own()["y"])
    np.testing.assert_allclose(jax.jit(operator)(a, y), operator(a, y), rtol=1e-5, atol=1e-6)
    at_point = jax.vmap(jax.grad(lambda point: operator(a[:1], point[None])[0, 0]))(y)
    np.testing.assert_allclose(at_point, jax.jvp(lambda y: operator(a[:1], y), (y,), (y * 0 + 1,))[1].T, rtol=1e-4)


@pytest.mark.parametrize("arrays", [np, jnp])
def test_functions_and_points_of_no_real_numbers_are_refused(arrays):
    a, y = arrays.asarray(own()["a"]), arrays.asarray(own()["y"])
    with pytest.raises(ValueError, match=r"The functions hold complex64 of shape \(20, 3\); expected real numbers"):
        random_operator(Scaling.none(1))(a.astype(np.complex64), y)
    with pytest.raises(ValueError, match=r"The points hold complex64 of shape \(6, 1\); expected real numbers"):
        random_operator(Scaling.none(1))(a, y.astype(np.complex64))


@pytest.mark.parametrize("name", ["functions", "points"])
def test_what_lies_behind_a_mask_is_not_read(name):
    given = {"functions": own()["a"], "points": own()["y"]}
    operator, given[name] = random_operator(Scaling.none(1)), np.ma.masked_array(given[name], mask=False)
    assert np.isfinite(operator(*given.values())).all()
    given[name][1] = np.ma.masked
    with pytest.raises(ValueError, match=f"The {name} are masked in places. Leave those out, or fill them in"):
        operator(*given.values())


def test_jax_numbers_of_every_width_are_read():
    a, y = jnp.round(jnp.asarray(own()["a"])), jnp.asarray(own()["y"])
    value = random_operator(Scaling.none(1))(a, y)
    for kind in (jnp.bfloat16, jnp.float16, jnp.int8):
        np.testing.assert_array_equal(random_operator(Scaling.none(1))(a.astype(kind), y), value)


def random_operator(scaling):
    spec, key = DeepONet(depth=1, width=8, activation="tanh", sensors=(3,)), jax.random.key(0)
    return Operator(spec.build(Identity().build(1, key=key), 1, key=key), Identity(), spec, 1, scaling)


def test_an_operator_needs_its_run_folder_alone(tmp_path, capsys):
    """The file may be gone; a folder of before the scaling was kept asks for the file."""
    path = write(tmp_path / "mine.npz", own())
    folder = run_job(own_job(path), tmp_path / "runs", progress=Progress(quiet=True))
    a, y = own()["a"], own()["y"]
    path.rename(tmp_path / "moved.npz")
    own_operator._build.cache_clear()
    value = Operator.from_run(folder)(a, y)
    assert main(["report", str(folder), "--out", str(tmp_path / "report.html")]) == 0
    assert f"not drawn: the test functions of {folder}: There is no file {path}" in capsys.readouterr().err
    summary = json.loads((folder / "summary.json").read_text())
    del summary["operator"], summary["net"]
    (folder / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(ValueError, match=r"There is no file .*mine\.npz"):
        Operator.from_run(folder)
    (tmp_path / "moved.npz").rename(path)
    np.testing.assert_allclose(Operator.from_run(folder)(a, y), value, rtol=1e-5)
    with pytest.raises(ValueError, match="has the members 0 to 0; got 9"):
        Operator.from_run(folder, member=9)


def test_an_operator_that_was_saved_with_arrays_of_scales_is_read(tmp_path):
    path, scaling = tmp_path / "operator.safetensors", Scaling(3.0, 5.0, (-2.0,), (4.0,), 100.0)
    operator = random_operator(scaling)
    operator.save(path)
    named, metadata = read_tensors(path)
    about = json.loads(metadata["operator"])
    del about["scaling"]
    old = {f"scaling.{k}": np.atleast_1d(np.float32(v)) for k, v in dataclasses.asdict(scaling).items()}
    write_tensors(path, named | old, metadata | {"operator": json.dumps(about)})
    assert Operator.load(path).scaling == scaling


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        random_operator(Scaling.none(1)).save(tmp_path / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_one_function_without_its_axis_is_refused():
    with pytest.raises(ValueError, match=r"functions have shape \(3,\); expected \(functions, 3\). One function is a"):
        random_operator(Scaling.none(1))(own()["a"][0], own()["y"])


def test_points_without_the_axis_of_their_coordinate_are_refused():
    with pytest.raises(ValueError, match=r"points have shape \(6,\); .* One coordinate is y\[:, None\]"):
        random_operator(Scaling.none(1))(own()["a"], own()["y"][:, 0])


def test_an_operator_of_no_functions_gives_none():
    assert random_operator(Scaling.none(1))(own()["a"][:0], own()["y"]).shape == (0, 6)


@pytest.mark.parametrize("each", [False, True])
def test_an_operator_is_computed_some_functions_at_a_time(monkeypatch, each):
    operator, a, y = random_operator(Scaling.none(1)), own()["a"][:19], own()["y"]
    y = np.linspace(0, 1, 19, dtype=np.float32)[:, None, None] * y if each else y
    whole = operator.net(jnp.asarray(a), jnp.asarray(y))
    largest = []
    monkeypatch.setattr("rwf.nets.blocks._VALUES", 20)
    monkeypatch.setattr(type(operator.net), "features", seen(type(operator.net).features, largest))
    np.testing.assert_allclose(operator(a, y), whole, rtol=1e-5, atol=1e-6)
    assert max(largest) == fitting((3,), (19, 6)) == 3


def seen(function, sizes):
    return lambda self, a: sizes.append(len(a)) or function(self, a)
