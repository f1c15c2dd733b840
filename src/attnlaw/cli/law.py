"""What models are made of: a limiting spectrum in numbers (`attnlaw law`), weights compared."""

import ast
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

import attnlaw as al
from attnlaw.cli.options import (
    WEIGHTS,
    correlation_from,
    correlation_options,
    csv_option,
    json_option,
    numbers,
    plot_option,
    pooling_weights,
)
from attnlaw.cli.output import print_csv, print_json, print_table, save_axes
from attnlaw.cli.program import say
from attnlaw.laws import Discrete, Law, MarchenkoPastur, Semicircle

__all__ = ["command", "parse_law", "weights"]

EPILOG = """\b
Examples:
  attnlaw law --mp 0.5 --mp 0.4 --scale 0.05
  attnlaw law --atoms 1,10 --mp 0.05 --json
  attnlaw law "MP(0.5) @ MP(0.4)" --plot law.png
  attnlaw law "Discrete([1, 3]) @ MP(0.1) + 0.5 * SC() + 2"
"""

NAMES: dict[str, Callable[..., Law]] = {
    "Discrete": Discrete,
    "MP": MarchenkoPastur,
    "MarchenkoPastur": MarchenkoPastur,
    "SC": Semicircle,
    "Semicircle": Semicircle,
}


@click.command(epilog=EPILOG)
@click.argument("expression", required=False)
@click.option(
    "--mp", "ratios", type=float, multiple=True, help="A factor Marchenko–Pastur(ratio)."
)
@click.option(
    "--atoms", metavar="NUMBERS", help="A factor of point masses: 1,10,… or a .npy file."
)
@click.option("--masses", metavar="NUMBERS", help="Their masses.  [default: all alike]")
@click.option("--semicircle", type=float, help="Add (freely) a semicircle of this variance.")
@click.option("--scale", type=float, default=1.0, show_default=True, help="Multiply by a number.")
@click.option("--shift", type=float, default=0.0, show_default=True, help="Then add a number.")
@click.option("--at", metavar="NUMBERS", help="Density and cdf at these points as well.")
@click.option(
    "--points",
    type=click.IntRange(1, 100_000),
    default=9,
    show_default=True,
    help="Number of quantiles.",
)
@plot_option("Draw the density to FILE.")
@csv_option
@json_option
def command(
    expression: str | None,
    scale: float,
    shift: float,
    at: str | None,
    points: int,
    plot: Path | None,
    as_csv: bool,
    as_json: bool,
    **parts: Any,
) -> None:
    """Describe a limiting spectrum: edges, atoms, moments, quantiles, density.

    The law is an EXPRESSION of MP(ratio), SC(variance) and Discrete(atoms, weights) with the
    free multiplicative convolution @, the free additive convolution +, and numbers to scale and
    shift; or it is put together from options: scale · (atoms @ MP @ … + semicircle) + shift.
    """
    if expression is not None and any(parts.values()):
        raise click.UsageError("a law is given by an EXPRESSION or by options, not by both.")
    law = _law_from(**parts) if expression is None else parse_law(expression)
    law = law if scale == 1 else scale * law
    law = law if shift == 0 else law + shift
    q = (np.arange(points) + 1) / (points + 1)
    x = np.asarray(law.quantile(q))
    table = {"q": q, "quantile": x, "density": np.asarray(law.density(x))}
    document: dict[str, Any] = {
        "law": repr(law),
        "support": law.support,
        "edges": law.edges,
        "atom": law.atom._asdict(),
        "moments": [law.moment(k) for k in range(1, 5)],
        "quantiles": table,
    }
    if at is not None:
        where = numbers("at", at)
        document["at"] = {"x": where, "density": law.density(where), "cdf": law.cdf(where)}
    if plot is not None:
        from attnlaw.plotting import plot_law

        save_axes(plot, plot_law(law))
    if as_json:
        print_json(document)
        return
    if as_csv:
        chosen = document.get("at", table)
        print_csv(
            dict(zip(chosen, row, strict=True)) for row in zip(*chosen.values(), strict=True)
        )
        return
    say(document["law"])
    facts = [("support", f"[{a:.10g}, {b:.10g}]") for a, b in law.support]
    facts += [
        ("atom", f"{mass:.6g} at {place:.6g}") for place, mass in zip(*law.atom, strict=True)
    ][:20]
    facts += [(f"moment {k}", f"{m:.10g}") for k, m in enumerate(document["moments"], start=1)]
    print_table(["law", ""], facts)
    print_table(list(table), zip(*table.values(), strict=True))
    if "at" in document:
        print_table(list(document["at"]), zip(*document["at"].values(), strict=True))


def _law_from(
    *,
    ratios: tuple[float, ...],
    atoms: str | None,
    masses: str | None,
    semicircle: float | None,
) -> Law:
    factors: list[Law] = []
    if atoms is not None:
        weights = None if masses is None else numbers("masses", masses)
        factors.append(Discrete(numbers("atoms", atoms), weights))
    factors += [MarchenkoPastur(ratio) for ratio in ratios]
    law: Law | None = None
    for factor in factors:
        law = factor if law is None else law @ factor
    if semicircle is not None:
        law = Semicircle(semicircle) if law is None else law + Semicircle(semicircle)
    if law is None:
        raise click.UsageError("a law needs an EXPRESSION, --mp, --atoms or --semicircle.")
    return law


