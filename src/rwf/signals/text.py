"""Text images of our own, in the manner of the Text set of Tancik et al. (2020)."""

import importlib.util
import string
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float32

from rwf.errors import missing_extra

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont

_DEJAVU = "DejaVuSerif-Bold.ttf"  # a bold serif, as in the original set


def text_image(*, seed: int, size: int = 512) -> Float32[np.ndarray, "{size} {size} 3"]:
    """Words of random letters in random sizes and colours at random places on white, in [0, 1].

    Words may overlap, and the edge may cut them, as in the original set. A seed means one image for one font
    (`font_name` says which is used) and one version of Pillow.

    **Arguments:** `seed`, not negative; `size`, the side in pixels, 16 or more.
    """
    if seed < 0 or size < 16:
        raise ValueError(f"A text image needs a seed >= 0 and a size >= 16 pixels; got seed {seed} and size {size}.")
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        raise missing_extra("pillow", "images", "A text image") from None

    rng = np.random.default_rng(seed)
    image = Image.new("RGB", (size, size), "white")
    draw = ImageDraw.Draw(image)
    for _ in range(rng.integers(6, 15)):
        word = "".join(rng.choice(list(string.ascii_letters), rng.integers(1, 13)))
        font = _font(size * np.exp(rng.uniform(np.log(12 / 512), np.log(80 / 512))))
        red, green, blue = (int(channel) for channel in rng.integers(0, 256, 3))
        left, top, right, bottom = draw.textbbox((0, 0), word, font)
        # the middle of a word lies inside the image, so that some of every word is seen
        x, y = rng.uniform(0, size, 2) - ((left + right) / 2, (top + bottom) / 2)
        draw.text((round(x), round(y)), word, fill=(red, green, blue), font=font)
    return np.asarray(image, dtype=np.float32) / 255


def font_name() -> str:
    """The font that `text_image` draws with on this machine, in words, so that a result can say it."""
    return "DejaVu Serif Bold" if _dejavu() else "Pillow's default font"


def _dejavu() -> Path | None:
    # found without importing matplotlib, which takes a second
    spec = importlib.util.find_spec("matplotlib")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "mpl-data" / "fonts" / "ttf" / _DEJAVU
    return path if path.is_file() else None


def _font(pixels: float) -> "FreeTypeFont":
    from PIL import ImageFont

    path, height = _dejavu(), max(round(pixels), 4)
    if path is None:
        font = ImageFont.load_default(size=height)
        assert isinstance(font, ImageFont.FreeTypeFont)  # with a size, it always is
        return font
    # the basic layout: the other needs a library that not every build of Pillow has, and spaces letters otherwise
    return ImageFont.truetype(path, height, layout_engine=ImageFont.Layout.BASIC)
