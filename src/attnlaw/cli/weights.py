"""`attnlaw weights`: pooling weights side by side."""

from typing import Any

import click
import numpy as np

from attnlaw.cli.options import (
    WEIGHTS,
    correlation_from,
    correlation_options,
    json_option,
    numbers,
)
from attnlaw.cli.output import print_json, print_table
from attnlaw.models import PooledSequences
from attnlaw.weights import by_name

__all__ = ["command"]

EPILOG = """\b
Examples:
  attnlaw weights --length 12 --prefix 4
  attnlaw weights --spiked 3 --direction 1,-1,1,-1 --weights mean,direction
"""

GAINS = ("signal_gain", "noise_gain", "snr", "effective_length")


@click.command(epilog=EPILOG)
@click.option(
    "--weights",
    metavar="NAMES",
    default="mean,causal,last,optimal",
    show_default=True,
    help=f"Which, separated by commas: {', '.join(WEIGHTS)}; or one list of numbers or .npy file.",
)
@correlation_options
@json_option
def command(weights: str, as_json: bool, **correlation: Any) -> None:
    """Compare pooling weights on a positional correlation.

    The signal enters the pooled covariance with weight wᵀRw (signal_gain), the noise with wᵀw
    (noise_gain); only their ratio (snr) matters for what is recovered.
    """
    names = weights.split(",")
    given = None if set(names) <= set(WEIGHTS) else numbers("weights", weights)
    R = correlation_from(**correlation, other_length=None if given is None else len(given))
    pooled = {
        name: PooledSequences(
            vocab_ratio=0.0, sample_ratio=0.0, signal_norm=0.0, correlation=R, weights=w
        )
        for name, w in (
            {name: by_name(name, len(R), R) for name in names}
            if given is None
            else {"given": given}
        ).items()
    }
    if as_json:
        print_json(
            {
                name: {"weights": m.weights} | {gain: getattr(m, gain) for gain in GAINS}
                for name, m in pooled.items()
            }
        )
        return
    print_table(
        ["", *pooled], [[gain, *(getattr(m, gain) for m in pooled.values())] for gain in GAINS]
    )
    columns = np.stack([m.weights for m in pooled.values()], axis=1)
    print_table(
        ["position", *pooled],
        [[str(position), *row] for position, row in enumerate(columns, start=1)],
    )
