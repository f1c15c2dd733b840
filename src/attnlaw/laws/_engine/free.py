"""Laws made by free convolution: an expression, its parametric curve, and the curve's boundary.

`FreeLaw` evaluates any expression; laws with a closed form are subclasses that override its
numerical methods, and `law_of` chooses the most specific subclass for an expression.
"""

from abc import abstractmethod
from functools import cached_property

import numpy as np

from attnlaw._checks import Complexes, Floats, count, frozen, invalid_argument
from attnlaw.laws._engine import expression as ex
from attnlaw.laws._engine.continuation import follow, settle, tangent
from attnlaw.laws._engine.expression import Expression
from attnlaw.laws._engine.moments import atoms, moments
from attnlaw.laws._engine.support import NARROWEST, intervals
from attnlaw.laws._engine.uniformisation import evaluate, mass_above
from attnlaw.laws.law import Atom, Law

__all__ = ["ClosedFormLaw", "FreeLaw", "law_of", "product"]

_FEW = 24  # points in an interval that are followed one by one
_NOWHERE = 1e-36  # share of the largest point below which no mass is seen
_FIRST = np.linspace(0.0, np.pi, 13)[1:-1]
_HALVINGS = 2
_GRADED = 4  # nodes towards an edge
_LEAST_PRODUCT = 1e-290  # of two ratios, whose products are numbers
_CLOSEST = 1e-13  # angle of the last node towards a hard edge
_NEARLY_ZERO = 1e-10  # edge relative to the largest point that may be 0 but for rounding
_ROUNDING = 1e-14  # distance from an edge, relative to it, at which there is no mass between
_CLOSEST_POINT = (
    1e-24  # share of the largest point at which a hard edge is distinguished from a point
)


