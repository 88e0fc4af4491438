"""What can be read of a build besides searching it: its graph, facts, profiles, summaries and histories."""

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Unpack

from palimpsest.query.context.changes import name_changes, reasons_of_latest
from palimpsest.query.context.history import Version, histories
from palimpsest.query.context.neighbor_context import neighbor_ids
from palimpsest.query.graph.fact_table import FactTable
from palimpsest.query.graph.graph_outline import GraphOutline, graph_outline
from palimpsest.query.graph.graph_page import GraphPage, graph_page
from palimpsest.query.graph.graph_reader import GraphReader
from palimpsest.query.notes.note import Note
from palimpsest.query.notes.read_notes import read_notes
from palimpsest.query.profile.profile import Profile
from palimpsest.query.profile.read_profile import read_profile
from palimpsest.query.profile.standing import StandingAnswer, read_standing
from palimpsest.query.request.arguments import ScopeArgument, parse_scopes
from palimpsest.query.request.search_options import SearchOptions
from palimpsest.query.request.types import Filters, Memory, Scope, ShownMemory
from palimpsest.query.result import SearchResult
from palimpsest.query.scope.backend import Backend
from palimpsest.query.scope.served_graph import ServedGraph
from palimpsest.query.scope.served_scope import ServedScope
from palimpsest.query.summary.summarize import Summary, summarize_scope, summarize_session
from palimpsest.store.usage_log import UsageLog

_FACT_MEMORIES = 10  # whose facts are shown for a text that is no key


