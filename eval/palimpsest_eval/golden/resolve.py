"""The memories of a build that golden questions need: quotes looked up in documents, inside each question's scope."""

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from palimpsest.core.ids import GENERAL
from palimpsest.memories.formed import evidence_pairs, formed_memories
from palimpsest.query.request.types import Scope
from palimpsest.text.terms import terms
from palimpsest_eval.golden.questions import GoldenError, GoldenSet, Question, Quote, Tables
from palimpsest_eval.golden.retrieval_run import RetrievalQuery

_MAX_NAMED = 5  # problems that an error names


@dataclass(frozen=True)
class ResolvedQuestion:
    """A question whose quotes were found in a build.

    Attributes:
        question: the question.
        user_id: the user it is searched as.
        needs: for each thing to be found, the ids of the memories any of which shows it. No need contains another:
            finding the smaller one finds both.
        quotes: the words of each need.
        stale: ids of memories that contain what is no longer true and none of what must be found.
        formed: ids among the needs of memories that are formed from others: one of them may meet several needs.
    """

    question: Question
    user_id: str
    needs: tuple[frozenset[str], ...] = ()
    quotes: tuple[frozenset[str], ...] = ()
    stale: frozenset[str] = frozenset()
    formed: frozenset[str] = frozenset()

    def query(self, collection: str) -> RetrievalQuery:
        """Returns the query that asks the question in its scope of the collection."""
        q = self.question
        return RetrievalQuery(q.id, q.question, Scope(collection, self.user_id), q.filters)

    def qrels(self) -> dict[str, int]:
        """Returns the judgements that rankings by `rank_needs` are scored against: one document for each need."""
        return {f"need:{i}": 1 for i in range(len(self.needs))}

    def rank_needs(self, ranked: Iterable[str]) -> list[str]:
        """Renames each memory to the first open need that it meets, so that two memories of one quote count once.

        Where two needs overlap without one containing the other, a memory of both meets only the first. A formed
        memory says again what several others state: it meets all its open needs, each of which takes a place.
        """
        open_needs = dict(enumerate(self.needs))
        names: list[str] = []
        for memory_id in ranked:
            met = [i for i, ids in open_needs.items() if memory_id in ids]
            met = met if memory_id in self.formed else met[:1]
            names += [f"need:{i}" for i in met] or [memory_id]
            for i in met:
                del open_needs[i]
        return names

    def recall(self, ranked: Iterable[str], n: int) -> float:
        """Returns the share of the needs that the first `n` places of a ranking meet; R@n of `rank_needs`."""
        return len(self.qrels().keys() & set(self.rank_needs(ranked)[:n])) / len(self.needs)

    def needs_in_context(self, packed_ids: Iterable[str], context: str) -> list[bool]:
        """Returns for each need whether a packed context meets it: with a whole memory, or with the quoted words."""
        packed, words = set(packed_ids), " ".join(context.split())
        return [
            bool(ids & packed) or all(quote in words for quote in quotes)
            for ids, quotes in zip(self.needs, self.quotes, strict=True)
        ]


def resolve(golden: GoldenSet, tables: Tables) -> list[ResolvedQuestion]:
    """Finds the memories of each question's quotes in a build, inside the question's scope.

    A memory matches when its document has the quote's uri (and session) and its char span overlaps a place where that
    document's text has the quote, any run of whitespace and table borders counting as one space. A formed memory also
    matches where it rests on such a memory and its statement has the words of the quote, whatever their forms.

    Args:
        golden: the golden set.
        tables: documents, document_texts and memories of the build (other collections may be in them).

    Raises:
        GoldenError: a quote is in no document of its uri, is in another scope's document, or no memory covers it; the
            first five are named.
    """
    index = QuoteIndex(tables, golden.collection, {q.uri for x in golden.questions for q in (*x.evidence, *x.stale)})
    resolved, problems = [], []
    for question in golden.questions:
        user_id = question.user or golden.default_user
        found: dict[str, list[tuple[frozenset[str], str]]] = {"evidence": [], "stale": []}
        for kind, quotes in (("evidence", question.evidence), ("stale", question.stale)):
            for quote in quotes:
                ids = index.find_memories(quote, user_id, question.project or GENERAL)
                if isinstance(ids, str):
                    problems.append(f"question {question.id!r}: {kind}: {ids}")
                else:
                    found[kind].append((ids, " ".join(quote.quote.split())))
        needs = _smallest_needs(found["evidence"])
        evidence = [ids for ids, _ in found["evidence"]]
        stale = frozenset[str]().union(*(ids for ids, _ in found["stale"])).difference(*evidence)
        formed = index.formed & frozenset().union(*needs)
        resolved.append(ResolvedQuestion(question, user_id, tuple(needs), tuple(needs.values()), stale, formed))
    if problems:
        more = f" (and {len(problems) - _MAX_NAMED} more)" if len(problems) > _MAX_NAMED else ""
        raise GoldenError(f"golden set of {golden.collection}: " + "; ".join(problems[:_MAX_NAMED]) + more)
    return resolved


