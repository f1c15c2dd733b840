"""The support of a law, as the complement of its gaps, which are found stage by stage.

An addition, or one Marchenko–Pastur factor, has dz'/dz concave on each gap of the law before it
(cut at the poles), so each gap shrinks to one smaller gap or closes: nothing is missed, however
many atoms there are. For a pair of laws each gap belongs to one gap of either law, and is
searched for there. The outer gap is one gap, through infinity. Derived in docs/theory/laws.md,
"Edges".
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
    Cuts,
    Gaps,
    Places,
    Rows,
    crossings,
    newton_roots,
    pieces,
    polished,
    shrunk,
    split,
    squeeze,
    where_concave,
)
from attnlaw.laws._engine.moments import atoms
from attnlaw.laws._engine.uniformisation import Point, apply, cauchy_sums, join

__all__ = ["gaps", "intervals"]

_TABLE = np.linspace(0.0, 1.0, 65)  # where the right law of a pair is tabulated, in each gap
_ROUNDING = 1e-8  # of the slope of a pair, which may vanish identically
# Where a pair is first looked at, from one end of a stretch to the other: its ends may be poles.
_NODES = np.unique([*np.linspace(0.0, 1.0, 9), *(near := 0.5 ** np.arange(4, 19)), *(1 - near)])
_POLE = 1e-5  # distance, in the logit, from where a law of a pair has its pole
_MOST_NODES = 20_000
NARROWEST = 1e-7  # width, relative to where it lies, at which a pair has all its digits
MISSED = 1e-6  # a gap may be missed only if V_A V_B > 1 - 2 MISSED all over it

Bools = NDArray[np.bool_]


def intervals(law: Expression) -> Floats:
    """Return the intervals of the support (n × 2); isolated atoms have length 0."""
    ends, is_atom = gaps(law).limits()
    tolerance = law.bound * np.where(is_atom, 1e-8, 1e-14)
    known = np.array([*atoms(law, -1e-12)])  # exactly there, also if the density is infinite only
    if known.size:
        nearest = known[np.abs(ends[..., None] - known).argmin(axis=-1)]
        ends = np.where(np.abs(ends - nearest) < tolerance, nearest, ends)
    low, high = np.where(np.abs(ends) < 1e-24 * law.bound, 0.0, ends)  # a hard edge
    real = ~(np.abs(high - low) <= 1e-13 * law.bound) & np.isfinite(low + high)
    low, high = low[real], high[real]
    if not len(low):
        raise ArithmeticError("the support of a law cannot be told from a point.")
    outer = int(np.argmax(low - high))  # the gap through infinity has low > high
    inner = np.flatnonzero(low < high)
    inner = inner[np.argsort(low[inner])]
    starts = np.append(high[outer], high[inner])
    stops = np.append(low[inner], low[outer])
    return np.stack([starts, np.maximum(starts, stops)], axis=1)


def gaps(law: Expression) -> Gaps:
    """Return the gaps of a law's support; an isolated atom separates two of them."""
    if isinstance(law.base, PointMasses):
        found = _between_masses(law.base, law.bound or 1.0, SHARP if law.stages else 0.0)
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


def _between_masses(masses: PointMasses, scale: float, close: float) -> Gaps:
    """Return the gaps between atoms, up to `close` to them, relative to their size.

    A stage may have a hard edge at an atom; next to it its slope is nothing but rounding.
    """
    t = masses.locations.astype(np.complex128)

    def curve(u: Places, branch: Rows) -> Point:
        with np.errstate(all="ignore"):
            g, y, dg, dy = cauchy_sums(masses, u.real, u.imag)
        return Point(u.real + u.imag, g, y, np.ones(u.shape), dg, dy)

    after, nearest = np.roll(t, -1), close * np.abs(masses.locations)
    branch, nearest = np.arange(len(t)), np.stack([nearest, np.roll(nearest, -1)])
    return Gaps(t, after, branch, curve, scale, SHARP, nearest)


def _after(found: Gaps, stage: Stage, before: Expression) -> Gaps:
    """Return the gaps after one elementary stage."""
    inner = found.curve

    def curve(u: Places, branch: Rows) -> Point:
        with np.errstate(all="ignore"):
            return apply(stage, inner(u, branch))

    if isinstance(stage, Addition) and stage.parts:  # z has a pole where G = 1/(cs)
        found = split(found, "g", [1 / (c * s) for s, c in stage.parts])

    def slope(logit: Floats, rows: Rows) -> tuple[Floats, Floats]:
        point = found.at(logit, rows)
        with np.errstate(all="ignore"):
            ratio = apply(stage, point).dz / point.dz
        return np.where(point.dz > 0, ratio, -np.inf), np.asarray(point.z)

    after_stage = where_concave(slope, found)._replace(curve=curve)
    after = Expression(before.base, (*before.stages, stage))
    if isinstance(stage, Multiplication) and 0.0 in atoms(after):
        after_stage = split(after_stage, "z", [0.0])
    return after_stage


