"""The earlier notes that a model reads beside a session: what rules form of the sessions before it, in its scope.

They are those of rules, although a model writes the note itself: the note of a session then depends on no other answer
of the model, and a session that is added or edited changes what is read with the next few sessions, and no more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from palimpsest.formation.session import NoteItem, Session
from palimpsest.relations.classify.lm.read_answer import contains_instructions

MAX_SESSIONS = 3
MAX_ITEMS = 5
"""Of one session."""
_MAX_CHARACTERS = 200  # of one statement
_NONE = "(none)"


@dataclass(frozen=True)
class EarlierNotes:
    """What a model reads of earlier sessions.

    Attributes:
        text: their statements, each note under its label.
        note_ids: the notes by label.
        chunk_ids: of the sessions that the statements are from.
    """

    text: str = _NONE
    note_ids: Mapping[str, str] | None = None
    chunk_ids: tuple[str, ...] = ()


def earlier_notes(sessions: Sequence[Session], by_rules: Sequence[Sequence[NoteItem]]) -> list[EarlierNotes]:
    """Returns the earlier notes of each session: of the last sessions of its scope that began before it and have items.

    Sessions without a time have none, and are in none. Versions of a session that were replaced are in none.
    """
    statements = {s.document_id: _statements(items) for s, items in zip(sessions, by_rules, strict=True)}
    scopes: dict[tuple[str, ...], list[Session]] = {}
    for session in sorted(sessions, key=lambda s: (s.began_at or "", s.note_id)):
        if session.began_at and session.is_current and statements[session.document_id]:
            scopes.setdefault(session.scope, []).append(session)
    return [_notes_before(session, scopes.get(session.scope, []), statements) for session in sessions]


def _notes_before(session: Session, dated: Sequence[Session], statements: Mapping[str, list[str]]) -> EarlierNotes:
    place = session.began_at, session.note_id
    before = [s for s in dated if session.began_at and (s.began_at, s.note_id) < place][-MAX_SESSIONS:]
    if not before:
        return EarlierNotes(note_ids={})
    labels = {f"n{n}": s for n, s in enumerate(before, 1)}
    lines = [f"{label}: {text}" for label, s in labels.items() for text in statements[s.document_id]]
    chunk_ids = tuple(c for s in before for c in s.chunk_ids)
    return EarlierNotes("\n".join(lines), {label: s.note_id for label, s in labels.items()}, chunk_ids)


def _statements(items: Sequence[NoteItem]) -> list[str]:
    texts = dict.fromkeys(" ".join(i.statement.split())[:_MAX_CHARACTERS] for i in items)
    return [text for text in texts if not contains_instructions(text)][:MAX_ITEMS]
