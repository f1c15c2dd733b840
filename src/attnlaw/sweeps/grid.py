"""A sweep: a grid of models to simulate, described once and validated at once.

`load_sweep` reads one from a small TOML file. The keys are the arguments of `Sweep`. Where a list
of numbers may stand, a table may stand that says how to make it: ``{ start = 0.0, stop = 2.0,
points = 21 }``, with ``spacing = "log"`` for a geometric one.
"""

import copy
import itertools
import json
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from attnlaw._checks import LARGEST, choice, count, invalid_argument, real, scalar
from attnlaw.correlations import by_name
from attnlaw.models import PooledSequences
from attnlaw.results import Accuracy, Spike
from attnlaw.simulation.trials import METHODS
from attnlaw.sweeps.parameters import (
    ARRAYS,
    axis,
    correlation_parameters,
    number,
    option,
    truth,
    weight_vectors,
)

__all__ = ["Sweep", "load_sweep", "sweep_from_mapping"]

CELL_WORK = 2_000  # trials × dimension in a cell, unless the user says how many trials


@dataclass(frozen=True, kw_only=True, eq=False)
class Sweep:
    """A grid of models to simulate: a single value fixes a parameter, a list makes it an axis.

    Parameters
    ----------
    dimension : int or list of int
        d, the size of the simulation.
    vocab_ratio, sample_ratio, signal_norm : float or list of float
        δ = d/V, γ = d/N and ‖μ‖, as in `PooledSequences`.
    correlation : mapping, or array of shape (length, length)
        Positional correlation R: a matrix, or a kind with its parameters, each fixed or an
        axis: ``{"kind": "prefix", "length": 20, "prefix": [2, 5], "within": 1.0}``,
        ``{"kind": "autoregressive", "length": 20, "coefficient": [0.2, 0.5]}`` or
        ``{"kind": "spiked", "strength": [1, 2], "direction": [1, -1, 1, -1]}``.
    weights : str, list of str, mapping of label to name or vector, or vector
        Pooling weights: the names "mean", "causal", "last", "optimal", "direction", or
        labels of your own with vectors.
    sampling : "token", "gaussian" or both in a list
        As in `PooledSequences`.
    centred : bool or list of bool
        As in `PooledSequences`.
    ridge : float or list of float, optional
        Penalty λ. When it is given the sweep fits and tests ridge classification, and its
        results are those of `simulate_accuracy`; otherwise they are those of `simulate`.
    n_trials : int
        Independent trials at each point of the grid.
    seed : int
        Seed of the sweep. What a cell observes is a function of the seed and of the cell's own
        parameters: neither the order of the work, nor the number of workers, nor the rest of
        the grid changes it.
    method : str
        How cells are computed, as in `simulate`; classification knows one way only.
    share_noise : bool
        Let points that differ only in signal norm, weights or ridge see the same sequences,
        which makes differences between them sharp; their errors are then correlated. The signal
        norms are observed together, which takes hardly longer than one of them.
    trials_per_cell : int, optional
        Trials that are computed, and stored, in one piece: a divisor of `n_trials`. The default
        keeps trials × dimension up to 2,000.

    Examples
    --------
    >>> sweep = Sweep(
    ...     dimension=400, vocab_ratio=0.5, sample_ratio=[0.2, 0.4],
    ...     signal_norm=[0.5, 1.0, 1.5], weights=["mean", "causal"], n_trials=5,
    ...     correlation={"kind": "prefix", "length": 20, "prefix": [2, 5]})
    >>> {name: len(values) for name, values in sweep.axes.items()}
    {'prefix': 2, 'weights': 2, 'sample_ratio': 2, 'signal_norm': 3}
    >>> sweep.n_cells      # the three signal norms share their noise
    8
    """

    dimension: Any  # d
    vocab_ratio: Any  # δ = d/V
    sample_ratio: Any  # γ = d/N
    signal_norm: Any  # ‖μ‖
    correlation: Any  # R
    weights: Any  # w
    sampling: Any = "token"
    centred: Any = True
    ridge: Any = None  # λ
    n_trials: int = 1
    seed: int = 0
    method: str = "auto"
    share_noise: bool = True
    trials_per_cell: int | None = None

    def __post_init__(self) -> None:
        n = count("n_trials", self.n_trials)
        positive = number(above=0, at_most=LARGEST)
        positive_or_zero = number(at_least=0, at_most=LARGEST)
        checked: dict[str, Any] = {
            "dimension": axis("dimension", self.dimension, lambda n, v: count(n, v, at_least=2)),
            "vocab_ratio": axis("vocab_ratio", self.vocab_ratio, positive_or_zero),
            "sample_ratio": axis("sample_ratio", self.sample_ratio, positive),
            "signal_norm": axis("signal_norm", self.signal_norm, positive_or_zero),
            "correlation": correlation_parameters(self.correlation),
            "weights": weight_vectors(self.weights),
            "sampling": axis("sampling", self.sampling, option("token", "gaussian")),
            "centred": axis("centred", self.centred, truth),
            "ridge": None if self.ridge is None else axis("ridge", self.ridge, positive),
            "n_trials": n,
            "seed": count("seed", self.seed, at_least=0, at_most=None),
            "share_noise": truth("share_noise", self.share_noise),
        }
        choice("method", self.method, ("auto", *METHODS))
        if self.ridge is not None and self.method != "auto":
            raise invalid_argument("method", "left out when a ridge is given", self.method)
        if self.trials_per_cell is not None and n % count("trials_per_cell", self.trials_per_cell):
            raise invalid_argument(
                "trials_per_cell", f"a divisor of the {n} trials", self.trials_per_cell
            )
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        rest = next(self.points(*self.parameters))
        for point in self.points(*self.correlation, "weights"):
            self.model({**rest, **point})  # every correlation and its weights must make a model

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """All that may vary, in the order of the dataset's axes: a value, or a tuple of them."""
        correlation = {k: v for k, v in self.correlation.items() if k not in ("kind", *ARRAYS)}
        ridge = {} if self.ridge is None else {"ridge": self.ridge}
        return {
            "sampling": self.sampling,
            "centred": self.centred,
            **correlation,
            "weights": self.weights if isinstance(self.weights, str) else tuple(self.weights),
            **ridge,
            "vocab_ratio": self.vocab_ratio,
            "sample_ratio": self.sample_ratio,
            "dimension": self.dimension,
            "signal_norm": self.signal_norm,
        }

    @property
    def axes(self) -> dict[str, tuple[Any, ...]]:
        """The parameters that vary, and their values."""
        return {name: v for name, v in self.parameters.items() if isinstance(v, tuple)}

    @property
    def result_fields(self) -> tuple[str, ...]:
        """Fields of what is observed at each point: those of `Spike`, or of `Accuracy`."""
        return tuple(field.name for field in fields(Spike if self.ridge is None else Accuracy))

    @property
    def shared_axes(self) -> tuple[str, ...]:
        """Axes whose points are observed on the same noise, and so in the same cell."""
        return ("signal_norm",) if self.share_noise and "signal_norm" in self.axes else ()

    @cached_property
    def trials_together(self) -> int:
        """Trials of a cell: `trials_per_cell`, or what it is if that is left out."""
        if self.trials_per_cell is not None:
            return int(self.trials_per_cell)
        n, most = self.n_trials, max(1, CELL_WORK // int(np.max(self.dimension)))
        return max(k for k in range(1, min(n, most) + 1) if n % k == 0)

    @property
    def cell_axes(self) -> dict[str, Sequence[Any]]:
        """Axes over which the cells range; the last one is the first trial of the cell."""
        blocks = range(0, self.n_trials, self.trials_together)
        apart: dict[str, Sequence[Any]] = {
            k: v for k, v in self.axes.items() if k not in self.shared_axes
        }
        return {**apart, "first_trial": blocks}

    @property
    def n_cells(self) -> int:
        """Number of pieces in which the sweep is computed and stored."""
        return math.prod(map(len, self.cell_axes.values()))

    def points(self, *names: str) -> Iterator[dict[str, Any]]:
        """Run through all values of the named parameters, with one value for each name."""
        values = {k: v if isinstance(v, tuple) else (v,) for k, v in self.parameters.items()}
        chosen = {name: values[name] for name in names if name in values}
        for combination in itertools.product(*chosen.values()):
            yield dict(zip(chosen, combination, strict=True))

    def model(self, point: Mapping[str, Any]) -> PooledSequences:
        """Build the model at a point: values for all parameters; those of numbers may be arrays.

        Examples
        --------
        >>> sweep = Sweep(
        ...     dimension=100, vocab_ratio=0.5, sample_ratio=0.4, signal_norm=[1.0, 2.0],
        ...     weights="optimal", correlation={"kind": "prefix", "length": 4, "prefix": 2})
        >>> sweep.model({**sweep.parameters, "signal_norm": 2.0}).weights.round(3)
        array([0.5, 0.5, 0. , 0. ])
        """
        R = by_name(**{k: point.get(k, v) for k, v in self.correlation.items()})
        label = point["weights"]
        weights = label if isinstance(self.weights, str) else self.weights[label]
        return PooledSequences(
            vocab_ratio=point["vocab_ratio"],
            sample_ratio=point["sample_ratio"],
            signal_norm=point["signal_norm"],
            correlation=R,
            weights=weights if isinstance(weights, str) else np.array(weights),
            sampling=point["sampling"],
            centred=point["centred"],
        )

    def as_mapping(self) -> dict[str, Any]:
        """Return the arguments of an equal sweep in plain types, as JSON and TOML have them."""
        return copy.deepcopy(self.plain)

    @cached_property
    def plain(self) -> dict[str, Any]:
        """`as_mapping`, made once; not to be changed."""
        given = {f.name: _plain(getattr(self, f.name)) for f in fields(self)}
        return {**given, "trials_per_cell": self.trials_together}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sweep):
            return NotImplemented
        return json.dumps(self.plain) == json.dumps(other.plain)

    __hash__ = None  # type: ignore[assignment]


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return value


