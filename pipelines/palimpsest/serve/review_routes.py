"""Endpoints by which a caller decides about the own memories: relations, feedback, and a run of consolidation."""

from dataclasses import asdict
from typing import Annotated, Literal

import polars as pl
from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from palimpsest.consolidation.feedback import Verdict, give_feedback, has_feedback, take_feedback_back
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import SCOPE, JsonObject, JsonValue, json_value
from palimpsest.query.request.types import Scope
from palimpsest.relations.labelers.low_trust import REVIEW_REASONS
from palimpsest.relations.relation_review import TABLES, RelationDecision, current_build, decide, review_table
from palimpsest.serve.open_reader import CallerView
from palimpsest.serve.problems import NotFound, Problem
from palimpsest.serve.search_routes import Name
from palimpsest.serve.state import JsonRouter, MayRead, MayWriteView, Service, SharedService
from palimpsest.serve.views import own_scope
from palimpsest.store.builds import published
from palimpsest.store.home import Home

router = JsonRouter(tags=["review"])
Label = Literal["UPDATE", "EXTEND", "DERIVE", "NONE"]
_CONFLICT = "its label is that already, or a newer build has changed it"
_SHOWN = ("relation_id", "why", "label", "confidence", "likelihood", "newer_id", "newer", "older_id", "older")


class RelationToReview(BaseModel):
    """A relation that a person should look at, with the texts of its memories."""

    relation_id: str
    why: str = Field(description="the reason to look at it", json_schema_extra={"enum": list(REVIEW_REASONS)})
    label: Label
    confidence: float | None
    likelihood: float | None = Field(description="that the newer ends the older, of a dispute")
    newer_id: str
    newer: str
    older_id: str
    older: str


class RelationsToReview(BaseModel):
    """A page of them, the most serious reasons first; those with a hidden memory are left out of it."""

    relations: list[RelationToReview]
    next_offset: int | None


class DecidedRelation(BaseModel):
    """What was decided of a relation, from the next build on."""

    relation_id: str
    newer_id: str
    older_id: str
    was: Label
    label: Label
    stays_retired: str | None = Field(description="why the older memory is not latest all the same")


class RightLabel(BaseModel):
    """The right label of a relation."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [{"label": "EXTEND"}]})

    label: Label | None = Field(default=None, description="default: of confirm the one it has, of undo NONE")


class SentRelation(RightLabel):
    """Two memories of one scope, in either order, and how the newer relates to the older."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"memory_ids": ["cdb6bb060420f927", "7cfb228e1975cbb0"], "label": "UPDATE"}]},
    )

    memory_ids: Annotated[list[Name], Field(min_length=2, max_length=2)]


class SentFeedback(BaseModel):
    """What the caller says of a memory."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [{"verdict": "wrong"}]})

    verdict: Verdict = Field(description="right: sure from the next build on; wrong: not served from then on")


class FeedbackAnswer(BaseModel):
    """The feedback that counts for a memory from the next build on; null: none."""

    memory_id: str
    verdict: Verdict | None


class BegunOperation(BaseModel):
    """An operation that has begun; `GET /operations/{id}` has what became of it."""

    operation_id: str
    state: Literal["received"]


@router.get("/relations", summary="List relations to review", response_model=RelationsToReview)
def relations(
    view: MayRead,
    service: SharedService,
    why: Annotated[Name | None, Query(description="only for this reason")] = None,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> JsonObject:
    """Returns relations between the caller's own memories that a person should look at."""
    rows = _to_review(view, service)
    rows = rows if why is None else rows.filter(pl.col("why") == why)
    page = rows.select(_SHOWN)[offset : offset + limit].to_dicts()
    shown: list[JsonValue] = [json_value(row) for row in page if _is_visible(view, row["newer_id"], row["older_id"])]
    return {"relations": shown, "next_offset": offset + limit if offset + limit < rows.height else None}


@router.post("/relations", summary="Say how two memories relate", response_model=DecidedRelation)
def relate(sent: SentRelation, view: MayWriteView, service: SharedService) -> JsonObject:
    """Labels two memories of the caller, from the next build on; without a label, the one that the build has."""
    scopes = {own_scope(view, memory_id) for memory_id in sent.memory_ids}
    if len(scopes) != 1:
        raise NotFound
    return _decide(service, "confirm", tuple(sent.memory_ids), sent.label)


@router.post("/relations/{relation_id}/confirm", summary="Mark a relation as right", response_model=DecidedRelation)
def confirm(
    relation_id: Name, view: MayWriteView, service: SharedService, sent: RightLabel | None = None
) -> JsonObject:
    """Keeps its label, or gives it the right one, from the next build on."""
    _check_relation(view, service, relation_id)
    return _decide(service, "confirm", (relation_id,), sent.label if sent else None)


