"""Ours: what mean pooling loses to Zipf's law, and what token weights get back."""

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from attnlaw._checks import RegimeWarning
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
from attnlaw.models import PooledSequences, Vocabulary
from attnlaw.plotting import style
from attnlaw.simulation import simulate
from attnlaw.theory import first_order_smoothing, predict, smoothing_overlaps
from attnlaw.weights import mean_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Zipf's law and token weights"
CLAIM = (
    r"Frequent tokens cost mean pooling most of a signal that a uniform vocabulary would show. "
    r"The best token weights are smooth inverse frequency, $g\propto 1/(p+a)$, with "
    r"$a^*=\kappa/(\alpha N)$."
)
SECONDS = (25.0, 120.0)

DIMENSION, TOKENS, SAMPLES = 160, 800, 800
NORMS = np.array([0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5])
FINE = np.linspace(0.3, 3.6, 100)
FINE_SMOOTHINGS = np.geomspace(10**-5.5, 10**-1.5, 60)
SMOOTHINGS = 10.0 ** np.array([-5.5, -5, -4.5, -4, -3.5, -3, -2.5, -2, -1.5])
KINDS = {
    "uniform": "all tokens alike",
    "zipf": "Zipf, mean pooling",
    "idf": "Zipf, inverse document frequency",
    "sif": "Zipf, smooth inverse frequency at $a^*$",
}
COLORS = {
    "uniform": style.EDGE,
    "zipf": style.VERMILION,
    "idf": style.SKY,
    "sif": style.BLUE,
}


def _trials(quick: bool) -> int:
    return 12 if quick else 60


def setting(quick: bool) -> dict[str, str]:
    """Return the parameters used, as words."""
    return {
        "sizes": rf"$d = {DIMENSION}$, $V = {TOKENS}$, $N = {SAMPLES}$, {_trials(quick)} trials",
        "sequences": "twenty positions, prefix of five, mean weights",
        "frequencies": r"$p_v\propto 1/(v+2.7)$",
    }


def _model(kind: str, norms: object) -> PooledSequences:
    words = Vocabulary.zipf(TOKENS)
    model = PooledSequences(
        vocab_ratio=DIMENSION / TOKENS,
        sample_ratio=DIMENSION / SAMPLES,
        signal_norm=np.asarray(norms, dtype=float),
        correlation=prefix_correlation(20, 5),
        weights=mean_weights(20),
        vocabulary=None if kind == "uniform" else words,
    )
    if kind == "idf":
        return replace(model, vocabulary=words.with_importance("idf"))
    if kind == "sif":
        a = first_order_smoothing(model)
        return replace(model, vocabulary=words.with_importance("sif", a=a))
    return model


def compute(quick: bool, rng: np.random.Generator) -> Tables:
    """Predict and simulate the overlap over signal norms, and over the parameter a."""
    curves: Pieces = []
    points: Pieces = []
    scan: Pieces = []
    n = _trials(quick)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RegimeWarning)  # weak signals below frequent tokens
        for kind in KINDS:
            overlap = predict(_model(kind, FINE)).squared_overlap
            curves.append({"kind": kind, "norm": FINE, "predicted": overlap})
            seen = simulate(_model(kind, NORMS), DIMENSION, n, rng).squared_overlap
            mean, error = summary(seen)
            predicted = predict(_model(kind, NORMS)).squared_overlap
            points.append(
                {
                    "kind": kind,
                    "norm": NORMS,
                    "predicted": predicted,
                    "observed": mean,
                    "standard_error": error,
                }
            )
        base = _model("zipf", 1.5)
        star = first_order_smoothing(base)
        words = Vocabulary.zipf(TOKENS)
        fine = {
            "smoothing": FINE_SMOOTHINGS,
            "predicted": smoothing_overlaps(base, FINE_SMOOTHINGS),
        }
        for a in SMOOTHINGS:
            model = replace(base, vocabulary=words.with_importance("sif", a=a))
            mean, error = summary(simulate(model, DIMENSION, n, rng).squared_overlap)
            scan.append(
                {
                    "smoothing": a,
                    "predicted": predict(model).squared_overlap,
                    "observed": mean,
                    "standard_error": error,
                    "first_order": star,
                }
            )
    return {
        "curves": long_table(curves),
        "points": long_table(points),
        "smoothing": long_table(scan),
        "smoothing_curve": fine,
    }


def draw(tables: Tables) -> "Figure":
    """Draw overlaps against signal norm, and against the parameter of the weights."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.8))
    for kind, label in KINDS.items():
        curve, seen = rows(tables["curves"], kind=kind), rows(tables["points"], kind=kind)
        left.plot(curve["norm"], curve["predicted"], color=COLORS[kind], label=label)
        draw_means(left, seen, "norm", "observed", markersize=3, color=COLORS[kind])
    left.set_xlabel(r"signal norm $\|\mu\|$")
    left.set_ylabel(r"squared overlap $\zeta$")
    left.set_title("(a) lost to Zipf's law, and got back")
    left.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncol=2)
    table = tables["smoothing"]
    curve = tables["smoothing_curve"]
    right.plot(curve["smoothing"], curve["predicted"], color=style.BLUE, label="predicted")
    draw_means(
        right, table, "smoothing", "observed", markersize=3, color=style.BLUE, label="simulated"
    )
    right.axvline(
        table["first_order"][0], color=style.EDGE, linestyle="--", label=r"$a^*=\kappa/(\alpha N)$"
    )
    right.set_xscale("log")
    right.set_xlabel("parameter $a$ of the token weights")
    right.set_ylabel(r"squared overlap $\zeta$")
    right.set_title(r"(b) the best $a$, $\|\mu\| = 1.5$")
    right.legend()
    return figure


def check(tables: Tables) -> list[Check]:
    """Compare overlaps of clear signals, and the parameter with the largest overlap."""
    checks = []
    for kind in KINDS:
        seen = rows(tables["points"], kind=kind)
        clear = (seen["predicted"] > 0.55) & (seen["standard_error"] > 0)
        checks.append(
            z_check(
                f"squared overlap, {KINDS[kind]}",
                *(seen[name][clear] for name in ("predicted", "observed", "standard_error")),
            )
        )
    table = tables["smoothing"]
    best = table["smoothing"][int(np.argmax(table["observed"]))]
    checks.append(
        Check(
            quantity="decimal logarithm of the best $a$",
            predicted=float(np.log10(table["first_order"][0])),
            observed=float(np.log10(best)),
            tolerance=float(np.log10(3) + 0.25),
            basis="a factor of 3, and half a step of the scan",
        )
    )
    return checks
