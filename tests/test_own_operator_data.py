"""A person's own operator data: files, how they are read and scaled, and the operator that is learnt from them."""

import dataclasses
import hashlib
import io
import json
import zipfile

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rwf import report
from rwf.job import Job
from rwf.nets.blocks import fitting
from rwf.operators import Operator
from rwf.progress import Progress
from rwf.recipe import DeepONet, Identity
from rwf.registry import find_recipe, recipes
from rwf.run import run_job
from rwf.signals import operator_data
from rwf.signals.scaling import Scaling
from rwf.spec import with_values
from rwf.tasks import own_operator
from rwf.tasks.own_operator import OwnOperator
from rwf.tensors import read_tensors, write_tensors


def own(**changes):
    """A file's arrays: u(y) = a . (1, y, y^2), which a net can learn."""
    rng = np.random.default_rng(0)
    a, y = rng.normal(3.0, 5.0, size=(20, 3)), rng.uniform(-2, 2, size=(6, 1))
    arrays = {"a": a, "y": y, "u": 100 * a @ np.stack([y[:, 0] ** k for k in range(3)])}
    arrays = {name: array.astype(np.float32) for name, array in arrays.items()} | changes
    return {name: array for name, array in arrays.items() if array is not None}


def write(path, arrays, *, compressed=False):
    if path.suffix == ".npz":
        (np.savez_compressed if compressed else np.savez)(path, **arrays)
        return path
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name] = array
    return path


def own_job(path, **settings):
    found = find_recipe(str(path))
    changes = {"net.depth": 1, "net.width": 8, "steps": 20, "log_every": 10, "seeds": 1, "task.functions": 4}
    return Job(with_values(found.recipe, {**changes, **settings}), "rwf", found.recipe)


@eqx.filter_jit
def _batch(made, key):
    return made.batch(key, jnp.int32(0))


def test_a_recipe_is_made_for_the_sensors_of_a_file(tmp_path):
    recipe = find_recipe(str(write(tmp_path / "mine.npz", own()))).recipe
    assert (recipe.case, recipe.net.sensors, recipe.net.branch) == ("own/mine", (3,), "mlp")
    grid = own(a=np.random.default_rng(0).normal(size=(20, 16, 16)))
    recipe = find_recipe(str(write(tmp_path / "grid.npz", grid))).recipe
    assert (recipe.net.sensors, recipe.net.branch) == ((16, 16), "cnn")


@pytest.mark.parametrize(("each", "points"), [(False, 0), (True, 4)])
def test_a_file_that_is_streamed_gives_the_batches_of_one_in_memory(tmp_path, each, points):
    arrays = own()
    if each:
        arrays["y"] = np.tile(arrays["y"], (20, 1, 1))
    for path in (write(tmp_path / "mine.npz", arrays), write(tmp_path / "mine.h5", arrays)):
        jobs = [own_job(path, **{"task.memory": memory, "task.points": points}) for memory in (4.0, 0.0)]
        batches = [_batch(job.recipe.task.build(0), jax.random.key(1)) for job in jobs]
        for one, two in zip(*batches, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-6, atol=1e-6)


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


def nan(array, *index):
    array = array.copy()
    array[index] = np.nan
    return array


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"u": None}, "no array 'u'; the arrays of the file are: a, y"),
        ({"u": np.zeros((20, 6), complex)}, "no real numbers"),
        ({"u": np.zeros((19, 6))}, "numbers of functions differ"),
        ({"u": np.zeros((20, 5))}, "y has 6 points a function and u 5"),
        ({"a": np.zeros(20)}, r"shapes \(20,\)"),
        ({"y": np.zeros((20, 6, 1, 1))}, "have shapes"),
        ({"x": np.zeros((4, 1))}, r"x has shape \(4, 1\), for sensors \(3,\)"),
        ({"a_test": np.ones((2, 3))}, "one of them is missing"),
        ({"y_test": np.ones((6, 1))}, "y_test without a_test and u_test"),
        ({"u": None, "solution": own()["u"]}, "no array 'u'; the arrays of the file are: a, solution, y"),
        ({"a_test": np.ones((2, 3)), "u_test": np.ones((2, 9))}, "add y_test"),
        ({"A_test": np.ones((2, 3)), "u_tst": np.ones((2, 6))}, "nothing reads its 'A_test'. Did you mean 'a_test'"),
        ({"u_tst": np.ones((2, 6))}, "nothing reads its 'u_tst'. Did you mean 'u_test'. Rename it, or leave it out"),
        ({"a": nan(own()["a"], 7, 1)}, r"'a' holds values that are not finite, the first at \(7, 1\)"),
        ({"u": nan(own()["u"], 3, 0)}, r"'u' holds values that are not finite, the first at \(3, 0\)"),
        ({"a": own()["a"][:, [0, 1, 0]]}, "sensors 0 and 2 read the same value in every function"),
        ({"x": np.array([[0.0], [1.0], [1.0]])}, "sensors 1 and 2 are at the same place"),
    ],
)
def test_a_file_that_is_not_laid_out_as_it_must_be_is_refused(tmp_path, changes, message):
    for compressed in (False, True):
        path = write(tmp_path / "bad.npz", own(**changes), compressed=compressed)
        with pytest.raises(ValueError, match=message):
            operator_data.check(path)


