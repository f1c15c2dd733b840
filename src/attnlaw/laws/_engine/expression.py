"""Laws as expressions: a base, then free additions and multiplications, in one normal form.

Every law is a base (point masses, or a pair of laws that only subordination can join) followed
by stages: free additions of laws with a rational R-transform and free multiplications by laws
with a rational S-transform (docs/theory/laws.md, "One parameter for each set of point masses").
Scales need no stage, since s(A ⊞ B) = sA ⊞ sB and s(A ⊠ B) = sA ⊠ B, so they are moved to the
base.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from attnlaw._checks import LARGEST, Floats, frozen, invalid_argument, refuse_masked

_SUM, _PRODUCT, _ATOM = range(3)  # how tightly the outermost operation binds


class Addition(NamedTuple):
    """Free addition of a law with R(g) = shift + variance g + Σ sᵢ/(1 − cᵢ sᵢ g)."""

    shift: float = 0.0
    variance: float = 0.0  # of the semicircle
    parts: tuple[tuple[float, float], ...] = ()  # (scale sᵢ, ratio cᵢ) of Marchenko–Pastur laws


class Multiplication(NamedTuple):
    """Free multiplication by Marchenko–Pastur laws: 1/S(y) = Π (1 + cᵢ y)."""

    ratios: tuple[float, ...] = ()


Stage = Addition | Multiplication


@dataclass(frozen=True, eq=False)
class PointMasses:
    """Finitely many atoms tⱼ, increasing, with positive weights hⱼ that sum to one."""

    locations: Floats
    weights: Floats

    @staticmethod
    def at(location: float) -> "PointMasses":
        """Return the point mass at one location."""
        return PointMasses(frozen(np.array([float(location)])), frozen(np.ones(1)))

    @staticmethod
    def of(locations: Floats, weights: Floats) -> "PointMasses":
        """Return atoms in any order, with weights ≥ 0 of any sum; equal ones are joined."""
        kept = weights > 0
        t, where = np.unique(locations[kept], return_inverse=True)
        return PointMasses(frozen(t), frozen(np.bincount(where, weights[kept]) / weights.sum()))

    def map(self, scale: float, shift: float) -> "PointMasses":
        """Return the law of scale x + shift."""
        locations, weights = scale * self.locations + shift, self.weights
        if scale < 0:
            locations, weights = locations[::-1], weights[::-1]
        return PointMasses(frozen(locations), frozen(weights))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, PointMasses)
            and np.array_equal(self.locations, other.locations)
            and np.array_equal(self.weights, other.weights)
        )

    def __hash__(self) -> int:
        return hash((self.locations.tobytes(), self.weights.tobytes()))


@dataclass(frozen=True)
class Pair:
    """A ⊞ B or A ⊠ B by subordination; in A ⊠ B the right law is non-negative."""

    left: "Expression"
    right: "Expression"
    kind: Literal["additive", "multiplicative"]


@dataclass(frozen=True)
class Expression:
    """A base followed by stages, in normal form when made by `chain`."""

    base: PointMasses | Pair
    stages: tuple[Stage, ...] = ()

    @cached_property
    def n_leaves(self) -> int:
        """Number of sets of point masses, each with its own complex parameter."""
        if isinstance(self.base, Pair):
            return self.base.left.n_leaves + self.base.right.n_leaves
        return 1

    @cached_property
    def n_atoms(self) -> int:
        """Number of point masses over all leaves: the cost of one evaluation."""
        if isinstance(self.base, Pair):
            return self.base.left.n_atoms + self.base.right.n_atoms
        return len(self.base.locations)

    @cached_property
    def bound(self) -> float:
        """A radius that contains the support: |A ⊞ B| ≤ |A| + |B|, |A ⊠ B| ≤ |A| |B|."""
        if isinstance(self.base, Pair):
            left, right = self.base.left.bound, self.base.right.bound
            radius = left + right if self.base.kind == "additive" else left * right
        else:
            radius = float(np.abs(self.base.locations).max())
        for stage in self.stages:
            if isinstance(stage, Addition):
                radius += abs(stage.shift) + 2 * stage.variance**0.5
                radius += sum(abs(s) * (1 + c**0.5) ** 2 for s, c in stage.parts)
            else:
                for c in stage.ratios:
                    radius *= (1 + c**0.5) ** 2
        return radius

    @cached_property
    def is_positive(self) -> bool:
        """Whether the law is non-negative by construction; others need their support."""
        if isinstance(self.base, Pair):
            positive = self.base.left.is_positive and self.base.right.is_positive
        else:
            positive = bool(self.base.locations[0] >= 0)
        return positive and all(
            stage.shift >= 0 and not stage.variance and all(s > 0 for s, _ in stage.parts)
            for stage in self.stages
            if isinstance(stage, Addition)
        )

    @property
    def point(self) -> float | None:
        """The location, when the base is a single point mass."""
        if isinstance(self.base, PointMasses) and len(self.base.locations) == 1:
            return float(self.base.locations[0])
        return None

    @property
    def trailing(self) -> Stage | None:
        """The last stage."""
        return self.stages[-1] if self.stages else None


def chain(base: PointMasses | Pair, *stages: Stage) -> Expression:
    """Return `base` followed by `stages`, in normal form."""
    merged: list[Stage] = []
    for stage in stages:
        last = merged[-1] if merged else None
        if isinstance(last, Addition) and isinstance(stage, Addition):
            merged[-1] = Addition(
                last.shift + stage.shift, last.variance + stage.variance, last.parts + stage.parts
            )
        elif isinstance(last, Multiplication) and isinstance(stage, Multiplication):
            merged[-1] = Multiplication(last.ratios + stage.ratios)
        else:
            merged.append(stage)
    kept: list[Stage] = []
    for stage in map(_tidy, merged):
        if stage != Addition() and stage != Multiplication():
            kept.append(stage)
    if len(kept) < len(stages):
        return chain(base, *kept)
    return _absorb(base, tuple(kept))


def _tidy(stage: Stage) -> Stage:
    """Sort the factors, and drop the trivial ones: MP_0 is the point mass at 1."""
    if isinstance(stage, Multiplication):
        return Multiplication(tuple(sorted((c for c in stage.ratios if c), reverse=True)))
    shift = stage.shift + sum(s for s, c in stage.parts if not c)
    parts = tuple(sorted(((s, c) for s, c in stage.parts if c and s), reverse=True))
    return Addition(shift, stage.variance, parts)


def _absorb(base: PointMasses | Pair, stages: tuple[Stage, ...]) -> Expression:
    """Carry a leading shift into the point masses, and give MP laws one form only."""
    if isinstance(base, Pair) or not stages:
        return Expression(base, stages)
    first, rest = stages[0], stages[1:]
    if isinstance(first, Addition) and first.shift:
        return chain(base.map(1.0, first.shift), first._replace(shift=0.0), *rest)
    if len(base.locations) > 1:
        return Expression(base, stages)
    point = float(base.locations[0])
    if isinstance(first, Multiplication):
        if point == 0:
            return chain(base, *rest)
        if len(first.ratios) == 1 and rest:  # a MP_c ⊞ … = 0 ⊞ a MP_c ⊞ …
            return chain(PointMasses.at(0.0), Addition(parts=((point, first.ratios[0]),)), *rest)
    elif point == 0 and not first.variance and len(first.parts) == 1:
        ((scale, ratio),) = first.parts
        return chain(PointMasses.at(scale), Multiplication((ratio,)), *rest)
    return Expression(base, stages)


def scaled(law: Expression, scale: float) -> Expression:
    """Return the law of `scale` times x."""
    if scale == 0:
        return Expression(PointMasses.at(0.0))
    if isinstance(law.base, Pair):
        left, right = law.base.left, law.base.right
        both = law.base.kind == "additive"
        base: PointMasses | Pair = Pair(
            scaled(left, scale), scaled(right, scale) if both else right, law.base.kind
        )
    else:
        base = law.base.map(scale, 0.0)
    stages = [
        Addition(
            scale * stage.shift,
            scale**2 * stage.variance,
            tuple((scale * s, c) for s, c in stage.parts),
        )
        if isinstance(stage, Addition)
        else stage
        for stage in law.stages
    ]
    return chain(base, *stages)


def additive_convolution(left: Expression, right: Expression) -> Expression:
    """Return left ⊞ right; a pair only when neither has a rational R-transform."""
    tails: list[Stage] = []
    cores: list[Expression] = []
    for law in (left, right):
        rational = _rational_r(law)
        if rational is not None:
            tails.append(rational)
            continue
        core = law
        if isinstance(law.trailing, Addition):
            tails.append(law.trailing)
            core = Expression(law.base, law.stages[:-1])
        cores.append(core)
    if len(cores) == 2:
        if isinstance(cores[1].base, Pair):  # a pair inside a pair is found faster on the left
            cores.reverse()
        return chain(Pair(cores[0], cores[1], "additive"), *tails)
    core = cores[0] if cores else Expression(PointMasses.at(0.0))
    return chain(core.base, *core.stages, *tails)


def _rational_r(law: Expression) -> Addition | None:
    """Return the law as an addition to the point mass at 0, when it is one."""
    if law.point is None or len(law.stages) > 1:
        return None
    if not law.stages:
        return Addition(shift=law.point)
    (stage,) = law.stages
    if isinstance(stage, Addition):
        return stage._replace(shift=stage.shift + law.point)
    return Addition(parts=((law.point, stage.ratios[0]),)) if len(stage.ratios) == 1 else None


def multiplicative_convolution(left: Expression, right: Expression) -> Expression:
    """Return left ⊠ right, where the right law is non-negative."""
    ratios: tuple[float, ...] = ()
    scale = 1.0
    cores: list[Expression] = []
    for law in (left, right):
        core = law
        if isinstance(law.trailing, Multiplication):
            ratios += law.trailing.ratios
            core = Expression(law.base, law.stages[:-1])
        if core.point is not None and not core.stages:
            scale *= core.point
        else:
            cores.append(core)
    if scale == 0:
        return Expression(PointMasses.at(0.0))
    if len(cores) == 2:
        return chain(
            Pair(scaled(cores[0], scale), cores[1], "multiplicative"), Multiplication(ratios)
        )
    core = scaled(cores[0], scale) if cores else Expression(PointMasses.at(scale))
    return chain(core.base, *core.stages, Multiplication(ratios))


def describe(law: Expression) -> str:
    """Return the Python expression that makes a law (many atoms are summarised)."""
    return _write(law)[0]


def number(value: float) -> str:
    """Write a number without a needless fraction."""
    return repr(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def _write(law: Expression) -> tuple[str, int]:
    stages = law.stages
    if not isinstance(law.base, PointMasses):
        sign = " + " if law.base.kind == "additive" else " @ "
        level = _SUM if law.base.kind == "additive" else _PRODUCT
        right = _PRODUCT if law.base.kind == "additive" else _ATOM
        text = _wrap(*_write(law.base.left), level) + sign
        text += _wrap(*_write(law.base.right), right)
    elif law.point is None:
        text, level = _masses(law.base), _ATOM
    elif not stages:
        return f"Discrete([{number(law.point)}])", _ATOM
    elif isinstance(stages[0], Addition):
        terms = _terms(stages[0]._replace(shift=law.point))
        text, level = " + ".join(terms), _SUM if len(terms) > 1 else _PRODUCT
        stages = stages[1:]
    else:
        text = " @ ".join(f"MarchenkoPastur({number(c)})" for c in stages[0].ratios)
        level = _PRODUCT if len(stages[0].ratios) > 1 else _ATOM
        if law.point != 1:
            text, level = f"{number(law.point)} * {_wrap(text, level, _ATOM)}", _PRODUCT
        stages = stages[1:]
    for stage in stages:
        if isinstance(stage, Addition):
            text = " + ".join([_wrap(text, level, _SUM), *_terms(stage)])
            level = _SUM
        else:
            factors = (f"MarchenkoPastur({number(c)})" for c in stage.ratios)
            text, level = " @ ".join([_wrap(text, level, _PRODUCT), *factors]), _PRODUCT
    return text, level


def _wrap(text: str, level: int, wanted: int) -> str:
    return text if level >= wanted else f"({text})"


def _terms(stage: Addition) -> list[str]:
    terms = [f"Semicircle({number(stage.variance)})"] if stage.variance else []
    for s, c in stage.parts:
        factor = "" if s == 1 else f"{number(s)} * "
        terms.append(f"{factor}MarchenkoPastur({number(c)})")
    return [*terms, number(stage.shift)] if stage.shift else terms


def _masses(masses: PointMasses) -> str:
    t, h = masses.locations, masses.weights
    if len(t) > 8:
        return f"Discrete(<{len(t)} atoms from {t[0]:.6g} to {t[-1]:.6g}>)"
    atoms = ", ".join(map(number, t))
    if (h == h[0]).all():
        return f"Discrete([{atoms}])"
    return f"Discrete([{atoms}], [{', '.join(map(number, h))}])"


SMALLEST = 1e-100
"""Smallest scale of a law: cubes of its numbers do not vanish."""


def plain_number(name: str, value: Any) -> float | None:
    """Return a real scalar as a checked float, or None for anything else."""
    if np.ndim(value) or not np.isrealobj(value) or isinstance(value, str | bytes | None):
        return None
    refuse_masked(name, value)
    try:
        number = float(value)
    except OverflowError:
        raise invalid_argument(name, "finite", value) from None
    except (TypeError, ValueError):
        return None
    if not np.isfinite(number):
        raise invalid_argument(name, "finite", number)
    if abs(number) > LARGEST:
        raise invalid_argument(name, f"at most {LARGEST:g} in size", number)
    if name == "scale" and 0 < abs(number) < SMALLEST:
        raise invalid_argument(name, f"at least {SMALLEST:g} in size", number)
    return number
