"""Packs ranked memories into the lines of a context under a budget of tokens.

Memories are packed whole where all of them fit. Otherwise those that `quotes` may cut are quoted in part, and their
sentences compete for the budget; short ones are packed whole or not at all.

Facts come before their context: ranked memories, then the versions they replaced, then, in the tokens that are left,
the memories next to them in their session or document.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from palimpsest.query.context.changes import likely_changes
from palimpsest.query.context.lines import (
    CONTEXT,
    FACT,
    HEADING,
    LATER,
    REPLACED,
    Block,
    ContextLine,
    CountTokens,
    Source,
    counted_citation,
    in_reading_order,
)
from palimpsest.query.context.quotes import Quote, QuoteDraft, Sentences, by_worth
from palimpsest.query.request.dependence import find_names
from palimpsest.query.request.types import OF_LAST_GOOD, Memory, RankedMemory, ShownMemory, one_line, shorten_text
from palimpsest.query.scope.scope_arrays import rows_of
from palimpsest.query.scope.served_scope import ServedScope
from palimpsest.store.inbox import is_inbox_uri
from palimpsest.text.document_status import status_in_heading
from palimpsest.text.sentences import refers_back, skip_list_marker
from palimpsest.text.terms import LONG_TOKENS

# The results of a search as facts: the versions of one fact together, repetitions folded.

SAME = 0.9  # Jaccard overlap of words from which a text repeats another

_NEGATIONS = frozenset(["no", "not", "never", "none", "cannot", "without", "nor", "neither", "t"])
_WORD = re.compile(r"\w+")


def group_versions(
    ranked: Sequence[RankedMemory], replaced: Mapping[str, Sequence[Memory]], fingerprints: "Fingerprints"
) -> tuple[list[list[Memory]], dict[str, tuple[str, ...]]]:
    """Returns chains of versions, newest first, in the order of their best rank, and what was folded into what.

    Args:
        ranked: memories, best first.
        replaced: for a memory's id, the versions it replaced, newest first.
        fingerprints: of the texts to compare.
    """
    by_id: dict[str, Memory] = {m.memory_id: m for m in ranked}
    newer_of = {older.memory_id: newer for newer, chain in replaced.items() for older in chain if newer in by_id}
    groups: dict[str, list[Memory]] = {}
    folded: dict[str, list[str]] = {}
    seen: list[tuple[str, Fingerprint]] = []
    grouped: set[str] = set()
    for memory in ranked:
        head = memory.memory_id
        passed = {head}
        while (newer := newer_of.get(head)) is not None and newer not in passed:  # a damaged store may have a cycle
            head = newer
            passed.add(head)
        if head in grouped:
            continue
        grouped.add(head)
        older = [m for m in replaced.get(head, ()) if m.memory_id not in grouped]
        chain = [by_id[head], *(by_id.get(m.memory_id, m) for m in older)]
        words = fingerprints.of(chain[0])
        same = next((i for i, other in seen if is_repetition(words, other)), None)
        if same is not None and len(chain) == 1:
            folded.setdefault(same, []).append(head)
            continue
        seen.append((head, words))
        groups[head] = chain
        grouped.update(m.memory_id for m in chain)
    return list(groups.values()), {k: tuple(v) for k, v in folded.items()}


@dataclass(frozen=True)
class Fingerprint:
    """What two texts that repeat each other share: words, numbers and negations among them, and who speaks."""

    words: frozenset[str]
    exact: frozenset[str]
    speaker: str | None


class Fingerprints:
    """Fingerprints of memories, each made once."""

    def __init__(self) -> None:
        self._known: dict[str, Fingerprint] = {}

    def of(self, memory: Memory) -> Fingerprint:
        """Returns what a memory is compared by."""
        if memory.memory_id not in self._known:
            self._known[memory.memory_id] = _fingerprint(memory)
        return self._known[memory.memory_id]


def _fingerprint(memory: Memory) -> Fingerprint:
    words = frozenset(map(str.lower, _WORD.findall(memory.text)))
    with_digits = [w for w in words if not w.isalpha() and any(map(str.isdigit, w))]
    return Fingerprint(words, (words & _NEGATIONS).union(with_digits), memory.speaker)


def is_repetition(a: Fingerprint, b: Fingerprint) -> bool:
    """Returns whether two texts say the same, one for the other."""
    if a.speaker != b.speaker or a.exact != b.exact:
        return False
    union = len(a.words | b.words)
    return union == 0 or len(a.words & b.words) / union >= SAME


_NEARLY_WHOLE = 0.8  # share of a memory's tokens in a quote from which it is packed whole where that fits
_MIN_ENTRY_TOKENS = 30  # of the shortest line with its citation and its source
_SHORT_SHARE = 10  # of the budget for short sources
_HEAD_CHARS = 60  # of a speaker, of a heading
_HEAD_MARKS = str.maketrans({"[": "", "]": "", "(": "", ")": ""})  # nothing of a text's fields ends the head of a line
_FAR_BELOW = 0.25  # of the relevance of a memory that did not fit: a less relevant one does not take its place
_PROJECT_CHARS = 60  # of a project's name in a source

FindSentences = Callable[[], Mapping[str, Sentences]]
"""Returns the sentences of the memories that may be quoted in part, by id."""


class NeighborContext(NamedTuple):
    """A memory `offset` positions after another, before it where that is negative.

    `names` says what a pronoun of the other refers to, `she = Ana`, where that is all that is needed of this one.
    """

    offset: int
    memory: Memory
    names: str = ""


_NO_NEIGHBORS: Mapping[str, Sequence[NeighborContext]] = {}
_NOTHINGLATER: Mapping[str, Sequence[Memory]] = {}


def no_sentences() -> Mapping[str, Sentences]:
    """Returns no sentences: every memory is packed whole or not at all."""
    return {}


@dataclass(frozen=True)
class Packed:
    """A context and what is in it.

    Attributes:
        lines: in order.
        packed_ids: the memories whose whole text is in it, in order, those of `beside` included.
        folded: memories left out because they repeat a better one, by the better one's id.
        tokens: of the lines and sources as the embedder counts them, at most the budget.
        beside: memories in it as context of others, not because they were ranked.
        quotes: the memories that it quotes in part, in order.
    """

    lines: tuple[ContextLine, ...] = ()
    packed_ids: tuple[str, ...] = ()
    folded: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tokens: int = 0
    beside: tuple[Memory, ...] = ()
    quotes: tuple[Quote, ...] = ()


def pack(
    ranked: Sequence[RankedMemory],
    replaced: Mapping[str, Sequence[Memory]],
    budget_tokens: int,
    count: CountTokens,
    neighbors: Mapping[str, Sequence[NeighborContext]] = _NO_NEIGHBORS,
    sentences: FindSentences = no_sentences,
    later: Mapping[str, Sequence[Memory]] = _NOTHINGLATER,
    sources: str = "short",
    newest_first: bool = False,
) -> Packed:
    """Packs memories by rank, each where it still fits, then what they replaced in the tokens that are left.

    The lines come in the order in which they are read (`in_reading_order`), not by rank.

    What was said later about the same comes before that. A disputed memory never stands without the one that disputes
    it: memories of lower rank make room for that, else neither is shown. Where not all ranked memories fit, those with
    `sentences` are quoted in part.

    Context comes last, the nearest of the best first, and never displaces a fact. An older version that is itself
    ranked goes under the newer one. Tokens of a memory are those stored with it; only citations and sources are counted
    here.

    Args:
        ranked: memories, best first.
        replaced: for a memory's id, the versions it replaced, newest first.
        budget_tokens: of the whole context, citations and sources included.
        count: counts the tokens of a text, without special ones.
        neighbors: for a memory's id, its neighbors, nearest first.
        sentences: of memories that may be quoted in part; called only where not all of them fit.
        later: for a memory's id, newer memories about the same that are not ranked, oldest first.
        sources: how they are written; see `SearchRequest.sources`.
        newest_first: of turns.
    """
    fingerprints = Fingerprints()
    groups, folded = group_versions(ranked, replaced, fingerprints)
    stands_for = {i: kept for kept, ids in folded.items() for i in ids}
    groups = [[_citing_kept(m, stands_for) for m in versions] for versions in groups]
    if budget_tokens <= 0:  # of searches that want ranks alone
        return Packed(folded=folded)
    reserved = {"none": 0, "short": budget_tokens // _SHORT_SHARE, "full": count(HEADING)}[sources]
    by_id = {m.memory_id: m for m in ranked}
    same = {kept: [by_id[i] for i in ids] for kept, ids in folded.items()}
    named = {i: next((n.names for n in near if n.names), "") for i, near in neighbors.items()}
    neighbors = {i: [n for n in near if not n.names] for i, near in neighbors.items()}
    entries = _Entries(sources, count, len({m.collection for m in ranked}) > 1, same, named, by_id)
    packer = _Packer(budget_tokens - reserved, entries)
    packer.add_ranked(groups, sentences)
    after = {versions[0].memory_id: packer.add_later(groups, rank, later) for rank, versions in enumerate(groups)}
    for versions in groups:
        packer.add_replaced(versions)
    folded_ids = {i for ids in folded.values() for i in ids}
    around = packer.add_neighbors(groups, folded_ids, neighbors, fingerprints)
    blocks = []
    for versions in groups:
        head = versions[0]
        near = [entry for _, entry in sorted(around.get(head.memory_id, ()), key=lambda near: near[0])]
        facts = [packer.entries[m.memory_id] for m in versions if m.memory_id in packer.entries]
        blocks.append(Block(head, (*facts, *after[head.memory_id], *near)))
    packed = in_reading_order(blocks, newest_first)
    if not packed:
        return Packed(folded=folded)
    lines = tuple(e.line for e in packed)
    memories = {n.memory.memory_id: n.memory for near in neighbors.values() for n in near}
    added = tuple(memories[e.memory_id] for e in packed if e.memory_id not in packer.entries)
    whole = tuple(e.memory_id for e in packed if e.quote is None)
    quotes = tuple(e.quote for e in packed if e.quote is not None)
    return Packed(lines, whole, folded, sum(line.tokens for line in lines) + reserved, added, quotes)


def _citing_kept(memory: Memory, stands_for: Mapping[str, str]) -> Memory:
    """Returns a memory; where a repetition disputes it, it names the memory that stands for that."""
    if isinstance(memory, RankedMemory) and (by := memory.disputed_by) and by.memory_id in stands_for:
        return replace(memory, disputed_by=replace(by, memory_id=stands_for[by.memory_id]))
    return memory


@dataclass(frozen=True)
class _Entry:
    line: ContextLine
    quote: Quote | None = None

    @property
    def memory_id(self) -> str:
        return self.line.cites[-1]

    @property
    def tokens(self) -> int:
        return self.line.tokens


class _Entries:
    """Makes the line of a memory and counts its tokens.

    Args:
        sources: how sources are written.
        count: counts the tokens of a text.
        several: whether the answer is from several collections, which sources then name.
        same: for a memory's id, the results that say the same.
        named: for a memory's id, what its pronoun refers to.
        results: the ranked memories by id.
    """

    def __init__(
        self,
        sources: str,
        count: CountTokens,
        several: bool,
        same: Mapping[str, Sequence[Memory]],
        named: Mapping[str, str],
        results: Mapping[str, Memory],
    ):
        self._sources, self._count, self._several, self._same, self._named = sources, count, several, same, named
        self._results = results

    def whole(self, memory: Memory, mark: str) -> _Entry:
        """Returns the line of a memory; white space is not counted."""
        text, kept = one_line(memory.text), _kept_spans(memory)
        tokens = memory.token_count if memory.token_count > 0 else self._count(text)
        spans = ", ".join(f"{a}-{b}" for a, b in kept)
        return _Entry(self._line(memory, mark, text, tokens, spans), Quote(memory.memory_id, kept) if kept else None)

    def quote(self, draft: QuoteDraft, mark: str) -> _Entry:
        """Returns the line of what is quoted of a memory."""
        text = draft.text()
        return _Entry(self._line(draft.memory, mark, text, self._count(text), draft.place()), draft.quote())

    def _line(self, memory: Memory, mark: str, text: str, text_tokens: int, spans: str) -> ContextLine:
        by = memory.disputed_by if isinstance(memory, RankedMemory) else None
        changed_by = likely_changes(memory, self._results)[:1] if isinstance(memory, RankedMemory) else []
        line = ContextLine(
            text,
            mark,
            _head(memory, self._same.get(memory.memory_id, ()), self._named.get(memory.memory_id, "")),
            (memory.memory_id,),
            by.memory_id if by else "",
            Source(_document_name(memory, self._several), _place(memory, self._several, spans)),
            later="".join(n.memory_id for n in changed_by),
        )
        citation = counted_citation(self._sources, memory.memory_id)
        parts = [*line.head, *([f"disputed by {counted_citation(self._sources, by.memory_id)}"] if by else [])]
        parts += [f"later: {counted_citation(self._sources, n.memory_id)}" for n in changed_by]
        tokens = text_tokens + self._count(f"{mark}({', '.join(parts)})" if parts else mark) + self._count(citation)
        if self._sources == "full" and line.source:
            tokens += self._count(f"{citation} {line.source.place}")
        return replace(line, tokens=tokens)


class _Packer:
    """The entries of a context so far, and the tokens that are left.

    Attributes:
        left: tokens.
        entries: of facts and of the versions that they replaced, by memory id.
        needed: memories that dispute one in the context.
    """

    def __init__(self, left: int, make: _Entries):
        self.left, self._make = left, make
        self.entries: dict[str, _Entry] = {}
        self.needed: set[str] = set()

    def add_ranked(self, groups: Sequence[Sequence[Memory]], find_sentences: FindSentences) -> None:
        """Adds the ranked memories: whole where all fit, else long ones in part, others where they fit."""
        marks = {
            m.memory_id: (m, REPLACED if depth else FACT)
            for versions in groups
            for depth, m in enumerate(versions)
            if isinstance(m, RankedMemory)
        }
        entries = {i: self._make.whole(m, mark) for i, (m, mark) in marks.items()}
        all_fit = sum(e.tokens for e in entries.values()) <= self.left
        sentences = {} if all_fit else find_sentences()
        drafts: dict[str, QuoteDraft] = {}
        order: list[QuoteDraft] = []
        left, missed = float(self.left), 0.0  # tokens by the estimates of drafts, relevance of what does not fit
        for memory_id, sentence in by_worth(list(marks), sentences):
            memory, entry = marks[memory_id][0], entries[memory_id]
            if sentence is None:
                tokens: float = entry.tokens
            else:
                draft = drafts.get(memory_id) or QuoteDraft(memory, sentences[memory_id])
                if not draft.may_fit(sentence, left):
                    continue
                before = draft.tokens_with() if draft.chosen else memory.token_count - entry.tokens
                tokens = draft.tokens_with(sentence) - before
            if tokens > left:
                missed = max(missed, memory.relevance)
                continue
            if memory.relevance < _FAR_BELOW * missed:
                continue
            left -= tokens
            if sentence is None:
                self._add(entry)
            else:
                draft.chosen.append(sentence)
                drafts[memory_id] = draft
                order.append(draft)
        self._add_quotes(order, marks, entries)

    def _add(self, entry: "_Entry") -> None:
        self.left -= entry.tokens
        self.entries[entry.memory_id] = entry

    def _add_quotes(
        self,
        order: list[QuoteDraft],
        marks: Mapping[str, tuple[Memory, str]],
        entries: Mapping[str, "_Entry"],
    ) -> None:
        """Adds the quotes of drafts, whose tokens are only now counted, without the last sentences that do not fit.

        Args:
            order: the draft of each sentence, in the order in which they were chosen.
            marks: memories and their marks by id.
            entries: of the whole memories: one of which little is missing is packed whole where that fits.
        """
        drafts = {d.memory.memory_id: d for d in order}
        quotes = {i: self._make.quote(d, marks[i][1]) for i, d in drafts.items()}
        while order and sum(e.tokens for e in quotes.values()) > self.left:
            draft = order.pop()
            draft.chosen.pop()
            memory_id = draft.memory.memory_id
            if draft.chosen:
                quotes[memory_id] = self._make.quote(draft, marks[memory_id][1])
            else:
                del quotes[memory_id]
        for entry in quotes.values():
            self._add(entry)
        for memory_id, entry in quotes.items():
            whole = entries[memory_id]
            if entry.tokens >= _NEARLY_WHOLE * whole.tokens and whole.tokens - entry.tokens <= self.left:
                self.left += entry.tokens
                self._add(whole)

    def add_replaced(self, versions: Sequence[Memory]) -> None:
        """Adds the versions under a packed fact that were not ranked and fit."""
        if versions[0].memory_id not in self.entries:
            return
        for depth, memory in enumerate(versions):
            if not isinstance(memory, RankedMemory) and (entry := self._fit(memory, REPLACED if depth else FACT)):
                self.entries[memory.memory_id] = entry

    def add_later(
        self, groups: Sequence[Sequence[Memory]], rank: int, later: Mapping[str, Sequence[Memory]]
    ) -> list[_Entry]:
        """Adds what was said later about the same as a packed memory, where it fits; returns the entries.

        Args:
            groups: of versions, the newest first.
            rank: of the group; its newest version is the memory, those of lower rank make room for what disputes it.
            later: newer memories that are not ranked, by id.
        """
        memory = groups[rank][0]
        if memory.memory_id not in self.entries:
            return []
        newer = {m.memory_id: m for m in later.get(memory.memory_id, ())}
        before = set(self.entries)
        if not self._accompany(groups, rank, newer):
            return []
        for memory_id, other in newer.items():
            if memory_id not in self.entries and (entry := self._fit(other, LATER)):
                self.entries[memory_id] = entry
        return [self.entries[i] for i in newer if i in self.entries and i not in before]

    def _accompany(self, groups: Sequence[Sequence[Memory]], rank: int, newer: Mapping[str, Memory]) -> bool:
        """Adds what disputes a memory, where that is not in yet; else removes the memory and returns False.

        Memories of lower rank make room, the last first, but not those that others need beside them.
        """
        memory = groups[rank][0]
        if not isinstance(memory, RankedMemory) or memory.disputed_by is None:
            return True
        by = memory.disputed_by.memory_id
        ranked = (m for versions in groups for m in versions if m.memory_id == by)
        disputing = newer.get(by) or next(ranked, None)
        if disputing is None:
            return True
        if by not in self.entries:
            entry = self._make.whole(disputing, LATER if by in newer else FACT)
            below = [m.memory_id for versions in groups[:rank:-1] for m in versions[::-1]]
            room = [i for i in below if i in self.entries and i not in self.needed]
            if self.left + sum(self.entries[i].tokens for i in room) < entry.tokens:
                self._remove(memory.memory_id)
                return False
            for memory_id in room:
                if self.left < entry.tokens:
                    self._remove(memory_id)
            self._add(entry)
        self.needed.add(by)
        return True

    def _remove(self, memory_id: str) -> None:
        self.left += self.entries.pop(memory_id).tokens

    def add_neighbors(
        self,
        groups: Sequence[Sequence[Memory]],
        folded: Set[str],
        neighbors: Mapping[str, Sequence[NeighborContext]],
        fingerprints: Fingerprints,
    ) -> dict[str, list[tuple[int, _Entry]]]:
        """Adds neighbors of each packed newest version, nearest first, and returns (offset, entry) by that version."""
        known = {m.memory_id for versions in groups for m in versions} | folded | self.entries.keys()
        packed = [m for versions in groups for m in versions if m.memory_id in self.entries]
        heads = [i for versions in groups if (i := versions[0].memory_id) in self.entries]
        around: dict[str, list[tuple[int, _Entry]]] = {}
        for nth in range(max((len(neighbors.get(i, ())) for i in heads), default=0)):
            for head in heads:
                if nth >= len(neighbors.get(head, ())) or self.left < _MIN_ENTRY_TOKENS:
                    continue
                offset, memory, _ = neighbors[head][nth]
                if memory.memory_id in known or memory.token_count > self.left:
                    continue
                words = fingerprints.of(memory)
                if any(is_repetition(words, fingerprints.of(other)) for other in packed):
                    continue
                if entry := self._fit(memory, CONTEXT):
                    known.add(memory.memory_id)
                    packed.append(memory)
                    around.setdefault(head, []).append((offset, entry))
        return around

    def _fit(self, memory: Memory, mark: str) -> _Entry | None:
        """Returns the memory's entry and takes its tokens, where they are left."""
        entry = self._make.whole(memory, mark)
        if entry.tokens > self.left:
            return None
        self.left -= entry.tokens
        return entry


