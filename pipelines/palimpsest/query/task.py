"""A task and its session: the brief that leads a context, and the files and turns at hand."""

import datetime as dt
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from palimpsest.core.errors import ArgumentError
from palimpsest.core.files import counted
from palimpsest.core.ids import REFLECTION, TASK, JsonValue
from palimpsest.core.message import Message
from palimpsest.query.context.lines import ChatMessage, ContextLine, Role, as_data, check_role
from palimpsest.query.context.pack import Packed, pack
from palimpsest.query.embed_query import count_tokens
from palimpsest.query.request.search_request import MAX_K, ScopeArgument, SearchRequest, clean_turns, parse_scopes
from palimpsest.query.request.types import RankedMemory, one_line
from palimpsest.query.request.where import Condition, Value, Where
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
    rest = {"task": "", "brief": brief, "budget_tokens": max(0, request.budget_tokens - tokens)}
    result = answer(request.model_copy(update=rest))
    if not found.packed.lines:
        return result
    ids = {*found.packed.packed_ids}
    heading = ContextLine(HEADING, mark="", tokens=count_tokens(HEADING))
    others = tuple(line for line in result.lines if not (line.cites and ids.issuperset(line.cites)))
    return replace(
        result,
        lines=(heading, *found.packed.lines, *others),
        packed_ids=(*found.packed.packed_ids, *(i for i in result.packed_ids if i not in ids)),
        cited={**result.cited, **{m.memory_id: m for m in found.memories if m.memory_id in ids}},
    )


