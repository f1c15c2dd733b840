"""Controls: one description of a parameter gives its widget, its check and its place in a link."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import parse_qsl, urlencode

import dash_mantine_components as dmc
from dash import dcc, html

from attnlaw._checks import invalid_argument

__all__ = [
    "Control",
    "Value",
    "Values",
    "build_controls",
    "read_query",
    "subscripted",
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
    shown_if: tuple[str, tuple[Value, ...]] | None = None  # another control and its values

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
            parts = [dmc.Group([*parts, self._number(page, value)], **ROW)]
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
        return [self.label, *([" ", *subscripted(self.symbol)] if self.symbol else [])]

    def _number(self, page: str, value: Value) -> Any:
        return dmc.NumberInput(
            id=self.identifier(page),
            value=value,
            min=self.lowest,
            max=self.highest,
            step=self.step,
            allowDecimal=self.kind == "number",
            clampBehavior="blur",
            size="xs",
            w=92,
            attributes={"input": {"aria-label": self.label}},
        )

    def _slider(self, page: str, value: Value) -> Any:
        return dmc.Slider(
            id=f"{self.identifier(page)}-slider",
            value=value,
            min=self.lowest,
            max=self.highest,
            step=self.step,
            updatemode="drag",
            label=None,
            size="sm",
            mt=4,
            attributes={"thumb": {"aria-label": self.label}},
        )

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
    changed = {
        control.name: control.spell(values[control.name])
        for control in controls
        if values[control.name] != control.default
    }
    return f"?{urlencode(changed)}" if changed else ""
