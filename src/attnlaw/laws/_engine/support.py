"""Where a law has mass: its support, as the complement of gaps that no stage can hide.

An addition, or one Marchenko–Pastur factor, has dz'/dz concave on each gap of the law before it
(cut at the poles), so each gap shrinks to one smaller gap or closes: nothing is missed, however
many atoms there are. For a pair of laws each gap belongs to one gap of either law, and is
searched for there. The outer gap is one gap, through infinity. Derived in docs/theory/laws.md,
"Edges".
"""

import numpy as np

from attnlaw._checks import Floats
from attnlaw.laws._engine.expression import (
    Addition,
    Expression,
    Multiplication,
    PointMasses,
    Stage,
)
from attnlaw.laws._engine.gaps import (
    BLUNT,
    SHARP,
    Gaps,
    Rows,
    newton_roots,
    polished,
    split,
    squeeze,
    where_increasing,
)
from attnlaw.laws._engine.moments import atoms
from attnlaw.laws._engine.uniformisation import Point, apply, cauchy_sums, join

__all__ = ["gaps", "intervals"]

_TABLE = np.linspace(0.0, 1.0, 65)  # where the right law of a pair is tabulated, in each gap
_ROUNDING = 1e-11  # of the slope of a pair, which may vanish identically


def intervals(law: Expression) -> Floats:
    """Return the intervals of the support (n × 2); isolated atoms have length 0."""
    ends, is_atom = gaps(law).limits()
    tolerance = law.bound * np.where(is_atom, 1e-8, 1e-14)
    for location in atoms(law, -1e-12):  # exactly there, also if the density is infinite only
        ends = np.where(np.abs(ends - location) < tolerance, location, ends)
    low, high = np.where(np.abs(ends) < 1e-24 * law.bound, 0.0, ends)  # a hard edge
    real = ~(np.abs(high - low) <= 1e-13 * law.bound) & np.isfinite(low + high)
    low, high = low[real], high[real]
    outer = int(np.argmax(low - high))  # the gap through infinity has low > high
    inner = np.delete(np.arange(len(low)), outer)
    inner = inner[np.argsort(low[inner])]
    starts = np.append(high[outer], high[inner])
    stops = np.append(low[inner], low[outer])
    return np.stack([starts, np.maximum(starts, stops)], axis=1)


def gaps(law: Expression) -> Gaps:
    """Return the gaps of a law's support; an isolated atom separates two of them."""
    if isinstance(law.base, PointMasses):
        found = _between_masses(law.base, law.bound or 1.0)
    else:
        found = _of_pair(law.base.kind, gaps(law.base.left), gaps(law.base.right))
    for k, stage in enumerate(law.stages):
        before = Expression(law.base, law.stages[:k])
        for part in _elementary(stage):
            found = _after(found, part, before)
            before = Expression(before.base, (*before.stages, part))
    return found


def _elementary(stage: Stage) -> tuple[Stage, ...]:
    """Return the steps of a stage whose slope is concave between poles: any addition is one."""
    if isinstance(stage, Multiplication):
        return tuple(Multiplication((c,)) for c in stage.ratios)
    return (stage,)


def _between_masses(masses: PointMasses, scale: float) -> Gaps:
    t = masses.locations

    def curve(u: Floats, branch: Rows) -> Point:
        with np.errstate(all="ignore"):
            g, y, dg, dy = cauchy_sums(masses, u)
        return Point(u, g, y, np.ones_like(u), dg, dy)

    return Gaps(t, np.roll(t, -1), np.zeros(len(t), dtype=np.intp), curve, scale, SHARP)


def _after(found: Gaps, stage: Stage, before: Expression) -> Gaps:
    """Return the gaps after one elementary stage."""
    inner = found.curve

    def curve(u: Floats, branch: Rows) -> Point:
        with np.errstate(all="ignore"):
            return apply(stage, inner(u, branch))

    if isinstance(stage, Addition) and stage.parts:  # z has a pole where G = 1/(cs)
        found = split(found, "g", [1 / (c * s) for s, c in stage.parts])

    def slope(logit: Floats, rows: Rows) -> tuple[Floats, Floats]:
        point = found.at(logit, rows)
        with np.errstate(all="ignore"):
            ratio = apply(stage, point).dz / point.dz
        return np.where(point.dz > 0, ratio, -np.inf), np.asarray(point.z)

    shrunk = where_increasing(slope, found, is_concave=True)._replace(curve=curve)
    after = Expression(before.base, (*before.stages, stage))
    if isinstance(stage, Multiplication) and 0.0 in atoms(after):
        shrunk = split(shrunk, "z", [0.0])
    return shrunk