class FreeLaw(Law):
    """A free additive or multiplicative convolution of laws, made by the operators of `Law`.

    Examples
    --------
    >>> from attnlaw.laws import Discrete, MarchenkoPastur
    >>> Discrete([1, 2]) @ MarchenkoPastur(0.5)
    Discrete([1, 2]) @ MarchenkoPastur(0.5)
    """

    _written: Expression

    def __init__(self, expression: Expression) -> None:
        self.__dict__["_written"] = expression

    @property
    def _expression(self) -> Expression:
        return self._written

    @cached_property
    def atom(self) -> Atom:
        """Atoms (location, mass), in increasing order; empty arrays when there are none."""
        found = atoms(self._expression)
        return Atom(frozen(np.array([*found])), frozen(np.array([*found.values()])))

    def moment(self, k: int) -> float:
        """Moment ∫ xᵏ ν(dx), from the power series of the law (no quadrature)."""
        k = count("k", k, at_least=0, at_most=1000)
        with np.errstate(over="ignore", invalid="ignore"):
            found = float(moments(self._expression, k)[k])
        if not np.isfinite(found):
            raise OverflowError(f"moments of a law must be below 1.8e308, got more at k = {k}.")
        return found

    def _intervals(self) -> Floats:
        found = intervals(self._expression)
        if self._expression.is_positive:  # by construction: only rounding says otherwise
            found = np.maximum(found, 0.0)
            nearly_zero = len(found) and 0 < found[0, 0] < _NEARLY_ZERO * self._expression.bound
            if nearly_zero and 0 not in self.atom.location:
                below = found[0, 0] * np.array([1e-6, 0.5])  # a hard edge has a density there
                if (self._density(follow(self._expression, below + 0j)) * below > 1e-12).all():
                    found[0, 0] = 0.0
        tiny = 1e-14 * self._expression.bound
        is_wide = found[:, 1] - found[:, 0] > tiny
        away = np.abs(found[:, :1] - self.atom.location).min(axis=1, initial=np.inf) > 10 * tiny
        lost = away & ~is_wide & (len(found) > 1)
        if lost.any() and self._masses_of(found)[lost].max() > 1e-9:
            raise ArithmeticError(f"part of the support of {self} cannot be told from a point.")
        if isinstance(self._expression.base, ex.Pair):
            narrow = is_wide & (found[:, 1] - found[:, 0] < NARROWEST * np.abs(found).max(axis=1))
            if narrow.any() and self._masses_of(found)[narrow].max() > 1e-9:
                raise ArithmeticError(
                    f"an interval of {self} is narrower than {NARROWEST:g} of its location, "
                    "which rounding hides; join atoms that nearly coincide."
                )
        found = found[is_wide]
        return found[self._masses_of(found) > 1e-12] if len(found) > 1 else found

    def _density_inside(self, x: Floats) -> Floats:
        return self._inside(x)[0]

    def _cdf_inside(self, x: Floats) -> Floats:
        if self.support[0, 0] == 0:  # next to a hard edge the cdf is below rounding error
            x = np.maximum(x, _NOWHERE * self._expression.bound)
        found = self._below(self._parameters(x))
        right = np.searchsorted(self.edges, x)
        low, high = (self._step(edges) for edges in (self.edges[right - 1], self.edges[right]))
        for k, value in ((right - 1, low), (right, high)):
            # At rounding error from a soft edge a point may be taken for one of the gap beyond.
            close = np.abs(x - self.edges[k]) <= _ROUNDING * np.abs(self.edges[k])
            found[close] = value[close]
        return np.clip(found, low, high)

    def _inside(self, x: Floats) -> tuple[Floats, Floats]:
        u = self._parameters(x)
        density = self._density(u)
        for location in self._embedded:  # next to an atom inside the bulk G is all pole
            far = 1e-5 * self._expression.bound
            if (near := np.abs(x - location) < 0.1 * far).any():
                both = self._parameters(np.array([location - far, location + far]))
                density[near] = self._density(both).mean()
        return density, self._below(u)

    @cached_property
    def _interval_masses(self) -> Floats:
        """Mass of the continuous part on each interval of the support."""
        return self._masses_of(self.support)

    def _masses_of(self, intervals: Floats) -> Floats:
        """Mass of the continuous part on intervals that cover the support."""
        if not len(intervals):
            return np.zeros(0)
        low, high = intervals.T
        location, mass = self.atom
        between = 0.5 * (high[:-1] + low[1:])  # one point in each bounded gap
        inner = self._gap_cdf(between) if between.size else np.zeros(0)
        inner = inner - np.array([mass[location <= x].sum() for x in between])
        return np.diff(np.concatenate([[0.0], inner, [1 - mass.sum()]]))

    def _gap_cdf(self, x: Floats) -> Floats:
        """Cdf at points between two intervals."""
        return self._below(follow(self._expression, x.astype(np.complex128)))

    def _cauchy(self, z: Complexes) -> Complexes:
        """Return G, next to an atom p δ_a as p/(z − a) + R(z), of which only R is evaluated.

        Inside the continuous part R is continuous from above. Elsewhere it is analytic up to the
        next edge or atom, at a distance of r, and real on the axis: with h = 10⁻⁵ r,
        G(a + ih) = −ip/h + R(a) + ih R′(a) + O(h²).
        """
        if 0 in self.edges and (closest := np.abs(z).min(initial=np.inf)) < _CLOSEST_POINT * (
            scale := self._expression.bound
        ):
            condition = f"at least {_CLOSEST_POINT * scale:.3g} away from the edge at 0"
            raise invalid_argument("z", condition, float(closest))
        places, g = self.atom.location, np.empty(z.shape, dtype=np.complex128)
        far = np.ones(z.shape, dtype=bool)
        for a, p in zip(places.tolist(), self.atom.mass.tolist(), strict=True):
            others = np.concatenate([self.edges, places[places != a]])
            h = 1e-5 * np.abs(others - a).min(initial=self._expression.bound or 1.0)
            embedded = a in self._embedded
            near = np.abs(z - a) < (1e-3 * h if embedded else h)
            if not near.any():
                continue
            rest = complex(self._followed(np.array([a + 1j * h]))[0]) + 1j * p / h
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                away = z[near] - a
                g[near] = p / away + (rest if embedded else rest.real + rest.imag / h * away)
            far &= ~near
        g[far] = self._followed(z[far])
        return g

    def _followed(self, z: Complexes) -> Complexes:
        point, _ = evaluate(self._expression, follow(self._expression, z))
        return np.asarray(point.g, dtype=np.complex128)

    def _density(self, u: Complexes) -> Floats:
        with np.errstate(all="ignore"):
            point, _ = evaluate(self._expression, u)
            return np.fmax(-point.g.imag / np.pi, 0.0)  # 0 where rounding leaves no number

    def _below(self, u: Complexes) -> Floats:
        return np.clip(1 - mass_above(self._expression, u), 0.0, 1.0)

    @cached_property
    def _embedded(self) -> list[float]:
        """Locations of atoms that lie inside the continuous part."""
        location = self.atom.location
        return [float(x) for x in location[self._is_inside(location)]]

    @cached_property
    def _boundaries(self) -> "dict[int, Boundary]":
        """Curves over the intervals met so far."""
        return {}

    def _parameters(self, x: Floats) -> Complexes:
        """Parameters at points inside the support."""
        for location in self._embedded:  # the limit from the right
            x = np.where(x == location, x + 1e-12 * self._expression.bound, x)
        interval = np.searchsorted(self.support[:, 0], x) - 1
        u = np.empty((self._expression.n_leaves, x.size), dtype=np.complex128)
        alone = np.zeros(x.size, dtype=bool)
        for k in np.unique(interval).tolist():
            here = interval == k
            if k not in self._boundaries:
                if here.sum() < _FEW:
                    alone |= here
                    continue
                self._boundaries[k] = Boundary(self._expression, *self.support[k].tolist())
            u[:, here] = self._boundaries[k].parameters(x[here])
        if alone.any():
            u[:, alone] = follow(self._expression, x[alone].astype(np.complex128))
        return u


