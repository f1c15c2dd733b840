"""Heads of a model beside untrained ones: tests, decomposition, effect on the output."""

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from attnlaw._checks import Floats, count, invalid_argument, scalar
from attnlaw._machine import one_blas_thread, require
from attnlaw.data.readers.entries import bad_file
from attnlaw.data.readers.tables import list_arrays
from attnlaw.diagnostics.heads.decomposition import Parts, Places, decompose
from attnlaw.diagnostics.heads.effect import head_effects
from attnlaw.diagnostics.heads.findings import (
    HeadsReport,
    Probe,
    Verdicts,
    head_finding,
    head_sentence,
    log_statistics,
    report_sentence,
)
from attnlaw.diagnostics.heads.maps import AttentionMaps, attention_maps
from attnlaw.diagnostics.heads.models import LayerCall, LocalModel, Text, wrap_model

__all__ = ["inspect_model", "load_model", "model_attention"]

_PROBES, _PROBE_LENGTH = 4, 64  # sequences of random tokens, repeated


def inspect_model(
    model: str | Path | LocalModel,
    texts: str | Sequence[str | Text],
    *,
    n_draws: int = 19,
    level: float = 0.01,
    max_tokens: int = 256,
    effect: bool = True,
    rng: int = 0,
    progress: Callable[[float], None] | None = None,
) -> HeadsReport:
    """Compare each head of a model with its untrained counterparts on the same texts.

    Parameters
    ----------
    model : str, Path or LocalModel
        A Hugging Face folder with .safetensors weights, a .gguf file, or what `load_model` gives.
    texts : str or sequence of str
        Input of the model; also what `LocalModel.read` or `LocalModel.read_pieces` return.
    n_draws : int
        Number of untrained counterparts of each head.
    level : float
        Probability of calling an untrained head anything else.
    max_tokens : int
        Longest text in tokens; longer ones are cut, also at the context length of the model.
    effect : bool
        Whether to estimate the effect of each head on the output (`head_effects`).
    rng : int
        Seed of the draws and of the random tokens.
    progress : callable, optional
        Called with the share of the work that is done.

    Returns
    -------
    HeadsReport
        A `HeadFinding` for each head.

    Notes
    -----
    An untrained counterpart has W_Q and W_K drawn anew, Gaussian with the Frobenius norms of the
    head's and without biases; everything else is the same: the actual inputs of its layer, mask,
    rotation, grouped queries. Two-sided t-tests compare the logarithms of `STATISTICS`, means over
    texts, with the draws, and so the prefix-matching score: on 64 random tokens that are repeated,
    the mean attention from a token to the one that followed its copy. m tests share the level; the
    p-value of a head is m times the smallest. The verdict is

    - *induction* if the prefix-matching score is at least .3 and twice that of any draw;
    - else *untrained-like* if the p-value is not below the level;
    - else *uniform* if log(allowed) − entropy is below .1 nats;
    - else *quieter* if no part is significantly above the null's;
    - else *sink* (common row), *positional*, *duplicate-token* or *induction* (repetition) or
      *content*, whichever holds half of the significant excess over the null, or *mixed*. A
      common row counts as content if no token gets a fifth of the attention.
    """
    n_draws = count("n_draws", n_draws, at_least=5)
    alpha = scalar("level", level, above=0, below=1)
    most = count("max_tokens", max_tokens, at_least=8)
    given = [texts] if isinstance(texts, str) else list(texts)
    if not given:
        raise invalid_argument("texts", "at least one text", given)
    lab = model if isinstance(model, LocalModel) else load_model(model)
    read = [lab.read(text, most) if isinstance(text, str) else text for text in given]
    steps = _Steps(progress, len(read) + 1, 0.8 if effect else 1.0)
    with one_blas_thread():
        captures = [lab.capture(text) for text in read]
        seen, null = [], []
        for text, calls in zip(read, captures, strict=True):
            one = [_compare(lab, text, call, n_draws, rng) for call in steps.over(calls)]
            seen.append(_stack([observed for observed, _ in one]))
            null.append(_stack([drawn for _, drawn in one], axis=1))
        probe = _probe(lab, n_draws, rng, steps)
        effects = (
            head_effects(lab, read, captures, rng=rng, progress=steps.rest) if effect else None
        )
    tests = [log_statistics(parts) for parts in seen], [log_statistics(parts) for parts in null]
    verdicts = Verdicts(alpha, probe)
    sinks = [parts.most for parts in seen]
    overall = verdicts.of(*(np.mean(x, axis=0) for x in (*tests, sinks)))
    single = [verdicts.of(x, y, z) for x, y, z in zip(*tests, sinks, strict=True)]
    shape = (lab.n_layers, lab.n_heads)
    findings = []
    for k, (layer, head) in enumerate(np.ndindex(shape)):
        agreement = np.mean([one[k].word == overall[k].word for one in single])
        finding = head_finding((layer, head), overall[k], k, seen, null, read[0].words, lab.causal)
        extra: dict[str, Any] = {"agreement": float(agreement)}
        if probe is not None:
            extra["prefix_matching"] = float(probe.seen[k])
            drawn = np.maximum(probe.null[:, k], 1e-8)  # 0 beyond a window
            extra["null_prefix_matching"] = float(np.exp(np.log(drawn).mean()))
        if effects is not None:
            extra["effect"] = float(effects.effect[layer, head])
            extra["output_norm"] = float(effects.output_norm[layer, head])
            extra["output_change"] = float(effects.output_change[layer, head])
        finding = replace(finding, **extra)
        findings.append(replace(finding, sentence=head_sentence(finding)))
    return HeadsReport(
        source=lab.source,
        n_layers=lab.n_layers,
        n_heads=lab.n_heads,
        n_tokens=tuple(len(text.ids) for text in read),
        head_dimension=lab.head_dimension,
        head_dimension_from="known",
        null="the same inputs, with W_Q and W_K redrawn",
        n_draws=n_draws,
        level=alpha,
        effect_unit=lab.effect_unit if effect else None,
        tokens=read[0].words,
        layer_ablations=None,
        heads=tuple(findings),
        notes=(),
        verdict=report_sentence(tuple(findings), alpha),
    )


