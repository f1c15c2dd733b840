"""The contract of a figure: numbers first, then a picture and a verdict drawn from them.

A figure is a class of this package (`PaperFigure`), which computes tables of numbers at one of two
sizes (`EmbeddingTables` also takes a table of the user's own), draws them and checks them.

Because pictures and verdicts see nothing but the tables, a run that was interrupted goes on
from the tables on disk, and every number in the report can be traced to a file.

A `Table` has long columns and is saved as CSV, from which it is read back exactly.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats
from attnlaw._store import atomic_path
from attnlaw.laws import bin_spectrum
from attnlaw.models import Sampling
from attnlaw.plotting.spectra import draw_bars

__all__ = [
    "SAMPLINGS",
    "Check",
    "PaperFigure",
    "Pieces",
    "Table",
    "Tables",
    "Verdict",
    "draw_histogram",
    "draw_means",
    "histogram",
    "load_tables",
    "long_table",
    "rows",
    "save_tables",
    "summary",
    "z_check",
]

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Table = Mapping[str, NDArray[Any]]
"""Named columns of equal length."""

Tables = Mapping[str, Table]

Verdict = Literal["agrees", "differs as known", "unexpected"]


class PaperFigure:
    """What every figure offers; a subclass says what is computed, drawn and compared."""

    title: ClassVar[str]
    claim: ClassVar[str]  # what the paper says
    seconds: ClassVar[tuple[float, float]]  # rough cost, quick and full, for the time left
    sizes: ClassVar[tuple[Any, Any]] = (None, None)  # of the simulation, quick and full

    def setting(self, size: Any) -> dict[str, str]:
        """Return the parameters used, as words."""
        raise NotImplementedError

    def compute(self, size: Any, rng: np.random.Generator) -> Tables:
        """Return the numbers, predicted beside observed."""
        raise NotImplementedError

    def draw(self, tables: Tables) -> "Figure":
        """Make the picture from the tables alone."""
        raise NotImplementedError

    def check(self, tables: Tables) -> list["Check"]:
        """Compare predicted with observed: what the verdict is made of."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Check:
    """One number in two independent ways, and whether they agree.

    `tolerance` is what the two may differ by and `basis` says where it comes from. An
    `explanation` says why a difference is expected: it is given where the formula compared is
    known to be an approximation, and shown only when there is a difference.
    """

    quantity: str
    predicted: float
    observed: float
    tolerance: float
    basis: str
    explanation: str = ""

    @property
    def difference(self) -> float:
        """Observed minus predicted."""
        return self.observed - self.predicted

    @property
    def agrees(self) -> bool:
        """Whether the difference is within tolerance (never when a number is missing)."""
        return bool(abs(self.difference) <= self.tolerance)

    @property
    def verdict(self) -> Verdict:
        """One of three: within tolerance, beyond it for a known reason, or beyond it."""
        if self.agrees:
            return "agrees"
        known = self.explanation and np.isfinite(self.difference)
        return "differs as known" if known else "unexpected"


def z_check(
    quantity: str,
    predicted: Any,
    observed: Any,
    standard_error: Any,
    *,
    finite_size: Any = 0.0,
    basis: str = "",
    explanation: str = "",
) -> Check:
    """Check the worst point of a curve, in units of its own standard error.

    Parameters
    ----------
    quantity : str
        What is compared, in words.
    predicted, observed, standard_error : arrays that broadcast
        The points of the curve.
    finite_size : array
        Deviation expected at this size on top of the sampling error, such as C/d.
    basis : str
        Where `finite_size` comes from.

    Examples
    --------
    >>> z_check("a mean", [1.0, 2.0], [1.1, 2.0], [0.05, 0.05]).agrees
    True
    """
    p, o, s, f = (
        np.ravel(a).astype(float)
        for a in np.broadcast_arrays(predicted, observed, standard_error, finite_size)
    )
    allowed = 5 * s + f
    worst = int(np.argmax(np.abs(o - p) - allowed)) if np.isfinite(o - p).all() else 0
    words = f"5 standard errors, worst of {len(p)} points" if len(p) > 1 else "5 standard errors"
    return Check(
        quantity=quantity,
        predicted=float(p[worst]),
        observed=float(o[worst]),
        tolerance=float(allowed[worst]),
        basis=words + (f", plus {basis}" if basis else ""),
        explanation=explanation,
    )


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


def draw_means(axes: "Axes", seen: Table, x: str, y: str, **look: Any) -> None:
    """Draw a column of means over another as markers with bars of two standard errors."""
    axes.errorbar(seen[x], seen[y], 2 * seen["standard_error"], **({"fmt": "o"} | look))


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