def find_task(request: SearchRequest, look_up: Callable[[SearchRequest], SearchResult]) -> TaskBrief:
    """Returns the task that a request names by the uri or the title of its source.

    Raises:
        ArgumentError: there is none, or several sources have the title.
    """
    wanted = SearchRequest.model_construct(  # a title need not have words
        text=request.task,
        scopes=request.scopes,
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


# What matters in the current session: its active files, its stored turns, then those of the caller.
#
# Everything that fits the window is included, the newest turns first; nothing is ranked. What is left out is counted.

_TURN_TOKENS = 4  # of a message around its text
_FILES_SHARE = 2  # files take half of the window at most
_LONG_AGO = dt.datetime(1, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class WorkingTurn:
    """A turn of the session.

    Attributes:
        text: of the turn, one that the caller gave as a message with its role before it.
        memory_id: of a stored turn, for its citation; None for one that is not built yet or that the caller gave.
    """

    text: str
    speaker: str | None = None
    observed_at: dt.datetime | None = None
    memory_id: str | None = None

    @property
    def line(self) -> str:
        """The turn on one line, with when, who and the citation."""
        when = f"{self.observed_at:%Y-%m-%d %H:%M}" if self.observed_at else ""
        head = ", ".join(part for part in (when, self.speaker) if part)
        cited = f" [memory:{self.memory_id}]" if self.memory_id else ""
        return one_line(f"{f'({head}) ' if head else ''}{self.text}") + cited


@dataclass(frozen=True)
class WorkingSet:
    """The last turns of a session, oldest first, within a window.

    Attributes:
        turns: in the order of the session.
        tokens: of all lines.
        left_out: how many earlier turns do not fit the window.
        files: the active files from their start, in the order in which the caller names them.
        files_left_out: how many memories of these files do not fit half of the window.
    """

    session: str
    turns: tuple[WorkingTurn, ...]
    tokens: int
    left_out: int
    files: tuple[WorkingTurn, ...] = ()
    files_left_out: int = 0

    def message(self, role: Role = "user") -> ChatMessage:
        """Returns the files and turns as one message, marked as data.

        Raises:
            ArgumentError: there is no such role.
        """
        check_role(role)
        files = ["Files:", *(f"- {part.line}" for part in self.files)] if self.files else []
        files += (
            [f"({counted(self.files_left_out, 'more part')} of these files left out)"] if self.files_left_out else []
        )
        note = [f"({self.left_out} earlier turns left out)"] if self.left_out else []
        lines = [*files, *(["Turns:"] if files else []), *note, *(f"- {turn.line}" for turn in self.turns)]
        return {"role": role, "content": as_data("\n".join(lines), "Turns of this session", "session")}


def read_working_set(
    scope: ScopeArgument,
    session: str,
    turns: Sequence[Message | Mapping[str, JsonValue] | str],
    answer: Callable[[SearchRequest], SearchResult],
    count: Callable[[str], int],
    *,
    budget_tokens: int,
    max_turns: int,
    paths: Sequence[str] = (),
) -> WorkingSet:
    """Returns the last turns of a session: stored ones by time and place, then the caller's.

    A stored turn whose text the caller gives too is the caller's.

    Args:
        scope: one scope or several.
        session: its id.
        turns: what is not stored yet, oldest first: messages with `role` and `content`.
        answer: answers a search.
        count: counts the tokens of a text.
        budget_tokens: of all lines.
        max_turns: at most.
        paths: active files: uris of sources.

    Raises:
        ArgumentError: the session is blank, a limit is below 1, or no memory of a file may be shown.
    """
    if not session.strip():
        raise ArgumentError("session", "is empty; name one")
    for name, value in (("budget_tokens", budget_tokens), ("max_turns", max_turns)):
        if value < 1:
            raise ArgumentError(name, "must be 1 or more", value)
    given = [WorkingTurn(text) for text in clean_turns(turns)]
    known = {" ".join(turn.text.partition(": ")[2].split() or turn.text.split()) for turn in given}
    known |= {" ".join(turn.text.split()) for turn in given}
    stored = [t for t in _stored_turns(scope, session, answer) if " ".join(t.text.split()) not in known]
    every = [*stored, *given]
    parts = [part for path in dict.fromkeys(paths) for part in _file_parts(scope, path, answer)]
    files, used = _within(parts, budget_tokens // _FILES_SHARE, count)
    kept, tokens = _within(every[-max_turns:][::-1], budget_tokens - used, count)
    return WorkingSet(
        session,
        tuple(reversed(kept)),
        used + tokens,
        len(every) - len(kept),
        tuple(files),
        len(parts) - len(files),
    )


def _within(turns: Sequence[WorkingTurn], budget: int, count: Callable[[str], int]) -> tuple[list[WorkingTurn], int]:
    """Returns the first turns that fit a budget, and their tokens."""
    kept: list[WorkingTurn] = []
    tokens = 0
    for turn in turns:
        size = count(turn.line) + _TURN_TOKENS
        if tokens + size > budget:
            break
        kept.append(turn)
        tokens += size
    return kept, tokens


def _file_parts(scope: ScopeArgument, path: str, answer: Callable[[SearchRequest], SearchResult]) -> list[WorkingTurn]:
    """Returns the memories of a source in the order of its text.

    Raises:
        ArgumentError: no memory of it may be shown.
    """
    of_file = Where(path, Condition("uri", "=", (Value("text", path, path),)))
    request = SearchRequest.model_construct(
        text="file", scopes=parse_scopes(scope), k=MAX_K, hops=0, where=of_file, budget_tokens=0, all_results=True
    )
    found = sorted((m for m in answer(request).memories if m.unit != REFLECTION), key=_place)
    if not found:
        raise ArgumentError("paths", "no memory of a source with this uri may be shown in this scope", path[:200])
    return [WorkingTurn(m.text, m.uri, m.observed_at, m.memory_id) for m in found]


def _stored_turns(
    scope: ScopeArgument, session: str, answer: Callable[[SearchRequest], SearchResult]
) -> list[WorkingTurn]:
    """Returns the turns of a session by time and place, at most `MAX_K`; no formed memory is one."""
    request = SearchRequest.model_construct(
        text=session, scopes=parse_scopes(scope), k=MAX_K, hops=0, session=session, budget_tokens=0, all_results=True
    )
    found = sorted((m for m in answer(request).memories if m.unit != REFLECTION), key=_place)
    return [WorkingTurn(m.text, m.speaker, m.observed_at, m.memory_id) for m in found]


def _place(memory: RankedMemory) -> tuple[dt.datetime, str, int, int, str]:
    """Returns the place of a memory by time, then in its source."""
    start = memory.char_start or 0
    return memory.observed_at or _LONG_AGO, memory.uri or "", memory.ordinal or 0, start, memory.memory_id
