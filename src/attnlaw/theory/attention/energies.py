"""Energies of single rows and columns at a finite number of tokens.

The entries of a head have a heavy tail: the largest of a row, about e^{β√(2 log n)}, may carry
as much energy as all others. So the energy of the noise in a row is not its mean but a random
variable. Given the query's norm, a row is n independent entries (exactly so), and the whole
distribution of its energy is computed (`sums`), the softmax's own normaliser included.
"""

from typing import NamedTuple

import numpy as np

from attnlaw._checks import Floats
from attnlaw.theory.attention.harmonics import harmonic_dimension, zonal_polynomials
from attnlaw.theory.attention.kernel import Kernel, Mode
from attnlaw.theory.attention.quadrature import gauss_rule
from attnlaw.theory.attention.sums import sum_of_copies

__all__ = ["Energies", "Entries", "energies"]

Rule = tuple[Floats, Floats]

_SCORES = 601  # points for the score of an entry
_COMPANIONS = 4  # nodes for the norm of a token given its score
_ENERGIES = 8  # nodes for the energy of a row given its norm
_NORMALISERS = 5  # nodes for the normaliser of a row


class Energies(NamedTuple):
    """The noise of a head at finite n, as seen from its rows and its columns."""

    rows: list[Rule]  # for each node of query norms, energies and their weights
    columns: list[Rule]  # for each node of key norms
    gain: Floats  # mean of 1/(normaliser)² at each query norm, by which blocks grow


def energies(kernel: Kernel, structure: list[Mode]) -> Energies:
    """Return the energies, a head, of all that is neither of degree 0 nor in `structure`."""
    n, h = kernel.n, kernel.h
    entries = Entries(kernel, structure)
    noise, exponentials = entries.rows()
    if h == 1:
        sums = sum_of_copies(noise / n, entries.weights, exponentials / n, n)
        seen = sums.masses > 1e-14
        normaliser = np.where(seen, sums.marks / np.where(seen, sums.masses, 1.0), 1.0)
        rows = [
            _energy_rule(sums.values / t**2, m)
            for t, m in zip(normaliser, sums.masses, strict=True)
        ]
        gain = (sums.masses / normaliser**2).sum(axis=1)
        everything = (sums.masses * kernel.weights[:, None]).ravel()
        logs, shares = gauss_rule(np.log(normaliser).ravel(), everything, _NORMALISERS)
        others: Rule = np.exp(logs), shares
    else:  # normalisers of several heads average out; an entry still limits itself
        others = np.ones(1), np.ones(1)
        gain = np.ones(kernel.norms.size)
        noise = noise / entries.normaliser(exponentials, 1.0) ** 2
        rows = _rules_of_mean(noise, entries.weights, n * h)
    n_entries = n * h if kernel.is_mean else n
    columns = _rules_of_mean(entries.columns(others), entries.weights, n_entries)
    w = kernel.weights
    balance = _mean(w, rows) / _mean(w, columns)  # the same entries, counted by rows and columns
    return Energies(rows, [(c * balance, w) for c, w in columns], gain)


def _rules_of_mean(noise: Floats, weights: Floats, n: int) -> list[Rule]:
    """Energies of a mean of n squared entries, for several kinds of them."""
    sums = sum_of_copies(noise / n, weights, np.zeros_like(noise), n)
    return [_energy_rule(sums.values, masses) for masses in sums.masses]


def _energy_rule(values: Floats, masses: Floats) -> Rule:
    """Gauss's rule in a/(a + mean), in which 1/(w + a) is smooth for all a ≥ 0."""
    mean = float(masses @ values)
    nodes, weights = gauss_rule(values / (values + mean), masses, _ENERGIES)
    nodes = np.clip(nodes, 0.0, 1 - 1e-12)
    return mean * nodes / (1 - nodes), weights


def _mean(weights: Floats, rules: list[Rule]) -> float:
    return float(sum(w * (a @ m) for w, (a, m) in zip(weights, rules, strict=True)))


class Entries:
    """Entries as functions of the score x = √d_k s u and of the companion's norm given x."""

    def __init__(self, kernel: Kernel, structure: list[Mode], n_scores: int = _SCORES) -> None:
        self.kernel, self.structure = kernel, structure
        d = kernel.d
        self.x, self.weights = kernel.scores(n_scores)
        self.norm, self.shares = kernel.companions(self.x, _COMPANIONS)
        cosine = self.x[:, None] / (d**0.5 * self.norm)
        top = max((mode.degree for mode in structure), default=0)
        self.zonal = [
            p * harmonic_dimension(d, k) ** 0.5
            for k, p in enumerate(zonal_polynomials(top, d, cosine))
        ]

    def normaliser(self, exponential: Floats, others: float) -> Floats:
        """Mean of a row's exponentials, this one among them and `others` the mean of the rest."""
        n = self.kernel.n
        return np.asarray(exponential / n + (1 - 1 / n) * others)

    def rows(self) -> tuple[Floats, Floats]:
        """Return squared noise and exponentials, given query norms (nodes × scores)."""
        k = self.kernel
        r = k.norms[:, None]
        exponential = np.exp(k.beta * r * self.x) / k.normaliser(r)
        known = k.coefficient(0, r[..., None] * self.norm) / k.normaliser(r)[..., None]
        for mode in self.structure:
            own = k.left(mode, k.norms)[:, None, None]
            known = known + own * (k.right(mode, self.norm) * self.zonal[mode.degree])
        noise = exponential[:, :, None] - known
        return np.asarray(noise**2 @ self.shares), exponential

    def columns(self, others: Rule) -> Floats:
        """Return squared noise given key norms (nodes × scores), over rows' normalisers."""
        k = self.kernel
        s = k.norms[:, None]
        scale = 1 / k.normaliser(self.norm)
        exponential = np.exp(k.beta * s * self.x)[:, :, None] * scale
        known = k.coefficient(0, s[..., None] * self.norm) * scale
        for mode in self.structure:
            own = k.right(mode, k.norms)[:, None, None]
            known = known + own * (k.left(mode, self.norm) * self.zonal[mode.degree])
        squared = (exponential - known) ** 2
        total = np.zeros(squared.shape[:2])
        for other, share in zip(*others, strict=True):
            total += share * (squared / self.normaliser(exponential, other) ** 2 @ self.shares)
        return total