RANGE = ("start", "stop", "points", "spacing")
MOST_POINTS = 1_000_000  # of a range
GRID_BYTES = 2**24  # of a file that describes a grid


def load_sweep(path: str | Path) -> Sweep:
    """Read a sweep from a TOML file.

    Parameters
    ----------
    path : str or Path
        The file. It is data only; nothing in it is executed.

    Raises
    ------
    ValueError
        Naming the key that is unknown, missing or wrong.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
    ...     _ = file.write('''
    ...         dimension = 200
    ...         vocab_ratio = 0.5
    ...         sample_ratio = [0.2, 0.4]
    ...         signal_norm = { start = 0.0, stop = 2.0, points = 21 }
    ...         weights = ["mean", "optimal"]
    ...         correlation = { kind = "prefix", length = 20, prefix = 5 }
    ...     ''')
    ...     file.flush()
    ...     load_sweep(file.name).n_cells
    4
    """
    from attnlaw.data.readers.entries import opened  # cells are computed without readers

    with opened(Path(path)) as stream:
        content = stream.read(GRID_BYTES + 1)
    if len(content) > GRID_BYTES:
        raise invalid_argument("the grid file", f"of at most {GRID_BYTES} bytes", str(path))
    try:
        text = content.decode("utf-8-sig")  # some editors begin with a mark
    except UnicodeDecodeError:
        raise invalid_argument("the grid file", "text in UTF-8", str(path)) from None
    try:
        mapping = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ValueError(f"{path} must be a TOML file, got an error: {error}.") from None
    return sweep_from_mapping(mapping)


