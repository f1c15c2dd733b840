"""Attention: the law of a head that has learned nothing, against heads that are drawn."""

import warnings
from collections.abc import Callable
from typing import Any

import dash_mantine_components as dmc
import numpy as np
from dash import Dash

import attnlaw as al
from attnlaw.explorer.charts import Look, Trace, bars, figure, line, vertical
from attnlaw.explorer.controls import Control, Values
from attnlaw.explorer.frame import Page, Reading, View, shown, tex
from attnlaw.explorer.jobs import Job, finished_job, register_simulation, simulation_panel
from attnlaw.explorer.parameters import trial_controls
from attnlaw.laws import Law
from attnlaw.plotting import style
from attnlaw.theory import linear_energy, score_energy

__all__ = ["PAGE"]

CONTROLS = (
    Control(
        name="inverse_temperature", label="Inverse temperature", symbol="β", kind="number",
        section="Head", default=1.0, lowest=0.05, highest=6, step=0.05,
    ),
    Control(
        name="head_dimension", label="Head width", symbol="d_k", kind="whole", section="Head",
        default=64, lowest=4, highest=1000, step=4,
    ),
    Control(
        name="n_tokens", label="Tokens", symbol="n", kind="whole", section="Head",
        default=400, lowest=20, highest=1200, step=10,
    ),
    Control(
        name="n_heads", label="Heads side by side", symbol="h", kind="whole", section="Head",
        default=1, lowest=1, highest=16, step=1,
    ),
    Control(
        name="causal", label="Causal: later tokens masked", kind="switch", section="Head",
        default=False,
    ),
    Control(
        name="depth", label="Layers multiplied", symbol="D", kind="whole", section="Head",
        default=1, lowest=1, highest=8, step=1,
        hint="Without mask; layers of several heads take their mean.",
    ),
    *trial_controls("n_draws", "Draws", default=3, highest=20),
)  # fmt: skip

FIELDS = {
    "bulk_edge": ("Largest, squared", "of √n A⊥"),
    "top_singular_value": ("Top singular value", "s₁(A)"),
    "second_singular_value": ("Second singular value", "s₂(A)"),
    "squared_frobenius_norm": ("Squared norm", "‖A‖²"),
    "stable_rank": ("Stable rank", "‖A‖²/s₁²"),
    "mean_square": ("Mean of the squares", "m₁"),
}


CAUSAL_FIELDS = FIELDS | {"bulk_edge": ("Largest, squared", "of √i (A − 1/i)")}
PRODUCT_FIELDS = {
    "bulk_edge": ("Largest, squared", "of the product"),
    "mean_square": ("Mean of the squares", "m₁"),
    "participation": ("Participation ratio", "m₁²/m₂"),
}
LARGE_BETA = 2.0
"""Inverse temperature above which the limit says nothing of heads of these sizes."""


def head_from(values: Values) -> al.SelfAttention:
    """Return the head that the values describe; several layers take the mean of their heads."""
    causal = bool(values["causal"])
    depth = 1 if causal else int(values["depth"])
    return al.SelfAttention(
        n_tokens=int(values["n_tokens"]),
        head_dimension=int(values["head_dimension"]),
        inverse_temperature=float(values["inverse_temperature"]),
        n_heads=int(values["n_heads"]),
        combination="mean" if depth > 1 else "concatenate",
        causal=causal,
        depth=depth,
    )


def _fields(head: al.SelfAttention) -> dict[str, tuple[str, str]]:
    if head.causal:
        return CAUSAL_FIELDS
    return FIELDS if head.depth == 1 else PRODUCT_FIELDS


def _predicted(head: al.SelfAttention, order: str) -> tuple[Law, dict[str, float]]:
    """Return a law and the numbers that belong to it."""
    law = al.law(head, order=order)
    if head.depth == 1:
        found = al.predict(head, order=order)
        return law, {key: float(getattr(found, key)) for key in FIELDS}
    top = law.edges[-1] if order == "first" else law.quantile(1 - 0.5 / head.n_tokens)
    mean = law.moment(1)
    numbers = {"bulk_edge": top, "mean_square": mean, "participation": mean**2 / law.moment(2)}
    return law, {key: float(value) for key, value in numbers.items()}


