"""How far a model with few positions is from the limit law of its noise bulk.

The law MP_δ ⊠ MP_γ treats the V×N matrix of weights as Gaussian. It has only L non-zeros a
column, and where one position carries all the weight the bulk feels it.
"""

from typing import Any, NamedTuple

import numpy as np

from attnlaw._checks import scalar_or_array, warn_regime
from attnlaw._dispatch import answers
from attnlaw.models import PooledModel, SequenceMixture
from attnlaw.models.vocabulary import TokenModel
from attnlaw.results import Validity
from attnlaw.theory.token_noise import mixed_scales
from attnlaw.theory.verbs import validity

__all__ = ["warn_if_far_from_limit"]

TOLERATED_DEVIATION = 0.001
"""Relative fourth-moment deviation beyond which predictions warn.

Measured at d = 400, ten pairs of ratios from 0.05 to 2 and one to six positions without
correlation, beside the same model with twenty (200 draws each; the table is in
docs/theory/bulk.md, "How far a fixed length is from the limit"): an overlap of 0.5 loses 0.02 to
0.08 with one position at deviations from 0.001 to 0.03, and the edge gains 2 to 9 %; up to 0.001
the loss is at most 0.01, within two standard errors, and the edge gains less than 1 %.
"""


@answers(validity)
def validity_of_pooled(model: PooledModel[Any]) -> Validity:
    """Measure how far fixed-length sequences are from the limit law of the noise bulk.

    Parameters
    ----------
    model : PooledSequences, PooledClasses, SequenceMixture or MultiHeadPooling
        Its ratios may be arrays. Of a mixture the mean over kinds is taken, of heads the one
        that uses the fewest positions.

    Returns
    -------
    Validity
        `fourth_moment_deviation` is 0 for Gaussian sampling, where the law is exact.

    Notes
    -----
    Derived in docs/theory/bulk.md, "How far a fixed length is from the limit".

    The first three moments of the bulk are those of ν = MP_δ ⊠ MP_γ. In the
    fourth moment of the V×V factor (ratio c = V/N) the crossing pairing survives because two
    sequences that share a token share it in all four places; it adds c²/L_eff². The d×d bulk has
    free cumulants δ^{n−1} m_n of that factor, so its own fourth moment exceeds the law's by
    δ³ (γ/δ)²/L_eff², and the figure returned is

        δγ²/(L_eff² m₄),   m₄ = 1 + 6k₂ + 2k₂² + 4k₃ + k₄,
        k₂ = δ+γ,  k₃ = δ²+3δγ+γ²,  k₄ = δ³+6δ²γ+6δγ²+γ³.

    In a mixture of kinds γ^{n−1} is multiplied by s_n = Σ q_g κ_g^n/κ̄^n, the free cumulants of
    the sample's factor, and with a `Vocabulary` δ^{n−1} by the mean of r^n (r = V p g² scaled to
    mean one). With a_n and b_n these products, k₂ = a₂+b₂, k₃ = a₃+3a₂b₂+b₃,
    k₄ = a₄+4a₃b₂+2a₂²b₂+4a₂b₃+2a₂b₂²+b₄; the excess is then δγ²/L_eff² times the mean of (r g²)².

    With L_eff = 1 a token's share of the data is Poisson, not free Poisson: frequent tokens then
    push single eigenvalues beyond the edge.

    Examples
    --------
    >>> import attnlaw as al
    >>> model = al.PooledSequences(
    ...     vocab_ratio=1.0, sample_ratio=1.0, signal_norm=1.0,
    ...     correlation=np.eye(4), weights=al.mean_weights(4),
    ... )
    >>> note = al.validity(model)     # m₄ = 55, the Fuss–Catalan number
    >>> note.effective_length, round(note.fourth_moment_deviation * 55 * 16, 12)
    (4.0, 1.0)
    """
    delta, gamma = np.asarray(model.vocab_ratio), np.asarray(model.sample_ratio)
    length = model.effective_length
    tokens, sequences = _token_spread(model), _sequence_spread(model)
    a2, a3, a4 = (delta**k * s for k, s in enumerate(tokens.moments, 1))
    b2, b3, b4 = (gamma**k * s for k, s in enumerate(sequences, 1))
    k2 = a2 + b2
    k3 = a3 + 3 * a2 * b2 + b3
    k4 = a4 + 4 * a3 * b2 + 2 * a2**2 * b2 + 4 * a2 * b3 + 2 * a2 * b2**2 + b4
    m4 = 1 + 6 * k2 + 2 * k2**2 + 4 * k3 + k4
    excess = tokens.crossing * delta * gamma**2 / length**2
    if model.sampling != "token":
        excess = np.zeros_like(k2)
    return Validity(effective_length=length, fourth_moment_deviation=scalar_or_array(excess / m4))


class _TokenSpread(NamedTuple):
    moments: tuple[float, float, float]  # mean of r^n over tokens, r of mean one, n = 2, 3, 4
    crossing: float  # mean of (r g²)² over tokens, r and g² of mean one


def _token_spread(model: PooledModel[Any]) -> _TokenSpread:
    """Return how much tokens differ in the pooled noise: r = V p g²."""
    words = model.vocabulary if isinstance(model, TokenModel) else None
    if words is None or words.is_uniform:
        return _TokenSpread((1.0, 1.0, 1.0), 1.0)
    square = words.weights**2 / float(words.frequencies @ words.weights**2)
    r = words.n_tokens * words.frequencies * square
    two, three, four = (float(np.mean(r**n)) for n in (2, 3, 4))
    return _TokenSpread((two, three, four), float(np.mean((r * square) ** 2)))


def _sequence_spread(model: PooledModel[Any]) -> tuple[float, float, float]:
    """Return the moments n = 2, 3, 4 of the noise of sequences, which is one on average."""
    words = model.vocabulary if isinstance(model, TokenModel) else None
    if isinstance(model, TokenModel) and words is not None and not words.is_uniform:
        scales = mixed_scales(model.kinds, words.frequencies, words.weights)
        ratios, shares = scales.atoms, scales.masses
    elif isinstance(model, SequenceMixture):
        ratios, shares = model.noise_gains / model.noise_gain, model.kind_shares
    else:
        return 1.0, 1.0, 1.0
    two, three, four = (float(shares @ ratios**n) for n in (2, 3, 4))
    return two, three, four


def _and_tokens(model: PooledModel[Any]) -> str:
    alike = not isinstance(model, TokenModel) or not model.tokens_differ
    return "" if alike else " and favour some tokens"


def warn_if_far_from_limit(model: PooledModel[Any]) -> None:
    """Warn when the deviation is more than is tolerated."""
    note = validity(model)
    deviation = float(np.max(note.fourth_moment_deviation, initial=0.0))
    if deviation > TOLERATED_DEVIATION:
        warn_regime(
            f"the weights use only {note.effective_length:.3g} positions{_and_tokens(model)}: the "
            f"bulk's fourth moment exceeds the limit law's by {deviation:.2%}, and single tokens "
            "can push eigenvalues beyond the edge."
        )
