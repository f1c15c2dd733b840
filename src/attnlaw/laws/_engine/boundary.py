"""The law's curve over one interval of its support, kept for fast evaluation."""

import numpy as np

from attnlaw._checks import Complexes, Floats
from attnlaw.laws._engine.continuation import follow, settle, tangent
from attnlaw.laws._engine.expression import Expression

_FIRST = np.linspace(0.0, np.pi, 13)[1:-1]
_HALVINGS = 2
_GRADED = 4  # nodes towards an edge
_CLOSEST = 1e-13  # angle of the last node towards a hard edge


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
