"""A person's own operator data: how it is streamed, looked through in parts, and scaled."""

import dataclasses
import hashlib
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from own_data import OFFSETS, doubles, own, own_job, write
from rwf import train
from rwf.job import Job
from rwf.registry import find_recipe
from rwf.run import data_hash
from rwf.signals import operator_data, sensors
from rwf.spec import with_values
from rwf.tasks import own_operator
from rwf.tasks.own_operator import OwnOperator


@eqx.filter_jit
def _batch(made, key):
    return made.batch(key, jnp.int32(0))


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


@pytest.mark.parametrize("memory", [4.0, 0.0])
@pytest.mark.parametrize("suffix", [".npz", ".h5"])
def test_a_mask_is_read_as_zeros_and_ones(tmp_path, suffix, memory):
    mask = np.random.default_rng(1).random((20, 8)) > 0.5
    paths = [write(tmp_path / f"{kind}{suffix}", own(a=mask.astype(kind))) for kind in ("bool", "float32")]
    jobs = [own_job(path, **{"task.memory": memory}) for path in paths]
    one, other = (_batch(job.recipe.task.build(0), jax.random.key(0)) for job in jobs)
    np.testing.assert_array_equal(one[0], other[0])
    assert jobs[0].recipe.task.remarks(10) == jobs[1].recipe.task.remarks(10) == []
    assert operator_data.read_inputs(paths[0])["a"].shape == (20, 8)


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


@pytest.mark.parametrize("memory", [4.0, 0.0])
@pytest.mark.parametrize(("name", "row"), [("a", 19), ("a", 5), ("u", 5), ("y", 5), ("u_test", 1)])
def test_values_that_float32_cannot_hold_beside_the_others_are_refused(tmp_path, monkeypatch, name, row, memory):
    """Before training, whether they are loaded or not: rows that the scaling is not measured on, of the test or not."""
    monkeypatch.setattr(operator_data, "_SAMPLE", 2)
    arrays = doubles() | ({"a_test": np.ones((2, 3)), "u_test": np.ones((2, 6))} if name == "u_test" else {})
    arrays["y"] = np.tile(arrays["y"], (20, 1, 1)) if name == "y" else arrays["y"]
    arrays[name][row, 0] = 1e60
    job = own_job(write(tmp_path / "mine.npz", arrays), **{"task.memory": memory})
    with pytest.raises(ValueError, match=f"'{name}' has values so far from the others that float32 cannot hold both"):
        job.recipe.task.build(0)


@pytest.mark.parametrize("memory", [4.0, 0.0])
@pytest.mark.parametrize(("name", "at"), [("a", 5), ("u", 5), ("u", slice(None)), ("y", 2)])
def test_values_beside_which_the_others_fall_together_in_float32_are_refused(tmp_path, name, at, memory):
    """Of functions that are trained on: there nothing overflows, and all but the largest would be one number."""
    arrays = doubles()
    arrays[name][at, 0] = 1e50
    job = own_job(write(tmp_path / "mine.npz", arrays), **{"task.memory": memory})
    with pytest.raises(ValueError, match=f"'{name}' has values so far from the others that float32 cannot hold both"):
        job.recipe.task.build(0)


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
            assert operator_data.check(path).content == expected.hexdigest()[:16]
            for name, (low, high) in operator_data.check(path).spans.items():
                numbers = arrays[name].reshape(-1, 2 if name == "y" else 1)
                np.testing.assert_array_equal([low, high], [numbers.min(axis=0), numbers.max(axis=0)])
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


def test_the_hash_of_the_data_tells_what_is_trained_on_and_not_where_it_is(tmp_path):
    """The same in memory and streamed, in NPZ and HDF5; another with other functions held out, or other numbers."""

    def hash_of(path, memory=4.0, test=0):
        job = own_job(path, **{"task.memory": memory, "task.test": test})
        return data_hash(job, *train.load_tasks(job))

    paths = [write(tmp_path / f"mine{suffix}", own()) for suffix in (".npz", ".h5")]
    (found,) = {hash_of(path, memory) for path in paths for memory in (4.0, 0.0)}
    other = write(tmp_path / "other.npz", own(u=2 * own()["u"]))
    assert len({found, hash_of(paths[0], test=5), hash_of(other), hash_of(other, memory=0.0)}) == 3


