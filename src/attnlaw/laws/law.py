"""What a law must define, what is derived from it, and the algebra of laws.

A class of laws defines six things (the abstract methods of `Law`): the intervals of its continuous
part, density and distribution function inside them, its Cauchy transform, its atoms, its moments,
and how it enters free convolutions. Everything else is derived from them here.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._checks import (
    Complexes,
    Floats,
    Random,
    count,
    frozen,
    invalid_argument,
    random_generator,
    real_array,
    refuse_masked,
)
from attnlaw._machine import require_memory
from attnlaw.laws._engine import expression as ex
from attnlaw.laws._engine.expression import Expression, PointMasses, describe, plain_number
from attnlaw.laws._engine.moments import QuantileTable

__all__ = ["Atom", "Law", "MixtureLaw", "NumericalLaw"]

_ATOMS = 256  # that stand for a numerical law in free convolutions with other laws


class Atom(NamedTuple):
    """The atoms of a law: where, and how much mass each carries."""

    location: Floats
    mass: Floats


class Law(ABC):
    """A probability law on the real line, such as the limiting spectrum of a random matrix.

    Laws combine: `A @ B` is the free multiplicative convolution A ⊠ B, `A + B` the free additive
    convolution A ⊞ B, `A + 2.0` a shift and `0.5 * A` a scale. They are immutable, and equal when
    their normal forms are (docs/theory/laws.md, "One parameter for each set of point masses").

    Examples
    --------
    >>> from attnlaw.laws import Discrete, MarchenkoPastur
    >>> law = Discrete([1, 10]) @ MarchenkoPastur(0.05)
    >>> law.support.round(4)
    array([[ 0.6858,  1.3084],
           [ 7.1161, 13.4396]])
    >>> round(float(law.cdf(4.0)), 12)      # half of the eigenvalues belong to the atom at 1
    0.5
    """

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a law cannot be changed: {name} is fixed")

    # What a law must provide.

    @property
    @abstractmethod
    def atom(self) -> Atom:
        """Atoms (location, mass), in increasing order; empty arrays when there are none."""

    @abstractmethod
    def moment(self, k: int) -> float:
        """Moment ∫ xᵏ ν(dx)."""

    @abstractmethod
    def _intervals(self) -> Floats:
        """Intervals of the continuous part, one in each row."""

    @abstractmethod
    def _density_inside(self, x: Floats) -> Floats:
        """Density at points inside the support (a flat array)."""

    @abstractmethod
    def _cdf_inside(self, x: Floats) -> Floats:
        """Cdf at points inside the support (a flat array)."""

    @abstractmethod
    def _cauchy(self, z: Complexes) -> Complexes:
        """G(z) = ∫ν(dx)/(z−x) for a flat array with Im z ≥ 0, real z outside the support."""

    @property
    @abstractmethod
    def _expression(self) -> Expression:
        """The law as it enters free convolutions with others."""

    # What it may provide in a better way.

    def _inside(self, x: Floats) -> tuple[Floats, Floats]:
        """Density and cdf at points inside the support, where they share their work."""
        return self._density_inside(x), self._cdf_inside(x)

    @cached_property
    def _interval_masses(self) -> Floats:
        """Mass of the continuous part on each interval of the support: what the atoms leave."""
        if len(self.support) > 1:
            raise NotImplementedError("a law of several intervals must know their masses")
        return np.full(len(self.support), 1 - float(self.atom.mass.sum()))

    # What every law answers.

    @cached_property
    def support(self) -> Floats:
        """Intervals of the continuous part, one in each row (n_intervals × 2)."""
        found = self._intervals()
        if not len(found) and float(self.atom.mass.sum()) < 1 - 1e-9:
            raise ArithmeticError(f"the support of {self} cannot be told from a point.")
        return frozen(found)

    @property
    def edges(self) -> Floats:
        """All edges of the continuous part, in increasing order."""
        return self.support.ravel()

    def density(self, x: ArrayLike) -> Any:
        """Density of the continuous part at x, 0 outside the support."""
        x = real_array("x", x)
        flat = x.ravel()
        inside = self._is_inside(flat)
        if inside.all() and flat.size:
            result = self._density_inside(flat)
        else:
            result = np.zeros(flat.size)
            if inside.any():
                result[inside] = self._density_inside(flat[inside])
        return result.reshape(x.shape)[()]

    def cdf(self, x: ArrayLike) -> Any:
        """Mass of (−∞, x], atoms included."""
        x = real_array("x", x)
        flat = x.ravel()
        result = self._step(flat)
        inside = self._is_inside(flat)
        if inside.any():
            result[inside] = self._cdf_inside(flat[inside])
        return result.reshape(x.shape)[()]

    def quantile(self, q: ArrayLike) -> Any:
        """Return the smallest x with cdf(x) ≥ q, for q in [0, 1]."""
        q = real_array("q", q)
        if not ((q >= 0) & (q <= 1)).all():
            raise invalid_argument("q", "between 0 and 1", q if q.ndim else float(q))
        return self._quantiles(q.ravel()).reshape(q.shape)[()]

    def stieltjes(self, z: ArrayLike) -> Any:
        """Stieltjes transform ∫ν(dx)/(x−z), for complex z or real z outside the support."""
        refuse_masked("z", z)
        z = np.asarray(z)
        if z.dtype.kind not in "fiuc":
            raise invalid_argument("z", "made of numbers", z)
        if not np.isfinite(z).all():
            raise invalid_argument("z", "finite", z if z.ndim else z[()])
        flat = z.ravel().astype(np.complex128)
        if flat.size and (size := float(np.abs(flat).max())) > 1e150:
            raise invalid_argument("z", "at most 1e+150 in size", size)
        on_axis = flat.imag == 0
        if on_axis.any():
            x = flat.real[on_axis]
            bad = self._is_inside(x) | np.isin(x, self.edges) | np.isin(x, self.atom.location)
            if bad.any():
                raise invalid_argument("z", "outside the support when real", float(x[bad][0]))
        below = flat.imag < 0
        g = self._cauchy(np.where(below, flat.conj(), flat))
        if not np.isfinite(g).all():
            raise invalid_argument("z", "farther from the atoms", z if z.ndim else z[()])
        m = -np.where(below, g.conj(), g).reshape(z.shape)
        return (m if z.dtype.kind == "c" else m.real)[()]

    def sample(self, n: int, rng: Random = None) -> Floats:
        """Draw n independent values of the law."""
        n = count("n", n)
        require_memory(64.0 * n, "n", n, "random values")
        return self._quantiles(random_generator(rng).random(n))

    # Shared machinery.

    def _is_inside(self, x: Floats) -> NDArray[np.bool_]:
        """Whether points lie strictly inside an interval of the continuous part."""
        edges = self.edges
        if len(edges) == 2:
            return np.asarray((edges[0] < x) & (x < edges[1]))
        left, right = (np.searchsorted(edges, x, side=side) for side in ("left", "right"))
        return np.asarray((left == right) & (left % 2 == 1))

    def _step(self, x: Floats) -> Floats:
        """Cdf outside the continuous part."""
        result = np.zeros(x.size)
        if len(self.support):
            below = np.concatenate([[0.0], np.cumsum(self._interval_masses)])
            result += below[np.searchsorted(self.support[:, 1], x, side="right")]
        if len(self.atom.location):
            below = np.concatenate([[0.0], np.cumsum(self.atom.mass)])
            result += below[np.searchsorted(self.atom.location, x, side="right")]
        return np.clip(result, 0.0, 1.0)

    @cached_property
    def _table(self) -> QuantileTable:
        return QuantileTable(self)

    def _quantiles(self, q: Floats) -> Floats:
        return self._table.invert(q)

    # Algebra.

    def __matmul__(self, other: object) -> "Law":
        from attnlaw.laws._engine.free import product

        return product(self, other) if isinstance(other, Law) else NotImplemented

    def __add__(self, other: object) -> "Law":
        from attnlaw.laws._engine.free import law_of

        if isinstance(other, Law):
            return law_of(ex.additive_convolution(self._expression, other._expression))
        shift = plain_number("shift", other)
        if shift is None:
            return NotImplemented
        expression = self._expression
        return law_of(ex.chain(expression.base, *expression.stages, ex.Addition(shift=shift)))

    def __mul__(self, other: object) -> "Law":
        from attnlaw.laws._engine.free import law_of

        scale = plain_number("scale", other)
        if scale is None:
            return NotImplemented
        return law_of(ex.scaled(self._expression, scale))

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> "Law":
        return self * -1.0

    def __sub__(self, other: object) -> "Law":
        if isinstance(other, Law):
            return self + other * -1.0
        shift = plain_number("shift", other)
        return NotImplemented if shift is None else self + -shift

    def __rsub__(self, other: object) -> "Law":
        return -self + other

    def __truediv__(self, other: object) -> "Law":
        scale = plain_number("scale", other)
        if scale is None:
            return NotImplemented
        if scale == 0:
            raise invalid_argument("scale", "different from zero", scale)
        return self * (1 / scale)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Law):
            return NotImplemented
        return self._expression == other._expression

    def __hash__(self) -> int:
        return hash(self._expression)

    def __repr__(self) -> str:
        return describe(self._expression)

    __array_ufunc__ = None  # numpy scalars leave `scalar * law` to us


class NumericalLaw(Law):
    """A law given by numerical functions, with a scale.

    In free convolutions it is represented by 256 of its quantiles.
    """

    scale: float

    @abstractmethod
    def _rescaled(self, factor: float) -> Self:
        """Return the law of `factor` times the variable."""

    @cached_property
    def _expression(self) -> Expression:
        q = (np.arange(_ATOMS) + 0.5) / _ATOMS
        locations, where = np.unique(self.quantile(q), return_inverse=True)
        weights = np.bincount(where) / _ATOMS
        return Expression(PointMasses(frozen(locations), frozen(weights)))

    def __mul__(self, other: object) -> Law:
        if isinstance(other, int | float | np.floating) and 0 < other < np.inf:
            return self._rescaled(float(other))
        return super().__mul__(other)

    __rmul__ = __mul__


class MixtureLaw(NumericalLaw):
    """A mixture Σ_k p_k ν_k of laws on [0, ∞), such as two approximations with opposite errors.

    Parameters
    ----------
    laws : sequence of Law
    weights : sequence of float
        p_k ≥ 0, which sum to one.

    Examples
    --------
    >>> from attnlaw.laws import MarchenkoPastur, MixtureLaw
    >>> law = MixtureLaw([MarchenkoPastur(0.5), 2 * MarchenkoPastur(0.5)], [0.75, 0.25])
    >>> round(law.moment(1), 12)
    1.25
    >>> bool(abs(law.cdf(law.quantile(0.3)) - 0.3) < 1e-12)
    True
    """

    laws: tuple[Law, ...]
    weights: tuple[float, ...]

    def __init__(self, laws: Sequence[Law], weights: Sequence[float]) -> None:
        p = tuple(float(w) for w in weights)
        if len(p) != len(laws) or min(p) < 0 or abs(sum(p) - 1) > 1e-9:
            raise invalid_argument("weights", "one for each law, at least 0, with sum 1", p)
        self.__dict__.update(laws=tuple(laws), weights=p, scale=1.0)

    def _mean(self, values: Sequence[Any]) -> Any:
        return sum(p * v for p, v in zip(self.weights, values, strict=True))

    @cached_property
    def atom(self) -> Atom:
        """Atoms of all parts."""
        where = np.concatenate([law.atom.location for law in self.laws])
        parts = zip(self.weights, self.laws, strict=True)
        mass = np.concatenate([p * law.atom.mass for p, law in parts])
        locations, index = np.unique(where, return_inverse=True)
        total = np.bincount(index, mass, locations.size).astype(float)
        return Atom(frozen(locations), frozen(total))

    def moment(self, k: int) -> float:
        """Moment ∫ xᵏ ν(dx)."""
        return float(self._mean([law.moment(k) for law in self.laws]))

    def _intervals(self) -> Floats:
        edges = np.concatenate([law.edges for law in self.laws])
        return np.array([[edges.min(), edges.max()]])

    def _density_inside(self, x: Floats) -> Floats:
        return np.asarray(self._mean([law.density(x) for law in self.laws]))

    def _cdf_inside(self, x: Floats) -> Floats:
        return np.asarray(self._mean([law.cdf(x) for law in self.laws]))

    def _quantiles(self, q: Floats) -> Floats:
        """Bisection in log x between the quantiles of the parts."""
        parts = np.array([law.quantile(q) for law in self.laws])
        low, high = (np.log(np.maximum(end, 1e-300)) for end in (parts.min(0), parts.max(0)))
        for _ in range(60):
            middle = 0.5 * (low + high)
            left = self.cdf(np.exp(middle)) < q
            low, high = np.where(left, middle, low), np.where(left, high, middle)
        zero = q <= self.cdf(0.0)
        return np.asarray(np.where(zero | (parts.max(0) == 0), 0.0, np.exp(high)))

    def _cauchy(self, z: Complexes) -> Complexes:
        return np.asarray(self._mean([law._cauchy(z) for law in self.laws]))

    def _rescaled(self, factor: float) -> "MixtureLaw":
        return MixtureLaw([law * factor for law in self.laws], self.weights)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MixtureLaw):
            return NotImplemented
        return self.laws == other.laws and self.weights == other.weights

    def __hash__(self) -> int:
        return hash((self.laws, self.weights))

    def __repr__(self) -> str:
        parts = zip(self.weights, self.laws, strict=True)
        return f"MixtureLaw({', '.join(f'{p:.3g} of {law!r}' for p, law in parts)})"
