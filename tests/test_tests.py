"""The tests themselves: one that cannot be imported fails, and is not passed over."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np

HERE = Path(__file__).parent


def test_a_test_that_cannot_be_imported_fails(tmp_path):
    """Doctests of src forgive an absent import; with their collector a broken test was skipped without a word."""
    (tmp_path / "tests").mkdir()
    shutil.copy(HERE / "conftest.py", tmp_path / "tests")
    shutil.copy(HERE.parent / "pyproject.toml", tmp_path)
    (tmp_path / "README.md").touch()
    (tmp_path / "tests" / "test_broken.py").write_text("from rwf import no_such_name\n\n\ndef test():\n    pass\n")
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent / "src")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "no_such_name" in done.stdout


def test_a_product_and_a_sum_in_one_program_are_rounded_once():
    """The flags of conftest.py leave that to XLA: what is fused otherwise differs, and a test of bits can fail."""
    x, y, z = np.random.default_rng(0).normal(size=(3, 64)).astype(np.float32)
    assert (np.asarray(jax.jit(lambda x, y, z: x * y + z)(x, y, z)) != x * y + z).any()


PROMISED_BITS = [
    "test_train.py::test_a_member_does_not_depend_on_the_others",
    "test_train.py::test_chunk_length_leaves_the_bits_alone",
    "test_train.py::test_how_often_one_looks_leaves_the_bits_alone",
    "test_train.py::test_signals_are_members_with_their_own_data",
    "test_run.py::test_a_run_past_its_deadline_is_saved_and_goes_on_to_the_same_bits",
    "test_run.py::test_resume_equals_uninterrupted",
    "test_run.py::test_a_run_in_memory_is_resumed_as_one_that_is_streamed",
    "test_tree_fold.py::test_fold_gives_back_the_structure_and_the_bits_of_training",
]


def test_promised_bits_are_the_same_with_xla_as_it_is():
    """As a person's programs are compiled, without the flags of conftest.py."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command += [str(HERE / name) for name in PROMISED_BITS]
    done = subprocess.run(
        command, cwd=HERE.parent, env=environment | {"XLA_FLAGS": ""}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
