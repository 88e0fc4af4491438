"""What the MCP tools do for a caller: ten tools, by names that agents know."""

import datetime as dt
import math
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, get_type_hints

from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase
from mcp_types import CallToolResult
from pydantic import AwareDatetime, ConfigDict, Field, NonNegativeInt, TypeAdapter
from pydantic.fields import FieldInfo

from palimpsest.core.errors import ArgumentError, PalimpsestError
from palimpsest.core.ids import JsonObject
from palimpsest.export.edit_document import MAX_CHARS as MAX_EDIT_CHARS
from palimpsest.pipeline.collection_info import list_collections
from palimpsest.query.context.lines import UNLIKELY
from palimpsest.query.graph.graph_answer import GraphAnswer
from palimpsest.query.graph.graph_reader import MAX_LINES, GraphReader
from palimpsest.query.recent import Narrowed
from palimpsest.query.request.search_request import OPTIONS, SearchOptions, SearchRequest, Sources, bounds, offer
from palimpsest.query.request.types import Scope, ShownMemory
from palimpsest.query.result import SearchResult, empty_result
from palimpsest.serve import account_routes, memories_routes
from palimpsest.serve.answers import EditReceived, ReceivedOperation
from palimpsest.serve.guard import Identity, Permission
from palimpsest.serve.mcp_answers import (
    NUMBERS,
    OPENING_CHARS,
    PART_CHARS,
    Context,
    Cursors,
    GraphStatements,
    Memories,
    MemoryDetail,
    Operation,
    RankedMemories,
    UserProfile,
    answer,
    context,
    detail,
    fitting,
    memory_item,
    node_item,
    operation,
    page,
    profile_item,
    statement_item,
    version_item,
)
from palimpsest.serve.memories_routes import EditedText, SentMemory
from palimpsest.serve.open_reader import CallerView
from palimpsest.serve.problems import Problem
from palimpsest.serve.state import Service
from palimpsest.serve.views import find_memory
from palimpsest.store.inbox import OWN_COLLECTION

# Arguments: the same name means the same in each tool. What is a field of a search or of what is remembered is
# described by its one declaration.

MAX_LIMIT = 100
_MAX_TEXT = 10_000
_CONTEXT_TOKENS = 1000
_TURN = "{role, content, name?, created_at?}"


def _opening(field: FieldInfo) -> str:
    """Returns the first statement about a field: each tool repeats it, and agents read all of them."""
    words = re.split(r"[;,] |\. ", (field.description or "").removeprefix("Only memories "))[0]
    return words[:1].upper() + words[1:].removesuffix(".")


def _field(name: str, default: object) -> Any:
    """Returns an argument that is a field of a search."""
    field = OPTIONS[name]
    at, (low, high) = offer(field), bounds(field)
    least, most = low if at.least is None else at.least, high if at.most is None else at.most
    return Field(default, description=_opening(field), ge=least, le=most)


def _sent(name: str, default: object = None) -> Any:
    """Returns an argument that is a field of what is remembered."""
    return Field(default, description=_opening(SentMemory.model_fields[name]))


class Arguments(ArgModelBase):
    """The arguments of a tool, and no others."""

    model_config = ConfigDict(extra="forbid")


class Question(Arguments):
    """A question."""

    query: str = Field(description=_opening(SearchRequest.model_fields["text"]), min_length=1, max_length=_MAX_TEXT)


class Paged(Arguments):
    """A page."""

    limit: int = Field(10, description=f"How many, 1 to {MAX_LIMIT}", ge=1, le=MAX_LIMIT)
    cursor: str | None = Field(None, description="From the page before")


class Place(Arguments):
    """Where memories are read."""

    project: str | None = Field(None, description="This project and the general memory")
    collection: str | None = Field(None, description="Only this collection")


class Filters(Place):
    """What narrows memories."""

    since: str | None = _field("since", None)
    until: str | None = _field("until", None)
    session: str | None = _field("session", None)
    tags: list[str] = _field("tags", [])

    @property
    def narrow(self) -> Narrowed:
        """The filters as a search has them."""
        return {"since": self.since, "until": self.until, "session": self.session, "tags": self.tags}


class SearchMemory(Filters, Paged, Question):
    """Arguments of `search_memory`."""

    as_of: str | None = _field("as_of", None)
    history: bool = _field("history", False)


