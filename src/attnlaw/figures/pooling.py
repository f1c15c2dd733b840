"""What the figures of pooled sequences share: weightings, summaries of trials, long tables."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlaw.figures.figure import Table
from attnlaw.weights import causal_weights, mean_weights, optimal_weights

__all__ = ["SAMPLINGS", "Pieces", "long_table", "rows", "summary", "weighting"]

SAMPLINGS = ("token", "gaussian")

Pieces = list[dict[str, Any]]
"""Parts of a long table, to be stacked."""

WEIGHTINGS: Mapping[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "mean": lambda R: mean_weights(len(R)),
    "causal": lambda R: causal_weights(len(R)),
    "optimal": optimal_weights,
}


def weighting(name: str, correlation: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weights that a name of the figures stands for."""
    return WEIGHTINGS[name](correlation)


def summary(trials: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean over the leading trial axis, and its standard error."""
    values = np.asarray(trials, dtype=float)
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))


def long_table(pieces: Sequence[Mapping[str, Any]]) -> Table:
    """Stack pieces, each a set of columns that broadcast to one length, into one table.

    Examples
    --------
    >>> long_table([{"kind": "a", "x": [1, 2]}, {"kind": "b", "x": [3]}])["kind"].tolist()
    ['a', 'a', 'b']
    """
    columns: dict[str, list[NDArray[Any]]] = {key: [] for key in pieces[0]}
    for piece in pieces:
        flat = np.broadcast_arrays(*(np.asarray(value) for value in piece.values()))
        for key, values in zip(piece, flat, strict=True):
            columns[key].append(np.ravel(values))
    return {key: np.concatenate(parts) for key, parts in columns.items()}


def rows(table: Table, /, **wanted: Any) -> Table:
    """Return the rows in which each named column has the wanted value."""
    keep = np.logical_and.reduce([table[key] == value for key, value in wanted.items()])
    return {key: values[keep] for key, values in table.items()}