def _kept_spans(memory: Memory) -> tuple[tuple[int, int], ...]:
    """Returns the spans in the document of what is shown of a memory of which a part ended; none where all is."""
    start = memory.char_start
    if not isinstance(memory, ShownMemory) or not memory.kept or start is None:
        return ()
    return tuple((start + a, start + b) for a, b in memory.kept)


def _head(memory: Memory, same: Sequence[Memory], named: str) -> tuple[str, ...]:
    """Returns when, who, whom it names, its section, how often, until when, and of which version it is."""
    until = f"until {memory.valid_until:%Y-%m-%d}" if memory.valid_until and not memory.is_latest else ""
    days = sorted({f"{m.observed_at:%Y-%m-%d}" for m in (memory, *same) if m.observed_at})
    observed = f"{days[0]} to {days[-1]}" if len(days) > 1 else "".join(days)
    often = f"{len(same) + 1} times" if same else ""
    status = _flat(status_in_heading(memory.heading)) if memory.is_latest else ""
    who = shorten_text(_flat(memory.speaker), _HEAD_CHARS)
    source = OF_LAST_GOOD if isinstance(memory, ShownMemory) and memory.source_unreadable else ""
    return tuple(part for part in (observed, who, _flat(named), _section(memory), often, until, status, source) if part)


