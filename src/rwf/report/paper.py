"""What the paper reports, to stand beside what we measure."""

import functools
import tomllib
from importlib import resources


@functools.cache
def paper_results() -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    """The paper's result tables: case, variant, metric, parametrization."""
    return tomllib.loads(resources.files("rwf.report").joinpath("paper.toml").read_text("utf-8"))


def paper_value(case: str, variant: str, parametrization: str, metric: str) -> float | None:
    """The paper's mean, or None where it has none: its tables hold no ablation and no tuned learning rate.

    >>> paper_value("advection", "regular", "rwf", "rel_l2")
    0.0414
    >>> paper_value("advection", "regular+frozen", "rwf", "rel_l2") is None
    True
    """
    found = paper_results().get(case, {}).get(variant, {}).get(metric, {})
    return found.get(parametrization)
