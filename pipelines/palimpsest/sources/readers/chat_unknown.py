"""JSON that is a chat of no known program: refused, as its turns would be one undated text."""

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from palimpsest.core.errors import Rejected
from palimpsest.core.ids import JsonObject, JsonValue
from palimpsest.sources.find_secrets import shorten_value

_TEXT = re.compile(
    r"(?:(?:msg|message|chat|raw|plain|body|text|comment|post|reply|content)?(?:texts?|body|messages?|contents?|msg)"
    r"|utterance|said|comment|reply|prompt|response)"
)
_SAID = re.compile(
    r"(?:\w*(?:sender|author|speaker|username|nick|participant|creator|recipient)\w*|from(?:user|name|id|userid)?|user(?:id)?"
    r"|(?:sent|posted|written)?by|who|role|handle|member|actor|displayname|uid"
    r"|\w*(?:time|date|stamp)\w*|ts|at|when|epoch|utc|(?:sent|created|posted|received|updated)(?:at|on|ts|ms)?|\w+ts)"
)
_LOG = re.compile(r"level|severity|loglevel|logger")
"""What the lines of a program's log have: they are no chat."""
_MAX_DEPTH, _MAX_KEYS, _MAX_KEY_CHARS, _SHARE = 20, 8, 40, 0.5
_NO_LETTERS = re.compile(r"[\W\d_]+")


@dataclass(slots=True)
class _Found:
    """What a JSON value contains.

    Attributes:
        messages: objects with a text and an author or a time, in a list.
        others: such objects that are alone, or by id in an object.
        words: characters of their texts.
        prose: characters of all texts of several words that are no name and no time.
        keys: how many of the messages have each key.
    """

    messages: int = 0
    others: int = 0
    words: int = 0
    prose: int = 0
    keys: Counter[str] = field(default_factory=Counter)


def reject_unknown_chat(value: JsonValue) -> None:
    """Checks that a JSON value of no known shape is no chat.

    It is one where most of the prose is in objects with a text and an author or a time, in a list or several of them.

    Raises:
        Rejected: it is; the message names its keys and the format that is read.
    """
    found = _Found()
    stack: list[tuple[JsonValue, bool, int]] = [(value, False, 0)]
    while stack:
        item, is_listed, depth = stack.pop()
        if depth > _MAX_DEPTH:
            continue
        if isinstance(item, list):
            stack += [(inner, True, depth + 1) for inner in item if isinstance(inner, dict | list | str)]
        elif isinstance(item, dict):
            _count(item, is_listed, found)
            stack += [(v, False, depth + 1) for k, v in item.items() if _role(k) != "text" or not _words(v)]
        elif isinstance(item, str) and is_listed:
            found.prose += _prose(item)
    if (not found.messages and found.others < 2) or found.words < _SHARE * found.prose:
        return
    names = ", ".join(shorten_value(k) for k, _ in found.keys.most_common(_MAX_KEYS))
    raise Rejected(
        f"looks like a chat, with the keys {names}, but has no known shape; write each turn as a line "
        '{"session_id", "speaker", "text", "timestamp"} of a .jsonl file, see docs/sources.md'
    )


def _count(item: JsonObject, is_listed: bool, found: _Found) -> None:
    words = sum(_words(value) for key, value in item.items() if _role(key) == "text")
    is_said = any(_role(key) == "said" and value not in (None, "", [], {}) for key, value in item.items())
    if words and is_said and not any(_role(key) == "log" for key in item):
        found.messages += is_listed
        found.others += not is_listed
        found.words += words
        found.keys.update(item.keys())
    found.prose += words
    found.prose += sum(_prose(v) for k, v in item.items() if isinstance(v, str) and not _role(k))


@lru_cache(maxsize=4_096)
def _role(key: str) -> Literal["text", "said", "log", ""]:
    """Returns what a key names: a text, who said it or when, what only logs have, or anything else."""
    plain = re.sub(r"[-_\s]", "", key[:_MAX_KEY_CHARS]).lower()
    if _TEXT.fullmatch(plain):
        return "text"
    return "said" if _SAID.fullmatch(plain) else "log" if _LOG.fullmatch(plain) else ""


def _words(value: JsonValue, depth: int = 0) -> int:
    """Returns how many characters of text a value has: a text, a list of parts, or an object with a text."""
    if isinstance(value, str):
        return 0 if _NO_LETTERS.fullmatch(value) else len(value)
    if depth > 2:
        return 0
    if isinstance(value, list):
        return sum(_words(part, depth + 1) for part in value if isinstance(part, str | dict))
    if isinstance(value, dict):
        return sum(_words(v, depth + 1) for k, v in value.items() if _role(k) == "text")
    return 0


def _prose(text: str) -> int:
    return len(text) if " " in text and " " in text.strip() else 0
