"""Public calls with extreme arguments, drawn at random, and what they may answer.

A call answers with finite numbers, or refuses with one sentence (ValueError or TypeError), or
gives up with one (ArithmeticError, RuntimeError), in half a minute of processor time. Anything
else is a finding: a traceback of a library below, a NaN, a wait. By hand, for as long as you like:

    python tests/support/extreme_calls.py SECONDS [SEED]
"""

import collections
import dataclasses
import faulthandler
import re
import signal
import sys
import time
import traceback
import warnings

import numpy as np

import attnlaw as al
from attnlaw import laws, theory

SECONDS = 30  # of processor time that a call on a few numbers may take

NUMBERS = [
    0.0, -0.0, 5e-324, 1e-310, 1e-300, 1e-200, 1e-150, 1e-30, 1e-12, 1e-9, 0.3, 0.5, 0.999999999,
    1.0, 1 + 1e-9, 1.5, 2.0, 20.0, 1e3, 1e8, 1e12, 1e30, 1e150, 1e200, 1e300, 8.9e307, 1.7e308,
    float("inf"), float("nan"), -1.0, -1e-300, -1e300,
]  # fmt: skip
SIZES = [
    0,
    1,
    2,
    3,
    5,
    7,
    20,
    33,
    64,
    300,
    10**6,
    2**31,
    2**63,
    10**30,
    -1,
    1.5,
    2.0,
    float("nan"),
]
ODD = [
    None, "x", "", b"1", True, [], [1.0], [[1.0]], {}, 1j, object(), np.array([0.5, 1.0]),
    np.array(0.5), np.array([]), np.array(["a"]), np.ma.masked_array([0.5, 9.0], [False, True]),
    np.ma.masked_array(0.5, True), 10**400, np.float32(0.5), np.array([[np.nan]]),
]  # fmt: skip
MAY_BE_NAN = {"signal_overlaps", "misfit"}  # without the snr, without a law: documented
TAME = [0.3, 0.5, 1.0, 2.0, 20.0]


def number(rng):
    p = rng.random()
    if p < 0.45:
        return TAME[rng.integers(len(TAME))]
    if p < 0.9:
        return NUMBERS[rng.integers(len(NUMBERS))]
    return ODD[rng.integers(len(ODD))]


def size(rng):
    p = rng.random()
    if p < 0.5:
        return int(rng.integers(2, 12))
    return SIZES[rng.integers(len(SIZES))] if p < 0.92 else ODD[rng.integers(len(ODD))]


def dimension(rng):
    """A size of matrices to draw: one in the millions may take as long as it needs."""
    d = size(rng)
    return 300 if isinstance(d, int | float) and 300 < d < 1e13 else d


def numbers(rng, n):
    p = rng.random()
    if p < 0.1:
        return ODD[rng.integers(len(ODD))]
    values = rng.random(n)
    if p < 0.6:
        values[rng.integers(n)] = NUMBERS[rng.integers(len(NUMBERS))]
    elif p < 0.8:
        values = values * NUMBERS[rng.integers(len(NUMBERS))]
    return np.ma.masked_array(values, rng.random(n) < 0.3) if p > 0.95 else values


def correlation(rng, n):
    p = rng.random()
    if p < 0.6:
        return al.prefix_correlation(n, int(rng.integers(1, n + 1)))
    if p < 0.8:
        return al.autoregressive_correlation(n, float(rng.uniform(0, 0.99)))
    return numbers(rng, n) if p < 0.85 else np.full((n, n), NUMBERS[rng.integers(len(NUMBERS))])


def sequences_model(rng):
    n = int(rng.integers(2, 6))
    weights = ["mean", "causal", "optimal", "last", numbers(rng, n)][rng.integers(5)]
    return al.PooledSequences(
        vocab_ratio=number(rng), sample_ratio=number(rng), signal_norm=number(rng),
        correlation=correlation(rng, n), weights=weights,
        sampling=["token", "gaussian"][rng.integers(2)], centred=bool(rng.integers(2)),
    )  # fmt: skip


