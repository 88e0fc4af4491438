"""The query API: open a home, search a scope, get ranked memories and a cited context.

A reader holds one build for as long as it lives; `refresh` moves it to the one published since.
"""

import datetime as dt
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from palimpsest.core.errors import ArgumentError, PalimpsestError
from palimpsest.query.context.history import Version, histories
from palimpsest.query.context.neighbours import ids_beside, ids_in, memories_beside
from palimpsest.query.context.outdated import mark_outdated
from palimpsest.query.context.pack import pack
from palimpsest.query.embed_query import count_tokens, query_embedder
from palimpsest.query.explain import explained
from palimpsest.query.merge import merged
from palimpsest.query.ranking.backend import Backend
from palimpsest.query.ranking.diversity import MOST, WIDER, diverse
from palimpsest.query.ranking.rank import SEEDS, Candidate, rank
from palimpsest.query.read_time import TimeRead, read_time
from palimpsest.query.request.arguments import When, check, clean, moment
from palimpsest.query.request.strategies import Weights, chosen_weights
from palimpsest.query.request.types import Filters, Memory, RankedMemory, Scope
from palimpsest.query.resolve_scopes import project_scopes, searched_scopes
from palimpsest.query.served import served
from palimpsest.text.terms import query_terms
from palimpsest.text.tokenizer import register_tokenizer_home

STEPS = ("embed_ms", "seeds_ms", "expand_ms", "rank_ms", "read_ms", "pack_ms")


@dataclass(frozen=True)
class Results:
    """An answer.

    Attributes:
        memories: best first, at most k.
        context: what was packed of them, cited; empty where nothing was found or fits.
        packed_ids: the memories whose whole text the context holds.
        beside: memories that the context holds not because they were ranked, but as context of those.
        context_tokens: of the context, as the embedder counts them.
        folded: ids left out of the context, by the id of the memory that says the same.
        timings: milliseconds of each of `STEPS`, over all scopes, and `total_ms`.
        strategy: what was run for each collection asked, `auto` resolved.
        build_id: the build that answered.
        versions: with `history`, all versions of each memory's fact by its id, newest first, with what replaced each
            and why.
        met: with `explain`, the texts of the memories that links led from or to, by id.
        times: how the question's words about time were read in each scope.
    """

    memories: list[RankedMemory]
    context: str
    packed_ids: tuple[str, ...]
    beside: tuple[Memory, ...]
    context_tokens: int
    folded: dict[str, tuple[str, ...]]
    timings: dict[str, float]
    strategy: str
    build_id: str
    versions: Mapping[str, tuple[Version, ...]] = field(default_factory=dict)
    times: Mapping[Scope, TimeRead] = field(default_factory=dict)
    met: Mapping[str, str] = field(default_factory=dict)


def real_time() -> dt.datetime:
    """Returns the time now, in UTC."""
    return dt.datetime.now(dt.UTC)


