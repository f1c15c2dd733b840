"""A cell: the piece of a sweep that is computed, stored, and lost or kept as a whole."""

import json
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnlaw._checks import Floats
from attnlaw._store import checksum
from attnlaw.models import PooledSequences
from attnlaw.results import Accuracy, Spike
from attnlaw.sweeps.grid import Sweep

__all__ = ["Cell", "Results", "cell", "cell_shape", "compute"]

Results = Generator[tuple[int, Floats], None, None]
"""Places of cells and what they observed, as they come."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A model at one size, and the stream of random numbers that belongs to it."""

    model: PooledSequences
    dimension: int  # d
    ridge: float | None  # λ, if classification is observed
    n_trials: int
    stream: np.random.SeedSequence  # its children are the streams of the trials
    label: str  # in words, for messages


def cell_shape(sweep: Sweep) -> tuple[int, ...]:
    """Shape of what a cell observes: fields, trials, and axes that are observed together."""
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


def compute(sweep: Sweep, index: int) -> Floats:
    """Observe a cell: an array of shape `cell_shape`, truth values as 0 and 1."""
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
