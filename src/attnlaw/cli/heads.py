"""`attnlaw heads`: which attention heads do what random ones would not."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

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
    from attnlaw.diagnostics import AttentionMaps, HeadsReport

__all__ = ["command"]

EPILOG = """\b
Examples:
  attnlaw heads maps.npy --out findings
  attnlaw heads path/to/huggingface-folder --text-file article.txt --out findings
  attnlaw heads model.gguf --text "It was a dark and stormy night; the rain fell …"
  attnlaw heads scores.npz --kind scores --causal --head-dimension 64
  attnlaw heads qk.safetensors --kind queries --causal --json
"""


@click.command(epilog=EPILOG)
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--text", metavar="TEXT", help="What a model reads, when DATA is a model.")
@click.option("--text-file", type=click.Path(path_type=Path), help="The same from a file.")
@click.option("--tensor", metavar="NAME", help="Which array of the file.")
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
    help="Width d_k of a head.  [default: known to a model; else told from the maps]",
)
@click.option(
    "--tokens",
    type=click.IntRange(min=8),
    default=512,
    show_default=True,
    help="Look at the first so many tokens.",
)
@click.option(
    "--level",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.01,
    show_default=True,
    help="Chance of calling a random head structured.",
)
@click.option("--rows", type=click.IntRange(min=0), help="Print so many heads.  [default: all]")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for heads.png, heads.json and a picture of each head.",
)
@click.option("--pictures", type=click.IntRange(min=0), help="Draw so many.  [default: all]")
@click.option("--list", "only_list", is_flag=True, help="Name the arrays in DATA and stop.")
@json_option
def command(
    data: Path,
    text: str | None,
    text_file: Path | None,
    tensor: str | None,
    kind: str,
    causal: bool,
    head_dimension: int | None,
    tokens: int,
    level: float,
    rows: int | None,
    out: Path | None,
    pictures: int | None,
    only_list: bool,
    as_json: bool,
) -> None:
    """Compare attention heads with heads whose queries and keys are random.

    DATA is a .npy, .npz or .safetensors file with attention maps (layers, heads, n, n),
    (heads, n, n) or (n, n); or a model that reads a --text: a local Hugging Face folder or a
    .gguf file (needs the extra hf). Each head is found structured, random-like, collapsed (all
    tokens attend alike) or saturated (one-hot, but to random tokens), most structured first.
    """
    from attnlaw.diagnostics import inspect_heads, list_arrays

    if only_list:
        entries = list_arrays(data).values()
        shapes = [[e.name, "×".join(map(str, e.shape)), e.dtype] for e in entries]
        print_table(["array", "shape", "type"], shapes)
        return
    maps = _maps(data, text, text_file, tensor, kind, causal, head_dimension, tokens)
    total = maps.weights.shape[0] * maps.weights.shape[1]
    with progress_bar("comparing heads", total) as advance_to:
        report = inspect_heads(
            maps,
            head_dimension=head_dimension,
            level=level,
            max_tokens=tokens,
            progress=advance_to,
        )
    if out is not None:
        _save(out, report, maps, pictures)
    if as_json:
        print_json(report)
    else:
        _print_report(report, rows)


def _maps(
    data: Path,
    text: str | None,
    text_file: Path | None,
    tensor: str | None,
    kind: str,
    causal: bool,
    head_dimension: int | None,
    tokens: int,
) -> "AttentionMaps":
    from attnlaw.diagnostics import model_attention, read_attention

    if text is not None and text_file is not None:
        raise click.UsageError("--text and --text-file exclude each other; give one of them.")
    if data.is_dir() or data.suffix == ".gguf":
        if text_file is not None:
            text = text_file.read_text(encoding="utf-8", errors="replace")
        if text is None:
            raise click.UsageError(f"{data.name} is a model: give it a --text or a --text-file.")
        with working("running the model"):
            return model_attention(data, text, max_tokens=tokens)
    if text is not None or text_file is not None:
        raise click.UsageError(f"{data.name} is no model folder and reads no text.")
    with working("reading the maps"):
        return read_attention(
            data, tensor, kind=kind, causal=causal, head_dimension=head_dimension
        )


def _save(out: Path, report: "HeadsReport", maps: "AttentionMaps", pictures: int | None) -> None:
    from attnlaw.plotting import draw_head, draw_heads

    save_json(out / "heads.json", report)
    save_picture(out / "heads.png", draw_heads(report))
    chosen = report.by_structure[:pictures]
    with progress_bar("drawing heads", len(chosen)) as advance_to:
        for done, finding in enumerate(chosen, start=1):
            picture = draw_head(finding, maps[finding.layer, finding.head])
            save_picture(out / f"{finding.name}.png", picture, dpi=100)
            advance_to(done)


def _print_report(report: "HeadsReport", rows: int | None) -> None:
    say(
        f"{report.source}: {report.n_layers} layers × {report.n_heads} heads, {report.n_tokens} "
        f"tokens, head dimension {report.head_dimension} ({report.head_dimension_from})"
    )
    shown = report.by_structure[:rows]
    cells = []
    for f in shown:
        share = f.positional_share
        pattern = f"{share:.0%} {f.positional_pattern}" if share >= 0.05 else "–"
        cells.append(
            [
                f.name, f.verdict, f"{f.structure:.3f}", f"{f.distance:.3f}",
                f"{f.limits.distance:.3f}", str(f.n_outliers), f"{f.inverse_temperature:.2f}",
                f"{f.stable_rank:.1f}", f"{f.distance_to_uniform:.2f}",
                f"{f.distance_to_one_hot:.2f}", pattern, "causal" if f.causal else "–", f.null,
                f"{f.p_value:.0e}" if f.p_value > 1e-12 else "<1e-12",
            ]
        )  # fmt: skip
    headings = ["head", "verdict", "structure", "distance", "random ≤", "outliers", "β"]
    headings += [
        "stable rank",
        "to uniform",
        "to one-hot",
        "positional pattern",
        "mask",
        "law by",
        "p",
    ]
    print_table(headings, cells)
    if len(shown) < len(report.heads):
        say(f"{len(report.heads) - len(shown)} more heads are less structured.")
    for note in report.notes:
        say(f"Note: {note}")
    say(report.verdict)
    if report.heads:
        most = report.by_structure[0]
        say(f"{most.name}: {most.sentence}")
