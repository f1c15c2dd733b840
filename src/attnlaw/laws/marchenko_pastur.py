"""The Marchenko–Pastur law, in closed form."""

import numpy as np
from numpy.typing import NDArray

from attnlaw._validation import complain, real
from attnlaw.laws.expression import Multiplication, PointMasses, chain
from attnlaw.laws.law import Law
from attnlaw.laws.uniformisation import bent_argument

__all__ = ["MarchenkoPastur"]

Floats = NDArray[np.float64]


class MarchenkoPastur(Law):
    """Eigenvalues of WᵀW/n for a standard Gaussian n × d matrix W, as d/n → c.

    density(x) = √((λ₊−x)(x−λ₋))/(2πcx) on λ± = (1±√c)², and an atom 1 − 1/c at 0 when c > 1.
    In the parameter t = 1/y of theory.md §1, z = (t+1)(t+c)/t and G = 1/(t+c), with |t|² = c on
    the bulk.

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
            raise complain("ratio", "a single number", c)
        super().__init__(chain(PointMasses.at(1.0), Multiplication((c,))))

    @property
    def _scale_and_ratio(self) -> tuple[float, float]:
        scale = self._expression.point
        assert scale is not None
        (stage,) = self._expression.stages or (Multiplication((0.0,)),)
        assert isinstance(stage, Multiplication)
        return scale, stage.ratios[0]

    def _intervals(self) -> Floats:
        scale, c = self._scale_and_ratio
        if c == 0:
            return np.zeros((0, 2))
        return np.sort([scale * ((1 - c) / (1 + c**0.5)) ** 2, scale * (1 + c**0.5) ** 2])[None]

    def _half_width(self, x: Floats) -> Floats:
        """Im t = √((λ₊−x)(x−λ₋))/2 at x in units of the scale."""
        scale, _ = self._scale_and_ratio
        low, high = np.sort(self.edges / scale)
        return np.asarray(0.5 * np.sqrt((high - x) * (x - low)))

    def _density_inside(self, x: Floats) -> Floats:
        scale, c = self._scale_and_ratio
        return np.asarray(np.sign(scale) * self._half_width(x / scale) / (np.pi * c * x))

    def _cdf_inside(self, x: Floats) -> Floats:
        scale, c = self._scale_and_ratio
        x = x / scale
        t = 0.5 * (x - 1 - c) + 1j * self._half_width(x)
        # Φ = log t + log(1+cy) + (cy − log(1+cy))/c with cy = c/t = conj(t)
        phase = np.arctan2(t.imag, t.real + c) + bent_argument(t.conj()) / c
        return np.asarray(1 - phase / np.pi if scale > 0 else phase / np.pi)

    def _cauchy(self, z: NDArray[np.complex128]) -> NDArray[np.complex128]:
        scale, c = self._scale_and_ratio
        w = z / scale if scale > 0 else z.conj() / scale
        low, high = (1 - c**0.5) ** 2, (1 + c**0.5) ** 2
        t = 0.5 * (w - 1 - c + np.sqrt(w - low) * np.sqrt(w - high))
        g = 1 / (scale * (t + c))
        return np.asarray(g if scale > 0 else g.conj())