def parse_law(text: str) -> Law:
    """Return the law that an expression describes; nothing but laws and numbers is understood.

    Examples
    --------
    >>> parse_law("0.05 * (MP(0.5) @ MP(0.4))")
    0.05 * (MarchenkoPastur(0.5) @ MarchenkoPastur(0.4))
    """
    if len(text) > 10_000:
        raise ValueError("expression must be at most 10000 characters long.")
    try:
        law = _evaluate(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError):
        law = None
    except ArithmeticError as error:
        raise ValueError(f"expression must have finite numbers, got {error}.") from None
    except ValueError as error:  # about an argument of a law, which is no option here
        raise ValueError(f"in {text[:60]!r}, {error}") from None
    if not isinstance(law, Law):
        raise ValueError(
            "expression must be made of MP(ratio), SC(variance), Discrete(atoms), @, +, -, *, / "
            f"and numbers, got {text[:60]!r}."
        )
    return law


def _evaluate(node: ast.expr) -> Any:
    """Evaluate by the few kinds of nodes that laws need; anything else is a SyntaxError."""
    match node:
        case ast.Constant(value=bool() | str() | bytes() | complex()):
            raise SyntaxError
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_evaluate(item) for item in items]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_operand(operand)
        case ast.BinOp(left=left, op=op, right=right):
            return _combine(op, _operand(left), _operand(right))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in NAMES:
            return _call(NAMES[name], [_evaluate(argument) for argument in arguments])
    raise SyntaxError


def _call(law: Callable[..., Law], arguments: list[Any]) -> Law:
    try:
        return law(*arguments)
    except TypeError:  # too many arguments, or too few
        raise SyntaxError from None


def _operand(node: ast.expr) -> Any:
    value = _evaluate(node)
    if isinstance(value, list):
        raise SyntaxError
    return value


def _combine(op: ast.operator, left: Any, right: Any) -> Any:
    try:
        match op:
            case ast.MatMult():
                return left @ right
            case ast.Add():
                return left + right
            case ast.Sub():
                return left - right
            case ast.Mult():
                return left * right
            case ast.Div():
                return left / right
    except TypeError:  # a product of two laws by *, a number by @
        raise SyntaxError from None
    raise SyntaxError


WEIGHTS_EPILOG = """\b
Examples:
  attnlaw weights --length 12 --prefix 4
  attnlaw weights --spiked 3 --direction 1,-1,1,-1 --weights mean,direction
  attnlaw weights --length 30 --plot weights.png
"""

GAINS = ("signal_gain", "noise_gain", "snr", "effective_length")


@click.command(epilog=WEIGHTS_EPILOG)
@click.option(
    "--weights",
    "chosen",
    metavar="NAMES",
    default="mean,causal,last,optimal",
    show_default=True,
    help=f"Which, separated by commas: {', '.join(WEIGHTS)}; or one list of numbers or .npy file.",
)
@correlation_options
@plot_option("Draw the weights to FILE.")
@csv_option
@json_option
def weights(
    chosen: str, plot: Path | None, as_csv: bool, as_json: bool, **correlation: Any
) -> None:
    """Compare pooling weights on a positional correlation.

    The signal enters the pooled covariance with weight wᵀRw (signal_gain), the noise with wᵀw
    (noise_gain); only their ratio (snr) matters for what is recovered.
    """
    several = _several(chosen)
    first = next(iter(several.values()))
    model = al.PooledSequences(
        vocab_ratio=0.0,
        sample_ratio=0.0,
        signal_norm=0.0,
        correlation=correlation_from(**correlation, weights=first),
        weights=first,
    )
    pooled = {name: replace(model, weights=w) for name, w in several.items()}
    if plot is not None:
        from attnlaw.plotting import plot_weights

        save_axes(plot, plot_weights({name: m.weights for name, m in pooled.items()}))
    if as_json:
        print_json(
            {
                name: {"weights": m.weights} | {gain: getattr(m, gain) for gain in GAINS}
                for name, m in pooled.items()
            }
        )
        return
    columns = np.stack([m.weights for m in pooled.values()], axis=1)
    if as_csv:
        rows = enumerate(columns.tolist(), start=1)
        print_csv({"position": n, **dict(zip(pooled, row, strict=True))} for n, row in rows)
        return
    print_table(
        ["", *pooled], [[gain, *(getattr(m, gain) for m in pooled.values())] for gain in GAINS]
    )
    print_table(
        ["position", *pooled],
        [[str(position), *row] for position, row in enumerate(columns, start=1)],
    )


def _several(text: str) -> dict[str, Any]:
    """Return the weights of several names, or one list of numbers."""
    names = text.split(",")
    if all(_is_number(name) for name in names) or text.endswith(".npy"):
        return {"given": numbers("weights", text)}
    return {name: pooling_weights(name) for name in names}


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