class GetContext(Filters, Question):
    """Arguments of `get_context`."""

    turns: list[Any] = Field([], description=f"Messages before, oldest first: {_TURN}")
    budget_tokens: int = _field("budget_tokens", _CONTEXT_TOKENS)
    sources: Sources = Field("short", description="short cites by number, full by id and place")


class OfMemory(Arguments):
    """A memory."""

    memory_id: str = Field(description="As lists and citations have it", max_length=64)


class GetMemory(OfMemory):
    """Arguments of `get_memory`."""

    history: bool = _field("history", False)
    cursor: str | None = Field(None, description="From the page before")


class Into(Arguments):
    """Where something is kept."""

    project: str | None = _sent("project")
    collection: str | None = _sent("collection")


class AddMemory(Into):
    """Arguments of `add_memory`."""

    text: str = Field(description="One statement", min_length=1)
    speaker: str | None = Field(None, description="Who says it")
    session: str | None = _sent("session")
    tags: list[str] = _sent("tags", [])
    observed_at: str | None = _sent("observed_at")


class UpdateMemory(OfMemory):
    """Arguments of `update_memory`."""

    text: str = Field(description="One statement", min_length=1, max_length=MAX_EDIT_CHARS)


class Recent(Filters, Paged):
    """Arguments of `recent`."""


class Profile(Place, Paged):
    """Arguments of `profile`."""


Kind = Literal["relations", "timeline", "nodes"]


class SearchGraph(Place, Paged, Question):
    """Arguments of `search_graph`."""

    kind: Kind = Field("relations", description="How things relate, how one changed, or all of one")


class GetOperation(Arguments):
    """Arguments of `get_operation`."""

    operation_id: str = Field(description="As add or delete returned it")


# Tools: each is a method that takes what its caller may read, or who that is where it reads no memory: a publication
# waits for those that read. Their docstrings are what agents read.


def takes(work: Callable[..., CallToolResult]) -> type[Arguments]:
    """Returns the model of the arguments of a tool."""
    found: type[Arguments] = get_type_hints(work)["q"]
    return found


