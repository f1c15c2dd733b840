"""The head lab: which heads do what random queries and keys would not."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from attnlaw._checks import Floats, count, real
from attnlaw._machine import one_blas_thread
from attnlaw.diagnostics.heads.findings import (
    HeadFinding,
    HeadsReport,
    head_sentence,
    report_sentence,
)
from attnlaw.diagnostics.heads.maps import AttentionMaps, attention_maps
from attnlaw.diagnostics.heads.measures import (
    POSITIONAL_PATTERNS,
    common_row,
    mean_distance,
    positional_shares,
    score_rank,
    score_spread,
)
from attnlaw.diagnostics.heads.nulls import Measured, RandomHeads, Statistics

__all__ = ["inspect_heads"]

COLLAPSED = 0.05  # variation of rows below which all tokens attend alike
SATURATED = 0.1  # distance to one-hot rows below which a head chooses and does not weigh
N_TESTS = len(Statistics._fields)
_ASSUMED_DIMENSION = 64
_POSSIBLE_DIMENSIONS = (32, 64, 128)  # where nothing is known of it
_LARGEST_DIMENSION = 1024
_RANKED = 16  # heads whose scores are looked at for the width


def inspect_heads(
    attention: Any,
    *,
    head_dimension: int | None = None,
    causal: bool | None = None,
    level: float = 0.01,
    max_tokens: int = 1024,
    progress: Callable[[int], None] | None = None,
) -> HeadsReport:
    """Compare each attention head with heads whose queries and keys are random.

    Parameters
    ----------
    attention : AttentionMaps or array of shape (layers, heads, n, n), (heads, n, n) or (n, n)
        From `read_attention`, `model_attention` and the like, or plain weights after the softmax.
    head_dimension : int, optional
        d_k. Without it, what the maps know, or the rank of their logarithms (`score_rank`).
    causal : bool, optional
        Whether later tokens are masked; by default, whether nothing is there.
    level : float
        Chance of calling a random head structured.
    max_tokens : int
        More are left out: rows of the first are scaled to sum to one again.
    progress : callable, optional
        Called with the number of heads done so far.

    Returns
    -------
    HeadsReport
        A `HeadFinding` for each head, with its verdict.

    Notes
    -----
    The inverse temperature β is the spread of log A within rows. The law of the squared singular
    values of √n A_⊥ for random Q and K at that β, n and d_k is `law`, where theory
    reaches; under a causal mask, for d_k < 10 and for β near √(log n) it is the mean of simulated
    heads (of D^{1/2}(A − uniform), D = 1 … n, under a mask). Six statistics measure how far a head
    is from random ones (`Statistics`), and their chance comes from simulated heads, which are
    treated as the head is. The verdict is

    - *collapsed* if all rows are alike: mean total variation to their common row below .05;
    - else *structured* if the smallest of the six p-values is below level/6;
    - else *saturated* if rows are one-hot: mean largest weight above .9;
    - else *random-like*.

    Where the width can be told neither from the maps nor by who gave them, the verdict is
    *structured* only if it would be at widths 32, 64 and 128.

    Tokens left out of a head with random Q and K leave a head with random Q and K.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> Q, K = rng.standard_normal((2, 2, 64, 16))
    >>> K[1, :-1] += 1.5 * Q[1, 1:]         # the second head looks at the token before
    >>> A = np.exp(Q @ K.transpose(0, 2, 1) / 4)
    >>> report = inspect_heads(A / A.sum(axis=-1, keepdims=True))
    >>> [head.verdict for head in report.heads], report.head_dimension
    (['random-like', 'structured'], 16)
    >>> report[0, 1].positional_pattern
    'previous token'
    """
    maps = attention if isinstance(attention, AttentionMaps) else attention_maps(attention)
    alpha = float(real("level", level, above=0, below=1))
    most = count("max_tokens", max_tokens, at_least=8)
    n_layers, n_heads, n_all, _ = maps.weights.shape
    n = min(n_all, most)
    notes = []
    if n < n_all:
        notes.append(f"The first {n} of {n_all} tokens were looked at.")
    masks = [_is_causal(A) if causal is None else causal for _, _, A in _first(maps, n)]
    if head_dimension is not None:
        d, known = count("head_dimension", head_dimension), "given"
    elif maps.head_dimension is not None:
        d, known = maps.head_dimension, "known"
    else:
        d, known = _estimated_dimension(maps, masks, n)
    findings = []
    for (layer, head, A), mask in zip(_first(maps, n), masks, strict=True):
        widths = _POSSIBLE_DIMENSIONS if known == "assumed" else (d,)
        with one_blas_thread():
            by_width = [_inspect(A, layer, head, mask, w, alpha, maps.tokens) for w in widths]
        findings.append(max(by_width, key=lambda finding: finding.p_value))
        if progress is not None:
            progress(len(findings))
    zeros = sum(finding.zero_share > 0.01 for finding in findings)
    if zeros:
        notes.append(
            f"{zeros} heads have weights that are exactly zero inside the mask: scores too low "
            "for the digits that were kept, or a window."
        )
    if known == "assumed":
        notes.append(
            "The head dimension could not be told from the maps: a head is called structured only "
            f"if it would be at {', '.join(map(str, _POSSIBLE_DIMENSIONS))}."
        )
    return HeadsReport(
        source=maps.source,
        n_layers=n_layers,
        n_heads=n_heads,
        n_tokens=n,
        head_dimension=d,
        head_dimension_from=known,
        level=alpha,
        tokens=None if maps.tokens is None else maps.tokens[:n],
        heads=tuple(findings),
        notes=tuple(notes),
        verdict=report_sentence(tuple(findings), alpha),
    )


def _first(maps: AttentionMaps, n: int) -> Any:
    """Go through the maps of the first n tokens."""
    for layer, head, A in maps:
        part = A[:n, :n]
        sums = part.sum(axis=1, keepdims=True)
        yield layer, head, np.where(sums > 0, part, 1.0) / np.where(sums > 0, sums, n)


def _is_causal(A: Floats) -> bool:
    return not np.triu(A, k=1).any()


def _estimated_dimension(maps: AttentionMaps, masks: list[bool], n: int) -> tuple[int, str]:
    """Width that the heads of a model share, by the rank of their scores or their moments."""
    step = -(-len(masks) // _RANKED)
    found = [
        score_rank(A, causal=mask)
        for k, ((_, _, A), mask) in enumerate(zip(_first(maps, n), masks, strict=True))
        if k % step == 0 and score_spread(A, causal=mask).zero_share < 0.01
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


def _inspect(
    A: Floats,
    layer: int,
    head: int,
    causal: bool,
    d: int,
    level: float,
    tokens: tuple[str, ...] | None,
) -> HeadFinding:
    n = len(A)
    scores = score_spread(A, causal=causal)
    measured = Measured.of(A, causal=causal)
    beta, spectrum = measured.inverse_temperature, measured.spectrum
    shares, ratios = positional_shares(A, causal=causal)
    pattern = int(ratios.argmax())
    row = common_row(A, causal=causal)
    variation = mean_distance(A, row, causal=causal)
    peak = float(A.max(axis=1).mean())
    heads = RandomHeads(n_tokens=n, head_dimension=d, causal=causal)
    if beta < 1e-6:  # exactly uniform: nothing to compare
        seen = limits = Statistics(*np.zeros(N_TESTS))
        p_values = Statistics(*np.ones(N_TESTS))
        law, edge = np.zeros(n), 0.0
    else:
        seen = heads.compare(measured)
        p_values, limits = heads.p_values(seen, beta), heads.limits(level / N_TESTS, beta)
        law = heads.predicted(beta) ** 2
        edge = float(law[-1]) * heads.limits(0.01, beta).top
    p = min(1.0, N_TESTS * min(p_values))
    if variation < COLLAPSED:
        verdict = "collapsed"
    elif p < level:
        verdict = "structured"
    else:
        verdict = "saturated" if peak > 1 - SATURATED else "random-like"
    columns = A.sum(axis=0) / n
    squared_norm = float(np.sum(A**2))
    finding = HeadFinding(
        layer=layer,
        head=head,
        verdict=verdict,
        structure=seen.structure,
        p_value=p,
        inverse_temperature=scores.inverse_temperature,
        causal=causal,
        null="theory" if heads.follows_theory(beta) else "simulation",
        distance=seen.distance,
        n_outliers=int(np.sum(spectrum > edge)) if edge else 0,
        top=float(spectrum[-1]),
        bulk_edge=float(law[-1]),
        outlier_limit=edge,
        stable_rank=squared_norm / float(np.linalg.eigvalsh(A @ A.T)[-1]),
        distance_to_uniform=mean_distance(A, np.full(n, 1 / n), causal=causal),
        distance_to_one_hot=1 - peak,
        row_variation=variation,
        positional_pattern=POSITIONAL_PATTERNS[pattern],
        positional_share=float(shares[pattern]),
        most_attended=int(columns.argmax()),
        most_attended_share=float(columns.max()),
        zero_share=scores.zero_share,
        statistics=seen,
        limits=limits,
        p_values=p_values,
        sentence="",
        squared_singular_values=spectrum,
        predicted=law,
    )
    return replace(finding, sentence=head_sentence(finding, tokens))
