"""Laws in closed form: Marchenko–Pastur and the product of two, semicircle, finitely many atoms.

Near an edge e a density is like √|x − e|, so the rounding error of e itself would cost it digits.
But e is a stationary value of z(t): a t that is right to ε gives e to ε², once z(t) is evaluated
exactly, in rational numbers. So edges are known to twice the working precision (`Edge`).
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._checks import LARGEST, Floats, invalid_argument, real, real_array, scalar
from attnlaw.laws._engine.expression import (
    Addition,
    Expression,
    Multiplication,
    PointMasses,
    chain,
)
from attnlaw.laws._engine.free import ClosedFormLaw, FreeLaw
from attnlaw.laws._engine.uniformisation import bent_argument, cauchy_sums
from attnlaw.laws.outliers import white_edge_parameter

__all__ = ["Discrete", "MarchenkoPastur", "Semicircle", "WishartProduct"]


class Edge(NamedTuple):
    """An edge as an unevaluated sum of two floats."""

    head: float
    tail: float

    def distance(self, x: Floats) -> Floats:
        """Return x − edge, with a relative error of rounding size."""
        return (x - self.head) - self.tail


def stationary_value(t: float | Fraction, ratios: Sequence[float], scale: float) -> Edge:
    """Return scale (t+1) Π (t+cᵢ)/tⁿ at a critical point t, for n ratios cᵢ."""
    s = Fraction(t)
    value = Fraction(scale) * (s + 1)
    for c in ratios:
        value *= (s + Fraction(c)) / s
    try:
        head = float(value)
    except OverflowError:
        raise OverflowError(
            "the edges of a law must be below 1.8e308; take a smaller scale or other ratios."
        ) from None
    return Edge(head, float(value - Fraction(head)))


def critical_points(delta: float, gamma: float) -> tuple[Fraction, Fraction, Fraction]:
    """Roots of t³ − (δ+γ+δγ) t − 2δγ, where z(t) = (t+1)(t+δ)(t+γ)/t² is stationary.

    The first is the positive root t*, which gives the right edge: docs/theory/bulk.md, "Edges". It
    is simple, so that two exact Newton steps give it to some 60 digits. The other two, of sum −t*
    and product 2δγ/t*, nearly coincide when two of 1, δ and γ do; with so many digits their
    difference is still accurate.

    Examples
    --------
    >>> round(float(critical_points(0.5, 0.4)[0]), 12)
    1.197508593129
    """
    d, g = Fraction(delta), Fraction(gamma)
    b, c = d + g + d * g, d * g
    t = Fraction(float(white_edge_parameter(np.asarray(delta), np.asarray(gamma))))
    for _ in range(2):
        t -= (t * (t * t - b) - 2 * c) / (3 * t * t - b)
    lowest = -(t + _square_root(max(t * t - 8 * c / t, Fraction(0)))) / 2
    return t, 2 * c / (t * lowest), lowest


def _square_root(x: Fraction) -> Fraction:
    """Return √x to some 60 digits."""
    shift = max(0, 210 - (x.numerator.bit_length() - x.denominator.bit_length()) // 2)
    return Fraction(math.isqrt((x.numerator << 2 * shift) // x.denominator), 1 << shift)


class MarchenkoPastur(ClosedFormLaw):
    """Eigenvalues of WᵀW/n for a standard Gaussian n × d matrix W, as d/n → c.

    density(x) = √((λ₊−x)(x−λ₋))/(2πcx) on λ± = (1±√c)², and an atom 1 − 1/c at 0 when c > 1.
    In the parameter t = 1/y, y = zG − 1 (docs/theory/laws.md, "Transforms"), z = (t+1)(t+c)/t and
    G = 1/(t+c); on the bulk t has modulus √c.

    Parameters
    ----------
    ratio : float
        c ≥ 0; the law of ratio 0 is the point mass at 1.

    Examples
    --------
    >>> from attnlaw.laws import MarchenkoPastur
    >>> MarchenkoPastur(0.25).edges
    array([0.25, 2.25])
    >>> MarchenkoPastur(4).atom
    Atom(location=array([0.]), mass=array([0.75]))
    """

    def __init__(self, ratio: float) -> None:
        c = scalar("ratio", ratio, at_least=0, at_most=LARGEST)
        super().__init__(chain(PointMasses.at(1.0), Multiplication((c,))))

    @cached_property
    def _constants(self) -> tuple[float, float, float]:
        """Sign and size of the scale, and the ratio."""
        scale = self._expression.point
        assert scale is not None
        (stage,) = self._expression.stages or (Multiplication((0.0,)),)
        assert isinstance(stage, Multiplication)
        return float(np.sign(scale)), abs(scale), stage.ratios[0]

    @cached_property
    def _ends(self) -> tuple[Edge, Edge]:
        """Edges of the law without its sign: z(t) at t = ∓√c."""
        _, scale, c = self._constants
        left = Edge(0.0, 0.0) if c == 1 else stationary_value(-(c**0.5), (c,), scale)
        return left, stationary_value(c**0.5, (c,), scale)

    def _intervals(self) -> Floats:
        sign, _, c = self._constants
        if c == 0:
            return np.zeros((0, 2))
        return np.sort([sign * end.head for end in self._ends])[None]

    def _half_width(self, z: Floats) -> Floats:
        """Im t = √((λ₊−x)(x−λ₋))/2 at z > 0, in units of the scale."""
        _, scale, _ = self._constants
        left, right = (end.distance(z) / scale for end in self._ends)
        return np.asarray(0.5 * np.sqrt(np.maximum(left * -right, 0.0)))

    def _density_inside(self, x: Floats) -> Floats:
        sign, _, c = self._constants
        z = sign * x
        return self._half_width(z) / (np.pi * c * z)

    def _cdf_inside(self, x: Floats) -> Floats:
        sign, scale, c = self._constants
        z = sign * x
        width = np.maximum(self._half_width(z), 1e-160)  # at a hard edge it may underflow
        t = 0.5 * (z / scale - 1 - c) + 1j * width
        # Φ = log t + log(1+cy) + (cy − log(1+cy))/c with cy = c/t = conj(t)
        phase = np.arctan2(t.imag, t.real + c) + bent_argument(t.conj()) / c
        above: Floats = phase / np.pi
        return np.clip(1 - above if sign > 0 else above, 0.0, 1.0)

    def _cauchy(self, z: NDArray[np.complex128]) -> NDArray[np.complex128]:
        sign, scale, c = self._constants
        w = z / scale if sign > 0 else -z.conj() / scale
        low, high = (1 - c**0.5) ** 2, (1 + c**0.5) ** 2
        t = 0.5 * (w - 1 - c + np.sqrt(w - low) * np.sqrt(w - high))
        with np.errstate(all="ignore"):  # (t + 1)(t + c) = wt, so that no atom at 0 is cancelled
            near = np.where(np.abs(t + c) < np.abs(t + 1), w * t / (t + 1), t + c)
            g = 1 / (scale * near)
        return np.asarray(g if sign > 0 else -g.conj())


class Cubic(NamedTuple):
    """Constants of (t+1)(t+δ)(t+γ) = (z/κ) t²."""

    sign: float  # of the scale
    scale: float  # κ > 0
    delta: float  # the larger ratio
    gamma: float
    product: float  # δγ
    linear: float  # B = δ + γ + δγ
    lower: float  # κλ₃ ≤ 0, the root of the discriminant that is no edge
    left: Edge  # κλ₋
    right: Edge  # κλ₊


class WishartProduct(ClosedFormLaw):
    """κ (MP_δ ⊠ MP_γ): the noise bulk of pooled sequences.

    Derived in docs/theory/bulk.md, "Derivation", and docs/theory/laws.md, "Two Marchenko–Pastur
    factors in closed form".
    On the bulk the cubic (t+1)(t+δ)(t+γ) = x t², x = z/κ, has one real root t = −s, with s
    between 0 and min(1, δ, γ). With a = 1−s, b = δ−s, c = γ−s and D = ab + bc + ca + 2xs, a sum
    of positive terms, the conjugate pair has |t|² = δγ/s and Im t = w/D, where −4w² is the
    discriminant, w² = δγ (x−λ₃)(x−λ₋)(λ₊−x). So

        density(z) = s w / (π δγ z D)

    and every step keeps its relative precision: s is Cardano's root after Newton steps on the
    cubic abc − x s², and the edges are known to twice the working precision.
    """

    @cached_property
    def _cubic(self) -> Cubic:
        point = self._expression.point
        (stage,) = self._expression.stages
        assert point is not None
        assert isinstance(stage, Multiplication)
        sign, scale = float(np.sign(point)), abs(point)
        delta, gamma = stage.ratios
        values = [stationary_value(t, stage.ratios, scale) for t in critical_points(delta, gamma)]
        if delta == gamma or 1.0 in (delta, gamma):  # one of them is 0: a hard edge, or λ₃
            values[int(np.argmin(np.abs([v.head for v in values])))] = Edge(0.0, 0.0)
        lower, left, right = sorted(values)
        p = delta * gamma
        b = delta + gamma + p
        return Cubic(sign, scale, delta, gamma, p, b, min(lower.head, 0.0), left, right)

    def _intervals(self) -> Floats:
        cubic = self._cubic
        return np.sort([cubic.sign * cubic.left.head, cubic.sign * cubic.right.head])[None]

    def _roots(self, z: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return x = z/κ, s, w and D at points z > 0 of the bulk."""
        _, scale, delta, gamma, p, linear, lower, left, right = self._cubic
        x = z / scale
        w = np.sqrt(np.maximum((z - lower) * (left.distance(z) * -right.distance(z)), 0.0))
        w *= p**0.5 * scale**-1.5
        third = ((1 - x) + (delta + gamma)) / 3
        square = third * third
        q = third * (linear - 2 * square) - p
        cube = np.cbrt(0.5 * np.abs(q) + w * 27**-0.5)
        s = third - np.copysign(cube - (linear / 3 - square) / cube, q)
        s = np.clip(s, 1e-3 * p / (linear + x), min(1.0, gamma))
        for _ in range(2):
            b, c = delta - s, gamma - s
            bc, xs = b * c, x * s
            d = bc + (1 - s) * (b + c) + 2 * xs
            s = s + ((1 - s) * bc - xs * s) / d
        if left.head == 0 and (near := x < 1e-6).any():
            s[near], d[near] = self._near_hard_edge(x[near])
        return x, s, w, d

    def _near_hard_edge(self, x: Floats) -> tuple[Floats, Floats]:
        """Return s and D where s is so close to m = min(1, δ, γ) that only r = m − s is precise.

        r (r+e) (r+f) = x (m−r)², where e = 0 or both are, is solved by Newton from above.
        """
        m, e, f = np.sort([1.0, self._cubic.delta, self._cubic.gamma])
        e, f = e - m, f - m
        r = np.cbrt(x * m * m)
        if f > 0:
            r = np.minimum(r, m * np.sqrt(x / f))
        for _ in range(6):
            s = m - r
            d = r * (r + e) + (r + f) * (2 * r + e) + 2 * x * s
            r = r - (r * (r + e) * (r + f) - x * s * s) / d
        return m - r, r * (r + e) + (r + f) * (2 * r + e) + 2 * x * (m - r)

    def _density_inside(self, x: Floats) -> Floats:
        cubic = self._cubic
        x, s, w, d = self._roots(cubic.sign * x)
        return s * w / (d * x) * (1 / (np.pi * cubic.product * cubic.scale))

    def _cdf_inside(self, x: Floats) -> Floats:
        sign, _, delta, gamma, p, *_ = self._cubic
        x, s, w, d = self._roots(sign * x)
        t = 0.5 * (s - (1 - x) - (delta + gamma)) + 1j * (w / d)
        y = t.conj() * (s / p)
        phase = np.arctan2(t.imag, t.real)
        for c in (delta, gamma):  # log t + Σ log(1+cy) + (cy − log(1+cy))/c
            phase += np.arctan2(c * y.imag, 1 + c * y.real) + bent_argument(c * y) / c
        above: Floats = phase / np.pi
        return np.clip(1 - above if sign > 0 else above, 0.0, 1.0)