def _of_pair(kind: str, left: Gaps, right: Gaps) -> Gaps:
    """Return the gaps of a convolution of two laws, on the parameter of the left one.

    In a gap of A ⊞ B both laws are in a gap of theirs and G_A = G_B (in one of A ⊠ B, y_A = y_B).
    So the left gaps are cut into pieces on which that field stays in the range that it has on one
    right gap; on such a piece the pair has a curve, and a gap is where its z increases.
    """
    _refuse_narrow(kind, left, right)
    whole, curve = _pieces_with_partners(kind, left, right)

    def slope(logit: Floats, rows: Rows) -> Floats:
        return squeeze(curve.margins(whole.place(logit, rows), rows).slope - _ROUNDING)

    return shrunk(slope, whole, *_open_places(whole, curve))


def _refuse_narrow(kind: str, left: Gaps, right: Gaps) -> None:
    """Refuse a pair of laws if rounding hides one of them beside the other."""
    ends = [law.limits()[0] for law in (left, right)]
    width, size = (np.array([f(z[np.isfinite(z)]) for z in ends]) for f in (np.ptp, _largest))
    share = float((width / (size.sum() if kind == "additive" else size)).min())
    if not share >= NARROWEST:
        of = "their sum" if kind == "additive" else "its own size"
        raise ArithmeticError(
            f"laws that are joined must be wider than {NARROWEST:g} of {of}, got {share:.3g}."
        )


def _largest(z: Floats) -> float:
    return float(np.abs(z).max())


def _pieces_with_partners(kind: str, left: Gaps, right: Gaps) -> "tuple[Gaps, _PairCurve]":
    """Return the left gaps, cut where the common field leaves the range of each right gap."""
    field, unit = _common_field(kind, right)
    rows = np.arange(len(right.low))
    first, last = (getattr(right.at(end, rows), field) for end in right.ends)
    levels, owner = np.append(first, last), np.tile(rows, 2)
    inner = np.ravel([getattr(right.at(end - np.sign(end), rows), field) for end in right.ends])
    at_atom = (np.abs(levels) * unit > 1e9) & (np.abs(levels) > 1.5 * np.abs(inner))
    usable = (np.abs(levels) * unit > 1e-9) & np.isfinite(levels) & ~at_atom
    cuts = crossings(left, field, levels[usable])
    owner = owner[usable][cuts.level]
    parts = [pieces(left, Cuts(*(part[owner == k] for part in cuts))) for k in rows]
    low, high, branch = (np.concatenate([part[k] for part in parts]) for k in range(3))
    partner = np.repeat(rows, [len(part.low) for part in parts])
    curve = _PairCurve(kind, left, right, branch, partner)
    nearest = np.zeros((2, len(low)))
    whole = Gaps(low, high, np.arange(len(low)), curve, left.scale, BLUNT, nearest)
    return whole._replace(nearest=_known_to_both(whole, curve)), curve


def _known_to_both(whole: Gaps, curve: "_PairCurve") -> Floats:
    """Return the distances from the ends of pieces from which on the right law has a point, too.

    The left one is known next to an atom as closely as floats go, but not what it is joined with.
    """
    rows = np.tile(np.arange(len(whole.low)), 2)
    ends = whole.ends.ravel()

    def is_lost(logit: Floats) -> Bools:
        return np.isnan(curve.margins(whole.place(logit, rows), rows).slope)

    ends_lost = (np.concatenate([whole.low, whole.high]).imag == 0) & is_lost(ends)
    low, high = np.full(ends.size, 3.0), np.abs(ends)
    for _ in range(12 if ends_lost.any() else 0):
        middle = 0.5 * (low + high)
        lost = is_lost(np.copysign(middle, ends))
        low, high = np.where(lost, low, middle), np.where(lost, middle, high)
    known = np.where(ends_lost, np.maximum(low - 1, 3.0), np.abs(ends))
    return np.asarray(whole.span * np.exp(-known).reshape(2, -1))


