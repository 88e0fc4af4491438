"""Endpoints over the caller's graph and profile."""

from collections.abc import Callable
from typing import Annotated, cast

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from palimpsest.core.errors import ArgumentError, ComponentFailed, DamagedFile, PalimpsestError
from palimpsest.core.ids import JsonObject, JsonValue, ScopeKey
from palimpsest.nodes import node_decisions
from palimpsest.query.answer_models import GraphAnswer, ProfileAnswer
from palimpsest.query.graph.graph_answer import MAX_LINKS
from palimpsest.query.graph.graph_answer import MAX_NODES as MAX_OUTLINE_NODES
from palimpsest.query.graph.subgraph import MAX_NODES
from palimpsest.query.request.types import Scope
from palimpsest.serve.answers import EdgesAnswer, GraphPageAnswer, NodesAnswer, OutlineAnswer
from palimpsest.serve.guard import Identity
from palimpsest.serve.problems import NotFound, Problem
from palimpsest.serve.search_routes import Collection, Name, Project
from palimpsest.serve.state import JsonRouter, MayRead, MayWrite, Service, SharedService
from palimpsest.store.graph_decisions import EdgeType, NodeType, NodeValues
from palimpsest.store.home import Home

router = JsonRouter(tags=["graph"])
Offset = Annotated[int, Query(ge=0, le=100_000_000, description="nodes to skip")]
Limit = Annotated[int, Query(ge=1, le=MAX_NODES, description="nodes of the page")]
Share = Annotated[float, Field(ge=0, le=1)]
_REFUSED = "the graph has it already, or a name is of no node, of several, or cannot be used"
_NO_OUTLINE: JsonObject = {"nodes": [], "links": [], "total_nodes": 0, "total_links": 0}
_EMPTY: JsonObject = {"nodes": [], "edges": [], "facts": [], "total": 0, "next_offset": None}


class SentNode(BaseModel):
    """A node to add."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{"name": "Rowan", "collection": "chats"}]}
    )

    name: Name
    collection: Name
    project: Name | None = None
    type: NodeType | None = None
    description: str | None = Field(default=None, max_length=2_000)
    aliases: list[Name] = Field(default=[], max_length=20)
    importance: Share | None = None


class SentEdge(BaseModel):
    """An edge to add, between two nodes by name or id."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"source": "Heron", "target": "Basin", "collection": "chats"}]},
    )

    source: Name
    target: Name
    collection: Name
    project: Name | None = None
    type: EdgeType = "related_to"
    weight: Share = 1.0


@router.get("/graph", summary="Show the caller's whole graph, page by page", response_model=GraphPageAnswer)
def graph(
    view: MayRead,
    service: SharedService,
    collection: Collection = None,
    project: Project = None,
    offset: Offset = 0,
    limit: Limit = 1000,
) -> JsonObject:
    """Returns nodes, most important first, with the edges and facts that lead from or to them.

    `x` and `y` of a node say where it is drawn, as the build laid it out.
    """
    scopes, reader = view.scopes(collection, project), view.reader
    page = reader.graph_page(scopes, offset, limit).to_json() if scopes else _EMPTY
    nodes = cast(list[JsonObject], page["nodes"])
    placed: list[JsonValue] = [*service.positions.place(reader.build_id, view.scopes(), nodes)]
    return {**page, "nodes": placed, "build_id": reader.build_id}


@router.get("/graph/outline", summary="Show the shape of the caller's whole graph", response_model=OutlineAnswer)
def outline(
    view: MayRead,
    service: SharedService,
    nodes: Annotated[int, Query(ge=1, le=MAX_OUTLINE_NODES, description="the most important ones")] = 10_000,
    links: Annotated[int, Query(ge=0, le=MAX_LINKS, description="between the most important nodes")] = 15_000,
) -> JsonObject:
    """Returns nodes with their places, and links as pairs of numbers of nodes: what a picture needs."""
    scopes, reader = view.scopes(), view.reader
    found = reader.graph_outline(scopes, nodes, links).to_json() if scopes else _NO_OUTLINE
    placed = service.positions.place(reader.build_id, scopes, cast(list[JsonObject], found["nodes"]))
    return {**found, "nodes": [*placed], "build_id": reader.build_id}


