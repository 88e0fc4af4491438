"""Conversations in JSON: the shapes of LoCoMo and LongMemEval, and what chat programs export."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from palimpsest.core.errors import Rejected
from palimpsest.sources.readers.common.clean_text import parse_name, title_from_uri
from palimpsest.sources.readers.common.encodings import decode
from palimpsest.sources.readers.conversations.json_rows import JsonRow
from palimpsest.sources.readers.conversations.slack import format_messages, has_slack_messages, is_export_list
from palimpsest.sources.readers.conversations.turns import read_conversations
from palimpsest.sources.records.extracted import ExtractedDocument, Extraction, Segment
from palimpsest.sources.records.source import Source
from palimpsest.sources.records.stated_fields import KINDS, TYPES
from palimpsest.store.limits import Limits

_SESSION = re.compile(r"session_(\d+)")
_EPOCH = re.compile(r"\d{9,13}(?:\.\d+)?")
_SPEAKER = ("speaker", "role", "author", "from", "sender", "sender_name", "user", "username", "name")
_TEXT = ("text", "content", "message", "body", "parts")
_TIME = (
    "timestamp",
    "date",
    "time",
    "created_at",
    "create_time",
    "createdAt",
    "date_time",
    "datetime",
    "sent_at",
    "ts",
    "timestamp_ms",
)
_TURNS = ("messages", "turns", "conversation", "chat", "dialogue", "history")
_ID = ("session_id", "conversation_id", "id", "uuid", "name", "title")
# `type` and `kind` count only as words of ours: exports use them for other things.
_KEPT = ("project_id", "tags", "importance", "confidence", "privacy", "memory")
_MAX_DEPTH, _MAX_PARTS = 4, 1_000


@dataclass(frozen=True, slots=True)
class Conversation:
    """The turns of one session as JSONL rows would hold them, and what it is called."""

    turns: list[dict[str, Any]]
    session_id: str | None = None
    user_id: str | None = None
    title: str | None = None
    kind: str = "import"


def read_json(source: Source, limits: Limits) -> Extraction:
    """Reads a JSON file: its conversations where it contains any, else its text as it is.

    Raises:
        Rejected: not JSON, nested too deeply, binary, empty or too long.
    """
    text = decode(source.data, limits)
    try:
        value = json.loads(text, parse_constant=lambda _: None)
    except RecursionError:
        raise Rejected("nested too deeply: this JSON is no document; leave it out") from None
    except ValueError as e:
        raise Rejected(f"not JSON: {e}; export it again") from None
    if is_export_list(source.uri, value):
        return Extraction(())  # names for the messages of a Slack export, none of its own
    exported = has_slack_messages(value)
    if exported:
        value = format_messages(value, source.names or {})
    if found := find_conversations(value):
        return read_chats(source, found, [], limits)
    if exported:
        return Extraction(())  # nothing but notices
    start = len(text) - len(text.lstrip())
    document = ExtractedDocument(
        uri=source.uri,
        media_type="application/json",
        text=text,
        title=title_from_uri(source.uri),
        segments=(Segment(start, len(text.rstrip()), "code"),),
    )
    return Extraction((document,))


def read_chats(source: Source, found: list[Conversation], problems: list[str], limits: Limits) -> Extraction:
    """Returns one document for each conversation.

    Raises:
        Rejected: no message holds text.
    """
    rows: list[JsonRow] = []
    titles: dict[tuple[str | None, str | None], str] = {}
    for conversation in found:
        key = (conversation.user_id, conversation.session_id)
        if conversation.title:
            titles.setdefault(key, conversation.title)
        for turn in conversation.turns:
            rows.append(JsonRow(len(rows) + 1, {"session_id": key[1], "user_id": key[0], **turn}))
    kind = "message" if all(c.kind == "message" for c in found) else "import"
    return read_conversations(source, rows, problems, limits, unit="message", titles=titles, kind=kind)


def find_conversations(value: Any) -> list[Conversation]:
    """Returns the conversations in a JSON value."""
    return _unique(list(_find(value, 0)))


def _find(value: Any, depth: int) -> Iterator[Conversation]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, list):
        if _is_chat(value):
            yield Conversation(_turns(value), kind=_kind(value))
            return
        for item in value:
            if isinstance(item, dict | list):
                yield from _find(item, depth + 1)
    elif isinstance(value, dict):
        own = list(_one(value))
        if own:
            yield from own
            return
        for key in ("data", "conversations", "sessions", "chats", "threads", "list", "items"):
            if isinstance(value.get(key), list | dict):
                yield from _find(value[key], depth + 1)


def _one(item: dict[str, Any]) -> Iterator[Conversation]:
    if isinstance(item.get("haystack_sessions"), list):
        yield from _longmemeval(item)
    elif isinstance(talk := item.get("conversation"), dict) and any(_SESSION.fullmatch(k) for k in talk):
        yield from _locomo(talk, parse_name(item.get("sample_id")))
    elif any(_SESSION.fullmatch(k) and isinstance(v, list) and _is_chat(v) for k, v in item.items()):
        yield from _locomo(item, parse_name(item.get("sample_id")))
    elif isinstance(item.get("mapping"), dict):
        if turns := _tree(item):
            yield Conversation(turns, _first(item, _ID), parse_name(item.get("user_id")), _first(item, ("title",)))
    else:
        for key in _TURNS:
            if isinstance(item.get(key), list) and _is_chat(item[key]):
                user = parse_name(item.get("user_id"))
                title, kind = _first(item, ("title", "name")), _kind(item[key])
                yield Conversation(_turns(item[key]), _first(item, _ID), user, title, kind)
                return


def _locomo(talk: dict[str, Any], sample: str | None) -> Iterator[Conversation]:
    """Sessions `session_<n>` of two speakers, dated by `session_<n>_date_time`; each sample has its own user."""
    for number, key in sorted((int(m[1]), k) for k in talk if (m := _SESSION.fullmatch(k))):
        if isinstance(talk[key], list) and talk[key]:
            date = talk.get(f"{key}_date_time")
            yield Conversation(_turns(talk[key], date), f"session_{number}", sample)


def _longmemeval(item: dict[str, Any]) -> Iterator[Conversation]:
    """Sessions in `haystack_sessions` with `haystack_dates` and ids beside them; each question has its own user."""
    dates: list[Any] = item["haystack_dates"] if isinstance(item.get("haystack_dates"), list) else []
    key = "haystack_session_ids"
    ids: list[Any] = item[key] if isinstance(item.get(key), list) else []
    user = parse_name(item.get("question_id"))
    for i, session in enumerate(item["haystack_sessions"]):
        if isinstance(session, list) and session:
            name = parse_name(ids[i]) if i < len(ids) else None
            date = dates[i] if i < len(dates) else None
            yield Conversation(_turns(session, date), name or f"session_{i + 1}", user)


def _tree(item: dict[str, Any]) -> list[dict[str, Any]]:
    """Messages as a tree of edits: the branch that ends in `current_node`, or all by time."""
    nodes = {k: n for k, n in item["mapping"].items() if isinstance(n, dict)}
    order: list[Any] = []
    at, seen = item.get("current_node"), set[Any]()
    while isinstance(at, str) and at in nodes and at not in seen:
        seen.add(at)
        order.append(nodes[at].get("message"))
        at = nodes[at].get("parent")
    order = order[::-1] or [n.get("message") for n in nodes.values()]
    messages = [m for m in order if isinstance(m, dict)]
    if not seen:
        messages.sort(key=lambda m: m["create_time"] if isinstance(m.get("create_time"), int | float) else 0)
    return [t for t in _turns(messages) if t["text"] and t["speaker"] != "system"]


def _is_chat(items: list[Any]) -> bool:
    """Half of the items or more say something and who or when."""
    rows = [i for i in items if isinstance(i, dict)]
    good = sum(bool(_words(i)) and (_speaker(i) is not None or _when(i) is not None) for i in rows)
    return good > 0 and 2 * good >= len(items)


def _turns(items: list[Any], date: Any = None) -> list[dict[str, Any]]:
    out = []
    for item in items:
        if not isinstance(item, dict) or not (item.keys() & {*_TEXT, *_SPEAKER}):
            continue
        text = _words(item)
        if caption := parse_name(item.get("blip_caption")):
            text = f"{text} [image: {caption}]".strip()
        own = _when(item)
        if not text and item.keys() & {"tool_calls", "function_call"}:
            continue  # a request to call a tool: it says nothing
        names = ("session_id", "user_id") if item.keys() >= {"role", "content"} else ()
        stated = {k: item[k] for k in (*_KEPT, *names) if k in item}
        words = {k: item[k] for k, known in (("type", TYPES), ("kind", KINDS)) if item.get(k) in known}
        turn = {"speaker": _speaker(item), "role": _role(item), "text": text}
        turn["timestamp"] = own if own is not None else date
        out.append(stated | words | turn)
    return out


def _kind(items: list[Any]) -> str:
    """Tells the OpenAI message format, which programs write as they talk, from what a chat program exports."""
    rows = [i for i in items if isinstance(i, dict)]
    return "message" if rows and all(i.keys() >= {"role", "content"} for i in rows) else "import"


def _speaker(item: dict[str, Any]) -> str | None:
    for key in _SPEAKER:
        value = item.get(key)
        if isinstance(value, dict):
            value = next((value[k] for k in ("name", "display_name", "username", "role", "id") if value.get(k)), None)
        if name := parse_name(value):
            return name
    return None


def _role(item: dict[str, Any]) -> str | None:
    author = item.get("author")
    return parse_name(item.get("role") or (author.get("role") if isinstance(author, dict) else None))


def _words(item: dict[str, Any]) -> str:
    return next((words for key in _TEXT if (words := _joined(item.get(key)))), "")


def _joined(value: Any) -> str:
    """Returns text, or parts of text, as one: exports divide a message into runs of plain and marked words."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, dict):
        value = value.get("parts") or value.get("text") or value.get("content")
        if isinstance(value, str):
            return value.strip()
    if not isinstance(value, list):
        return ""
    parts = [p if isinstance(p, str) else p.get("text") if isinstance(p, dict) else None for p in value[:_MAX_PARTS]]
    return "".join(p for p in parts if isinstance(p, str)).strip()


def _when(item: dict[str, Any]) -> Any:
    value = next((item[k] for k in _TIME if item.get(k) not in (None, "")), None)
    return float(value) if isinstance(value, str) and _EPOCH.fullmatch(value) else value


def _first(item: dict[str, Any], keys: tuple[str, ...]) -> str | None:
    return next((name for k in keys if (name := parse_name(item.get(k)))), None)


def _unique(found: list[Conversation]) -> list[Conversation]:
    """Gives conversations of one file names that tell them apart."""
    if len(found) == 1:
        return found
    used: dict[tuple[str | None, str], int] = {}
    out = []
    for number, c in enumerate(found, 1):
        name = c.session_id or f"conversation_{number}"
        n = used[c.user_id, name] = used.get((c.user_id, name), 0) + 1
        out.append(replace(c, session_id=name if n == 1 else f"{name} ({n})"))
    return out
