"""The words of a text that has marks: the text of links without their addresses, and list items without their boxes.

An address is no word: nothing is known by the letters of `https://example.org/a/1234`.
"""

import re

import polars as pl

_TITLE = r"(?:\s+[\"'][^\"'\n]*[\"'])?"
_ADDRESS_END = r"[^\s<>\"'`|.,;:!?(){}\[\]*]"
# (pattern, replacement), in the syntax that Python and polars share.
_MARKS = (
    (rf"(^|[^\w\]])!?\[([^\[\]\n]*)\]\((?:[^()\s]|\([^()\s]*\))*{_TITLE}\)", "${1}${2}"),
    (r"`([^`<>\n]+?)\s?<[^<>`\n]+>`_{1,2}", "${1}"),
    (rf"<?\b(?:https?|ftp)://[^\s<>\"'`|]*{_ADDRESS_END}/?>?", ""),
    (r"(?m)^(\s*(?:[-*+]\s+)?)\[[ xX]\]\s", "${1}"),
)


def shown_words(text: str) -> str:
    """Returns a text as a reader sees it: links are their words, bare addresses are left out."""
    for pattern, replacement in _MARKS:
        text = re.sub(pattern, re.sub(r"\$\{(\d)\}", r"\\\1", replacement), text)
    return text


def shown_words_of(texts: pl.Expr) -> pl.Expr:
    """Returns the same for a column; a text of nothing but addresses stays as it is."""
    shown = texts
    for pattern, replacement in _MARKS:
        shown = shown.str.replace_all(pattern, replacement)
    return pl.when(shown.str.contains(r"[\p{L}\p{N}]")).then(shown).otherwise(texts)
