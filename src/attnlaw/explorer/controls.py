"""Controls: one description of a parameter gives its widget, its check and its place in a link."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qsl, urlencode

import dash_mantine_components as dmc
from dash import dcc, html

from attnlaw._checks import invalid_argument

__all__ = [
    "SYMBOLS",
    "Control",
    "Symbol",
    "Value",
    "Values",
    "build_controls",
    "changed_values",
    "explained",
    "read_query",
    "symbols_page",
    "write_query",
]

Value = float | int | str | bool
Values = dict[str, Value]

LONGEST_TEXT = 4000
"""Characters of a text control; a 16×16 correlation matrix takes about a third of it."""

ROW = {"justify": "space-between", "wrap": "nowrap", "gap": "xs"}


@dataclass(frozen=True, kw_only=True)
class Control:
    """A parameter that readers of a page may change."""

    name: str  # key in links; a keyword of the library where there is one
    label: str
    kind: Literal["number", "whole", "choice", "switch", "text"]
    default: Value
    symbol: str = ""  # the letter of the theory
    section: str = ""  # heading under which it stands
    lowest: float = 0.0
    highest: float = 1.0
    step: float = 0.01
    options: tuple[tuple[str, str], ...] = ()  # of a choice: value and label
    hint: str = ""
    sweep: tuple[float, float] | None = None  # what "play" goes through; the whole range
    shown_if: tuple[str, tuple[Value, ...]] | None = None  # another control and its values
    moves_axes: bool = False  # its slider takes the axes with it

    def identifier(self, page: str) -> str:
        """Return the id of the component that holds the value."""
        return f"{page}-{self.name}"

    def check(self, value: Any) -> Value:
        """Return a value that came from a browser, or invalid_argument of it in one sentence."""
        if self.kind in ("number", "whole"):
            return self._check_number(value)
        if self.kind == "choice":
            known = [key for key, _ in self.options]
            if value not in known:
                raise invalid_argument(self.name, "one of " + ", ".join(map(repr, known)), value)
            return str(value)
        if self.kind == "switch":
            if not isinstance(value, bool):
                raise invalid_argument(self.name, "True or False", value)
            return value
        if not isinstance(value, str):
            raise invalid_argument(self.name, "a text", value)
        if len(value) > LONGEST_TEXT:
            raise invalid_argument(self.name, f"at most {LONGEST_TEXT} characters long", value)
        return value

    def parse(self, text: str) -> Value:
        """Return the value that a link spells."""
        if self.kind == "switch":
            if text not in ("true", "false"):
                raise invalid_argument(self.name, "true or false", text)
            return text == "true"
        return self.check(text)

    def spell(self, value: Value) -> str:
        """Return the value as a link spells it."""
        if isinstance(value, bool):
            return "true" if value else "false"
        return f"{value:.10g}" if isinstance(value, float) else str(value)

    def _check_number(self, value: Any) -> Value:
        kind = "a whole number" if self.kind == "whole" else "a number"
        condition = f"{kind} from {self.lowest:g} to {self.highest:g}"
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        whole = self.kind == "number" or number.is_integer()
        if not self.lowest <= number <= self.highest or not whole:
            raise invalid_argument(self.name, condition, value)
        return int(number) if self.kind == "whole" else number

    def build(self, page: str, value: Value) -> Any:
        """Return the component with its label."""
        parts: list[Any] = [
            dmc.Text(self._title(), id=f"{page}-{self.name}-label", size="sm", fw=500)
        ]
        if self.kind in ("number", "whole"):
            fields = dmc.Group([self._play(page), self._number(page, value)], gap=4, wrap="nowrap")
            parts = [dmc.Group([*parts, fields], **ROW)]
            parts.append(self._slider(page, value))
        elif self.kind == "switch":
            parts = [
                dmc.Switch(
                    id=self.identifier(page), checked=bool(value), label=self._title(), size="sm"
                )
            ]
        elif self.kind == "choice":
            parts.append(self._choice(page, value))
        else:
            parts.append(
                dmc.Textarea(
                    id=self.identifier(page),
                    value=str(value),
                    autosize=True,
                    minRows=1,
                    maxRows=4,
                    debounce=300,
                    size="sm",
                    attributes={"input": {"aria-label": self.label, "spellCheck": "false"}},
                )
            )
        if self.hint:
            parts.append(dmc.Text(self.hint, size="xs", c="dimmed"))
        return html.Div(parts, id=f"{page}-{self.name}-row", className="control")

    @property
    def property(self) -> str:
        """Name of the component's property that holds the value."""
        return "checked" if self.kind == "switch" else "value"

    def _title(self) -> list[Any]:
        return [self.label, *([" ", explained(self.symbol)] if self.symbol else [])]

    def _number(self, page: str, value: Value) -> Any:
        return dmc.NumberInput(
            id=self.identifier(page),
            value=value,
            min=self.lowest,
            max=self.highest,
            step=self.step,
            allowDecimal=self.kind == "number",
            clampBehavior="none",  # what is out of range is told beside the field
            size="xs",
            w=92,
            attributes={"input": {"aria-label": self.label}},
        )

    def _play(self, page: str) -> Any:
        """Return the button that sweeps the parameter; `explorer.js` does it."""
        if self.kind != "number":
            return None
        first, last = self.sweep or (self.lowest, self.highest)
        attributes: Any = {
            "aria-label": f"Play {self.label}", "data-control": self.identifier(page),
            "data-first": f"{first:g}", "data-last": f"{last:g}", "data-step": f"{self.step:g}",
        }  # fmt: skip
        return html.Button(
            "▶",
            id=f"{self.identifier(page)}-play",
            className="play",
            title=f"Play: sweep from {first:g} to {last:g}",
            type="button",
            **attributes,
        )

    def _slider(self, page: str, value: Value) -> Any:
        """Return the place of a slider, which `sliders.js` puts there."""
        attributes: Any = {
            "data-control": self.identifier(page), "data-label": self.label,
            "data-min": f"{self.lowest:g}", "data-max": f"{self.highest:g}",
            "data-step": f"{self.step:g}", "data-value": f"{value:.10g}",
        }  # fmt: skip
        if self.moves_axes:
            attributes["data-free"] = "yes"
        return html.Div(id=f"{self.identifier(page)}-slider", className="slider", **attributes)

    def _choice(self, page: str, value: Value) -> Any:
        data = [{"value": key, "label": label} for key, label in self.options]
        if sum(len(label) for _, label in self.options) <= 26:
            return dmc.SegmentedControl(
                id=self.identifier(page), data=data, value=str(value), size="xs", fullWidth=True
            )
        return dmc.Select(
            id=self.identifier(page),
            data=data,
            value=str(value),
            allowDeselect=False,
            size="sm",
            attributes={"input": {"aria-label": self.label}},
        )


