"""Finds the source of a task in the scopes of a search and puts its brief in front of the context."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from palimpsest.core.errors import ArgumentError
from palimpsest.core.memory_types import TASK
from palimpsest.query.context.lines import ContextLine
from palimpsest.query.context.pack import Packed, pack
from palimpsest.query.embed_query import count_tokens
from palimpsest.query.request.arguments import MAX_K
from palimpsest.query.request.search_request import SearchRequest
from palimpsest.query.request.types import RankedMemory
from palimpsest.query.result import SearchResult

HEADING = "Task:"
_METADATA = "SELECT metadata FROM read_parquet(?) WHERE document_id = ?"
_MAX_SHARE = 2  # a brief takes half of the budget at most
_MAX_BRIEF_CHARS = 2_000  # that favor memories like it


@dataclass(frozen=True)
class TaskBrief:
    """The memories of a task's source in the order of its text, and what of them leads a context."""

    memories: tuple[RankedMemory, ...]
    packed: Packed

    @property
    def text(self) -> str:
        """The start of the task's text."""
        return " ".join(m.text for m in self.memories)[:_MAX_BRIEF_CHARS]


def answer_for_task(
    request: SearchRequest,
    answer: Callable[[SearchRequest], SearchResult],
    look_up: Callable[[SearchRequest], SearchResult],
) -> SearchResult:
    """Answers a request with the brief of its task first; memories like the brief rank a little higher.

    Args:
        request: the search, with a task.
        answer: answers a request without one.
        look_up: the same without counting reads.

    Raises:
        ArgumentError: no source of the scopes is that task.
    """
    found = find_task(request, look_up)
    brief, tokens = request.brief or found.text, found.packed.tokens + count_tokens(HEADING)
    result = answer(replace(request, task="", brief=brief, budget_tokens=max(0, request.budget_tokens - tokens)))
    if not found.packed.lines:
        return result
    ids = {*found.packed.packed_ids}
    heading = ContextLine(HEADING, mark="", tokens=count_tokens(HEADING))
    rest = tuple(line for line in result.lines if not (line.cites and ids.issuperset(line.cites)))
    return replace(
        result,
        lines=(heading, *found.packed.lines, *rest),
        packed_ids=(*found.packed.packed_ids, *(i for i in result.packed_ids if i not in ids)),
        cited={**result.cited, **{m.memory_id: m for m in found.memories if m.memory_id in ids}},
    )


def find_task(request: SearchRequest, look_up: Callable[[SearchRequest], SearchResult]) -> TaskBrief:
    """Returns the task that a request names by the uri or the title of its source.

    Raises:
        ArgumentError: there is none, or several sources have the title.
    """
    wanted = SearchRequest(
        request.task,
        request.scopes,
        project=request.project,
        types=(TASK,),
        k=MAX_K,
        budget_tokens=0,
        all_results=True,
        as_of=request.as_of,
        now=request.now,
        include_hidden=request.include_hidden,
        include_pii=request.include_pii,
    )
    memories = [m for m in look_up(wanted).memories if request.task in (m.uri, m.document_title, m.document_id)]
    sources = sorted({(m.collection, m.project_id, m.uri or "") for m in memories})
    if not sources:
        raise ArgumentError("task", "no memory of type task is of a source with this uri or title", request.task)
    if len(sources) > 1:
        raise ArgumentError("task", f"{len(sources)} sources have this title; name one by its uri", request.task)
    ordered = sorted(memories, key=lambda m: (m.ordinal or 0, m.char_start or 0, m.memory_id))
    packed = pack(ordered, {}, request.budget_tokens // _MAX_SHARE, count_tokens, sources=request.sources)
    return TaskBrief(tuple(ordered), packed)


def task_uris(build: Path, brief: TaskBrief) -> list[str]:
    """Returns the uri of a task's source, then those of the sources that its `links` name.

    Args:
        build: folder of the build.
        brief: of the task.
    """
    import duckdb

    memory = brief.memories[0]
    path = build / memory.collection / "documents.parquet"
    with duckdb.connect() as db:
        rows = db.execute(_METADATA, [str(path), memory.document_id]).fetchall()
    stated = [json.loads(row[0] or "{}").get("links") for row in rows]
    links = [link for value in stated for link in (value if isinstance(value, list) else [value])]
    return [memory.uri or "", *(link for link in links if isinstance(link, str))]
