"""A plain checkpoint that is loaded into a parametrized model: a warning beside torch's list of keys."""

# PyTorch is optional: where it is absent, pyright takes this package for it.
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import warnings
from typing import Any

from torch import nn

from rwf.interop.torch.modules import Parametrization


def warn_of_plain_checkpoints(module: nn.Module) -> None:
    """Lets a parametrized layer warn when it is given its plain weight, which it has no place for.

    A warning, for torch does not tell a layer whether all keys have to fit (`strict`). It is in the class that torch
    made for this layer, and goes with it when the layer is folded.
    """
    kind: Any = type(module)
    plain = kind.__bases__[0]

    def load(self: Any, state: Any, prefix: str, *rest: Any) -> None:
        plain._load_from_state_dict(self, state, prefix, *rest)
        for name, chain in self.parametrizations.items():
            ours, factor = isinstance(chain[0], Parametrization), f"{prefix}parametrizations.{name}.original0"
            if ours and f"{prefix}{name}" in state and factor not in state:
                warnings.warn(
                    "The checkpoint holds plain weights, and the model is parametrized by rwf: its weights are not "
                    "loaded. Load it before `factorize`; or fold the model, load it and factorize again.",
                    stacklevel=2,
                )

    kind._load_from_state_dict = load
