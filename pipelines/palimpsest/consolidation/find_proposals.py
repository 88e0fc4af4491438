"""All proposals of a build: each scope by itself, each proposal a function of the memories that it names."""

import datetime as dt
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np
import polars as pl

from palimpsest.consolidation.contradictions import contradictions
from palimpsest.consolidation.lm_findings import Group, LmFindings, ReadGroups, groups_of
from palimpsest.consolidation.model_conflicts import Pair, Reading, labelled_pairs, pairs_without_order, read_conflicts
from palimpsest.consolidation.scope_memories import Memory, ScopeMemories, Window, scopes_of
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import counted
from palimpsest.core.ids import ScopeKey, entity_id
from palimpsest.entities.find_names import entity_key
from palimpsest.facts.vocabulary import SINGLE_VALUED
from palimpsest.query.request.types import shorten_text
from palimpsest.relations.labelers.rule_facts import read_value
from palimpsest.store.builds import Build, published
from palimpsest.store.collection_config import ConsolidationConfig
from palimpsest.store.graph_decisions import GraphDecision
from palimpsest.store.home import Home
from palimpsest.store.proposals import Proposal
from palimpsest.text.quantities import quantities
from palimpsest.text.words import content_words, fold, stem_words

# Memories that nobody needs any more: expired, replaced long ago, or small talk that was never read.

MAX_WORDS = 4
"""Content words of small talk."""
MAX_IMPORTANCE = 0.5
"""Importance from which on a memory is never small talk; one that was stated, by a person or a model, counts always."""
_UNSTATED = ("default", "type")


@dataclass(frozen=True)
class Reads:
    """When memories were results of a search.

    Attributes:
        last: second since 1970 of the last read, by memory id.
        first: second of the first read that the log has; None where it has none.
    """

    last: Mapping[str, int]
    first: int | None


@dataclass(frozen=True)
class PruneSettings:
    """From when on something is old: see `store.consolidation_config`."""

    now: dt.datetime
    unread_days: int
    replaced_days: int


@dataclass(frozen=True)
class Pruning:
    """Finds what may go in one scope."""

    scope: ScopeMemories
    reads: Reads
    settings: PruneSettings

    def proposals(self) -> Iterator[Proposal]:
        """Yields a proposal for each memory that nobody needs; never for one that something rests on."""
        for memory in self.scope.memories.values():
            is_free = memory.memory_id not in self.scope.rested_on and not memory.is_formed
            if is_free and self.scope.is_looked_at(memory.memory_id) and (found := self._reason(memory)):
                why, description, confidence = found
                by = memory.superseded_by or ""
                premises = (memory.memory_id, by) if by in self.scope.memories else (memory.memory_id,)
                yield Proposal("prune", why, self.scope.scope, premises, description, confidence, drop=memory.memory_id)

    def _reason(self, memory: Memory) -> tuple[str, str, float] | None:
        """Returns (why, description, confidence)."""
        until = memory.valid_until
        if memory.is_latest and until is not None and until < self.settings.now:
            return "expired", f"valid until {until:%Y-%m-%d}, and nothing follows it", 0.9
        if not memory.is_latest:
            if until is not None and until < self._ago(self.settings.replaced_days):
                return "replaced", f"replaced since {until:%Y-%m-%d}", 0.8
            return None
        if self._is_unread(memory) and self._is_small_talk(memory):
            return "small talk", f"states nothing, and not read in {self.settings.unread_days} days", 0.7
        return None

    def _ago(self, days: int) -> dt.datetime:
        return self.settings.now - dt.timedelta(days=days)

    def _is_unread(self, memory: Memory) -> bool:
        """Returns whether it was not read in all of the time in which reads were counted and it was there."""
        since = self._ago(self.settings.unread_days)
        came = memory.ingested_at or memory.observed_at
        is_counted = self.reads.first is not None and self.reads.first <= since.timestamp()
        is_old = came is not None and came <= since
        return is_counted and is_old and self.reads.last.get(memory.memory_id, 0) < since.timestamp()

    def _is_small_talk(self, memory: Memory) -> bool:
        if memory.importance > MAX_IMPORTANCE or memory.importance_source not in (*_UNSTATED, None):
            return False
        states = memory.memory_id in self._stating or any(s.fact for s in memory.reading.sentences)
        if states or len(content_words(memory.text)) > MAX_WORDS or any(s.names for s in memory.reading.sentences):
            return False
        return not (
            quantities(memory.text) or any(c.isdigit() for c in memory.text) or memory.memory_id in self._linked
        )

    @cached_property
    def _linked(self) -> frozenset[str]:
        return frozenset(i for pair in self.scope.linked for i in pair)

    @cached_property
    def _stating(self) -> frozenset[str]:
        """Memories that state a fact or name an entity."""
        tables = self.scope.tables
        return frozenset(tables["clause_facts"]["memory_id"]) | frozenset(tables["mentions"]["memory_id"])


