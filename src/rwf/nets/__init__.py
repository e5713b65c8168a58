"""Coordinate networks, batched: points along the leading axes, coordinates along the last."""

from rwf.nets.activations import ACTIVATIONS, activation
from rwf.nets.classifier import Classifier
from rwf.nets.cnn import ConvolutionalBranch
from rwf.nets.deeponet import DeepONet
from rwf.nets.dense import Dense, glorot
from rwf.nets.mlp import MLP
from rwf.nets.modified_deeponet import ModifiedDeepONet
from rwf.nets.modified_mlp import ModifiedMLP
from rwf.nets.siren import Siren
from rwf.nets.transformer import Transformer

__all__ = [
    "ACTIVATIONS",
    "MLP",
    "Classifier",
    "ConvolutionalBranch",
    "DeepONet",
    "Dense",
    "ModifiedDeepONet",
    "ModifiedMLP",
    "Siren",
    "Transformer",
    "activation",
    "glorot",
]
