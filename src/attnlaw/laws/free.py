"""Laws that have no closed form: their parametric curve, followed to the real axis."""

import numpy as np
from numpy.typing import NDArray

from attnlaw.laws.continuation import parameters
from attnlaw.laws.gaps import edges
from attnlaw.laws.law import Law
from attnlaw.laws.uniformisation import evaluate, mass_above

__all__ = ["FreeLaw"]

Floats = NDArray[np.float64]


class FreeLaw(Law):
    """A free sum or product of laws, made by the operators of `Law`.

    Examples
    --------
    >>> from attnlaw.laws import Discrete, MarchenkoPastur
    >>> Discrete([1, 2]) @ MarchenkoPastur(0.5)
    Discrete([1, 2]) @ MarchenkoPastur(0.5)
    """

    def _intervals(self) -> Floats:
        found = edges(self._expression)
        if self._expression.is_positive:  # by construction: only rounding says otherwise
            found = np.maximum(found, 0.0)
        width = 1e-12 * self._expression.bound
        return found[found[:, 1] - found[:, 0] > width]

    def _density_inside(self, x: Floats) -> Floats:
        return self._density(self._parameters(x))

    def _cdf_inside(self, x: Floats) -> Floats:
        return self._below(self._parameters(x))

    def _inside(self, x: Floats) -> tuple[Floats, Floats]:
        u = self._parameters(x)
        return self._density(u), self._below(u)

    def _parameters(self, x: Floats) -> NDArray[np.complex128]:
        for location in self.atom.location:  # an atom inside the bulk: take the limit
            x = np.where(x == location, x + 1e-12 * self._expression.bound, x)
        return parameters(self._expression, x.astype(np.complex128))

    def _density(self, u: NDArray[np.complex128]) -> Floats:
        point, _ = evaluate(self._expression, u)
        return np.maximum(-point.g.imag / np.pi, 0.0)

    def _below(self, u: NDArray[np.complex128]) -> Floats:
        return np.clip(1 - mass_above(self._expression, u), 0.0, 1.0)

    def _gap_cdf(self, x: Floats) -> Floats:
        return self._below(self._parameters(x))

    def _cauchy(self, z: NDArray[np.complex128]) -> NDArray[np.complex128]:
        point, _ = evaluate(self._expression, parameters(self._expression, z))
        return np.asarray(point.g, dtype=np.complex128)
