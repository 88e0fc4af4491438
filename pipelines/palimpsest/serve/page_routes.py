"""Endpoints that send the page: files of this package, by their names alone, without a token."""

import hashlib
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from palimpsest.serve.drawing_library import NAMES
from palimpsest.serve.problems import NotFound
from palimpsest.serve.state import SharedService

router = APIRouter(include_in_schema=False)
_FOLDER = Path(__file__).with_name("static")
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


@cache
def _files() -> dict[str, Path]:
    """Returns the files of the page by the names under which they are sent: no other file is ever read."""
    return {p.relative_to(_FOLDER).as_posix(): p for p in sorted(_FOLDER.rglob("*")) if p.suffix in _TYPES}


@router.get("/")
def index() -> Response:
    """Sends a browser to the page."""
    return RedirectResponse("/page/", 307)


@router.get("/page/")
def page(request: Request) -> Response:
    """Sends the page."""
    return _sent(request, "index.html", _files()["index.html"].read_bytes())


@router.get("/page/{name:path}")
def file(name: str, request: Request, service: SharedService) -> Response:
    """Sends one of the page's files.

    Raises:
        NotFound: the page has no such file.
    """
    if name in NAMES:
        return _sent(request, name, service.drawing.read(name))
    if name not in _files():
        raise NotFound
    return _sent(request, name, _files()[name].read_bytes())


def _sent(request: Request, name: str, content: bytes) -> Response:
    """Returns a file, or that the browser's copy is the same."""
    tag = f'"{hashlib.blake2b(content, digest_size=12).hexdigest()}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=_TYPES[Path(name).suffix], headers=headers)
