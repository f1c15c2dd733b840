"""Compute, draw and check a set of figures, on one process or several; resumable.

Its report is one HTML page with everything inside, to read, print and send to colleagues.
"""

import base64
import json
import os
import platform
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import date
from html import escape
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.resource_tracker import ensure_running
from pathlib import Path
from typing import Any

import numpy as np

import attnlaw
from attnlaw._checks import count
from attnlaw._machine import end_with_parent, one_thread_in_children, require
from attnlaw._store import atomic_path, checksum, fingerprint
from attnlaw.figures import FIGURES, load_figure
from attnlaw.figures.figure import Check, Tables, Verdict, load_tables, save_tables
from attnlaw.plotting import style

__all__ = ["Reproduced", "reproduce", "typeset", "write_report"]

PLURAL: dict[Verdict, str] = {
    "agrees": "agree",
    "differs as known": "differ as known",
    "unexpected": "unexpected",
}

TABLE_FIGURE = "embedding_table"  # the figure that takes a table of the user's own

Progress = Callable[[str, str], None]
"""Called with ``(name, "started" | "done")`` as figures begin and end."""


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
        found = Counter(check.verdict for check in self.checks)
        if not found:
            return "a picture, nothing to compare"
        if list(found) == ["agrees"]:
            n = len(self.checks)
            return "agrees" if n == 1 else f"agrees, all {n} comparisons"
        return ", ".join(f"{found[key]} {words}" for key, words in PLURAL.items() if found[key])


@dataclass(frozen=True, kw_only=True)
class _Job:
    """What a process needs to know to make one figure."""

    name: str
    out: Path
    quick: bool
    seed: int
    inputs: dict[str, Path] = field(default_factory=dict)  # the user's own files

    @property
    def fingerprint(self) -> str:
        """Identify the computation by its setting, the software and all of the library's source.

        Results with another fingerprint are computed again. Any edit of the source changes it,
        and so does a later change of a file of the user's.
        """
        files = {
            key: [str(path.resolve()), path.stat().st_mtime_ns]
            for key, path in self.inputs.items()
        }
        setting = {"quick": self.quick, "seed": self.seed, "files": files}
        return checksum([json.dumps({**setting, "software": fingerprint()}, sort_keys=True)])


def reproduce(
    names: Sequence[str] = tuple(FIGURES),
    *,
    out: Path,
    quick: bool = False,
    n_jobs: int = 1,
    seed: int = 0,
    table: Path | None = None,
    progress: Progress = lambda name, state: None,
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
    n_jobs : int
        Number of processes; each computes whole figures with one thread of linear algebra.
    seed : int
        Every figure draws from a stream of its own, fixed by this and the figure's name.
    table : path, optional
        The user's own embedding table, for the figure ``embedding_table``.
    progress : callable
        Told ``(name, "started" | "done")`` as figures begin and end.

    Returns
    -------
    list of Reproduced
        In the order of `names`.
    """
    require("matplotlib", extra="figures", purpose="The reproduction")
    n_jobs = count("n_jobs", n_jobs)
    for name in names:
        load_figure(name)
    own = {TABLE_FIGURE: {"table": table}} if table is not None else {}
    jobs = [
        _Job(name=name, out=out, quick=quick, seed=seed, inputs=own.get(name, {}))
        for name in names
    ]
    if n_jobs > 1:
        return _reproduce_many(jobs, n_jobs, progress)
    done = []
    for job in jobs:
        progress(job.name, "started")
        done.append(_reproduce_one(job))
        progress(job.name, "done")
    return done


def _reproduce_many(jobs: list[_Job], n_jobs: int, progress: Progress) -> list[Reproduced]:
    """Give each figure a process, the most expensive first, so that no core waits at the end.

    When anything fails, or the user interrupts, the processes still at work are ended.
    """
    waiting = sorted(jobs, key=lambda job: load_figure(job.name).seconds[not job.quick])
    running: dict[Connection, tuple[_Job, BaseProcess]] = {}
    done: dict[str, Reproduced] = {}
    try:
        while waiting or running:
            while waiting and len(running) < n_jobs:
                job = waiting.pop()
                answer, process = _start(job)
                running[answer] = (job, process)
                progress(job.name, "started")
            for ready in wait(list(running)):
                assert isinstance(ready, Connection)
                job, process = running.pop(ready)
                done[job.name] = _result(ready, job, process)
                progress(job.name, "done")
    finally:
        for _, process in running.values():
            process.terminate()
        for _, process in running.values():
            process.join()
    return [done[job.name] for job in jobs]


def _start(job: _Job) -> tuple[Connection, BaseProcess]:
    """Start a process that makes one figure, and return where its result will arrive."""
    context = get_context("spawn")
    answer, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(job, sender), name=job.name, daemon=True)
    with one_thread_in_children(), _interrupt_held_back():
        process.start()
    sender.close()  # the child holds the other copy: its end is ours to see
    return answer, process


def _result(answer: Connection, job: _Job, process: BaseProcess) -> Reproduced:
    """Receive a figure, or raise what went wrong with it."""
    try:
        result = answer.recv()
    except EOFError:
        process.join()
        raise RuntimeError(
            f"the process of figure {job.name} ended with exit code {process.exitcode}; "
            "it may have run out of memory."
        ) from None
    process.join()
    if isinstance(result, BaseException):
        raise result
    assert isinstance(result, Reproduced)
    return result


def _work(job: _Job, sender: Connection) -> None:
    """Make one figure in a process of its own."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # also if a library unblocks it
    try:
        result: Reproduced | Exception = _reproduce_one(job)
    except Exception as error:
        result = error
    with suppress(BrokenPipeError):
        sender.send(result)


@contextmanager
def _interrupt_held_back() -> Iterator[None]:
    """Start children that never see Ctrl-C; it stays for the parent, which then ends them.

    A blocked signal is inherited, and one that arrives in the meantime is delivered afterwards.
    Python's resource tracker starts with the first child and unblocks the signal, so it is started
    before.
    """
    if os.name == "nt":
        yield
        return
    ensure_running()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])


