"""Token weights on real text: the planted signal's best a, and what real labels say.

    python benchmarks/token_weights.py [--tables 4] [--part planted|labelled]

Token ids are those of the 20 newsgroups as WordLlama's tokenizer splits them, the first 64 of
each post (`pip install --no-deps -r requirements/examples.txt`). First a random table with a
planted signal: real frequencies and co-occurrence, c_v the sign of the log odds of computer
groups against the rest; overlap of the leading eigenvector with the signal beside `predict`, whose
α is measured. Then the real table with the real labels: accuracy of the nearest centroid, of the
nearest training post (retrieval) and of ridge regression on pooled posts.
"""

import argparse
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from attnlaw.data.examples import example_table, example_texts, example_tokenizer
from attnlaw.theory.token_noise import NoiseScales, token_sums
from attnlaw.theory.token_spikes import VocabularySpikes

LENGTH, DIMENSION = 64, 200
SMOOTHING = (np.inf, 1e-2, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6)


@dataclass(frozen=True)
class Corpus:
    """Posts as rows of token ids that occur, 0 … V − 1, their labels, and the ids themselves."""

    tokens: np.ndarray  # (N, LENGTH)
    labels: np.ndarray
    ids: np.ndarray


def read_corpus(table: str) -> Corpus:
    """Read the posts that have at least LENGTH tokens."""
    texts = example_texts("newsgroups")
    encoded = example_tokenizer(table).encode_batch(texts.texts, add_special_tokens=False)
    long = [i for i, e in enumerate(encoded) if len(e.ids) >= LENGTH]
    rows = np.array([encoded[i].ids[:LENGTH] for i in long])
    ids, tokens = np.unique(rows, return_inverse=True)
    return Corpus(tokens.reshape(rows.shape), np.array(texts.labels)[long], ids)


def weights(p: np.ndarray, a: float) -> np.ndarray:
    """Return importances of mean one."""
    g = np.ones(len(p)) if np.isinf(a) else 1 / (p + a)
    return g / (p @ g)


def pooled(corpus: Corpus, rows: np.ndarray, g: np.ndarray) -> csr_array:
    """Return the sparse matrix that pools a table into the posts of these rows."""
    tokens = corpus.tokens[rows]
    n = len(tokens)
    starts = np.arange(0, n * LENGTH + 1, LENGTH)
    shape = (n, len(corpus.ids))
    return csr_array((g[tokens].ravel() / LENGTH, tokens.ravel(), starts), shape=shape)


def planted(corpus: Corpus, n_tables: int) -> None:
    """Print overlaps with a planted signal, predicted and seen, and the best a beside a*."""
    V = len(corpus.ids)
    p = np.bincount(corpus.tokens.ravel(), minlength=V) / corpus.tokens.size
    computer = np.char.startswith(corpus.labels, "comp")
    counts = [np.bincount(corpus.tokens[m].ravel(), minlength=V) for m in (computer, ~computer)]
    shares = [(n + 0.5) / n.sum() for n in counts]
    c = np.where(shares[0] > shares[1], 1.0, -1.0)  # sign of the log odds
    print(f"{len(corpus.tokens)} posts, V = {V}, effective {1 / np.sum(p**2):.0f}")
    for N in (1000, 8000):
        rng = np.random.default_rng(N)
        means, stars = [], []
        for a in SMOOTHING:
            g = weights(p, a)
            seen = []
            for _ in range(n_tables):
                rows = rng.choice(len(corpus.tokens), size=N, replace=False)
                M = pooled(corpus, rows, g)
                X = M @ rng.standard_normal((V, DIMENSION))
                X[:, 0] += M @ c
                X -= X.mean(axis=0)
                _, vectors = np.linalg.eigh(X.T @ X / N)
                seen.append(np.max(vectors[0, -8:] ** 2))
            t = pooled(corpus, np.arange(len(corpus.tokens)), g) @ c
            square = float(p @ g**2)
            snr = max(float(t.var()) * LENGTH - (square - 1), 1.0)  # α/κ, less κ Var g
            spikes = VocabularySpikes(
                token_sums(p, g, np.zeros(V)), NoiseScales(np.ones(1), np.ones(1)), snr
            )
            found = spikes.spike(*(np.asarray(x) for x in (1.0, DIMENSION / V, DIMENSION / N)))
            mean, error = np.mean(seen), np.std(seen, ddof=1) / np.sqrt(n_tables)
            star = 1 / (snr * N)
            print(
                f"N = {N}  a = {a:.0e}  predicted {float(found.squared_overlap):.3f}  "
                f"seen {mean:.3f} ± {error:.3f}  α/κ = {snr:.1f}, a* = {star:.1e}"
            )
            means.append(mean)
            stars.append(star)
        k = int(np.clip(np.argmax(means), 2, len(means) - 2))
        bend, tilt, _ = np.polyfit(np.log(SMOOTHING[k - 1 : k + 2]), means[k - 1 : k + 2], 2)
        vertex = np.exp(-tilt / (2 * bend))
        print(f"N = {N}: best a by a parabola {vertex:.1e}, a* with its α/κ {stars[k]:.1e}")


def labelled(corpus: Corpus, name: str) -> None:
    """Print accuracies on the real table with the real labels."""
    table = np.asarray(example_table(name).vectors, dtype=np.float64)[corpus.ids]
    table -= table.mean(axis=0)
    V = len(corpus.ids)
    p = np.bincount(corpus.tokens.ravel(), minlength=V) / corpus.tokens.size
    _, labels = np.unique(corpus.labels, return_inverse=True)
    order = np.random.default_rng(0).permutation(len(labels))
    for n_train in (400, 6400):
        train, test = order[:n_train], order[-3000:]
        for a in (np.inf, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4):
            g = weights(p, a)
            X, Y = (np.asarray(pooled(corpus, rows, g) @ table) for rows in (train, test))
            mean = X.mean(axis=0)
            X, Y = X - mean, Y - mean
            centroids = np.stack([X[labels[train] == k].mean(axis=0) for k in np.unique(labels)])
            unit = centroids / np.linalg.norm(centroids, axis=1, keepdims=True)
            nearest = np.mean(np.argmax(Y @ unit.T, axis=1) == labels[test])
            near, far = (Z / np.linalg.norm(Z, axis=1, keepdims=True) for Z in (X, Y))
            found = labels[train][np.argmax(far @ near.T, axis=1)]
            retrieved = np.mean(found == labels[test])
            targets = np.eye(labels.max() + 1)[labels[train]]
            gram = X.T @ X / n_train
            ridge = 0.0
            for penalty in np.geomspace(1e-4, 1, 5) * np.trace(gram) / len(gram):
                b = np.linalg.solve(gram + penalty * np.eye(len(gram)), X.T @ targets / n_train)
                ridge = max(ridge, float(np.mean(np.argmax(Y @ b, axis=1) == labels[test])))
            print(
                f"{name}  N = {n_train}  a = {a:.0e}  nearest centroid {nearest:.3f}  "
                f"nearest post {retrieved:.3f}  ridge (best penalty) {ridge:.3f}",
                flush=True,
            )


def main() -> None:
    """Run both."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=4, help="random tables per setting")
    parser.add_argument("--part", choices=["planted", "labelled"], help="one of the two only")
    arguments = parser.parse_args()
    corpus = read_corpus("wordllama")
    if arguments.part != "labelled":
        planted(corpus, arguments.tables)
    if arguments.part != "planted":
        labelled(corpus, "wordllama")
        labelled(read_corpus("smollm2"), "smollm2")


if __name__ == "__main__":
    main()
