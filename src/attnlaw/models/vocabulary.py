"""The tokens of a vocabulary: how often each occurs, and how much it counts when pooled."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._checks import (
    Floats,
    choice,
    count,
    frozen,
    invalid_argument,
    real,
    real_array,
    refuse_masked,
    scalar,
)
from attnlaw._machine import require_memory
from attnlaw.models.base import Answer, PooledModel, Sizes, set_field
from attnlaw.results import Record

__all__ = [
    "Kinds",
    "TokenModel",
    "Vocabulary",
    "balanced_classes",
    "effective_vocabulary",
    "tokens_alike",
]

Kinds = Sequence[tuple[float, Floats, float]]
"""Share, pooling weights and signal gain α of each kind of sequence."""

IMPORTANCES = ("uniform", "sif", "idf", "inverse")

UNFILLED = 0.1
"""Largest relative difference between the text of a class and its share."""

IMBALANCE = 0.01
"""Largest difference from one half that is tolerated, and removed, in the mass of a class."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Vocabulary(Record):
    """Frequencies and importance of V tokens.

    Token v stands at a position with probability p_v, whatever the position, and enters the
    pooled x = Σ_l w_l g_v e_v with the factor g_v, whatever the position: Zipf's law is a choice
    of p; smooth inverse frequency, inverse document frequency and the scores of a query are
    choices of g. Each of the two signs of a `PooledSequences` has half of the text.

    Parameters
    ----------
    frequencies : array of shape (V,)
        p_v > 0; scaled to sum to one, half of it in each class (which moves them by less than
        the frequency of the rarest token, unless there are only a few).
    importance : array of shape (V,), optional
        g_v ≥ 0, not all zero; 1 by default. Its scale changes eigenvalues, never overlaps.
    classes : array of shape (V,), optional
        c_v = ±1. By default tokens are dealt out in the order of their frequency, each to the
        class that has less of the text.

    Notes
    -----
    The vocabulary fixes V, so a model with a vocabulary and the ratio δ = d/V has the dimension
    d = δV. Theory uses the relative frequencies V p_v and δ only, and keeps every frequent token
    by itself: a token with a tenth of the text has an eigenvalue of its own, and the prediction
    knows (docs/theory/vocabulary.md, "Frequent tokens").

    Examples
    --------
    >>> import attnlaw as al
    >>> words = al.Vocabulary.zipf(50_000)
    >>> round(words.effective_size), round(words.with_importance("sif", a=1e-3).effective_size)
    (301, 4049)
    """

    frequencies: Floats  # p
    importance: Floats | None = None  # g
    classes: NDArray[np.int8] | None = None  # c

    def __post_init__(self) -> None:
        p = real_array("frequencies", self.frequencies, ndim=1)
        if len(p) < 2 or p.min() <= 0:
            raise invalid_argument("frequencies", "two or more numbers above 0", self.frequencies)
        p = p / p.sum()
        if p.max() > 0.5 * (1 + IMBALANCE):
            raise invalid_argument(
                "frequencies", "at most half of the text for one token", float(p.max())
            )
        refuse_masked("classes", self.classes)
        c = balanced_classes(p) if self.classes is None else np.asarray(self.classes)
        if c.shape != p.shape or not np.isin(c, (-1, 1)).all():
            raise invalid_argument("classes", f"{len(p)} numbers that are 1 or -1", c)
        plus = float(p[c > 0].sum())
        if self.classes is not None and abs(plus - 0.5) > IMBALANCE:
            raise invalid_argument("classes", "classes that have half of the text each", plus)
        g = np.ones(len(p)) if self.importance is None else self.importance
        g = real_array("importance", g, ndim=1)
        if len(g) != len(p):
            raise invalid_argument("importance", f"of length {len(p)}, like frequencies", g)
        if g.min() < 0 or not g.any():
            raise invalid_argument("importance", "at least 0, and not all 0", float(g.min()))
        set_field(self, "frequencies", frozen(p / np.where(c > 0, 2 * plus, 2 - 2 * plus)))
        set_field(self, "importance", frozen(g))
        signs = c.astype(np.int8)
        signs.setflags(write=False)
        set_field(self, "classes", signs)

    @classmethod
    def uniform(cls, n_tokens: int) -> "Vocabulary":
        """Return V tokens that are equally frequent."""
        return cls(frequencies=np.ones(_checked_size(n_tokens)))

    @classmethod
    def zipf(cls, n_tokens: int, exponent: float = 1.0, offset: float = 2.7) -> "Vocabulary":
        """Return V tokens under the Zipf–Mandelbrot law p_v ∝ (v + offset)^(−exponent), v ≥ 1.

        Parameters
        ----------
        n_tokens : int
            V.
        exponent : float
            About 1 in natural text; 0 is the uniform vocabulary.
        offset : float
            Above −1. Mandelbrot's correction for the most frequent words; 0 is Zipf's own law.
        """
        V = _checked_size(n_tokens)
        power = scalar("exponent", exponent, at_least=0)
        shift = scalar("offset", offset, above=-1)
        ranks = np.arange(1, V + 1, dtype=np.float64)
        return cls(frequencies=np.asarray((ranks + shift) ** -power))

    @classmethod
    def from_tokens(cls, tokens: Any) -> "Vocabulary":
        """Return the vocabulary of a text: the token ids that occur in it, in rising order.

        Parameters
        ----------
        tokens : array of int, path, several paths, Corpus, or CorpusStatistics
            Token ids of any shape, or sequences of unequal length; ids below 0 are padding.
            Files, memory maps and Dask arrays are counted chunk by chunk (see
            `attnlaw.data.corpora`) and need not fit in memory.
            What a pass has counted already is taken as it is, also from its statistics.npz.

        Examples
        --------
        >>> Vocabulary.from_tokens([[5, 5, 9], [9, 7, 7], [8, 8, -1]]).frequencies
        array([0.25, 0.25, 0.25, 0.25])
        """
        from attnlaw.data.corpora import count_tokens, is_corpus
        from attnlaw.data.corpus_statistics import as_statistics, is_statistics

        if is_statistics(tokens) or is_corpus(tokens):
            counted = is_statistics(tokens)
            counts = (
                as_statistics("tokens", tokens).token_counts if counted else count_tokens(tokens)
            )
            return cls(frequencies=counts[counts > 0].astype(np.float64))
        refuse_masked("tokens", tokens)
        try:
            ids = np.asarray(tokens)
        except ValueError:  # sequences of unequal length
            ids = np.concatenate([np.ravel(row) for row in tokens if np.size(row)])
        if not ids.size:
            raise invalid_argument("tokens", "at least two token ids", tokens)
        if ids.dtype.kind not in "iu":
            raise invalid_argument("tokens", "made of whole numbers", tokens)
        _, counts = np.unique(ids[ids >= 0], return_counts=True)
        if len(counts) < 2:
            raise invalid_argument("tokens", "of two or more kinds", len(counts))
        return cls(frequencies=counts.astype(np.float64))

    def with_importance(
        self, importance: str | ArrayLike, *, a: float | None = None
    ) -> "Vocabulary":
        """Return the same tokens with other weights.

        Parameters
        ----------
        importance : "uniform", "sif", "idf", "inverse" or array of shape (V,)
            1; smooth inverse frequency a/(a + p); log 1/p; 1/p; or any g ≥ 0.
        a : float, optional
            Parameter of "sif", above 0; `optimal_importance` finds the best.

        Examples
        --------
        >>> words = Vocabulary(frequencies=[2, 2, 1, 1, 1, 1]).with_importance("sif", a=0.125)
        >>> words.importance.round(3)
        array([0.333, 0.333, 0.5  , 0.5  , 0.5  , 0.5  ])
        """
        if not isinstance(importance, str):
            return replace(self, importance=real_array("importance", importance, ndim=1))
        name, p = choice("importance", importance, IMPORTANCES), self.frequencies
        if (a is None) == (name == "sif"):
            raise invalid_argument("a", "given for 'sif' and for nothing else", a)
        if a is not None:
            a = scalar("a", a, above=0)
            return replace(self, importance=a / (a + p))
        values = {"uniform": np.ones(len(p)), "idf": -np.log(p), "inverse": p.min() / p}
        return replace(self, importance=values[name])

    @property
    def n_tokens(self) -> int:
        """Number of tokens V."""
        return len(self.frequencies)

    @property
    def weights(self) -> Floats:
        """Importance g of the tokens."""
        assert self.importance is not None  # ones were filled in
        return self.importance

    @property
    def signs(self) -> NDArray[np.int8]:
        """Classes c of the tokens."""
        assert self.classes is not None  # balanced ones were filled in
        return self.classes

    @cached_property
    def effective_size(self) -> float:
        """Effective vocabulary V_eff = (Σ p g)²/Σ p²g²: see `effective_vocabulary`."""
        return effective_vocabulary(self.frequencies, self.weights)

    @cached_property
    def is_uniform(self) -> bool:
        """Whether all tokens are equally frequent and count once: only their number matters."""
        p, g = self.frequencies, self.weights
        return bool(np.ptp(p) <= 1e-12 * p[0] and np.abs(g - 1).max() <= 1e-12)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return (
            np.array_equal(self.frequencies, other.frequencies)
            and np.array_equal(self.weights, other.weights)
            and np.array_equal(self.signs, other.signs)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"Vocabulary({self.n_tokens} tokens, effective size {self.effective_size:.4g}, "
            f"most frequent {self.frequencies.max():.2%})"
        )


