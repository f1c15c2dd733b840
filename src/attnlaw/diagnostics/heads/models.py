"""A local model and its attention layers: captured, with queries and keys redrawn, or ablated.

Of an architecture only the names of the query and key projections are needed. The inputs of an
attention layer are recorded with its other arguments (mask, rotary angles, ALiBi), and the layer
itself is called again with other weights: rotation, grouped queries and norms of queries and keys
are those of the model.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats

__all__ = [
    "LayerCall",
    "LocalModel",
    "Text",
    "distinct",
    "wrap_model",
]

LEAST_TOKENS = 8
_PAIRS = (("q_proj", "k_proj"), ("query", "key"), ("q_lin", "k_lin"), ("q", "k"))
_FUSED = ("c_attn", "qkv_proj", "Wqkv", "query_key_value", "in_proj", "att_proj")
_OWN = {*chain(*_PAIRS), *_FUSED, "v_proj", "value", "v_lin", "v"}
_SHIFTED = ("roberta", "xlm-roberta", "camembert", "mpnet")  # positions begin at 2
_INTERLEAVED = "query_key_value"  # BLOOM, GPT-NeoX: query, key and value head by head


class Text(NamedTuple):
    """A text as a model reads it."""

    ids: NDArray[np.int64]
    words: tuple[str, ...]


class LayerCall(NamedTuple):
    """One call of an attention layer: its arguments and the maps of its heads."""

    layer: int
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    weights: Floats  # (heads, n, n), after the softmax
    outputs: Floats  # AV of each head: (n, heads, d_v)
    residual: Floats  # norm of the residual stream that a token's output is added to: (n,)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Layer:
    """An attention layer: its module, and the rows of its weights for queries and keys."""

    module: Any
    block: Any  # the block it belongs to, whose input is the residual stream
    query: Any  # projection; the same as `key` if they are fused
    key: Any
    query_rows: NDArray[np.intp]  # (heads, d_k): outputs of the projection that belong to a head
    key_rows: NDArray[np.intp]  # (key heads, d_k)
    output: Any = None  # projection W_O; found when the model runs


@dataclass(eq=False)
class LocalModel:
    """A model of transformers with its attention layers in the order in which they are called."""

    source: str
    model: Any
    tokenizer: Any
    layers: list[_Layer]
    n_heads: int
    head_dimension: int
    predicts_tokens: bool  # whether the output is a distribution over tokens, or an embedding
    causal: bool

    @property
    def n_layers(self) -> int:
        """Number of attention layers; one that is called several times counts each time."""
        return len(self.layers)

    @property
    def longest(self) -> int:
        """Context length of the model."""
        return _limit(self.model.config, 2**31, self.tokenizer)

    def read(self, text: str, max_tokens: int) -> Text:
        """Tokenise a text, cut at `max_tokens` and at the context length of the model."""
        limit = _limit(self.model.config, max_tokens, self.tokenizer)
        ids = self.tokenizer(text, truncation=True, max_length=limit)["input_ids"]
        if len(ids) < LEAST_TOKENS:
            found = f"{len(ids)} tokens"
            raise ValueError(f"text must be at least {LEAST_TOKENS} tokens long, got {found}.")
        return self.text(ids)

    def read_pieces(self, text: str, max_tokens: int, max_pieces: int) -> list[Text]:
        """Cut a long text into texts of `max_tokens` each, up to a given number."""
        limit = _limit(self.model.config, max_tokens, self.tokenizer)
        pieces = self.tokenizer(
            text, truncation=True, max_length=limit, return_overflowing_tokens=True
        )["input_ids"]
        if not pieces or not isinstance(pieces[0], list):  # tokenizers of old know one piece
            return [self.read(text, max_tokens)]
        long = [ids for ids in pieces if 2 * len(ids) >= limit and len(ids) >= LEAST_TOKENS]
        return [self.text(ids) for ids in long[:max_pieces]] or [self.read(text, max_tokens)]

    def text(self, ids: Sequence[int]) -> Text:
        """Give token ids their words."""
        ids = [int(i) for i in ids]
        words = self.tokenizer.convert_ids_to_tokens(ids)
        return Text(
            np.array(ids), tuple(str(w).replace("Ġ", " ").replace("▁", " ") for w in words)
        )

    def repeated_text(self, length: int, rng: np.random.Generator) -> tuple[Text, int]:
        """Random tokens, twice; between the tokens that an encoder expects at the ends.

        Returns the text and the place at which the first copy begins.
        """
        special = set(self.tokenizer.all_special_ids)
        size = int(self.model.config.vocab_size)
        usual = [i for i in range(min(size, len(self.tokenizer))) if i not in special]
        ids = [int(i) for i in rng.choice(usual, length, replace=len(usual) < length)] * 2
        first, last = (getattr(self.tokenizer, f"{k}_token_id", None) for k in ("cls", "sep"))
        if self.causal or first is None or last is None:
            return self.text(ids), 0
        return self.text([first, *ids, last]), 1

    @property
    def effect_unit(self) -> str:
        """What `distance` measures."""
        return "KL divergence, nats a token" if self.predicts_tokens else "1 − cosine"

    def output(self, text: Text) -> Any:
        """Log-probabilities of tokens, or the mean of the last layer, scaled to norm 1."""
        import torch

        ids = torch.as_tensor(text.ids)[None]
        result = self.model(input_ids=ids, attention_mask=torch.ones_like(ids), **self._no_cache)
        if self.predicts_tokens:
            logits = result.logits if hasattr(result, "logits") else result.prediction_logits
            return torch.log_softmax(logits[0].float(), dim=-1)
        mean = result.last_hidden_state[0].double().mean(dim=0)
        return mean / mean.norm()

    def distance(self, before: Any, after: Any) -> float:
        """KL divergence of the predictions, in nats a token; of embeddings 1 − cosine."""
        if self.predicts_tokens:
            terms = before.exp() * (before - after)
            return float(terms.sum(dim=-1).double().mean())
        return float(((before - after) ** 2).sum() / 2)  # of unit vectors

    def capture(self, text: Text) -> list[LayerCall]:
        """Run the model and record every call of an attention layer."""
        import torch

        calls: list[LayerCall] = []
        seen: dict[str, Any] = {}

        def before_block(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            stream = args[0] if args else kwargs["hidden_states"]
            seen["residual"] = stream[0].norm(dim=-1).double().numpy()

        def before(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            seen["call"] = (args, kwargs)

        def after(module: Any, args: Any, kwargs: Any, result: Any) -> None:
            seen["weights"] = _weights(result)

        def before_output(module: Any, args: tuple[Any, ...]) -> None:
            n = args[0].shape[1]
            seen["outputs"] = args[0][0].reshape(n, self.n_heads, -1).double().numpy()

        def after_block(module: Any, args: Any, result: Any) -> None:
            arguments, options = seen["call"]
            calls.append(
                LayerCall(
                    len(calls), arguments, options, seen["weights"], seen["outputs"],
                    seen["residual"],
                )
            )  # fmt: skip

        with torch.no_grad(), ExitStack() as stack:
            for layer in distinct(self.layers):
                hooks = [
                    layer.block.register_forward_pre_hook(before_block, with_kwargs=True),
                    layer.module.register_forward_pre_hook(before, with_kwargs=True),
                    layer.module.register_forward_hook(after, with_kwargs=True),
                    layer.output.register_forward_pre_hook(before_output),
                    layer.block.register_forward_hook(after_block),
                ]
                for hook in hooks:
                    stack.callback(hook.remove)
            self.output(text)
        return calls

    def weights(self, call: LayerCall) -> Floats:
        """Call an attention layer again as it was called; return its heads' maps."""
        import torch

        with torch.no_grad():
            result = self.layers[call.layer].module(*call.arguments, **call.options)
        return np.asarray(_weights(result))

    def redrawn(self, call: LayerCall, rng: np.random.Generator) -> Floats:
        """Return the maps of one call with W_Q and W_K drawn anew.

        Independent Gaussian entries, scaled to the Frobenius norm of each head's block, and no
        biases; the inputs and everything else as in the call.
        """
        with self.redraw(call.layer, rng):
            return self.weights(call)

    @contextmanager
    def redraw(self, layer: int, rng: np.random.Generator) -> Iterator[None]:
        """Give a layer's heads random queries and keys of their norms, until the block ends."""
        import torch

        place = self.layers[layer]
        kept = []
        with torch.no_grad():
            for part, rows in ((place.query, place.query_rows), (place.key, place.key_rows)):
                kept.append((part.weight, part.weight.clone()))
                W = part.weight.T if _is_transposed(part) else part.weight
                if part.bias is not None:
                    kept.append((part.bias, part.bias.clone()))
                    part.bias[torch.as_tensor(rows.ravel())] = 0.0
                for block in rows:
                    index = torch.as_tensor(block)
                    drawn = rng.standard_normal((len(block), W.shape[1]), dtype=np.float32)
                    drawn *= float(W[index].norm()) / np.linalg.norm(drawn)
                    W[index] = torch.from_numpy(drawn)
            try:
                yield
            finally:
                for tensor, value in reversed(kept):
                    tensor.copy_(value)

    def output_weights(self, layer: int) -> Floats:
        """Return W_O of a layer, head by head: (heads, d_v, width of the model)."""
        part = self.layers[layer].output
        W = part.weight.detach() if _is_transposed(part) else part.weight.detach().T
        return np.asarray(W.double().numpy().reshape(self.n_heads, -1, W.shape[1]))

    @property
    def _no_cache(self) -> dict[str, Any]:
        return {"use_cache": False} if self.causal else {}


