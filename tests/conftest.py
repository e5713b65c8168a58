"""Strictness for every test: the shapes and types of public functions are checked at run time."""

import gc
import os
import pkgutil
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")
if os.environ["JAX_PLATFORMS"] == "cpu":
    # Nearly half of the time was XLA's, for programs that run once on a few points: with fewer passes of LLVM, and the
    # older emitters of loops, it takes half as long. What is fused is fused as ever, and rounded once. `test_tests.py`
    # looks at that, and runs the tests of promised bits with XLA as it is; `XLA_FLAGS= make test` runs all of them so.
    emitters = " --xla_cpu_use_fusion_emitters=false" if version("jaxlib").startswith("0.10.") else ""  # or XLA aborts
    os.environ.setdefault("XLA_FLAGS", f"--xla_backend_optimization_level=1{emitters}")
# As many processes as cores run tests: threads of NumPy's BLAS would only wait for one another, at full speed.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Many tests compile the same small programs, in two processes and in those that they start: once is enough.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "programs"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

import pytest
from jaxtyping import install_import_hook

import rwf

# Not rwf.recipe: its numbers are floats to people and to tyro, and may be traced arrays in the engine.
_MODULES = [f"rwf.{info.name}" for info in pkgutil.iter_modules(rwf.__path__)]
install_import_hook([name for name in _MODULES if name != "rwf.recipe"], "beartype.beartype")


def pytest_make_parametrize_id(val, argname):
    """Bytes never name a test: compressed ones hold the time, and two workers would then disagree on the tests."""
    return f"{argname}-{len(val)}-bytes" if isinstance(val, bytes) else None


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path, parent):
    """Doctests are for modules of src, where an optional import may be absent; a test that cannot be imported fails."""
    return [found for found in (yield) if type(found).__name__ != "DoctestModule"]


def pytest_collection():
    """Nothing of what is imported is garbage: to look for some took a third of the time of collecting the tests."""
    gc.disable()


def pytest_collection_finish():
    """Nor is it looked at again. What JAX keeps of each program is looked at now and then, not every 700 objects."""
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()
