"""`attnlaw plan`: what a wanted overlap takes."""

from typing import Any

import click
import numpy as np

import attnlaw as al
from attnlaw._checks import Real
from attnlaw.cli.options import DIMENSION, json_option, model_from, model_options
from attnlaw.cli.output import describe_model, print_json, print_table

__all__ = ["command"]

EPILOG = """\b
Examples:
  attnlaw plan --squared-overlap 0.8 --vocab-ratio 0.05 --dimension 768
  attnlaw plan --squared-overlap 0.95 --weights optimal --json
"""


@click.command(epilog=EPILOG)
@click.option(
    "--squared-overlap", type=float, default=0.8, show_default=True, help="What is wanted."
)
@click.option("--dimension", type=DIMENSION, help="d, to give numbers of samples and tokens.")
@model_options
@json_option
def command(squared_overlap: float, dimension: int | None, as_json: bool, **settings: Any) -> None:
    """Find the samples, vocabulary or signal that a wanted overlap takes.

    Each need is found with everything else as the options say.
    """
    model = model_from(**settings)
    if np.ndim(model.signal_norm):
        raise click.UsageError("--signal-norm must be a single number for a plan.")
    needs = al.plan(model, squared_overlap)
    predicted = al.predict(model).squared_overlap
    N = None if dimension is None else needs.n_samples(dimension)
    V = None if dimension is None else needs.n_vocab(dimension)
    if as_json:
        document = {"model": describe_model(model), "squared_overlap": predicted}
        whole = {} if dimension is None else {"n_samples": N, "n_vocab": V}
        print_json(document | {"plan": vars(needs) | whole, "obstacles": needs.obstacles})
        return
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
        ],
    )
    for sentence in needs.obstacles:
        click.echo(sentence)


def _need(ratio: Real, number: Real | None) -> tuple[Real | str, str]:
    """Return two cells: the ratio, and the whole number if a dimension is known."""
    if ratio == 0:
        return "impossible", ""
    return ratio, "" if number is None else f"{number:.0f}"
