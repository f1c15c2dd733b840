"""Run a sweep, or what is left of it; its results are a labelled dataset.

Observed and predicted values stand side by side in it.
"""

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats, RegimeWarning, count, invalid_argument
from attnlaw._machine import one_blas_thread, require
from attnlaw._store import checksum, require_room
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
    _predicted(sweep)  # what the dataset would raise, before any cell is computed
    cluster = nullcontext() if scheduler is None else connected(scheduler, security)
    with cluster as client, writing(store, sweep):
        if not has_results(store):
            require_room(store, _bytes_to_write(sweep, store / JOURNAL))
            _compute_missing(sweep, store / JOURNAL, n_jobs, client, progress)
        elif progress is not None:
            progress(sweep.n_cells, sweep.n_cells)
        put_results(store, lambda partial: _save(_from_journal(store), partial))
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
    return _load(store / RESULTS)


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
    return _labelled(sweep, done, values, software)


def _require_extras() -> None:
    """Raise the install hint before any work is done that could then not be saved."""
    for module in ("xarray", "netCDF4"):
        require(module, extra="sweeps", purpose="A sweep")


NUMBERS = ("ridge", "vocab_ratio", "sample_ratio", "signal_norm")  # theory broadcasts over these

MEANING = {
    "top_eigenvalue": "eigenvalue λ of the sample covariance along the signal",
    "squared_overlap": "squared overlap ζ of its eigenvector with the signal",
    "bulk_edge": "right edge λ₊ of the noise bulk",
    "population_eigenvalue": "eigenvalue ℓ of the population covariance along the signal",
    "population_overlap": "squared overlap of its eigenvector with the signal",
    "sample_overlap": "squared overlap of sample and population eigenvectors",
    "mean_eigenvalue": "eigenvalue of the sample covariance along the mean of the table",
    "is_detectable": "whether the signal leaves the bulk",
    "accuracy": "share of test labels whose sign is right",
    "mean_squared_error": "test error of the score",
    "signal_gain": "gain A of the score: it is A (w·s) plus noise",
    "noise_variance": "variance v of that noise",
}


def _labelled(
    sweep: Sweep, done: NDArray[np.bool_], values: Floats, software: Mapping[str, str]
) -> "Dataset":
    """Return the dataset of a sweep from what its cells observed.

    Parameters
    ----------
    sweep : Sweep
        The grid.
    done, values
        As `read_journal` gives them. Cells that are not done are NaN in the dataset.
    software : mapping
        Versions, for the attributes.

    Returns
    -------
    xarray.Dataset
        ``observed_…`` with the axes of the sweep and ``trial``, ``predicted_…`` with those axes
        on which the theory depends, for each field of `Spike` (or `Accuracy`).
    """
    import xarray as xr

    cell_axes = sweep.cell_axes
    dims = [*(name for name in cell_axes if name != "first_trial"), "trial", *sweep.shared_axes]
    sizes = {**{name: len(v) for name, v in sweep.axes.items()}, "trial": sweep.n_trials}
    # cells × (field, trial, shared axes): bring the field to the front, join pieces of trials
    columns = np.moveaxis(values, 1, 0).reshape(-1, *(sizes[name] for name in dims))
    order = [*sweep.axes, "trial"]
    complete = bool(done.all())
    variables: dict[str, Any] = {}
    for name, column in zip(sweep.result_fields, columns, strict=True):
        observed = xr.DataArray(column, dims=dims).transpose(*order)
        if name == "is_detectable" and complete:
            observed = observed.astype(bool)
        variables[f"observed_{name}"] = observed.assign_attrs(long_name=MEANING[name])
    without_size = [name for name in sweep.axes if name != "dimension"]
    for name, column in _predicted(sweep).items():
        variables[f"predicted_{name}"] = (without_size, column, {"long_name": MEANING[name]})
    coordinates = {**sweep.parameters, **{name: list(v) for name, v in sweep.axes.items()}}
    coordinates["trial"] = np.arange(sweep.n_trials)
    data = xr.Dataset(variables, coords=coordinates)
    data.attrs = {
        "title": "A sweep of attnlaw: observed by simulation, predicted by theory",
        "sweep": json.dumps(sweep.as_mapping(), ensure_ascii=False),
        "n_cells": sweep.n_cells,
        "n_cells_missing": int((~done).sum()),
        **{f"software_{name}": text for name, text in software.items()},
    }
    data.attrs["values_sha256"] = _values_digest(data)
    return data


def _save(data: "Dataset", path: Path) -> None:
    """Write a dataset as NetCDF-4, which any language can read, and read it back."""
    try:
        _write(data, path)
        is_sound = _values_digest(_load(path)) == data.attrs["values_sha256"]
    except RuntimeError as error:  # all that the library says of a full disk is "HDF error"
        raise OSError(f"{error}: is there room on the disk?") from error
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror} when it is read back") from error
    if not is_sound:
        raise OSError("other numbers when it is read back")


def _write(data: "Dataset", path: Path) -> None:
    data.to_netcdf(path, engine="netcdf4")


def _load(path: Path) -> "Dataset":
    """Read a dataset into memory."""
    import xarray as xr

    return xr.load_dataset(path, engine="netcdf4")


def _values_digest(data: "Dataset") -> str:
    """Return the SHA-256 of all variables, by name: equal when every byte of them is."""
    names = sorted(map(str, data.data_vars))
    arrays = ((name, np.ascontiguousarray(data[name].values)) for name in names)
    parts = ((f"{name} {x.dtype.str} {x.shape}", x.tobytes()) for name, x in arrays)
    return checksum(chain.from_iterable(parts))


def _predicted(sweep: Sweep) -> dict[str, NDArray[Any]]:
    """Predict every point; one call covers the whole grid of ratios, signal norms and ridges.

    Returns
    -------
    dict of arrays
        For each field of the result, over the axes of the sweep without the dimension.
    """
    from attnlaw.theory import predict, predict_accuracy

    axes = {name: v for name, v in sweep.axes.items() if name != "dimension"}
    inner = [name for name in axes if name in NUMBERS]
    outer = [name for name in axes if name not in inner]
    grids = np.meshgrid(*(axes[name] for name in inner), indexing="ij", sparse=True)
    numbers = dict(zip(inner, grids, strict=True))
    shape = tuple(len(axes[name]) for name in inner)
    columns: dict[str, list[Any]] = {name: [] for name in sweep.result_fields}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RegimeWarning)  # the observation stands beside it
        for point in sweep.points(*outer):
            here = {**sweep.parameters, **point, **numbers}
            model = sweep.model(here)
            result = predict_accuracy(model, here["ridge"]) if "ridge" in here else predict(model)
            for name, column in columns.items():
                column.append(np.broadcast_to(getattr(result, name), shape))
    sizes = tuple(map(len, axes.values()))
    return {name: np.reshape(column, sizes) for name, column in columns.items()}
