"""`attnlaw pool`: which pooling to use on your own sequences."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from attnlaw._store import atomic_path
from attnlaw.cli.options import json_option
from attnlaw.cli.output import (
    print_json,
    print_table,
    progress_bar,
    save_json,
    save_picture,
    working,
)
from attnlaw.cli.program import say

if TYPE_CHECKING:
    from attnlaw.diagnostics import PoolingAdvice

__all__ = ["command"]

EPILOG = """\b
Examples:
  attnlaw pool embeddings.npy --labels labels.txt --out advice
  attnlaw pool tokens.npy --table model.gguf --labels labels.npy
  attnlaw pool sequences.npz --json
"""

FILE = click.Path(path_type=Path)


@click.command(epilog=EPILOG)
@click.argument("data", type=FILE)
@click.option("--tensor", metavar="NAME", help="Which array of DATA holds the sequences.")
@click.option("--table", type=FILE, help="Token table, when DATA holds token ids.")
@click.option("--labels", type=FILE, help="Classes: a .npy file, or text with one a line.")
@click.option("--lengths", type=FILE, help="Number of tokens of each sequence: a .npy file.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for pool.png, pool.json and weights.npy, the recommended weights.",
)
@click.option("--folds", type=click.IntRange(2, 50), default=4, show_default=True)
@click.option(
    "--max-length",
    type=click.IntRange(min=2),
    default=512,
    show_default=True,
    help="Tokens at which longer sequences are cut.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@json_option
def command(
    data: Path,
    tensor: str | None,
    table: Path | None,
    labels: Path | None,
    lengths: Path | None,
    out: Path | None,
    folds: int,
    max_length: int,
    seed: int,
    as_json: bool,
) -> None:
    """Rank poolings of your sequences, and say what more data would bring.

    DATA is a .npy, .npz or .safetensors file with embeddings (sequences, length, dimension) or
    with token ids (sequences, length), negative where there is no token, beside a --table.
    Arrays called labels, lengths, mask and table in DATA are taken along.
    """
    from attnlaw.diagnostics import advise_pooling, read_sequences

    with working("reading the sequences"):
        read = read_sequences(data, tensor=tensor, table=table, labels=labels, lengths=lengths)
    with progress_bar("comparing poolings", 100) as advance_to:
        advice = advise_pooling(
            read.sequences,
            table=read.table,
            labels=read.labels,
            mask=read.mask,
            lengths=read.lengths,
            n_folds=folds,
            max_length=max_length,
            rng=seed,
            progress=lambda share: advance_to(round(100 * share)),
        )
    if out is not None:
        import numpy as np

        from attnlaw.plotting import draw_pooling

        save_picture(out / "pool.png", draw_pooling(advice))
        with atomic_path(out / "weights.npy") as partial:
            np.save(partial, advice[advice.best].weights)
        save_json(out / "pool.json", advice)
    if as_json:
        print_json(advice)
    else:
        _print_advice(advice)


def _print_advice(advice: "PoolingAdvice") -> None:
    labelled = advice.ranked_by == "accuracy"
    headings = ["pooling", "SNR", "95 %", "overlap", "at most"]
    if labelled:
        headings = ["pooling", "accuracy", "95 %", "gain on the mean"]
        headings += ["predicted", "twice the data", "95 %", "at most", "SNR"]
    rows: list[list[Any]] = []
    for c in advice.candidates:
        if not labelled:
            ends = f"{c.snr_interval[0]:.2f} to {c.snr_interval[1]:.2f}"
            row = [c.name, f"{c.snr:.2f}", ends, f"{c.overlaps[0]:.2f}", f"{c.overlaps[-1]:.2f}"]
        else:
            row = [c.name, _percent(c.accuracy), _range(c.accuracy_interval)]
            row += ["–" if c.name == "mean" else _range(c.accuracy_gain_interval, "+")]
            if c.predicted_accuracies is not None and c.predicted_intervals is not None:
                now, twice, _, ceiling = c.predicted_accuracies
                row += [_percent(now), _percent(twice), _range(c.predicted_intervals[1])]
                row += [_percent(ceiling)]
            row += [f"{c.snr:.2f}"]
        rows.append(row)
    if advice.majority_accuracy is not None:
        rows.append(["(largest class)", _percent(advice.majority_accuracy), *(7 * ["–"])])
    say(
        f"{advice.n_samples} sequences of {advice.length} tokens in {advice.dimension} dimensions"
        + (f", {len(advice.classes)} classes" if advice.classes else ", no labels")
    )
    print_table(headings, rows)
    for note in advice.notes:
        say(f"Note: {note}")
    say(advice.verdict)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def _range(interval: tuple[float, float] | None, sign: str = "") -> str:
    if interval is None:
        return "–"
    return f"{100 * interval[0]:{sign}.1f} to {100 * interval[1]:{sign}.1f}"
