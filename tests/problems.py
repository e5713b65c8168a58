"""A problem that the tests of PDEs share."""

from dataclasses import dataclass

import numpy as np

from rwf.pde import Box, Problem, at


@dataclass(frozen=True)
class Heat(Problem):
    """u_t = d (u_xx + u_yy) in a square."""

    d: float = 0.5

    domain = Box(x=(0.0, 1.0), y=(-1.0, 1.0), t=(0.0, 2.0))

    def residual(self, u):
        return u.t - self.d * u.laplacian

    @at(t=0)
    def start(self, u, x, y):
        return u - x * y

    @at(x=(0, 1))
    @at(y=(-1, 1))
    def walls(self, u):
        return {"flux": u.x, "value": u}

    def exact(self, x, y, t):
        return np.exp(-t) * x + 0 * y


def small(problem=Heat, **settings):
    return problem(points=8, condition_points=6, grid=(3, 4, 5), **settings)
