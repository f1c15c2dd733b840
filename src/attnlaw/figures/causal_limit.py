"""P1 Lemma 1: causal attention weights at finite dimension approach the harmonic weights."""

from typing import TYPE_CHECKING

import numpy as np

from attnlaw.correlations import prefix_correlation
from attnlaw.figures.figure import Check, Pieces, Tables, draw_means, long_table, rows, summary
from attnlaw.models import PooledSequences
from attnlaw.plotting import style
from attnlaw.simulation import simulate_causal_weights
from attnlaw.weights import causal_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Causal attention at finite dimension (P1 Lemma 1)"
CLAIM = (
    r"With scores $(\tau/d)\,e_i\cdot e_j$ the rows of the causal softmax become uniform as "
    r"$d\to\infty$, and the mean weight of position $j$ tends to "
    r"$w_j=(H_{L-1}-H_{j-1})/L$ (and $w_1=(1+H_{L-1})/L$), with an error of order $d^{-1/2}$."
)
SECONDS = (3.0, 15.0)

LENGTH, PREFIX, NORM, TAU = 20, 5, 1.5, 3.0


def _sizes(quick: bool) -> tuple[list[int], int]:
    """Return dimensions and the number of sequences at each."""
    dimensions = [50, 100, 320, 1000, 3200, 10000]
    return (dimensions, 60) if quick else ([*dimensions, 32000], 300)


def setting(quick: bool) -> dict[str, str]:
    """Return the parameters used, as words."""
    dimensions, n = _sizes(quick)
    return {
        "sequences": rf"{n} a dimension, $L = {LENGTH}$, prefix of {PREFIX}, "
        rf"$\|\mu\| = {NORM}$, every token fresh",
        "attention": rf"$\tau = {TAU}$, causal, no self-attention except in the first row",
        "dimensions": ", ".join(map(str, dimensions)),
    }


def _model() -> PooledSequences:
    return PooledSequences(
        vocab_ratio=0.0,
        sample_ratio=1.0,
        signal_norm=NORM,
        correlation=prefix_correlation(LENGTH, PREFIX),
        weights=causal_weights(LENGTH),
    )


def compute(quick: bool, rng: np.random.Generator) -> Tables:
    """Sample sequences, attend, and measure the distance to the limit."""
    dimensions, n = _sizes(quick)
    limit = causal_weights(LENGTH)
    profile: Pieces = []
    distance: Pieces = []
    for d in dimensions:
        weights = simulate_causal_weights(_model(), d, n, rng, inverse_temperature=TAU)
        mean, error = summary(weights)
        profile.append(
            {
                "dimension": d,
                "position": np.arange(1, LENGTH + 1),
                "weight": mean,
                "one_sequence": weights[0],
                "standard_error": error,
                "limit": limit,
            }
        )
        mean, error = summary(np.linalg.norm(weights - limit, axis=1))
        distance.append({"dimension": d, "distance": mean, "standard_error": error})
    return {"profile": long_table(profile), "distance": long_table(distance)}


def _rate(distance: Tables) -> tuple[float, float]:
    """Return the slope of log distance against log dimension, and its standard error."""
    table = distance["distance"]
    x, y = np.log(table["dimension"]), np.log(table["distance"])
    weights = table["distance"] / table["standard_error"]
    (slope, _), covariance = np.polyfit(x, y, 1, w=weights, cov="unscaled")
    return float(slope), float(np.sqrt(covariance[0, 0]))


def draw(tables: Tables) -> "Figure":
    """Draw weights by position at two sizes, and the distance against dimension."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.2))
    dimensions = np.unique(tables["profile"]["dimension"])
    first = rows(tables["profile"], dimension=dimensions[0])
    left.plot(first["position"], first["limit"], color=style.PREDICTED, label="harmonic limit")
    markers = {dimensions[0]: ("o", style.SKY), dimensions[-2]: ("s", style.BLUE)}
    for d, (marker, color) in markers.items():
        seen = rows(tables["profile"], dimension=d)
        left.plot(
            seen["position"],
            seen["one_sequence"],
            marker,
            color=color,
            label=f"one sequence, $d = {d}$",
        )
    left.set_xlabel("position in the sequence")
    left.set_ylabel("attention weight")
    left.set_title("(a) weights")
    left.legend()
    table = tables["distance"]
    draw_means(
        right, table, "dimension", "distance", color=style.OUTLIER, label="mean over sequences"
    )
    anchor = table["distance"][-1] * np.sqrt(table["dimension"][-1])
    right.plot(
        table["dimension"],
        anchor / np.sqrt(table["dimension"]),
        color=style.PREDICTED,
        label=r"rate $d^{-1/2}$",
    )
    slope, error = _rate(tables)
    right.set_xscale("log")
    right.set_yscale("log")
    right.set_xlabel("dimension $d$")
    right.set_ylabel(r"distance $\|w_d - w\|$ to the limit")
    right.set_title(f"(b) fitted rate −{-slope:.3f} ± {error:.3f}")
    right.legend()
    return figure


def check(tables: Tables) -> list[Check]:
    """Compare the fitted rate with −1/2."""
    slope, error = _rate(tables)
    return [
        Check(
            quantity=r"exponent of $d$ in the distance to the harmonic weights",
            predicted=-0.5,
            observed=slope,
            tolerance=5 * error + 0.01,
            basis="5 standard errors of the fit, plus 0.01 for corrections at small $d$",
        )
    ]
