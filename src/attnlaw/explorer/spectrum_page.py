"""Spectrum: the bulk law, its outliers and alignments, and trials laid over them."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import dash_mantine_components as dmc
import numpy as np
from dash import Dash

import attnlaw as al
from attnlaw._checks import Floats, invalid_argument
from attnlaw.explorer.charts import Look, Trace, bars, figure, line, stem, vertical
from attnlaw.explorer.controls import Control, Values
from attnlaw.explorer.frame import Page, Reading, View, shown, tex
from attnlaw.explorer.jobs import Job, finished_job, register_simulation, simulation_panel
from attnlaw.explorer.parameters import (
    CORRELATION,
    RATIOS,
    READING,
    VOCABULARY,
    WEIGHTS,
    model_code,
    model_from,
    trial_controls,
)
from attnlaw.laws import Law
from attnlaw.plotting import style
from attnlaw.theory import spike_parameter

__all__ = ["PAGE"]

LARGEST_MATRIX = 2e7
"""Entries of the matrices of a trial in the explorer: d·N and d·V."""

SIMULATION = (
    Control(
        name="dimension", label="Dimension", symbol="d", kind="whole", section="Simulation",
        default=300, lowest=20, highest=1500, step=10,
    ),
    *trial_controls("n_trials", "Trials", default=5, highest=50),
)  # fmt: skip

CONTROLS = (*RATIOS, *READING, *CORRELATION, *WEIGHTS, *VOCABULARY, *SIMULATION)


def view(values: Values, look: Look, extra: Any) -> View:
    """Return law, outliers and numbers of the model, with the trials that belong to it."""
    model = model_from(values)
    spike, critical = al.predict(model), al.thresholds(model)
    job = finished_job(extra, values)
    traces, top, right = _law_traces(_bulk(model), spike, look)
    if job is not None:
        traces = [*_observed_traces(job, spike, look, top), *traces]
    picture = figure(
        look,
        traces,
        x={"title": {"text": "eigenvalue of the sample covariance"}, "range": [0, right]},
        y={"title": {"text": "density"}, "range": [0, 1.12 * top]},
        bargap=0,
    )
    return View(
        figure=picture,
        readings=_readings(model, spike, critical),
        formula=_formula(model, spike, critical),
        code=_code(values, model),
        sentence=_sentence(spike, critical),
        extra=None if job is None else _comparison(job, spike),
    )


def _sentence(spike: al.results.Spike, critical: al.results.Thresholds) -> str:
    norm = critical.sample_signal
    if norm == 0:
        return (
            "An eigenvalue leaves the bulk at any signal: chance alone parts the table's classes."
        )
    if spike.is_detectable:
        return f"The signal leaves the bulk; its critical norm is {shown(norm)}."
    return f"The signal is lost in the bulk: it shows beyond a norm of {shown(norm)}."


class Bulk(NamedTuple):
    """What is drawn of a law, whatever the signal."""

    law: Law
    x: Floats
    density: Floats
    top: float  # height that shows it well


def _bulk(model: al.PooledSequences) -> Bulk:
    """Return the law of the bulk; that of tokens that are alike is kept while the signal moves."""
    if model.vocabulary is not None:
        return _drawn(al.law(model))
    numbers = float(model.vocab_ratio), float(model.sample_ratio), model.weights.tobytes()
    return _kept_bulk(*numbers, model.correlation.tobytes(), model.sampling, model.centred)


@lru_cache(maxsize=64)
def _kept_bulk(
    delta: float, gamma: float, weights: bytes, correlation: bytes, sampling: Any, centred: bool
) -> Bulk:
    w = np.frombuffer(weights)
    R = np.frombuffer(correlation).reshape(len(w), len(w))
    model = al.PooledSequences(
        vocab_ratio=delta, sample_ratio=gamma, signal_norm=0.0, correlation=R, weights=w,
        sampling=sampling, centred=centred,
    )  # fmt: skip
    return _drawn(al.law(model))


def _drawn(law: Law) -> Bulk:
    left, edge = float(law.edges[0]), float(law.edges[-1])
    half_turn = np.linspace(0, np.pi, 500)  # close to the edges, where the density is steep
    x = left + (edge - left) * (1 - np.cos(half_turn)) / 2
    density = law.density(x)
    inside = x > left + 0.03 * (edge - left)  # a hard edge is infinitely high
    return Bulk(law, x, density, float(np.max(density[inside], initial=1e-9)))


def _law_traces(
    bulk: Bulk, spike: al.results.Spike, look: Look
) -> tuple[list[Trace], float, float]:
    """Return the traces of the law, and the heights and widths that show them well."""
    law, x, density, top = bulk
    edge, outlier, mean = (
        float(x) for x in (spike.bulk_edge, spike.top_eigenvalue, spike.mean_eigenvalue)
    )
    traces = [
        line(x, density, "law of the bulk"),
        vertical(edge, top, "edge of the bulk", look),
    ]
    if spike.is_detectable:
        traces.append(stem(outlier, 0.45 * top, "signal", style.OUTLIER))
    if mean > edge:
        purple = style.WEIGHTINGS["learned"]
        traces.append(
            stem(mean, 0.3 * top, "mean of the table", purple, marker={"symbol": "diamond"})
        )
    for location, mass in zip(*law.atom, strict=True):
        traces.append(
            stem(
                float(location), 0.9 * top, f"{mass:.1%} of all eigenvalues", style.PREDICTED,
                marker={"symbol": "triangle-up"},
            )
        )  # fmt: skip
    return traces, top, max(1.08 * max(edge, outlier, mean), 1.5 * edge)  # room for an outlier


def _observed_traces(job: Job, spike: al.results.Spike, look: Look, top: float) -> list[Trace]:
    """Return the histogram of the bulk and the eigenvalues seen beyond it."""
    spectra = np.stack([spectrum for spectrum, _ in job.results])
    edge = float(spike.bulk_edge)
    bins = np.linspace(0, 1.04 * edge, 61)
    positive = spectra[spectra > 1e-9 * edge]
    counts, _ = np.histogram(positive, bins)
    heights = counts / (spectra.size * np.diff(bins))
    colour = look.colours.observed
    seen = bars((bins[1:] + bins[:-1]) / 2, heights, f"{len(spectra)} trials", colour)
    beyond = spectra[spectra > bins[-1]]
    rug = {
        "type": "scatter", "mode": "markers", "name": "seen beyond",
        "showlegend": bool(beyond.size),
        "x": beyond.tolist(), "y": [0.03 * top] * beyond.size,
        "marker": {"symbol": "line-ns-open", "size": 14, "color": colour, "line": {"width": 2}},
    }  # fmt: skip
    return [seen, rug]


def _readings(
    model: al.PooledSequences, spike: al.results.Spike, critical: al.results.Thresholds
) -> list[Reading]:
    rows = [
        ("top_eigenvalue", "Top eigenvalue", "λ", spike.top_eigenvalue),
        ("bulk_edge", "Edge of the bulk", "λ₊", spike.bulk_edge),
        ("squared_overlap", "Alignment with the signal", "ζ", spike.squared_overlap),
        ("sample_overlap", "… kept by the sample", "ζ_samp", spike.sample_overlap),
        ("population_overlap", "… kept by the vocabulary", "ζ_pop", spike.population_overlap),
        ("population_eigenvalue", "Population eigenvalue", "ℓ", spike.population_eigenvalue),
        ("sample_threshold", "Critical signal, sample", "‖μ‖", critical.sample_signal),
        ("population_threshold", "… population", "‖μ‖", critical.population_signal),
        ("snr", "SNR of the weights", "α/κ", model.snr),
        ("effective_length", "Positions in use", "L_eff", model.effective_length),
    ]
    if model.vocabulary is not None:
        size = model.vocabulary.effective_size
        rows.append(("effective_vocabulary", "Tokens in use", "V_eff", size))
    if not model.centred:
        rows.insert(1, ("mean_eigenvalue", "Eigenvalue of the mean", "", spike.mean_eigenvalue))
    return [
        Reading(key=key, label=label, symbol=symbol, value=shown(value))
        for key, label, symbol, value in rows
    ]


def _formula(
    model: al.PooledSequences, spike: al.results.Spike, critical: al.results.Thresholds
) -> str:
    delta, gamma, norm = map(float, (model.vocab_ratio, model.sample_ratio, model.signal_norm))
    if model.tokens_differ:
        return _vocabulary_formula(model, spike, critical)
    token = model.sampling == "token"
    t_star = float(al.theory.edge_parameter(delta, gamma))
    t = float(spike_parameter(np.asarray(norm), np.asarray(delta), model.snr, token=token))
    strength = r"(\lVert\mu\rVert^2+\delta)" if token else r"\lVert\mu\rVert^2"
    ceiling = r"\,\frac{\lVert\mu\rVert^2}{\lVert\mu\rVert^2+\delta}" if token else ""
    condition = ">" if spike.is_detectable else r"\le"
    kappa, alpha = tex(model.noise_gain), tex(model.signal_gain)
    outlier, overlap = (
        f"={tex(value)}" if spike.is_detectable else ""
        for value in (spike.top_eigenvalue, spike.squared_overlap)
    )
    consequence = (
        ", so an eigenvalue leaves the bulk:"
        if spike.is_detectable
        else ", so none leaves the bulk. Beyond the threshold it would be"
    )
    return rf"""
