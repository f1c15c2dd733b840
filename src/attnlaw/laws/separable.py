"""The law of a matrix whose rows differ in scale and whose columns differ in variance."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from attnlaw._checks import (
    Complexes,
    Floats,
    Real,
    frozen,
    invalid_argument,
    real,
    real_array,
    scalar,
    scalar_or_array,
)
from attnlaw.laws._engine.expression import (
    Addition,
    Expression,
    PointMasses,
    chain,
    multiplicative_convolution,
)
from attnlaw.laws._engine.free import FreeLaw
from attnlaw.laws.outliers import Poles, SeparableCurve

__all__ = ["SeparableLaw"]

# Imaginary parts, relative to the mean, from far above the real axis down to it.
_DESCENT = 10.0 ** np.array([1, 0.5, 0, -0.5, -1, -1.5, -2, -2.5, -3, -4, -5, -7, -10])


class SeparableLaw(FreeLaw):
    """Limiting spectrum of EᵀE/V for a V×d table E = D^(1/2) Z Σ^(1/2) with Gaussian Z.

    It is H ⊠ (⊞_k q_k r_k MP_{δ/q_k}), H the spectrum of Σ and r_k, q_k that of D. With one row
    scale it is the Silverstein law H ⊠ MP_δ. The algebra of laws gives the same law; this solver
    is made for spectra of hundreds of atoms, such as those estimated from an embedding table, and
    does not need the support. Derived in docs/theory/tables.md, "The law".

    Parameters
    ----------
    columns : array
        Atoms t of H, at least 0: the variances of the noise in its principal directions.
    ratio : float
        δ = d/V > 0.
    rows : array
        Atoms r of the row scales, above 0; by default one, equal to 1.
    column_weights, row_weights : array, optional
        Masses h and q of the atoms, summing to one; equal by default.

    Notes
    -----
    The trace e(z) = (1/d) tr Σ(S−z)⁻¹ is the solution in the upper half plane of

        e = Σ h t/(tφ − z),    φ = Σ q r/(1 + δ r e)        (Paul and Silverstein 2009)

    found by Newton's method while z descends to the real axis. With u = z/φ and y = −eφ, the
    density is −Im((1+y)/z)/π and the distribution function, without quadrature, is

        1 − F(x) = (1/π) [Σ h arg(1 − t/u) + Im y + (1/δ) Σ q arg(1 + δ r e)] ,

    because (1+y) dz/z = d[log z + Σ h log(1−t/u) + y + (1/δ) Σ q log(1+δre)].

    Examples
    --------
    >>> law = SeparableLaw([1.0], ratio=0.25)          # Marchenko–Pastur
    >>> round(law.right_edge, 9), law.cdf([0.2, 2.3]).round(8)
    (2.25, array([0., 1.]))
    """

    columns: Floats  # t
    column_weights: Floats  # h
    rows: Floats  # r
    row_weights: Floats  # q
    ratio: float  # δ
    _trace: tuple[Floats, Complexes] | None  # the last answer, kept
    _start: tuple[Floats, Complexes] | None  # that of a law close by

    def __init__(
        self,
        columns: ArrayLike,
        *,
        ratio: float,
        rows: ArrayLike = (1.0,),
        column_weights: ArrayLike | None = None,
        row_weights: ArrayLike | None = None,
    ) -> None:
        t, h = _atoms("columns", columns, column_weights)
        r, q = _atoms("rows", rows, row_weights)
        if t.min() < 0 or not t.any():
            raise invalid_argument("columns", "at least 0 and not all 0", float(t.min()))
        if r.min() <= 0:
            raise invalid_argument("rows", "above 0", float(r.min()))
        self.__dict__.update(
            columns=t,
            column_weights=h,
            rows=r,
            row_weights=q,
            ratio=scalar("ratio", ratio, above=0),
            _trace=None,
            _start=None,
        )

    @cached_property
    def _expression(self) -> Expression:
        parts = zip(self.row_weights * self.rows, self.ratio / self.row_weights, strict=True)
        rows = chain(
            PointMasses.at(0.0), Addition(parts=tuple((float(s), float(c)) for s, c in parts))
        )
        columns = PointMasses.of(self.columns, self.column_weights)
        return multiplicative_convolution(Expression(columns), rows)

    @cached_property
    def _curve(self) -> SeparableCurve:
        columns = Poles.of_spectrum(self.columns, self.column_weights)
        return SeparableCurve(columns, Poles.of_spectrum(self.rows, self.row_weights), self.ratio)

    def with_columns(self, columns: ArrayLike) -> "SeparableLaw":
        """Return the law with other columns, its solver started from this law's solution.

        At the points where this law was solved it needs only a few steps.
        """
        law = SeparableLaw(
            columns,
            ratio=self.ratio,
            rows=self.rows,
            column_weights=self.column_weights,
            row_weights=self.row_weights,
        )
        law.__dict__["_start"] = self._trace
        return law

    @property
    def mean(self) -> float:
        """First moment: (Σ h t)(Σ q r)."""
        return float(self.column_weights @ self.columns * (self.row_weights @ self.rows))

    def density(self, x: ArrayLike) -> Any:
        """Density of the continuous part at x."""
        return self._at_positive(x, self._density_inside, 0.0)

    def cdf(self, x: ArrayLike) -> Any:
        """Mass of (−∞, x], in closed form once e is known."""
        return self._at_positive(x, self._cdf_inside, float(self.atom.mass.sum()))

    def _at_positive(self, x: ArrayLike, function: Callable[[Floats], Floats], zero: float) -> Any:
        """Evaluate a function at the points above 0, where no support needs to be known."""
        x = real_array("x", x)
        flat = x.ravel()
        above = flat > 0
        result = np.where(flat == 0, zero, 0.0)
        if above.any():
            result[above] = function(flat[above])
        return result.reshape(x.shape)[()]

    def _density_inside(self, x: Floats) -> Floats:
        z, e = self._solve(x)
        y = -e * self._row_mean(e)[0]
        return np.maximum(-((1 + y) / z).imag / np.pi, 0.0)

    def _cdf_inside(self, x: Floats) -> Floats:
        z, e = self._solve(x)
        phi, _ = self._row_mean(e)
        u, y = z / phi, -e * phi
        lengths = np.angle(1 + self.ratio * self.rows[:, None] * e)
        tail = (
            np.angle(z)
            + self.column_weights @ np.angle(1 - self.columns[:, None] / u)
            + y.imag
            + self.row_weights @ lengths / self.ratio
        ) / np.pi
        atom = float(self.atom.mass.sum())  # which a solution at a height above 0 spreads out
        return np.clip(1 - tail, atom, 1.0)

    def _inside(self, x: Floats) -> tuple[Floats, Floats]:
        return self._density_inside(x), self._cdf_inside(x)  # solved once: the answer is kept

    def __repr__(self) -> str:
        sizes = f"{self.columns.size} columns, {self.rows.size} rows"
        return f"SeparableLaw(<{sizes}>, ratio={self.ratio:g})"

    @cached_property
    def right_edge(self) -> float:
        """Right edge of the support, computed without the rest of it."""
        return float(self._curve.eigenvalue(self._curve.edge_offset()))

    def outlier(self, variance: ArrayLike) -> Real:
        """Sample outliers of eigenvalues of Σ above max t; the right edge where there is none.

        A single direction of this variance changes neither H nor D, so its sample eigenvalue is
        z(u) with u equal to the variance, as long as z is increasing there (Bai and Yao 2012).
        """
        u = np.asarray(real("variance", variance, above=float(self.columns.max())))
        offset = np.maximum(u - self.columns.max(), self._curve.edge_offset())
        return scalar_or_array(self._curve.eigenvalue(offset))

    def population(self, x: ArrayLike) -> Floats:
        """Variances u = z/φ behind outliers seen at x above the right edge: `outlier` inverted."""
        points = np.asarray(real("x", x, above=0))
        z, e = self._solve(points.ravel())
        return np.asarray((z / self._row_mean(e)[0]).real.reshape(points.shape))

    def _row_mean(self, e: Complexes) -> tuple[Complexes, Complexes]:
        """φ(e) and its derivative."""
        q, r = self.row_weights, self.rows
        inverse = 1 / (1 + self.ratio * r[:, None] * e)
        return (q * r) @ inverse, -self.ratio * ((q * r**2) @ inverse**2)

    def _column_mean(self, phi: Complexes, z: Complexes) -> tuple[Complexes, Complexes]:
        """T = Σ h t/(tφ − z) and its derivative in φ."""
        t = self.columns[:, None]
        parts = t / (t * phi - z)
        value = self.column_weights @ parts
        parts *= parts
        return value, -(self.column_weights @ parts)

    def _solve(self, x: Floats) -> tuple[Complexes, Complexes]:
        """Return z next to the real axis and e(z), for a flat array of x > 0."""
        scale = self.mean
        z = x + 1j * scale * _DESCENT[-1]
        if self._trace is not None and np.array_equal(self._trace[0], x):
            return z, self._trace[1]
        done = False
        if self._start is not None and np.array_equal(self._start[0], x):
            e, done = self._newton(self._start[1], z, 1e-10, 15)
        if not done:  # (only one solution lies above the real axis: a near one is the right one)
            e = -scale / (x + 1j * scale * _DESCENT[0])
            for height in _DESCENT:
                last = height == _DESCENT[-1]
                e, _ = self._newton(e, x + 1j * scale * height, 1e-11 if last else 1e-3, 60)
        self.__dict__["_trace"] = x, e
        return z, e

    def _newton(
        self, e: Complexes, z: Complexes, tolerance: float, n_steps: int
    ) -> tuple[Complexes, bool]:
        """Solve e = T(φ(e)).

        The map sends the upper half plane into itself, so at its one fixed point there its
        derivative is at most 1 in size (Schwarz and Pick; exactly 1 in the bulk); at other roots
        in a gap, which rounding may lift above the axis, it is larger. Where it is larger, and
        where a step would leave the half plane, Newton's step becomes an averaged one.
        """
        for _ in range(n_steps):
            phi, dphi = self._row_mean(e)
            value, slope = self._column_mean(phi, z)
            derivative = slope * dphi
            step = e + (value - e) / (1 - derivative)
            step = np.where((step.imag > 0) & (np.abs(derivative) < 1.01), step, (e + value) / 2)
            error = np.abs(step - e) / np.abs(step)
            e = step
            if error.max(initial=0.0) < tolerance:
                return e, True
        return e, False


def _atoms(name: str, atoms: ArrayLike, weights: ArrayLike | None) -> tuple[Floats, Floats]:
    """Check atoms and their masses."""
    t = np.atleast_1d(real_array(name, atoms))
    if t.ndim != 1 or t.size == 0:
        raise invalid_argument(name, "a list of atoms", t)
    h = np.full(t.size, 1 / t.size) if weights is None else real_array(f"{name} weights", weights)
    if h.shape != t.shape or h.min() < 0 or abs(h.sum() - 1) > 1e-9:
        raise invalid_argument(f"{name} weights", f"{t.size} masses that sum to one", h)
    return frozen(t), frozen(h)
