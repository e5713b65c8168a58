"""What is a normalization layer, by the name of its type or of its place: no framework is imported to find out."""

import re
from typing import Any

# LayerNorm, RMSNorm, BatchNorm2d, LayerNorm_0, norm1. Weight normalization is none: what it holds is a weight.
_NORM = re.compile(r"(?<!weight)(?<!weight_)norm_?(\d+d?)?$", re.IGNORECASE)


def is_norm_name(name: str) -> bool:
    """Whether a class or a collection of parameters is called as norms are.

    >>> [name for name in ("LayerNorm_0", "BatchNorm2d", "norm1", "WeightNorm", "normal") if is_norm_name(name)]
    ['LayerNorm_0', 'BatchNorm2d', 'norm1']
    """
    return _NORM.search(name) is not None


def is_norm(layer: Any) -> bool:
    """Whether a layer is a normalization: its class, or one that it inherits from, is called as norms are."""
    return any(is_norm_name(kind.__name__) for kind in type(layer).__mro__)