class Tools:
    """What the tools do."""

    def __init__(self, service: Service, identify: Callable[[], Identity]):
        self.service, self.identify = service, identify

    def call(
        self, work: Callable[..., CallToolResult], permission: Permission, q: Arguments | None = None
    ) -> CallToolResult:
        """Does the work of a tool for the caller, who must have a permission.

        Raises:
            ToolError: it cannot be done; the message is safe to show to the caller.
        """
        me, q = self.identify(), q or takes(work)()
        if permission not in me.permissions:
            raise ToolError(f"the token does not allow to {permission}; it needs the scope {permission}")
        try:
            if "view" not in get_type_hints(work):
                return work(me, q)
            with self.service.reader.view(me) as view:
                return work(view, q)
        except Problem as e:
            raise ToolError(e.detail) from e
        except ArgumentError as e:
            raise ToolError(_sentence(e)) from None
        except PalimpsestError:
            raise ToolError("the memory store cannot answer now") from None

    def search_memory(self, view: CallerView, q: SearchMemory) -> Annotated[CallToolResult, RankedMemories]:
        """Finds the memories that best answer a question."""
        cursors = Cursors(_SHOWN, q.model_dump(exclude={"limit", "cursor"}))
        ids = cursors.read(q.cursor) or ""
        seen = {ids[i : i + _SEEN] for i in range(0, len(ids), _SEEN)}
        most = min(len(seen) + q.limit, MAX_LIMIT)
        found = self._search(view, q, as_of=q.as_of, history=q.history, k=most, budget_tokens=0)
        new = [m for m in found.memories if m.memory_id[:_SEEN] not in seen][: q.limit]
        shown = fitting([memory_item(m) for m in new], beside=9 * most)
        seen |= {m.memory_id[:_SEEN] for m in new[: len(shown)]}
        is_last = not shown or (len(shown) == len(new) and len(found.memories) < most) or len(seen) >= MAX_LIMIT
        head = "" if found.answerable else UNLIKELY
        after = None if is_last else cursors.write("".join(sorted(seen)))
        return page({"memories": shown}, after, head or _NO_MEMORIES, head, answerable=found.answerable)

    def get_context(self, view: CallerView, q: GetContext) -> Annotated[CallToolResult, Context]:
        """Returns what answers a question as one cited text for a prompt."""
        found = self._search(view, q, turns=q.turns, budget_tokens=q.budget_tokens, sources=q.sources)
        return context(found, is_limited=q.budget_tokens <= _CONTEXT_TOKENS)

    def get_memory(self, view: CallerView, q: GetMemory) -> Annotated[CallToolResult, MemoryDetail]:
        """Returns one memory whole, or the versions of its fact and why each ended."""
        memory, scopes = _shown(view, q.memory_id)
        cursors = Cursors(NUMBERS, view.reader.build_id, q.memory_id, q.history)
        start = cursors.read(q.cursor) or 0
        if not q.history:
            end = start + PART_CHARS
            return detail(memory, start, PART_CHARS, (), cursors.write(end) if end < len(memory.text) else None)
        found = next((v for v in (view.reader.history_of(s, q.memory_id) for s in scopes) if v), ())
        end = start + len(fitting([version_item(v) for v in found[start:]], beside=3 * OPENING_CHARS))
        return detail(memory, 0, OPENING_CHARS, found[start:end], cursors.write(end) if end < len(found) else None)

    def add_memory(self, me: Identity, q: AddMemory) -> Annotated[CallToolResult, ReceivedOperation]:
        """Remembers a statement for the user. The next call finds it."""  # noqa: DOC501 (the docstring is for agents)
        try:
            return answer(memories_routes.receive(self.service, me, SentMemory.model_validate(q.model_dump()), None))
        except ArgumentError as e:
            if e.argument != "collection" or q.collection:
                raise
        with self.service.reader.view(me) as view:
            names = ", ".join(sorted({s.collection for s in view.own_scopes()})) or OWN_COLLECTION
        raise ToolError(f"collection: name one of {names}")

    def update_memory(self, view: CallerView, q: UpdateMemory) -> Annotated[CallToolResult, EditReceived]:
        """Replaces the words of a memory, which gets a new id."""
        done = memories_routes.edit(q.memory_id, EditedText(text=q.text), view, self.service)
        return answer(done, "received: searches find the new words at once, under a new id")

    def delete_memory(self, view: CallerView, q: OfMemory) -> Annotated[CallToolResult, ReceivedOperation]:
        """Deletes a memory for good. get_operation has the proof."""
        return answer(memories_routes.remove(q.memory_id, view, self.service))

    def recent(self, view: CallerView, q: Recent) -> Annotated[CallToolResult, Memories]:
        """Lists the newest memories."""
        cursors = Cursors(_LAST, q.model_dump(exclude={"limit", "cursor"}))
        last = cursors.read(q.cursor)
        scopes = view.formed_scopes(q.collection, q.project)
        if not scopes:
            return page({"memories": ()}, nothing=_NO_MEMORIES)
        found = _recent_after(view, scopes, last, q.limit + 1, q.narrow)
        shown, after = fitting([memory_item(m) for m in found[: q.limit]]), None
        if len(shown) < len(found):
            end = found[len(shown) - 1]
            after = cursors.write((end.observed_at, end.memory_id, (last[2] if last else 0) + len(shown)))
        return page({"memories": shown}, after, _NO_MEMORIES)

    def profile(self, view: CallerView, q: Profile) -> Annotated[CallToolResult, UserProfile]:
        """Lists facts and preferences of the user, newest first."""
        mine = view.own_scopes(q.collection, q.project)
        lines = view.reader.profile(mine).lines if mine else ()
        cursors = Cursors(NUMBERS, view.reader.build_id, q.project, q.collection)
        shown, after = cursors.page([profile_item(line) for line in lines], q.cursor, q.limit)
        return page({"lines": shown}, after, "Nothing is known of this user.", user=view.identity.user)

    def search_graph(self, view: CallerView, q: SearchGraph) -> Annotated[CallToolResult, GraphStatements]:
        """Asks the graph of people, places, projects and topics."""
        cursors = Cursors(NUMBERS, view.reader.build_id, q.model_dump(exclude={"limit", "cursor"}))
        start, scopes = cursors.read(q.cursor) or 0, view.scopes(q.collection, q.project)
        found = _ask_graph(view.reader.graph(scopes), q, start + q.limit + 1) if scopes else GraphAnswer()
        nodes = [node_item(n) for n in found.nodes[:_MAX_NODES] if q.kind == "nodes" and not start]
        lines = [statement_item(line) for line in found.lines]
        # A timeline is in the order of events: a page has the best of what is left, in that order.
        worth = sorted(range(len(lines)), key=lambda i: -found.lines[i].score if q.kind == "timeline" else i)
        shown = fitting([lines[i] for i in worth[start : start + q.limit]], beside=sum(n.chars for n in nodes))
        end = start + len(shown)
        after = cursors.write(end) if end < min(len(lines), MAX_LINES) else None
        in_order = [lines[i] for i in sorted(worth[start:end])]
        return page({"nodes": nodes, "lines": in_order}, after, "The graph has nothing about this.")

    def get_operation(self, me: Identity, q: GetOperation) -> Annotated[CallToolResult, Operation]:
        """Says what became of an add or a delete."""
        return operation(memories_routes.find_operation(self.service, me, q.operation_id))

    def account(self, view: CallerView, q: Arguments) -> CallToolResult:
        """Says whose memories these are, what the token allows, and where memories are."""
        mine = {s.collection for s in view.scopes(include_pending=True)}
        known: JsonObject = {c.name: c.description for c in list_collections(self.service.home) if c.name in mine}
        return answer({**account_routes.me(view), "collections": known})

    def _search(self, view: CallerView, q: SearchMemory | GetContext, **given: Any) -> SearchResult:
        """Searches what the caller names, with what is not built yet."""
        scopes = view.formed_scopes(q.collection, q.project)  # before it takes the place of another search
        if not scopes:
            return empty_result(view.reader.build_id)
        options: SearchOptions = {**q.narrow, **given, "include_pending": True}  # type: ignore[typeddict-item]
        return self.service.search(view, q.query, scopes, **options)


