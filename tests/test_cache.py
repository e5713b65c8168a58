"""The cache of generated data: made once, found again, never trusted when it is not whole."""

import numpy as np
import pytest

from rwf.signals import cache, grf
from rwf.solvers import burgers


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RWF_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Maker:
    """Makes an array, and counts how often."""

    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return {"u": np.arange(6.0).reshape(2, 3)}


def get(make, settings=None, source=(grf,)):
    return cache.cached("data", settings or {"n": 1}, make, source=source)["u"]


def test_data_is_made_once_and_read_ever_after(folder):
    make = Maker()
    np.testing.assert_array_equal(get(make), get(make))
    assert make.calls == 1
    assert len(list(folder.iterdir())) == 1


def test_other_settings_and_other_code_are_other_data(folder):
    make = Maker()
    get(make), get(make, {"n": 2}), get(make, source=(burgers,))
    assert make.calls == 3
    assert len(list(folder.iterdir())) == 3


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b[:-1] + bytes([b[-1] ^ 1]), lambda b: b""])
def test_a_torn_or_altered_file_is_made_again(folder, damage):
    make = Maker()
    get(make)
    (path,) = folder.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    np.testing.assert_array_equal(get(make), np.arange(6.0).reshape(2, 3))
    assert make.calls == 2
    get(make)
    assert make.calls == 2  # and it is whole again


def test_a_file_of_other_settings_under_this_name_is_made_again(folder):
    make = Maker()
    get(make)
    (stale,) = folder.iterdir()
    get(make, {"n": 2})
    (other,) = set(folder.iterdir()) - {stale}
    stale.replace(other)
    get(make, {"n": 2})
    assert make.calls == 3


def test_a_folder_that_cannot_be_written_costs_time_alone(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RWF_CACHE", str(tmp_path / "file"))
    make = Maker()
    np.testing.assert_array_equal(get(make), get(make))
    assert make.calls == 2


def test_what_is_cached_cannot_be_changed_by_accident():
    array = get(Maker())
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        get(Maker())[0, 0] = 1


def test_without_a_variable_it_is_the_users_folder_of_caches(monkeypatch, tmp_path):
    monkeypatch.delenv("RWF_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.cache_folder() == tmp_path / "rwf"
