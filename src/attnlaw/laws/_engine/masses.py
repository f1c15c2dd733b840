"""The atoms of a law, by the rules of free convolution.

A sum has an atom of mass p + q − 1 at a + b for atoms (a, p), (b, q) with p + q > 1; a product
has one at ab by the same rule when ab ≠ 0, and the larger of the two masses at 0
(Bercovici & Voiculescu 1998; Belinschi 2003).
"""

from collections.abc import Iterator

from attnlaw.laws._engine.expression import Addition, Expression, PointMasses

Atoms = dict[float, float]  # location to mass
_ROUNDING = 1e-14


def atoms(law: Expression, above: float = _ROUNDING) -> Atoms:
    """Return the locations and masses of all atoms, in increasing order.

    Only masses `above` rounding error count. A slightly negative number finds also the places
    where p + q = 1: no atom, but an edge at which the density is infinite.
    """
    if isinstance(law.base, PointMasses):
        found = dict(zip(law.base.locations.tolist(), law.base.weights.tolist(), strict=True))
    else:
        a, b = atoms(law.base.left, above), atoms(law.base.right, above)
        if law.base.kind == "sum":
            found = _sum(a, b, above)
        else:
            pairs = _heavy(a, b, above)
            found = {x * v: p + q - 1 for x, p, v, q in pairs if x * v != 0}
            found |= _at_zero(max(a.get(0.0, 0.0), b.get(0.0, 0.0)))
    for stage in law.stages:
        if isinstance(stage, Addition):
            if stage.variance:
                found = {}
            for _, c in stage.parts:
                found = _sum(found, _at_zero(1 - 1 / c), above)
            found = {x + stage.shift: p for x, p in found.items()}
        else:
            found = _at_zero(max([found.get(0.0, 0.0), *(1 - 1 / c for c in stage.ratios)]))
    return dict(sorted(found.items()))


def _at_zero(mass: float) -> Atoms:
    return {0.0: mass} if mass > 0 else {}


def _sum(a: Atoms, b: Atoms, above: float) -> Atoms:
    return {x + v: p + q - 1 for x, p, v, q in _heavy(a, b, above)}


def _heavy(a: Atoms, b: Atoms, above: float) -> Iterator[tuple[float, float, float, float]]:
    """Yield the pairs of atoms whose masses exceed one together."""
    heaviest = max(b.values(), default=0.0)
    for x, p in a.items():
        if p + heaviest - 1 > above:
            yield from ((x, p, v, q) for v, q in b.items() if p + q - 1 > above)
