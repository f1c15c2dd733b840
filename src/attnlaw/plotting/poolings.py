"""Alignment, phase diagrams and weights of pooled sequences, and the page of a pooling advice."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from attnlaw._checks import choice, invalid_argument, real_array
from attnlaw._machine import require
from attnlaw.diagnostics import LearningCurve, PoolingAdvice, PositionComparison, PositionPooling
from attnlaw.laws import SeparableLaw, bin_spectrum
from attnlaw.models import PooledSequences
from attnlaw.plotting import style
from attnlaw.plotting.spectra import draw_binned, draw_outliers
from attnlaw.plotting.style import current_axes
from attnlaw.results import Spike
from attnlaw.theory import predict, thresholds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "draw_positions",
    "plot_alignment",
    "plot_phase_diagram",
    "plot_weights",
    "pooling_page",
]

_LOOK = {"trained": "optimal"}  # names of ours that share the colour of another

FIELDS = {
    "vocab_ratio": r"vocabulary ratio $\delta = d/V$",
    "sample_ratio": r"sample ratio $\gamma = d/N$",
    "signal_norm": r"signal norm $\|\mu\|$",
}


def plot_alignment(
    models: PooledSequences | Mapping[str, PooledSequences],
    observed: Spike | Mapping[str, Spike] | None = None,
    ax: "Axes | None" = None,
    *,
    over: str = "signal_norm",
) -> "Axes":
    """Draw the squared overlap with the signal against the signal norm, or a ratio.

    Parameters
    ----------
    models : PooledSequences, or several by label
        Predictions are drawn as lines over their signal norms, arrays of one axis.
    observed : Spike, or several by label, optional
        What `simulate` returned for the same models: markers with two standard errors.
    ax : matplotlib Axes, optional
        Where to draw, and what is returned; a new figure by default.
    over : "signal_norm", "vocab_ratio" or "sample_ratio"
        The field that holds an array.

    Examples
    --------
    >>> import attnlaw as al
    >>> model = al.PooledSequences(
    ...     vocab_ratio=0.5, sample_ratio=0.4, signal_norm=np.linspace(0, 2, 50),
    ...     correlation=al.prefix_correlation(20, prefix=5), weights="causal",
    ... )
    >>> plot_alignment(model).get_ylabel()
    'squared overlap with the signal'
    """
    choice("over", over, tuple(FIELDS))
    several = models if isinstance(models, Mapping) else {"": models}
    seen = observed if isinstance(observed, Mapping) else {"": observed}
    with style.sheet():
        ax = current_axes(ax)
        for i, (label, model) in enumerate(several.items()):
            norms = real_array(over, getattr(model, over), ndim=1)
            colour, marker = _look(label, i)
            line = predict(model).squared_overlap
            ax.plot(norms, line, color=colour, label=label or "predicted")
            spike = seen.get(label)
            if spike is not None:
                values = np.asarray(spike.squared_overlap)
                error = values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0
                ax.errorbar(
                    norms, values.mean(axis=0), 2 * error, fmt=marker, color=colour,
                    label=None if label else "simulated, ± 2 s.e.",
                )  # fmt: skip
        ax.set_xlabel(FIELDS[over])
        ax.set_ylabel("squared overlap with the signal")
        ax.set_ylim(-0.02, 1.02)
        ax.legend()
    return ax


def plot_phase_diagram(
    model: PooledSequences,
    *,
    x: Mapping[str, ArrayLike] | None = None,
    y: Mapping[str, ArrayLike] | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the squared overlap over two parameters of a model, and the line of its threshold.

    Parameters
    ----------
    model : PooledSequences
        What stays as it is.
    x, y : mapping of one item
        A field of the model and its values: ``x={"signal_norm": np.linspace(0, 2, 200)}`` (the
        default) against ``y={"vocab_ratio": np.linspace(0, 1, 200)}`` (the default).
    ax : matplotlib Axes, optional
        Where to draw, and what is returned; a new figure by default.

    Examples
    --------
    >>> import attnlaw as al
    >>> model = al.PooledSequences(
    ...     vocab_ratio=0.5, sample_ratio=0.4, signal_norm=1.0,
    ...     correlation=al.prefix_correlation(20, prefix=5), weights="optimal",
    ... )
    >>> len(plot_phase_diagram(model).collections)      # the map, and the line of the threshold
    2
    """
    x_name, x_values = _axis("x", x or {"signal_norm": np.linspace(0, 2, 200)})
    y_name, y_values = _axis("y", y or {"vocab_ratio": np.linspace(0, 1, 200)})
    changes: dict[str, Any] = {x_name: x_values[None, :], y_name: y_values[:, None]}
    everywhere = replace(model, **changes)
    zeta = np.asarray(predict(everywhere).squared_overlap)
    critical = np.asarray(thresholds(everywhere).sample_signal)
    above = np.broadcast_to(np.asarray(everywhere.signal_norm) - critical, zeta.shape)
    with style.sheet():
        ax = current_axes(ax)
        image = ax.pcolormesh(x_values, y_values, zeta, vmin=0, vmax=1, shading="auto")
        if above.min() < 0 < above.max():
            ax.contour(x_values, y_values, above, levels=[0], colors="white", linestyles="--")
        ax.figure.colorbar(image, ax=ax, label="squared overlap with the signal")
        ax.set_xlabel(FIELDS[x_name])
        ax.set_ylabel(FIELDS[y_name])
    return ax


