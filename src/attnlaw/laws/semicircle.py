"""Wigner's semicircle law."""

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats, real
from attnlaw.laws._engine.expression import Addition, PointMasses, chain
from attnlaw.laws._engine.free import ClosedFormLaw

__all__ = ["Semicircle"]


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
        sigma2 = real("variance", variance, above=0)
        super().__init__(chain(PointMasses.at(0.0), Addition(variance=float(sigma2))))

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
