"""Golden questions: judged by uri and quote, so that they outlive chunking, ids and builds (decision 9)."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import polars as pl
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.scopes import GENERAL

UNANSWERABLE = "unanswerable"
_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class GoldenError(PalimpsestError):
    """A golden question cannot be judged; the message names it."""


class Quote(BaseModel):
    """Words of a source: `uri` relative to the collection, `<file>#<session_id>` for a conversation."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    uri: _Text
    quote: _Text


class Question(BaseModel):
    """One line of `data/golden/<collection>.jsonl`; docs/golden.md describes the fields.

    Each item of `evidence` is one thing that must be found. `draft` marks a question as `gate --init` wrote it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    id: _Text
    question: _Text
    type: _Text
    user: _Text | None = None
    project: _Text | None = None
    as_of: date | None = None
    evidence: tuple[Quote, ...]
    stale: tuple[Quote, ...] = ()
    draft: bool = False

    @property
    def answerable(self) -> bool:
        """Whether the question has evidence; one that has none must be of type `unanswerable`."""
        return self.type != UNANSWERABLE

    @property
    def filters(self) -> dict[str, Any]:
        """The arguments of `Reader.search` that the question names beside its user."""
        return {k: v for k, v in (("as_of", self.as_of), ("project", self.project)) if v is not None}


class Judged(BaseModel):
    """A question whose quotes were found in a build.

    `needs`: for each thing to be found, the ids of the memories any of which shows it. No need contains another:
    finding the smaller one finds both. `quotes`: the words of each need. `stale`: ids of memories that hold what is no
    longer true and none of what must be found.
    """

    model_config = ConfigDict(frozen=True)
    question: Question
    user_id: str
    needs: tuple[frozenset[str], ...] = ()
    quotes: tuple[frozenset[str], ...] = ()
    stale: frozenset[str] = frozenset()

    def qrels(self) -> dict[str, int]:
        """Returns the judgements that `collapse`d rankings are scored against: one document for each need."""
        return {f"need:{i}": 1 for i in range(len(self.needs))}

    def collapse(self, ranked: Iterable[str]) -> list[str]:
        """Renames each memory to the first open need that it meets, so that two memories of one quote count once.

        Where two needs overlap without one holding the other, a memory of both meets only the first.
        """
        open_needs = dict(enumerate(self.needs))
        names = []
        for memory_id in ranked:
            met = next((i for i, ids in open_needs.items() if memory_id in ids), None)
            names.append(memory_id if met is None else f"need:{met}")
            if met is not None:
                del open_needs[met]
        return names

    def covered(self, memory_ids: Iterable[str], context: str) -> float:
        """Returns the share of needs that a packed context meets: with a memory whole, or with the words themselves."""
        found, words = set(memory_ids), " ".join(context.split())
        met = (
            bool(ids & found) or all(quote in words for quote in quotes)
            for ids, quotes in zip(self.needs, self.quotes, strict=True)
        )
        return sum(met) / len(self.needs)


def golden_path(data: Path, collection: str) -> Path:
    """Returns where a collection's golden set lies below the project's data folder."""
    return data / "golden" / f"{collection}.jsonl"


def load_golden(path: Path) -> list[Question] | None:
    """Reads a golden set, sorted by id; None where there is no such file.

    Raises:
        GoldenError: a line is not a question, an id is used twice, a question has no evidence and is not
            `unanswerable` (or the reverse), or the file is empty; the message names file, line and field.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")  # JSON strings may hold other line separators
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise GoldenError(f"{path}: not UTF-8; save it as UTF-8") from None
    questions: dict[str, Question] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{path.name} line {number}"
        try:
            question = Question.model_validate_json(line)
        except ValidationError as e:
            first = e.errors()[0]
            field = ".".join(str(p) for p in first["loc"]) or "line"
            raise GoldenError(f"{where}: {field}: {first['msg'][0].lower() + first['msg'][1:]}") from None
        if question.id in questions:
            raise GoldenError(f"{where}: id {question.id!r} is used twice; rename one")
        if question.answerable != bool(question.evidence):
            raise GoldenError(
                f"{where}: question {question.id!r} must have evidence, or type {UNANSWERABLE!r} and none"
            )
        questions[question.id] = question
    if not questions:
        raise GoldenError(f"{path.name}: holds no question; add one or remove the file")
    return [questions[i] for i in sorted(questions)]


def golden_hash(questions: Iterable[Question]) -> str:
    """Returns 16 hex digits over the questions, whatever their order, the file's whitespace and the mark of drafts."""
    # A question without a project hashes as it did before there were any, so that older baselines stay valid.
    rows = sorted(
        json.dumps(q.model_dump(mode="json", exclude={"draft", *(() if q.project else ("project",))}), sort_keys=True)
        for q in questions
    )
    return hashlib.blake2b("\n".join(rows).encode(), digest_size=8).hexdigest()