def test_the_path_is_no_part_of_a_recipe(tmp_path):
    """The content is: the same file elsewhere, or in another format, is the same run."""
    (tmp_path / "copy").mkdir()
    paths = [write(tmp_path / name, own()) for name in ("mine.npz", "copy/mine.npz", "mine.h5")]
    jobs = [own_job(path) for path in (*paths, write(tmp_path / "copy" / "mine.h5", own(u=2 * own()["u"])))]
    assert [job.folder == jobs[0].folder for job in jobs] == [True, True, True, False]
    assert [job.recipe.task.describe() == jobs[0].recipe.task.describe() for job in jobs] == [True, True, True, False]
    job = own_job(paths[0], **{"task.path": str(paths[1])})
    assert (job.variant, job.folder) == (jobs[0].variant, jobs[0].folder)
    unknown = [OwnOperator(str(path)).describe() for path in paths]  # made by hand: no hash is known of them
    assert len(set(unknown)) == 3


@pytest.mark.parametrize("name", ["test", "functions", "points", "memory"])
def test_a_negative_setting_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match=f"--task.{name} is -3.*; expected 0 or more"):
        own_job(write(tmp_path / "mine.npz", own()), **{f"task.{name}": -3.0 if name == "memory" else -3})


def test_a_memory_that_is_no_number_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"--task\.memory is nan; expected 0 or more"):
        OwnOperator(str(tmp_path / "mine.npz"), memory=float("nan"))
    assert OwnOperator(str(tmp_path / "mine.npz"), memory=float("inf")).memory > 1e9  # all of it


def test_a_file_that_was_written_over_is_streamed_as_it_is_now(tmp_path):
    for kind in (np.float32, np.float64):  # the same shapes, elsewhere in the file
        path = write(tmp_path / "mine.npz", {name: array.astype(kind) for name, array in own().items()})
        recipe = with_values(find_recipe(str(path)).recipe, {"task.functions": 4})
        tasks = [with_values(recipe, {"task.memory": gb}).task.build(0) for gb in (4.0, 0.0)]
        batches = [_batch(task, jax.random.key(0)) for task in tasks]
        for one, other in zip(*batches, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("offset", [0.0, -3.0, 1.7e9])
def test_places_are_told_apart_by_their_order_and_not_by_rounding(offset):
    x = np.random.default_rng(0).uniform(size=(40, 2)) * [1, 3600] + offset
    there = sensors.places({"x": x})
    exchanged = x[[*range(7), 8, 7, *range(9, 40)]]
    for other in (x[::-1], exchanged, x[:-1], x[:, :1], x + np.array([0, 1]), 2 * x - x.min(axis=0)):
        assert not sensors.same_places(there, sensors.places({"x": other}))
    alike = [x, x.reshape(5, 8, 2), np.asfortranarray(x), np.nextafter(x, np.inf)]
    for other in [*alike, *([] if offset > 0 else [x.astype(np.float32)])]:
        assert sensors.same_places(there, sensors.places({"x": other}))
    assert sensors.same_places(there, sensors.places({}))


def test_a_regular_grid_is_the_same_whoever_computed_it():
    for points in (50, 101):
        one, other = np.linspace(0, 1, points)[:, None], jnp.linspace(0, 1, points)[:, None]
        assert (one.astype(np.float32) != other).any()
        assert sensors.same_places(sensors.places({"x": one}), sensors.places({"x": other}))


@pytest.mark.parametrize("count", [50, 200, 1_000, 16_384])
def test_sensors_that_are_bent_are_not_those_of_the_training(count):
    x = np.linspace(0, 1, count)[:, None]
    for other in (x**1.0001, x + 1e-4 * np.sin(np.pi * x)):
        assert not sensors.same_places(sensors.places({"x": x}), sensors.places({"x": other}))


def test_places_of_operators_that_were_saved_before_are_compared_by_their_sums():
    x = np.random.default_rng(0).uniform(size=(40, 2))
    before = json.dumps(json.loads(sensors.places({"x": x}))[:5])
    assert sensors.same_places(before, sensors.places({"x": x}))
    assert not sensors.same_places(before, sensors.places({"x": x[::-1]}))


def test_an_exchange_of_neighbours_on_a_fine_grid_is_seen():
    x = np.stack(np.meshgrid(*[np.linspace(0, 1, 64)] * 2, indexing="ij"), -1)
    exchanged = x.reshape(-1, 2).copy()
    exchanged[[100, 101]] = exchanged[[101, 100]]
    there = sensors.places({"x": x})
    for other in (exchanged, x.transpose(1, 0, 2), x[::-1]):
        assert not sensors.same_places(there, sensors.places({"x": other}))


def test_sensors_that_share_a_coordinate_are_the_same_as_float32():
    x = np.stack([np.linspace(0, 1, 9), np.full(9, 0.1)], -1)
    assert sensors.same_places(sensors.places({"x": x}), sensors.places({"x": x.astype(np.float32)}))
