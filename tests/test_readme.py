"""The numbers of the README are those of results/."""

import re
from pathlib import Path

import numpy as np
import pytest

from rwf import report
from rwf.report.comparisons import compare
from rwf.report.paper import paper_value

REPOSITORY = Path(__file__).parents[1]
PARAMETRIZATIONS = ("plain", "aa", "wn", "rwf")
TABLE = {  # the beginning of a line of the table: case, variant, metric
    "1D regression": ("regression-1d", "none", "rel_l2"),
    "[images](docs/images-measured.md), Natural": ("image/natural", "gaussian", "psnr"),
    "images, Text": ("image/text", "gaussian", "psnr"),
    "[tomography](docs/images-measured.md#tomography), phantoms": ("ct/shepp", "gaussian", "psnr"),
    "tomography, a brain": ("ct/brain", "gaussian", "psnr"),
    "[shapes](docs/shapes.md), Dragon": ("shape/dragon", "gaussian", "iou"),
    "shapes, Armadillo": ("shape/armadillo", "gaussian", "iou"),
    "[Lego](docs/scenes.md)": ("nerf/lego", "gaussian", "psnr"),
    "[advection](docs/advection.md), regular": ("advection", "regular", "rel_l2"),
    "advection, curriculum": ("advection", "curriculum", "rel_l2"),
    "advection, causal": ("advection", "causal", "rel_l2"),
    "[cavity](docs/cavity.md), Re = 1,000": ("cavity", "modified-mlp", "rel_l2"),
    "cavity, our setting": ("cavity", "ours", "rel_l2"),
    "[diffusion–reaction](docs/operators-measured.md#diffusionreaction)": ("dr", "deeponet", "rel_l2"),
    "[Darcy](docs/operators-measured.md#darcy)": ("darcy", "deeponet", "rel_l2"),
    "[Burgers](docs/operators-measured.md#burgers)": ("burgers", "modified-deeponet", "rel_l2"),
}
DIFFERENCES = {
    "1D regression": ("regression-1d", "other-targets", "rel_l2"),
    "images, Natural": ("image/natural", "gaussian", "psnr"),
    "images, Text": ("image/text", "gaussian", "psnr"),
    "tomography, phantoms": ("ct/shepp", "gaussian", "psnr"),
    "tomography, a brain": ("ct/brain", "gaussian", "psnr"),
    "shapes, Dragon": ("shape/dragon", "gaussian", "iou"),
    "shapes, Armadillo": ("shape/armadillo", "gaussian", "iou"),
    "Lego": ("nerf/lego", "gaussian", "psnr"),
    "diffusion–reaction, no features": ("dr", "deeponet", "rel_l2"),
    "diffusion–reaction, gradients clipped": ("dr", "deeponet+clipped", "rel_l2"),
    "Burgers, no features": ("burgers", "modified-deeponet", "rel_l2"),
    "advection under SOAP": ("soap", "advection", "rel_l2"),
    "advection, curriculum": ("advection", "curriculum", "rel_l2"),
    "advection, causal": ("advection", "causal", "rel_l2"),
    "advection, regular": ("advection", "regular", "steps_to_10_percent"),
}
FIRST = {  # variant, and whether every rate is tuned
    "the paper's target, its rate": ("none", False),
    "the paper's target, every rate tuned": ("none", True),
    "eight other targets, the paper's rate": ("other-targets", False),
    "eight other targets, every rate tuned": ("other-targets", True),
}
NUMBER = re.compile(r"[−-]?\d[\d,]*\.?\d*")


@pytest.fixture(scope="module")
def records():
    return report.load([REPOSITORY / "results"])


def cells(heading, beginning):
    """The cells of a line of a table below a heading."""
    text = (REPOSITORY / "README.md").read_text().partition(f"# {heading}\n")[2].partition("\n## ")[0]
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {beginning}")]
    return [cell.strip().replace("**", "") for cell in line.strip("|").split("|")]


def numbers(text):
    """The numbers of a text, each with half a unit of its last digit."""
    found = [word.replace("−", "-").replace(",", "") for word in NUMBER.findall(text)]
    return [(float(word), 0.5 * 10.0 ** -len(word.partition(".")[2])) for word in found]


