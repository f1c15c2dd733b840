"""The picture of a table report: its spectrum, and the check that can fail."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnlaw._extras import require
from attnlaw.diagnostics.tables.inspection import TableReport, noise_law
from attnlaw.laws.separable import SeparableLaw
from attnlaw.plotting import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_table"]


def draw_table(report: TableReport) -> "Figure":
    """Draw the spectrum with the law of its noise, and the subsets with their prediction."""
    require("matplotlib", extra="figures", purpose="A picture")
    import matplotlib.pyplot as plt

    with style.sheet():
        figure, (left, right) = plt.subplots(1, 2, figsize=(10.0, 4.0), layout="constrained")
        _draw_spectrum(left, report)
        _draw_check(right, report)
    return figure


def _draw_spectrum(axes: "Axes", report: TableReport) -> None:
    values, k = report.eigenvalues, len(report.outliers)
    bins = _bins(values[k:])
    _draw_histogram(axes, values[k:], bins)
    _draw_law(axes, noise_law(report), bins, label="law of the noise")
    axes.axvline(report.bulk_edge, color=style.EDGE, ls="--", lw=1)
    if k:
        top = axes.get_ylim()[1]
        axes.vlines(values[:k], 0, 0.12 * top, color=style.OUTLIER, lw=2)
        axes.plot(values[:k], np.full(k, 0.12 * top), "v", color=style.OUTLIER, label="outliers")
    axes.set_xscale("log")
    axes.set_xlabel("eigenvalue")
    axes.set_ylabel("density of log eigenvalue")
    axes.set_title(f"{report.n_vocab}×{report.dimension}, δ = {report.vocab_ratio:.3g}")
    axes.legend()


def _draw_check(axes: "Axes", report: TableReport) -> None:
    check = report.check
    axes.set_xlabel("eigenvalue")
    if check is None:
        axes.set_title("too few rows for the check")
        return
    bins = _bins(check.eigenvalues.ravel())
    _draw_histogram(axes, check.eigenvalues.ravel(), bins)
    ratio = report.dimension / (check.n_rows - 1)
    laws = (
        (check.scales, check.distance, "-", "with row lengths"),
        (np.ones(1), check.silverstein_distance, "--", "equal lengths"),
    )
    for rows, distance, dashes, label in laws:
        law = SeparableLaw(check.population, ratio=ratio, rows=rows)
        _draw_law(axes, law, bins, ls=dashes, label=f"{label}: off by {distance:.2%}")
    axes.set_xscale("log")
    axes.set_xlim(np.quantile(check.eigenvalues, 0.002), 2 * report.bulk_edge)
    axes.set_title(
        f"{check.n_subsets}×{check.n_rows} random rows, δ' = {check.ratio:.2g}, "
        "predicted from the rest"
    )
    axes.set_ylim(0, 1.35 * axes.get_ylim()[1])  # room for the legend
    axes.legend(title=f"chance explains {check.tolerance:.2%}", alignment="left", loc="upper left")


def _bins(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bins that are even in the logarithm."""
    positive = values[values > 1e-9 * values.max()]
    n_bins = int(np.clip(len(positive) / 8, 20, 70))
    return np.geomspace(0.8 * positive.min(), 1.25 * positive.max(), n_bins + 1)


def _draw_histogram(axes: "Axes", values: NDArray[np.float64], bins: NDArray[np.float64]) -> None:
    counts, _ = np.histogram(values, bins)
    heights = counts / (len(values) * np.log(bins[1] / bins[0]))
    axes.bar(
        bins[:-1], heights, np.diff(bins), align="edge", color=style.OBSERVED, label="eigenvalues"
    )


def _draw_law(axes: "Axes", law: SeparableLaw, bins: NDArray[np.float64], **settings: Any) -> None:
    """Draw a law at the resolution of the bins: eigenvalues that it tells apart run together."""
    x = np.geomspace(bins[0], bins[-1], 500)
    half = np.sqrt(bins[1] / bins[0])
    mass = law.cdf(x * half) - law.cdf(x / half)
    axes.plot(x, mass / np.log(bins[1] / bins[0]), color=style.PREDICTED, **settings)
