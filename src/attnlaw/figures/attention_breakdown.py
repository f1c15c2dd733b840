"""P2: the leading singular values against temperature, and where the law breaks down."""

import warnings
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import pdtr

from attnlaw import theory
from attnlaw._checks import RegimeWarning
from attnlaw.figures.figure import Check, Pieces, Tables, long_table, summary, z_check
from attnlaw.models import SelfAttention
from attnlaw.plotting import style
from attnlaw.simulation import simulate, simulate_spectrum

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Temperature: leading singular values, breakdown and the frozen limit (P2)"
CLAIM = (
    r"$s_1(A)\to1$ and $s_2(A)\to0$ like $\sqrt{\lambda_+/n}$ as long as $\beta$ stays below "
    r"$\sqrt{\log n}$; beyond, single entries dominate their rows and the largest singular values "
    r"leave the law. As $\beta\to\infty$ each row keeps a single 1, and the squared singular "
    r"values are the column counts, Poisson(1)."
)
SECONDS = (12.0, 60.0)


SINGLE_ENTRIES = (
    r"The bulk keeps its edge, but the largest of $n^2$ log-normal entries, about "
    r"$e^{2\beta\sqrt{\log n}}$ of the others, stand out of it on their own."
)
BREAKDOWN = (
    r"Near $\sqrt{\log n}$ the largest entries of a row, $e^{\beta\max S}$, are no longer small "
    "beside their sum: its moments are not reached at this size."
)


def _sizes(quick: bool) -> tuple[int, int, int]:
    """Return n = d_k, the draws at each temperature, and the draws of the frozen limit."""
    return (300, 4, 6) if quick else (1000, 6, 10)


def setting(quick: bool) -> dict[str, str]:
    """Return the parameters used, as words."""
    n, draws, frozen = _sizes(quick)
    return {
        "size": rf"$n = d_k = {n}$; {draws} draws at each $\beta$, {frozen} at $\beta = 50$",
        "breakdown": rf"$\sqrt{{\log n}} = {np.sqrt(np.log(n)):.2f}$",
    }