# Topics of a scope that gather nearly the same memories, and that may be one.

SIMILAR_TOPICS = "similar topics"
MIN_SHARED = 4
"""Latest memories that two topics share."""
MIN_OVERLAP = 0.6
"""Share of the memories of either that both have. In the demo the two nearest have .53: a hall and its bath."""


def similar_topics(scope: ScopeMemories, decided: frozenset[tuple[str, str]]) -> Iterator[Proposal]:
    """Yields a proposal for each two topics of a scope with nearly the same latest memories, the larger topic first.

    Args:
        scope: the scope.
        decided: pairs of ids of nodes that people decided about, each ascending.
    """
    labels = dict(scope.tables["topics"].select("topic_id", "label").iter_rows())
    latest = {m.memory_id for m in scope.latest}
    members: dict[str, set[str]] = defaultdict(set)
    for topic, memory in scope.tables["topic_memories"].select("topic_id", "memory_id").iter_rows():
        if memory in latest and topic in labels:
            members[topic].add(memory)
    for pair in combinations(sorted(members), 2):
        shared = members[pair[0]] & members[pair[1]]
        overlap = len(shared) / len(members[pair[0]] | members[pair[1]])
        if len(shared) < MIN_SHARED or overlap < MIN_OVERLAP or pair in decided or not scope.is_looked_at(*shared):
            continue
        keep, other = sorted(pair, key=lambda t: (-len(members[t]), t))
        yield Proposal(
            "connection",
            SIMILAR_TOPICS,
            scope.scope,
            tuple(sorted(shared)[:MIN_SHARED]),
            f"{labels[keep]} and {labels[other]} may be one topic: {len(shared)} memories are in both",
            round(overlap, 2),
            names=(keep, other),
        )


def merge_decision(proposal: Proposal) -> GraphDecision | None:
    """Returns the decision by which two similar topics become one node; None for any other proposal."""
    if proposal.why != SIMILAR_TOPICS or len(proposal.names) != 2:
        return None
    return GraphDecision("merge_nodes", proposal.scope, *proposal.names)


# How sure a memory is, given what else its scope says: support raises it, contradiction lowers it.
#
# In odds: `c / (1 - c)`, times 1.5 for each independent source that supports it, three at most, divided by 2 for each
# that contradicts it, two at most. Independent is a memory of another document. The result is kept from .05 to .95, and
# a memory that is surer already stays so where nothing contradicts it.


SUPPORT, MAX_SUPPORT = 1.5, 3
DOUBT, MAX_DOUBT = 2.0, 2
LOWEST, HIGHEST = 0.05, 0.95
MIN_DOUBT = 0.8
"""Confidence from which on a contradiction counts: for the memory that it would retire, or for both."""
MIN_CHANGE = 0.05
"""A smaller change is not proposed."""


def revised_confidence(confidence: float, supporting: int, contradicting: int) -> float:
    """Returns the confidence of a memory after counting sources, rounded to 2 decimals.

    Args:
        confidence: before, 0 to 1.
        supporting: independent sources that support it.
        contradicting: memories that contradict it.
    """
    before = min(max(confidence, LOWEST), HIGHEST)
    odds = before / (1 - before)
    odds *= SUPPORT ** min(supporting, MAX_SUPPORT) / DOUBT ** min(contradicting, MAX_DOUBT)
    after = min(max(odds / (1 + odds), LOWEST), HIGHEST)
    return round(max(after, confidence) if not contradicting else after, 2)


