"""Exports of chat programs: ChatGPT and Claude as trees of messages, Slack, and captions in WebVTT and SRT."""

import html
import json
import re
import stat
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple, TypeGuard

from palimpsest.core.errors import Rejected
from palimpsest.core.ids import JsonObject, JsonValue
from palimpsest.sources.extracted import Extraction, Source, format_value, limit_problems
from palimpsest.sources.readers.chat_turns import (
    Attachment,
    ParsedTurns,
    count_messages,
    find_time,
    parse_turns,
)
from palimpsest.sources.readers.encodings import clean_text, decode, one_line, parse_name
from palimpsest.sources.readers.front_matter import parse_scope_name
from palimpsest.sources.readers.text_builder import TextBuilder
from palimpsest.store.collection_config import Limits
from palimpsest.text.dates import parse_stated_time

# A tree of messages, as programs keep it that let a person edit a message: which branch is the conversation.

_EARLIEST = datetime.min.replace(tzinfo=UTC)


class Node(NamedTuple):
    """A node of a tree: its message, None where it has none, the id of the node above, and the time of its message."""

    message: JsonObject | None
    parent: JsonValue
    time: JsonValue


@dataclass(frozen=True, slots=True)
class Branch:
    """The messages of a conversation.

    Attributes:
        messages: of the branch, in order.
        others: the messages of all other branches.
        problems: what is wrong with the tree.
    """

    messages: list[JsonObject]
    others: list[JsonObject]
    problems: list[str]


def find_branch(nodes: Mapping[str, Node], current: JsonValue, current_field: str) -> Branch:
    """Returns the branch that ends in the current node; without one, the branch of the newest message.

    Nodes without any link to each other are no tree: all their messages are the branch, by time where each has one. A
    node whose parent is missing continues with the node before it in the file. A cycle ends the branch.

    Args:
        nodes: by id, in the order of the file.
        current: id of the current node, as it is stated.
        current_field: the field that states it, for messages.
    """
    problems: list[str] = []
    if all(n.message is None for n in nodes.values()):
        return Branch([], [], [])
    parents = {i: n.parent for i, n in nodes.items() if isinstance(n.parent, str) and n.parent in nodes}
    leaf = current if isinstance(current, str) and current in nodes else None
    if leaf is None and current not in (None, ""):
        problems.append(
            f"{current_field} {format_value(current)} names no message; the branch of the newest message is read"
        )
    if not parents:
        unlinked = [n for n in nodes.values() if n.message is not None]
        if all(parse_stated_time(n.time) for n in unlinked):
            unlinked.sort(key=_time)
        return Branch([n.message for n in unlinked if n.message is not None], [], problems)
    path = _climb(nodes, leaf if leaf is not None else _newest_leaf(nodes, parents), problems)
    branch = set(path)
    others = [n.message for i, n in nodes.items() if i not in branch and n.message is not None]
    return Branch([m for i in reversed(path) if (m := nodes[i].message) is not None], others, problems)


def _climb(nodes: Mapping[str, Node], leaf: str, problems: list[str]) -> list[str]:
    """Returns the ids from a node up to its root."""
    order: Sequence[str] = list(nodes)
    position = {i: n for n, i in enumerate(order)}
    path: list[str] = []
    seen: set[str] = set()
    at: str | None = leaf
    while at is not None and at not in seen:
        seen.add(at)
        path.append(at)
        parent = nodes[at].parent
        if isinstance(parent, str) and parent in nodes:
            at = parent
        elif _is_root_mark(parent) or position[at] == 0:
            at = None
        else:
            problems.append(
                f"parent {format_value(parent)} of message {format_value(at)} is missing; the message before it "
                "in the file is taken for it"
            )
            at = order[position[at] - 1]
    if at is not None:
        problems.append(f"message {format_value(at)} is its own ancestor; the turns up to there are read")
    return path


def _is_root_mark(parent: JsonValue) -> bool:
    """Returns whether a parent says that there is none: null, an empty text, or an id of zeros as Claude writes."""
    return parent in (None, "") or (isinstance(parent, str) and parent.startswith("00000000-0000-"))