def build_controls(page: str, controls: Sequence[Control], values: Mapping[str, Value]) -> Any:
    """Return the panel of a page: its controls under their headings."""
    children: list[Any] = []
    section = ""
    for control in controls:
        if control.section != section:
            section = control.section
            children.append(dmc.Title(section, order=3, size="h6", className="section"))
        children.append(control.build(page, values[control.name]))
    children.append(dcc.Store(id=f"{page}-late"))
    return dmc.Stack(children, gap="sm")


def read_query(controls: Sequence[Control], search: str | None) -> tuple[Values, list[str]]:
    """Return the values that a link asks for, and a sentence for each that it cannot have."""
    known = {control.name: control for control in controls}
    values: Values = {name: control.default for name, control in known.items()}
    messages: list[str] = []
    try:
        pairs = parse_qsl((search or "").lstrip("?"), keep_blank_values=True, max_num_fields=100)
    except ValueError:
        return values, ["The link has too many parts; the defaults are shown."]
    for name, text in pairs:
        if name == "tour":
            continue
        if name not in known:
            messages.append(
                f"{name[:40]!r} in the link is no parameter of this page; it is left out."
            )
            continue
        try:
            values[name] = known[name].parse(text)
        except ValueError as error:
            shown = known[name].spell(known[name].default)
            messages.append(f"{error} The default {shown or 'empty'!r} is shown."[:400])
    return values, messages[:6]


def write_query(controls: Sequence[Control], values: Mapping[str, Value]) -> str:
    """Return the link of a state: what differs from the defaults.

    Examples
    --------
    >>> norm = Control(name="signal_norm", label="Signal", kind="number", default=1.5, highest=4)
    >>> write_query([norm], {"signal_norm": 1.5}), write_query([norm], {"signal_norm": 2.0})
    ('', '?signal_norm=2')
    """
    changed = changed_values(controls, values)
    return f"?{urlencode(changed)}" if changed else ""


def changed_values(controls: Sequence[Control], values: Mapping[str, Value]) -> dict[str, str]:
    """Return what differs from the defaults, as links spell it."""
    return {
        control.name: control.spell(values[control.name])
        for control in controls
        if values[control.name] != control.default
    }


class Symbol(NamedTuple):
    """The meaning of a symbol, and the page of the documentation that derives it."""

    meaning: str
    page: str


