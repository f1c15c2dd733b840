"""Saved maps compared with heads with Gaussian queries and keys, and with their law.

Neither inputs nor weights of a saved map are known. It is compared with heads whose queries and
keys are independent and Gaussian, at its own size, width and inverse temperature.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from math import exp, log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw import theory
from attnlaw._checks import Floats, RegimeWarning, count, invalid_argument, scalar
from attnlaw._machine import one_blas_thread
from attnlaw.diagnostics.heads.decomposition import Parts, Places, decompose
from attnlaw.diagnostics.heads.findings import (
    HeadsReport,
    SpectralFinding,
    Verdicts,
    head_finding,
    head_sentence,
    log_statistics,
    report_sentence,
)
from attnlaw.diagnostics.heads.maps import AttentionMaps, attention_maps
from attnlaw.models import SelfAttention
from attnlaw.simulation import attention_matrix, sample_queries_and_keys

__all__ = ["centred_spectrum", "compare_spectrum", "inspect_heads", "score_rank", "score_spread"]

Counts = NDArray[np.int_]
_GAP = 10.0  # ratio of singular values that sets rounding off from scores
_STEP = log(1.2)  # between inverse temperatures at which laws are computed
_HIGHEST = 60.0  # beyond, rows are one-hot whatever the temperature
_DRAWS = 24
_ASSUMED_DIMENSION, _LARGEST_DIMENSION = 64, 1024
_RANKED = 16  # heads whose scores are looked at for the width


class Scores(NamedTuple):
    """Scores read back from a map: log A by rows, up to a constant in each row."""

    inverse_temperature: float  # β: their standard deviation within rows
    zero_share: float  # of the entries inside the mask: too small for the file's digits


class Rank(NamedTuple):
    """Width of a head, by its scores."""

    rank: int | None  # number of singular values above rounding; None where they fill the space
    moment: float  # d with E s⁴ as seen: what a random head of that width has


def inspect_heads(
    attention: Any,
    *,
    head_dimension: int | None = None,
    causal: bool | None = None,
    tokens: Sequence[Any] | None = None,
    n_draws: int = 19,
    level: float = 0.01,
    max_tokens: int = 512,
    progress: Callable[[float], None] | None = None,
) -> HeadsReport:
    """Compare attention maps with heads whose queries and keys are Gaussian.

    Without the model the inputs of its layers are unknown, so that a head may stand out because of
    what the text does to any head; if the model is available, use `inspect_model`.

    Parameters
    ----------
    attention : AttentionMaps or array of shape (layers, heads, n, n), (heads, n, n) or (n, n)
        From `read_attention` and the like, or plain weights after the softmax.
    head_dimension : int, optional
        d_k. By default that of the maps, if known, or the rank of their logarithms.
    causal : bool, optional
        Whether later tokens are masked; by default, whether their attention is zero.
    tokens : sequence, optional
        The n tokens, to detect repetition; by default those of the maps.
    n_draws : int
        Number of random heads with which each head is compared.
    level : float
        Probability of calling a random head anything but untrained-like.
    max_tokens : int
        Longer maps are cut to their first tokens, and rows are scaled to sum to one again.
    progress : callable, optional
        Called with the share of the work that is done.

    Returns
    -------
    HeadsReport
        As returned by `inspect_model`, without effects, and with singular values and their law.

    Notes
    -----
    Random heads have the map's n, d_k and inverse temperature β, the spread of log A within rows.
    Tests and verdicts are those of `inspect_model`, with one more test of the distance of the
    singular values from their law (`attnlaw.law`).

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> Q, K = rng.standard_normal((2, 2, 64, 16))
    >>> K[1, :-1] += 1.5 * Q[1, 1:]         # the second head looks at the token before
    >>> A = np.exp(Q @ K.transpose(0, 2, 1) / 4)
    >>> report = inspect_heads(A / A.sum(axis=-1, keepdims=True))
    >>> [head.verdict for head in report.heads], report.head_dimension
    (['untrained-like', 'positional'], 16)
    """
    maps = attention if isinstance(attention, AttentionMaps) else attention_maps(attention)
    n_draws = count("n_draws", n_draws, at_least=5)
    alpha = scalar("level", level, above=0, below=1)
    most = count("max_tokens", max_tokens, at_least=8)
    n_layers, n_heads, n_all, _ = maps.weights.shape
    n = min(n_all, most)
    words = maps.tokens if tokens is None else tuple(map(str, tokens))
    if words is not None and len(words) != n_all:
        raise invalid_argument("tokens", f"{n_all} tokens", f"{len(words)}")
    ids = None if words is None else np.unique(np.array(words[:n]), return_inverse=True)[1]
    notes = ["The inputs of the layers are unknown: heads are compared with Gaussian ones."]
    if n < n_all:
        notes.append(f"The first {n} of {n_all} tokens were looked at.")
    masks = [not np.triu(A, k=1).any() if causal is None else causal for A in _first(maps, n)]
    d, known = _width(maps, masks, n, head_dimension)
    if known == "assumed":
        notes.append(f"The head dimension could not be told from the maps; {d} is assumed.")
    verdicts, findings = Verdicts(alpha, None), []
    for k, A in enumerate(_first(maps, n)):
        with one_blas_thread():
            places = Places.of(n, causal=masks[k], ids=ids)
            beta = score_spread(A, causal=masks[k]).inverse_temperature
            drawn = gaussian_heads(n, d, beta, n_draws, 0, causal=masks[k])
            seen, null = decompose(A[None], places), decompose(drawn, places)
            spectrum = compare_spectrum(A, d, beta, causal=masks[k])
        nulls = Parts(*(x[:, None] for x in null))
        found = verdicts.of(
            log_statistics(seen), log_statistics(nulls), seen.most, {"spectrum": spectrum.p_value}
        )[0]
        finding = head_finding(divmod(k, n_heads), found, 0, [seen], [nulls], words, masks[k])
        finding = replace(finding, spectrum=spectrum, inverse_temperature=beta)
        findings.append(replace(finding, sentence=head_sentence(finding)))
        if progress is not None:
            progress((k + 1) / len(masks))
    return HeadsReport(
        source=maps.source,
        n_layers=n_layers,
        n_heads=n_heads,
        n_tokens=(n,),
        head_dimension=d,
        head_dimension_from=known,
        null="Gaussian queries and keys",
        n_draws=n_draws,
        level=alpha,
        effect_unit=None,
        layer_ablations=None,
        tokens=None if words is None else words[:n],
        heads=tuple(findings),
        notes=tuple(notes),
        verdict=report_sentence(tuple(findings), alpha),
    )


def gaussian_heads(
    n_tokens: int, head_dimension: int, beta: float, n_draws: int, seed: int, *, causal: bool
) -> Floats:
    """Draw heads with Gaussian queries and keys: (draws, n, n)."""
    model = _model(n_tokens, head_dimension, causal)
    rng = np.random.default_rng([seed, n_tokens, head_dimension, causal])
    heads = np.empty((n_draws, n_tokens, n_tokens))
    for k in range(n_draws):
        Q, K = sample_queries_and_keys(model, rng)
        scores = Q @ K.T / head_dimension**0.5
        heads[k] = attention_matrix(scores, min(beta, _HIGHEST), causal=causal)
    return heads


def compare_spectrum(
    attention: Floats, head_dimension: int, beta: float, *, causal: bool
) -> SpectralFinding:
    """Compare the singular values of a map with the law of random heads.

    The law is taken at the nearest β of a geometric grid, and both are scaled to the same energy
    Σσ²: only the shape is compared. The distances of random heads are simulated at the same β.
    """
    from scipy.stats import t as student

    spectrum = centred_spectrum(attention, causal=causal)
    energy = float(spectrum.sum())
    if not energy > 1e-20:
        zeros = np.zeros_like(spectrum)
        return SpectralFinding(
            squared_singular_values=spectrum, predicted=zeros, law_from="theory",
            structure=0.0, n_outliers=0, p_value=1.0,
        )  # fmt: skip
    place = round(log(min(max(beta, 0.02), _HIGHEST)) / _STEP)
    random = _random_spectra(len(attention), head_dimension, causal, place)
    structure = _difference(np.sqrt(spectrum / energy), random.law)
    z = (log(max(structure, 1e-12)) - random.mean) / random.deviation
    return SpectralFinding(
        squared_singular_values=spectrum,
        predicted=random.law**2 * energy,
        law_from=random.law_from,
        structure=structure,
        n_outliers=int(np.sum(spectrum > random.edge * energy)),
        p_value=float(student.sf(z, _DRAWS - 1)),
    )


class _RandomSpectra(NamedTuple):
    law: Floats  # singular values at the quantiles (k − ½)/n, Σσ² = 1
    law_from: str
    edge: float  # largest squared singular value of any draw, Σσ² = 1
    mean: float  # of the logarithm of structure over draws
    deviation: float  # with room for its own error


@lru_cache(maxsize=256)
def _random_spectra(n: int, d: int, causal: bool, place: int) -> _RandomSpectra:
    beta = exp(place * _STEP)
    drawn = gaussian_heads(n, d, beta, _DRAWS, 1, causal=causal)
    seen = np.sqrt([centred_spectrum(A, causal=causal) for A in drawn])
    seen /= np.sqrt(np.sum(seen**2, axis=1, keepdims=True))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RegimeWarning)
        try:
            # a cavity law takes seconds, drawn heads are there already
            order = "tokens" if d >= 3 else "auto"
            law = theory.law(_model(n, d, causal, beta), order=order)
            values = law.quantile((np.arange(n) + 0.5) / n)
            law_from, predicted = "theory", np.sqrt(np.maximum(values, 0.0))
        except RegimeWarning:
            law_from, predicted = "simulation", seen.mean(axis=0)
    predicted = predicted / np.linalg.norm(predicted)
    others = [predicted] * _DRAWS
    if law_from == "simulation":  # the mean of the others
        others = [(seen.sum(axis=0) - one) / (_DRAWS - 1) for one in seen]
    logs = np.log([_difference(a, b) for a, b in zip(seen, others, strict=True)])
    return _RandomSpectra(
        law=predicted,
        law_from=law_from,
        edge=float(seen[:, -1].max()) ** 2,
        mean=float(logs.mean()),
        deviation=float(logs.std(ddof=1)) * (1 + 1 / _DRAWS) ** 0.5,
    )


def _difference(seen: Floats, law: Floats) -> float:
    """Σ(σ − σ')²/Σ(σ² + σ'²): 0 for the same numbers, 1 for nothing in common."""
    return float(np.sum((seen - law) ** 2) / max(float(seen @ seen + law @ law), 1e-300))


def _model(n: int, d: int, causal: bool, beta: float = 1.0) -> SelfAttention:
    return SelfAttention(n_tokens=n, head_dimension=d, inverse_temperature=beta, causal=causal)


def centred_spectrum(attention: Floats, *, causal: bool) -> Floats:
    """Squared singular values of D^{1/2}(A − uniform), ascending; D = n, or 1 … n if causal.

    Notes
    -----
    Without a mask this is √n A_⊥ of `SelfAttention`. Under a causal mask row i has i entries
    around 1/i; its factor √i gives all rows the same energy, or the first ones would dominate.

    Examples
    --------
    >>> A = np.full((4, 4), 0.25)
    >>> centred_spectrum(A, causal=False)
    array([0., 0., 0., 0.])
    """
    n = len(attention)
    support = _allowed(n, causal=causal)[:, None]
    Y = attention * np.sqrt(support)
    Y -= np.tri(n) / np.sqrt(support) if causal else 1 / np.sqrt(support)
    return np.asarray(np.maximum(np.linalg.eigvalsh(Y @ Y.T), 0.0))


def score_spread(attention: Floats, *, causal: bool) -> Scores:
    """Estimate the inverse temperature by the spread of log A within rows.

    Notes
    -----
    log A_ij = β s_ij − log Z_i with scores of variance 1, so β² is the variance of log A within
    rows, pooled over rows (degrees of freedom: entries minus rows). Entries that are exactly zero
    have underflowed; β is then the slope of the others over the Gaussian quantiles of their ranks,
    infinite when hardly any are left.

    Examples
    --------
    >>> A = np.exp([[1.0, -1.0], [-1.0, 1.0]])
    >>> spread = score_spread(A / A.sum(axis=1, keepdims=True), causal=False)
    >>> round(spread.inverse_temperature**2, 12)      # 4 squares of 1 over 4 − 2
    2.0
    """
    n = len(attention)
    inside = np.tri(n, dtype=bool) if causal else np.ones((n, n), dtype=bool)
    seen = inside & (attention > 0)
    counts = seen.sum(axis=1)
    zero_share = 1 - float(seen.sum() / inside.sum())
    if zero_share:
        return Scores(_censored_spread(attention, inside.sum(axis=1), counts), zero_share)
    L = np.log(attention, out=np.zeros_like(attention), where=seen)
    L -= (L.sum(axis=1) / counts)[:, None]
    L[~seen] = 0.0
    return Scores(float(np.sqrt(np.sum(L**2) / (counts - 1).sum())), 0.0)


def _censored_spread(attention: Floats, supports: Counts, counts: Counts) -> float:
    """Spread of log A by its largest entries: slope over Gaussian quantiles, row by row."""
    from scipy.special import ndtri

    squares, weights = 0.0, 0
    for row, support, k in zip(attention, supports, counts, strict=True):
        if k < 3:
            continue
        y = np.log(np.sort(row)[-k:])
        x = ndtri((np.arange(support - k, support) + 0.625) / (support + 0.25))
        x -= x.mean()
        squares += k * float(x @ y / (x @ x)) ** 2
        weights += int(k)
    return (squares / weights) ** 0.5 if weights else np.inf


def score_rank(attention: Floats, *, causal: bool) -> Rank:
    """Estimate the width of a head: its scores have rank d_k.

    Notes
    -----
    log A = βQKᵀ/√d_k up to a constant in each row, so after centring by rows its rank is d_k, if
    there are more tokens than that; digits that were lost show as small singular values below a
    gap. Where there is no gap, the fourth moment is used: β QKᵀ/√d_k over n rows and m columns has
    m₂/m₁² = 1 + n/m + n/d_k (P2 §3 for n = m). Under a causal mask the block of the later half of
    the rows and the earlier half of the columns is free of it.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> A = np.exp(rng.standard_normal((40, 7)) @ rng.standard_normal((7, 40)))
    >>> score_rank(A / A.sum(axis=1, keepdims=True), causal=False).rank
    7
    """
    n = len(attention)
    A = attention[n // 2 :, : (n + 1) // 2] if causal else attention
    smallest = A[A > 0].min(initial=1.0)
    L = np.log(np.maximum(A, smallest))
    L -= L.mean(axis=1, keepdims=True)
    s = np.linalg.svd(L, compute_uv=False)
    rows, columns = L.shape
    squares, total = s**2, float(np.sum(s**2))
    if not total > 0:
        return Rank(None, np.inf)
    excess = rows * float(np.sum(squares**2)) / total**2 - 1 - rows / (columns - 1)
    moment = rows / excess if excess > 0 else np.inf
    last = int(0.95 * min(rows, columns - 1)) - 2  # centring takes one away
    gaps = np.flatnonzero(s[:last] > _GAP * s[1 : last + 1]) if last > 0 else np.empty(0, int)
    if gaps.size and s[gaps[-1] + 1] < 1e-2 * s[0]:
        return Rank(int(gaps[-1]) + 1, moment)
    return Rank(None, moment)


def _allowed(n: int, *, causal: bool) -> Floats:
    """Count the tokens that each row may attend to: n, or 1, 2, …, n."""
    return np.arange(1.0, n + 1) if causal else np.full(n, float(n))


def _first(maps: AttentionMaps, n: int) -> Any:
    """Iterate over the maps of the first n tokens."""
    for _, _, A in maps:
        part = A[:n, :n]
        sums = part.sum(axis=1, keepdims=True)
        yield np.where(sums > 0, part, 1.0) / np.where(sums > 0, sums, n)


def _width(
    maps: AttentionMaps, masks: Sequence[bool], n: int, given: int | None
) -> tuple[int, str]:
    """Width of the heads of a model: known, or from the rank of their scores or moments."""
    if given is not None:
        return count("head_dimension", given), "given"
    if maps.head_dimension is not None:
        return maps.head_dimension, "known"
    step = -(-len(masks) // _RANKED)
    found = [
        score_rank(A, causal=masks[k])
        for k, A in enumerate(_first(maps, n))
        if k % step == 0 and score_spread(A, causal=masks[k]).zero_share < 0.01
    ]
    ranks = [r.rank for r in found if r.rank is not None]
    if ranks and 2 * len(ranks) >= len(found):
        return int(np.median(ranks)), "estimated by the rank of the scores"
    moments = [r.moment for r in found]
    if not moments:
        return _ASSUMED_DIMENSION, "assumed"
    least = n // 2 - 1 if masks[0] else n - 1  # scores that fill the space have no smaller rank
    guess = np.clip(np.median(moments), min(least, _LARGEST_DIMENSION), _LARGEST_DIMENSION)
    return round(float(guess)), "estimated by the fourth moment of the scores"