def view(values: Values, look: Look, extra: Any) -> View:
    """Return the limiting law, and the drawn heads with the law of finite ones."""
    head = head_from(values)
    if head.causal and values["depth"] != 1:
        text = "Layers are multiplied without a mask only; what is shown is one causal layer."
        warnings.warn(text, al.RegimeWarning, stacklevel=2)
    is_limit = head.inverse_temperature <= LARGE_BETA
    law, limit = _predicted(head, "first" if is_limit else "auto")
    job = finished_job(extra, values)
    ends = [limit["bulk_edge"]]
    if job is not None:
        ends += [job.results[0].numbers["bulk_edge"], max(r.spectrum[-1] for r in job.results)]
    right = 1.05 * max(ends) ** 0.5
    name = "limit: wide heads, many tokens" if is_limit else "finite head"
    traces = [_law_trace(law, right, name)]
    if job is not None:
        if is_limit:
            finite = job.results[0].law
            traces.append(_law_trace(finite, right, "finite head", style.WEIGHTINGS["optimal"]))
        traces = [_histogram(job, right, look), *traces]
    top = max(max(trace["y"][3:], default=1.0) for trace in traces)
    # the limit of causal heads has no edge
    edge = "edge of the limit" if is_limit and not head.causal else "largest, expected"
    traces.append(vertical(ends[0] ** 0.5, top, edge, look))
    matrix = _fields(head)["bulk_edge"][1]
    return View(
        figure=figure(
            look,
            traces,
            x={"title": {"text": f"singular value {matrix}"}, "range": [0, right]},
            y={"title": {"text": "density"}, "range": [0, 1.1 * top]},
            bargap=0,
        ),
        readings=[
            Reading(key=key, label=label, symbol=symbol, value=shown(limit[key]))
            for key, (label, symbol) in _fields(head).items()
        ],
        formula=_formula(head, limit),
        code=_code(values),
        sentence=_introduction(is_limit) if job is None else _sentence(job, head),
        extra=None if job is None else _comparison(job, head, limit, is_limit),
    )


def _introduction(is_limit: bool) -> str:
    if is_limit:
        return (
            "The numbers are those of the limit law. Draw heads to see them beside a law "
            "that knows their finite width and number of tokens."
        )
    return (
        "Beyond √(log n) single entries dominate their rows and the limit says nothing: law and "
        "numbers are those of heads of this size. Draw heads to see them beside it."
    )


class Draw:
    """One drawn head; the first also holds what theory says of finite heads."""

    def __init__(self, head: al.SelfAttention, rngs: Any, law: Law | None) -> None:
        self.spectrum = al.simulation.simulate_spectrum(head, n_trials=1, rng=rngs[0])[0]
        self.seen = _seen(head, self.spectrum, rngs[1])
        self.numbers: dict[str, float] = {}
        self.outlier: al.theory.KeyNormOutlier | None = None
        if law is not None:
            self.law = law
            return
        self.law, self.numbers = _predicted(head, "auto")
        if head.depth == 1 and not head.causal and head.inverse_temperature <= LARGE_BETA:
            self.outlier = al.theory.key_norm_outlier(head)


def _seen(head: al.SelfAttention, spectrum: Any, rng: Any) -> dict[str, float]:
    """Return what a drawn head shows of the numbers of the page."""
    if head.depth == 1:
        seen = al.simulate(head, n_trials=1, rng=rng)
        return {key: float(getattr(seen, key)[0]) for key in FIELDS}
    mean = float(spectrum.mean())
    share = mean**2 / float((spectrum**2).mean())
    return {"bulk_edge": float(spectrum[-1]), "mean_square": mean, "participation": share}


def _trials(values: Values) -> tuple[int, Callable[[], Any]]:
    head = head_from(values)
    rngs = [np.random.default_rng(int(values["seed"])) for _ in range(2)]
    law: list[Law] = []

    def trial() -> Draw:
        draw = Draw(head, rngs, law[0] if law else None)
        law.append(draw.law)
        return draw

    return int(values["n_draws"]), trial


def _law_trace(law: Law, right: float, name: str, colour: str = style.PREDICTED) -> Trace:
    """Return a law over singular values, as the masses of narrow bins."""
    bins = np.linspace(0, right, 361)
    mass = np.diff(law.cdf(bins**2))
    return line((bins[1:] + bins[:-1]) / 2, mass / np.diff(bins), name, colour)


def _histogram(job: Job, right: float, look: Look) -> Trace:
    bins = np.linspace(0, right, 51)
    values = np.sqrt(np.concatenate([draw.spectrum for draw in job.results]))
    heights = np.histogram(values, bins)[0] / (values.size * np.diff(bins))
    name = f"{len(job.results)} drawn"
    return bars((bins[1:] + bins[:-1]) / 2, heights, name, look.colours.observed)


def _sentence(job: Job, head: al.SelfAttention) -> str:
    outlier = job.results[0].outlier
    if head.depth > 1:
        return "Layers over orthonormal inputs are free: their laws multiply."
    if head.inverse_temperature > LARGE_BETA and not head.causal:
        return "The largest entries of each row are followed to the columns on which they fall."
    if outlier is None:
        return "Rows of a causal head are centred and scaled one by one, so that all count alike."
    if not outlier.locations.size:
        return "Key norms make no outlier here: their term drowns in the bulk."
    where = ", ".join(shown(value**0.5) for value in outlier.locations)
    place = "above" if outlier.is_detached else "in a gap of"
    return f"Key norms make an outlier {place} the bulk, at the singular value {where}."


