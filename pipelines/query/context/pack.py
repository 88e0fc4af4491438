"""Packs ranked memories into a context under a budget of tokens, cited line by line, then sources.

Memories are packed whole where all of them fit. Otherwise those that `quotes` may cut are quoted in part, and their
sentences compete for the budget; short ones are packed whole or not at all.

Facts come before their context: ranked memories, then the versions they replaced, then, in the tokens that are left,
the memories next to them in their session or document.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from palimpsest.query.context.quotes import Quote, QuoteDraft, Sentences, by_worth
from palimpsest.query.context.version_groups import Fingerprints, group_versions, is_repetition
from palimpsest.query.request.one_line import one_line
from palimpsest.query.request.types import Memory, RankedMemory, ShownMemory
from palimpsest.text.document_status import status_in_heading

_SOURCES = "Sources:"
_FACT, _REPLACED, _LATER, _CONTEXT = "- ", "  replaced: ", "  later: ", "  context: "
_NEARLY_WHOLE = 0.8  # share of a memory's tokens in a quote from which it is packed whole where that fits
_MIN_ENTRY_TOKENS = 30  # of the shortest line with its citation and its source
_PROJECT_CHARS = 60  # of a project's name in a source

CountTokens = Callable[[str], int]
FindSentences = Callable[[], Mapping[str, Sentences]]
"""Returns the sentences of the memories that may be quoted in part, by id."""


class NeighborContext(NamedTuple):
    """A memory `offset` positions after another, before it where that is negative."""

    offset: int
    memory: Memory


_NO_NEIGHBORS: Mapping[str, Sequence[NeighborContext]] = {}
_NOTHING_LATER: Mapping[str, Sequence[Memory]] = {}


def no_sentences() -> Mapping[str, Sentences]:
    """Returns no sentences: every memory is packed whole or not at all."""
    return {}


@dataclass(frozen=True)
class Packed:
    """A context and what is in it.

    Attributes:
        text: lines that each end with `[memory:<id>]`, then `Sources:` and one line for each memory cited.
        packed_ids: the memories whose whole text is in it, in order, those of `beside` included.
        folded: memories left out because they repeat a better one, by the better one's id.
        tokens: of the text as the embedder counts them, at most the budget.
        beside: memories in it as context of others, not because they were ranked.
        quotes: the memories that it quotes in part, in order.
    """

    text: str = ""
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
    later: Mapping[str, Sequence[Memory]] = _NOTHING_LATER,
) -> Packed:
    """Packs memories in order of rank, each where it still fits, then what they replaced in the tokens that are left.

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
    """
    fingerprints = Fingerprints()
    groups, folded = group_versions(ranked, replaced, fingerprints)
    stands_for = {i: kept for kept, ids in folded.items() for i in ids}
    groups = [[_citing_kept(m, stands_for) for m in versions] for versions in groups]
    if budget_tokens <= 0:  # of searches that want ranks alone
        return Packed(folded=folded)
    packer = _Packer(budget_tokens - count(_SOURCES), count, len({m.collection for m in ranked}) > 1)
    packer.add_ranked(groups, sentences)
    after = {versions[0].memory_id: packer.add_later(groups, rank, later) for rank, versions in enumerate(groups)}
    for versions in groups:
        packer.add_replaced(versions)
    folded_ids = {i for ids in folded.values() for i in ids}
    around = packer.add_neighbors(groups, folded_ids, neighbors, fingerprints)
    packed: list[_Entry] = []
    for versions in groups:
        packed += [packer.entries[m.memory_id] for m in versions if m.memory_id in packer.entries]
        packed += after[versions[0].memory_id]
        packed += [entry for _, entry in sorted(around.get(versions[0].memory_id, ()), key=lambda near: near[0])]
    if not packed:
        return Packed(folded=folded)
    text = "\n".join([*(e.line for e in packed), _SOURCES, *(e.source for e in packed)])
    memories = {n.memory.memory_id: n.memory for near in neighbors.values() for n in near}
    added = tuple(memories[e.memory_id] for e in packed if e.memory_id not in packer.entries)
    whole = tuple(e.memory_id for e in packed if e.quote is None)
    quotes = tuple(e.quote for e in packed if e.quote is not None)
    return Packed(text, whole, folded, budget_tokens - packer.left, added, quotes)


def _citing_kept(memory: Memory, stands_for: Mapping[str, str]) -> Memory:
    """Returns a memory; where a repetition disputes it, it names the memory that stands for that."""
    if isinstance(memory, RankedMemory) and (by := memory.disputed_by) and by.memory_id in stands_for:
        return replace(memory, disputed_by=replace(by, memory_id=stands_for[by.memory_id]))
    return memory


@dataclass(frozen=True)
class _Entry:
    memory_id: str
    line: str
    source: str
    tokens: int
    quote: Quote | None = None


class _Packer:
    """The entries of a context so far, and the tokens that are left.

    Attributes:
        left: tokens.
        entries: of facts and of the versions that they replaced, by memory id.
        needed: memories that dispute one in the context.
    """

    def __init__(self, left: int, count: CountTokens, several_collections: bool):
        self.left, self._count, self._several = left, count, several_collections
        self.entries: dict[str, _Entry] = {}
        self.needed: set[str] = set()

    def add_ranked(self, groups: Sequence[Sequence[Memory]], find_sentences: FindSentences) -> None:
        """Adds the ranked memories: whole where all fit, else long ones in part, others where they fit."""
        marks = {
            m.memory_id: (m, _REPLACED if depth else _FACT)
            for versions in groups
            for depth, m in enumerate(versions)
            if isinstance(m, RankedMemory)
        }
        entries = {i: _entry(m, mark, self._count, self._several) for i, (m, mark) in marks.items()}
        all_fit = sum(e.tokens for e in entries.values()) <= self.left
        sentences = {} if all_fit else find_sentences()
        drafts: dict[str, QuoteDraft] = {}
        order: list[QuoteDraft] = []
        left: float = self.left  # by the estimates of drafts
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
        quotes = {i: self._quote_entry(d, marks[i][1]) for i, d in drafts.items()}
        while order and sum(e.tokens for e in quotes.values()) > self.left:
            draft = order.pop()
            draft.chosen.pop()
            memory_id = draft.memory.memory_id
            if draft.chosen:
                quotes[memory_id] = self._quote_entry(draft, marks[memory_id][1])
            else:
                del quotes[memory_id]
        for entry in quotes.values():
            self._add(entry)
        for memory_id, entry in quotes.items():
            whole = entries[memory_id]
            if entry.tokens >= _NEARLY_WHOLE * whole.tokens and whole.tokens - entry.tokens <= self.left:
                self.left += entry.tokens
                self._add(whole)

    def _quote_entry(self, draft: QuoteDraft, mark: str) -> "_Entry":
        memory = draft.memory
        tail = f"[memory:{memory.memory_id}]"
        line = f"{mark}{_attribution(memory)}{draft.text()} {tail}"
        source = f"{tail} {_source(memory, self._several, draft.place())}"
        return _Entry(memory.memory_id, line, source, self._count(line) + self._count(source), draft.quote())

    def add_replaced(self, versions: Sequence[Memory]) -> None:
        """Adds the versions under a packed fact that were not ranked and fit."""
        if versions[0].memory_id not in self.entries:
            return
        for depth, memory in enumerate(versions):
            if not isinstance(memory, RankedMemory) and (entry := self._fit(memory, _REPLACED if depth else _FACT)):
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
            if memory_id not in self.entries and (entry := self._fit(other, _LATER)):
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
            entry = _entry(disputing, _LATER if by in newer else _FACT, self._count, self._several)
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
                offset, memory = neighbors[head][nth]
                if memory.memory_id in known or memory.token_count > self.left:
                    continue
                words = fingerprints.of(memory)
                if any(is_repetition(words, fingerprints.of(other)) for other in packed):
                    continue
                if entry := self._fit(memory, _CONTEXT):
                    known.add(memory.memory_id)
                    packed.append(memory)
                    around.setdefault(head, []).append((offset, entry))
        return around

    def _fit(self, memory: Memory, mark: str) -> _Entry | None:
        """Returns the memory's entry and takes its tokens, where they are left."""
        entry = _entry(memory, mark, self._count, self._several)
        if entry.tokens > self.left:
            return None
        self.left -= entry.tokens
        return entry


