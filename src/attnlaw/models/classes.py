"""Sequences whose tokens come from several classes, with noise of any covariance."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import LARGEST, Floats, Real, frozen, invalid_argument, real, real_array
from attnlaw.models.base import (
    Gains,
    NamedWeights,
    Sampling,
    Sizes,
    check_shares,
    set_field,
)
from attnlaw.models.vocabulary import Kinds, TokenModel, Vocabulary, dealt_classes
from attnlaw.results import ClassSpikes

__all__ = ["PooledClasses"]


@dataclass(frozen=True, kw_only=True, eq=False)
class PooledClasses(Gains, TokenModel[ClassSpikes]):
    """Sequences of tokens from K classes of any shares, pooled by fixed weights.

    A table holds V tokens in R^d; the share π_k of them belongs to class k and lies around its
    mean, e_v = M_k + z_v with z_v ~ N(0, Σ). At every position of a sequence stands class k with
    probability π_k, and two positions l, l' show the same class because one copies the other
    with probability R_ll', else independently: Cov(1{class k at l}, 1{class k' at l'}) =
    R_ll' (π_k [k=k'] − π_k π_k'). The token is any of its class. Studied is the sample
    covariance of the pooled x_i = Σ_l w_l e_{token(i,l)}, centred by the sample mean; what
    `PooledSequences` says of two classes and white noise is the case M = ±μ, Σ = I.

    Parameters
    ----------
    vocab_ratio : float or array
        δ = d/V ≥ 0; 0 is an infinite vocabulary.
    sample_ratio : float or array
        γ = d/N ≥ 0; 0 is infinitely many samples.
    class_means : array of shape (n_classes, n_coordinates)
        M, at least two different rows. The coordinates are orthonormal: with white noise any
        will do, else they are the principal directions of the noise.
    correlation : array of shape (length, length)
        R, a correlation matrix with entries from 0 to 1.
    weights : array of shape (length,), or a name
        w, not all zero; names as in `PooledSequences`.
    class_shares : array of shape (n_classes,), optional
        π, above 0 and scaled to sum to one; equal by default.
    noise_spectrum : array of shape (n_coordinates,), optional
        Eigenvalues of Σ, at least 0, each of them for an equal part of the dimensions (so that
        a list of n describes any multiple of n dimensions); all 1 by default.
    signal_scale : float or array
        Factor of the class means, to study several strengths in one call.
    sampling : "token" or "gaussian"
        Real tokens from a fixed table (exact), or the papers' idealised population covariance
        (docs/theory/pooled-covariance.md, "Derivation").
    vocabulary : Vocabulary, optional
        How often each token occurs and how much it counts. Its two classes play no part: tokens
        are dealt out to the K classes by `token_classes`. Only with ``sampling="token"``.

    Examples
    --------
    >>> import attnlaw as al
    >>> model = al.PooledClasses(
    ...     vocab_ratio=0.5, sample_ratio=0.4,
    ...     class_means=[[2, 0], [0, 1], [-1, -1]], class_shares=[0.2, 0.3, 0.5],
    ...     correlation=al.prefix_correlation(20, prefix=5), weights=al.causal_weights(20),
    ... )
    >>> model.n_classes, model.class_sizes(200).tolist()
    (3, [40, 60, 100])
    """

    signal_field: ClassVar[str] = "signal_scale"

    vocab_ratio: Real  # δ = d/V
    sample_ratio: Real  # γ = d/N
    class_means: Floats  # M, a row for each class
    correlation: Floats  # R
    weights: NamedWeights = NamedWeights()  # w
    class_shares: Floats | None = None  # π
    noise_spectrum: Floats | None = None  # eigenvalues of Σ
    signal_scale: Real = 1.0
    sampling: Sampling = "token"
    vocabulary: Vocabulary | None = None  # p, g

    centred: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._check_pooled()
        M = real_array("class_means", self.class_means, ndim=2)
        if len(M) < 2 or M.shape[1] == 0:
            raise invalid_argument(
                "class_means", "a matrix with a row for each of two or more classes", M
            )
        real("class_means", np.abs(M), at_most=LARGEST)
        set_field(self, "class_means", frozen(M))
        shares = check_shares("class_shares", self.class_shares, len(M), "class")
        set_field(self, "class_shares", shares)
        if self.noise_spectrum is not None:
            spectrum = real_array("noise_spectrum", self.noise_spectrum, ndim=1)
            if len(spectrum) != M.shape[1]:
                words = f"of length {M.shape[1]}, like the coordinates of class_means"
                raise invalid_argument("noise_spectrum", words, spectrum)
            if (spectrum < 0).any() or not spectrum.any():
                raise invalid_argument(
                    "noise_spectrum", "at least 0, and not all 0", spectrum.tolist()
                )
            set_field(self, "noise_spectrum", frozen(spectrum))
        self._check_gains()
        self._check_vocabulary()
        if self.tokens_differ and self.sampling != "token":
            raise invalid_argument("sampling", "'token' for classes with a vocabulary", "gaussian")
        if self.correlation.min() < -1e-12:
            raise invalid_argument(
                "correlation",
                "at least 0: classes are copied or not",
                float(self.correlation.min()),
            )

    @property
    def shares(self) -> NDArray[np.float64]:
        """Class shares π."""
        assert self.class_shares is not None  # equal ones were filled in
        return self.class_shares

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return len(self.class_means)

    @property
    def kinds(self) -> Kinds:
        """Share, weights and α of the one kind of sequence there is."""
        return [(1.0, self.weights, self.signal_gain)]

    @cached_property
    def token_classes(self) -> NDArray[np.intp]:
        """Class of each token of the vocabulary, the most frequent dealt out first."""
        if self.vocabulary is None:
            raise invalid_argument("model", "one with a vocabulary", type(self).__name__)
        return dealt_classes(self.vocabulary.frequencies, self.shares)

    @property
    def token_frequencies(self) -> Floats:
        """Frequencies of the tokens, scaled so that class k has exactly π_k of the text."""
        classes = self.token_classes
        assert self.vocabulary is not None  # they have classes
        p = self.vocabulary.frequencies
        return np.asarray(p * (self.shares / np.bincount(classes, p, self.n_classes))[classes])

    def sizes(self, dimension: int | None = None) -> Sizes:
        """Whole numbers closest to the ratios at this dimension, at least a token a class."""
        if self.vocabulary is not None:
            d, V, N = super().sizes(dimension)
        else:
            d, V, N = self._sizes(dimension, multiple=1)  # type: ignore[arg-type]
        n = self.class_means.shape[1]
        if d < n:
            raise invalid_argument("dimension", f"at least {n}, the coordinates of class_means", d)
        return Sizes(d, max(V, self.n_classes) if V else 0, N)

    def class_sizes(self, n_vocab: int) -> NDArray[np.int64]:
        """Return how many of V tokens belong to each class: π_k V, rounded to sum to V."""
        exact = self.shares * n_vocab
        sizes = np.maximum(np.floor(exact + 1e-9).astype(np.int64), 1)
        while (missing := n_vocab - int(sizes.sum())) != 0:
            surplus = np.where(sizes > 1, sizes - exact, -np.inf)
            sizes[np.argmax(exact - sizes) if missing > 0 else np.argmax(surplus)] += np.sign(
                missing
            )
        return sizes