def compute(quick: bool, rng: np.random.Generator) -> Tables:
    """Compute outside the regime of the law without its warnings: to leave it is the point."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RegimeWarning)
        return _compute(quick, rng)


def _compute(quick: bool, rng: np.random.Generator) -> Tables:
    """Measure the two leading singular values of A over β, and the counts at β = 50."""
    n, draws, n_frozen = _sizes(quick)
    pieces: Pieces = []
    for beta in np.arange(0.5, 3.01, 0.25):
        model = SelfAttention(n_tokens=n, head_dimension=n, inverse_temperature=float(beta))
        seen = simulate(model, n_trials=draws, rng=rng)
        top, top_error = summary(seen.top_singular_value)
        second, second_error = summary(seen.second_singular_value)
        pieces.append(
            {
                "inverse_temperature": [beta],
                "n_tokens": n,
                "top": top,
                "top_error": top_error,
                "second": second,
                "second_error": second_error,
                "second_predicted": _predicted_second(model),
            }
        )
    curve = np.linspace(0.5, 3, 51)
    models = [
        SelfAttention(n_tokens=n, head_dimension=n, inverse_temperature=float(beta))
        for beta in curve
    ]
    line = {
        "inverse_temperature": curve,
        "second": np.array([_predicted_second(model) for model in models]),
    }
    frozen = SelfAttention(n_tokens=n, head_dimension=n, inverse_temperature=50.0)
    shares = []
    counts = np.arange(7)
    for values in simulate_spectrum(frozen, n_trials=n_frozen, rng=rng):
        shares.append([np.mean(np.abs(values / n - k) < 0.5) for k in counts])
    mean, error = summary(shares)
    poisson = np.diff(pdtr(counts, 1.0), prepend=0.0)
    return {
        "leading": long_table(pieces),
        "predicted": line,
        "frozen": {"count": counts, "share": mean, "standard_error": error, "poisson": poisson},
    }


def _predicted_second(model: SelfAttention) -> float:
    """Return s₂ = √(λ₊/n) by the law of first order."""
    return float(np.sqrt(theory.law(model, order="first").edges[-1] / model.n_tokens))


def draw(tables: Tables) -> "Figure":
    """Draw s₁ and s₂ against β, and the frozen limit."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(
        1, 2, figsize=(7.4, 3.5), gridspec_kw={"width_ratios": [1.5, 1]}
    )
    table = tables["leading"]
    beta, n = table["inverse_temperature"], table["n_tokens"][0]
    left.errorbar(beta, table["top"], 2 * table["top_error"], fmt="s", color=style.GREEN,
                  label=r"$s_1(A)$")  # fmt: skip
    left.errorbar(beta, table["second"], 2 * table["second_error"], fmt="o", color=style.OUTLIER,
                  label=r"$s_2(A)$")  # fmt: skip
    left.axhline(1, color=style.PREDICTED)
    label = r"law: 1 and $\sqrt{\lambda_+/n}$"
    line = tables["predicted"]
    left.plot(line["inverse_temperature"], line["second"], color=style.PREDICTED, label=label)
    left.axvline(np.sqrt(np.log(n)), color=style.EDGE, linestyle=":", linewidth=1)
    left.annotate(r"$\sqrt{\log n}$", (np.sqrt(np.log(n)), 0.06), xytext=(-4, 0), ha="right",
                  xycoords=("data", "axes fraction"), textcoords="offset points",
                  fontsize=8)  # fmt: skip
    left.set_yscale("log")
    left.set_ylim(top=max(4, 1.3 * table["top"].max()))
    left.set_xlabel(r"inverse temperature $\beta$")
    left.set_ylabel("singular value of $A$")
    left.set_title("(a) leading singular values")
    left.legend(loc="upper left")
    frozen = tables["frozen"]
    right.bar(frozen["count"], frozen["share"], 0.8, color=style.OBSERVED, label=r"$\beta = 50$")
    right.plot(frozen["count"], frozen["poisson"], "-", color=style.PREDICTED, label="Poisson(1)")
    right.set_xlabel("squared singular value of $A$")
    right.set_ylabel("share")
    right.set_title("(b) frozen limit")
    right.legend()
    return figure


def check(tables: Tables) -> list[Check]:
    """Compare the law below breakdown, its failure above, and the frozen limit."""
    table, frozen = tables["leading"], tables["frozen"]
    beta, n = table["inverse_temperature"], float(table["n_tokens"][0])
    allowed = 3 * n ** (-2 / 3) * table["second_predicted"]
    second = [
        z_check(
            f"$s_2(A)$ at {words}",
            table["second_predicted"][chosen],
            table["second"][chosen],
            table["second_error"][chosen],
            finite_size=allowed[chosen],
            basis=r"a relative $3\,n^{-2/3}$",
            explanation=explanation,
        )
        for words, chosen, explanation in (
            (r"$\beta\le 0.75$", beta <= 0.75, ""),
            (r"$1\le\beta\le 2$", (beta >= 1) & (beta <= 2), SINGLE_ENTRIES),
            (r"$\beta\ge 2.25$, towards the breakdown", beta >= 2.25, BREAKDOWN),
        )
    ]
    return [
        *second,
        z_check(
            r"column counts at $\beta=50$",
            frozen["poisson"],
            frozen["share"],
            frozen["standard_error"],
            finite_size=2 / n,
            basis="$2/n$ of finite size",
            explanation=r"Keys of larger norm attract more rows when $d_k$ is finite: the "
            r"logarithm of their rate has a spread of about $2\log n/\sqrt{2d_k}$, so that the "
            "counts are those of a mixed Poisson law, with more zeros.",
        ),
    ]
