"""`attnlaw corpus`: counts and covariances of a corpus of any size, in one pass."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from attnlaw._machine import n_cores
from attnlaw.cli.options import json_option, numbers
from attnlaw.cli.output import print_json, print_table, save_json
from attnlaw.cli.program import say
from attnlaw.cli.sweep import RunBar, cluster_from, resumable, worker_options

if TYPE_CHECKING:
    from attnlaw.data.corpus_statistics import CorpusStatistics

__all__ = ["command"]

EPILOG = """\b
Examples:
  attnlaw corpus ids.npy --table model.gguf --out pass
  attnlaw corpus part-0.parquet part-1.parquet --column input_ids --table model.gguf --out pass
  attnlaw corpus posts.jsonl --label group --table table.npy --sif 1e-4,3e-4,1e-3 --out pass
  attnlaw corpus ids.npy --out pass --scheduler tcp://10.0.0.1:8786 --json
"""


@click.command(epilog=EPILOG)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Directory of the pass: a new one, or one to go on with.",
)
@click.option("--table", type=click.Path(path_type=Path), help="Embeddings of the tokens.")
@click.option("--sif", metavar="NUMBERS", help="Values a of smooth inverse frequency.")
@click.option("--column", default="tokens", show_default=True, help="Where the lists are.")
@click.option("--label", metavar="COLUMN", help="Column with the class of each row.")
@click.option("--max-length", type=click.IntRange(min=1), default=512, show_default=True)
@click.option("--vocab-size", type=click.IntRange(min=1), help="Of ids without a table.")
@click.option(
    "--pairs",
    type=click.IntRange(min=0),
    default=0,
    help="Count pairs among so many of the most frequent tokens.",
)
@click.option("--double", is_flag=True, help="Double precision in place of single.")
@click.option("--components", type=click.IntRange(min=1), default=8, show_default=True)
@worker_options
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    files: tuple[Path, ...],
    out: Path,
    table: Path | None,
    sif: str | None,
    column: str,
    label: str | None,
    max_length: int,
    vocab_size: int | None,
    pairs: int,
    double: bool,
    components: int,
    jobs: int | None,
    as_json: bool,
    **workers: Any,
) -> None:
    """Count tokens and find the covariance of pooled sequences in one pass over FILES.

    FILES are .npy, .parquet, .arrow or .jsonl files, or Zarr folders, with token ids or with
    vectors, and need not fit in memory. Killed at any moment, the same command goes on where it
    stopped. What is found is written to DIRECTORY/statistics.npz, which `attnlaw pool --corpus`
    and `attnlaw table --corpus` read.
    """
    from attnlaw.sweeps import corpus_statistics

    cluster, security = cluster_from(jobs, **workers)
    bar = RunBar(None, "chunks")
    with resumable(ctx, bar, " chunks"):
        found = corpus_statistics(
            list(files),
            table,
            sif=None if sif is None else numbers("sif", sif),
            column=column,
            label=label,
            max_length=max_length,
            n_vocab=vocab_size,
            pairs=pairs,
            dtype="float64" if double else "float32",
            store=out / "pass",
            n_jobs=1 if cluster is not None else jobs or n_cores(),
            scheduler=cluster,
            security=security,
            progress=bar.show,
        )
    found.save(out / "statistics.npz")
    summary = _summary(found, out, components)
    save_json(out / "corpus.json", summary)
    if as_json:
        print_json(summary)
    else:
        _print(summary)


def _summary(found: "CorpusStatistics", out: Path, components: int) -> dict[str, Any]:
    from attnlaw import effective_vocabulary, reliable_components, signal_components

    summary: dict[str, Any] = {
        "statistics": str(out / "statistics.npz"),
        "n_sequences": found.n_sequences,
    }
    if found.n_tokens:
        summary |= {
            "n_tokens": found.n_tokens,
            "mean_length": found.n_tokens / found.n_sequences,
            "distinct_tokens": int((found.token_counts > 0).sum()),
            "effective_vocabulary": effective_vocabulary(found.frequencies),
        }
    if found.classes:
        summary["classes"] = dict(zip(found.classes, found.class_counts.tolist(), strict=True))
    if found.pooled:
        d = len(found.pooled[0].mean)
        summary["dimension"] = d
        summary["components"] = []
        for k in range(len(found.pooled)):
            fitted, held_out = found.held_out_variances(min(components, d), k)
            one = found.weighting(k)
            summary["components"].append(
                {
                    "a": None if found.a is None else float(found.a[k]),
                    "eigenvalues": fitted.tolist(),
                    "held_out_variances": held_out.tolist(),
                    "n_reliable": reliable_components(one).n_reliable,
                    "n_detected": signal_components(one).test.n_signals,
                }
            )
    return summary


def _print(summary: dict[str, Any]) -> None:
    plain = ("n_sequences", "n_tokens", "mean_length", "distinct_tokens", "effective_vocabulary")
    facts = [
        (name.removeprefix("n_").replace("_", " "), summary[name])
        for name in plain
        if name in summary
    ]
    if "classes" in summary:
        facts.append(("classes", len(summary["classes"])))
    print_table(["corpus", ""], facts)
    for part in summary.get("components", [])[:3]:
        what = "component" if part["a"] is None else f"component (a = {part['a']:.3g})"
        pairs = zip(part["eigenvalues"], part["held_out_variances"], strict=True)
        rows = [[k, *pair] for k, pair in enumerate(pairs, start=1)]
        print_table([what, "eigenvalue", "held-out variance"], rows)
        say(
            f"{part['n_reliable']} components are reproduced by the other half, "
            f"{part['n_detected']} are more than noise"
        )
    say(f"statistics in {summary['statistics']}")
