"""Which framework a model belongs to; the program of either."""

from typing import Any

from rwf.export.program import Program


def is_torch(model: Any) -> bool:
    """Whether a model is a PyTorch module; PyTorch is not imported to find out."""
    home = ("torch.nn.modules.module", "Module")
    return any((kind.__module__, kind.__name__) == home for kind in type(model).__mro__)


def program_of(model: Any, *examples: Any, batched: bool = True) -> Program:
    """What a model, folded, computes."""
    if not examples:
        raise TypeError("Pass an example of each input, e.g. np.zeros((1, 2), np.float32): its shape and dtype count.")
    if is_torch(model):
        from rwf.export.trace_torch import trace
    else:
        from rwf.export.trace import trace
    return trace(model, *examples, batched=batched)
