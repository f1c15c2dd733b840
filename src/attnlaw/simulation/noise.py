r"""Everything of a draw but its table, seen from the vocabulary.

Pooled sequences are X = M (Z + ‖μ‖ c uᵀ). Once the tokens M are drawn, and as long as the
standard Gaussian table Z is not, all covariances of interest have the form

    S(μ) = ZᵀKZ + ‖μ‖ (u bᵀ + b uᵀ) + ‖μ‖² a u uᵀ ,     b = Zᵀk        (theory.md §9)

with K, k and a known on the vocabulary's side. The classes below draw them, exactly at every
size. Where the papers' idealisation makes K itself Gaussian, or where the vocabulary is
infinite, not even K is written out.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from attnlaw.models import PooledSequences
from attnlaw.simulation.revealed import FullSpace, RevealedMatrix, Space, UnseenSpace
from attnlaw.simulation.sequences import sample_tokens, token_classes
from attnlaw.simulation.signs import sample_signs
from attnlaw.simulation.tokens import TokenCovariance

__all__ = ["FreshNoise", "GaussianNoise", "Noise", "Signal", "TokenNoise", "draw_noise"]

Vectors = NDArray[np.floating]

BLOCK = 2**18  # sequences whose gains are drawn at a time


class Signal(NamedTuple):
    """How the signal enters a covariance."""

    coupling: Vectors  # k, shape (size of the vocabulary's side, 1)
    gain: float  # a


class Noise(Protocol):
    """One draw of everything but the table."""

    rows: Space  # the vocabulary's side
    signals: dict[str, Signal]  # by covariance: "sample", "bulk", "population"

    def multiply(self, blocks: Mapping[str, Vectors]) -> dict[str, Vectors]:
        """Return K times the columns, for each covariance its own."""


class TokenNoise:
    """Real tokens, with M the weights (N×V) and c = ±1 the classes of the tokens.

    Notes
    -----
    With Π the projector that takes the mean of each class away (theory.md §2.1):

        sample       K = Mᵀ(I − 11ᵀ/N)M/N                        k = Kc , a = cᵀKc
        bulk         Π K Π                                       k = 0
        population   κ Π/V + α ccᵀ/V² + (Σw)² 11ᵀ/V²             k = α c/V , a = α

    The terms with 1 are for centring: the sample's is there when centred, the population's
    when not.
    """

    def __init__(
        self,
        model: PooledSequences,
        dimension: int,
        rng: np.random.Generator,
        dtype: DTypeLike = np.float32,
    ) -> None:
        _, V, N = model.sizes(dimension)
        tokens = sample_tokens(sample_signs(model.correlation, N, rng), V, rng)
        self.rows = FullSpace(V, dtype)
        self._covariance = TokenCovariance(
            tokens, V, model.weights[None], centred=model.centred, dtype=dtype
        )
        c = token_classes(V)[:, None].astype(dtype)
        alpha, mass = model.signal_gain, 0.0 if model.centred else float(model.weights.sum())
        self.directions = np.concatenate([c, np.ones_like(c)], axis=1)  # [c, 1]
        self._within = model.noise_gain / V
        self._between = np.array([[alpha], [mass**2]]) / V**2
        coupling = self._covariance.multiply(c, (0,))
        self.signals = {
            "sample": Signal(coupling, float(np.vdot(c, coupling))),
            "bulk": Signal(np.zeros_like(c), 0.0),
            "population": Signal((alpha / V * c).astype(dtype), alpha),
        }

    def multiply(self, blocks: Mapping[str, Vectors]) -> dict[str, Vectors]:
        """Return K times the columns, for each covariance its own."""
        tokens = {name: U for name, U in blocks.items() if name != "population"}
        if "bulk" in tokens:
            tokens["bulk"] = self._stripped(tokens["bulk"])
        products = self._multiply_together(tokens) if tokens else {}
        if "bulk" in products:
            products["bulk"] = self._stripped(products["bulk"])
        if "population" in blocks:
            U = blocks["population"]
            between = self.directions @ (self._between * (self.directions.T @ U))
            products["population"] = self._within * self._stripped(U) + between.astype(U.dtype)
        return {name: products[name] for name in blocks}

    def _multiply_together(self, blocks: Mapping[str, Vectors]) -> dict[str, Vectors]:
        U = np.concatenate(list(blocks.values()), axis=1)
        products = self._covariance.multiply(U, (0,) * U.shape[1])
        ends = np.cumsum([block.shape[1] for block in blocks.values()])[:-1]
        return dict(zip(blocks, np.split(products, ends, axis=1), strict=True))

    def _stripped(self, vectors: Vectors) -> Vectors:
        """Return Π times the columns."""
        means = (self.directions.T @ vectors / len(vectors)).astype(vectors.dtype)
        return np.asarray(vectors - self.directions @ means)


class GaussianNoise:
    """The papers' idealisation: K = (κ/V) ΓᵀΓ/N with a Gaussian Γ of N rows, revealed as asked.

    Notes
    -----
    k = √(κ/V) Γᵀt/N and a = tᵀt/N with the gains t = w·s. Centring takes the direction of 1
    from the N rows, which leaves N − 1 of them. The population has K = κ I/V, k = 0, a = α. The
    sample has no spike but the signal, so there is no separate bulk.
    """

    def __init__(self, model: PooledSequences, dimension: int, rng: np.random.Generator) -> None:
        _, V, N = model.sizes(dimension)
        square = _sum_of_squared_gains(model, N, rng)
        self.rows = UnseenSpace(V)
        self._gamma = RevealedMatrix(self.rows, N - model.centred, rng)  # Γᵀ, from t/‖t‖ on
        self._within, self._scale = model.noise_gain / V, model.noise_gain / (V * N)
        coupling = self._gamma.newest * np.sqrt(self._scale * square / N)
        self.signals = {
            "sample": Signal(coupling, square / N),
            "population": Signal(np.zeros_like(coupling), model.signal_gain),
        }

    def multiply(self, blocks: Mapping[str, Vectors]) -> dict[str, Vectors]:
        """Return K times the columns, for each covariance its own."""
        products = {name: self._within * U for name, U in blocks.items()}
        if "sample" in blocks:
            pooled = self._gamma.transpose_multiply(blocks["sample"])
            products["sample"] = self._scale * self._gamma.multiply(pooled)
        return products


class FreshNoise:
    """An infinite vocabulary: every pooled vector has noise of its own, N × d of it.

    Notes
    -----
    The N sequences take the vocabulary's place: K = κ I/N, k = √κ t/N, a = tᵀt/N; one of the N
    dimensions goes with centring. The population is κ I + α μμᵀ, without a table.
    """

    def __init__(self, model: PooledSequences, dimension: int, rng: np.random.Generator) -> None:
        N = model.sizes(dimension).n_samples
        square = _sum_of_squared_gains(model, N, rng)
        rows = UnseenSpace(N - model.centred)
        self.rows: Space = rows
        self._scale = model.noise_gain / N
        coupling = rows.direction() * np.sqrt(self._scale * square / N)
        self.signals = {"sample": Signal(coupling, square / N)}

    def multiply(self, blocks: Mapping[str, Vectors]) -> dict[str, Vectors]:
        """Return K times the columns, for each covariance its own."""
        return {name: self._scale * U for name, U in blocks.items()}


def draw_noise(
    model: PooledSequences,
    dimension: int,
    rng: np.random.Generator,
    dtype: DTypeLike = np.float32,
) -> TokenNoise | GaussianNoise | FreshNoise:
    """Draw everything but the table, in the way that the model's sampling asks for."""
    if model.sizes(dimension).n_vocab == 0:
        return FreshNoise(model, dimension, rng)
    if model.sampling == "gaussian":
        return GaussianNoise(model, dimension, rng)
    return TokenNoise(model, dimension, rng, dtype)


def _sum_of_squared_gains(model: PooledSequences, n: int, rng: np.random.Generator) -> float:
    """Draw the gains t = w·s of n sequences and return Σ t², around their mean if centred."""
    total = square = 0.0
    for start in range(0, n, BLOCK):
        gains = sample_signs(model.correlation, min(BLOCK, n - start), rng) @ model.weights
        total, square = total + float(gains.sum()), square + float(gains @ gains)
    return float(square - total**2 / n if model.centred else square)
