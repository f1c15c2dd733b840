"""The best token weights: smooth inverse frequency, and its parameter from first principles."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from attnlaw._checks import Floats, choice, invalid_argument, real
from attnlaw.models import PooledSequences, SequenceMixture, Vocabulary
from attnlaw.results import Record
from attnlaw.theory.token_spikes import VocabularySpikes
from attnlaw.theory.vocabulary import vocabulary_spikes

__all__ = [
    "OptimalImportance",
    "first_order_smoothing",
    "optimal_importance",
    "smoothing_overlaps",
]

Pooled = PooledSequences | SequenceMixture

DECADES = 4.0
"""How far from a* the exact optimum is looked for, to both sides."""


@dataclass(frozen=True, kw_only=True)
class OptimalImportance(Record):
    """Token weights g ∝ 1/(p + a), and what they gain."""

    vocabulary: Vocabulary  # the model's, with the best weights
    smoothing: float  # a: the best by the exact ζ; 0 stands for 1/p
    first_order_smoothing: float  # a* = κ/(αN), or κ/(N P²) for labelled centroids
    squared_overlap: float  # ζ with the best weights
    first_order_overlap: float  # ζ at a*
    uniform_overlap: float  # ζ when all tokens count alike
    given_overlap: float  # ζ with the weights that the model has


def optimal_importance(model: Pooled, objective: str = "component") -> OptimalImportance:
    """Find the token weights that keep most of the signal.

    Parameters
    ----------
    model : PooledSequences or SequenceMixture
        With a vocabulary; its ratios and signal norm are single numbers.
    objective : "component" or "centroid"
        Best for the leading principal component, or for the difference of two labelled class
        means, where the label is the sign at the first position.

    Returns
    -------
    OptimalImportance
        Where no weights lift the signal out of the bulk, those of a* with an overlap of 0.

    Notes
    -----
    docs/theory/vocabulary.md, "The best token weights". To first order in 1/‖μ‖² and κ/α

        1 − ζ = [d Σp²g² + (d/N)(κ/α) Σpg²]/(ḡ²‖μ‖²) ,

    which is least, by Cauchy and Schwarz, for g ∝ 1/(p + a*), a* = κ/(αN): smooth inverse
    frequency. Few samples (large a*) ask for equal weights, many for 1/p. For a labelled centroid
    α is replaced by P², P = E[y w·s]. Near threshold higher orders count, so the exact ζ of
    `predict` is maximised over a as well; for a centroid the first-order overlap is returned.

    This is the optimum for isotropic noise. On real tables, whose noise is not isotropic and whose
    labels sit in single tokens, choose a on your own data (docs/theory/vocabulary.md, "Where it
    does not carry over").

    Examples
    --------
    >>> import attnlaw as al
    >>> R = al.prefix_correlation(20, prefix=5)
    >>> model = al.PooledSequences(vocab_ratio=0.2, sample_ratio=0.2, signal_norm=1.5,
    ...     correlation=R, weights=al.mean_weights(20), vocabulary=al.Vocabulary.zipf(1500))
    >>> best = al.optimal_importance(model)
    >>> f"{best.first_order_smoothing:.2e}", f"{best.squared_overlap:.2f}"     # 1/(2 · 1500)
    ('3.33e-04', '0.83')
    """
    words = _vocabulary(model)
    if model.shape:
        raise invalid_argument("model", "a single model", f"shape {model.shape}")
    delta, gamma, norm = (
        float(np.asarray(x)) for x in (model.vocab_ratio, model.sample_ratio, model.signal_norm)
    )
    strength = _strength(model, objective)
    first = first_order_smoothing(model, objective)

    def value(importance: Vocabulary) -> float:
        if objective == "centroid":
            return _centroid_overlap(model, importance, strength)
        return _overlap(
            vocabulary_spikes(replace(model, vocabulary=importance)), norm, delta, gamma
        )

    def smoothed(a: float) -> Vocabulary:
        return words.with_importance(words.frequencies.min() / (words.frequencies + a))

    best, found = first, value(smoothed(first))
    if objective == "component" and first > 0:
        best, found = _search(lambda a: value(smoothed(a)), first, found)
    return OptimalImportance(
        vocabulary=smoothed(best),
        smoothing=best,
        first_order_smoothing=first,
        squared_overlap=found,
        first_order_overlap=value(smoothed(first)),
        uniform_overlap=value(words.with_importance("uniform")),
        given_overlap=value(words),
    )


def first_order_smoothing(model: Pooled, objective: str = "component") -> float:
    """Return a* = κ/(αN), or κ/(N P²) for labelled centroids; see `optimal_importance`.

    Examples
    --------
    >>> import attnlaw as al
    >>> model = al.PooledSequences(vocab_ratio=0.5, sample_ratio=0.25, signal_norm=1.0,
    ...     correlation=np.eye(4), weights="mean", vocabulary=al.Vocabulary.zipf(1000))
    >>> first_order_smoothing(model)        # N = 2000, α = κ
    0.0005
    """
    words = _vocabulary(model)
    delta, gamma = model.single_ratios("token weights are")
    if delta == 0:
        raise invalid_argument("vocab_ratio", "above 0 when tokens are weighed", delta)
    return model.noise_gain * gamma / (_strength(model, objective) * delta * words.n_tokens)


def smoothing_overlaps(model: Pooled, smoothing: ArrayLike) -> Floats:
    """Return ζ with the token weights 1/(p + a), for several a and all numbers of the model.

    Parameters
    ----------
    model : PooledSequences or SequenceMixture
        With a vocabulary, whose importance plays no part; its numbers may be arrays.
    smoothing : array of shape (n,)
        a, above 0.

    Returns
    -------
    array of shape (n, … as the model)

    Examples
    --------
    A heat map over a and the signal norm:

    >>> import attnlaw as al
    >>> model = al.PooledSequences(vocab_ratio=0.2, sample_ratio=0.2, signal_norm=[1.0, 1.5, 2.0],
    ...     correlation=al.prefix_correlation(20, prefix=5), weights="mean",
    ...     vocabulary=al.Vocabulary.zipf(1500))
    >>> smoothing_overlaps(model, [1e-1, 1e-3]).round(2)
    array([[0.07, 0.27, 0.51],
           [0.59, 0.83, 0.9 ]])
    """
    words = _vocabulary(model)
    values = np.atleast_1d(np.asarray(real("smoothing", smoothing, above=0)))
    delta, gamma, norm = np.broadcast_arrays(
        model.vocab_ratio, model.sample_ratio, model.signal_norm
    )
    weighted = (words.with_importance("sif", a=float(a)) for a in values)
    spikes = (vocabulary_spikes(replace(model, vocabulary=vocabulary)) for vocabulary in weighted)
    return np.stack([each.spike(norm, delta, gamma).squared_overlap for each in spikes])


def _vocabulary(model: Pooled) -> Vocabulary:
    if not isinstance(model, PooledSequences | SequenceMixture) or model.vocabulary is None:
        wanted = "a PooledSequences or SequenceMixture with a vocabulary"
        raise invalid_argument("model", wanted, type(model).__name__)
    return model.vocabulary


def _strength(model: Pooled, objective: str) -> float:
    """Return α, or P² with P = E[y w·s] for the label y at the first position."""
    choice("objective", objective, ("component", "centroid"))
    if isinstance(model, PooledSequences):
        label = float(model.correlation[0] @ model.weights)
    else:
        kinds = zip(model.kind_shares, model.correlations, model.weights, strict=True)
        label = sum(float(q * (R[0] @ w)) for q, R, w in kinds)
    strength = model.signal_gain if objective == "component" else label**2
    if strength == 0:
        raise invalid_argument("weights", "such that they keep some signal", strength)
    return strength


def _overlap(spikes: VocabularySpikes, norm: float, delta: float, gamma: float) -> float:
    arguments = (np.asarray(x) for x in (norm, delta, gamma))
    return float(spikes.spike(*arguments).squared_overlap)


def _centroid_overlap(model: Pooled, words: Vocabulary, squared_label: float) -> float:
    """Return ⟨u, μ⟩²/(‖u‖²‖μ‖²) of u = mean y x, to which means and noise add independently."""
    p, g = words.frequencies, words.weights
    d = float(np.asarray(model.vocab_ratio)) * words.n_tokens
    N = d / max(float(np.asarray(model.sample_ratio)), 1e-300)
    signal = float(p @ g) ** 2 * float(np.asarray(model.signal_norm)) ** 2
    table = d * float(np.sum(p**2 * g**2))
    sampling = d / N * model.noise_gain / squared_label * float(p @ g**2)
    return signal / (signal + table + sampling)


def _search(value: Callable[[float], float], first: float, found: float) -> tuple[float, float]:
    """Maximise over log a: a scan around a*, then golden section between its best points."""
    grid = np.log(first) + np.log(10) * np.linspace(-DECADES, DECADES, 17)
    values = [found if k == 8 else value(float(np.exp(x))) for k, x in enumerate(grid)]
    k = int(np.argmax(values))
    low, high = grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)]
    golden = (np.sqrt(5) - 1) / 2
    best, highest = float(grid[k]), values[k]
    for _ in range(12):
        left, right = high - golden * (high - low), low + golden * (high - low)
        at_left, at_right = value(float(np.exp(left))), value(float(np.exp(right)))
        low, high = (low, right) if at_left >= at_right else (left, high)
        for x, here in ((left, at_left), (right, at_right)):
            if here > highest:
                best, highest = float(x), here
    return float(np.exp(best)), highest
