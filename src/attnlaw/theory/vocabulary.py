"""Predictions for tokens that differ in frequency and in importance.

The mathematics is in `token_spikes`; this module maps models to results. Derived in
docs/theory/vocabulary.md, "The outlier".
"""

import itertools
from functools import reduce

import numpy as np
from numpy.typing import ArrayLike

from attnlaw._checks import Floats, Real, scalar_or_array, warn_regime
from attnlaw.laws import Law, MarchenkoPastur
from attnlaw.laws.outliers import TINY
from attnlaw.laws.separable import SeparableLaw
from attnlaw.models import PooledSequences, SequenceMixture, Vocabulary
from attnlaw.results import Plan, Spike
from attnlaw.theory.token_noise import NoiseScales, mixed_scales, token_sums
from attnlaw.theory.token_spikes import TokenSpike, VocabularySpikes, sign_change

__all__ = [
    "bulk_law",
    "plan_vocabulary",
    "predict_vocabulary",
    "vocabulary_law",
    "vocabulary_spikes",
    "vocabulary_thresholds",
]

RATIOS = 10.0 ** np.linspace(-6, 3, 19)
"""Ratios between which `plan` looks for the last that is enough."""

LAW_ROWS = 48
"""Rows by which a vocabulary enters the law of its bulk."""

Pooled = PooledSequences | SequenceMixture

TOLERATED_SHARE = 0.2
"""Share of tokens in the noise at the signal's eigenvalue, or in its overlap, without a warning.

Drawn on 73 random vocabularies at d = 60 and 120, checked on 187 others:
docs/theory/vocabulary.md, "Frequent tokens". Weak signals near their threshold can be off without
a warning.
"""


def vocabulary_spikes(model: Pooled) -> VocabularySpikes:
    """Return the outliers of a model with a vocabulary as a function of ratios and norms."""
    words = _vocabulary(model)
    classes = words.signs.astype(np.float64)
    if not model.centred:  # the mean's outlier decouples for classes balanced at every frequency
        classes = np.zeros_like(classes)
    token = model.sampling == "token"
    sums = token_sums(words.frequencies, words.weights, classes)
    alike = np.ones(words.n_tokens)
    scales = mixed_scales(model.kinds, words.frequencies, words.weights if token else alike)
    return VocabularySpikes(sums, scales, model.snr, token=token)


def predict_vocabulary(model: Pooled) -> Spike:
    """Predict eigenvalue and overlap for a model with a vocabulary; see `predict`.

    Notes
    -----
    docs/theory/vocabulary.md, "The outlier". With A(s) of `VocabularySpikes`, the outlier is at
    the s that solves s = ‖μ‖² A(s), and

        λ = κ s (1+y) φ(y) ,   ζ = s (1+y) (log λ)'(s)/(1 − s A'/A) .

    Frequent tokens may have eigenvalues above that of the signal. The prediction is that of the
    outlier most aligned with the signal.

    Without centring the table's mean has an outlier at Σ p δr/(s − δr) = 1/((Σw)²/κ − 1); it is
    treated as orthogonal to the signal's, as it is when both classes have the same frequencies.
    """
    norm, delta, gamma = (
        np.asarray(x) for x in (model.signal_norm, model.vocab_ratio, model.sample_ratio)
    )
    spikes = vocabulary_spikes(model)
    found = spikes.spike(norm, delta, gamma)
    population = spikes.spike(norm, delta, np.zeros_like(gamma))
    _warn_if_shared(spikes, found, delta)
    kappa, shape = model.noise_gain, model.shape
    mean = found.edge
    if model.sampling == "token" and isinstance(model, PooledSequences) and not model.centred:
        gain = float(model.weights.sum()) ** 2 / kappa - 1
        mean = spikes.mean_eigenvalue(gain, delta, gamma)
    both = found.is_detectable & population.is_detectable & (found.squared_overlap > 0)
    quotient = spikes.eigenvector_overlap(
        population.s, found.s, *np.broadcast_arrays(norm, delta, gamma)
    )
    sample = found.squared_overlap * population.squared_overlap * quotient**2

    def full(values: Floats) -> Real:
        return scalar_or_array(np.broadcast_to(values, shape))

    return Spike(
        top_eigenvalue=full(kappa * found.eigenvalue),
        squared_overlap=full(found.squared_overlap),
        bulk_edge=full(kappa * found.edge),
        population_eigenvalue=full(kappa * population.eigenvalue),
        population_overlap=full(population.squared_overlap),
        sample_overlap=full(np.where(both, sample, 0.0)),
        mean_eigenvalue=full(kappa * mean),
        is_detectable=found.is_detectable if shape else bool(found.is_detectable),
    )


def vocabulary_thresholds(model: Pooled) -> tuple[Floats, Floats]:
    """Return the critical signal norms of population and sample, of the shape of the ratios.

    An outlier at the edge's s has ‖μ‖² = s/A(s): the norm beyond which it leaves the whole bulk,
    the eigenvalues of frequent tokens included.
    """
    delta, gamma = np.broadcast_arrays(model.vocab_ratio, model.sample_ratio)
    spikes = vocabulary_spikes(model)
    return spikes.threshold(delta, np.zeros_like(gamma)), spikes.threshold(delta, gamma)


