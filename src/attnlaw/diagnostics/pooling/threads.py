"""Several poolings at a time: threads of ours in place of the threads of BLAS."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from attnlaw._machine import n_cores, one_blas_thread

__all__ = ["Run", "side_by_side"]

Run = Callable[..., Iterable]  # type: ignore[type-arg]  # like `map`

WIDE = 1500  # dimensions from which BLAS itself makes good use of several processors
MOST_THREADS = 4  # each holds a copy of the pooled sequences


@contextmanager
def side_by_side(dimension: int) -> Iterator[Run]:
    """Give a `map` for work on matrices of so many dimensions, on all processors.

    Notes
    -----
    NumPy and SciPy come with a BLAS each, and each BLAS with threads that wait by turning in a
    loop. On matrices of some hundred dimensions they wait more than they work: advice on 20,000
    labelled sequences of 64 tokens in 576 dimensions took 17.6 s of processor on two idle cores
    with them and 11 s without, for the same time on the clock, and 108 s when others used the
    cores, too. So BLAS gets one thread here, and poolings are worked on side by side.

    Examples
    --------
    >>> with side_by_side(100) as run:
    ...     list(run(abs, [-1, 2]))
    [1, 2]
    """
    if dimension >= WIDE:
        yield map
        return
    with one_blas_thread(), ThreadPoolExecutor(min(n_cores(), MOST_THREADS)) as executor:
        yield executor.map
