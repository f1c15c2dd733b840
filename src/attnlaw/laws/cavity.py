"""Laws of matrices with heavy rows, by the cavity method: fluctuating resolvents.

Each row has a few entries that may carry as much energy as all others. With y² the squared heavy
entries of a row and ρ the energy of all others, the resolvents of rows and columns are random,

    R = −1/(w + Σ_k y_k² C_k + ρ E C) ,      R^{(k)} the same without y_k² C_k ,
    C = −1/(w + Σ y² R^{(k)} + E ρR) ,       over a Poisson number of entries,

and the law has w m(w²) = E R (Abou-Chacra, Anderson & Thouless 1973; Rogers et al. 2008). Their
distributions are represented by a population of rows and columns, and renewed by sweeps, each with
new rows and new columns for their entries. Derived in docs/theory/large-beta.md, "Fluctuating
resolvents".

In a causal matrix row i has the columns j ≤ i, means are over those, and a row is constant up to
its heavy entries and noise: −m_i over all of them, which is no matrix of finite rank. With S and T
the denominators of R and C above, the inverse of S − (m_i T_j⁻¹ m_i') is that of the covariance of
a random walk, observed at each i (docs/theory/large-beta.md, "Causal heads").
"""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Complexes, Floats, count, frozen
from attnlaw.laws._engine.bin_chain import recur
from attnlaw.laws.law import Atom, NumericalLaw

if TYPE_CHECKING:
    from scipy.interpolate import PchipInterpolator

__all__ = ["CavityLaw", "HeavyRows"]

Singles = NDArray[np.complexfloating[Any, Any]]

_ANGLE = 0.04  # arg w for the large singular values
_MOST_ANGLE = 0.6  # and for the smallest
_SPACING = 1.2  # of points in log s, in units of the angle
_DETAIL = 3.0  # log s below the top, from where the angle grows
_DEPTH = 20.0  # log s below the top, where the table ends
_FORGOTTEN = 15  # first sweeps, that depend on the start
_MATCHED = 5  # of these, the sweeps in which columns are given the mean of rows
_MEAN_FIELD = 40  # iterations without fluctuations, for a start
_FIELD_ROWS = 256  # and rows for them
_AT_ONCE = 128  # rows, whose arrays the cache holds
_NOTHING = 3e-3  # mass below the table that discretisation explains


class HeavyRows(NamedTuple):
    """Rows of a matrix, with the entries that are kept individually."""

    squares: Floats  # y² (rows × entries)
    rest: Floats  # energy of all other entries of a row
    columns: NDArray[np.intp]  # where the entries fall (rows × entries)
    offsets: Floats | None = None  # m of the rows of a causal matrix, in their order
    ratio: int = 1  # number of columns for each row


