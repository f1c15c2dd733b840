"""Pictures of weights of positions, and the page of a pooling advice."""

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from attnlaw._machine import require
from attnlaw.diagnostics import LearningCurve, PoolingAdvice, PositionComparison, PositionPooling
from attnlaw.laws import SeparableLaw, bin_spectrum
from attnlaw.plotting import style
from attnlaw.plotting.spectra import draw_binned, draw_outliers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_positions", "pooling_page"]

_LOOK = {"trained": "optimal"}  # names of ours that share the colour of another


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


def _draw_weights(axes: "Axes", advice: PositionComparison) -> None:
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


def _look(candidate: PositionPooling) -> tuple[str, str]:
    name = _LOOK.get(candidate.name, candidate.name)
    return style.WEIGHTINGS[name], style.WEIGHTING_MARKERS[name]


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
    parts.append(
        _table(
            ("pooling", "score", "gain on the mean", "texts"),
            [
                (
                    t.pipeline.name,
                    _shown(t.score, unit),
                    _shown(t.gain, unit, "+"),
                    str(t.n_texts),
                )
                for t in advice.trials
            ],
            advice.best.name,
        )
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
