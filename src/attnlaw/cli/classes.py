"""`attnlaw classes`: what theory says of several classes, and of noise that is not white."""

from typing import Any, Literal

import click
import numpy as np
from numpy.typing import NDArray

import attnlaw as al
from attnlaw.cli.options import (
    WEIGHTS,
    correlation_from,
    correlation_options,
    json_option,
    numbers,
)
from attnlaw.cli.output import print_json, print_table

__all__ = ["command"]

EPILOG = """\b
Examples:
  attnlaw classes "2,0; 0,1; -1,-1" --shares 0.2,0.3,0.5
  attnlaw classes means.npy --noise-spectrum variances.npy --signal-scale 0.5,1,2 --json
"""


@click.command(epilog=EPILOG)
@click.argument("means")
@click.option("--shares", metavar="NUMBERS", help="Shares of the classes.  [default: equal]")
@click.option(
    "--noise-spectrum",
    metavar="NUMBERS",
    help="Variances of the noise along the coordinates of MEANS; or a .npy file.  [default: 1]",
)
@click.option(
    "--signal-scale",
    metavar="NUMBERS",
    default="1",
    show_default=True,
    help="Factors of the class means; several are separated by commas.",
)
@click.option("--vocab-ratio", type=float, default=0.5, show_default=True, help="δ = d/V.")
@click.option("--sample-ratio", type=float, default=0.4, show_default=True, help="γ = d/N.")
@click.option(
    "--weights",
    metavar="WEIGHTS",
    default="causal",
    show_default=True,
    help=f"{', '.join(WEIGHTS)}; or numbers 0.5,0.3,…; or a .npy file.",
)
@click.option(
    "--sampling",
    type=click.Choice(["token", "gaussian"]),
    default="token",
    show_default=True,
    help="Tokens of a fixed table, or the papers' idealisation.",
)
@correlation_options
@json_option
def command(
    means: str,
    shares: str | None,
    noise_spectrum: str | None,
    signal_scale: str,
    vocab_ratio: float,
    sample_ratio: float,
    weights: str,
    sampling: Literal["token", "gaussian"],
    as_json: bool,
    **correlation: Any,
) -> None:
    """Predict outliers, overlaps and thresholds of several classes.

    MEANS holds a row for each class: "2,0; 0,1; -1,-1", or a .npy file. The class
    overlaps say how much of each class mean the eigenvectors of the outliers hold.
    """
    given = None if weights in WEIGHTS else numbers("weights", weights)
    R = correlation_from(**correlation, other_length=None if given is None else len(given))
    scales = numbers("signal_scale", signal_scale)
    model = al.PooledClasses(
        vocab_ratio=vocab_ratio,
        sample_ratio=sample_ratio,
        class_means=_matrix(means),
        class_shares=None if shares is None else numbers("shares", shares),
        noise_spectrum=None if noise_spectrum is None else numbers("spectrum", noise_spectrum),
        signal_scale=scales if len(scales) > 1 else float(scales[0]),
        correlation=R,
        weights=weights if given is None else given,
        sampling=sampling,
    )
    spikes, thresholds = al.predict(model), al.thresholds(model)
    if as_json:
        described = {name: getattr(model, name) for name in ("n_classes", "shares", "snr")}
        print_json({"model": described, "spikes": spikes, "thresholds": thresholds})
        return
    per_outlier = [name for name in vars(spikes) if name not in ("bulk_edge", "class_overlaps")]
    for index, scale in enumerate(scales):

        def at(name: str, index: int = index) -> NDArray[Any]:
            value = np.asarray(getattr(spikes, name))
            return value[index] if len(scales) > 1 else value

        print_table(
            [f"means × {scale:g}", *(f"outlier {j + 1}" for j in range(model.n_classes - 1))],
            [[name, *at(name)] for name in per_outlier],
        )
        print_table(
            [f"bulk edge {float(at('bulk_edge')):.6g}", *map(str, range(1, model.n_classes + 1))],
            [["class_overlaps", *at("class_overlaps")]],
        )
    print_table(
        ["thresholds", *(f"outlier {j + 1}" for j in range(model.n_classes - 1))],
        [[name, *values] for name, values in vars(thresholds).items()],
    )


def _matrix(text: str) -> NDArray[np.float64]:
    """Return rows separated by semicolons, or the matrix of a file."""
    if text.lower().endswith((".npy", ".npz", ".safetensors")):
        return numbers("means", text, ndim=2)
    rows = [numbers("means", row) for row in text.split(";")]
    if len({len(row) for row in rows}) != 1:
        raise ValueError(f"means must be rows of one length, got {text!r}.")
    return np.stack(rows)
