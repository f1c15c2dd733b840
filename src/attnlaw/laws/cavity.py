"""Laws of matrices with heavy rows, by the cavity method: resolvents that fluctuate.

Each row has a few entries that may carry as much energy as all others. With y² the squared heavy
entries of a row and ρ the energy of all others, the resolvents of rows and columns are random,

    R = −1/(w + Σ_k y_k² C_k + ρ E C) ,      R^{(k)} the same without y_k² C_k ,
    C = −1/(w + Σ y² R^{(k)} + E ρR) ,       over a Poisson number of entries,

and the law has w m(w²) = E R (Abou-Chacra, Anderson & Thouless 1973; Rogers et al. 2008). Their
distributions are represented by a population of rows and columns, and renewed by sweeps; each
sweep has other rows, whose entries fall on other columns. Derived in docs/theory/large-beta.md,
"Fluctuating resolvents".
"""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Complexes, Floats, count, frozen
from attnlaw.laws.law import Atom, NumericalLaw

if TYPE_CHECKING:
    from scipy.interpolate import PchipInterpolator

__all__ = ["CavityLaw", "HeavyRows"]

_ANGLE = 0.04  # arg w for the large singular values
_MOST_ANGLE = 0.6  # and for the smallest
_SPACING = 1.2  # of points in log s, in units of the angle
_DETAIL = 3.0  # log s below the top, from where the angle grows
_DEPTH = 20.0  # log s below the top, where the table ends
_FORGOTTEN = 15  # first sweeps, that depend on the start
_NOTHING = 3e-3  # mass below the table that discretisation explains


class HeavyRows(NamedTuple):
    """As many rows as columns, with the entries that are kept one by one."""

    squares: Floats  # y² (rows × entries)
    rest: Floats  # energy of all other entries of a row
    columns: NDArray[np.intp]  # where the entries fall (rows × entries)


class CavityLaw(NumericalLaw):
    """The law of YYᵀ for a square random matrix Y with independent heavy rows.

    Parameters
    ----------
    sweeps : sequence of HeavyRows
        Rows of Y for each sweep, all of the same number; the first 15 sweeps are not counted.
    mean : float
        First moment of the law, which is known better than from a population.
    scale : float
        Of the law.

    Notes
    -----
    On rays w = |w|e^{iα}, Φ = w E R has Im Φ = (π/2) dF/d log s, smoothed by the Poisson kernel of
    a strip; Im(Φ − iα dΦ/d log w) takes that away to first order and keeps the mass. The angle is
    0.04 for large singular values and grows to 0.6 for small ones, whose density is smooth in
    log s. What is below 1e-17 of the largest squared singular value counts as zero.

    Examples
    --------
    Rows with a single 1, at random, count how often a column is hit: a Poisson law.

    >>> rng = np.random.default_rng(0)
    >>> one, zero = np.ones((512, 1)), np.zeros(512)
    >>> law = CavityLaw(
    ...     [HeavyRows(one, zero, rng.integers(512, size=(512, 1))) for _ in range(40)], mean=1.0)
    >>> expected = np.exp(-1) * np.array([1, 2, 2.5])
    >>> bool(np.abs(law.cdf([0.5, 1.5, 2.5]) - expected).max() < 0.01)
    True
    """

    sweeps: Sequence[HeavyRows]
    mean: float

    def __init__(self, sweeps: Sequence[HeavyRows], mean: float, scale: float = 1.0) -> None:
        self.__dict__.update(sweeps=sweeps, mean=float(mean), scale=float(scale))

    @cached_property
    def _grid(self) -> tuple[Floats, Floats]:
        """Points log |w| of the table, increasing, and their angles."""
        weight = max(float(_column_sums(s.columns, s.squares).max()) for s in self.sweeps)
        row = max(float((s.squares.sum(axis=1) + s.rest).max()) for s in self.sweeps)
        rest = max(float(s.rest.mean()) for s in self.sweeps)
        top = 0.5 * np.log(1.2 * (np.sqrt(weight) + np.sqrt(rest)) ** 2 + 0.5 * row)
        points = [0.0]
        while points[-1] < _DEPTH:
            points.append(points[-1] + _SPACING * float(_angle(np.array(points[-1]))))
        below = np.array(points[::-1])
        return top - below, _angle(below)

    @cached_property
    def _tabulated(self) -> "PchipInterpolator":
        """Cdf as a function of log s."""
        from scipy.interpolate import CubicSpline, PchipInterpolator

        t, angle = self._grid
        w = np.exp(t + 1j * angle)
        phi = w * _mean_resolvent(self.sweeps, w)
        slope = CubicSpline(t, phi)(t, 1) / (1 + 1j * np.gradient(angle, t))
        flux = np.maximum(2 / np.pi * (phi - 1j * angle * slope).imag, 0.0)
        mass = PchipInterpolator(t, flux).antiderivative()(t)
        zero = 1 - mass[-1]
        if zero < _NOTHING:
            mass, zero = mass / mass[-1], 0.0
        return PchipInterpolator(t, np.clip(zero + mass, 0.0, 1.0))

    # What the base class asks for.

    @cached_property
    def _low(self) -> tuple[float, float]:
        """Log s at the first point, and the mass below it."""
        return float(self._tabulated.x[0]), float(self._tabulated(self._tabulated.x[0]))

    @cached_property
    def atom(self) -> Atom:
        """The mass at zero, of values too small to tell from it."""
        mass = np.array([m for m in self._low[1:] if m > 0])
        return Atom(frozen(np.zeros(mass.size)), frozen(mass))

    def _intervals(self) -> Floats:
        return self.scale * np.exp(2 * self._tabulated.x[[0, -1]])[None]

    def _inside(self, x: Floats) -> tuple[Floats, Floats]:
        t = 0.5 * np.log(x / self.scale)
        slope = np.maximum(self._tabulated(t, 1), 0.0)
        return np.asarray(slope / (2 * x)), np.clip(self._tabulated(t), 0.0, 1.0)

    def _density_inside(self, x: Floats) -> Floats:
        return self._inside(x)[0]

    def _cdf_inside(self, x: Floats) -> Floats:
        return self._inside(x)[1]

    def _quantiles(self, q: Floats) -> Floats:
        """Bisection in log x."""
        table = self._tabulated
        low, high = np.full(q.size, table.x[0]), np.full(q.size, table.x[-1])
        for _ in range(55):
            middle = 0.5 * (low + high)
            left = table(middle) < q
            low, high = np.where(left, middle, low), np.where(left, high, middle)
        zero = (q <= self._low[1]) & (self._low[1] > 0)
        return np.asarray(np.where(zero, 0.0, self.scale * np.exp(2 * high)))

    def _cauchy(self, z: Complexes) -> Complexes:
        """∫ν(dx)/(z − x) with a density that is constant in small cells."""
        table = self._tabulated
        t = np.linspace(table.x[0], table.x[-1], 4001)
        x, below = self.scale * np.exp(2 * t), table(t)
        rate = np.diff(below) / np.diff(x)
        # Σ rate (log(z − x_k) − log(z − x_{k+1})), summed by parts
        jumps = np.diff(rate, prepend=0.0, append=0.0)
        result = np.array([np.sum(jumps * np.log(v - x)) for v in z])
        return np.asarray(result + self._low[1] / z)

    def moment(self, k: int) -> float:
        """Moment ∫ xᵏ ν(dx), by quadrature of the table (the first one exactly)."""
        k = count("k", k, at_least=0)
        if k < 2:
            return self.scale * self.mean if k else 1.0
        t = np.linspace(self._tabulated.x[0], self._tabulated.x[-1], 8001)
        values = np.exp(2 * t)
        masses = np.diff(self._tabulated(t))
        first, raw = (masses @ (0.5 * (values[1:] ** p + values[:-1] ** p)) for p in (1, k))
        return float(raw * (self.scale * self.mean / first) ** k)

    def _rescaled(self, factor: float) -> "CavityLaw":
        law = CavityLaw(self.sweeps, self.mean, self.scale * factor)
        law.__dict__["_tabulated"] = self._tabulated
        return law

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CavityLaw):
            return NotImplemented
        return self.sweeps is other.sweeps and self.scale == other.scale

    def __hash__(self) -> int:
        return hash((id(self.sweeps), self.scale))

    def __repr__(self) -> str:
        head = "" if self.scale == 1 else f"{self.scale:g} * "
        rows, entries = self.sweeps[0].squares.shape
        return f"{head}CavityLaw({len(self.sweeps)} sweeps of {rows} rows, {entries} entries each)"


