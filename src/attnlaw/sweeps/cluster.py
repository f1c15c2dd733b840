"""Cells on a Dask cluster.

A task is a cell, or several where they are so quick that talk would take longer than work. Only
a few tasks are with the scheduler at a time, whatever the size of the sweep; a worker that dies
has its cells computed again elsewhere. Cells and results travel as plain JSON and numbers, and a
worker with other software than the caller's refuses.
"""

import asyncio
import itertools
import json
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from attnlaw._checks import Floats, invalid_argument
from attnlaw._machine import one_blas_thread
from attnlaw.sweeps.cells import Results, cell, compute
from attnlaw.sweeps.grid import Sweep
from attnlaw.sweeps.store import software, software_difference

if TYPE_CHECKING:
    from distributed import Client, Future

__all__ = ["connected", "on_dask"]

CONNECT_SECONDS = 10
CENSUS_SECONDS = 5  # between questions how many workers there are: clusters grow and shrink
TASK_SECONDS = 0.2  # that cells of one task take together, if one does not take longer
MOST_CELLS = 200  # in a task


def on_dask(sweep: Sweep, cells: Sequence[int], client: "Client") -> Results:
    """Compute cells on a cluster; yield their places and values as they come.

    Parameters
    ----------
    sweep : Sweep
        The grid.
    cells : sequence of int
        Places of the cells to compute.
    client : distributed.Client
        Of the cluster.
    """
    from distributed import as_completed

    description, ours = json.dumps(sweep.plain), software()
    waiting = iter(cells)
    tasks: dict[Future[Any], list[int]] = {}  # cells that are with the scheduler
    finished = as_completed(loop=client.loop)
    asked, room, size = -np.inf, 0, 1
    try:
        while True:
            if time.monotonic() > asked + CENSUS_SECONDS:
                room, asked = _room(client), time.monotonic()
            while len(tasks) < room and (some := list(itertools.islice(waiting, size))):
                future = client.submit(_compute, description, ours, some, pure=False)
                tasks[future] = some
                finished.add(future)
            if not tasks:
                return
            future = next(finished)
            some = tasks.pop(future)
            seconds, values = _result(sweep, some[0], future)
            size = max(1, min(MOST_CELLS, int(TASK_SECONDS * len(some) / max(seconds, 1e-6))))
            yield from zip(some, values, strict=True)
    finally:
        with suppress(Exception):  # the cluster may be gone, which is no news here
            client.cancel(list(tasks))


@contextmanager
def connected(scheduler: "str | Client") -> Iterator["Client"]:
    """Give a client of a scheduler, known by its address (or a client of it already)."""
    from distributed import Client

    if isinstance(scheduler, Client):
        yield scheduler
        return
    try:
        with ThreadPoolExecutor(1) as apart:  # notebooks have an event loop of their own
            apart.submit(asyncio.run, _knock(scheduler)).result()
        client = Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError):
        what = "the address of a running Dask scheduler, such as 'tcp://10.0.0.1:8786'"
        raise invalid_argument("scheduler", what, scheduler) from None
    with client:
        yield client


async def _knock(address: str) -> None:
    """Raise if nobody is at home: a client that finds that out itself is hard to get rid of."""
    from distributed.comm.core import connect
    from distributed.security import Security

    arguments = Security().get_connection_args("client")
    comm = await connect(address, timeout=CONNECT_SECONDS, **arguments)
    await comm.close()


def _room(client: "Client") -> int:
    """Return how many tasks to have with the scheduler."""
    n_threads = int(sum(client.nthreads().values()))
    if n_threads == 0:
        warnings.warn("The cluster has no workers; the sweep waits for them.", stacklevel=3)
    return 4 + 2 * n_threads


def _result(sweep: Sweep, index: int, future: "Future[Any]") -> tuple[float, Floats]:
    """Return the seconds that a task took and what its cells observed, or raise why not."""
    from distributed import KilledWorker

    try:
        found: tuple[float, Floats] = future.result()
        return found
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


def _compute(description: str, callers: dict[str, str], cells: list[int]) -> tuple[float, Floats]:
    """Compute cells on a worker of the cluster; return how long that took, and their values."""
    _check_software(json.dumps(callers, sort_keys=True))
    _limit_threads()
    begun = time.perf_counter()
    values = np.stack([compute(_sweep(description), index) for index in cells])
    return time.perf_counter() - begun, values


@cache
def _sweep(description: str) -> Sweep:
    return Sweep(**json.loads(description))


@cache
def _check_software(callers: str) -> None:
    changed = software_difference(json.loads(callers))
    if changed:
        raise invalid_argument("the software of every worker", "that of the caller", changed)


@cache
def _limit_threads() -> Any:
    """Hold this process to one thread of linear algebra for good: its threads compute cells."""
    limit = one_blas_thread()
    limit.__enter__()
    return limit
