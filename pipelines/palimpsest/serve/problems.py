"""Errors as problem details (RFC 9457): one form for all, and nothing of the inside in it."""

import logging
from collections.abc import Callable
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, ValidationError
from starlette.exceptions import HTTPException

from palimpsest.core.errors import ArgumentError, PalimpsestError
from palimpsest.store.inbox import OWN_COLLECTION

MEDIA_TYPE = "application/problem+json"
_LOG = logging.getLogger("palimpsest.serve")
_MAX_DETAIL_CHARS = 300
_NAMES = {"operation_id": "Idempotency-Key"}
"""Names of arguments in requests, where they differ."""


TYPES = {
    400: "bad-request",
    401: "unauthorized",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    408: "request-timeout",
    409: "conflict",
    413: "too-large",
    415: "unsupported-media-type",
    422: "invalid-argument",
    429: "too-many-requests",
    431: "headers-too-large",
    500: "internal-error",
    503: "unavailable",
}
"""The type of a problem by its status; some have one of their own."""
UNKNOWN_COLLECTION, NO_COLLECTION, BUSY = "unknown-collection", "collection-required", "busy"
_URN = "urn:palimpsest:problem:"


class ProblemDetails(BaseModel):
    """An error (RFC 9457)."""

    type: str = Field(
        description="names the kind of the problem, for programs",
        json_schema_extra={"enum": [f"{_URN}{n}" for n in (*TYPES.values(), UNKNOWN_COLLECTION, NO_COLLECTION, BUSY)]},
    )
    title: str = Field(description="the phrase of the status")
    status: int
    detail: str = Field(description="what is wrong and what to do, for people", max_length=1_000)


class Problem(Exception):
    """An answer that is an error.

    Args:
        status: of HTTP.
        detail: what is wrong, for the caller.
        headers: of the answer.
        type: of the problem; that of the status by default.
    """

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None, type: str = ""):
        super().__init__(detail)
        self.status, self.detail, self.headers, self.type = status, detail, headers or {}, type


class NotFound(Problem):
    """The one answer for what is not there and for what is of somebody else."""

    def __init__(self) -> None:
        super().__init__(404, "there is no such thing, or it is not yours")


def problem_response(status: int, detail: str, headers: dict[str, str] | None = None, type: str = "") -> JSONResponse:
    """Returns an error as problem details."""
    known = type or TYPES.get(status)
    urn = f"{_URN}{known}" if known else "about:blank"
    content = {"type": urn, "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    return JSONResponse(content, status, headers, MEDIA_TYPE)


def invalid_argument(error: RequestValidationError | ValidationError, name_of: Callable[[str], str] = str) -> str:
    """Returns what is wrong with the first argument that cannot be used, without its value.

    Args:
        error: of a request.
        name_of: gives the name that the caller knows an argument by.
    """
    first = error.errors()[0]
    place = ".".join(name_of(str(part)) for part in first["loc"] if part not in ("query", "body", "path", "header"))
    return f"{place or 'body'}: {first['msg'].removeprefix('Value error, ')}"[:_MAX_DETAIL_CHARS]


def describe_problem(description: str) -> dict[str, object]:
    """Returns an error of an endpoint as OpenAPI describes it; `ProblemDetails` is one of the app's schemas."""
    schema = {"$ref": f"#/components/schemas/{ProblemDetails.__name__}"}
    return {"description": description, "content": {MEDIA_TYPE: {"schema": schema}}}


def add_handlers(app: FastAPI) -> None:
    """Makes every error of an app problem details."""

    @app.exception_handler(Problem)
    def _problem(_: Request, e: Problem) -> JSONResponse:
        return problem_response(e.status, e.detail, e.headers, e.type)

    @app.exception_handler(ArgumentError)
    def _argument(_: Request, e: ArgumentError) -> JSONResponse:
        if e.argument == "collection":  # its message would list the collections of the home
            unknown = e.value is not None
            problem = (
                "there is no such collection" if unknown else f"the home has several; name one, or {OWN_COLLECTION}"
            )
            return problem_response(
                422, f"collection: {problem}", type=UNKNOWN_COLLECTION if unknown else NO_COLLECTION
            )
        detail = f"{_NAMES.get(e.argument, e.argument)}: {e.problem_for(str)}"
        return problem_response(422, detail[:_MAX_DETAIL_CHARS])

    @app.exception_handler(PalimpsestError)
    def _failed(_: Request, e: PalimpsestError) -> JSONResponse:
        _LOG.warning("cannot answer", exc_info=e)
        return problem_response(503, "the memory store cannot answer now")

    @app.exception_handler(RequestValidationError)
    def _invalid(_: Request, e: RequestValidationError) -> JSONResponse:
        return problem_response(422, invalid_argument(e))

    @app.exception_handler(HTTPException)
    def _http(_: Request, e: HTTPException) -> JSONResponse:
        return problem_response(e.status_code, str(e.detail)[:_MAX_DETAIL_CHARS], dict(e.headers or {}))

    @app.exception_handler(Exception)
    def _unexpected(_: Request, e: Exception) -> JSONResponse:
        _LOG.error("unexpected", exc_info=e)
        return problem_response(500, "an error of the service; its log has the reason")
