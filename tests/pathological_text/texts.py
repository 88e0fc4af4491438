"""Texts that are slow to match: runs of one unit, and what a pattern nearly matches, made from the pattern itself."""

import random
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

# The parser of `re` has no public name.
from re import _constants as sre  # type: ignore[attr-defined]  # isort: skip
from re import _parser  # type: ignore[attr-defined]  # isort: skip

from tests.pathological_text.units import UNITS

SIZES = 10_000, 100_000
ENDS = ("", "!", "a", "\n!", "\u0001")  # what breaks a match that needs the whole run
_CHOICES = 4  # examples of a pattern that choose their branches at random
_MAX_TEXTS = 1_500  # of one pattern, drawn from those that are made
_MAX_ATOMS = 10  # characters of a pattern that are combined in pairs
_Node: TypeAlias = tuple[object, object]


@dataclass(frozen=True, slots=True, order=True)
class SlowText:
    """A text by its parts, so that it can be made at any size.

    Attributes:
        head: its beginning.
        unit: what is repeated.
        end: its end.
    """

    head: str
    unit: str
    end: str

    def at_size(self, chars: int) -> str:
        """Returns the text at a length of `chars`; of one unit at least."""
        room = max(chars - len(self.head) - len(self.end), len(self.unit))
        return self.head + (self.unit * (room // len(self.unit) + 1))[:room] + self.end


def common_texts() -> list[SlowText]:
    """Returns the texts that every pattern and function is tried on."""
    return [SlowText("", unit, end) for unit in UNITS for end in ENDS[:3]]


@cache
def texts_of_pattern(pattern: str, flags: int) -> tuple[SlowText, ...]:
    """Returns texts that are near to what a pattern matches, always the same ones, in order.

    They repeat examples of it, whole and cut off; what it repeats, after its beginning; and pairs of its characters.
    """
    tree = list(_parser.parse(pattern, flags))
    draw = random.Random(pattern)
    found = set(_of_examples(tree, draw)) | set(_of_repeats(tree, draw)) | set(_of_atoms(tree, draw))
    made = sorted(t for t in found if t.unit)
    return tuple(sorted(draw.sample(made, _MAX_TEXTS)) if len(made) > _MAX_TEXTS else made)


def _of_examples(tree: list[_Node], draw: random.Random) -> Iterator[SlowText]:
    choices: list[Callable[[int], int]] = [_first, _last, *([draw.randrange] * _CHOICES)]
    for example in [_example(tree, choose) for choose in choices]:
        for cut in (example, example[:-1], example[: len(example) // 2], example[1:]):
            yield from (SlowText("", unit, end) for unit in (cut, cut + " ", cut + "\n") for end in ENDS[:2])


def _of_repeats(tree: list[_Node], draw: random.Random) -> Iterator[SlowText]:
    """Yields what each repeat repeats: alone, after what comes before it, and before the next repeat's unit."""
    repeats = [
        (_example(before, choose), _example(body, choose) or _example(body, _last))
        for before, body in _repeats(tree, [])
        for choose in (_first, _last, draw.randrange)
    ]
    for at, (before, body) in enumerate(repeats):
        other = repeats[(at + 2) % len(repeats)][1]
        for end in ENDS:
            yield SlowText("", body, end)
            yield SlowText(before, body, end)
            yield SlowText("", before + body, end)
            yield SlowText(before, body + other, end)
            yield SlowText(before + body * 3, other, end)
            yield SlowText("", before + body * 40, end)


def _of_atoms(tree: list[_Node], draw: random.Random) -> Iterator[SlowText]:
    """Yields runs of each kind of character that a pattern has, and of pairs of them."""
    atoms = sorted({a for node in _nodes(tree) for a in (_atom(node, _first), _other(node)) if a} | {" "})
    chosen = sorted(draw.sample(atoms, _MAX_ATOMS)) if len(atoms) > _MAX_ATOMS else atoms
    for a in atoms:
        yield from (SlowText("", a, end) for end in ENDS)
    for a in chosen:
        yield from (SlowText("", a + b, end) for b in chosen if a != b for end in ENDS[:2])


def _first(count: int) -> int:
    return 0


def _last(count: int) -> int:
    return count - 1


def _children(node: _Node) -> Iterator[list[_Node]]:
    op, arg = node
    if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
        yield list(arg[2])  # type: ignore[index]
    elif op is sre.SUBPATTERN:
        yield list(arg[3])  # type: ignore[index]
    elif op is sre.ATOMIC_GROUP:
        yield list(arg)  # type: ignore[call-overload]
    elif op is sre.BRANCH:
        yield from map(list, arg[1])  # type: ignore[index]
    elif op in (sre.ASSERT, sre.ASSERT_NOT):
        yield list(arg[1])  # type: ignore[index]
    elif op is sre.GROUPREF_EXISTS:
        yield from (list(part) for part in arg[1:] if part)  # type: ignore[index]


def _nodes(tree: Iterable[_Node]) -> Iterator[_Node]:
    for node in tree:
        yield node
        for child in _children(node):
            yield from _nodes(child)


def _repeats(tree: list[_Node], before: list[_Node]) -> Iterator[tuple[list[_Node], list[_Node]]]:
    """Yields each repeat's unit with the nodes that come before it."""
    for at, node in enumerate(tree):
        head = before + tree[:at]
        for child in _children(node):
            if node[0] in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT) and node[1][1] > 1:  # type: ignore[index]
                yield head, child
            yield from _repeats(child, head)


def _example(tree: Iterable[_Node], choose: Callable[[int], int]) -> str:
    """Returns a text that a pattern may match; assertions are not looked at."""
    return "".join(_piece(node, choose) for node in tree)


def _piece(node: _Node, choose: Callable[[int], int]) -> str:
    op, arg = node
    if op in (sre.ASSERT, sre.ASSERT_NOT, sre.AT, sre.GROUPREF, sre.GROUPREF_EXISTS):
        return ""
    if op is sre.BRANCH:
        branches = [list(b) for b in arg[1]]  # type: ignore[index]
        return _example(branches[choose(len(branches))], choose)
    children = list(_children(node))
    if not children:
        return _atom(node, choose)
    least = arg[0] if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT) else 1  # type: ignore[index]
    count = least if choose is _first else max(1, least)
    return "".join(_example(children[0], choose) for _ in range(count))


_PROBES = "aA1 -.,\n\"'(x!@"
_CATEGORY = {
    sre.CATEGORY_SPACE: " ", sre.CATEGORY_DIGIT: "1", sre.CATEGORY_WORD: "a", sre.CATEGORY_NOT_SPACE: "a",
    sre.CATEGORY_NOT_DIGIT: "a", sre.CATEGORY_NOT_WORD: "-",
}  # fmt: skip


def _atom(node: _Node, choose: Callable[[int], int]) -> str:
    """Returns one character that a node of one character matches; nothing for any other node."""
    op, arg = node
    if op is sre.LITERAL:
        return chr(arg)  # type: ignore[arg-type]
    if op is sre.ANY:
        return "a"
    if op is sre.NOT_LITERAL:
        return "a" if arg != ord("a") else "b"
    if op is sre.IN:
        return _of_class(list(arg), choose)  # type: ignore[call-overload]
    return ""


def _other(node: _Node) -> str:
    """Returns a character that a class does not have; nothing for any other node."""
    op, arg = node
    if op is not sre.IN:
        return ""
    members = list(arg)  # type: ignore[call-overload]
    negated = members[0][0] is sre.NEGATE
    listed = re.compile("[" + "".join(_class_text(m) for m in members[negated:]) + "]")
    return next((c for c in _PROBES if bool(listed.match(c)) == negated), "")


def _of_class(members: list[_Node], choose: Callable[[int], int]) -> str:
    if members[0][0] is sre.NEGATE:
        excluded = re.compile("[" + "".join(_class_text(m) for m in members[1:]) + "]")
        return next((c for c in _PROBES if not excluded.match(c)), "")
    op, arg = members[choose(len(members))]
    if op is sre.LITERAL:
        return chr(arg)  # type: ignore[arg-type]
    if op is sre.RANGE:
        return chr(arg[0])  # type: ignore[index]
    return _CATEGORY.get(arg, "") if op is sre.CATEGORY else ""


def _class_text(member: _Node) -> str:
    """Returns a member of a character class as it is written in one."""
    op, arg = member
    if op is sre.LITERAL:
        return re.escape(chr(arg))  # type: ignore[arg-type]
    if op is sre.RANGE:
        return f"{re.escape(chr(arg[0]))}-{re.escape(chr(arg[1]))}"  # type: ignore[index]
    category = {
        sre.CATEGORY_SPACE: r"\s", sre.CATEGORY_DIGIT: r"\d", sre.CATEGORY_WORD: r"\w", sre.CATEGORY_NOT_SPACE: r"\S",
        sre.CATEGORY_NOT_DIGIT: r"\D", sre.CATEGORY_NOT_WORD: r"\W",
    }  # fmt: skip
    return category.get(arg, "")