class BuildViews(ABC):
    """The part of a reader that reads what a build has, behind the same filters as a search.

    Args:
        backend: the store of the build.
        home: where its builds are; None for an index alone.
        clock: returns the real time, in UTC.
        usage: counts reads of memories; None where none are counted.
    """

    def __init__(
        self, backend: Backend, home: Path | None, clock: Callable[[], dt.datetime], usage: UsageLog | None = None
    ):
        self._backend, self._home, self._clock, self._usage = backend, home, clock, usage

    @abstractmethod
    def search(self, text: str, scope: ScopeArgument, **options: Unpack[SearchOptions]) -> SearchResult:
        """Returns the memories of a scope that best answer a text."""

    def graph(self, scope: ScopeArgument, include_hidden: bool = False, include_pii: bool = False) -> GraphReader:
        """Returns what answers questions over the nodes, edges and facts of one scope or several.

        Args:
            scope: as in `search`.
            include_hidden: what only memories marked `user_visible: false` state, too.
            include_pii: the same for memories marked `pii: true`.

        Raises:
            PalimpsestError: the build was made before nodes were indexed.
        """
        return GraphReader(self._backend, parse_scopes(scope), self._clock(), include_hidden, include_pii, self._usage)

    def graph_page(
        self,
        scope: ScopeArgument,
        offset: int = 0,
        limit: int = 1000,
        include_hidden: bool = False,
        include_pii: bool = False,
    ) -> GraphPage:
        """Returns a page of the whole graph of one scope or several, superseded facts included.

        Args:
            scope: as in `search`.
            offset: nodes to skip.
            limit: nodes of the page, 1 to 5,000.
            include_hidden: what only memories marked `user_visible: false` state, too.
            include_pii: the same for memories marked `pii: true`.

        Raises:
            ArgumentError: an argument is out of range.
        """
        return graph_page(self._graphs(scope, include_hidden, include_pii), offset, limit)

    def graph_outline(
        self,
        scope: ScopeArgument,
        nodes: int = 10_000,
        links: int = 15_000,
        include_hidden: bool = False,
        include_pii: bool = False,
    ) -> GraphOutline:
        """Returns the shape of the whole graph of one scope or several, for a picture of it.

        Args:
            scope: as in `search`.
            nodes: how many at most, the most important ones.
            links: how many at most; see `graph_outline`.
            include_hidden: what only memories marked `user_visible: false` state, too.
            include_pii: the same for memories marked `pii: true`.

        Raises:
            ArgumentError: an argument is out of range.
        """
        return graph_outline(self._graphs(scope, include_hidden, include_pii), nodes, links)

    def _graphs(self, scope: ScopeArgument, include_hidden: bool, include_pii: bool) -> list[ServedGraph]:
        filters = self._filters(include_hidden, include_pii, history=True)
        graphs = (ServedGraph.of(ServedScope(self._backend, s, filters)) for s in parse_scopes(scope))
        return [g for g in graphs if g is not None]

    def memory(
        self, scope: ScopeArgument, memory_id: str, include_hidden: bool = False, include_pii: bool = False
    ) -> Memory | None:
        """Returns a memory of one scope or several, a superseded one too; None where none has it or may show it.

        Args:
            scope: as in `search`.
            memory_id: the memory, as a context cites it.
            include_hidden: one marked `user_visible: false` too.
            include_pii: one marked `pii: true` too.
        """
        served = self._serving(scope, memory_id, include_hidden, include_pii)
        return None if served is None else self._backend.memories(served.scope, [memory_id]).get(memory_id)

    def memory_with_changes(self, scope: ScopeArgument, memory_id: str) -> ShownMemory | None:
        """Returns what `memory` returns, with what disputes it and what was said later; its text stays whole."""
        served = self._serving(scope, memory_id)
        if served is None:
            return None
        found = served.memories([memory_id])
        return name_changes(served, found, reasons_of_latest(served, found.values())).get(memory_id)

    def memory_count(self, scope: ScopeArgument) -> int:
        """Returns how many memories of one scope or several may be shown, superseded ones included."""
        filters = self._filters(False, False, history=True)
        views = (self._backend.view(s) for s in parse_scopes(scope))
        return sum(int(view.allowed(filters).sum()) for view in views if view is not None)

    def surroundings(self, scope: ScopeArgument, memory_id: str, reach: int = 12) -> list[Memory]:
        """Returns a memory among those before and after it in its session or document, in their order.

        Superseded ones are among them; hidden and personal ones are not. Empty where no scope may show the memory.

        Args:
            scope: as in `search`.
            memory_id: the memory, as a context cites it.
            reach: how many on each side.
        """
        served = self._serving(scope, memory_id)
        if served is None:
            return []
        around = neighbor_ids(served, [memory_id], reach).get(memory_id, [])
        ids = [i for _, i in sorted([*around, (0, memory_id)])]
        found = self._backend.memories(served.scope, ids)
        return [found[i] for i in ids if i in found]

    def facts(self, scope: ScopeArgument, include_hidden: bool = False, include_pii: bool = False) -> FactTable:
        """Returns the fact table of one scope or several: `facts()` and `get("ana.works_for")`.

        Args:
            scope: as in `search`.
            include_hidden: what only memories marked `user_visible: false` state, too.
            include_pii: the same for memories marked `pii: true`.

        Raises:
            PalimpsestError: the build was made before nodes were indexed.
        """
        scopes = parse_scopes(scope)
        filters = self._filters(include_hidden, include_pii, history=True)
        options = SearchOptions(include_hidden=include_hidden, include_pii=include_pii, k=_FACT_MEMORIES)

        def find_memories(text: str) -> list[str]:
            return [m.memory_id for m in self.search(text, scopes, **options).memories]

        return FactTable.of([ServedScope(self._backend, s, filters) for s in scopes], find_memories)

    def profile(self, scope: ScopeArgument, include_hidden: bool = False, include_pii: bool = False) -> Profile:
        """Returns what is known of a user in one scope or several, read without a search.

        Args:
            scope: as in `search`: scopes of one user.
            include_hidden: what only memories marked `user_visible: false` state, too.
            include_pii: the same for memories marked `pii: true`.

        Raises:
            PalimpsestError: the build was made before nodes were indexed.
        """
        scopes = parse_scopes(scope)
        filters = self._filters(include_hidden, include_pii)
        return read_profile([ServedScope(self._backend, s, filters) for s in scopes], scopes[0].user_id)

    def standing_answers(self, scope: ScopeArgument) -> list[StandingAnswer]:
        """Returns what the build found for the standing questions of the user of some scopes, read without a search.

        A reader of an index alone (`open_index`) has none.
        """
        if self._home is None:
            return []
        return read_standing(self._home / "builds" / self._backend.build_id, self._latest(scope))

    def notes(
        self,
        scope: ScopeArgument,
        session_id: str | None = None,
        include_hidden: bool = False,
        include_pii: bool = False,
        limit: int = 100,
    ) -> list[Note]:
        """Returns what the sessions of a scope say that is worth keeping, newest first, read without a search.

        An item is shown where all memories it rests on are latest and may be shown. A reader of an index alone
        (`open_index`) has none.

        Args:
            scope: as in `search`.
            session_id: only of this session.
            include_hidden: items that rest on memories marked `user_visible: false`, too.
            include_pii: the same for memories marked `pii: true`.
            limit: how many notes, 1 to 1,000.

        Raises:
            ArgumentError: `limit` is out of range.
        """
        if self._home is None:
            return []
        filters = self._filters(include_hidden, include_pii)
        scopes = [ServedScope(self._backend, s, filters) for s in parse_scopes(scope)]
        return read_notes(self._home / "builds" / self._backend.build_id, scopes, session_id, limit)

    def summarize_session(self, scope: ScopeArgument, session_id: str, sentences: int = 5) -> Summary:
        """Returns the sentences that sum up a session, in their order, each with its memory.

        Raises:
            ArgumentError: no memory of the session may be shown, or `sentences` is not 1 to 50.
        """
        return summarize_session(self._latest(scope), session_id, sentences)

    def summarize(self, scope: ScopeArgument, sentences: int = 10) -> Summary:
        """Returns the sentences that sum up the summaries of the sessions of a scope, such as a project's.

        Raises:
            ArgumentError: `sentences` is not 1 to 50.
        """
        return summarize_scope(self._latest(scope), sentences)

    def _serving(
        self, scope: ScopeArgument, memory_id: str, include_hidden: bool = False, include_pii: bool = False
    ) -> ServedScope | None:
        """Returns the scope, with every version, that has a memory and may show it; None where none does."""
        filters = self._filters(include_hidden, include_pii, history=True)
        found = (ServedScope(self._backend, each, filters) for each in parse_scopes(scope))
        return next((served for served in found if memory_id in served.passing([memory_id])), None)

    def _filters(self, include_hidden: bool, include_pii: bool, history: bool = False) -> Filters:
        return Filters(history=history, clock=self._clock(), include_hidden=include_hidden, include_pii=include_pii)

    def _latest(self, scope: ScopeArgument) -> list[ServedScope]:
        """Returns scopes behind the default filters: latest memories, none that is hidden or personal."""
        return [ServedScope(self._backend, s, Filters(clock=self._clock())) for s in parse_scopes(scope)]

    def history_of(
        self,
        scope: Scope | tuple[str, str] | tuple[str, str, str],
        memory_id: str,
        include_hidden: bool = False,
        include_pii: bool = False,
    ) -> tuple[Version, ...]:
        """Returns all versions of a memory's fact, newest first; empty where the scope does not have the memory.

        Each has since when and until when it was valid, what replaced it, and why: the relation with its evidence, a
        person's decision, the document that replaced its own, or that its source was edited or is gone.

        Args:
            scope: the scope of the memory.
            memory_id: the memory, as a context cites it.
            include_hidden: versions marked `user_visible: false` too.
            include_pii: versions marked `pii: true` too.
        """
        filters = self._filters(include_hidden, include_pii)
        return histories(ServedScope(self._backend, Scope(*scope), filters), [memory_id]).get(memory_id, ())
