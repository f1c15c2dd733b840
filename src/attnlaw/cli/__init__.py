"""The command line: `attnlaw COMMAND …`, a thin layer over the library.

Each command lives in the module of its name, as a click command called `command`, or at the place
that `PLACES` gives. It is listed here with its one line of help; its module is imported when the
command runs, so that `attnlaw --help` answers at once.
"""

from attnlaw.cli.program import Program

__all__ = ["main"]

COMMANDS = {
    "predict": "Predict eigenvalue, overlap and thresholds of pooled sequences.",
    "simulate": "Simulate them, and compare the observation with the prediction.",
    "classes": "Predict outliers of several classes, with noise of any covariance.",
    "mixture": "Predict sequences of several kinds, such as of unequal length.",
    "multi-head": "Predict sequences that several heads pool side by side.",
    "attention": "Describe the spectrum of attention heads that have learned nothing.",
    "sweep": "Observe a grid of models, resumably, on all cores or on a cluster.",
    "corpus": "Find counts and covariances of a corpus of any size, in one pass.",
    "plan": "Find the samples, vocabulary or signal needed for a given overlap.",
    "weights": "Compare pooling weights on a positional correlation.",
    "law": "Describe a limiting spectrum: edges, moments, quantiles, density.",
    "pool": "Rank poolings of your own sequences, with labels or without.",
    "table": "Inspect an embedding table: noise, outliers, and a held-out check.",
    "heads": "Compare attention heads with random ones: structure, outliers, verdicts.",
    "explore": "Open the explorer: the laws under sliders, in a browser.",
    "reproduce": "Reproduce the figures of the papers: pictures, tables, report.",
    "warmup": "Compile the simulation loops now instead of when first needed.",
}

PLACES = {
    "corpus": "sweep:corpus",
    "table": "inspection:table",
    "heads": "inspection:heads",
    "plan": "predict:plan",
    "simulate": "predict:simulate",
    "weights": "law:weights",
    "classes": "models:classes",
    "mixture": "models:mixture",
    "multi-head": "models:multi_head",
    "attention": "models:attention",
    "explore": "pictures:explore",
    "reproduce": "pictures:reproduce",
    "warmup": "predict:warmup",
}
"""Commands that share a module with another: module and name."""

main = Program(
    COMMANDS,
    PLACES,
    name="attnlaw",
    help="""The exact spectral laws of attention: theory and simulation, side by side.

    Start with `attnlaw predict`, then `attnlaw simulate`: every option has a default.""",
)
