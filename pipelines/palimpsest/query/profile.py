"""The profile of a user: its values, and how it is read from a build."""

import datetime as dt
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from palimpsest.core.ids import BY_MODEL, REFLECTION, JsonObject, JsonRecord
from palimpsest.facts.vocabulary import LASTING, fact_words
from palimpsest.query.context.changes import name_changes, reasons_of_latest
from palimpsest.query.request.types import (
    Fact,
    Memory,
    NewerText,
    Node,
    Scope,
    ShownMemory,
    changed_line,
    cited_line,
    one_line,
)
from palimpsest.query.request.where import parse_where
from palimpsest.query.scope.served_graph import ServedGraph
from palimpsest.query.scope.served_scope import LATER, PART, ServedScope
from palimpsest.query.scope.view import ScopeView
from palimpsest.text.sentences import memory_sentence_spans
from palimpsest.text.terms import name_words
from palimpsest.text.words import CHAT_ROLES, USER_ROLES, fold

Section: TypeAlias = Literal["static", "dynamic"]


@dataclass(frozen=True)
class ProfileLine(JsonRecord):
    """What is known of a user, in one sentence.

    Attributes:
        section: `static` for what lasts, `dynamic` for what is recent.
        kind: `fact`, or the type of a formed memory, such as `preference`.
        key: the predicates of a fact, joined by commas; empty for formed memories.
        text: the sentence, after who said it.
        memory_ids: the memories that state it in these words, newest first.
        time: when it was stated last.
        confidence: 0 to 1.
        scope: of those memories.
        disputed_by: the newest memory that disputes the first of them, or None.
        later: what else was said later and may have ended it, newest first.
        first_time: when it was stated first, where it was stated more than once.
    """

    json_decimals = 6

    section: Section
    kind: str
    key: str
    text: str
    memory_ids: tuple[str, ...]
    time: dt.datetime | None
    confidence: float
    scope: Scope
    disputed_by: NewerText | None = None
    later: tuple[NewerText, ...] = ()
    first_time: dt.datetime | None = None

    @property
    def cited(self) -> str:
        """The line with its day and the newest memory that states it, and with what was said later about the same."""
        line = cited_line(one_line(self.text), self.memory_ids[:1], self.time)
        if len(self.memory_ids) > 1:
            since = f" since {self.first_time.date().isoformat()}" if self.first_time else ""
            line = f"{line} (said {len(self.memory_ids)} times{since})"
        return changed_line(line, self.disputed_by, self.later)


@dataclass(frozen=True)
class Profile:
    """What is known of a user, newest first.

    Attributes:
        user: the user's id.
        lines: of both sections.
    """

    user: str
    lines: tuple[ProfileLine, ...]

    @property
    def static(self) -> tuple[ProfileLine, ...]:
        """What lasts."""
        return tuple(line for line in self.lines if line.section == "static")

    @property
    def dynamic(self) -> tuple[ProfileLine, ...]:
        """What is recent."""
        return tuple(line for line in self.lines if line.section == "dynamic")

    def to_json(self) -> JsonObject:
        """Returns the profile as JSON values."""
        return {
            "user": self.user,
            "static": [line.to_json() for line in self.static],
            "dynamic": [line.to_json() for line in self.dynamic],
        }


# The profile of a user: what they state of themselves, and what was formed from it, each line with its citation.
#
# It is read from what each build keeps ready, facts, nodes and formed memories, by a few statements and without a
# search.

MIN_SHOWN = 0.1
"""Least likelihood that a newer memory ended what a line states for it to be named there: as `consolidate` proposes."""
RECENT = dt.timedelta(days=30)
"""What was stated this long before the newest memory of a scope is dynamic, unless it lasts."""

_PERMANENT = frozenset(
    {"born_in", "birthday", "grew_up_in", "comes_from", "parent_of", "child_of", "sibling_of", "relative_of"}
)
"""Predicates that nothing ends: what disputes another part of their memory is not about them."""
_PREFERENCES = f'unit = "{REFLECTION}" and type = "preference"'
_FACTS = f'unit = "{REFLECTION}" and kind = "fact"'  # of which those that a language model wrote are shown
_MAX_READ = 200  # formed memories, and memories that state facts, that are read of a scope, newest first
_SPEAKERS_READ = 40  # newest memories whose speakers may be the user
_OF_SPEAKER = re.compile(r"\b(?:i|me|my|mine|we|us|ours?)\b", re.IGNORECASE)  # who says so speaks of themselves


def read_profile(scopes: Sequence[ServedScope], user: str) -> Profile:
    """Returns the profile of a user in some scopes, the newest lines first.

    Args:
        scopes: scopes of the user; their filters say what is shown.
        user: the user's id.
    """
    lines = [line for served in scopes for line in _scope_lines(served, user)]
    order = sorted(lines, key=lambda x: (-x.time.timestamp() if x.time else 0.0, x.memory_ids, x.text))
    return Profile(user, tuple(_said_once(order)))


