"""Energies of single rows and columns at a finite number of tokens.

The entries of a head have a heavy tail: the largest of a row, about e^{β√(2 log n)}, may carry
as much energy as all others. So the energy of the noise in a row is not its mean but a random
variable. Given the query's norm, a row is exactly n independent entries, and the whole
distribution of its energy is computed (`sum_of_copies`, by repeated doubling on grids that are
even in the logarithm), the softmax's own normaliser included.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats
from attnlaw.theory.attention.kernel import (
    Kernel,
    Mode,
    gauss_rule,
    harmonic_dimension,
    zonal_polynomials,
)

__all__ = ["Energies", "Entries", "Sums", "doubled_sums", "energies", "sum_of_copies"]

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
    """Return the energies of a head, without degree 0 and the degrees in `structure`."""
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
        """Mean of a row's exponentials, from one of them and the mean `others` of the rest."""
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


_GRID = 144
_COARSE_GRID = 72


class Sums(NamedTuple):
    """Distributions of several sums on one grid, and the mean of a mark at each value."""

    values: Floats  # (grid,)
    masses: Floats  # (kinds, grid)
    marks: Floats  # (kinds, grid): mass × mean mark


def sum_of_copies(terms: Floats, weights: Floats, marks: Floats, n: int) -> Sums:
    """Return the distribution of a sum of n independent copies of a positive variable.

    Parameters
    ----------
    terms : array of shape (kinds, m)
        Values of the variable, for several kinds at once.
    weights : array of shape (m,)
        Their probabilities, the same for all kinds.
    marks : array of shape (kinds, m)
        A second variable that is summed, too; only its mean given the sum is kept.
    n : int
        Number of copies.

    Notes
    -----
    Binary powering: of two independent sums on grids, every pair of grid points is added and
    split between its neighbours on a new grid so that mass and mean are kept exactly. The error
    is a variance of a few 1e-4 of the squared value at each of about 2 log₂ n additions.

    Examples
    --------
    >>> sums = sum_of_copies(np.array([[1.0, 3.0]]), np.array([0.5, 0.5]), np.zeros((1, 2)), 6)
    >>> round(float(sums.masses[0] @ sums.values), 12)
    12.0
    """
    power = _single(terms, weights, marks, _GRID)
    result: Sums | None = None
    while True:
        if n & 1:
            result = power if result is None else _add(result, power)
        n >>= 1
        if not n:
            assert result is not None
            return result
        power = _add(power, power)


def doubled_sums(terms: Floats, weights: Floats, marks: Floats, n: float) -> list[Sums]:
    """Return the distributions of sums of 1, 2, 4, … copies, up to the first power above n.

    On a coarser grid than `sum_of_copies`: ten times faster.

    Examples
    --------
    >>> sums = doubled_sums(np.array([[1.0, 3.0]]), np.array([0.5, 0.5]), np.zeros((1, 2)), 7)
    >>> [round(float(s.masses[0] @ s.values), 12) for s in sums]
    [2.0, 4.0, 8.0, 16.0]
    """
    sums = [_single(terms, weights, marks, _COARSE_GRID)]
    while 2 ** (len(sums) - 1) < n:
        sums.append(_add(sums[-1], sums[-1]))
    return sums


def _single(terms: Floats, weights: Floats, marks: Floats, n_points: int) -> Sums:
    """Return the distribution of the variable itself."""
    least = max(1e-6 * float((terms @ weights).min()), 1e-300)
    grid = _grid(least, float(terms.max()), n_points)
    left, share = _place(grid, terms)
    masses = _deposit(left, share, weights, n_points)
    return Sums(grid, masses, _deposit(left, share, weights * marks, n_points))


def _grid(low: float, high: float, n_points: int) -> Floats:
    high = max(high, 1e-299)
    low = min(low, 0.5 * high)
    return np.concatenate([[0.0], np.geomspace(low, high, n_points - 1)])


def _place(grid: Floats, x: Floats) -> tuple[NDArray[np.intp], Floats]:
    """Return the grid cell of each x and how far into it x lies."""
    left = np.clip(np.searchsorted(grid, x, side="right") - 1, 0, grid.size - 2)
    return left, np.clip((x - grid[left]) / np.diff(grid)[left], 0.0, 1.0)


def _deposit(left: NDArray[np.intp], share: Floats, amount: Floats, n_points: int) -> Floats:
    amount = np.broadcast_to(amount, share.shape)
    rows = []
    for i, t, m in zip(left, share, amount, strict=True):
        both = np.bincount(i, m * (1 - t), n_points) + np.bincount(i + 1, m * t, n_points)
        rows.append(both)
    return np.array(rows)


def _add(a: Sums, b: Sums) -> Sums:
    """Return the distribution of the sum of two independent sums."""
    used_a, used_b = (np.flatnonzero(s.masses.max(axis=0) > 1e-13) for s in (a, b))
    high = a.values[used_a[-1]] + b.values[used_b[-1]]
    mean = float((a.masses @ a.values + b.masses @ b.values).min())
    grid = _grid(max(a.values[used_a[0]] + b.values[used_b[0]], 1e-5 * mean), high, a.values.size)
    pairs = (a.values[:, None] + b.values).ravel()
    left, share = _place(grid, pairs)
    from scipy import sparse

    spread = sparse.csc_matrix(  # two entries in each column
        (
            np.stack([1 - share, share], axis=1).ravel(),
            np.stack([left, left + 1], axis=1).ravel(),
            np.arange(0, 2 * pairs.size + 1, 2),
        ),
        shape=(grid.size, pairs.size),
    )

    def join(f: Floats, g: Floats) -> Floats:
        return (f.T[:, None] * g.T).reshape(-1, len(f))

    masses = spread @ join(a.masses, b.masses)
    marks = spread @ (join(a.masses, b.marks) + join(a.marks, b.masses))
    return Sums(grid, masses.T, marks.T)