@router.get("/api/v1/knowledge/nodes", summary="List or find nodes", response_model=NodesAnswer)
def nodes(
    view: MayRead,
    name: Annotated[Name | None, Query(description="a name; without it all")] = None,
    collection: Collection = None,
    offset: Offset = 0,
    limit: Limit = 1000,
) -> JsonObject:
    """Returns the nodes with a name, or a page of all nodes."""
    scopes, reader = view.scopes(collection), view.reader
    if not scopes:
        return {"nodes": [], "next_offset": None}
    if name is not None:
        try:
            return {"nodes": reader.graph(scopes).node(name).to_json()["nodes"], "next_offset": None}
        except ArgumentError:  # no node has this name
            return {"nodes": [], "next_offset": None}
    page = reader.graph_page(scopes, offset, limit).to_json()
    return {"nodes": page["nodes"], "next_offset": page["next_offset"]}


@router.get("/api/v1/knowledge/edges", summary="List edges", response_model=EdgesAnswer)
def edges(view: MayRead, collection: Collection = None, offset: Offset = 0, limit: Limit = 1000) -> JsonObject:
    """Returns the edges that lead from or to a page of nodes."""
    scopes = view.scopes(collection)
    page = view.reader.graph_page(scopes, offset, limit).to_json() if scopes else _EMPTY
    return {"edges": page["edges"], "next_offset": page["next_offset"]}


@router.get("/api/v1/knowledge/graph", summary="Show what is near a node", response_model=GraphAnswer)
def near(
    view: MayRead,
    name: Annotated[Name, Query()],
    depth: Annotated[int, Query(ge=0, le=4)] = 2,
    collection: Collection = None,
) -> JsonObject:
    """Returns the nodes up to some steps from a node, and the edges and facts between them."""
    scopes = view.scopes(collection)
    if not scopes:
        raise NotFound
    try:
        return view.reader.graph(scopes).neighbors(name, depth).to_json()
    except ArgumentError:  # no node has this name
        raise NotFound from None


@router.post("/api/v1/knowledge/nodes", status_code=202, summary="Add a node")
def add_node(sent: SentNode, identity: MayWrite, service: SharedService) -> node_decisions.Decided:
    """Adds a node to the caller's graph, from the next build on."""
    values = NodeValues(
        type=sent.type, description=sent.description, aliases=tuple(sent.aliases), importance=sent.importance
    )
    return _decide(service, identity, sent, lambda home, scope: node_decisions.add_node(home, scope, sent.name, values))


@router.post("/api/v1/knowledge/edges", status_code=202, summary="Add an edge")
def add_edge(sent: SentEdge, identity: MayWrite, service: SharedService) -> node_decisions.Decided:
    """Adds an edge between two nodes of the caller's graph, from the next build on."""
    values = NodeValues(type=sent.type, weight=sent.weight)
    return _decide(
        service,
        identity,
        sent,
        lambda home, scope: node_decisions.add_edge(home, scope, sent.source, sent.target, values),
    )


def _decide(
    service: Service,
    identity: Identity,
    sent: SentNode | SentEdge,
    decide: Callable[[Home, ScopeKey], node_decisions.Decided],
) -> node_decisions.Decided:
    scope = Scope(sent.collection, identity.user, sent.project or "")
    with service.reader.view(identity) as view:
        if scope not in view.own_scopes():
            raise NotFound
    with service.writer.change() as home:
        try:
            return decide(home, (scope.collection, scope.user_id, scope.project_id))
        except (DamagedFile, ComponentFailed):
            raise
        except PalimpsestError:
            raise Problem(409, _REFUSED) from None


@router.get("/profile", summary="Show what is known of the caller", response_model=ProfileAnswer)
def profile(view: MayRead, collection: Collection = None, project: Project = None) -> JsonObject:
    """Returns what lasts and what is recent, each line with the memories that it rests on, read without a search."""
    mine = view.own_scopes(collection, project)
    if not mine:
        return {"user": view.identity.user, "static": [], "dynamic": []}
    return view.reader.profile(mine).to_json()