def confidence_changes(scope: ScopeMemories, conflicts: Iterable[Proposal]) -> Iterator[Proposal]:
    """Yields a proposal for each latest memory whose confidence others change.

    Args:
        scope: the scope.
        conflicts: its open contradictions.
    """
    doubts: dict[str, set[str]] = defaultdict(set)
    for proposal in conflicts:
        if proposal.why != "conditional" and proposal.confidence >= MIN_DOUBT:
            for memory_id in (proposal.drop,) if proposal.drop else proposal.memory_ids:
                doubts[memory_id] |= set(proposal.memory_ids) - {memory_id}
    supports = _supporting(scope)
    for memory in scope.latest:
        i = memory.memory_id
        by, against = sorted(supports.get(i, ()))[:MAX_SUPPORT], sorted(doubts.get(i, ()))[:MAX_DOUBT]
        after = revised_confidence(memory.confidence, len(by), len(against))
        if abs(after - memory.confidence) < MIN_CHANGE or not scope.is_looked_at(i):
            continue
        counts = ((len(by), "support"), (len(against), "contradict"))
        reasons = [f"{counted(n, 'memory')} {what}{'s' if n == 1 else ''} it" for n, what in counts if n]
        yield Proposal(
            "confidence",
            "contradicted" if against else "supported",
            scope.scope,
            (i, *by, *against),
            f"its confidence from {memory.confidence:.2f} to {after:.2f}: {', '.join(reasons)}",
            0.8,
            value=after,
        )


def _supporting(scope: ScopeMemories) -> Mapping[str, set[str]]:
    """Returns by memory id one memory of each other document that states the same fact."""
    found: dict[str, set[str]] = defaultdict(set)
    latest = {m.memory_id: m for m in scope.latest}
    facts = scope.tables["facts"]
    for memory_ids, is_negated, modality in facts.select("memory_ids", "is_negated", "modality").iter_rows():
        stating = [latest[i] for i in memory_ids if i in latest]
        if is_negated or modality not in (None, "stated") or len({m.document_id for m in stating}) < 2:
            continue
        for memory in stating:
            found[memory.memory_id] |= _one_of_each_document(memory, stating)
    return found


def _one_of_each_document(memory: Memory, stating: Iterable[Memory]) -> set[str]:
    first: dict[str, str] = {}
    for other in stating:
        if other.document_id != memory.document_id:
            first.setdefault(other.document_id, other.memory_id)
    return set(first.values())


# Memories of different sessions that share a rare name and that nothing links, and names that may be one.

MAX_MEMORIES = 5
"""A name that more memories have is not rare."""
PER_SCOPE = 20
"""Connections of a scope, the rarest names first; and as many pairs of names."""
MIN_NAME_CHARS = 6
"""Of shorter names a letter more or less makes another name: `Anna` and `Hanna`."""


def shared_names(scope: ScopeMemories) -> Iterator[Proposal]:
    """Yields a proposal for each rare name of several sessions whose memories nothing links, the rarest first."""
    found: list[tuple[int, tuple[str, ...], str]] = []
    seen: set[tuple[str, ...]] = set()
    for name, memory_ids in sorted(_mentioning(scope).items()):
        ids = tuple(sorted(memory_ids))
        memories = [scope.memories[i] for i in ids]
        sessions = {(m.document_id, m.session_id) for m in memories}
        is_rare = 2 <= len(ids) <= MAX_MEMORIES and len(sessions) == len(ids)
        is_linked = any(frozenset(pair) in scope.linked for pair in combinations(ids, 2))
        if is_rare and not is_linked and ids not in seen and scope.is_looked_at(*ids):
            seen.add(ids)
            found.append((len(ids), ids, name))
    for count, ids, name in sorted(found)[:PER_SCOPE]:
        yield Proposal(
            "connection",
            "shared name",
            scope.scope,
            ids,
            f"{count} sessions name {name}, and no relation links them",
            round(1.0 - count / 10, 2),
        )


