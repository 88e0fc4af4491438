"""The turns of a chat in JSON: who says what and when, in the field names that chat programs use."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from palimpsest.core.json_types import JsonObject, JsonValue
from palimpsest.sources.readers.common.clean_text import parse_name
from palimpsest.sources.readers.conversations.message_parts import AttachedText, MessageParts
from palimpsest.sources.records.stated_fields import TYPES
from palimpsest.store.trust_config import KINDS
from palimpsest.text.chat_roles import INSTRUCTION_ROLES, TOOL_ROLES

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
_ITEMS = ("function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output", "reasoning")
"""Types of items between messages, as the Responses API has them."""
_FILE_FIELDS = {"attachments": {"file_name", "extracted_content"}, "files": {"file_name", "name"}}
"""What an entry of a list of files has; Slack's `attachments` are previews of links."""
_PEOPLE = frozenset(_SPEAKER) - {"role", "author", "name"}


@dataclass(frozen=True, slots=True)
class Attachment:
    """A text that was attached to a message, with the time of the message."""

    text: AttachedText
    time: JsonValue


@dataclass(slots=True)
class ParsedTurns:
    """The turns of a conversation.

    Attributes:
        rows: as lines of a JSONL conversation have them.
        attachments: texts attached to its messages.
        left_out: number of parts and messages that are no turns, by kind.
    """

    rows: list[JsonObject] = field(default_factory=list)
    attachments: list[Attachment] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


def is_chat(items: Sequence[JsonValue]) -> bool:
    """Returns whether half of the items or more have a text or call a tool, and have a speaker or a time."""
    turns = sum(isinstance(i, dict) and _is_turn(i) for i in items)
    return turns > 0 and 2 * turns >= len(items)


def chat_kind(items: Sequence[JsonValue]) -> Literal["message", "import"]:
    """Returns `message` for the OpenAI message format, which programs write as they talk, else `import`."""
    rows = [i for i in items if isinstance(i, dict)]
    return "message" if rows and all(i.keys() >= {"role", "content"} for i in rows) else "import"


def parse_turns(items: Sequence[JsonValue], date: JsonValue = None, *, keep_empty: bool = True) -> ParsedTurns:
    """Returns the items that are turns, and what is in them besides text.

    A call of a tool and a result inside a message are turns of the kind `tool`. Instructions to the assistant (roles
    `system` and `developer`, in the message format and in exports) and messages that the program hid are counted.

    Args:
        items: messages of one conversation.
        date: of turns that state no time.
        keep_empty: a message without content is a turn without text, which the reader of turns reports.
    """
    parsed = ParsedTurns()
    for item in items:
        if isinstance(item, dict) and (item.keys() & {*_TEXT, *_SPEAKER} or item.get("type") in _ITEMS):
            _add_message(item, date, keep_empty, parsed)
    return parsed


def count_messages(items: Sequence[JsonValue]) -> int:
    """Returns how many items are messages of people, assistants or tools that contain something."""
    return sum(isinstance(i, dict) and not _hidden_as(i) and not parse_parts(i).is_empty for i in items)


def find_time(item: Mapping[str, JsonValue]) -> JsonValue:
    """Returns the time that a message or a conversation states; None where it states none."""
    value = next((item[k] for k in _TIME if item.get(k) not in (None, "")), None)
    return float(value) if isinstance(value, str) and _EPOCH.fullmatch(value) else value


def parse_parts(item: Mapping[str, JsonValue]) -> MessageParts:
    """Returns what a message contains, in whichever fields its program writes it."""
    parts = MessageParts()
    if item.get("type") in _ITEMS and "role" not in item:
        parts.add(dict(item))
        return parts
    content = item.get("content")
    if isinstance(content, list) and content:
        parts.add(content)  # Claude repeats it in `text`, with a notice in place of each tool
    for key in () if not parts.is_empty else _TEXT:
        parts.add(item.get(key))
        if parts.text:
            break
    if caption := parse_name(item.get("blip_caption")):
        parts.add([parts.text and " ", f"[image: {caption}]"])
    _add_files(item, parts)
    for call in calls if isinstance(calls := item.get("tool_calls"), list) else ():
        if isinstance(call, dict):
            inner = next((c for k in ("function", "custom") if isinstance(c := call.get(k), dict)), call)
            parts.add_call(inner.get("name"), inner.get("arguments", inner.get("input")))
    if isinstance(call := item.get("function_call"), dict):
        parts.add_call(call.get("name"), call.get("arguments"))
    return parts


