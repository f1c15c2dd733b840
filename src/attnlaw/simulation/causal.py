"""The weights of an actual causal softmax over sampled sequences.

P1 Lemma 1; docs/theory/weights.md, "Causal self-attention".
"""

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Random, count, invalid_argument, random_generator
from attnlaw.models import PooledSequences
from attnlaw.simulation._matrix_free.plan import check_memory
from attnlaw.simulation.pooled import sample_tokens
from attnlaw.simulation.signs import sample_signs
from attnlaw.weights import softmax_causal_weights

__all__ = ["simulate_causal_weights"]


def simulate_causal_weights(
    model: PooledSequences,
    dimension: int,
    n_sequences: int = 1,
    rng: Random = None,
    *,
    inverse_temperature: float = 1.0,
) -> NDArray[np.float64]:
    """Draw sequences at a finite size and return the weights their causal softmax gives.

    Parameters
    ----------
    model : PooledSequences
        Its vocabulary ratio, signal norm and correlation; a single number each.
    dimension : int
        d.
    n_sequences : int
        Number of independent sequences, each from a table of its own.
    rng : Generator, int or None
        Source of randomness.
    inverse_temperature : float
        τ in the scores (τ/d) e_i·e_j.

    Returns
    -------
    array of shape (n_sequences, length)
        Weights w of each sequence; they tend to `causal_weights` at the rate d^(−1/2).

    Notes
    -----
    Only the tokens that occur are drawn: equal tokens share their noise, different ones have
    independent noise, as in a table of V. When the vocabulary is infinite or the sampling
    gaussian, no token occurs twice.

    Examples
    --------
    >>> import attnlaw as al
    >>> model = al.PooledSequences(
    ...     vocab_ratio=0.5, sample_ratio=1, signal_norm=1.0,
    ...     correlation=al.prefix_correlation(4, 2), weights=al.causal_weights(4))
    >>> seen = al.simulation.simulate_causal_weights(model, 10_000, rng=0)
    >>> bool(np.abs(seen - al.causal_weights(4)).max() < 3 / 10_000**0.5)
    True
    """
    n, rng = count("n_sequences", n_sequences), random_generator(rng)
    d, V, _ = model.sizes(dimension)
    L = model.length
    if model.shape:
        raise invalid_argument("signal_norm", "a single number", model.signal_norm)
    check_memory(16 * n * L * d, d)
    signs = sample_signs(model.correlation, n, rng)
    E = rng.standard_normal((n, L, d))
    if V and model.sampling == "token":
        tokens = sample_tokens(signs, V, rng)
        first = np.argmax(tokens[:, :, None] == tokens[:, None, :], axis=2)
        E = np.take_along_axis(E, first[:, :, None], axis=1)
    E[:, :, 0] += model.signal_norm * signs
    return softmax_causal_weights(E, inverse_temperature)