def _said_once(newest_first: Sequence[ProfileLine]) -> list[ProfileLine]:
    """Returns lines of which each text of a scope stands once: the newest, with the memories of the others."""
    found: dict[tuple[Scope, str], ProfileLine] = {}
    for line in newest_first:
        last = found.setdefault((line.scope, fold(line.text)), line)
        ids = tuple(dict.fromkeys((*last.memory_ids, *line.memory_ids)))
        if ids != last.memory_ids:
            found[line.scope, fold(line.text)] = replace(last, memory_ids=ids, first_time=line.time)
    return list(found.values())


def _scope_lines(served: ServedScope, user: str) -> list[ProfileLine]:
    if (view := served.view()) is None:
        return []
    newest = _newest(view, view.allowed(served.filters))
    formed_ids = [
        memory_id
        for where in (_PREFERENCES, _FACTS)
        for memory_id in _newest(view, view.allowed(replace(served.filters, where=parse_where(where))))[:_MAX_READ]
    ]
    # Of every version, because nothing then conceals what only retired memories state, which costs reads; facts say
    # themselves whether they are latest.
    graph = ServedGraph.of(ServedScope(served.backend, served.scope, replace(served.filters, history=True)))
    latest = served.memories(newest[:_SPEAKERS_READ])
    newest_time = _time(latest[newest[0]]) if newest and newest[0] in latest else None
    day = served.filters.now or newest_time
    own = _own_names(latest.values(), user)
    facts = _facts_of_user(graph, own, user, day) if graph else []
    stating = _first(newest, {i for f in facts for i in f.memory_ids})
    found = served.memories([*formed_ids, *stating])
    shown = name_changes(served, found, reasons_of_latest(served, found.values()), is_cut=not served.filters.history)
    memories = {i: m for i, m in shown.items() if _is_valid(m.valid_until, day)}
    recent_since = newest_time - RECENT if newest_time else None
    said = [memories[i] for i in formed_ids if i in memories and _is_said_by(memories[i], own)]
    formed = [m for m in said if m.type == "preference" or (m.confidence_source == BY_MODEL and _names(m.text, own))]
    lines = [_formed_line(served, memory, recent_since) for memory in formed]
    texts = {i: m.text for i, m in found.items()}
    lasting = _fact_lines(served, graph, facts, [memories[i] for i in stating if i in memories], texts, recent_since)
    return [*lines, *(line for line, memory, value in lasting if not _is_covered(memory, value, formed))]


def _newest(view: ScopeView, allowed: np.ndarray) -> list[str]:
    """Returns the ids of some memories, the last observed first, ties to the lower id."""
    rows = np.flatnonzero(allowed)
    observed = np.nan_to_num(view.priors().observed[rows], nan=-np.inf)
    newest: list[str] = view.ids[rows[np.argsort(-observed, kind="stable")]].tolist()
    return newest


def _first(ordered: Iterable[str], wanted: Collection[str]) -> list[str]:
    return [i for i in ordered if i in wanted][:_MAX_READ] if wanted else []


def _own_names(newest: Iterable[Memory], user: str) -> list[str]:
    """Returns the names that the user has: the id, and the speaker with this name, else who speaks of themselves most.

    Turns of the role of a user are the user's: where there are some, another speaker is the user only if alone
    (`fact_tables.first_person` names them so).
    """
    turns = [((m.speaker or "").strip().casefold(), m) for m in newest if m.speaker or m.unit == "turn"]
    said: Counter[str] = Counter()
    for role, memory in turns:
        if role and role not in CHAT_ROLES:
            said[name_words(role)] += _OF_SPEAKER.search(memory.text) is not None
    names = sorted(said, key=lambda name: (-said[name], name))
    user_name = name_words(user)
    same = [n for n in names if n in (user_name, user_name.split(" ")[0])]
    is_chat = any(role in USER_ROLES or not role for role, _ in turns)
    others = names if len(names) == 1 or not is_chat else []
    return list(dict.fromkeys([user_name, *(same or others[:1])]))


def _is_said_by(memory: Memory, own: Sequence[str]) -> bool:
    speaker = memory.speaker
    return not speaker or speaker.casefold() in CHAT_ROLES or name_words(speaker) in own


def _names(text: str, own: Sequence[str]) -> bool:
    """Returns whether a text names somebody by the first name or in full."""
    words = f" {name_words(text)} "
    return any(f" {name.split(' ')[0]} " in words for name in own[1:] or own)  # the id is no name where there is one


def _facts_of_user(graph: ServedGraph, own: Sequence[str], user: str, day: dt.datetime | None) -> list[Fact]:
    """Returns the latest facts of the nodes with a name of the user."""
    found = graph.named(own)
    ids = {i for name in own for i in found.get(name, ())}
    facts = [f for f in graph.facts_of(sorted(ids)) if f.subject_id in ids and f.is_latest]
    return [f for f in facts if _is_valid(f.valid_until, day) and not f.is_negated]


