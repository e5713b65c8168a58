"""The engine: chunks of jit(members(scan(look(scan(step))))). It counts steps, and writes no file."""

import functools
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int

from rwf.analyze.weight_change import dense_weights, weight_change
from rwf.build import batch_key, member_arrays, member_net, member_recipe
from rwf.job import Job
from rwf.nets.half import halved
from rwf.precision import computing, is_half
from rwf.tasks.base import Task
from rwf.tree import materialize, trainable

CHUNKS = 50  # about so many visits to the host in a run: often enough for progress and checkpoints
UNROLL = 1  # steps in the body of the compiled loop; benchmarks/rates.py tries more


class State(NamedTuple):
    """All that changes in training, members stacked along the first axis; what a checkpoint holds."""

    net: Any
    optimizer: Any
    initial: list[Float[Array, "..."]]
    step: Int[Array, "*members"]
    alive: Bool[Array, "*members"]
    diverged: Int[Array, "*members"]
    factors: Any = ()  # of the terms of the loss, where they are balanced


class Chunk(NamedTuple):
    """What comes back to the host: the state, and the looks at the metrics since the chunk before."""

    state: State
    steps: Int[np.ndarray, " looks"]
    looks: dict[str, np.ndarray]
    seconds: float
    compile_seconds: float


def load_tasks(job: Job) -> tuple[Task, bool]:
    """The task of a job, and whether all members share it; signals of several members are stacked."""
    signals = job.members()["signal"]
    tasks = {signal: job.recipe.task.build(signal) for signal in job.recipe.signals}
    if len(tasks) == 1:
        return tasks[signals[0]], True
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *[tasks[signal] for signal in signals]), False


def start(job: Job) -> State:
    """The state of every member before the first step.

    Not jitted: the compiled draws are shared by all layers of a shape, all members and all jobs of a process,
    and what cannot be parametrized is refused with its path.
    """
    task = job.recipe.task.build(job.recipe.signals[0])

    def member_state(member: Mapping[str, Any]) -> State:
        net = member_net(job, member, task.inputs, task.outputs)
        params = eqx.filter(net, trainable(net))
        optimizer = member_recipe(job, member).optim.build().init(params)
        step, alive, diverged = jnp.int32(0), jnp.bool_(True), jnp.int32(-1)
        weights = dense_weights(materialize(net))
        return State(net, optimizer, weights, step, alive, diverged, _first_factors(task, net))

    members = job.members()
    states = [member_state({name: values[i] for name, values in members.items()}) for i in range(len(members["seed"]))]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)


