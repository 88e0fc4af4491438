"""Which sentence of a memory states a conclusion, by its words: `so`, `therefore`, `that leaves`."""

import re
from dataclasses import dataclass

from palimpsest.text.sentences import memory_sentence_spans
from palimpsest.text.words import fold

MAX_CHARS = 160
"""A longer memory states its own premises, and what one of its sentences follows from is not known."""
_NOT_CONCLUDING = r"(?!(?:that|far|long|much|many|do|did|does|what|how|why|where|when|who|which|please|the question)\b)"
_SUBJECT = r"(?:the|a|an|it|they|he|she|we|i|you|this|there|those|no|all|every|only|[\w.-]*\d[\w.-]*)\b"
_REFERRING = re.compile(
    rf"^(?:so,? (?:{_SUBJECT}|on |at |in |for |from |by )"
    rf"|(?:then|thus|hence|therefore|consequently|accordingly)\b,? {_NOT_CONCLUDING})"
    r"|^(?:it follows|in total|in all|altogether)\b"
    r"|^(?:that|this|which) (?:makes|leaves|means|brings|comes to)\b(?! (?:a lot|so much|sense|everything|me))"
    r"|\b(?:therefore|thus|hence|consequently)\b|\bit follows that\b"
    r"|\bthat (?:makes|leaves|is|is about|would be)\b(?= [^a-z]*\d)"
)
_REASONED = re.compile(rf", (?:and )?so {_SUBJECT}|^(?:since|because) [^\W\d][^,]+,")
_COMPUTED = re.compile(
    r"\b(?:makes?|leaves?|adds? up to|comes? to|amounts? to|totals?|would be|remains?)\b"
    r"|\bthat(?: is|'s|’s)\b"  # noqa: RUF001 (the apostrophe that people type)
    r"|\b(?:better|worse|below|above|under|over|larger|smaller|longer|shorter|earlier|later|more|less|fewer|cheaper)\b"
)


@dataclass(frozen=True)
class Conclusion:
    """A sentence that states what follows from others.

    Attributes:
        start, end: its span in the memory.
        text: the sentence.
        is_marked: it is marked as a conclusion; else only an amount may show that it is one.
        has_reason: it is marked and states a reason itself, as `... , so ...` does.
        is_question: it ends with a question mark.
    """

    start: int
    end: int
    text: str
    is_marked: bool
    has_reason: bool
    is_question: bool


def find_conclusion(text: str) -> Conclusion | None:
    """Returns the first sentence that is marked as a conclusion, else the first whose amount may be computed."""
    if len(text) > MAX_CHARS:
        return None
    spans = memory_sentence_spans(text)
    computed = None
    for start, end in spans:
        sentence = " ".join(fold(text[start:end]).split())
        is_question = sentence.rstrip("\"')").endswith("?")
        has_reason = bool(_REASONED.search(sentence))
        if has_reason or _REFERRING.search(sentence):
            return Conclusion(start, end, text[start:end], True, has_reason, is_question)
        if computed is None and _COMPUTED.search(sentence):
            computed = Conclusion(start, end, text[start:end], False, False, is_question)
    return computed