def _section(memory: Memory) -> str:
    """Returns the heading or list item above a list item, or above the quotes of a long memory; empty for its title."""
    last = _flat((memory.heading or "").rpartition(" > ")[2])
    needs_one = memory.token_count > LONG_TOKENS or skip_list_marker(memory.text, 0, len(memory.text)) > 0
    if not needs_one or last == _flat(memory.document_title) or status_in_heading(memory.heading):
        return ""
    return shorten_text(last, _HEAD_CHARS)


def _document_name(memory: Memory, with_collection: bool) -> str:
    """Returns the name by which people know a memory's document: its title, its session, else its file."""
    uri = memory.uri or ""
    file = "" if is_inbox_uri(uri) else _flat(uri.partition("#")[0].rpartition("/")[2])
    name = _flat(memory.document_title) or _flat(memory.session_id) or file or "remembered"
    return f"{memory.collection}: {name}" if with_collection else name


def _place(memory: Memory, with_collection: bool, spans: str = "") -> str:
    """Returns the place of a memory, and its scope: the collection only where an answer comes from several.

    `spans` are those that are quoted, where that is not all of it.
    """
    place = [_flat(memory.uri) or memory.document_id or "?"]
    if memory.page is not None:
        place.append(f"page {memory.page}")
    elif memory.unit == "turn" and memory.ordinal is not None:
        place.append(f"turn {memory.ordinal}")
    if memory.span:
        place.append(f"chars {spans or f'{memory.span[0]}-{memory.span[1]}'}")
    if with_collection:
        place.append(f"collection {memory.collection}")
    if memory.project_id:
        place.append(f"project {_flat(memory.project_id)[:_PROJECT_CHARS]}")
    return ", ".join(place)


