"""Trainings that jumped: a sign that the rate is near the largest that works, and that a mean hides two kinds."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from rwf.record import Run
from rwf.report.names import contender

if TYPE_CHECKING:
    from rwf.report.records import Record

FACTOR = 10  # in squares, over the lowest that was seen before; batches and spikes of full batches stay below, mostly
_ERROR = "rel_l2"  # of a test, where there is one: a batch may be hard, and its loss large for that reason alone


def jumped(run: Run, index: int) -> int | None:
    """The first step at which a member's test error, or its loss, was many times its lowest before; 0 for never.

    None where nothing can be said: a curriculum makes a problem harder on its way, and its loss jumps for that reason.
    """
    if run.info["recipe"]["task"].get("curriculum", {}).get("values") or "loss" not in run.curves:
        return None
    squares = run.curves[_ERROR][:, index] ** 2 if _ERROR in run.curves else run.curves["loss"][:, index]
    found = first_jump(squares)
    return 0 if found is None else int(run.curves["step"][found])


def first_jump(squares: Float[np.ndarray, " looks"]) -> int | None:
    """The number of the first look at which a loss was many times its lowest before; NaN is no look."""
    lowest = np.fmin.accumulate(squares)
    found = np.flatnonzero(squares[1:] > FACTOR * lowest[:-1])
    return int(found[0]) + 1 if len(found) else None


def jump_notes(records: Sequence["Record"]) -> list[str]:
    """One sentence for each line of a table with members that jumped, and of how many lines nobody knows."""
    found, unknown = [], 0
    for record in records:
        known = [member.jumped for member in record.members if member.jumped is not None]
        unknown += not known
        if steps := [step for step in known if step]:
            what, times = ("test error", f"{math.sqrt(FACTOR):.1f}") if _ERROR in record.metrics else ("loss", FACTOR)
            others = len(record.members) - len(known)
            found.append(
                f"{contender(record.parametrization, record.tuned)}, {record.variant}: the {what} of {len(steps)} of "
                f"{len(known)} jumped to more than {times} times its lowest before, first at step {min(steps):,}"
                f"{f'; {others} others were not looked at' if others else ''}."
            )
    return [*found, f"Jumps were not counted in {unknown} of the rows."] if found and unknown else found