def _angle(below: Floats) -> Floats:
    """Angle of w at a distance in log s below the top."""
    return np.clip(_ANGLE + 0.1 * (below - _DETAIL), _ANGLE, _MOST_ANGLE)


def _column_sums(columns: NDArray[np.intp], values: Floats) -> Floats:
    return np.asarray(np.bincount(columns.ravel(), values.ravel(), len(columns)), dtype=float)


def _mean_resolvent(sweeps: Sequence[HeavyRows], w: Complexes) -> Complexes:
    """E R at points w of the upper half plane, averaged over the sweeps that are counted."""
    from scipy.sparse import csr_matrix

    n_rows, n_entries = sweeps[0].squares.shape
    C: Complexes = np.tile(-1 / (w + 1j * np.abs(w).max() / 10), (n_rows, 1))
    total, counted = np.zeros_like(w), 0
    every = np.arange(n_rows + 1)
    for t, (squares, rest, columns) in enumerate(sweeps):
        received = [squares[:, k, None] * C[columns[:, k]] for k in range(n_entries)]
        # sums without one entry, from both sides: no cancellation
        after = np.zeros((n_entries, *C.shape), dtype=np.complex128)
        for k in range(n_entries - 1, 0, -1):
            after[k - 1] = after[k] + received[k]
        before = w + rest[:, None] * C.mean(axis=0)
        sums = np.zeros_like(C)
        for k in range(n_entries):
            sent = -squares[:, k, None] / (before + after[k])
            fall = csr_matrix((np.ones(n_rows), columns[:, k], every), shape=(n_rows, n_rows))
            sums += fall.T @ sent
            before = before + received[k]
        R = -1 / before
        C = -1 / (w + sums + rest @ R / n_rows)
        if t >= _FORGOTTEN:
            total = total + R.mean(axis=0)
            counted += 1
    return np.asarray(total / counted)
