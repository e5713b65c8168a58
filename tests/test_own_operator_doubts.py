"""What is remarked of a person's own operator data before training, and not refused."""

import dataclasses

import numpy as np
import pytest

from own_data import own, write
from rwf.cli import main
from rwf.registry import find_recipe
from rwf.signals import operator_data
from rwf.tasks import own_operator_doubts


def test_what_else_a_file_holds_is_remarked(tmp_path):
    """Names that look near, and are somebody's own, included."""
    others = "a_mean a_train beta date labels mesh notes t_test test theta times u_best u_est u_std units x_test"
    path = write(tmp_path / "more.npz", own(**dict.fromkeys(others.split(), np.ones(2))))
    operator_data.check(path)
    remarks = find_recipe(str(path)).recipe.task.remarks(10)
    assert remarks == [f"nothing reads {', '.join(others.split())} of more.npz"]


def test_groups_of_hdf5_are_remarked_by_what_is_in_them(tmp_path):
    path = write(tmp_path / "more.h5", own(**{"raw/a": np.ones(2)}))
    assert find_recipe(str(path)).recipe.task.remarks(10) == ["nothing reads raw/a of more.h5"]
    for name in ("a_test", "x"):
        path = write(tmp_path / "bad.h5", own(**{f"{name}/values": np.ones((2, 3))}))
        with pytest.raises(ValueError, match=f"its {name!r} is no array"):
            operator_data.check(path)


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


def test_outputs_that_are_nearly_one_number_are_remarked(tmp_path):
    """A relative error of pressures around 101,325 says nothing of how they differ."""
    u = np.random.default_rng(0).normal(size=(20, 6))
    for offset, told in ((0.0, 0), (5.0, 0), (-300.0, 1), (101325.0, 1)):
        remarks = find_recipe(str(write(tmp_path / "u.npz", own(u=u + offset)))).recipe.task.remarks(10)
        assert len(remarks) == told
        assert all(f"u of u.npz is {(u + offset)[:18].mean():.6g} give or take" in remark for remark in remarks)


@pytest.mark.parametrize("suffix", [".npz", ".h5"])
def test_sensors_that_nearly_vanish_beside_the_rest_are_remarked(tmp_path, suffix):
    """Young's modulus and Poisson's ratio: of the second one float32 keeps nothing, once both are scaled alike."""
    parameters = np.random.default_rng(0).normal(size=(20, 3)) * [1e10, 0.02, 0] + [2e11, 0.3, 1]  # the last is held
    (remark,) = find_recipe(str(write(tmp_path / f"two{suffix}", own(a=parameters)))).recipe.task.remarks(10)
    assert remark.startswith(f"1 of the 3 sensors of a in two{suffix}, the first a[:, 1], differ between functions")
    channels = np.stack([parameters[:, :1] + np.arange(4), parameters[:, 1:2] * np.arange(1, 5)], axis=1)
    (remark,) = find_recipe(str(write(tmp_path / f"grid{suffix}", own(a=channels)))).recipe.task.remarks(10)
    assert remark.startswith(f"4 of the 8 sensors of a in grid{suffix}, the first a[:, 1, 0], differ")
    profile = own(a=own()["a"] + [1e5, 2e5, 3e5])  # beside which the functions hardly differ
    (remark,) = find_recipe(str(write(tmp_path / f"profile{suffix}", profile))).recipe.task.remarks(10)
    assert remark.startswith(f"3 of the 3 sensors of a in profile{suffix}, the first a[:, 0], differ between")
    alike = (parameters - parameters.mean(axis=0)) / [1e10, 0.02, 1]
    assert not find_recipe(str(write(tmp_path / f"alike{suffix}", own(a=alike)))).recipe.task.remarks(10)


@pytest.mark.parametrize("held", [0.0, 2e5])
def test_an_end_that_is_held_but_for_rounding_is_no_sensor_that_vanishes(tmp_path, held):
    rng, x = np.random.default_rng(0), np.linspace(0, 1, 9)
    a = held + sum((held or 1) * rng.normal(size=(20, 1)) * np.sin(k * np.pi * x) for k in range(1, 6))
    assert 0 < np.ptp(a[:, -1]) < 1e-15 * (held or 10) * 10
    assert not find_recipe(str(write(tmp_path / "held.npz", own(a=a)))).recipe.task.remarks(10)


