"""Laws and spectra, also of tables: bars, a line for the law, markers for outliers."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from attnlaw._checks import Floats, invalid_argument, real_array
from attnlaw._machine import require
from attnlaw.diagnostics import TableReport, noise_law
from attnlaw.laws import BinnedSpectrum, Law, SeparableLaw, bin_spectrum, logarithmic_bins
from attnlaw.plotting import style
from attnlaw.plotting.style import current_axes
from attnlaw.results import Spike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "draw_bars",
    "draw_binned",
    "draw_outliers",
    "draw_table",
    "plot_law",
    "plot_outlier",
    "plot_spectrum",
    "plot_table",
]


def plot_law(
    law: Law, ax: "Axes | None" = None, *, logarithmic: bool = False, **line: Any
) -> "Axes":
    """Draw the density of a law, and its atoms as stems whose height is their mass.

    Parameters
    ----------
    law : Law
        Any law: of a model (`law`), or made by free convolution.
    ax : matplotlib Axes, optional
        Where to draw, and what is returned; a new figure by default.
    logarithmic : bool
        A logarithmic axis of at most eight decades, with the density of the logarithm, x f(x): for
        laws over many orders of magnitude, such as those of attention heads.
    **line
        Passed on to the line, such as ``label=`` or ``color=``.

    Examples
    --------
    >>> import attnlaw as al
    >>> len(plot_law(al.Discrete([1, 10]) @ al.MarchenkoPastur(0.05)).lines)    # two intervals
    2
    >>> head = al.SelfAttention(n_tokens=400, head_dimension=64, inverse_temperature=1.0)
    >>> plot_law(al.law(head), logarithmic=True).get_xscale()
    'log'
    """
    line = {"color": style.PREDICTED, **line}
    with style.sheet():
        ax = current_axes(ax)
        for low, high in law.support:
            # Chebyshev points: a density rises like a square root from its edges
            x = low + (high - low) * (1 - np.cos(np.pi * np.linspace(0, 1, 400)[1:-1])) / 2
            if logarithmic:
                x = _logarithmic_points(law, low, high)
            ax.plot(x, law.density(x) * (x if logarithmic else 1.0), **line)
            line.pop("label", None)
        for place, mass in zip(*law.atom, strict=True):
            if logarithmic and place <= 0:
                continue
            ax.vlines(place, 0, mass, color=line["color"], lw=2)
            ax.plot(place, mass, "o", color=line["color"])
        ax.set_xlabel("eigenvalue")
        ax.set_ylabel("density of log eigenvalue" if logarithmic else "density")
        ax.set_ylim(bottom=0)
        if logarithmic:
            ax.set_xscale("log")
    return ax


def _logarithmic_points(law: Law, low: float, high: float) -> Floats:
    """Return points of an interval of the support, beyond where 0.2 % of the mass lies below."""
    if high <= 0:
        raise invalid_argument("law", "of positive numbers on a logarithmic axis", law)
    start = max(low, float(law.quantile(0.002)), high * 1e-8)
    return start * (high / start) ** np.linspace(0, 1, 500)[1:-1]


def plot_spectrum(
    eigenvalues: ArrayLike,
    law: Law | Mapping[str, Law] | None = None,
    ax: "Axes | None" = None,
    *,
    outliers: ArrayLike = (),
    logarithmic: bool = False,
    n_bins: int | None = None,
) -> "Axes":
    """Draw a spectrum as bars, with laws at the same resolution and outliers as markers.

    Parameters
    ----------
    eigenvalues : array
        All eigenvalues; several trials may be given at once.
    law : Law, or several by label, optional
        What the spectrum is compared with.
    ax : matplotlib Axes, optional
        Where to draw, and what is returned; a new figure by default.
    outliers : array, optional
        Eigenvalues that are marked.
    logarithmic : bool
        A logarithmic axis, with densities of the logarithm.
    n_bins : int, optional
        By default an eighth of the number of eigenvalues, between 20 and 70.

    Examples
    --------
    >>> import attnlaw as al
    >>> law = al.MarchenkoPastur(0.5)
    >>> axes = plot_spectrum(law.sample(400, rng=0), law, outliers=[4.0])
    >>> sorted(text.get_text() for text in axes.get_legend().get_texts())
    ['eigenvalues', 'law', 'outliers']
    """
    values = real_array("eigenvalues", eigenvalues).ravel()
    laws = dict(law) if isinstance(law, Mapping) else {} if law is None else {"law": law}
    bins = None
    if not logarithmic:
        edges = [one.edges[[0, -1]] for one in laws.values() if len(one.edges)]
        ends = np.concatenate([values[[values.argmin(), values.argmax()]], *edges])
        n = n_bins or int(np.clip(values.size / 8, 20, 70))
        bins = np.linspace(min(ends.min(), 0.0), 1.05 * ends.max(), n + 1)
    elif n_bins is not None:
        bins = logarithmic_bins(values, n_bins)
    with style.sheet():
        ax = current_axes(ax)
        draw_binned(ax, bin_spectrum(values, bins, laws=laws, logarithmic=logarithmic))
        draw_outliers(ax, outliers)
        if logarithmic:
            ax.set_xscale("log")
        ax.set_xlabel("eigenvalue")
        ax.set_ylabel("density of log eigenvalue" if logarithmic else "density")
        ax.legend()
    return ax


def plot_outlier(spike: Spike, ax: "Axes | None" = None) -> "Axes":
    """Mark the edge of the bulk and the eigenvalue of the signal, on top of a law or a spectrum.

    Parameters
    ----------
    spike : Spike
        What `predict` returned for a single model.
    ax : matplotlib Axes, optional
        Where to draw, such as what `plot_law` returned; a new figure by default.

    Examples
    --------
    >>> import attnlaw as al
    >>> model = al.PooledSequences(
    ...     vocab_ratio=0.5, sample_ratio=0.4, signal_norm=1.5,
    ...     correlation=al.prefix_correlation(20, prefix=5), weights="causal",
    ... )
    >>> axes = plot_outlier(al.predict(model), plot_law(al.law(model)))
    >>> [text.get_text() for text in axes.get_legend().get_texts()]
    ['edge of the bulk', 'signal, squared overlap 0.776']
    """
    with style.sheet():
        ax = current_axes(ax)
        edge = float(spike.bulk_edge)
        ax.axvline(edge, color=style.EDGE, ls="--", lw=1, label="edge of the bulk")
        if spike.is_detectable:
            words = f"signal, squared overlap {float(spike.squared_overlap):.3f}"
            draw_outliers(ax, [float(spike.top_eigenvalue)], words)
        ax.legend()
    return ax


def draw_bars(
    ax: "Axes", left: ArrayLike, right: ArrayLike, heights: ArrayLike, label: str
) -> None:
    """Draw a histogram in the colour of what is observed."""
    left, right = np.asarray(left), np.asarray(right)
    ax.bar(left, heights, right - left, align="edge", color=style.OBSERVED, label=label)


def draw_binned(
    ax: "Axes",
    binned: BinnedSpectrum,
    label: str = "eigenvalues",
    dashes: Mapping[str, Any] | None = None,
) -> None:
    """Draw a histogram and its laws; `dashes` are line styles by the name of the law."""
    draw_bars(ax, binned.bins[:-1], binned.bins[1:], binned.heights, label)
    for name, values in binned.laws.items():
        dash = (dashes or {}).get(name, "-")
        ax.plot(binned.x, values, color=style.PREDICTED, ls=dash, label=name)


def draw_outliers(ax: "Axes", values: ArrayLike, label: str = "outliers") -> None:
    """Draw eigenvalues outside the bulk as stems with a marker on top."""
    x = np.asarray(values, dtype=float)
    if x.size:
        height = 0.12 * ax.get_ylim()[1]
        ax.vlines(x, 0, height, color=style.OUTLIER, lw=2)
        ax.plot(x, np.full(x.size, height), "v", color=style.OUTLIER, label=label)


def draw_table(report: TableReport) -> "Figure":
    """Draw the spectrum with the law of its noise, and the subsets with their prediction."""
    require("matplotlib", extra="figures", purpose="A picture")
    import matplotlib.pyplot as plt

    with style.sheet():
        figure, (left, right) = plt.subplots(1, 2, figsize=(10.0, 4.0), layout="constrained")
        plot_table(report, left)
        _draw_check(right, report)
    return figure


def plot_table(report: TableReport, ax: "Axes | None" = None) -> "Axes":
    """Draw the spectrum of a table with the law of its noise, and what stands off it.

    Parameters
    ----------
    report : TableReport
        Of `inspect_table`.
    ax : matplotlib Axes, optional
        Where to draw, and what is returned; a new figure by default.

    Examples
    --------
    >>> import attnlaw as al
    >>> rng = np.random.default_rng(0)
    >>> table = rng.standard_normal((600, 40))
    >>> plot_table(al.diagnostics.inspect_table(table, rng=0)).get_xscale()
    'log'
    """
    values, k = report.eigenvalues, len(report.outliers)
    with style.sheet():
        ax = current_axes(ax)
        draw_binned(ax, bin_spectrum(values[k:], laws={"law of the noise": noise_law(report)}))
        ax.axvline(report.bulk_edge, color=style.EDGE, ls="--", lw=1)
        draw_outliers(ax, values[:k])
        ax.set_xscale("log")
        ax.set_xlabel("eigenvalue")
        ax.set_ylabel("density of log eigenvalue")
        ax.set_title(f"{report.n_vocab}×{report.dimension}, δ = {report.vocab_ratio:.3g}")
        ax.legend()
    return ax


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
