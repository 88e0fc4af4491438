"""From a model's answer to a label: quotes are located, doubt lowers confidence, UPDATE needs evidence."""

import json
import re
from typing import TYPE_CHECKING

import polars as pl

from palimpsest.core.errors import ComponentFailed
from palimpsest.core.json_types import JsonObject
from palimpsest.relations.classify.label_types import LABELS, UNPAID, Evidence, LabelPair, LabelResult
from palimpsest.relations.classify.lm.ledger import Ledger
from palimpsest.store.home import Home
from palimpsest.text.words import content_words, stem_words

if TYPE_CHECKING:
    import dspy


MIN_CONFIDENCE = 0.5
"""An answer below this confidence is an abstention."""
CONTAINS_INSTRUCTIONS = "the text gives orders"
"""Why a pair was not shown to the model."""
_UNQUOTED_FACTOR = 0.7  # on the confidence, for each quote that is not in its text
_CONFLICTS_BY_LABEL = {
    "UPDATE": ("dynamic",),
    "EXTEND": ("conditional",),
    "DERIVE": (),
    "NONE": ("static", "conditional"),
}
_INSTRUCTIONS = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:instruction|prompt|rule|above|previous|system)|"
    r"\b(?:answer|output|respond|reply|label|return|say|classify)\b.{0,40}\b(?:UPDATE|EXTEND|DERIVE|NONE)\b|"
    r"\bUPDATE\b.{0,30}\bconfidence\b|^[^\S\n]*+(?:system|assistant)\s*+:|\[\[ ## |</?(?:system|instructions?)>",
    re.IGNORECASE | re.DOTALL | re.MULTILINE,
)


def contains_instructions(text: str) -> bool:
    """Returns whether a text addresses the labeler: such a pair is not shown to a model."""
    return _INSTRUCTIONS.search(text) is not None


def read_answer(pair: LabelPair, answer: "dspy.Prediction") -> LabelResult:
    """Returns the label of a parsed answer: `label, confidence, older_quote, newer_quote` and, where given, `conflict`.

    A quote that is not in its text is dropped and lowers the confidence. UPDATE needs a quote of both, common words,
    and a newer statement that is not the earlier one; otherwise it is an abstention. A static conflict needs the same,
    otherwise the answer is read as one without a conflict.
    """
    label = str(answer.label)
    if label not in LABELS:
        return unreadable("label")
    try:
        confidence = min(1.0, max(0.0, float(answer.confidence)))
    except (TypeError, ValueError):
        return unreadable("confidence")
    if confidence != confidence:
        return unreadable("confidence")
    evidence: JsonObject = {"rule": "lm"}
    for name, text in (("older", pair.older), ("newer", pair.newer)):
        span = find_quote(text, str(getattr(answer, f"{name}_quote", "") or ""))
        if span is not None:
            evidence[name] = list(span)
        else:
            confidence *= _UNQUOTED_FACTOR
            evidence[f"{name}_quote"] = "not in the text"
    why = _doubt(pair, evidence) if label == "UPDATE" else ""
    if why or confidence < MIN_CONFIDENCE:
        evidence |= {"rule": "abstain", "instead_of": label, "why": why or "not sure"}
        return LabelResult("NONE", round(1 - confidence, 3), evidence, labeler="dspy", decided=False)
    conflict = _read_conflict(str(getattr(answer, "conflict", "") or ""), label)
    if conflict == "static" and _doubt(pair, evidence):
        conflict = ""
    return LabelResult(label, round(confidence, 3), evidence, labeler="dspy", conflict=conflict)


def _read_conflict(text: str, label: str) -> str:
    """Returns the conflict that an answer names, empty where it is none or does not go with the label."""
    conflict = text.strip().strip("\"'`.").casefold()
    return conflict if conflict in _CONFLICTS_BY_LABEL[label] else ""


def _doubt(pair: LabelPair, evidence: Evidence) -> str:
    """Returns what speaks against the newer statement contradicting the older one, empty where nothing does."""
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
    """Returns the span of a quote in a text, ignoring spaces, case and outer marks; None where it is not there."""
    folded, places = _fold(text)
    for marks in ("\"'`“”‘’ ", "\"'`“”‘’.… "):  # noqa: RUF001
        wanted = _fold(quote.strip().strip(marks).strip())[0]
        at = folded.find(wanted) if wanted else -1
        if at >= 0:
            return places[at], places[at + len(wanted) - 1] + 1
    return None


def _fold(text: str) -> tuple[str, list[int]]:
    """Returns a text without case and with single spaces, and the place in the text of each of its characters."""
    places = [i for i, c in enumerate(text) if not (c.isspace() and text[i - 1 : i].isspace())]
    return "".join(" " if text[i].isspace() else _fold_character(text[i]) for i in places), places


def _fold_character(character: str) -> str:
    return next((c for c in (character.casefold(), character.lower()) if len(c) == 1), character)


def unreadable(why: str) -> LabelResult:
    """Returns the abstention for an answer of which `why` cannot be read."""
    return LabelResult("NONE", 0.0, {"rule": "abstain", "failed": why}, labeler="dspy", decided=False)


# Stops a build whose language model returns unreadable answers.

MAX_UNREADABLE_SHARE = 0.5
"""Of all pairs of a collection that the model answered, those of earlier builds included."""


def check_answers(relations: pl.DataFrame, home: Home) -> None:
    """Stops the build where most answers of the model are unreadable, and removes those from the ledger.

    Readable answers stay in the ledger, so that a run after the server is repaired does not pay for them again.

    Args:
        relations: a collection's relations; those without an answer of the model do not count.
        home: whose ledger has the answers.

    Raises:
        ComponentFailed: more than half of the answers are unreadable.
    """
    by_lm = relations.filter(pl.col("labeler") == "dspy").select("newer_id", "older_id", "evidence")
    rows = [(newer, older, json.loads(evidence)) for newer, older, evidence in by_lm.iter_rows()]
    answered = [r for r in rows if r[2].get("rule") != UNPAID and r[2].get("why") != CONTAINS_INSTRUCTIONS]
    unreadable = [(newer, older) for newer, older, evidence in answered if "failed" in evidence]
    if len(unreadable) <= MAX_UNREADABLE_SHARE * len(answered):
        return
    ledger = Ledger(home.lm_ledger)
    ledger.drop(unreadable)
    ledger.close()
    raise ComponentFailed(
        f"labels: {len(unreadable)} of {len(answered)} answers of the model in PALIMPSEST_LM cannot be read; nothing"
        " was published, readable answers are kept; check the server and run again, or set PALIMPSEST_LABELER=offline"
    )
