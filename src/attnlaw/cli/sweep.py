"""`attnlaw sweep`, a grid of models beside its predictions; `attnlaw corpus`, a pass over texts.

Both compute on local processes or on a cluster, show the time left, and go on after a stop.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from attnlaw._machine import n_cores, require
from attnlaw.cli.options import FILE, FOLDER, json_option, numbers
from attnlaw.cli.output import RunBar, print_json, print_table, save_json
from attnlaw.cli.program import say

if TYPE_CHECKING:
    from xarray import Dataset

    from attnlaw.data.corpus_statistics import CorpusStatistics

__all__ = ["command", "corpus"]

EPILOG = """\b
Examples:
  attnlaw sweep examples/phase_transition.toml --out phase
  attnlaw sweep examples/phase_transition.toml --out phase --jobs 4 --json
  attnlaw sweep examples/phase_transition.toml --out phase --scheduler tcp://10.0.0.1:8786
  attnlaw sweep examples/phase_transition.toml --out phase --scheduler-file scheduler.json
"""


def _worker_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say who computes."""
    options = (
        click.option(
            "--jobs",
            type=click.IntRange(min=1),
            help="Local processes.  [default: one for each core]",
        ),
        click.option(
            "--scheduler", metavar="ADDRESS", help="Compute on this Dask cluster instead."
        ),
        click.option(
            "--scheduler-file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="The same, by the file that `dask scheduler --scheduler-file` writes.",
        ),
        click.option(
            "--tls-ca-file", metavar="FILE", help="Certificate authority of the cluster."
        ),
        click.option("--tls-cert", metavar="FILE", help="Our certificate for the cluster."),
        click.option("--tls-key", metavar="FILE", help="Its private key."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _cluster(
    jobs: int | None,
    scheduler: str | None,
    scheduler_file: Path | None,
    tls_ca_file: str | None,
    tls_cert: str | None,
    tls_key: str | None,
) -> tuple[str | Path | None, Any]:
    """Return the scheduler that is meant, if any, and its certificates."""
    if scheduler is not None and scheduler_file is not None:
        raise click.UsageError("--scheduler and --scheduler-file exclude each other.")
    cluster = scheduler_file if scheduler is None else scheduler
    if cluster is not None and jobs is not None:
        raise click.UsageError("--jobs and --scheduler exclude each other.")
    security = _security(tls_ca_file, tls_cert, tls_key)
    if security is not None and cluster is None:
        raise click.UsageError("--tls-ca-file, --tls-cert and --tls-key belong to --scheduler.")
    return cluster, security


@contextmanager
def _resumable(ctx: click.Context, bar: RunBar, unit: str) -> Iterator[None]:
    """Show how far a run is, and end one that is interrupted or fails with a sentence."""
    before = logging.root.manager.disable
    logging.disable(
        logging.CRITICAL
    )  # Dask's accounts of lost connections: what matters is raised
    try:
        with bar:
            yield
    except KeyboardInterrupt:
        say(
            f"attnlaw: stopped with {bar.n_done:,}{unit} done; the same command goes on from "
            "there",
            err=True,
        )
        ctx.exit(130)
    except (ValueError, RuntimeError) as error:
        raise click.ClickException(
            " ".join([str(error), *getattr(error, "__notes__", [])])
        ) from None
    finally:
        logging.disable(before)


@click.command(epilog=EPILOG)
@click.argument("grid", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--out",
    type=FOLDER,
    required=True,
    help="Directory of the store: a new one, or one to resume.",
)
@_worker_options
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    grid: Path,
    out: Path,
    jobs: int | None,
    as_json: bool,
    **workers: Any,
) -> None:
    """Observe every model of the grid that the TOML file GRID describes.

    The results are a labelled dataset, DIRECTORY/results.nc, with observations and predictions
    side by side. A sweep that was killed at any moment is resumed by the same command, and ends
    with the same results as if it had not been. A bar shows the time left; where there is no
    terminal, a line is printed every minute.
    """
    from attnlaw.sweeps import load_sweep, run_sweep

    cluster, security = _cluster(jobs, **workers)
    sweep = load_sweep(grid)
    n_jobs = 1 if cluster is not None else min(jobs or n_cores(), sweep.n_cells)
    bar = RunBar(sweep.n_cells)
    with _resumable(ctx, bar, f" of {sweep.n_cells:,} cells"):
        data = run_sweep(
            sweep,
            out,
            n_jobs=n_jobs,
            scheduler=cluster,
            security=security,
            progress=bar.show,
        )
    summary = _summary(data, out)
    if as_json:
        print_json(summary)
    else:
        for name, text in _facts(summary):
            say(f"{name:<16}{text}")


def _security(ca_file: str | None, certificate: str | None, key: str | None) -> Any:
    """Return the certificates for a cluster; None leaves them to Dask's configuration."""
    given = {"tls_ca_file": ca_file, "tls_client_cert": certificate, "tls_client_key": key}
    if not any(given.values()):
        return None
    for name, file in given.items():
        if file is not None and not Path(file).is_file():
            raise ValueError(f"{name} must be a file, got {file!r}.")
    distributed: Any = require("distributed", extra="cluster", purpose="A sweep on a cluster")
    kept = {name: file for name, file in given.items() if file is not None}
    return distributed.Security(require_encryption=True, **kept)


def _summary(data: "Dataset", out: Path) -> dict[str, Any]:
    field = "accuracy" if "observed_accuracy" in data else "squared_overlap"
    observed = data[f"observed_{field}"]
    gap = observed.mean("trial") - data[f"predicted_{field}"]
    return {
        "store": str(out),
        "results": str(out / "results.nc"),
        "axes": {str(name): size for name, size in observed.sizes.items()},
        "n_cells": data.attrs["n_cells"],
        "n_observations": observed.size,
        "field": field,
        "root_mean_square_gap": float((gap**2).mean() ** 0.5),
        "values_sha256": data.attrs["values_sha256"],
    }


def _facts(summary: dict[str, Any]) -> list[tuple[str, str]]:
    axes = ", ".join(f"{size} {name}" for name, size in summary["axes"].items())
    return [
        ("results", summary["results"]),
        ("axes", axes),
        ("observations", f"{summary['n_observations']:,} in {summary['n_cells']:,} cells"),
        (
            summary["field"].replace("_", " "),
            f"observed − predicted: {summary['root_mean_square_gap']:.2g} (root mean square)",
        ),
        ("open with", f"attnlaw.sweeps.open_sweep({summary['store']!r})"),
    ]


CORPUS_EPILOG = """\b
Examples:
  attnlaw corpus ids.npy --table model.gguf --out pass
  attnlaw corpus part-0.parquet part-1.parquet --column input_ids --table model.gguf --out pass
  attnlaw corpus posts.jsonl --label group --table table.npy --sif 1e-4,3e-4,1e-3 --out pass
  attnlaw corpus ids.npy --out pass --scheduler tcp://10.0.0.1:8786 --json
"""


@click.command(epilog=CORPUS_EPILOG)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--out",
    type=FOLDER,
    required=True,
    help="Directory of the pass: a new one, or one to resume.",
)
@click.option("--table", type=FILE, help="Embeddings of the tokens.")
@click.option("--sif", metavar="NUMBERS", help="Values a of smooth inverse frequency.")
@click.option("--column", default="tokens", show_default=True, help="Where the lists are.")
@click.option("--label", metavar="COLUMN", help="Column with the class of each row.")
@click.option(
    "--max-length",
    type=click.IntRange(min=1),
    default=512,
    show_default=True,
    help="Number of tokens to which longer sequences are cut.",
)
@click.option(
    "--vocab-size", type=click.IntRange(min=1), help="Number of tokens, for ids without a table."
)
@click.option(
    "--pairs",
    type=click.IntRange(min=0),
    default=0,
    help="Count pairs among this many of the most frequent tokens.",
)
@click.option("--double", is_flag=True, help="Double precision instead of single.")
@click.option(
    "--components",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="Number of leading components to report.",
)
@_worker_options
@json_option
@click.pass_context
def corpus(
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
    vectors, and need not fit in memory. A pass that was killed at any moment is resumed by the
    same command. The statistics are written to DIRECTORY/statistics.npz, which `attnlaw pool
    --corpus` and `attnlaw table --corpus` read.
    """
    from attnlaw.sweeps import corpus_statistics

    cluster, security = _cluster(jobs, **workers)
    bar = RunBar(None, "chunks")
    with _resumable(ctx, bar, " chunks"):
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
    summary = _corpus_summary(found, out, components)
    save_json(out / "corpus.json", summary)
    if as_json:
        print_json(summary)
    else:
        _print_corpus(summary)


def _corpus_summary(found: "CorpusStatistics", out: Path, components: int) -> dict[str, Any]:
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


def _print_corpus(summary: dict[str, Any]) -> None:
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
