"""Laws that have no closed form: their parametric curve, followed to the real axis."""

from functools import cached_property

import numpy as np

from attnlaw._checks import Complexes, Floats
from attnlaw.laws._engine.boundary import Boundary
from attnlaw.laws._engine.continuation import follow
from attnlaw.laws._engine.support import intervals
from attnlaw.laws._engine.uniformisation import evaluate, mass_above
from attnlaw.laws.law import Law

__all__ = ["FreeLaw"]

_FEW = 24  # points in an interval that are followed one by one


class FreeLaw(Law):
    """A free sum or product of laws, made by the operators of `Law`.

    Examples
    --------
    >>> from attnlaw.laws import Discrete, MarchenkoPastur
    >>> Discrete([1, 2]) @ MarchenkoPastur(0.5)
    Discrete([1, 2]) @ MarchenkoPastur(0.5)
    """

    def _intervals(self) -> Floats:
        found = intervals(self._expression)
        if self._expression.is_positive:  # by construction: only rounding says otherwise
            found = np.maximum(found, 0.0)
        found = found[found[:, 1] - found[:, 0] > 1e-14 * self._expression.bound]
        return found[self._masses_of(found) > 1e-12] if len(found) > 1 else found

    def _density_inside(self, x: Floats) -> Floats:
        return self._inside(x)[0]

    def _cdf_inside(self, x: Floats) -> Floats:
        return self._below(self._parameters(x))

    def _inside(self, x: Floats) -> tuple[Floats, Floats]:
        u = self._parameters(x)
        density = self._density(u)
        for location in self._embedded:  # next to an atom inside the bulk G is all pole
            far = 1e-5 * self._expression.bound
            if (near := np.abs(x - location) < 0.1 * far).any():
                both = self._parameters(np.array([location - far, location + far]))
                density[near] = self._density(both).mean()
        return density, self._below(u)

    def _gap_cdf(self, x: Floats) -> Floats:
        return self._below(follow(self._expression, x.astype(np.complex128)))

    def _cauchy(self, z: Complexes) -> Complexes:
        point, _ = evaluate(self._expression, follow(self._expression, z))
        return np.asarray(point.g, dtype=np.complex128)

    def _density(self, u: Complexes) -> Floats:
        with np.errstate(all="ignore"):
            point, _ = evaluate(self._expression, u)
            return np.maximum(-point.g.imag / np.pi, 0.0)

    def _below(self, u: Complexes) -> Floats:
        return np.clip(1 - mass_above(self._expression, u), 0.0, 1.0)

    @cached_property
    def _embedded(self) -> list[float]:
        """Locations of atoms that lie inside the continuous part."""
        location = self.atom.location
        return [float(x) for x in location[self._is_inside(location)]]

    @cached_property
    def _boundaries(self) -> dict[int, Boundary]:
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