def _compare(
    lab: LocalModel, text: Text, call: LayerCall, n_draws: int, seed: int
) -> tuple[Parts, Parts]:
    """Split the maps of one layer, and those of its untrained counterparts (draws, heads)."""
    places = _places(lab, text, call.weights)
    drawn = [lab.redrawn(call, _generator(seed, call.layer, k)) for k in range(n_draws)]
    null = decompose(np.concatenate(drawn), places)
    return decompose(call.weights, places), Parts(*(x.reshape(n_draws, -1) for x in null))


def _generator(seed: int, layer: int, draw: int) -> np.random.Generator:
    """Return the source of one draw, the same for each text."""
    return np.random.default_rng([seed, layer, draw])


def _places(lab: LocalModel, text: Text, weights: Floats) -> Places:
    """Read the mask off the maps: later tokens, and a window of earlier ones."""
    n = len(text.ids)
    reach = np.flatnonzero(np.any(weights > 0, axis=0)[-1])
    window = n - int(reach[0])
    return Places.of(n, causal=lab.causal, ids=text.ids, window=window if window < n else None)


def _probe(lab: LocalModel, n_draws: int, seed: int, steps: "_Steps") -> Probe | None:
    """Prefix-matching scores on random tokens that are repeated, of heads and counterparts.

    For heads the mean over several sequences, for counterparts the score on the first, which
    varies more. None for a model whose context is too short.
    """
    length = min(_PROBE_LENGTH, (lab.longest - 2) // 2)
    if length < 8:
        return None
    rng = np.random.default_rng([seed, 1])
    texts = [lab.repeated_text(length, rng) for _ in range(_PROBES)]
    captures = [lab.capture(text) for text, _ in texts]
    start = texts[0][1]
    seen, null = [], []
    for layer in steps.over(range(lab.n_layers)):
        scores = [_prefix(calls[layer].weights, start, length) for calls in captures]
        seen.append(np.mean(scores, axis=0))
        call = captures[0][layer]
        drawn = (lab.redrawn(call, _generator(seed, layer, k)) for k in range(n_draws))
        null.append([_prefix(weights, start, length) for weights in drawn])
    return Probe(np.concatenate(seen), np.concatenate(null, axis=1))


def _prefix(weights: Floats, start: int, length: int) -> Floats:
    """Mean attention from the second copy of a token to what followed the first."""
    i = start + length + np.arange(length - 1)
    return np.asarray(weights[:, i, i - length + 1].mean(axis=1, dtype=np.float64))


def _stack(parts: Sequence[Parts], axis: int = 0) -> Parts:
    return Parts(*(np.concatenate(x, axis=axis) for x in zip(*parts, strict=True)))


def load_model(path: str | Path) -> LocalModel:
    """Load a local Hugging Face folder or .gguf file, on the CPU.

    Pickles and code that comes with a model are refused; nothing is downloaded. A model saved with
    a language-model head is loaded with it.
    """
    path = Path(path)
    list_arrays(path)  # one sentence about a bad file, before anything is imported
    folder, file = (path, {}) if path.is_dir() else (path.parent, {"gguf_file": path.name})
    if path.is_dir() and not (path / "config.json").is_file():
        raise bad_file(path, "hold a config.json", "none")
    if path.is_file() and path.suffix != ".gguf":
        raise bad_file(path, "be a Hugging Face folder or a .gguf file", f"a {path.suffix} file")
    torch: Any = require("torch", extra="hf", purpose="Running a model")
    transformers: Any = require("transformers", extra="hf", purpose="Running a model")
    options = {
        "local_files_only": True,
        "use_safetensors": True,
        "attn_implementation": "eager",  # the others do not return weights
        "dtype": torch.float32,
        **file,
    }
    with _quietly(transformers), _parsed_once(bool(file)):
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(
                folder, local_files_only=True, **file
            )
            config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True, **file)
            model = None
            for kind in _kinds(transformers, config, bool(file)):
                model, found = kind.from_pretrained(folder, output_loading_info=True, **options)
                if not found["missing_keys"]:
                    break
            else:
                model = transformers.AutoModel.from_pretrained(folder, **options)
        except ImportError:
            raise
        except Exception as error:  # transformers raises all kinds
            first = str(error).strip().split("\n")[0].split(". ")[0].rstrip(".")
            reason = first[:200] or type(error).__name__
            raise bad_file(path, "be a model that transformers can load", reason) from None
        if len(tokenizer) <= len(tokenizer.all_special_ids):
            raise bad_file(path, "hold a tokenizer", "none")
        return wrap_model(model.eval(), tokenizer, str(path))


