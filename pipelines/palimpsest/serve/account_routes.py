"""Endpoints about the caller: who it is, and what consolidation proposes of the caller's memories."""

import datetime as dt
from collections.abc import Iterator
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from palimpsest.consolidation import decide
from palimpsest.consolidation.consolidate import by_worth
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import JsonObject, JsonValue
from palimpsest.query.result import memory_json
from palimpsest.serve.answers import CallerAnswer, ProposalAnswer, ProposalDecided, ProposalsAnswer
from palimpsest.serve.open_reader import CallerView
from palimpsest.serve.problems import NotFound, Problem
from palimpsest.serve.search_routes import Name
from palimpsest.serve.state import JsonRouter, MayRead, MayWriteView, SharedService
from palimpsest.store.proposals import Proposal, read_proposals

router = JsonRouter(tags=["account"])
_DECIDED = {"confirm": ("confirmed", "applied"), "reject": ("rejected",), "undo": ("open",)}
"""States in which a decision has been made: who sends it again gets the same answer."""
_CONFLICT = "it cannot be decided so: it is not open any more, or it needs the memory that stays"


class Decision(BaseModel):
    """What is decided of a proposal."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{"keep": "cdb6bb060420f927"}]}
    )

    keep: str = Field(default="", max_length=64, description="the memory that stays, of a contradiction")


@router.get("/users/me", summary="Who is the caller?", response_model=CallerAnswer)
def me(view: MayRead) -> JsonObject:
    """Returns the user of the token, what it allows, its projects and collections, and how many memories there are."""
    identity, scopes = view.identity, view.formed_scopes()
    own = [s for s in scopes if s.user_id == identity.user]
    expires = dt.datetime.fromtimestamp(identity.expires_at, dt.UTC) if identity.expires_at < 2**40 else None
    return {
        "user": identity.user,
        "permissions": sorted(identity.permissions),
        "projects": sorted(identity.projects),
        "collections": sorted({s.collection for s in scopes}),
        "own_collections": sorted({s.collection for s in own}),
        "memories": view.reader.memory_count(own, include_pending=True) if own else 0,
        "expires_at": expires.isoformat() if expires else None,
        "build_id": view.reader.build_id,
    }


@router.get(
    "/proposals", summary="List what consolidation proposes of the caller's memories", response_model=ProposalsAnswer
)
def proposals(
    view: MayRead,
    service: SharedService,
    state: Annotated[str, Query(pattern="^(open|confirmed|applied|rejected)$")] = "open",
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> JsonObject:
    """Returns proposals with the memories that they rest on: contradictions first, corrections of confidence last."""
    known = by_worth(read_proposals(service.home.path).values())
    own = [p for p in known if p.state == state and _is_own(view, p)]
    shown: list[JsonValue] = list(_shown(view, own[offset : offset + limit]))
    more = offset + limit if offset + limit < len(own) else None
    return {"proposals": shown, "total": len(own), "next_offset": more}


@router.post(
    "/proposals/{proposal_id}/confirm",
    summary="Apply a proposal, from the next build on",
    response_model=ProposalAnswer | ProposalDecided,
)
def confirm(
    proposal_id: Name, view: MayWriteView, service: SharedService, decision: Decision | None = None
) -> JsonObject:
    """Returns the proposal as it is then."""
    return _decide(view, service, proposal_id, "confirm", decision.keep if decision else "")


@router.post(
    "/proposals/{proposal_id}/reject",
    summary="Close a proposal for good",
    response_model=ProposalAnswer | ProposalDecided,
)
def reject(proposal_id: Name, view: MayWriteView, service: SharedService) -> JsonObject:
    """Returns the proposal as it is then."""
    return _decide(view, service, proposal_id, "reject")


@router.post(
    "/proposals/{proposal_id}/undo",
    summary="Take back what was decided of a proposal",
    response_model=ProposalAnswer | ProposalDecided,
)
def undo(proposal_id: Name, view: MayWriteView, service: SharedService) -> JsonObject:
    """Returns the proposal as it is then: open again."""
    return _decide(view, service, proposal_id, "undo")


def _decide(view: CallerView, service: SharedService, proposal_id: str, what: str, keep: str = "") -> JsonObject:
    known = read_proposals(service.home.path).get(proposal_id)
    if known is None or not _is_own(view, known):
        raise NotFound
    if known.state in _DECIDED[what] and keep in ("", known.keep):
        return _answer(view, known)
    with service.writer.change() as home:
        try:
            if what == "confirm":
                (done,) = decide.confirm(home, [proposal_id], keep)
            else:
                (done,) = (decide.reject if what == "reject" else decide.undo)(home, [proposal_id])
        except PalimpsestError:
            raise Problem(409, _CONFLICT) from None
    return _answer(view, done)


def _answer(view: CallerView, proposal: Proposal) -> JsonObject:
    if "read" not in view.identity.permissions:
        return {"proposal_id": proposal.proposal_id, "state": proposal.state}
    return next(_shown(view, [proposal]))


def _is_own(view: CallerView, proposal: Proposal) -> bool:
    """Returns whether a proposal is of the caller's own scopes and rests on memories that the caller may see."""
    scopes = [s for s in view.own_scopes() if (s.collection, s.user_id, s.project_id) == proposal.scope]
    return bool(scopes) and all(view.reader.memory(scopes, i) is not None for i in proposal.memory_ids)


def _shown(view: CallerView, proposals: list[Proposal]) -> Iterator[JsonObject]:
    for proposal in proposals:
        memories = (view.reader.memory(view.own_scopes(), i) for i in proposal.memory_ids)
        yield {**proposal.to_json(), "memories": [memory_json(m) for m in memories if m]}
