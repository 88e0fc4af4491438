"""What a packed answer is worth beside its ranking: do its citations hold, does it say one thing twice?"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import polars as pl

_LINE = re.compile(r"(?:- |  replaced: |  context: )(?P<said>.*) \[memory:(?P<id>[^\]\s]+)\]")
_SOURCE = re.compile(
    r"\[memory:(?P<id>[^\]\s]+)\] (?P<uri>.*?)(?:, (?:page|turn) \d+)?(?:, chars (?P<a>\d+)-(?P<b>\d+))?"
    r"(?:, collection [\w-]+)?(?:, project .*)?"
)
_ABOUT = re.compile(r"\([^)]*\) ")  # when, who, until when
_HEAD = "Sources:"


class Sources:
    """Where each memory of a build lies, and what stands there: what citations are checked against."""

    def __init__(self, tables: Mapping[str, pl.DataFrame]):
        texts = dict(tables["document_texts"].select("document_id", "text").iter_rows())
        rows = tables["memories"].join(tables["documents"].select("document_id", "uri"), on="document_id", how="left")
        columns = ("memory_id", "uri", "char_start", "char_end", "document_id")
        self._rows = {m: (uri, a, b, texts.get(d) or "") for m, uri, a, b, d in rows.select(columns).iter_rows()}

    def wrong(self, memory_id: str, said: str, source: re.Match[str] | None) -> str | None:
        """Returns why a cited line does not hold, or None: its source is told, and the span there holds its words."""
        if memory_id not in self._rows:
            return f"{memory_id} is no memory of the build"
        uri, start, end, text = self._rows[memory_id]
        if source is None:
            return f"{memory_id} is not among the sources"
        if source["uri"] != _flat(uri) or (source["a"], source["b"]) != (str(start), str(end)):
            return f"{memory_id} names another place than {uri}:{start}-{end}"
        quoted = " ".join(text[start:end].replace("[memory:", "(memory:").split())
        about = said.removesuffix(quoted)
        if quoted and said.endswith(quoted) and (not about or _ABOUT.fullmatch(about)):
            return None
        return f"{memory_id}: {uri}:{start}-{end} holds other words"


def check_citations(context: str, sources: Sources) -> tuple[int, list[str]]:
    """Returns how many lines a context quotes, and what is wrong with those that do not hold (invariant 8).

    A line holds when it ends with a citation, the table under it gives that memory's uri and char span, and the text
    of the document at that span is what the line says, white space aside.
    """
    if not context:
        return 0, []
    body, _, table = context.partition(f"\n{_HEAD}\n")
    told = [_SOURCE.fullmatch(line) for line in table.splitlines()]
    known = {m["id"]: m for m in told if m}
    wrong = [] if all(told) else ["a line of the sources is no source"]
    lines = body.split("\n")
    for line in lines:
        cited = _LINE.fullmatch(line)
        if cited is None:
            wrong.append("a line is not cited")
        elif why := sources.wrong(cited["id"], cited["said"], known.get(cited["id"])):
            wrong.append(why)
    return len(lines), wrong


def duplicate_share(memories: Sequence[Any], folded: Mapping[str, Collection[str]], top: int) -> float:
    """Returns the share of the top results that say what a better one said: in the same words, or so packing found."""
    best = memories[:top]
    repeats = {str(i) for ids in folded.values() for i in ids}
    seen: set[tuple[str, ...]] = set()
    count = 0
    for memory in best:
        words = tuple(re.findall(r"\w+", str(memory.text).casefold()))
        count += words in seen or str(memory.memory_id) in repeats
        seen.add(words)
    return count / len(best) if best else 0.0


def _flat(text: str | None) -> str:
    return " ".join((text or "").replace("[", "(").replace("]", ")").split())
