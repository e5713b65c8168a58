"""What a figure function returns."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import matplotlib.figure


class Drawing(NamedTuple):
    """A figure with its title, and a caption that says how to read it."""

    title: str
    caption: str
    figure: "matplotlib.figure.Figure"