def resolve(
    questions: Sequence[Question], tables: Mapping[str, pl.DataFrame], collection: str, default_user: str
) -> list[Judged]:
    """Finds the memories of each question's quotes in a build, inside the question's scope.

    A memory matches when its document has the quote's uri (and session) and its char span overlaps a place where that
    document's text holds the quote, any run of whitespace and table borders counting as one space.

    Args:
        questions: the golden set.
        tables: documents, document_texts and memories of the build (other collections may be in them).
        collection: name of the collection.
        default_user: user of the questions that name none.

    Raises:
        GoldenError: a quote is in no document of its uri, lies in another scope's document, or no memory covers it;
            the first five are named.
    """
    finder = Quotes(tables, collection, {q.uri for x in questions for q in (*x.evidence, *x.stale)})
    judged, problems = [], []
    for question in questions:
        user_id = question.user or default_user
        found: dict[str, list[tuple[frozenset[str], str]]] = {"evidence": [], "stale": []}
        for kind, quotes in (("evidence", question.evidence), ("stale", question.stale)):
            for quote in quotes:
                ids = finder.memories(quote, user_id, question.project or GENERAL)
                if isinstance(ids, str):
                    problems.append(f"question {question.id!r}: {kind}: {ids}")
                else:
                    found[kind].append((ids, " ".join(quote.quote.split())))
        needs = _smallest(found["evidence"])
        wanted = [ids for ids, _ in found["evidence"]]
        stale = frozenset[str]().union(*(ids for ids, _ in found["stale"])).difference(*wanted)
        judged.append(
            Judged(question=question, user_id=user_id, needs=tuple(needs), quotes=tuple(needs.values()), stale=stale)
        )
    if problems:
        more = f" (and {len(problems) - 5} more)" if len(problems) > 5 else ""
        raise GoldenError(f"golden set of {collection}: " + "; ".join(problems[:5]) + more)
    return judged


def _smallest(found: Iterable[tuple[frozenset[str], str]]) -> dict[frozenset[str], frozenset[str]]:
    """Returns the needs that contain no other, each with its quotes, in a fixed order."""
    quotes: dict[frozenset[str], set[str]] = {}
    for ids, quote in found:
        quotes.setdefault(ids, set()).add(quote)
    ordered = sorted(quotes, key=lambda ids: (len(ids), sorted(ids)))
    return {n: frozenset(quotes[n]) for i, n in enumerate(ordered) if not any(other < n for other in ordered[:i])}


class Quotes:
    """Looks quotes up in the documents of a collection that `uris` names."""

    def __init__(self, tables: Mapping[str, pl.DataFrame], collection: str, uris: set[str]):
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
        for document_id, memory_id, start, end in memories.select(
            "document_id", "memory_id", "char_start", "char_end"
        ).iter_rows():
            self._memories.setdefault(document_id, []).append((memory_id, start, end))
        self._documents: dict[str, list[tuple[str, str, str, _Folded]]] = {}
        for document_id, user_id, project_id, uri, session_id, text in documents.select(
            "document_id", "user_id", "project_id", "uri", "session_id", "text"
        ).iter_rows():
            entry = (document_id, user_id, project_id, _Folded(text or ""))
            for key in {uri, f"{uri}#{session_id}" if session_id else uri} & uris:
                self._documents.setdefault(key, []).append(entry)

    def memories(self, quote: Quote, user_id: str, project_id: str = GENERAL) -> frozenset[str] | str:
        """Returns the ids of the memories that overlap the quote, or what is wrong with it.

        A search in a project reads the user's general memory too, so a quote may lie in either.
        """
        documents = self._documents.get(quote.uri, [])
        if not documents:
            return f"no document {quote.uri!r}; fix the uri"
        holding = [(d, user, p, spans) for d, user, p, text in documents if (spans := text.find(quote.quote))]
        if not holding:
            return f"{quote.uri} does not hold {quote.quote[:60]!r}; correct the quote"
        of_user = [(d, p, spans) for d, user, p, spans in holding if user == user_id]
        if not of_user:
            return f"{quote.uri} belongs to user {holding[0][1]!r}, not {user_id!r}; set the question's user"
        own = [(d, spans) for d, p, spans in of_user if p in (GENERAL, project_id)]
        if not own:
            return f"{quote.uri} belongs to project {of_user[0][1]!r}; set the question's project"
        ids = frozenset(
            memory_id
            for document_id, spans in own
            for memory_id, start, end in self._memories.get(document_id, [])
            if any(start < b and a < end for a, b in spans)
        )
        return ids or f"no memory covers {quote.quote[:60]!r} of {quote.uri}; the build lost it"


def _words(text: str) -> list[str]:
    return [word for word in text.split() if word != "|"]


class _Folded:
    """A text with each run of whitespace and cell borders as one space, and where each of its characters came from.

    A reader may give a table's cells with ` | ` between them or without: a quote is judged by its words.
    """

    def __init__(self, text: str):
        words: list[str] = []
        self._offsets: list[int] = []
        position = 0
        for word in _words(text):
            position = text.index(word, position)
            if words:
                self._offsets.append(position - 1)
            self._offsets.extend(range(position, position + len(word)))
            words.append(word)
            position += len(word)
        self._text = " ".join(words)

    def find(self, quote: str) -> list[tuple[int, int]]:
        """Returns the (start, end) of every occurrence in the original text."""
        folded, spans, at = " ".join(_words(quote)), [], -1
        while (at := self._text.find(folded, at + 1)) >= 0:
            spans.append((self._offsets[at], self._offsets[at + len(folded) - 1] + 1))
        return spans