def _add_files(item: Mapping[str, JsonValue], parts: MessageParts) -> None:
    """Adds the files of a message; pictures that ChatGPT lists in its metadata are in the message already."""
    for name, fields in _FILE_FIELDS.items():
        listed = item.get(name)
        for entry in listed if isinstance(listed, list) else ():
            if isinstance(entry, dict) and entry.keys() & fields:
                parts.add_file(entry)
    metadata = item.get("metadata")
    listed = metadata.get("attachments") if isinstance(metadata, dict) else None
    for entry in listed if isinstance(listed, list) else ():
        if isinstance(entry, dict) and not str(entry.get("mime_type")).startswith("image/"):
            parts.add_file({"name": entry.get("name")})


def _add_message(item: JsonObject, date: JsonValue, keep_empty: bool, parsed: ParsedTurns) -> None:
    parts = parse_parts(item)
    if hidden := _hidden_as(item):
        parsed.left_out[hidden] += not parts.is_empty
        return
    names = ("session_id", "user_id") if item.keys() >= {"role", "content"} else ()
    turn: JsonObject = {k: item[k] for k in (*_STATED, *names) if k in item}
    turn |= {k: item[k] for k, known in (("type", TYPES), ("kind", KINDS)) if item.get(k) in known}
    time = find_time(item)
    is_between = item.get("type") in _ITEMS and "role" not in item
    turn |= {"speaker": "assistant" if is_between else _find_speaker(item), "role": _find_role(item)}
    turn["timestamp"] = time if time is not None else date
    text = parts.text
    if recipient := _find_tool(item):
        if text:
            parts.add_call(recipient, text)
        text = ""
    if text or (keep_empty and parts.is_empty):
        parsed.rows.append({**turn, "text": text})
    for result_of, words in parts.tools:
        speaker = result_of or turn["speaker"]
        parsed.rows.append({**turn, "speaker": speaker, "kind": "tool", "text": words})
    parsed.attachments += (Attachment(a, turn["timestamp"]) for a in parts.attached)
    parsed.left_out += parts.left_out


def _is_turn(item: Mapping[str, JsonValue]) -> bool:
    if _find_speaker(item) is None and find_time(item) is None:
        return item.get("type") in _ITEMS and not parse_parts(item).is_empty
    parts = parse_parts(item)
    return bool(parts.text or parts.tools)


def _hidden_as(item: Mapping[str, JsonValue]) -> str:
    """Returns as what a message is left out: `instruction`, `hidden` or `reasoning`; empty for turns."""
    role = (_find_role(item) or "").casefold()
    metadata = item.get("metadata")
    shown = metadata if isinstance(metadata, dict) else {}
    is_instruction = role in INSTRUCTION_ROLES and not item.keys() & _PEOPLE  # else a person who is a developer
    if is_instruction or shown.get("is_user_system_message") is True:
        return "instruction"
    if shown.get("is_visually_hidden_from_conversation") is True:
        return "tool" if role in TOOL_ROLES else "hidden"
    return "reasoning" if item.get("channel") == "analysis" and role not in TOOL_ROLES else ""


def _find_tool(item: Mapping[str, JsonValue]) -> str:
    """Returns the tool to which ChatGPT's assistant wrote a message; empty where it is for people."""
    recipient = item.get("recipient")
    if not isinstance(recipient, str) or recipient in ("", "all", "assistant", "user") or "author" not in item:
        return ""
    return recipient if (_find_role(item) or "") == "assistant" else ""


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