class ClosedFormLaw(FreeLaw):
    """A law with its own formulas for density and cdf."""

    @abstractmethod
    def _density_inside(self, x: Floats) -> Floats: ...

    @abstractmethod
    def _cdf_inside(self, x: Floats) -> Floats: ...

    def _inside(self, x: Floats) -> tuple[Floats, Floats]:
        return self._density_inside(x), self._cdf_inside(x)


class Boundary:
    """Parameters at nodes x = low + (high − low) sin²(θ/2), interpolated in θ for a first guess.

    The guess is Hermite's cubic through two nodes; Newton's method makes it exact, and where
    it fails (a gap about to open) the point is followed from above the axis. The nodes
    themselves are found so: a few from above, then those between them. At a soft edge the curve
    is analytic in θ and turns into its conjugate beyond, so that the first node has a mirror
    image there; a hard edge, at 0, is a power law, with nodes ever closer to it on demand.
    """

    def __init__(self, law: Expression, low: float, high: float) -> None:
        self.law, self.low, self.width = law, low, high - low
        self.hard = (low == 0, high == 0)
        self.angle = np.zeros(0)
        self.nodes: Complexes = np.zeros((law.n_leaves, 0), dtype=np.complex128)
        self.slopes: Complexes = self.nodes
        self._add(_FIRST)
        for _ in range(_HALVINGS):
            self._add(0.5 * (np.append(self.angle, np.pi) + np.append(0.0, self.angle)))
        for _ in range(_GRADED):
            self._add(np.array([0.4 * self.angle[0], np.pi - 0.4 * (np.pi - self.angle[-1])]))

    def parameters(self, x: Floats) -> Complexes:
        """Return the parameters (leaves × points) at points inside the interval."""
        angle = 2 * np.arcsin(np.sqrt(np.clip((x - self.low) / self.width, 0.0, 1.0)))
        while self.hard[0] and self.angle[0] > max(angle.min(), _CLOSEST):
            self._add(0.4 * self.angle[:1])
        while self.hard[1] and np.pi - self.angle[-1] > max(np.pi - angle.max(), 1e-7):
            self._add(np.pi - 0.4 * (np.pi - self.angle[-1:]))
        return self._solve(angle, x)

    def _add(self, angle: Floats) -> None:
        sine, cosine = np.sin(angle / 2), np.cos(angle / 2)
        nodes = self._solve(angle, self.low + self.width * sine**2)
        slopes = tangent(self.law, nodes).astype(np.complex128)  # du/dz
        slopes *= self.width * sine * cosine  # du/dθ
        angle = np.append(self.angle, angle)
        nodes = np.concatenate([self.nodes, nodes], axis=1)
        slopes = np.concatenate([self.slopes, slopes], axis=1)
        order = np.argsort(angle)
        self.angle, self.nodes, self.slopes = angle[order], nodes[:, order], slopes[:, order]

    def _solve(self, angle: Floats, x: Floats) -> Complexes:
        target = x.astype(np.complex128)
        if not self.angle.size:
            return follow(self.law, target)
        nodes, slopes, ends = self.nodes, self.slopes, self.angle
        ends = np.concatenate([-ends[:1], ends, 2 * np.pi - ends[-1:]])
        left = np.clip(
            np.searchsorted(ends, angle) - 1, self.hard[0], len(ends) - 2 - self.hard[1]
        )
        at = np.clip([left - 1, left], 0, len(self.angle) - 1)
        step = ends[left + 1] - ends[left]
        s = (angle - ends[left]) / step
        (a, b), (da, db) = nodes[:, at].swapaxes(0, 1), slopes[:, at].swapaxes(0, 1) * step
        first, last = left == 0, left == len(ends) - 2
        a, da = np.where(first, a.conj(), a), np.where(first, -da.conj(), da)
        b, db = np.where(last, b.conj(), b), np.where(last, -db.conj(), db)
        rise = b - a
        guess = a + s * (da + s * (3 * rise - 2 * da - db + s * (da + db - 2 * rise)))
        u, good = settle(self.law, guess, target)
        lost = np.flatnonzero(~good)
        if lost.size:
            u[:, lost] = follow(self.law, target[lost])
        return u