def _axis(argument: str, given: Mapping[str, ArrayLike]) -> tuple[str, np.ndarray]:
    """Return the field and the values of an axis, checked."""
    if len(given) != 1 or (name := next(iter(given))) not in FIELDS:
        raise invalid_argument(argument, "one of " + ", ".join(FIELDS) + " with its values", given)
    return name, real_array(name, given[name], ndim=1)


def plot_weights(weights: ArrayLike | Mapping[str, ArrayLike], ax: "Axes | None" = None) -> "Axes":
    """Draw pooling weights by position, scaled to a mean size of one.

    Parameters
    ----------
    weights : array of shape (length,), or several by label
        w.
    ax : matplotlib Axes, optional
        Where to draw, and what is returned; a new figure by default.

    Examples
    --------
    >>> import attnlaw as al
    >>> plot_weights({"mean": al.mean_weights(8), "causal": al.causal_weights(8)}).get_xlabel()
    'position'
    """
    from matplotlib.ticker import MaxNLocator

    several = weights if isinstance(weights, Mapping) else {"": weights}
    with style.sheet():
        ax = current_axes(ax)
        for i, (label, values) in enumerate(several.items()):
            w = real_array("weights", values, ndim=1)
            scaled = w * (len(w) / np.abs(w).sum())
            colour, marker = _look(label, i)
            marks: dict[str, Any] = {"marker": marker} if len(w) <= 32 else {}
            ax.plot(np.arange(1, len(w) + 1), scaled, color=colour, label=label, **marks)
        ax.axhline(0, color=style.EDGE, lw=0.8)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_xlabel("position")
        ax.set_ylabel("weight, mean = 1")
        if any(several):
            ax.legend()
    return ax


def draw_positions(advice: PositionComparison) -> "Figure":
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


def _draw_merit(axes: "Axes", advice: PositionComparison) -> None:
    places = np.arange(len(advice.candidates))[::-1]
    for place, candidate in zip(places, advice.candidates, strict=True):
        interval = candidate.accuracy_interval or candidate.snr_interval
        value = candidate.snr if candidate.accuracy is None else candidate.accuracy
        colour, marker = _look(candidate.name)
        axes.plot(interval, [place, place], color=colour, lw=2)
        axes.plot(value, place, marker, color=colour)
        if candidate.predicted_accuracies is not None:
            label = "predicted" if place == 0 else None
            bar: dict[str, Any] = {"ms": 14, "mew": 2, "color": "black"}  # vermilion is taken
            axes.plot(candidate.predicted_accuracies[0], place, "|", label=label, **bar)
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


