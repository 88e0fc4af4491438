"""What the MCP tools do for a caller: ten tools, by names that agents know."""

from collections.abc import Callable, Sequence
from typing import Annotated, Literal, TypeVar

from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field, JsonValue
from pydantic.fields import FieldInfo

from palimpsest.core.errors import ArgumentError, PalimpsestError
from palimpsest.core.times import parse_time
from palimpsest.pipeline.collection_info import list_collections
from palimpsest.query.graph.graph_answer import GraphAnswer
from palimpsest.query.graph.graph_reader import MAX_LINES, GraphReader
from palimpsest.query.recent import Narrowed
from palimpsest.query.request.search_request import OPTIONS, SearchOptions, SearchRequest, Sources, bounds, offer
from palimpsest.query.request.types import Scope
from palimpsest.query.result import SearchResult, empty_result
from palimpsest.serve.guard import Identity, Permission
from palimpsest.serve.mcp_answers import (
    MAX_CHARS,
    PART_CHARS,
    Account,
    Context,
    Cursors,
    FactVersion,
    FoundMemory,
    GraphNode,
    GraphStatements,
    Memories,
    MemoryDetail,
    Operation,
    ProfileEntry,
    Statement,
    UserProfile,
    fitting,
)
from palimpsest.serve.memories_routes import begin_delete, edit_own, find_operation
from palimpsest.serve.open_reader import PENDING_WAIT_S, CallerView
from palimpsest.serve.problems import NotFound, Problem
from palimpsest.serve.state import Service
from palimpsest.serve.views import check_own
from palimpsest.sources.inbox import InboxOptions, ingest_text

# Parameters: the same name means the same in each tool. What a search takes is described by its one declaration.


def _field(name: str) -> FieldInfo:
    """Returns what describes a parameter that is a field of a search."""
    field = OPTIONS[name]
    at, (low, high) = offer(field), bounds(field)
    least, most = low if at.least is None else at.least, high if at.most is None else at.most
    described: FieldInfo = Field(description=field.description, ge=least, le=most)
    return described


MAX_LIMIT = 100
_MAX_TEXT = 10_000
_QUESTION = (SearchRequest.model_fields["text"].description or "").partition(";")[0] + "."
_TURN = '{"role", "content", "name"?, "created_at"?}'
Query = Annotated[str, Field(description=_QUESTION, min_length=1, max_length=_MAX_TEXT)]
Limit = Annotated[int, Field(description=f"How many at most; a page has {MAX_CHARS:,} characters.", ge=1, le=MAX_LIMIT)]
Cursor = Annotated[str | None, Field(description="Of the page before, for the next one, with the same arguments.")]
Since = Annotated[str | None, _field("since")]
Until = Annotated[str | None, _field("until")]
AsOf = Annotated[str | None, _field("as_of")]
Session = Annotated[str | None, _field("session")]
Tags = Annotated[Sequence[str], _field("tags")]
History = Annotated[bool, _field("history")]
Collection = Annotated[str | None, Field(description="Only this collection.")]
Project = Annotated[str | None, Field(description="Only this project and the general memory.")]
MemoryId = Annotated[str, Field(description="As lists of memories and citations have it.", max_length=64)]
Turns = Annotated[
    Sequence[str | dict[str, JsonValue]], Field(description=f"Messages before the question, oldest first: {_TURN}.")
]
Words = Annotated[str, Field(description="One statement, in words that can be read alone.", min_length=1)]
Kind = Literal["relations", "timeline", "nodes"]

_CONTEXT_TOKENS = 1000
_MAX_NODES = 5
T = TypeVar("T")


class Caller:
    """Does what a caller may do, and makes errors of the product errors of a tool."""

    def __init__(self, service: Service, identify: Callable[[], Identity]):
        self.service, self.identify = service, identify

    def may(self, permission: Permission, work: Callable[[CallerView], T]) -> T:
        """Does something for the caller, who must have a permission.

        Raises:
            ToolError: it cannot be done; the message is safe to show to the caller.
        """

        def with_view(me: Identity) -> T:
            with self.service.reader.view(me) as view:
                return work(view)

        return self.may_without_view(permission, with_view)

    def may_without_view(self, permission: Permission, work: Callable[[Identity], T]) -> T:
        """Does something that reads no memory: a publication does not wait for it, as it does for a view.

        Raises:
            ToolError: it cannot be done; the message is safe to show to the caller.
        """
        me = self.identify()
        if permission not in me.permissions:
            raise ToolError(f"the token does not allow to {permission}")
        try:
            return work(me)
        except Problem as e:
            raise ToolError(e.detail) from None
        except ArgumentError as e:
            raise ToolError(_sentence(e)) from None
        except PalimpsestError:
            raise ToolError("the memory store cannot answer now") from None