def chunks(job: Job, task: Task, shared: bool, state: State) -> Iterator[Chunk]:
    """Trains from a state to the last step, a chunk at a time; compiled once, compilation timed apart."""
    recipe, members = job.recipe, member_arrays(job)
    looks = recipe.steps // recipe.log_every
    per_chunk = next(n for n in range(max(1, looks // CHUNKS), 0, -1) if looks % n == 0)
    with computing(recipe.precision):
        clock = time.perf_counter()
        compiled = jax.jit(program(job, per_chunk, shared), donate_argnums=0).lower(state, members, task).compile()
        compile_seconds = time.perf_counter() - clock
    done = int(state.step.max()) // recipe.log_every
    while done < looks:
        clock = time.perf_counter()
        state, measured = compiled(state, members, task)
        on_host = {name: np.asarray(values).T for name, values in measured.items()}
        steps = recipe.log_every * np.arange(done + 1, done + per_chunk + 1)
        yield Chunk(state, steps, on_host, time.perf_counter() - clock, compile_seconds)
        done, compile_seconds = done + per_chunk, 0.0


def _over_members(function: Callable[..., Any], members: int, together: int) -> Callable[..., Any]:
    """Members side by side on an accelerator, `together` at a time; one by one on a CPU, where that is faster."""
    if jax.default_backend() == "cpu" or together == 1:
        return lambda *stacked: jax.lax.map(lambda args: function(*args), stacked)
    if members <= together:
        return jax.vmap(function)
    return lambda *stacked: jax.lax.map(lambda args: function(*args), stacked, batch_size=together)


def program(job: Job, looks: int, shared: bool) -> Callable[..., tuple[State, dict[str, Array]]]:
    """What is compiled for a chunk of so many looks: takes the state, the settings of the members, and the task."""
    one_encoding = len(set(job.members()["seed"])) == 1 and not any(path.startswith("encoding") for path in job.grid)

    def all_members(state: State, members: Mapping[str, Array], task: Task) -> tuple[State, dict[str, Array]]:
        # Where all members share their encoding, so they do the features of fixed points: computed and read once.
        fixed = _fixed(_first(task) if not shared else task, _first(state).net) if one_encoding else None

        first = state.step[0]  # one for all: what depends on the step alone is then done once, not for each member

        def member_program(state: State, member: Mapping[str, Array], task: Task) -> tuple[State, dict[str, Array]]:
            step = _training_step(job, member, task, fixed if one_encoding else _fixed(task, state.net))

            def look(carry: tuple[State, Array], _: None) -> tuple[tuple[State, Array], dict[str, Array]]:
                after, measured = _look(job.recipe.log_every, step, task, *carry)
                return (after, carry[1] + job.recipe.log_every), measured

            (state, _), measured = jax.lax.scan(look, (state, first), None, length=looks)
            return state, measured

        # Gauss–Newton's members are large, and its float64 does not survive a vmap: see optimize/damped.py.
        together = 1 if job.recipe.optim.needs_squares() else job.recipe.together
        every = functools.partial(_over_members, members=len(state.alive), together=together)
        if shared:
            return every(lambda state, member: member_program(state, member, task))(state, members)
        return every(member_program)(state, members, task)

    return all_members


def _first(stacked: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[0], stacked)


def _fixed(task: Task, net: Any) -> Any:
    """The batch of all steps, where a task has one."""
    return task.fixed(materialize(net).encode) if hasattr(net, "encode") else None


def _first_factors(task: Task, net: Any) -> Any:
    """A one for each term of the loss, where the task balances them."""
    if task.balance() is None:
        return ()
    key, step = jax.random.key(0), jnp.int32(0)
    terms = jax.eval_shape(lambda: task.losses(materialize(net), task.batch(key, step), step))
    return {name: jnp.ones(()) for name in terms}


def _training_step(job: Job, member: Mapping[str, Array], task: Task, fixed: Any) -> Callable[..., Any]:
    spec, key = member_recipe(job, member).optim, batch_key(member["seed"])
    optimizer, hold, balance = optax.with_extra_args_support(spec.build()), spec.held_steps(), task.balance()
    half = is_half(job.recipe.precision, jax.default_backend())

    def losses(params: Any, task: Task, frozen: Any, batch: Any, step: Array) -> dict[str, Array]:
        net = materialize(eqx.combine(params, frozen))
        return task.losses(halved(net) if half else net, batch, step)

    def objective(params: Any, factors: Any, *given: Any) -> tuple[Array, dict[str, Array]]:
        terms = losses(params, *given)
        loss = sum(terms.values(), jnp.zeros(()))
        balanced = sum((factors[name] * value for name, value in terms.items()), jnp.zeros(())) if factors else loss
        return balanced, {"loss": loss, **terms}

    def step(frozen: Any, carry: tuple[Any, Any, Any, Array], _: None) -> tuple[Any, dict[str, Array]]:
        params, moments, factors, count = carry
        seen = count - count % hold if hold > 1 else count
        batch = task.batch(jax.random.fold_in(key, seen), seen) if fixed is None else fixed
        now = materialize(eqx.combine(params, frozen))
        here = task.holding(now, batch, seen) if spec.compares_losses() else task
        given = (here, frozen, batch, seen)
        if balance is not None:
            factors = balance.rebalanced(factors, lambda p: losses(p, *given), params, count)
        (value, terms), gradient = jax.value_and_grad(objective, has_aux=True)(params, factors, *given)
        # A line search hands on what else it was given: the step.
        line = {"value": value, "grad": gradient, "value_fn": lambda p, step=None: objective(p, factors, *given)[0]}
        if spec.needs_squares():
            squares = here.squares(now, batch, seen)
            line["squares"] = [group.of(lambda p: materialize(eqx.combine(p, frozen))) for group in squares]
        updates, moments = optimizer.update(gradient, moments, params, step=count, **line)
        return (eqx.apply_updates(params, updates), moments, factors, count + 1), terms

    return step


def _look(
    every: int, step: Callable[..., Any], task: Task, state: State, count: Array
) -> tuple[State, dict[str, Array]]:
    """Some steps, then a look at the metrics; a member that diverged in between goes back to where it was.

    Judged here and not in every step: `where` in every step costs 1.2 to 1.4 times, and is one step late.
    """
    params, frozen = eqx.partition(state.net, trainable(state.net))
    first = (params, state.optimizer, state.factors, count)
    carry, terms = jax.lax.scan(lambda carry, x: step(frozen, carry, x), first, None, length=every, unroll=UNROLL)
    last = {name: values[-1] for name, values in terms.items()}
    net = eqx.combine(carry[0], frozen)
    sound = _all_finite((last["loss"], carry[0]))
    alive = state.alive & sound
    kept, moments, factors = jax.tree.map(
        lambda new, old: jnp.where(alive, new, old), (net, *carry[1:3]), (state.net, state.optimizer, state.factors)
    )
    diverged = jnp.where(state.alive & ~sound, state.step + every, state.diverged)
    plain = materialize(kept)
    measured = task.metrics(plain) | {"weight_change": weight_change(plain, state.initial)}
    after = State(kept, moments, state.initial, carry[3], alive, diverged, factors)
    losses = {name: jnp.where(alive, value, jnp.nan) for name, value in last.items()}
    return after, {**losses, **measured, "alive": alive}


def _all_finite(tree: Any) -> Bool[Array, ""]:
    """A finite loss can have gradients that are not: so the parameters are looked at too."""
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)]).all()
