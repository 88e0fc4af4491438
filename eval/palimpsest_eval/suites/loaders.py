"""Loaders of two public sets of chats: MemConflict, with facts that change, and BEAM."""

import ast
import datetime as dt
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import JsonObject, JsonValue
from palimpsest_eval.metrics import json_rows, row_text
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


# BEAM: long chats with an assistant, questions of ten kinds, and the messages that they are about.

_CHATS = ("chat_trunecated.json", "chat.json")  # spelled as published; the first is what BEAM itself evaluates
_QUESTIONS = Path("probing_questions/probing_questions.json")
_PLACE_IN_PLAN = re.compile(r"\s*->->[\d,\s]*$")


def load_beam(items: list[Item], draft: SuiteDraft) -> None:
    """Adds BEAM: a scope for each chat, a row for each message, dated by the last `time_anchor` before it.

    Relevant are the messages of `source_chat_ids`; abstention questions have none. Of a knowledge update the messages
    of `original_info` are superseded by those of `updated_info`. Some chats number several messages alike: a question
    about such a number is not judged.

    Source: Tavakoli et al., arXiv 2510.27246; rows of huggingface.co/datasets/Mohammadta/BEAM, with
    `conversation_id`, `chat` and `probing_questions`.
    """
    for chat in records(items, str(draft.source)):
        scope, day, uses = chat.text("conversation_id"), None, Counter[str]()
        for message in _messages(chat, "chat", chat.items("chat")):
            number, role = message.text("id"), message.text("role")
            uses[number] += 1
            row_id = f"{scope}:{number}" if uses[number] == 1 else f"{scope}:{number}#{uses[number]}"
            day = _anchor_day(message.get("time_anchor")) or day
            text = _PLACE_IN_PLAN.sub("", str(message.get("content") or ""))
            draft.add_row(row_id, text, scope=scope, role=role, date_time=day)
        questions = _probing_questions(chat)
        for kind in questions.values:
            for i, question in enumerate(questions.children(kind)):
                ids = question.get("source_chat_ids")
                known = ids if all(uses[number] < 2 for number in _numbers(ids)) else None
                _add_question(draft, scope, f"{scope}:{kind}{i}", kind, question.text("question"), known)


def _add_question(draft: SuiteDraft, scope: str, query_id: str, kind: str, question: str, ids: JsonValue) -> None:
    old: set[str] = set()
    if isinstance(ids, dict) and kind == "knowledge_update":
        old = set(_numbers(ids.get("original_info"))) - set(_numbers(ids.get("updated_info")))
    relevant = [f"{scope}:{n}" for n in dict.fromkeys(_numbers(ids))]
    stale = [f"{scope}:{n}" for n in sorted(old, key=int)]
    draft.add_query(query_id, question, relevant, kind, scope, stale)


def _messages(chat: Record, name: str, value: JsonValue) -> Iterator[Record]:
    """Yields the messages of a chat, which are in turns, batches and, in the longest chats, plans."""
    if isinstance(value, list):
        for i, entry in enumerate(value):
            yield from _messages(chat, f"{name}[{i}]", entry)
    elif isinstance(value, dict) and "content" in value:
        yield Record(value, chat.where, f"{name}.")
    elif isinstance(value, dict):
        for key, entry in value.items():
            if isinstance(entry, list):
                yield from _messages(chat, f"{name}.{key}", entry)
    else:
        chat.fail(name, "must be a message, or a list of messages")


def _probing_questions(chat: Record) -> Record:
    """Returns the questions by kind; the data hub has them as a Python literal."""
    value = chat.get("probing_questions")
    if isinstance(value, str):
        try:
            value = ast.literal_eval(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            chat.fail("probing_questions", "is a text that is no Python literal")
    return Record({**chat.values, "probing_questions": value}, chat.where).child("probing_questions")


def _numbers(ids: JsonValue) -> list[str]:
    """Returns the ids of messages in lists and objects of lists."""
    if isinstance(ids, dict | list):
        return [n for entry in (ids.values() if isinstance(ids, dict) else ids) for n in _numbers(entry)]
    return [str(ids)] if isinstance(ids, int) and not isinstance(ids, bool) else []


def _anchor_day(anchor: JsonValue) -> str | None:
    """Returns "2024-03-15" of "March-15-2024"."""
    try:
        return dt.datetime.strptime(str(anchor), "%B-%d-%Y").date().isoformat()
    except ValueError:
        return None


def beam_files(folder: Path) -> list[Path]:
    """Returns the files of a folder of chats, or of one chat, as the repository has them; none of another folder.

    Source: mohammadtavakoli78/BEAM, `chats/<size>/<n>/chat.json` and `probing_questions/probing_questions.json`.
    """
    chats = [_chat_file(folder)]
    if chats == [None]:
        chats = [_chat_file(part) for part in sorted(folder.iterdir()) if part.is_dir()]
    return [part for chat in chats if chat is not None for part in (chat, chat.parent / _QUESTIONS)]


def _chat_file(folder: Path) -> Path | None:
    return next((folder / name for name in _CHATS if (folder / name).is_file()), None)


def load_beam_folder(folder: Path, draft: SuiteDraft) -> None:
    """Adds the chats of a folder; see `load_beam` and `beam_files`.

    Raises:
        PalimpsestError: a file is missing, no JSON or not in the layout.
    """
    parts = iter(beam_files(folder))
    for chat, questions in zip(parts, parts, strict=True):
        item = {
            "conversation_id": chat.parent.resolve().name,
            "chat": _read(chat),
            "probing_questions": _read(questions),
        }
        load_beam([item], SuiteDraft(chat, draft.rows, draft.queries, draft.qrels, draft.stale))


def load_beam_suite(folder: Path, draft: SuiteDraft) -> None:
    """Adds chats that were converted to a suite whose queries have `source_chat_ids` in their `meta`."""
    chats: dict[str, list[JsonValue]] = {}
    for where, row in json_rows(folder / "corpus.jsonl"):
        meta, row_id = _meta(row), row_text(row, "_id", where)
        message = {"role": meta.get("role"), "content": row.get("text"), "time_anchor": meta.get("time_anchor")}
        chats.setdefault(row_text(row, "scope", where), []).append({**message, "id": row_id.rpartition(":")[2]})
    questions: dict[str, dict[str, list[JsonValue]]] = {}
    for where, row in json_rows(folder / "queries.jsonl"):
        kinds = questions.setdefault(row_text(row, "scope", where), {})
        question = {"question": row.get("text"), "source_chat_ids": _meta(row).get("source_chat_ids")}
        kinds.setdefault(row_text(row, "type", where), []).append(question)
    items: list[JsonObject] = [
        {"conversation_id": scope, "chat": chat, "probing_questions": questions.get(scope, {})}
        for scope, chat in chats.items()
    ]
    load_beam(items, draft)


def _meta(row: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    return found if isinstance(found := row.get("meta"), dict) else {}


def _read(path: Path) -> JsonValue:
    try:
        value: JsonValue = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as e:
        raise PalimpsestError(f"{path}: not JSON, or not there ({str(e)[:80]})") from None
    return value
