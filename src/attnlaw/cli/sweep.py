"""`attnlaw sweep`: a grid of models, observed beside its predictions."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import click

from attnlaw._machine import n_cores, require
from attnlaw.cli.options import json_option
from attnlaw.cli.output import print_json
from attnlaw.cli.program import say

if TYPE_CHECKING:
    from xarray import Dataset

__all__ = ["RunBar", "cluster_from", "command", "resumable", "worker_options"]

LINE_SECONDS = 60  # between lines of a log

EPILOG = """\b
Examples:
  attnlaw sweep examples/phase_transition.toml --out phase
  attnlaw sweep examples/phase_transition.toml --out phase --jobs 4 --json
  attnlaw sweep examples/phase_transition.toml --out phase --scheduler tcp://10.0.0.1:8786
  attnlaw sweep examples/phase_transition.toml --out phase --scheduler-file scheduler.json
"""


def worker_options(command: Callable[..., Any]) -> Callable[..., Any]:
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


def cluster_from(
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
def resumable(ctx: click.Context, bar: "RunBar", unit: str) -> Iterator[None]:
    """Show how far a run is, and end one that is interrupted or fails with a sentence."""
    try:
        with bar, without_logs():
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


@click.command(epilog=EPILOG)
@click.argument("grid", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Directory of the store: a new one, or one to go on with.",
)
@worker_options
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    grid: Path,
    out: Path,
    jobs: int | None,
    scheduler: str | None,
    scheduler_file: Path | None,
    tls_ca_file: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    as_json: bool,
) -> None:
    """Observe every model of the grid that the TOML file GRID describes.

    The results are a labelled dataset, DIRECTORY/results.nc, with observations and predictions
    side by side. Killed at any moment, the same command goes on where it stopped, and ends with
    the same results as if nothing had happened. A bar shows the time left; where there is no
    terminal, a line every minute does.
    """
    from attnlaw.sweeps import load_sweep, run_sweep

    cluster, security = cluster_from(
        jobs, scheduler, scheduler_file, tls_ca_file, tls_cert, tls_key
    )
    sweep = load_sweep(grid)
    n_jobs = 1 if cluster is not None else min(jobs or n_cores(), sweep.n_cells)
    bar = RunBar(sweep.n_cells)
    with resumable(ctx, bar, f" of {sweep.n_cells:,} cells"):
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


@contextmanager
def without_logs() -> Iterator[None]:
    """Keep Dask's accounts of lost connections off the terminal: what matters is raised."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


class RunBar:
    """The cells done and the time left on stderr: a bar, or now and then a line in a log."""

    def __init__(self, n_cells: int | None, what: str = "cells") -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        console = Console(stderr=True)
        self.n_done, self._what = 0, what
        self._begun: tuple[float, int] | None = None  # when, with how many cells done
        self._last_line = time.monotonic()
        self._progress = Progress(
            TextColumn(what),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("· left"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
            speed_estimate_period=600,  # cells differ in size
        )
        self._task = self._progress.add_task(what, total=n_cells)

    def show(self, n_done: int, n_cells: int) -> None:
        """Show how far the run is."""
        if n_done < self.n_done:  # another pass
            self._begun = None
        self.n_done = n_done
        if self._begun is None:  # what an earlier run has done says nothing about the time left
            self._progress.reset(self._task, completed=n_done, total=n_cells)
        else:
            self._progress.update(self._task, completed=n_done)
        now = time.monotonic()
        begun, n_before = self._begun = self._begun or (now, n_done)
        if self._progress.disable and now > self._last_line + LINE_SECONDS and n_done > n_before:
            left = timedelta(
                seconds=round((now - begun) * (n_cells - n_done) / (n_done - n_before))
            )
            say(f"attnlaw: {n_done:,} of {n_cells:,} {self._what} done, {left} left", err=True)
            self._last_line = now

    def __enter__(self) -> None:
        if not self._progress.disable:  # else older versions of rich print an empty line
            self._progress.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._progress.disable:
            self._progress.stop()


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
