"""Options that several commands share, and the models that they describe."""

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any, Literal, TypeVar

import click
import numpy as np
from click.shell_completion import CompletionItem
from numpy.typing import NDArray

import attnlaw as al
from attnlaw._checks import nearest
from attnlaw.correlations import check_correlation
from attnlaw.theory import first_order_smoothing

__all__ = [
    "DIMENSION",
    "FILE",
    "FOLDER",
    "NUMBERS",
    "WEIGHTS",
    "correlation_from",
    "correlation_options",
    "csv_option",
    "json_option",
    "matrix",
    "model_from",
    "model_options",
    "numbers",
    "plot_option",
    "pooling_weights",
    "ratio_options",
    "sampling_option",
    "signal_option",
    "trial_options",
    "weights_option",
]

Command = TypeVar("Command", bound=Callable[..., Any])
Array = NDArray[np.float64]

DIMENSION = click.IntRange(2, 2**40)

WEIGHTS = al.weights.NAMES


def _one_format(ctx: click.Context, param: click.Parameter, value: bool) -> bool:
    """Refuse --csv beside --json: one of them would be ignored."""
    if value and (ctx.params.get("as_csv") or ctx.params.get("as_json")):
        raise click.UsageError("--csv and --json exclude each other; give one of them.")
    return value


json_option = click.option("--json", "as_json", is_flag=True, callback=_one_format,
                           help="Print one JSON document instead of tables.")  # fmt: skip

csv_option = click.option("--csv", "as_csv", is_flag=True, callback=_one_format,
                          help="Print one CSV table instead.")  # fmt: skip


class NamedPath(click.Path):
    """A path that is not empty: Python takes an empty one, as from $UNSET, for this folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if not str(value).strip():
            self.fail("the path is empty.", param, ctx)
        return super().convert(value, param, ctx)


FILE = NamedPath(path_type=Path)
FOLDER = NamedPath(file_okay=False, path_type=Path)


def plot_option(words: str) -> Callable[[Command], Command]:
    """Return the option for a picture, which these words describe."""
    kind = NamedPath(dir_okay=False, path_type=Path)
    return click.option("--plot", type=kind, metavar="FILE", help=words)


ARRAY_FILES = (".npy", ".npz", ".safetensors")


class Numbers(click.ParamType):  # type: ignore[type-arg]  # of newer clicks
    """A number, several of them separated by commas, or a range such as 0.5:2:16."""

    name = "numbers"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | Array:
        """Return a float for a single number, else an array."""
        if not isinstance(value, str):
            return np.asarray(value) if np.ndim(value) else float(value)
        name = param.opts[0] if param is not None else "the argument"
        values = numbers(name, value)
        return values if len(values) > 1 else float(values[0])


class WeightsName(click.ParamType):  # type: ignore[type-arg]  # of newer clicks
    """Weights as they are typed: a name, which a shell completes, or numbers, or a file."""

    name = "weights"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the names that begin like this."""
        names = al.weights.NAMES.items()
        return [CompletionItem(n, help=words) for n, words in names if n.startswith(incomplete)]


NUMBERS = Numbers()


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
        "--length", type=int, help="Sequence length L.  [default: 20, or as other options imply]"
    ),
    click.option(
        "--prefix", type=int, help="Number of first positions that share a sign.  [default: 5]"
    ),
    click.option("--within", type=float, help="Correlation inside the prefix.  [default: 1]"),
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

ratio_options = _together(
    click.option(
        "--vocab-ratio",
        type=NUMBERS,
        metavar="NUMBERS",
        default=0.5,
        show_default=True,
        help="δ = d/V, dimension over vocabulary; 0 is an infinite vocabulary.",
    ),
    click.option(
        "--sample-ratio",
        type=NUMBERS,
        metavar="NUMBERS",
        default=0.4,
        show_default=True,
        help="γ = d/N, dimension over samples.",
    ),
)

signal_option = click.option(
    "--signal-norm",
    type=NUMBERS,
    metavar="NUMBERS",
    default=1.5,
    show_default=True,
    help="‖μ‖; several are 0.5,1,2 or, from, to and how many, 0.5:2:16.",
)

sampling_option = click.option(
    "--sampling",
    type=click.Choice(["token", "gaussian"]),
    default="token",
    show_default=True,
    help="Tokens of a fixed table, or the papers' idealisation.",
)

weights_option = click.option(
    "--weights",
    type=WeightsName(),
    metavar="WEIGHTS",
    default="causal",
    show_default=True,
    help=f"{', '.join(WEIGHTS)}; or numbers 0.5,0.3,…; or a .npy file.",
)

model_options = _together(
    ratio_options,
    signal_option,
    weights_option,
    sampling_option,
    click.option(
        "--centred/--not-centred", default=True, show_default=True, help="Subtract the mean."
    ),
    vocabulary_options,
    correlation_options,
)


