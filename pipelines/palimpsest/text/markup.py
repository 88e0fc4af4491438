"""The words of a text that has marks: the text of links without their addresses, and list items without their boxes.

An address is no word: nothing is known by the letters of `https://example.org/a/1234`.
"""

import re

WEB_ADDRESS = r"\b(?:https?|ftp)://\S+"
"""The address of a page in a text, in the syntax that Python and polars share."""
_TITLE = r"(?:\s+[\"'][^\"'\n]*[\"'])?"
_ADDRESS_END = r"[^\s<>\"'`|.,;:!?(){}\[\]*]"
MARKS = (
    (rf"(^|[^\w\]])!?\[([^\[\]\n]*)\]\((?:[^()\s]|\([^()\s]*\))*{_TITLE}\)", "${1}${2}"),
    (r"`([^`<>\n]+?)\s?<[^<>`\n]+>`_{1,2}", "${1}"),
    (rf"<?{WEB_ADDRESS[:-3]}[^\s<>\"'`|]*{_ADDRESS_END}/?>?", ""),
    (r"(?m)^(\s*(?:[-*+]\s+)?)\[[ xX]\]\s", "${1}"),
)
"""(pattern, replacement), the pattern in the syntax that Python and polars share."""


def shown_words(text: str) -> str:
    """Returns a text as a reader sees it: links are their words, bare addresses are left out."""
    for pattern, replacement in MARKS:
        text = re.sub(pattern, re.sub(r"\$\{(\d)\}", r"\\\1", replacement), text)
    return text
