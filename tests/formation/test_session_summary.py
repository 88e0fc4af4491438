"""The summary of a session: sentences of people, each with its place, from sessions that are long enough."""

from palimpsest.formation.note_table import SENTENCES, session_summary
from palimpsest.formation.session import Session, Turn

LINES = [
    f"The {thing} in the workshop needs a new {part} this week."
    for thing in ("lathe", "press", "saw")
    for part in ("belt", "blade", "handle", "motor")
]


def session(lines, speaker="Ana"):
    start, turns = 0, []
    for text in lines:
        turns.append(Turn(speaker, text, start))
        start += len(text) + 1
    return Session("s", tuple(turns))


def test_a_summary_quotes_sentences_of_the_session_with_their_places():
    read = session(LINES)
    item = session_summary(read)
    text = "\n".join(LINES)
    places = [item.span, *item.evidence]
    assert item.kind == "summary" and len(places) == SENTENCES and places == sorted(places)
    assert item.statement == " ".join(f"Ana: {text[a:b]}" for a, b in places)


def test_short_sessions_and_what_an_assistant_says_have_no_summary():
    assert session_summary(session(LINES[:9])) is None
    assert session_summary(session(LINES, "Assistant")) is None
