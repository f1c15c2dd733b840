"""The effect of a head on the output, estimated and measured.

A head is ablated by replacing its output AV at every token by its mean over tokens and texts,
which removes what is specific to the token (mean ablation). Under a causal mask the first token,
often a sink with an atypical residual stream, is left out of the means and not ablated.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attnlaw._checks import Floats, choice, invalid_argument
from attnlaw._store import atomic_path, checksum
from attnlaw.diagnostics.heads.findings import HeadFinding, HeadsReport
from attnlaw.diagnostics.heads.models import LayerCall, LocalModel, Text, distinct

__all__ = [
    "HeadEffects",
    "ablate_heads",
    "ablation_distances",
    "head_effects",
    "head_means",
    "rank_correlations",
    "with_ablation",
]

Place = tuple[int, int]  # layer and head
_SAMPLES = 16  # of the output of each text


class HeadEffects(NamedTuple):
    """Effects of heads on the output; arrays of layers × heads."""

    effect: Floats  # estimated change of the output when the head is ablated
    output_norm: Floats  # ‖o‖/‖r‖, r the residual stream that the output o is added to
    output_change: Floats  # ‖o − ō‖/‖r‖


def head_effects(
    model: LocalModel,
    texts: Sequence[Text],
    captures: Sequence[Sequence[LayerCall]],
    *,
    n_samples: int = _SAMPLES,
    rng: int = 0,
    progress: Callable[[float], None] | None = None,
) -> HeadEffects:
    """Estimate how far the output moves when a head is ablated, all heads at once.

    Notes
    -----
    √(F_h · F_l · outg_h²/Σ_{h'∈l} outg_{h'}²), with F_h the second-order term of the divergence in
    a gate between the head's output and its mean (`squared_gradients`), F_l its sum over the layer
    and outg_h the change that the head makes to the residual stream (`output_change`): two
    estimates of the same, averaged in the logarithm. It takes one forward pass and `n_samples`
    backward passes for each text. Ranks are more reliable than sizes.
    """
    means = head_means(model, captures)
    norms, changes = output_changes(model, captures, means)
    generator, effects = np.random.default_rng([rng, 2]), []
    for k, text in enumerate(texts, start=1):
        effects.append(squared_gradients(model, text, means, n_samples, generator))
        if progress is not None:
            progress(k / len(texts))
    F, squares = np.mean(effects, axis=0), changes**2
    by_layer = F.sum(axis=1, keepdims=True) * squares
    by_layer /= np.maximum(squares.sum(axis=1, keepdims=True), 1e-300)
    return HeadEffects(np.sqrt(F * by_layer), norms, changes)


def head_means(model: LocalModel, captures: Sequence[Sequence[LayerCall]]) -> Floats:
    """Mean output AV of each head over tokens and texts: (layers, heads, d_v)."""
    first = int(model.causal)
    return np.array(
        [
            np.concatenate([calls[k].outputs[first:] for calls in captures]).mean(axis=0)
            for k in range(model.n_layers)
        ]
    )


def output_changes(
    model: LocalModel, captures: Sequence[Sequence[LayerCall]], means: Floats
) -> tuple[Floats, Floats]:
    """Size of a head's output, and of its deviation from the mean, over the residual stream's.

    Notes
    -----
    o = AV W_O of a head, r the residual stream that it is added to: root mean squares over tokens
    and texts of ‖o‖/‖r‖ and of ‖o − ō‖/‖r‖.
    """
    first = int(model.causal)
    norms, changes = np.zeros((2, model.n_layers, model.n_heads))
    for k in range(model.n_layers):
        W = model.output_weights(k)
        gram = W @ W.transpose(0, 2, 1)
        for calls in captures:
            z, r = calls[k].outputs[first:], calls[k].residual[first:, None]
            for total, deviation in ((norms, z), (changes, z - means[k])):
                squares = np.einsum("nhi,hij,nhj->nh", deviation, gram, deviation, optimize=True)
                total[k] += (squares / r**2).mean(axis=0) / len(captures)
    return np.sqrt(norms), np.sqrt(changes)


@contextmanager
def ablated(
    model: LocalModel, means: Any, places: Iterable[Place], first: int = 0
) -> Iterator[None]:
    """Replace the outputs of some heads by their means."""
    chosen: dict[int, list[int]] = {}
    for layer, head in places:
        chosen.setdefault(layer, []).append(head)
    start = int(model.causal)

    def change(layer: int, outputs: Any) -> Any:
        if layer in chosen:
            outputs = outputs.clone()
            outputs[start:, chosen[layer]] = means[layer, chosen[layer]]
        return outputs

    with gated(model, change, first):
        yield


@contextmanager
def gated(model: LocalModel, change: Callable[[int, Any], Any], first: int = 0) -> Iterator[None]:
    """Let `change(layer, outputs)` replace the heads' outputs AV, (n, heads, d_v).

    The first `first` layers do not run (`resumed`), so that counting begins there.
    """
    layer = first

    def before_output(module: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        nonlocal layer
        x = args[0]
        outputs = x[0].reshape(x.shape[1], model.n_heads, -1)
        changed = change(layer, outputs)
        layer += 1
        return (changed.reshape(x.shape), *args[1:])

    with ExitStack() as stack:
        for place in distinct(model.layers):
            stack.callback(place.output.register_forward_pre_hook(before_output).remove)
        yield


@contextmanager
def resumed(model: LocalModel, results: Sequence[Any], first: int) -> Iterator[None]:
    """Let blocks before layer `first` return `results` without running."""
    done = 0

    def forward(run: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        nonlocal done
        done += 1
        return results[done - 1] if done <= first else run(*args, **kwargs)

    blocks = [layer.block for layer in distinct(model.layers)]
    try:
        for block in blocks:
            block.forward = partial(forward, block.forward)
        yield
    finally:
        for block in blocks:
            del block.forward  # that of its class shows again


def block_results(model: LocalModel, text: Text) -> tuple[Any, list[Any]]:
    """Run the model; return its output and what each block returned."""
    import torch

    results: list[Any] = []
    with torch.no_grad(), ExitStack() as stack:
        for layer in distinct(model.layers):
            hook = layer.block.register_forward_hook(lambda m, a, r: results.append(r))
            stack.callback(hook.remove)
        return model.output(text), results


def ablation_distances(
    model: LocalModel, text: Text, means: Floats, groups: Sequence[Sequence[Place]]
) -> Floats:
    """How far the output moves when the heads of each group are ablated.

    KL divergence of the predicted tokens in nats a token, or 1 − cosine of the embedding.
    """
    import torch

    output, results = block_results(model, text)
    values = torch.as_tensor(means, dtype=torch.float32)
    distances = []
    for places in groups:
        first = min(layer for layer, _ in places)
        with (
            torch.no_grad(),
            resumed(model, results, first),
            ablated(model, values, places, first),
        ):
            distances.append(model.distance(output, model.output(text)))
    return np.array(distances)


def squared_gradients(
    model: LocalModel, text: Text, means: Floats, n_samples: int, rng: np.random.Generator
) -> Floats:
    """½E(∂ log p(y)/∂g)² for a gate g between a head's output (1) and its mean (0).

    Notes
    -----
    y are tokens drawn from the model's own predictions, independently for each token, so this is
    half the Fisher information of the gate, divided by the number of tokens: the second-order
    term of the KL divergence when the head is ablated. Of an embedding e of unit norm,
    ½E(∂ vᵀe/∂g)² with v standard Gaussian: the same of 1 − cosine.
    """
    import torch

    start = int(model.causal)
    values = torch.as_tensor(means, dtype=torch.float32)
    gates = torch.ones((model.n_layers, model.n_heads), requires_grad=True)

    def change(layer: int, outputs: Any) -> Any:
        mean = values[layer]
        moved = mean + gates[layer][:, None] * (outputs[start:] - mean)
        return torch.cat([outputs[:start], moved])

    generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
    with torch.enable_grad(), gated(model, change):
        output = model.output(text)
    total = np.zeros((model.n_layers, model.n_heads))
    for k in range(n_samples):
        if model.predicts_tokens:
            drawn = torch.multinomial(output.detach().exp(), 1, generator=generator)
            scalar = output.gather(1, drawn).sum()
            size = len(output)
        else:
            drawn = torch.randn(output.shape, generator=generator, dtype=output.dtype)
            scalar, size = output @ drawn, 1
        (gradient,) = torch.autograd.grad(scalar, gates, retain_graph=k + 1 < n_samples)
        total += gradient.double().numpy() ** 2 / (2 * size * n_samples)
    return total


def ablate_heads(
    model: LocalModel,
    texts: Sequence[Text],
    *,
    by: str = "head",
    journal: str | Path | None = None,
    progress: Callable[[float], None] | None = None,
) -> Floats:
    """Measure how far the output moves when heads are ablated, one by one or layer by layer.

    Parameters
    ----------
    model : LocalModel
        From `load_model`.
    texts : sequence of Text
        From `LocalModel.read`.
    by : "head" or "layer"
        One run of the model for each head and text, or for each layer.
    journal : str or Path, optional
        File that keeps the results layer by layer, so that a run that was stopped can resume. It
        belongs to one model, one set of texts and one value of `by`; others are refused.
    progress : callable, optional
        Called with the share of the work done.

    Returns
    -------
    array of shape (layers, heads), or (layers, 1)
        KL divergence of the predicted tokens in nats a token, or 1 − cosine of the embedding,
        mean over texts.
    """
    choice("by", by, ("head", "layer"))
    path = None if journal is None else Path(journal)
    ids = [text.ids.tolist() for text in texts]
    some = [layer.output.weight.detach().flatten()[:64].tolist() for layer in model.layers]
    identity = checksum([Path(model.source).name, by, json.dumps(ids), json.dumps(some)])
    done = _read_journal(path, identity)
    means = head_means(model, [model.capture(text) for text in texts])
    heads = range(model.n_heads)
    for layer in range(len(done), model.n_layers):
        places = [(layer, head) for head in heads]
        groups = [[place] for place in places] if by == "head" else [places]
        distances = [ablation_distances(model, text, means, groups) for text in texts]
        done.append(np.mean(distances, axis=0).tolist())
        if path is not None:
            with atomic_path(path) as partial_file:
                document = {"identity": identity, "layers": done}
                partial_file.write_text(json.dumps(document) + "\n", encoding="utf-8")
        if progress is not None:
            progress((layer + 1) / model.n_layers)
    return np.array(done)


def with_ablation(report: HeadsReport, distances: Floats) -> HeadsReport:
    """Return the report with the effects that `ablate_heads` measured, by head or by layer.

    By head, a note gives the rank correlations of ablation with the estimate and simple baselines.
    """
    values = np.asarray(distances)
    if values.shape != (report.n_layers, report.n_heads):
        return replace(report, layer_ablations=tuple(float(x) for x in values.ravel()))
    pairs = zip(report.heads, values.ravel(), strict=True)
    heads = tuple(replace(head, ablation=float(x)) for head, x in pairs)
    found = rank_correlations(heads)
    listed = ", ".join(f"{name} {x:.2f}" for name, x in found.items())
    best = max(found, key=lambda name: found[name], default="effect")
    won = "" if best == "effect" else f" Here {best} ranks heads better than effect."
    notes = [f"Rank correlation with ablation: {listed}.{won}"] if found else []
    return replace(report, heads=heads, notes=(*report.notes, *notes))


def rank_correlations(heads: Sequence[HeadFinding]) -> dict[str, float]:
    """Spearman's correlation with measured ablation, of the estimate and of simple baselines."""
    from scipy.stats import spearmanr

    measured = np.array([head.ablation for head in heads], dtype=float)
    scores = {
        "effect": np.array([head.effect for head in heads], dtype=float),
        "output change": np.array([head.output_change for head in heads], dtype=float),
        "output norm": np.array([head.output_norm for head in heads], dtype=float),
        "minus entropy": -np.array([head.entropy for head in heads]),
        "minus sink share": -np.array([head.sink_share for head in heads]),
    }
    return {
        name: float(spearmanr(values, measured).statistic)
        for name, values in scores.items()
        if np.isfinite(values).all() and np.ptp(values) > 0 and np.ptp(measured) > 0
    }


def _read_journal(path: Path | None, identity: str) -> list[list[float]]:
    if path is None or not path.exists():
        return []
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        kept, layers = document["identity"], document["layers"]
    except (ValueError, TypeError, KeyError):
        raise invalid_argument("journal", "one that `ablate_heads` wrote", str(path)) from None
    if kept != identity:
        raise invalid_argument("journal", "of this model and these texts", str(path))
    return [[float(x) for x in layer] for layer in layers]
