"""Random weight factorization in any PyTorch model: one line in, one line out.

    model = rwf.interop.torch.factorize(model, seed=0)       # in place: W becomes diag(s) V, the function stays
    optimizer = torch.optim.Adam(model.parameters())         # after factorize, so that it sees s and V
    model = rwf.interop.torch.fold(model)                    # in place: plain weights and classes again

`normalize` and `adapt` do the same for weight normalization and adaptive activations.
"""

# PyTorch is optional: where it is absent, pyright takes this package for it.
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

from rwf.errors import missing_extra

try:
    import torch as _torch  # noqa: F401
except ImportError:
    raise missing_extra("torch", "torch", "rwf.interop.torch") from None

from rwf.interop.torch.factors import from_named, is_parametrized, named_factors, to_named
from rwf.interop.torch.optimize import check_optimizer, parameter_groups, penalty
from rwf.interop.torch.retired import RetiredParameterError
from rwf.interop.torch.verbs import adapt, factorize, fold, normalize, reparametrize

__all__ = [
    "RetiredParameterError",
    "adapt",
    "check_optimizer",
    "factorize",
    "fold",
    "from_named",
    "is_parametrized",
    "named_factors",
    "normalize",
    "parameter_groups",
    "penalty",
    "reparametrize",
    "to_named",
]
