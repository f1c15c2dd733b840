"""Histograms of spectra: their table of numbers, and their bars."""

from typing import TYPE_CHECKING

import numpy as np

from attnlaw._checks import Floats
from attnlaw.figures.figure import Table
from attnlaw.plotting import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_histogram", "histogram"]


def histogram(values: Floats, bins: Floats, *, logarithmic: bool = False) -> dict[str, Floats]:
    """Return the share of all values in each bin, as a density in x or in log x.

    Values beyond the bins count as part of the whole, as they do in a law's mass.

    Examples
    --------
    >>> histogram(np.array([0.1, 0.2, 0.3, 7.0]), np.array([0.0, 0.25, 0.5]))["density"]
    array([2., 1.])
    """
    counts, _ = np.histogram(values, bins)
    width = np.diff(np.log(bins) if logarithmic else bins)
    return {"left": bins[:-1], "right": bins[1:], "density": counts / values.size / width}


def draw_histogram(axes: "Axes", bars: Table, label: str) -> None:
    """Draw a histogram in the colour of what is observed."""
    axes.bar(
        bars["left"],
        bars["density"],
        bars["right"] - bars["left"],
        align="edge",
        color=style.OBSERVED,
        label=label,
    )
