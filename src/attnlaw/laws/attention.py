"""Laws of attention heads in closed form, without and with a causal mask.

Without a mask: with θ₂ and c = θ₁ − θ₂ the energies of the linear part and of the noise, ρ the
ratio of the linear part and κ that of the last factor, (θ₂ MP_ρ ⊞ c) ⊠ MP_κ has g = G_H as a
parameter:

    z = N M / (g (1 − ag)²) ,    a = ρθ₂ ,
    N = 1 + (c + θ₂ − a) g − ac g² ,    M = 1 + (κ(c + θ₂) − a) g − κac g² ,

so a point z has four values of g. Inside the support exactly two of them are not real, and the one
in the lower half plane is the law's.

With a mask: a causal head of large head dimension is a lower triangular matrix of independent
entries whose row i has variance 1/i, for i = 1 … n. Its squared singular values have, for n → ∞,
the Stieltjes transform, density and cdf

    m(z) = −1 − e^z/(z E₁(−z)) ,    e^x/(x (Ei(x)² + π²)) ,    1/2 + arctan(Ei(x)/π)/π ,

on all x > 0, with the exponential integrals E₁ and Ei. Derived in docs/theory/causal-heads.md,
"The closed form".
"""

from functools import cached_property, lru_cache
from math import factorial
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import NDArray

from attnlaw._checks import Complexes, Floats, count, frozen, invalid_argument, real
from attnlaw.laws._engine.free import FreeLaw
from attnlaw.laws.classical import MarchenkoPastur
from attnlaw.laws.law import Atom, NumericalLaw

__all__ = ["AttentionBulk", "CausalLaw", "causal_resolvents"]

_FAR = 40.0  # |z| from which the divergent series of E₁ has its digits
_TERMS = 40
_MOST_MOMENT = 168  # above it moments exceed the range of floats
_LEAST = 5e-324
_OUTSIDE = 6.0  # |w| from which resolvents are −1/w, nearly
_SOLDNER = 0.37250741078136663  # the median: Ei vanishes there


class _Constants(NamedTuple):
    """Of the parametrisation."""

    linear: float  # θ₂
    noise: float  # c = θ₁ − θ₂
    ratio: float  # ρ
    last_ratio: float  # κ


