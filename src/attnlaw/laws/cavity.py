"""Laws of matrices with heavy rows, by the cavity method: resolvents that fluctuate.

Each row has a few entries that may carry as much energy as all others. With y² the squared heavy
entries of a row and ρ the energy of all others, the resolvents of rows and columns are random,

    R = −1/(w + Σ_k y_k² C_k + ρ E C) ,      R^{(k)} the same without y_k² C_k ,
    C = −1/(w + Σ y² R^{(k)} + E ρR) ,       over a Poisson number of entries,

and the law has w m(w²) = E R (Abou-Chacra, Anderson & Thouless 1973; Rogers et al. 2008). Their
distributions are represented by a population of rows and columns, and renewed by sweeps; each
sweep has other rows, whose entries fall on other columns. Derived in docs/theory/large-beta.md,
"Fluctuating resolvents".

In a causal matrix row i has the columns j ≤ i, means are over those, and a row is constant up to
its heavy entries and noise: −m_i over all of them, which is no matrix of finite rank. With S and T
the denominators of R and C above, the inverse of S − (m_i T_j⁻¹ m_i') is that of the covariance of
a random walk, observed at each i (docs/theory/large-beta.md, "Causal heads").
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
_MATCHED = 5  # of these, the sweeps in which columns are given the mean of rows
_MEAN_FIELD = 40  # iterations without fluctuations, for a start
_NOTHING = 3e-3  # mass below the table that discretisation explains


class HeavyRows(NamedTuple):
    """As many rows as columns, with the entries that are kept one by one."""

    squares: Floats  # y² (rows × entries)
    rest: Floats  # energy of all other entries of a row
    columns: NDArray[np.intp]  # where the entries fall (rows × entries)
    offsets: Floats | None = None  # m of the rows of a causal matrix, in their order


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
    tokens : float
        Number of rows of a causal matrix that one of the population stands for.
    cancelled : float
        Share of the heavy entries' mean, coherent over many rows, that the offsets of a causal
        matrix cancel: 1 if a row has many of them, 0 if few.

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
    tokens: float

    cancelled: float

    def __init__(
        self,
        sweeps: Sequence[HeavyRows],
        mean: float,
        scale: float = 1.0,
        *,
        tokens: float = 1.0,
        cancelled: float = 0.0,
    ) -> None:
        self.__dict__.update(sweeps=sweeps, mean=float(mean), scale=float(scale))
        self.__dict__.update(tokens=float(tokens), cancelled=float(cancelled))

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
        phi = w * _mean_resolvent(self.sweeps, w, self.tokens, self.cancelled)
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
        law = CavityLaw(
            self.sweeps,
            self.mean,
            self.scale * factor,
            tokens=self.tokens,
            cancelled=self.cancelled,
        )
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


def _mean_resolvent(
    sweeps: Sequence[HeavyRows], w: Complexes, tokens: float, cancelled: float
) -> Complexes:
    """E R at points w of the upper half plane, averaged over the sweeps that are counted."""
    from scipy.sparse import csr_matrix

    n_rows, n_entries = sweeps[0].squares.shape
    C = _mean_field(sweeps[0], w)
    field = np.zeros_like(C)
    total, counted = np.zeros_like(w), 0
    every = np.arange(n_rows + 1)
    for t, (squares, rest, columns, offsets) in enumerate(sweeps):
        received = [squares[:, k, None] * C[columns[:, k]] for k in range(n_entries)]
        entries = np.sqrt(squares)
        entries = entries / np.maximum(entries.sum(axis=1), 1e-300)[:, None]
        # sums without one entry, from both sides: no cancellation
        after = np.zeros((max(n_entries, 1), *C.shape), dtype=np.complex128)
        for k in range(n_entries - 1, 0, -1):
            after[k - 1] = after[k] + received[k]
        met = _met_by_rows(C, offsets is not None)
        alone = w + rest[:, None] * met
        before = alone + field
        sums, shares = np.zeros_like(C), np.zeros_like(C)
        for k in range(n_entries):
            others = before + after[k]
            sent = -squares[:, k, None] / others
            if offsets is not None:
                shares += entries[:, k, None] * C[columns[:, k]] * others
            fall = csr_matrix((np.ones(n_rows), columns[:, k], every), shape=(n_rows, n_rows))
            sums += fall.T @ sent
            before = before + received[k]
            alone = alone + received[k]
        R = -1 / before
        noise = _met_by_columns(rest[:, None] * R, offsets is not None)
        C = -1 / (w + sums + noise)
        if offsets is not None:
            left = (offsets[:, None] * (1 - cancelled * shares / (before * met))) ** 2
            walk, C = _observed_walk(alone, -1 / C, left, tokens)
            field = left * walk
            R = -1 / (alone + field)
        if t < _MATCHED:  # E R = E C, which sweeps alone reach slowly as w → 0
            C = C * np.sqrt(R.mean(axis=0) / C.mean(axis=0))
        if t >= _FORGOTTEN:
            total = total + R.mean(axis=0)
            counted += 1
    return np.asarray(total / counted)


def _met_by_rows(C: Complexes, causal: bool) -> Complexes:
    """Mean of C over all columns, or over those up to each row."""
    if not causal:
        return np.asarray(C.mean(axis=0))
    return np.asarray(np.cumsum(C, axis=0) / np.arange(1.0, len(C) + 1)[:, None])


def _met_by_columns(R: Complexes, causal: bool) -> Complexes:
    """Mean of R over all rows, or Σ_{i≥j} R_i/i for each column j."""
    if not causal:
        return np.asarray(R.mean(axis=0))
    return np.cumsum((R / np.arange(1.0, len(R) + 1)[:, None])[::-1], axis=0)[::-1]


def _mean_field(rows: HeavyRows, w: Complexes) -> Complexes:
    """C of columns if all energy of the rows were noise, roughly: a start for the sweeps."""
    energy = (rows.rest + rows.squares.sum(axis=1))[:, None]
    causal = rows.offsets is not None
    C: Complexes = np.tile(-1 / (w + 1j * np.abs(w).max() / 10), (len(energy), 1))
    for _ in range(_MEAN_FIELD):
        R = -1 / (w + energy * _met_by_rows(C, causal))
        renewed = -1 / (w + _met_by_columns(energy * R, causal))
        C = renewed * np.sqrt(C / renewed) * np.sqrt(R.mean(axis=0) / renewed.mean(axis=0))
    return C


def _observed_walk(
    S: Complexes, T: Complexes, squares: Complexes, tokens: float
) -> tuple[Complexes, Complexes]:
    """Variance V of the walk at each row given all other rows, and C of the columns.

    Increments have the variance c = −1/T and rows observe the walk with precision o = m²/S, f
    tokens at a time:

        P⁻_i = P⁺_{i−1} + f c_i ,  P⁺_i = P⁻_i/(1 + f o_i P⁻_i) ;
        J'_i = J_i + f o_i ,  J_{i−1} = J'_i/(1 + f c_i J'_i) ,  J_n = 0 ;
        V_i = P⁻_i/(1 + P⁻_i (J_i + (f−1) o_i)) ,  C_i = −1/(T_i − J'_i/(1 + J'_i (P⁻_i − c_i))) ,

    and R = −1/(S + m²V): both are diagonals of the inverse of [[−S, M], [Mᵀ, −T]], exactly so
    if f = 1.
    """
    c, o = -1 / T, squares / S
    prior, informed = np.empty_like(c), np.empty_like(c)
    after = np.zeros_like(c[0])
    steps, gains = tokens * c, tokens * o
    for i in range(len(c)):
        prior[i] = after + steps[i]
        after = prior[i] / (1 + gains[i] * prior[i])
    later = np.zeros_like(c)
    for i in range(len(c) - 1, -1, -1):
        informed[i] = later[i] + gains[i]
        if i:
            later[i - 1] = informed[i] / (1 + steps[i] * informed[i])
    walk = prior / (1 + prior * (later + (tokens - 1) * o))
    return walk, -1 / (T - informed / (1 + informed * (prior - c)))
