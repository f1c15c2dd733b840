"""Formulas of docstrings, written in Unicode as they are coded, typeset on the reference pages.

In a terminal ``λ = κ s (1+y) φ(y)`` is readable as it stands; on a page it becomes mathematics:
indented formulas under Notes as displays, and runs of symbols in a sentence inline.
"""

import re
import unicodedata
from typing import Any

from sphinx.application import Sphinx

SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ᵀⁿᵏʰᴰᴸ", "0123456789+-()TnkhDL", strict=True))
SUBSCRIPTS = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋", "0123456789+-", strict=True))
SYMBOLS = {
    "‖": r"\|", "·": r"\cdot ", "−": "-", "~": r"\sim ", "≈": r"\approx ", "≤": r"\le ",
    "≥": r"\ge ", "≠": r"\ne ", "→": r"\to ", "←": r"\leftarrow ", "∝": r"\propto ",
    "∫": r"\int ", "∂": r"\partial ", "∞": r"\infty ", "⊠": r"\boxtimes ", "⊞": r"\boxplus ",
    "⊥": r"\perp ", "±": r"\pm ", "×": r"\times ", "∈": r"\in ", "⟨": r"\langle ",
    "⟩": r"\rangle ", "…": r"\ldots ", "𝓗": r"\mathcal{H}", "′": "'",
}  # fmt: skip
FUNCTIONS = re.findall(r"\w+", "log exp tr diag arg min max Im Re Cov Var sign softmax MP")
ACCENTS = {"\u0304": "bar", "\u0302": "hat", "\u0303": "tilde"}
GREEK = "αβγδεζηθικλμνξορστυφχψωΓΔΘΛΞΣΦΨΩℓ"
SMALL = "a A I an as at be by do go he if in is it no of on or so to up us we"
SMALL_WORDS = set(re.findall(r"\w+", SMALL))

SYMBOL = re.compile(rf"[{GREEK}{''.join(SUPERSCRIPTS)}{''.join(SUBSCRIPTS)}‖√∫⊠⊞∞𝓗⊥]")
INDEXED = re.compile(r"(?<![\w`])[A-Za-z]_[A-Za-z\d]{1,3}(?![\w`])")
OPERATOR = re.compile(r"[=<>≤≥≈→←∝~+−/≠×±∈⊠⊞…]")
BRACKETS = r"[\w()\[\].,+/*^{}−·|']*"
PLAIN = re.compile(rf"[A-Za-z]{{1,2}}\*?|±?\d*\.?\d+|{BRACKETS}[()\[\]+/^−·]{BRACKETS}")


def latex(formula: str) -> str:
    r"""Return LaTeX for a formula in Unicode.

    Examples
    --------
    >>> print(latex("ζ = ‖μ‖²/(‖μ‖² + δ)"))
    ζ = \|μ\|^{2}/(\|μ\|^{2} + δ)
    >>> print(latex("√(wᵀRw) if p_il > 0"))
    \sqrt{w^{T}Rw} \text{ if } p_{il} > 0
    """
    text = unicodedata.normalize("NFD", formula.strip())
    text = re.sub(r"(?<![_^])\{([^{}]*)\}", r"\\{\1\\}", text)
    text = re.sub(r"\s{2,}", r"\\quad ", text)
    text = re.sub(r"(\w)([\u0302-\u0304])", lambda m: rf"\{ACCENTS[m[2]]}{{{m[1]}}}", text)
    text = _roots(text)
    for table, sign in ((SUPERSCRIPTS, "^"), (SUBSCRIPTS, "_")):
        for run in sorted(set(re.findall(f"[{''.join(table)}]+", text)), key=len, reverse=True):
            text = text.replace(run, f"{sign}{{{''.join(map(table.__getitem__, run))}}}")
    text = re.sub(rf"_([A-Za-z\d⊥{GREEK}]+)", _subscript, text)
    text = re.sub(r"\^\(([^()]*)\)", r"^{\1}", text)
    text = re.sub(
        r"(\w)\*(?:\^\{)?", lambda m: f"{m[1]}^{{*{'' if m[0][-1] == '{' else '}'}", text
    )
    text = re.sub(r"Σ(?=[)(+−=\^,}]|\s*[+−=,)]|\s*$)", r"\\Sigma ", text).replace("Σ", r"\sum ")
    text = re.sub(r"(?<![\\{A-Za-z])[A-Za-z]{2,}(?![A-Za-z}])", _word, text)
    while (merged := re.sub(r"\\text\{([^}]*?) *\} *\\text\{ *", r"\\text{\1 ", text)) != text:
        text = merged
    return "".join(SYMBOLS.get(c, c) for c in text).strip()


