"""The lid-driven cavity by finite differences: streamfunction and vorticity, Newton's method on a sparse system.

Second order on a grid that is finer at the walls, and extrapolated from two grids where a trusted answer is asked for.
"""

import functools
from typing import NamedTuple

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float
from scipy.interpolate import Akima1DInterpolator, CubicSpline
from scipy.sparse.linalg import splu

CELLS = 192  # along a side, of the finer of the two grids that a reference is extrapolated from
_COARSE = 32  # cells of the grid where the flow is first found, at rising Reynolds numbers
_STRETCH = 1.5  # of x = (1 + tanh(a (2 xi - 1)) / tanh(a)) / 2: cells at a wall are 0.3 of the mean
_STEPS, _TOLERANCE = 20, 1e-9
_LARGEST = 1000.0  # beyond this the grids have not been compared with anything


class CavityFlow(NamedTuple):
    """A steady flow on a grid: arrays are indexed [x, y], the lid y = 1 moves with velocity (1, 0)."""

    nodes: Float[np.ndarray, " n"]
    stream: Float[np.ndarray, "n n"]
    u: Float[np.ndarray, "n n"]
    v: Float[np.ndarray, "n n"]

    def velocity(
        self, x: Float[np.ndarray, " nx"], y: Float[np.ndarray, " ny"]
    ) -> tuple[Float[np.ndarray, "nx ny"], Float[np.ndarray, "nx ny"]]:
        """u and v at the points of a tensor grid. The interpolation does not ring where the lid meets the walls."""
        u, v = (_interpolate(self.nodes, values, x, y) for values in (self.u, self.v))
        return u, v


