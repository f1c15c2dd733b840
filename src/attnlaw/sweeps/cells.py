"""A cell: the piece of a sweep that is computed, stored, and lost or kept as a whole.

`rehearse` refuses at once what is bound to fail, not after hours in whichever cell comes first.
"""

import json
import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from attnlaw._checks import Floats, invalid_argument
from attnlaw._machine import GIB, available_memory, require_memory
from attnlaw._store import checksum
from attnlaw.models import PooledSequences
from attnlaw.results import Accuracy, Spike
from attnlaw.sweeps.grid import Sweep

__all__ = [
    "Cell",
    "Results",
    "Work",
    "cell",
    "cell_shape",
    "compute",
    "described_work",
    "label",
    "rehearse",
]

Results = Generator[tuple[int, Floats], None, None]
"""Places of cells and what they observed, as they come."""


class Pieces(Protocol):
    """Numbered pieces of work other than a sweep's, such as the chunks of a corpus."""

    @property
    def plain(self) -> dict[str, Any]:
        """Description in plain types, from which `described_work` makes the same elsewhere."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of what a piece gives."""

    def compute(self, index: int) -> Floats:
        """Return what a piece gives."""

    def label(self, index: int) -> str:
        """Name a piece in messages."""


Work = Sweep | Pieces
"""What processes and clusters compute piece by piece."""


def described_work(plain: dict[str, Any]) -> Work:
    """Return the work that a description means."""
    if "corpus" in plain:
        from attnlaw.sweeps.corpus_run import CorpusWork

        return CorpusWork.described(plain)
    return Sweep(**plain)


def label(work: Work, index: int) -> str:
    """Name a piece in messages."""
    return cell(work, index).label if isinstance(work, Sweep) else work.label(index)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A model at one size, and the stream of random numbers that belongs to it."""

    model: PooledSequences
    dimension: int  # d
    ridge: float | None  # λ, if classification is observed
    n_trials: int
    stream: np.random.SeedSequence  # its children are the streams of the trials
    label: str  # in words, for messages


def cell_shape(sweep: Work) -> tuple[int, ...]:
    """Shape of what a cell observes: fields, trials, and axes that are observed together."""
    if not isinstance(sweep, Sweep):
        return sweep.shape
    shared = (len(sweep.axes[name]) for name in sweep.shared_axes)
    return (len(sweep.result_fields), sweep.trials_together, *shared)


def cell(sweep: Sweep, index: int) -> Cell:
    """Return the cell at a place in the sweep.

    Notes
    -----
    The stream is that of `seed` with a spawn key made of the cell's own parameters, by SHA-256
    of their JSON; shared noise leaves signal norm, weights and ridge out of it. Trial k of a
    point has the stream's k-th child, as in `simulate`, so cells of one point continue each
    other and the division into cells changes nothing.
    """
    axes = sweep.cell_axes
    place = np.unravel_index(index, tuple(map(len, axes.values())))
    here = {name: axes[name][int(k)] for name, k in zip(axes, place, strict=True)}
    first_trial = here.pop("first_trial")
    point = {**sweep.parameters, **here}
    key = checksum([json.dumps(_identity(sweep, point), sort_keys=True)])
    stream = np.random.SeedSequence(
        sweep.seed,
        spawn_key=tuple(np.frombuffer(bytes.fromhex(key), "<u4").tolist()),
        n_children_spawned=first_trial,
    )
    label = ", ".join(f"{name} = {value!r}" for name, value in here.items())
    return Cell(
        model=sweep.model(point),
        dimension=point["dimension"],
        ridge=point.get("ridge"),
        n_trials=sweep.trials_together,
        stream=stream,
        label=f"cell {index} ({label})" if label else f"cell {index}",
    )


def compute(sweep: Work, index: int) -> Floats:
    """Observe a cell: an array of shape `cell_shape`, truth values as 0 and 1."""
    if not isinstance(sweep, Sweep):
        return sweep.compute(index)
    from attnlaw.simulation import prefer_compiled, simulate, simulate_accuracy

    prefer_compiled()  # there are many cells, and each must take the same way in every process
    work = cell(sweep, index)
    size = (work.dimension, work.n_trials, np.random.default_rng(work.stream))
    seen: Spike | Accuracy
    try:
        if work.ridge is None:
            seen = simulate(work.model, *size, method=sweep.method)
        else:
            seen = simulate_accuracy(work.model, *size, ridge=work.ridge)
    except Exception as error:
        error.add_note(f"This happened in {work.label} of the sweep.")
        raise
    values = [np.asarray(getattr(seen, name), dtype=np.float64) for name in sweep.result_fields]
    return np.stack(values).reshape(cell_shape(sweep))


def _identity(sweep: Sweep, point: dict[str, Any]) -> dict[str, Any]:
    """Return what decides the random numbers of a point, in plain types."""
    given = sweep.plain
    correlation = {k: point.get(k, v) for k, v in given["correlation"].items()}
    names = ["sampling", "centred", "vocab_ratio", "sample_ratio", "dimension"]
    identity = {"correlation": correlation, **{name: point[name] for name in names}}
    if not sweep.share_noise:
        label = point["weights"]
        identity["weights"] = label if isinstance(sweep.weights, str) else given["weights"][label]
        identity["signal_norm"] = point["signal_norm"]
        identity["ridge"] = point.get("ridge")
    return identity


COPIES = 4  # of all results that are in memory while the dataset is made and written


def rehearse(sweep: Sweep, n_jobs: int | None) -> None:
    """Raise what some cell of the sweep is bound to raise.

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
