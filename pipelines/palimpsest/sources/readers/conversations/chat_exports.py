"""The exports of ChatGPT and Claude: conversations with an assistant, as trees of messages."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeGuard

from palimpsest.core.json_types import JsonObject, JsonValue
from palimpsest.sources.readers.common.clean_text import parse_name
from palimpsest.sources.readers.common.scope_fields import parse_scope_name
from palimpsest.sources.readers.conversations.chat_turns import (
    Attachment,
    ParsedTurns,
    count_messages,
    find_time,
    parse_turns,
)
from palimpsest.sources.readers.conversations.message_tree import Node, find_branch

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
