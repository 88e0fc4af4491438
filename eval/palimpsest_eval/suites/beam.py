"""BEAM: long chats with an assistant, questions of ten kinds, and the messages that they are about."""

import ast
import datetime as dt
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.types import JsonObject, JsonValue
from palimpsest_eval.metrics import json_rows, row_text
from palimpsest_eval.suites.record import Item, Record, SuiteDraft, records

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
