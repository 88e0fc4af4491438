"""Contradictions of a scope: two latest memories that cannot both be right, and that no UPDATE orders."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import polars as pl

from palimpsest.consolidation.model_conflicts import Reading
from palimpsest.consolidation.scope_memories import Memory, ScopeMemories
from palimpsest.core.ids import ScopeKey
from palimpsest.facts.vocabulary import SINGLE_VALUED
from palimpsest.query.request.types import shorten_text
from palimpsest.relations.labelers.reading import (
    PLACEHOLDER,
    PRESENT_VERBS,
    SUBJECT_PRONOUNS,
    Sentence,
    words_before_value,
)
from palimpsest.relations.labelers.rule_facts import STATE_GROUP, Fact, Value, read_value, refines, replaces, same_value
from palimpsest.store.proposals import FoundBy, Proposal
from palimpsest.text.words import is_content_word

# Pairs of statements that give one slot of one thing two values, as far as careful rules can read it.
#
# Unlike the rules that retire a memory, these also read statements without a time, because a person decides about them.

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


# Facts of a scope that give a slot of one value several of them: `fact list` marks the same as conflicts.


def fact_conflicts(scope: ScopeMemories) -> Iterator[Conflict]:
    """Yields the pairs of latest memories that state different values of one slot of one entity, each pair once."""
    latest = {m.memory_id: m for m in scope.latest}
    names = dict(scope.tables["entities"].select("entity_id", "name").iter_rows())
    slots: dict[tuple[str, str], dict[str, list[Memory]]] = defaultdict(lambda: defaultdict(list))
    single = pl.col("predicate").is_in(sorted(SINGLE_VALUED)) & ~pl.col("is_negated") & pl.col("is_latest")
    rows = scope.tables["facts"].filter(single & (pl.col("modality").fill_null("stated") == "stated"))
    columns = ("subject_id", "predicate", "object_id", "value", "memory_ids")
    for subject, predicate, other, value, memory_ids in rows.select(columns).iter_rows():
        text = names.get(other, "") if other else value or ""
        slots[subject, predicate][text] += [latest[i] for i in memory_ids if i in latest]
    seen: set[frozenset[str]] = set()
    for (_, predicate), values in sorted(slots.items()):
        if not 2 <= len(values) <= MAX_GROUP:
            continue
        for a, b in combinations(sorted(values), 2):
            if not _differ(a, b):
                continue
            for first, second in zip(values[a][:1], values[b][:1], strict=False):
                pair = frozenset((first.memory_id, second.memory_id))
                if len(pair) == 2 and pair not in seen and scope.is_looked_at(*pair):
                    seen.add(pair)
                    yield Conflict(first, second, predicate, (a, b), False)


def _differ(a: str, b: str) -> bool:
    """Returns whether two values differ, and neither is only more exact."""
    x, y = read_value(a), read_value(b)
    return bool(a and b) and not (same_value(x, y) or refines(x, y) or refines(y, x)) and x.kind == y.kind


MAX_BY_MODEL = 40
"""Contradictions of a scope that only the labeler finds, the surest first; conditional ones last."""
_BY_RULE = 0.9
_MAX_QUOTE = 160
_WHY: Mapping[str, str] = {
    "dynamic": "the later one may replace the earlier",
    "static": "the later one may be mistaken",
    "conditional": "both may be right, under different conditions",
    "undated": "which one is newer is not known",
}


def contradictions(scope: ScopeMemories, read: Sequence[Reading]) -> list[Proposal]:
    """Returns the contradictions of a scope, by id.

    Args:
        scope: the scope.
        read: the conflicts that the labeler found in pairs of this scope.
    """
    settled = _decided_pairs(scope)
    found: dict[frozenset[str], Proposal] = {}
    for conflict in (*stated_conflicts(scope), *fact_conflicts(scope)):
        pair = frozenset((conflict.first.memory_id, conflict.second.memory_id))
        if pair not in settled and pair not in found:
            found[pair] = _of_rule(scope, conflict)
    by_model = sorted(
        read,
        key=lambda r: (r.why == "conditional", -r.probability, r.pair.first.memory_id, r.pair.second.memory_id),
    )
    added = 0
    for reading in by_model:
        pair = frozenset((reading.pair.first.memory_id, reading.pair.second.memory_id))
        if added < MAX_BY_MODEL and pair not in found and pair not in settled:
            added += 1
            found[pair] = contradiction(scope.scope, *reading.pair[:2], reading.why, reading.probability)
    return sorted(found.values(), key=lambda p: p.proposal_id)


def _of_rule(scope: ScopeMemories, conflict: Conflict) -> Proposal:
    first, second = conflict.first, conflict.second
    if first.is_newer_than(second):
        first, second = second, first
        conflict = conflict._replace(values=(conflict.values[1], conflict.values[0]))
    is_ordered = second.is_newer_than(first)
    why = "conditional" if conflict.is_scoped else "dynamic" if is_ordered else "undated"
    slot = conflict.slot if "#" not in conflict.slot else "number"
    values = f"{slot}: {conflict.values[0]} or {conflict.values[1]}; "
    return contradiction(scope.scope, first, second, why, _BY_RULE, values)


def contradiction(
    scope: ScopeKey,
    first: Memory,
    second: Memory,
    why: str,
    confidence: float,
    values: str = "",
    found_by: FoundBy = "rules",
) -> Proposal:
    """Returns the proposal of a contradiction.

    Args:
        scope: of both memories.
        first: the older memory, where one is.
        second: the newer.
        why: dynamic, static, conditional or undated.
        confidence: 0 to 1.
        values: the slot and its two values, for people; empty where they are not known.
        found_by: rules or lm.
    """
    keep, drop = suggested_sides(first, second, why)
    quotes = " / ".join(shorten_text(m.text, _MAX_QUOTE) for m in (first, second))
    return Proposal(
        "contradiction",
        why,
        scope,
        (first.memory_id, second.memory_id),
        f"{values}{_WHY[why]}: {quotes}",
        round(confidence, 3),
        keep=keep,
        drop=drop,
        found_by=found_by,
    )


def suggested_sides(first: Memory, second: Memory, why: str) -> tuple[str, str]:
    """Returns (the memory to keep, the one to retire) of a contradiction; empty where both stay or nobody knows.

    Args:
        first: the older memory, where one is.
        second: the newer.
        why: the kind of contradiction.
    """
    if why == "conditional":
        return "", ""
    if first.trust != second.trust:
        kept, other = (first, second) if first.trust > second.trust else (second, first)
    elif why == "undated":
        return "", ""
    else:
        kept, other = (second, first) if why == "dynamic" else (first, second)
    return kept.memory_id, other.memory_id


def _decided_pairs(scope: ScopeMemories) -> frozenset[frozenset[str]]:
    """Returns the pairs of which a person gave the label."""
    rows = scope.tables["relations"].filter(pl.col("labeler") == "person").select("newer_id", "older_id")
    return frozenset(frozenset(pair) for pair in rows.iter_rows())
