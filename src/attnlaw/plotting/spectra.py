"""Laws and spectra: bars for eigenvalues, a line for the law, markers for outliers."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from attnlaw._checks import real_array
from attnlaw.laws import BinnedSpectrum, Law, bin_spectrum, logarithmic_bins
from attnlaw.plotting import style
from attnlaw.plotting.axes import current_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_bars", "draw_binned", "draw_outliers", "plot_law", "plot_spectrum"]


def plot_law(law: Law, ax: "Axes | None" = None, **line: Any) -> "Axes":
    """Draw the density of a law, and its atoms as stems whose height is their mass.

    Parameters
    ----------
    law : Law
        Any law: of a model (`law`), or made by free convolution.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    **line
        Passed on to the line, such as ``label=`` or ``color=``.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import attnlaw as al
    >>> len(plot_law(al.Discrete([1, 10]) @ al.MarchenkoPastur(0.05)).lines)    # two intervals
    2
    """
    line = {"color": style.PREDICTED, **line}
    with style.sheet():
        ax = current_axes(ax)
        for low, high in law.support:
            # Chebyshev points: a density rises like a square root from its edges
            x = low + (high - low) * (1 - np.cos(np.pi * np.linspace(0, 1, 400)[1:-1])) / 2
            ax.plot(x, law.density(x), **line)
            line.pop("label", None)
        for place, mass in zip(*law.atom, strict=True):
            ax.vlines(place, 0, mass, color=line["color"], lw=2)
            ax.plot(place, mass, "o", color=line["color"])
        ax.set_xlabel("eigenvalue")
        ax.set_ylabel("density")
        ax.set_ylim(bottom=0)
    return ax


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
        Where to draw; a new figure by default.
    outliers : array, optional
        Eigenvalues that are marked.
    logarithmic : bool
        A logarithmic axis, with densities of the logarithm.
    n_bins : int, optional
        By default an eighth of the number of eigenvalues, between 20 and 70.

    Returns
    -------
    matplotlib Axes

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


def draw_outliers(ax: "Axes", values: ArrayLike) -> None:
    """Draw eigenvalues outside the bulk as stems with a marker on top."""
    x = np.asarray(values, dtype=float)
    if x.size:
        height = 0.12 * ax.get_ylim()[1]
        ax.vlines(x, 0, height, color=style.OUTLIER, lw=2)
        ax.plot(x, np.full(x.size, height), "v", color=style.OUTLIER, label="outliers")
