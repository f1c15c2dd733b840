"""P1 Fig. 6: classification accuracy of ridge on pooled sequences, with theory curves."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

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
from attnlaw.simulation import (
    learn_weights,
    pool,
    sample_signs,
    sample_table,
    sample_tokens,
    simulate_accuracy,
)
from attnlaw.theory import predict_accuracy
from attnlaw.weights import optimal_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Classification accuracy (P1 Fig. 6, with theory)"
CLAIM = (
    r"P1 shows simulated test accuracy only: causal weights classify better than mean pooling, "
    r"and weights learned together with the ridge regressor come close to the optimum. The "
    r"curves are attnlaw's: the accuracy of ridge on pooled tokens in closed form. For learned "
    r"weights the curve is that closed form at the weights each training set chose."
)
SECONDS = (25.0, 200.0)

LENGTH, PREFIX, RIDGE = 20, 5, 0.05
DELTA, GAMMA = 0.4, 0.5
CORRELATION = prefix_correlation(LENGTH, PREFIX)
WEIGHTINGS = ("mean", "causal", "optimal")
N_TEST = 20_000


def _sizes(quick: bool) -> tuple[int, int, int]:
    """Return dimension, trials, and trials for learned weights (each an optimisation)."""
    return (300, 8, 3) if quick else (400, 40, 12)


def setting(quick: bool) -> dict[str, str]:
    """Return the parameters used, as words."""
    d, trials, learned = _sizes(quick)
    return {
        "ratios": rf"$\delta = {DELTA}$, $\gamma = {GAMMA}$, ridge $\lambda = {RIDGE}$",
        "size": rf"$d = {d}$, $L = {LENGTH}$; label = sign of the prefix of {PREFIX}; {trials} "
        f"trials a point ({learned} for learned weights), {N_TEST} test sequences each",
    }


def _model(name: str, norms: Real) -> PooledSequences:
    return PooledSequences(
        vocab_ratio=DELTA,
        sample_ratio=GAMMA,
        signal_norm=norms,
        correlation=CORRELATION,
        weights=name,
    )


def _learned_trial(
    norm: float, dimension: int, rng: np.random.Generator
) -> tuple[float, NDArray[np.float64]]:
    """Learn weights and classifier on one training set; return test accuracy and weights."""
    _, n_vocab, n_samples = _model("mean", norm).sizes(dimension)
    table = sample_table(n_vocab, dimension, rng)
    table[: n_vocab // 2, 0] += norm
    table[n_vocab // 2 :, 0] -= norm
    signs = sample_signs(CORRELATION, n_samples + N_TEST, rng)
    tokens = sample_tokens(signs, n_vocab, rng)
    found = learn_weights(
        tokens[:n_samples], signs[:n_samples, 0], ridge=RIDGE, table=table, n_restarts=2, rng=rng
    )
    score = pool(table @ found.coefficients, tokens[n_samples:], found.weights)
    return float(np.mean(np.sign(score) == signs[n_samples:, 0])), found.weights


def compute(quick: bool, rng: np.random.Generator) -> Tables:
    """Predict on a fine grid, simulate on a coarse one; learn weights at a few norms."""
    d, trials, n_learned = _sizes(quick)
    fine, coarse = np.linspace(0.0, 1.5, 76), np.linspace(0.1, 1.5, 8)
    lines: Pieces = []
    points: Pieces = []
    weights: Pieces = []
    for name in WEIGHTINGS:
        line = predict_accuracy(_model(name, fine), RIDGE)
        lines.append({"weighting": name, "signal_norm": fine, "accuracy": line.accuracy})
        model = _model(name, coarse)
        seen = simulate_accuracy(model, d, trials, rng, ridge=RIDGE, n_test=N_TEST)
        mean, error = summary(seen.accuracy)
        points.append(
            {
                "weighting": name,
                "signal_norm": coarse,
                "accuracy": mean,
                "standard_error": error,
                "predicted": predict_accuracy(model, RIDGE).accuracy,
                "dimension": d,
            }
        )
    for norm in (0.3, 0.5, 0.7, 1.0, 1.5):
        accuracies, learned = zip(
            *(_learned_trial(norm, d, rng) for _ in range(n_learned)), strict=True
        )
        model = _model("mean", norm)
        theory = np.array(
            [predict_accuracy(replace(model, weights=w), RIDGE).accuracy for w in learned]
        )
        mean, error = summary(accuracies)
        points.append(
            {
                "weighting": "learned",
                "signal_norm": [norm],
                "accuracy": mean,
                "standard_error": error,
                "predicted": theory.mean(),
                "dimension": d,
            }
        )
        lines.append({"weighting": "learned", "signal_norm": [norm], "accuracy": theory.mean()})
        weights.append(
            {
                "signal_norm": norm,
                "position": np.arange(1, LENGTH + 1),
                "weight": np.mean(learned, axis=0),
            }
        )
    return {
        "predicted": long_table(lines),
        "observed": long_table(points),
        "learned_weights": long_table(weights),
    }


def draw(tables: Tables) -> "Figure":
    """Draw accuracies, and the weights that were learned."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(
        1, 2, figsize=(7.4, 3.6), gridspec_kw={"width_ratios": [1.5, 1]}
    )
    for name in (*WEIGHTINGS, "learned"):
        color = style.WEIGHTINGS[name]
        line, seen = (rows(tables[t], weighting=name) for t in ("predicted", "observed"))
        left.plot(line["signal_norm"], line["accuracy"], color=color)
        draw_means(
            left,
            seen,
            "signal_norm",
            "accuracy",
            fmt=style.WEIGHTING_MARKERS[name],
            color=color,
            label=name,
        )
    left.plot([], [], color=style.GREY, label="closed form")
    left.set_xlabel(r"signal norm $\|\mu\|$")
    left.set_ylabel("test accuracy (share of labels)")
    left.set_ylim(0.49, 1.01)
    left.set_title("(a) ridge classification")
    left.legend(loc="lower right")
    learned = tables["learned_weights"]
    for norm, shade in zip((0.3, 0.7, 1.5), style.PURPLES, strict=True):
        row = rows(learned, signal_norm=norm)
        right.plot(row["position"], row["weight"], "D", color=shade, label=rf"$\|\mu\| = {norm}$")
    optimum = optimal_weights(CORRELATION)
    right.step(
        np.arange(1, LENGTH + 1),
        optimum,
        where="mid",
        color=style.WEIGHTINGS["optimal"],
        label="optimal",
    )
    right.set_xlabel("position in the sequence")
    right.set_ylabel("weight")
    right.set_ylim(bottom=0)
    right.set_title("(b) learned weights")
    right.legend(loc="upper right")
    return figure


def check(tables: Tables) -> list[Check]:
    """Compare every weighting with the closed form."""
    checks = []
    for name in (*WEIGHTINGS, "learned"):
        points = rows(tables["observed"], weighting=name)
        checks.append(
            z_check(
                f"test accuracy, {name} weights",
                points["predicted"],
                points["accuracy"],
                points["standard_error"],
                finite_size=2 / points["dimension"],
                basis=r"$2/d$ of finite size",
                explanation="Learned weights depend on the training labels, which the closed "
                "form takes to be independent of them: the classifier overfits a little through "
                "its weights as well."
                if name == "learned"
                else "",
            )
        )
    return checks