def _comparison(job: Job, head: al.SelfAttention, limit: dict[str, float], is_limit: bool) -> Any:
    rows = []
    for key, (label, _) in _fields(head).items():
        seen = np.array([draw.seen[key] for draw in job.results])
        error = seen.std(ddof=1) / np.sqrt(len(seen)) if len(seen) > 1 else np.nan
        row = [job.results[0].numbers[key], float(seen.mean())]
        row = [limit[key], *row] if is_limit else row
        rows.append([label, *map(shown, row), "± " + shown(error, 2)])
    names = ["", *(["limit"] if is_limit else []), "finite head", "observed", "standard error"]
    table = dmc.Table(data={"head": names, "body": rows}, mt="sm")
    return dmc.TableScrollContainer(table, minWidth=480, type="native", id="attention-comparison")


def _formula(head: al.SelfAttention, limit: dict[str, float]) -> str:
    beta = head.inverse_temperature
    if head.causal:
        return _causal_formula(head)
    if beta > LARGE_BETA:
        return _cavity_formula()
    ratio = r"\varphi" if head.n_heads == 1 else r"\varphi/h"
    last = "1" if head.n_heads == 1 or head.depth > 1 else "1/h"
    power = "" if head.depth == 1 else rf" to the power $\boxtimes{head.depth}$"
    return rf"""
A head is $A=\mathrm{{softmax}}(\beta\,QK^\top/\sqrt{{d_k}})$, and
$A_\perp=A-\mathbf 1\mathbf 1^\top/n$.
With $\varphi=n/d_k={tex(head.token_ratio)}$,

$$\theta_1=e^{{\beta^2}}-1={tex(score_energy(beta))},$$
$$\theta_2=\beta^2={tex(linear_energy(beta))},$$

the squared singular values of $\sqrt n\,A_\perp$ follow

$$\bigl(\theta_2\,\mathrm{{MP}}_{{{ratio}}}\boxplus(\theta_1-\theta_2)\bigr)
\boxtimes\mathrm{{MP}}_{{{last}}},$$

{power} up to ${tex(limit["bulk_edge"])}$. Meanwhile $s_1(A)\to1$ and
$\lVert A\rVert^2\to e^{{\beta^2}}$ per head; all this
ends near $\beta=\sqrt{{\log n}}$, where single entries dominate their rows.
"""


def _causal_formula(head: al.SelfAttention) -> str:
    beta = head.inverse_temperature
    return rf"""
Row $i$ of a causal head is a softmax over the first $i$ tokens; studied is
$\sqrt i\,(A_{{ij}}-1/i)$ for $j\le i$, with $n={head.n_tokens}$, $d_k={head.head_dimension}$
and $\beta={tex(beta)}$. For wide heads and many tokens the squared singular values, in units
of $e^{{\beta^2}}-1={tex(score_energy(beta))}$, have the distribution function

$$F(x)=\frac12+\frac1\pi\arctan\frac{{\mathrm{{Ei}}(x)}}\pi,$$

which has no right edge: it is drawn up to where one of the $n$ values is expected beyond.
"""


def _cavity_formula() -> str:
    return r"""
At large $\beta$ a row has few entries that matter, and the columns on which they fall decide its
resolvent: with $y_k^2$ the heavy entries of a row and $\rho$ the energy of all others,

$$R=-\frac1{w+\sum_k y_k^2C_k+\rho\,\mathbb E C},\qquad
C=-\frac1{w+\sum y^2R^{(k)}+\mathbb E\,\rho R},$$

random, with $R^{(k)}$ that of a row without its entry $k$. As $\beta\to\infty$ each row is a
single 1, and the squared singular values count how often a key is the best.
"""


def _code(values: Values) -> str:
    head = head_from(values)
    draws = f"n_trials={values['n_draws']}, rng={values['seed']}"
    layers = f', depth={head.depth}, combination="mean"' if head.depth > 1 else ""
    has_limit = head.inverse_temperature <= LARGE_BETA
    limit = 'print(al.predict(head, order="first"))    # the limit\n' if has_limit else ""
    numbers = (
        f"{limit}print(al.predict(head))                   # a finite head\n"
        f"print(al.simulate(head, {draws}))\n\n"
    )
    laws = '"limit": al.law(head, order="first"), ' if has_limit else ""
    return (
        "import matplotlib.pyplot as plt\n\nimport attnlaw as al\n\nhead = al.SelfAttention(\n"
        f"    n_tokens={values['n_tokens']}, head_dimension={values['head_dimension']},\n"
        f"    inverse_temperature={values['inverse_temperature']:g}, "
        f"n_heads={values['n_heads']}, causal={values['causal']}{layers},\n)\n"
        f"{numbers if head.depth == 1 else ''}"
        f'laws = {{{laws}"finite head": al.law(head)}}\n'
        f"squared = al.simulation.simulate_spectrum(head, {draws})\n"
        "al.plotting.plot_spectrum(squared, laws, logarithmic=True)\n"
        "plt.show()\n"
    )


def _callbacks(app: Dash) -> None:
    register_simulation(app, "attention", CONTROLS, _trials)


PAGE = Page(
    name="attention",
    title="Attention",
    purpose="What the singular values of an attention head look like when it has learned nothing.",
    controls=CONTROLS,
    view=view,
    has_extra=True,
    below_controls=lambda _: simulation_panel("attention", "Draw heads"),
    more_callbacks=_callbacks,
)
