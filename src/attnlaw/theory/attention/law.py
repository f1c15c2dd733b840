"""The law of squared singular values of attention, in several orders of precision."""

from dataclasses import fields, replace
from functools import lru_cache
from typing import Any

import numpy as np

from attnlaw._checks import choice, invalid_argument, warn_regime
from attnlaw.laws import (
    AttentionBulk,
    CausalLaw,
    CausalProfileLaw,
    Discrete,
    FreePower,
    Law,
    MarchenkoPastur,
    MixtureLaw,
    ProfileLaw,
)
from attnlaw.models import SelfAttention
from attnlaw.models.base import answers
from attnlaw.theory.attention.causal import causal_head
from attnlaw.theory.attention.kernel import norm_rule
from attnlaw.theory.attention.large_beta import cavity_law, warn_outside_regime
from attnlaw.theory.attention.profiles import (
    by_input_spectrum,
    first_inputs_profile,
    norms_profile,
    powers_profile,
    projections,
    tokens_inputs_profile,
    tokens_profile,
)
from attnlaw.theory.verbs import law

__all__ = ["ORDERS", "linear_energy", "score_energy", "small_scale"]

ORDERS = ("first", "powers", "norms", "tokens", "cavity", "frozen")
_LEAST_BETA = 1e-3
_LEAST_SCALE = 1e-90  # of laws whose equations take squares and cubes of it
_MOST_BETA = 1e16
_CHANGE = 1.6, 2.6  # β up to which the order is "tokens", and from which it is "cavity"
_CAUSAL_CHANGE = 1.25, 2.25  # the same for causal heads
_NARROW_BETA = 0.8  # up to which heads of one or two dimensions have the limit law
_NO_SLOPE = 1e-3  # slope times tokens below which it changes nothing
_ALONE = 30.0  # slope from which a row sees one token
_SMOOTHING = 0.01  # of a singular value: energies of rows are represented by a few nodes


def score_energy(inverse_temperature: float) -> float:
    """θ₁ = E f(x)² = e^{β²} − 1, for f(x) = e^{βx−β²/2} − 1 and x standard Gaussian.

    Examples
    --------
    >>> round(score_energy(1.0), 12)
    1.718281828459
    """
    with np.errstate(over="ignore"):  # infinite above β = 26.6
        return float(np.expm1(np.float64(inverse_temperature) ** 2))


def linear_energy(inverse_temperature: float) -> float:
    """θ₂ = (E f'(x))² = β²: the energy of the linear part of f."""
    return float(inverse_temperature**2)


