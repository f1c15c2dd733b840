"""The atoms of a law, by the rules of free convolution.

A sum has an atom of mass p + q − 1 at a + b for atoms (a, p), (b, q) with p + q > 1; a product
has one at ab by the same rule when ab ≠ 0, and the larger of the two masses at 0
(Bercovici & Voiculescu 1998; Belinschi 2003).
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from attnlaw.laws.expression import Addition, Expression, PointMasses

Atoms = dict[float, float]  # location to mass
_ROUNDING = 1e-14


def atoms(law: Expression) -> Atoms:
    """Return the locations and masses of all atoms, in increasing order."""
    if isinstance(law.base, PointMasses):
        found = dict(zip(law.base.locations.tolist(), law.base.weights.tolist(), strict=True))
    else:
        a, b = atoms(law.base.left), atoms(law.base.right)
        if law.base.kind == "sum":
            found = _sum(a, b)
        else:
            found = {x * v: p + q - 1 for x, p, v, q in _heavy(a, b) if x * v != 0}
            zero = max(a.get(0.0, 0.0), b.get(0.0, 0.0))
            if zero > 0:
                found[0.0] = zero
    for stage in law.stages:
        if not isinstance(stage, Addition):
            zero = max([found.get(0.0, 0.0), *(1 - 1 / c for c in stage.ratios)])
            found = {0.0: zero} if zero > 0 else {}
            continue
        if stage.variance:
            found = {}
        for _, c in stage.parts:
            found = _sum(found, {0.0: 1 - 1 / c}) if c > 1 else {}
        found = {x + stage.shift: p for x, p in found.items()}
    return dict(sorted(found.items()))


def _sum(a: Atoms, b: Atoms) -> Atoms:
    return {x + v: p + q - 1 for x, p, v, q in _heavy(a, b)}


def _heavy(a: Atoms, b: Atoms) -> Iterator[tuple[float, float, float, float]]:
    """Yield the pairs of atoms whose masses exceed one together (by more than rounding)."""
    heaviest = max(b.values(), default=0.0)
    for x, p in a.items():
        if p + heaviest > 1 + _ROUNDING:
            yield from ((x, p, v, q) for v, q in b.items() if p + q > 1 + _ROUNDING)


def atom_at_zero(law: Expression) -> float:
    """Return the mass at 0."""
    return atoms(law).get(0.0, 0.0)


def atom_arrays(law: Expression) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return locations and masses as arrays."""
    found = atoms(law)
    return np.array(list(found.keys()), dtype=float), np.array(list(found.values()), dtype=float)
