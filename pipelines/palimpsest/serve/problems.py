"""Errors as problem details (RFC 9457): one form for all, and nothing of the inside in it."""

import logging
from collections.abc import Callable
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from palimpsest.core.errors import ArgumentError, PalimpsestError

MEDIA_TYPE = "application/problem+json"
_LOG = logging.getLogger("palimpsest.serve")
_MAX_DETAIL_CHARS = 300
_NAMES = {"operation_id": "Idempotency-Key"}
"""Names of arguments in requests, where they differ."""


class Problem(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None):
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers or {}


class NotFound(Problem):
    """The one answer for what is not there and for what is of somebody else."""

    def __init__(self) -> None:
        super().__init__(404, "there is no such thing, or it is not yours")


def problem_response(status: int, detail: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """Returns an error as problem details."""
    content = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    return JSONResponse(content, status, headers, MEDIA_TYPE)


def invalid_argument(error: RequestValidationError | ValidationError, name_of: Callable[[str], str] = str) -> str:
    """Returns what is wrong with the first argument that cannot be used, without its value.

    Args:
        error: of a request.
        name_of: gives the name that the caller knows an argument by.
    """
    first = error.errors()[0]
    place = ".".join(name_of(str(part)) for part in first["loc"] if part not in ("query", "body", "path"))
    return f"{place or 'body'}: {first['msg']}"[:_MAX_DETAIL_CHARS]


def add_handlers(app: FastAPI) -> None:
    """Makes every error of an app problem details."""

    @app.exception_handler(Problem)
    def _problem(_: Request, e: Problem) -> JSONResponse:
        return problem_response(e.status, e.detail, e.headers)

    @app.exception_handler(ArgumentError)
    def _argument(_: Request, e: ArgumentError) -> JSONResponse:
        # Other messages are about what the caller sent; this one would list the collections of the home.
        problem = "there is no such collection, or name one" if e.argument == "collection" else e.problem_for(str)
        return problem_response(422, f"{_NAMES.get(e.argument, e.argument)}: {problem}"[:_MAX_DETAIL_CHARS])

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
