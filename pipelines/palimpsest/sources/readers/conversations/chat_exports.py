"""The exports of ChatGPT and Claude: conversations with an assistant, as trees of messages."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, NamedTuple, TypeGuard

from palimpsest.core.json_types import JsonObject, JsonValue
from palimpsest.sources.extracted import format_value
from palimpsest.sources.readers.common.clean_text import parse_name
from palimpsest.sources.readers.common.front_matter import parse_scope_name
from palimpsest.sources.readers.conversations.chat_turns import (
    Attachment,
    ParsedTurns,
    count_messages,
    find_time,
    parse_turns,
)
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
