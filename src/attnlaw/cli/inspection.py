"""`attnlaw table`: what an embedding table holds; `attnlaw heads`: what attention heads do."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from attnlaw.cli.options import FILE, FOLDER, json_option
from attnlaw.cli.output import (
    print_json,
    print_table,
    progress_bar,
    save_json,
    save_picture,
    save_text,
    working,
)
from attnlaw.cli.program import say

if TYPE_CHECKING:
    from attnlaw.diagnostics import (
        AttentionMaps,
        HeadFinding,
        HeadsReport,
        TableOutlier,
        TableReport,
    )

__all__ = [
    "heads",
    "table",
]

TABLE_EPILOG = """\b
Examples:
  attnlaw table model.gguf
  attnlaw table model.safetensors --tensor wte.weight --out findings
  attnlaw table path/to/huggingface-folder --json
  attnlaw table model.gguf --corpus pass/statistics.npz
  attnlaw table model.safetensors --list
"""


@click.command(epilog=TABLE_EPILOG)
@click.argument("file", type=FILE)
@click.option("--tensor", metavar="NAME", help="Which array of the file.")
@click.option(
    "--vocabulary",
    type=FILE,
    help="File with the words: tokenizer.json, vocab.json or vocab.txt.",
)
@click.option(
    "--corpus",
    type=FILE,
    help="What `attnlaw corpus` found of token ids: outliers beside their frequencies.",
)
@click.option(
    "--out",
    type=FOLDER,
    help="Folder for table.png and table.json.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--list", "only_list", is_flag=True, help="Name the arrays in FILE and stop.")
@json_option
def table(
    file: Path,
    tensor: str | None,
    vocabulary: Path | None,
    corpus: Path | None,
    out: Path | None,
    seed: int,
    only_list: bool,
    as_json: bool,
) -> None:
    """Inspect an embedding table: noise, outliers and their tokens, and a held-out check.

    FILE is a .npy, .npz, .safetensors or .gguf file, or a local Hugging Face folder.
    """
    from attnlaw.diagnostics import inspect_table, read_table

    if only_list:
        _print_arrays(file)
        return
    with working("reading the table"):
        vectors = read_table(file, tensor, vocabulary=vocabulary)
    with working("finding its spectrum"):
        report = inspect_table(vectors, corpus=corpus, rng=seed)
    if out is not None:
        from attnlaw.plotting import draw_table

        save_picture(out / "table.png", draw_table(report))
        save_json(out / "table.json", report)
    if as_json:
        print_json(report)
    else:
        _print_table_report(report)


def _print_table_report(report: "TableReport") -> None:
    say(report.source)
    facts = [
        ("tokens × dimensions", f"{report.n_vocab} × {report.dimension}"),
        ("δ = d/V", report.vocab_ratio),
        ("effective rank", report.effective_rank),
        ("share of the mean", f"{report.mean_share:.1%}"),
        ("spread of squared lengths", f"{report.length_spread:.1%}"),
        ("edge of the noise", report.bulk_edge),
    ]
    if report.n_occurring is not None:
        facts += [
            ("tokens that occur in the corpus", report.n_occurring),
            ("effective vocabulary", report.effective_vocabulary),
        ]
    if report.check is not None:
        facts += [
            ("check: distance to the law", f"{report.check.distance:.2%}"),
            ("       with equal lengths", f"{report.check.silverstein_distance:.2%}"),
            ("       explained by chance", f"{report.check.tolerance:.2%}"),
        ]
    print_table(["table", ""], facts)
    if report.outliers:
        known = report.n_occurring is not None
        rows = []
        for j, o in enumerate(report.outliers, start=1):
            row = [j, o.eigenvalue, f"{o.share_of_variance:.2%}", f"{o.p_value:.1e}"]
            frequency = o.frequency_correlation
            row += ["–" if frequency is None else f"{frequency:+.2f}"] * known
            rows.append([*row, _words(o)])
        headings = ["outlier", "eigenvalue", "variance", "p", *["with frequency"] * known]
        print_table([*headings, "tokens"], rows)
    for note in report.notes:
        say(f"Note: {note}")
    say(report.verdict)


def _words(outlier: "TableOutlier") -> str:
    high, low = outlier.highest_tokens, outlier.lowest_tokens
    return " ".join(map(repr, high[:4])) + " … " + " ".join(map(repr, low[:4]))


def _print_arrays(path: Path) -> None:
    """Name the arrays of a file, for --list."""
    from attnlaw.diagnostics import list_arrays

    entries = list_arrays(path).values()
    rows = [[e.name, "×".join(map(str, e.shape)), e.dtype] for e in entries]
    print_table(["array", "shape", "type"], rows)


HEADS_EPILOG = """\b
Examples:
  attnlaw heads path/to/huggingface-folder --text-file article.txt --out findings
  attnlaw heads model.gguf --text-file one.txt --text-file two.txt --ablate head --out findings
  attnlaw heads model.gguf --text "It was a dark and stormy night; the rain fell …" --rows 20
  attnlaw heads maps.npy --out findings
  attnlaw heads qk.safetensors --kind queries --causal --json
