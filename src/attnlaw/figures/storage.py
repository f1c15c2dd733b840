"""Tables on disk: written whole or not at all, read back exactly."""

import csv
from pathlib import Path
from typing import Any

import numpy as np

from attnlaw._store import atomic_path
from attnlaw.figures.figure import Table, Tables

__all__ = ["load_tables", "save_tables"]


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
