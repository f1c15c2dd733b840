r"""What noise alone would show: edge, fluctuations and outliers of a null law, in one variable.

Every null here is a population law ⊠ MP_γ. With y = λ G(λ) − 1, G the Cauchy transform of the
sample law, an outlier at λ and its population counterpart ℓ obey

    λ = ℓ (1 + γ y) ,    0 < y < y* .

λ falls as y grows, and the right edge is its minimum. All else follows from ℓ as a function of y:

    edge fluctuations   d^{−2/3} (λ''(y*) λ(y*)²/2)^{1/3}   times a Tracy–Widom variable
    sample overlap      (ℓ/λ) (dλ/dy)/(dℓ/dy)               of sample and population eigenvector
    shrunken value      λ/(1 + γ y)²                        what the sample eigenvector holds of C

y and ℓ are rational functions of a parameter p. Derived in docs/theory/signal-components.md, "One
variable".
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from attnlaw._checks import Floats

__all__ = ["Null", "Outlier", "Population", "SpectrumPopulation", "TokenPopulation"]


class Jet(NamedTuple):
    """A function of the parameter, elementwise, with its first two derivatives."""

    value: Any
    first: Any
    second: Any


class Population(Protocol):
    """Spectrum of the noise in the population, of unit mean."""

    largest: float  # upper end of the parameter p
    second_moment: float  # of the spectrum

    def y(self, p: Any) -> Jet:
        """Return y, which grows from 0 with p."""
        ...

    def ell(self, p: Any) -> Jet:
        """Return ℓ, which falls from infinity as p grows from 0."""
        ...

    def strength(self, p: Any) -> Any:
        """Return the trace that a spike with its outlier at ℓ(p) adds to the noise."""
        ...

    def overlap(self, p: Any) -> Any:
        """Return the squared overlap of that outlier with the direction of the spike."""
        ...


class SpectrumPopulation:
    """Independent rows whose covariance has a given spectrum H; one eigenvalue: white noise.

    p = 1/ℓ and y = ∫ x p/(1 − x p) H(dx), Silverstein's law (docs/theory/laws.md,
    "Silverstein's law and its outliers").

    Parameters
    ----------
    eigenvalues : array
        Of the noise covariance, in any units.
    """

    def __init__(self, eigenvalues: ArrayLike = (1.0,)) -> None:
        values, counts = np.unique(np.asarray(eigenvalues, dtype=float), return_counts=True)
        self._h = counts / counts.sum()
        self._x = values / (self._h @ values)
        self.largest = 1 / float(self._x[-1])
        self.second_moment = float(self._h @ self._x**2)

    def y(self, p: Any) -> Jet:
        """Return Σ h x p/(1 − x p)."""
        h, x = self._h, self._x
        a = 1 / (1 - np.multiply.outer(p, x))
        return Jet(p * ((x * a) @ h), (x * a**2) @ h, 2 * ((x**2 * a**3) @ h))

    def ell(self, p: Any) -> Jet:
        """Return 1/p."""
        return Jet(1 / p, -1 / p**2, 2 / p**3)

    def strength(self, p: Any) -> Any:
        """Return ℓ − 1: the spike takes the place of an eigenvalue of the noise."""
        return 1 / p - 1

    def overlap(self, p: Any) -> Any:
        """Return 1: the outlier's eigenvector is the direction of the spike."""
        return np.ones_like(p)


class TokenPopulation:
    """Pooled tokens from a table, C = Zᵀ diag(f) Z/V with frequencies f of mean one.

    p is C's own Cauchy transform, ℓ = 1/p + mean f/(1 − δ f p) and y = ℓ p − 1: a free compound
    Poisson law; with equally frequent tokens MP_δ, and y = 1/t in the letters of
    docs/theory/alignment.md, "The spike".

    Parameters
    ----------
    vocab_ratio : float
        δ = d/V.
    frequencies : array
        Of the tokens, in any units.
    """

    def __init__(self, vocab_ratio: float, frequencies: ArrayLike = (1.0,)) -> None:
        values, counts = np.unique(np.asarray(frequencies, dtype=float), return_counts=True)
        self._h = counts / counts.sum()
        self._f = values / (self._h @ values)
        self.vocab_ratio = vocab_ratio
        self.alike = len(self._f) == 1
        self.largest = 1 / (vocab_ratio * float(self._f[-1]))
        self.frequency_moment = float(self._h @ self._f**2)
        self.second_moment = 1 + vocab_ratio * self.frequency_moment

    def y(self, p: Any) -> Jet:
        """Return p mean f/(1 − δ f p)."""
        h, f, delta = self._h, self._f, self.vocab_ratio
        a = 1 / (1 - delta * np.multiply.outer(p, f))
        return Jet(p * ((f * a) @ h), (f * a**2) @ h, 2 * delta * ((f**2 * a**3) @ h))

    def ell(self, p: Any) -> Jet:
        """Return 1/p + mean f/(1 − δ f p)."""
        h, f, delta = self._h, self._f, self.vocab_ratio
        fa = f / (1 - delta * np.multiply.outer(p, f))
        return Jet(
            1 / p + fa @ h, -1 / p**2 + delta * (fa**2 @ h), 2 / p**3 + 2 * delta**2 * (fa**3 @ h)
        )

    def edge_parameter(self, sample_ratio: float) -> float:
        """Return p at the edge of MP_δ ⊠ MP_γ, for equally frequent tokens.

        λ = (1+y)(1+δy)(1+γy)/y has its minimum where 2δγ y³ + (δ+γ+δγ) y² = 1, and y = p/(1−δp).
        Newton's method falls to the root from above.
        """
        delta, gamma = self.vocab_ratio, sample_ratio
        cubic, square = 2 * delta * gamma, delta + gamma + delta * gamma
        y, step = square**-0.5, 1.0
        while step > 1e-15 * y:
            step = (cubic * y**3 + square * y**2 - 1) / (3 * cubic * y**2 + 2 * square * y)
            y -= step
        return float(y / (1 + delta * y))

    def strength(self, p: Any) -> Any:
        """Return ρ = 1/p: the additive spike ρ a aᵀ has its outlier where p = 1/ρ."""
        return 1 / p

    def overlap(self, p: Any) -> Any:
        """Return −p² dℓ/dp: 1 − δ y² for equally frequent tokens, as in `predict`."""
        return np.clip(-(p**2) * self.ell(p).first, 0, 1)


