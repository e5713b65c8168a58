"""A recipe small enough for tests: the 1D regression with 16 points and a net of 8 neurons."""

from rwf.job import Job
from rwf.recipe import MLP, Adam, Recipe
from rwf.spec import with_values
from rwf.tasks.regression_1d import GaussianField1D

SMALL = Recipe(
    name="small",
    case="regression-1d",
    task=GaussianField1D(points=16, length_scale=0.2),
    net=MLP(depth=2, width=8, activation="tanh"),
    optim=Adam(lr=1e-2, decay_rate=0.9, decay_steps=100),
    steps=40,
    log_every=10,
    seeds=2,
)


def small_job(parametrization="rwf", grid=None, **settings):
    """A job of the small recipe; settings by dotted path, with `__` for the dot."""
    changed = {path.replace("__", "."): value for path, value in settings.items()}
    return Job(with_values(SMALL, changed), parametrization, SMALL, grid=grid or {})


def train_all(job):
    """The last state and all looks of a job, trained in memory."""
    import numpy as np

    from rwf import train

    task, shared = train.load_tasks(job)
    state, looks = train.start(job), []
    for chunk in train.chunks(job, task, shared, state):
        state = chunk.state
        looks.append(chunk.looks)
    return state, {name: np.concatenate([look[name] for look in looks]) for name in looks[0]}
