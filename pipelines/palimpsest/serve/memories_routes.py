"""Endpoints that add, show and delete memories, and that show what became of an operation."""

import json
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

from fastapi import Header, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from palimpsest.core.errors import ArgumentError, PalimpsestError, Rejected
from palimpsest.core.ids import JsonObject
from palimpsest.core.message import Message
from palimpsest.export.edit_document import MAX_CHARS, EditedMemory, edit_memory
from palimpsest.pipeline.document_info import operation_status
from palimpsest.query.answer_models import MemoryAnswer
from palimpsest.query.request.types import Scope
from palimpsest.relations.relation_review import decide
from palimpsest.serve.answers import (
    EditReceived,
    MemoryHistory,
    MemorySource,
    OperationAnswer,
    ReceivedOperation,
    UpdateUndone,
)
from palimpsest.serve.guard import Identity
from palimpsest.serve.open_reader import CallerView
from palimpsest.serve.operations import DocumentName
from palimpsest.serve.problems import NotFound, Problem, invalid_argument
from palimpsest.serve.search_routes import IsoTime, Name, mark_older_shapes
from palimpsest.serve.state import (
    JsonRouter,
    MayDelete,
    MayDeleteAll,
    MayRead,
    MayReadOperations,
    MayWrite,
    MayWriteView,
    Service,
    SharedService,
)
from palimpsest.serve.views import check_own, own_scope, retiring_relation, show_history, show_memory, show_source
from palimpsest.sources.extracted import Source
from palimpsest.sources.inbox import InboxOptions, ingest_file, ingest_session

router = JsonRouter(tags=["memories"])
Key = Annotated[str | None, Header(alias="Idempotency-Key", max_length=200, description="a second call writes nothing")]
_FIELDS = ("collection", "project", "session", "type", "tags", "observed_at")


class SentMemory(BaseModel):
    """What is remembered: a text, or the turns of a conversation. Whose it is follows from the token."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [
                {"text": "I moved to Ghent.", "collection": "chats"},
                {"turns": [{"role": "user", "content": "Hi"}], "collection": "chats"},
            ]
        },
    )

    text: str | None = Field(default=None, max_length=1_000_000)
    turns: list[Message] = Field(default=[], max_length=10_000)
    speaker: Name | None = Field(default=None, description="who says the text; a message has a name of its own")
    collection: Name | None = Field(default=None, description="where to; by default where the user's memories are")
    project: Name | None = Field(default=None, description="its project; by default the general memory")
    session: Name | None = Field(default=None, description="the conversation it is of")
    type: Name | None = None
    tags: list[Name] = Field(default=[], max_length=20, description="by which it can be found")
    observed_at: IsoTime | None = Field(default=None, description="when it was said (ISO 8601); by default now")

    @model_validator(mode="after")
    def _has_one(self) -> "SentMemory":
        if (self.text is None) == (not self.turns):
            raise ValueError("give text or turns")
        return self


class EditedText(BaseModel):
    """The new words of a memory."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{"text": "The key is blue."}]}
    )

    text: str = Field(min_length=1, max_length=MAX_CHARS)


_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"$ref": f"#/components/schemas/{SentMemory.__name__}"}},
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {
                        "file": {"type": "string", "format": "binary"},
                        **{n: {"type": "string"} for n in _FIELDS if n != "tags"},
                    },
                }
            },
        },
    }
}


@router.post(
    "/memory",
    status_code=202,
    summary="Remember a text, a conversation or a file",
    openapi_extra=_BODY,
    response_model=ReceivedOperation,
)
async def add(
    request: Request, response: Response, identity: MayWrite, service: SharedService, key: Key = None
) -> JsonObject:
    """Receives it; a build makes memories of it. The answer names the operation."""
    from starlette.concurrency import run_in_threadpool

    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        async with request.form(max_files=1, max_fields=20) as form:
            file = form.get("file")
            if file is None or isinstance(file, str):
                raise Problem(422, "file: a form has one file, in the field `file`")
            sent = _parse({n: v for n, v in form.items() if n in _FIELDS and isinstance(v, str)} | {"text": "file"})
            return await run_in_threadpool(
                receive_file, service, identity, sent, file.filename or "", await file.read(), key
            )
    if kind != "application/json":
        raise Problem(415, "send application/json or multipart/form-data")
    try:
        content = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise Problem(422, "body: not JSON") from None
    sent = _parse(content)
    mark_older_shapes(sent.turns, response)
    return await run_in_threadpool(receive, service, identity, sent, key)


def _parse(content: object) -> SentMemory:
    try:
        return SentMemory.model_validate(content)
    except ValidationError as e:
        raise Problem(422, invalid_argument(e)) from None


def _options(sent: SentMemory, identity: Identity, key: str | None) -> InboxOptions:
    if sent.project and sent.project not in identity.projects:
        raise Problem(403, "the token does not name this project")
    given = {n: getattr(sent, n) for n in _FIELDS}
    return InboxOptions(**given, user=identity.user, operation_id=key)  # type: ignore[typeddict-item]


def receive(service: Service, identity: Identity, sent: SentMemory, key: str | None) -> JsonObject:
    """Sends a text or a conversation of a caller to the inbox; returns the operation."""
    turns = sent.turns or [Message.of_text(sent.text or "", sent.speaker)]
    receipt = ingest_session(service.home, turns, **_options(sent, identity, key))
    service.watch.follow(identity.user, receipt.operation_id)
    service.reader.form_pending(Scope(receipt.collection, identity.user))
    return {"operation_id": receipt.operation_id, "state": "received", "collection": receipt.collection}


