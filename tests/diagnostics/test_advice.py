"""Advice on texts whose truth is known: what helps is found, and nothing else is claimed."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from attnlaw.data.user_arrays import as_sequences
from attnlaw.diagnostics import PoolingPipeline, advise_pooling
from attnlaw.diagnostics.pooling import advice as advice_module
from attnlaw.diagnostics.pooling import classification
from attnlaw.diagnostics.pooling import search as module
from attnlaw.diagnostics.pooling.criteria import (
    Corpus,
    Task,
    adjusted_mutual_information,
    spherical_k_means,
    unit_rows,
)
from attnlaw.diagnostics.pooling.search import MEAN, search, validate
from attnlaw.estimators.pooling import token_importance
from attnlaw.sweeps import corpus_statistics

V, D, L = 400, 16, 12


def topics(rng, n=600, n_classes=3, common=0.6, strength=1.0):
    """Draw texts of words of a topic, among frequent words with a large shared direction."""
    table = rng.standard_normal((V, D)).astype(np.float32)
    table[:10] += 6 * rng.standard_normal(D)  # frequent words
    y = rng.integers(n_classes, size=n)
    own = 10 + y[:, None] * 130 + rng.integers(130, size=(n, L))
    words = np.where(rng.random((n, L)) < common, rng.integers(10, size=(n, L)), own)
    for k in range(n_classes):
        table[10 + 130 * k : 140 + 130 * k, k] += strength
    return words, table, y


@pytest.fixture(scope="module")
def retrieval():
    tokens, table, y = topics(np.random.default_rng(0))
    return tokens, table, y, advise_pooling(tokens, table=table, labels=y, goal="retrieval")


def test_frequent_words_are_weighed_down_and_their_component_removed(retrieval):
    *_, advice = retrieval
    assert advice.best.token_weights in ("sif", "idf")
    assert advice.gain_interval[0] > 0
    assert advice.score - advice.mean_score == pytest.approx(advice.gain)
    assert advice.score_name in advice.verdict
    assert advice.tokens.n_types <= V
    assert advice.tokens.weighted_size > 3 * advice.tokens.effective_size


def test_the_gain_is_that_of_fresh_texts(retrieval):
    """A new draw of the same topics, pooled by the advice and voted on by the old texts."""
    tokens, table, y, advice = retrieval
    rng = np.random.default_rng(1)
    fresh_y = rng.integers(3, size=2000)
    own = 10 + fresh_y[:, None] * 130 + rng.integers(130, size=(2000, L))
    fresh = np.where(rng.random((2000, L)) < 0.6, rng.integers(10, size=(2000, L)), own)
    old = Task(goal="retrieval", groups=np.arange(600), labels=y, n_classes=3)
    new = Task(goal="retrieval", groups=np.arange(2000), labels=fresh_y, n_classes=3)
    right = {}
    pooling = advice.transformer(table)
    right["best"] = new.held_out(
        pooling.transform(fresh), None, old, pooling.transform(tokens), rng
    )
    mean = [table[t].mean(axis=1) for t in (fresh, tokens)]
    right["mean"] = new.held_out(mean[0], None, old, mean[1], rng)
    gain = np.nanmean(right["best"] - right["mean"])
    error = np.nanstd(right["best"] - right["mean"]) / np.sqrt(2000)
    low, high = advice.gain_interval
    assert low - 2 * error < gain < high + 2 * error
    assert gain > 0.05


@pytest.mark.parametrize("goal", ["classification", "centroid", "retrieval", "clustering"])
def test_noise_is_left_to_the_mean(goal):
    rng = np.random.default_rng(2)
    T = rng.standard_normal((200, 4, 6)).astype(np.float32)
    advice = advise_pooling(T, labels=rng.permutation(np.arange(200) % 2), goal=goal)
    assert advice.best == MEAN
    assert advice.gain_interval[0] <= 0
    assert "Token weights were not tried" in " ".join(advice.notes)


def test_choices_never_see_the_fold_they_are_scored_on(monkeypatch):
    """Neither a search nor what is fitted meets a text of the fold, or a copy of one."""
    tokens, table, y = topics(np.random.default_rng(3), n=120)
    twice = np.repeat(np.arange(120), 2)
    task = Task(goal="centroid", groups=twice, labels=y[twice], n_classes=3)
    corpus = Corpus(data=as_sequences(tokens[twice], table), ids=tokens[twice], task=task)
    seen, scored = [], []
    original, fitting = module.search, module.Found.fit

    def record(corpus, *arguments):
        seen.append([set(corpus.task.groups)])
        return original(corpus, *arguments)

    def record_fit(self, pipeline, corpus):
        seen[-1].append(set(corpus.task.groups))
        return fitting(self, pipeline, corpus)

    def held_out(self, X, other, train, X_train, rng):
        scored.append(set(self.groups))
        return np.ones(len(X))

    monkeypatch.setattr(module, "search", record)
    monkeypatch.setattr(module.Found, "fit", record_fit)
    monkeypatch.setattr(Task, "held_out", held_out)
    found = validate(corpus, 3, np.random.default_rng(4))
    assert len(found.best) == 240
    for sets, fold in zip(seen, scored[::2], strict=True):
        assert len(sets) == 3
        assert all(not fold & each and len(fold | each) == 120 for each in sets)


def test_pairs_are_scored_by_rank_correlation():
    rng = np.random.default_rng(6)
    tokens, table, y = topics(rng, n=1000)
    pairs = np.arange(1000).reshape(500, 2)
    scores = (y[pairs[:, 0]] == y[pairs[:, 1]]) + 0.1 * rng.standard_normal(500)
    advice = advise_pooling(tokens, table=table, pairs=pairs, scores=scores)
    assert advice.goal == "similarity"
    assert advice.score > advice.mean_score
    assert advice.best != MEAN


def test_pairs_that_hang_together_are_split_by_texts():
    rng = np.random.default_rng(6)
    tokens, table, y = topics(rng, n=100)
    pairs = rng.integers(100, size=(600, 2))  # a graph in one piece
    scores = (y[pairs[:, 0]] == y[pairs[:, 1]]) + 0.1 * rng.standard_normal(600)
    advice = advise_pooling(tokens, table=table, pairs=pairs, scores=scores, n_folds=2)
    assert advice.score > 0


def test_without_labels_halves_of_a_text_find_each_other():
    tokens, table, _ = topics(np.random.default_rng(7))
    advice = advise_pooling(tokens, table=table)
    assert advice.goal == "reliability"
    assert 0.5 < advice.mean_score < advice.score < 1
    assert advice.best.token_weights != "uniform" or advice.best.post != (None, None)


def test_more_labels_or_better_pooling_is_answered_in_a_sentence():
    rng = np.random.default_rng(8)
    T = rng.standard_normal((400, 6, 8))
    y = rng.integers(2, size=400)
    for sign in (1, -1):
        T[np.arange(400), rng.integers(6, size=400), 0] += 3.0 * y * sign
    advice = advise_pooling(T, labels=y)
    assert "Pool better first" in advice.verdict
    assert len(advice.curve.accuracies) == 4
    assert advice.curve.accuracies[0] > advice.mean_curve.accuracies[0]
    low, high = advice.curve.intervals[0]
    assert low < advice.score < high


def test_answers_do_not_depend_on_how_sequences_are_given():
    pandas = pytest.importorskip("pandas")
    tokens, table, y = topics(np.random.default_rng(9), n=120)
    first = advise_pooling(tokens, table=table, labels=y, goal="centroid")
    words = np.array(["a", "b", "c"])[y]
    for labels in (pandas.Series(words), pandas.Categorical(words), words.tolist()):
        again = advise_pooling(tokens.tolist(), table=table, labels=labels, goal="centroid")
        assert (again.best, again.score) == (first.best, first.score)
    embedded = advise_pooling(table[tokens], tokens=tokens, labels=y, goal="centroid")
    assert embedded.score == pytest.approx(first.score, abs=0.02)


def test_frame_and_dictionary_have_every_trial(retrieval):
    pytest.importorskip("pandas")
    *_, advice = retrieval
    frame = advice.to_frame()
    assert len(frame) == len(advice.trials) > 20
    assert frame["recommended"].sum() == 1
    document = advice.to_dict()
    assert document["best"]["name"] == advice.best.name
    assert "fitted" not in document


def test_page_is_one_file_with_everything_escaped(retrieval):
    pytest.importorskip("matplotlib")
    from attnlaw.plotting import pooling_page

    *_, advice = retrieval
    page = pooling_page(replace(advice, notes=("<script>alert(1)</script>",)))
    assert "<script" not in page
    assert "http" not in page
    assert advice.best.name in page
    assert page.count("<tr") > len(advice.trials)


def test_progress_rises_to_one():
    T = np.random.default_rng(14).standard_normal((60, 4, 6))
    shares = []
    advise_pooling(T, labels=np.arange(60) % 2, progress=shares.append)
    assert shares == sorted(set(shares))
    assert shares[-1] == 1


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"goal": "sorting", "labels": np.arange(60) % 2}, "goal must be one of 'classification'"),
        ({"goal": "retrieval"}, "goal must be left out without labels"),
        ({"labels": np.zeros(60)}, "2 to 200 classes"),
        ({"labels": np.zeros(5)}, "labels must be 60 numbers or words"),
        ({"labels": ["a", None] * 30}, "given for every sequence, got 'none in row 1'"),
        (
            {"labels": ["a", "b", float("nan")] * 20},
            "given for every sequence, got 'none in row 2'",
        ),
        ({"labels": np.arange(60) % 2, "pairs": [[0, 1]]}, "left out beside labels"),
        ({"pairs": np.zeros((3, 2), int), "scores": [1, 2, 3]}, "at least 12 pairs"),
        ({"pairs": np.full((20, 2), 99), "scores": np.arange(20)}, "from 0 to 59"),
        ({"pairs": np.zeros((20, 2), int), "scores": np.ones(20)}, "finite numbers that differ"),
        ({"tokens": np.zeros((60, 3), int)}, r"tokens must be whole numbers of shape \(60, 4\)"),
        ({"mask": np.full((60, 4), 2)}, "zeros and ones"),
    ],
)
def test_bad_arguments_are_named(settings, words):
    T = np.random.default_rng(9).standard_normal((60, 4, 6))
    with pytest.raises(ValueError, match=words):
        advise_pooling(T, **settings)


def test_adjusted_mutual_information_is_scikit_learns():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(10)
    for n_classes in (2, 5, 17):
        a = rng.integers(n_classes, size=300)
        b = np.where(rng.random(300) < 0.5, a, rng.integers(n_classes, size=300))
        wanted = metrics.adjusted_mutual_info_score(a, b)
        assert_allclose(adjusted_mutual_information(a, b), wanted, rtol=1e-10)


def test_errors_of_information_and_rank_correlation_are_those_of_new_draws():
    """The values whose mean is a score have the standard error that the score has."""
    from attnlaw.diagnostics.pooling.criteria import _information_values, _spearman_values

    rng = np.random.default_rng(11)
    for values in (_information_values, _spearman_values):
        scores, errors = [], []
        for _ in range(300):
            a = rng.integers(4, size=400)
            b = np.where(rng.random(400) < 0.4, a, rng.integers(4, size=400))
            if values is _spearman_values:
                a, b = a + rng.standard_normal(400), b + rng.standard_normal(400)
            each = values(a, b)
            scores.append(each.mean())
            errors.append(each.std(ddof=1) / np.sqrt(400))
        seen = np.std(scores, ddof=1)
        assert abs(np.mean(errors) / seen - 1) < 5 / np.sqrt(2 * 300)


def test_nearest_neighbours_and_centroids_leave_a_text_out():
    """With its own vector, or a copy of it, each text of pure noise would be right."""
    rng = np.random.default_rng(12)
    X = rng.standard_normal((150, 20)).astype(np.float32)
    y, twice = rng.integers(2, size=150), np.repeat(np.arange(150), 2)
    for goal in ("retrieval", "centroid"):
        task = Task(goal=goal, groups=twice, labels=y[twice], n_classes=2)
        if goal == "centroid":
            task = Task(goal=goal, groups=np.arange(150), labels=y, n_classes=2)
        rows = X[twice] if goal == "retrieval" else X
        share = task.values(rows, None, rng).mean()
        assert abs(share - 0.5) < 5 * np.sqrt(0.25 * (1 + 2 / np.pi) / 150)


def test_ridge_answers_are_those_of_products_where_there_are_fewer_texts():
    """Regression from sums over folds, from products of vectors, and by scikit-learn."""
    linear = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(19)
    X = (rng.standard_normal((60, 90)) * np.geomspace(9, 0.1, 90)).astype(np.float32)
    y = np.arange(60) % 3
    X[:, 3] += y
    folds = classification.Folds.of(y, 3, rng)
    ordered, Y = classification._fold_by_fold(X, folds)
    (dual, *_) = classification._fold_answers(ordered, Y, folds)
    rest = slice(folds.slices[0].stop, None)
    sums = classification._sums(ordered[rest], Y[rest])
    primal = classification._answers(sums, classification.RIDGES, ordered[folds.slices[0]])
    np.testing.assert_array_equal(dual, primal)
    assert len({tuple(row) for row in dual}) > 1  # λ matters
    unit = np.var(ordered[rest], axis=0).sum() / 90
    for ridge, answers in zip(classification.RIDGES, dual, strict=True):
        model = linear.Ridge(alpha=40 * ridge * unit).fit(ordered[rest], Y[rest])
        wanted = model.predict(ordered[folds.slices[0]]).argmax(axis=1)
        np.testing.assert_array_equal(answers, wanted)


def test_k_means_finds_separated_clusters():
    rng = np.random.default_rng(13)
    y = rng.integers(5, size=400)
    X = unit_rows(np.eye(5, 12)[y] * 5 + rng.standard_normal((400, 12))).astype(np.float32)
    assert adjusted_mutual_information(y, spherical_k_means(X, 5, rng)) > 0.9


def test_the_maximum_is_handed_down_to_parts():
    tokens, table, _ = topics(np.random.default_rng(16), n=40)
    tokens[:, 9:] = np.where(np.arange(40)[:, None] % 2, -1, tokens[:, 9:])  # some are shorter
    rows = np.array([3, 30, 5])
    for data in (as_sequences(tokens, table), as_sequences(table[tokens], mask=tokens >= 0)):
        wanted = data.take(rows).maximum
        assert_allclose(data.maximum[rows], wanted)
        assert_allclose(data.take(rows).maximum, wanted)
    assert_allclose(wanted[0], table[tokens[3, :9]].max(axis=0))


@pytest.mark.parametrize(("gain", "kept"), [(0.9, True), (1.1, False)])  # in standard errors
def test_a_search_keeps_to_the_mean_within_a_standard_error(gain, kept):
    rng, other = np.random.default_rng(17), PoolingPipeline(pooling="max")
    task = Task(goal="retrieval", groups=np.arange(200), labels=np.arange(200) % 2, n_classes=2)
    last = module._Round(Corpus(data=None, ids=None, task=task), None, 0)
    mean, difference = rng.standard_normal((2, 200))
    mean[::7] = np.nan  # not asked; the error is that of the 171 others
    asked = difference[~np.isnan(mean)]
    difference += gain * asked.std(ddof=1) / np.sqrt(171) - asked.mean()
    last.values = {MEAN: mean, other: mean + difference}
    last.scores = {p: float(np.nanmean(v)) for p, v in last.values.items()}
    assert (last.best() == MEAN) is kept


def test_most_searches_decide_and_of_equals_that_on_all_texts():
    from attnlaw.diagnostics.pooling.advice import _most_found

    a, b, c = (PoolingPipeline(pooling=name) for name in ("max", "last", "late"))
    trials = tuple(module.Trial(pipeline=p, score=0, gain=0, n_texts=9) for p in (a, b, MEAN))
    found = module.Found(best=a, trials=trials, learned=None, smoothing=None, n_reliable=0)

    def chosen(*pipelines):
        empty = np.empty(0)
        return module.Validation(
            chosen=pipelines, best=empty, mean=empty, groups=empty, folds=empty
        )

    assert _most_found(found, chosen(b, b, MEAN, c)) == b
    assert _most_found(found, chosen(b, MEAN, c, c)) == a  # c was not tried on all texts
    assert _most_found(found, chosen(MEAN, MEAN, a, b)) == a


@pytest.mark.slow
@pytest.mark.parametrize("n", [40, 150])
def test_noise_is_left_to_the_mean_at_the_level_claimed(n):
    """Other poolings are recommended in at most 5 % of 60 draws, as far as a binomial can tell."""
    goals, wrong = ("classification", "centroid", "retrieval", "clustering"), 0
    for i, rng in enumerate(np.random.default_rng(18).spawn(60)):
        T = rng.standard_normal((n, 5, 8)).astype(np.float32)
        y = rng.permutation(np.arange(n) % 2)
        wrong += advise_pooling(T, labels=y, goal=goals[i % 4], rng=i).best != MEAN
    assert wrong <= 3 + 2 * np.sqrt(3)


def test_the_interval_of_clusters_is_that_of_folds_where_it_is_wider():
    """Values hardly vary within a fold, but folds do: k-means started elsewhere."""
    from attnlaw.diagnostics.pooling.advice import _interval

    folds = np.repeat(np.arange(4), 50)
    values = np.array([0.0, 0.1, 0.2, 0.1])[folds] + np.tile([-0.01, 0.01], 100)
    held_out = module.Validation(
        chosen=(), best=values, mean=values, groups=np.arange(200), folds=folds
    )
    _, (low, high) = _interval(values, held_out, "clustering")
    assert_allclose((low + high) / 2, 0.1)
    assert_allclose((high - low) / 2, 3.182446 * np.sqrt(0.02 / 3) / 2, rtol=1e-5)  # t, 3 degrees
    _, (low, high) = _interval(values, held_out, "retrieval")
    assert (high - low) / 2 < 0.02


def test_few_texts_are_left_to_the_mean():
    """However large the gain: intervals of a handful of answers are not to be trusted."""
    rng = np.random.default_rng(20)
    T, y = rng.standard_normal((42, 4, 6)), np.arange(42) % 2
    T[:, 3, 0] += 20 * (y - 0.5)
    T[:, :3, 0] -= 6.67 * (y - 0.5)[:, None]  # nothing is left in the mean
    few = advise_pooling(T[:36], labels=y[:36])
    assert few.gain_interval[0] > 0
    assert few.best == MEAN
    assert "fewer than 40 cannot tell poolings apart" in few.notes[-1]
    assert advise_pooling(T, labels=y).best != MEAN


def test_names_say_every_choice():
    assert PoolingPipeline().name == "mean"
    assert PoolingPipeline(pooling="max", components_removed=0).name == "max, centred"
    full = PoolingPipeline(token_weights="sif", smoothing=1e-4, components_removed=3)
    assert full.name == "mean, sif a=0.0001, minus 3"
    assert PoolingPipeline(token_weights="idf", whitening=0.1).name == "mean, idf, whitened s=0.1"


def test_a_search_with_few_texts_tries_all_poolings():
    tokens, table, y = topics(np.random.default_rng(15), n=60)
    task = Task(goal="classification", groups=np.arange(60), labels=y, n_classes=3)
    corpus = Corpus(data=as_sequences(tokens, table), ids=tokens, task=task)
    found = search(corpus, np.random.default_rng(0))
    tried = {trial.pipeline.pooling for trial in found.trials}
    assert tried == {
        "mean", "max", "mean+max", "first", "last", "late", "causal", "learned", "trained"
    }  # fmt: skip
    assert {trial.pipeline.token_weights for trial in found.trials} == {"uniform", "sif", "idf"}
    assert any(0.5 / 60 < t.pipeline.smoothing < 10 / 60 for t in found.trials)  # 1/(N·SNR)


def test_tokens_are_counted_in_all_of_many_texts(tmp_path, monkeypatch):
    """400 of 2,000 texts are looked at; the token that only others hold is counted, too."""
    monkeypatch.setattr(advice_module, "EVALUATED_ON", 400)
    tokens, table, y = topics(np.random.default_rng(2), n=2000)
    np.save(tmp_path / "ids.npy", tokens)
    ids = np.load(tmp_path / "ids.npy", mmap_mode="r")
    whole = corpus_statistics(tokens, n_vocab=V)
    seen = []
    plain = module.fit_pooling
    monkeypatch.setattr(
        module, "fit_pooling", lambda *a, **k: seen.append(k.get("corpus")) or plain(*a, **k)
    )
    advice = advise_pooling(ids, table=table, labels=y, goal="centroid", n_folds=2)
    assert advice.n_texts == 2000
    assert advice.tokens.n_types == np.sum(whole.token_counts > 0)
    assert advice.tokens.effective_size == pytest.approx(1 / np.sum(whole.frequencies**2))
    assert "400 of 2000 texts were looked at, chosen at random." in advice.notes
    assert "Tokens were counted in 2000 texts." in advice.notes
    weighted = [found for found in seen if found is not None]
    assert weighted
    assert all(np.array_equal(f.token_counts, whole.token_counts) for f in weighted)
    few = advise_pooling(
        tokens[:100], table=table, labels=y[:100], goal="centroid", n_folds=2, corpus=whole
    )
    assert few.tokens.n_types == advice.tokens.n_types
    assert "Tokens were counted in 2000 texts." in few.notes
    bad = np.where(np.arange(2000)[:, None] == 1999, V, tokens)
    with pytest.raises(ValueError, match=f"hold ids below {V}, got {V} in row 1999"):
        advise_pooling(bad, table=table, labels=y)


@pytest.mark.parametrize("name", ["sif", "idf"])
def test_weights_of_a_corpus_are_those_of_its_sequences(name):
    tokens, *_ = topics(np.random.default_rng(3))
    mask = np.random.default_rng(4).random(tokens.shape) < 0.7
    mask[:, 0] = True
    whole = corpus_statistics(np.where(mask, tokens, -1), n_vocab=V)
    expected = token_importance(name, tokens, mask, V, smoothing=0.01)
    found = token_importance(name, tokens[:5], None, V, smoothing=0.01, corpus=whole)
    assert_allclose(found, expected)
    n = np.array([np.any((tokens == v) & mask, axis=1).sum() for v in range(V)])
    if name == "idf":
        assert_allclose(expected, 1 + np.log((1 + len(tokens)) / (1 + n)))
