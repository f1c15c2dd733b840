"""`attnlaw table`: what an embedding table holds."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from attnlaw.cli.options import json_option
from attnlaw.cli.output import print_json, print_table, save_json, save_picture, working
from attnlaw.cli.program import say

if TYPE_CHECKING:
    from attnlaw.diagnostics import TableOutlier, TableReport

__all__ = ["command"]

EPILOG = """\b
Examples:
  attnlaw table model.gguf
  attnlaw table model.safetensors --tensor wte.weight --out findings
  attnlaw table path/to/huggingface-folder --json
  attnlaw table model.gguf --corpus pass/statistics.npz
  attnlaw table model.safetensors --list
"""


@click.command(epilog=EPILOG)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--tensor", metavar="NAME", help="Which array of the file.")
@click.option(
    "--vocabulary",
    type=click.Path(path_type=Path),
    help="File with the words: tokenizer.json, vocab.json or vocab.txt.",
)
@click.option(
    "--corpus",
    type=click.Path(path_type=Path),
    help="What `attnlaw corpus` found of token ids: outliers beside their frequencies.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for table.png and table.json.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--list", "only_list", is_flag=True, help="Name the arrays in FILE and stop.")
@json_option
def command(
    file: Path,
    tensor: str | None,
    vocabulary: Path | None,
    corpus: Path | None,
    out: Path | None,
    seed: int,
    only_list: bool,
    as_json: bool,
) -> None:
    """Inspect an embedding table: noise, outliers and their tokens, and a check that can fail.

    FILE is a .npy, .npz, .safetensors or .gguf file, or a local Hugging Face folder.
    """
    from attnlaw.diagnostics import inspect_table, list_arrays, read_table

    if only_list:
        entries = list_arrays(file).values()
        rows = [[e.name, "×".join(map(str, e.shape)), e.dtype] for e in entries]
        print_table(["array", "shape", "type"], rows)
        return
    with working("reading the table"):
        table = read_table(file, tensor, vocabulary=vocabulary)
    with working("finding its spectrum"):
        report = inspect_table(table, corpus=corpus, rng=seed)
    if out is not None:
        from attnlaw.plotting import draw_table

        save_picture(out / "table.png", draw_table(report))
        save_json(out / "table.json", report)
    if as_json:
        print_json(report)
    else:
        _print_report(report)


def _print_report(report: "TableReport") -> None:
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