def _newest_leaf(nodes: Mapping[str, Node], parents: Mapping[str, JsonValue]) -> str:
    above = {p for p in parents.values() if isinstance(p, str)}
    leaves = [i for i in nodes if i not in above] or list(nodes)
    with_message = [i for i in leaves if nodes[i].message is not None] or leaves
    return max(enumerate(with_message), key=lambda item: (_time(nodes[item[1]]), item[0]))[1]


def _time(node: Node) -> datetime:
    return parse_stated_time(node.time) or _EARLIEST


# The exports of ChatGPT and Claude: conversations with an assistant, as trees of messages.

_RATED_OR_SHARED = {"rating", "is_anonymous"}
ID_FIELDS = ("session_id", "conversation_id", "id", "uuid", "name", "title")


@dataclass(frozen=True, slots=True)
class Conversation:
    """The turns of one session, as JSONL rows would have them.

    Attributes:
        turns: the rows.
        session_id: its name.
        user_id: whose it is.
        title: as its program shows it.
        kind: `message` where a program writes it as it talks.
        problem: why its user cannot be used, if so.
        notes: what is wrong with it, though it is read.
        attachments: texts attached to its messages.
        left_out: number of parts and messages that are no turns, by kind.
        metadata: of its document.
        owner: whose it is by the account of the program; counts only where a file has several.
    """

    turns: list[JsonObject]
    session_id: str | None = None
    user_id: str | None = None
    title: str | None = None
    kind: Literal["message", "import"] = "import"
    problem: str | None = None
    notes: tuple[str, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    metadata: JsonObject = field(default_factory=dict)
    owner: str | None = None


def is_export(value: JsonValue) -> TypeGuard[JsonObject]:
    """Returns whether a value is a conversation as ChatGPT or Claude exports it, one without messages too."""
    if not isinstance(value, dict):
        return False
    if isinstance(nodes := value.get("mapping"), dict):
        return any(isinstance(n, dict) and "message" in n for n in nodes.values()) or (
            not nodes and "current_node" in value
        )
    if isinstance(messages := value.get("chat_messages"), list):
        return any(isinstance(m, dict) and "sender" in m for m in messages) or (not messages and "uuid" in value)
    return False


def is_account_list(value: JsonValue) -> bool:
    """Returns whether a file of an export has the account, its ratings or shared links, and no message."""
    if isinstance(value, dict):
        return "chatgpt_plus_user" in value
    rows = value if isinstance(value, list) else []
    return bool(rows) and all(
        isinstance(r, dict)
        and (r.keys() >= {"uuid", "email_address"} or ("conversation_id" in r and bool(r.keys() & _RATED_OR_SHARED)))
        for r in rows
    )


def parse_export(item: JsonObject) -> Conversation:
    """Returns the conversation of an `is_export` object: of its tree, the branch that its program shows.

    A turn without a time has that of the conversation. A ChatGPT conversation that must not be remembered is a
    conversation of turns that must not be stored.
    """
    mapping = item.get("mapping")
    if isinstance(mapping, dict):
        nodes, current_field = _read_mapping(mapping), "current_node"
    else:
        nodes, current_field = _read_messages(item.get("chat_messages")), "current_leaf_message_uuid"
    branch = find_branch(nodes, item.get(current_field), current_field)
    parsed = parse_turns(branch.messages, find_time(item), keep_empty=False)
    if others := count_messages(branch.others):
        parsed.left_out["other_branch"] += others
    if item.get("is_do_not_remember") is True:
        parsed = ParsedTurns([{**t, "memory": "off"} for t in parsed.rows], [], parsed.left_out)
    user, problem = parse_scope_name("user_id", item.get("user_id"))
    return Conversation(
        parsed.rows,
        find_name(item, ID_FIELDS),
        user,
        find_name(item, ("title", "name")),
        problem=problem,
        notes=tuple(branch.problems),
        attachments=tuple(parsed.attachments),
        left_out=Counter({k: n for k, n in parsed.left_out.items() if n}),
    )


def find_name(item: Mapping[str, JsonValue], keys: tuple[str, ...]) -> str | None:
    """Returns the first of the named values that is a name."""
    return next((name for k in keys if (name := parse_name(item.get(k)))), None)


def _read_mapping(mapping: Mapping[str, JsonValue]) -> dict[str, Node]:
    """Returns the nodes of ChatGPT's tree by id."""
    nodes: dict[str, Node] = {}
    for name, node in mapping.items():
        if isinstance(node, dict):
            message = node.get("message")
            message = message if isinstance(message, dict) else None
            nodes[name] = Node(message, node.get("parent"), message.get("create_time") if message else None)
    return nodes


def _read_messages(messages: JsonValue) -> dict[str, Node]:
    """Returns Claude's messages by id, each with the one that it answers; one without an id has its number."""
    nodes: dict[str, Node] = {}
    for number, message in enumerate(messages if isinstance(messages, list) else ()):
        if isinstance(message, dict):
            name = message.get("uuid")
            name = name if isinstance(name, str) and name not in nodes else f"#{number}"
            nodes[name] = Node(message, message.get("parent_message_uuid"), message.get("created_at"))
    return nodes


# Slack exports: messages as people saw them, without join notices, marks and emoji codes.

USERS = "users.json"
SIDE_FILES = ("channel.json", "group_info.json")
"""What names the channel of the `messages.json` or `messages.csv` beside it: of Discord, of Google Chat."""
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

    Beside a `messages.json` or `messages.csv` it is the file that names their channel, where there is one.

    Args:
        path: the file.
        uri: its path relative to the collection, which says how far up the collection reaches.
    """
    beside = [path.with_name(n) for n in SIDE_FILES] if path.name in ("messages.json", "messages.csv") else []
    above = list(path.parents)[: min(2, len(PurePosixPath(uri).parts))]
    if path.suffix.lower() == ".json" and path.name not in _LISTS:
        beside += [parent / USERS for parent in above]
    for file in beside:
        try:
            found = file.lstat()
        except OSError:
            continue
        if stat.S_ISREG(found.st_mode) and found.st_size <= _MAX_USERS_BYTES:
            return file
    return None


def read_user_names(path: Path) -> dict[str, str]:
    """Returns the name of each user id in an export's `users.json`; empty where it is none.

    Of a file that names a channel these are its `id` and its name as `channel`.
    """
    try:
        users = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    if path.name in SIDE_FILES:
        return _side_names(users)
    rows = [u for u in users if isinstance(u, dict)] if isinstance(users, list) else []
    return {u["id"]: name for u in rows if isinstance(u.get("id"), str) and (name := _name(u))}


def _side_names(value: JsonValue) -> dict[str, str]:
    item = value if isinstance(value, dict) else {}
    guild = item.get("guild")
    parts = (parse_name(item.get("name")), parse_name(guild.get("name")) if isinstance(guild, dict) else None)
    channel = " in ".join(part for part in parts if part)
    return {k: v for k, v in (("id", parse_name(item.get("id"))), ("channel", channel)) if v}


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


def format_messages(value: JsonValue, names: Mapping[str, str], left_out: Counter[str], depth: int = 0) -> JsonValue:
    """Returns a JSON value with its messages as people saw them; notices that somebody joined or left are left out.

    Args:
        value: the value of an export's file.
        names: the name of each user id.
        left_out: receives the number of messages that are left out, by kind.
        depth: of the value in the file's.
    """
    if depth > _MAX_DEPTH:
        return value
    if isinstance(value, dict):
        inner = {k: v for k, v in value.items() if isinstance(v, list | dict)}
        return value | {k: format_messages(v, names, left_out, depth + 1) for k, v in inner.items()}
    if not isinstance(value, list):
        return value
    known = {
        **names,
        **{str(m["user"]): name for m in value if _is_message(m) and (name := _name(m.get("user_profile")))},
    }
    out = []
    for item in value:
        if not _is_message(item):
            out.append(format_messages(item, names, left_out, depth + 1))
        elif isinstance(message := _message(item, known), str):
            left_out[message] += 1
        else:
            out.append(message)
    return out


def _is_message(item: JsonValue) -> TypeGuard[JsonObject]:
    if not isinstance(item, dict):
        return False
    stamp = item.get("ts")
    return isinstance(stamp, str) and bool(_STAMP.fullmatch(stamp)) and item.get("type", "message") == "message"


def _message(item: Mapping[str, JsonValue], names: Mapping[str, str]) -> JsonObject | str:
    """Returns a message as people saw it, or as what it is left out."""
    text = item.get("text")
    text = text if isinstance(text, str) else ""
    if item.get("subtype") in _NOTICES or _NOTICE_TEXT.fullmatch(text.strip()):
        return "notice"
    words = format_text(text, names)
    if not words and (text.strip() or not item.get("files")):
        return "empty"  # nothing but emoji, or a preview
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


# WebVTT and SRT: each cue a turn, with the speaker of its voice tag.

_TIME = r"(?:(\d{1,4}):)?([0-5]?\d):([0-5]?\d)[.,](\d{1,3})"
_TIMING = re.compile(rf"[^\S\n]*{_TIME}[^\S\n]+-->[^\S\n]+{_TIME}(?:[^\S\n].*)?")
_VOICE = re.compile(r"<v(?:\.[^\s<>]{0,200})?[^\S\n]([^<>\n]{0,200})>")
_TAG = re.compile(r"<[^<>\n]{0,200}>")


def read_captions(source: Source, limits: Limits) -> Extraction:
    """Reads captions; `metadata.starts` is the second at which each turn begins, in the order of the segments.

    Raises:
        Rejected: binary, unknown encoding, no cue or too long.
    """
    text = decode(source.data, limits)
    if source.suffix == ".vtt" and not text.startswith("WEBVTT"):
        raise Rejected("named .vtt but does not begin with WEBVTT; give it the suffix of what it is")
    builder, problems, starts = TextBuilder(limits.max_chars), list[str](), list[float]()
    end = 0.0
    for number, block in enumerate(re.split(r"\n(?:[^\S\n]*\n)+", text), 1):
        lines = block.strip("\n").split("\n")
        at = next((i for i, line in enumerate(lines[:2]) if "-->" in line), None)
        if at is None:  # a header, a note or a style
            continue
        timing = _TIMING.fullmatch(lines[at])
        if timing is None:
            problems.append(f"block {number}: {lines[at][:80]!r} is no time of a cue; the cue is left out")
            continue
        start, end = _seconds(timing.groups()[:4]), _seconds(timing.groups()[4:])
        for speaker, words in _voices("\n".join(lines[at + 1 :])):
            builder.add(words, "turn", prefix=f"{speaker}: " if speaker else "", gap="\n", speaker=speaker)
            starts.append(start)
    if not builder.segments:
        raise Rejected(f"no readable cue; {problems[0] if problems else 'the file holds no cue with text'}")
    metadata: JsonObject = {"starts": starts, "duration_seconds": end}
    if speakers := sorted({s.speaker for s in builder.segments if s.speaker}):
        metadata["speakers"] = speakers
    media_type = "text/vtt" if source.suffix == ".vtt" else "application/x-subrip"
    document = builder.to_document(source, media_type, metadata=metadata)
    return Extraction((document,), limit_problems(problems, limits))


def _seconds(parts: tuple[str | None, ...]) -> float:
    hours, minutes, seconds, fraction = parts
    return (
        int(hours or 0) * 3600
        + int(minutes or 0) * 60
        + int(seconds or 0)
        + int((fraction or "0").ljust(3, "0")) / 1000
    )


def _voices(payload: str) -> list[tuple[str | None, str]]:
    """Returns (speaker, words) of a cue: the words before the first voice tag have no speaker."""
    parts = _VOICE.split(payload)
    pairs = [(None, parts[0]), *zip(parts[1::2], parts[2::2], strict=True)]
    out = []
    for speaker, words in pairs:
        words = one_line(clean_text(html.unescape(_TAG.sub("", words))))
        if words:
            out.append((one_line(clean_text(html.unescape(speaker))) or None if speaker else None, words))
    return out
