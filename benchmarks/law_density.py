"""Density of MP_0.5 ⊠ MP_0.4 on 1,000 points, beside rmtool 1.0.0, both held to 40 digits.

    python benchmarks/law_density.py            # needs rmtool: pip install attnlaw[benchmarks]

rmtool eliminates variables from bivariate polynomials and solves the resulting cubic at every
point; it is timed with its polynomial ready (the second call) and with the elimination. Times
are the best of several, of the processor on one thread. Exit code 0 if attnlaw is at least 300
times faster than rmtool's second call and both are within 1e-12 of the exact values.
"""

import argparse
import sys
import time
import warnings

import mpmath
import numpy as np
import rmtool
from sympy import Rational

from attnlaw.laws import Discrete, MarchenkoPastur

POINTS = 1000


def best(work, repeats: int) -> float:
    """Shortest processor time of several calls."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def exact(x: float) -> float:
    """The density at 40 digits: roots of (t+1)(t+δ)(t+γ) = x t²."""
    with mpmath.workdps(40):
        d, g, z = mpmath.mpf(1) / 2, mpmath.mpf(2) / 5, mpmath.mpf(x)
        t = max(mpmath.polyroots([1, 1 + d + g - z, d + g + d * g, d * g]), key=mpmath.im)
        return -mpmath.im((1 + 1 / t) / z) / mpmath.pi


def error(values: np.ndarray, reference: list) -> float:
    return max(
        abs(float(v / r - 1)) for v, r in zip(map(mpmath.mpf, values), reference, strict=True)
    )


def main() -> int:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    law = MarchenkoPastur(0.5) @ MarchenkoPastur(0.4)
    # 2/5 is no binary fraction: its rounding moves the density by less than 1e-15.
    x = np.linspace(*law.edges, POINTS + 2)[1:-1]
    reference = [exact(v) for v in x]

    def eliminate():
        return rmtool.AtimesWish(rmtool.wishartpol(Rational(1, 2)), Rational(2, 5))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it remarks on the choice of the root
        polynomial = eliminate()
        peer = rmtool.Lmz2pdf(polynomial, x).density
        rows = [("rmtool, polynomial ready", best(lambda: rmtool.Lmz2pdf(polynomial, x), 5), peer)]
        whole = best(lambda: rmtool.Lmz2pdf(eliminate(), x), 2)
    rows.append(("rmtool, with elimination", whole, peer))
    chunk = 50  # processor clocks tick in units that one call is too short for
    ours = best(lambda: [law.density(x) for _ in range(chunk)], 20) / chunk
    rows.append(("attnlaw", ours, law.density(x)))
    first = best(lambda: (MarchenkoPastur(0.5) @ MarchenkoPastur(0.4)).density(x), 20)
    rows.append(("attnlaw, with construction", first, law.density(x)))

    print(f"density of {law!r} at {POINTS:,} points")
    print(f"{'':28} {'ms':>9} {'ratio':>8} {'largest relative error':>23}")
    for name, seconds, density in rows:
        gap = error(density, reference)
        print(f"{name:28} {1e3 * seconds:9.3f} {rows[0][1] / seconds:8.0f} {gap:23.1e}")

    print(f"\n{'milliseconds, 1,000 points':44} {'edges':>8} {'first':>8} {'again':>8} {'cdf':>8}")
    population = np.random.default_rng(0).exponential(size=1000)
    for name, make in {
        "Discrete([1, 10]) @ MP(0.05)": lambda: Discrete([1, 10]) @ MarchenkoPastur(0.05),
        "(0.72 + MP(1)) @ MP(1), the law of attention": lambda: (
            (0.72 + MarchenkoPastur(1)) @ MarchenkoPastur(1)
        ),
        "Discrete([1, 10]) @ Discrete([1, 2, 4])": lambda: Discrete([1, 10]) @ Discrete([1, 2, 4]),
        "1,000 eigenvalues @ MP(0.5)": lambda: Discrete(population) @ MarchenkoPastur(0.5),
    }.items():
        general = make()
        edges = best(lambda: make().edges, 3)  # noqa: B023
        points = np.concatenate([np.linspace(a, b, POINTS + 2)[1:-1] for a, b in general.support])
        points = points[:: len(general.support)]
        start = time.process_time()
        general.density(points)
        first = time.process_time() - start
        again = best(lambda: general.density(points), 3)  # noqa: B023
        cdf = best(lambda: general.cdf(points), 3)  # noqa: B023
        print(f"{name:44}" + "".join(f" {1e3 * t:8.2f}" for t in (edges, first, again, cdf)))

    passed = rows[0][1] / ours >= 300 and max(error(d, reference) for _, _, d in rows) < 1e-12
    print("\npassed" if passed else "\nFAILED: 300 times faster, and 1e-12, were promised")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