def _smallest_needs(found: Iterable[tuple[frozenset[str], str]]) -> dict[frozenset[str], frozenset[str]]:
    """Returns the needs that contain no other, each with its quotes, in a fixed order."""
    quotes: dict[frozenset[str], set[str]] = {}
    for ids, quote in found:
        quotes.setdefault(ids, set()).add(quote)
    ordered = sorted(quotes, key=lambda ids: (len(ids), sorted(ids)))
    return {n: frozenset(quotes[n]) for i, n in enumerate(ordered) if not any(other < n for other in ordered[:i])}


class QuoteIndex:
    """Looks quotes up in the documents of a collection that `uris` names."""

    def __init__(self, tables: Tables, collection: str, uris: set[str]):
        name = pl.col("uri"), pl.concat_str("uri", pl.lit("#"), "session_id")
        documents = (
            tables["documents"]
            .filter(pl.col("collection") == collection)
            .filter(pl.any_horizontal(n.is_in(sorted(uris)).fill_null(False) for n in name))
            .join(tables["document_texts"], on="document_id", how="left")
            .sort("document_id")
        )
        memories = (
            tables["memories"].join(documents.select("document_id"), on="document_id", how="semi").sort("memory_id")
        )
        self._memories: dict[str, list[tuple[str, int, int]]] = {}
        spans = memories.select("document_id", "memory_id", "char_start", "char_end")
        for document_id, memory_id, start, end in spans.iter_rows():
            self._memories.setdefault(document_id, []).append((memory_id, start, end))
        formed = formed_memories(memories).select("memory_id", "text").iter_rows()
        self._statements = {memory_id: frozenset(terms(text)) for memory_id, text in formed}
        self._formed_from: dict[str, list[str]] = {}
        for memory_id, evidence_id in evidence_pairs(memories).iter_rows() if self._statements else ():
            self._formed_from.setdefault(evidence_id, []).append(memory_id)
        self._documents: dict[str, list[tuple[str, str, str, FoldedText]]] = {}
        columns = ("document_id", "user_id", "project_id", "uri", "session_id", "text")
        for document_id, user_id, project_id, uri, session_id, text in documents.select(columns).iter_rows():
            entry = (document_id, user_id, project_id, FoldedText(text or ""))
            for key in {uri, f"{uri}#{session_id}" if session_id else uri} & uris:
                self._documents.setdefault(key, []).append(entry)

    @property
    def formed(self) -> frozenset[str]:
        """Ids of the memories that are formed from others."""
        return frozenset(self._statements)

    def find_memories(self, quote: Quote, user_id: str, project_id: str = GENERAL) -> frozenset[str] | str:
        """Returns the ids of the memories that overlap the quote, or what is wrong with it.

        A search in a project reads the user's general memory too, so a quote may be in either.
        """
        documents = self._documents.get(quote.uri, [])
        if not documents:
            return f"no document {quote.uri!r}; fix the uri"
        matching = [(d, user, p, spans) for d, user, p, text in documents if (spans := text.find(quote.quote))]
        if not matching:
            return f"{quote.uri} does not hold {quote.quote[:60]!r}; correct the quote"
        of_user = [(d, p, spans) for d, user, p, spans in matching if user == user_id]
        if not of_user:
            return f"{quote.uri} belongs to user {matching[0][1]!r}, not {user_id!r}; set the question's user"
        in_scope = [(d, spans) for d, p, spans in of_user if p in (GENERAL, project_id)]
        if not in_scope:
            return f"{quote.uri} belongs to project {of_user[0][1]!r}; set the question's project"
        ids = frozenset(
            memory_id
            for document_id, spans in in_scope
            for memory_id, start, end in self._memories.get(document_id, [])
            if any(start < b and a < end for a, b in spans)
        )
        words = set(terms(quote.quote))
        ids |= {f for i in ids for f in self._formed_from.get(i, ()) if words <= self._statements[f]}
        return ids or f"no memory covers {quote.quote[:60]!r} of {quote.uri}; the build lost it"


class FoldedText:
    """A text with each run of whitespace and cell borders as one space, and the original place of each character.

    A reader may give a table's cells with ` | ` between them or without: a quote is judged by its words.
    """

    def __init__(self, text: str):
        words: list[str] = []
        self._offsets: list[int] = []
        position = 0
        for word in _split_words(text):
            position = text.index(word, position)
            if words:
                self._offsets.append(position - 1)
            self._offsets.extend(range(position, position + len(word)))
            words.append(word)
            position += len(word)
        self._text = " ".join(words)

    def find(self, quote: str) -> list[tuple[int, int]]:
        """Returns the (start, end) of every occurrence in the original text."""
        folded, spans, at = " ".join(_split_words(quote)), [], -1
        while (at := self._text.find(folded, at + 1)) >= 0:
            spans.append((self._offsets[at], self._offsets[at + len(folded) - 1] + 1))
        return spans


def _split_words(text: str) -> list[str]:
    return [word for word in text.split() if word != "|"]
