"""The turns of a chat in JSON: who says what and when, in the field names that chat programs use."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Literal

from palimpsest.core.errors import Rejected
from palimpsest.core.ids import JsonObject, JsonValue
from palimpsest.sources.extracted import (
    CONVERSATION,
    FIELD_NAMES,
    TYPES,
    ExtractedDocument,
    Extraction,
    Scope,
    Source,
    StatedFields,
    limit_problems,
    parse_stated_fields,
)
from palimpsest.sources.find_secrets import shorten_value
from palimpsest.sources.readers.chat_dates import find_order
from palimpsest.sources.readers.document_head import explain_date
from palimpsest.sources.readers.encodings import clean_text, parse_name
from palimpsest.sources.readers.front_matter import parse_scope
from palimpsest.sources.readers.json_values import JsonRow
from palimpsest.sources.readers.text_builder import TextBuilder, parse_validity
from palimpsest.store.collection_config import KINDS, Limits
from palimpsest.text.dates import DateOrder, parse_stated_time
from palimpsest.text.words import INSTRUCTION_ROLES, TOOL_ROLES

_TEXT_KINDS = frozenset({"text", "input_text", "output_text", "refusal", "audio_transcription"})

# What a chat message contains: its words, calls of tools and their results, attached texts, and what is no text.

_IMAGES = frozenset({"image", "input_image", "output_image", "image_url", "image_file", "image_asset_pointer"})
_SOUNDS = frozenset(
    {
        "audio",
        "input_audio",
        "output_audio",
        "audio_asset_pointer",
        "video",
        "input_video",
        "video_container_asset_pointer",
        "real_time_user_audio_video_asset_pointer",
    }
)
_FILES = frozenset({"file", "input_file", "document", "container_upload"})
_REASONING = frozenset({"thinking", "redacted_thinking", "reasoning", "thoughts", "reasoning_recap"})
_CONTEXT = frozenset({"user_editable_context", "model_editable_context"})
_CALLS = frozenset(
    {"tool_use", "server_tool_use", "mcp_tool_use", "tool_call", "function_call", "custom_tool_call", "mcp_call"}
)
_RESULTS = ("tool_result", "call_output")
_MARKERS = frozenset({"token_budget", "flag", "item_reference", "step_start"})  # of programs, without content
_IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp", ".heic", ".bmp", ".svg", ".tif", ".tiff"})
_INNER = ("parts", "text", "content", "refusal", "result", "transcript")
_FILE_NAMES = ("filename", "file_name", "name", "title")
_MAX_NAME_CHARS, _MAX_DEPTH = 300, 6
# ChatGPT puts links and cards between private characters, and older answers have source numbers in lenticular brackets.
_CARD = re.compile("\ue200([a-z_]{1,40})\ue202?([^\ue200\ue201]{0,4000})\ue201")
_SOURCE_MARK = re.compile(r"【\d+(?:[:†][^【】\n]{0,200})?】")


@dataclass(frozen=True, slots=True)
class AttachedText:
    """A text that was attached to a message: a document of its own."""

    name: str
    text: str


@dataclass(slots=True)
class MessageParts:
    """What a message contains, as it is read part by part.

    Attributes:
        tools: (name of the tool where it is a result, else empty; text) of each call and result.
        attached: its attached texts.
        left_out: number of parts that are not stored, by kind.
    """

    tools: list[tuple[str, str]] = field(default_factory=list)
    attached: list[AttachedText] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    _pieces: list[tuple[str, bool]] = field(default_factory=list)
    _has_words: bool = False

    @property
    def text(self) -> str:
        """The words of the message; empty where it has none, whatever pictures it has."""
        if not self._has_words:
            return ""
        out: list[str] = []
        was_block = False
        for text, is_block in self._pieces:
            out += ["\n", text] if out and (is_block or was_block) else [text]
            was_block = is_block
        return "".join(out).strip()

    @property
    def is_empty(self) -> bool:
        """Whether the message contains nothing at all."""
        return not (self._has_words or self.tools or self.attached or self.left_out)

    def add(self, value: JsonValue, is_block: bool = False, depth: int = 0) -> None:
        """Adds a content: a text, a list of parts, or one part.

        Parts of a known type are blocks, each on a line of its own; others are runs of one line, as chat programs
        divide a message into plain and marked words.
        """
        if isinstance(value, str):
            self._add_words(value, is_block)
        elif isinstance(value, list) and depth <= _MAX_DEPTH:
            for part in value:
                self.add(part, is_block, depth + 1)
        elif isinstance(value, dict) and depth <= _MAX_DEPTH:
            self._add_part(value, is_block, depth)
        elif isinstance(value, dict | list):
            self.left_out["other"] += 1

    def add_call(self, name: JsonValue, arguments: JsonValue) -> None:
        """Adds the call of a tool; one without a name is counted."""
        if (tool := parse_name(name)) is None:
            self.left_out["tool"] += 1
        else:
            self.tools.append(("", f"{tool}({_to_text(arguments)})"))

    def add_file(self, part: Mapping[str, JsonValue], is_image: bool = False) -> None:
        """Adds what was attached: its text where there is one, else a mark with its name where that is known."""
        name = _find_file_name(part)
        text = part.get("extracted_content")
        source = part.get("source")
        if isinstance(source, dict) and source.get("type") == "text":
            text = source.get("data")
        if isinstance(text, str) and text.strip():
            self.attached.append(AttachedText(name or "attachment.txt", text))
            self._add_mark("file", name)
            return
        is_image = is_image or part.get("file_kind") == "image" or PurePosixPath(name).suffix.lower() in _IMAGE_SUFFIXES
        kind = "image" if is_image else "file"
        self.left_out[kind] += 1
        self._add_mark(kind, name)

    def _add_words(self, text: str, is_block: bool) -> None:
        if "\ue200" in text:
            text = _CARD.sub(_card_words, text)
        if "【" in text:
            text = _SOURCE_MARK.sub("", text)
        if text:
            self._pieces.append((text, is_block))
            self._has_words = self._has_words or not text.isspace()

    def _add_mark(self, kind: str, name: str) -> None:
        self._pieces.append((f"[{kind}: {name}]" if name else f"[{kind}]", True))
        self._has_words = self._has_words or bool(name)

    def _add_part(self, part: Mapping[str, JsonValue], is_block: bool, depth: int) -> None:
        kind = part.get("type") or part.get("content_type")
        kind = kind.replace("-", "_") if isinstance(kind, str) else ""
        if kind in _IMAGES:
            self.add_file({"name": _find_caption(part) or _find_file_name(part)}, is_image=True)
        elif kind in _SOUNDS:
            self.left_out["audio"] += 1
        elif kind in _FILES:
            self.add_file(part)
        elif kind in _REASONING or kind in _CONTEXT:
            self.left_out["reasoning" if kind in _REASONING else "instruction"] += 1
        elif kind in _CALLS:
            self._add_call_part(part)
        elif kind.endswith(_RESULTS):
            self._add_result(part, depth)
        elif not (
            self._add_inner(part, is_block or kind in _TEXT_KINDS, depth) or kind in _TEXT_KINDS or kind in _MARKERS
        ):
            self.left_out["other"] += 1

    def _add_inner(self, part: Mapping[str, JsonValue], is_block: bool, depth: int) -> bool:
        """Adds the text or the parts in a part; returns whether it has such a field."""
        names = [key for key in _INNER if part.get(key) is not None]
        for key in names:
            if part[key] not in ("", [], {}):
                self.add(part[key], is_block or key == "parts", depth + 1)
                break
        return bool(names)

    def _add_call_part(self, part: Mapping[str, JsonValue]) -> None:
        inner = part.get("function")
        call = inner if isinstance(inner, dict) else part
        name = call.get("name") or call.get("toolName")
        self.add_call(name, next((call[k] for k in ("arguments", "input", "args") if k in call), None))

    def _add_result(self, part: Mapping[str, JsonValue], depth: int) -> None:
        inner = MessageParts()
        value = next((part[k] for k in ("output", "content", "result") if k in part), None)
        inner.add(value, depth=depth + 1)
        self.left_out += inner.left_out
        self.attached += inner.attached
        if text := inner.text:
            self.tools.append((parse_name(part.get("name")) or "tool", text))
        elif inner.is_empty:
            self.left_out["tool"] += 1


def _card_words(card: re.Match[str]) -> str:
    """Returns the words that a card showed: the name of an entity, and nothing for links to sources."""
    if card[1] != "entity":
        return ""
    try:
        names = json.loads(card[2])
    except (ValueError, RecursionError):
        return ""
    return names[1] if isinstance(names, list) and len(names) > 1 and isinstance(names[1], str) else ""


def _find_caption(part: Mapping[str, JsonValue]) -> str:
    """Returns what a picture shows, where the program that made it says so."""
    metadata = part.get("metadata")
    made = metadata.get("dalle") if isinstance(metadata, dict) else None
    prompt = made.get("prompt") if isinstance(made, dict) else None
    return next(
        (n[:_MAX_NAME_CHARS] for v in (part.get("alt"), part.get("caption"), prompt) if (n := parse_name(v))), ""
    )


def _find_file_name(part: Mapping[str, JsonValue]) -> str:
    inner = part.get("file")
    for fields in (part, inner if isinstance(inner, dict) else {}):
        for key in _FILE_NAMES:
            value = fields.get(key)
            if isinstance(value, str) and (name := parse_name(value)):
                return name[:_MAX_NAME_CHARS]
    return ""


def _to_text(arguments: JsonValue) -> str:
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


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


# Conversations as JSONL, one turn a line: {"session_id", "user_id", "speaker", "text", "timestamp", ...}.


def read_conversations(
    source: Source,
    rows: Iterable[JsonRow],
    problems: list[str],
    limits: Limits,
    *,
    unit: str = "line",
    titles: Mapping[tuple[str | None, str | None], str] | None = None,
    kind: str = "message",
) -> Extraction:
    """Returns one document for each (user, session, project), in the order of first turns; turns keep the file's order.

    A turn that states one of the source's defaults is in the same document as one that states none.

    A segment spans exactly the words of its turn; "Speaker: " is before it on the same line. `role` is the speaker
    where none is named, and a turn by the role of a tool is of the kind `tool`. A line that is no turn becomes a
    problem, and so does one whose user, session or project is not usable; so does another field that is not usable,
    but its turn is included. A turn without a usable time has that of the turn before it in its session; a timestamp
    that is not usable is a warning. Where the collection does not say which number of a date is the day, one above 12
    in any timestamp decides.

    Args:
        source: the file.
        rows: its turns.
        problems: known problems, to which this adds.
        limits: of the source.
        unit: what `JsonRow.line` counts, as messages show it.
        titles: of conversations, by (user, session).
        kind: kind of source of the documents.

    Raises:
        Rejected: no line is a turn.
    """
    builders: dict[Scope, TextBuilder] = {}
    stated_scopes: dict[Scope, Scope] = {}
    warnings: list[str] = []
    rows = list(rows)
    dates = source.dates or find_order(row.value.get("timestamp") for row in rows)
    for row in rows:
        where = f"{row.place}{unit} {row.line}"
        text = row.value.get("text")
        if not isinstance(text, str) or not (text := clean_text(text).strip()):
            problems.append(f"{where}: no text; a turn needs a text of at least one word")
            continue
        scope, unusable = parse_scope(row.value)
        if unusable:
            problems.append(f"{where}: {'; '.join(unusable)}; the turn is left out")
            continue
        stamp = row.value.get("timestamp")
        said_at = parse_stated_time(stamp, dates)
        speaker = parse_name(row.value.get("speaker")) or parse_name(row.value.get("role"))
        stated, wrong = _parse_fields(row.value, source.dates)
        problems += (f"{where}: {p}" for p in wrong)
        # A turn that names the default user is in the conversation of those that name none.
        session = scope.or_else(source.defaults)
        stated_scopes.setdefault(session, scope)
        builder = builders.setdefault(session, TextBuilder(limits.max_chars))
        if said_at is None:
            said_at = builder.segments[-1].said_at if builder.segments else None
            if stamp not in (None, ""):
                why = f"timestamp {shorten_value(stamp)!r} {explain_date(stamp)}"
                day = (
                    f"it is dated as the turn before it, {said_at:%Y-%m-%d}" if said_at else "no turn before has a time"
                )
                warnings.append(f"{where}: {why}; {day}")
        prefix = f"{speaker}: " if speaker else ""
        builder.add(text, "turn", prefix=prefix, gap="\n", speaker=speaker, said_at=said_at, stated=stated)
    if not builders:
        raise Rejected(f"no readable turn; {problems[0] if problems else 'the file holds no line'}")
    documents = tuple(
        _to_document(source, scope, builders[session], (titles or {}).get((scope.user_id, scope.session_id), ""), kind)
        for session, scope in stated_scopes.items()
    )
    return Extraction(documents, limit_problems(problems, limits), {}, limit_problems(warnings, limits))


def _parse_fields(row: Mapping[str, JsonValue], dates: DateOrder | None) -> tuple[StatedFields | None, list[str]]:
    """Returns what a turn states of its memory, and a problem for each value that is not usable."""
    stated, problems = None, list[str]()
    if row.keys() & FIELD_NAMES:
        stated, problems = parse_stated_fields(row)
    roles = {(parse_name(row.get(name)) or "").casefold() for name in ("role", "speaker")}
    if roles & TOOL_ROLES and not (stated and stated.kind):
        stated = replace(stated or StatedFields(), kind="tool")
    validity, wrong = parse_validity(row.get("valid_from"), row.get("valid_until"), dates)
    problems += [f"{p}; the turn is kept" for p in wrong]
    if validity:
        stated = replace(stated or StatedFields(), valid_from=validity.valid_from, valid_until=validity.valid_until)
    return stated, problems


def _to_document(source: Source, session: Scope, builder: TextBuilder, title: str, kind: str) -> ExtractedDocument:
    times = [s.said_at for s in builder.segments if s.said_at]
    speakers = sorted({s.speaker for s in builder.segments if s.speaker})
    metadata: JsonObject = {"speakers": speakers} if speakers else {}
    return ExtractedDocument(
        uri=source.uri,
        media_type=CONVERSATION,
        text=builder.text,
        title=title,
        session_id=session.session_id,
        user_id=session.user_id,
        project_id=session.project_id,
        source_time=min(times, default=None),
        kind=kind,
        metadata=metadata,
        segments=tuple(builder.segments),
    )
