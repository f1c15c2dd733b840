"""The law of attention on 1,000 points: time, and the same edge computed independently.

The other way: rmtool (a port of Rao and Edelman's RMTool) knows nothing of free
multiplicative convolutions with shifts.
It takes √n A_⊥ ≈ √θ₂ S/√n + √(θ₁−θ₂) W/√n as signal plus noise: the polynomial of the Stieltjes
transform of θ₂ SSᵀ/n (`AtimesWish`), then Gaussian noise of variance θ₁−θ₂ added to the matrix
(`AgramWish`), then the real roots of its discriminant, of which the largest is the edge.

    python benchmarks/attention_law.py            # needs rmtool: pip install attnlaw[benchmarks]
    python benchmarks/attention_law.py --distances        # laws against drawn heads, a few minutes

The distances are Kolmogorov–Smirnov distances of the law that `al.law` chooses to the pooled
squared singular values of drawn heads, on settings that were not used in building the laws; values
below 1e-14 of the largest, which rounding error makes, are left out.

Times are those of the processor on one thread. Exit code 0 if the first 1,000 points of a law of
first order take at most 20 ms, a causal law (n = 1000, d_k = 64) 300 ms in the mean over twelve
inverse temperatures, and all edges agree to 1e-6.
"""

import argparse
import sys
import time
import warnings

import numpy as np

import attnlaw as al

EDGES = {(0.5, 1): 1.7906, (1.0, 1): 9.0095, (1.5, 1): 36.590, (2.0, 1): 215.67, (1.0, 4): 14.312}
POINTS = 1000
# held out: no law was tuned on these sizes and inverse temperatures
BETAS = (0.1, 0.4, 1.2, 1.6, 1.9, 2.2, 2.8, 4.2, 6.5, 10.0)
HELD_OUT = (
    (True, 350, 350, BETAS),
    (True, 350, 64, BETAS),
    (False, 500, 64, (1.8, 2.2, 2.5, 4.2)),
    (True, 800, 64, (1.6, 2.2, 4.2, 10.0)),
    (True, 256, 80, (1.5,)),
    (True, 256, 200, (1.5,)),
    (False, 500, 500, (1.8, 2.2, 2.5, 4.2)),
    (True, 700, 32, (1.9, 4.2)),
    (False, 400, 24, (1.8, 2.2, 2.8)),
    (False, 450, 450, (0.1, 0.3, 0.7, 1.2, 2.8, 3.2, 4.5, 6.0, 8.0, 10.0)),
    (False, 450, 64, (0.1, 0.3, 0.7, 1.2, 2.8, 3.2, 4.5, 6.0, 8.0, 10.0)),
)
DRAWS = 6
CAUSAL = {"causal": True}
FINITE = (  # n, d_k, β, and number of laws to time
    (1000, 64, 1.0, CAUSAL, 12),
    (1000, 128, 1.0, CAUSAL, 6),
    (4000, 64, 1.0, CAUSAL, 6),
    (1000, 64, 1.0, CAUSAL | {"sink": 0.5}, 4),
    (1000, 64, 1.0, CAUSAL | {"alibi_slope": 1 / 64}, 4),
    (1000, 64, 1.0, CAUSAL | {"window": 256}, 4),
    (1000, 64, 1.75, CAUSAL, 4),
    (1000, 64, 3.0, CAUSAL, 4),
    (1000, 64, 3.0, {}, 4),
)


def clock(work):
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def head(n: int, d: int, beta: float) -> al.SelfAttention:
    return al.SelfAttention(n_tokens=n, head_dimension=d, inverse_temperature=beta)


def evaluation(model: al.SelfAttention, order: str) -> tuple[float, float, float]:
    """Time to make a law and find its edges, for the first 1,000 points, and for others."""
    edges, law = clock(lambda: (law := al.law(model, order), law.edges)[0])
    x = np.linspace(0.01, 0.99, POINTS) * law.edges[-1]
    return edges, clock(lambda: law.density(x))[0], clock(lambda: law.cdf(0.999 * x))[0]


def finite_evaluation(n: int, d: int, beta: float, more: dict[str, object]) -> float:
    """Time to make the law of a head of finite size and evaluate 1,000 points of it."""
    model = al.SelfAttention(n_tokens=n, head_dimension=d, inverse_temperature=beta, **more)
    x = np.linspace(0.01, 20.0, POINTS)
    return clock(lambda: al.law(model).cdf(x))[0]


