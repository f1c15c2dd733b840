"""Plans by search: predictions inverted for models whose overlap has no closed inverse."""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._checks import (
    Floats,
    Real,
    RegimeWarning,
    invalid_argument,
    real,
    scalar_or_array,
)
from attnlaw.models import PooledModel
from attnlaw.results import Plan, Spike
from attnlaw.theory.verbs import predict

__all__ = ["search_plan", "wanted_overlap"]

GRID = 10.0 ** (np.arange(-96, 97) / 12)
"""Ratios and signals between which a crossing is looked for: twelve in a decade."""

PARTS, STEPS = 64, 9
"""Into how many parts an interval is cut, and how often: from the grid down to rounding."""


def wanted_overlap(
    model: PooledModel[Any], squared_overlap: ArrayLike
) -> tuple[Floats, tuple[int, ...]]:
    """Return the wanted ζ, checked, and the shape to which it broadcasts with the model."""
    wanted = np.asarray(real("squared_overlap", squared_overlap, above=0, below=1))
    try:
        return wanted, np.broadcast_shapes(wanted.shape, model.shape)
    except ValueError:
        raise invalid_argument(
            "squared_overlap", f"broadcastable to {model.shape}", wanted
        ) from None


def search_plan(model: PooledModel[Any], squared_overlap: ArrayLike, ceiling: ArrayLike) -> Plan:
    """Return the needs of `plan` for a model of which only `predict` is known.

    Parameters
    ----------
    model : PooledModel
        Its numbers may be arrays.
    squared_overlap : float or array
        Wanted ζ, above 0 and below 1. Broadcasts with the model.
    ceiling : float or array
        ζ without the noise of samples and sequences; broadcasts with the plan.

    Notes
    -----
    ζ is predicted on a grid of twelve points in a decade from 1e-8 to 1e8. Of a ratio the last
    point that is enough is taken, of the signal the first, and the interval next to it is cut into
    ever finer grids (docs/theory/thresholds.md, "The other way round"). ζ need not be monotone: a
    window between two points of the first grid is overlooked.
    """
    wanted, shape = wanted_overlap(model, squared_overlap)
    overlaps = _Overlaps.of(model, shape)
    nothing = np.zeros((*shape, 1))
    sample_limit = overlaps.on("sample_ratio", nothing)[..., 0, :]
    vocab_limit = overlaps.on("vocab_ratio", nothing)[..., 0, :]
    zeta = np.broadcast_to(np.broadcast_to(wanted, shape)[..., None], sample_limit.shape)

    def shown(values: ArrayLike) -> Real:
        full = np.broadcast_to(values, zeta.shape)
        return scalar_or_array(full if overlaps.are_several else full[..., 0])

    return Plan(
        squared_overlap=shown(zeta),
        sample_ratio=shown(overlaps.largest_ratio("sample_ratio", zeta)),
        vocab_ratio=shown(overlaps.largest_ratio("vocab_ratio", zeta)),
        signal=shown(overlaps.smallest_signal(zeta)),
        ceiling=shown(ceiling),
        sample_limit=shown(sample_limit),
        vocab_limit=shown(vocab_limit),
    )


@dataclass(frozen=True)
class _Overlaps:
    """Predicted overlaps of a model as functions of one of its numbers, the outliers last."""

    model: Any  # a PooledModel
    numbers: dict[str, Floats]  # ratios and signal, each of shape (…, 1)
    are_several: bool  # whether the model has an axis of outliers

    @classmethod
    def of(cls, model: PooledModel[Any], shape: tuple[int, ...]) -> "_Overlaps":
        names = ("vocab_ratio", "sample_ratio", model.signal_field)
        numbers = {n: np.broadcast_to(getattr(model, n), shape)[..., None] for n in names}
        return cls(model, numbers, not isinstance(_predicted(model), Spike))

    def on(self, name: str, values: Floats) -> Floats:
        """Return ζ at values of shape (…, n), of every outlier: shape (…, n, J)."""
        found = _predicted(replace(self.model, **self.numbers | {name: values}))
        return np.asarray(
            found.squared_overlaps if self.are_several else found.squared_overlap[..., None]
        )

    def own(self, name: str, values: Floats) -> Floats:
        """Return ζ of each outlier at values of its own: both of shape (…, J, n)."""
        *shape, J, n = values.shape
        found = self.on(name, values.reshape(*shape, J * n)).reshape(*shape, J, n, J)
        return np.moveaxis(np.diagonal(found, axis1=-3, axis2=-1), -1, -2)

    def largest_ratio(self, name: str, zeta: Floats) -> Floats:
        """Return the largest ratio at which ζ is enough; 0 where there is none."""
        exists, low, _ = self._crossing(name, zeta, from_the_end=True)
        return np.where(exists, low, 0.0)

    def smallest_signal(self, zeta: Floats) -> Floats:
        """Return the smallest signal at which ζ is enough; infinite where there is none."""
        exists, _, high = self._crossing(self.model.signal_field, zeta, from_the_end=False)
        return np.where(exists, high, np.inf)

    def _crossing(
        self, name: str, zeta: Floats, *, from_the_end: bool
    ) -> tuple[NDArray[np.bool_], Floats, Floats]:
        """Return whether ζ is enough anywhere, and neighbours where it begins or ends to be."""
        grid = np.broadcast_to(GRID, (*zeta.shape, len(GRID)))
        enough = self.own(name, grid) >= zeta[..., None]
        exists = np.asarray(enough.any(axis=-1))
        for _ in range(STEPS):
            if from_the_end:
                low = grid.shape[-1] - 1 - np.argmax(enough[..., ::-1], axis=-1)
            else:
                low = np.argmax(enough, axis=-1) - 1
            ends = _picked(grid, low), _picked(grid, low + 1)
            grid = _cut(*ends)
            enough = self.own(name, grid) >= zeta[..., None]
        return exists, *ends


def _picked(grid: Floats, index: NDArray[np.intp]) -> Floats:
    """Return the point of each grid at an index, that next to it where there is none."""
    within = np.clip(index, 0, grid.shape[-1] - 1)
    return np.asarray(np.take_along_axis(grid, within[..., None], axis=-1)[..., 0])


def _cut(low: Floats, high: Floats) -> Floats:
    """Cut intervals into parts of equal ratio, their ends kept to the last digit."""
    inner = np.arange(1, PARTS) / PARTS
    points = low[..., None] * (high / low)[..., None] ** inner
    return np.concatenate([low[..., None], points, high[..., None]], axis=-1)


def _predicted(model: PooledModel[Any]) -> Any:
    """Predict without a word about the regime: a search goes far beyond it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RegimeWarning)
        return predict(model)
