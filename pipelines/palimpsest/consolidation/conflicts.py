"""Pairs of statements that give one slot of one thing two values, as far as careful rules can read it.

Unlike the rules that retire a memory, these also read statements without a time, because a person decides about them.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from palimpsest.consolidation.scope_memories import Memory, ScopeMemories
from palimpsest.relations.classify.rules.facts import Fact
from palimpsest.relations.classify.rules.number_templates import PLACEHOLDER, words_before_value
from palimpsest.relations.classify.rules.reading import PRESENT_VERBS, SUBJECT_PRONOUNS
from palimpsest.relations.classify.rules.sentences import Sentence
from palimpsest.relations.classify.rules.slots import STATE_GROUP
from palimpsest.relations.classify.rules.values import Value, read_value, refines, replaces, same_value
from palimpsest.text.words import is_content_word

MAX_GROUP = 12
"""Statements of one slot that are compared: more are a list of different things, and not one with many values."""
_INDEFINITE = frozenset({"a", "an", "another", "some", "each", "every", "other", "one"})


class Conflict(NamedTuple):
    """Two memories, and what they state of one slot."""

    first: Memory
    second: Memory
    slot: str
    values: tuple[str, str]
    is_scoped: bool


@dataclass(frozen=True)
class _Stated:
    memory: Memory
    sentence: Sentence
    value: Value
    is_scoped: bool


def stated_conflicts(scope: ScopeMemories) -> Iterator[Conflict]:
    """Yields the pairs of latest memories whose statements exclude each other, one for each pair, by id."""
    slots: dict[tuple[object, ...], list[_Stated]] = defaultdict(list)
    for memory in scope.latest:
        for key, statement in _statements(memory):
            slots[key].append(statement)
    seen: set[tuple[str, str]] = set()
    for key, stated in slots.items():
        by_memory = {s.memory.memory_id: s for s in reversed(stated)}
        if not 2 <= len(by_memory) <= MAX_GROUP:
            continue
        for a, b in combinations([by_memory[i] for i in sorted(by_memory)], 2):
            pair = (a.memory.memory_id, b.memory.memory_id)
            if pair not in seen and scope.is_looked_at(*pair) and _excludes(key, a, b):
                seen.add(pair)
                values = (a.value.text, b.value.text)
                yield Conflict(a.memory, b.memory, str(key[-1]), values, a.is_scoped != b.is_scoped)


def _statements(memory: Memory) -> Iterator[tuple[tuple[object, ...], _Stated]]:
    """Yields (what has a value, the value) of each sentence that states one."""
    for sentence in memory.reading.sentences:
        fact = sentence.fact
        if fact is not None and _is_stated(fact, sentence):
            yield ("slot", fact.subject, fact.slot), _Stated(memory, sentence, fact.value, sentence.scoped)
    for key, template in memory.reading.templates.items():
        words = key.split()
        for n in range(words.count(PLACEHOLDER)):
            before = words_before_value(words, n)
            if _names_one_thing(before) and not template.sentence.multivalued:
                others = tuple(v for i, v in enumerate(template.values) if i != n)
                value = read_value(template.values[n])
                stated = _Stated(memory, template.sentence, value, template.sentence.scoped)
                yield ("number", n, others, key), stated


def _is_stated(fact: Fact, sentence: Sentence) -> bool:
    """Returns whether a sentence says that something is so: no question, plan, denial, or slot of several values."""
    is_open = fact.slot == "changed" or fact.slot.startswith("its ")
    return not (sentence.uncertain or fact.negated or fact.past or is_open) and bool(fact.subject - {"we"})


def _names_one_thing(before: list[str]) -> bool:
    """Returns whether the words before a number name one thing that has it now: `the bridge is`."""
    subject = [w for w in before if is_content_word(w) and w not in PRESENT_VERBS]
    if not subject or before[0] in SUBJECT_PRONOUNS or not PRESENT_VERBS & set(before):
        return False
    return _INDEFINITE.isdisjoint(before)


def _excludes(key: tuple[object, ...], a: _Stated, b: _Stated) -> bool:
    """Returns whether two values cannot both be right: of one kind and unit, and none of them only more exact."""
    if key[0] == "slot" and str(key[2]).startswith("state:"):
        states = (STATE_GROUP.get(a.value.key), STATE_GROUP.get(b.value.key))
        return None not in states and a.value.key != b.value.key
    if same_value(a.value, b.value):
        return False
    if key[0] == "number":
        return a.value.kind == b.value.kind and not (a.value.approximate or b.value.approximate)
    if refines(a.value, b.value) or refines(b.value, a.value):
        return False
    return replaces(a.value, b.value, cue=False)