class Reader:
    """Answers from one build. Safe to share between threads.

    `clock` tells the real time, in UTC. It decides one thing: a memory past its retention is not served.
    """

    def __init__(
        self,
        backend: Backend,
        home: Path | None = None,
        backend_name: str = "duckdb",
        clock: Callable[[], dt.datetime] = real_time,
    ):
        self._backend, self._home, self._backend_name, self._clock = backend, home, backend_name, clock

    @property
    def build_id(self) -> str:
        """The build that this reader holds."""
        return self._backend.build_id

    @property
    def backend(self) -> Backend:
        """The store behind this reader."""
        return self._backend

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Releases the build."""
        self._backend.close()

    def refresh(self) -> str:
        """Moves to the build that is published now and returns its id; searches under way finish on the old one."""
        if self._home is None:
            return self.build_id
        if self._backend_name == "neo4j":
            self._backend = self._backend.renewed()  # type: ignore[attr-defined]
        elif _published(self._home) != self.build_id:
            self._backend = _open_backend(self._home, self._backend_name)
        return self.build_id

    def scopes(self) -> list[Scope]:
        """Returns every scope that holds a memory, sorted."""
        return self._backend.scopes()

    def scope_sizes(self) -> dict[Scope, int | None]:
        """Returns how many memories each scope holds, retired versions included; None where the store does not say."""
        views = {s: self._backend.view(s) for s in self._backend.scopes()}
        return {s: None if view is None else len(view.ids) for s, view in views.items()}

    def resolve_scope(self, collection: str | None = None, user: str | None = None, project: str = "") -> Scope:
        """Returns one scope by name: the named, only or default collection, the named or its default user, the project.

        Without a project it is the user's general memory. `resolve_scopes` gives what a search in a project reads.

        Raises:
            PalimpsestError: a name is unknown, or none is given and it is not clear which is meant. The message lists
                the names that are known: do not show it to people who may not see them.
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
    ) -> list[Scope]:
        """Returns the scopes that a search reads: `search` takes them as they are.

        Args:
            collection: default: the only one, or the one marked default.
            user: default: the collection's user_id.
            project: the project and the user's general memory; without it the general memory alone.
            all_projects: all projects of the user, and the general memory.
            all_collections: every collection in which the user has memories.

        Raises:
            PalimpsestError: as `resolve_scope` does, or two arguments exclude each other.
        """
        backend = self._backend
        return searched_scopes(
            backend.collections(),
            backend.scopes(),
            collection=collection,
            user=user,
            project=project,
            all_projects=all_projects,
            all_collections=all_collections,
        )

    def search(
        self,
        text: str,
        scope: Scope | tuple[str, str] | tuple[str, str, str] | Sequence[Scope],
        *,
        k: int = 5,
        hops: int = 1,
        strategy: str | Weights = "auto",
        as_of: When | None = None,
        history: bool = False,
        type: str | None = None,
        tag: str | None = None,
        since: When | None = None,
        until: When | None = None,
        project: str | None = None,
        session: str | None = None,
        now: When | None = None,
        budget_tokens: int = 1200,
        explain: bool = False,
        include_hidden: bool = False,
        include_pii: bool = False,
    ) -> Results:
        """Returns the memories of a scope that best answer a text, and a cited context of them.

        Args:
            text: the question. What is beyond 100,000 characters is not read.
            scope: one scope, or several: each is ranked by its own statistics, then merged on one scale. A tuple of
                names is (collection, user) or (collection, user, project).
            k: how many memories, 1 to 1000.
            hops: links to follow from the best, 0 to 2; `flat` follows none.
            strategy: a name of `STRATEGIES`, or auto: what the build chose for the collection, with the weights that
                the collection's settings give; or weights, which are taken as they are.
            as_of: answer from what was current then; a date alone means the end of that day. Without it, a question
                that asks for it in words (`as of May 2026`, `what did we believe on 3 March`) is answered so.
            history: superseded versions are candidates too.
            type: memory type to stay in.
            tag: a tag that memories must bear.
            since: earliest observed_at; a date alone means its start.
            until: latest observed_at; a date alone means its end.
            project: search this project of the scope's user beside the scope, which is the user's general memory.
            session: session to stay in.
            now: when the question is asked: what is not yet valid then, or no longer, is no candidate, and `last
                week` is told from it, or from `as_of`; without either only words say something.
            budget_tokens: of the context, by the embedder's count, citations included.
            explain: say of each memory why it is there.
            include_hidden: serve also what is marked `user_visible: false`.
            include_pii: serve also what is marked `pii: true`.

        Raises:
            PalimpsestError: an argument is out of range, the text is empty, or the project is unknown.
        """
        started = time.perf_counter()
        text = clean(text)
        check(k, hops, budget_tokens)
        filters = Filters(
            session=session,
            type=type,
            tag=tag,
            since=moment("since", since, False),
            until=moment("until", until, True),
            as_of=moment("as_of", as_of, True),
            now=moment("now", now, True),
            history=history,
            clock=self._clock(),
            include_hidden=include_hidden,
            include_pii=include_pii,
        )
        backend = served(self._backend, filters)
        scopes = _scopes(scope)
        if project:
            scopes = sorted({s for at in scopes for s in project_scopes(backend.scopes(), *at[:2], project)})
        chosen = {s: chosen_weights(strategy, backend.collections().get(s.collection)) for s in scopes}
        weights = {s: found for s, (_, found) in chosen.items()}
        clock = _Clock(started)
        vector = query_embedder().embed(text)
        asked = {s: read_time(backend, s, text, filters) for s in scopes}
        backend = served(self._backend, {s: own for s, (own, _) in asked.items()})
        times = {s: read for s, (_, read) in asked.items()}
        terms = query_terms(text)
        clock.lap("embed_ms")
        found = {
            s: rank(backend, s, own, vector, terms, weights[s], hops, max(SEEDS, k), clock.lap, text, read.period)
            for s, (own, read) in asked.items()
        }
        best = merged(backend, {s: own for s, (own, _) in asked.items()}, vector, weights, found)
        diversity = {s: w.diversity for s, w in weights.items()}
        if any(diversity.values()) and k <= MOST:
            pool = best[: WIDER * k]
            told_of = {s: backend.memories(s, [c.memory_id for at, c in pool if at == s]) for s in scopes}
            best = diverse(pool, told_of, diversity, k)
        best = best[:k]
        clock.lap("rank_ms")
        wanted = {s: [c.memory_id for at, c in best if at == s] for s in scopes}
        around = {s: ids_beside(backend, s, own, wanted[s]) for s, (own, _) in asked.items()}
        held = {s: backend.memories(s, [*wanted[s], *ids_in(around[s])]) for s in scopes}
        memories = [_ranked(held[s][c.memory_id], c) for s, c in best]
        memories = _marked(backend, {s: own for s, (own, _) in asked.items()}, memories)
        met: dict[str, str] = {}
        if explain:
            memories, met = explained(backend, memories, best, asked, weights)
        replaced: dict[str, list[Memory]] = {}
        for s in scopes:
            replaced |= backend.history(s, wanted[s])
        told: dict[str, tuple[Version, ...]] = {}
        for s in scopes if history else ():
            told |= histories(backend, s, wanted[s])
        clock.lap("read_ms")
        shown, near = replaced if history else _last(replaced), memories_beside(around, held)
        packed = pack(memories, shown, budget_tokens, count_tokens, near)
        clock.lap("pack_ms")
        return Results(
            memories=memories,
            context=packed.text,
            packed_ids=packed.packed_ids,
            beside=packed.beside,
            context_tokens=packed.tokens,
            folded=dict(packed.folded),
            timings=clock.timings,
            strategy=chosen[scopes[0]][0],
            build_id=backend.build_id,
            versions=told,
            times=times,
            met=met,
        )

    def history_of(
        self,
        scope: Scope | tuple[str, str] | tuple[str, str, str],
        memory_id: str,
        include_hidden: bool = False,
        include_pii: bool = False,
    ) -> tuple[Version, ...]:
        """Returns all versions of the fact that a memory is one of, newest first; empty where the scope has it not.

        Each tells since when and until when it held, what took its place, and why: the relation with its evidence, a
        person's word, the document that replaced its own, or that its source was edited or is gone.

        Args:
            scope: where the memory lies.
            memory_id: the memory, as a context cites it.
            include_hidden: versions marked `user_visible: false` too.
            include_pii: versions marked `pii: true` too.
        """
        filters = Filters(clock=self._clock(), include_hidden=include_hidden, include_pii=include_pii)
        return histories(served(self._backend, filters), Scope(*scope), [memory_id]).get(memory_id, ())


