"""From expressions to laws: the kind of law that knows the closed form, where there is one."""

from attnlaw.laws._engine import expression as ex
from attnlaw.laws._engine.expression import Addition, Expression
from attnlaw.laws._engine.free import FreeLaw
from attnlaw.laws.classical import Discrete, MarchenkoPastur, Semicircle, WishartProduct
from attnlaw.laws.law import Law

__all__ = ["law_of", "product"]


def law_of(expression: Expression) -> FreeLaw:
    """Return the law of an expression in normal form."""
    kind = _kind(expression)
    law = kind.__new__(kind)
    FreeLaw.__init__(law, expression)
    return law


def _kind(expression: Expression) -> type[FreeLaw]:
    """Return the kind of law that knows an expression best."""
    if not expression.stages and not isinstance(expression.base, ex.Pair):
        return Discrete
    if expression.point is None or len(expression.stages) > 1:
        return FreeLaw
    (stage,) = expression.stages
    if isinstance(stage, Addition):
        return FreeLaw if stage.parts else Semicircle
    closed_forms: dict[int, type[FreeLaw]] = {1: MarchenkoPastur, 2: WishartProduct}
    return closed_forms.get(len(stage.ratios), FreeLaw)


def product(left: Law, right: Law) -> Law:
    """Return the free multiplicative convolution of two laws, one of which has only one sign."""
    for a, b in ((left, right), (right, left)):
        low, high = reach(b)
        rounding = 1e-12 * b._expression.bound
        if b._expression.is_positive or low >= -rounding:
            return law_of(ex.multiplicative_convolution(a._expression, b._expression))
        if high <= rounding:
            flipped = ex.multiplicative_convolution(a._expression, ex.scaled(b._expression, -1.0))
            return law_of(ex.scaled(flipped, -1.0))
    raise ValueError(
        "one factor of a free multiplicative convolution must be non-negative or non-positive, "
        "got "
        f"{left!r} on [{reach(left)[0]:.6g}, {reach(left)[1]:.6g}] and "
        f"{right!r} on [{reach(right)[0]:.6g}, {reach(right)[1]:.6g}]."
    )


def reach(law: Law) -> tuple[float, float]:
    """Smallest and largest point of the support, atoms included."""
    points = [*law.edges[:1], *law.edges[-1:], *law.atom.location[:1], *law.atom.location[-1:]]
    return float(min(points)), float(max(points))
