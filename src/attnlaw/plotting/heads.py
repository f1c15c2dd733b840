"""Pictures of heads: layers × heads at a glance, and one head beside its law."""

from typing import TYPE_CHECKING

import numpy as np

from attnlaw._checks import Floats
from attnlaw._extras import require
from attnlaw.diagnostics import HeadFinding, HeadsReport, head_histogram
from attnlaw.plotting import style
from attnlaw.plotting.spectra import draw_bars

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_head", "draw_heads", "plot_head"]

_MARKS = {"random-like": "r", "collapsed": "c", "saturated": "s"}
_TESTS = ("distance", "structure", "top value", "positional pattern", "scores", "row correlation")


def draw_heads(report: HeadsReport) -> "Figure":
    """Draw structure and inverse temperature over layers × heads, with letters for verdicts."""
    require("matplotlib", extra="figures", purpose="A picture")
    import matplotlib.pyplot as plt

    layers, heads = report.n_layers, report.n_heads
    structure = np.array([f.structure for f in report.heads]).reshape(layers, heads)
    beta = np.array([f.inverse_temperature for f in report.heads]).reshape(layers, heads)
    with style.sheet():
        size = (2 * max(3.4, 0.33 * heads + 1.6), max(2.6, 0.33 * layers + 1.6))
        figure, (left, right) = plt.subplots(1, 2, figsize=size, layout="constrained")
        _heat_map(left, structure, "structure", 1.0, "Blues")
        finite = beta[np.isfinite(beta)]
        most = float(np.quantile(finite, 0.98)) if finite.size else 1.0
        _heat_map(right, np.minimum(beta, 1e9), "inverse temperature β", most, "Oranges")
        for finding in report.heads:
            left.text(
                finding.head, finding.layer, _MARKS.get(finding.verdict, ""), ha="center",
                va="center", fontsize=9, color="white" if finding.structure > 0.5 else "black",
            )  # fmt: skip
        present = {finding.verdict for finding in report.heads}
        letters = [
            f"{letter} = {verdict}" for verdict, letter in _MARKS.items() if verdict in present
        ]
        rest = "every head is structured" if not letters else "other heads are structured"
        legend = [*letters, rest] if "structured" in present else letters
        figure.supxlabel(", ".join(legend), fontsize=8, color=style.EDGE)
    return figure


def _heat_map(axes: "Axes", values: Floats, title: str, most: float, colours: str) -> None:
    from matplotlib.ticker import MaxNLocator

    image = axes.imshow(values, cmap=colours, vmin=0, vmax=most, aspect="auto", origin="lower")
    extend = "max" if values.max() > most else "neither"
    axes.figure.colorbar(image, ax=axes, fraction=0.05, pad=0.02, extend=extend)
    axes.set_title(title)
    axes.set_xlabel("head")
    axes.set_ylabel("layer")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(visible=False)


def draw_head(finding: HeadFinding, attention: Floats | None = None) -> "Figure":
    """Draw a head's singular values with their law, its tests and, if given, its map."""
    require("matplotlib", extra="figures", purpose="A picture")
    import matplotlib.pyplot as plt

    wide = attention is not None
    with style.sheet():  # places are fixed: finding them takes longer than drawing
        figure = plt.figure(figsize=(11.0, 3.8) if wide else (7.0, 3.8), layout="none")
        spectrum, tests = ((0.43, 0.32), (0.83, 0.155)) if wide else ((0.095, 0.50), (0.73, 0.245))
        if attention is not None:
            _draw_map(_axes(figure, 0.05, 0.27), _axes(figure, 0.325, 0.011), finding, attention)
        plot_head(finding, _axes(figure, *spectrum))
        _draw_tests(_axes(figure, *tests), finding)
        beta = finding.inverse_temperature
        figure.suptitle(f"{finding.name}: {finding.verdict}, β = {beta:.2f}", fontsize=11)
    return figure


def _axes(figure: "Figure", left: float, width: float) -> "Axes":
    return figure.add_axes((left, 0.14, width, 0.69))


