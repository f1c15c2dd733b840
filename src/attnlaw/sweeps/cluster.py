"""Cells on a Dask cluster.

Each cell is a task. Only a few are with the scheduler at a time, whatever the size of the sweep;
a worker that dies has its cells computed again elsewhere. Cells and results travel as plain
JSON and numbers, and a worker with other software than the caller's refuses.
"""

import itertools
import json
import time
from collections.abc import Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnlaw._validation import complain
from attnlaw.sweeps.cells import Results, cell, compute, one_thread
from attnlaw.sweeps.grid import Sweep
from attnlaw.sweeps.provenance import difference, fingerprint

if TYPE_CHECKING:
    from distributed import Client, Future

__all__ = ["on_dask"]

CONNECT_SECONDS = 10
CENSUS_SECONDS = 5  # between questions how many workers there are: clusters grow and shrink

Floats = NDArray[np.float64]


def on_dask(sweep: Sweep, cells: Sequence[int], scheduler: "str | Client") -> Results:
    """Compute cells on a cluster; yield their places and values as they come.

    Parameters
    ----------
    sweep : Sweep
        The grid.
    cells : sequence of int
        Places of the cells to compute.
    scheduler : str or distributed.Client
        Address of the scheduler, such as ``tcp://10.0.0.1:8786``, or a client of it.
    """
    from distributed import Client, as_completed

    client = scheduler if isinstance(scheduler, Client) else _connect(scheduler)
    description, software = json.dumps(sweep.plain), fingerprint()
    waiting = iter(cells)
    places: dict[Future[Any], int] = {}  # of the cells that are with the scheduler
    finished = as_completed(loop=client.loop)
    room = asked = -np.inf
    try:
        for _ in cells:
            if time.monotonic() > asked + CENSUS_SECONDS:
                room, asked = 4 + 2 * sum(client.nthreads().values()), time.monotonic()
            for index in itertools.islice(waiting, max(0, int(room) - len(places))):
                future = client.submit(_compute, description, software, index, pure=False)
                places[future] = index
                finished.add(future)
            future = next(finished)
            index = places.pop(future)
            yield index, _result(sweep, index, future)
    finally:
        with suppress(Exception):  # the cluster may be gone, which is no news here
            client.cancel(list(places))
        if client is not scheduler:
            client.close()


def _connect(address: str) -> "Client":
    from distributed import Client

    try:
        return Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError):
        what = "the address of a running Dask scheduler, such as 'tcp://10.0.0.1:8786'"
        raise complain("scheduler", what, address) from None


def _result(sweep: Sweep, index: int, future: "Future[Any]") -> Floats:
    """Return what a cell observed, or raise why it did not."""
    from distributed import KilledWorker

    try:
        return np.asarray(future.result())
    except KilledWorker as error:
        raise RuntimeError(
            f"Workers of the cluster died {error.allowed_failures + 1} times (out of memory?) in "
            f"{cell(sweep, index).label}."
        ) from error
    except CancelledError as error:
        raise RuntimeError(
            f"The connection to the cluster was lost in {cell(sweep, index).label}; run the sweep "
            "again to continue it."
        ) from error


def _compute(description: str, software: dict[str, str], index: int) -> Floats:
    """Compute a cell on a worker of the cluster."""
    _check_software(json.dumps(software, sort_keys=True))
    _limit_threads()
    return compute(_sweep(description), index)


@cache
def _sweep(description: str) -> Sweep:
    return Sweep(**json.loads(description))


@cache
def _check_software(software: str) -> None:
    changed = difference(json.loads(software))
    if changed:
        raise complain("the software of every worker", "that of the caller", changed)


@cache
def _limit_threads() -> Any:
    """Hold this process to one thread of linear algebra for good: its threads compute cells."""
    limit = one_thread()
    limit.__enter__()
    return limit