def _of_pair(kind: str, left: Gaps, right: Gaps) -> Gaps:
    """Return the gaps of a convolution of two laws, on the parameter of the left one.

    In a gap of A ⊞ B both laws are in a gap of theirs and G_A = G_B (in one of A ⊠ B, y_A = y_B).
    So the left gaps are cut into pieces on which that field stays in the range that it has on one
    right gap; on such a piece the pair has a curve, and a gap is where its z increases.
    """
    whole = _pieces_with_partners(kind, left, right)

    def slope(logit: Floats, rows: Rows) -> tuple[Floats, Floats]:
        point = whole.at(logit, rows)
        return np.asarray(point.dz - _ROUNDING), np.asarray(point.z)

    return where_increasing(slope, whole, is_concave=False)


def _pieces_with_partners(kind: str, left: Gaps, right: Gaps) -> Gaps:
    """Return the left gaps, cut where the common field leaves the range of each right gap."""
    field, unit = _common_field(kind, right)
    rows = np.arange(len(right.low))
    first, last = (getattr(right.at(end, rows), field) for end in right.ends)
    pieces = []
    for ends in zip(first, last, strict=True):
        levels = [end for end in ends if 1e-9 < abs(end) * unit < 1e9]
        pieces.append(split(left, field, levels) if levels else left)
    low, high, branch = (np.concatenate([piece[k] for piece in pieces]) for k in range(3))
    partner = np.repeat(rows, [len(piece.low) for piece in pieces])
    curve = _PairCurve(kind, left, right, branch, partner)
    return Gaps(low, high, np.arange(len(low)), curve, left.scale, BLUNT)


def _common_field(kind: str, right: Gaps) -> tuple[str, float]:
    """Return the field that two laws have in common, and the unit that makes it dimensionless."""
    return ("g", right.scale) if kind == "additive" else ("y", 1.0)


class _PairCurve:
    """The real curve of a pair of laws, over the parameter of the left one.

    Its branch k joins the branch `branch[k]` of the left law with the gap `partner[k]` of the
    right one.
    """

    def __init__(self, kind: str, left: Gaps, right: Gaps, branch: Rows, partner: Rows) -> None:
        self.kind, self.left, self.right = kind, left, right
        self.branch, self.partner = branch, partner
        self.field, self.unit = _common_field(kind, right)
        self._logits = (right.ends[:1] + np.diff(right.ends, axis=0) * _TABLE[:, None]).T
        rows = np.repeat(np.arange(len(right.low)), len(_TABLE))
        self._values = self._scaled(self._logits.ravel(), rows).reshape(self._logits.shape)

    def __call__(self, u: Floats, branch: Rows) -> Point:
        """Return the point of the pair, written for the law that is farther out."""
        with np.errstate(all="ignore"):
            a = self.left.curve(u, self.branch[branch])
            b = self._right_point(getattr(a, self.field), self.partner[branch])
            rate = getattr(a, f"d{self.field}") / getattr(b, f"d{self.field}")
            b = b._replace(dz=b.dz * rate, dg=b.dg * rate, dy=b.dy * rate)
            near, far = join(self.kind, a, b)[0], join(self.kind, b, a)[0]
            swap = np.abs(a.z) * self.right.scale > np.abs(b.z) * self.left.scale
            return Point(*(np.where(swap, f, m) for f, m in zip(far, near, strict=True)))

    def _right_point(self, wanted: Floats, rows: Rows) -> Point:
        """Return the point of the right law, in these gaps, where the field is as wanted."""
        right, target = self.right, squeeze(wanted * self.unit)
        falling = self._values[rows]  # the field falls from one end of a gap to the other
        valid = (falling[:, 0] >= target) & (falling[:, -1] <= target) & np.isfinite(wanted)
        kept = np.flatnonzero(valid)
        above = (falling[kept] >= target[kept, None]).sum(axis=1)
        first = np.clip(above, 1, len(_TABLE) - 1) - 1
        a, b = (self._logits[rows[kept], first + k] for k in (0, 1))

        fa, fb = (falling[kept, first + k] - target[kept] for k in (0, 1))

        def excess(logit: Floats, which: Rows) -> tuple[Floats, Floats]:
            at = rows[kept[which]]
            point, unit = right.at(logit, at), self.unit
            value = getattr(point, self.field) * unit
            slope = getattr(point, f"d{self.field}") * unit * right.rate(logit, at)
            return squeeze(value) - target[kept[which]], slope / (1 + np.abs(value))

        logit = np.full(wanted.shape, np.nan)
        logit[kept] = newton_roots(excess, a, b, fa, fb)
        w, branch = right.place(logit, rows), right.branch[rows]
        return right.curve(polished(right.curve, w, branch, self.field, wanted), branch)

    def _scaled(self, logit: Floats, rows: Rows) -> Floats:
        """Return the common field of the right law at these logits in these gaps, squeezed."""
        return squeeze(getattr(self.right.at(logit, rows), self.field) * self.unit)