@answers(law)
def law_of_attention(model: SelfAttention, order: str = "auto") -> Law:
    """Law of the squared singular values of √n A_⊥, or of several heads (`SelfAttention`).

    Parameters
    ----------
    model : SelfAttention
        Heads and their combination.
    order : "auto", "first", "powers", "norms", "tokens", "cavity" or "frozen"
        Which effects of finite size are included, from few to all; see Notes. "auto" is "tokens",
        and "cavity" for heads without window or slope at a large inverse temperature: from 2.6 on,
        or 2.25 if they are causal. Below, from 1.6 (1.25) on, it is a mixture of both, whose
        errors have opposite signs. If head_dimension is below 3 it is "first" up to an inverse
        temperature of 0.8 and "cavity" above, with a warning.

    Returns
    -------
    Law
        On [0, ∞), with the mass at 0 that the rank implies.

    Notes
    -----
    - "first" (P2): n and d_k infinite with φ = n/d_k fixed, (θ₂ MP_φ ⊞ (θ₁−θ₂)) ⊠ MP_1 with
      θ₁ = e^{β²}−1, θ₂ = β² (docs/theory/attention.md, "The limit law").
    - "powers": the k-th power of a score has D_k = C(d_k+k−1, k) dimensions and is not
      noise, (⊞_k a_k² MP_{n/D_k}) ⊠ MP_1 with a_k² = β^{2k}/k!
      (docs/theory/realistic-heads.md, "Step 1: harmonics instead of powers").
    - "norms": spherical harmonics in place of powers, with their exact dimensions and
      coefficients, and the spread of the norms of queries and keys
      (docs/theory/realistic-heads.md, "Step 2: the spread of norms").
    - "tokens": also the energies of single rows at n tokens, where a few entries dominate; the law
      is smoothed over 1 % of a singular value (docs/theory/realistic-heads.md, "Step 3: the energy
      of single rows").
    - "cavity": rows whose largest entries are kept individually, and resolvents that fluctuate
      with them (docs/theory/large-beta.md, "Fluctuating resolvents"). It takes one or two seconds;
      laws of equal heads are computed once.
    - "frozen": β → ∞, where a row is a single 1 and AAᵀ counts how often each key is the best of
      n. With F(t) = E Φ(t/s) and given the norm s of the key, this is Poisson with mean
      λ(s) = n ∫ φ(x) F(sx)^{n−1} dx, so that the law of one head has the atoms nk, k = 0, 1, …
      (docs/theory/large-beta.md, "The frozen limit").

    Several heads: side by side, √(n/h) [A_⊥¹ … A_⊥ʰ] has (θ₂ MP_{φ/h} ⊞ (θ₁−θ₂)) ⊠ MP_{1/h} (P3:
    γ_K = h d_k/n is 1/(φ/h)); their mean has the same with ⊠ MP_1, divided by h. Values and
    output add ⊠ MP_{n/m}, m their number of columns (docs/theory/attention.md, "Several heads").
    D layers have the law of one to the power D under ⊠ (`FreePower`; docs/theory/depth.md, "The
    law").
    With an `input_spectrum` there are the orders "first" and "tokens"
    (docs/theory/correlated-inputs.md, "Equations"). A causal head has "first", its limit d_k → ∞
    in closed form, θ₁ times `CausalLaw` (docs/theory/causal-heads.md, "The closed form"),
    "tokens" (docs/theory/causal-heads.md, "Heads of finite size") and "cavity"
    (docs/theory/large-beta.md, "Causal heads"); laws of equal causal heads are computed once.

    Examples
    --------
    >>> import attnlaw as al
    >>> head = al.SelfAttention(n_tokens=1000, head_dimension=1000, inverse_temperature=1.0)
    >>> law = al.law(head, order="first")
    >>> law.edges.round(4)
    array([0.    , 9.0095])
    >>> round(law.moment(1), 12)      # e − 1
    1.718281828459
    """
    choice("order", order, ("auto", *ORDERS))
    if model.depth > 1:
        return _law_of_product(model, order)
    if model.causal:
        model = _without_idle_pattern(model)
        if order == "auto":
            order = _best_order(model)
        if order != "first":
            tokens = 1 - _cavity_share(model) if order == "mixed" else 1.0
            warn_outside_regime(model, order, tokens)
        return _causal_law(model, order)
    model = by_input_spectrum(model)
    spectrum = model.input_spectrum is not None
    if order == "auto":
        order = _best_order(model)
    if spectrum and order not in ("first", "tokens"):
        raise invalid_argument(
            "order", "'first' or 'tokens' when there is an input_spectrum", order
        )
    if order == "frozen" and model.n_heads > 1:
        raise invalid_argument("order", "'frozen' for a single head alone", order)
    if order == "frozen":
        return _frozen_law(model)
    scale, beta = small_scale(model.inverse_temperature)
    if scale == 0 or (order == "first" and scale < _LEAST_SCALE):
        return Discrete([0.0])
    warn_outside_regime(model, order)
    found = _law_of_order(replace(model, inverse_temperature=beta), order)
    return found if scale == 1 else found * scale


def _law_of_product(model: SelfAttention, order: str) -> Law:
    """Return the law of one layer to the power D: layers over orthonormal inputs are free."""
    if order == "frozen":
        raise invalid_argument("order", "another than 'frozen' when depth is above 1", order)
    if model.input_spectrum is not None or model.inputs is not None:
        warn_regime(
            "layers over the same correlated inputs are not free: the distribution of their "
            "product is off by about 0.05, and its mean by a factor of 2 or more a layer."
        )
    layer = law_of_attention(replace(model, depth=1), order)
    return layer if isinstance(layer, Discrete) else FreePower(layer, model.depth)


