"""Options that several commands share, and the models that they describe."""

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any, Literal, TypeVar

import click
import numpy as np
from numpy.typing import NDArray

import attnlaw as al
from attnlaw.correlations import check_correlation
from attnlaw.theory import first_order_smoothing

__all__ = [
    "DIMENSION",
    "WEIGHTS",
    "correlation_from",
    "correlation_options",
    "json_option",
    "model_from",
    "model_options",
    "numbers",
]

Command = TypeVar("Command", bound=Callable[..., Any])
Array = NDArray[np.float64]

DIMENSION = click.IntRange(2, 2**40)

WEIGHTS = al.weights.NAMES

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document in place of tables."
)


def _together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


vocabulary_options = _together(
    click.option(
        "--zipf",
        type=float,
        metavar="EXPONENT",
        help="Token frequencies (v + 2.7)^-EXPONENT; about 1 in text.  [default: all alike]",
    ),
    click.option(
        "--importance",
        type=click.Choice(["uniform", "sif", "idf", "inverse"]),
        default="uniform",
        show_default=True,
        help="Token weights: 1, smooth inverse frequency a/(a + p), log 1/p, 1/p.",
    ),
    click.option(
        "--smoothing", type=float, metavar="A", help="a of sif.  [default: κ/(αN), the best]"
    ),
    click.option(
        "--vocab-size",
        type=click.IntRange(2, 10**8),
        metavar="V",
        help="Tokens under --zipf; the dimension is δV.  [default: 10000]",
    ),
)

correlation_options = _together(
    click.option(
        "--length", type=int, help="Sequence length L.  [default: 20, or what other options say]"
    ),
    click.option(
        "--prefix", type=int, help="The first so many positions share a sign.  [default: 5]"
    ),
    click.option(
        "--within",
        type=float,
        default=1.0,
        show_default=True,
        help="Correlation inside the prefix.",
    ),
    click.option(
        "--autoregressive", type=float, metavar="A", help="Correlation A^distance instead."
    ),
    click.option(
        "--spiked",
        type=float,
        metavar="ETA",
        help="Correlation I + ETA q qᵀ, rescaled, instead; q is the --direction.",
    ),
    click.option("--direction", metavar="NUMBERS", help="q: 1,-1,1,… or a .npy file."),
    click.option("--correlation", metavar="FILE", help="Any correlation matrix: a .npy file."),
)

model_options = _together(
    click.option(
        "--vocab-ratio",
        type=float,
        default=0.5,
        show_default=True,
        help="δ = d/V, dimension over vocabulary; 0 is an infinite vocabulary.",
    ),
    click.option(
        "--sample-ratio",
        type=float,
        default=0.4,
        show_default=True,
        help="γ = d/N, dimension over samples.",
    ),
    click.option(
        "--signal-norm",
        metavar="NUMBERS",
        default="1.5",
        show_default=True,
        help="‖μ‖; several are separated by commas.",
    ),
    click.option(
        "--weights",
        metavar="WEIGHTS",
        default="causal",
        show_default=True,
        help=f"{', '.join(WEIGHTS)}; or numbers 0.5,0.3,…; or a .npy file.",
    ),
    click.option(
        "--sampling",
        type=click.Choice(["token", "gaussian"]),
        default="token",
        show_default=True,
        help="Tokens of a fixed table, or the papers' idealisation.",
    ),
    click.option(
        "--centred/--not-centred", default=True, show_default=True, help="Subtract the mean."
    ),
    vocabulary_options,
    correlation_options,
)


def model_from(
    *,
    vocab_ratio: float,
    sample_ratio: float,
    signal_norm: str,
    weights: str,
    sampling: Literal["token", "gaussian"],
    centred: bool,
    zipf: float | None,
    importance: str,
    smoothing: float | None,
    vocab_size: int | None,
    **correlation: Any,
) -> al.PooledSequences:
    """Return the model that `model_options` describe."""
    given = None if weights in WEIGHTS else numbers("weights", weights)
    R = correlation_from(**correlation, other_length=None if given is None else len(given))
    norms = numbers("signal_norm", signal_norm)
    model = al.PooledSequences(
        vocab_ratio=vocab_ratio,
        sample_ratio=sample_ratio,
        signal_norm=norms if len(norms) > 1 else float(norms[0]),
        correlation=R,
        weights=weights if given is None else given,
        sampling=sampling,
        centred=centred,
    )
    if zipf is None:
        if importance != "uniform" or smoothing is not None or vocab_size is not None:
            raise click.UsageError("--importance, --smoothing and --vocab-size belong to --zipf.")
        return model
    if smoothing is not None and importance != "sif":
        raise click.UsageError("--smoothing belongs to --importance sif.")
    words = al.Vocabulary.zipf(10_000 if vocab_size is None else vocab_size, zipf)
    model = replace(model, vocabulary=words)
    if importance == "sif":
        a = first_order_smoothing(model) if smoothing is None else smoothing
        return replace(model, vocabulary=words.with_importance("sif", a=a))
    return replace(model, vocabulary=words.with_importance(importance))


def correlation_from(
    *,
    length: int | None,
    prefix: int | None,
    within: float,
    autoregressive: float | None,
    spiked: float | None,
    direction: str | None,
    correlation: str | None,
    other_length: int | None = None,
) -> Array:
    """Return the matrix that `correlation_options` describe.

    Without a length given, it is `other_length` (that of weights given as numbers), or 20.
    """
    kinds = {
        "--prefix": prefix,
        "--autoregressive": autoregressive,
        "--spiked": spiked,
        "--correlation": correlation,
    }
    chosen = [name for name, value in kinds.items() if value is not None]
    if len(chosen) > 1:
        raise click.UsageError(f"{' and '.join(chosen)} exclude each other; give one of them.")
    if (spiked is None) != (direction is None):
        raise click.UsageError("--spiked and --direction belong together; give both or neither.")
    if correlation is not None:
        return check_correlation(numbers("correlation", correlation, ndim=2))
    if spiked is not None and direction is not None:
        return al.spiked_correlation(spiked, numbers("direction", direction))
    L = next(n for n in (length, other_length, 20) if n is not None)
    if autoregressive is not None:
        return al.autoregressive_correlation(L, autoregressive)
    return al.prefix_correlation(L, min(5, L) if prefix is None else prefix, within)


def numbers(name: str, text: str, ndim: int = 1) -> Array:
    """Return numbers separated by commas, or those of a file if the text ends like one."""
    if text.lower().endswith((".npy", ".npz", ".safetensors")):
        from attnlaw.diagnostics import read_array

        return np.asarray(read_array(text, ndim=ndim), dtype=np.float64)
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if ndim != 1 or not values:
        form = "a .npy file" if ndim != 1 else "numbers separated by commas, or a .npy file"
        raise ValueError(f"{name} must be {form}, got {text!r}.")
    return np.array(values)
