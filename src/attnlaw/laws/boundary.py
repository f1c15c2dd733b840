"""The law's curve over one interval of its support, kept for fast evaluation."""

import numpy as np
from numpy.typing import NDArray

from attnlaw.laws.continuation import follow, settle, tangent
from attnlaw.laws.expression import Expression
from attnlaw.laws.uniformisation import Complexes

Floats = NDArray[np.float64]

_FIRST = np.linspace(0.0, np.pi, 13)[1:-1]
_HALVINGS = 2
_SOFT, _HARD = 11, 26  # nodes towards an edge; a hard edge, at 0, is a power law down to rounding


class Boundary:
    """Parameters at nodes x = low + (high − low) sin²(θ/2), interpolated in θ for a first guess.

    The guess is Hermite's cubic through two nodes; Newton's method makes it exact, and where
    it fails (a gap about to open) the point is followed from above the axis. The nodes
    themselves are found so: a few from above, then those between them, then ever closer to the
    edges, which may be hard ones.
    """

    def __init__(self, law: Expression, low: float, high: float) -> None:
        self.law, self.low, self.width = law, low, high - low
        self.angle = np.zeros(0)
        self.nodes: Complexes = np.zeros((law.n_leaves, 0), dtype=np.complex128)
        self.slopes: Complexes = self.nodes
        self._add(_FIRST)
        for _ in range(_HALVINGS):
            self._add(0.5 * (self.angle[1:] + self.angle[:-1]))
        gap = self.angle[0]
        for k in range(1, _HARD + 1):
            near = gap * 0.4**k
            ends = [near] * (k <= _SOFT or low == 0) + [np.pi - near] * (k <= _SOFT or high == 0)
            if ends:
                self._add(np.array(ends))

    def parameters(self, x: Floats) -> Complexes:
        """Return the parameters (leaves × points) at points inside the interval."""
        return self._solve(2 * np.arcsin(np.sqrt((x - self.low) / self.width)), x)

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
        left = np.clip(np.searchsorted(self.angle, angle) - 1, 0, len(self.angle) - 2)
        step = self.angle[left + 1] - self.angle[left]
        s = (angle - self.angle[left]) / step
        a, b = self.nodes[:, left], self.nodes[:, left + 1]
        da, db = self.slopes[:, left] * step, self.slopes[:, left + 1] * step
        rise = b - a
        guess = a + s * (da + s * (3 * rise - 2 * da - db + s * (da + db - 2 * rise)))
        u, good = settle(self.law, guess, target)
        lost = np.flatnonzero(~good)
        if lost.size:
            u[:, lost] = follow(self.law, target[lost])
        return u
