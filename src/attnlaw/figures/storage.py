"""Tables and manifests on disk: written whole or not at all, read back exactly."""

import csv
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import attnlaw
from attnlaw.figures.figure import Table, Tables

__all__ = ["atomic_path", "fingerprint", "load_tables", "save_tables"]


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Write to the path this gives; it replaces `path` only when the block ends well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{os.getpid()}-{path.name}")  # the suffix stays: savefig reads it
    try:
        yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def fingerprint(**setting: Any) -> str:
    """Identify a computation: its setting, and every line of the library's source.

    A changed formula thus makes earlier results stale, and nothing else does.
    """
    digest = hashlib.sha256(json.dumps(setting, sort_keys=True).encode())
    root = Path(attnlaw.__file__).parent
    for source in sorted(root.rglob("*.py")):
        digest.update(source.relative_to(root).as_posix().encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()


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