The weights keep $\alpha=w^\top R\,w={alpha}$ of the signal and
$\kappa=w^\top w={kappa}$ of the noise.
The bulk is $\nu=\kappa\,(\mathrm{{MP}}_\delta\boxtimes\mathrm{{MP}}_\gamma)$ with
$\delta={tex(delta)}$, $\gamma={tex(gamma)}$, and ends at

$$\lambda_+=\kappa\,\frac{{(t_*+1)(t_*+\delta)(t_*+\gamma)}}{{t_*^2}}={tex(spike.bulk_edge)},$$

$$t_*^3=(\delta+\gamma+\delta\gamma)\,t_*+2\delta\gamma,\quad t_*={tex(t_star)}.$$

The signal has $t=\frac{{\alpha}}{{\kappa}}{strength}-\delta={tex(t)}\;{condition}\;t_*$
{consequence}

$$\lambda=\kappa\,\frac{{(t+1)(t+\delta)(t+\gamma)}}{{t^2}}{outlier},$$

$$\zeta=\frac{{t^3-(\delta+\gamma+\delta\gamma)\,t-2\delta\gamma}}{{t^2(t+\gamma)}}
{ceiling}{overlap}.$$

The critical signal norm is $\lVert\mu\rVert={tex(critical.sample_signal)}$ in the sample and
${tex(critical.population_signal)}$ in the population.
"""


def _vocabulary_formula(
    model: al.PooledSequences, spike: al.results.Spike, critical: al.results.Thresholds
) -> str:
    words = model.vocabulary
    assert words is not None  # the caller has looked
    d = words.n_tokens * float(model.vocab_ratio)
    return rf"""
