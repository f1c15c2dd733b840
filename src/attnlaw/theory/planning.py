"""The inverse questions: how many samples, how large a vocabulary, how strong a signal.

`plan_of_sequences` inverts closed forms; `search_plan` inverts `predict` of any model by search.
"""

import functools
import itertools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._checks import (
    Floats,
    Real,
    RegimeWarning,
    invalid_argument,
    real,
    scalar_or_array,
)
from attnlaw.laws.outliers import (
    TINY,
    white_edge_parameter,
    white_overlap,
    white_population_overlap,
)
from attnlaw.models import PooledModel, PooledSequences
from attnlaw.models.base import answers
from attnlaw.results import Plan, Spike
from attnlaw.theory.pooled import ceiling, spike_parameter
from attnlaw.theory.token_spikes import sign_change
from attnlaw.theory.verbs import plan, predict
from attnlaw.theory.vocabulary import plan_vocabulary

__all__ = ["search_plan", "wanted_overlap"]

BoolArray = NDArray[np.bool_]

GRID = 10.0 ** (np.arange(-96, 97) / 12)
"""Ratios and signals between which a crossing is looked for: twelve in a decade."""


@answers(plan)
def plan_of_sequences(model: PooledSequences, squared_overlap: ArrayLike = 0.8) -> Plan:
    """Find the fewest samples, the smallest vocabulary and the weakest signal that suffice.

    Parameters
    ----------
    model : PooledSequences
        What is held fixed; each need is found with everything else as given here.
    squared_overlap : float or array
        Wanted ζ, from 1e-9 to below 1. Broadcasts with the model.

    Returns
    -------
    Plan
        Where the ceiling or the population limit makes a need impossible, its ratio is 0.

    Notes
    -----
    `predict` inverted: docs/theory/thresholds.md, "The other way round".

    With q = ζ (for tokens ζ (‖μ‖²+δ)/‖μ‖²) and t as in `predict`:

    - samples: ζ is a ratio of functions linear in γ, so
      γ = t((1−q)t² − δ)/(qt² + (1+δ)t + 2δ), possible when q < 1 − δ/t²;
    - signal: (1−q)t³ − qγt² − (δ+γ+δγ)t − 2δγ = 0 has one positive root for Gaussian sampling; for
      tokens ζ grows with ‖μ‖ and is inverted by bisection to the last bit;
    - vocabulary: ζ = q is a polynomial in δ of degree at most four. With tokens ζ need not fall
      as δ grows (the sampling noise of the class means adds to the signal), so all its roots are
      found and the largest δ up to which ζ ≥ q holds is taken.

    With a `Vocabulary` ζ is inverted numerically; its relative frequencies V p stay as they are
    while δ varies, and V_eff ≤ V is its `effective_size`.

    Examples
    --------
    Planned for, the overlap is what was wanted:

    >>> import attnlaw as al
    >>> from dataclasses import replace
    >>> model = al.PooledSequences(
    ...     vocab_ratio=0.05, sample_ratio=2.0, signal_norm=1.0,
    ...     correlation=al.prefix_correlation(20, prefix=5), weights=al.causal_weights(20),
    ... )
    >>> needs = al.plan(model, squared_overlap=0.8)
    >>> needs.n_samples(dimension=768)
    1428.0
    >>> round(al.predict(replace(model, sample_ratio=needs.sample_ratio)).squared_overlap, 12)
    0.8
    """
    wanted, shape = wanted_overlap(model, squared_overlap)
    delta, gamma, norm, zeta = np.broadcast_arrays(
        model.vocab_ratio, model.sample_ratio, model.signal_norm, wanted
    )
    if model.tokens_differ:
        return plan_vocabulary(model, wanted)
    token, snr = model.sampling == "token", model.snr
    zero = np.zeros(shape)
    top = ceiling(norm, delta) if token else np.ones(shape)
    limit = top * white_population_overlap(spike_parameter(norm, delta, snr, token=token), delta)
    infinite = white_overlap(
        spike_parameter(norm, zero, snr, token=token), np.sqrt(gamma), zero, gamma
    )
    return Plan(
        squared_overlap=scalar_or_array(zeta),
        sample_ratio=scalar_or_array(_sample_ratio(zeta, norm, delta, snr, token=token)),
        vocab_ratio=scalar_or_array(_vocab_ratio(zeta, norm, gamma, snr, token=token)),
        signal=scalar_or_array(_signal_norm(zeta, delta, gamma, snr, token=token)),
        ceiling=scalar_or_array(top),
        sample_limit=scalar_or_array(limit),
        vocab_limit=scalar_or_array(infinite),
    )


