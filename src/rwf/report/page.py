"""The report as one HTML page that needs nothing beside itself."""

import base64
import functools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path
from typing import Any

from rwf.report.drawn import Drawn, Note, drawn
from rwf.report.extras import need
from rwf.report.grids import grids
from rwf.report.layout import layouts
from rwf.report.notes import notes
from rwf.report.provenance import provenance
from rwf.report.reaching import HEADING, LEGEND, reaching
from rwf.report.records import Record
from rwf.report.theory_table import Check, theory_table
from rwf.report.tuning import rates, tunings
from rwf.report.versus import tabulated
from rwf.tensors import write_atomically

_THEORY_CASE = "regression-1d"  # beside whose figures the checks of the theorems stand


def write_page(
    records: Sequence[Record],
    path: Path,
    *,
    theory: bool = True,
    figures: Path | None = None,
    note: Note | None = None,
) -> Path:
    """Writes the page; `theory` adds the checks of the theorems beside 1D regression, some ten seconds.

    Figures are drawn once: a folder `figures` gets them as files too. Damaged weights are an error; where a `note` is
    given, it is told of them, and their figures are left out.
    """
    if not records:
        raise ValueError("There is nothing to report: no complete run was found. `rwf run regression-1d` makes some.")
    jinja2 = need("jinja2", "Writing a report")
    source = resources.files("rwf.report").joinpath("page.html.j2").read_text("utf-8")
    # Names of folders, variants and devices come from files: all are escaped.
    template = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(source)
    cases = list(dict.fromkeys(record.case for record in records))
    with ThreadPoolExecutor(1) as beside:  # the checks are compiled for the most part, which leaves Python free to draw
        if theory and _THEORY_CASE in cases:
            beside.submit(_theory)
        shown = {case: drawn(case, records, note) for case in cases}
    html = template.render(
        title=f"rwf: {', '.join(cases)}",
        quick=any(record.quick for record in records),
        cases=[_case(case, records, shown[case], theory=theory) for case in cases],
    )
    write_atomically(path, html)
    if figures:
        for figure in (figure for of_case in shown.values() for figure in of_case):
            write_atomically(figures / figure.file, figure.png)
    return path


def _case(case: str, records: Sequence[Record], shown: Sequence[Drawn], *, theory: bool) -> dict[str, Any]:
    """All that the template shows of one case."""
    mine = [record for record in records if record.case == case]
    tuned = tunings(mine)
    return {
        "name": case,
        "id": case.replace("/", "-"),
        "data": list(dict.fromkeys(record.data for record in mine)),
        "tables": layouts(mine),
        "grids": grids(mine),
        "versus": tabulated(mine),
        "figures": [
            {"title": figure.title, "caption": figure.caption, "png": base64.b64encode(figure.png).decode()}
            for figure in shown
        ],
        "notes": notes(mine),
        "tunings": tuned,
        "rates": rates(tuned),
        "reaching": reaching(mine),
        "reaching_heading": HEADING,
        "reaching_legend": LEGEND,
        "theory": _theory() if theory and case == _THEORY_CASE else [],
        "provenance": provenance(mine),
    }


@functools.cache
def _theory() -> list[Check]:
    import jax

    from rwf.analyze import check_all

    return theory_table(check_all(key=jax.random.key(0)))