def _draw_map(axes: "Axes", scale: "Axes", finding: HeadFinding, attention: Floats) -> None:
    n = len(finding.squared_singular_values)
    A = np.asarray(attention, dtype=float)[:n, :n]
    support = np.arange(1, n + 1)[:, None] if finding.causal else n
    values = np.log10(np.maximum(A * support, 1e-9))
    if finding.causal:
        values[np.triu_indices(n, k=1)] = np.nan
    image = axes.imshow(values, cmap="RdBu_r", vmin=-2, vmax=2, aspect="auto")
    axes.figure.colorbar(image, cax=scale, ticks=[-2, -1, 0, 1, 2])
    scale.set_yticklabels(["1/100", "1/10", "1", "10", "100"])
    axes.set_title("attention over uniform")
    if finding.most_attended_share > 0.2:  # a single column is too thin to see
        token, share = finding.most_attended, finding.most_attended_share
        axes.plot(token, -0.5, "v", color=style.OUTLIER, clip_on=False, zorder=5)
        axes.set_title(f"attention, {share:.0%} to token {token}")
    axes.set_xlabel("attended token")
    axes.set_ylabel("token")
    axes.grid(visible=False)


def plot_head(finding: HeadFinding, ax: "Axes | None" = None) -> "Axes":
    """Draw singular values on a logarithmic axis, and the law at the resolution of the bins.

    Parameters
    ----------
    finding : HeadFinding
        Of `inspect_heads`.
    ax : matplotlib Axes, optional
        Where to draw, and what is returned; a new figure by default.
    """
    with style.sheet():
        axes = style.current_axes(ax)
        _draw_spectrum(axes, finding)
    return axes


def _draw_spectrum(axes: "Axes", finding: HeadFinding) -> None:
    axes.set_xlabel("singular value of the centred head")
    axes.set_ylabel("density of log singular value")
    part = head_histogram(finding)
    if part is None:
        axes.set_title("uniform attention")
        return
    bins, heights, outliers = part.bins, part.heights, part.outliers
    draw_bars(axes, bins[:-1], bins[1:], heights, "head")
    name = "law, by theory" if finding.null == "theory" else "random heads, simulated"
    axes.plot(part.x, part.law, color=style.PREDICTED, label=name)
    axes.axvline(part.limit, color=style.EDGE, ls="--", lw=1)
    top = 1.3 * max(float(heights.max()), float(part.law.max()))
    if outliers.size:
        y = np.full(outliers.size, 0.04 * top)
        axes.plot(outliers, y, "v", color=style.OUTLIER, label="outliers")
    axes.set_xscale("log")
    axes.set_ylim(0, top)
    what = "one outlier" if outliers.size == 1 else f"{outliers.size or 'no'} outliers"
    axes.set_title(f"{what}, distance {finding.distance:.3f}")
    axes.legend(loc="upper left")


def _draw_tests(axes: "Axes", finding: HeadFinding) -> None:
    """Draw each statistic over what random heads exceed at the level of the verdict."""
    seen, limits = np.array(finding.statistics), np.array(finding.limits)
    ratios = np.where(seen > 0, np.maximum(seen / np.maximum(limits, 1e-12), 0.02), np.nan)
    order = np.arange(len(_TESTS))[::-1]
    colours = [style.OUTLIER if ratio > 1 else style.OBSERVED for ratio in ratios]
    axes.barh(order, ratios, color=colours, height=0.55)
    axes.axvline(1, color=style.EDGE, ls="--", lw=1)
    drawn = ratios[np.isfinite(ratios)]
    axes.set_xscale("log")
    axes.set_xlim(min([0.1, *0.8 * drawn]), max([10.0, *1.5 * drawn]))
    axes.set_yticks(order, _TESTS)
    axes.set_xlabel("over what random heads reach")
    axes.set_title(f"p = {finding.p_value:.1g}" if finding.p_value > 1e-12 else "p < 1e-12")
