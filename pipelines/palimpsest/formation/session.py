"""A conversation session as formation reads it: turns in order, with speakers and places."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args

from palimpsest.core.ids import FormedKind as Kind
from palimpsest.sources.extracted import Segment
from palimpsest.text.sentences import document_sentence_spans
from palimpsest.text.words import NO_PERSON_ROLES, USER_ROLES

_STRAIGHT = str.maketrans({0x2018: "'", 0x2019: "'", 0x201C: '"', 0x201D: '"'})


@dataclass(frozen=True)
class Turn:
    """A turn of a session.

    Attributes:
        speaker: as the source names them.
        text: what they say.
        start: place of the text in the document.
        is_saved: the source states `memory: save`.
        is_tool: the source states that a tool wrote it.
    """

    speaker: str
    text: str
    start: int
    is_saved: bool = False
    is_tool: bool = False

    @property
    def is_person(self) -> bool:
        """Whether somebody other than an assistant, a tool or a system message speaks."""
        return not self.is_tool and self.speaker.strip().casefold() not in NO_PERSON_ROLES

    @property
    def name(self) -> str:
        """Who speaks, as a statement names them."""
        name = " ".join(self.speaker.split())
        if not name or name.casefold() in USER_ROLES:
            return "The user"
        return name[0].upper() + name[1:]

    @cached_property
    def sentences(self) -> tuple["Sentence", ...]:
        """The sentences of the turn, in order."""
        return tuple(
            Sentence(self, a, b)
            for a, b in document_sentence_spans(self.text, 0, len(self.text))
            if re.search(r"\w", self.text[a:b])
        )

    @cached_property
    def line(self) -> str:
        """The turn on one line, with who speaks."""
        return f"{self.name if self.is_person else 'Assistant'}: {' '.join(self.text.split())}"


@dataclass(frozen=True)
class Sentence:
    """A sentence of a turn, by its place in the turn's text."""

    turn: Turn
    start: int
    end: int

    @cached_property
    def text(self) -> str:
        """Its words, with single spaces and straight quotation marks."""
        return " ".join(self.turn.text[self.start : self.end].translate(_STRAIGHT).split())

    @property
    def span(self) -> tuple[int, int]:
        """Its place in the document."""
        return self.turn.start + self.start, self.turn.start + self.end

    @property
    def is_question(self) -> bool:
        """Whether it ends as a question."""
        return self.text.rstrip("\"') ").endswith("?")


@dataclass(frozen=True)
class Session:
    """The turns of one document of a conversation.

    Attributes:
        document_id: of this version of the session.
        turns: in order.
        note_id: of the note of the session, the same for all versions.
        scope: collection, user and project.
        began_at: ISO time of the first turn that has one, None where none has.
        is_current: no newer version replaced it.
        chunk_ids: chunks of the document.
    """

    document_id: str
    turns: tuple[Turn, ...]
    note_id: str = ""
    scope: tuple[str, ...] = ()
    began_at: str | None = None
    is_current: bool = True
    chunk_ids: tuple[str, ...] = ()


def read_sessions(rows: Sequence[Mapping[str, Any]]) -> Iterator[Session]:
    """Yields the sessions among documents; a document without turns is none.

    Args:
        rows: `document_id`, `text` and `segments` of documents, and what else a `Session` has.
    """
    for row in rows:
        segments = [Segment.from_row(s) for s in json.loads(row["segments"] or "[]")]
        turns = tuple(
            Turn(
                s.speaker or "",
                row["text"][s.char_start : s.char_end],
                s.char_start,
                is_saved=bool(s.stated and s.stated.memory == "save"),
                is_tool=bool(s.stated and s.stated.kind == "tool"),
            )
            for s in segments
            if s.kind == "turn"
        )
        if turns:
            times = [s.said_at for s in segments if s.kind == "turn" and s.said_at is not None]
            yield Session(
                row["document_id"],
                turns,
                row["note_id"],
                tuple(row["scope"]),
                times[0].isoformat() if times else None,
                row["is_current"],
                tuple(row["chunk_ids"]),
            )


# An item of a note: what one session says that is worth keeping, with the words that say it.

KINDS: tuple[Kind, ...] = get_args(Kind)
STATED_KINDS: tuple[Kind, ...] = ("fact", "preference", "decision", "solution")
"""What somebody states."""
SENTENCE_KINDS: tuple[Kind, ...] = (*STATED_KINDS, "gap")
"""What one sentence may form, by rules and model."""
RULES, LM = "rules", "lm"
"""Values of `extractor`."""


@dataclass(frozen=True)
class NoteItem:
    """An item of a note.

    Attributes:
        kind: what it is.
        statement: one sentence that can be read alone.
        span: place of the quote in the document.
        confidence: 0 to 1.
        evidence: places in the document of all words that it rests on; the quote's is one of them.
        is_saved: a person requests that it is remembered.
        alternatives: what else the evidence could mean.
        invalidation_conditions: what would make it wrong.
        related_note_ids: notes that it is connected with.
        extractor: who formed it.
    """

    kind: Kind
    statement: str
    span: tuple[int, int]
    confidence: float
    evidence: tuple[tuple[int, int], ...] = ()
    is_saved: bool = False
    alternatives: tuple[str, ...] = ()
    invalidation_conditions: tuple[str, ...] = ()
    related_note_ids: tuple[str, ...] = ()
    extractor: str = RULES