class Semicircle(ClosedFormLaw):
    """Semicircle law of variance σ²: eigenvalues of a Wigner matrix, R(g) = σ² g.

    density(x) = √(4σ² − x²)/(2πσ²),  G(z) = 2/(z + √(z−2σ)√(z+2σ)).

    Parameters
    ----------
    variance : float
        σ² > 0. A scale multiplies σ, and a shift moves the centre.

    Examples
    --------
    >>> from attnlaw.laws import Semicircle
    >>> Semicircle(4.0).edges
    array([-4.,  4.])
    >>> Semicircle().moment(4)      # the second Catalan number
    2.0
    """

    def __init__(self, variance: float = 1.0) -> None:
        sigma2 = scalar("variance", variance, above=0, at_most=LARGEST)
        super().__init__(chain(PointMasses.at(0.0), Addition(variance=sigma2)))

    @property
    def _centre_and_deviation(self) -> tuple[float, float]:
        (stage,) = self._expression.stages
        assert isinstance(stage, Addition)
        centre = self._expression.point
        assert centre is not None
        return centre, stage.variance**0.5

    def _intervals(self) -> Floats:
        a, sigma = self._centre_and_deviation
        return np.array([[a - 2 * sigma, a + 2 * sigma]])

    def _density_inside(self, x: Floats) -> Floats:
        a, sigma = self._centre_and_deviation
        s = (x - a) / (2 * sigma)
        return np.sqrt((1 - s) * (1 + s)) / (np.pi * sigma)

    def _cdf_inside(self, x: Floats) -> Floats:
        a, sigma = self._centre_and_deviation
        s = (x - a) / (2 * sigma)
        return 0.5 + (s * np.sqrt((1 - s) * (1 + s)) + np.arcsin(s)) / np.pi

    def _cauchy(self, z: NDArray[np.complex128]) -> NDArray[np.complex128]:
        a, sigma = self._centre_and_deviation
        z = z - a
        root = np.sqrt(z - 2 * sigma) * np.sqrt(z + 2 * sigma)
        return np.asarray(2 / (z + root), dtype=np.complex128)


