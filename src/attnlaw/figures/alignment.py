"""P1 Fig. 4: how well the leading eigenvector finds the signal, as the signal grows."""

import itertools
from typing import TYPE_CHECKING

import numpy as np

from attnlaw._checks import Real
from attnlaw.correlations import prefix_correlation, spiked_correlation
from attnlaw.figures.figure import (
    SAMPLINGS,
    Check,
    Pieces,
    Tables,
    draw_means,
    long_table,
    rows,
    summary,
    z_check,
)
from attnlaw.models import PooledSequences, Sampling
from attnlaw.plotting import style
from attnlaw.simulation import simulate_alignment
from attnlaw.theory import predict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Alignment against signal norm (P1 Fig. 4)"
CLAIM = (
    r"Alignment is zero up to a critical signal norm and then rises; causal weights beat mean "
    r"pooling when the signal sits in a prefix, and the optimal weights $w^*$ beat both. "
    r"P1's curves take the population covariance to be $\kappa Z^\top Z/V+\alpha\mu\mu^\top$ "
    r"(idealised); for tokens drawn from a table the spike is $\|\mu\|^2+\delta$ and the "
    r"alignment carries the factor $\|\mu\|^2/(\|\mu\|^2+\delta)$."
)
SECONDS = (1.0, 6.0)

LENGTH = 20
DELTA, GAMMA = 0.5, 0.4
CORRELATIONS = {
    "prefix": prefix_correlation(LENGTH, prefix=5),
    "signs": spiked_correlation(6.0, np.where(np.arange(LENGTH) % 3 == 2, -1.0, 1.0)),
}
PANELS = {"prefix": "prefix of 5", "signs": "spiked with signs + + −"}
WEIGHTINGS = ("mean", "causal", "optimal")


def _sizes(quick: bool) -> tuple[int, int]:
    """Return dimension and number of trials."""
    return (400, 20) if quick else (1000, 100)


def setting(quick: bool) -> dict[str, str]:
    """Return the parameters used, as words."""
    d, trials = _sizes(quick)
    return {
        "ratios": rf"$\delta = d/V = {DELTA}$, $\gamma = d/N = {GAMMA}$",
        "size": rf"$d = {d}$, $L = {LENGTH}$, {trials} trials a point, centred",
        "correlations": r"(a) the first 5 positions share one sign; "
        r"(b) $R \propto I + 6\,qq^\top$, $q$ repeating the signs + + −",
    }


def _model(correlation: str, name: str, sampling: Sampling, norms: Real) -> PooledSequences:
    R = CORRELATIONS[correlation]
    return PooledSequences(
        vocab_ratio=DELTA,
        sample_ratio=GAMMA,
        signal_norm=norms,
        correlation=R,
        weights=name,
        sampling=sampling,
    )


def compute(quick: bool, rng: np.random.Generator) -> Tables:
    """Predict on a fine grid of norms, simulate on a coarse one."""
    d, trials = _sizes(quick)
    fine, coarse = np.linspace(0.02, 3, 150), np.linspace(0.25, 3, 12)
    predictions: Pieces = []
    observations: Pieces = []
    for correlation, sampling in itertools.product(CORRELATIONS, SAMPLINGS):
        models = [_model(correlation, name, sampling, coarse) for name in WEIGHTINGS]
        weights = [model.weights for model in models]
        seen = simulate_alignment(models[0], d, trials, rng, weights=weights)  # on the same draws
        for i, (name, model) in enumerate(zip(WEIGHTINGS, models, strict=True)):
            labels = {"correlation": correlation, "weighting": name, "sampling": sampling}
            line = predict(_model(correlation, name, sampling, fine))
            predictions.append(
                {**labels, "signal_norm": fine, "squared_overlap": line.squared_overlap}
            )
            mean, error = summary(np.asarray(seen.squared_overlap)[:, i])
            observations.append(
                {
                    **labels,
                    "signal_norm": coarse,
                    "squared_overlap": mean,
                    "standard_error": error,
                    "predicted": predict(model).squared_overlap,
                    "dimension": d,
                }
            )
    return {"predicted": long_table(predictions), "observed": long_table(observations)}


