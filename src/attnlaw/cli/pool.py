"""`attnlaw pool`: which pooling to use on your own texts."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from attnlaw._store import atomic_path
from attnlaw.cli.options import FILE, FOLDER, json_option
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
    from attnlaw.diagnostics import PoolingAdvice, PositionComparison

__all__ = ["command"]

EPILOG = """\b
Examples:
  attnlaw pool reviews.csv --text review --label stars --model model.gguf
  attnlaw pool posts.jsonl --text body --label group --model FOLDER --for retrieval --out advice
  attnlaw pool sts.csv --text first --text second --score score --model glove.txt
  attnlaw pool embeddings.npy --labels labels.txt --out advice
  attnlaw pool tokens.npy --table model.gguf --labels labels.npy --positions
  attnlaw pool sample.npy --table model.gguf --corpus pass/statistics.npz
"""

GOALS = ("classification", "centroid", "retrieval", "clustering")
SHOWN = 12  # pipelines in the table
MOST_TEXTS = 20_000  # as many as `advise_pooling` looks at


@click.command(epilog=EPILOG)
@click.argument("data", type=FILE)
@click.option(
    "--text", "text", multiple=True, metavar="COLUMN", help="Column with the texts; two for pairs."
)
@click.option("--label", metavar="COLUMN", help="Column with the class of each text.")
@click.option("--score", metavar="COLUMN", help="Column with the similarity of two texts.")
@click.option("--model", type=FILE, help="Static table, or folder of an encoder, for texts.")
@click.option("--tokenizer", type=FILE, help="Tokenizer of a static table, if not beside it.")
@click.option("--layer", type=int, default=-1, show_default=True, help="Of an encoder; -1: last.")
@click.option("--static", is_flag=True, help="Use the table of a folder, not its encoder.")
@click.option("--tensor", metavar="NAME", help="Which array of DATA holds the sequences.")
@click.option("--table", type=FILE, help="Token table, when DATA holds token ids.")
@click.option("--labels", type=FILE, help="Classes: a .npy file, or text with one a line.")
@click.option("--lengths", type=FILE, help="Number of tokens of each sequence: a .npy file.")
@click.option(
    "--corpus", type=FILE, help="What `attnlaw corpus` found: its frequencies weigh tokens."
)
@click.option(
    "--for", "goal", type=click.Choice(GOALS), help="What the vectors are for, with labels."
)
@click.option(
    "--positions",
    is_flag=True,
    help="Compare weights of positions only, beside what theory predicts for each.",
)
@click.option(
    "--out",
    type=FOLDER,
    help="Folder for pool.html, pool.json and the fitted pooling (or weights.npy and a picture).",
)
@click.option("--folds", type=click.IntRange(2, 50), default=4, show_default=True,
              help="Parts of the cross-validation.")  # fmt: skip
@click.option(
    "--max-length",
    type=click.IntRange(min=2),
    default=None,
    help="Tokens at which longer sequences are cut.  [default: 128 of texts, 512 of arrays]",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True,
              help="Seed of the random numbers.")  # fmt: skip
@json_option
def command(
    data: Path,
    text: tuple[str, ...],
    label: str | None,
    score: str | None,
    model: Path | None,
    tokenizer: Path | None,
    layer: int,
    static: bool,
    tensor: str | None,
    table: Path | None,
    labels: Path | None,
    lengths: Path | None,
    corpus: Path | None,
    goal: str | None,
    positions: bool,
    out: Path | None,
    folds: int,
    max_length: int | None,
    seed: int,
    as_json: bool,
) -> None:
    """Find the pooling that does best what you need it for, and say what more labels would bring.

    DATA is a .csv, .tsv, .jsonl or .parquet file with texts, beside a --model; or a .npy, .npz or
    .safetensors file with embeddings (sequences, length, dimension) or with token ids
    (sequences, length), negative where there is no token, beside a --table. Arrays called labels,
    lengths, mask and table in DATA are taken along.
    """
    from attnlaw.diagnostics import advise_pooling, compare_positions, holds_texts, read_sequences

    notes: list[str] = []
    if holds_texts(data):
        arguments = _from_texts(
            data,
            text,
            label,
            score,
            model,
            tokenizer,
            layer,
            static,
            max_length or 128,
            seed,
            notes,
        )
    else:
        if text or label or score or model:
            raise ValueError(
                "--text, --label, --score and --model must be given for texts (.csv, .tsv, "
                f".jsonl or .parquet), got {data.name}."
            )
        with working("reading the sequences"):
            read = read_sequences(data, tensor=tensor, table=table, labels=labels, lengths=lengths)
        arguments = {
            "sequences": read.sequences,
            "table": read.table,
            "labels": read.labels,
            "mask": read.mask,
            "lengths": read.lengths,
        }
    common = {"n_folds": folds, "max_length": max_length or 512, "rng": seed}
    with progress_bar("comparing poolings", 100) as advance_to:
        common["progress"] = lambda share: advance_to(round(100 * share))  # type: ignore[assignment]
        if positions:
            if goal is not None or corpus is not None or "pairs" in arguments:
                words = "--positions must be given without --for, --score and --corpus, got both."
                raise ValueError(words)
            arguments.pop("tokens", None)
            compared = compare_positions(**arguments, **common)  # type: ignore[arg-type]
        else:
            advice = advise_pooling(**arguments, corpus=corpus, goal=goal, **common)  # type: ignore[arg-type]
    if positions:
        _give_positions(compared, out, as_json, notes)
    else:
        _give_advice(advice, out, as_json, notes)


def _from_texts(
    data: Path,
    text: tuple[str, ...],
    label: str | None,
    score: str | None,
    model: Path | None,
    tokenizer: Path | None,
    layer: int,
    static: bool,
    length: int,
    seed: int,
    notes: list[str],
) -> dict[str, Any]:
    """Read texts, and embed their tokens."""
    import numpy as np

    from attnlaw.diagnostics import embed_texts, read_texts

    if not text or model is None:
        raise ValueError(f"--text and --model must be given for texts, got {data.name} alone.")
    if (len(text) == 2) != (score is not None) or len(text) > 2:
        raise ValueError(f"--text must be given once, or twice with --score, got {len(text)}.")
    with working("reading the texts"):
        read = read_texts(data, text, label=label, score=score)
    texts = [each for column in read.texts for each in column]
    labels = None if read.labels is None else np.array(read.labels)
    if labels is not None:  # said before anything is embedded
        counts = np.unique(labels, return_counts=True)[1]
        if not 2 <= len(counts) <= 200 or counts.min() < 4:
            raise ValueError(
                "--label must name a column of 2 to 200 classes with at least 4 texts each, got "
                f"{label!r} with {len(counts)}, the smallest of {counts.min()}."
            )
    if score is None and len(texts) > MOST_TEXTS:  # what will not be looked at is not embedded
        some = np.random.default_rng(seed).permutation(len(texts))[:MOST_TEXTS]
        notes.append(f"{MOST_TEXTS} of {len(texts)} texts were looked at, chosen at random.")
        texts = [texts[i] for i in some]
        labels = None if labels is None else labels[some]
    with progress_bar("embedding the texts", 100) as advance_to:
        embedded = embed_texts(
            texts,
            model,
            tokenizer=tokenizer,
            layer=layer,
            static=static,
            length=length,
            progress=lambda share: advance_to(round(100 * share)),
        )
    kept = embedded.kept
    if len(kept) < len(texts):
        notes.append(f"{len(texts) - len(kept)} texts have no token that the model knows.")
    arguments: dict[str, Any] = {
        "sequences": embedded.sequences,
        "table": embedded.table,
        "mask": None if embedded.table is not None else embedded.mask,
    }
    if embedded.table is None:
        arguments["tokens"] = embedded.tokens
    if labels is not None:
        arguments["labels"] = labels[kept]
    if read.scores is not None:
        n = len(read.texts[0])
        places = np.full(len(texts), -1)
        places[kept] = np.arange(len(kept))
        pairs = np.stack([places[:n], places[n:]], axis=1)
        whole = (pairs >= 0).all(axis=1)
        arguments |= {"pairs": pairs[whole], "scores": read.scores[whole]}
    return arguments


def _give_advice(
    advice: "PoolingAdvice", out: Path | None, as_json: bool, notes: list[str]
) -> None:
    if out is not None:
        from attnlaw.plotting import pooling_page

        with atomic_path(out / "pool.html") as partial:
            partial.write_text(pooling_page(advice), encoding="utf-8")
        save_json(out / "pool.json", advice.to_dict())
        advice.fitted.save(out / "pooling")
    if as_json:
        print_json(advice.to_dict())
        return
    what = f"{len(advice.classes)} classes" if advice.classes else "no labels"
    say(
        f"{advice.n_texts} texts of up to {advice.length} tokens in {advice.dimension} "
        f"dimensions, {what}; {advice.score_name}"
    )
    unit = 100 if advice.in_percent else 1
    rows: list[list[Any]] = [
        [t.pipeline.name, _number(t.score, unit), _signed(t.gain, unit), t.n_texts]
        for t in advice.trials[:SHOWN]
    ]
    print_table(["found by search", advice.goal, "gain on the mean", "texts"], rows)
    rows = [
        ["best of a search", _number(advice.score, unit), _range(advice.score_interval, "", unit)],
        ["mean", _number(advice.mean_score, unit), _range(advice.mean_interval, "", unit)],
        ["gain", _signed(advice.gain, unit), _range(advice.gain_interval, "+", unit)],
    ]
    if advice.majority_accuracy is not None:
        rows.append(["(largest class)", _number(advice.majority_accuracy), "–"])
    print_table(["on folds held out", "score", "95 %"], rows)
    if advice.curve is not None:
        headings = [
            "predicted accuracy",
            "now",
            "twice the labels",
            "95 %",
            "four times",
            "at most",
        ]
        rows = []
        for name, curve in ((advice.best.name, advice.curve), ("mean", advice.mean_curve)):
            if curve is not None and name not in [row[0] for row in rows]:
                now, twice, four, most = map(_number, curve.accuracies)
                rows.append([name, now, twice, _range(curve.intervals[1]), four, most])
        print_table(headings, rows)
    for note in (*notes, *advice.notes):
        say(f"Note: {note}")
    say(advice.verdict)


def _give_positions(
    advice: "PositionComparison", out: Path | None, as_json: bool, notes: list[str]
) -> None:
    if out is not None:
        import numpy as np

        from attnlaw.plotting import draw_positions

        save_picture(out / "pool.png", draw_positions(advice))
        with atomic_path(out / "weights.npy") as partial:
            np.save(partial, advice[advice.best].weights)
        save_json(out / "pool.json", advice)
    if as_json:
        print_json(advice)
        return
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
            row = [c.name, _number(c.accuracy), _range(c.accuracy_interval)]
            row += ["–" if c.name == "mean" else _range(c.accuracy_gain_interval, "+")]
            if c.predicted_accuracies is not None and c.predicted_intervals is not None:
                now, twice, _, ceiling = c.predicted_accuracies
                row += [_number(now), _number(twice), _range(c.predicted_intervals[1])]
                row += [_number(ceiling)]
            row += [f"{c.snr:.2f}"]
        rows.append(row)
    if advice.majority_accuracy is not None:
        rows.append(["(largest class)", _number(advice.majority_accuracy), *(7 * ["–"])])
    say(
        f"{advice.n_samples} sequences of {advice.length} tokens in {advice.dimension} dimensions"
        + (f", {len(advice.classes)} classes" if advice.classes else ", no labels")
    )
    print_table(headings, rows)
    for note in (*notes, *advice.notes):
        say(f"Note: {note}")
    say(advice.verdict)


def _number(value: float | None, unit: int = 100) -> str:
    """Show a score in percent, or as it is."""
    return "–" if value is None else f"{unit * value:.{_digits(unit)}f}"


def _signed(value: float, unit: int = 100) -> str:
    digits = _digits(unit)
    return f"{round(unit * value, digits) + 0.0:+.{digits}f}"


def _range(interval: tuple[float, float] | None, sign: str = "", unit: int = 100) -> str:
    if interval is None:
        return "–"
    low, high = (f"{unit * end:{sign}.{_digits(unit)}f}" for end in interval)
    return f"{low} to {high}"


def _digits(unit: int) -> int:
    return 1 if unit == 100 else 3
