"""How much noise each sequence carries when its tokens differ in importance.

Given its tokens, the pooled noise of sequence i has the variance ξ_i κ Σpg² in every direction,
with ξ_i = Σ_l w_l² g_v²/(κ Σpg²) of mean one. It varies from sequence to sequence however large
the matrices are, as in a mixture of sequences (docs/theory/mixtures.md, "Derivation"), and the
sample's factor 1 + γy becomes φ(y) ≥ 1 + γy:

    E ξ/(σ − γξ) = y ,   φ = σ y .        (docs/theory/vocabulary.md, "Unequal noise")

The law of ξ is known by its cumulants, κ_n(ξ) = κ_n(g²) Σ_l w_l^{2n}/(κ Σpg²)^n, and is replaced
by the Gauss quadrature of its first moments.
"""

import itertools
from dataclasses import dataclass
from math import comb

import numpy as np

from attnlaw._checks import Floats

__all__ = ["NoiseScales", "noise_scales"]

MOST_NODES = 6


@dataclass(frozen=True)
class NoiseScales:
    """Atoms ξ of the noise scale of sequences, of mean one, and their masses."""

    atoms: Floats
    masses: Floats

    @property
    def is_single(self) -> bool:
        """Whether all sequences carry the same noise."""
        return len(self.atoms) == 1

    @property
    def variance(self) -> float:
        """Variance of ξ."""
        return float(self.masses @ (self.atoms - 1) ** 2)

    def factor(self, y: Floats, gamma: Floats) -> tuple[Floats, Floats]:
        """Return φ(y) and its derivative in y, for y > 0.

        1/E[ξ/(σ − γξ)] is increasing and concave in σ, so Newton's method climbs to 1/y from any
        point left of the root: γ + 1/y and γξ + qξ/y of the largest atom are two.
        """
        y, gamma = np.broadcast_arrays(y, gamma)
        if self.is_single:
            return np.asarray(1 + gamma * y), np.array(gamma)
        top = int(np.argmax(self.atoms))
        own = self.atoms[top] * (gamma + self.masses[top] / y)
        sigma = np.maximum(gamma + 1 / y, own * (1 + 1e-14))
        for _ in range(100):
            inverse = 1 / (sigma[..., None] - gamma[..., None] * self.atoms)
            h = inverse @ (self.masses * self.atoms)
            slope = -(inverse**2) @ (self.masses * self.atoms)
            step = (h - y) * h / (-slope * y)
            sigma = sigma + np.maximum(step, 0.0)
            if np.all(step <= 4e-16 * sigma):
                break
        return np.asarray(sigma * y), np.asarray(sigma + y / slope)


def noise_scales(weights: Floats, frequencies: Floats, importance: Floats) -> NoiseScales:
    """Return the noise scales of sequences pooled by weights w, tokens by p and g.

    Examples
    --------
    Two positions, tokens of importance 1 and 0 equally frequent: ξ is 0, 1 or 2.

    >>> scales = noise_scales(np.ones(2), np.full(2, 0.5), np.array([1.0, 0.0]))
    >>> scales.atoms.round(9), scales.masses.round(9)
    (array([0., 1., 2.]), array([0.25, 0.5 , 0.25]))
    """
    squares = importance**2 / float(frequencies @ importance**2)
    shares = weights**2 / float(weights @ weights)
    if np.ptp(squares) <= 1e-12:
        return NoiseScales(np.ones(1), np.ones(1))
    spread = np.sqrt(float(frequencies @ (squares - 1) ** 2) * float(shares @ shares))
    order = np.arange(2 * MOST_NODES + 1)
    powers = itertools.accumulate([(squares - 1) / spread] * (len(order) - 1), np.multiply)
    token = [1.0, *(float(frequencies @ power) for power in powers)]
    cumulants = _cumulants(token) * np.array([float(np.sum(shares**n)) for n in order])
    moments = _moments(cumulants)
    for n in range(MOST_NODES, 0, -1):
        nodes = _gauss(moments[: 2 * n + 1], n)
        if nodes is not None and (1 + spread * nodes[0]).min() > -1e-9:
            atoms, masses = np.maximum(1 + spread * nodes[0], 0.0), nodes[1]
            return NoiseScales(atoms / float(masses @ atoms), masses)
    return NoiseScales(np.ones(1), np.ones(1))


def _cumulants(moments: list[float]) -> Floats:
    """Return cumulants from moments; the zeroth is kept as 0."""
    k = np.zeros(len(moments))
    for n in range(1, len(moments)):
        k[n] = moments[n] - sum(comb(n - 1, j - 1) * k[j] * moments[n - j] for j in range(1, n))
    return k


def _moments(cumulants: Floats) -> Floats:
    """Return moments from cumulants."""
    m = np.ones(len(cumulants))
    for n in range(1, len(m)):
        m[n] = sum(comb(n - 1, j - 1) * cumulants[j] * m[n - j] for j in range(1, n + 1))
    return m


def _gauss(moments: Floats, n: int) -> tuple[Floats, Floats] | None:
    """Return n nodes and masses with these moments, None where the moments have fewer."""
    hankel = moments[np.add.outer(np.arange(n + 1), np.arange(n + 1))[:n, :n]]
    scale = 1 / np.sqrt(np.diagonal(hankel))
    if np.linalg.eigvalsh(scale[:, None] * hankel * scale)[0] < 1e-10:
        return None
    full = moments[np.add.outer(np.arange(n), np.arange(n + 1))]
    upper = np.linalg.cholesky(hankel).T
    ratio = np.linalg.solve(upper.T, full)  # rows of the Cholesky factor, one column further
    diagonal = [ratio[k, k + 1] / ratio[k, k] for k in range(n)]
    alpha = np.diff(np.array(diagonal), prepend=0.0)
    beta = np.array([upper[k + 1, k + 1] / upper[k, k] for k in range(n - 1)])
    jacobi = np.diag(alpha) + np.diag(beta, 1) + np.diag(beta, -1)
    nodes, vectors = np.linalg.eigh(jacobi)
    return nodes, vectors[0] ** 2