"""


@click.command(epilog=HEADS_EPILOG)
@click.argument("data", type=FILE)
@click.option("--text", multiple=True, metavar="TEXT", help="What a model reads; may be repeated.")
@click.option(
    "--text-file",
    multiple=True,
    type=FILE,
    help="The same from a file, a long one in pieces of --tokens; may be repeated.",
)
@click.option(
    "--texts",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    help="At most this many pieces of a file.",
)
@click.option(
    "--tokens",
    type=click.IntRange(min=8),
    default=256,
    show_default=True,
    help="Length of a text; of maps, the number of first tokens used.",
)
@click.option(
    "--draws",
    type=click.IntRange(min=5),
    default=19,
    show_default=True,
    help="Untrained counterparts of each head.",
)
@click.option(
    "--level",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.01,
    show_default=True,
    help="Chance of calling an untrained head something else.",
)
@click.option(
    "--ablate",
    type=click.Choice(["head", "layer"]),
    help="Measure how far the output moves without each head or layer; with --out, an interrupted "
    "run is resumed.",
)
@click.option("--no-effect", is_flag=True, help="Do not estimate how much heads matter.")
@click.option("--tensor", metavar="NAME", help="Which array of a file of maps.")
@click.option(
    "--kind",
    type=click.Choice(["auto", "attention", "scores", "queries"]),
    default="auto",
    show_default=True,
    help="Weights after the softmax, scores before it, or arrays `queries` and `keys`.",
)
@click.option("--causal", is_flag=True, help="Mask later tokens of scores or queries and keys.")
@click.option(
    "--head-dimension",
    type=click.IntRange(min=1),
    help="Width d_k of a head of maps.  [default: inferred from the maps]",
)
@click.option("--rows", type=click.IntRange(min=0), help="Print this many heads.  [default: all]")
@click.option(
    "--out",
    type=FOLDER,
    help="Folder for heads.html, heads.json, heads.csv and heads.png.",
)
@click.option("--list", "only_list", is_flag=True, help="Name the arrays in DATA and stop.")
@json_option
def heads(
    data: Path,
    text: tuple[str, ...],
    text_file: tuple[Path, ...],
    texts: int,
    tokens: int,
    draws: int,
    level: float,
    ablate: str | None,
    no_effect: bool,
    tensor: str | None,
    kind: str,
    causal: bool,
    head_dimension: int | None,
    rows: int | None,
    out: Path | None,
    only_list: bool,
    as_json: bool,
) -> None:
    """Tell which attention heads are trained, what they do, and how much they matter.

    DATA is a model that reads a --text or --text-file: a local Hugging Face folder or a .gguf
    file (needs the extra hf). Each head is compared with untrained counterparts: the same inputs,
    queries and keys redrawn. DATA may also be a .npy, .npz or .safetensors file with attention
    maps (layers, heads, n, n), (heads, n, n) or (n, n), compared with Gaussian heads. Heads are
    found untrained-like, uniform, quieter, sink, positional, duplicate-token, induction, content
    or mixed.
    """
    from attnlaw.diagnostics import inspect_heads, read_attention

    if only_list:
        _print_arrays(data)
        return
    if not data.exists():
        raise click.UsageError(f"No such file or folder: {data}")
    options: dict[str, Any] = {"n_draws": draws, "level": level}
    if data.is_dir() or data.suffix == ".gguf":
        if not text and not text_file:
            raise click.UsageError(f"{data} is a model: give it a --text or a --text-file.")
        report, maps = _of_model(
            data, text, text_file, texts, tokens, ablate, out, {**options, "effect": not no_effect}
        )
    else:
        if text or text_file:
            raise click.UsageError(f"{data} is not a model and reads no text.")
        if ablate is not None:
            raise click.UsageError(f"{data} is not a model: there is nothing to ablate.")
        with working("reading the maps"):
            maps = read_attention(
                data, tensor, kind=kind, causal=causal, head_dimension=head_dimension
            )
        with progress_bar("comparing heads", 1000) as advance_to:
            report = inspect_heads(
                maps,
                head_dimension=head_dimension,
                max_tokens=tokens,
                progress=_share(advance_to),
                **options,
            )
    if out is not None:
        _save_heads(out, report, maps)
    if as_json:
        print_json(report)
    else:
        _print_heads_report(report, rows)


def _of_model(
    data: Path,
    text: tuple[str, ...],
    text_file: tuple[Path, ...],
    pieces: int,
    tokens: int,
    ablate: str | None,
    out: Path | None,
    options: dict[str, Any],
) -> tuple["HeadsReport", "AttentionMaps"]:
    from attnlaw import diagnostics

    contents = [file.read_text(encoding="utf-8", errors="replace") for file in text_file]
    with working("loading the model"):
        model = diagnostics.load_model(data)
    read = [model.read(one, tokens) for one in text]
    for file, content in zip(text_file, contents, strict=True):
        try:
            read += model.read_pieces(content, tokens, pieces)
        except ValueError as error:  # a text that is too short
            raise ValueError(str(error).replace("text", str(file), 1)) from None
    with progress_bar("comparing heads", 1000) as advance_to:
        report = diagnostics.inspect_model(
            model, read, max_tokens=tokens, progress=_share(advance_to), **options
        )
    maps = diagnostics.model_attention(model, read[0])
    if ablate is not None:
        journal = None
        if out is not None:
            _save_heads(out, report, maps)  # what is known if the rest is stopped
            journal = out / f"ablation-{ablate}.json"
        with progress_bar("ablating", 1000) as advance_to:
            distances = diagnostics.ablate_heads(
                model, read, by=ablate, journal=journal, progress=_share(advance_to)
            )
        report = diagnostics.with_ablation(report, distances)
    return report, maps


def _share(advance_to: Callable[[int], None]) -> Callable[[float], None]:
    return lambda share: advance_to(round(1000 * share))


def _save_heads(out: Path, report: "HeadsReport", maps: "AttentionMaps") -> None:
    import csv
    import io

    from attnlaw.plotting import draw_heads, heads_page

    save_json(out / "heads.json", report)
    save_text(out / "heads.html", heads_page(report, maps))
    table = io.StringIO()
    records = report.rows()
    writer = csv.DictWriter(table, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    save_text(out / "heads.csv", table.getvalue())
    save_picture(out / "heads.png", draw_heads(report))


def _print_heads_report(report: "HeadsReport", rows: int | None) -> None:
    lengths = "+".join(map(str, report.n_tokens))
    say(
        f"{report.source}: {report.n_layers} layers × {report.n_heads} heads, {lengths} tokens, "
        f"head dimension {report.head_dimension} ({report.head_dimension_from})"
    )
    say(f"Null: {report.null}, {report.n_draws} draws")
    shown = report.ranked[:rows]
    optional: dict[str, Callable[[HeadFinding], float | None]] = {
        "ablation": lambda f: f.ablation,
        "effect": lambda f: f.effect,
        "output": lambda f: f.output_norm,
        "prefix": lambda f: f.prefix_matching,
    }
    present = {k: get for k, get in optional.items() if any(get(f) is not None for f in shown)}
    cells = []
    for f in shown:
        size = [_short(get(f)) for k, get in present.items() if k != "prefix"]
        prefix = [f"{f.prefix_matching or 0:.2f}"] if "prefix" in present else []
        cells.append(
            [
                f.name, f.verdict, f"{f.share:.0%}", f"{f.agreement:.0%}", *size,
                *(f"{x:.2f}" for x in f.parts), f"{f.null_parts.total:.2f}",
                f"{f.entropy:.2f}", f"{f.sink_share:.0%}", f"{f.previous:.0%}", *prefix,
                f"{f.inverse_temperature:.2f}", f"{f.null_inverse_temperature:.2f}",
                f"{f.p_value:.0e}" if f.p_value > 1e-12 else "<1e-12",
            ]
        )  # fmt: skip
    sizes = [name for name in present if name != "prefix"]
    headings = ["head", "verdict", "share", "texts", *sizes, "common", "position", "repeat"]
    headings += ["content", "null", "entropy", "sink", "previous"]
    headings += [*(["prefix"] if "prefix" in present else []), "β", "β null", "p"]
    print_table(headings, cells)
    if len(shown) < len(report.heads):
        say(f"{len(report.heads) - len(shown)} more heads rank lower.")
    for note in report.notes:
        say(f"Note: {note}")
    if report.layer_ablations is not None:
        listed = ", ".join(f"L{k} {x:.2g}" for k, x in enumerate(report.layer_ablations))
        say(f"Layers ablated ({report.effect_unit}): {listed}.")
    say(report.verdict)
    if shown:
        say(f"{shown[0].name}: {shown[0].sentence}")


def _short(value: float | None) -> str:
    return "–" if value is None else f"{value:.2g}"