def similar_names(scope: ScopeMemories, decided: frozenset[tuple[str, str]]) -> Iterator[Proposal]:
    """Yields a proposal for two names of a scope that differ in one letter or in signs, and that are two entities.

    Args:
        scope: the scope.
        decided: pairs of ids of names and nodes that people decided about, each ascending.
    """
    mentioning = _mentioning(scope)
    plain: dict[str, list[str]] = defaultdict(list)
    for name in sorted(mentioning):
        letters = "".join(c for c in entity_key(name) if c.isalnum())
        if len(letters) >= MIN_NAME_CHARS and not any(c.isdigit() for c in letters):
            for form in {letters, *(letters[:i] + letters[i + 1 :] for i in range(len(letters)))}:
                plain[form].append(name)
    pairs = {(a, b) for names in plain.values() if len(names) <= MAX_MEMORIES for a, b in combinations(names, 2)}
    yielded = 0
    for a, b in sorted(pairs):
        first, second = sorted(entity_id(*scope.scope, entity_key(n)) for n in (a, b))
        premises = (min(mentioning[a]), min(mentioning[b]))
        if first == second or (first, second) in decided or yielded == PER_SCOPE or not scope.is_looked_at(*premises):
            continue
        yielded += 1
        yield Proposal(
            "connection",
            "similar names",
            scope.scope,
            tuple(dict.fromkeys(premises)),
            f"{a} and {b} may be one name",
            0.6,
            names=(first, second),
        )


def _mentioning(scope: ScopeMemories) -> Mapping[str, set[str]]:
    """Returns the ids of the latest memories that mention each entity, by its name."""
    names = dict(scope.tables["entities"].select("entity_id", "name").iter_rows())
    latest = {m.memory_id for m in scope.latest}
    found: dict[str, set[str]] = defaultdict(set)
    for memory_id, entity in scope.tables["mentions"].select("memory_id", "entity_id").iter_rows():
        if memory_id in latest and entity in names:
            found[names[entity]].add(memory_id)
    return found


# Memories that say the same: only where words, numbers, names and their order agree, never by similarity alone.

MIN_CONTENT_WORDS = 3
"""A shorter text (`Yes, please.`) means something else at each place."""
_MAX_QUOTE = 120
_NEUTRAL = frozenset({"the", "a", "an", "that", "also", "just", "please", "really", "very", "note", "fyi"})
_WORD = re.compile(r"[€$£%°]|[^\W_](?:[\w\-.:/']*\w)?")
_ME = frozenset({"i", "my", "me", "mine", "we", "our", "us", "you", "your"})
_ELSEWHERE_LIST = """
he she it they his her its their him them this these those there here then such same another other
"""
_POINTS_ELSEWHERE = frozenset(_ELSEWHERE_LIST.split())
_NOW_LIST = """
now today tonight tomorrow yesterday currently soon recently just ago this next last week month year morning evening
monday tuesday wednesday thursday friday saturday sunday
"""
_NOW = frozenset(_NOW_LIST.split())


def duplicates(scope: ScopeMemories) -> Iterator[Proposal]:
    """Yields a proposal for each latest memory that repeats another; the other stays.

    The other is the one that is trusted more, then the one that something rests on, then the newest, then the first by
    id. Nothing that something rests on is proposed to go.
    """
    groups: dict[tuple[object, ...], list[Memory]] = defaultdict(list)
    for memory in scope.latest:
        if key := duplicate_key(memory):
            groups[key].append(memory)
    for members in groups.values():
        if len(members) < 2 or not scope.is_looked_at(*(m.memory_id for m in members)):
            continue
        kept, *others = _best_first(scope, members)
        for other in others:
            if other.memory_id in scope.rested_on or other.document_id == kept.document_id:
                continue
            yield Proposal(
                "duplicate",
                "same text" if fold(other.text) == fold(kept.text) else "same words",
                scope.scope,
                (other.memory_id, kept.memory_id),
                f"says the same as another memory: {shorten_text(kept.text, _MAX_QUOTE)}",
                0.95 if fold(other.text) == fold(kept.text) else 0.85,
                keep=kept.memory_id,
                drop=other.memory_id,
            )


def duplicate_key(memory: Memory) -> tuple[object, ...] | None:
    """Returns what two memories must share to say the same; None for a text that depends on its place.

    That is every word but articles and fillers, in order, stemmed, with numbers as values, so that `nine` is `9`; title
    and heading, where the text names nothing itself; who says it, where it says `I` or `you`; and the day, where it
    says `today` or states what happened.
    """
    words = _WORD.findall(fold(memory.text).replace("\u2019", "'"))
    content = content_words(memory.text)
    if len(content) < MIN_CONTENT_WORDS or not _POINTS_ELSEWHERE.isdisjoint(words) or "?" in memory.text:
        return None
    kept = tuple(_plain(w) for w in words if w not in _NEUTRAL)
    speaker = memory.speaker if not _ME.isdisjoint(words) else None
    is_about_a_day = not _NOW.isdisjoint(words) or _has_past_verb(memory)
    day = memory.observed_at.date().isoformat() if is_about_a_day and memory.observed_at else None
    session = memory.session_id if is_about_a_day and day is None else None
    names_itself = all(s.names for s in memory.reading.sentences)
    return kept, "" if names_itself else fold(memory.context), speaker, day, session