def _flat(text: str | None) -> str:
    return one_line((text or "").translate(_HEAD_MARKS))


# Short lines of facts and relations in a context, in the tokens that its memories leave.

_HEADING = "Relations:"
_MAX_LINES = 20


def add_relation_lines(
    packed: Packed,
    lines: Iterable[tuple[str, tuple[str, ...]]],
    budget_tokens: int,
    count: CountTokens,
    sources: str = "short",
) -> Packed:
    """Returns a context with lines of relations after its memories.

    Nothing in it is displaced: each line is added in order where it still fits, and cites only memories that the
    context has, whole or in part. Without a line the context is the same.

    Args:
        packed: the context.
        lines: text and the memories it rests on, the most useful first.
        budget_tokens: of the whole context.
        count: counts the tokens of a text, without special ones.
        sources: how the context cites; see `SearchRequest.sources`.
    """
    known = {*packed.packed_ids, *(q.memory_id for q in packed.quotes)}
    heading = ContextLine(_HEADING, mark="", tokens=count(_HEADING))
    left = budget_tokens - packed.tokens - heading.tokens
    added: list[ContextLine] = []
    for text, memory_ids in lines:
        if not memory_ids or not known.issuperset(memory_ids) or len(added) == _MAX_LINES:
            continue
        tokens = count(" ".join([f"- {text}", *(counted_citation(sources, i) for i in memory_ids)]))
        if tokens <= left:
            left -= tokens
            added.append(ContextLine(text, cites=memory_ids, tokens=tokens))
    if not added:
        return packed
    return replace(packed, lines=(*packed.lines, heading, *added), tokens=budget_tokens - left)


