"""The machine under the library: cores, memory, BLAS threads, and processes that end together.

Also optional packages, imported where they are needed, with an install hint if missing. Nothing
else in the library asks the system about these. Without NumPy, so that `attnlaw --help` is quick.
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

__all__ = [
    "ONE_THREAD",
    "MissingExtra",
    "available_memory",
    "end_with_parent",
    "n_cores",
    "one_blas_thread",
    "one_thread_in_children",
    "require",
    "require_memory",
]

GIB = 2**30
ALWAYS_THERE = 2**26  # bytes for which it is not worth asking the system

LIBRARIES = ("BLIS", "MKL", "NUMBA", "NUMEXPR", "OMP", "OPENBLAS")
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in LIBRARIES} | {"VECLIB_MAXIMUM_THREADS": "1"}
"""Environment of a child process that starts with one thread of linear algebra."""


def n_cores() -> int:
    """Return the number of cores that this process may use.

    Examples
    --------
    >>> n_cores() >= 1
    True
    """
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # Linux alone has it
        return os.cpu_count() or 1


def available_memory() -> float:
    """Return the bytes that can be allocated without swapping; infinity if the system has no say.

    Examples
    --------
    >>> available_memory() > 2**20
    True
    """
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return 1024 * next(int(x.split()[1]) for x in lines if x.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return float("inf")


def require_memory(needed: float, argument: str, value: object, contents: str) -> None:
    """Raise before an allocation that would not fit in memory.

    Parameters
    ----------
    needed : float
        Bytes; a few megabytes pass without asking the system.
    argument, value
        What the user would have to make smaller, and what it is.
    contents : str
        What is held in memory, a plural noun.

    Examples
    --------
    >>> require_memory(32 * 100**2, "length", 100, "correlations")
    """
    if needed < ALWAYS_THERE:
        return
    available = available_memory()
    if needed > available:
        from attnlaw._checks import invalid_argument

        raise invalid_argument(
            argument,
            f"small enough for {needed / GIB:.3g} GiB of {contents} to fit in the "
            f"{available / GIB:.3g} GiB of memory available",
            value,
        )


def one_blas_thread() -> AbstractContextManager[object]:
    """Keep NumPy's and SciPy's BLAS to one thread in a block, and restore them after it.

    For many small matrices that is much the fastest, and sums shared by several threads would
    be rounded differently.
    """
    context: AbstractContextManager[object] = _controller().limit(limits=1, user_api="blas")
    return context


@cache
def _controller() -> "ThreadpoolController":
    """Find the libraries that use threads, once: the search takes a millisecond."""
    import scipy.linalg  # noqa: F401  has a BLAS of its own, which must be loaded to be found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def one_thread_in_children() -> Iterator[None]:
    """Let processes that are started in a block begin with one thread of linear algebra.

    Examples
    --------
    >>> with one_thread_in_children():
    ...     os.environ["OMP_NUM_THREADS"]
    '1'
    """
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def end_with_parent() -> None:
    """End this process, even in the middle of its work, when its parent ends, however that ends.

    It looks once a second whether its parent is still there.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class MissingExtra(ModuleNotFoundError):
    """A package is missing that one of attnlaw's extras brings; the message is an install hint."""

    def __init__(self, module: str, extra: str, purpose: str = "This") -> None:
        super().__init__(
            f"{purpose} needs {module}, which is not installed: pip install 'attnlaw[{extra}]'.",
            name=module,
        )
        self.extra = extra


def require(module: str, *, extra: str, purpose: str = "This") -> ModuleType:
    """Import a module of an optional dependency and return it.

    Parameters
    ----------
    module : str
        Its name.
    extra : str
        The extra of attnlaw that brings it.
    purpose : str
        What needs it, a singular noun with which the install hint begins.

    Raises
    ------
    MissingExtra
        When it is not installed. Other errors of the import are passed on.

    Examples
    --------
    >>> require("json", extra="data").__name__
    'json'
    >>> require("no_such_module", extra="data", purpose="Reading it")
    Traceback (most recent call last):
    attnlaw._machine.MissingExtra: Reading it needs no_such_module, which is not installed:
    pip install 'attnlaw[data]'.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if (error.name or "").partition(".")[0] != package:
            raise
        raise MissingExtra(package, extra, purpose) from None