def _open_places(whole: Gaps, curve: "_PairCurve") -> tuple[Floats, Floats]:
    """Return the largest slope met in each piece, and where: positive if there is a gap at all.

    V_A⁻¹ᐟ² is concave as a function of z_A, and so is V_B⁻¹ᐟ² (docs/theory/laws.md, "Edges").
    Chords bound both of them between two nodes, and z can increase there only if the product of
    the bounds exceeds 1. Cells that are left in doubt are cut in four, until none is.
    """
    best, place = np.full(len(whole.low), -np.inf), np.zeros(len(whole.low))
    row, first, last = _stretches_of_one_sign(whole, curve)
    stretch = np.repeat(np.arange(len(row)), len(_NODES))
    logit = (first[:, None] + (last - first)[:, None] * _NODES).ravel()
    nodes, n_nodes = np.empty((7, 0)), 0  # stretch, logit, and the margins there
    most = max(_MOST_NODES, 4 * logit.size)
    while logit.size and n_nodes < most:
        at = row[stretch]
        found = np.stack([stretch, logit, *curve.margins(whole.place(logit, at), at)])
        order = np.argsort(found[2])  # the largest slope of a piece is written last
        better = order[found[2, order] > best[at[order]]]
        best[at[better]], place[at[better]] = found[2, better], found[1, better]
        n_nodes += logit.size
        nodes = np.concatenate([nodes, found], axis=1)
        nodes = nodes[:, best[row[nodes[0].astype(np.intp)]] <= _ROUNDING]
        nodes = nodes[:, np.lexsort((nodes[1], nodes[0]))]
        cells = np.flatnonzero(_are_doubtful(curve.kind, nodes))
        logit = nodes[1, cells] + np.diff(nodes[1])[cells] * [[0.25], [0.5], [0.75]]
        stretch, logit = np.tile(nodes[0, cells].astype(np.intp), 3), logit.ravel()
    return squeeze(best - _ROUNDING), place


def _stretches_of_one_sign(whole: Gaps, curve: "_PairCurve") -> tuple[Rows, Floats, Floats]:
    """Return stretches of the pieces on which V has no pole inside: piece, first, last logit.

    G does not vanish there (for a product, neither do y and 1 + y), which also excludes infinity.
    """
    left = whole._replace(curve=curve.left.curve, branch=curve.branch, nearest=curve.left.nearest)
    cuts = crossings(left, curve.field, [0.0] if curve.kind == "additive" else [0.0, -1.0])
    through = np.flatnonzero(whole.wraps)
    row = np.concatenate([np.arange(len(whole.low)), through, cuts.row])
    at = np.append(np.zeros(through.size), cuts.logit)
    near = _POLE * (1 + np.abs(at))
    first, last = np.append(whole.ends[0], at + near), np.append(whole.ends[1], at - near)
    first, last = first[np.lexsort((first, row))], last[np.lexsort((last, row))]
    proper = first < last
    return np.sort(row)[proper], first[proper], last[proper]


def _are_doubtful(kind: str, nodes: Floats) -> Bools:
    """Return for each two neighbouring nodes whether z may increase between them."""
    stretch, logit, _, left_z, left, right_z, right = nodes
    same = stretch[1:] == stretch[:-1]
    power = 0.0 if kind == "additive" else 0.5
    bound = _chord_bound(left_z, left, same, power) * _chord_bound(right_z, right, same, power)
    lost = np.isnan(left + right)  # too close to an end of the right law's gap
    narrowest = np.where(lost[1:] ^ lost[:-1], 0.1, 0.1 * _POLE * (1 + np.abs(logit[1:])))
    same &= ~(lost[1:] & lost[:-1])
    return np.asarray(same & (np.diff(logit) > narrowest) & ~(bound <= 1 + MISSED))


def _chord_bound(z: Floats, root: Floats, same: Bools, power: float) -> Floats:
    """Return an upper bound of root/|z|ᵖ between neighbouring nodes, for a concave root.

    A concave function lies below its chords, extended from either side. Where the two meet, and
    at the nodes, is the largest value of their minimum, also divided by √|z|: a line over √z has
    no maximum inside.
    """
    with np.errstate(all="ignore"):
        step, rise = np.diff(z), np.diff(root)
        moves = np.abs(step) > 1e-12 * np.abs(z[1:])  # more than rounding
        beside = np.append(np.where(same & moves, rise / step, np.nan), np.nan)
        before, after = np.roll(beside, 1)[:-1] * step, np.roll(beside, -1)[:-1] * step
        share = np.clip((rise - after) / (before - after), 0.0, 1.0)  # where the chords meet
        share = np.where(np.isnan(after), 1.0, np.where(np.isnan(before), 0.0, share))
        top = np.fmin(root[:-1] + share * before, root[1:] - (1 - share) * after)
        highest = top / np.abs(z[:-1] + share * step) ** power
        ends = root / np.abs(z) ** power
    highest = np.where(np.isnan(highest) & moves, np.inf, highest)
    return np.fmax(highest, np.fmax(ends[:-1], ends[1:]))