def test_an_hdf5_file_is_refused_for_names_that_are_nearly_right_too(tmp_path):
    for name in ("u_tst", "test/u"):
        path = write(tmp_path / "mine.h5", own(**{name: np.ones((2, 6))}))
        with pytest.raises(ValueError, match=f"nothing reads its {name.partition('/')[0]!r}"):
            operator_data.check(path)


def test_what_else_a_file_holds_is_remarked(tmp_path):
    path = write(tmp_path / "more.npz", own(viscosity=np.ones(1), mesh=np.ones((2, 2))))
    operator_data.check(path)
    remarks = find_recipe(str(path)).recipe.task.remarks(10)
    assert remarks == ["nothing reads mesh, viscosity of more.npz"]


def test_functions_that_are_tested_and_trained_are_remarked_by_their_number(tmp_path):
    first, rest = own()["a"], np.random.default_rng(1).normal(size=(2, 3))
    tested = {"a_test": np.concatenate([first[4:7].astype(np.float64), rest]), "u_test": np.ones((5, 6))}
    for name, arrays, expected in (
        ("apart", own(), []),
        ("named", own(**tested), ["3 of the 5 functions of the test are trained on too"]),
        ("held_out", own(a=np.concatenate([first[:19], first[:1]])), ["1 of the 2 functions of the test are"]),
    ):
        for suffix in (".npz", ".h5"):
            path = write(tmp_path / f"{name}{suffix}", arrays)
            told = find_recipe(str(path)).recipe.task.remarks(10)
            assert [remark[: len(words)] for remark, words in zip(told, expected, strict=True)] == expected


def test_few_functions_are_remarked(tmp_path):
    path = write(tmp_path / "two.npz", own(a=own()["a"][:2], u=own()["u"][:2]))
    (remark,) = find_recipe(str(path)).recipe.task.remarks(10)
    assert remark.startswith("two.npz has 1 function to train on and 1 to test with")


def test_sensors_that_read_alike_at_two_places_are_two_sensors(tmp_path):
    periodic = own(a=own()["a"][:, [0, 1, 0]], x=np.array([[0.0], [0.5], [1.0]]))
    assert operator_data.check(write(tmp_path / "mine.npz", periodic))