class AttentionBulk(FreeLaw):
    """(θ₂ MP_ρ ⊞ c) ⊠ MP_κ, the law of attention when n and d_k are infinite.

    Parameters
    ----------
    linear, noise : float
        θ₂ and c = θ₁ − θ₂, both above 0.
    ratio, last_ratio : float
        ρ and κ, both above 0.

    Examples
    --------
    >>> law = AttentionBulk(linear=1.0, noise=np.e - 2, ratio=1.0, last_ratio=1.0)
    >>> law.edges.round(4)
    array([0.    , 9.0095])
    """

    _constants: _Constants

    def __init__(self, *, linear: float, noise: float, ratio: float, last_ratio: float) -> None:
        law = (linear * MarchenkoPastur(ratio) + noise) @ MarchenkoPastur(last_ratio)
        super().__init__(law._expression)
        self.__dict__["_constants"] = _Constants(linear, noise, ratio, last_ratio)

    @cached_property
    def _factors(self) -> tuple[Polynomial, Polynomial, Polynomial]:
        """N, M and 1 − ag, in g/unit with unit = 1/(c + θ₂) of the order of 1/z."""
        theta, c, rho, kappa = self._constants
        unit = 1 / (c + theta)
        a, c, total = rho * theta * unit, c * unit, 1.0
        N = Polynomial([1, total - a, -a * c])
        M = Polynomial([1, kappa * total - a, -kappa * a * c])
        return N, M, Polynomial([1, -a])

    @property
    def _unit(self) -> float:
        """Mean of the law, in whose units z and 1/g are of order one."""
        return self._constants.linear + self._constants.noise

    def _values(self, g: NDArray[np.complex128] | Floats) -> NDArray[np.complex128] | Floats:
        N, M, pole = self._factors
        return N(g) * M(g) / (g * pole(g) ** 2)

    def _intervals(self) -> Floats:
        """Intervals between critical values of z(g) on which two of the four roots are complex."""
        N, M, pole = self._factors
        g = Polynomial([0, 1])
        top, bottom = N * M, g * pole
        # z' = 0 for z = top/(g pole²): top' g pole = top (pole + 2 g pole')
        slope = top.deriv() * bottom - top * (pole + 2 * g * pole.deriv())
        critical = slope.roots()
        for _ in range(3):
            critical = critical - slope(critical) / slope.deriv()(critical)
        real = critical[np.abs(critical.imag) < 1e-9 * np.abs(critical)].real
        values: Floats = np.asarray(self._values(real), dtype=np.float64)
        values = np.sort(values[(values > 0) & np.isfinite(values)])
        values = values[values > 1e-13 * values[-1]]  # κ = 1 has its hard edge at 0
        ends = np.concatenate([[0.0], values])
        middle = 0.5 * (ends[1:] + ends[:-1])
        inside = np.array([bool(self._complex_root(np.array([x])).imag[0] < 0) for x in middle])
        pairs = [(a, b) for a, b, keep in zip(ends, ends[1:], inside, strict=False) if keep]
        joined: list[list[float]] = []
        for a, b in pairs:  # a critical value inside the support is not an edge
            if joined and joined[-1][1] == a:
                joined[-1][1] = b
            else:
                joined.append([a, b])
        return np.asarray(self._unit * np.array(joined).reshape(-1, 2))

    def _complex_root(self, x: Floats) -> Complexes:
        """Root g in the lower half plane at x in units; real where there is none."""
        N, M, pole = self._factors
        if self._constants.last_ratio == 1:
            # N = M: take the root of N² = x g pole². In √g all four stay apart as x → 0.
            known, moving = _stretched(N), Polynomial([0, 1]) * _stretched(pole)
            return _lower_root(known, moving, np.sqrt(x)) ** 2
        return _lower_root(N * M, Polynomial([0, 1]) * pole**2, x)

    def _parameters(self, x: Floats) -> Complexes:
        """Parameter u = c + 1/g of the point mass on which the law is built."""
        g = self._complex_root(x / self._unit) / self._unit
        return np.asarray(self._constants.noise + 1 / g)[None]


def _stretched(polynomial: Polynomial) -> Polynomial:
    """Return p(h²) as a polynomial in h."""
    coefficients = np.zeros(2 * polynomial.coef.size - 1)
    coefficients[::2] = polynomial.coef
    return Polynomial(coefficients)


def _lower_root(known: Polynomial, moving: Polynomial, x: Floats) -> Complexes:
    """Root of known − x moving (a quartic) in the lower half plane, real if there is none."""
    fixed, rate = np.zeros(5), np.zeros(5)
    fixed[:] = known.coef
    rate[: moving.coef.size] = moving.coef
    p = fixed - np.outer(x, rate)
    companion = np.zeros((x.size, 4, 4))
    companion[:, 0] = -p[:, 3::-1] / p[:, 4:]
    companion[:, [1, 2, 3], [0, 1, 2]] = 1
    roots = np.linalg.eigvals(companion).astype(np.complex128)
    g = np.take_along_axis(roots, roots.imag.argmin(axis=1)[:, None], axis=1)[:, 0]
    g = np.where(g.imag < -1e-12 * np.abs(g), g, g.real)
    slope, moving_slope = known.deriv(), moving.deriv()
    with np.errstate(all="ignore"):
        for _ in range(3):
            step = (known(g) - x * moving(g)) / (slope(g) - x * moving_slope(g))
            g = np.where(np.abs(step) < 1e-2 * np.abs(g), g - step, g)
    return np.asarray(g, dtype=np.complex128)