Token $v$ makes the share $r_v=V\,p_v\,g_v^2$ of the noise. With

$$y(s)=\frac1V\sum_v\frac{{r_v}}{{s-\delta r_v}}$$

the bulk is traced by $\lambda=\kappa\,s\,(1+y)(1+\gamma y)$ (its last factor larger where
tokens differ in importance) and ends at $\lambda_+={tex(spike.bulk_edge)}$. An outlier is where
$s=\lVert\mu\rVert^2A(s)$, $A$ a sum over tokens as well: $\lambda={tex(spike.top_eigenvalue)}$,
$\zeta={tex(spike.squared_overlap)}$.

Pooling works as with $V_\mathrm{{eff}}=(\sum pg)^2/\sum p^2g^2={tex(words.effective_size)}$ of the
{words.n_tokens} tokens; no number of samples lifts the alignment far above
$\lVert\mu\rVert^2/(\lVert\mu\rVert^2+d/V_\mathrm{{eff}})$, $d=\delta V={tex(d)}$.

The critical signal norm is ${tex(critical.sample_signal)}$ in the sample and
${tex(critical.population_signal)}$ in the population.
"""


def _dimension(values: Values) -> int | None:
    """Return d; a vocabulary has its own."""
    return None if values["frequencies"] == "zipf" else int(values["dimension"])


def _code(values: Values, model: al.PooledSequences) -> str:
    d = _dimension(values)
    size = "" if d is None else f"dimension={d}, "
    draws = f"{size}n_trials={values['n_trials']}, rng={values['seed']}"
    return (
        f"{model_code(values)}\n"
        "print(al.predict(model))          # eigenvalues, overlaps, edge\n"
        "print(al.thresholds(model))       # critical signal norms\n"
        "law = al.law(model)               # law.density(x), law.edges\n"
        f"spectra = al.simulation.simulate_spectrum(model, {draws})\n"
        f"print(al.compare(model, {draws.replace('n_trials=1,', 'n_trials=2,')}))\n\n"
        "import matplotlib.pyplot as plt\n\n"
        "ax = al.plotting.plot_spectrum(spectra, law)\n"
        "al.plotting.plot_outlier(al.predict(model), ax)\n"
        "plt.show()\n"
    )


def _comparison(job: Job, spike: al.results.Spike) -> Any:
    """Return a table: predicted beside observed."""
    names = {
        "top_eigenvalue": "top eigenvalue λ",
        "squared_overlap": "alignment ζ",
        "bulk_edge": "edge of the bulk λ₊",
        "sample_overlap": "overlap, sample and population",
        "population_overlap": "overlap, population and signal",
    }
    rows = []
    for key, label in names.items():
        seen = np.array([float(getattr(observed, key)[0]) for _, observed in job.results])
        error = seen.std(ddof=1) / np.sqrt(len(seen)) if len(seen) > 1 else np.nan
        rows.append(
            [label, shown(getattr(spike, key)), shown(seen.mean()), "± " + shown(error, 2)]
        )
    table = dmc.Table(
        data={"head": ["", "predicted", "observed", "standard error"], "body": rows}, mt="sm"
    )
    return dmc.TableScrollContainer(table, minWidth=420, type="native", id="spectrum-comparison")


def _trials(values: Values) -> tuple[int, Callable[[], Any]]:
    """Return the trials of the model; each call draws the next, as one call of many would."""
    model, seed = model_from(values), int(values["seed"])
    sizes = model.sizes(_dimension(values))
    d = sizes.dimension
    if d * max(sizes.n_samples, sizes.n_vocab) > LARGEST_MATRIX:
        shape = f"{d} with {sizes.n_samples} samples and {sizes.n_vocab} tokens"
        raise invalid_argument(
            "dimension", f"smaller here (d·N and d·V ≤ {LARGEST_MATRIX:g})", shape
        )
    for_spectrum, for_spike = np.random.default_rng(seed), np.random.default_rng(seed)

    def trial() -> Any:
        spectrum = al.simulation.simulate_spectrum(model, d, 1, for_spectrum)[0]
        return spectrum, al.simulate(model, d, 1, for_spike)

    return int(values["n_trials"]), trial


def _callbacks(app: Dash) -> None:
    register_simulation(app, "spectrum", CONTROLS, _trials)


PAGE = Page(
    name="spectrum",
    title="Spectrum",
    purpose="Pool sequences of tokens, and see whether the hidden signal leaves the noise.",
    controls=CONTROLS,
    view=view,
    has_extra=True,
    below_controls=lambda _: simulation_panel("spectrum"),
    more_callbacks=_callbacks,
)
