"""P1 Fig. 2: where the signal can be found, over signal norm and vocabulary ratio."""

import itertools
from typing import TYPE_CHECKING

import numpy as np

from attnlaw import predict, thresholds
from attnlaw._checks import Real
from attnlaw.correlations import spiked_correlation
from attnlaw.figures.figure import (
    SAMPLINGS,
    Check,
    Pieces,
    Tables,
    long_table,
    rows,
    summary,
    z_check,
)
from attnlaw.models import PooledSequences, Sampling
from attnlaw.plotting import style
from attnlaw.simulation import simulate_alignment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Phase diagrams of the alignment (P1 Fig. 2)"
CLAIM = (
    r"Two transitions in turn: the population covariance has an outlier when "
    r"$(\alpha/\kappa)\,\theta>\delta+\sqrt\delta$, the sample covariance when "
    r"$(\alpha/\kappa)\,\theta>\delta+t^*$, with $\theta=\|\mu\|^2$ (idealised) or "
    r"$\|\mu\|^2+\delta$ (tokens from a table) and $t^*$ the positive root of "
    r"$t^3-(\delta+\gamma+\delta\gamma)t-2\delta\gamma$. Optimal weights move both boundaries "
    r"to weaker signals and smaller vocabularies. For tokens from a table the outlier can appear "
    r"without any signal (beyond the boundary at $\|\mu\|=0$): it is the noise in the classes' "
    r"means, and the alignment says so."
)
SECONDS = (2.0, 5.0)

LENGTH = 20
GAMMA = 0.4
CORRELATION = spiked_correlation(10.0, np.exp(-np.arange(LENGTH) / 3))
WEIGHTINGS = ("mean", "optimal")


def _sizes(quick: bool) -> tuple[int, int]:
    """Return dimension and number of trials."""
    return (200, 20) if quick else (400, 100)


def setting(quick: bool) -> dict[str, str]:
    """Return the parameters used, as words."""
    d, trials = _sizes(quick)
    return {
        "correlation": r"spiked, $R \propto I + 10\,qq^\top$, $q_l \propto e^{-l/3}$, "
        rf"$L = {LENGTH}$",
        "ratios": rf"$\gamma = d/N = {GAMMA}$, $\delta = d/V$ on the vertical axis",
        "size": rf"prediction on 240 × 200 points; simulation $d = {d}$, {trials} trials, centred",
    }


def _model(name: str, sampling: Sampling, delta: Real, norms: Real) -> PooledSequences:
    return PooledSequences(
        vocab_ratio=delta,
        sample_ratio=GAMMA,
        signal_norm=norms,
        correlation=CORRELATION,
        weights=name,
        sampling=sampling,
    )


def compute(quick: bool, rng: np.random.Generator) -> Tables:
    """Predict the whole plane in one call a panel; simulate on a few rows of it."""
    d, trials = _sizes(quick)
    norms, deltas = np.linspace(0.01, 2.5, 240), np.linspace(0.01, 2, 200)
    coarse = np.linspace(0.2, 2.3, 8)
    plane: Pieces = []
    boundary: Pieces = []
    observed: Pieces = []
    for name in WEIGHTINGS:
        for sampling in SAMPLINGS:
            labels = {"weighting": name, "sampling": sampling}
            model = _model(name, sampling, deltas[:, None], norms)
            plane.append(
                {
                    **labels,
                    "vocab_ratio": deltas[:, None],
                    "signal_norm": norms,
                    "squared_overlap": predict(model).squared_overlap,
                }
            )
            critical = thresholds(_model(name, sampling, deltas, 1.0))
            boundary.append(
                {
                    **labels,
                    "vocab_ratio": deltas,
                    "population": critical.population_signal,
                    "sample": critical.sample_signal,
                }
            )
    for sampling, delta in itertools.product(SAMPLINGS, (0.25, 0.5, 0.9, 1.4)):
        cells = [_model(name, sampling, delta, coarse) for name in WEIGHTINGS]
        weights = [cell.weights for cell in cells]
        seen = simulate_alignment(cells[0], d, trials, rng, weights=weights)  # on the same draws
        for i, (name, cell) in enumerate(zip(WEIGHTINGS, cells, strict=True)):
            mean, error = summary(np.asarray(seen.squared_overlap)[:, i])
            observed.append(
                {
                    "weighting": name,
                    "sampling": sampling,
                    "vocab_ratio": delta,
                    "signal_norm": coarse,
                    "squared_overlap": mean,
                    "standard_error": error,
                    "predicted": predict(cell).squared_overlap,
                    "dimension": d,
                }
            )
    return {
        "predicted": long_table(plane),
        "boundary": long_table(boundary),
        "observed": long_table(observed),
    }


def draw(tables: Tables) -> "Figure":
    """Draw the plane as an image, boundaries as lines, simulations as dots in the same colours."""
    import matplotlib.pyplot as plt

    figure, grid = plt.subplots(2, 2, figsize=(7.2, 5.6), sharex=True, sharey=True)
    for axes_row, sampling in zip(grid, SAMPLINGS, strict=True):
        for axes, name in zip(axes_row, WEIGHTINGS, strict=True):
            choose = {"weighting": name, "sampling": sampling}
            plane = rows(tables["predicted"], **choose)
            x, y = np.unique(plane["signal_norm"]), np.unique(plane["vocab_ratio"])
            image = axes.pcolormesh(
                x,
                y,
                plane["squared_overlap"].reshape(len(y), len(x)),
                vmin=0,
                vmax=1,
                rasterized=True,
            )
            lines = rows(tables["boundary"], **choose)
            axes.plot(lines["population"], y, color="white", ls=":", label="population boundary")
            axes.plot(lines["sample"], y, color="white", label="sample boundary")
            dots = rows(tables["observed"], **choose)
            axes.scatter(
                dots["signal_norm"],
                dots["vocab_ratio"],
                c=dots["squared_overlap"],
                vmin=0,
                vmax=1,
                s=34,
                edgecolors="white",
                linewidths=0.8,
                zorder=3,
            )
            kind = "real tokens" if sampling == "token" else "idealised"
            axes.set_title(f"{name} weights, {kind}")
            axes.set_xlim(x[0], x[-1])
            axes.set_ylim(y[0], y[-1])
    for axes in grid[1]:
        axes.set_xlabel(r"signal norm $\|\mu\|$")
    for axes in grid[:, 0]:
        axes.set_ylabel(r"vocabulary ratio $\delta = d/V$")
    figure.legend(
        *grid[0, 0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=2,
        labelcolor="white",
        frameon=True,
        facecolor=style.NIGHT,
        framealpha=1,
    )
    figure.colorbar(image, ax=grid, label="alignment: prediction, and simulation in the dots")
    return figure


def check(tables: Tables) -> list[Check]:
    """Compare the dots with the plane they lie on."""
    checks = []
    for sampling in SAMPLINGS:
        for name in WEIGHTINGS:
            dots = rows(tables["observed"], weighting=name, sampling=sampling)
            clear = dots["predicted"] > 0.15
            checks.append(
                z_check(
                    f"alignment, {name} weights, {sampling} sampling, above threshold",
                    dots["predicted"][clear],
                    dots["squared_overlap"][clear],
                    dots["standard_error"][clear],
                    finite_size=4 / dots["dimension"][clear],
                    basis=r"$4/d$ of finite size",
                )
            )
    return checks
