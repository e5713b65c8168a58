"""The packages that drawing and page-making need, imported when they are used and not before."""

import importlib
from typing import Any

from rwf.errors import missing_extra


def need(package: str, purpose: str, module: str | None = None) -> Any:
    """Imports a module of an optional package; where it is absent the error names the extra to install."""
    try:
        importlib.import_module(package)  # the package first: a module of it may linger in memory
        return importlib.import_module(module or package)
    except ImportError:
        raise missing_extra(package, "report", purpose) from None
