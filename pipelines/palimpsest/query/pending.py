"""Searches texts that are not built yet by the words of a question, and adds them to a context under its budget."""

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

from palimpsest.core.files import read_json_object
from palimpsest.core.ids import JsonObject, JsonRecord, JsonValue
from palimpsest.core.times import comparable
from palimpsest.query.context.lines import ContextLine, CountTokens
from palimpsest.query.embed_query import count_tokens
from palimpsest.query.request.resolve_turns import resolve_text
from palimpsest.query.request.search_request import SearchRequest, is_in_tiers
from palimpsest.query.request.types import Scope, one_line, shorten_text
from palimpsest.query.result import SearchResult
from palimpsest.query.scope.backend import Backend
from palimpsest.query.scope.resolve_scopes import project_scopes
from palimpsest.store.inbox import PREFIX, InboxFile, InboxText, inbox_files, is_of_user, operation_hash
from palimpsest.text.terms import query_terms, terms

# Which texts of the inbox a published build does not have, and may be shown.

_URIS = "SELECT DISTINCT uri FROM read_parquet(?) WHERE starts_with(uri, ?)"
_TABLES = ("documents", "rejects")
_TYPES = {"turn": "episodic", "chunk": "document", "statement": "semantic"}
_FRONT_MATTER = "---"


@dataclass(frozen=True)
class UnbuiltText:
    """A text of the inbox, where it is and the type that its memories will have."""

    uri: str
    collection: str
    text: InboxText
    type: str

    @property
    def scope(self) -> Scope:
        """The scope that it belongs to."""
        return Scope(self.collection, self.text.user_id, self.text.project_id)


def unbuilt_scopes(home: Path, build_id: str) -> list[Scope]:
    """Returns the scopes that have a text that the build lacks, sorted: their users need not be known to the build."""
    files = inbox_files(home / "inbox")
    known = _BuildSettings(home, build_id)
    return sorted({t.scope for f in files if not known.has(f) for t in _texts_of(f, known)})


def unbuilt_texts(home: Path, build_id: str, scopes: Set[Scope], clock: dt.datetime) -> Iterator[UnbuiltText]:
    """Yields the texts of scopes that the build lacks, by collection, name and place.

    Files of other users are not opened: their names say whose they are. A text file with front matter is left out,
    because what it states of its privacy is read by the build.

    Args:
        home: the home.
        build_id: of the build that answers.
        scopes: of the search.
        clock: the real time; what is past the collection's retention is left out.
    """
    known = _BuildSettings(home, build_id)
    for collection in sorted({s.collection for s in scopes}):
        users = {s.user_id for s in scopes if s.collection == collection}
        for file in inbox_files(home / "inbox", collection):
            if any(is_of_user(file.uri, user) for user in users) and not known.has(file):
                found = _texts_of(file, known)
                yield from (t for t in found if t.scope in scopes and not known.is_expired(t, clock))


def _texts_of(file: InboxFile, known: "_BuildSettings") -> Iterator[UnbuiltText]:
    for text in file.texts():
        if file.is_turns or not text.text.startswith(_FRONT_MATTER):
            unit = str(known.config(file.collection).get("unit", "turn"))
            yield UnbuiltText(file.uri, file.collection, text, text.type or _TYPES.get(unit, "document"))


class _BuildSettings:
    """What a build has read of the inbox, and the settings of its collections, read without the build's libraries."""

    def __init__(self, home: Path, build_id: str):
        self._folder = home / "builds" / build_id
        self._read: dict[str, set[str]] = {}
        configs = (read_json_object(self._folder / "manifest.json") or {}).get("configs")
        self._configs = configs if isinstance(configs, Mapping) else {}

    def config(self, collection: str) -> Mapping[str, JsonValue]:
        """Returns the settings of a collection; none of one that was never built."""
        found = self._configs.get(collection)
        return found if isinstance(found, Mapping) else {}

    def has(self, file: InboxFile) -> bool:
        """Returns whether the build read a file: it has its document, or why it was rejected."""
        if file.collection not in self._read:
            self._read[file.collection] = self._uris(file.collection)
        return file.uri in self._read[file.collection]

    def is_expired(self, text: UnbuiltText, clock: dt.datetime) -> bool:
        """Returns whether a text is past the retention of its collection."""
        days, observed = self.config(text.collection).get("retention_days"), text.text.observed_at
        return isinstance(days, int) and observed is not None and observed <= clock - dt.timedelta(days=days)

    def _uris(self, collection: str) -> set[str]:
        import duckdb

        paths = [p for t in _TABLES if (p := self._folder / collection / f"{t}.parquet").is_file()]
        with duckdb.connect() as db:
            rows = [row for path in paths for row in db.execute(_URIS, [str(path), PREFIX]).fetchall()]
        return {str(uri).partition("#")[0] for (uri,) in rows}


HEADING = "Pending, not built yet:"
_MAX_SHARE = 4  # pending lines take a quarter of the budget at most
_MAX_LINE_CHARS = 600


@dataclass(frozen=True)
class PendingMemory(JsonRecord):
    """A text of the inbox that matches a question by words and is in no published build yet.

    Attributes:
        score: share of the question's words that it has.
        uri: of the source that it will be.
    """

    json_decimals = 6

    text: str
    score: float
    collection: str
    user_id: str
    project_id: str
    session_id: str | None
    type: str
    speaker: str | None
    observed_at: dt.datetime | None
    tags: tuple[str, ...]
    uri: str

    def to_json(self) -> JsonObject:
        """Returns the fields as a JSON object, marked with the state `pending`."""
        return {"state": "pending", **super().to_json()}

    @property
    def operation(self) -> str:
        """Hash of the operation that sent it, by which a context cites it."""
        return operation_hash(self.uri)

    @property
    def line(self) -> ContextLine:
        """The line of a context that has it, with when and who; its tokens are not counted."""
        observed = f"{self.observed_at:%Y-%m-%d}" if self.observed_at else ""
        head = tuple(p for p in ("pending", observed, _flat(self.speaker or "")) if p)
        return ContextLine(shorten_text(_flat(self.text), _MAX_LINE_CHARS), head=head, pending=self.operation)


