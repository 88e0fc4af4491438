"""The summary of a session as an item of its note: the sentences of people that sum it up, in their order.

It is a function of the session alone, names every turn that it quotes, and becomes a memory of type summary where
`promote` names it.
"""

from collections.abc import Iterator, Sequence

from palimpsest.formation.item import NoteItem
from palimpsest.formation.rules import form_items
from palimpsest.formation.session import Session
from palimpsest.text.extract_summary import summary_sentences

SENTENCES = 5
_MIN_SENTENCES = 10
"""A shorter session is read as fast as a summary of it."""
_CONFIDENCE = 0.7


def form_with_summaries(sessions: Sequence[Session]) -> Iterator[list[NoteItem]]:
    """Yields the items that rules form of each session, and its summary.

    Raises:
        ComponentFailed: the file of the model that judges sentences is missing or damaged.
    """
    for session, items in zip(sessions, form_items(sessions), strict=True):
        summary = session_summary(session)
        yield [*items, *([summary] if summary is not None else [])]


def session_summary(session: Session) -> NoteItem | None:
    """Returns the summary of a session; None where people say fewer than ten sentences."""
    said = [s for turn in session.turns if turn.is_person for s in turn.sentences]
    if len(said) < _MIN_SENTENCES:
        return None
    chosen = [said[i] for i in summary_sentences([s.text for s in said], SENTENCES)]
    if not chosen:
        return None
    statement = " ".join(f"{s.turn.name}: {s.text}" for s in chosen)
    return NoteItem("summary", statement, chosen[0].span, _CONFIDENCE, tuple(s.span for s in chosen[1:]))
