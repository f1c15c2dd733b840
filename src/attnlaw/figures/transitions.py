"""Where the signal can be found at all: phase diagrams and critical signal norms."""

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnlaw import predict, thresholds
from attnlaw._checks import Real
from attnlaw.correlations import prefix_correlation, spiked_correlation
from attnlaw.figures.figure import (
    SAMPLINGS,
    Check,
    PaperFigure,
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
from attnlaw.simulation import sample_signs, simulate_alignment
from attnlaw.weights import by_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LENGTH, GAMMA = 20, 0.4
CORRELATION = spiked_correlation(10.0, np.exp(-np.arange(LENGTH) / 3))
PLANE_WEIGHTINGS = ("mean", "optimal")


class PhaseDiagram(PaperFigure):
    """P1 Fig. 2: where the signal can be found, over signal norm and vocabulary ratio."""

    title = "Phase diagrams of the alignment (P1 Fig. 2)"
    claim = (
        "Two transitions in turn: the population covariance has an outlier when "
        r"$(\alpha/\kappa)\,\theta>\delta+\sqrt\delta$, the sample covariance when "
        r"$(\alpha/\kappa)\,\theta>\delta+t^*$, with $\theta=\|\mu\|^2$ (idealised) or "
        r"$\|\mu\|^2+\delta$ (tokens from a table) and $t^*$ the positive root of "
        r"$t^3-(\delta+\gamma+\delta\gamma)t-2\delta\gamma$. Optimal weights move both boundaries "
        "to weaker signals and smaller vocabularies. For tokens from a table the outlier can "
        r"appear without any signal (beyond the boundary at $\|\mu\|=0$): it is the noise in the "
        "classes' means, and the alignment says so."
    )
    seconds = (2.0, 5.0)
    sizes = ((200, 20), (400, 100))  # dimension and trials

    def setting(self, size: Any) -> dict[str, str]:
        """Return the parameters used, as words."""
        d, trials = size
        return {
            "correlation": r"spiked, $R \propto I + 10\,qq^\top$, $q_l \propto e^{-l/3}$, "
            rf"$L = {LENGTH}$",
            "ratios": rf"$\gamma = d/N = {GAMMA}$, $\delta = d/V$ on the vertical axis",
            "size": rf"prediction on 240 × 200 points; simulation $d = {d}$, {trials} trials, "
            "centred",
        }

    def compute(self, size: Any, rng: np.random.Generator) -> Tables:
        """Predict the whole plane in one call a panel; simulate on a few rows of it."""
        d, trials = size
        norms, deltas = np.linspace(0.01, 2.5, 240), np.linspace(0.01, 2, 200)
        coarse = np.linspace(0.2, 2.3, 8)
        plane: Pieces = []
        boundary: Pieces = []
        observed: Pieces = []
        for name in PLANE_WEIGHTINGS:
            for sampling in SAMPLINGS:
                labels = {"weighting": name, "sampling": sampling}
                model = _plane_model(name, sampling, deltas[:, None], norms)
                plane.append(
                    {
                        **labels,
                        "vocab_ratio": deltas[:, None],
                        "signal_norm": norms,
                        "squared_overlap": predict(model).squared_overlap,
                    }
                )
                critical = thresholds(_plane_model(name, sampling, deltas, 1.0))
                boundary.append(
                    {
                        **labels,
                        "vocab_ratio": deltas,
                        "population": critical.population_signal,
                        "sample": critical.sample_signal,
                    }
                )
        for sampling, delta in itertools.product(SAMPLINGS, (0.25, 0.5, 0.9, 1.4)):
            cells = [_plane_model(name, sampling, delta, coarse) for name in PLANE_WEIGHTINGS]
            weights = [cell.weights for cell in cells]
            seen = simulate_alignment(
                cells[0], d, trials, rng, weights=weights
            )  # on the same draws
            for i, (name, cell) in enumerate(zip(PLANE_WEIGHTINGS, cells, strict=True)):
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

    def draw(self, tables: Tables) -> "Figure":
        """Draw the plane as an image, boundaries as lines, simulations as dots of its colours."""
        import matplotlib.pyplot as plt

        figure, grid = plt.subplots(2, 2, figsize=(7.2, 5.6), sharex=True, sharey=True)
        for axes_row, sampling in zip(grid, SAMPLINGS, strict=True):
            for axes, name in zip(axes_row, PLANE_WEIGHTINGS, strict=True):
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
                axes.plot(
                    lines["population"], y, color="white", ls=":", label="population boundary"
                )
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

    def check(self, tables: Tables) -> list[Check]:
        """Compare the dots with the plane they lie on."""
        checks = []
        for sampling in SAMPLINGS:
            for name in PLANE_WEIGHTINGS:
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


def _plane_model(name: str, sampling: Sampling, delta: Real, norms: Real) -> PooledSequences:
    return PooledSequences(
        vocab_ratio=delta,
        sample_ratio=GAMMA,
        signal_norm=norms,
        correlation=CORRELATION,
        weights=name,
        sampling=sampling,
    )


PREFIX, DELTA = 5, 0.5
WEIGHTINGS = ("mean", "causal", "optimal")


class CriticalSignal(PaperFigure):
    """P1 Fig. 5: the weakest signal that can be found, and what a longer sequence costs."""

    title = "Critical signal norm and effective SNR (P1 Fig. 5)"
    claim = (
        r"The critical norm $\|\mu\|_c=\sqrt{(\kappa/\alpha)(\delta+t^*)}$ falls as the "
        "informative prefix grows, fastest for the optimal weights. At a fixed prefix $p$ the "
        r"SNR $\alpha/\kappa$ of mean pooling decays to 1 like $1+p(p-1)/L$, the causal weights "
        "overtake it as sequences grow longer, and the optimum stays at $p$."
    )
    seconds = (2.0, 15.0)
    sizes = ((1000, 8, 20_000), (4000, 20, 200_000))  # dimension, trials, sequences for the SNR

    def setting(self, size: Any) -> dict[str, str]:
        """Return the parameters used, as words."""
        d, trials, n = size
        return {
            "(a)": rf"$\delta = {DELTA}$, $\gamma = {GAMMA}$, $L = {LENGTH}$; idealised "
            rf"covariance (P1's setting); simulation $d = {d}$, {trials} trials: the norm where "
            r"the observed alignment, fitted as a quadratic between 0.15 and 0.6, reaches zero",
            "(b)": rf"prefix of {PREFIX}; SNR measured as the mean of $(w\cdot s)^2/\kappa$ over "
            f"{n} sampled sequences",
        }

    def compute(self, size: Any, rng: np.random.Generator) -> Tables:
        """Fit the observed transition for several prefixes; measure SNRs for several lengths."""
        d, trials, n = size
        lines: Pieces = []
        points: Pieces = []
        for name in WEIGHTINGS:
            prefixes = np.arange(1, LENGTH + 1)
            critical = [thresholds(_critical_model(int(p), name, 1.0)) for p in prefixes]
            lines.append(
                {
                    "weighting": name,
                    "prefix": prefixes,
                    "population": [c.population_signal for c in critical],
                    "sample": [c.sample_signal for c in critical],
                }
            )
            for prefix in (2, 5, 10, 16):
                start = thresholds(_critical_model(prefix, name, 1.0)).sample_signal
                norms = start * np.linspace(1.02, 1.7, 24)
                model = _critical_model(prefix, name, norms)
                seen = np.asarray(simulate_alignment(model, d, trials, rng).squared_overlap)
                exact = np.asarray(predict(model).squared_overlap)
                crossings = [
                    _zero_crossing(norms, seen[rng.integers(trials, size=trials)].mean(axis=0))
                    for _ in range(200)
                ]
                points.append(
                    {
                        "weighting": name,
                        "prefix": prefix,
                        "predicted": start,
                        "observed": _zero_crossing(norms, seen.mean(axis=0)),
                        "standard_error": np.std(crossings, ddof=1),
                        "fit_bias": abs(_zero_crossing(norms, exact) - start),
                        "dimension": d,
                    }
                )
        snr_lines: Pieces = []
        snr_points: Pieces = []
        for name in WEIGHTINGS:
            for length in (6, 8, 12, 20, 32, 50, 80, 128, 200):
                R = prefix_correlation(length, PREFIX)
                w = by_name(name, len(R), R)
                kappa = w @ w
                snr_lines.append({"weighting": name, "length": [length], "snr": w @ R @ w / kappa})
                mean, error = summary((sample_signs(R, n, rng) @ w) ** 2 / kappa)
                snr_points.append(
                    {"weighting": name, "length": [length], "snr": mean, "standard_error": error}
                )
        return {
            "thresholds": long_table(lines),
            "crossings": long_table(points),
            "snr_predicted": long_table(snr_lines),
            "snr_observed": long_table(snr_points),
        }

    def draw(self, tables: Tables) -> "Figure":
        """Draw thresholds against prefix length, and SNR against sequence length."""
        import matplotlib.pyplot as plt

        figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.5))
        for name in WEIGHTINGS:
            color, marker = style.WEIGHTINGS[name], style.WEIGHTING_MARKERS[name]
            line, seen = (rows(tables[t], weighting=name) for t in ("thresholds", "crossings"))
            left.plot(line["prefix"], line["sample"], color=color)
            left.plot(line["prefix"], line["population"], color=color, linestyle=":", linewidth=1)
            draw_means(left, seen, "prefix", "observed", fmt=marker, color=color, label=name)
            line, seen = (
                rows(tables[t], weighting=name) for t in ("snr_predicted", "snr_observed")
            )
            right.plot(line["length"], line["snr"], color=color)
            draw_means(right, seen, "length", "snr", fmt=marker, color=color)
        left.plot([], [], color=style.GREY, label="sample threshold")
        left.plot(
            [], [], color=style.GREY, linestyle=":", linewidth=1, label="population threshold"
        )
        left.set_xlabel(f"informative prefix $p$ (of {LENGTH} positions)")
        left.set_ylabel(r"critical signal norm $\|\mu\|_c$")
        left.set_ylim(bottom=0)
        left.set_xticks([1, 5, 10, 15, 20])
        left.set_title("(a) weakest signal found")
        left.legend(loc="upper right", ncols=1)
        right.set_xscale("log")
        right.set_xticks([6, 12, 20, 50, 100, 200], ["6", "12", "20", "50", "100", "200"])
        right.minorticks_off()
        right.set_xlabel(f"sequence length $L$ (prefix of {PREFIX})")
        right.set_ylabel(r"effective SNR $\alpha/\kappa$")
        right.set_ylim(0, PREFIX + 0.4)
        right.set_title("(b) SNR kept by pooling")
        return figure

    def check(self, tables: Tables) -> list[Check]:
        """Compare fitted transitions with thresholds, and measured with exact SNR."""
        checks = []
        for name in WEIGHTINGS:
            points = rows(tables["crossings"], weighting=name)
            checks.append(
                z_check(
                    f"critical signal norm, {name} weights",
                    points["predicted"],
                    points["observed"],
                    points["standard_error"],
                    finite_size=points["fit_bias"] + 5 * points["predicted"] / points["dimension"],
                    basis=r"the fit's own bias on the exact curve and a relative $5/d$",
                )
            )
            line, seen = (
                rows(tables[t], weighting=name) for t in ("snr_predicted", "snr_observed")
            )
            checks.append(
                z_check(
                    f"SNR against sequence length, {name} weights",
                    line["snr"],
                    seen["snr"],
                    np.maximum(seen["standard_error"], 1e-12),
                )
            )
        return checks


def _critical_model(prefix: int, name: str, norms: Real) -> PooledSequences:
    R = prefix_correlation(LENGTH, prefix)
    return PooledSequences(
        vocab_ratio=DELTA,
        sample_ratio=GAMMA,
        signal_norm=norms,
        correlation=R,
        weights=name,
        sampling="gaussian",
    )


def _zero_crossing(norms: NDArray[np.float64], overlap: NDArray[np.float64]) -> float:
    """Return where a quadratic through the points, norm as a function of overlap, meets 0."""
    use = (overlap > 0.15) & (overlap < 0.6)
    return float(np.polyval(np.polyfit(overlap[use], norms[use], 2), 0.0))
