"""`attnlaw predict`: what theory says of a model."""

from typing import Any

import click
import numpy as np

import attnlaw as al
from attnlaw.cli.options import json_option, model_from, model_options
from attnlaw.cli.output import describe_model, print_json, print_table

__all__ = ["command"]

EPILOG = """\b
Examples:
  attnlaw predict --weights optimal --signal-norm 0.5,1,2
  attnlaw predict --autoregressive 0.8 --length 50 --weights mean --json
  attnlaw predict --length 40 --prefix 10 --ridge 0.05
  attnlaw predict --zipf 1.0 --importance sif --vocab-size 50000 --vocab-ratio 0.015
"""


@click.command(epilog=EPILOG)
@model_options
@click.option("--ridge", type=float, help="Predict ridge classification as well.")
@json_option
def command(ridge: float | None, as_json: bool, **settings: Any) -> None:
    """Predict eigenvalue, overlap and thresholds of pooled sequences."""
    model = model_from(**settings)
    document: dict[str, Any] = {
        "model": describe_model(model),
        "spike": al.predict(model),
        "thresholds": al.thresholds(model),
        "validity": al.validity(model),
    }
    if ridge is not None:
        document["accuracy"] = al.predict_accuracy(model, ridge)
    if as_json:
        print_json(document)
        return
    norms = np.atleast_1d(model.signal_norm)
    print_table(
        ["prediction", *(f"‖μ‖ = {norm:g}" for norm in norms)],
        [
            [name, *np.atleast_1d(np.broadcast_to(value, model.shape))]
            for part in ("spike", "accuracy")
            if part in document
            for name, value in vars(document[part]).items()
        ],
    )
    print_table(
        ["thresholds and validity", ""],
        [
            *vars(document["thresholds"]).items(),
            *vars(document["validity"]).items(),
            ("snr", model.snr),
            *_vocabulary_rows(document["model"]),
        ],
    )


def _vocabulary_rows(described: dict[str, Any]) -> list[tuple[str, Any]]:
    names = ("n_vocab", "effective_vocabulary")
    return [(name, described[name]) for name in names if name in described]