def _zeta(norm: Floats, delta: Floats, gamma: Floats, snr: float, *, token: bool) -> Floats:
    t = spike_parameter(norm, delta, snr, token=token)
    zeta = white_overlap(t, white_edge_parameter(delta, gamma), delta, gamma)
    return zeta * ceiling(norm, delta) if token else zeta


def _sample_ratio(zeta: Floats, norm: Floats, delta: Floats, snr: float, *, token: bool) -> Floats:
    q = np.minimum(zeta / np.maximum(ceiling(norm, delta), TINY), 1.0) if token else zeta
    t = np.maximum(spike_parameter(norm, delta, snr, token=token), TINY)
    m = np.maximum(t, 1.0)  # divides both sides twice, so that t² cannot overflow
    r, d = t / m, delta / m / m
    excess = (1 - q) * r**2 - d  # q < ζ_pop = 1 − δ/t²
    gamma = np.maximum(t * excess, 0.0) / (q * r**2 + (1 + delta) * (r / m) + 2 * d)
    return np.asarray(gamma)


def _signal_norm(zeta: Floats, delta: Floats, gamma: Floats, snr: float, *, token: bool) -> Floats:
    if snr == 0:
        return np.full(zeta.shape, np.inf)
    if not token:
        return np.asarray(np.sqrt((_parameter_for(zeta, delta, gamma) + delta) / snr))
    # ζ = ceiling · ζ(t): where both factors reach √ζ, the product reaches ζ
    share = np.sqrt(zeta)
    squared = np.maximum(
        (_parameter_for(share, delta, gamma) + delta) / snr, delta * share / (1 - share)
    )
    return _first_true(
        lambda norm: _zeta(norm, delta, gamma, snr, token=True) >= zeta,
        np.zeros(zeta.shape),
        np.sqrt(squared) * (1 + 1e-9),
    )


def _parameter_for(zeta: Floats, delta: Floats, gamma: Floats) -> Floats:
    """Return t with ζ(t) = zeta; ζ rises from 0 at t* to 1."""
    low = white_edge_parameter(delta, gamma)
    # 1 − ζ(t) ≤ (γ + (δ+γ+δγ)/t + 2δγ/t²)/t, which is below 1 − zeta at the upper end
    high = low + 1 + (1 + delta + 2 * gamma + 3 * delta * gamma) / (1 - zeta)
    return _first_true(lambda t: white_overlap(t, low, delta, gamma) >= zeta, low, high)


