r"""Titles with mathematics between dollars, such as ``OPAUC$^{\mathrm{pca}}$``, as LaTeX and as plain text."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["differing_names", "distinct_titles", "escape_latex", "latex_title", "plain_title"]

_MATHEMATICS = re.compile(r"\$(?!\s)((?:\\[^\\]|[^\\$%#&])+)(?<!\s)\$(?!\d)")
_COMMAND = re.compile(r"\\([A-Za-z]+)|\\(.)|[{}~]")
_SPACES = {",", ";", ":", " "}  # \, and the like
_FONTS = ("math", "text", "operatorname", "boldsymbol")

_NAMES = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi psi "
    "omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega "
    "ell pm times cdot leq le geq ge in approx infty to bullet circ"
)
_SYMBOLS = dict(zip(_NAMES.split(), "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩℓ±×·≤≤≥≥∈≈∞→•◦", strict=True))
_COMMANDS = {symbol: f"\\{command}" for command, symbol in _SYMBOLS.items()}
_ESCAPES = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\symbol{34}",
    "[": "{[}",  # at the start of a row, it and the asterisk would belong to the line break before
    "*": "{*}",
    "…": r"\ldots{}",
    **{character: "\\" + character for character in "&%$#_{}"},
    **{symbol: f"${command}$" for symbol, command in _COMMANDS.items()},
}
_SPECIAL = re.compile(f"[{re.escape(''.join(_ESCAPES))}]")
_DASH = re.compile("-(?=-)")


def escape_latex(text: str) -> str:
    """Write a text so that LaTeX prints it as it is."""
    text = _SPECIAL.sub(lambda found: _ESCAPES[found[0]], re.sub(r"\s+", " ", text))
    return _DASH.sub("-{}", text)


def latex_title(title: str) -> str:
    """Write a title as LaTeX: its mathematics as it is, everything else escaped."""
    return _by_parts(title, escape_latex, lambda formula: f"${_with_commands(formula)}$")


def plain_title(title: str) -> str:
    r"""Write a title as plain text: ``OPAUC$^{\mathrm{pca}}$`` becomes ``OPAUC^pca``, ``$\lambda_1$`` ``λ_1``."""
    return _by_parts(title, str, lambda formula: _COMMAND.sub(_plain, formula))


def differing_names(params: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of parameters whose values, or presence, tell columns of one title or learner apart."""
    names = dict.fromkeys(name for one in params for name in one)
    return [name for name in names if any(one.get(name) != params[0].get(name) for one in params)]


def distinct_titles(columns: Mapping[str, tuple[str, Mapping[str, Any]]]) -> dict[str, str]:
    """Titles of columns, given by key with title and parameters.

    Where several share one, it is followed by the parameters that differ, or else by the key.
    """
    sharing: dict[str, list[str]] = {}
    for key, (title, _) in columns.items():
        sharing.setdefault(title, []).append(key)
    titles: dict[str, str] = {}
    for title, keys in sharing.items():
        params = [columns[key][1] for key in keys]
        differing = differing_names(params)
        texts = [", ".join(f"{name} {one[name]}" for name in differing if name in one) for one in params]
        if len(set(texts)) < len(keys):
            texts = keys
        titles |= {key: f"{title} ({text})" if len(keys) > 1 and text else title for key, text in zip(keys, texts)}
    return {key: titles[key] for key in columns}


def _by_parts(title: str, text: Callable[[str], str], mathematics: Callable[[str], str]) -> str:
    """Apply `text` and `mathematics` to the parts of a title.

    A formula has no space inside its dollars, no digit after them, and balanced braces, so prices are not formulas.
    """
    parts, start = [], 0
    for found in _MATHEMATICS.finditer(title):
        if _has_balanced_braces(found[1]):
            parts += [text(title[start : found.start()]), mathematics(found[1])]
            start = found.end()
    return "".join([*parts, text(title[start:])])


def _has_balanced_braces(formula: str) -> bool:
    depth = 0
    for brace in re.findall(r"[{}]", re.sub(r"\\.", "", formula)):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            return False
    return depth == 0


def _with_commands(formula: str) -> str:
    """Replace symbols such as λ, which LaTeX does not know by default, by their commands."""
    return "".join(f"{{{_COMMANDS[symbol]}}}" if symbol in _COMMANDS else symbol for symbol in formula)


def _plain(found: re.Match) -> str:
    command, escaped = found.groups()
    if command:
        return "" if command.startswith(_FONTS) else _SYMBOLS.get(command, command)
    if escaped:
        return " " if escaped in _SPACES else escaped.replace("!", "")
    return " " if found[0] == "~" else ""
