"""What an edited problem is told by: the code of its file, and of the neighbours that it imports."""

import subprocess
import sys
from dataclasses import dataclass

import pytest

from problems import Heat
from rwf.pde import recipe
from rwf.pde.source import source_of
from rwf.registry import find_recipe

_FILE = """from dataclasses import dataclass
from rwf.pde import Box, Problem, at, recipe
IMPORT

@dataclass(frozen=True)
class Decay(Problem):
    domain = Box(t=(0.0, 1.0))

    def residual(self, u):
        return u.t - rhs(u)

RECIPES = {"decay": recipe(Decay())}
"""
_PHYSICS = "def rhs(u):\n    return -5 * u\n"


@pytest.fixture
def hash_of(tmp_path, monkeypatch):
    """Hashes a file among others, as if it had just been loaded."""

    def hashed(files):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        module = type(sys)("rwf_user_decay")
        module.__file__ = str(tmp_path / "decay.py")
        monkeypatch.setitem(sys.modules, "rwf_user_decay", module)
        return source_of("rwf_user_decay")

    return hashed


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("from physics import rhs", "physics.py"),
        ("import physics", "physics.py"),
        ("from laws import physics", "laws/physics.py"),
        ("from laws.physics import rhs", "laws/physics.py"),
        ("from laws import rhs", "laws/__init__.py"),
    ],
)
def test_an_edit_in_an_imported_neighbour_is_another_source(hash_of, line, path):
    files = {"decay.py": _FILE.replace("IMPORT", line), "laws/__init__.py": "", path: _PHYSICS}
    before = hash_of(files)
    assert hash_of(files | {path: _PHYSICS.replace("5", "6")}) != before
    assert hash_of(files | {path: f"# a comment\n{_PHYSICS}"}) == before


def test_a_neighbour_of_a_neighbour_counts_too(hash_of):
    files = {
        "decay.py": _FILE.replace("IMPORT", "from laws import rhs"),
        "laws/__init__.py": "from .physics import rhs",
        "laws/physics.py": "from . import rates\nfrom decay import Decay",  # in a circle
        "laws/rates.py": "RATE = 5",
    }
    assert hash_of(files) != hash_of(files | {"laws/rates.py": "RATE = 6"})


def test_files_that_are_not_imported_do_not_count(hash_of):
    text = _FILE.replace("IMPORT", "import json\nimport numpy as np\nfrom rwf import pde")
    alone = hash_of({"decay.py": text})
    assert hash_of({"decay.py": text, "physics.py": _PHYSICS, "rwf/pde.py": ""}) == alone


def test_a_neighbour_called_like_a_module_of_python_counts(hash_of):
    """Python takes it from the folder, unless it has read its own already."""
    files = {"decay.py": _FILE.replace("IMPORT", "from profile import rhs"), "profile.py": _PHYSICS}
    assert hash_of(files) != hash_of(files | {"profile.py": _PHYSICS.replace("5", "6")})


@pytest.mark.parametrize("name", ["RECIPES", "QUICK", "STUDIES"])
def test_recipes_do_not_count_with_a_type_either(hash_of, name):
    assert hash_of({"decay.py": f"{name}: dict = {{1: 2}}\nk = 1"}) == hash_of({"decay.py": f"{name} = {{}}\nk = 1"})
    assert hash_of({"decay.py": "other: dict = {1: 2}"}) != hash_of({"decay.py": "other: dict = {}"})


def test_a_result_for_other_neighbours_is_not_taken_for_done(tmp_path):
    (tmp_path / "decay.py").write_text(_FILE.replace("IMPORT", "from physics import rhs"))
    program = "import sys; from rwf.registry import find_recipe; print(find_recipe(sys.argv[1]).recipe.task.source)"
    told = []
    for rate in "556":
        (tmp_path / "physics.py").write_text(_PHYSICS.replace("5", rate))
        command = [sys.executable, "-B", "-c", program, str(tmp_path / "decay.py")]
        told.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert told[0] == told[1] != told[2]


def rate_of(file):
    """The rate that a file's problem computes with: its residual at u = 1 where u does not change."""

    class One(float):
        t = 0.0

    return find_recipe(str(file)).recipe.task.residual(One(1.0))


def test_a_neighbour_is_that_of_the_folder_and_as_it_is_now(tmp_path, monkeypatch):
    """In one process, as in a notebook: Python would give the module that it has read before."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for folder, rate in (("a", "5"), ("b", "6")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "decay.py").write_text(_FILE.replace("IMPORT", "from physics import rhs"))
        (tmp_path / folder / "physics.py").write_text(_PHYSICS.replace("5", rate))
        (tmp_path / folder / "__main__.py").write_text("")
    running = sys.modules["__main__"]
    assert [rate_of(tmp_path / folder / "decay.py") for folder in "aba"] == [5, 6, 5]
    assert sys.modules["__main__"] is running
    (tmp_path / "a" / "physics.py").write_text(_PHYSICS.replace("5", "7"))
    assert rate_of(tmp_path / "a" / "decay.py") == 7


def test_a_neighbour_can_be_imported_within_a_function(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    lazy = _FILE.replace("IMPORT", "").replace("        return u.t", "        from late import rhs\n        return u.t")
    (tmp_path / "decay.py").write_text(lazy)
    (tmp_path / "late.py").write_text(_PHYSICS)
    assert rate_of(tmp_path / "decay.py") == 5


def test_a_problem_that_does_not_note_its_source_is_refused():
    @dataclass(frozen=True)
    class Silent(Heat):
        def __post_init__(self):
            pass

    with pytest.raises(ValueError, match=r"Silent.__post_init__ .* begin it with super\(\).__post_init__\(\)"):
        recipe(Silent())
