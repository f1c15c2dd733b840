"""What theory says of pooled sequences: `attnlaw predict`, `attnlaw plan`, `attnlaw weights`."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

import attnlaw as al
from attnlaw._checks import Real
from attnlaw.cli.options import (
    DIMENSION,
    WEIGHTS,
    correlation_from,
    correlation_options,
    csv_option,
    json_option,
    model_from,
    model_options,
    numbers,
    plot_option,
    pooling_weights,
)
from attnlaw.cli.output import (
    describe_model,
    print_csv,
    print_json,
    print_model,
    print_table,
    save_axes,
)
from attnlaw.cli.program import say

__all__ = ["command", "plan", "weights"]

EPILOG = """\b
Examples:
  attnlaw predict --weights optimal --signal-norm 0.5,1,2
  attnlaw predict --signal-norm 0:2:41 --plot alignment.png
  attnlaw predict --vocab-ratio 0.1:1:10 --csv
  attnlaw predict --length 40 --prefix 10 --ridge 0.05 --json
  attnlaw predict --zipf 1.0 --importance sif --vocab-size 50000 --vocab-ratio 0.015
"""

SYMBOLS = {"vocab_ratio": "δ", "sample_ratio": "γ", "signal_norm": "‖μ‖"}


@click.command(epilog=EPILOG)
@model_options
@click.option("--ridge", type=float, help="Predict ridge classification as well.")
@plot_option("Draw the law with the outlier, or the overlap over several norms, to FILE.")
@csv_option
@json_option
def command(
    ridge: float | None, plot: Path | None, as_csv: bool, as_json: bool, **settings: Any
) -> None:
    """Predict eigenvalue, overlap and thresholds of pooled sequences.

    One of the ratios or the signal norm may be several numbers: a column or a row for each.
    """
    model = model_from(**settings)
    varying = [name for name in SYMBOLS if np.ndim(getattr(model, name))]
    if len(varying) > 1:
        words = " and ".join("--" + name.replace("_", "-") for name in varying)
        raise click.UsageError(f"only one of {words} may be several numbers.")
    axis = varying[0] if varying else "signal_norm"
    document: dict[str, Any] = {
        "model": describe_model(model, settings),
        "spike": al.predict(model),
        "thresholds": al.thresholds(model),
        "validity": al.validity(model),
    }
    if ridge is not None:
        document["accuracy"] = al.predict_accuracy(model, ridge)
    if plot is not None:
        save_axes(plot, _picture(model, axis))
    if as_json:
        print_json(document)
        return
    parts = [name for name in ("spike", "accuracy", "thresholds", "validity") if name in document]
    rows = {k: v for part in parts for k, v in vars(document[part]).items()}
    columns = {k: np.atleast_1d(np.broadcast_to(v, model.shape)) for k, v in rows.items()}
    if as_csv:
        given = {name: np.broadcast_to(getattr(model, name), model.shape) for name in SYMBOLS}
        columns = {k: np.atleast_1d(v) for k, v in given.items()} | columns
        lines = zip(*columns.values(), strict=True)
        print_csv(dict(zip(columns, line, strict=True)) for line in lines)
        return
    print_model(model, settings)
    values = np.atleast_1d(getattr(model, axis))
    print_table(
        ["prediction", *(f"{SYMBOLS[axis]} = {value:g}" for value in values)],
        [[name, *column] for name, column in columns.items()],
    )
    if "n_vocab" in document["model"]:
        facts = ("n_vocab", "effective_vocabulary", "smoothing")
        print_table(["vocabulary", ""], [[name, document["model"][name]] for name in facts])


def _picture(model: al.PooledSequences, axis: str) -> Any:
    from attnlaw.plotting import plot_alignment, plot_law, plot_outlier

    if model.shape:
        return plot_alignment(model, over=axis)
    return plot_outlier(al.predict(model), plot_law(al.law(model)))


PLAN_EPILOG = """\b
Examples:
  attnlaw plan --squared-overlap 0.8 --vocab-ratio 0.05 --dimension 768
  attnlaw plan --squared-overlap 0.95 --weights optimal --json
  attnlaw plan --zipf 1 --vocab-size 2000
"""


@click.command(epilog=PLAN_EPILOG)
@click.option(
    "--squared-overlap", type=float, default=0.8, show_default=True, help="What is wanted."
)
@click.option("--dimension", type=DIMENSION, help="d, to give numbers of samples and tokens.")
@model_options
@csv_option
@json_option
def plan(
    squared_overlap: float,
    dimension: int | None,
    as_csv: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """Find the samples, vocabulary or signal that a wanted overlap takes.

    Each need is found with everything else as the options say; what cannot be reached is null
    in JSON, empty in CSV. With --zipf also what the best token weights bring.
    """
    model = model_from(**settings)
    for name in SYMBOLS:
        if np.ndim(getattr(model, name)):
            option = "--" + name.replace("_", "-")
            raise click.UsageError(f"{option} must be a single number for a plan.")
    needs = al.plan(model, squared_overlap)
    predicted = al.predict(model).squared_overlap
    N = None if dimension is None else needs.n_samples(dimension)
    V = None if dimension is None else needs.n_vocab(dimension)
    needed = vars(needs) | {
        name: getattr(needs, name) or None for name in ("sample_ratio", "vocab_ratio")
    }
    needed |= {} if dimension is None else {"n_samples": N, "n_vocab": V}
    best = al.optimal_importance(model) if model.tokens_differ else None
    if as_json:
        document = {"model": describe_model(model, settings), "squared_overlap": predicted}
        if best is not None:
            names = ("smoothing", "squared_overlap", "uniform_overlap")
            document["token_weights"] = {name: getattr(best, name) for name in names}
        print_json(document | {"plan": needed, "obstacles": needs.obstacles})
        return
    if as_csv:
        print_csv([needed])
        return
    print_model(model, settings)
    print_table(
        [f"to reach {squared_overlap:g}", "now", "needed", "number"],
        [
            ["sample_ratio (at most)", model.sample_ratio, *_need(needs.sample_ratio, N)],
            ["vocab_ratio (at most)", model.vocab_ratio, *_need(needs.vocab_ratio, V)],
            ["signal_norm (at least)", model.signal_norm, needs.signal, ""],
            ["squared_overlap", predicted, squared_overlap, ""],
        ],
    )
    print_table(
        ["squared overlap at best", ""],
        [
            ["ceiling of the table", needs.ceiling],
            ["infinitely many samples", needs.sample_limit],
            ["infinite vocabulary", needs.vocab_limit],
            *(_weights_row(best) if best is not None else ()),
        ],
    )
    for sentence in needs.obstacles:
        say(sentence)


def _weights_row(best: al.theory.OptimalImportance) -> list[list[Any]]:
    """Return what the best token weights bring, with everything else as it is."""
    return [[f"token weights 1/(p + {best.smoothing:.2g})", best.squared_overlap]]


def _need(ratio: Real, number: Real | None) -> tuple[Real | str, str]:
    """Return two cells: the ratio, and the whole number if a dimension is known."""
    if ratio == 0:
        return "impossible", ""
    return ratio, "" if number is None else f"{number:.0f}"


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