# The memories next to a result that complete it.
#
# They are the reply to a question, the question of a short reply, and what a statement that refers back is about.

REACH = 1  # neighbors on each side
_MAX_TOKENS = 80  # of a neighbor: a longer one says more than what is missing
_SHORT_REPLY = 8  # words
_YES_OR_NO = re.compile(r"(?:yes|yeah|yep|no|nope|sure|of course|exactly|right|me too|not yet|both|neither)\b", re.I)

_HE_OR_SHE = re.compile(r"(?:And |But |So )?(He|She)\b", re.IGNORECASE)

NeighborIds = Mapping[str, Sequence[tuple[int, str]]]
"""For a memory's id, (offset, id) of its neighbors, nearest first."""


def neighbor_ids(served: ServedScope, ids: Sequence[str], reach: int = REACH) -> dict[str, list[tuple[int, str]]]:
    """Returns (offset, id) of the candidates around each of `ids`, nearest first; none where the store has no view.

    Args:
        served: the scope; its filters say which memories are candidates.
        ids: memories of the scope.
        reach: how many neighbors on each side.
    """
    view = served.view() if ids else None
    if view is None:
        return {}
    order = view.reading_order()
    found = {i: order.neighbors(row, reach) for i, row in zip(ids, rows_of(view.ids, ids).tolist(), strict=True)}
    if not any(found.values()):
        return {}
    allowed = view.allowed(served.filters)
    return {i: _select_ids(view.ids, allowed, around) for i, around in found.items()}


