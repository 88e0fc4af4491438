"""The query API: open a home, search a scope, get ranked memories and a cited context.

A reader keeps one build for as long as it lives; `refresh` moves it to the one published since.
"""

import datetime as dt
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, Unpack

from palimpsest.core.errors import ArgumentError, PalimpsestError
from palimpsest.core.files import nothing_published, published_build_id
from palimpsest.core.ids import JsonValue
from palimpsest.core.message import Message
from palimpsest.query.context.changes import name_changes, reasons_of_latest
from palimpsest.query.context.explain import Version, histories
from palimpsest.query.context.pack import neighbor_ids
from palimpsest.query.context.quotes import Compressor, open_compressor
from palimpsest.query.embed_query import count_tokens
from palimpsest.query.readings import Readings
from palimpsest.query.request.search_request import ScopeArgument, SearchOptions, SearchRequest, parse_scopes
from palimpsest.query.request.types import Filters, Memory, Scope, Shown, ShownMemory
from palimpsest.query.rerank import AnswerReader, AnyReranker, open_reranker
from palimpsest.query.result import SearchResult
from palimpsest.query.scope.backend import Backend
from palimpsest.query.scope.resolve_scopes import check_names, resolve_scopes, usual_collection
from palimpsest.query.scope.served_graph import ServedGraph
from palimpsest.query.scope.served_scope import ServedScope
from palimpsest.query.search import run_search
from palimpsest.store.remote_home import home_name, local_home
from palimpsest.store.usage_log import UsageLog, usage_days

# Opens the store of the build that a home has published.


def published_or_fail(home: Path) -> str:
    """Returns the id of the published build of a home.

    Raises:
        PalimpsestError: it has none.
    """
    if (build := published_build_id(home)) is None:
        raise PalimpsestError(nothing_published(home_name(home)))
    return build


def open_backend(home: Path, name: str) -> Backend:
    """Opens the published build of a home on one store.

    Args:
        home: the home.
        name: duckdb or neo4j.

    Raises:
        ArgumentError: there is no such store.
        PalimpsestError: nothing is published, or the build cannot be read.
    """
    if name == "neo4j":
        # By name: the graph is a layer above, and an extra.
        opened: Backend = import_module("palimpsest.neo4j_graph.neo4j_backend").open_neo4j(home)
        return opened
    if name != "duckdb":
        raise ArgumentError("backend", "not one of duckdb, neo4j", name)
    from palimpsest.query.backends.duckdb_backend import DuckDBBackend

    build = published_or_fail(home)
    path = home / "builds" / build / "index.duckdb"
    try:
        return DuckDBBackend(path)
    except PalimpsestError:
        # Five builds are kept: one deleted meanwhile has a successor.
        if (later := published_or_fail(home)) != build:
            return DuckDBBackend(home / "builds" / later / "index.duckdb")
        raise


if TYPE_CHECKING:
    from palimpsest.query.backends.joined_backend import JoinedBackend
    from palimpsest.query.graph.fact_table import FactTable
    from palimpsest.query.graph.graph_answer import GraphOutline
    from palimpsest.query.graph.graph_reader import GraphReader
    from palimpsest.query.graph.subgraph import GraphPage
    from palimpsest.query.notes import Note
    from palimpsest.query.pending.layer import PendingLayer
    from palimpsest.query.profile import Profile
    from palimpsest.query.recent import Narrowed
    from palimpsest.query.standing import StandingAnswer
    from palimpsest.query.summarize import Summary
    from palimpsest.query.task import WorkingSet
    from palimpsest.store.inbox import InboxText


# What can be read of a build besides searching it: its graph, facts, profiles, summaries and histories.

_FACT_MEMORIES = 10  # whose facts are shown for a text that is no key


def real_time() -> dt.datetime:
    """Returns the time now, in UTC."""
    return dt.datetime.now(dt.UTC)