def _vocab_ratio(zeta: Floats, norm: Floats, gamma: Floats, snr: float, *, token: bool) -> Floats:
    """Return the largest δ with ζ(δ) ≥ zeta.

    On (0, end), where t = A + Bδ > 0, the sign of ζ(δ) − zeta is that of a polynomial. Between
    its critical points it is monotone, and those are found from its derivatives' in turn.
    """
    m = norm**2
    A, B = snr * m, snr - 1 if token else -1.0
    end = m * (1 / zeta - 1) if token else A  # where the ceiling, or t, says no
    if B < 0:
        end = np.minimum(end, A / -B)
    one, zero = np.ones(zeta.shape), np.zeros(zeta.shape)
    t = [A, B * end]  # coefficients of powers of x = δ/end
    squared = _times(t, t)
    cubed = _times(squared, t)
    numerator = _plus(cubed, _times([-gamma, -(1 + gamma) * end], t), [zero, -2 * gamma * end])
    denominator = _times(
        [zeta * m, zeta * end] if token else [zeta], _plus(cubed, _times([gamma], squared))
    )
    sign = _plus(_times([m if token else one], numerator), [-c for c in denominator])
    breaks = [zero, one]
    for order in (3, 2, 1):
        derivative = sign
        for _ in range(order):
            derivative = [k * c for k, c in enumerate(derivative)][1:]
        roots = [_crossing(derivative, a, b) for a, b in itertools.pairwise(breaks)]
        breaks = [zero, *roots, one]

    def holds(x: Floats) -> BoolArray:
        return _zeta(norm, x * end, gamma, snr, token=token) >= zeta

    low, high = zero, zero  # the last stretch that begins with enough and ends with too little
    for a, b in itertools.pairwise(breaks):
        enough = holds(a)
        low, high = np.where(enough, a, low), np.where(enough, b, high)
    found = _first_true(lambda x: ~holds(x), low, high)
    return np.where(holds(high), high, found) * end


Polynomial = list[Floats]


def _plus(*terms: Polynomial) -> Polynomial:
    total = [np.zeros(())] * max(map(len, terms))
    for term in terms:
        for k, coefficient in enumerate(term):
            total[k] = total[k] + coefficient
    return total


def _times(left: Polynomial, right: Polynomial) -> Polynomial:
    product = [np.zeros(())] * (len(left) + len(right) - 1)
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            product[i + j] = product[i + j] + a * b
    return product


def _crossing(polynomial: Polynomial, low: Floats, high: Floats) -> Floats:
    """Return a root between `low` and `high` where the polynomial is monotone, else an end."""

    def value(x: Floats) -> Floats:
        return functools.reduce(lambda total, c: total * x + c, reversed(polynomial))

    end = np.sign(value(high))
    return _first_true(lambda x: np.sign(value(x)) == end, low, high, steps=60)


def _first_true(
    holds: Callable[[Floats], BoolArray], low: Floats, high: Floats, steps: int = 200
) -> Floats:
    """Return by bisection the smallest number in (low, high] from which `holds` is true."""
    for _ in range(steps):
        middle = low + (high - low) / 2
        if np.all((middle <= low) | (middle >= high)):
            break
        true = holds(middle)
        low, high = np.where(true, low, middle), np.where(true, middle, high)
    return high


# ---- plans by search ---------------------------------------------------------------------------


def wanted_overlap(
    model: PooledModel[Any], squared_overlap: ArrayLike
) -> tuple[Floats, tuple[int, ...]]:
    """Return the wanted ζ, checked, and the shape to which it broadcasts with the model."""
    wanted = np.asarray(real("squared_overlap", squared_overlap, above=0, at_least=1e-9, below=1))
    try:
        return wanted, np.broadcast_shapes(wanted.shape, model.shape)
    except ValueError:
        raise invalid_argument(
            "squared_overlap", f"broadcastable to {model.shape}", wanted
        ) from None


def search_plan(model: PooledModel[Any], squared_overlap: ArrayLike, ceiling: ArrayLike) -> Plan:
    """Return the answer of `plan` for any model, by its `predict` alone.

    Parameters
    ----------
    model : PooledModel
        Its numbers may be arrays.
    squared_overlap : float or array
        Wanted ζ, from 1e-9 to below 1. Broadcasts with the model.
    ceiling : float or array
        ζ without the noise of samples and sequences; broadcasts with the plan.

    Notes
    -----
    ζ is predicted on a grid of twelve points a decade from 1e-8 to 1e8. For a ratio the last point
    with enough overlap is taken, for the signal the first, and ζ is inverted in the interval next
    to it (docs/theory/thresholds.md, "The other way round"). ζ need not be monotone: a window
    between two points of the first grid is overlooked.
    """
    wanted, shape = wanted_overlap(model, squared_overlap)
    overlaps = _Overlaps.of(model, shape)
    limits = overlaps.at([np.zeros((*shape, 1)), np.zeros((*shape, 1)), np.zeros((*shape, 0))])
    vocab_limit, sample_limit = limits[..., 0, :], limits[..., 1, :]
    zeta = np.broadcast_to(np.broadcast_to(wanted, shape)[..., None], sample_limit.shape)
    vocab_ratio, sample_ratio, signal = overlaps.needs(zeta)

    def shown(values: ArrayLike) -> Real:
        full = np.broadcast_to(values, zeta.shape)
        return scalar_or_array(full if overlaps.are_several else full[..., 0])

    return Plan(
        squared_overlap=shown(zeta),
        sample_ratio=shown(sample_ratio),
        vocab_ratio=shown(vocab_ratio),
        signal=shown(signal),
        ceiling=shown(ceiling),
        sample_limit=shown(sample_limit),
        vocab_limit=shown(vocab_limit),
    )


