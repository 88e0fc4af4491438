"""MemConflict: chats with a person whose facts change, are contradicted, or hold under conditions."""

import datetime as dt
from collections.abc import Sequence

from palimpsest_eval.suites.record import Item, Record, SuiteDraft, records

_CONFLICTS = {
    "static_conflict": "Static_Conflict_Information",
    "conditional_conflict": "Conditional_Conflict_Information",
}
_DYNAMIC = "dynamic_conflict"


def load_memconflict(items: list[Item], draft: SuiteDraft) -> None:
    """Adds MemConflict: a scope for each person, a row for each message, each question as of its session's date.

    The data set judges sessions, and not messages. Relevant are all messages of the session that a question's answer
    is from: of an update the session itself; of a contradiction the sessions that stated the fact first; of a
    condition the session of the point of the question. Superseded are the earlier sessions that stated an
    attribute that the session updates, or the session that contradicts. A question names no attribute, so that of a
    session that updates several, the earlier statements of all of them count.

    Source: Tao et al., arXiv 2605.20926; TaoZhen1110/MemConflict, `Data/Step4_4.jsonl`, as `Code/Step4_4.py` writes
    and `Evaluation/eval_a_mem.py` reads it.
    """
    for person in records(items, str(draft.source)):
        scope, sessions = person.text("ID"), person.children("Full_Session_Chain")
        rows = [_add_dialogue(draft, scope, session) for session in sessions]
        if not any(rows):
            person.fail("Full_Session_Chain", "has no session with a Session_Dialogue; give Data/Step4_4.jsonl")
        for n, session in enumerate(sessions):
            questions = session.children("Session_Questions", required=False)
            kinds = [question.text("conflict_type") for question in questions]
            for i, (kind, question) in enumerate(zip(kinds, questions, strict=True)):
                place, count = kinds[:i].count(kind), kinds.count(kind)
                current, superseded = _evidence(sessions, n, question, place, count)
                draft.add_query(
                    f"{scope}:{session.text('Session_ID')}:{question.text('question_id')}",
                    question.text("question"),
                    [row for s in sorted(current) for row in rows[s]],
                    kind,
                    scope,
                    [row for s in sorted(superseded - current) for row in rows[s]],
                    as_of=_day(session),
                )


def _add_dialogue(draft: SuiteDraft, scope: str, session: Record) -> list[str]:
    """Adds the messages of a session and returns their row ids; empty ones are left out."""
    if session.get("Session_Dialogue") is None:
        return []
    name, day, dialogue = session.text("Session_ID"), _day(session), session.child("Session_Dialogue")
    turns = sorted(dialogue.values, key=lambda key: (len(key), key))  # Turn_2 before Turn_10
    said = [
        (str(message.get("content") or ""), message.text("role"))
        for turn in turns
        for message in dialogue.children(turn)
    ]
    return [
        draft.add_row(f"{scope}:{name}:{i}", text, scope=scope, role=role, session=name, date_time=day)
        for i, (text, role) in enumerate(said)
        if text.strip()
    ]


def _day(session: Record) -> str:
    """Returns the date of a session, such as 2022-01-03; some readers of the data set also expect 2022/01/03."""
    try:
        return dt.date.fromisoformat(session.text("Date").replace("/", "-")).isoformat()
    except ValueError:
        session.fail("Date", "must be a day such as 2022-01-03")


def _evidence(
    sessions: Sequence[Record], n: int, question: Record, place: int, count: int
) -> tuple[set[int], set[int]]:
    """Returns the numbers of the sessions that answer a question of session `n`, and of those that are superseded.

    Args:
        sessions: of a person, in their order.
        n: the session with the question.
        question: the question.
        place: how many questions of its kind are before it in the session.
        count: questions of its kind in the session; they are in the order of the session's points.
    """
    kind = question.text("conflict_type")
    if kind == _DYNAMIC:
        updated = _updated(sessions[n])
        stated = {i for i in range(n) if updated & (_updated(sessions[i]) | _revealed(sessions[i]))}
        return {n}, stated
    if kind not in _CONFLICTS:
        question.fail("conflict_type", f"{kind!r} is unknown; use {_DYNAMIC}, {' or '.join(_CONFLICTS)}")
    field = _CONFLICTS[kind]
    points = [point for point in sessions[n].children(field, required=False) if _rank(point) > 1]
    before = [(i, p) for i in range(n + 1) for p in sessions[i].children(field, required=False)]
    current = points[place : place + 1] if len(points) == count else points
    if kind == "static_conflict":
        return {i for point in current for i, p in before if _same_conflict(p, point, 1)}, {n}
    found = [[i for i, p in before if _same_conflict(p, point, _rank(point) - 1)][-1:] for point in current]
    return {i for numbers in found for i in numbers} or {n}, set()


def _updated(session: Record) -> set[str]:
    """Returns the attributes whose new values a session states."""
    changes = session.children("Updated_Attributes", required=False)
    return {change.text("Attribute") for change in changes if change.get("After") not in (None, "", {})}


def _revealed(session: Record) -> set[str]:
    """Returns the attributes that a session states for the first time."""
    return set(found) if isinstance(found := session.get("Revealed_Attributes"), dict) else set()


def _same_conflict(point: Record, other: Record, rank: int) -> bool:
    same = all(point.get(name) == other.get(name) for name in ("Conflict_ID", "Target_Field_Path"))
    return same and _rank(point) == rank


def _rank(point: Record) -> int:
    """Returns 1 for `Point_A`, 2 for `Point_B` and so on; 0 for a distractor."""
    role = str(point.get("Role") or "")
    return ord(role[-1]) - ord("A") + 1 if role.startswith("Point_") and "A" <= role[-1] <= "Z" else 0
