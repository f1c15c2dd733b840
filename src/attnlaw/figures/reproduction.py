"""Compute, draw and judge a set of figures, on one process or several; go on after a stop."""

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from attnlaw._checks import count
from attnlaw._extras import require
from attnlaw._machine import end_with_parent, one_thread_in_children
from attnlaw._store import atomic_path, checksum, fingerprint
from attnlaw.figures import FIGURES, load_figure
from attnlaw.figures.figure import Check
from attnlaw.figures.storage import load_tables, save_tables
from attnlaw.plotting import style

__all__ = ["Reproduced", "reproduce"]

TABLE_FIGURE = "embedding_table"  # the figure that takes a table of the user's own


@dataclass(frozen=True, kw_only=True)
class Reproduced:
    """One figure, done: where its files are, what it found, and how long it took."""

    name: str
    title: str
    claim: str
    setting: dict[str, str]
    checks: list[Check]
    files: list[str]  # relative to the output folder: png, svg, then the tables
    seconds: float  # of computing; kept from the first run when it is resumed
    resumed: bool

    @property
    def verdict(self) -> str:
        """Summary of the checks in words."""
        n, n_agree = len(self.checks), sum(c.agrees for c in self.checks)
        if n == 0:
            return "a picture, nothing to compare"
        if n_agree == n:
            every = "the one comparison" if n == 1 else f"all {n} comparisons"
            return f"agrees: {every} within tolerance"
        return f"{n_agree} of {n} comparisons within tolerance, {n - n_agree} not"


def reproduce(
    names: Sequence[str] = FIGURES,
    *,
    out: Path,
    quick: bool = False,
    jobs: int = 1,
    seed: int = 0,
    table: Path | None = None,
    progress: Callable[[str, str], None] = lambda name, state: None,
) -> list[Reproduced]:
    """Reproduce figures into a folder; figures that are there already are not computed again.

    Parameters
    ----------
    names : sequence of str
        Figures to make; all of them by default.
    out : path
        Folder for pictures, tables and manifests.
    quick : bool
        Smaller sizes and fewer trials.
    jobs : int
        Number of processes; each computes whole figures with one thread of linear algebra.
    seed : int
        Every figure draws from a stream of its own, fixed by this and the figure's name.
    table : path, optional
        An embedding table of the user's own, for the figure ``embedding_table``.
    progress : callable
        Told ``(name, "started" | "done")`` as figures begin and end.

    Returns
    -------
    list of Reproduced
        In the order of `names`.
    """
    jobs = count("jobs", jobs)
    for name in names:
        load_figure(name)
    require("matplotlib", extra="figures", purpose="A figure")
    run = _Run(out=out, quick=quick, seed=seed, table=None if table is None else table.resolve())
    if jobs > 1:
        return _reproduce_many(names, run, jobs, progress)
    done = []
    for name in names:
        progress(name, "started")
        done.append(_reproduce_one(name, run))
        progress(name, "done")
    return done


@dataclass(frozen=True, kw_only=True)
class _Run:
    """What the figures of one call of `reproduce` have in common."""

    out: Path
    quick: bool
    seed: int
    table: Path | None

    def own_files(self, name: str) -> dict[str, Path]:
        """Return the user's own files that a figure takes."""
        return {"table": self.table} if self.table is not None and name == TABLE_FIGURE else {}

    def mark(self, name: str) -> str:
        """Identify a computation by its setting, the software and all of the library's source.

        Results with another mark are computed again. Any edit of the source changes the mark;
        an edit of the user's own file, whose name alone is in it, does not.
        """
        files = {key: str(path) for key, path in self.own_files(name).items()}
        setting = {"quick": self.quick, "seed": self.seed, **files, "software": fingerprint()}
        return checksum([json.dumps(setting, sort_keys=True)])


def _reproduce_many(
    names: Sequence[str], run: _Run, jobs: int, progress: Callable[[str, str], None]
) -> list[Reproduced]:
    """Hand figures to processes, the most expensive first, so that no core waits at the end."""
    waiting = sorted(names, key=lambda name: -load_figure(name).SECONDS[0 if run.quick else 1])
    running: dict[Future[Reproduced], str] = {}
    done: dict[str, Reproduced] = {}
    context = get_context("spawn")
    lifeline, end_of_parent = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(jobs, context, initializer=end_with_parent, initargs=(lifeline,))
    with one_thread_in_children(), pool:
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    name = waiting.pop(0)
                    running[pool.submit(_reproduce_one, name, run)] = name
                    progress(name, "started")
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    name = running.pop(future)
                    done[name] = future.result()
                    progress(name, "done")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            end_of_parent.close()  # the workers end at once
            raise
    return [done[name] for name in names]


def _reproduce_one(name: str, run: _Run) -> Reproduced:
    """Compute a figure unless its tables are on disk; draw and judge it from the tables."""
    figure, out, mark = load_figure(name), run.out, run.mark(name)
    manifest_path = out / "manifests" / f"{name}.json"
    manifest = _read_manifest(manifest_path)
    files = [f"tables/{name}-{table}.csv" for table in manifest.get("tables", [])]
    resumed = manifest.get("fingerprint") == mark and all((out / f).exists() for f in files)
    if not resumed:
        started = time.perf_counter()
        rng = np.random.default_rng([run.seed, *name.encode()])
        tables = figure.compute(run.quick, rng, **run.own_files(name))
        save_tables(tables, out / "tables", name)
        manifest = {
            "fingerprint": mark,
            "tables": list(tables),
            "quick": run.quick,
            "seed": run.seed,
            "seconds": time.perf_counter() - started,
        }
    tables = load_tables(out / "tables", name, manifest["tables"])
    pictures = _draw(name, tables, out)
    checks = figure.check(tables)
    manifest["checks"] = [asdict(c) | {"agrees": c.agrees} for c in checks]
    with atomic_path(manifest_path) as partial:
        partial.write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    return Reproduced(
        name=name,
        title=figure.TITLE,
        claim=figure.CLAIM,
        setting=figure.setting(run.quick),
        checks=checks,
        files=pictures + [f"tables/{name}-{table}.csv" for table in tables],
        seconds=manifest["seconds"],
        resumed=resumed,
    )


def _draw(name: str, tables: Any, out: Path) -> list[str]:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    files = []
    with style.sheet():
        picture = load_figure(name).draw(tables)
        for suffix in ("png", "svg"):
            path = f"figures/{name}.{suffix}"
            metadata = {"Date": None} if suffix == "svg" else None
            with atomic_path(out / path) as partial:
                picture.savefig(partial, metadata=metadata)
            files.append(path)
        plt.close(picture)
    return files


def _read_manifest(path: Path) -> dict[str, Any]:
    """Return what an earlier run left; nothing when there is none or it cannot be read."""
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return manifest if isinstance(manifest, dict) else {}