def _checked_size(n_tokens: int) -> int:
    """Return a number of tokens whose frequencies, weights and classes fit in memory."""
    V = count("n_tokens", n_tokens, at_least=2)
    require_memory(80 * V, "n_tokens", n_tokens, "frequencies")
    return V


def effective_vocabulary(frequencies: ArrayLike, importance: ArrayLike = 1.0) -> float:
    """Return the number of equally frequent tokens that limits pooling as these do.

    Parameters
    ----------
    frequencies : array of shape (V,)
        p_v ≥ 0; scaled to sum to one.
    importance : float or array of shape (V,)
        g_v ≥ 0.

    Returns
    -------
    float
        V_eff = (Σ p g)²/Σ p²g². For mean pooling 1/Σ p², the inverse Simpson index. The squared
        overlap that no number of samples exceeds is ‖μ‖²/(‖μ‖² + d/V_eff), wherever d/V_eff
        is small beside ‖μ‖².

    Notes
    -----
    Derived in docs/theory/vocabulary.md, "Effective vocabulary". It is at most V, and is V when
    g ∝ 1/p.

    Examples
    --------
    >>> effective_vocabulary([1, 1, 1, 1]), effective_vocabulary([9, 1], [1, 9])
    (4.0, 2.0)
    """
    p = real_array("frequencies", frequencies, ndim=1)
    g = np.asarray(real("importance", importance, at_least=0))
    if not p.size or p.min() < 0 or not p.any():
        raise invalid_argument("frequencies", "at least 0, and not all 0", p)
    if g.ndim and g.shape != p.shape:
        raise invalid_argument("importance", f"a number or of length {len(p)}", g)
    pg = p / p.max() * (g / max(float(g.max()), np.finfo(float).tiny))
    if not pg.any():
        raise invalid_argument("importance", "above 0 for a token that occurs", g)
    pg /= pg.max()
    return float(pg.sum() ** 2 / np.sum(pg**2))


