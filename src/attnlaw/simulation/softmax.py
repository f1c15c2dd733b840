"""One random head: inputs, queries and keys, scores, and their softmax.

    X → Q = XW_Q, K = XW_K → S_ij = ⟨q_i, k_j⟩/√d_k → A = softmax(βS + log π) by rows → centred A

with X orthonormal, of a given spectrum, or given; RoPE rotates q_i and k_j by their positions;
π is the mean pattern of the model: the mask, ALiBi, a window, a sink. Each step is a function
of its own, so that a head with other weights can take the same way.
"""

import numpy as np

from attnlaw._checks import Floats, Random, invalid_argument, random_generator
from attnlaw.models import SelfAttention

__all__ = [
    "attention_matrix",
    "attention_scores",
    "centred_attention",
    "rotate_by_position",
    "sample_attention",
    "sample_inputs",
    "sample_queries_and_keys",
]


def sample_inputs(model: SelfAttention, rng: np.random.Generator) -> Floats | None:
    """Return inputs X (n × m), given or drawn with the model's spectrum; None if orthonormal."""
    spectrum = model.input_spectrum
    if spectrum is None:
        return model.inputs
    n = model.n_tokens
    place = np.minimum(((np.arange(n) + 0.5) / n * spectrum.size).astype(int), spectrum.size - 1)
    Q, R = np.linalg.qr(rng.standard_normal((n, n)))
    return np.asarray(Q * np.sign(np.diag(R)) * np.sqrt(spectrum[place]))


def sample_queries_and_keys(
    model: SelfAttention, rng: np.random.Generator, inputs: Floats | None = None
) -> tuple[Floats, Floats]:
    """Draw the queries and keys of one head (n × d_k each).

    Orthonormal inputs give standard Gaussian ones; others, XW_Q and XW_K with Gaussian W.
    """
    n, d = model.n_tokens, model.head_dimension
    if inputs is None:
        Q, K = rng.standard_normal((n, d)), rng.standard_normal((n, d))
    else:
        m = inputs.shape[1]
        Q, K = inputs @ rng.standard_normal((m, d)), inputs @ rng.standard_normal((m, d))
    if model.qk_norm:
        for vectors in (Q, K):
            vectors *= d**0.5 / np.linalg.norm(vectors, axis=1, keepdims=True)
    return Q, K


def rotate_by_position(vectors: Floats, base: float = 10_000.0) -> Floats:
    """Rotate row i of an n × d array by the angles i base^{−2k/d} in the planes (k, k + d/2).

    Rotary position embedding (RoPE): ⟨rotated q_i, rotated k_j⟩ depends on i − j alone.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> q, k = rng.standard_normal((2, 8))
    >>> Q, K = (rotate_by_position(np.tile(v, (5, 1))) for v in (q, k))
    >>> bool(np.isclose(Q[4] @ K[1], Q[3] @ K[0]))
    True
    """
    n, d = vectors.shape
    if d % 2:
        raise invalid_argument("vectors", "of even dimension", vectors)
    angles = np.arange(n)[:, None] * base ** (-2 * np.arange(d // 2) / d)
    cos, sin = np.cos(angles), np.sin(angles)
    first, second = vectors[:, : d // 2], vectors[:, d // 2 :]
    return np.concatenate([first * cos - second * sin, first * sin + second * cos], axis=1)


def attention_scores(queries: Floats, keys: Floats, rotary_base: float | None = None) -> Floats:
    """Scores QKᵀ/√d_k, of queries and keys rotated by position if there is a `rotary_base`."""
    if rotary_base is not None:
        queries = rotate_by_position(queries, rotary_base)
        keys = rotate_by_position(keys, rotary_base)
    scores = queries @ keys.T
    scores /= queries.shape[1] ** 0.5
    return np.asarray(scores)


def attention_matrix(
    scores: Floats,
    inverse_temperature: float,
    *,
    causal: bool = False,
    pattern: Floats | None = None,
) -> Floats:
    """Softmax of β times the scores by rows, safe for any β; later tokens masked if `causal`.

    With a `pattern` π ≥ 0 (n × n, some entry of each row above 0) it is the softmax of β times
    the scores plus log π.

    Examples
    --------
    >>> attention_matrix(np.array([[0.0, 1e6], [0.0, 0.0]]), 50.0)
    array([[0. , 1. ],
           [0.5, 0.5]])
    >>> attention_matrix(np.zeros((2, 2)), 1.0, pattern=np.array([[1.0, 0.0], [1.0, 3.0]]))
    array([[1.  , 0.  ],
           [0.25, 0.75]])
    """
    logits = inverse_temperature * scores
    if pattern is not None:
        with np.errstate(divide="ignore"):
            logits += np.log(pattern)
    if causal:
        logits[np.triu_indices(len(logits), k=1)] = -np.inf
    logits -= logits.max(axis=-1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=-1, keepdims=True)
    return np.asarray(logits)


def sample_attention(
    model: SelfAttention, rng: Random = None, scores: Floats | None = None
) -> Floats:
    """Draw one head A (n × n): of random queries and keys over the model's inputs.

    Parameters
    ----------
    model : SelfAttention
        Its inputs, mask, mean pattern, RoPE and QK-norm; a single head of it, without values.
    rng : Generator, int or None
        Source of randomness.
    scores : array of shape (n, n), optional
        Scores of a head that is drawn otherwise (`attention_scores`).

    Examples
    --------
    A null for the maps of a model over the inputs X of one of its layers:

    >>> import attnlaw as al
    >>> X = np.random.default_rng(0).standard_normal((6, 100))
    >>> head = al.SelfAttention(n_tokens=6, head_dimension=16, inverse_temperature=1.0,
    ...     causal=True, inputs=X, rotary_base=10_000)
    >>> A = al.simulation.sample_attention(head, rng=1)
    >>> A.shape, bool(np.allclose(A.sum(axis=1), 1)), float(A[0, 0])
    ((6, 6), True, 1.0)
    """
    if scores is None:
        rng = random_generator(rng)
        Q, K = sample_queries_and_keys(model, rng, sample_inputs(model, rng))
        scores = attention_scores(Q, K, model.rotary_base)
    pattern = model.mean_pattern() if model.has_pattern else None
    return attention_matrix(
        scores, model.inverse_temperature, causal=model.causal, pattern=pattern
    )


def centred_attention(model: SelfAttention, attention: Floats) -> Floats:
    """Return A less what it is at β = 0, rows scaled to one size (see `SelfAttention`).

    √n (A − 1/n); causal √i (A_ij − 1/i); √ℓ_i (A_ij − π_ij) with ℓ_i = 1/Σ_j π_ij² for a mean
    pattern; and with a sink, whose column is 0, √ℓ_i (A_ij − (1 − A_i1) π_ij).
    """
    n = model.n_tokens
    if not model.has_pattern:
        sizes = np.arange(1.0, n + 1)[:, None] if model.causal else np.full((1, 1), float(n))
        Y = attention - 1 / sizes
        Y *= sizes**0.5
        return np.asarray(np.tril(Y) if model.causal else Y)
    pattern, A, others = model.mean_pattern(), attention, np.ones((n, 1))
    if model.sink:
        others = 1 - attention[:, :1]
        A = np.where(np.arange(n) > 0, attention, 0.0)
        pattern[:, 0] = 0.0
        pattern /= 1 - model.sink
    sizes = np.sum(pattern**2, axis=1, keepdims=True)  # 1/ℓ, 0 where nothing but the sink is seen
    return np.asarray((A - others * pattern) / np.where(sizes > 0, sizes, 1.0) ** 0.5)
