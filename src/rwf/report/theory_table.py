"""What became of the paper's two theorems, checked in numbers, as a short table."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import rwf.analyze


class Check(NamedTuple):
    """One statement, what was measured of it, and what should have come out."""

    statement: str
    measured: str
    expected: str


def theory_table(checks: "rwf.analyze.TheoryChecks") -> list[Check]:
    """The checks of both theorems, and of what becomes of the second under Adam, in words."""
    distance, adam = checks.distance, checks.adam
    return [
        Check(
            "Theorem 1: factorizations of two nets come as near as one likes when all scales grow",
            f"distance ~ scale^{distance.slope:.3f}",
            "-1",
        ),
        Check(
            "… but not when one scale of each layer grows alone",
            f"distance {distance.one_scale_distances[0]:.2f} at scale {distance.scales[0]:g}, "
            f"{distance.one_scale_distances[-1]:.2f} at {distance.scales[-1]:g}",
            "it stays",
        ),
        *[
            Check(
                f"Theorem 2, matrix form −η (s² I + v vᵀ) g, at μ = {update.mean:g}",
                f"error ~ η^{update.matrix_slope:.3f}",
                "2: it is the first-order update",
            )
            for update in checks.updates
        ],
        *[
            Check(
                f"Theorem 2 as printed, −η (s² + |v|²) g, at μ = {update.mean:g}",
                f"error ~ η^{update.scalar_slope:.3f}, {update.scalar_relative_error:.2%} of the update",
                "2 if it held; 1 means that it does not",
            )
            for update in checks.updates
        ],
        *[
            Check(
                f"Adam's first step in W, RWF over Plain, at μ = {mean:g}",
                f"{ratio:.3f} (scales frozen: {frozen:.3f})",
                f"about e^μ = {factor:.3f}",
            )
            for mean, factor, ratio, frozen in zip(
                adam.means, adam.factors, adam.ratios, adam.frozen_ratios, strict=True
            )
        ],
        Check(
            f"Adam, {adam.steps} steps: RWF with frozen scales against Plain with the rate of W times e^μ",
            f"weights differ by at most {adam.frozen_differences.max():.1e} of the way",
            "rounding: they are one algorithm",
        ),
    ]
