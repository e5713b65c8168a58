"""The figures of a report: some for every case, some for one case alone."""

import functools
from collections.abc import Callable, Sequence

from rwf.report.figures import cavity, generic, landscape, nerf, operators, pictures, shape, siren
from rwf.report.figures.ablation import ablation
from rwf.report.figures.drawing import Drawing
from rwf.report.figures.regression_1d import comparison
from rwf.report.figures.solutions import solutions
from rwf.report.figures.style import mark, png, style
from rwf.report.records import Record

_Draws = dict[str, tuple[Callable[[Sequence[Record]], Drawing | list[Drawing] | None], ...]]

# A case with figures of its own adds a line.
_OWN: _Draws = {
    "regression-1d": (comparison, ablation),
    "nerf/lego": (nerf.views,),
    "advection": tuple(functools.partial(solutions, variant=v) for v in ("regular", "curriculum", "causal")),
    "cavity": (cavity.mlp, cavity.modified_mlp, cavity.ours, cavity.best_beyond),
    "soap": (functools.partial(solutions, variant="advection"), cavity.under_soap),
    **dict.fromkeys(("image/natural", "image/text", "ct/shepp", "ct/brain"), (pictures.comparison,)),
    **dict.fromkeys(("shape/dragon", "shape/armadillo"), (shape.surfaces,)),
    **dict.fromkeys(("dr", "darcy", "burgers"), (operators.predictions, operators.spread)),
}
# A person's own case may be a picture, a PDE, or an operator.
_ANYBODYS = (pictures.own, solutions, operators.predictions, operators.spread)
# Figures with a panel for each case of a family, `image/natural` and `image/text`: drawn with the first of them.
_FAMILY: _Draws = {"image": (siren.sweep,), "ct": (siren.sweep,)}
# Figures of the theory, which show no run.
_THEORY = {"regression-1d": (landscape.figure,)}

__all__ = ["Drawing", "figures_for", "png", "style"]


def figures_for(case: str, records: Sequence[Record]) -> list[Drawing]:
    """The figures of one case that the records have the material for; other cases' may stand beside it in one."""
    mine = [record for record in records if record.case == case]
    family = case.partition("/")[0]
    related = [record for record in records if record.case.partition("/")[0] == family]
    with style():
        own = [(draw(mine), mine) for draw in _OWN.get(case, _ANYBODYS)]
        if related and related[0].case == case:
            own += [(draw(related), related) for draw in _FAMILY.get(family, ())]
        own += [(generic.figures(mine), mine)]
        drawn = [_marked(drawing, drawing.records or shown) for found, shown in own for drawing in _each(found)]
        return drawn + [draw() for draw in _THEORY.get(case, ())]


def _each(found: Drawing | list[Drawing] | None) -> list[Drawing]:
    """One figure, several or none, as a list."""
    return found if isinstance(found, list) else [] if found is None else [found]


def _marked(drawing: Drawing, records: Sequence[Record]) -> Drawing:
    """A figure that says that its runs are quick or its data a stand-in: a picture may leave its page."""
    marks = ["QUICK: not the full recipe"] if any(record.quick for record in records) else []
    marks += ["stand-in data"] if any(record.stand_in for record in records) else []
    if not marks:
        return drawing
    mark(drawing.figure, "; ".join(marks))
    return drawing._replace(caption=f"{drawing.caption} {'; '.join(marks).capitalize()}.")