def _common_field(kind: str, right: Gaps) -> tuple[str, float]:
    """Return the field that two laws have in common, and the unit that makes it dimensionless."""
    return ("g", right.scale) if kind == "additive" else ("y", 1.0)


class Margins(NamedTuple):
    """How far a pair of laws is from a gap at points of its real curve."""

    slope: Floats  # 1 − V_A V_B, of the sign of dz/dz_A
    left_z: Floats
    left: Floats  # concave in left_z: V_A⁻¹ᐟ², in a product times √|z_A|
    right_z: Floats
    right: Floats


class _PairCurve:
    """The real curve of a pair of laws, over the parameter of the left one.

    Its branch k joins the branch `branch[k]` of the left law with the gap `partner[k]` of the
    right one.
    """

    def __init__(self, kind: str, left: Gaps, right: Gaps, branch: Rows, partner: Rows) -> None:
        self.kind, self.left, self.right = kind, left, right
        self.branch, self.partner = branch, partner
        self.field, self.unit = _common_field(kind, right)
        logits = (right.ends[:1] + np.diff(right.ends, axis=0) * _TABLE[:, None]).T
        self._logits = np.where(np.abs(logits) < 1e-6, 1e-6, logits)  # at 0 may be infinity
        rows = np.repeat(np.arange(len(right.low)), len(_TABLE))
        self._values = self._scaled(self._logits.ravel(), rows).reshape(self._logits.shape)

    def __call__(self, u: Places, branch: Rows) -> Point:
        """Return the point of the pair, written for the law that is farther out."""
        with np.errstate(all="ignore"):
            a = self.left.curve(u, self.branch[branch])
            b = self._right_point(getattr(a, self.field), self.partner[branch])
            rate = getattr(a, f"d{self.field}") / getattr(b, f"d{self.field}")
            b = b._replace(dz=b.dz * rate, dg=b.dg * rate, dy=b.dy * rate)
            near, far = join(self.kind, a, b)[0], join(self.kind, b, a)[0]
            swap = np.abs(a.z) * self.right.scale > np.abs(b.z) * self.left.scale
            point = Point(*(np.where(swap, f, m) for f, m in zip(far, near, strict=True)))
            (v, _), (w, _) = self._noise(a), self._noise(b)
            rise = a.dz * (1 - v * w) / (1 + w)  # docs/theory/laws.md, "Edges": no cancellation
            return point._replace(dz=rise if self.kind == "additive" else rise * point.z / a.z)

    def margins(self, u: Places, branch: Rows) -> Margins:
        """Return the slope 1 − V_A V_B, and what bounds it between two nodes."""
        with np.errstate(all="ignore"):
            a = self.left.curve(u, self.branch[branch])
            b = self._right_point(getattr(a, self.field), self.partner[branch])
            (v, left), (w, right) = self._noise(a), self._noise(b)
            return Margins(1 - v * w, a.z, left, b.z, right)

    def _noise(self, point: Point) -> tuple[Floats, Floats]:
        """Return V of one of the laws, and the root that is concave as a function of its z.

        With q = y/G, V = −dq/dz in a sum and −d log q/d log z in a product.
        """
        z, g, y, dz, dg, dy = point
        q = y / g
        is_sum = self.kind == "additive"
        far = (q * dg - dy) / (g * dz) * (1.0 if is_sum else z / q)  # −dq/dz, −d log q/d log z
        next_to = -dg / (g * g * dz) if is_sum else -z * dy / (y * (1 + y) * dz)  # that and one
        # Both are differences, the first of large numbers next to an atom, the second far out.
        lost = np.abs(q * dg / (q * dg - dy)), (np.abs(next_to) + 1) / np.abs(next_to - 1)
        v = np.where(lost[1] < lost[0], next_to - 1, far)
        return v, 1 / np.sqrt(v) if is_sum else np.sqrt(np.abs(z / v))

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
        w = polished(right, right.place(logit, rows), rows, self.field, wanted)
        return right.curve(w, right.branch[rows])

    def _scaled(self, logit: Floats, rows: Rows) -> Floats:
        """Return the common field of the right law at these logits in these gaps, squeezed."""
        return squeeze(getattr(self.right.at(logit, rows), self.field) * self.unit)
