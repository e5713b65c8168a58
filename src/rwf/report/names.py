"""How things are called in print, and which direction of a metric is better."""

from collections.abc import Iterable
from dataclasses import dataclass

PARAMETRIZATIONS = {"plain": "Plain", "aa": "AA", "wn": "WN", "rwf": "RWF"}

# The order of tables. What is not listed comes after, by name.
CASES = (
    "regression-1d",
    "image/natural",
    "image/text",
    "ct/shepp",
    "ct/brain",
    "shape/dragon",
    "shape/armadillo",
    "nerf/lego",
    "advection",
    "cavity",
    "dr",
    "darcy",
    "burgers",
)
VARIANTS = (
    "none",
    "positional",
    "gaussian",
    "regular",
    "curriculum",
    "causal",
    "mlp",
    "modified-mlp",
    "deeponet",
    "modified-deeponet",
)


def place(name: str, order: Iterable[str]) -> tuple[int, str]:
    """Where a name stands in an order, to sort by.

    >>> sorted(["yours", "causal", "none"], key=lambda name: place(name, VARIANTS))
    ['none', 'causal', 'yours']
    """
    places = {listed: i for i, listed in enumerate(order)}
    return places.get(name, len(places)), name


@dataclass(frozen=True)
class Metric:
    """A metric in words; `higher` is None where neither direction is better, and then nothing is compared.

    A table is about its headlines; what is `watched` stands beside them in figures of training. What comes `near_one`
    is drawn there by what is missing to one: 0.978 and 0.982 are the same place of an axis that begins at 0.
    """

    title: str
    higher: bool | None = None
    headline: bool = False
    watched: bool = False
    near_one: bool = False


# A task with a new metric adds a line here: without one it is listed, and never called better or worse.
METRICS = {
    "psnr": Metric("PSNR (dB)", higher=True, headline=True),
    "psnr_unseen": Metric("PSNR on unseen pixels (dB)", higher=True, headline=True),
    "ssim": Metric("SSIM", higher=True, headline=True),
    "iou": Metric("IoU", higher=True, headline=True, near_one=True),
    "rel_l2": Metric("relative L² error", higher=False, headline=True),
    "rel_l2_file": Metric("relative L² error against the published file", higher=False),
    "rel_l2_std": Metric("std of relative L² error", headline=True),
    "chamfer": Metric("Chamfer distance", higher=False, headline=True),
    "normal_consistency": Metric("normal consistency", higher=True, headline=True),
    "psnr_two_views": Metric("PSNR of two test views (dB)", higher=True, watched=True),
    "ssim_two_views": Metric("SSIM of two test views", higher=True, watched=True),
    "test_error": Metric("test error (fraction wrong)", higher=False, headline=True),
    "test_loss": Metric("test loss", higher=False),
    "rms_residual": Metric("residual on the test points", higher=False, headline=True),
    "rms_conditions": Metric("what is left of the conditions", higher=False, headline=True),
    **{f"steps_to_{n}_percent": Metric(f"steps to an error of {n} %", higher=False) for n in (10, 5)},
    **{f"seconds_to_{n}_percent": Metric(f"seconds to an error of {n} %", higher=False) for n in (10, 5)},
    "loss": Metric("training loss", higher=False),
    "weight_change": Metric("relative weight change"),
}


def metric(name: str) -> Metric:
    """What is known of a metric."""
    return METRICS.get(name, Metric(name))


def headlines(names: list[str]) -> list[str]:
    """The metrics that a table is about: results where there are any, else whatever is better or worse.

    >>> headlines(["loss", "mse", "rel_l2", "weight_change"])
    ['rel_l2']
    >>> headlines(["loss", "mse"])
    ['loss']
    """
    found = [name for name in METRICS if name in names and METRICS[name].headline]
    return found or [name for name in names if metric(name).higher is not None]


def contender(parametrization: str, tuned: bool, variant: str = "none", beside: str | None = None) -> str:
    """One side of a comparison in words; `beside` is the variant of the other side, which need not be said.

    >>> contender("plain", True)
    'Plain (tuned rate)'
    >>> contender("rwf", False, "gaussian+frozen", beside="gaussian")
    'RWF+frozen'
    >>> contender("plain", False, "gaussian+optim.lr=0.00272", beside="gaussian")
    'Plain (rate 0.00272)'
    """
    changes, rate = without_rate(variant)
    suffix = changes.partition("+")[2] if variant != beside else ""
    rate = "tuned rate" if tuned else f"rate {rate}" if rate and variant != beside else ""
    name = PARAMETRIZATIONS.get(parametrization, parametrization)
    return name + (f"+{suffix}" if suffix else "") + (f" ({rate})" if rate else "")


def without_rate(variant: str) -> tuple[str, str]:
    """A variant, and the learning rate that stands in its name where that is not the recipe's.

    >>> without_rate("gaussian+optim.lr=0.00272"), without_rate("none+optim.lr=1+steps=60")
    (('gaussian', '0.00272'), ('none+steps=60', '1'))
    """
    parts = variant.split("+")
    rate = next((part for part in parts if part.startswith("optim.lr=")), "")
    return "+".join(part for part in parts if part != rate), rate.removeprefix("optim.lr=")


def number(value: float | int | None, digits: int = 3) -> str:
    """A number with few significant digits, and no more zeros than help.

    >>> [number(x) for x in (0.03412, 28.08, 1e-7, 123456.0, None)]
    ['0.0341', '28.1', '1e-07', '1.23e+05', '–']
    """
    return "–" if value is None else f"{value:.{digits}g}"


def count(value: float | int | None) -> str:
    """A whole number with commas.

    >>> count(12345.6)
    '12,346'
    """
    return "–" if value is None else f"{value:,.0f}"