class CausalLaw(NumericalLaw):
    """Law of squared singular values of a causal matrix: F(x) = 1/2 + arctan(Ei(x/θ)/π)/π.

    Parameters
    ----------
    scale : float
        θ > 0, the mean; θ₁ = e^{β²} − 1 for a head of large dimension.

    Notes
    -----
    Moments are numbers of indecomposable permutations: Σ m_k/z^k is the reciprocal of Σ k!/z^k, up
    to signs and a shift. Near zero the cdf is 1/(−log x − 0.577…): a causal matrix of any size has
    singular values that are numerically zero. There is no upper edge.

    Examples
    --------
    >>> from attnlaw.laws import CausalLaw
    >>> law = CausalLaw()
    >>> [law.moment(k) for k in range(7)]
    [1.0, 1.0, 3.0, 13.0, 71.0, 461.0, 3447.0]
    >>> round(float(law.quantile(0.5)), 10)      # the logarithm of Soldner's constant
    0.3725074108
    >>> round(float(law.cdf(1e-8)), 4)
    0.0555
    """

    def __init__(self, scale: float = 1.0) -> None:
        theta = real("scale", scale, above=0)
        if isinstance(theta, np.ndarray):
            raise invalid_argument("scale", "a single number", scale)
        self.__dict__["scale"] = float(theta)

    def largest(self, n: int) -> float:
        """Point above which half a value of n is expected, F(x) = 1 − 1/(2n).

        The largest squared singular value of an n × n matrix is on average within 5 % of it, from
        n = 100 on; it grows like log n + log log n.

        Examples
        --------
        >>> round(CausalLaw().largest(1000), 2)
        9.75
        """
        return float(self.quantile(1 - 0.5 / count("n", n)))

    # What the base class needs.

    def _intervals(self) -> Floats:
        return np.array([[0.0, np.inf]])

    @cached_property
    def atom(self) -> Atom:
        """Empty: the law is continuous."""
        return Atom(frozen(np.zeros(0)), frozen(np.zeros(0)))

    @cached_property
    def _interval_masses(self) -> Floats:
        return np.ones(1)

    def _density_inside(self, x: Floats) -> Floats:
        from scipy.special import expi

        x = x / self.scale
        near = np.minimum(x, _FAR)
        with np.errstate(over="ignore", divide="ignore"):
            inner = np.exp(near) / (near * (expi(near) ** 2 + np.pi**2))
            # Ei(x) = e^x (1 + S)/x, S the tail of the divergent series: π² is nothing beside it
            outer = x * np.exp(-x) / (1 + _tail(np.maximum(x, _FAR))) ** 2
        return np.asarray(np.where(x < _FAR, inner, outer) / self.scale)

    def _cdf_inside(self, x: Floats) -> Floats:
        from scipy.special import expi

        with np.errstate(over="ignore"):
            return np.asarray(np.arctan2(np.pi, -expi(x / self.scale)) / np.pi)

    def _quantiles(self, q: Floats) -> Floats:
        """Solve Ei(x) = −π cot(πq)."""
        inside = (q > 0) & (q < 1)
        p = np.where(inside, q, 0.5)
        target = -np.pi / np.tan(np.pi * p)
        x = np.where(target < 0, _small_root(target), _large_root(target)) * self.scale
        # Floats end at 5e-324, where the cdf is still 0.0013.
        return np.asarray(np.where(inside, np.maximum(x, _LEAST), np.where(q > 0, np.inf, 0.0)))

    def _cauchy(self, z: Complexes) -> Complexes:
        from scipy.special import exp1

        z = z / self.scale
        far = np.abs(z) > _FAR
        near = np.where(far, -1.0, z)
        # From above a point of the support, −z comes from below the cut of E₁.
        inner = 1 + np.exp(near) / (near * exp1(-near))
        tail = _tail(np.where(far, z, _FAR))
        return np.asarray(np.where(far, tail / (1 + tail), inner) / self.scale)

    def moment(self, k: int) -> float:
        """Moment ∫ xᵏ ν(dx): θᵏ times the number of indecomposable permutations of k + 1."""
        k = count("k", k, at_least=0)
        if k > _MOST_MOMENT:
            raise invalid_argument("k", f"at most {_MOST_MOMENT}", k)
        return float(_indecomposable(k + 1) * self.scale**k)

    def _rescaled(self, factor: float) -> "CausalLaw":
        return CausalLaw(self.scale * factor)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CausalLaw) and self.scale == other.scale

    def __hash__(self) -> int:
        return hash((CausalLaw, self.scale))

    def __repr__(self) -> str:
        return "CausalLaw()" if self.scale == 1 else f"{self.scale:g} * CausalLaw()"