def model_attention(
    model: str | Path | LocalModel, text: str | Text, *, max_tokens: int = 512
) -> AttentionMaps:
    """Run a local model on a text, on the CPU, and return the attention of all heads.

    Parameters
    ----------
    model : str, Path or LocalModel
        A Hugging Face folder with config.json, a tokenizer and .safetensors weights (pickles are
        refused, and so is code that comes with a model), a .gguf file, or what `load_model` gives.
    text : str
        Input of the model.
    max_tokens : int
        Longest text in tokens; a longer one is cut, also at the context length of the model.

    Returns
    -------
    AttentionMaps
        With the head dimension and the words.
    """
    most = count("max_tokens", max_tokens, at_least=8)
    lab = model if isinstance(model, LocalModel) else load_model(model)
    read = lab.read(text, most) if isinstance(text, str) else text
    weights = np.stack([call.weights for call in lab.capture(read)])
    return attention_maps(
        weights, head_dimension=lab.head_dimension, tokens=read.words, source=lab.source
    )


def _kinds(transformers: Any, config: Any, is_gguf: bool) -> Iterator[Any]:
    """Iterate over the classes with which a language model may be loaded."""
    names = " ".join(getattr(config, "architectures", None) or ())
    if is_gguf or "CausalLM" in names or "LMHead" in names:
        yield transformers.AutoModelForCausalLM
    elif "MaskedLM" in names or "ForPreTraining" in names:
        yield transformers.AutoModelForMaskedLM


@contextmanager
def _quietly(transformers: Any) -> Iterator[None]:
    """Suppress the output of a library that prints."""
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


@contextmanager
def _parsed_once(is_gguf: bool) -> Iterator[None]:
    """Parse a .gguf file once: transformers does so for tokenizer, configuration and weights."""
    gguf: Any = importlib.import_module("gguf") if is_gguf and find_spec("gguf") else None
    names = ("GGUFReader", "get_tensor_name_map")
    kept = {name: getattr(gguf, name) for name in names if hasattr(gguf, name)}
    try:
        for name, call in kept.items():
            setattr(gguf, name, cache(call))
        yield
    finally:
        for name, call in kept.items():
            setattr(gguf, name, call)


class _Steps:
    """Progress over several loops of about the same length."""

    def __init__(self, tell: Callable[[float], None] | None, n_loops: int, until: float) -> None:
        self.tell, self.loops, self.until, self.done = tell, n_loops, until, 0

    def over(self, items: Any) -> Any:
        """Iterate over items, reporting the share done after each."""
        for k, item in enumerate(items, start=1):
            yield item
            if self.tell is not None:
                self.tell(self.until * (self.done + k / len(items)) / self.loops)
        self.done += 1

    def rest(self, share: float) -> None:
        """Report the progress after the loops."""
        if self.tell is not None:
            self.tell(self.until + (1 - self.until) * share)
