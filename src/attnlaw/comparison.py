"""Prediction beside observation: the same number found in two independent ways."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from attnlaw._checks import Floats, Random, count
from attnlaw.models import Model
from attnlaw.results import frame, html_table
from attnlaw.simulation import simulate
from attnlaw.simulation.verbs import Progress
from attnlaw.theory import predict

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["ComparedField", "Comparison", "compare", "compare_results"]


@dataclass(frozen=True, kw_only=True)
class ComparedField:
    """One field of a result, predicted and observed; each of the shape of the prediction."""

    predicted: Floats
    observed: Floats  # mean over trials
    standard_error: Floats  # of that mean; not a number with a single trial
    z_score: Floats  # (observed − predicted)/standard error


class Comparison(dict[str, ComparedField]):
    """The fields of a result by name, each of them compared; shown as a table."""

    def to_dict(self) -> dict[str, dict[str, Floats]]:
        """Return predicted, observed, standard_error and z_score of each field by its name."""
        return {name: dict(vars(field)) for name, field in self.items()}

    def to_frame(self) -> "DataFrame":
        """Return a pandas DataFrame with a row for each number; needs the extra ``frames``."""
        columns = [f.name for f in fields(ComparedField)]
        cells = [[float(value[k]) for value in vars(f).values()] for _, f, k in self._places()]
        table = dict(zip(columns, np.array(cells).T, strict=True))
        return frame(table).set_index(np.array([label for label, _, _ in self._places()]))

    def _places(self) -> Iterator[tuple[str, ComparedField, tuple[int, ...]]]:
        for name, field in self.items():
            for index in np.ndindex(np.shape(field.predicted)):
                place = f"[{', '.join(map(str, index))}]" if index else ""
                yield name + place, field, index

    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [("", "predicted", "observed", "± s.e.", "z")]
        for label, field, index in self._places():
            *values, z = (float(value[index]) for value in vars(field).values())
            rows.append((label, *(f"{v:.6g}" for v in values), f"{z:+.2f}"))
        return rows

    def _repr_html_(self) -> str:
        head, *rows = self._rows()
        return html_table(head, rows)

    def __repr__(self) -> str:
        rows = self._rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        first, *others = widths
        return "\n".join(
            "  ".join([row[0].ljust(first), *map(str.rjust, row[1:], others)]) for row in rows
        )


def compare(
    model: Model[Any],
    dimension: int | None = None,
    n_trials: int = 20,
    rng: Random = None,
    *,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> Comparison:
    """Predict a model, simulate it, and set the two side by side, field by field.

    Parameters
    ----------
    model : any model
        One that both `predict` and `simulate` answer for.
    dimension, n_trials, rng, n_jobs, progress
        As in `simulate`; two trials at least, for a standard error.

    Returns
    -------
    Comparison
        For each field of the result what is predicted, the mean over trials, its standard error
        and z = (observed − predicted)/standard error. A |z| beyond 5 says that the two disagree
        by more than chance, or that the dimension is small.

    Examples
    --------
    >>> import attnlaw as al
    >>> model = al.PooledSequences(
    ...     vocab_ratio=0.5, sample_ratio=0.25, signal_norm=2.0,
    ...     correlation=al.prefix_correlation(20, 5), weights="mean",
    ... )
    >>> table = al.compare(model, dimension=100, n_trials=10, rng=0)
    >>> bool(abs(table["squared_overlap"].z_score) < 5)
    True
    """
    count("n_trials", n_trials, at_least=2)
    predicted = predict(model)
    observed = simulate(model, dimension, n_trials, rng, n_jobs=n_jobs, progress=progress)
    return compare_results(predicted, observed)


def compare_results(predicted: Any, observed: Any) -> Comparison:
    """Compare a prediction with an observation of the same type, trials along its first axis.

    Examples
    --------
    >>> import attnlaw as al
    >>> predicted = al.results.Alignment(top_eigenvalue=2.0, squared_overlap=0.5)
    >>> observed = al.results.Alignment(
    ...     top_eigenvalue=np.array([1.9, 2.3]), squared_overlap=np.array([0.4, 0.6]))
    >>> compare_results(predicted, observed)
                     predicted  observed  ± s.e.      z
    top_eigenvalue           2       2.1     0.2  +0.50
    squared_overlap        0.5       0.5     0.1  +0.00
    """
    return Comparison(
        {name: _compared(vars(predicted)[name], values) for name, values in vars(observed).items()}
    )


def _compared(predicted: Any, observed: Any) -> ComparedField:
    values = np.asarray(observed, dtype=np.float64)
    expected = np.asarray(predicted, dtype=np.float64)
    n, mean = len(values), values.mean(axis=0)
    error = values.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.full_like(mean, np.nan)
    gap = mean - expected
    # trials that all agree with the prediction (an exact 0 or 1) are no deviation
    z = np.where(error > 0, gap / np.where(error > 0, error, 1.0), np.nan)
    z = np.where((error == 0) & (gap == 0), 0.0, z)
    return ComparedField(
        predicted=np.broadcast_to(expected, z.shape),
        observed=np.asarray(mean),
        standard_error=np.asarray(error),
        z_score=z,
    )