def distance(model: al.SelfAttention) -> float:
    """Kolmogorov–Smirnov distance of the law to drawn heads."""
    x = np.sort(al.simulation.simulate_spectrum(model, n_trials=DRAWS, rng=77).ravel())
    gaps = np.abs(al.law(model).cdf(x) - (np.arange(x.size) + 0.5) / x.size)
    return float(gaps[x > 1e-14 * x[-1]].max())


def distances() -> int:
    """Print the distances of all settings; 0 if none is above 0.03 (d_k = n) or 0.04."""
    missed = 0
    for causal, n, d, betas in HELD_OUT:
        for beta in betas:
            model = al.SelfAttention(
                n_tokens=n, head_dimension=d, inverse_temperature=beta, causal=causal
            )
            spent, seen = clock(lambda model=model: distance(model))
            missed += seen > (0.03 if d == n else 0.04)
            mask = "causal" if causal else "unmasked"
            print(
                f"{mask:9} n = {n:4} d_k = {d:4} β = {beta:4}: {seen:.4f} ({spent:.1f} s)",
                flush=True,
            )
    return int(missed > 0)


def rmtool_polynomial(beta: float, phi: int):
    import rmtool

    linear = beta**2
    scores = rmtool.scaleA(rmtool.AtimesWish(rmtool.wishartpol(phi), 1), linear)
    return rmtool.AgramWish(scores, 1, round(np.expm1(beta**2) - linear, 12))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--distances", action="store_true", help="laws against drawn heads")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", al.RegimeWarning)
    if asked.distances:
        return distances()
    warnings.filterwarnings("ignore", message="All roots returned")
    import rmtool

    print(f"{'β':>4} {'φ':>3} {'edge':>12} {'rmtool':>12} {'published':>10}")
    agree = True
    for (beta, phi), published in EDGES.items():
        edge = al.law(head(1000 * phi, 1000, beta), "first").edges[-1]
        polynomial = rmtool_polynomial(beta, phi)
        roots = rmtool.Lmz2pdf(polynomial, np.array([1.0])).multipleroots
        other = float(np.max(np.real(roots)))
        agree &= abs(other / edge - 1) < 1e-6 and abs(published / edge - 1) < 1e-4
        print(f"{beta:4} {phi:3} {edge:12.6f} {other:12.6f} {published:10}")

    slowest = 0.0
    print(f"\n{'milliseconds':26} {'edges':>8} {'1,000 points':>13} {'1,000 more':>11}")
    for n, d in ((1000, 1000), (1000, 250), (1000, 64)):
        for order in ("first", "powers", "norms", "tokens"):
            edges, first, more = np.median(
                [evaluation(head(n, d, 1.0), order) for _ in range(5)], 0
            )
            slowest = max(slowest, first) if order == "first" else slowest
            name = f"{order}, n = {n}, d_k = {d}"
            print(f"{name:26} {1e3 * edges:8.2f} {1e3 * first:13.2f} {1e3 * more:11.2f}")
    print()
    finite_evaluation(300, 64, 1.0, {"causal": True})  # SciPy is imported
    usual = np.inf
    print(f"{'milliseconds, 1,000 points':56} {'mean':>8} {'least':>8} {'most':>8}")
    for n, d, beta, more, n_laws in FINITE:
        # laws of equal heads are computed once: each has another inverse temperature
        times = [
            finite_evaluation(n, d, beta * (1 + 0.003 * k), more)
            for k in range(-n_laws // 2, n_laws // 2)
        ]
        if usual == np.inf:
            usual = np.mean(times)
        kind = "causal" if "causal" in more else "unmasked"
        more = "".join(f", {key} {value:.3g}" for key, value in more.items() if key != "causal")
        name = f"{kind}, n = {n}, d_k = {d}, β ≈ {beta}{more}"
        mean, least, most = 1e3 * np.mean(times), 1e3 * min(times), 1e3 * max(times)
        print(f"{name:56} {mean:8.0f} {least:8.0f} {most:8.0f}")
    polynomial = rmtool_polynomial(1.0, 1)
    x = np.linspace(0.01, 8.9, POINTS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it leaves the choice of the root to the user
        peer, _ = clock(lambda: rmtool.Lmz2pdf(polynomial, x))
    print(f"{'rmtool, all four roots':26} {'':8} {1e3 * peer:13.2f}")
    return 0 if agree and slowest < 0.020 and usual < 0.300 else 1


if __name__ == "__main__":
    sys.exit(main())
