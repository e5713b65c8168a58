"""A person's own operator data: what a file must hold, and every bad file that must be refused."""

import io
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

from own_data import own, own_job, write
from rwf import train
from rwf.cli import main
from rwf.registry import find_recipe
from rwf.signals import operator_data


def test_a_recipe_is_made_for_the_sensors_of_a_file(tmp_path):
    recipe = find_recipe(str(write(tmp_path / "mine.npz", own()))).recipe
    assert (recipe.case, recipe.net.sensors, recipe.net.branch) == ("own/mine", (3,), "mlp")
    grid = own(a=np.random.default_rng(0).normal(size=(20, 16, 16)))
    recipe = find_recipe(str(write(tmp_path / "grid.npz", grid))).recipe
    assert (recipe.net.sensors, recipe.net.branch) == ((16, 16), "cnn")


def for_test(functions=2):
    return {"a_test": np.ones((functions, 3)), "u_test": np.ones((functions, 6))}


def nan(array, *index):
    array = array.copy()
    array[index] = np.nan
    return array


@pytest.mark.parametrize(("points", "drawn"), [(2_000, None), (2_001, 2_000)])
def test_quick_draws_some_of_many_points(tmp_path, points, drawn):
    """A batch of all of them takes seconds on a CPU."""
    path = write(tmp_path / "fine.npz", own(u=np.ones((20, points)), y=np.linspace(0, 1, points)[:, None]))
    assert find_recipe(str(path)).quick.get("task.points") == drawn


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"u": None}, "no array 'u'; the arrays of the file are: a, y"),
        ({"u": np.zeros((20, 6), complex)}, "no real numbers"),
        ({"u": np.zeros((19, 6))}, "numbers of functions differ"),
        ({"u": np.zeros((20, 5))}, "y has 6 points a function and u 5"),
        ({"a": np.zeros(20)}, r"shapes \(20,\)"),
        ({"a": np.zeros(20), "y": np.zeros(6)}, r"Save a\[:, None\] and y\[:, None\]: one sensor, coordinate"),
        ({"u": np.zeros(20), "y": np.zeros((20, 1))}, r"Save u\[:, None\]: one sensor, coordinate or point"),
        ({"u": np.zeros((20, 1)), "y": np.zeros((20, 1))}, r"u 1 values. Save y\[:, None\]: each function has a"),
        ({"a": np.zeros((3, 20)), "u": np.zeros((6, 20))}, r"Functions seem to be the last axis: save a.T and u.T"),
        ({"a": np.zeros((3, 20)), "u": np.zeros((6, 20)), "y": np.zeros((1, 6))}, "in which points come first"),
        ({"y": np.zeros((1, 6))}, "u 6 values. Save y.T: points come first"),
        ({"u": np.zeros((20, 2, 3)), "y": np.zeros((2, 3, 2))}, r"Save u with one axis for all points, u.reshape"),
        ({"u": np.zeros((20, 6, 2))}, r"Save a file for each output, u\[..., 0\] in the first"),
        ({"u": np.zeros((20, 6, 2)), "y": np.zeros((20, 6, 1))}, "Save a file for each output"),
        ({"x": np.zeros(3)}, r"x has shape \(3,\), for sensors \(3,\). Save x\[..., None\]"),
        ({"y": np.zeros((20, 6, 1, 1))}, "have shapes"),
        ({"x": np.zeros((4, 1))}, r"x has shape \(4, 1\), for sensors \(3,\)"),
        ({"x": np.zeros((3, 0))}, r"x has shape \(3, 0\), for sensors \(3,\)"),
        ({"a_test": np.ones((2, 3))}, "one of them is missing"),
        ({"y_test": np.ones((6, 1))}, "y_test without a_test and u_test"),
        ({"u": None, "solution": own()["u"]}, "no array 'u'; the arrays of the file are: a, solution, y"),
        ({"a_test": np.ones((2, 3)), "u_test": np.ones((2, 9))}, "add y_test"),
        ({"a_test": np.ones((2, 3)), "u_test": np.float64(1)}, r"a_test and u_test have shapes \(2, 3\) and \(\)"),
        ({"a_test": np.ones((2, 3)), "u_test": np.ones((2, 0))}, r"have shapes \(2, 3\) and \(2, 0\)"),
        ({**for_test(), "y_test": np.ones((1, 2, 6, 1))}, r"the points of the test \(1, 2, 6, 1\)"),
        ({**for_test(), "y_test": np.ones((1, 1, 6, 1))}, r"the points of the test \(1, 1, 6, 1\)"),
        ({**for_test(20), "y": np.ones((20, 6, 1))}, "those of the test have none: add y_test"),
        ({"A_test": np.ones((2, 3)), "u_tst": np.ones((2, 6))}, "nothing reads its 'A_test'. Did you mean 'a_test'"),
        ({"u_tst": np.ones((2, 6))}, "nothing reads its 'u_tst'. Did you mean 'u_test'. Rename it, or leave it out"),
        ({"a": nan(own()["a"], 7, 1)}, r"'a' holds values that are not finite, the first at \(7, 1\)"),
        ({"u": nan(own()["u"], 3, 0)}, r"'u' holds values that are not finite, the first at \(3, 0\)"),
        ({"x": nan(np.eye(3), 2, 0)}, r"'x' holds .* the first at \(2, 0\). Leave those out, or fill them in"),
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
        with pytest.raises(ValueError, match=f"nothing reads its {name!r}. Did you mean 'u_test'"):
            operator_data.check(path)


@pytest.mark.parametrize("name", ["a_tst", "atest", "u_tset", "ytest", "a_tests", "U-test", "test_y", "tests_a", "X"])
def test_a_name_that_is_nearly_right_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match=f"nothing reads its {name!r}. Did you mean '(._test|x)'. Rename it"):
        operator_data.check(write(tmp_path / "mine.npz", own(**{name: np.ones((2, 6))})))


