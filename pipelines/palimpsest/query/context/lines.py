"""The lines of a context, and how they are written: each ends with its citations, and the sources come last.

`short` cites by number: that of a result is its rank, and those of other memories follow. Its sources are one line for
each document, in at most a tenth of the tokens. `full` cites by id and gives the place of each memory in its document;
`none` has numbers and no sources.
"""

import datetime as dt
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from palimpsest.query.context.quotes import consecutive_runs
from palimpsest.query.request.types import Memory, shorten_text

FACT, REPLACED, LATER, CONTEXT = "- ", "  replaced: ", "  later: ", "  context: "
HEADING = "Sources:"
_SHARE = 10  # short sources take a tenth of the tokens at most, but name one document
_NAME_CHARS = 40
_NUMBERS = re.compile(r"\[(\d+(?:, ?\d+)*)\]")

CountTokens = Callable[[str], int]


@dataclass(frozen=True)
class Source:
    """Where a line is from: its document by the name that people know, and its place there."""

    document: str
    place: str


@dataclass(frozen=True)
class ContextLine:
    """A line of a context.

    Attributes:
        text: on one line.
        mark: what the line is, at its start; empty for a heading.
        head: when, who, until when: each where known.
        cites: ids of the memories that it rests on; its own is the last.
        disputed_by: id of the memory that disputes it; empty for none.
        source: of its memory.
        later: id of a result that may have changed it; empty for none.
        pending: hash of the operation that sent a text that is not built yet; it has no memory.
        tokens: of the line and its source.
    """

    text: str
    mark: str = FACT
    head: tuple[str, ...] = ()
    cites: tuple[str, ...] = ()
    disputed_by: str = ""
    source: Source | None = None
    pending: str = ""
    tokens: int = 0
    later: str = ""


@dataclass(frozen=True)
class Citations:
    """The citations of a context: ids, or numbers in the order of `ids`."""

    sources: str
    ids: tuple[str, ...]

    @classmethod
    def of(cls, sources: str, ranked: Iterable[str], lines: Iterable[ContextLine]) -> "Citations":
        """Returns those of the lines of an answer; ranked memories have their rank as number."""
        return cls(sources, tuple(dict.fromkeys([*ranked, *(i for line in lines for i in line.cites)])))

    def mark(self, memory_id: str) -> str:
        """Returns the citation of a memory."""
        return f"[memory:{memory_id}]" if self.sources == "full" else f"[{self.number(memory_id)}]"

    def number(self, memory_id: str) -> int:
        """Returns the number of a memory, from 1."""
        return self.ids.index(memory_id) + 1

    def write(self, line: ContextLine, scope: str = "") -> str:
        """Returns a line as text, with its scope where one is given."""
        known = self.sources == "full" or line.disputed_by in self.ids
        by = f" by {self.mark(line.disputed_by)}" if line.disputed_by and known else ""
        disputed = f"disputed{by}" if line.disputed_by else ""
        later = f"later: {self.mark(line.later)}" if line.later in self.ids else ""
        head = ", ".join(part for part in (*line.head, disputed, later) if part)
        head = "; ".join(part for part in (scope, head) if part)
        tail = [self.mark(i) for i in line.cites] + ([f"[pending:{line.pending}]"] if line.pending else [])
        return " ".join([f"{line.mark}{f'({head}) ' if head else ''}{self.quote(line.text)}", *tail])

    def quote(self, text: str) -> str:
        """Returns a text in which nothing passes for a citation."""
        return text if self.sources == "full" else _NUMBERS.sub(r"(\1)", text)

    def with_ids(self, answer: str) -> str:
        """Returns an answer that cites by number with the ids of the memories instead."""

        def cite(match: re.Match[str]) -> str:
            numbers = [int(n) for n in match[1].split(",")]
            known = [f"[memory:{self.ids[n - 1]}]" for n in numbers if 0 < n <= len(self.ids)]
            return " ".join(known) if len(known) == len(numbers) else match[0]

        return _NUMBERS.sub(cite, answer)


def counted_citation(sources: str, memory_id: str) -> str:
    """Returns a citation with the tokens of that of a memory, whatever its number will be."""
    return f"[memory:{memory_id}]" if sources == "full" else "[1]"