def _formed_line(served: ServedScope, memory: ShownMemory, recent_since: dt.datetime | None) -> ProfileLine:
    disputed_by, later = _changes(memory, memory.text, memory.text)
    return ProfileLine(
        section=_section(memory, True, recent_since),
        kind=memory.type,
        key="",
        text=memory.text,
        memory_ids=(memory.memory_id,),
        time=_time(memory),
        confidence=memory.confidence or 0.0,
        scope=served.scope,
        disputed_by=disputed_by,
        later=later,
    )


def _changes(memory: ShownMemory, sentence: str, text: str) -> tuple[NewerText | None, tuple[NewerText, ...]]:
    """Returns what disputes a sentence of a memory, and what else may have ended it; ended parts are cut already.

    Args:
        memory: as it is shown.
        sentence: of its text, on one line.
        text: of the memory as it is stored, which parts count in.
    """
    newer = [n for n in (memory.disputed_by, *memory.later) if n and _is_about(n, sentence, text)]
    disputes = [n for n in newer if n.why != LATER]
    return disputes[0] if disputes else None, (
        *disputes[1:],
        *(n for n in newer if n.why == LATER and (n.likelihood or 0.0) >= MIN_SHOWN),
    )


def _is_about(newer: NewerText, sentence: str, text: str) -> bool:
    parts = [" ".join(text[start:end].split()) for start, end in newer.part]
    return newer.why != PART and (not parts or any(part in sentence or sentence in part for part in parts))


def _fact_lines(
    served: ServedScope,
    graph: ServedGraph | None,
    facts: Sequence[Fact],
    memories: Sequence[ShownMemory],
    texts: Mapping[str, str],
    recent_since: dt.datetime | None,
) -> list[tuple[ProfileLine, ShownMemory, str]]:
    """Returns a line for each fact of the user, with the newest memory that states it, and its value.

    `texts` are those of the memories as they are stored, by id.
    """
    nodes = graph.nodes(sorted({i for f in facts for i in f.ends})) if graph else {}
    memory_of = {m.memory_id: m for m in memories}
    lines = []
    for fact in sorted(facts, key=lambda f: (f.predicate, f.object_id or "", f.value or "")):
        stated = [i for i in memory_of if i in fact.memory_ids]
        if not stated:
            continue
        memory, is_lasting = memory_of[stated[0]], fact.predicate in LASTING
        sentence = _sentence(memory, fact, nodes)
        disputed_by, later = _changes(memory, sentence, texts[memory.memory_id])
        if fact.predicate in _PERMANENT:
            disputed_by, later = None, ()
        subject = nodes[fact.subject_id].name if fact.subject_id in nodes else memory.speaker or ""
        line = ProfileLine(
            section=_section(memory, is_lasting and not disputed_by, recent_since),
            kind="fact",
            key=fact.predicate,
            text=fact_words(subject, fact.predicate, _value(fact, nodes)),
            memory_ids=tuple(stated),
            time=_time(memory),
            confidence=fact.confidence or 0.0,
            scope=served.scope,
            disputed_by=disputed_by,
            later=later,
            first_time=_time(memory_of[stated[-1]]) if len(stated) > 1 else None,
        )
        if is_lasting or line.section == "dynamic":
            lines.append((line, memory, _value(fact, nodes)))
    return lines


def _value(fact: Fact, nodes: Mapping[str, Node]) -> str:
    return nodes[fact.object_id].name if fact.object_id in nodes and fact.object_id else fact.value or ""


def _sentence(memory: Memory, fact: Fact, nodes: Mapping[str, Node]) -> str:
    """Returns the first sentence of a memory that has what a fact states, the first one where none has all of it."""
    value = _value(fact, nodes)
    sentences = [memory.text[a:b] for a, b in memory_sentence_spans(memory.text)] or [memory.text]
    found = next((s for s in sentences if fold(value) in fold(s)), sentences[0])
    return " ".join(found.split())


def _section(memory: Memory, is_lasting: bool, recent_since: dt.datetime | None) -> Section:
    time = _time(memory)
    is_recent = recent_since is None or time is None or time >= recent_since or memory.valid_until is not None
    is_static = (is_lasting and memory.valid_until is None) or not is_recent
    return "static" if is_static else "dynamic"


def _is_covered(memory: Memory, value: str, formed: Sequence[Memory]) -> bool:
    """Returns whether a formed memory has what a memory states: it rests on a span of it.

    One by a language model states a part of it, and so has the value too.
    """
    span = memory.span
    return any(
        f.document_id == memory.document_id and span and f.span and f.span[0] < span[1] and span[0] < f.span[1]
        for f in formed
        if f.confidence_source != BY_MODEL or fold(value) in fold(f.text)
    )


def _is_valid(until: dt.datetime | None, day: dt.datetime | None) -> bool:
    return until is None or (day is not None and until > day)


def _time(memory: Memory) -> dt.datetime | None:
    return memory.observed_at or memory.valid_from