SYMBOLS = {
    "‖μ‖": Symbol("Norm of the signal: tokens are ±μ plus unit noise.", "pooled-covariance"),
    "δ": Symbol("Dimension over vocabulary, d/V; 0 is an infinite one.", "pooled-covariance"),
    "γ": Symbol("Dimension over samples, d/N; small means plenty of data.", "pooled-covariance"),
    "R": Symbol("Correlation of the signs at two positions of a sequence.", "weights"),
    "L": Symbol("Length of a sequence, in tokens.", "weights"),
    "p": Symbol("Length of the prefix; of a token its share of the text.", "weights"),
    "r": Symbol("Correlation between two positions of the prefix.", "weights"),
    "a": Symbol("Correlation of neighbours; it decays as a^distance.", "weights"),
    "η": Symbol("Strength of the spike in R = I + η qqᵀ, rescaled.", "weights"),
    "w": Symbol("Pooling weights: a sequence becomes Σ wₗ eₗ.", "weights"),
    "d": Symbol("Dimension of the embeddings in the simulation.", "simulation"),
    "V": Symbol("Number of tokens in the vocabulary.", "vocabulary"),
    "g": Symbol("Importance of a token: it is pooled with the factor g.", "vocabulary"),
    "log₁₀ a": Symbol("Smoothing a of the token weights 1/(p + a).", "vocabulary"),
    "V_eff": Symbol("Number of tokens that pooling works with, (Σpg)²/Σp²g².", "vocabulary"),
    "λ": Symbol("Eigenvalue of the sample covariance along the signal.", "alignment"),
    "λ₊": Symbol("Right edge of the bulk: noise alone ends there.", "bulk"),
    "ζ": Symbol("Squared overlap of the leading eigenvector with the signal.", "alignment"),
    "ζ_samp": Symbol("Share that the sample keeps: overlap with the population.", "alignment"),
    "ζ_pop": Symbol("Share that the vocabulary keeps; for tokens ≤ ‖μ‖²/(‖μ‖² + δ).", "alignment"),
    "ℓ": Symbol("Eigenvalue of the population covariance along the signal.", "thresholds"),
    "α/κ": Symbol("Signal-to-noise ratio of the weights, wᵀRw over wᵀw.", "weights"),
    "α": Symbol("Weight wᵀRw with which the signal is pooled.", "weights"),
    "κ": Symbol("Weight wᵀw with which the noise is pooled.", "weights"),
    "L_eff": Symbol("Number of positions that the weights really use, κ²/Σw⁴.", "bulk"),
    "λ_max(R)": Symbol("Largest eigenvalue of R: the largest SNR there is.", "weights"),
    "Σw": Symbol("Sum of the weights; it changes eigenvalues, never overlaps.", "weights"),
    "β": Symbol("Inverse temperature: scores are multiplied by β.", "attention"),
    "d_k": Symbol("Width of a head: the dimension of its queries and keys.", "attention"),
    "n": Symbol("Number of tokens that attend to each other.", "attention"),
    "h": Symbol("Number of heads, side by side.", "attention"),
    "D": Symbol("Number of attention layers that are multiplied.", "depth"),
    "of the product": Symbol("Largest squared singular value of √n A⊥ᴰ … √n A⊥¹.", "depth"),
    "m₁²/m₂": Symbol("Share of directions that carry the product.", "depth"),
    "of √n A⊥": Symbol("Largest squared singular value of √n (A − 11ᵀ/n).", "attention"),
    "of √i (A − 1/i)": Symbol(
        "Largest squared singular value; row i is centred over its i tokens.", "causal-heads"
    ),
    "s₁(A)": Symbol("Largest singular value of the attention matrix; near 1.", "attention"),
    "s₂(A)": Symbol("Second largest singular value of the attention matrix.", "attention"),
    "‖A‖²": Symbol("Sum of all squared entries of the attention matrix.", "attention"),
    "‖A‖²/s₁²": Symbol("Stable rank: how many directions share the energy.", "attention"),
    "m₁": Symbol("Mean squared singular value of √n A⊥.", "attention"),
}  # fmt: skip


def subscripted(symbol: str) -> list[Any]:
    """Set what follows an underscore lower: d_k.

    Examples
    --------
    >>> subscripted("d_k")
    ['d', Sub('k')]
    """
    letter, mark, below = symbol.partition("_")
    if not mark:
        return [symbol]
    name, bracket, rest = below.partition("(")
    return [letter, html.Sub(name), *([bracket + rest] if bracket else [])]


def explained(symbol: str) -> Any:
    """Return a symbol that says what it means, and links to where that is derived."""
    key = symbol if symbol in SYMBOLS else symbol.partition(" ")[0]
    if key not in SYMBOLS:
        return html.Span(subscripted(symbol), className="symbol")
    meaning = SYMBOLS[key].meaning
    said: Any = {"aria-label": f"{symbol}: {meaning}", "data-meaning": meaning}
    return html.A(
        subscripted(symbol), href=f"/symbols#{key}", className="symbol", target="_blank", **said
    )


def symbols_page() -> Any:
    """Return the page that lists all symbols, with the pages of the documentation."""
    rows = [_row(name, symbol) for name, symbol in SYMBOLS.items()]
    head = html.Thead(html.Tr([html.Th(word) for word in ("Symbol", "Meaning", "Derived in")]))
    return html.Div(
        [
            dmc.Title("Symbols", order=1, size="h2"),
            dmc.Text(
                "What the letters on the pages stand for. The pages that derive them are in the "
                "documentation of attnlaw, under Theory.",
                c="dimmed", mb="sm",
            ),
            dmc.Table([head, html.Tbody(rows)], id="symbols-table"),
        ]
    )  # fmt: skip


def _row(name: str, symbol: Symbol) -> Any:
    cells: Iterable[Any] = (
        html.Td(subscripted(name), className="symbol"),
        html.Td(symbol.meaning),
        html.Td(html.Code(f"theory/{symbol.page}")),
    )
    return html.Tr(list(cells), id=name)