def write_context(
    lines: Sequence[ContextLine],
    citations: Citations,
    count: CountTokens,
    scope_of: Callable[[ContextLine], str] = lambda line: "",
) -> str:
    """Returns the text of a context; empty where it has no line.

    Args:
        lines: in order.
        citations: of the lines.
        count: counts the tokens of a text.
        scope_of: returns the scope that a line is to name, which no line does by default.
    """
    body = [citations.write(line, scope_of(line)) for line in lines]
    return "\n".join([*body, *source_lines(lines, citations, count)])


def context_tokens(lines: Sequence[ContextLine], citations: Citations, count: CountTokens) -> int:
    """Returns the tokens of a context, its sources included."""
    shown = source_lines(lines, citations, count)
    written = shown[:1] if citations.sources == "full" else shown  # a line has those of its place
    return sum(line.tokens for line in lines) + sum(map(count, written))


def source_lines(lines: Sequence[ContextLine], citations: Citations, count: CountTokens) -> list[str]:
    """Returns the sources of the lines of a context, with their heading; nothing where none has one."""
    cited = [line for line in lines if line.source is not None]
    if citations.sources == "none" or not cited:
        return []
    if citations.sources == "full":
        places = {line.cites[-1]: line.source.place for line in cited if line.source}
        return [HEADING, *(f"{citations.mark(i)} {place}" for i, place in places.items())]
    numbers: dict[str, list[int]] = {}
    for line in cited:
        if line.source:
            numbers.setdefault(line.source.document, []).append(citations.number(line.cites[-1]))
    rows = [f"{_ranges(found)} {shorten_text(name, _NAME_CHARS)}" for name, found in numbers.items()]
    left = sum(line.tokens for line in lines) // _SHARE - count(HEADING)
    shown = [HEADING]
    for n, row in enumerate(rows):
        left -= count(row)
        if n and left < 0:
            return [*shown, f"… and {len(rows) - n} more"]
        shown.append(row)
    return shown


def _ranges(numbers: Iterable[int]) -> str:
    """Returns numbers as they are cited, those that follow each other as one: `[1-3, 5]`."""
    runs = consecutive_runs(set(numbers))
    return f"[{', '.join(str(a) if a == b else f'{a}-{b}' for a, b in runs)}]"


# The order in which a context is read: topics by their best result, and within a topic in order of time.
#
# All turns of a user are one topic: what was said first comes first. So is each document: its passages come in its
# order. A question about the present has the newest turns first.

_PRESENT = re.compile(
    r"\b(?:now|currently|current|still|today|these days|at the moment|latest|newest|most recent(?:ly)?|any ?more)\b",
    re.I,
)
_NO_TIME = dt.datetime.min.replace(tzinfo=dt.UTC)

T = TypeVar("T")


@dataclass(frozen=True)
class Block(Generic[T]):
    """A result with what stands under it."""

    memory: Memory
    entries: tuple[T, ...]


def asks_present(question: str) -> bool:
    """Returns whether a question asks what holds now."""
    return _PRESENT.search(question) is not None


def in_reading_order(blocks: Iterable[Block[T]], newest_first: bool) -> list[T]:
    """Returns the entries of blocks, which are given best first.

    Args:
        blocks: each with the newest version of a result.
        newest_first: of turns.
    """
    topics: dict[tuple[str, ...], list[Block[T]]] = {}
    for block in blocks:
        topics.setdefault(_topic(block.memory), []).append(block)
    ordered: list[T] = []
    for found in topics.values():
        reverse = newest_first and found[0].memory.unit == "turn"
        for block in sorted(found, key=lambda b: _place(b.memory), reverse=reverse):
            ordered += block.entries
    return ordered


def _topic(memory: Memory) -> tuple[str, ...]:
    if memory.unit == "turn":
        return memory.collection, memory.user_id
    return memory.collection, memory.user_id, memory.document_id or memory.memory_id


def _place(memory: Memory) -> tuple[dt.datetime, str, int, str]:
    when = (memory.observed_at or _NO_TIME) if memory.unit == "turn" else _NO_TIME
    return when, memory.document_id or "", memory.ordinal or 0, memory.memory_id
