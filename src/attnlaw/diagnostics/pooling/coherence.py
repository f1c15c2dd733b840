"""How much signal each pooling keeps, evaluated without labels on sequences held out."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats
from attnlaw.data.sequences import Sequences
from attnlaw.diagnostics.pooling.classification import standard_error
from attnlaw.diagnostics.pooling.poolings import Run, pooling_weights
from attnlaw.estimators.gain import learn_and_judge
from attnlaw.estimators.pooling_weights import normalised

__all__ = ["Coherence", "measure_coherence"]


@dataclass(frozen=True, kw_only=True)
class Coherence:
    """What positions have in common, and how much of it each pooling keeps."""

    direction: Floats  # u (d,): along which positions move together most
    weights: Floats  # w (L,): learned from all sequences, Σ|w| = 1
    power: float  # of one token's signal along u
    correlation: Floats  # Γ/power (L, L): between positions along u, held out, hollow
    snr: dict[str, float]  # α/κ of each pooling
    snr_error: dict[str, float]  # its standard error
    gain: dict[str, float]  # over the mean
    gain_error: dict[str, float]


def measure_coherence(
    data: Sequences,
    choices: Mapping[str, str | Floats],
    rng: np.random.Generator,
    run: Run = map,
    *,
    groups: NDArray[np.intp] | None = None,
) -> Coherence:
    """Learn weights and direction from halves of the sequences, and evaluate on the other half.

    Parameters
    ----------
    data : Sequences
    choices : dict
        Poolings to evaluate beside the learned one, as `pooling_weights` takes them; "mean" is
        among them.
    rng : Generator
    run : callable
        `map`, or that of an executor with several threads.
    groups : array of shape (N,), optional
        Copies have the same number and stay in one half; errors count them once.

    Notes
    -----
    Derived in docs/theory/weights-from-data.md, "What is claimed, and when".

    Along a direction u learned elsewhere, sequence i gives

        j_i(w) = (Σ_l w_l p_il)² − Σ_l w_l² p_il² ,   p_il = T_il·u centred at each position,

    whose mean is Σ_{l≠l'} w_l w_l' Γ_ll': what positions have in common, without the noise that
    they have not. In units of the signal power θ of a token, SNR = 1 + mean j/(θ κ). Errors are
    those of the means over sequences.
    """
    N, L, _ = data.shape
    groups = np.arange(N) if groups is None else groups
    parts = _halves(groups, rng)
    halves = [data.take(rows) for rows in parts]
    order = groups[np.concatenate(parts[::-1])]  # of the numbers below
    learned = learn_and_judge(data, halves, rng, run=run)
    best, fits, power = learned.best, learned.fits, learned.power.value
    gamma = np.zeros((L, L))
    kept: dict[str, list[Floats]] = {name: [] for name in (*choices, "learned")}
    for half, fit in ((halves[1], fits[0]), (halves[0], fits[1])):
        P = half.project(fit.direction[:, None])[0].astype(np.float64)
        gamma += P.T @ P / np.maximum(half.pair_counts, 1) / 2
        for name, found in kept.items():
            choice = fit.weights if name == "learned" else choices[name]
            W = pooling_weights(choice, L, half.mask)
            j = np.sum(W * P, axis=1) ** 2 - np.sum(W**2 * P**2, axis=1)
            found.append(j / np.mean(np.broadcast_to(np.sum(W**2, axis=-1), len(P))))
    np.fill_diagonal(gamma, 0.0)
    each = {name: 1 + np.concatenate(found) / power for name, found in kept.items()}
    gains = {name: values - each["mean"] for name, values in each.items()}
    return Coherence(
        direction=best.direction,
        weights=normalised(best.weights),
        power=power,
        correlation=gamma / power,
        snr={name: float(np.clip(values.mean(), 0, L)) for name, values in each.items()},
        snr_error=_errors(each, order),
        gain={name: float(values.mean()) for name, values in gains.items()},
        gain_error=_errors(gains, order),
    )


def _halves(
    groups: NDArray[np.intp], rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows of two random halves, every group in one of them."""
    places = rng.permutation(int(groups.max()) + 1)[groups]
    order = np.argsort(places, kind="stable")
    middle = len(order) // 2
    while middle < len(order) - 1 and places[order[middle]] == places[order[middle - 1]]:
        middle += 1
    return np.sort(order[:middle]), np.sort(order[middle:])


def _errors(values: Mapping[str, Floats], groups: NDArray[np.intp]) -> dict[str, float]:
    return {name: standard_error(v, groups) for name, v in values.items()}
