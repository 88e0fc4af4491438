"""From a model's answer to items of a note: each must quote a turn of the session, and a person in it."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from palimpsest.formation.lm.earlier_notes import EarlierNotes
from palimpsest.formation.session import LM, Kind, NoteItem, Session, Turn
from palimpsest.lm.answer_parts import numbers_in, stated_confidence, stemmed_words
from palimpsest.relations.classify.lm.read_answer import contains_instructions, find_quote

MAX_ITEMS = 40
"""Of one answer; what a model lists beyond is dropped."""
MAX_STATEMENT_CHARACTERS = 400
_PARTS: tuple[tuple[str, Kind, str, float], ...] = (
    ("facts", "fact", "statement", 0.75),
    ("preferences", "preference", "description", 0.9),
    ("decisions", "decision", "statement", 0.75),
    ("inferences", "inference", "statement", 0.8),
    ("emotional_context", "emotion", "statement", 0.5),
    ("potential_topics", "topic", "topic", 0.5),
    ("connections", "connection", "topic", 0.5),
    ("knowledge_gaps", "gap", "question", 0.6),
)
"""Field of an answer, kind, field of its statement, and the highest confidence."""

_Spans = tuple[tuple[int, int], ...]


@dataclass
class ReadNote:
    """The items of an answer, and how many of its parts were dropped, by reason."""

    items: list[NoteItem] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)


def read_reflection(session: Session, earlier: EarlierNotes, answer: Mapping[str, object]) -> ReadNote:
    """Returns the items of an answer.

    One counts where each of its quotes is in the turn that it names, a person says that turn, its numbers are in the
    turns that it quotes, and no word of it is from a turn that it does not quote, or from an earlier note. What a note
    says therefore goes with the turns it quotes: nothing of another turn is left when that one is deleted.

    Args:
        session: that was read; turns are counted from 1.
        earlier: the notes that were read with it.
        answer: the fields of the program's answer.
    """
    read = ReadNote()
    for name, kind, statement, confidence in _PARTS:
        parts = answer.get(name)
        for part in parts if isinstance(parts, list) else []:
            item, reason = _item(session, earlier, kind, statement, confidence, part)
            if item is not None and not reason:
                reason = _problem(session, earlier, item, len(read.items))
            if item is None or reason:
                read.dropped[reason] += 1
            else:
                read.items.append(item)
    return read


def _item(
    session: Session, earlier: EarlierNotes, kind: Kind, field_name: str, highest: float, part: object
) -> tuple[NoteItem | None, str]:
    """Returns an item, or why there is none."""
    if not isinstance(part, Mapping):
        return None, "it is no item"
    text = " ".join(str(part.get(field_name) or "").split())
    if not re.search(r"\w", text):
        return None, "it has no statement"
    spans, reason = _evidence(session, part)
    if reason:
        return None, reason
    related: list[str] = []
    if kind == "connection":
        labels = _texts(part.get("related_note_ids"))
        related = [id_ for label in labels if (id_ := (earlier.note_ids or {}).get(label))]
        if not related or len(related) < len(labels):
            return None, "it names no earlier note that was given"
    turn = next(t for t in session.turns if t.start <= spans[0][0] < t.start + len(t.text))
    item = NoteItem(
        kind,
        _statement(kind, text, turn, part),
        spans[0],
        stated_confidence(part.get("confidence"), highest),
        spans,
        alternatives=tuple(_texts(part.get("alternatives"))),
        invalidation_conditions=tuple(_texts(part.get("invalidation_conditions"))),
        related_note_ids=tuple(dict.fromkeys(related)),
        extractor=LM,
    )
    return item, ""


def _evidence(session: Session, part: Mapping[str, object]) -> tuple[_Spans, str]:
    """Returns the places of the quotes in the document, or why they are no evidence."""
    stated = part.get("evidence")
    if "source_turn" in part:
        stated = [{"turn": part["source_turn"], "quote": part.get("quote")}]
    if not isinstance(stated, list) or not stated:
        return (), "it has no evidence"
    spans: dict[tuple[int, int], None] = {}
    for quoted in stated:
        number = _turn_number(quoted.get("turn")) if isinstance(quoted, Mapping) else 0
        if not isinstance(quoted, Mapping) or not 1 <= number <= len(session.turns):
            return (), "its evidence is no turn of the session"
        turn = session.turns[number - 1]
        span = find_quote(turn.text, str(quoted.get("quote") or ""))
        if span is None:
            return (), "its quote is not in the turn"
        if not turn.is_person:
            return (), "it quotes no person"
        spans[turn.start + span[0], turn.start + span[1]] = None
    return tuple(spans), ""


def _problem(session: Session, earlier: EarlierNotes, item: NoteItem, count: int) -> str:
    """Returns why an item does not count, empty where it does."""
    everything = "\n".join((item.statement, *item.alternatives, *item.invalidation_conditions))
    quoted, others = _quoted_texts(session, item)
    foreign = stemmed_words(everything) - stemmed_words(quoted)
    checks = (
        (count < MAX_ITEMS, "too many"),
        (len(everything) <= 2 * MAX_STATEMENT_CHARACTERS, "it is too long"),
        (len(item.statement) <= MAX_STATEMENT_CHARACTERS, "it is too long"),
        (not contains_instructions(everything), "it gives orders"),
        (numbers_in(everything) <= numbers_in(quoted), "its numbers are not in the turns that it quotes"),
        (not foreign & stemmed_words(others), "it uses words of a turn that it does not quote"),
        (not foreign & stemmed_words(earlier.text), "it repeats an earlier note"),
    )
    return next((reason for is_met, reason in checks if not is_met), "")


def _quoted_texts(session: Session, item: NoteItem) -> tuple[str, str]:
    """Returns the turns that an item quotes, with the names of all speakers, and the turns that it does not quote."""
    names = sorted({turn.name for turn in session.turns})
    quoted, others = list(names), list[str]()
    for turn in session.turns:
        is_quoted = any(turn.start <= start < turn.start + len(turn.text) for start, _ in item.evidence)
        (quoted if is_quoted else others).append(turn.text)
    return "\n".join(quoted), "\n".join(others)


def _statement(kind: Kind, text: str, turn: Turn, part: Mapping[str, object]) -> str:
    if kind == "topic":
        return f"{turn.name} talks about {text}."
    if kind == "gap":
        return f"Open question of {turn.name}: {text}"
    if kind == "connection":
        relationship = " ".join(re.findall(r"[a-z]+", str(part.get("relationship_type") or "").lower()))[:40]
        return f"{text} ({relationship or 'relates to'} an earlier conversation)"
    return text[0].upper() + text[1:]


def _texts(value: object) -> list[str]:
    parts: Iterable[object] = value if isinstance(value, Sequence) and not isinstance(value, str) else ()
    return [text for part in parts if (text := " ".join(str(part).split()))]


def _turn_number(value: object) -> int:
    found = re.fullmatch(r"\W*(?:turn )?(\d{1,6})\W*", str(value), re.IGNORECASE)
    return int(found[1]) if found else 0