def _has_past_verb(memory: Memory) -> bool:
    """Returns whether a sentence states what happened: the same may happen on two days."""
    return any(s.past for s in memory.reading.sentences)


def _plain(word: str) -> str:
    if any(c.isdigit() for c in word):
        return read_value(word).key
    value = read_value(word)
    return value.key if value.kind == "number" else next(iter(stem_words(frozenset({word}))), word)


def _best_first(scope: ScopeMemories, members: Sequence[Memory]) -> list[Memory]:
    def key(m: Memory) -> tuple[float, bool, bool, int, str]:
        return (-m.trust, m.memory_id not in scope.rested_on, m.at is None, -(m.at or 0), m.memory_id)

    return sorted(members, key=key)


# Notes: what several memories state of one person or thing alike, as one line over all of them.

MIN_MEMORIES = 3
MAX_VALUES = 10
_SAYS_LITTLE = frozenset({"made"})


def notes(scope: ScopeMemories) -> Iterator[Proposal]:
    """Yields a note for each slot of an entity that three latest memories of two documents fill with three values.

    A note lists the values as the memories have them, and concludes nothing.
    """
    latest = {m.memory_id: m for m in scope.latest}
    names = dict(pl.concat(scope.tables[t].select("entity_id", "name") for t in ("speakers", "entities")).iter_rows())
    slots: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    rows = scope.tables["facts"].filter(pl.col("is_latest") & ~pl.col("is_negated")).sort("fact_id")
    columns = ("subject_id", "predicate", "object_id", "value", "memory_ids")
    for subject, predicate, other, value, memory_ids in rows.select(columns).iter_rows():
        text, stating = (names.get(other) if other else value) or "", [i for i in memory_ids if i in latest]
        if text and stating and subject in names and predicate not in _SAYS_LITTLE | SINGLE_VALUED:
            slots[subject, predicate].setdefault(text, stating[0])
    for (subject, predicate), values in sorted(slots.items()):
        ids = tuple(sorted(set(values.values())))
        documents = {latest[i].document_id for i in ids}
        if len(ids) < MIN_MEMORIES or len(documents) < 2 or not scope.is_looked_at(*ids):
            continue
        listed = "; ".join(sorted(values)[:MAX_VALUES])
        yield Proposal(
            "note",
            "repeated slot",
            scope.scope,
            ids,
            f"{names[subject]}, {predicate.replace('_', ' ')}: {listed}",
            0.7,
        )


MAX_PAIRS_READ = 400
"""Pairs that are read in one run: those that a build thought possible, then the most similar without an order."""

Vectors = Callable[[Sequence[str]], np.ndarray]
"""From ids of memories: their unit vectors, one a row."""


@dataclass(frozen=True)
class Consolidation:
    """What proposals are found in.

    Attributes:
        tables: `scope_memories.TABLES` of a build.
        settings: of each collection that is consolidated, by name.
        vectors: of the memories.
        reads: when memories were results of a search.
        now: the time.
        everything: whether every memory is looked at, and not only what came in and a sample.
        decided: pairs of ids of names and nodes that people decided about, each ascending.
        read_groups: reads groups of memories with a language model; None where no collection lets it.
        only: the scopes that are looked at; None means all.
    """

    tables: Mapping[str, pl.DataFrame]
    settings: Mapping[str, ConsolidationConfig]
    vectors: Vectors
    reads: Reads
    now: dt.datetime
    everything: bool = False
    decided: frozenset[tuple[str, str]] = frozenset()
    read_groups: ReadGroups | None = None
    only: frozenset[ScopeKey] | None = None

    @cached_property
    def scopes(self) -> tuple[ScopeMemories, ...]:
        """The scopes, ascending."""
        windows = {
            name: Window(
                self.everything, self.now - dt.timedelta(hours=c.window_hours), c.sample, f"{self.now:%Y-%m-%d}"
            )
            for name, c in self.settings.items()
        }
        return tuple(s for s in scopes_of(self.tables, windows) if self.only is None or s.scope in self.only)