def balanced_classes(frequencies: Floats) -> NDArray[np.int8]:
    """Deal tokens out to two classes, most frequent first, each to the class with less text.

    Examples
    --------
    >>> balanced_classes(np.array([0.5, 0.3, 0.1, 0.1]))
    array([ 1, -1, -1, -1], dtype=int8)
    """
    order = np.argsort(-frequencies, kind="stable")
    classes = np.empty(len(order), dtype=np.int8)
    lead = 0.0  # mass of class +1 less that of class −1
    for token, mass in zip(order.tolist(), frequencies[order].tolist(), strict=True):
        sign = 1 if lead <= 1e-15 else -1
        classes[token] = sign
        lead += sign * mass
    return classes


def dealt_classes(frequencies: Floats, shares: Floats) -> NDArray[np.intp]:
    """Deal tokens out to K classes, most frequent first, each to the class that lacks most text.

    Examples
    --------
    >>> dealt_classes(np.array([0.5, 0.3, 0.1, 0.1]), np.array([0.2, 0.8]))
    array([1, 1, 0, 0])
    """
    order = np.argsort(-frequencies, kind="stable")
    classes = np.empty(len(order), dtype=np.intp)
    missing = shares.tolist()
    for token, mass in zip(order.tolist(), frequencies[order].tolist(), strict=True):
        k = max(range(len(missing)), key=missing.__getitem__)
        classes[token] = k
        missing[k] -= mass
    off = np.abs(missing) / shares
    if off.max() > UNFILLED:
        text = f"such that {len(order)} tokens of these frequencies can fill them within 10 %"
        raise invalid_argument("class_shares", text, shares.tolist())
    return classes


class TokenModel(PooledModel[Answer]):
    """A pooled model whose tokens may differ in frequency and importance."""

    vocabulary: Vocabulary | None

    @property
    def kinds(self) -> Kinds:
        """Kinds of sequences, which differ in how they are pooled."""
        raise NotImplementedError

    @property
    def noise_gain(self) -> float:
        """Weight κ of the noise in the pooled covariance."""
        raise NotImplementedError

    @property
    def snr(self) -> float:
        """Effective signal-to-noise ratio α/κ of the pooling."""
        raise NotImplementedError

    @property
    def tokens_differ(self) -> bool:
        """Whether there is a vocabulary in which some tokens are more frequent or important."""
        return self.vocabulary is not None and not self.vocabulary.is_uniform

    def sizes(self, dimension: int | None = None) -> Sizes:
        """Whole numbers closest to the ratios at this dimension (an even vocabulary).

        A model with a `Vocabulary` has the tokens of that, and only one dimension: d = δV, which
        need not be given.
        """
        words = self.vocabulary
        if words is None:
            return super().sizes(dimension)  # type: ignore[arg-type]  # None is refused there
        delta, _ = self.single_ratios("sizes are")
        d = max(2, round(delta * words.n_tokens))
        if dimension not in (None, d):
            text = f"{d}, vocab_ratio times the {words.n_tokens} tokens of the vocabulary"
            raise invalid_argument("dimension", text, dimension)
        return Sizes(d, words.n_tokens, self._sizes(d, multiple=1).n_samples)

    def _check_vocabulary(self) -> None:
        if not isinstance(self.vocabulary, Vocabulary | None):
            raise invalid_argument("vocabulary", "a Vocabulary or None", self.vocabulary)


def tokens_alike(model: object, what: str) -> None:
    """Raise where a question has no answer yet for tokens that differ."""
    if getattr(model, "tokens_differ", False):
        name = type(model).__name__
        raise TypeError(
            f"{what} must be asked of a model without a vocabulary, got a {name} with one."
        )
