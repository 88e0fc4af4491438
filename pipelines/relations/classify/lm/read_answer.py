"""What is made of a model's answer: quotes are looked up, doubt lowers confidence, and UPDATE must be earned."""

import re
from typing import Any

from palimpsest.relations.classify.label_types import LABELS, LabelPair, LabelResult
from palimpsest.text.words import content_words, stem_words

LEAST = 0.5
"""An answer under this confidence is an abstention."""
GIVES_ORDERS = "the text gives orders"
"""Why a pair was not shown to the model."""
_UNQUOTED = 0.7  # what is left of the confidence for each quote that is not in its text
_COMMANDS = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:instruction|prompt|rule|above|previous|system)|"
    r"\b(?:answer|output|respond|reply|label|return|say|classify)\b.{0,40}\b(?:UPDATE|EXTEND|DERIVE|NONE)\b|"
    r"\bUPDATE\b.{0,30}\bconfidence\b|^\s*(?:system|assistant)\s*:|\[\[ ## |</?(?:system|instructions?)>",
    re.IGNORECASE | re.DOTALL | re.MULTILINE,
)


def gives_orders(text: str) -> bool:
    """Tells whether a text speaks to whoever labels it: such a pair is not shown to a model."""
    return _COMMANDS.search(text) is not None


def read_answer(pair: LabelPair, said: Any) -> LabelResult:
    """Returns the label of a parsed answer: `label, confidence, older_quote, newer_quote`.

    A quote that is not in its text is dropped and lowers the confidence. UPDATE needs a quote of both, words in common,
    and a newer statement that is not the earlier one; else it is an abstention.
    """
    label = str(said.label)
    if label not in LABELS:
        return failed(pair, "label")
    try:
        confidence = min(1.0, max(0.0, float(said.confidence)))
    except (TypeError, ValueError):
        return failed(pair, "confidence")
    if confidence != confidence:
        return failed(pair, "confidence")
    evidence: dict[str, object] = {"rule": "lm"}
    for name, text in (("older", pair.older), ("newer", pair.newer)):
        span = find_quote(text, str(getattr(said, f"{name}_quote", "") or ""))
        if span is not None:
            evidence[name] = list(span)
        else:
            confidence *= _UNQUOTED
            evidence[f"{name}_quote"] = "not in the text"
    why = _doubt(pair, label, evidence)
    if why or confidence < LEAST:
        evidence |= {"rule": "abstain", "instead_of": label, "why": why or "not sure"}
        return LabelResult("NONE", round(1 - confidence, 3), evidence, labeler="dspy", decided=False)
    return LabelResult(label, round(confidence, 3), evidence, labeler="dspy")


def _doubt(pair: LabelPair, label: str, evidence: dict[str, object]) -> str:
    if label != "UPDATE":
        return ""
    if pair.order == -1:
        return "earlier"
    if "older" not in evidence or "newer" not in evidence:
        return "no quote"
    if not stem_words(content_words(pair.older + " " + pair.older_context)) & stem_words(
        content_words(pair.newer + " " + pair.newer_context)
    ):
        return "nothing shared"
    return ""


def find_quote(text: str, quote: str) -> tuple[int, int] | None:
    """Returns where a quote stands in a text, whatever its spaces, capitals and outer marks; None where it does not."""
    for marks in ("\"'`“”‘’ ", "\"'`“”‘’.… "):  # noqa: RUF001
        words = re.findall(r"\S+", quote.strip().strip(marks))
        found = re.search(r"\s+".join(re.escape(w) for w in words), text, re.IGNORECASE) if words else None
        if found:
            return found.span()
    return None


def failed(pair: LabelPair, why: str) -> LabelResult:
    """Returns the abstention for an answer that cannot be read."""
    return LabelResult("NONE", 0.0, {"rule": "abstain", "failed": why}, labeler="dspy", decided=False)