@dataclass(frozen=True)
class _Overlaps:
    """Predicted overlaps of a model as functions of one of its numbers, the outliers last."""

    model: Any  # a PooledModel
    names: tuple[str, str, str]  # vocab_ratio, sample_ratio, signal
    numbers: list[Floats]  # what they are in the model, each of shape (…, 1)
    are_several: bool  # whether the model has an axis of outliers

    @classmethod
    def of(cls, model: PooledModel[Any], shape: tuple[int, ...]) -> "_Overlaps":
        names = ("vocab_ratio", "sample_ratio", model.signal_field)
        numbers = [np.broadcast_to(getattr(model, n), shape)[..., None] for n in names]
        return cls(model, names, numbers, not isinstance(_predicted(model), Spike))

    def at(self, values: Sequence[Floats]) -> Floats:
        """Return ζ where each number in turn has values (…, n), the others the model's own.

        Returns
        -------
        array of shape (…, sum of n, J)
            Vocabulary ratios first, then sample ratios, then signals; of every outlier.
        """
        counts = [len(v.T) for v in values]
        given = {
            name: np.concatenate(
                [
                    values[i] if i == k else np.repeat(self.numbers[i], counts[k], axis=-1)
                    for k in range(3)
                ],
                axis=-1,
            )
            for i, name in enumerate(self.names)
        }
        found = _predicted(replace(self.model, **given))
        return np.asarray(
            found.squared_overlaps if self.are_several else found.squared_overlap[..., None]
        )

    def needs(self, zeta: Floats) -> Floats:
        """Return the largest ratios and the smallest signal that give ζ (…, J): (3, …, J).

        0 where no ratio is enough, infinite where no signal is.
        """
        *shape, J = zeta.shape
        grid = np.broadcast_to(GRID, (*shape, len(GRID)))
        overlaps = np.stack(np.split(self.at([grid] * 3), 3, axis=-2))
        enough = np.moveaxis(overlaps, -1, -2) >= zeta[..., None]  # (3, …, J, points)
        last = len(GRID) - 1 - np.argmax(enough[:2, ..., ::-1], axis=-1)
        first = np.argmax(enough[2:], axis=-1)
        low = np.concatenate([last, np.maximum(first - 1, 0)])
        high = np.concatenate([np.minimum(last + 1, len(GRID) - 1), first])
        falling = np.reshape([1.0, 1.0, -1.0], (3, *(1,) * zeta.ndim))
        scale = np.minimum(zeta, 1 - zeta)  # beyond it the ends of an interval count alike

        def excess(x: Floats) -> Floats:
            found = self.at(list(x)).reshape(*shape, 3, J, J)
            own = np.diagonal(found, axis1=-2, axis2=-1)  # of each outlier at its own values
            return np.clip(falling * (np.moveaxis(own, -2, 0) - zeta), -scale, scale)

        found = sign_change(excess, GRID[low], GRID[high], coarse=3)
        none = np.reshape([0.0, 0.0, np.inf], falling.shape)
        return np.where(enough.any(axis=-1), found, none)


def _predicted(model: PooledModel[Any]) -> Any:
    """Predict without a `RegimeWarning`: a search goes far beyond the regime."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RegimeWarning)
        return predict(model)
