"""The tests themselves: one that cannot be imported fails, and is not passed over."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

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