def head_model(rng):
    return al.SelfAttention(
        n_tokens=size(rng), head_dimension=size(rng), inverse_temperature=number(rng),
        causal=bool(rng.integers(2)), n_heads=1 if rng.random() < 0.7 else size(rng),
    )  # fmt: skip


def classes_model(rng):
    n = int(rng.integers(2, 5))
    means = rng.standard_normal((int(rng.integers(1, 4)), 3)) * float(rng.choice(TAME))
    if rng.random() < 0.3:
        means[0, 0] = NUMBERS[rng.integers(len(NUMBERS))]
    return al.PooledClasses(
        vocab_ratio=number(rng), sample_ratio=number(rng), class_means=means,
        correlation=correlation(rng, n), weights="mean",
    )  # fmt: skip


def mixture_model(rng):
    lengths = [int(rng.integers(2, 5)) for _ in range(2)]
    return al.SequenceMixture(
        vocab_ratio=number(rng), sample_ratio=number(rng), signal_norm=number(rng),
        correlations=[correlation(rng, n) for n in lengths],
        weights=[numbers(rng, n) for n in lengths], shares=numbers(rng, 2),
    )  # fmt: skip


def query_model(rng):
    return al.QueryAttention(
        n_tokens=size(rng), informative_tokens=size(rng), dimension=size(rng), n_samples=size(rng),
        length=size(rng), informative_share=number(rng), signal_norm=number(rng),
        marker_norm=number(rng), query_overlap=number(rng), inverse_temperature=number(rng),
    )  # fmt: skip


