"""`AttentionPooling`: pooling of token embeddings as a scikit-learn transformer."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from attnlaw._checks import choice, count, invalid_argument
from attnlaw.data.sequences import Sequences, as_sequences
from attnlaw.estimators.pooling import position_weights
from attnlaw.estimators.pooling_weights import PoolingWeights, learn_pooling_weights
from attnlaw.weights import mean_weights

__all__ = ["AttentionPooling"]


class AttentionPooling(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Pool sequences of token embeddings by fixed weights, or by weights learned from them.

    Parameters
    ----------
    weights : "mean", "causal", "last", "optimal" or array of shape (length,)
        How positions are weighed. "optimal" learns the weights without labels, see
        `learn_pooling_weights`; the others are those of `pool_sequences`.
    length, dimension : int, optional
        Of a sequence; one of them is needed for input of shape (n, length·dimension), which is
        how sequences pass through tools that only know two axes.
    table : array of shape (V, dimension), optional
        Embeddings of the tokens; the input then is token ids of shape (n, length), negative
        where there is no token.
    signed : bool or "auto"
        Whether learned weights may be negative, see `learn_pooling_weights`.
    fallback : "mean" or None
        What "optimal" does when the gain over mean pooling is not supported by the data: use
        the mean, or the learned weights all the same.
    confidence : float
        Level of the interval on which that decision rests.
    random_state : int, RandomState or None
        Source of the random starts, and the halves of "optimal".

    Attributes
    ----------
    weights_ : array of shape (length,)
        Weights of a sequence without padding.
    learned_ : PoolingWeights or None
        For "optimal": weights, correlation, SNR, gain with its interval.
    length_, dimension_ : int
        Shape of a sequence.
    n_features_in_ : int
        length·dimension, or the length when a table is given.

    Notes
    -----
    Padding is given by ``mask`` or ``lengths`` in `fit` and `transform`, by negative token ids,
    or by tokens that are NaN throughout, which need no second argument in a pipeline.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> sequences = rng.standard_normal((300, 6, 10))
    >>> sequences[:, :2, 0] += 2 * rng.choice([-1.0, 1.0], size=(300, 1))   # a shared sign
    >>> pooling = AttentionPooling("optimal", random_state=0).fit(sequences)
    >>> pooling.learned_.gain_is_supported
    True
    >>> np.abs(pooling.weights_).round(1)
    array([0.5, 0.5, 0. , 0. , 0. , 0. ])
    >>> pooling.transform(sequences).shape
    (300, 10)
    """

    def __init__(
        self,
        weights: str | ArrayLike = "mean",
        *,
        length: int | None = None,
        dimension: int | None = None,
        table: ArrayLike | None = None,
        signed: bool | str = "auto",
        fallback: str | None = "mean",
        confidence: float = 0.95,
        random_state: Any = None,
    ) -> None:
        self.weights = weights
        self.length = length
        self.dimension = dimension
        self.table = table
        self.signed = signed
        self.fallback = fallback
        self.confidence = confidence
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, mask: Any = None, lengths: Any = None) -> Any:
        """Check the sequences and learn the weights if they are to be learned.

        Parameters
        ----------
        X : array of shape (n, length, dimension), (n, length·dimension) or, of int, (n, length)
            Sequences; see the class for which is which.
        y : ignored
        mask : array of bool and shape (n, length), optional
            True where there is a token.
        lengths : array of int and shape (n,), optional
            The same for sequences padded at the end.
        """
        del y
        data = self._sequences(X, mask, lengths, reset=True)
        _, self.length_, self.dimension_ = data.shape
        self._n_features_out = self.dimension_
        self.learned_: PoolingWeights | None = None
        if isinstance(self.weights, str) and self.weights == "optimal":
            if self.fallback is not None:
                choice("fallback", self.fallback, ("mean",))
            seed = check_random_state(self.random_state).randint(2**31)
            self.learned_ = learn_pooling_weights(
                data,
                signed=self.signed,
                confidence=self.confidence,
                rng=int(seed),
            )
            kept = self.learned_.gain_is_supported or self.fallback is None
            self.weights_ = self.learned_.weights if kept else mean_weights(self.length_)
        else:
            self.weights_ = position_weights(self.weights, self.length_)
        return self

    def transform(self, X: Any, *, mask: Any = None, lengths: Any = None) -> NDArray[Any]:
        """Pool the sequences.

        Parameters
        ----------
        X, mask, lengths
            As in `fit`.

        Returns
        -------
        array of shape (n, dimension)
        """
        check_is_fitted(self)
        data = self._sequences(X, mask, lengths, reset=False)
        named = isinstance(self.weights, str) and self.weights != "optimal"
        weights = self.weights if named else self.weights_
        return data.pool(position_weights(weights, self.length_, data.mask))

    def _sequences(self, X: Any, mask: Any, lengths: Any, *, reset: bool) -> Sequences:
        """Return X as sequences, checked by scikit-learn's rules and by ours."""
        shown = np.asarray(X) if isinstance(X, list) else X
        if self.table is not None:
            X = validate_data(self, X, reset=reset, dtype=None)
            return as_sequences(X, self.table, mask=mask, lengths=lengths)
        if getattr(shown, "ndim", 2) == 3:
            X = np.asarray(shown)
            for name, size in (("length", X.shape[1]), ("dimension", X.shape[2])):
                wanted = getattr(self, name) if reset else getattr(self, name + "_")
                if wanted is not None and size != wanted:
                    raise invalid_argument(f"X's {name}", str(wanted), size)
            if reset:
                self.n_features_in_ = X.shape[1] * X.shape[2]
        else:
            X = validate_data(
                self,
                X,
                reset=reset,
                dtype=[np.float64, np.float32],
                ensure_all_finite=False,
                ensure_min_samples=1,
            )
            X = self._unflattened(X)
        if X.dtype.kind == "f" and mask is None and lengths is None:
            missing = np.isnan(X[:, :, 0])
            if missing.any():
                mask = ~(missing & np.isnan(X).all(axis=2))
        return as_sequences(X, mask=mask, lengths=lengths)

    def _unflattened(self, X: NDArray[Any]) -> NDArray[Any]:
        n, width = X.shape
        if self.length is None and self.dimension is None:
            raise invalid_argument("length or dimension", "given when X has two axes", None)
        length = None if self.length is None else count("length", self.length)
        dimension = None if self.dimension is None else count("dimension", self.dimension)
        L = length if length is not None else width // (dimension or 1)
        d = dimension if dimension is not None else width // L
        if L * d != width or 0 in (L, d):
            raise invalid_argument("X", f"of shape (n, length·dimension) = (n, {L}·{d})", X)
        return X.reshape(n, L, d)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = self.dimension == 1  # only tokens NaN throughout are padding
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
