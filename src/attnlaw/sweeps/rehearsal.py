"""What is bound to fail is refused at once, not after hours in whichever cell comes first."""

import math
from typing import Any

from attnlaw._checks import invalid_argument
from attnlaw._machine import GIB, available_memory, require_memory
from attnlaw.sweeps import dataset
from attnlaw.sweeps.cells import cell_shape
from attnlaw.sweeps.grid import Sweep

__all__ = ["rehearse"]

COPIES = 4  # of all results that are in memory while the dataset is made and written


def rehearse(sweep: Sweep, n_jobs: int | None) -> None:
    """Raise what some cell of the sweep, or its dataset, is bound to raise.

    Parameters
    ----------
    sweep : Sweep
        The grid.
    n_jobs : int or None
        Cells that the memory of this machine has to hold at a time; None on a cluster.
    """
    _check_results(sweep)
    _check_signs(sweep)
    if n_jobs is not None:
        _check_trials(sweep, n_jobs)
    dataset.predicted(sweep)


def _check_results(sweep: Sweep) -> None:
    needed = 8 * COPIES * sweep.n_cells * math.prod(cell_shape(sweep))
    available = available_memory()
    if needed > available:
        raise invalid_argument(
            "the grid",
            f"small enough for {needed / GIB:.3g} GiB of results to fit in the "
            f"{available / GIB:.3g} GiB of memory available",
            f"{sweep.n_cells:,} cells",
        )


def _check_signs(sweep: Sweep) -> None:
    """Draw no sequences of each correlation: that tells whether signs can have it."""
    from attnlaw.simulation import sample_signs

    first = next(sweep.points(*sweep.parameters))
    for point in sweep.points(*sweep.correlation):
        sample_signs(sweep.model({**first, **point}).correlation, 0, rng=0)


def _check_trials(sweep: Sweep, n_jobs: int) -> None:
    """Ask for the memory of a trial where there are most tokens, sequences and positions."""
    from attnlaw.simulation.trials import trial_memory

    def values(name: str) -> tuple[Any, ...]:
        return tuple(point[name] for point in sweep.points(name))

    largest = {
        **next(sweep.points(*sweep.parameters)),
        "sample_ratio": min(values("sample_ratio")),
    }
    if "length" in sweep.parameters:
        largest["length"] = max(values("length"))
    if "signal_norm" in sweep.shared_axes:
        largest["signal_norm"] = values("signal_norm")
    # the largest vocabulary has the smallest ratio, but for 0, which means none
    ratios = {min(values("vocab_ratio")), min(filter(None, values("vocab_ratio")), default=0.0)}
    most = 0
    for point in sweep.points("sampling", "dimension"):
        for ratio in ratios:
            d = point["dimension"]
            model = sweep.model({**largest, **point, "vocab_ratio": ratio})
            is_spike = sweep.ridge is None
            needed = trial_memory(model, d, sweep.method if is_spike else "reference")
            require_memory(needed, "dimension", d, "matrices")
            most = max(most, needed)
    available = available_memory()
    if min(n_jobs, sweep.n_cells) * most > available:
        raise invalid_argument(
            "n_jobs",
            f"at most {int(available / most)}, since a cell takes up to {most / GIB:.3g} of the "
            f"{available / GIB:.3g} GiB of memory available",
            n_jobs,
        )
