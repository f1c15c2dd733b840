"""The picture of a table report: its spectrum, and the check that can fail."""

from typing import TYPE_CHECKING

import numpy as np

from attnlaw._extras import require
from attnlaw.diagnostics import TableReport, noise_law
from attnlaw.laws import SeparableLaw, bin_spectrum
from attnlaw.plotting import style
from attnlaw.plotting.spectra import draw_binned, draw_outliers

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
    draw_binned(axes, bin_spectrum(values[k:], laws={"law of the noise": noise_law(report)}))
    axes.axvline(report.bulk_edge, color=style.EDGE, ls="--", lw=1)
    draw_outliers(axes, values[:k])
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
    ratio = report.dimension / (check.n_rows - 1)
    laws = {
        f"with row lengths: off by {check.distance:.2%}": check.scales,
        f"equal lengths: off by {check.silverstein_distance:.2%}": np.ones(1),
    }
    binned = bin_spectrum(
        check.eigenvalues,
        laws={
            label: SeparableLaw(check.population, ratio=ratio, rows=rows)
            for label, rows in laws.items()
        },
    )
    draw_binned(axes, binned, dashes=dict(zip(laws, ("-", "--"), strict=True)))
    axes.set_xscale("log")
    axes.set_xlim(np.quantile(check.eigenvalues, 0.002), 2 * report.bulk_edge)
    axes.set_title(
        f"{check.n_subsets}×{check.n_rows} random rows, δ' = {check.ratio:.2g}, "
        "predicted from the rest"
    )
    axes.set_ylim(0, 1.35 * axes.get_ylim()[1])  # room for the legend
    axes.legend(title=f"chance explains {check.tolerance:.2%}", alignment="left", loc="upper left")
