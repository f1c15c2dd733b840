"""P1 Fig. 5: the weakest signal that can be found, and what a longer sequence costs."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attnlaw import predict, thresholds
from attnlaw._checks import Real
from attnlaw.correlations import prefix_correlation
from attnlaw.figures.figure import (
    Check,
    Pieces,
    Tables,
    draw_means,
    long_table,
    rows,
    summary,
    z_check,
)
from attnlaw.models import PooledSequences
from attnlaw.plotting import style
from attnlaw.simulation import sample_signs, simulate_alignment
from attnlaw.weights import by_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Critical signal norm and effective SNR (P1 Fig. 5)"
CLAIM = (
    r"The critical norm $\|\mu\|_c=\sqrt{(\kappa/\alpha)(\delta+t^*)}$ falls as the informative "
    r"prefix grows, fastest for the optimal weights. At a fixed prefix $p$ the SNR "
    r"$\alpha/\kappa$ of mean pooling decays to 1 like $1+p(p-1)/L$, the causal weights overtake "
    r"it as sequences grow longer, and the optimum stays at $p$."
)
SECONDS = (2.0, 15.0)

LENGTH, PREFIX = 20, 5
DELTA, GAMMA = 0.5, 0.4
WEIGHTINGS = ("mean", "causal", "optimal")


def _sizes(quick: bool) -> tuple[int, int, int]:
    """Return dimension, trials, and the number of sequences for the SNR."""
    return (1000, 8, 20_000) if quick else (4000, 20, 200_000)


def setting(quick: bool) -> dict[str, str]:
    """Return the parameters used, as words."""
    d, trials, n = _sizes(quick)
    return {
        "(a)": rf"$\delta = {DELTA}$, $\gamma = {GAMMA}$, $L = {LENGTH}$; idealised covariance "
        rf"(P1's setting); simulation $d = {d}$, {trials} trials: the norm where the observed "
        r"alignment, fitted as a quadratic between 0.15 and 0.6, reaches zero",
        "(b)": rf"prefix of {PREFIX}; SNR measured as the mean of $(w\cdot s)^2/\kappa$ over "
        f"{n} sampled sequences",
    }


def _model(prefix: int, name: str, norms: Real) -> PooledSequences:
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


def compute(quick: bool, rng: np.random.Generator) -> Tables:
    """Fit the observed transition for several prefixes; measure the SNR for several lengths."""
    d, trials, n = _sizes(quick)
    lines: Pieces = []
    points: Pieces = []
    for name in WEIGHTINGS:
        prefixes = np.arange(1, LENGTH + 1)
        critical = [thresholds(_model(int(p), name, 1.0)) for p in prefixes]
        lines.append(
            {
                "weighting": name,
                "prefix": prefixes,
                "population": [c.population_signal for c in critical],
                "sample": [c.sample_signal for c in critical],
            }
        )
        for prefix in (2, 5, 10, 16):
            start = thresholds(_model(prefix, name, 1.0)).sample_signal
            norms = start * np.linspace(1.02, 1.7, 24)
            model = _model(prefix, name, norms)
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


def draw(tables: Tables) -> "Figure":
    """Draw thresholds against prefix length, and SNR against sequence length."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.5))
    for name in WEIGHTINGS:
        color, marker = style.WEIGHTINGS[name], style.WEIGHTING_MARKERS[name]
        line, seen = (rows(tables[t], weighting=name) for t in ("thresholds", "crossings"))
        left.plot(line["prefix"], line["sample"], color=color)
        left.plot(line["prefix"], line["population"], color=color, linestyle=":", linewidth=1)
        draw_means(left, seen, "prefix", "observed", fmt=marker, color=color, label=name)
        line, seen = (rows(tables[t], weighting=name) for t in ("snr_predicted", "snr_observed"))
        right.plot(line["length"], line["snr"], color=color)
        draw_means(right, seen, "length", "snr", fmt=marker, color=color)
    left.plot([], [], color=style.GREY, label="sample threshold")
    left.plot([], [], color=style.GREY, linestyle=":", linewidth=1, label="population threshold")
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


def check(tables: Tables) -> list[Check]:
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
        line, seen = (rows(tables[t], weighting=name) for t in ("snr_predicted", "snr_observed"))
        checks.append(
            z_check(
                f"SNR against sequence length, {name} weights",
                line["snr"],
                seen["snr"],
                np.maximum(seen["standard_error"], 1e-12),
            )
        )
    return checks
