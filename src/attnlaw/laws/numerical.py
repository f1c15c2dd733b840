"""Laws that are known as functions and not as expressions of free probability."""

from abc import abstractmethod
from functools import cached_property
from typing import Self

import numpy as np

from attnlaw._checks import frozen
from attnlaw.laws._engine.expression import Expression, PointMasses
from attnlaw.laws.law import Law

__all__ = ["NumericalLaw"]

_ATOMS = 256  # that stand for the law in free convolutions with other laws


class NumericalLaw(Law):
    """A law with a scale; in free convolutions it is represented by 256 of its quantiles."""

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
