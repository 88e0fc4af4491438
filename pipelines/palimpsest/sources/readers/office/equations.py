"""Equations of Office files as a line of text: x=(-b±√(b^2-4ac))/(2a).

The form is that of Unicode's linear mathematics (Unicode Technical Note 28), which keeps each symbol as it is: words
search finds it and a person can read it.
"""

import re
from typing import Any

_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
EQUATION = f"{_M}oMath"
_ATOM = re.compile(r"\w+(?:[.,]\d+)*|\W")  # nothing but one name, number or sign: it needs no parentheses
_UNSEEN = dict.fromkeys(map(ord, "\u2061\u2062\u2063\u200b"))
_MAX_DEPTH = 30


def format_equation(node: Any, depth: int = 0) -> str:
    """Returns the text of an `m:oMath` element or a part of one; what has no linear form gives its letters."""
    if depth > _MAX_DEPTH:
        return "".join(t.text or "" for t in node.iter(f"{_M}t"))

    def of(name: str) -> str:
        child = node.find(_M + name)
        return "" if child is None else format_equation(child, depth + 1)

    def script(mark: str, name: str) -> str:
        words = of(name)
        return mark + _atom(words) if words else ""

    match node.tag.removeprefix(_M):
        case "t":
            return (node.text or "").translate(_UNSEEN)
        case "f":
            if _value(node, "fPr/type", "bar") == "noBar":
                return f"{_atom(of('num'))}¦{_atom(of('den'))}"
            return f"{_atom(of('num'))}/{_atom(of('den'))}"
        case "sSub" | "sSup" | "sSubSup":
            return _atom(of("e")) + script("_", "sub") + script("^", "sup")
        case "sPre":
            return script("_", "sub") + script("^", "sup") + _atom(of("e"))
        case "rad":
            return f"{_atom(of('deg'))}√{_atom(of('e'))}" if of("deg") else f"√{_atom(of('e'))}"
        case "nary":
            return f"{_value(node, 'naryPr/chr', '∫')}{script('_', 'sub')}{script('^', 'sup')} {of('e')}"
        case "limLow" | "limUpp":
            return of("e") + script("_" if node.tag.endswith("Low") else "^", "lim")
        case "func":
            return f"{of('fName')} {of('e')}"
        case "d":
            parts = [format_equation(e, depth + 1) for e in node.findall(f"{_M}e")]
            between = _value(node, "dPr/sepChr", "|").join(parts)
            return _value(node, "dPr/begChr", "(") + between + _value(node, "dPr/endChr", ")")
        case "acc":
            return of("e") + _value(node, "accPr/chr", "\u0302")
        case "m":
            rows = ([format_equation(e, depth + 1) for e in row.findall(f"{_M}e")] for row in node.findall(f"{_M}mr"))
            return "; ".join(", ".join(row) for row in rows)
        case "eqArr":
            return "; ".join(format_equation(e, depth + 1) for e in node.findall(f"{_M}e"))
    out = ""
    for child in node:
        words = format_equation(child, depth + 1) if isinstance(child.tag, str) else ""
        # A space ends a script or a fraction: x^k a, not x^ka.
        runs = child.tag == f"{_M}r" and child.getprevious() is not None and child.getprevious().tag == f"{_M}r"
        apart = out[-1:].isalnum() and words[:1].isalnum() and not runs
        out += f" {words}" if apart else words
    return out


def _atom(words: str) -> str:
    words = words.strip()
    return words if not words or _ATOM.fullmatch(words) or _is_enclosed(words) else f"({words})"


def _is_enclosed(words: str) -> bool:
    """Returns whether the parenthesis that opens the text is the one that closes it."""
    depth = 0
    for i, letter in enumerate(words):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return i > 0 and i == len(words) - 1
    return False


def _value(node: Any, path: str, default: str) -> str:
    found = node.find("/".join(_M + part for part in path.split("/")))
    return default if found is None else found.get(f"{_M}val", "")
