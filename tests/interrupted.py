"""Runs that are stopped in the middle, and whether two runs came to the same result."""

import contextlib
import os
import shutil
import signal

import numpy as np
import pytest

from rwf import record
from rwf.progress import Progress
from rwf.run import InterruptedRunError, run_job
from rwf.tensors import read_tensors
from small import small_job

QUIET = Progress(quiet=True)


class StopAt(Progress):
    """A progress that stops a run at a step, as Ctrl-C does, and remembers what was noted."""

    def __init__(self, step):
        super().__init__(quiet=True)
        self.step, self.notes = step, []

    def note(self, text, **_):
        self.notes.append(text)

    @contextlib.contextmanager
    def bar(self, title, steps, first=0):
        yield self

    def advance(self, step, look):
        if step == self.step:
            os.kill(os.getpid(), signal.SIGINT)


def weights(folder):
    return read_tensors(folder / "weights.safetensors")[0]


def assert_same_result(first, second):
    a, b = weights(first), weights(second)
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)
    curves = [record.read_run(folder).curves for folder in (first, second)]
    for name in set(curves[0]) - {"seconds"}:
        np.testing.assert_array_equal(curves[0][name], curves[1][name], err_msg=name)


class Complete:
    """Complete runs of the small recipe, each trained once, to have copies of."""

    def __init__(self, make_folder):
        self.make_folder, self.trained = make_folder, {}

    def __call__(self, name, root):
        """A copy below another root, as if it had been trained there."""
        job = small_job(name)
        if name not in self.trained:
            self.trained[name] = run_job(job, self.make_folder(name), progress=QUIET)
        return shutil.copytree(self.trained[name], root / job.folder)


def interrupted(job, root, step=20):
    with pytest.raises(InterruptedRunError, match="saved"):
        run_job(job, root, progress=StopAt(step), checkpoint_seconds=0.0)
    return root / job.folder