class CavityLaw(NumericalLaw):
    """The law of YYᵀ for a random matrix Y with independent heavy rows.

    Parameters
    ----------
    sweeps : sequence of HeavyRows
        Rows of Y for each sweep, all of the same number; the first 15 sweeps are not counted.
    mean : float
        First moment of the law, known more precisely than from a population.
    scale : float
        Of the law.
    tokens : float
        Number of rows of a causal matrix that one row of the population represents.
    cancelled : float
        Share of the heavy entries' mean, coherent over many rows, that the offsets of a causal
        matrix cancel: 1 if a row has many of them, 0 if few.

    Notes
    -----
    On rays w = |w|e^{iα}, Φ = w E R has Im Φ = (π/2) dF/d log s, smoothed by the Poisson kernel of
    a strip; Im(Φ − iα dΦ/d log w) removes the smoothing to first order and keeps the mass. The
    angle is 0.04 for large singular values and grows to 0.6 for small ones, whose density is
    smooth in log s. Values below 1e-17 of the largest squared singular value count as zero.

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
        most = 1.2 * (np.sqrt(weight) + np.sqrt(rest)) ** 2 + 0.5 * row
        top = 0.5 * np.log(max(most, 1e-20))  # rows of a single entry have no energy
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

    # What the base class needs.

    @cached_property
    def _low(self) -> tuple[float, float]:
        """Log s at the first point, and the mass below it."""
        return float(self._tabulated.x[0]), float(self._tabulated(self._tabulated.x[0]))

    @cached_property
    def atom(self) -> Atom:
        """The mass at zero, of values too small to be distinguished from it."""
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
    sweeps: Sequence[HeavyRows], points: Complexes, tokens: float, cancelled: float
) -> Complexes:
    """E R at points w of the upper half plane, averaged over the sweeps that are counted.

    In single precision: sums over entries are of numbers in one half plane, so that nothing
    cancels, and a population is known to three digits.
    """
    w: Singles = points.astype(np.complex64)
    C = _mean_field(sweeps[0], w)
    field: Singles = np.zeros((len(sweeps[0].rest), w.size), dtype=np.complex64)
    total, counted = np.zeros(w.size, dtype=np.complex128), 0
    for t, sweep in enumerate(sweeps):
        causal = sweep.offsets is not None
        rest = sweep.rest.astype(np.float32)[:, None]
        met = _met_by_rows(C.reshape(sweep.ratio, *field.shape).mean(axis=0), causal)
        alone = w + rest * met
        received, sums, shares = _passed_on(sweep, C, alone + field, causal and cancelled > 0)
        alone += received
        before = alone + field
        R = -_inverse(before)
        noise = _met_by_columns(rest * R, causal) / np.float32(sweep.ratio)
        T = w + sums.reshape(sweep.ratio, *R.shape) + noise
        if sweep.offsets is None:
            C = -_inverse(T)
        else:
            left: Singles = sweep.offsets.astype(np.complex64)[:, None]
            if cancelled > 0:
                left = left * (1 - np.float32(cancelled) * shares * _inverse(before * met))
            left = left * left
            walk, C = _observed_walk(alone, T, left, np.float32(tokens))
            field = left * walk
            R = -_inverse(alone + field)
        C = C.reshape(-1, w.size)
        mean = R.mean(axis=0, dtype=np.complex128)
        if t < _MATCHED:  # E C follows from E R, which sweeps alone reach slowly as w → 0
            known = (mean - (sweep.ratio - 1) / points) / sweep.ratio
            C *= np.sqrt(known / C.mean(axis=0, dtype=np.complex128)).astype(np.complex64)
        if t >= _FORGOTTEN:
            total += mean
            counted += 1
    return np.asarray(total / counted)


def _passed_on(
    rows: HeavyRows, C: Singles, base: Singles, with_shares: bool
) -> tuple[Singles, Singles, Singles]:
    """Σ y²C that rows receive, Σ −y²/(w + all others) that columns do, and rows' shares.

    These are Σ e_k C_k (w + all others) with e ∝ |y|, Σ e = 1.
    """
    from scipy.sparse import csc_matrix

    squares = np.ascontiguousarray(rows.squares.T, dtype=np.float32)[..., None]
    entries = np.sqrt(squares)
    entries /= np.maximum(entries.sum(axis=0), 1e-30)
    columns = np.ascontiguousarray(rows.columns.T)
    received, shares = np.zeros((2, *base.shape), dtype=np.complex64)
    sent = np.empty((len(columns), *base.shape), dtype=np.complex64)
    for start in range(0, len(base), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        seen = C.take(columns[:, part], axis=0)
        given = _scaled(squares[:, part], seen)
        # sums without one entry, from both sides: no cancellation
        others = np.empty_like(given)
        after = np.zeros_like(base[part])
        for k in range(len(given) - 1, -1, -1):
            others[k] = after
            after += given[k]
        received[part] = after
        before = base[part].copy()
        for k in range(len(given)):
            others[k] += before
            before += given[k]
        if with_shares:
            seen *= others
            shares[part] = _scaled(entries[:, part], seen).sum(axis=0)
        sent[:, part] = _scaled(-squares[:, part], _inverse(others))
    n_all = columns.size
    ones = np.ones(n_all, dtype=np.float32)
    fall = csc_matrix((ones, columns.ravel(), np.arange(n_all + 1)), shape=(len(C), n_all))
    sums = fall @ sent.reshape(n_all, -1).view(np.float32)
    return received, sums.view(np.complex64), shares


def _scaled(factors: NDArray[np.float32], z: Singles) -> Singles:
    """Real factors times complex numbers, as twice as many real ones."""
    return np.asarray((factors * z.view(np.float32)).view(np.complex64))


def _inverse(z: Singles) -> Singles:
    """1/z = z̄/|z|², several times as fast as a complex division."""
    size = np.abs(z)
    np.square(size, out=size)
    np.reciprocal(size, out=size)
    return np.asarray(np.conj(z) * size)


def _met_by_rows(C: Singles, causal: bool) -> Singles:
    """Mean of C over all columns, or over those up to each row."""
    if not causal:
        return np.asarray(C.mean(axis=0))
    return np.asarray(np.cumsum(C, axis=0) / np.arange(1, len(C) + 1, dtype=np.float32)[:, None])


def _met_by_columns(R: Singles, causal: bool) -> Singles:
    """Mean of R over all rows, or Σ_{i≥j} R_i/i for each column j."""
    if not causal:
        return np.asarray(R.mean(axis=0))
    counts = np.arange(1, len(R) + 1, dtype=np.float32)[:, None]
    return np.cumsum((R / counts)[::-1], axis=0)[::-1]


def _mean_field(rows: HeavyRows, w: Singles) -> Singles:
    """Approximate C of columns if all energy of the rows were noise: a start for the sweeps."""
    n_rows = len(rows.rest)
    some = np.linspace(0, n_rows - 1, min(n_rows, _FIELD_ROWS)).astype(np.intp)
    energy = (rows.rest + rows.squares.sum(axis=1)).astype(np.float32)[some, None]
    causal = rows.offsets is not None
    C: Singles = np.tile(-1 / (w + 1j * np.abs(w).max() / 10), (some.size, 1))
    for _ in range(_MEAN_FIELD):
        R = -_inverse(w + energy * _met_by_rows(C, causal))
        renewed = -_inverse(w + _met_by_columns(energy * R, causal) / np.float32(rows.ratio))
        mean = (R.mean(axis=0) - np.float32(rows.ratio - 1) / w) / np.float32(rows.ratio)
        C = renewed * np.sqrt(C / renewed) * np.sqrt(mean / renewed.mean(axis=0))
    return np.tile(C[np.arange(n_rows) * some.size // n_rows], (rows.ratio, 1))


def _observed_walk(
    S: Singles, T: Singles, squares: Singles, tokens: np.float32
) -> tuple[Singles, Singles]:
    """Variance V of the walk at each row given all other rows, and C of the columns.

    Increments have the variance c = −1/T and rows observe the walk with precision o = m²/S, f
    tokens at a time:

        P⁻_i = P⁺_{i−1} + f c_i ,  P⁺_i = P⁻_i/(1 + f o_i P⁻_i) ;
        J'_i = J_i + f o_i ,  J_{i−1} = J'_i/(1 + f c_i J'_i) ,  J_n = 0 ;
        V_i = P⁻_i/(1 + P⁻_i (J_i + (f−1) o_i)) ,
        C_i = −1/(T_i − J'_i/(1 + J'_i (P⁺_{i−1} + (f−1) c_i))) ,

    and R = −1/(S + m²V): both are diagonals of the inverse of [[−S, M], [Mᵀ, −T]], exactly so
    if f = 1. With several columns for each row, c is their sum, of which each leaves out itself.
    """
    T = T.reshape(-1, *S.shape)  # columns for each row, which share the walk
    each, o = -_inverse(T), squares * _inverse(S)
    c = each.sum(axis=0)
    steps, gains = tokens * c, tokens * o
    # P⁻ from the first row on and J' from the last one back are the same recursion
    states = np.empty((len(c), 2, c.shape[1]), dtype=c.dtype)
    states[0, 0], states[0, 1] = steps[0], gains[-1]
    rates = np.stack([gains[:-1], steps[:0:-1]], axis=1)
    added = np.stack([steps[1:], gains[-2::-1]], axis=1)
    recur(states, rates, np.ones(len(rates), dtype=c.dtype), added)
    prior, informed = states[:, 0], states[::-1, 1]
    before, later = np.zeros_like(c), np.zeros_like(c)
    before[1:] = prior[:-1] * _inverse(1 + gains[:-1] * prior[:-1])
    later[:-1] = informed[1:] * _inverse(1 + steps[1:] * informed[1:])
    walk = prior * _inverse(1 + prior * (later + (tokens - 1) * o))
    seen = informed * _inverse(1 + informed * (before + (steps - each)))
    return walk, -_inverse(T - seen)