def _law_of_order(model: SelfAttention, order: str) -> Law:
    spectrum = model.input_spectrum is not None
    if order == "mixed":
        return _mixture(model, [_law_of_order(model, part) for part in ("tokens", "cavity")])
    if spectrum and order == "first":
        return ProfileLaw(first_inputs_profile(model), _scale(model))
    if spectrum:
        return ProfileLaw(tokens_inputs_profile(model), _scale(model), _SMOOTHING)
    if order == "cavity":
        law = _finite_cavity_law(_key(model))
        for ratio in projections(model):
            law = law @ MarchenkoPastur(ratio)
        return law
    if order == "powers":
        return ProfileLaw(powers_profile(model), _scale(model))
    if order == "norms":
        return ProfileLaw(norms_profile(model).profile, _scale(model))
    if order == "tokens":
        return ProfileLaw(tokens_profile(model).profile, _scale(model), _SMOOTHING)
    return _first_order(model)


def _mixture(model: SelfAttention, laws: list[Law]) -> Law:
    share = _cavity_share(model)
    if all(isinstance(part, Discrete) for part in laws):  # rows of one token, all zero
        return laws[0]
    return MixtureLaw(laws, [1 - share, share])


def _frozen_law(model: SelfAttention) -> Law:
    """Return the law of counts of best keys: Poisson, mixed over the norms of the keys."""
    if model.value_dimension is not None:
        raise invalid_argument("order", "'frozen' for a single head alone", "frozen")
    from scipy.special import gammaln, ndtr

    n = model.n_tokens
    norms, weights = (
        (np.ones(1), np.ones(1)) if model.qk_norm else norm_rule(model.head_dimension, 24)
    )
    x = np.linspace(-9.0, 9.0, 1801)
    density = np.exp(-0.5 * x**2)
    density /= density.sum()
    below = ndtr(norms[:, None, None] * x[:, None] / norms) @ weights  # F(sx), norms × scores
    rates = n * below ** (n - 1) @ density
    rates = rates / (rates @ weights)
    k = np.arange(int(20 + 4 * rates.max()))
    terms = np.exp(k[:, None] * np.log(rates) - rates - gammaln(k + 1.0)[:, None]) @ weights
    seen = terms > 1e-12
    return Discrete(float(n) * k[seen], terms[seen] / terms[seen].sum())


def _best_order(model: SelfAttention) -> str:
    """Order nearest to simulated heads, "mixed" where "tokens" and "cavity" err oppositely."""
    if model.head_dimension < 3:
        warn_regime(
            f"head_dimension {model.head_dimension} is below 3: scores of all rows follow one or "
            "two numbers for each token, which no law here knows; simulate_spectrum draws them.",
        )
        plain = model.input_spectrum is None and not _has_reach(model)
        large = model.inverse_temperature > _NARROW_BETA or model.sink > 0
        return "cavity" if plain and large else "first"
    share = _cavity_share(model)
    return "mixed" if 0 < share < 1 else ("cavity" if share else "tokens")


def _cavity_share(model: SelfAttention) -> float:
    """Share of the cavity law in a mixture with that of order "tokens", which grows with β."""
    if model.input_spectrum is not None or _has_reach(model):
        return 0.0
    low, high = _CAUSAL_CHANGE if model.causal else _CHANGE
    return float(np.clip((model.inverse_temperature - low) / (high - low), 0.0, 1.0))


def _has_reach(model: SelfAttention) -> bool:
    """Whether rows attend only or mostly to the nearest tokens: a window or a slope."""
    return bool(model.window is not None or model.alibi_slope)


def _without_idle_pattern(model: SelfAttention) -> SelfAttention:
    """Drop a window or a slope that changes no row."""
    n = model.n_tokens
    window = None if model.window is None or model.window >= n else model.window
    slope = model.alibi_slope if n * model.alibi_slope > _NO_SLOPE else 0.0
    return replace(model, window=window, alibi_slope=slope)


