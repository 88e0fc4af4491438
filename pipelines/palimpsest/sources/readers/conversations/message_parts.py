"""What a chat message contains: its words, calls of tools and their results, attached texts, and what is no text."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from palimpsest.core.json_types import JsonValue
from palimpsest.sources.readers.common.clean_text import parse_name

_TEXT = frozenset({"text", "input_text", "output_text", "refusal", "audio_transcription"})
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
        elif not (self._add_inner(part, is_block or kind in _TEXT, depth) or kind in _TEXT or kind in _MARKERS):
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