def _reproduce_one(job: _Job) -> Reproduced:
    """Compute a figure unless its tables are on disk; draw and check it from the tables."""
    figure, mark = load_figure(job.name), job.fingerprint
    manifest_path = job.out / "manifests" / f"{job.name}.json"
    manifest = _read_manifest(manifest_path)
    resumed = manifest.get("fingerprint") == mark and all(
        (job.out / file).exists() for file in _table_files(job, manifest.get("tables", []))
    )
    if not resumed:
        manifest = {"fingerprint": mark, **_compute(job)}
    tables = load_tables(job.out / "tables", job.name, manifest["tables"])
    pictures = _draw(job, tables)
    checks = figure.check(tables)
    manifest["checks"] = [asdict(c) | {"verdict": c.verdict} for c in checks]
    with atomic_path(manifest_path) as partial:
        partial.write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    return Reproduced(
        name=job.name,
        title=figure.title,
        claim=figure.claim,
        setting=figure.setting(figure.sizes[not job.quick]),
        checks=checks,
        files=pictures + _table_files(job, tables),
        seconds=manifest["seconds"],
        resumed=resumed,
    )


def _compute(job: _Job) -> dict[str, Any]:
    """Compute a figure's tables and save them; return what its manifest says of them."""
    started = time.perf_counter()
    rng = np.random.default_rng([job.seed, *job.name.encode()])
    figure = load_figure(job.name)
    tables = figure.compute(figure.sizes[not job.quick], rng, **job.inputs)
    save_tables(tables, job.out / "tables", job.name)
    return {
        "tables": list(tables),
        "quick": job.quick,
        "seed": job.seed,
        "seconds": time.perf_counter() - started,
    }


def _table_files(job: _Job, tables: Sequence[str] | Tables) -> list[str]:
    return [f"tables/{job.name}-{table}.csv" for table in tables]


def _draw(job: _Job, tables: Tables) -> list[str]:
    """Draw a figure as PNG and SVG; return the names of the files."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    files = []
    with style.sheet():
        picture = load_figure(job.name).draw(tables)
        for suffix in ("png", "svg"):
            path = f"figures/{job.name}.{suffix}"
            metadata = {"Date": None} if suffix == "svg" else None
            with atomic_path(job.out / path) as partial:
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


CLASSES: dict[Verdict, str] = {"agrees": "good", "differs as known": "known", "unexpected": "bad"}
"""The page's style of each verdict."""


def write_report(figures: Sequence[Reproduced], out: Path, *, quick: bool) -> Path:
    """Write ``out/report.html``; pictures, style and mathematics are inline.

    Parameters
    ----------
    figures : sequence of Reproduced
        What `reproduce` returned; their pictures are read from `out`.
    out : path
        The folder given to `reproduce`.
    quick : bool
        Said at the top of the page, since quick numbers are not the last word.
    """
    for module in ("jinja2", "latex2mathml"):
        require(module, extra="figures", purpose="The report")
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined
    )
    environment.filters["typeset"] = lambda text: Markup(typeset(text))
    environment.filters["number"] = lambda x: f"{x:.4g}"
    environment.filters["inline_svg"] = lambda path: _data_address(out / path)
    checks = [check for figure in figures for check in figure.checks]
    page = environment.get_template("report.html.j2").render(
        figures=figures,
        quick=quick,
        n_checks=len(checks),
        counts=Counter(check.verdict for check in checks),
        classes=CLASSES,
        seconds=sum(figure.seconds for figure in figures),
        today=date.today().isoformat(),
        versions=f"attnlaw {attnlaw.__version__}, NumPy {np.__version__}, "
        f"Python {platform.python_version()}",
    )
    path = out / "report.html"
    with atomic_path(path) as partial:
        partial.write_text(page, encoding="utf-8")
    return path


def typeset(text: str) -> str:
    r"""Turn plain words with $…$ formulas into HTML with MathML, which browsers draw offline.

    Examples
    --------
    >>> typeset("a < b").startswith("a &lt; b")
    True
    >>> "<math" in typeset(r"edge $\lambda_+$")
    True
    """
    from latex2mathml.converter import convert

    parts = re.split(r"\$(.+?)\$", text)
    return "".join(
        convert(part) if i % 2 else re.sub(r"\*(.+?)\*", r"<em>\1</em>", escape(part))
        for i, part in enumerate(parts)
    )


def _data_address(path: Path) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(path.read_bytes()).decode()
