"""Recipes: all that decides a result, as data. Strings and numbers become objects here, and only here.

Import from here, `from rwf.recipe import MLP, Adam, Recipe`: which module holds a spec is no promise.
"""

from rwf.recipe.encoding import Affine, EncodingSpec, Gaussian, Identity, Periodic, Positional, PositionalFromZero
from rwf.recipe.exchange import exchange_name, exchanged, lost_settings
from rwf.recipe.net import MLP, Classifier, DeepONet, ModifiedDeepONet, ModifiedMLP, NetSpec, Siren, Transformer
from rwf.recipe.optimizer import LBFGS, SOAP, Adam, GaussNewton, OptimizerSpec, RestartedAdam
from rwf.recipe.recipe import PARAMETRIZATIONS, Factorization, Parametrization, Recipe, TaskSpec

__all__ = [
    "LBFGS",
    "MLP",
    "PARAMETRIZATIONS",
    "SOAP",
    "Adam",
    "Affine",
    "Classifier",
    "DeepONet",
    "EncodingSpec",
    "Factorization",
    "GaussNewton",
    "Gaussian",
    "Identity",
    "ModifiedDeepONet",
    "ModifiedMLP",
    "NetSpec",
    "OptimizerSpec",
    "Parametrization",
    "Periodic",
    "Positional",
    "PositionalFromZero",
    "Recipe",
    "RestartedAdam",
    "Siren",
    "TaskSpec",
    "Transformer",
    "exchange_name",
    "exchanged",
    "lost_settings",
]
