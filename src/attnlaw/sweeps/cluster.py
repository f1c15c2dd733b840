"""Cells on a Dask cluster.

A task is a cell, or several where they are so quick that talk would take longer than work. Only
a few tasks are with the scheduler at a time, whatever the size of the sweep; a worker that dies
has its cells computed again elsewhere. Cells and results travel as plain JSON and numbers. Workers
are asked for their version of attnlaw before they get a cell, and one whose software differs in
anything else refuses.
"""

import asyncio
import itertools
import json
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attnlaw import __version__
from attnlaw._checks import Floats, invalid_argument
from attnlaw._machine import one_blas_thread
from attnlaw.sweeps.cells import Results, Work, compute, described_work, label
from attnlaw.sweeps.store import software, software_difference

if TYPE_CHECKING:
    from distributed import Client, Future, Security
    from distributed.deploy.cluster import Cluster

__all__ = ["connected", "on_dask"]

CONNECT_SECONDS = 10
CENSUS_SECONDS = 5  # between questions how many workers there are: clusters grow and shrink
TASK_SECONDS = 0.2  # that cells of one task take together, if one does not take longer
MOST_CELLS = 200  # in a task


def on_dask(sweep: Work, cells: Sequence[int], client: "Client") -> Results:
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
    known: set[str] = set()  # workers whose version is right
    asked, room, size = -np.inf, 0, 1
    try:
        while True:
            if time.monotonic() > asked + CENSUS_SECONDS:
                room, asked = _room(client, known), time.monotonic()
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
def connected(
    scheduler: "str | Path | Client | Cluster", security: "Security | None" = None
) -> Iterator["Client"]:
    """Give a client of a cluster.

    Parameters
    ----------
    scheduler : str, Path, distributed.Client or cluster
        Address of its scheduler, the file that ``dask scheduler --scheduler-file`` writes, a
        client of it already, or a cluster object (LocalCluster, dask-jobqueue, Kubernetes).
    security : distributed.Security, optional
        Certificates for TLS; without it those of Dask's own configuration.
    """
    from distributed import Client

    if isinstance(scheduler, Client):
        if security is not None:
            raise invalid_argument("security", "left out when a client is given", security)
        yield scheduler
        return
    target: Any = _address(scheduler) if isinstance(scheduler, Path) else scheduler
    options: dict[str, Any] = {"timeout": CONNECT_SECONDS, "set_as_default": False}
    if security is not None:
        options["security"] = security
    try:
        if isinstance(target, str):
            with ThreadPoolExecutor(1) as apart:  # notebooks have an event loop of their own
                apart.submit(asyncio.run, _knock(target, security)).result()
        elif not hasattr(target, "scheduler_address"):
            raise TypeError
        client = Client(target, **options)
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        what = "the address of a running Dask scheduler, such as 'tcp://10.0.0.1:8786'"
        if isinstance(target, str) and target.startswith(("tls:", "wss:")):
            what += f", that accepts our certificates ({str(error) or type(error).__name__})"
        raise invalid_argument("scheduler", what, scheduler) from None
    with client:
        yield client


def _address(file: Path) -> str:
    """Return the address in a scheduler file."""
    try:
        address = json.loads(file.read_text("utf-8"))["address"]
    except (OSError, ValueError, KeyError, TypeError):
        address = None
    if not isinstance(address, str):
        what = "the scheduler file of a running Dask scheduler"
        raise invalid_argument("scheduler", what, str(file))
    return address


async def _knock(address: str, security: "Security | None") -> None:
    """Raise if nobody is at home: a client that finds that out itself is hard to get rid of."""
    from distributed import Security
    from distributed.comm.core import connect

    arguments = (security or Security()).get_connection_args("client")
    comm = await connect(address, timeout=CONNECT_SECONDS, **arguments)
    await comm.close()


def _room(client: "Client", known: set[str]) -> int:
    """Return how many tasks to have with the scheduler, once all its workers are known."""
    try:
        if getattr(client, "scheduler", client) is None:
            raise OSError("the connection is closed")
        threads = client.nthreads()
        if new := set(threads) - known:
            versions: Any = client.get_versions(packages=["attnlaw"])
            found = versions["workers"]
            _check_versions({name: found[name]["packages"] for name in new & set(found)})
            known |= new
    except (OSError, asyncio.CancelledError, CancelledError, RuntimeError) as error:
        raise RuntimeError(
            "The scheduler of the cluster does not answer; run the sweep again to continue it."
        ) from error
    if not threads:
        warnings.warn("The cluster has no workers; the sweep waits for them.", stacklevel=3)
    return 4 + 2 * int(sum(threads.values()))


def _check_versions(workers: Mapping[str, Mapping[str, str | None]]) -> None:
    """Refuse a worker whose attnlaw is not ours, before it gets a cell."""
    for address, packages in workers.items():
        there = packages.get("attnlaw")
        if there != __version__:
            found = "none" if there is None else f"attnlaw {there}"
            raise ValueError(
                f"the attnlaw of every worker must be {__version__}, as here, got {found} at "
                f"{address}."
            )


def _result(sweep: Work, index: int, future: "Future[Any]") -> tuple[float, Floats]:
    """Return the seconds that a task took and what its cells observed, or raise why not."""
    from distributed import KilledWorker

    try:
        found: tuple[float, Floats] = future.result()
        return found
    except KilledWorker as error:
        raise RuntimeError(
            f"Workers of the cluster died {error.allowed_failures + 1} times (out of memory?) in "
            f"{label(sweep, index)}."
        ) from error
    except CancelledError as error:
        raise RuntimeError(
            f"The connection to the cluster was lost in {label(sweep, index)}; run the sweep "
            "again to continue it."
        ) from error
    except ModuleNotFoundError as error:  # a worker that came later
        raise RuntimeError(
            f"A worker of the cluster lacks {error.name}, where attnlaw {__version__} is needed; "
            "the sweep goes on when it is run again."
        ) from error


def _compute(description: str, callers: dict[str, str], cells: list[int]) -> tuple[float, Floats]:
    """Compute cells on a worker of the cluster; return how long that took, and their values."""
    _check_software(json.dumps(callers, sort_keys=True))
    _limit_threads()
    begun = time.perf_counter()
    values = np.stack([compute(_sweep(description), index) for index in cells])
    return time.perf_counter() - begun, values


@cache
def _sweep(description: str) -> Work:
    return described_work(json.loads(description))


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
