"""Run a sweep, or what is left of it."""

import warnings
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from attnlaw._checks import count, invalid_argument
from attnlaw._machine import one_blas_thread, require
from attnlaw._store import require_room
from attnlaw.sweeps import dataset
from attnlaw.sweeps.cells import Results, compute, rehearse
from attnlaw.sweeps.cluster import connected, on_dask
from attnlaw.sweeps.grid import Sweep
from attnlaw.sweeps.processes import on_processes
from attnlaw.sweeps.store import (
    JOURNAL,
    RESULTS,
    check_same,
    has_results,
    is_finished,
    journal_size,
    open_journal,
    put_results,
    read_journal,
    read_manifest,
    writing,
)

if TYPE_CHECKING:
    from distributed import Client, Security
    from distributed.deploy.cluster import Cluster
    from xarray import Dataset

__all__ = ["Progress", "open_sweep", "run_sweep"]

Progress = Callable[[int, int], None]
"""Called with the number of cells done and of all cells: at the start and after each cell."""


def run_sweep(
    sweep: Sweep,
    path: str | Path,
    *,
    n_jobs: int = 1,
    scheduler: "str | Path | Client | Cluster | None" = None,
    security: "Security | None" = None,
    progress: Progress | None = None,
) -> "Dataset":
    """Observe every cell of a sweep that is not yet in its store, and return the dataset.

    Parameters
    ----------
    sweep : Sweep
        The grid.
    path : str or Path
        Directory of the store: a new one, or one that was begun with the same sweep, which is
        then continued. A run that was killed loses the cells in flight and nothing else.
    n_jobs : int
        Number of local processes; with 1 the cells are computed here.
    scheduler : str, Path, distributed.Client or cluster, optional
        A Dask cluster to compute on instead: the address of its scheduler, the file that
        ``dask scheduler --scheduler-file`` writes (a Path), a client, or a cluster object of
        dask-jobqueue, Kubernetes or `distributed`. Workers with another attnlaw are refused.
    security : distributed.Security, optional
        Certificates with which to reach the scheduler (TLS); by default those of Dask's own
        configuration.
    progress : callable, optional
        Called with the number of cells done and of all cells.

    Returns
    -------
    xarray.Dataset
        As `open_sweep` gives it. The values depend neither on `n_jobs` or `scheduler` nor on
        how often the sweep was interrupted.

    Raises
    ------
    StoreError
        When the store is being written by somebody else, or is that of another sweep or of
        another version of the code.

    Examples
    --------
    >>> import tempfile
    >>> sweep = Sweep(
    ...     dimension=40, vocab_ratio=0.5, sample_ratio=0.25, signal_norm=[0.0, 3.0],
    ...     weights=["mean", "optimal"], n_trials=2,
    ...     correlation={"kind": "prefix", "length": 4, "prefix": 2})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     data = run_sweep(sweep, folder + "/store")
    >>> dict(data.observed_squared_overlap.sizes)
    {'weights': 2, 'signal_norm': 2, 'trial': 2}
    """
    count("n_jobs", n_jobs)
    if scheduler is not None and n_jobs != 1:
        raise invalid_argument("n_jobs", "left out when a scheduler is given", n_jobs)
    _require_extras()
    if scheduler is not None:
        require("distributed", extra="cluster", purpose="A sweep on a cluster")
    store = Path(path)
    if is_finished(store):  # perhaps by somebody else, in a place where nothing may be written
        check_same(store, sweep)
        if progress is not None:
            progress(sweep.n_cells, sweep.n_cells)
        return open_sweep(store)
    rehearse(sweep, n_jobs if scheduler is None else None)
    cluster = nullcontext() if scheduler is None else connected(scheduler, security)
    with cluster as client, writing(store, sweep):
        if not has_results(store):
            require_room(store, _bytes_to_write(sweep, store / JOURNAL))
            _compute_missing(sweep, store / JOURNAL, n_jobs, client, progress)
        elif progress is not None:
            progress(sweep.n_cells, sweep.n_cells)
        put_results(store, lambda partial: dataset.save(_from_journal(store), partial))
    return open_sweep(store)


def open_sweep(path: str | Path) -> "Dataset":
    """Open the dataset of a store, finished or not.

    Parameters
    ----------
    path : str or Path
        Directory of the store; another process may be writing it.

    Returns
    -------
    xarray.Dataset
        For each field of `Spike` (of `Accuracy` if there is a ridge) a variable ``observed_…``
        with the axes of the sweep and ``trial``, and a variable ``predicted_…`` with the axes
        on which the theory depends. Cells that are not done yet are NaN; the attribute
        ``n_cells_missing`` counts them.

    Raises
    ------
    StoreError
        When the results are damaged, which a digest of the whole file tells. If the journal is
        still there, the numbers come from it, with a warning that names the file.
    """
    _require_extras()
    store = Path(path)
    if not has_results(store):
        data = _from_journal(store)
        if not has_results(store):  # else it was finished while we were reading
            if (store / RESULTS).exists():
                warnings.warn(
                    f"{store / RESULTS} is damaged: these numbers come from the journal, and "
                    "running the sweep again rebuilds the file.",
                    stacklevel=2,
                )
            return data
    return dataset.load(store / RESULTS)


def _compute_missing(
    sweep: Sweep,
    journal: Path,
    n_jobs: int,
    client: "Client | None",
    progress: Progress | None,
) -> None:
    done, _ = read_journal(journal, sweep)
    # In a shuffled order small and large cells alternate, so the time left can be told from
    # the time taken, and what an unfinished sweep shows is spread over the grid.
    cells = np.random.default_rng(0).permutation(np.flatnonzero(~done)).tolist()
    n_done = sweep.n_cells - len(cells)
    if progress is not None:
        progress(n_done, sweep.n_cells)
    if not cells:
        return
    if client is not None:
        results = on_dask(sweep, cells, client)
    elif n_jobs > 1:
        results = on_processes(sweep, cells, n_jobs)
    else:
        results = _here(sweep, cells)
    with open_journal(journal, sweep) as book, closing(results):
        for index, values in results:
            book.append(index, values)
            n_done += 1
            if progress is not None:
                progress(n_done, sweep.n_cells)


def _bytes_to_write(sweep: Sweep, journal: Path) -> int:
    """Return the room for the rest of the journal and, beside it, the results."""
    written = journal.stat().st_size if journal.exists() else 0
    return 2 * journal_size(sweep) - written


def _here(sweep: Sweep, cells: Sequence[int]) -> Results:
    with one_blas_thread():
        for index in cells:
            yield index, compute(sweep, index)


def _from_journal(store: Path) -> "Dataset":
    sweep, software = read_manifest(store)
    done, values = read_journal(store / JOURNAL, sweep)
    return dataset.labelled(sweep, done, values, software)


def _require_extras() -> None:
    """Raise the install hint before any work is done that could then not be saved."""
    for module in ("xarray", "netCDF4"):
        require(module, extra="sweeps", purpose="A sweep")
