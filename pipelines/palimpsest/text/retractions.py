"""Whether a statement takes back, corrects or goes on about one just made: `scratch that`, `I misspoke`, `He's late`.

What it is about then stands in the turns before it, whose words it need not share. English only.
"""

import re

_MAX_CHARS = 160
"""A longer statement says itself what it is about."""
_SAID = r"(?:that|this|it|what i (?:said|told|wrote|just said)|(?:the|my) (?:last|previous|above|earlier)\b)"
_TAKES_BACK = re.compile(
    rf"\b(?:scratch|forget|ignore|disregard|strike|skip|undo|delete|cancel) {_SAID}"
    r"|\bi (?:misspoke|mistyped|misread|meant|mean)\b|\bmy (?:mistake|bad|error)\b|\btypo\b|\bcorrection\b"
    r"|\b(?:no|oh|oops|sorry|actually|ah)[,.!]? (?:wait|no|it'?s|that'?s|make (?:it|that)|not)\b"
    r"|\bwait[,.]? (?:no|it)\b"
    r"|\b(?:that|this|it|which) (?:was|is) (?:wrong|not right|outdated|old)\b|\bthat'?s (?:wrong|not right|outdated)\b"
    r"|\bmake (?:it|that)\b|\binstead\b|^(?:sorry|oops|correction|no|actually)\b",
    re.IGNORECASE,
)
_GOES_ON = re.compile(r"(?:And |But |So )?(?:He|She|It|They|That|Those)(?:'|’|\b)", re.IGNORECASE)  # noqa: RUF001


def refers_back(text: str) -> bool:
    """Returns whether a statement is about what was said just before it."""
    given = text.strip()
    return len(given) <= _MAX_CHARS and bool(_TAKES_BACK.search(given) or _GOES_ON.match(given))