@pytest.mark.parametrize("name", ["torn.npz", "torn.h5", "missing.npz", "file.csv"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path, name):
    path = tmp_path / name
    if name.startswith("torn"):
        content = write(path, own()).read_bytes()
        path.write_bytes(content[: len(content) // 2])
    elif name == "file.csv":
        path.write_text("a,y,u")
    with pytest.raises(ValueError, match=r"damaged|There is no file|is no \.npz"):
        operator_data.check(path)


@pytest.mark.parametrize("name", ["packed.npz", "packed.h5", "short.npz"])
def test_a_file_that_is_damaged_inside_is_refused(tmp_path, name):
    """It opens, and what is wrong shows when its numbers are read."""
    path, long = tmp_path / name, np.random.default_rng(0).normal(size=(200, 300)).round(1)
    if name == "short.npz":
        content = io.BytesIO()
        np.save(content, own()["a"])
        write(path, own(a=None))
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("a.npy", content.getvalue()[:-40])
    elif name == "packed.npz":
        write(path, own(a=long), compressed=True)
        with zipfile.ZipFile(path) as archive:
            _overwrite(path, archive.getinfo("a.npy").header_offset + 60)
    else:
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            file.create_dataset("a", data=long, chunks=(20, 300), compression="gzip")
            file["y"], file["u"] = own()["y"], np.zeros((200, 6))
            place = file["a"].id.get_chunk_info(1).byte_offset
        _overwrite(path, place + 1_000)
    with pytest.raises(ValueError, match=f"{name} is damaged"):
        operator_data.check(path)


def _overwrite(path, place):
    content = bytearray(path.read_bytes())
    content[place : place + 500] = b"\xff" * 500
    path.write_bytes(content)


def test_an_array_of_hdf5_without_a_shape_is_refused(tmp_path):
    h5py = pytest.importorskip("h5py")
    with pytest.raises(ValueError, match="'a' is empty"):
        operator_data.check(write(tmp_path / "mine.h5", own(a=h5py.Empty("f"))))


def test_a_name_in_hdf5_that_is_no_array_is_said_to_be_none(tmp_path):
    h5py = pytest.importorskip("h5py")
    with pytest.raises(ValueError, match="its 'a' is no array"):
        operator_data.check(write(tmp_path / "mine.h5", own(a=h5py.SoftLink("/nowhere"))))


def test_python_objects_in_a_file_are_never_unpickled(tmp_path):
    np.savez(tmp_path / "bad.npz", **own(a=np.array([{}] * 20, dtype=object)))
    with pytest.raises(ValueError, match="could run code"):
        operator_data.check(tmp_path / "bad.npz")


def test_a_file_that_was_changed_is_not_taken_for_the_old_one(tmp_path):
    job = own_job(write(tmp_path / "mine.npz", own()))
    write(tmp_path / "mine.npz", own(u=2 * own()["u"]))
    with pytest.raises(ValueError, match="its content has changed"):
        job.recipe.task.build(0)


@pytest.mark.parametrize("suffix", [".npz", ".h5"])
def test_a_test_function_that_is_zero_is_refused(tmp_path, suffix):
    arrays = own(a_test=np.ones((2, 3)), u_test=np.array([[1.0] * 6, [0.0] * 6]))
    named = write(tmp_path / f"named{suffix}", arrays)
    with pytest.raises(ValueError, match=rf"named{suffix}: row 1 of 'u_test', .* zero everywhere"):
        find_recipe(str(named)).recipe.task.build(0)
    u = own()["u"]
    u[19] = 0
    last = write(tmp_path / f"last{suffix}", own(u=u))
    with pytest.raises(ValueError, match=r"row 19 of 'u', .* zero everywhere"):
        find_recipe(str(last)).recipe.task.build(0)


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


OFFSETS = {
    "y": lambda arrays: {"y": arrays["y"] + 1.7e9},
    "a": lambda arrays: {"a": 101325 + 1e-3 * arrays["a"]},
    "u": lambda arrays: {"u": 1e300 * arrays["u"]},
}


def doubles():
    return {name: array.astype(np.float64) for name, array in own().items()}


@pytest.mark.parametrize("name", OFFSETS)
@pytest.mark.parametrize("memory", [4.0, 0.0])
def test_an_offset_or_a_unit_changes_nothing_that_a_net_is_trained_on(tmp_path, name, memory):
    arrays = doubles()
    if name == "y":
        arrays["y"] = np.tile(arrays["y"], (20, 1, 1))  # so that points are read with each batch too
    files = [("one", arrays), ("other", arrays | OFFSETS[name](arrays))]
    jobs = [own_job(write(tmp_path / f"{file}.npz", content), **{"task.memory": memory}) for file, content in files]
    tasks = [job.recipe.task.build(0) for job in jobs]
    one, other = (jax.tree.leaves((_batch(task, jax.random.key(0)), task.holdout)) for task in tasks)
    for left, right in zip(one, other, strict=True):
        np.testing.assert_allclose(left, right, atol=2e-6)


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


def test_values_that_float32_cannot_hold_beside_the_others_are_refused(tmp_path):
    a = doubles()["a"]
    a[19, 0] = 1e60  # held out, so not what the scaling is measured on
    with pytest.raises(ValueError, match="'a' has values so far from the others"):
        find_recipe(str(write(tmp_path / "mine.npz", own(a=a)))).recipe.task.build(0)


def test_an_operator_of_jax_arrays_can_be_differentiated():
    operator = random_operator(Scaling(3.0, 5.0, (-2.0,), (4.0,), 100.0))
    a, y = jnp.asarray(own()["a"]), jnp.asarray(own()["y"])
    value, slope = jax.jvp(lambda y: operator(a, y), (y,), (jnp.ones_like(y),))
    np.testing.assert_allclose(value, operator(own()["a"], own()["y"]), rtol=1e-4, atol=1e-3)
    assert isinstance(value, jax.Array)
    assert np.abs(slope).max() > 0


def random_operator(scaling):
    spec, key = DeepONet(depth=1, width=8, activation="tanh", sensors=(3,)), jax.random.key(0)
    return Operator(spec.build(Identity().build(1, key=key), 1, key=key), Identity(), spec, 1, scaling)


def test_parts_of_a_file_change_neither_its_hash_nor_its_scaling(tmp_path, monkeypatch):
    """The hash is that of all run folders so far: of 256 functions at a time with their shape."""
    rng = np.random.default_rng(0)
    arrays = {"a": rng.normal(3, 5, (300, 3)), "y": rng.normal(size=(300, 6, 2)), "u": rng.normal(1, 9, (300, 6))}
    expected = hashlib.sha256()
    for name, array in arrays.items():
        for rows in (array[:256], array[256:]):
            expected.update(f"{name}{rows.dtype}{rows.shape}".encode() + rows.tobytes())
    for part in (2**25, 300):
        monkeypatch.setattr(operator_data, "_PART", part)
        for file in ("mine.npz", "mine.h5"):
            path = write(tmp_path / file, arrays)
            assert operator_data.check(path) == expected.hexdigest()[:16]
            own_operator._build.cache_clear()
            found, a, u, y = OwnOperator(str(path)).build(0).scaling, *(arrays[n][:270] for n in ("a", "u", "y"))
            exact = (a.mean(), a.std(), *y.min(axis=(0, 1)), *np.ptp(y, axis=(0, 1)), np.sqrt(np.mean(u**2)))
            np.testing.assert_allclose(np.hstack(dataclasses.astuple(found)), exact, rtol=1e-12)


def test_a_file_is_looked_through_and_scaled_in_small_parts(tmp_path, monkeypatch):
    """No more than a part is read at a time, hold-out included; batches are what they are."""
    arrays = own(u=np.tile(own()["u"], (1, 100)), y=np.linspace(0, 1, 600)[:, None])
    path, read = write(tmp_path / "mine.h5", arrays), []
    monkeypatch.setattr(operator_data, "_PART", 8 * 600 * 2)
    import h5py

    get = h5py.Dataset.__getitem__
    monkeypatch.setattr(h5py.Dataset, "__getitem__", lambda self, rows: read.append(got := get(self, rows)) or got)
    find_recipe(str(path)).recipe.task.build(0)
    assert max(part.size for part in read) <= 2 * 600


def test_the_functions_that_are_held_out_are_bounded_in_bytes(tmp_path, monkeypatch):
    path = write(tmp_path / "mine.npz", own())
    for limit, expected in ((2**28, 2), (4 * (3 + 6), 1)):
        monkeypatch.setattr(own_operator, "_TEST_BYTES", limit)
        own_operator._build.cache_clear()
        assert len(OwnOperator(str(path)).build(0).holdout.u) == expected


def test_a_compressed_file_that_is_too_large_for_memory_is_refused(tmp_path):
    path = write(tmp_path / "mine.npz", own(), compressed=True)
    assert OwnOperator(str(path)).build(0).a.shape == (18, 3)
    with pytest.raises(ValueError, match=r"is compressed and has .* more than --task.memory 0: .* np.savez"):
        OwnOperator(str(path), memory=0.0).build(0)


def test_the_memory_is_no_part_of_a_recipe(tmp_path):
    recipe = find_recipe(str(write(tmp_path / "mine.npz", own()))).recipe
    jobs = [Job(with_values(recipe, {"task.memory": memory}), "rwf", recipe) for memory in (4.0, 0.0)]
    assert jobs[1].is_full
    assert jobs[0].folder == jobs[1].folder


@pytest.mark.parametrize("name", ["test", "functions", "points", "memory"])
def test_a_negative_setting_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match=f"--task.{name} is -3.*; expected 0 or more"):
        own_job(write(tmp_path / "mine.npz", own()), **{f"task.{name}": -3.0 if name == "memory" else -3})


def test_an_operator_needs_its_run_folder_alone(tmp_path):
    """The file may be gone; a folder of before the scaling was kept asks for the file."""
    path = write(tmp_path / "mine.npz", own())
    folder = run_job(own_job(path), tmp_path / "runs", progress=Progress(quiet=True))
    a, y = own()["a"], own()["y"]
    path.rename(tmp_path / "moved.npz")
    own_operator._build.cache_clear()
    value = Operator.from_run(folder)(a, y)
    summary = json.loads((folder / "summary.json").read_text())
    del summary["operator"]
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


def test_one_function_without_its_axis_is_refused():
    with pytest.raises(ValueError, match=r"functions have shape \(3,\); expected \(functions, 3\). One function is a"):
        random_operator(Scaling.none(1))(own()["a"][0], own()["y"])


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