def _draw_weights(axes: "Axes", advice: PositionComparison) -> None:
    plot_weights({candidate.name: candidate.weights for candidate in advice.candidates}, axes)
    axes.set_yscale("symlog", linthresh=1)
    axes.set_title("weights")
    axes.legend(ncols=2)


def _draw_spectrum(axes: "Axes", candidate: PositionPooling, n_samples: int) -> None:
    law = SeparableLaw(candidate.noise_spectrum, ratio=len(candidate.noise_spectrum) / n_samples)
    binned = bin_spectrum(candidate.eigenvalues, laws={"if tokens were independent": law})
    draw_binned(axes, binned, "pooled sequences")
    draw_outliers(axes, candidate.eigenvalues[: candidate.n_outliers])
    axes.set_xscale("log")
    axes.set_xlabel("eigenvalue")
    axes.set_ylabel("density of log eigenvalue")
    axes.set_title(f"spectrum, {candidate.name} pooling")
    axes.legend()


def _look(label: str, i: int = 0) -> tuple[str, str]:
    """Return the colour and the marker of a pooling; of others, those of the i-th line."""
    name = _LOOK.get(label, label)
    return style.WEIGHTINGS.get(name, f"C{i}"), style.WEIGHTING_MARKERS.get(name, "o")


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Which pooling: {title}</title>
<style>
:root {{ color-scheme: light dark; {light} }}
@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto;
  padding: 0 1rem; color: var(--ink); background: var(--paper); }}
h1 {{ font-size: 1.5rem; line-height: 1.25; }} h2 {{ font-size: 1.15rem; margin-top: 2rem; }}
.wide {{ overflow-x: auto; }} table {{ border-collapse: collapse; margin: 1rem 0; }}
th, td {{ padding: .25rem .7rem; text-align: right; border-bottom: 1px solid var(--line);
  font-variant-numeric: tabular-nums; white-space: nowrap; }}
th:first-child, td:first-child {{ text-align: left; padding-left: .3rem; white-space: normal;
  min-width: 8rem; }}