@functools.lru_cache(maxsize=8)
def reference(reynolds: float, cells: int = CELLS, sharpness: float = 0.0) -> CavityFlow:
    """The flow at a Reynolds number, extrapolated from `cells` and half as many: (4 fine - coarse) / 3.

    At Re = 1,000 it is within 2e-4 of the published spectral solution on the centrelines; it takes some five seconds.
    """
    if cells % 2 or cells < 2 * _COARSE:
        raise ValueError(f"A reference needs an even number of cells, {2 * _COARSE} or more; got {cells}.")
    coarse, fine = (solve(reynolds, count, sharpness) for count in (cells // 2, cells))
    best = [(4 * f[::2, ::2] - c) / 3 for f, c in zip(fine[1:], coarse[1:], strict=True)]
    return CavityFlow(coarse.nodes, *best)


def lid_velocity(x: Float[np.ndarray, " n"], sharpness: float) -> Float[np.ndarray, " n"]:
    """u on the lid: 1, or with a sharpness c > 0 the smooth 1 - cosh(c (x - 1/2)) / cosh(c / 2), zero at both ends."""
    return 1 - np.cosh(sharpness * (x - 0.5)) / np.cosh(sharpness / 2) if sharpness else np.ones_like(x)


def solve(reynolds: float, cells: int, sharpness: float = 0.0) -> CavityFlow:
    """The second-order solution on a grid of so many cells along a side.

    The flow is found on a coarse grid first, from rest, and Newton's method starts from it on the finer ones.
    """
    if not 0 < reynolds <= _LARGEST:
        raise ValueError(f"The solver is for Reynolds numbers above 0 and up to {_LARGEST:g}; got {reynolds:g}.")
    if cells < 8:
        raise ValueError(f"The grid needs 8 cells a side or more; got {cells}.")
    start = min(cells, _COARSE)
    stream, vorticity = np.zeros((2, start - 1, start - 1))
    for number in [re for re in (100.0, 400.0) if re < reynolds] + [reynolds]:
        stream, vorticity = _newton(_system(start, sharpness), number, stream, vorticity)
    while start < cells:
        finer = min(2 * start, cells)
        stream, vorticity = (_refine(field, finer) for field in (stream, vorticity))
        stream, vorticity = _newton(_system(finer, sharpness), reynolds, stream, vorticity)
        start = finer
    return _flow(cells, sharpness, stream)


class _System(NamedTuple):
    """The discrete equations at the inner nodes, as matrices on all nodes, and what the walls add.

    psi = extend q and omega = extend w + wall q + lid, where q and w are psi and omega at the inner nodes.
    """

    dx: sparse.csr_matrix
    dy: sparse.csr_matrix
    laplacian: sparse.csr_matrix
    extend: sparse.csr_matrix
    wall: sparse.csr_matrix
    lid: Float[np.ndarray, " nodes"]


def _grid(cells: int) -> tuple[Float[np.ndarray, " n"], ...]:
    """The nodes x(xi) for uniform xi, with the first and second derivative of x."""
    t, top = np.tanh(_STRETCH * (2 * np.linspace(0, 1, cells + 1) - 1)), np.tanh(_STRETCH)
    first = _STRETCH * (1 - t**2) / top
    return (1 + t / top) / 2, first, -4 * _STRETCH * t * first


@functools.lru_cache(maxsize=2)
def _system(cells: int, sharpness: float) -> _System:
    h, (nodes, first, second) = 1 / cells, _grid(cells)
    before, eye, after = (sparse.eye(cells + 1, k=offset) for offset in (-1, 0, 1))
    d1, d2 = (after - before) / (2 * h), (after - 2 * eye + before) / h**2
    slope = sparse.diags(1 / first) @ d1
    curve = sparse.diags(1 / first**2) @ d2 - sparse.diags(second / first**3) @ d1
    index = np.arange((cells + 1) ** 2).reshape(cells + 1, cells + 1)
    inner = index[1:-1, 1:-1].ravel()
    extend = sparse.csr_matrix((np.ones(inner.size), (inner, np.arange(inner.size))), shape=(index.size, inner.size))
    restrict = extend.T.tocsr()
    # psi = 0 on the walls and its slope is known, so that psi there has the second derivative
    # (8 psi_1 - psi_2 + 6 h slope) / (2 h^2) in xi, with psi_1 and psi_2 one and two cells inside; omega = -Laplacian.
    scale, lid = 1 / (2 * h**2 * first[0] ** 2), np.zeros(index.shape)
    sides = [index, index[::-1], index.T, index.T[::-1]]
    walls, near, next_ = (np.concatenate([side[depth, 1:-1] for side in sides]) for depth in range(3))
    rows, columns = np.concatenate([walls, walls]), np.concatenate([near, next_])
    weights = np.repeat([-8 * scale, scale], walls.size)
    wall = sparse.csr_matrix((weights, (rows, columns)), shape=(index.size, index.size)) @ extend
    moving = lid_velocity(nodes[1:-1], sharpness)
    lid[1:-1, -1] = moving * (second[-1] / first[-1] ** 2 - 6 * h * first[-1] * scale)
    return _System(
        restrict @ sparse.kron(slope, eye).tocsr(),
        restrict @ sparse.kron(eye, slope).tocsr(),
        restrict @ (sparse.kron(curve, eye) + sparse.kron(eye, curve)).tocsr(),
        extend,
        wall,
        lid.ravel(),
    )


def _newton(
    system: _System, reynolds: float, stream: Float[np.ndarray, "m m"], vorticity: Float[np.ndarray, "m m"]
) -> tuple[Float[np.ndarray, "m m"], Float[np.ndarray, "m m"]]:
    """Solves Laplacian(psi) + omega = 0 and u omega_x + v omega_y = Laplacian(omega) / Re; u = psi_y, v = -psi_x.

    The unknowns of one node stand side by side: SuperLU's ordering then fills in little.
    """
    dx, dy, laplacian, extend, wall, lid = system
    q, w, shape = stream.ravel(), vorticity.ravel(), stream.shape
    order = np.arange(2 * q.size).reshape(2, -1).T.ravel()
    for _ in range(_STEPS):
        psi, omega = extend @ q, extend @ w + wall @ q + lid
        u, v, omega_x, omega_y = dy @ psi, -(dx @ psi), dx @ omega, dy @ omega
        residual = np.concatenate([laplacian @ psi + w, u * omega_x + v * omega_y - laplacian @ omega / reynolds])
        transport = sparse.diags(u) @ dx + sparse.diags(v) @ dy - laplacian / reynolds
        turn = (sparse.diags(omega_x) @ dy - sparse.diags(omega_y) @ dx) @ extend
        jacobian = sparse.bmat(
            [[laplacian @ extend, sparse.identity(q.size)], [turn + transport @ wall, transport @ extend]]
        ).tocsc()
        change = np.empty_like(residual)
        change[order] = splu(jacobian[order][:, order].tocsc()).solve(-residual[order])
        q, w = q + change[: q.size], w + change[q.size :]
        if np.abs(change[: q.size]).max() < _TOLERANCE:
            return q.reshape(shape), w.reshape(shape)
    raise RuntimeError(f"The cavity at Re = {reynolds:g} did not converge in {_STEPS} steps of Newton's method.")


def _refine(inner: Float[np.ndarray, "m m"], cells: int) -> Float[np.ndarray, "k k"]:
    """A field at the inner nodes of one grid, at those of another."""
    old, new = (np.linspace(0, 1, n + 1)[1:-1] for n in (inner.shape[0] + 1, cells))
    return CubicSpline(old, CubicSpline(old, inner, axis=0)(new), axis=1)(new)


def _flow(cells: int, sharpness: float, inner: Float[np.ndarray, "m m"]) -> CavityFlow:
    """The velocities of a streamfunction: central differences inside, the boundary conditions on the walls.

    The two points where the lid meets a wall are counted to the wall.
    """
    system, (nodes, _, _) = _system(cells, sharpness), _grid(cells)
    stream, u, v = (np.zeros((cells + 1, cells + 1)) for _ in range(3))
    stream[1:-1, 1:-1] = inner
    u[1:-1, 1:-1] = (system.dy @ stream.ravel()).reshape(inner.shape)
    v[1:-1, 1:-1] = -(system.dx @ stream.ravel()).reshape(inner.shape)
    u[1:-1, -1] = lid_velocity(nodes[1:-1], sharpness)
    return CavityFlow(nodes, stream, u, v)


def _interpolate(
    nodes: Float[np.ndarray, " n"],
    values: Float[np.ndarray, "n n"],
    x: Float[np.ndarray, " nx"],
    y: Float[np.ndarray, " ny"],
) -> Float[np.ndarray, "nx ny"]:
    if min(x.min(), y.min()) < 0 or max(x.max(), y.max()) > 1:
        raise ValueError("The cavity is the unit square: all x and y must lie in [0, 1].")
    across = Akima1DInterpolator(nodes, values, axis=0, method="makima")(x)
    return Akima1DInterpolator(nodes, across, axis=1, method="makima")(y)
