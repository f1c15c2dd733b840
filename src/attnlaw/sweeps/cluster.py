"""Cells on a Dask cluster.

A task is a cell, or several where they are so quick that talk would take longer than work. Only
a few tasks are with the scheduler at a time, whatever the size of the sweep; a worker that dies
has its cells computed again elsewhere. Cells and results travel as plain JSON and numbers. Workers
are asked for their version of attnlaw before they get a cell, and one whose software differs in
anything else refuses.

`on_dask_array` does the same for chunks of a corpus that is an array of Dask: a task takes the
rows of a chunk from wherever Dask has them, and only its record travels.
"""

import asyncio
import itertools
import json
import sys
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
from attnlaw._machine import n_cores, one_blas_thread
from attnlaw.sweeps.cells import Results, Work, compute, described_work, label
from attnlaw.sweeps.store import software, software_difference

if TYPE_CHECKING:
    from distributed import Client, Future, Security
    from distributed.deploy.cluster import Cluster

    from attnlaw.data.corpus_pass import CorpusPass

__all__ = ["connected", "on_dask", "on_dask_array"]

CONNECT_SECONDS = 10
WAIT_SECONDS = 0.5  # between questions whether there are workers at last
CENSUS_SECONDS = 5  # between questions how many workers there are: clusters grow and shrink
FILE_BYTES = 2**20  # of a scheduler file
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


def on_dask_array(plan: "CorpusPass", chunks: Sequence[int], client: "Client | None") -> Results:
    """Compute chunks of a corpus that is an array of Dask; yield their numbers and records.

    Parameters
    ----------
    plan : CorpusPass
        Over one array.
    chunks : sequence of int
        Numbers of the chunks to compute.
    client : distributed.Client, optional
        Of the cluster; by default the one that Dask would use, or else threads of this process.
    """
    import dask.base
    from dask.delayed import delayed

    client = client or _current_client()
    if client is None:
        for k in range(0, len(chunks), size := n_cores()):
            some = chunks[k : k + size]
            parts = [_task(plan, delayed(plan.shared), index) for index in some]
            records = dask.base.compute(*parts)  # type: ignore[no-untyped-call]
            yield from zip(some, (values for _, values in records), strict=True)
        return
    from distributed import as_completed

    with warnings.catch_warnings():  # of its size: scattered data would die with a worker
        warnings.filterwarnings("ignore", "Sending large graph")
        shared = client.submit(_unchanged, plan.shared, pure=False)
    waiting, finished = iter(chunks), as_completed(loop=client.loop)
    tasks: dict[Future[Any], int] = {}
    label = plan.corpus.describe
    room = _room(client, set())
    try:
        while True:
            for index in itertools.islice(waiting, max(0, room - len(tasks))):
                future = client.compute(_task(plan, shared, index))
                tasks[future] = index
                finished.add(future)
            if not tasks:
                return
            future = next(finished)
            index = tasks.pop(future)
            yield index, _outcome(future, label(index))[1]
    finally:
        with suppress(Exception):
            client.cancel([*tasks, shared])


def _unchanged(value: Any) -> Any:
    return value


def _current_client() -> "Client | None":
    if "distributed" not in sys.modules:
        return None
    from distributed import default_client

    with suppress(ValueError):
        client: Client = default_client()
        return client
    return None


def _task(plan: "CorpusPass", shared: Any, index: int) -> Any:
    """Return a delayed record of a chunk, which takes the chunk's rows from the array."""
    from dask.delayed import delayed

    corpus = plan.corpus
    _, start, stop = corpus.chunks[index]
    rows = corpus.sources[0][start:stop]
    rows = rows.rechunk(dict.fromkeys(range(rows.ndim), -1)).to_delayed().ravel()[0]
    labels = None if corpus.labels is None else np.asarray(corpus.labels[start:stop])
    place = (index, start, corpus.sources[0].shape[0])
    return delayed(_compute_rows, pure=False)(rows, labels, shared, place, software())


def _compute_rows(
    rows: Any, labels: Any, shared: dict[str, Any], place: tuple[int, int, int], callers: Any
) -> tuple[float, Floats]:
    """Compute the record of a chunk where its rows are; return how long that took, too."""
    from attnlaw.data.corpora import ArrayPart
    from attnlaw.data.corpus_pass import CorpusPass

    _check_software(json.dumps(callers, sort_keys=True))
    index, first, n = place
    begun = time.perf_counter()
    part = ArrayPart(np.asarray(rows), first, n)
    known = None if labels is None else ArrayPart(labels, first, n)
    values = CorpusPass.of_rows(part, known, shared).compute(index)
    return time.perf_counter() - begun, values


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
    from attnlaw.data.readers.entries import opened

    try:
        with opened(file) as stream:
            address = json.loads(stream.read(FILE_BYTES))["address"]
    except (ValueError, KeyError, TypeError, RecursionError):
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
    """Return how many tasks to have with the scheduler, once it has workers and all are known.

    Cells that wait for workers would go to the first that comes before it is known, and one
    that cannot read them ends.
    """
    said = False
    while True:
        try:
            threads = _threads(client, known)
        except (OSError, asyncio.CancelledError, CancelledError, RuntimeError) as error:
            raise RuntimeError(
                "The scheduler of the cluster does not answer; run the sweep again to continue it."
            ) from error
        if threads:
            return 4 + 2 * int(sum(threads.values()))
        if not said:
            warnings.warn("The cluster has no workers; the sweep waits for them.", stacklevel=3)
            said = True
        time.sleep(WAIT_SECONDS)


def _threads(client: "Client", known: set[str]) -> Mapping[str, int]:
    """Return the threads of each worker; raise for one that cannot compute what we would."""
    if getattr(client, "scheduler", client) is None:
        raise OSError("the connection is closed")
    threads: Mapping[str, int] = client.nthreads()
    if new := set(threads) - known:
        versions: Any = client.get_versions(packages=["attnlaw"])
        found = versions["workers"]
        _check_versions({name: found[name]["packages"] for name in new & set(found)})
        answers: Any = client.run(software, workers=sorted(new), on_error="return")
        for address, answer in answers.items():
            if isinstance(answer, Exception) and not isinstance(answer, OSError):  # not gone
                raise ValueError(
                    f"every worker must have attnlaw {__version__} and the packages that it "
                    f"needs, got {str(answer)[:200]} at {address}."
                )
        known |= new
    return threads


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
    return _outcome(future, label(sweep, index))


def _outcome(future: "Future[Any]", what: str) -> tuple[float, Floats]:
    """Return the seconds that a task took and what it observed, or raise why not."""
    from distributed import KilledWorker

    try:
        found: tuple[float, Floats] = future.result()
        return found
    except KilledWorker as error:
        raise RuntimeError(
            f"Workers of the cluster died {error.allowed_failures + 1} times (out of memory?) in "
            f"{what}."
        ) from error
    except CancelledError as error:
        raise RuntimeError(
            f"The connection to the cluster was lost in {what}; run the sweep "
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
