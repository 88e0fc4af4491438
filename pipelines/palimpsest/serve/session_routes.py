"""Endpoints that read a session or a scope as a whole: its summary, and the working set of a task."""

import datetime as dt
from collections.abc import Iterable
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field, model_validator

from palimpsest.core.ids import JsonObject, json_value
from palimpsest.core.message import Message
from palimpsest.query.request.types import Scope
from palimpsest.query.summarize import MAX_SENTENCES, Summary
from palimpsest.query.task import WorkingTurn
from palimpsest.serve.open_reader import CallerView
from palimpsest.serve.search_routes import Name
from palimpsest.serve.state import JsonRouter, MayRead, SharedService
from palimpsest.store.inbox import OWN_COLLECTION

router = JsonRouter(tags=["sessions"])
Sentences = Annotated[int, Query(ge=1, le=MAX_SENTENCES, description="at most")]


class WorkingSetBody(BaseModel):
    """A session, and how much of it fits."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"session": "s1", "turns": [{"role": "user", "content": "Where were we?"}]}]},
    )

    session: Name
    turns: list[Message] = Field(default=[], max_length=1_000, description="not stored yet, oldest first")
    collection: Name | None = None
    project: Name | None = None
    budget_tokens: int = Field(default=800, ge=1, le=100_000, description="of all files and turns")
    max_turns: int = Field(default=50, ge=1, le=1_000)
    paths: list[Name] = Field(default=[], max_length=20, description="active files: uris of sources")


class WorkingSetAnswer(BaseModel):
    """The last turns of a session, oldest first, within a window."""

    session: str
    turns: list[WorkingTurn]
    tokens: int = Field(description="of all turns and files")
    left_out: int = Field(description="earlier turns that do not fit")
    files: list[WorkingTurn] = Field(description="the active files from their start")
    files_left_out: int = Field(description="memories of these files that do not fit half of the window")
    message: Message


class SummaryOf(BaseModel):
    """What is summed up: a session, a task, or, without either, all sessions."""

    session: Name | None = Field(default=None, description="only this session")
    task: Name | None = Field(default=None, description="only the source with this uri or title, and what it links to")
    sentences: int = Field(default=5, ge=1, le=MAX_SENTENCES, description="at most")
    collection: Name | None = Field(default=None, description="only this collection")
    project: Name | None = Field(default=None, description="only this project and the general memory")

    @model_validator(mode="after")
    def _has_one(self) -> "SummaryOf":
        if self.session and self.task:
            raise ValueError("give session or task")
        return self


@router.get("/summary", summary="Sum up a session, a task or all sessions", response_model=Summary)
def summary(of: Annotated[SummaryOf, Query()], view: MayRead) -> JsonObject:
    """Returns sentences of the caller's own memories in their order, each with its memory; nothing is written anew."""
    scopes = view.own_scopes(of.collection, of.project)
    if not scopes:
        return Summary((), 0, 0).to_json()
    if of.session:
        return view.reader.summarize_session(scopes, of.session, of.sentences).to_json()
    if of.task:
        return view.reader.summarize_task(scopes, of.task, of.sentences).to_json()
    return view.reader.summarize(scopes, of.sentences).to_json()


@router.post("/working-set", summary="Show the last turns of a session", response_model=WorkingSetAnswer)
def working_set(body: WorkingSetBody, view: MayRead, service: SharedService) -> JsonObject:
    """Returns the active files and the last turns, whatever their content; those too that no build has yet."""
    scopes = view.scopes(body.collection, body.project, include_pending=True)
    with service.searching:
        found = view.reader.working_set(
            scopes or Scope(body.collection or OWN_COLLECTION, view.identity.user),  # who has sent nothing yet
            body.session,
            [*_pending_turns(view, scopes, body.session), *body.turns],
            budget_tokens=body.budget_tokens,
            max_turns=body.max_turns,
            paths=body.paths,
        )
    return {**json_value(found), "message": dict(found.message())}


def _pending_turns(view: CallerView, scopes: Iterable[Scope], session: str) -> list[Message]:
    """Returns the caller's turns of a session that are in no build yet, in their order."""
    own = [s for s in scopes if s.user_id == view.identity.user]
    of_session = [text for text in view.reader.pending_texts(own) if text.session_id == session]
    of_session.sort(key=lambda t: t.observed_at or dt.datetime.min.replace(tzinfo=dt.UTC))
    return [Message.of_text(t.text, t.speaker) for t in of_session]
