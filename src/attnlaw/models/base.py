"""Gains, checks and sizes that models of pooled sequences share."""

from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._checks import count, frozen, invalid_argument, real, real_array

__all__ = [
    "LARGEST",
    "Gains",
    "Sizes",
    "check_numbers",
    "check_weights",
    "same_fields",
    "set_field",
    "whole_sizes",
]

LARGEST = 1e100  # ratio or signal norm: squares of it, and products of those, stay finite


class Sizes(NamedTuple):
    """A finite instance of a model: how many of everything."""

    dimension: int  # d
    n_vocab: int  # V, even when there are two classes; 0 stands for infinitely many
    n_samples: int  # N


class Gains:
    """What pooling by one weight vector does to signal and noise."""

    correlation: NDArray[np.float64]
    weights: NDArray[np.float64]

    @property
    def signal_gain(self) -> float:
        """Weight α = wᵀRw of the signal in the pooled covariance."""
        return max(float(self.weights @ self.correlation @ self.weights), 0.0)

    @property
    def noise_gain(self) -> float:
        """Weight κ = wᵀw of the noise in the pooled covariance."""
        return float(self.weights @ self.weights)

    @property
    def snr(self) -> float:
        """Effective signal-to-noise ratio α/κ of the pooling."""
        return self.signal_gain / self.noise_gain

    @property
    def effective_length(self) -> float:
        """Number L_eff = κ²/Σw⁴ of positions that the weights really use."""
        return self.noise_gain**2 / float(np.sum(self.weights**4))


def set_field(model: object, name: str, value: object) -> None:
    """Set a field of a frozen dataclass while it validates itself."""
    object.__setattr__(model, name, value)


def check_numbers(model: object, names: tuple[str, ...], called: str) -> None:
    """Freeze fields that are numbers of at least 0 or arrays of them, and that broadcast."""
    for name in names:
        number = real(name, getattr(model, name), at_least=0, at_most=LARGEST)
        set_field(model, name, frozen(number) if isinstance(number, np.ndarray) else number)
    shapes = [np.shape(getattr(model, name)) for name in names]
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        raise invalid_argument(called, "broadcastable", shapes) from None


def check_weights(weights: ArrayLike, length: int) -> NDArray[np.float64]:
    """Return pooling weights of one sequence, checked: of this length and not all zero."""
    w = real_array("weights", weights, ndim=1)
    if len(w) != length:
        raise invalid_argument("weights", f"of length {length}, like the correlation", w)
    if not w.any():
        raise invalid_argument("weights", "different from zero", w.tolist())
    return w


def whole_sizes(model: Any, dimension: int, *, multiple: int = 1) -> Sizes:
    """Return whole numbers closest to the ratios, the vocabulary a multiple of `multiple`."""
    d = count("dimension", dimension, at_least=2)
    if np.ndim(model.vocab_ratio) or np.ndim(model.sample_ratio):
        raise invalid_argument(
            "vocab_ratio and sample_ratio",
            "single numbers when sizes are asked for",
            f"shapes {np.shape(model.vocab_ratio)} and {np.shape(model.sample_ratio)}",
        )
    if model.sample_ratio == 0:
        raise invalid_argument("sample_ratio", "above 0 when sizes are asked for", 0.0)
    delta, gamma = float(model.vocab_ratio), float(model.sample_ratio)
    n_vocab = 0 if delta == 0 else multiple * max(1, round(d / delta / multiple))
    return Sizes(d, n_vocab, max(2, round(d / gamma)))


def same_fields(first: Any, second: Any) -> bool:
    """Return whether two models of one kind have the same fields."""
    return all(
        np.array_equal(getattr(first, f.name), getattr(second, f.name)) for f in fields(first)
    )