def sweep_from_mapping(mapping: Mapping[str, Any]) -> Sweep:
    """Return the sweep that a mapping (of a TOML file, say) describes.

    Examples
    --------
    >>> sweep_from_mapping({"dimension": 100})
    Traceback (most recent call last):
    ValueError: vocab_ratio must be given, got None.
    """
    known = {field.name: field.default for field in fields(Sweep)}
    for name in mapping:
        if name not in known:
            raise invalid_argument("a key of the grid", "one of " + ", ".join(known), name)
    for name, default in known.items():
        if default is MISSING and name not in mapping:
            raise invalid_argument(name, "given", None)
    arguments = {name: _expanded(name, value) for name, value in mapping.items()}
    correlation = arguments["correlation"]
    if isinstance(correlation, Mapping):
        arguments["correlation"] = {
            name: _expanded(f"correlation.{name}", value) for name, value in correlation.items()
        }
    return Sweep(**arguments)


def _expanded(name: str, value: Any) -> Any:
    """Return the numbers of a range, or the value itself if it is not a range."""
    if not isinstance(value, Mapping) or not {"start", "stop", "points"} & set(value):
        return value
    for key in value:
        if key not in RANGE:
            raise invalid_argument(f"a key of {name}", "one of " + ", ".join(RANGE), key)
    for key in RANGE[:3]:
        if key not in value:
            raise invalid_argument(f"{name}.{key}", "given", None)
    n = count(f"{name}.points", value["points"], at_least=2)
    if n > MOST_POINTS:
        raise invalid_argument(f"{name}.points", f"at most {MOST_POINTS:,}", n)
    start, stop = (scalar(f"{name}.{key}", value[key]) for key in ("start", "stop"))
    if choice(f"{name}.spacing", value.get("spacing", "linear"), ("linear", "log")) == "linear":
        return np.linspace(start, stop, n).tolist()
    real(f"{name}.start", start, above=0)
    real(f"{name}.stop", stop, above=0)
    return np.geomspace(start, stop, n).tolist()
