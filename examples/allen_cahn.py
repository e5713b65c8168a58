"""Allen and Cahn's equation, u_t = d u_xx + 5 (u - u³): fronts that sharpen, on a circle, solved in causal order.

rwf run examples/allen_cahn.py --quick                  minutes on a CPU, to a few percent
rwf run examples/allen_cahn.py --task.causal.chunks 0   without causal training
docs/pde.md says in what it differs from examples/wave.py.
"""

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from rwf.pde import Box, Causal, LossWeights, Problem, at, periodic, recipe
from rwf.recipe import SOAP


@dataclass(frozen=True)
class AllenCahn(Problem):
    """u_t = d u_xx + 5 (u - u³) on a circle, starting as x² cos(pi x)."""

    diffusion: float = 1e-4

    domain = Box(x=periodic(-1.0, 1.0), t=(0.0, 1.0))

    def residual(self, u):
        return u.t - self.diffusion * u.xx - 5 * (u - u**3)

    @at(t=0)
    def start(self, u, x):
        return u - x**2 * jnp.cos(math.pi * x)

    def exact(self, x, t, finer=8, steps=20):
        """Strang splitting: diffusion is exact in Fourier space, and the reaction has a formula."""
        line = np.linspace(-1, 1, finer * len(x), endpoint=False)
        dt = (t[0, 1] - t[0, 0]) / steps
        half = np.exp(-self.diffusion * (np.pi * np.arange(len(line) // 2 + 1)) ** 2 * dt / 2)
        u, columns = line**2 * np.cos(np.pi * line), []
        for _ in t[0]:
            columns.append(u[::finer])
            for _ in range(steps):
                u = np.fft.irfft(half * np.fft.rfft(u), len(line))
                u = u / np.sqrt(u**2 + (1 - u**2) * np.exp(-10 * dt))
                u = np.fft.irfft(half * np.fft.rfft(u), len(line))
        return np.stack(columns, axis=1)


PROBLEM = AllenCahn(
    weights=LossWeights((("start", 100.0),)),
    causal=Causal(chunks=16, epsilon=100.0),  # with 1 or 10 late times settle where they should not
    sampling="lattice",
)
OPTIM = SOAP(lr=3e-3, decay_rate=0.9, decay_steps=1_000)
RECIPES = {"allen-cahn": recipe(PROBLEM, optim=OPTIM, steps=10_000, log_every=100)}
QUICK = {"allen-cahn": {"steps": 1_000, "log_every": 50, "seeds": 2}}
