"""What a figure function returns."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from rwf.report.records import Record

if TYPE_CHECKING:
    import matplotlib.figure


class Drawing(NamedTuple):
    """A figure with its title, a caption that says how to read it, and the records that it shows: none for all."""

    title: str
    caption: str
    figure: "matplotlib.figure.Figure"
    records: Sequence[Record] = ()
