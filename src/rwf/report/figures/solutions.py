"""Figures of differential equations: in one coordinate lines, in two maps with errors as in the paper, in more cuts."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from rwf.pde import PDETask
from rwf.precision import computing
from rwf.report.figures.drawing import Drawing
from rwf.report.figures.shown import seed_of, settings
from rwf.report.figures.solution_maps import Cut, Solved, cuts, drawn_maps
from rwf.report.figures.style import INK, blank, colour, legend_below
from rwf.report.names import PARAMETRIZATIONS
from rwf.report.records import Record
from rwf.tree import materialize

if TYPE_CHECKING:
    import matplotlib.figure


def solutions(records: Sequence[Record], variant: str | None = None) -> list[Drawing]:
    """The figures of one way of training, or of each that is a recipe's own, or else of the first there is.

    There are none without weights, or where it is no PDE. In one coordinate a way has one figure, a panel an unknown;
    in more, a figure an unknown.
    """
    found = dict(settings(records))
    if variant is not None:
        return _drawn(variant, found.get(variant, {}))
    own = [drawing for name in found if "+" not in name for drawing in _drawn(name, found[name])]
    return own or next((drawn for name in found if "+" in name and (drawn := _drawn(name, found[name]))), [])


def _drawn(variant: str, found: Mapping[str, Record]) -> list[Drawing]:
    shown = [solved for record in found.values() if (solved := _read(record)) is not None]
    if not shown:
        return []
    title, mine = f"Solutions ({variant})", [solved.record for solved in shown]
    seed = seed_of(mine)
    if shown[0].task.inputs == 1:
        also = ", and the exact solution, dashed" if shown[0].exact else ""
        return [Drawing(title, f"What {seed} of each found{also}.", _drawn_lines(shown), mine)]
    several = len(shown[0].found) > 1
    return [
        Drawing(
            f"{title}: {name}" if several else title,
            _caption(shown[0], name, seed),
            drawn_maps(shown, name),
            mine,
        )
        for name in shown[0].found
    ]


def _caption(solved: Solved, unknown: str, seed: str) -> str:
    """How to read the maps of an unknown."""
    sentences = [f"The unknown {unknown}."] if len(solved.found) > 1 else []
    if unknown in solved.exact:
        sentences += [f"Top: the exact solution, and what {seed} of each found."]
        sentences += ["Below: the error, one scale for all."]
    else:
        sentences += [f"What {seed} of each found."]
    return " ".join([*sentences, *_where(solved.cuts)])


def _where(shown: Sequence[Cut]) -> list[str]:
    """At which values of the coordinates that are not drawn; nothing where all are."""
    if not shown[0].at:
        return []
    sliced, *others = shown[0].at
    rows = f"Rows: {sliced} = {', '.join(f'{cut.at[sliced]:.3g}' for cut in shown)}"
    middle = [f"{name} = {shown[0].at[name]:.3g}" for name in others]
    return [f"{'; everywhere '.join([rows, *([', '.join(middle)] if middle else [])])}."]


def _read(record: Record) -> Solved | None:
    """Reads the first member of a record of a differential equation."""
    if not record.at_hand:
        return None
    member, run = record.at_hand[0]
    if "curriculum" not in run.info["recipe"]["task"]:
        return None
    if not (run.folder / "weights.safetensors").exists():
        return None
    try:
        task = run.task(member.index)
    except ValueError:  # a person's own problem, whose file this process has not read
        return None
    if not isinstance(task, PDETask) or not task.problem.is_as_it_was:
        return None
    unknowns, counts, shown = task.problem.unknowns, task.problem.counts, cuts(task)
    test = task.test.reshape(*counts, task.inputs)
    points = jnp.stack([test[cut.part] for cut in shown])
    with computing(run.job.recipe.precision):
        net = materialize(run.net(member.index))
        values = task.problem.ansatz(net, points.reshape(-1, task.inputs))
    values = np.asarray(values).reshape(*points.shape[:-1], len(unknowns))
    found = {name: values[..., i] for i, name in enumerate(unknowns)}
    target = np.zeros((0, 0)) if task.target is None else np.asarray(task.target)
    whole = {unknowns[i]: target[:, j].reshape(counts) for j, i in enumerate(task.compared)}
    exact = {name: np.stack([grid[cut.part] for cut in shown]) for name, grid in whole.items()}
    return Solved(record, task, shown, found, exact)


def _drawn_lines(shown: Sequence[Solved]) -> "matplotlib.figure.Figure":
    """The solutions of an ODE, a panel an unknown."""
    task, unknowns = shown[0].task, list(shown[0].found)
    columns = min(3, len(unknowns))
    rows = -(-len(unknowns) // columns)
    figure = blank(0.4 + 2.9 * rows, width=min(11.0, 3.0 + 4.0 * columns))
    along = np.asarray(task.test)[:, 0]
    for i, unknown in enumerate(unknowns):
        axes = figure.add_subplot(rows, columns, i + 1)
        for solved in shown:
            name = PARAMETRIZATIONS[solved.record.parametrization]
            axes.plot(along, solved.found[unknown][0], color=colour(solved.record), label=name)
        if unknown in shown[0].exact:
            axes.plot(along, shown[0].exact[unknown][0], "--", color=INK, linewidth=1.2, label="exact")
        axes.set(xlabel=task.problem.domain.names[0], ylabel=unknown)
        axes.margins(x=0)
    legend_below(figure)
    return figure
