"""The turns of a chat in JSON: who says what and when, in the field names that chat programs use."""

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from palimpsest.core.json_types import JsonObject, JsonValue
from palimpsest.sources.readers.common.clean_text import parse_name
from palimpsest.sources.records.stated_fields import TYPES
from palimpsest.store.trust_config import KINDS

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
# `type` and `kind` count only where they have our values: exports use these names for other things.
_STATED = ("project_id", "tags", "importance", "confidence", "privacy", "memory")
_MAX_PARTS = 1_000


def is_chat(items: Sequence[JsonValue]) -> bool:
    """Returns whether half of the items or more have a text, and a speaker or a time."""
    rows = [i for i in items if isinstance(i, dict)]
    turns = sum(bool(_find_text(i)) and (_find_speaker(i) is not None or _find_time(i) is not None) for i in rows)
    return turns > 0 and 2 * turns >= len(items)


def chat_kind(items: Sequence[JsonValue]) -> Literal["message", "import"]:
    """Returns `message` for the OpenAI message format, which programs write as they talk, else `import`."""
    rows = [i for i in items if isinstance(i, dict)]
    return "message" if rows and all(i.keys() >= {"role", "content"} for i in rows) else "import"


def parse_turns(items: Sequence[JsonValue], date: JsonValue = None) -> list[JsonObject]:
    """Returns the items that are turns, as a line of a JSONL conversation has them.

    Args:
        items: messages of one conversation.
        date: of turns that state no time.
    """
    turns: list[JsonObject] = []
    for item in items:
        if not isinstance(item, dict) or not (item.keys() & {*_TEXT, *_SPEAKER}):
            continue
        text = _find_text(item)
        if caption := parse_name(item.get("blip_caption")):
            text = f"{text} [image: {caption}]".strip()
        if not text and item.keys() & {"tool_calls", "function_call"}:
            continue  # a request to call a tool has no text
        names = ("session_id", "user_id") if item.keys() >= {"role", "content"} else ()
        turn: JsonObject = {k: item[k] for k in (*_STATED, *names) if k in item}
        turn |= {k: item[k] for k, known in (("type", TYPES), ("kind", KINDS)) if item.get(k) in known}
        time = _find_time(item)
        turn |= {"speaker": _find_speaker(item), "role": _find_role(item), "text": text}
        turn["timestamp"] = time if time is not None else date
        turns.append(turn)
    return turns


def _find_speaker(item: Mapping[str, JsonValue]) -> str | None:
    for key in _SPEAKER:
        value = item.get(key)
        if isinstance(value, dict):
            value = next((value[k] for k in ("name", "display_name", "username", "role", "id") if value.get(k)), None)
        if name := parse_name(value):
            return name
    return None


def _find_role(item: Mapping[str, JsonValue]) -> str | None:
    author = item.get("author")
    return parse_name(item.get("role") or (author.get("role") if isinstance(author, dict) else None))


def _find_text(item: Mapping[str, JsonValue]) -> str:
    return next((text for key in _TEXT if (text := _join_parts(item.get(key)))), "")


def _join_parts(value: JsonValue) -> str:
    """Returns a text, or parts of a text, as one: exports divide a message into runs of plain and marked words."""
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


def _find_time(item: Mapping[str, JsonValue]) -> JsonValue:
    value = next((item[k] for k in _TIME if item.get(k) not in (None, "")), None)
    return float(value) if isinstance(value, str) and _EPOCH.fullmatch(value) else value