@router.post("/relations/{relation_id}/undo", summary="Mark a relation as wrong", response_model=DecidedRelation)
def undo(relation_id: Name, view: MayWriteView, service: SharedService, sent: RightLabel | None = None) -> JsonObject:
    """Takes it back: what it retired is latest again from the next build on, unless something else retires it."""
    _check_relation(view, service, relation_id)
    return _decide(service, "undo", (relation_id,), sent.label if sent else None)


@router.put("/memory/{memory_id}/feedback", summary="Say whether a memory is right", response_model=FeedbackAnswer)
def feedback(memory_id: Name, sent: SentFeedback, view: MayWriteView, service: SharedService) -> JsonObject:
    """Counts from the next build on; the last feedback of a memory counts."""
    with service.writer.change() as home:
        scope = _scope_of_feedback(view, home, memory_id) or own_scope(view, memory_id)
        give_feedback(home, scope, memory_id, sent.verdict)
    return {"memory_id": memory_id, "verdict": sent.verdict}


@router.delete("/memory/{memory_id}/feedback", summary="Take feedback back", response_model=FeedbackAnswer)
def forget_feedback(memory_id: Name, view: MayWriteView, service: SharedService) -> JsonObject:
    """Takes back what the caller said, from the next build on; where nothing was said, the answer is the same."""
    with service.writer.change() as home:
        if scope := _scope_of_feedback(view, home, memory_id):
            take_feedback_back(home, scope, memory_id)
    return {"memory_id": memory_id, "verdict": None}


@router.post("/consolidation", status_code=202, summary="Look for proposals", response_model=BegunOperation)
def consolidate(view: MayWriteView, service: SharedService) -> JsonObject:
    """Begins to look over all memories of the caller by rules; `GET /proposals` has what it proposes.

    While a run of the caller goes on, a second call returns the same operation.
    """
    if not (scopes := view.own_scopes()):
        raise NotFound
    user = view.identity.user
    begun = service.operations.begin_consolidation(user, frozenset(scopes))
    service.watch.follow(user, begun)
    return {"operation_id": begun, "state": "received"}


def _scope_of_feedback(view: CallerView, home: Home, memory_id: str) -> Scope | None:
    """Returns the caller's scope with feedback on a memory, which need not be served any more; None where none has."""
    return next((s for s in view.own_scopes() if has_feedback(home, s, memory_id)), None)


def _to_review(view: CallerView, service: Service) -> pl.DataFrame:
    """Returns the rows of `review_table` of the caller's own scopes."""
    build, scopes = published(service.home), view.own_scopes()
    if build is None or not scopes:
        return pl.DataFrame(schema=dict.fromkeys(_SHOWN, pl.String))
    mine = pl.DataFrame([tuple(s) for s in scopes], schema=dict.fromkeys(SCOPE, pl.String), orient="row")
    found = []
    for collection in sorted({s.collection for s in scopes}):
        tables = {name: build.table(collection, name) for name in TABLES}
        for name in ("memories", "relations"):
            tables[name] = tables[name].join(mine, on=SCOPE, how="semi", maintain_order="left")
        found.append(review_table(tables))
    return pl.concat(found).sort("rank", maintain_order=True)


def _check_relation(view: CallerView, service: Service, relation_id: str) -> None:
    """Checks that a relation is between memories of the caller.

    Raises:
        NotFound: it is not.
    """
    scopes = view.own_scopes()
    build = current_build(service.home) if scopes else None
    for collection in sorted({s.collection for s in scopes}):
        table = build.table(collection, "relations") if build else pl.DataFrame()
        for row in table.filter(pl.col("relation_id") == relation_id).iter_rows(named=True):
            if _is_visible(view, row["newer_id"], row["older_id"]):
                return
    raise NotFound


def _is_visible(view: CallerView, *memory_ids: str) -> bool:
    return all(view.reader.memory(view.own_scopes(), i) is not None for i in memory_ids)


def _decide(service: Service, kind: str, named: tuple[str, ...], label: Label | None) -> JsonObject:
    with service.writer.change() as home:
        try:
            (done,) = decide(home, kind, [named], label)
        except PalimpsestError:
            raise Problem(409, _CONFLICT) from None
    return decided_json(done)


def decided_json(done: RelationDecision) -> JsonObject:
    """Returns what was decided of a relation."""
    return {name: value for name, value in asdict(done).items() if name != "part"}
