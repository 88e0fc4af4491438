"""Whether a question asks for reasons: what a conclusion follows from."""

import re

_CUE = re.compile(
    r"\bwhy\b|\bhow come\b|\bwhat (?:is|was|were|are) the (?:reason|cause|ground)s?\b|\bfor what reason\b"
    r"|\bwhat (?:caused|causes|led to)\b"
)


def asks_for_reasons(question: str) -> bool:
    """Returns whether a question asks why something is so."""
    return _CUE.search(question.lower()) is not None
