"""Parametrizations of weights, one node a file. Plain is their absence."""

from rwf.parametrize.adaptive import Adaptive, adaptive
from rwf.parametrize.factorized import Factorized, LogFactorized, norm_factorization, random_factorization
from rwf.parametrize.frozen import Frozen
from rwf.parametrize.layer import Layer
from rwf.parametrize.node import Node, NotMaterializedError
from rwf.parametrize.weight_norm import WeightNorm, weight_norm

__all__ = [
    "Adaptive",
    "Factorized",
    "Frozen",
    "Layer",
    "LogFactorized",
    "Node",
    "NotMaterializedError",
    "WeightNorm",
    "adaptive",
    "norm_factorization",
    "random_factorization",
    "weight_norm",
]
