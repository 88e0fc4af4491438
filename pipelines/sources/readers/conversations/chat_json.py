"""Conversations in JSON: the shapes of LoCoMo and LongMemEval, and what chat programs export."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from palimpsest.core.errors import Rejected
from palimpsest.core.json_types import JsonObject, JsonValue
from palimpsest.sources.readers.common.clean_text import parse_name, title_from_uri
from palimpsest.sources.readers.common.encodings import decode
from palimpsest.sources.readers.common.scope_fields import parse_scope_name
from palimpsest.sources.readers.conversations.chat_turns import chat_kind, is_chat, parse_turns
from palimpsest.sources.readers.conversations.json_rows import JsonReader, JsonRow
from palimpsest.sources.readers.conversations.slack import format_messages, has_slack_messages, is_export_list
from palimpsest.sources.readers.conversations.turns import read_conversations
from palimpsest.sources.records.extracted import ExtractedDocument, Extraction, Segment
from palimpsest.sources.records.source import Source
from palimpsest.sources.secrets.find_secrets import shorten_value
from palimpsest.store.limits import Limits

_SESSION = re.compile(r"session_(\d+)")
_TURNS = ("messages", "turns", "conversation", "chat", "dialogue", "history")
_CONTAINERS = ("data", "conversations", "sessions", "chats", "threads", "list", "items")
_ID = ("session_id", "conversation_id", "id", "uuid", "name", "title")
_MAX_DEPTH = 4


@dataclass(frozen=True, slots=True)
class Conversation:
    """The turns of one session, as JSONL rows would have them, its names, and why its user cannot be used if so."""

    turns: list[JsonObject]
    session_id: str | None = None
    user_id: str | None = None
    title: str | None = None
    kind: Literal["message", "import"] = "import"
    problem: str | None = None


def read_json(source: Source, limits: Limits) -> Extraction:
    """Reads a JSON file: its conversations where there are any, else its text as it is.

    Raises:
        Rejected: not JSON, nested too deeply, binary, empty or too long.
    """
    text, reader = decode(source.data, limits), JsonReader()
    try:
        value = reader.decode(text)
    except RecursionError:
        raise Rejected("nested too deeply: this JSON is no document; leave it out") from None
    except ValueError as e:
        raise Rejected(f"not JSON: {e}; export it again") from None
    if is_export_list(source.uri, value):
        return Extraction(())  # names for the messages of a Slack export, none of its own
    is_slack = has_slack_messages(value)
    if is_slack:
        value = format_messages(value, source.names or {})
    if found := find_conversations(value):
        problems = [
            f"{shorten_value(k)} stated twice in one object; remove one" for k in dict.fromkeys(reader.repeated)
        ]
        return read_chats(source, found, problems, limits)
    if is_slack:
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


def read_chats(source: Source, found: Sequence[Conversation], problems: list[str], limits: Limits) -> Extraction:
    """Returns one document for each conversation.

    Raises:
        Rejected: no message has a text.
    """
    rows: list[JsonRow] = []
    titles: dict[tuple[str | None, str | None], str] = {}
    for number, conversation in enumerate(found, 1):
        if conversation.problem:
            problems.append(f"conversation {number}: {conversation.problem}; it is left out")
            continue
        key = (conversation.user_id, conversation.session_id)
        if conversation.title:
            titles.setdefault(key, conversation.title)
        for turn in conversation.turns:
            rows.append(JsonRow(len(rows) + 1, {"session_id": key[1], "user_id": key[0], **turn}))
    kind = "message" if all(c.kind == "message" for c in found) else "import"
    return read_conversations(source, rows, problems, limits, unit="message", titles=titles, kind=kind)


def find_conversations(value: JsonValue) -> list[Conversation]:
    """Returns the conversations in a JSON value, with distinct names."""
    return _with_unique_names(list(_find(value, 0)))


def _find(value: JsonValue, depth: int) -> Iterator[Conversation]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, list):
        if is_chat(value):
            yield Conversation(parse_turns(value), kind=chat_kind(value))
            return
        for item in value:
            if isinstance(item, dict | list):
                yield from _find(item, depth + 1)
    elif isinstance(value, dict):
        found = list(_parse_export(value))
        if found:
            yield from found
            return
        for key in _CONTAINERS:
            if isinstance(value.get(key), list | dict):
                yield from _find(value[key], depth + 1)


def _parse_export(item: Mapping[str, JsonValue]) -> Iterator[Conversation]:
    """Yields the conversations of an object in one of the known shapes."""
    if isinstance(item.get("haystack_sessions"), list):
        yield from _parse_longmemeval(item)
    elif isinstance(talk := item.get("conversation"), dict) and any(_SESSION.fullmatch(k) for k in talk):
        yield from _parse_locomo(talk, item)
    elif any(_SESSION.fullmatch(k) and isinstance(v, list) and is_chat(v) for k, v in item.items()):
        yield from _parse_locomo(item, item)
    elif isinstance(nodes := item.get("mapping"), dict):
        if turns := _parse_tree(nodes, item.get("current_node")):
            user, problem = parse_scope_name("user_id", item.get("user_id"))
            yield Conversation(turns, _find_name(item, _ID), user, parse_name(item.get("title")), problem=problem)
    else:
        for key in _TURNS:
            if isinstance(messages := item.get(key), list) and is_chat(messages):
                user, problem = parse_scope_name("user_id", item.get("user_id"))
                names = (_find_name(item, _ID), user, _find_name(item, ("title", "name")))
                yield Conversation(parse_turns(messages), *names, chat_kind(messages), problem)
                return


def _parse_locomo(talk: Mapping[str, JsonValue], item: Mapping[str, JsonValue]) -> Iterator[Conversation]:
    """Yields sessions `session_<n>`, dated by `session_<n>_date_time`; each sample has its own user."""
    sample, problem = parse_scope_name("sample_id", item.get("sample_id"))
    for number, key in sorted((int(m[1]), k) for k in talk if (m := _SESSION.fullmatch(k))):
        if isinstance(session := talk[key], list) and session:
            date = talk.get(f"{key}_date_time")
            yield Conversation(parse_turns(session, date), f"session_{number}", sample, problem=problem)


def _parse_longmemeval(item: Mapping[str, JsonValue]) -> Iterator[Conversation]:
    """Yields `haystack_sessions`, with dates and ids in parallel lists; each question has its own user."""
    sessions, dates, ids = (
        found if isinstance(found := item.get(key), list) else []
        for key in ("haystack_sessions", "haystack_dates", "haystack_session_ids")
    )
    user, problem = parse_scope_name("question_id", item.get("question_id"))
    for i, session in enumerate(sessions):
        if isinstance(session, list) and session:
            name = parse_name(ids[i]) if i < len(ids) else None
            date = dates[i] if i < len(dates) else None
            yield Conversation(parse_turns(session, date), name or f"session_{i + 1}", user, problem=problem)


def _parse_tree(mapping: Mapping[str, JsonValue], current: JsonValue) -> list[JsonObject]:
    """Returns the turns of a tree of edits: the branch that ends in the current node, or all by time."""
    nodes = {k: n for k, n in mapping.items() if isinstance(n, dict)}
    branch: list[JsonValue] = []
    seen = set[str]()
    while isinstance(current, str) and current in nodes and current not in seen:
        seen.add(current)
        branch.append(nodes[current].get("message"))
        current = nodes[current].get("parent")
    branch = branch[::-1] or [n.get("message") for n in nodes.values()]
    messages = [m for m in branch if isinstance(m, dict)]
    if not seen:
        messages.sort(key=lambda m: m["create_time"] if isinstance(m.get("create_time"), int | float) else 0)
    return [t for t in parse_turns(messages) if t["text"] and t["speaker"] != "system"]


def _find_name(item: Mapping[str, JsonValue], keys: tuple[str, ...]) -> str | None:
    return next((name for k in keys if (name := parse_name(item.get(k)))), None)


def _with_unique_names(found: list[Conversation]) -> list[Conversation]:
    if len(found) == 1:
        return found
    used: dict[tuple[str | None, str], int] = {}
    out = []
    for number, c in enumerate(found, 1):
        name = c.session_id or f"conversation_{number}"
        n = used[c.user_id, name] = used.get((c.user_id, name), 0) + 1
        out.append(replace(c, session_id=name if n == 1 else f"{name} ({n})"))
    return out