def check_project(me: Identity, project: str | None) -> None:
    """Checks that a caller may write in a project.

    Raises:
        Problem: the token does not name it.
    """
    if project and project not in me.projects:
        raise Problem(403, "the token does not name this project")


_NAMES = {"text": "query", "k": "limit", "relations": "search_graph"}


def _sentence(error: ArgumentError) -> str:
    """Returns what is wrong with an argument; never which collections there are."""
    if error.argument == "collection":
        return f"collection: {'name one' if error.value is None else 'there is no such collection'}"
    return f"{_NAMES.get(error.argument, error.argument)}: {error.problem_for(lambda n: _NAMES.get(n, n))}"


class Tools(Caller):
    """What the tools do."""

    def search_memory(
        self,
        query: Query,
        limit: Limit = 10,
        cursor: Cursor = None,
        since: Since = None,
        until: Until = None,
        as_of: AsOf = None,
        session: Session = None,
        tags: Tags = (),
        project: Project = None,
        collection: Collection = None,
        history: History = False,
    ) -> Memories:
        """Finds the memories that best answer a question, also what was added just now."""
        options: SearchOptions = {"since": since, "until": until, "as_of": as_of, "session": session, "tags": tags}
        options["history"] = history

        def find(view: CallerView) -> Memories:
            question = {"query": query, "project": project, "collection": collection, **options}
            cursors = Cursors(view.reader.build_id, question)
            start = cursors.start(cursor)
            most = min(start + limit, MAX_LIMIT)
            scopes = view.scopes(collection, project, include_pending=True)
            found = self._search(view, query, scopes, {**options, "k": most, "budget_tokens": 0})
            items = [FoundMemory.of(m, m.relevance) for m in found.memories]
            page = fitting(items[start : start + limit])
            end = start + len(page)
            has_more = end < len(items) or (len(page) > 0 and len(items) == most < MAX_LIMIT)
            return Memories(memories=page, answerable=found.answerable, next_cursor=cursors.after(end, has_more))

        return self.may("read", find)

    def get_context(
        self,
        query: Query,
        turns: Turns = (),
        budget_tokens: Annotated[int, _field("budget_tokens")] = _CONTEXT_TOKENS,
        sources: Annotated[Sources, _field("sources")] = "short",
        since: Since = None,
        until: Until = None,
        session: Session = None,
        tags: Tags = (),
        project: Project = None,
        collection: Collection = None,
    ) -> Context:
        """Returns the memories that answer a question as one cited context, ready to be put before an answer."""
        options: SearchOptions = {"since": since, "until": until, "session": session, "tags": tags, "sources": sources}
        options |= {"turns": turns, "budget_tokens": budget_tokens}  # type: ignore[typeddict-item]

        def find(view: CallerView) -> Context:
            scopes = view.scopes(collection, project, include_pending=True)
            while True:
                found = self._search(view, query, scopes, options)
                text = found.message()["content"]
                if len(text) <= MAX_CHARS or budget_tokens > _CONTEXT_TOKENS:
                    break
                options["budget_tokens"] = options["budget_tokens"] * MAX_CHARS // len(text) * 9 // 10
            return Context(context=text, answerable=found.answerable, memory_ids=list(found.citations.ids))

        return self.may("read", find)

    def get_memory(self, memory_id: MemoryId, history: History = False, cursor: Cursor = None) -> MemoryDetail:
        """Returns one memory; with history the versions of its fact, newest first, with what replaced each and why."""

        def show(view: CallerView) -> MemoryDetail:
            scopes = view.scopes(include_pending=True)
            memory = view.reader.memory_with_changes(scopes, memory_id) if scopes else None
            if memory is None:
                raise NotFound
            cursors = Cursors(view.reader.build_id, {"memory_id": memory_id, "history": history})
            start = cursors.start(cursor)
            if not history:
                end = start + PART_CHARS
                detail = MemoryDetail.of(memory, memory.text[start:end])
                detail.next_cursor = cursors.after(end, end < len(memory.text))
                return detail
            detail = MemoryDetail.of(memory, memory.text[:_OPENING_CHARS])
            versions = next((v for v in (view.reader.history_of(s, memory_id) for s in scopes) if v), ())
            detail.versions = fitting([FactVersion.of(v) for v in versions[start:]], detail)
            end = start + len(detail.versions)
            detail.next_cursor = cursors.after(end, end < len(versions))
            return detail

        return self.may("read", show)

    def add_memory(
        self,
        text: Words,
        speaker: Annotated[str | None, Field(description="Who says it.")] = None,
        session: Annotated[str | None, Field(description="The conversation it is of.")] = None,
        tags: Annotated[Sequence[str], Field(description="By which it can be found.", max_length=20)] = (),
        observed_at: Annotated[str | None, Field(description="When it was said (ISO 8601). [default: now]")] = None,
        project: Annotated[str | None, Field(description="Its project. [default: the general memory]")] = None,
        collection: Annotated[
            str | None, Field(description="Where to. [default: where the user's memories are]")
        ] = None,
    ) -> Operation:
        """Remembers a statement for the user. Searches find it at once; get_operation says when it is built."""  # noqa: DOC501 (the docstring is for agents)
        try:
            when = parse_time(observed_at) if observed_at else None
        except (ValueError, OverflowError):
            raise ToolError("observed_at: not a time; write 2024-05-31T12:00:00Z") from None

        def send(me: Identity) -> Operation:
            check_project(me, project)
            options: InboxOptions = {"user": me.user, "collection": collection, "project": project, "session": session}
            options |= {"tags": tags, "observed_at": when}
            try:
                receipt = ingest_text(self.service.home, text, speaker=speaker, **options)
            except ArgumentError as e:
                if e.argument == "collection" and not collection:
                    raise ToolError(f"collection: name one of {self._own_collections(me)}") from None
                raise
            self.service.watch.follow(me.user, receipt.operation_id)
            self.service.reader.form_pending(Scope(receipt.collection, me.user))
            return Operation(state="received", operation_id=receipt.operation_id, collection=receipt.collection)

        return self.may_without_view("write", send)

    def update_memory(self, memory_id: MemoryId, text: Words) -> Operation:
        """Replaces the words of a memory in its source. Searches find the new words at once."""

        def edit(view: CallerView) -> Operation:
            done = edit_own(self.service, view, memory_id, text)
            return Operation(state="received", memory_id=memory_id, collection=done.collection, note=_AFTER_EDIT)

        return self.may("write", edit)

    def delete_memory(self, memory_id: MemoryId) -> Operation:
        """Deletes a memory for good, with all that came from it. get_operation has the proof."""

        def begin(view: CallerView) -> Operation:
            check_own(view, memory_id)
            return Operation.of(begin_delete(self.service, view.identity, [memory_id]))

        return self.may("delete", begin)

    def recent(
        self,
        limit: Limit = 10,
        cursor: Cursor = None,
        since: Since = None,
        until: Until = None,
        session: Session = None,
        tags: Tags = (),
        project: Project = None,
        collection: Collection = None,
    ) -> Memories:
        """Lists the newest memories, also what was added just now."""
        narrow: Narrowed = {"since": since, "until": until, "session": session, "tags": tags}

        def find(view: CallerView) -> Memories:
            cursors = Cursors(view.reader.build_id, {"project": project, "collection": collection, **narrow})
            start = cursors.start(cursor)
            scopes = view.scopes(collection, project, include_pending=True)
            if not scopes:
                return Memories(memories=[])
            view.reader.form_pending(scopes, PENDING_WAIT_S)
            found = view.reader.recent(scopes, start + limit + 1, include_pending=True, **narrow)
            page, after = cursors.page([FoundMemory.of(m) for m in found], start, limit)
            return Memories(memories=page, next_cursor=after)

        return self.may("read", find)

    def profile(
        self,
        limit: Limit = 20,
        cursor: Cursor = None,
        project: Project = None,
        collection: Collection = None,
    ) -> UserProfile:
        """Says what is known of the user: facts and preferences, newest first, each with what states it."""

        def read(view: CallerView) -> UserProfile:
            cursors = Cursors(view.reader.build_id, {"project": project, "collection": collection})
            start = cursors.start(cursor)
            mine = view.own_scopes(collection, project)
            lines = view.reader.profile(mine).lines if mine else ()
            page, after = cursors.page([ProfileEntry.of(line) for line in lines], start, limit)
            return UserProfile(user=view.identity.user, lines=page, next_cursor=after)

        return self.may("read", read)

    def search_graph(
        self,
        query: Annotated[
            str, Field(description="A question, or of kind nodes a name.", min_length=1, max_length=_MAX_TEXT)
        ],
        kind: Annotated[
            Kind,
            Field(
                description="relations: how the things that a question names relate. timeline: how something changed, "
                "in the order of events. nodes: facts and relations of the person, place, project or topic of a name."
            ),
        ] = "relations",
        limit: Limit = 10,
        cursor: Cursor = None,
        project: Project = None,
        collection: Collection = None,
    ) -> GraphStatements:
        """Asks the graph of people, places, projects and topics; each line with the memories that show it."""
        question = {"query": query, "kind": kind, "project": project, "collection": collection}

        def ask(view: CallerView) -> GraphStatements:
            cursors = Cursors(view.reader.build_id, question)
            start = cursors.start(cursor)
            scopes = view.scopes(collection, project)
            found = _ask_graph(view.reader.graph(scopes), query, kind, start + limit + 1) if scopes else GraphAnswer()
            nodes = found.nodes[:_MAX_NODES] if kind == "nodes" and not start else ()
            page = GraphStatements(nodes=[GraphNode.of(n) for n in nodes], lines=[])
            by_worth = sorted(range(len(found.lines)), key=lambda i: -found.lines[i].score if kind == "timeline" else i)
            chosen = by_worth[start : start + limit]
            fits = len(fitting([Statement.of(found.lines[i]) for i in chosen], page))
            page.lines = [Statement.of(found.lines[i]) for i in sorted(chosen[:fits])]
            page.next_cursor = cursors.after(start + fits, start + fits < min(len(found.lines), MAX_LINES))
            return page

        return self.may("read", ask)

    def get_operation(
        self, operation_id: Annotated[str, Field(description="As add_memory or delete_memory returned it.")]
    ) -> Operation:
        """Says what became of something that was added or deleted."""
        return self.may_without_view("read", lambda me: Operation.of(find_operation(self.service, me, operation_id)))

    def account(self) -> Account:
        """Says whose memories these are, what the token allows, and where memories are."""

        def read(view: CallerView) -> Account:
            mine = {s.collection for s in view.scopes()}
            known = {c.name: c.description for c in list_collections(self.service.home) if c.name in mine}
            return Account.of(view.identity, known)

        return self.may("read", read)

    def _own_collections(self, me: Identity) -> str:
        with self.service.reader.view(me) as view:
            return ", ".join(sorted({s.collection for s in view.own_scopes()})) or "those that the operator names"

    def _search(self, view: CallerView, query: str, scopes: Sequence[Scope], options: SearchOptions) -> SearchResult:
        """Searches scopes of the caller, with what is not built yet."""
        options = {**options, "include_pending": True}
        if not scopes:
            return empty_result(view.reader.build_id)
        self.service.warming.searched(view.identity.user)
        view.reader.form_pending(scopes, PENDING_WAIT_S)  # before it takes the place of another search
        with self.service.searching:
            found = view.reader.search(query, scopes, **options)
        self.service.focus(view, scopes, [m.memory_id for m in found.memories[:1]])
        return found


_OPENING_CHARS = 400
_AFTER_EDIT = "found by its new words, under a new id"
_NO_NODE = "no person, place, project or topic has this name; kind relations looks for words"


def _ask_graph(graph: GraphReader, query: str, kind: Kind, n: int) -> GraphAnswer:
    """Returns an answer over the graph, of at least `n` lines where there are as many.

    Raises:
        ArgumentError: the query has no words, or is of kind nodes and no node's name.
    """
    if kind == "nodes":
        try:
            return graph.node(query)
        except ArgumentError:
            raise ArgumentError("query", _NO_NODE) from None
    ask = graph.timeline if kind == "timeline" else graph.relations
    return ask(query, min(n, MAX_LINES))
