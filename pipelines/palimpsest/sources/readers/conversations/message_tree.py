"""A tree of messages, as programs keep it that let a person edit a message: which branch is the conversation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from palimpsest.core.json_types import JsonObject, JsonValue
from palimpsest.sources.records.stated_fields import format_value
from palimpsest.text.dates import parse_stated_time

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