def receive_file(
    service: Service, identity: Identity, sent: SentMemory, name: str, data: bytes, key: str | None
) -> JsonObject:
    """Sends a file of a caller to the inbox; returns the operation.

    Raises:
        Problem: its name cannot be used, or its type is none that is read.
    """
    _check_type(name, data)
    with tempfile.TemporaryDirectory(prefix="palimpsest-upload-") as folder:
        path = Path(folder, Path(name.replace("\\", "/")).name[-120:] or "upload")
        try:
            path.write_bytes(data)
        except (OSError, ValueError):
            raise Problem(422, "file: its name cannot be used") from None
        receipt = ingest_file(service.home, path, **_options(sent, identity, key))
    service.watch.follow(identity.user, receipt.operation_id)
    service.reader.form_pending(Scope(receipt.collection, identity.user))
    return {"operation_id": receipt.operation_id, "state": "received", "collection": receipt.collection}


def _check_type(name: str, data: bytes) -> None:
    from palimpsest.sources.readers.read_source import check_type

    try:
        check_type(Source(name, Path(name).suffix.lower(), data))
    except Rejected as e:
        raise Problem(415, f"file: {e}") from None


@router.get("/memory/{memory_id}", summary="Show a memory", response_model=MemoryAnswer)
def show(memory_id: Name, view: MayRead) -> JsonObject:
    """Returns one memory of the caller, a superseded one too."""
    return show_memory(view, memory_id)


@router.get("/memory/{memory_id}/history", summary="Show the versions of a memory's fact", response_model=MemoryHistory)
def history(memory_id: Name, view: MayRead) -> JsonObject:
    """Returns all versions of the fact, newest first, each with what replaced it and why."""
    return show_history(view, memory_id)


@router.get("/memory/{memory_id}/source", summary="Show a memory in its source", response_model=MemorySource)
def source(memory_id: Name, view: MayRead, reach: Annotated[int, Query(ge=0, le=50)] = 12) -> JsonObject:
    """Returns the memory among those before and after it in its session or document, in their order."""
    return show_source(view, memory_id, reach)


@router.put("/memory/{memory_id}", summary="Edit the words of a memory", response_model=EditReceived)
def edit(memory_id: Name, sent: EditedText, view: MayWriteView, service: SharedService) -> JsonObject:
    """Replaces its words in its source, served at once; the next build keeps what it was as history."""
    done = edit_own(service, view, memory_id, sent.text)
    return {"memory_id": memory_id, "collection": done.collection, "uri": done.uri}


def edit_own(service: Service, view: CallerView, memory_id: str, text: str) -> EditedMemory:
    """Replaces the words of a memory of the caller.

    Raises:
        NotFound: the caller has none with this id.
        Problem: it cannot be edited now.
    """
    scope = own_scope(view, memory_id)
    with service.writer.change() as home:
        try:
            done = edit_memory(home, (scope.collection, scope.user_id, scope.project_id), memory_id, text)
        except ArgumentError:
            raise
        except PalimpsestError:
            detail = "it was formed from others, or its source was edited or changed since the last build: build first"
            raise Problem(409, detail) from None
    view.reader.form_pending([scope])
    return done


@router.post(
    "/memory/{memory_id}/undo", summary="Take back the update that retired a memory", response_model=UpdateUndone
)
def undo(memory_id: Name, view: MayWriteView, service: SharedService) -> JsonObject:
    """Takes the update back: the next build serves the memory as latest again, unless something else retires it."""
    own_scope(view, memory_id)
    relation_id = retiring_relation(view, memory_id)
    with service.writer.change() as home:
        try:
            (done,) = decide(home, "undo", [(relation_id,)], None)
        except PalimpsestError:
            raise Problem(409, "it is decided already, or a newer build has changed it") from None
    return {"relation_id": done.relation_id, "label": done.label, "stays_retired": done.stays_retired}


@router.delete(
    "/memory/{memory_id}", status_code=202, summary="Delete a memory for good", response_model=ReceivedOperation
)
def remove(memory_id: Name, view: MayDelete, service: SharedService) -> JsonObject:
    """Deletes a memory of the caller and all that came from it; the operation has the proof."""
    check_own(view, memory_id)
    return begin_delete(service, view.identity, [memory_id])


@router.delete(
    "/users/me", status_code=202, summary="Delete everything of the caller for good", response_model=ReceivedOperation
)
def remove_all(identity: MayDeleteAll, service: SharedService) -> JsonObject:
    """Deletes all memories of the caller, in every project; the operation has the proof."""
    return begin_delete(service, identity, ())


def begin_delete(
    service: Service, identity: Identity, memories: Sequence[str], document: DocumentName | None = None
) -> JsonObject:
    """Begins a delete of memories or a document of a caller, of all without either; returns the operation."""
    hide = partial(service.reader.hide_pending, identity.user, memories)
    if memories:
        hide()
    begun = service.operations.begin(identity.user, memories, document, partial(hide, hidden=False))
    service.watch.follow(identity.user, begun)
    return {"operation_id": begun, "state": "received"}


@router.get(
    "/operations/{operation_id:path}", summary="Show what became of an operation", response_model=OperationAnswer
)
def operation(operation_id: Name, identity: MayReadOperations, service: SharedService) -> JsonObject:
    """Returns the state of what was sent or deleted: received, rejected, built, published, deleted or failed."""
    return find_operation(service, identity, operation_id)


def find_operation(service: Service, identity: Identity, operation_id: str) -> JsonObject:
    """Returns what became of an operation of a caller.

    Raises:
        NotFound: the caller has none with this id.
    """
    if found := service.operations.status(operation_id, identity.user):
        return found
    try:
        return operation_status(service.home, operation_id, identity.user).for_sender().to_json()
    except PalimpsestError:
        raise NotFound from None