def open_home(path: Path | str, backend: str = "duckdb") -> Reader:
    """Opens the published build of a home.

    Raises:
        PalimpsestError: nothing is published there, or there is no such backend.
    """
    home = Path(path)
    register_tokenizer_home(home)
    return Reader(_open_backend(home, backend), home, backend)


def open_index(path: Path | str) -> Reader:
    """Opens the index of one build, published or not; `refresh` leaves it there.

    Raises:
        PalimpsestError: the file is missing or is no index.
    """
    from palimpsest.query.backends.duckdb_backend import DuckDBBackend

    return Reader(DuckDBBackend(Path(path)))


def _published(home: Path) -> str:
    try:
        build = json.loads((home / "published.json").read_text(encoding="utf-8"))["build"]
    except FileNotFoundError:
        raise PalimpsestError(f"home {home}: nothing is published there; run palimpsest build --home {home}") from None
    except (ValueError, KeyError, TypeError):
        raise PalimpsestError(f"home {home}: published.json is damaged; run palimpsest build --home {home}") from None
    return str(build)


def _open_backend(home: Path, name: str) -> Backend:
    if name == "neo4j":
        # By name: the graph is a layer above, and an extra.
        return import_module("palimpsest.neo4j_graph.backend.neo4j_backend").open_neo4j(home)
    if name != "duckdb":
        raise ArgumentError("backend", "not one of duckdb, neo4j", name)
    from palimpsest.query.backends.duckdb_backend import DuckDBBackend

    build = _published(home)
    path = home / "builds" / build / "index.duckdb"
    try:
        return DuckDBBackend(path)
    except PalimpsestError:
        # Five builds are kept: one that went away meanwhile has a successor.
        if (later := _published(home)) != build:
            return DuckDBBackend(home / "builds" / later / "index.duckdb")
        raise


class _Clock:
    def __init__(self, started: float):
        self._started = self._last = started
        self.timings: dict[str, float] = dict.fromkeys(STEPS, 0.0)

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.timings[name] += (now - self._last) * 1000
        self._last = now
        self.timings["total_ms"] = (now - self._started) * 1000


def _scopes(scope: Scope | tuple[str, str] | tuple[str, str, str] | Sequence[Scope]) -> list[Scope]:
    if isinstance(scope, tuple) and len(scope) in (2, 3) and all(isinstance(part, str) for part in scope):
        return [Scope(*scope)]
    scopes = sorted({Scope(*s) for s in scope})
    if not scopes:
        raise PalimpsestError("scope: name at least one (collection, user) or (collection, user, project)")
    return scopes


def _marked(backend: Backend, asked: Mapping[Scope, Filters], memories: list[RankedMemory]) -> list[RankedMemory]:
    """Returns the memories, in their order, marked where newer text of their scope may contradict them."""
    marked: dict[str, RankedMemory] = {}
    for scope, filters in asked.items():
        own = [m for m in memories if (m.collection, m.user_id, m.project_id) == scope]
        marked |= {m.memory_id: m for m in mark_outdated(backend, scope, filters, own)}
    return [marked[m.memory_id] for m in memories]


def _last(replaced: dict[str, list[Memory]]) -> dict[str, list[Memory]]:
    """Leaves of each chain what was replaced directly: history in full is asked for by `history`."""
    return {newer: [m for m in chain if m.superseded_by == newer][:1] for newer, chain in replaced.items()}


def _ranked(memory: Memory, candidate: Candidate) -> RankedMemory:
    told = {name: getattr(memory, name) for name in memory.__dataclass_fields__}
    return RankedMemory(
        **told,
        score=candidate.score,
        vector_score=candidate.vector,
        words_score=candidate.words,
        graph_score=candidate.score - candidate.own,
        hops=len(candidate.path),
    )
