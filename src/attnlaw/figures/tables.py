"""Tables of numbers behind a figure: long columns, saved as CSV and read back exactly."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats
from attnlaw._store import atomic_path
from attnlaw.figures.figure import Table, Tables
from attnlaw.laws import bin_spectrum
from attnlaw.models import Sampling
from attnlaw.plotting.spectra import draw_bars

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "SAMPLINGS",
    "Pieces",
    "draw_histogram",
    "histogram",
    "load_tables",
    "long_table",
    "rows",
    "save_tables",
    "summary",
]

SAMPLINGS: tuple[Sampling, ...] = ("token", "gaussian")

Pieces = list[dict[str, Any]]
"""Parts of a long table, to be stacked."""


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


def histogram(values: Floats, bins: Floats, *, logarithmic: bool = False) -> dict[str, Floats]:
    """Return the share of all values in each bin, as a density in x or in log x.

    Values beyond the bins count as part of the whole, as they do in a law's mass.

    Examples
    --------
    >>> histogram(np.array([0.1, 0.2, 0.3, 7.0]), np.array([0.0, 0.25, 0.5]))["density"]
    array([2., 1.])
    """
    heights = bin_spectrum(values, bins, logarithmic=logarithmic).heights
    return {"left": bins[:-1], "right": bins[1:], "density": heights}


def draw_histogram(axes: "Axes", bars: Table, label: str) -> None:
    """Draw the bars of a table that `histogram` made."""
    draw_bars(axes, bars["left"], bars["right"], bars["density"], label)


def save_tables(tables: Tables, folder: Path, figure: str) -> None:
    """Write each table to ``folder/figure-table.csv``; floats keep every digit."""
    for name, table in tables.items():
        columns = {key: np.asarray(values) for key, values in table.items()}
        lengths = {len(values) for values in columns.values()}
        if len(lengths) != 1:
            raise ValueError(f"columns of table {name!r} must be of one length, got {lengths}.")
        with (
            atomic_path(folder / f"{figure}-{name}.csv") as partial,
            open(partial, "w", newline="", encoding="utf-8") as file,
        ):
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(zip(*(v.tolist() for v in columns.values()), strict=True))


def load_tables(folder: Path, figure: str, names: list[str]) -> dict[str, Table]:
    """Read back what `save_tables` wrote."""
    return {name: _load(folder / f"{figure}-{name}.csv") for name in names}


def _load(path: Path) -> Table:
    with open(path, newline="", encoding="utf-8") as file:
        header, *rows = list(csv.reader(file))
    return {key: _column([row[i] for row in rows]) for i, key in enumerate(header)}


def _column(cells: list[str]) -> np.ndarray[Any, Any]:
    """Turn text back into whole numbers, booleans, floats or words, whichever fits all."""
    if cells and set(cells) <= {"True", "False"}:
        return np.array([cell == "True" for cell in cells])
    for kind in (int, float):
        try:
            return np.array([kind(cell) for cell in cells])
        except ValueError:
            continue
    return np.array(cells)