def law_of(expression: Expression) -> FreeLaw:
    """Return the law of an expression in normal form."""
    for stage in expression.stages:
        smallest = sorted(stage.ratios)[:2] if isinstance(stage, ex.Multiplication) else []
        if len(smallest) == 2 and smallest[0] * smallest[1] < _LEAST_PRODUCT:
            condition = f"such that their product is at least {_LEAST_PRODUCT:g}"
            raise invalid_argument("ratios of Marchenko-Pastur laws", condition, smallest)
    kind = _kind(expression)
    law = kind.__new__(kind)
    FreeLaw.__init__(law, expression)
    return law


def _kind(expression: Expression) -> type[FreeLaw]:
    """Return the most specific class of law for an expression."""
    from attnlaw.laws.classical import Discrete, MarchenkoPastur, Semicircle, WishartProduct

    if not expression.stages and not isinstance(expression.base, ex.Pair):
        return Discrete
    if expression.point is None or len(expression.stages) > 1:
        return FreeLaw
    (stage,) = expression.stages
    if isinstance(stage, ex.Addition):
        return FreeLaw if stage.parts else Semicircle
    closed_forms: dict[int, type[FreeLaw]] = {1: MarchenkoPastur, 2: WishartProduct}
    return closed_forms.get(len(stage.ratios), FreeLaw)


def product(left: Law, right: Law) -> Law:
    """Return the free multiplicative convolution of two laws, one of them of constant sign."""
    for a, b in ((left, right), (right, left)):
        low, high = reach(b)
        rounding = 1e-12 * b._expression.bound
        if b._expression.is_positive or low >= -rounding:
            return law_of(ex.multiplicative_convolution(a._expression, b._expression))
        if high <= rounding:
            flipped = ex.multiplicative_convolution(a._expression, ex.scaled(b._expression, -1.0))
            return law_of(ex.scaled(flipped, -1.0))
    raise ValueError(
        "one factor of a free multiplicative convolution must be non-negative or non-positive, "
        "got "
        f"{left!r} on [{reach(left)[0]:.6g}, {reach(left)[1]:.6g}] and "
        f"{right!r} on [{reach(right)[0]:.6g}, {reach(right)[1]:.6g}]."
    )


def reach(law: Law) -> tuple[float, float]:
    """Smallest and largest point of the support, atoms included."""
    points = [*law.edges[:1], *law.edges[-1:], *law.atom.location[:1], *law.atom.location[-1:]]
    return float(min(points)), float(max(points))