@pytest.mark.parametrize("suffix", [".npz", ".h5"])
def test_an_ending_in_capitals_is_the_same_ending(tmp_path, suffix):
    path = write(tmp_path / f"mine{suffix}", own(mesh=np.ones(2)))
    path = path.rename(tmp_path / f"mine{suffix.upper()}")
    recipe = find_recipe(str(path)).recipe
    assert recipe.task.build(0).inputs == 1
    assert recipe.task.remarks(10) == [f"nothing reads mesh of {path.name}"]


@pytest.mark.parametrize("option", ["--task.path", "--task.content"])
def test_which_file_it_is_is_no_option(tmp_path, capsys, option):
    """It would be taken for done by the content of the file that was named first."""
    path = write(tmp_path / "mine.npz", own())
    with pytest.raises(SystemExit):
        main(["run", str(path), "--out", str(tmp_path / "runs"), option, "other.npz"])
    assert "Unrecognized" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_a_file_is_one_signal(tmp_path):
    job = own_job(write(tmp_path / "mine.npz", own()), signals=(0, 1))
    with pytest.raises(ValueError, match=r"one signal, number 0; number 1 is asked for\. Leave out --signals"):
        train.load_tasks(job)


def test_a_number_of_test_functions_is_refused_where_the_file_names_them(tmp_path):
    path = write(tmp_path / "mine.npz", own(a_test=np.ones((2, 3)), u_test=np.ones((2, 6))))
    task = own_job(path, **{"task.test": 3}).recipe.task
    for look in (lambda: task.remarks(10), lambda: task.build(0)):
        with pytest.raises(ValueError, match=r"--task.test is 3, and .*mine.npz names .* itself, 2 in a_test. Leave"):
            look()


def test_a_single_function_is_said_to_be_too_few(tmp_path):
    one = {"a": np.array([[1.0, 2.0, 3.0]]), "u": np.ones((1, 6))}
    alone = write(tmp_path / "one.npz", own(**one))
    with pytest.raises(ValueError, match=r"one.npz has a single function; .* another one for the test. Add functions"):
        find_recipe(str(alone)).recipe.task.build(0)
    tested = write(tmp_path / "two.npz", own(**one, a_test=np.ones((1, 3)), u_test=np.ones((1, 6))))
    assert find_recipe(str(tested)).recipe.task.build(0).a.shape == (1, 3)


def test_sensors_that_read_alike_at_two_places_are_two_sensors(tmp_path):
    periodic = own(a=own()["a"][:, [0, 1, 0]], x=np.array([[0.0], [0.5], [1.0]]))
    assert operator_data.check(write(tmp_path / "mine.npz", periodic))


def test_sensors_on_walls_that_are_held_are_no_twins(tmp_path):
    a = np.random.default_rng(0).normal(size=(300, 36))  # more functions than are looked at together
    a[:, [0, 1, 34, 35]] = 0
    assert operator_data.check(write(tmp_path / "walls.npz", own(a=a, u=np.ones((300, 6)))))
    a[:, 20] = a[:, 15]
    with pytest.raises(ValueError, match="sensors 15 and 20 read the same value in every function"):
        operator_data.check(write(tmp_path / "twins.npz", own(a=a, u=np.ones((300, 6)))))


def test_neighbours_on_a_grid_may_read_the_same(tmp_path):
    coarse = np.where(np.random.default_rng(0).normal(size=(20, 4, 4)) > 0, 12.0, 3.0)
    a = coarse.repeat(4, axis=1).repeat(4, axis=2)  # a material of two kinds
    assert find_recipe(str(write(tmp_path / "materials.npz", own(a=a)))).recipe.net.sensors == (16, 16)


def test_channels_at_the_same_places_are_no_grid(tmp_path):
    a, line = np.random.default_rng(0).normal(size=(20, 16, 50)), np.linspace(0, 1, 50)[:, None]
    same = np.tile(line, (16, 1, 1))
    branches = [find_recipe(str(write(tmp_path / "a.npz", own(a=a, x=x)))).recipe.net.branch for x in (None, same)]
    assert branches == ["cnn", "mlp"]
    same[:, 7] = same[:, 3]
    with pytest.raises(ValueError, match="sensors 3 and 7 are at the same place"):
        find_recipe(str(write(tmp_path / "b.npz", own(a=a, x=same))))


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
    for compressed in (False, True):
        objects = np.array([Told(tmp_path / "ran")] * 60, dtype=object).reshape(20, 3)
        write(tmp_path / "bad.npz", own(a=objects), compressed=compressed)
        with pytest.raises(ValueError, match="'a' holds object, no real numbers"):
            operator_data.check(tmp_path / "bad.npz")
        assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(("at", "value", "reason"), [(8, 99, "compression method"), (6, 1, "encrypted")])
def test_an_archive_that_cannot_be_unpacked_is_refused(tmp_path, at, value, reason):
    path = write(tmp_path / "mine.npz", own())
    content = bytearray(path.read_bytes())
    for mark, further in ((b"PK\x03\x04", 0), (b"PK\x01\x02", 2)):  # in each entry, and in the list at the end
        for found in re.finditer(mark, bytes(content)):
            content[found.start() + at + further] = value
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"mine\.npz is damaged, or no NPZ file \(.*{reason}"):
        operator_data.check(path)


class Told:
    """Writes a file where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


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
    u[19] = 1e-20
    small = write(tmp_path / f"small{suffix}", own(u=u))  # whose squares are no numbers of float32
    with pytest.raises(ValueError, match=r"row 19 of 'u', .* as good as zero beside the others"):
        find_recipe(str(small)).recipe.task.build(0)