def assert_rounded(text, values):
    given = numbers(text)
    assert len(given) == len(values), text
    for (number, half), value in zip(given, values, strict=True):
        assert abs(number - value) <= half * 1.02, (text, value)  # the last digit of results/ is rounded itself


def record_of(records, case, variant, parametrization, *, tuned=False):
    """The one with this name at the recipe's own rate, or at the rate that the variant says, or tuned."""
    wanted = (case, variant, parametrization, tuned)
    (found,) = [r for r in records if (r.case, r.variant, r.parametrization, r.tuned) == wanted]
    return found


def faster_variant(records, case, variant):
    """The variant at RWF's first effective rate, or None."""
    name = re.compile(rf"{re.escape(variant)}\+optim\.lr=[\d.]+")
    found = [r.variant for r in records if r.case == case and name.fullmatch(r.variant)]
    assert len(set(found)) < 2
    return found[0] if found else None


def measured(record, metric):
    """The mean over members; of Darcy the median, and of Lego that of the seeds that all have and that do not fail."""
    final = {member.seed: member.final[metric] for member in record.members}
    lego = record.case == "nerf/lego"
    values = [final[0], final[2]] if lego else [member.final[metric] for member in record.members]
    return float((np.median if record.case == "darcy" else np.mean)(values))


@pytest.mark.parametrize("beginning", FIRST)
def test_the_first_table_is_of_the_results(records, beginning):
    variant, tuned = FIRST[beginning]
    _, *own, control = cells("rwf", beginning)
    found = [record_of(records, "regression-1d", variant, name, tuned=tuned) for name in PARAMETRIZATIONS]
    if control:
        faster = faster_variant(records, "regression-1d", variant)
        found, own = [*found, record_of(records, "regression-1d", faster, "plain")], [*own, control]
    for record, text in zip(found, own, strict=True):
        assert len(record.members) == 8
        assert_rounded(text, [measured(record, "rel_l2")])


@pytest.mark.parametrize("beginning", TABLE)
def test_means_are_those_of_the_results(records, beginning):
    case, variant, metric = TABLE[beginning]
    name, n, *own, control, paper = cells("Where it stands", beginning)
    factor = 100 if "%" in name else 1
    run = {(r.case, r.variant, r.parametrization) for r in records if not r.tuned}
    names = [name for name in PARAMETRIZATIONS if (case, variant, name) in run]
    assert [bool(text) for text in own] == [name in names for name in PARAMETRIZATIONS]  # what is not run is empty
    found, own = [record_of(records, case, variant, name) for name in names], [text for text in own if text]
    members = [len(record.members) for record in found]
    counts = {min(members), max(members)} if "¹" not in name else {min(members)}
    assert [int(number) for number, _ in numbers(n)] == sorted(counts)
    for record, text in zip(found, own, strict=True):
        assert_rounded(text, [factor * measured(record, metric)])
    faster = faster_variant(records, case, variant)
    assert bool(control) == bool(faster)
    if faster:
        assert_rounded(control, [factor * measured(record_of(records, case, faster, "plain"), metric)])
    if numbers(paper):
        printed = [paper_value(case, variant, name, metric) for name in PARAMETRIZATIONS]
        assert_rounded(paper.replace(", ", " "), [factor * value for value in printed])


@pytest.mark.parametrize("beginning", DIFFERENCES)
def test_differences_are_those_of_the_results(records, beginning):
    case, variant, metric = DIFFERENCES[beginning]
    name, *texts, n = cells("How much of RWF is its learning rate?", beginning)
    factor = 100 if "in %" in name else 1
    others = [record_of(records, case, v, "plain") for v in (variant, faster_variant(records, case, variant))]
    found = [compare(record_of(records, case, variant, "rwf"), other, metric) for other in others]
    for text, c in zip(texts, found, strict=True):
        assert_rounded(text, [factor * value for value in (c.difference, c.low, c.high)])
    assert [int(number) for number, _ in numbers(n.replace(",", " "))] == list(dict.fromkeys(c.n for c in found))