class Discrete(FreeLaw):
    """Atoms tⱼ with weights hⱼ: a population spectrum, or measured eigenvalues.

    Parameters
    ----------
    atoms : array of shape (n,)
        Locations tⱼ; equal ones are joined.
    weights : array of shape (n,), optional
        hⱼ ≥ 0, scaled to sum to one; equal weights by default.

    Examples
    --------
    >>> from attnlaw.laws import Discrete
    >>> law = Discrete([1, 1, 4])
    >>> law.atom.mass
    array([0.66666667, 0.33333333])
    >>> law.moment(1)
    2.0
    """

    def __init__(self, atoms: ArrayLike, weights: ArrayLike | None = None) -> None:
        t = np.atleast_1d(real_array("atoms", atoms))
        if t.ndim != 1 or not t.size:
            raise invalid_argument("atoms", "a list of at least one number", t)
        real("atoms", np.abs(t), at_most=LARGEST)
        h = np.ones(t.size) if weights is None else real_array("weights", weights, ndim=1)
        if h.shape != t.shape:
            raise invalid_argument("weights", f"of length {t.size}, like the atoms", h)
        if (h < 0).any() or not h.max() > 0:
            raise invalid_argument("weights", "at least 0, and not all 0", h.tolist())
        if not 1e-200 < h.max() < 1e200:
            h = h / h.max()  # so that their sum is a number
        super().__init__(Expression(PointMasses.of(t, h)))

    def _intervals(self) -> Floats:
        return np.zeros((0, 2))

    def _cauchy(self, z: NDArray[np.complex128]) -> NDArray[np.complex128]:
        assert isinstance(self._expression.base, PointMasses)
        with np.errstate(all="ignore"):  # of the derivatives, which are not asked for
            sums = cauchy_sums(self._expression.base, z)
        return np.asarray(sums[0], dtype=np.complex128)
