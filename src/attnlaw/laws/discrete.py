"""Finitely many atoms, such as the eigenvalues of a user's matrix."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._checks import Floats, invalid_argument, real_array
from attnlaw.laws._engine.expression import Expression, PointMasses
from attnlaw.laws._engine.free import FreeLaw
from attnlaw.laws._engine.uniformisation import cauchy_sums

__all__ = ["Discrete"]


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
        h = np.ones(t.size) if weights is None else real_array("weights", weights, ndim=1)
        if h.shape != t.shape:
            raise invalid_argument("weights", f"of length {t.size}, like the atoms", h)
        if (h < 0).any() or not h.sum() > 0:
            raise invalid_argument("weights", "at least 0, and not all 0", h.tolist())
        super().__init__(Expression(PointMasses.of(t, h)))

    def _intervals(self) -> Floats:
        return np.zeros((0, 2))

    def _cauchy(self, z: NDArray[np.complex128]) -> NDArray[np.complex128]:
        assert isinstance(self._expression.base, PointMasses)
        return np.asarray(cauchy_sums(self._expression.base, z)[0], dtype=np.complex128)