def trial_options(trials: int, size: str = "400") -> Callable[[Command], Command]:
    """Return the options of a simulation, with so many trials by default."""
    return _together(
        click.option("--dimension", type=DIMENSION, help=f"d.  [default: {size}]"),
        click.option(
            "--trials",
            "--n-trials",
            type=click.IntRange(min(trials, 1), 1_000_000),
            default=trials,
            show_default=True,
            help="Independent draws." if trials else "Also simulate this many trials.",
        ),
        click.option(
            "--seed",
            type=click.IntRange(min=0),
            default=0,
            show_default=True,
            help="Seed of the random numbers.",
        ),
        click.option(
            "--jobs", "--n-jobs", type=int, default=1, show_default=True, help="Processes."
        ),
    )


def model_from(
    *,
    vocab_ratio: float | Array,
    sample_ratio: float | Array,
    signal_norm: float | Array,
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
    given = pooling_weights(weights)
    R = correlation_from(**correlation, weights=given)
    model = al.PooledSequences(
        vocab_ratio=vocab_ratio,
        sample_ratio=sample_ratio,
        signal_norm=signal_norm,
        correlation=R,
        weights=given,
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
    within: float | None,
    autoregressive: float | None,
    spiked: float | None,
    direction: str | None,
    correlation: str | None,
    weights: str | Array = "",
) -> Array:
    """Return the matrix that `correlation_options` describe.

    Without a length given, it is that of weights which are given as numbers, or 20.
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
    if within is not None and set(chosen) - {"--prefix"}:
        raise click.UsageError(f"--within belongs to --prefix, and excludes {chosen[0]}.")
    if correlation is not None:
        R = check_correlation(numbers("correlation", correlation, ndim=2))
        return _of_length(R, length, "--correlation")
    if spiked is not None and direction is not None:
        R = al.spiked_correlation(spiked, numbers("direction", direction))
        return _of_length(R, length, "--direction")
    given = None if isinstance(weights, str) else len(weights)
    L = next(n for n in (length, given, 20) if n is not None)
    if autoregressive is not None:
        return al.autoregressive_correlation(L, autoregressive)
    prefix = min(5, L) if prefix is None else prefix
    return al.prefix_correlation(L, prefix, 1.0 if within is None else within)


def _of_length(R: Array, length: int | None, option: str) -> Array:
    """Return R, unless another length was asked for."""
    if length not in (None, len(R)):
        raise click.UsageError(f"--length is {length}, but {option} has {len(R)} positions.")
    return R


def pooling_weights(text: str, name: str = "weights") -> str | Array:
    """Return weights as models take them: a name, or the numbers of a text or a file."""
    if text in WEIGHTS:
        return text
    is_word = text.replace("-", "").replace("_", "").isalpha()
    if not is_word:
        return numbers(name, text)
    choices = ", ".join(WEIGHTS)
    raise ValueError(
        f"{name} must be one of {choices}, numbers separated by commas, or a .npy file, "
        f"got {text!r}{nearest(text, WEIGHTS)}."
    )


def numbers(name: str, text: str, ndim: int = 1) -> Array:
    """Return numbers separated by commas, ranges among them, or those of a file.

    Examples
    --------
    >>> numbers("signal_norm", "0.1,1:2:3")
    array([0.1, 1. , 1.5, 2. ])
    """
    if text.lower().endswith(ARRAY_FILES):
        from attnlaw.diagnostics import read_array

        return np.asarray(read_array(text, ndim=ndim), dtype=np.float64)
    try:
        values = [number for part in text.split(",") for number in _range(part)]
    except ValueError:
        values = []
    if ndim != 1 or not values:
        form = "numbers separated by commas, a range 0.5:2:16, or a .npy file"
        raise ValueError(f"{name} must be {'a .npy file' if ndim != 1 else form}, got {text!r}.")
    return np.array(values)


def _range(text: str) -> list[float]:
    """Return a number, or the numbers of a range: first, last and how many."""
    ends = text.split(":")
    if len(ends) == 1:
        return [float(text)]
    first, last, count = ends
    if not 2 <= int(count) <= 100_000:
        raise ValueError
    return [float(x) for x in np.linspace(float(first), float(last), int(count))]


def matrix(name: str, text: str) -> Array:
    """Return rows separated by semicolons, or the matrix of a file."""
    if text.lower().endswith(ARRAY_FILES):
        return numbers(name, text, ndim=2)
    rows = [numbers(name, row) for row in text.split(";")]
    if len({len(row) for row in rows}) != 1:
        raise ValueError(f"{name} must be rows of one length, got {text!r}.")
    return np.stack(rows)