def search_pending(
    home: Path, build_id: str, scopes: Sequence[Scope], request: SearchRequest, text: str, clock: dt.datetime
) -> tuple[PendingMemory, ...]:
    """Returns the texts of scopes that the build lacks and that share a word with a question, best first, at most k.

    Filters by type, tag, session and time apply. What needs a build, `where`, `accessed_within` and `min_score`,
    leaves them all out.

    Args:
        home: the home.
        build_id: of the build that answers.
        scopes: of the search.
        request: the search.
        text: the question, resolved.
        clock: the real time.
    """
    words = set(query_terms(text))
    if not words or request.where or request.accessed_within is not None or request.min_score is not None:
        return ()
    found = [
        _pending_memory(unbuilt, len(shared) / len(words))
        for unbuilt in unbuilt_texts(home, build_id, set(scopes), clock)
        if _passes(unbuilt, request) and (shared := words.intersection(terms(unbuilt.text.text)))
    ]
    return tuple(sorted(found, key=lambda m: (-m.score, -_seconds(m.observed_at), m.uri, m.text))[: request.k])


def recent_pending(home: Path, build_id: str, request: SearchRequest, clock: dt.datetime) -> tuple[PendingMemory, ...]:
    """Returns the texts of the scopes of a request that the build lacks, newest first; see `search_pending`."""
    texts = unbuilt_texts(home, build_id, set(request.scopes), clock)
    found = [_pending_memory(unbuilt, 0.0) for unbuilt in texts if _passes(unbuilt, request)]
    return tuple(sorted(found, key=lambda m: (-_seconds(m.observed_at), m.uri, m.text)))


def _pending_memory(unbuilt: UnbuiltText, score: float) -> PendingMemory:
    return PendingMemory(
        text=unbuilt.text.text,
        score=score,
        collection=unbuilt.collection,
        user_id=unbuilt.text.user_id,
        project_id=unbuilt.text.project_id,
        session_id=unbuilt.text.session_id,
        type=unbuilt.type,
        speaker=unbuilt.text.speaker,
        observed_at=unbuilt.text.observed_at,
        tags=unbuilt.text.tags,
        uri=unbuilt.uri,
    )


def pending_lines(
    found: Iterable[PendingMemory], budget_tokens: int, count: CountTokens
) -> tuple[tuple[ContextLine, ...], int]:
    """Returns the lines of a context for pending texts that fit a quarter of its budget, and their tokens."""
    heading = ContextLine(HEADING, mark="", tokens=count(HEADING))
    left = limit = budget_tokens // _MAX_SHARE
    left -= heading.tokens
    lines = []
    for memory in found:
        line = memory.line
        tokens = count(f"- ({', '.join(line.head)}) {line.text} [pending:{line.pending}]")
        if tokens <= left:
            left -= tokens
            lines.append(replace(line, tokens=tokens))
    return ((heading, *lines), limit - left) if lines else ((), 0)


def _passes(unbuilt: UnbuiltText, request: SearchRequest) -> bool:
    text = unbuilt.text
    times = [(request.since, 1), (request.until, -1), (request.as_of, -1), (request.now, -1)]
    return (
        request.session in (None, text.session_id)
        and is_in_tiers(unbuilt.scope, unbuilt.type, request.tiers)
        and (not request.types or unbuilt.type in request.types)
        and (not request.tags or not set(request.tags).isdisjoint(text.tags))
        and all(limit is None or _is_within(text.observed_at, limit, sign) for limit, sign in times)
    )


def _is_within(time: dt.datetime | None, limit: dt.datetime, sign: int) -> bool:
    """Returns whether a time is not before a limit, or with the sign -1 not after it."""
    return time is not None and sign * (comparable(time, limit) - limit).total_seconds() >= 0


def _seconds(time: dt.datetime | None) -> float:
    return time.timestamp() if time else 0.0


def _flat(text: str) -> str:
    """Returns a text on one line in which nothing passes for a citation."""
    return one_line(text.replace("[pending:", "(pending:"))


def answer_with_pending(
    request: SearchRequest,
    backend: Backend,
    home: Path,
    clock: dt.datetime,
    answer: Callable[[SearchRequest], SearchResult],
) -> SearchResult:
    """Answers a request, and adds pending texts of its scopes in at most a quarter of the budget of its context.

    Args:
        request: the search; its users and projects may be new.
        backend: the store of the build.
        home: whose inbox is searched.
        clock: the real time.
        answer: answers a request from the build alone.
    """
    request = request.model_copy(update={"scopes": _scopes_of(request, backend, home), "project": None})
    text = resolve_text(request.text, request.turns, request.brief).text
    pending = search_pending(home, backend.build_id, request.scopes, request, text, clock)
    lines, tokens = pending_lines(pending, request.budget_tokens, count_tokens)
    result = answer(request.model_copy(update={"budget_tokens": request.budget_tokens - tokens}))
    return replace(result, pending=pending, lines=(*result.lines, *lines))


def _scopes_of(request: SearchRequest, backend: Backend, home: Path) -> tuple[Scope, ...]:
    if not request.project:
        return request.scopes
    known = sorted({*backend.scopes(), *unbuilt_scopes(home, backend.build_id)})
    return tuple(sorted({s for at in request.scopes for s in project_scopes(known, *at[:2], request.project)}))
