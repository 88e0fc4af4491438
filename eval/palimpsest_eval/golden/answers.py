"""Quality of a packed answer apart from its ranking: are its citations correct, does it say one thing twice?"""

import re
from collections.abc import Collection, Mapping, Sequence

from palimpsest.memories.formed import formed_memories
from palimpsest.query.context.quotes import ELISION, quoted_text
from palimpsest.query.embed_query import count_tokens
from palimpsest.query.request.types import Memory, one_line
from palimpsest_eval.golden.questions import Tables

_LINE = re.compile(r"(?:- |  replaced: |  later: |  context: )(?P<text>.*) \[memory:(?P<id>[^\]\s]+)\]")
_SOURCE = re.compile(
    r"\[memory:(?P<id>[^\]\s]+)\] (?P<uri>.{0,5000}?)(?:, (?:page|turn) \d+)?"
    r"(?:, chars (?P<spans>\d+-\d+(?:, \d+-\d+)*))?"
    r"(?:, collection [\w-]+)?(?:, project .{0,1000})?"
)
_PREFIX = re.compile(r"\([^)]*\) ")  # when, who, until when, what disputes it
_SOURCES_HEADING = "Sources:"


class Sources:
    """The source span of each memory of a build, and its text: what citations are checked against.

    A formed memory is shown as its statement; its span must hold the quote that its item in `notes` rests on.
    """

    def __init__(self, tables: Tables):
        texts = dict(tables["document_texts"].select("document_id", "text").iter_rows())
        self._statements = _formed_statements(tables, texts)
        rows = tables["memories"].join(tables["documents"].select("document_id", "uri"), on="document_id", how="left")
        columns = ("memory_id", "uri", "char_start", "char_end", "document_id")
        self._rows = {m: (uri, a, b, texts.get(d) or "") for m, uri, a, b, d in rows.select(columns).iter_rows()}

    def find_error(self, memory_id: str, line: str, source: re.Match[str] | None) -> str | None:
        """Returns why a cited line is wrong, or None: its source is listed, and the span there has its words."""
        if memory_id not in self._rows:
            return f"{memory_id} is no memory of the build"
        uri, start, end, text = self._rows[memory_id]
        if source is None:
            return f"{memory_id} is not among the sources"
        spans = _spans(source["spans"])
        if source["uri"] != _fold_uri(uri) or not _are_inside(spans, start, end):
            return f"{memory_id} names another place than {uri}:{start}-{end}"
        quoted = self._statements.get(memory_id) or _quoted(text, spans, start, end)
        prefix = line.removesuffix(quoted)
        if quoted and line.endswith(quoted) and (not prefix or _PREFIX.fullmatch(prefix)):
            return None
        return f"{memory_id}: {uri}:{start}-{end} holds other words"


def _formed_statements(tables: Tables, texts: Mapping[str, str]) -> dict[str, str]:
    """Returns what a line must show of each formed memory whose quote is at its span, by memory id."""
    if (notes := tables.get("notes")) is None:
        return {}
    place = ["document_id", "char_start", "char_end"]
    formed = formed_memories(tables["memories"]).select("memory_id", *place, statement="text")
    rows = formed.join(notes.select(*place, "statement", "quote").unique(), on=[*place, "statement"])
    return {
        memory_id: one_line(statement)
        for memory_id, document, start, end, statement, quote in rows.select(
            "memory_id", *place, "statement", "quote"
        ).iter_rows()
        if texts.get(document, "")[start:end] == quote
    }


def _spans(stated: str | None) -> list[tuple[int, int]]:
    pairs = (part.split("-") for part in (stated or "").split(", ") if part)
    return [(int(a), int(b)) for a, b in pairs]


def _are_inside(spans: Sequence[tuple[int, int]], start: int | None, end: int | None) -> bool:
    """Returns whether spans follow each other inside a memory's."""
    if start is None or end is None:
        return False
    bounds = [start, *(at for span in spans for at in span), end]
    return bool(spans) and bounds == sorted(bounds)


def _quoted(text: str, spans: Sequence[tuple[int, int]], start: int | None, end: int | None) -> str:
    """Returns what a line must quote: the whole memory, or parts of it with what is left out marked."""
    if spans == [(start, end)]:
        return one_line(text[start:end])
    before = f"{ELISION} " if text[start : spans[0][0]].strip() else ""
    after = f" {ELISION}" if text[spans[-1][1] : end].strip() else ""
    return f"{before}{f' {ELISION} '.join(quoted_text(text[a:b]) for a, b in spans)}{after}"


def check_citations(context: str, sources: Sources) -> tuple[int, list[str]]:
    """Returns how many lines a context quotes, and what is wrong with those that are not correct (invariant 8).

    A line is correct when it ends with a citation, the table under it gives that memory's uri and char span or spans
    inside it, and the text of the document at these spans is the text of the line, white space and elisions aside.
    """
    if not context:
        return 0, []
    body, _, table = context.partition(f"\n{_SOURCES_HEADING}\n")
    matches = [_SOURCE.fullmatch(line) for line in table.splitlines()]
    listed = {m["id"]: m for m in matches if m}
    errors = [] if all(matches) else ["a line of the sources is no source"]
    lines = body.split("\n")
    for line in lines:
        cited = _LINE.fullmatch(line)
        if cited is None:
            errors.append("a line is not cited")
        elif error := sources.find_error(cited["id"], cited["text"], listed.get(cited["id"])):
            errors.append(error)
    return len(lines), errors


def quoted_tokens(context: str, relevant: Collection[str]) -> tuple[int, int]:
    """Returns the tokens that a context quotes of the relevant memories, and of all.

    Args:
        context: with full sources.
        relevant: ids of memories.
    """
    body = context.partition(f"\n{_SOURCES_HEADING}\n")[0]
    cited = [found for line in body.split("\n") if (found := _LINE.fullmatch(line))]
    tokens = [(found["id"] in relevant, count_tokens(found["text"])) for found in cited]
    return sum(count for is_relevant, count in tokens if is_relevant), sum(count for _, count in tokens)


def irrelevant_share(context: str, relevant: Collection[str]) -> float:
    """Returns the share of the quoted tokens of a context that are of other memories than the relevant ones.

    Args:
        context: with full sources; an empty one has no irrelevant token.
        relevant: ids of memories.
    """
    of_relevant, total = quoted_tokens(context, relevant)
    return 1 - of_relevant / total if total else 0.0


def duplicate_share(memories: Sequence[Memory], folded: Mapping[str, Collection[str]], top: int) -> float:
    """Returns the share of the top results that repeat a better one: in the same words, or as packing found.

    Args:
        memories: the results, best first.
        folded: ids that packing left out, by the id of the memory that they repeat.
        top: how many results count.
    """
    best = memories[:top]
    repeats = {i for ids in folded.values() for i in ids}
    seen: set[tuple[str, ...]] = set()
    count = 0
    for memory in best:
        words = tuple(re.findall(r"\w+", memory.text.casefold()))
        count += words in seen or memory.memory_id in repeats
        seen.add(words)
    return count / len(best) if best else 0.0


def _fold_uri(uri: str | None) -> str:
    return " ".join((uri or "").replace("[", "(").replace("]", ")").split())
