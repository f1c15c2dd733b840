"""The bulk H ⊠ MP_δ ⊠ MP_γ of noise with a spectrum H, right of its atoms, in one parameter.

For u above the largest atom, y(u) = Σ_a h_a t_a/(u − t_a) and

    ℓ(u) = u (1 + δy) ,    λ(u) = u (1 + δy)(1 + γy)

are the points outside the bulks of H ⊠ MP_δ and of H ⊠ MP_δ ⊠ MP_γ (docs/theory/laws.md,
"Silverstein's law and its outliers"). Both are convex: uy and y are convex, positive and falling,
and so is their product. Their minima are the right edges. Everything is said in the gap
g = u − max t, which keeps its digits at the edge.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from attnlaw._checks import Floats

__all__ = ["NoiseSpectrum", "falling_root"]

HALVINGS = 64
"""Steps of a bisection between logarithms of gaps, some 70 apart: down to rounding."""


@dataclass(frozen=True)
class NoiseSpectrum:
    """Atoms of a noise covariance and their weights; functions of gaps broadcast."""

    atoms: Floats  # t, rising
    weights: Floats  # h

    @classmethod
    def of(cls, eigenvalues: ArrayLike) -> "NoiseSpectrum":
        """Join equal eigenvalues."""
        atoms, counts = np.unique(np.asarray(eigenvalues, dtype=np.float64), return_counts=True)
        return cls(atoms, counts / counts.sum())

    @property
    def top(self) -> float:
        """Largest atom."""
        return float(self.atoms[-1])

    def inverse(self, gap: Floats) -> Floats:
        """Return 1/(u − t), with the atoms as last axis."""
        return np.asarray(1 / (gap[..., None] + (self.top - self.atoms)))

    def y(self, gap: Floats) -> Floats:
        """Return y(u)."""
        return np.asarray(self.inverse(gap) @ (self.weights * self.atoms))

    def y_slope(self, gap: Floats) -> Floats:
        """Return y'(u)."""
        return np.asarray(-(self.inverse(gap) ** 2) @ (self.weights * self.atoms))

    def eigenvalue(self, gap: Floats, *ratios: ArrayLike) -> Floats:
        """Return u Π (1 + c_i y): ℓ with the ratio δ, λ with δ and γ."""
        y = self.y(gap)
        return np.asarray(np.prod([gap + self.top, *(1 + np.asarray(c) * y for c in ratios)], 0))

    def relative_slope(self, gap: Floats, *ratios: ArrayLike) -> Floats:
        """Return the derivative in u of the logarithm of `eigenvalue`."""
        y, slope = self.y(gap), self.y_slope(gap)
        parts = (np.asarray(c) * slope / (1 + np.asarray(c) * y) for c in ratios)
        return np.asarray(sum(parts, 1 / (gap + self.top)))

    def edge_gap(self, *ratios: ArrayLike) -> Floats:
        """Return the gap at the right edge of H ⊠ MP_{c1} ⊠ …: where `eigenvalue` is least.

        There Σ_i c_i (−y')/(1 + c_i y) = 1/u. Since −uy' ≤ u max t/g², the gap is at most
        (c + √c) max t with c = Σ c_i.
        """
        c = np.asarray(sum(np.asarray(ratio) for ratio in ratios), dtype=np.float64)
        high = np.maximum((c + np.sqrt(c)) * self.top, 2e-30 * self.top)
        low = np.full_like(high, 1e-30 * self.top)
        return falling_root(lambda gap: -self.relative_slope(gap, *ratios), low, high)


def falling_root(function: Callable[[Floats], Floats], low: Floats, high: Floats) -> Floats:
    """Return where a function that falls from low > 0 to high changes sign, elementwise.

    Bisection between logarithms; the end that is nearer when there is no change of sign.
    """
    low, high = np.log(low), np.log(high)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        positive = function(np.exp(middle)) > 0
        low, high = np.where(positive, middle, low), np.where(positive, high, middle)
    return np.asarray(np.exp((low + high) / 2))
