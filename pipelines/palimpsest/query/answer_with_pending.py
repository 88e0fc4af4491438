"""An answer from a build together with what the inbox has for its scopes."""

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from palimpsest.query.embed_query import count_tokens
from palimpsest.query.pending import pending_lines, search_pending, unbuilt_scopes
from palimpsest.query.request.search_request import SearchRequest
from palimpsest.query.request.types import Scope
from palimpsest.query.result import SearchResult
from palimpsest.query.scope.backend import Backend
from palimpsest.query.scope.resolve_scopes import project_scopes
from palimpsest.query.turns.resolve import resolve_text


def answer_with_pending(
    request: SearchRequest,
    backend: Backend,
    home: Path,
    clock: dt.datetime,
    answer: Callable[[SearchRequest], SearchResult],
) -> SearchResult:
    """Answers a request, and adds pending texts of its scopes in at most a quarter of the budget of its context.

    Args:
        request: the search; its users and projects may be new.
        backend: the store of the build.
        home: whose inbox is searched.
        clock: the real time.
        answer: answers a request from the build alone.
    """
    request = replace(request, scopes=_scopes_of(request, backend, home), project=None)
    text = resolve_text(request.text, request.turns, request.brief).text
    pending = search_pending(home, backend.build_id, request.scopes, request, text, clock)
    lines, tokens = pending_lines(pending, request.budget_tokens, count_tokens)
    result = answer(replace(request, budget_tokens=request.budget_tokens - tokens))
    return replace(result, pending=pending, lines=(*result.lines, *lines))


def _scopes_of(request: SearchRequest, backend: Backend, home: Path) -> tuple[Scope, ...]:
    if not request.project:
        return request.scopes
    known = sorted({*backend.scopes(), *unbuilt_scopes(home, backend.build_id)})
    return tuple(sorted({s for at in request.scopes for s in project_scopes(known, *at[:2], request.project)}))
