"""The paper's result tables: ours against an independent transcription."""

import tomllib
from pathlib import Path

from rwf.report.paper import paper_results, paper_value

OTHER = tomllib.loads((Path(__file__).parent / "data" / "paper.toml").read_text())


def test_two_transcriptions_agree():
    other = OTHER["result"] + [entry for entry in OTHER["summary"] if entry["case"] == "nerf/lego"]
    expected = {(e["case"], e["variant"], e["metric"], e["parametrization"]): e["mean"] for e in other}
    operators = [e for e in other if e["case"] in ("dr", "darcy", "burgers")]  # their spread is over test functions
    expected |= {(e["case"], e["variant"], "rel_l2_std", e["parametrization"]): e["std"] for e in operators}
    ours = {
        (case, variant, metric, parametrization): value
        for case, variants in paper_results().items()
        for variant, metrics in variants.items()
        for metric, values in metrics.items()
        for parametrization, value in values.items()
    }
    assert ours == expected
    assert len(ours) == 4 * (27 + 3)  # rows of the paper's tables, and the spread of three


def test_the_paper_has_no_value_for_what_it_did_not_run():
    assert paper_value("image/text", "none", "rwf", "psnr") == 17.85
    assert paper_value("regression-1d", "none", "rwf", "rel_l2") is None
    assert paper_value("ct/brain", "gaussian", "rwf", "psnr") is None
    assert paper_value("image/text", "gaussian+frozen", "rwf", "psnr") is None
    assert paper_value("image/text", "gaussian", "rwf", "ssim") is None
