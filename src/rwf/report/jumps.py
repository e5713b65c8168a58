"""Trainings whose loss jumped: a sign that the rate is near the largest that works, and that a mean hides two kinds."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from rwf.record import Run
from rwf.report.names import contender

if TYPE_CHECKING:
    from rwf.report.records import Record

FACTOR = 10  # over the lowest loss that was seen before; batches and spikes of full batches stay below, by and large


def jumped(run: Run, index: int) -> int | None:
    """The first step at which a member's loss was seen to be many times its lowest before; 0 where it never was.

    None where nothing can be said: a curriculum makes a problem harder on its way, and its loss jumps for that reason.
    """
    if run.info["recipe"]["task"].get("curriculum", {}).get("values") or "loss" not in run.curves:
        return None
    found = first_jump(run.curves["loss"][:, index])
    return 0 if found is None else int(run.curves["step"][found])


def first_jump(loss: Float[np.ndarray, " looks"]) -> int | None:
    """The number of the first look at which a loss was many times its lowest before; NaN is no look."""
    lowest = np.fmin.accumulate(loss)
    found = np.flatnonzero(loss[1:] > FACTOR * lowest[:-1])
    return int(found[0]) + 1 if len(found) else None


def jump_notes(records: Sequence["Record"]) -> list[str]:
    """One sentence for each line of a table with members whose loss jumped, and of how many lines nobody knows."""
    found, unknown = [], 0
    for record in (record for record in records if record.in_tables):
        known = [member.jumped for member in record.members if member.jumped is not None]
        unknown += not known
        if steps := [step for step in known if step]:
            found.append(
                f"{contender(record.parametrization, record.tuned)}, {record.variant}: the loss of {len(steps)} of "
                f"{len(known)} jumped to more than {FACTOR} times its lowest before, first at step {min(steps):,}."
            )
    return [*found, f"Jumps were not counted in {unknown} of the rows."] if found and unknown else found
