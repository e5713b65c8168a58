"""Pictures of surfaces: a parallel view, shaded by the slope of each triangle."""

import numpy as np
from jaxtyping import Float

from rwf.surface.columns import meetings

_LIGHTS = ((-0.45, 0.65, 0.62, 0.75), (0.75, 0.15, 0.45, 0.25))  # towards each light in the view, and its strength
_AMBIENT, _COLOUR = 0.16, (0.80, 0.80, 0.78)


def view(azimuth: float = 30.0, elevation: float = 20.0) -> Float[np.ndarray, "3 3"]:
    """The axes of a view as rows: to the right, up (y is up in the world), towards the eye; angles in degrees.

    Azimuth 0 looks from +z.
    """
    turn, rise = np.radians([azimuth, elevation])
    eye = np.array([np.cos(rise) * np.sin(turn), np.sin(rise), np.cos(rise) * np.cos(turn)])
    right = np.array([np.cos(turn), 0.0, -np.sin(turn)])
    return np.stack([right, np.cross(eye, right), eye])


def render(
    triangles: Float[np.ndarray, "triangles 3 3"],
    axes: Float[np.ndarray, "3 3"],
    *,
    low: Float[np.ndarray, "3"],
    high: Float[np.ndarray, "3"],
    size: int = 400,
    finer: int = 2,
) -> Float[np.ndarray, "{size} {size} 3"]:
    """A square picture in [0, 1] on white of all that lies in a box.

    **Arguments:** `axes`, from `view`; `low` and `high`, corners of the box that fills the picture, so that several
    surfaces are drawn alike; `size` in pixels; `finer`, so many lines each way through a pixel, against jagged edges.
    """
    seen = triangles @ axes.T
    corners = np.array([[(low, high)[i >> axis & 1][axis] for axis in range(3)] for i in range(8)]) @ axes.T
    middle, half = (corners.min(axis=0) + corners.max(axis=0)) / 2, np.ptp(corners, axis=0)[:2].max() / 2 * 1.02
    n = size * finer
    ticks = ((np.arange(n) + 0.5) / n * 2 - 1) * half
    x, y = np.meshgrid(middle[0] + ticks, middle[1] - ticks)  # rows from the top
    lines = np.stack([x.ravel(), y.ravel()], axis=-1)
    height, front = np.full(n * n, -np.inf), np.full(n * n, -1)
    for met in meetings(lines, seen):
        order = np.argsort(met.height)  # of several meetings of a line in this piece the last one, the highest, stays
        line, top, triangle = met.line[order], met.height[order], met.triangle[order]
        higher = top > height[line]
        height[line[higher]], front[line[higher]] = top[higher], triangle[higher]
    picture = np.ones((n * n, 3))
    picture[front >= 0] = _shades(seen)[front[front >= 0]]  # a net that has learnt no surface is a white picture
    return picture.reshape(size, finer, size, finer, 3).mean(axis=(1, 3))


def portrait(
    triangles: Float[np.ndarray, "triangles 3 3"],
    low: Float[np.ndarray, "3"],
    high: Float[np.ndarray, "3"],
    points: Float[np.ndarray, "points 3"],
    size: int = 400,
) -> Float[np.ndarray, "{size} 2*{size} 3"]:
    """Two pictures side by side: the whole of a box, and the top of the shape from near.

    **Arguments:** `points` of the true shape, whose highest one says where its top is: predictions of one shape are
    drawn alike.
    """
    axes, reach = view(), 0.15 * float((high - low).max())
    middle = points[points[:, 1].argmax()].astype(np.float64) - [0.0, 0.7 * reach, 0.0]
    near = (middle - 0.6 * reach, middle + 0.6 * reach)
    return np.concatenate([render(triangles, axes, low=a, high=b, size=size) for a, b in ((low, high), near)], axis=1)


def _shades(triangles: Float[np.ndarray, "triangles 3 3"]) -> Float[np.ndarray, "triangles 3"]:
    a, b, c = np.moveaxis(triangles, 1, 0)
    normal = np.cross(b - a, c - a)
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-300)
    normal *= np.where(normal[:, 2:] < 0, -1, 1)  # what is seen faces the eye, however its corners are ordered
    lights = np.array(_LIGHTS)
    towards = lights[:, :3] / np.linalg.norm(lights[:, :3], axis=1, keepdims=True)
    light = _AMBIENT + (np.maximum(normal @ towards.T, 0) * lights[:, 3]).sum(axis=1)
    return np.clip(light, 0, 1)[:, None] * np.array(_COLOUR)