_NAMES = {"text": "query", "k": "limit", "relations": "search_graph"}


def _sentence(error: ArgumentError) -> str:
    """Returns what is wrong with an argument; never which collections there are."""
    if error.argument == "collection":
        return f"collection: {'name one' if error.value is None else 'there is no such collection'}"
    return f"{_NAMES.get(error.argument, error.argument)}: {error.problem_for(lambda n: _NAMES.get(n, n))}"


_MAX_NODES = 5
_SEEN = 6
"""Characters of an id by which a cursor knows what was shown: a ranking may change from page to page."""
_SHOWN = TypeAdapter(tuple[str, str])
_Last = tuple[AwareDatetime | None, str, NonNegativeInt]
_LAST = TypeAdapter(tuple[str, _Last])
_NO_MEMORIES = "There are no memories here."
_NO_NODE = "no person, place, project or topic has this name; kind relations looks for words"


def _shown(view: CallerView, memory_id: str) -> tuple[ShownMemory, Sequence[Scope]]:
    """Returns a memory that the caller may read, built or not, and the caller's scopes.

    Raises:
        NotFound: there is none.
    """
    scopes = view.scopes(include_pending=True)
    return find_memory(view, scopes, memory_id)[1], scopes


def _recent_after(
    view: CallerView, scopes: Sequence[Scope], last: _Last | None, limit: int, narrow: Narrowed
) -> list[ShownMemory]:
    """Returns the newest memories after one, whatever was added or deleted since.

    Args:
        view: of the caller.
        scopes: whose memories.
        last: time and id of the memory, and how many came before its successor; None for the newest of all.
        limit: how many at most.
        narrow: what narrows the list.
    """
    time, last_id, count = last or (None, "", 0)
    place = _place(time, last_id)
    while True:
        count += limit
        found = view.reader.recent(scopes, count, include_pending=True, **narrow)
        rest = [m for m in found if last is None or _place(m.observed_at, m.memory_id) > place]
        if len(rest) >= limit or len(found) < count:
            return rest[:limit]


def _place(time: dt.datetime | None, memory_id: str) -> tuple[float, str]:
    return -time.timestamp() if time else math.inf, memory_id


def _ask_graph(graph: GraphReader, q: SearchGraph, n: int) -> GraphAnswer:
    """Returns an answer over the graph, of at least `n` lines where there are as many.

    Raises:
        ArgumentError: the query has no words, or is of kind nodes and no node's name.
    """
    if q.kind == "nodes":
        try:
            return graph.node(q.query)
        except ArgumentError:
            raise ArgumentError("query", _NO_NODE) from None
    ask = graph.timeline if q.kind == "timeline" else graph.relations
    return ask(q.query, min(n, MAX_LINES))