def _roots(text: str) -> str:
    """Put what stands under a root into braces: a bracket, or a letter with its index."""
    while (k := text.find("√")) >= 0:
        rest = text[k + 1 :]
        if rest.startswith("("):
            depths = [
                rest[: n + 1].count("(") - rest[: n + 1].count(")") for n in range(len(rest))
            ]
            end = depths.index(0) if 0 in depths else len(rest) - 1
            under, rest = rest[1:end], rest[end + 1 :]
        else:
            letter = re.match(r"\\?\w(?:_\w+)?", rest)
            end = letter.end() if letter else 0
            under, rest = rest[:end], rest[end:]
        text = rf"{text[:k]}\sqrt{{{under}}}{rest}"
    return text


def _subscript(match: re.Match[str]) -> str:
    name = match[1]
    return rf"_{{\mathrm{{{name}}}}}" if len(name) > 2 and name.isalpha() else f"_{{{name}}}"


def _word(match: re.Match[str]) -> str:
    word = match[0]
    if word in FUNCTIONS:
        return rf"\operatorname{{{word}}}"
    return rf"\text{{ {word} }}" if len(word) > 2 or word in SMALL_WORDS else word


def inline(sentence: str) -> str:
    """Return a sentence whose runs of symbols are typeset.

    Examples
    --------
    >>> print(inline("a ratio δ = d/V; 0 is an infinite vocabulary (see `δ`)."))
    a ratio :math:`δ = d/V`; 0 is an infinite vocabulary (see `δ`).
    """
    parts = re.split(r"(``.*?``|:\w+:`.*?`|`.*?`_?)", sentence)
    return "".join(part if k % 2 else _typeset_runs(part) for k, part in enumerate(parts))


def _typeset_runs(text: str) -> str:
    words, done, k = text.split(" "), [], 0
    while k < len(words):
        end = max(_run_end(words, k), k + 1)
        run = " ".join(words[k:end])
        done.append(_typeset(run) if SYMBOL.search(run) or INDEXED.search(run) else run)
        k = end
    return " ".join(done)


def _run_end(words: list[str], start: int) -> int:
    """Return where the operands and operators end that begin here."""
    k, joined = start, False
    while k < len(words) and (_is_operand(words[k]) or (joined and words[k][0] in "AI")):
        k += 1
        if words[k - 1][-1] in ",;:.":
            return k
        joined = k + 1 < len(words) and bool(OPERATOR.fullmatch(words[k]))
        is_small = joined and words[k + 1].strip(",;:.") in ("A", "I")
        if joined and (is_small or _is_operand(words[k + 1])):
            k += 1
    return k


def _is_operand(word: str) -> bool:
    bare = word.strip(",;:.()")
    if not bare or bare in SMALL_WORDS:
        return False
    words = re.findall(r"(?<![_A-Za-z])[A-Za-z]{3,}", re.sub(r"_\{.*?\}", "", bare))
    if any(w not in FUNCTIONS for w in words) or re.search(r"\w_\w{4,}", bare):
        return False
    return bool(SYMBOL.search(bare) or INDEXED.fullmatch(bare) or PLAIN.fullmatch(bare))


def _typeset(run: str) -> str:
    """Typeset a run; brackets and punctuation around it are the sentence's."""
    core = run.rstrip(",;:.")
    before, after = "", run[len(core) :]
    while core.startswith("(") and core.count("(") > core.count(")"):
        core, before = core[1:], before + "("
    while core.endswith(")") and core.count(")") > core.count("("):
        core, after = core[:-1], ")" + after
    if any(core.count(a) != core.count(b) for a, b in ("()", "[]", "{}")) or core.count("‖") % 2:
        return run
    return f"{before}:math:`{latex(core)}`{after}"


def typeset_docstring(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Typeset the formulas of one docstring, in place."""
    section, done, k = "", list[str](), 0
    while k < len(lines):
        line, block = lines[k], list[str]()
        if k + 1 < len(lines) and re.fullmatch(r"-{3,}", lines[k + 1].strip()) and line.strip():
            section = line.strip()
            done += lines[k : k + 2]
            k += 2
            continue
        if section == "Notes" and line.startswith("    ") and not lines[k - 1].strip():
            while k + len(block) < len(lines) and lines[k + len(block)].startswith("    "):
                block.append(lines[k + len(block)])
            done += _display(block)
            k += len(block)
            continue
        is_code = section == "Examples" or ">>>" in line or line.lstrip().startswith("..")
        is_type = section in ("Parameters", "Attributes", "Returns") and not line.startswith(" ")
        bare = line.lstrip()
        done.append(line if is_code or is_type else line[: -len(bare) or None] + inline(bare))
        k += 1
    lines[:] = done


def _display(block: list[str]) -> list[str]:
    """Return a display for the lines of a formula; anything else as it was."""
    text = "\n".join(block)
    if not re.search(r"[=<←~]", text) or "`" in text or block[0].lstrip().startswith("- "):
        return block
    rows = [f"   &{latex(line)} \\\\" for line in block]
    return [".. math::", "   :nowrap:", "", r"   \begin{align*}", *rows, r"   \end{align*}"]


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect before numpydoc reads the docstrings."""
    app.connect("autodoc-process-docstring", typeset_docstring, priority=400)
    return {"parallel_read_safe": True}
