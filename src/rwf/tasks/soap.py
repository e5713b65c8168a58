"""Does RWF still help under SOAP? Advection and the cavity again, with that optimizer and fewer steps: one table.

`rwf reproduce soap` runs both, with Plain at RWF's first effective rate and tuned rates beside them.
"""

from dataclasses import replace

from rwf.pde import Curriculum
from rwf.recipe import SOAP, Recipe
from rwf.study import Beside, Study
from rwf.tasks import advection, cavity

# The rate falls by as much as in the paper's recipes, in a quarter and in half of their steps.
_ADVECTION = replace(
    advection.RECIPES["advection/regular"],
    name="soap/advection",
    case="soap",
    variant="advection",
    optim=SOAP(lr=3e-3, decay_rate=0.9, decay_steps=1_250),
    steps=50_000,
)


def _shorter(recipe: Recipe) -> Recipe:
    return replace(
        recipe,
        name="soap/cavity",
        case="soap",
        variant="cavity",
        task=replace(recipe.task, curriculum=Curriculum("reynolds", (100.0, 500.0), steps=10_000)),
        optim=SOAP(lr=3e-3, decay_rate=0.9, decay_steps=1_000),
        steps=60_000,
    )


RECIPES = {recipe.name: recipe for recipe in (_ADVECTION, _shorter(cavity.RECIPES["cavity/modified-mlp"]))}
QUICK = {
    "soap/advection": advection.QUICK["advection/regular"] | {"steps": 1_000},  # they take longer, and go further
    "soap/cavity": cavity.QUICK["cavity/modified-mlp"],
}
_NAMES = tuple(RECIPES)
STUDIES = {"soap": Study(recipes=_NAMES, tuned=_NAMES, beside=tuple(Beside(n, faster=True) for n in _NAMES))}