def _small_root(target: Floats) -> Floats:
    """Root of Ei(x) = target ≤ 0, by Newton's method for t = log x, in which Ei is convex."""
    from scipy.special import expi

    t = np.minimum(target - np.euler_gamma, np.log(_SOLDNER))
    for _ in range(20):
        x = np.exp(np.maximum(t, -700.0))
        value = np.where(t < -40, t + np.euler_gamma, expi(x))
        step = np.where(target < 0, (value - target) * np.exp(-x), 0.0)
        t = t - step
        if np.abs(step).max(initial=0.0) < 1e-15:
            break
    return np.asarray(np.exp(np.maximum(t, -800.0)))


def _large_root(target: Floats) -> Floats:
    """Root of Ei(x) = target ≥ 0: Newton in log x, or for log Ei where the target is large."""
    from scipy.special import expi

    goal = np.maximum(target, 0.0)
    x = 1 + np.log1p(goal)  # to the right of the root, from where both are monotone
    for _ in range(60):
        value = np.maximum(expi(x), 1e-300)
        by_log = value * np.log(value / np.maximum(goal, 10.0)) * x * np.exp(-x)
        by_value = -x * np.expm1((goal - value) * np.exp(-x))
        step = np.where(goal > 10, by_log, by_value)
        x = x - step
        if (np.abs(step) < 1e-15 * x).all():
            break
    return np.asarray(x)


def causal_resolvents(w: Complexes, places: Floats) -> tuple[Complexes, Complexes]:
    """R and C of rows and columns at places x = i/n, increasing: arrays (places, points).

    w times the diagonals of the resolvents of YYᵀ and YᵀY at w². With the function u of
    docs/theory/causal-heads.md, "The closed form", y = wu has dy/d log x = K x y e^{−y} =: q for
    K = −E₁(−w²) and y = w² at x = 1, and C = −w/y, R = −q/w. By the midpoint rule, to a few per
    cent; −1/w far from the support.

    Examples
    --------
    The mean of R over all rows is w m(w²):

    >>> w = np.array([0.5 + 0.1j])
    >>> R, _ = causal_resolvents(w, (np.arange(500) + 0.5) / 500)
    >>> bool(abs(R.mean() / w[0] / CausalLaw().stieltjes(w[0] ** 2) - 1) < 0.03)
    True
    """
    from scipy.special import exp1

    R, C = np.empty((2, places.size, w.size), dtype=np.complex128)
    plain = (np.abs(w) > _OUTSIDE) | (w.imag > np.abs(w.real))
    y, t = np.where(plain, 0.1j, w * w), 0.0
    K = -exp1(-y)
    for b, end in reversed(list(enumerate(np.log(places).tolist()))):
        rate = max(5.0, 4 * float(np.abs(K * np.exp(t - y)).max()))
        n_steps = min(200, max(1, int(np.ceil((t - end) * rate))))
        step = (end - t) / n_steps
        for _ in range(n_steps):
            half = y * (1 + 0.5 * step * K * np.exp(t - y))
            y = y + step * half * K * np.exp(t + 0.5 * step - half)
            t += step
        R[b], C[b] = -y * K * np.exp(t - y) / w, -w / y
    for part in (R, C):
        part[:, plain] = -1 / w[plain]
        part[:] = np.where(np.isfinite(part) & (part.imag > 0), part, -1 / w)
    return R, C


T = TypeVar("T", Floats, Complexes)


def _tail(z: T) -> T:
    """Σ_{k≥1} k!/z^k, up to its smallest term."""
    total, term = np.zeros_like(z), np.ones_like(z)
    for k in range(1, _TERMS + 1):
        term = term * (k / z)
        total = total + term
    return total


@lru_cache(maxsize=256)
def _indecomposable(n: int) -> int:
    """Count permutations of n that map no initial segment to itself: 1, 1, 3, 13, 71."""
    return factorial(n) - sum(_indecomposable(k) * factorial(n - k) for k in range(1, n))
