"""Models of the answers of the service that are of no other part: what OpenAPI describes, made of existing fields."""

import datetime as dt
from typing import Literal

from pydantic import Field

from palimpsest.core.json_model import JsonModel, json_model
from palimpsest.core.message import Message
from palimpsest.pipeline.document_info import OperationStatus
from palimpsest.query.answer_models import AnyEdge, MemoryAnswer, SearchAnswer, StoredMemory, VersionAnswer
from palimpsest.query.compare_answers import ComparedMemory
from palimpsest.query.request.types import Fact, Node
from palimpsest.serve.guard import Permission
from palimpsest.serve.scheduled_builds import BuildsStatus
from palimpsest.store.proposals import Proposal
from palimpsest.store.proposals import State as ProposalState


class SearchWithMessage(SearchAnswer):
    """The answer to a search, and its context as one message of a chat, marked as data."""

    message: Message


class BuildName(JsonModel):
    """A build that the home keeps."""

    build_id: str
    created_at: dt.datetime
    is_published: bool = Field(description="whether searches read it")


class BuildsAnswer(JsonModel):
    """The builds that the home keeps."""

    builds: list[BuildName] = Field(description="newest first")


class ComparedAnswers(JsonModel):
    """The answers of two builds to one question."""

    before: str = Field(description="the earlier build")
    after: str = Field(description="the later build")
    memories: list[ComparedMemory] = Field(description="of the later answer in order, then those that left it")


class ReceivedOperation(JsonModel):
    """What was received, and the name by which its state is read."""

    operation_id: str
    state: Literal["received"]
    collection: str = Field(default_factory=str, description="of what is remembered: where its memories will be")


_OPERATION = json_model(OperationStatus, ("reason", "state", "collection", "uri"), optional=True)


class OperationAnswer(_OPERATION):  # type: ignore[misc, valid-type]
    """What became of something that was sent, or of a delete."""

    reason: str | None = Field(
        default_factory=type(None), description="why it was rejected or failed, is not published, or what was left out"
    )
    state: Literal["received", "rejected", "built", "published", "deleted", "consolidated", "failed"]
    collection: str = Field(default_factory=str, description="of what is remembered: where its memories are")
    uri: str = Field(default_factory=str, description="of its source")
    proof: dict[str, int | list[str]] = Field(default_factory=dict, description="of a delete: what is gone, in numbers")
    at: dt.datetime = Field(default_factory=dt.datetime.now, description="of a delete or consolidation: when it ended")
    open: int = Field(default_factory=int, description="of consolidation: open proposals of the caller")
    new: int = Field(default_factory=int, description="of consolidation: how many of them are new")
    expired: int = Field(default_factory=int, description="of consolidation: proposals that no longer hold")


class RecentMemories(JsonModel):
    """The newest memories of the caller."""

    memories: list[MemoryAnswer] = Field(description="newest first")
    next_offset: int | None


class MemoryHistory(JsonModel):
    """All versions of the fact that a memory states."""

    versions: list[VersionAnswer] = Field(description="newest first")


class MemorySource(JsonModel):
    """A memory among those before and after it."""

    memory_id: str
    memories: list[StoredMemory] = Field(description="in the order of their session or document")


class EditReceived(JsonModel):
    """A memory whose words were replaced in its source."""

    memory_id: str
    collection: str
    uri: str


class UpdateUndone(JsonModel):
    """The update of a memory that was taken back."""

    relation_id: str
    label: str
    stays_retired: bool = Field(description="whether something else retires the memory")


class PlacedNode(json_model(Node)):  # type: ignore[misc]
    """A node, and where it is drawn; null where an earlier version built it."""

    x: float | None
    y: float | None


class GraphPageAnswer(JsonModel):
    """A page of a whole graph."""

    nodes: list[PlacedNode] = Field(description="most important first")
    edges: list[AnyEdge]
    facts: list[Fact]
    total: int = Field(description="nodes of all pages")
    next_offset: int | None
    build_id: str


class OutlineNode(JsonModel):
    """A node of an outline."""

    id: str
    name: str
    type: str
    importance: float | None
    memory_count: int
    x: float | None
    y: float | None


class OutlineAnswer(JsonModel):
    """The shape of a whole graph."""

    nodes: list[OutlineNode]
    links: list[list[int]] = Field(description="places of both ends among the nodes")
    total_nodes: int
    total_links: int
    build_id: str


class NodesAnswer(JsonModel):
    """A page of nodes."""

    nodes: list[Node]
    next_offset: int | None


class EdgesAnswer(JsonModel):
    """The edges that lead from or to a page of nodes."""

    edges: list[AnyEdge]
    next_offset: int | None


class CallerAnswer(JsonModel):
    """The caller."""

    user: str
    permissions: list[Permission]
    projects: list[str]
    collections: list[str] = Field(description="that the caller may read")
    own_collections: list[str] = Field(description="that have memories of the caller, pending ones included")
    memories: int = Field(description="in the build")
    expires_at: dt.datetime | None = Field(description="of the token")
    build_id: str


class ProposalAnswer(json_model(Proposal, ("scope",))):  # type: ignore[misc]
    """A change that consolidation suggests, with the memories that it rests on."""

    proposal_id: str
    collection: str
    user_id: str
    project_id: str
    memories: list[StoredMemory]


class ProposalDecided(JsonModel):
    """A proposal as a caller sees it who may not read."""

    proposal_id: str
    state: ProposalState


class ProposalsAnswer(JsonModel):
    """A page of proposals."""

    proposals: list[ProposalAnswer]
    total: int
    next_offset: int | None


class Health(JsonModel):
    """That the process is alive, and the builds that it runs."""

    status: Literal["ok"]
    builds: BuildsStatus


class Ready(JsonModel):
    """That it can answer, and from which build."""

    status: Literal["ready"]
    build_id: str