def draw(tables: Tables) -> "Figure":
    """Draw both correlations, real tokens beside the idealised model."""
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D

    figure, grid = plt.subplots(2, 2, figsize=(7.2, 5.4), sharex=True, sharey=True)
    for axes_row, correlation, letter in zip(grid, CORRELATIONS, "ab", strict=True):
        for axes, sampling in zip(axes_row, SAMPLINGS, strict=True):
            for name in WEIGHTINGS:
                color, marker = style.WEIGHTINGS[name], style.WEIGHTING_MARKERS[name]
                choose = {"correlation": correlation, "weighting": name}
                line = rows(tables["predicted"], **choose, sampling=sampling)
                axes.plot(line["signal_norm"], line["squared_overlap"], color=color)
                if sampling == "token":
                    other = rows(tables["predicted"], **choose, sampling="gaussian")
                    axes.plot(
                        other["signal_norm"],
                        other["squared_overlap"],
                        color=color,
                        linestyle=style.IDEALISED,
                        linewidth=0.9,
                        alpha=0.7,
                    )
                points = rows(tables["observed"], **choose, sampling=sampling)
                draw_means(
                    axes,
                    points,
                    "signal_norm",
                    "squared_overlap",
                    color=color,
                    fmt=marker,
                    markeredgecolor="white",
                    markeredgewidth=0.4,
                )
            kind = "real tokens" if sampling == "token" else "idealised"
            axes.set_title(f"({letter}) {PANELS[correlation]}, {kind}")
    for axes in grid[1]:
        axes.set_xlabel(r"signal norm $\|\mu\|$ (noise has unit variance)")
    for axes in grid[:, 0]:
        axes.set_ylabel(r"alignment $\langle \hat u, \mu\rangle^2/\|\mu\|^2$")
        axes.set_ylim(-0.03, 1.03)
    handles = [
        Line2D([], [], color=style.WEIGHTINGS[n], marker=style.WEIGHTING_MARKERS[n], label=n)
        for n in WEIGHTINGS
    ]
    handles.append(
        Line2D([], [], color=style.GREY, ls=style.IDEALISED, lw=0.9, label="idealised formula")
    )
    grid[0, 1].legend(handles=handles, loc="lower right")
    return figure


def check(tables: Tables) -> list[Check]:
    """Compare each weighting with its own theory, and tokens with the idealised formula."""
    observed = tables["observed"]
    checks = []
    for correlation, words in PANELS.items():
        for sampling in SAMPLINGS:
            points = rows(observed, correlation=correlation, sampling=sampling)
            clear = points["predicted"] > 0.1
            checks.append(
                z_check(
                    f"alignment, {words}, {sampling} sampling, above threshold",
                    points["predicted"][clear],
                    points["squared_overlap"][clear],
                    points["standard_error"][clear],
                    finite_size=4 / points["dimension"][clear],
                    basis=r"$4/d$ of finite size",
                )
            )
        tokens = rows(observed, correlation=correlation, sampling="token", weighting="optimal")
        ideal = rows(observed, correlation=correlation, sampling="gaussian", weighting="optimal")
        checks.append(
            z_check(
                f"P1's idealised formula for real tokens, {words}, optimal weights",
                ideal["predicted"],
                tokens["squared_overlap"],
                tokens["standard_error"],
                explanation=r"The two classes' means differ by noise of squared norm $\delta$ in "
                r"a table of finite size. It strengthens the spike to $\|\mu\|^2+\delta$ and "
                r"turns it away from $\mu$; no amount of data lifts the ceiling "
                r"$\|\mu\|^2/(\|\mu\|^2+\delta)$.",
            )
        )
    return checks
