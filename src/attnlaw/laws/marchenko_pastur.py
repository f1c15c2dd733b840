"""The Marchenko–Pastur law, in closed form."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats, invalid_argument, real
from attnlaw.laws._engine.expression import Multiplication, PointMasses, chain
from attnlaw.laws._engine.free import ClosedFormLaw
from attnlaw.laws._engine.stationary import Edge, stationary_value
from attnlaw.laws._engine.uniformisation import bent_argument

__all__ = ["MarchenkoPastur"]


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
        c = real("ratio", ratio, at_least=0)
        if not isinstance(c, float):
            raise invalid_argument("ratio", "a single number", c)
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
        left, right = self._ends
        return np.asarray(0.5 * np.sqrt(left.distance(z) * -right.distance(z)))

    def _density_inside(self, x: Floats) -> Floats:
        sign, scale, c = self._constants
        z = sign * x
        return self._half_width(z) / (np.pi * c * scale * z)

    def _cdf_inside(self, x: Floats) -> Floats:
        sign, scale, c = self._constants
        z = sign * x
        t = 0.5 * (z / scale - 1 - c) + 1j * (self._half_width(z) / scale)
        # Φ = log t + log(1+cy) + (cy − log(1+cy))/c with cy = c/t = conj(t)
        phase = np.arctan2(t.imag, t.real + c) + bent_argument(t.conj()) / c
        above: Floats = phase / np.pi
        return np.clip(1 - above if sign > 0 else above, 0.0, 1.0)

    def _cauchy(self, z: NDArray[np.complex128]) -> NDArray[np.complex128]:
        sign, scale, c = self._constants
        w = z / scale if sign > 0 else -z.conj() / scale
        low, high = (1 - c**0.5) ** 2, (1 + c**0.5) ** 2
        t = 0.5 * (w - 1 - c + np.sqrt(w - low) * np.sqrt(w - high))
        g = 1 / (scale * (t + c))
        return np.asarray(g if sign > 0 else -g.conj())