@dataclass(frozen=True)
class Found:
    """What a run found.

    Attributes:
        proposals: of all scopes, by id.
        by_model: what a language model proposed of them, and what was paid.
    """

    proposals: Sequence[Proposal]
    by_model: LmFindings


def find_proposals(work: Consolidation) -> Found:
    """Returns the proposals of all scopes; of two with one id the one that a language model found."""
    pairs = _likely_pairs(work)
    readings = _read_pairs(pairs)
    by_model = work.read_groups(model_groups(work, pairs)) if work.read_groups else LmFindings()
    found = {p.proposal_id: p for s in work.scopes for p in _of_scope(work, s, readings.get(s.scope, ()))}
    found |= {p.proposal_id: p for listed in by_model.proposals.values() for p in reversed(listed)}
    return Found([found[i] for i in sorted(found)], by_model)


def model_groups(work: Consolidation, pairs: Sequence[tuple[ScopeKey, Pair]] | None = None) -> list[Group]:
    """Returns the groups of memories that a language model reads, of the collections that let it.

    Args:
        work: the memories.
        pairs: of all scopes, where they are known.
    """
    likely = _likely_pairs(work) if pairs is None else pairs
    return groups_of(p for p in likely if work.settings[p[0][0]].read_by != "rules")


def _of_scope(work: Consolidation, scope: ScopeMemories, read: Sequence[Reading]) -> Iterator[Proposal]:
    config = work.settings[scope.scope[0]]
    conflicts = contradictions(scope, read)
    yield from conflicts
    yield from duplicates(scope)
    yield from Pruning(scope, work.reads, PruneSettings(work.now, config.unread_days, config.replaced_days)).proposals()
    yield from confidence_changes(scope, conflicts)
    yield from shared_names(scope)
    yield from similar_names(scope, work.decided)
    yield from similar_topics(scope, work.decided)
    yield from notes(scope)


def _likely_pairs(work: Consolidation) -> list[tuple[ScopeKey, Pair]]:
    """Returns the pairs of all scopes that are worth reading: those that a build read first, then the most similar."""
    pairs: list[tuple[ScopeKey, Pair]] = []
    for scope in work.scopes:
        pairs += [(scope.scope, pair) for pair in labelled_pairs(scope)]
        if scope.latest and scope.looked_at:
            vectors = work.vectors([m.memory_id for m in scope.latest])
            found = pairs_without_order(scope, work.tables["documents"], vectors)
            pairs += [(scope.scope, pair) for pair in found]
    return sorted(pairs, key=lambda x: (not x[1].conflict, -x[1].score, x[1].first.memory_id, x[1].second.memory_id))


def _read_pairs(pairs: Sequence[tuple[ScopeKey, Pair]]) -> Mapping[ScopeKey, Sequence[Reading]]:
    """Returns the conflicts of all scopes, by scope: those that the build found, and those of the pairs read now."""
    unread = [p for p in pairs if not (p[1].is_found or p[1].is_unlikely)][:MAX_PAIRS_READ]
    chosen = [*(p for p in pairs if p[1].is_found), *unread]
    scope_of = {(p.first.memory_id, p.second.memory_id): key for key, p in chosen}
    found: dict[ScopeKey, list[Reading]] = {}
    for reading in read_conflicts([p for _, p in chosen]):
        key = scope_of[reading.pair.first.memory_id, reading.pair.second.memory_id]
        found.setdefault(key, []).append(reading)
    return found


# The build that proposals are about, and their states since it was published.


def published_build(home: Home) -> Build:
    """Returns the build that readers see.

    Raises:
        PalimpsestError: there is none.
    """
    if (build := published(home)) is None:
        raise PalimpsestError(f"home {home.path}: nothing is published; run palimpsest build --home {home.path}")
    return build


def settled(proposals: Mapping[str, Proposal], build: Build) -> dict[str, Proposal]:
    """Returns proposals, those that were confirmed before the build was made as applied."""
    return {
        i: replace(p, state="applied") if p.state == "confirmed" and p.decided_build < build.build_id else p
        for i, p in proposals.items()
    }