def vocabulary_law(model: Pooled, delta: float, gamma: float) -> Law:
    """Return the law of the noise bulk: κ (⊞ r MP_δ) ⊠ (⊞ ξ MP_γ), over tokens and sequences.

    Notes
    -----
    docs/theory/vocabulary.md, "The bulk". The largest rows stay one by one and the others are
    averaged in groups of equal number: `LAW_ROWS` in all, which moves the cdf by about 1e-5.
    """
    words, scales = _vocabulary(model), vocabulary_spikes(model).scales
    return bulk_law(words.frequencies, words.weights, scales, model.noise_gain, delta, gamma)


def bulk_law(
    frequencies: Floats,
    importance: Floats,
    scales: NoiseScales,
    kappa: float,
    delta: float,
    gamma: float,
    spectrum: ArrayLike = 1.0,
) -> Law:
    """Return the law of a vocabulary's bulk whose noise has these eigenvalues."""
    rows = np.sort(len(frequencies) * frequencies * importance**2)
    head = min(LAW_ROWS // 4, len(rows))
    tail, largest = np.split(rows, [len(rows) - head])
    groups = [g for g in np.array_split(tail, LAW_ROWS - head) if g.size]
    groups += np.split(largest, head)
    means = np.array([g.mean() for g in groups])
    shares = np.array([g.size for g in groups]) / len(rows)
    used = means > 0  # tokens without importance are none
    total = float(shares[used].sum())
    samples: list[Law] = [
        (q * xi) * MarchenkoPastur(gamma / q)
        for xi, q in zip(scales.atoms, scales.masses, strict=True)
        if q * xi > 1e-9
    ]
    table = SeparableLaw(
        np.atleast_1d(spectrum),
        ratio=delta / total,
        rows=means[used] * total,
        row_weights=shares[used] / total,
    )
    bulk: Law = kappa * (table @ reduce(Law.__add__, samples))
    return bulk


def plan_vocabulary(model: Pooled, wanted: Floats) -> Plan:
    """Return the `Plan` of a model with a vocabulary.

    Notes
    -----
    ζ falls as γ grows and is inverted by bisection. A need of signal is found along the curve
    ‖μ‖² = s/A(s), on which ζ grows with s. For the vocabulary the relative frequencies V p are
    held fixed while δ varies, as if every token were split into several equally frequent ones;
    the largest δ up to which ζ suffices is taken. Only outliers right of the whole bulk count. The
    ceiling is ‖μ‖²/(‖μ‖² + d/V_eff) (docs/theory/vocabulary.md, "Effective vocabulary").
    """
    delta, gamma, norm, zeta = np.broadcast_arrays(
        model.vocab_ratio, model.sample_ratio, model.signal_norm, wanted
    )
    spikes, words = vocabulary_spikes(model), _vocabulary(model)
    zero = np.zeros(zeta.shape)

    def surplus(delta: Floats, gamma: Floats) -> Floats:
        return np.asarray(spikes.outer_spike(norm, delta, gamma).squared_overlap - zeta)

    limit, infinite = surplus(delta, zero), surplus(zero, gamma)
    class_noise = delta * words.n_tokens / words.effective_size  # d/V_eff
    start, end = np.full(zeta.shape, RATIOS[0]), np.full(zeta.shape, RATIOS[-1])
    samples = sign_change(lambda x: surplus(delta, x), start, end)
    low, high = start, start  # the last stretch that begins with enough and ends with too little
    for ratio, following in itertools.pairwise(RATIOS):
        enough = surplus(np.full(zeta.shape, ratio), gamma) > 0
        low, high = np.where(enough, ratio, low), np.where(enough, following, high)
    vocab = sign_change(lambda x: surplus(x, gamma), low, np.maximum(high, 2 * low))
    ceiling = norm**2 / np.maximum(norm**2 + class_noise, TINY) if spikes.token else zero + 1
    return Plan(
        squared_overlap=scalar_or_array(zeta),
        sample_ratio=scalar_or_array(np.where((limit > 0) & (samples > RATIOS[0]), samples, 0.0)),
        vocab_ratio=scalar_or_array(np.where((infinite > 0) & (vocab > RATIOS[0]), vocab, 0.0)),
        signal=scalar_or_array(spikes.norm_for(zeta, delta, gamma)),
        ceiling=scalar_or_array(ceiling),
        sample_limit=scalar_or_array(limit + zeta),
        vocab_limit=scalar_or_array(infinite + zeta),
    )


def _vocabulary(model: Pooled) -> Vocabulary:
    words = model.vocabulary
    if words is None:
        raise TypeError("a model without a vocabulary has no tokens to sum over.")
    return words


def _warn_if_shared(spikes: VocabularySpikes, found: TokenSpike, delta: Floats) -> None:
    """Warn the caller of `predict` where the signal's eigenvector mixes with those of tokens."""
    shares = spikes.largest_share(found.s, np.broadcast_to(delta, found.s.shape))
    share = float(np.max(shares, initial=0.0))
    kept = found.squared_overlap / np.where(found.shared > 0, found.shared, 1.0)
    split = 1 - float(np.min(kept, initial=1.0, where=found.shared > 0))
    if max(share, split) <= TOLERATED_SHARE:
        return
    if share > split:
        reason = (
            f"one token makes {share:.0%} of the noise around the signal's eigenvalue, which is a "
            "bulk in the limit but an eigenvector of its own at a finite size"
        )
    else:
        reason = f"{split:.0%} of the visible signal is in the eigenvectors of frequent tokens"
    warn_regime(f"{reason}: overlaps at a finite size scatter between these eigenvectors.")