def usable_query_model(rng):
    """One of sizes that go together, and so of a model that is mostly accepted."""
    V = int(rng.choice([4, 6, 20, 64, 300]))
    return al.QueryAttention(
        n_tokens=V, informative_tokens=2 * int(rng.integers(1, V // 2)),
        dimension=int(rng.choice([3, 5, 20, 100])), n_samples=int(rng.choice([2, 5, 64, 300])),
        length=int(rng.choice([2, 3, 20, 100])), signal_norm=number(rng), marker_norm=number(rng),
        informative_share=rng.choice([0.1, 0.5, 1 - 1e-9, 1e-12, 1e-29, 5e-324]),
        query_overlap=rng.choice([0.0, 1e-300, 0.3, 1.0]), inverse_temperature=number(rng),
        scoring=["exponential", "softmax", "sigmoid"][rng.integers(3)],
    )  # fmt: skip


def query_gains(rng):
    kind = rng.integers(5)
    if kind == 0:
        return theory.exponential_gain(number(rng), number(rng), number(rng))
    if kind == 1:
        return theory.random_attention_gains(
            correlation(rng, 4), number(rng), causal=bool(rng.integers(2))
        )
    if kind == 2:
        return theory.learned_query_overlap(usable_query_model(rng))
    gain = theory.best_inverse_temperature if kind == 3 else theory.posterior_gain
    return gain(number(rng), number(rng))


def plain_law(rng):
    kind = rng.integers(5)
    if kind == 0:
        return laws.MarchenkoPastur(number(rng))
    if kind == 1:
        return laws.Semicircle(number(rng))
    if kind == 2:
        n = int(rng.integers(1, 5))
        return laws.Discrete(numbers(rng, n), None if rng.random() < 0.5 else numbers(rng, n))
    if kind == 3:
        return number(rng) * laws.MarchenkoPastur(number(rng))
    left, right = laws.MarchenkoPastur(number(rng)), laws.MarchenkoPastur(number(rng))
    return left @ right if rng.random() < 0.5 else left + right


def ask_law(rng):
    law = plain_law(rng)
    verb = ["density", "cdf", "quantile", "support", "atoms", "stieltjes", "sample", "moment"]
    name = verb[rng.integers(len(verb))]
    if name in ("support", "atoms"):
        return getattr(law, name)
    if name == "sample":
        return law.sample(size(rng), rng=0)
    if name == "moment":
        return law.moment(size(rng)) if hasattr(law, "moment") else law.mean
    if name == "cdf":
        x = np.sort(np.concatenate([rng.uniform(-1, 5, 50), rng.choice(NUMBERS, 3)]))
        x = x[np.isfinite(x)]
        values = np.asarray(law.cdf(x))
        assert (np.diff(values) >= 0).all(), "the cdf falls"
        assert values.min() >= 0
        assert values.max() <= 1 + 1e-12
        return values
    return getattr(law, name)(number(rng))


CALLS = {
    "predict": lambda rng: al.predict(sequences_model(rng)),
    "thresholds": lambda rng: al.thresholds(sequences_model(rng)),
    "plan": lambda rng: al.plan(sequences_model(rng), number(rng)),
    "validity": lambda rng: al.validity(sequences_model(rng)),
    "law": lambda rng: al.law(sequences_model(rng)).support,
    "predict_accuracy": lambda rng: al.predict_accuracy(sequences_model(rng), number(rng)),
    "predict head": lambda rng: al.predict(head_model(rng)),
    "validity head": lambda rng: al.validity(head_model(rng)),
    "law head": lambda rng: al.law(head_model(rng)).moments(2),
    "predict classes": lambda rng: al.predict(classes_model(rng)),
    "predict mixture": lambda rng: al.predict(mixture_model(rng)),
    "thresholds mixture": lambda rng: al.thresholds(mixture_model(rng)),
    "predict query": lambda rng: al.predict(query_model(rng)),
    "simulate": lambda rng: al.simulate(sequences_model(rng), dimension(rng), 1, rng=0),
    "simulate query": lambda rng: al.simulate(query_model(rng), None, 1, rng=0),
    "simulate_accuracy": lambda rng: al.simulate_accuracy(
        sequences_model(rng), dimension(rng), 1, rng=0, ridge=number(rng), n_test=50
    ),
    "ask law": ask_law,
    "squared_overlap": lambda rng: al.squared_overlap(
        signal_norm=number(rng), vocab_ratio=number(rng), sample_ratio=number(rng), snr=number(rng)
    ),
    "prefix": lambda rng: al.prefix_correlation(size(rng), size(rng), number(rng)),
    "autoregressive": lambda rng: al.autoregressive_correlation(size(rng), number(rng)),
    "spiked": lambda rng: al.spiked_correlation(number(rng), numbers(rng, 4)),
    "weights": lambda rng: [al.causal_weights, al.mean_weights, al.last_token_weights][
        rng.integers(3)
    ](size(rng)),
    "optimal_weights": lambda rng: al.optimal_weights(correlation(rng, 4)),
    "zipf": lambda rng: al.Vocabulary.zipf(size(rng), number(rng)),
    "from_tokens": lambda rng: al.Vocabulary.from_tokens(numbers(rng, 6)),
    "effective_vocabulary": lambda rng: al.effective_vocabulary(numbers(rng, 5), numbers(rng, 5)),
    "pool": lambda rng: al.pool_sequences(
        numbers(rng, 24).reshape(2, 4, 3) * 1.0, numbers(rng, 4)
    ),
    "pooled_covariance": lambda rng: al.pooled_covariance(
        np.asanyarray(numbers(rng, 24)).reshape(2, 4, 3), numbers(rng, 4)
    ),
    "token_covariance": lambda rng: al.token_covariance(
        np.asanyarray(numbers(rng, 8)).reshape(2, 4), rng.random((3, 5)), numbers(rng, 4)
    ),
    "learn": lambda rng: al.learn_pooling_weights(
        rng.standard_normal((12, 3, 4)) * np.asanyarray(numbers(rng, 4)), confidence=number(rng)
    ),
    "outlier_test": lambda rng: al.outlier_test(
        numbers(rng, 30), n_samples=size(rng), level=number(rng)
    ),
    "components": lambda rng: al.signal_components(
        rng.standard_normal((40, 6)) * np.asanyarray(numbers(rng, 6)), level=number(rng)
    ),
    "reliable": lambda rng: al.reliable_components(
        rng.standard_normal((40, 6)) * np.asanyarray(numbers(rng, 6)), threshold=number(rng)
    ),
    "ks": lambda rng: al.ks_distance(numbers(rng, 9), laws.MarchenkoPastur(0.5)),
    "query gains": lambda rng: query_gains(rng),
    "predict odd query": lambda rng: al.predict(usable_query_model(rng)),
    "simulate odd query": lambda rng: al.simulate(usable_query_model(rng), None, 1, rng=0),
}


class TooLong(BaseException):
    pass


def _stop(*_):
    raise TooLong


def has_nan(answer, depth=0):
    """Whether a number of an answer is NaN."""
    if depth > 4 or answer is None or isinstance(answer, str | bool | int):
        return False
    if isinstance(answer, float | np.floating):
        return bool(np.isnan(answer))
    if isinstance(answer, np.ndarray):
        return answer.dtype.kind in "fc" and bool(np.isnan(answer).any())
    if isinstance(answer, list | tuple):
        return any(has_nan(part, depth + 1) for part in answer)
    if isinstance(answer, dict):
        return any(has_nan(part, depth + 1) for part in answer.values())
    if dataclasses.is_dataclass(answer):
        names = [f.name for f in dataclasses.fields(answer) if f.name not in MAY_BE_NAN]
        return any(has_nan(getattr(answer, name), depth + 1) for name in names)
    return False


def finding(name, seed):
    """Make one call; return what is wrong with its answer, or None."""
    rng = np.random.default_rng(seed)
    signal.signal(signal.SIGVTALRM, _stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    begun = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", al.RegimeWarning)
            warnings.simplefilter("error", RuntimeWarning)  # of NumPy: something overflowed
            answer = CALLS[name](rng)
    except TooLong:
        return f"takes more than {SECONDS} s"
    except AssertionError as error:
        return f"AssertionError {error}"
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        if not any("src/attnlaw" in frame.filename for frame in frames):
            return None  # the argument itself could not be made
        sentence = str(error)
        told = (ValueError, TypeError, ArithmeticError, RuntimeError, ImportError)
        words = r"\b(must|cannot|did not|has no|no such|is not installed)\b"
        if isinstance(error, told) and re.search(words, sentence) and "\n" not in sentence:
            return None
        place = next(f for f in reversed(frames) if "src/attnlaw" in f.filename)
        where = f"{place.filename.split('attnlaw/')[-1]}:{place.lineno}"
        return f"{type(error).__name__} {sentence[:70]!r} at {where}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    if has_nan(answer):
        return "answers NaN"
    if time.process_time() - begun > SECONDS:
        return f"takes more than {SECONDS} s"
    return None


def fuzz(seconds, seed=0, names=None, verbose=False):
    """Make calls for so many seconds of processor time; return their number and the findings."""
    end, n_calls = time.process_time() + seconds, 0
    found = collections.defaultdict(list)
    names = list(names or CALLS)
    while time.process_time() < end:
        name = names[n_calls % len(names)]
        begun = time.process_time()
        problem = finding(name, seed + n_calls)
        if verbose and time.process_time() - begun > 2:
            print(name, seed + n_calls, round(time.process_time() - begun, 1), flush=True)
        if problem:
            kind = name, re.sub(r"\d+ ", "", problem)
            if verbose and kind not in found:
                print(*kind, seed + n_calls, flush=True)
            found[kind].append(seed + n_calls)
        n_calls += 1
    return n_calls, dict(found)


if __name__ == "__main__":
    faulthandler.dump_traceback_later(600, repeat=True)
    n_calls, found = fuzz(
        float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0, verbose=True
    )
    print(n_calls, "calls,", len(found), "kinds of findings")
    for (name, problem), seeds in sorted(found.items(), key=lambda item: -len(item[1])):
        print(f"{len(seeds):5} {name}: {problem}  (seed {seeds[0]})")
