"""How a law is written: the Python expression that makes it."""

from attnlaw.laws._engine.expression import Addition, Expression, PointMasses

_SUM, _PRODUCT, _ATOM = range(3)  # how tightly the outermost operation binds


def describe(law: Expression) -> str:
    """Return the law as Python writes it (many atoms are summarised)."""
    return _write(law)[0]


def number(value: float) -> str:
    """Write a number without a needless fraction."""
    return repr(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def _write(law: Expression) -> tuple[str, int]:
    stages = law.stages
    if not isinstance(law.base, PointMasses):
        sign = " + " if law.base.kind == "sum" else " @ "
        level = _SUM if law.base.kind == "sum" else _PRODUCT
        right = _PRODUCT if law.base.kind == "sum" else _ATOM
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