.use {{ font-weight: 600; background: var(--mark); }} .verdict {{ font-size: 1.1rem; }}
svg {{ display: block; width: 100%; max-width: 30rem; }} svg text {{ fill: currentColor; }}
</style></head><body>
<h1>Which pooling: {title}</h1>
<p class="verdict">{verdict}</p>
{body}
</body></html>
"""


def pooling_page(advice: PoolingAdvice) -> str:
    """Return the advice as one page of HTML that needs nothing else."""
    unit = 100 if advice.in_percent else 1
    held_out = [
        ("best of a search", advice.score, advice.score_interval, style.WEIGHTINGS["optimal"]),
        ("mean", advice.mean_score, advice.mean_interval, style.WEIGHTINGS["mean"]),
    ]
    parts = [
        f"<p>{advice.n_texts} texts of up to {advice.length} tokens in {advice.dimension} "
        f"dimensions{f', {len(advice.classes)} classes' if advice.classes else ''}. Score: "
        f"{escape(advice.score_name)}.</p>",
        "<h2>On folds that the search has not seen</h2>",
        _bars(held_out, advice.majority_accuracy, unit),
        _table(
            ("", "score", "95 %"),
            [(n, _shown(v, unit), _ends(i, unit)) for n, v, i, _ in held_out]
            + [("gain", _shown(advice.gain, unit, "+"), _ends(advice.gain_interval, unit, "+"))],
        ),
        f"<p>Found without each fold: {escape('; '.join(advice.chosen))}.</p>",
    ]
    curves = {advice.best.name: advice.curve, "mean": advice.mean_curve}
    rows = [_curve_row(name, curve) for name, curve in curves.items() if curve is not None]
    if rows:
        parts.append("<h2>Predicted accuracy with more labels</h2>")
        heads = ("", "now", "twice", "95 %", "four times", "infinitely many")
        parts.append(_table(heads, rows))
    parts.append("<h2>What was tried</h2>")
    parts.append("<p>Scores of a search, which are optimistic; more texts, better known.</p>")
    tried = [
        (t.pipeline.name, _shown(t.score, unit), _shown(t.gain, unit, "+"), str(t.n_texts))
        for t in advice.trials
    ]
    parts.append(
        _table(("pooling", "score", "gain on the mean", "texts"), tried, advice.best.name)
    )
    if advice.notes:
        notes = "".join(f"<li>{escape(note)}</li>" for note in advice.notes)
        parts.append(f"<h2>Notes</h2><ul>{notes}</ul>")
    return PAGE.format(
        title=escape(advice.best.name),
        verdict=escape(advice.verdict),
        body="\n".join(parts),
        light=_page_colours(style.LIGHT),
        dark=_page_colours(style.DARK),
    )


def _page_colours(theme: style.Theme) -> str:
    parts = {"ink": theme.text, "paper": theme.paper, "line": theme.grid, "mark": theme.nothing}
    return " ".join(f"--{part}: {colour};" for part, colour in parts.items())


def _table(
    headings: Iterable[str], rows: Iterable[Iterable[str]], marked: str | None = None
) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in headings)
    lines = []
    for row in rows:
        cells = list(row)
        kind = ' class="use"' if cells[0] == marked else ""
        lines.append(f"<tr{kind}>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>")
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(lines)}</table></div>'


def _bars(
    rows: list[tuple[str, float, tuple[float, float], str]], majority: float | None, unit: int
) -> str:
    """Draw scores with their intervals, and the largest class, as an SVG."""
    ends = [end for _, _, interval, _ in rows for end in interval]
    ends += [] if majority is None else [majority]
    low, high = min(ends), max(ends)
    span = max(high - low, 1e-9)

    def x(value: float) -> float:
        return 8 + 324 * (value - low) / span

    lines = []
    for i, (name, value, (left, right), colour) in enumerate(rows):
        y = 36 + 44 * i
        lines.append(
            f'<text x="14" y="{y - 14}" font-size="14">{escape(name)}</text>'
            f'<line x1="{x(left):.1f}" x2="{x(right):.1f}" y1="{y}" y2="{y}" stroke="{colour}" '
            f'stroke-width="3"/><circle cx="{x(value):.1f}" cy="{y}" r="5" fill="{colour}"/>'
            f'<text x="{x(right) + 8:.1f}" y="{y + 5}" font-size="14">{_shown(value, unit)}</text>'
        )
    height = 12 + 44 * len(rows)
    if majority is not None:
        anchor = "start" if x(majority) < 60 else "middle" if x(majority) < 320 else "end"
        lines.append(
            f'<line x1="{x(majority):.1f}" x2="{x(majority):.1f}" y1="26" y2="{height}" '
            f'stroke="{style.EDGE}" stroke-dasharray="3 3"/><text x="{x(majority):.1f}" '
            f'y="{height + 15}" font-size="13" text-anchor="{anchor}">largest class '
            f"{_shown(majority)}</text>"
        )
    return (
        f'<svg viewBox="0 0 390 {height + 22}" role="img" '
        f'aria-label="Scores on folds held out">{"".join(lines)}</svg>'
    )


def _curve_row(name: str, curve: LearningCurve) -> tuple[str, ...]:
    now, twice, four, most = map(_shown, curve.accuracies)
    return name, now, twice, _ends(curve.intervals[1]), four, most


def _shown(value: float, unit: int = 100, sign: str = "") -> str:
    """Show a score in percent, or as it is."""
    return f"{unit * value:{sign}.{1 if unit == 100 else 3}f}"


def _ends(interval: tuple[float, float], unit: int = 100, sign: str = "") -> str:
    return " to ".join(_shown(end, unit, sign) for end in interval)