class Reader:
    """Answers from one build. Safe to share between threads.

    `clock` returns the real time, in UTC: a memory past its retention is not served, and `accessed_within` is counted
    back from it. `usage` counts the memories that searches return; None counts none. `reranker` reads the best
    candidates of each search; `compressor` picks the sentences of long results for the searches that ask for it. A
    search with `include_pending` waits for `pending_wait_s` until what was sent before it is formed; None means as long
    as that takes.
    """

    def __init__(
        self,
        backend: Backend,
        home: Path | None = None,
        backend_name: str = "duckdb",
        clock: Callable[[], dt.datetime] = real_time,
        reranker: AnyReranker | None = None,
        usage: UsageLog | None = None,
        compressor: Compressor | None = None,
        pending_wait_s: float | None = None,
    ):
        self._backend, self._home, self._clock, self._usage = backend, home, clock, usage
        self._backend_name, self._reranker, self._compressor = backend_name, reranker, compressor
        self._pending_wait_s, self._pending_lock = pending_wait_s, threading.Lock()
        self._pending: PendingLayer | None = None

    @property
    def build_id(self) -> str:
        """The build that answers."""
        return self._backend.build_id

    @property
    def backend(self) -> Backend:
        """The store of the build."""
        return self._backend

    @property
    def reranker_name(self) -> str | None:
        """What reads the best candidates of each search; None without a reranker."""
        return None if self._reranker is None else self._reranker.name

    def with_readings(self, readings: Readings) -> "Reader":
        """Returns a reader of the same open build whose reader of answers knows what was read before.

        It is closed with this one.
        """
        reranker = AnswerReader(readings) if isinstance(self._reranker, AnswerReader) else self._reranker
        return Reader(self._backend, clock=self._clock, reranker=reranker)

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Releases the build, and writes the reads that are not written yet."""
        if self._usage is not None:
            self._usage.flush()
        if self._pending is not None:
            self._pending.close()
        self._backend.close()

    def refresh(self) -> str:
        """Moves to the build that is published now and returns its id; searches in progress finish on the old one."""
        if self._home is None:
            return self.build_id
        before, usage = self._backend, self._usage and self._usage.renewed()
        if self._backend_name == "neo4j":
            self._backend = self._backend.renewed()  # type: ignore[attr-defined]
        elif published_or_fail(self._home) != self.build_id:
            self._backend = open_backend(self._home, self._backend_name)
        if self._backend is not before:
            self._usage = usage
        return self.build_id

    def scopes(self) -> list[Scope]:
        """Returns every scope that has a memory, sorted."""
        return self._backend.scopes()

    def scope_sizes(self) -> dict[Scope, int | None]:
        """Returns how many memories each scope has, retired versions included; None where the store does not say."""
        views = {s: self._backend.view(s) for s in self._backend.scopes()}
        return {s: None if view is None else len(view.ids) for s, view in views.items()}

    def check_names(self, collection: str | None, user: str | None) -> None:
        """Raises ArgumentError where a collection, or a user in it or in any, is unknown to the build."""
        check_names(self._backend.collections(), self._backend.scopes(), collection, user)

    def resolve_scope(self, collection: str | None = None, user: str | None = None, project: str = "") -> Scope:
        """Returns one scope by name: the collection as `resolve_scopes` chooses it, the user, the project.

        Without a project it is the user's general memory. `resolve_scopes` gives what a search in a project reads.

        Raises:
            ArgumentError: a name is unknown, or none is given and there is no default. The message lists the known
                names: do not show it to people who may not see them.
        """
        return self.resolve_scopes(collection, user, project)[0]

    def resolve_scopes(
        self,
        collection: str | None = None,
        user: str | None = None,
        project: str | None = None,
        *,
        all_projects: bool = False,
        all_collections: bool = False,
        include_pending: bool = False,
    ) -> list[Scope]:
        """Returns the scopes that a search reads: `search` takes them as they are.

        Args:
            collection: default: the one that has all memories of `user`; else the only one, or the one marked default.
            user: default: the collection's user_id.
            project: the project and the user's general memory; without it the general memory alone.
            all_projects: all projects of the user, and the general memory.
            all_collections: every collection in which the user has memories.
            include_pending: projects and collections of what the user sent and no build has are known too.

        Raises:
            ArgumentError: as `resolve_scope` does, or two arguments exclude each other.
        """
        scopes = self._backend.scopes()
        if collection is None and not all_collections:
            collection = usual_collection(scopes, user)
        if include_pending:
            users = {user} if user else {i.user_id for i in self._backend.collections().values() if i.user_id}
            scopes = sorted({*scopes, *(s for name in sorted(users) for s in self.pending_scopes(name))})
        return resolve_scopes(
            self._backend.collections(),
            scopes,
            collection=collection,
            user=user,
            project=project,
            all_projects=all_projects,
            all_collections=all_collections,
        )

    def search(self, text: str, scope: ScopeArgument, **options: Unpack[SearchOptions]) -> SearchResult:
        """Returns the memories of a scope that best answer a text, and a cited context of them.

        Args:
            text: the question. What is beyond 100,000 characters is not read.
            scope: one scope, or several: each is ranked by its own statistics, then merged on one scale. A tuple of
                names is (collection, user) or (collection, user, project).
            **options: see `SearchOptions`.

        Raises:
            ArgumentError: an argument is out of range, the text has no words, the project is unknown, or `compress` is
                lm and there is no compressor.
        """
        return self.run(SearchRequest.create(text, scope, **options))

    def run(self, request: SearchRequest) -> SearchResult:
        """Answers a request; see `search`."""
        if not request.task:
            return self._run(request)
        from palimpsest.query.task import answer_for_task

        return answer_for_task(request, self._run, self._search_uncounted)

    def _run(self, request: SearchRequest) -> SearchResult:
        joined, usage = self._joined(self._with_projects(request), request.include_pending), self._usage
        pending = joined.pending_ids() if joined is not None else frozenset[str]()
        backend = joined or self._backend
        result = run_search(request, backend, self._clock(), self._reranker, usage, self._compressor, pending)
        if joined is not None:
            result = replace(result, memories=_mark_pending(result.memories, pending))
        if usage is not None:
            found = (m for m in result.memories if not m.is_pending)
            usage.add(((m.collection, m.user_id, m.project_id), m.memory_id) for m in found)
        return result

    def pending_scopes(self, user: str) -> list[Scope]:
        """Returns the scopes of a user that have a text that was sent and is not built yet, sorted."""
        layer = self._layer()
        return sorted(layer.scopes(self.build_id, user)) if layer is not None else []

    def pending_texts(self, scopes: Sequence[Scope]) -> "list[InboxText]":
        """Returns the texts of some scopes that were sent and are not built yet, as they were sent."""
        layer = self._layer()
        return list(layer.texts(self.build_id, scopes)) if layer is not None else []

    def form_pending(self, scopes: Sequence[Scope], wait_s: float = 0) -> None:
        """Begins to form what is pending of the users of some scopes, and waits for that for so many seconds."""
        if (layer := self._layer()) is not None:
            layer.wait(self.build_id, scopes, wait_s)

    def hide_pending(self, user: str, memory_ids: Sequence[str], hidden: bool = True) -> None:
        """Leaves pending memories of a user out while they are being deleted, or takes them in again."""
        if (layer := self._layer()) is not None:
            layer.hide(user, memory_ids, hidden)

    def warm_pending(self) -> None:
        """Loads what forms pending memories: the first text that is sent takes seconds longer without it."""
        if self._home is not None:
            from palimpsest.query.pending.form import load_models

            load_models()

    def _layer(self) -> "PendingLayer | None":
        """Returns the pending memories of the home; None of an index alone."""
        if self._pending is None and self._home is not None:
            from palimpsest.query.pending.layer import PendingLayer

            with self._pending_lock:
                self._pending = self._pending or PendingLayer(self._home, self._clock, self._pending_wait_s)
        return self._pending

    def _joined(self, scopes: Sequence[Scope], include_pending: bool) -> "JoinedBackend | None":
        """Returns the build with what is pending in some scopes; None where nothing is, or it is not wanted."""
        layer = self._layer() if include_pending else None
        return None if layer is None else layer.joined(self._backend, scopes)

    def _with_projects(self, request: SearchRequest) -> Sequence[Scope]:
        """Returns the scopes of a search, those of its project included."""
        if not request.project:
            return request.scopes
        of_project = (at._replace(project_id=request.project) for at in request.scopes)
        return sorted({*request.scopes, *of_project})

    def working_set(
        self,
        scope: ScopeArgument,
        session: str,
        turns: Sequence[Message | Mapping[str, JsonValue] | str] = (),
        *,
        budget_tokens: int = 800,
        max_turns: int = 50,
        paths: Sequence[str] = (),
    ) -> "WorkingSet":
        """Returns the active files and the last turns of a session, whatever their content, in a window of tokens.

        Args:
            scope: as in `search`.
            session: its id.
            turns: messages that are not stored yet, oldest first.
            budget_tokens: of all files and turns; files take half of it at most.
            max_turns: at most.
            paths: active files: uris of sources, read from their start.

        Raises:
            ArgumentError: the session is blank, a limit is below 1, or no memory of a file may be shown.
        """
        from palimpsest.query.task import read_working_set

        return read_working_set(
            scope,
            session,
            turns,
            self._search_uncounted,
            count_tokens,
            budget_tokens=budget_tokens,
            max_turns=max_turns,
            paths=paths,
        )

    def summarize_task(self, scope: ScopeArgument, task: str, sentences: int = 5) -> "Summary":
        """Returns the sentences that sum up a task: its source and the sources that its `links` name.

        Args:
            scope: as in `search`.
            task: the uri or the title of its source.
            sentences: how many, 1 to 50.

        Raises:
            ArgumentError: no source of the scopes is that task, or `sentences` is out of range.
        """
        from palimpsest.query.summarize import summarize_sources
        from palimpsest.query.task import find_task, task_uris

        brief = find_task(SearchRequest.create(task, scope, task=task), self._search_uncounted)
        uris = task_uris(self._home / "builds" / self.build_id, brief) if self._home else [brief.memories[0].uri or ""]
        return summarize_sources(self._served(scope), uris, sentences)

    def warm(self, scope: Scope) -> None:
        """Reads what searches of a scope need into memory, as far as it fits there: a first search takes longer."""
        self._search_uncounted(SearchRequest.create("warm", scope))

    def _search_uncounted(self, request: SearchRequest) -> SearchResult:
        """Answers a request without counting reads: the caller has not requested these memories."""
        return run_search(request, self._backend, self._clock())

    def graph(self, scope: ScopeArgument, **shown: Unpack[Shown]) -> "GraphReader":
        """Returns what answers questions over the nodes, edges and facts of one scope or several.

        Args:
            scope: as in `search`.
            **shown: see `Shown`.

        Raises:
            PalimpsestError: the build was made before nodes were indexed.
        """
        from palimpsest.query.graph.graph_reader import GraphReader

        return GraphReader(self._backend, parse_scopes(scope), self._filters(history=True, **shown), self._usage)

    def graph_page(
        self, scope: ScopeArgument, offset: int = 0, limit: int = 1000, **shown: Unpack[Shown]
    ) -> "GraphPage":
        """Returns a page of the whole graph of one scope or several, superseded facts included.

        Args:
            scope: as in `search`.
            offset: nodes to skip.
            limit: nodes of the page, 1 to 5,000.
            **shown: see `Shown`.

        Raises:
            ArgumentError: an argument is out of range.
        """
        from palimpsest.query.graph.subgraph import graph_page

        return graph_page(self._graphs(scope, **shown), offset, limit)

    def graph_outline(
        self, scope: ScopeArgument, nodes: int = 10_000, links: int = 15_000, **shown: Unpack[Shown]
    ) -> "GraphOutline":
        """Returns the shape of the whole graph of one scope or several, for a picture of it.

        Args:
            scope: as in `search`.
            nodes: how many at most, the most important ones.
            links: how many at most; see `graph_outline`.
            **shown: see `Shown`.

        Raises:
            ArgumentError: an argument is out of range.
        """
        from palimpsest.query.graph.graph_answer import graph_outline

        return graph_outline(self._graphs(scope, **shown), nodes, links)

    def _graphs(self, scope: ScopeArgument, **shown: Unpack[Shown]) -> list[ServedGraph]:
        graphs = map(ServedGraph.of, self._served(scope, history=True, **shown))
        return [g for g in graphs if g is not None]

    def memory(self, scope: ScopeArgument, memory_id: str, **shown: Unpack[Shown]) -> Memory | None:
        """Returns a memory of one scope or several, a superseded one too; None where none has it or may show it.

        Args:
            scope: as in `search`.
            memory_id: the memory, as a context cites it.
            **shown: see `Shown`.
        """
        served = self._serving(scope, memory_id, **shown)
        return None if served is None else served.backend.memories(served.scope, [memory_id]).get(memory_id)

    def memory_with_changes(self, scope: ScopeArgument, memory_id: str) -> ShownMemory | None:
        """Returns what `memory` returns, with what disputes it and what was said later; its text stays whole.

        A memory that was sent and is not built yet is found too.
        """
        served = self._serving(scope, memory_id, include_pending=True)
        if served is None:
            return None
        found = served.memories([memory_id])
        shown = name_changes(served, found, reasons_of_latest(served, found.values())).get(memory_id)
        return shown and replace(shown, is_pending=served.backend is not self._backend)

    def memory_count(self, scope: ScopeArgument, include_pending: bool = False) -> int:
        """Returns how many memories of one scope or several may be shown, superseded ones included."""
        scopes, filters = parse_scopes(scope), self._filters(history=True)
        backend = self._joined(scopes, include_pending) or self._backend
        views = (backend.view(s) for s in scopes)
        return sum(int(view.allowed(filters).sum()) for view in views if view is not None)

    def surroundings(self, scope: ScopeArgument, memory_id: str, reach: int = 12) -> list[Memory]:
        """Returns a memory among those before and after it in its session or document, in their order.

        Superseded ones are among them; hidden and personal ones are not. Empty where no scope may show the memory.

        Args:
            scope: as in `search`.
            memory_id: the memory, as a context cites it.
            reach: how many on each side.
        """
        served = self._serving(scope, memory_id, include_pending=True)
        if served is None:
            return []
        around = neighbor_ids(served, [memory_id], reach).get(memory_id, [])
        ids = [i for _, i in sorted([*around, (0, memory_id)])]
        found = served.backend.memories(served.scope, ids)
        return [found[i] for i in ids if i in found]

    def facts(self, scope: ScopeArgument, **shown: Unpack[Shown]) -> "FactTable":
        """Returns the fact table of one scope or several: `facts()` and `get("ana.works_for")`.

        Args:
            scope: as in `search`.
            **shown: see `Shown`.

        Raises:
            PalimpsestError: the build was made before nodes were indexed.
        """
        from palimpsest.query.graph.fact_table import FactTable

        def find_memories(text: str) -> list[str]:
            return [m.memory_id for m in self.search(text, scope, k=_FACT_MEMORIES, **shown).memories]

        return FactTable.of(self._served(scope, history=True, **shown), find_memories)

    def recent(
        self,
        scope: ScopeArgument,
        limit: int = 10,
        *,
        offset: int = 0,
        include_pending: bool = False,
        **narrowed: Unpack["Narrowed"],
    ) -> list[ShownMemory]:
        """Returns what sources said last in one scope or several, newest first, read without a search.

        Args:
            scope: as in `search`.
            limit: how many at most.
            offset: how many newer ones are left out.
            include_pending: also what was sent and is not built yet.
            **narrowed: see `Narrowed`.

        Raises:
            ArgumentError: `limit` is below 1, `offset` is below 0, or a filter cannot be used.
        """
        from palimpsest.query.recent import read_recent

        if limit < 1:
            raise ArgumentError("limit", "must be 1 or more", limit)
        if offset < 0:
            raise ArgumentError("offset", "must be 0 or more", offset)
        request = SearchRequest.create("recent", scope, **narrowed)
        joined = self._joined(request.scopes, include_pending)
        filters, backend = request.filters(self._clock()), joined or self._backend
        found = read_recent([ServedScope(backend, s, filters) for s in request.scopes], limit, offset)
        return found if joined is None else _mark_pending(found, joined.pending_ids())

    def profile(self, scope: ScopeArgument, **shown: Unpack[Shown]) -> "Profile":
        """Returns what is known of a user in one scope or several, read without a search.

        Args:
            scope: as in `search`: scopes of one user.
            **shown: see `Shown`.

        Raises:
            PalimpsestError: the build was made before nodes were indexed.
        """
        from palimpsest.query.profile import read_profile

        served = self._served(scope, **shown)
        return read_profile(served, served[0].scope.user_id)

    def standing_answers(self, scope: ScopeArgument) -> "list[StandingAnswer]":
        """Returns what the build found for the standing questions of the user of some scopes, read without a search.

        A reader of an index alone (`open_index`) has none.
        """
        from palimpsest.query.standing import read_standing

        if self._home is None:
            return []
        return read_standing(self._home / "builds" / self._backend.build_id, self._served(scope))

    def notes(
        self, scope: ScopeArgument, session_id: str | None = None, limit: int = 100, **shown: Unpack[Shown]
    ) -> "list[Note]":
        """Returns what the sessions of a scope say that is worth keeping, newest first, read without a search.

        An item is shown where all memories it rests on are latest and may be shown. A reader of an index alone
        (`open_index`) has none.

        Args:
            scope: as in `search`.
            session_id: only of this session.
            limit: how many notes, 1 to 1,000.
            **shown: see `Shown`.

        Raises:
            ArgumentError: `limit` is out of range.
        """
        from palimpsest.query.notes import read_notes

        if self._home is None:
            return []
        folder = self._home / "builds" / self._backend.build_id
        return read_notes(folder, self._served(scope, **shown), session_id, limit)

    def summarize_session(self, scope: ScopeArgument, session_id: str, sentences: int = 5) -> "Summary":
        """Returns the sentences that sum up a session, in their order, each with its memory.

        Raises:
            ArgumentError: no memory of the session may be shown, or `sentences` is not 1 to 50.
        """
        from palimpsest.query.summarize import summarize_session

        return summarize_session(self._served(scope), session_id, sentences)

    def summarize(self, scope: ScopeArgument, sentences: int = 10) -> "Summary":
        """Returns the sentences that sum up the summaries of the sessions of a scope, such as a project's.

        Raises:
            ArgumentError: `sentences` is not 1 to 50.
        """
        from palimpsest.query.summarize import summarize_scope

        return summarize_scope(self._served(scope), sentences)

    def _serving(
        self, scope: ScopeArgument, memory_id: str, include_pending: bool = False, **shown: Unpack[Shown]
    ) -> ServedScope | None:
        """Returns the scope, with every version, that has a memory and may show it; None where none does."""
        found = self._served(scope, history=True, **shown)
        served = next((s for s in found if memory_id in s.passing([memory_id])), None)
        if served is not None or (joined := self._joined(parse_scopes(scope), include_pending)) is None:
            return served
        pending = (replace(s, backend=joined) for s in found)
        return next((s for s in pending if memory_id in s.passing([memory_id])), None)

    def _filters(self, history: bool = False, **shown: Unpack[Shown]) -> Filters:
        return Filters(history=history, clock=self._clock(), **shown)

    def _served(self, scope: ScopeArgument, history: bool = False, **shown: Unpack[Shown]) -> list[ServedScope]:
        """Returns scopes behind filters; without arguments those of latest memories, none hidden or personal."""
        filters = self._filters(history, **shown)
        return [ServedScope(self._backend, s, filters) for s in parse_scopes(scope)]

    def history_of(
        self, scope: Scope | tuple[str, str] | tuple[str, str, str], memory_id: str, **shown: Unpack[Shown]
    ) -> tuple[Version, ...]:
        """Returns all versions of a memory's fact, newest first; empty where the scope does not have the memory.

        Each has since when and until when it was valid, what replaced it, and why: the relation with its evidence, a
        person's decision, the document that replaced its own, or that its source was edited or is gone.

        Args:
            scope: the scope of the memory.
            memory_id: the memory, as a context cites it.
            **shown: see `Shown`.
        """
        served = self._serving(scope, memory_id, include_pending=True, **shown)
        return () if served is None else histories(served, [memory_id]).get(memory_id, ())


_M = TypeVar("_M", bound=ShownMemory)


def _mark_pending(memories: list[_M], pending: frozenset[str]) -> list[_M]:
    """Returns memories, those that are not built yet marked so."""
    return [replace(m, is_pending=m.memory_id in pending) for m in memories] if pending else memories


def open_home(
    path: Path | str,
    backend: str = "duckdb",
    reranker: str | None = None,
    *,
    count_reads: bool = True,
    compressor: str | None = None,
    pending_wait_s: float | None = None,
) -> Reader:
    """Opens the published build of a home.

    Args:
        path: the home: a folder, or `s3://bucket/prefix`, whose copy on this machine is brought up to date first.
        backend: duckdb or neo4j.
        reranker: reads the best candidates of each search: `answers` for the model that is shipped, `lm` for the model
            of PALIMPSEST_LM, `none`, else the folder or the name of a cross-encoder; None for what PALIMPSEST_RERANKER
            names, `answers` by default. It is loaded at the first search. A service must not take it from a request.
        count_reads: write which memories searches return to the usage log of the home, for `accessed_within`;
            $PALIMPSEST_USAGE_DAYS says for how many days they are kept, and 0 counts none.
        compressor: `lm` lets searches with `compress="lm"` have the model of PALIMPSEST_LM pick sentences; empty lets
            none; None means what PALIMPSEST_COMPRESSOR names. A service must not take it from a request.
        pending_wait_s: see `Reader`.

    Raises:
        PalimpsestError: nothing is published there, there is no such backend, or a setting is wrong.
    """
    home = local_home(path)
    opened, picks = open_reranker(reranker, home), open_compressor(compressor, home)
    days = usage_days() if count_reads else 0
    usage = UsageLog(home, days, real_time) if days else None  # of the epoch before the build is opened
    return Reader(
        open_backend(home, backend),
        home,
        backend,
        reranker=opened,
        usage=usage,
        compressor=picks,
        pending_wait_s=pending_wait_s,
    )


def open_index(path: Path | str) -> Reader:
    """Opens the index of one build, published or not; `refresh` leaves it there.

    Raises:
        PalimpsestError: the file is missing or is no index.
    """
    from palimpsest.query.backends.duckdb_backend import DuckDBBackend

    return Reader(DuckDBBackend(Path(path)), reranker=open_reranker(None, None))
