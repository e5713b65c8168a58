"""The figures of a report: some for every case, some for one case alone."""

from collections.abc import Callable, Sequence

from rwf.report.figures import generic, landscape
from rwf.report.figures.ablation import ablation
from rwf.report.figures.drawing import Drawing
from rwf.report.figures.regression_1d import comparison
from rwf.report.figures.style import png, style
from rwf.report.records import Record

# A case with figures of its own adds a line.
_OWN: dict[str, tuple[Callable[[Sequence[Record]], Drawing | None], ...]] = {
    "regression-1d": (comparison, ablation, lambda records: landscape.figure()),
}

__all__ = ["Drawing", "figures_for", "png", "style"]


def figures_for(case: str, records: Sequence[Record]) -> list[Drawing]:
    """The figures of one case that its records have the material for."""
    mine = [record for record in records if record.case == case]
    with style():
        own = [draw(mine) for draw in _OWN.get(case, ())]
        return [drawing for drawing in own if drawing is not None] + generic.figures(mine)