def _entry(memory: Memory, mark: str, count: CountTokens, several: bool) -> _Entry:
    head = f"{mark}{_attribution(memory)}"
    tail = f"[memory:{memory.memory_id}]"
    text = one_line(memory.text)  # white space is not counted
    source = f"{tail} {_source(memory, several, _kept_place(memory))}"
    tokens = memory.token_count if memory.token_count > 0 else count(text)
    return _Entry(memory.memory_id, f"{head}{text} {tail}", source, tokens + count(head) + count(tail) + count(source))


def _kept_place(memory: Memory) -> str:
    """Returns the spans in the document of what is shown of a memory of which a part ended; empty where all is."""
    start = memory.char_start
    if not isinstance(memory, ShownMemory) or not memory.kept or start is None:
        return ""
    return ", ".join(f"{start + a}-{start + b}" for a, b in memory.kept)


def _attribution(memory: Memory) -> str:
    """Returns when, who, until when, that its document is no longer in force, and what disputes it.

    Each where known: `(2024-05-01, Ana) `.
    """
    until = f"until {memory.valid_until:%Y-%m-%d}" if memory.valid_until and not memory.is_latest else ""
    ranked = memory if isinstance(memory, RankedMemory) else None
    by = ranked.disputed_by if ranked else None
    disputed = f"disputed by [memory:{by.memory_id}]" if by else ""
    observed = f"{memory.observed_at:%Y-%m-%d}" if memory.observed_at else ""
    status = _flat(status_in_heading(memory.heading)) if memory.is_latest else ""
    parts = ", ".join(p for p in (observed, _flat(memory.speaker), until, status, disputed) if p)
    return f"({parts}) " if parts else ""


def _source(memory: Memory, with_collection: bool, parts: str = "") -> str:
    """Returns where a memory comes from, and its scope: the collection only where an answer comes from several.

    `parts` are the spans that are quoted, where that is not all of it.
    """
    place = [_flat(memory.uri) or memory.document_id or "?"]
    if memory.page is not None:
        place.append(f"page {memory.page}")
    elif memory.unit == "turn" and memory.ordinal is not None:
        place.append(f"turn {memory.ordinal}")
    if memory.span:
        place.append(f"chars {parts or f'{memory.span[0]}-{memory.span[1]}'}")
    if with_collection:
        place.append(f"collection {memory.collection}")
    if memory.project_id:
        place.append(f"project {_flat(memory.project_id)[:_PROJECT_CHARS]}")
    return ", ".join(place)


def _flat(text: str | None) -> str:
    return " ".join((text or "").replace("[", "(").replace("]", ")").split())