@pytest.mark.parametrize("suffix", [".npz", ".h5"])
@pytest.mark.parametrize("name", ["a", "u"])
def test_numbers_that_stand_for_what_is_not_known_are_remarked(tmp_path, suffix, name):
    array = np.random.default_rng(0).normal(size=(20, 6))
    for value in (-9999.0, 1e20):
        filled = array.copy()
        filled[[2, 7, 11], [1, 0, 5]] = value
        (remark,) = find_recipe(str(write(tmp_path / f"f{suffix}", own(**{name: filled})))).recipe.task.remarks(10)
        mean = filled[:18][filled[:18] != value].mean()
        assert remark.startswith(f"{name} of f{suffix} is {value:g} at 3 places, and {mean:.3g} give or take")
    loads = np.where(array > 1, 100 + array, 0)  # most sensors have none: zero stands for nothing else
    ones = np.where(array > 1, 7, 0)  # two kinds
    once = np.concatenate([array[:5], 50 * array[5:6], array[6:]])  # large, and each value once
    for usual in (array, loads, ones, once):
        path = write(tmp_path / f"usual{suffix}", own(**{name: usual}))
        assert "stands for" not in str(find_recipe(str(path)).recipe.task.remarks(10))


@pytest.mark.parametrize("name", ["a", "u"])
def test_a_function_beside_which_the_others_vanish_is_remarked(tmp_path, name):
    array = own()[name].astype(float)
    array[[7, 9]] *= [[1e6], [1e4]]
    (remark,) = find_recipe(str(write(tmp_path / "big.npz", own(**{name: array})))).recipe.task.remarks(10)
    assert remark.startswith(f"{name}[7] of big.npz is ")
    assert " times as large as the median function, and 1 more over 100: beside it the others are hardly" in remark


def test_what_is_remarked_of_a_file_is_said_once_for_all_parametrizations(tmp_path, capsys):
    path = write(tmp_path / "more.npz", own(notes=np.zeros(1)))
    few = ["--steps", "20", "--log-every", "10", "--seeds", "1", "--net.depth", "1", "--no-report"]
    few += ["--out", str(tmp_path / "runs")]
    assert main(["run", str(path), "--parametrization", "plain", "rwf", *few]) == 0
    assert capsys.readouterr().err.count("nothing reads notes of more.npz") == 1


@pytest.mark.parametrize("suffix", [".npz", ".h5"])
def test_points_that_stand_twice_with_other_values_are_remarked(tmp_path, suffix):
    """Such as those of a second time, whose coordinate was left out; a mesh may say the same node twice."""
    y, u = own()["y"], own()["u"]
    mesh = own(y=np.concatenate([y, y[:2]]), u=np.concatenate([u, (1 + 1e-5) * u[:, :2]], axis=1))
    assert not find_recipe(str(write(tmp_path / f"mesh{suffix}", mesh))).recipe.task.remarks(10)
    times = own(y=np.concatenate([y, y]), u=np.concatenate([u, -u], axis=1))
    (remark,) = find_recipe(str(write(tmp_path / f"times{suffix}", times))).recipe.task.remarks(10)
    assert remark.startswith(f"6 of the 12 points of y in times{suffix} stand there before, where u has other values")


def test_points_of_its_own_that_a_function_has_twice_are_remarked(tmp_path):
    y = np.tile(own()["y"], (20, 1, 1))
    assert not find_recipe(str(write(tmp_path / "once.npz", own(y=y)))).recipe.task.remarks(10)
    y[3, 4] = y[3, 1]
    (remark,) = find_recipe(str(write(tmp_path / "twice.npz", own(y=y)))).recipe.task.remarks(10)
    assert remark.startswith("1 of the points of y[3] in twice.npz stand there before, where u has other values")


def test_points_of_the_test_beyond_those_of_the_training_are_remarked(tmp_path):
    rng, y = np.random.default_rng(0), np.tile(own()["y"], (20, 1, 1))
    tested = {"a_test": rng.normal(size=(2, 3)), "u_test": np.ones((2, 6))}
    y[19, 0] += 10  # held out
    for arrays, far in (({"y_test": own()["y"] + 1000}, 998), ({"y_test": own()["y"]}, None)):
        found = find_recipe(str(write(tmp_path / "far.npz", own(**tested, **arrays)))).recipe.task.remarks(10)
        assert [
            remark.startswith("coordinate 0 of the points of the test in far.npz goes from") for remark in found
        ] == ([True] if far else [])
    (remark,) = find_recipe(str(write(tmp_path / "own.npz", own(y=y)))).recipe.task.remarks(10)
    assert remark.startswith("coordinate 0 of the points of the test in own.npz goes from")


