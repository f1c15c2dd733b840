"""Attention of a local Hugging Face model on a text (extra `hf`): nothing is downloaded."""

from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from attnlaw._checks import count
from attnlaw._extras import require
from attnlaw.data.readers.entries import bad_file
from attnlaw.data.readers.tables import list_arrays
from attnlaw.diagnostics.heads.maps import AttentionMaps, attention_maps

__all__ = ["model_attention"]

_LEAST_TOKENS = 8


def model_attention(path: str | Path, text: str, *, max_tokens: int = 512) -> AttentionMaps:
    """Run a local model on a text, on the CPU, and return the attention of all heads.

    Parameters
    ----------
    path : str or Path
        A Hugging Face folder with config.json, a tokenizer and .safetensors weights (pickles are
        refused, and so is code that comes with a model); or a .gguf file.
    text : str
        What it reads.
    max_tokens : int
        The text is cut there, and where the model ends.

    Returns
    -------
    AttentionMaps
        With the head dimension and the words.
    """
    path, most = Path(path), count("max_tokens", max_tokens, at_least=_LEAST_TOKENS)
    list_arrays(path)  # one sentence about a bad file, before anything is imported
    folder, file = (path, {}) if path.is_dir() else (path.parent, {"gguf_file": path.name})
    if path.is_dir() and not (path / "config.json").is_file():
        raise bad_file(path, "hold a config.json", "none")
    if path.is_file() and path.suffix != ".gguf":
        raise bad_file(path, "be a Hugging Face folder or a .gguf file", f"a {path.suffix} file")
    torch: Any = require("torch", extra="hf", purpose="Running a model")
    transformers: Any = require("transformers", extra="hf", purpose="Running a model")

    with _quietly(transformers):
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(
                folder, local_files_only=True, **file
            )
            model = transformers.AutoModel.from_pretrained(
                folder,
                local_files_only=True,
                use_safetensors=True,
                attn_implementation="eager",  # the others do not return weights
                dtype=torch.float32,
                **file,
            )
        except ImportError:
            raise
        except Exception as error:  # transformers raises all kinds
            reason = str(error).strip().split("\n")[0][:200] or type(error).__name__
            raise bad_file(path, "be a model that transformers can load", reason) from None
        limit = getattr(model.config, "max_position_embeddings", None) or most
        ids = tokenizer(text, return_tensors="pt", truncation=True, max_length=min(most, limit))
        words = tokenizer.convert_ids_to_tokens(ids["input_ids"][0].tolist())
        if len(words) < _LEAST_TOKENS:
            found = f"{len(words)} tokens"
            raise ValueError(f"text must be at least {_LEAST_TOKENS} tokens long, got {found}.")
        weights, dimension = _run(torch, model.eval(), ids)
    if weights is None:
        raise bad_file(path, "be a model that returns attention weights", type(model).__name__)
    words = tuple(word.replace("Ġ", " ").replace("▁", " ") for word in words)
    return attention_maps(weights, head_dimension=dimension, tokens=words, source=str(path))


def _run(torch: Any, model: Any, ids: Any) -> tuple[Any, int | None]:
    """Return the weights of all layers and heads, and the width of a head."""
    with torch.no_grad():
        output = model(**ids, output_attentions=True)
    layers = getattr(output, "attentions", None) or getattr(output, "encoder_attentions", None)
    layers = [layer for layer in layers or () if layer is not None and layer.ndim == 4]
    if not layers or len({layer.shape for layer in layers}) > 1:
        return None, None
    config = model.config
    width = getattr(config, "head_dim", None)
    if width is None and hasattr(config, "hidden_size"):
        width = config.hidden_size // layers[0].shape[1]
    return np.stack([layer[0].numpy() for layer in layers]), width


@contextmanager
def _quietly(transformers: Any) -> Iterator[None]:
    """Keep a library that prints from printing."""
    import warnings

    logging = transformers.utils.logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings(), redirect_stderr(StringIO()):  # bars of its own, too
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
