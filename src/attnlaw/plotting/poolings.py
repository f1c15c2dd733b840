"""The picture of a pooling advice: merit, weights, and the spectrum of the best."""

from typing import TYPE_CHECKING

import numpy as np

from attnlaw._extras import require
from attnlaw.diagnostics import PoolingAdvice, PoolingCandidate
from attnlaw.laws import SeparableLaw, bin_spectrum
from attnlaw.plotting import style
from attnlaw.plotting.spectra import draw_binned, draw_outliers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_pooling"]

_LOOK = {"trained": "optimal"}  # names of ours that share the colour of another


def draw_pooling(advice: PoolingAdvice) -> "Figure":
    """Draw how the poolings fare, their weights, and the spectrum of the recommended one."""
    require("matplotlib", extra="figures", purpose="A picture")
    import matplotlib.pyplot as plt

    with style.sheet():
        figure, (left, middle, right) = plt.subplots(
            1, 3, figsize=(13.0, 4.0), layout="constrained"
        )
        _draw_merit(left, advice)
        _draw_weights(middle, advice)
        _draw_spectrum(right, advice[advice.best], advice.n_samples)
    return figure


def _draw_merit(axes: "Axes", advice: PoolingAdvice) -> None:
    places = np.arange(len(advice.candidates))[::-1]
    for place, candidate in zip(places, advice.candidates, strict=True):
        interval = candidate.accuracy_interval or candidate.snr_interval
        value = candidate.snr if candidate.accuracy is None else candidate.accuracy
        colour, marker = _look(candidate)
        axes.plot(interval, [place, place], color=colour, lw=2)
        axes.plot(value, place, marker, color=colour)
        if candidate.predicted_accuracies is not None:
            axes.plot(
                candidate.predicted_accuracies[0],
                place,
                "|",
                ms=14,
                mew=2,
                color="black",  # the colour of a prediction is taken by causal weights
                label="predicted" if place == 0 else None,
            )
    if advice.majority_accuracy is not None:
        axes.axvline(
            advice.majority_accuracy, color=style.EDGE, lw=1, ls=":", label="largest class"
        )
    axes.set_yticks(places, [candidate.name for candidate in advice.candidates])
    measured = "accuracy, held out" if advice.ranked_by == "accuracy" else "signal-to-noise ratio"
    axes.set_xlabel(measured)
    axes.set_title(f"{advice.n_samples} sequences of {advice.length}")
    if advice.candidates[0].predicted_accuracies is not None:
        axes.legend(loc="lower right")


def _draw_weights(axes: "Axes", advice: PoolingAdvice) -> None:
    from matplotlib.ticker import MaxNLocator

    positions = np.arange(1, advice.length + 1)
    for candidate in advice.candidates:
        colour, marker = _look(candidate)
        axes.plot(
            positions,
            advice.length * candidate.weights / np.abs(candidate.weights).sum(),
            color=colour,
            marker=marker if advice.length <= 32 else None,
            ms=3,
            lw=1.2,
            label=candidate.name,
        )
    axes.axhline(0, color=style.EDGE, lw=0.8)
    axes.set_yscale("symlog", linthresh=1)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("position")
    axes.set_ylabel("weight, mean = 1")
    axes.set_title("weights")
    axes.legend(ncols=2)


def _draw_spectrum(axes: "Axes", candidate: PoolingCandidate, n_samples: int) -> None:
    law = SeparableLaw(candidate.noise_spectrum, ratio=len(candidate.noise_spectrum) / n_samples)
    binned = bin_spectrum(candidate.eigenvalues, laws={"if tokens were independent": law})
    draw_binned(axes, binned, "pooled sequences")
    draw_outliers(axes, candidate.eigenvalues[: candidate.n_outliers])
    axes.set_xscale("log")
    axes.set_xlabel("eigenvalue")
    axes.set_ylabel("density of log eigenvalue")
    axes.set_title(f"spectrum, {candidate.name} pooling")
    axes.legend()


def _look(candidate: PoolingCandidate) -> tuple[str, str]:
    name = _LOOK.get(candidate.name, candidate.name)
    return style.WEIGHTINGS[name], style.WEIGHTING_MARKERS[name]