def wrap_model(model: Any, tokenizer: Any, source: str = "a model") -> LocalModel:
    """Find the attention layers of a model of transformers that is already loaded."""
    import torch

    if getattr(model.config, "is_encoder_decoder", False):
        raise ValueError("model must be an encoder or a decoder, got an encoder with a decoder.")
    found = _find_layers(model)
    order: list[_Layer] = []
    outputs: list[Any] = []
    maps: list[Any] = []

    def entered(module: Any, args: Any) -> None:
        order.append(found[id(module)][0])
        outputs.append(None)

    def left(module: Any, args: Any, result: Any) -> None:
        maps.append(_weights(result))

    def projected(module: Any, args: Any) -> None:  # first projection after queries and keys
        if order and outputs[-1] is None and id(module) not in found[id(order[-1].module)][1]:
            outputs[-1] = module

    with ExitStack() as stack, torch.no_grad():
        for module in model.modules():
            if id(module) in found:
                stack.callback(module.register_forward_pre_hook(entered).remove)
                stack.callback(module.register_forward_hook(left).remove)
            elif _is_projection(module):
                stack.callback(module.register_forward_pre_hook(projected).remove)
        result = model(input_ids=torch.arange(2, 2 + LEAST_TOKENS)[None])
    if not order or any(part is None for part in outputs) or any(m is None for m in maps):
        raise ValueError(
            "model must be one whose attention layers have queries and keys under a known name, "
            f"got {type(model).__name__}."
        )
    layers = [replace(layer, output=part) for layer, part in zip(order, outputs, strict=True)]
    if len({layer.query_rows.shape for layer in layers}) > 1:
        raise ValueError("model must have the same number of heads in every layer.")
    n_heads, head_dimension = layers[0].query_rows.shape
    return LocalModel(
        source=source,
        model=model,
        tokenizer=tokenizer,
        layers=layers,
        n_heads=n_heads,
        head_dimension=head_dimension,
        predicts_tokens=hasattr(result, "logits") or hasattr(result, "prediction_logits"),
        causal=not any(np.triu(m, k=1).any() for m in maps),
    )


