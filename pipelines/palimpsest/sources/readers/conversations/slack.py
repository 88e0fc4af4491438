"""Slack exports: messages as people saw them, without join notices, marks and emoji codes."""

import html
import json
import re
import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TypeGuard

from palimpsest.core.json_types import JsonObject, JsonValue

USERS = "users.json"
_LISTS = (USERS, "channels.json", "groups.json", "dms.json", "mpims.json", "integration_logs.json")
_NOTICES = frozenset(
    (
        "channel_join",
        "channel_leave",
        "channel_archive",
        "channel_unarchive",
        "channel_name",
        "group_join",
        "group_leave",
        "group_archive",
        "group_unarchive",
        "group_name",
        "bot_add",
        "bot_remove",
        "pinned_item",
        "unpinned_item",
        "tombstone",
        "reminder_add",
        "huddle_thread",
        "channel_convert_to_private",
        "app_conversation_join",
    )
)
_STAMP = re.compile(r"\d{9,11}\.\d{1,6}")
_ID = re.compile(r"[UWBCDG][A-Z0-9]+")
_MARK = re.compile(r"<([^<>\s][^<>]*)>")
_EMOJI = re.compile(r"(?<![\w:/]):[0-9_'-]*+[a-z+][a-z0-9_+'-]*+:(?::skin-tone-\d:)?(?![\w/])")
_SPACES = re.compile(r"[^\S\n]{2,}")
_NOTICE_TEXT = re.compile(r"<@\w+(?:\|[^>]*)?> has (?:joined|left) the (?:channel|group|conversation)\.?")
_MAX_DEPTH, _MAX_USERS_BYTES = 4, 50_000_000


def find_users_file(path: Path, uri: str) -> Path | None:
    """Returns the list of users of the export of a JSON file, in its folder or the one above, never outside.

    Args:
        path: the file.
        uri: its path relative to the collection, which says how far up the collection reaches.
    """
    if path.suffix.lower() != ".json" or path.name in _LISTS:
        return None
    for parent in list(path.parents)[: min(2, len(PurePosixPath(uri).parts))]:
        try:
            found = (parent / USERS).lstat()
        except OSError:
            continue
        if stat.S_ISREG(found.st_mode) and found.st_size <= _MAX_USERS_BYTES:
            return parent / USERS
    return None


def read_user_names(path: Path) -> dict[str, str]:
    """Returns the name of each user id in an export's `users.json`; empty where it is none."""
    try:
        users = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    rows = [u for u in users if isinstance(u, dict)] if isinstance(users, list) else []
    return {u["id"]: name for u in rows if isinstance(u.get("id"), str) and (name := _name(u))}


def is_export_list(name: str, value: JsonValue) -> bool:
    """Returns whether a JSON file is one of the lists of an export: who there is and which channels, and no message."""
    rows = [r for r in value if isinstance(r, dict)] if isinstance(value, list) else []
    return (
        PurePosixPath(name).name in _LISTS and bool(rows) and all(_ID.fullmatch(str(r.get("id", "U00"))) for r in rows)
    )


def has_slack_messages(value: JsonValue, depth: int = 0) -> bool:
    """Returns whether a JSON value contains messages as Slack exports them."""
    if isinstance(value, list):
        return any(_is_message(v) or (depth < _MAX_DEPTH and has_slack_messages(v, depth + 1)) for v in value[:1000])
    return (
        isinstance(value, dict) and depth < _MAX_DEPTH and any(has_slack_messages(v, depth + 1) for v in value.values())
    )


def format_messages(value: JsonValue, names: Mapping[str, str], depth: int = 0) -> JsonValue:
    """Returns a JSON value with its messages as people saw them; notices that somebody joined or left are left out.

    Args:
        value: the value of an export's file.
        names: the name of each user id.
        depth: of the value in the file's.
    """
    if depth > _MAX_DEPTH:
        return value
    if isinstance(value, dict):
        return {k: format_messages(v, names, depth + 1) if isinstance(v, list | dict) else v for k, v in value.items()}
    if not isinstance(value, list):
        return value
    known = {
        **names,
        **{str(m["user"]): name for m in value if _is_message(m) and (name := _name(m.get("user_profile")))},
    }
    out = []
    for item in value:
        if not _is_message(item):
            out.append(format_messages(item, names, depth + 1))
        elif message := _message(item, known):
            out.append(message)
    return out


def _is_message(item: JsonValue) -> TypeGuard[JsonObject]:
    if not isinstance(item, dict):
        return False
    stamp = item.get("ts")
    return isinstance(stamp, str) and bool(_STAMP.fullmatch(stamp)) and item.get("type", "message") == "message"


def _message(item: Mapping[str, JsonValue], names: Mapping[str, str]) -> JsonObject | None:
    text = item.get("text")
    text = text if isinstance(text, str) else ""
    if item.get("subtype") in _NOTICES or _NOTICE_TEXT.fullmatch(text.strip()):
        return None
    words = format_text(text, names)
    if text.strip() and not words:
        return None  # nothing but emoji
    user = item.get("user")
    speaker = names.get(user) if isinstance(user, str) else None
    bot = item.get("bot_profile")
    if speaker is None and isinstance(bot, dict) and isinstance(name := bot.get("name"), str):
        speaker = name
    return {**item, "text": words} | ({"speaker": speaker} if speaker else {})


def format_text(text: str, names: Mapping[str, str]) -> str:
    """Returns a message's text without Slack's marks: names for ids, `words (address)` for links, no emoji codes."""
    text = html.unescape(_EMOJI.sub("", _MARK.sub(lambda m: _unmarked(m[1], names), text)))
    return _SPACES.sub(" ", text).strip()


def _unmarked(mark: str, names: Mapping[str, str]) -> str:
    target, _, label = mark.partition("|")
    if target.startswith("@"):
        return f"@{names.get(target[1:]) or label or target[1:]}"
    if target.startswith("#"):
        return f"#{label or target[1:]}"
    if target.startswith("!"):
        return label or f"@{target[1:].partition('^')[0]}"
    if not re.match(r"(?:https?|ftp|mailto|tel):", target):
        return f"<{mark}>"
    bare = re.sub(r"^(?:mailto:|tel:)", "", target)
    if not label or label == bare or bare.removeprefix("https://").removeprefix("http://") == label:
        return bare
    return f"{label} ({bare})"


def _name(user: JsonValue) -> str | None:
    if not isinstance(user, dict):
        return None
    profile = user["profile"] if isinstance(user.get("profile"), dict) else {}
    found = (source.get(key) for key in ("real_name", "display_name", "name") for source in (user, profile))
    return next((name.strip() for name in found if isinstance(name, str) and name.strip()), None)
