"""The law of a matrix whose rows differ in length and whose columns differ in variance."""

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from attnlaw._checks import Complexes, Floats, frozen, invalid_argument, real, real_array

__all__ = ["SeparableLaw"]

# Imaginary parts, relative to the mean, from far above the real axis down to it.
_DESCENT = 10.0 ** np.array([1, 0.5, 0, -0.5, -1, -1.5, -2, -2.5, -3, -4, -5, -7, -10])


class SeparableLaw:
    """Limiting spectrum of EᵀE/V for a V×d table E = D^(1/2) Z Σ^(1/2) with Gaussian Z.

    It is H ⊠ (⊞_k q_k r_k MP_{δ/q_k}), H the spectrum of Σ and r_k, q_k that of D. With one row
    scale it is the Silverstein law H ⊠ MP_δ. The algebra of laws gives the same; this solver is
    made for spectra of hundreds of atoms, such as those estimated from an embedding table. Derived
    in docs/theory/tables.md, "The law".

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
    density is −Im((1+y)/z)/π and the distribution function, free of any quadrature, is

        1 − F(x) = (1/π) [Σ h arg(1 − t/u) + Im y + (1/δ) Σ q arg(1 + δ r e)] ,

    because (1+y) dz/z = d[log z + Σ h log(1−t/u) + y + (1/δ) Σ q log(1+δre)].

    Examples
    --------
    >>> law = SeparableLaw([1.0], ratio=0.25)          # Marchenko–Pastur
    >>> round(law.right_edge, 9), law.cdf([0.2, 2.3]).round(8)
    (2.25, array([0., 1.]))
    """

    def __init__(
        self,
        columns: ArrayLike,
        *,
        ratio: float,
        rows: ArrayLike = (1.0,),
        column_weights: ArrayLike | None = None,
        row_weights: ArrayLike | None = None,
    ) -> None:
        self.ratio = float(real("ratio", ratio, above=0))
        self.columns, self.column_weights = _atoms("columns", columns, column_weights)
        self.rows, self.row_weights = _atoms("rows", rows, row_weights)
        if self.columns.min() < 0 or not self.columns.any():
            raise invalid_argument(
                "columns", "at least 0 and not all 0", float(self.columns.min())
            )
        if self.rows.min() <= 0:
            raise invalid_argument("rows", "above 0", float(self.rows.min()))
        self._trace: tuple[Floats, Complexes] | None = None  # the last answer, kept
        self._start: tuple[Floats, Complexes] | None = None  # that of a law close by

    def with_columns(self, columns: ArrayLike) -> "SeparableLaw":
        """Return the law with other columns, started from this one's answer.

        Asked for the same points as this one was, it needs only a few steps.
        """
        law = SeparableLaw(
            columns,
            ratio=self.ratio,
            rows=self.rows,
            column_weights=self.column_weights,
            row_weights=self.row_weights,
        )
        law._start = self._trace
        return law

    @property
    def mean(self) -> float:
        """First moment: (Σ h t)(Σ q r)."""
        return float(self.column_weights @ self.columns * (self.row_weights @ self.rows))

    def density(self, x: ArrayLike) -> Floats:
        """Density at the points x > 0."""
        points, z, e = self._solve(x)
        y = -e * self._row_mean(e)[0]
        return np.asarray(np.maximum(-((1 + y) / z).imag / np.pi, 0.0)).reshape(points.shape)

    def cdf(self, x: ArrayLike) -> Floats:
        """Distribution function at the points x > 0, in closed form once e is known."""
        points, z, e = self._solve(x)
        phi, _ = self._row_mean(e)
        u, y = z / phi, -e * phi
        lengths = np.angle(1 + self.ratio * self.rows[:, None] * e)
        tail = (
            np.angle(z)
            + self.column_weights @ np.angle(1 - self.columns[:, None] / u)
            + y.imag
            + self.row_weights @ lengths / self.ratio
        ) / np.pi
        return np.asarray(np.clip(1 - tail, 0.0, 1.0)).reshape(points.shape)

    @cached_property
    def right_edge(self) -> float:
        """Right edge of the support: the least z(u) = δ u s y(u) over u > max t."""
        from scipy.optimize import minimize_scalar

        top = float(self.columns.max())

        def position(log_gap: float) -> float:
            return self._position(top * (1 + float(np.exp(log_gap))))

        best = minimize_scalar(position, bounds=(-30.0, 12.0), options={"xatol": 1e-10})
        return float(best.fun)

    def outlier(self, variance: float) -> float:
        """Where an eigenvalue of Σ above max t is seen in the sample; the edge if it is not.

        A lone direction of this variance changes neither H nor D, so it is seen at z(u) with
        u equal to the variance, as long as z is increasing there (Bai and Yao 2012).
        """
        u = float(real("variance", variance, above=float(self.columns.max())))
        here, further = self._position(u), self._position(u * (1 + 1e-6))
        return here if further > here else float(self.right_edge)

    def population(self, x: ArrayLike) -> Floats:
        """Variances u = z/φ behind outliers seen at x above the right edge: `outlier` inverted."""
        points, z, e = self._solve(x)
        return np.asarray((z / self._row_mean(e)[0]).real.reshape(points.shape))

    def _position(self, u: float) -> float:
        """z(u) on the real axis right of max t: δ u s y(u) with y_D(s) = δ y(u), s > max r."""
        from scipy.optimize import brentq

        y = float(self.column_weights @ (self.columns / (u - self.columns)))
        target, top = self.ratio * y, float(self.rows.max())
        below_top = top - self.rows

        def excess(log_gap: float) -> float:
            gaps = below_top + top * np.exp(log_gap)  # s − r, without cancellation
            return float(np.log(self.row_weights @ (self.rows / gaps)) - np.log(target))

        s = top * (1 + float(np.exp(brentq(excess, -700.0, 100.0))))
        return self.ratio * u * s * y

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

    def _solve(self, x: ArrayLike) -> tuple[Floats, Complexes, Complexes]:
        points = real_array("x", x)
        if points.size and points.min() <= 0:
            raise invalid_argument("x", "above 0", float(points.min()))
        flat, scale = points.ravel(), self.mean
        if self._trace is not None and np.array_equal(self._trace[0], flat):
            return points, flat + 1j * scale * _DESCENT[-1], self._trace[1]
        z = flat + 1j * scale * _DESCENT[-1]
        if self._start is not None and np.array_equal(self._start[0], flat):
            e, done = self._newton(self._start[1], z, 1e-10, 15)
            if done:  # only one solution lies above the real axis, so this is it
                self._trace = flat, e
                return points, z, e
        e = -scale / (flat + 1j * scale * _DESCENT[0])
        for height in _DESCENT:
            z = flat + 1j * scale * height
            last = height == _DESCENT[-1]
            e, _ = self._newton(e, z, 1e-11 if last else 1e-3, 60)
        self._trace = flat, e
        return points, z, e

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