def _key(model: SelfAttention) -> tuple[object, ...]:
    """Return the fields of a head without inputs and values, by which its law is known."""
    head = replace(model, value_dimension=None, output_dimension=None)
    return tuple(getattr(head, f.name) for f in fields(head))


def _model(key: tuple[object, ...]) -> SelfAttention:
    values: dict[str, Any] = {
        f.name: value for f, value in zip(fields(SelfAttention), key, strict=True)
    }
    return SelfAttention(**values)


@lru_cache(maxsize=64)
def _finite_cavity_law(key: tuple[object, ...]) -> Law:
    return cavity_law(_model(key))


def _causal_law(model: SelfAttention, order: str) -> Law:
    """Return the law of causal heads, and of their values and output."""
    if order == "mixed":
        return _mixture(model, [_causal_law(model, part) for part in ("tokens", "cavity")])
    if order not in ("first", "tokens", "cavity"):
        raise invalid_argument("order", "'first', 'tokens' or 'cavity' for a causal head", order)
    for name in ("input_spectrum", "inputs"):
        if getattr(model, name) is not None:
            raise invalid_argument(
                name, "None for the law of a causal head (simulate answers)", "an array"
            )
    if _has_reach(model) and order != "tokens":
        raise invalid_argument("order", "'tokens' for a head with a window or a slope", order)
    if model.sink and order == "first":
        raise invalid_argument("order", "'tokens' or 'cavity' for a head with a sink", order)
    scale, beta = small_scale(model.inverse_temperature)
    alone = model.window == 1 or model.alibi_slope > _ALONE
    alone = alone or (model.n_tokens == 2 and model.sink > 0)
    if scale == 0 or alone:  # a row that sees one token is what it is at β = 0
        return Discrete([0.0])
    head = replace(model, inverse_temperature=beta)
    share = 1 / model.n_heads if _is_mean(model) else 1.0
    law: Law
    if order == "first":
        law = CausalLaw(score_energy(beta) * share)
    elif order == "cavity":
        law = _finite_cavity_law(_key(head))
    else:
        law = _finite_causal_law(_key(head))
    for ratio in projections(model):
        law = law @ MarchenkoPastur(ratio)
    return law if scale == 1 else law * scale  # the same object, which keeps its table


@lru_cache(maxsize=128)
def _finite_causal_law(key: tuple[object, ...]) -> Law:
    model = _model(key)
    return CausalProfileLaw(causal_head(model).profile, _scale(model))


def small_scale(beta: float) -> tuple[float, float]:
    """Return factor and β of an equal law: below 1e-3 energies are β² times those of a limit.

    Above 1e16 every row attends to one token, up to ties of scores at 16 digits.
    """
    if beta >= _LEAST_BETA:
        return 1.0, min(beta, _MOST_BETA)
    scale = (beta / _LEAST_BETA) ** 2
    return (scale if scale > 1e-290 else 0.0), _LEAST_BETA


def _scale(model: SelfAttention) -> float:
    """Heads side by side are divided by √h."""
    return 1.0 if _is_mean(model) else 1 / model.n_heads


def _first_order(model: SelfAttention) -> Law:
    beta, h = model.inverse_temperature, model.n_heads
    linear, noise = linear_energy(beta), score_energy(beta) - linear_energy(beta)
    share, last = (1 / h, 1.0) if _is_mean(model) else (1.0, 1 / h)
    ratio = model.token_ratio / h
    bulk: Law
    if 0.05 <= ratio <= 5000:  # a quartic is well conditioned
        bulk = AttentionBulk(
            linear=linear * share, noise=noise * share, ratio=ratio, last_ratio=last
        )
    else:
        rows = linear * share * MarchenkoPastur(ratio) + noise * share
        bulk = rows @ MarchenkoPastur(last)
    for ratio in projections(model):
        bulk = bulk @ MarchenkoPastur(ratio)
    return bulk


def _is_mean(model: SelfAttention) -> bool:
    return model.combination == "mean"