def _find_layers(model: Any) -> dict[int, tuple[_Layer, set[int]]]:
    """Return the attention modules by their identity, with those of their own projections."""
    modules = dict(model.named_modules())
    found = {}
    for name, module in modules.items():
        pair = next((p for p in _PAIRS if all(_is_projection(_part(module, k)) for k in p)), None)
        fused = next((k for k in _FUSED if _is_projection(_part(module, k))), None)
        if pair is None and fused is None:
            continue
        names = pair or (str(fused),) * 2
        query, key = (_part(module, k) for k in names)
        rows = _rows(module, model.config, query, key, fused)
        own = {id(m) for k, m in module.named_children() if k in _OWN}
        layer = _Layer(
            module=module, block=_block(modules, name), query=query, key=key,
            query_rows=rows[0], key_rows=rows[1],
        )  # fmt: skip
        found[id(module)] = (layer, own)
    return found


def _rows(
    module: Any, config: Any, query: Any, key: Any, fused: str | None
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return which outputs of the projections are the queries and the keys of which head."""
    heads = int(config.num_attention_heads)
    width = getattr(module, "head_dim", None) or getattr(module, "attention_head_size", None)
    width = int(width or getattr(config, "head_dim", None) or config.hidden_size // heads)
    grouped = int(getattr(config, "num_key_value_heads", None) or heads)
    if fused is None:
        heads, grouped = _size(query) // width, _size(key) // width
    at = np.arange(width)
    if fused == _INTERLEAVED:
        first = 3 * width * np.arange(heads)[:, None]
        return first + at, first + width + at
    start = heads * width if fused else 0
    return (
        width * np.arange(heads)[:, None] + at,
        start + width * np.arange(grouped)[:, None] + at,
    )


def _block(modules: dict[str, Any], name: str) -> Any:
    """Return the innermost module around this one that is an element of a list."""
    parts = name.split(".")
    for k in range(len(parts), 0, -1):
        if type(modules[".".join(parts[: k - 1])]).__name__ == "ModuleList":
            return modules[".".join(parts[:k])]
    return modules[name]


def _part(module: Any, name: str) -> Any:
    return module._modules.get(name)


def _size(part: Any) -> int:
    return int(part.weight.shape[1 if _is_transposed(part) else 0])


def _is_projection(module: Any) -> bool:
    weight = getattr(module, "weight", None)
    named = type(module).__name__ in ("Linear", "Conv1D", "NonDynamicallyQuantizableLinear")
    return named and weight is not None and weight.ndim == 2


def _is_transposed(part: Any) -> bool:
    return type(part).__name__ == "Conv1D"  # GPT-2 keeps inputs × outputs


def _weights(result: Any) -> Any:
    """Return the attention weights among what a layer returns: (heads, n, n)."""
    for part in result if isinstance(result, tuple) else ():
        if hasattr(part, "ndim") and part.ndim == 4 and part.shape[-1] == part.shape[-2]:
            return part[0].float().numpy()
    return None


def distinct(layers: list[_Layer]) -> list[_Layer]:
    """Return layers once each, also if their module is called several times."""
    return list({id(layer.module): layer for layer in layers}.values())


def _limit(config: Any, most: int, tokenizer: Any) -> int:
    places = getattr(config, "max_position_embeddings", None) or most
    if getattr(config, "model_type", "") in _SHIFTED:
        places -= 2
    return min(most, places, int(min(tokenizer.model_max_length, 2**31)))