def distinct_ids(neighbors: NeighborIds) -> list[str]:
    """Returns the id of every neighbor once, sorted."""
    return sorted({i for near in neighbors.values() for _, i in near})


def neighbor_contexts(neighbors: NeighborIds, memories: Mapping[str, Memory]) -> dict[str, list[NeighborContext]]:
    """Returns the neighbors that complete each memory as packing takes them; `memories` of the same scope by id."""
    return {
        i: [
            NeighborContext(offset, memories[n], pronoun_name(memories[i], memories[n]) if offset < 0 else "")
            for offset, n in near
            if completes(memories[i], offset, memories[n])
        ]
        for i, near in neighbors.items()
    }


def pronoun_name(memory: Memory, before: Memory) -> str:
    """Returns what the pronoun at the start of a turn refers to, `she = Ana`; "" where the turn before has no one name.

    Names of the two speakers, whole or short, are left out: they address each other.
    """
    refers = _HE_OR_SHE.match(memory.text)
    if refers is None:
        return ""
    speakers = [s.lower() for s in (memory.speaker, before.speaker) if s]
    names = {n.text for n in find_names(before.text) if n.is_sure and n.may_be_person and not n.is_place}
    others = sorted(n for n in names if not any(s.startswith(n.lower()) for s in speakers))
    return f"{refers[1].lower()} = {others[0]}" if len(others) == 1 else ""


def completes(memory: Memory, offset: int, neighbor: Memory) -> bool:
    """Returns whether a memory is hard to understand, or says nothing, without the one before or after it."""
    if neighbor.token_count > _MAX_TOKENS:
        return False
    if offset > 0:
        return _is_question(memory) and memory.speaker != neighbor.speaker
    words = memory.text.split()
    is_reply = memory.speaker != neighbor.speaker and _is_question(neighbor)
    is_short = len(words) <= _SHORT_REPLY or _YES_OR_NO.match(memory.text) is not None
    return refers_back(memory.text) or (is_reply and is_short)


def _is_question(memory: Memory) -> bool:
    return memory.unit == "turn" and memory.text.rstrip().endswith("?")


def _select_ids(ids: np.ndarray, allowed: np.ndarray, around: Iterable[tuple[int, int]]) -> list[tuple[int, str]]:
    return [(offset, str(ids[row])) for offset, row in around if allowed[row]]
