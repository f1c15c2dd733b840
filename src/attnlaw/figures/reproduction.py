"""Compute, draw and judge a set of figures, on one process or several; go on after a stop."""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any

import numpy as np

from attnlaw._checks import count
from attnlaw.figures import FIGURES, load_figure
from attnlaw.figures.embedding_table import USER_FILE
from attnlaw.figures.figure import Check
from attnlaw.figures.storage import atomic_path, fingerprint, load_tables, save_tables
from attnlaw.plotting import style

__all__ = ["Reproduced", "reproduce"]

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


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
    mark = fingerprint(quick=quick, seed=seed, table=os.environ.get(USER_FILE))
    if jobs == 1:
        done = {}
        for name in names:
            progress(name, "started")
            done[name] = _reproduce_one(name, out, quick, seed, mark)
            progress(name, "done")
        return [done[name] for name in names]
    return _reproduce_many(names, out, quick, seed, mark, jobs, progress)


def _reproduce_many(
    names: Sequence[str],
    out: Path,
    quick: bool,
    seed: int,
    mark: str,
    jobs: int,
    progress: Callable[[str, str], None],
) -> list[Reproduced]:
    """Hand figures to processes, the most expensive first, so that no core waits at the end."""
    waiting = sorted(names, key=lambda name: -load_figure(name).SECONDS[0 if quick else 1])
    running: dict[Future[Reproduced], str] = {}
    done: dict[str, Reproduced] = {}
    workers = ProcessPoolExecutor(jobs, get_context("spawn"), initializer=end_with_parent)
    with _one_thread_each(), workers as pool:
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    name = waiting.pop(0)
                    running[pool.submit(_reproduce_one, name, out, quick, seed, mark)] = name
                    progress(name, "started")
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    name = running.pop(future)
                    done[name] = future.result()
                    progress(name, "done")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(pool._processes.values()):
                process.terminate()
            raise
    return [done[name] for name in names]


def end_with_parent() -> None:
    """Let this process end when the one that started it does, however that ends.

    Idle workers of a killed parent would wait for it for ever.
    """

    def watch() -> None:
        parent = parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Let child processes start with one BLAS thread: more fight for the same cores."""
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _reproduce_one(name: str, out: Path, quick: bool, seed: int, mark: str) -> Reproduced:
    """Compute a figure unless its tables are on disk; draw and judge it from the tables."""
    figure = load_figure(name)
    manifest_path = out / "manifests" / f"{name}.json"
    manifest = _read_manifest(manifest_path)
    files = [f"tables/{name}-{table}.csv" for table in manifest.get("tables", [])]
    resumed = manifest.get("fingerprint") == mark and all((out / f).exists() for f in files)
    if not resumed:
        started = time.perf_counter()
        rng = np.random.default_rng([seed, *name.encode()])
        tables = figure.compute(quick, rng)
        save_tables(tables, out / "tables", name)
        manifest = {
            "fingerprint": mark,
            "tables": list(tables),
            "quick": quick,
            "seed": seed,
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
        setting=figure.setting(quick),
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