class Outlier(NamedTuple):
    """What an eigenvalue beyond the edge says of the population, in units of the noise."""

    population_eigenvalue: float  # ℓ
    shrunken_eigenvalue: float  # λ/(1+γy)²
    squared_overlap: float  # of the sample eigenvector with the direction of the spike
    strength: float  # trace that the spike adds to the noise: ρ for tokens
    slope: float  # d strength/dλ


@dataclass(frozen=True)
class Null:
    """Sample spectrum of pure noise of unit mean: a population law ⊠ MP_γ."""

    population: Population
    sample_ratio: float  # γ = d/N

    def _lam(self, p: Any) -> Jet:
        y, ell, gamma = self.population.y(p), self.population.ell(p), self.sample_ratio
        gain = 1 + gamma * y.value
        return Jet(
            ell.value * gain,
            ell.first * gain + gamma * ell.value * y.first,
            ell.second * gain + gamma * (2 * ell.first * y.first + ell.value * y.second),
        )

    @cached_property
    def _edge_parameter(self) -> float:
        from scipy.optimize import brentq

        if isinstance(self.population, TokenPopulation) and self.population.alike:
            return self.population.edge_parameter(self.sample_ratio)
        top = self.population.largest
        inside = 1 - 1e-14
        return float(brentq(lambda q: q**2 * self._lam(q * top).first, 1e-9, inside) * top)

    @cached_property
    def edge(self) -> float:
        """Right edge λ₊ of the bulk."""
        return float(self._lam(self._edge_parameter).value)

    @cached_property
    def edge_scale(self) -> float:
        """(λ''(y*) λ₊²/2)^{1/3}: times d^{−2/3}, the unit of the edge's fluctuations."""
        p = self._edge_parameter
        curvature = self._lam(p).second / self.population.y(p).first ** 2
        return float((curvature * self.edge**2 / 2) ** (1 / 3))

    @cached_property
    def _grid(self) -> tuple[Floats, Floats]:
        """Table of λ, rising, and p."""
        near, far = 1 - np.geomspace(1e-8, 0.5, 300), np.geomspace(0.499, 1e-12, 1500)
        p = self._edge_parameter * np.concatenate([[1.0], near, far])
        return np.asarray(self._lam(p).value), p

    def strength(self, eigenvalues: Floats) -> Floats:
        """Return the trace that spikes with these outliers add to the noise; from a table."""
        lam, p = self._grid
        return np.asarray(self.population.strength(np.interp(eigenvalues, lam, p)))

    def outlier(self, eigenvalue: float) -> Outlier:
        """Return what an eigenvalue beyond the edge says; at the edge, what the theorem gives."""
        from scipy.optimize import brentq

        lam, grid = self._grid
        place = int(np.searchsorted(lam, eigenvalue))
        if place == 0:
            p = self._edge_parameter
        elif place == len(lam):
            p = float(1 / eigenvalue)
        else:
            p = float(
                brentq(
                    lambda q: self._lam(q).value - eigenvalue,
                    grid[place],
                    grid[place - 1],
                    rtol=1e-14,
                )
            )
        population, at, ell = self.population, self._lam(p), self.population.ell(p)
        gain = 1 + self.sample_ratio * population.y(p).value
        sample_overlap = np.clip((ell.value / at.value) * (at.first / ell.first), 0, 1)
        return Outlier(
            population_eigenvalue=float(ell.value),
            shrunken_eigenvalue=float(at.value / gain**2),
            squared_overlap=float(sample_overlap * population.overlap(p)),
            strength=float(population.strength(p)),
            slope=float(-1 / (p**2 * at.first)) if at.first else float("inf"),
        )