def test_a_test_of_functions_beyond_all_that_are_trained_on_is_remarked(tmp_path):
    """The last tenth of a sorted file; a single such function may be chance."""
    a = np.random.default_rng(0).normal(size=(60, 3))
    for rows, told in ((slice(0), 0), (slice(59, 60), 0), (slice(54, 60), 1)):
        a[rows, 1] = 10 + a[rows, 1]
        remarks = find_recipe(str(write(tmp_path / "sweep.npz", own(a=a, u=np.ones((60, 6)) + a[:, :1])))).recipe
        found = [remark for remark in remarks.task.remarks(10) if remark.startswith("a[:, 1] of sweep.npz goes from")]
        assert len(found) == told


def test_a_few_functions_of_noise_are_not_taken_for_sorted_ones(tmp_path):
    """On an image of noise three of thirty are larger than all others in some pixel."""
    a = np.random.default_rng(0).normal(size=(30, 64, 64))
    assert ((a[27:].min(axis=0) > a[:27].max(axis=0)) | (a[27:].max(axis=0) < a[:27].min(axis=0))).any()
    assert not find_recipe(str(write(tmp_path / "noise.npz", own(a=a, u=1 + a[:, :6, 0] ** 2)))).recipe.task.remarks(10)


@pytest.mark.parametrize("named", [False, True])
def test_functions_of_the_test_that_nearly_vanish_are_remarked(tmp_path, named):
    """Their relative errors would be the mean."""
    u = np.random.default_rng(0).normal(size=(60, 6))
    u[58] *= 1e-5
    tested = {"a_test": np.random.default_rng(1).normal(size=(6, 3)), "u_test": u[54:]} if named else {}
    a = np.random.default_rng(2).normal(size=(60, 3))
    (remark,) = find_recipe(str(write(tmp_path / "small.npz", own(a=a, u=u, **tested)))).recipe.task.remarks(10)
    assert remark.startswith(
        f"u of 1 of the 6 functions of the test in small.npz, the first in row {4 if named else 58}"
    )


def test_points_of_one_function_in_many_rows_are_said_to_belong_together(tmp_path):
    """As triples (a, y, u) are often kept, each of a point."""
    which, y = np.random.default_rng(0).integers(0, 5, 60), np.random.default_rng(1).random((60, 1, 1))
    a = own()["a"][which]
    path = write(tmp_path / "triples.npz", own(a=a, y=y, u=1 + (a[:, :1] * y[:, 0])))
    assert any(
        "Points of one function are one row" in remark for remark in find_recipe(str(path)).recipe.task.remarks(10)
    )


@pytest.mark.parametrize(("kept", "told"), [({}, 0), ({"chunks": (20, 6)}, 0), ({"compression": "gzip"}, 1)])
def test_compressed_chunks_of_many_functions_are_remarked_where_they_are_streamed(tmp_path, kept, told):
    h5py = pytest.importorskip("h5py")
    path = write(tmp_path / "mine.h5", own(u=None))
    with h5py.File(path, "a") as file:
        file.create_dataset("u", data=own()["u"], **kept)
    task = find_recipe(str(path)).recipe.task
    remarks = dataclasses.replace(task, memory=0.0).remarks(10)
    assert [remark[:53] for remark in remarks] == ["u of mine.h5 is compressed in chunks of 20 functions,"] * told
    assert not task.remarks(10)


def test_a_file_is_judged_by_a_sample_that_is_read_once(tmp_path, monkeypatch):
    """Of functions with a million points each, some; not all of them ten times over."""
    h5py = pytest.importorskip("h5py")
    rng, read = np.random.default_rng(0), []
    large = own(a=rng.normal(size=(400, 3)), u=rng.normal(size=(400, 60)), y=np.linspace(0, 1, 60)[:, None])
    task = find_recipe(str(write(tmp_path / "large.h5", large))).recipe.task
    task.remarks(10)  # so that the content is known
    monkeypatch.setattr(own_operator_doubts, "_BYTES", 8 * 60 * 20)
    own_operator_doubts.doubts.cache_clear()
    get = h5py.Dataset.__getitem__
    monkeypatch.setattr(
        h5py.Dataset, "__getitem__", lambda self, rows: read.append((self.name, len(got := get(self, rows)))) or got
    )
    assert not task.remarks(10)
    assert sum(rows for name, rows in read if name == "/u") == 20 + 40  # and those of the test
