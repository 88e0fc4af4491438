"""A search as a value: what `Reader.search` builds, and what a service reads from JSON."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypedDict, Unpack, cast, get_args

from palimpsest.core.errors import ArgumentError
from palimpsest.core.json_types import JsonObject, JsonValue
from palimpsest.core.memory_types import MEMORY_TYPES, TASK
from palimpsest.query.request.arguments import (
    MAX_HOPS,
    MAX_K,
    MAX_TEXT_CHARS,
    ScopeArgument,
    When,
    check_numbers,
    clean_brief,
    clean_text,
    clean_texts,
    clean_turns,
    parse_datetime,
    parse_duration,
    parse_names,
    parse_scopes,
    parse_score,
)
from palimpsest.query.request.strategies import Weights
from palimpsest.query.request.types import Filters, Scope
from palimpsest.query.request.where import Where, parse_where

# How the strategy `hierarchical` uses the nodes of a scope.

MAX_DEPTH = 2
NODE_OPTIONS = ("narrow", "node_types", "node_where", "depth")
_STRATEGY = "hierarchical"


@dataclass(frozen=True)
class NodeSearch:
    """What a search of nodes finds, and what becomes of the rest.

    Attributes:
        narrow: only memories of the nodes found are results; otherwise these are lifted.
        types: of the nodes to start from; empty means all.
        where: what the fields and the metadata of these nodes must satisfy; None means all.
        depth: edges that are followed from the nodes found, 0 to `MAX_DEPTH`.
    """

    narrow: bool = False
    types: tuple[str, ...] = ()
    where: Where | None = None
    depth: int = 1


def parse_node_search(options: Mapping[str, object], strategy: object) -> NodeSearch:
    """Returns what `NODE_OPTIONS` say.

    Raises:
        ArgumentError: one is out of range or not understood, or given with another strategy than hierarchical.
    """
    where = options.get("node_where")
    if where is not None and not isinstance(where, str):
        raise ArgumentError("node_where", "must be a text")
    given = NodeSearch(
        narrow=bool(options.get("narrow", False)),
        types=clean_texts("node_types", options.get("node_types", ())),  # type: ignore[arg-type]
        where=parse_where(where, "node_where") if where is not None else None,
        depth=options.get("depth", 1),  # type: ignore[arg-type]
    )
    if not isinstance(given.depth, int) or not 0 <= given.depth <= MAX_DEPTH:
        raise ArgumentError("depth", f"must be 0 to {MAX_DEPTH}", given.depth)
    if given != NodeSearch() and isinstance(strategy, str) and strategy != _STRATEGY:
        raise ArgumentError("strategy", f"must be {_STRATEGY} with narrow, node_types, node_where or depth", strategy)
    return given


# The keyword arguments of a search.


class SearchOptions(TypedDict, total=False):
    """The keyword arguments of a search, with their defaults.

    Attributes:
        k (10): how many memories at most, 1 to 1000.
        all_results (False): return k results, also those that are hardly evidence; the context is without them.
        hops (1): links to follow from the best, 0 to 2; `flat` follows none.
        strategy ("auto"): a name of `STRATEGIES`, or auto: what the build chose for the collection, with the
            weights that the collection's settings give; or `Weights`, which are taken as they are.
        as_of: answer from what was current then; a date alone means the end of that day. Without it, a question
            that asks for it in words (`as of May 2026`, `what did we believe on 3 March`) is answered so.
        history (False): superseded versions are candidates too.
        type: memory type to stay in; one of `types`.
        types: memory types, any of them.
        tag: a tag that memories must have; one of `tags`.
        tags: tags, any of which memories must have. `where` can require all of several.
        where: what the fields of a memory and of its document's metadata must satisfy, such as
            `category = "academic" and stressor = true`: see `palimpsest.query.request.where`.
        accessed_within: how long ago memories were last among the results of a search of this home, at most: a
            timedelta, or 12h, 30d or 4w.
        min_score: least cosine of a memory's best window with the question, -1 to 1: results below it are left
            out. Cosines of the same embedder compare between questions, scores of the ranking do not.
        since: earliest observed_at; a date alone means its start by each speaker's own clock.
        until: latest observed_at; a date alone means its end by each speaker's own clock.
        project: search this project of the scope's user too; the scope itself is the user's general memory.
        session: session to stay in.
        now: when the question is put: only what is valid then is a candidate, and `last week` is counted from it,
            or from `as_of`; without either only the words are searched for.
        budget_tokens (1200): of the context, by the embedder's count, citations included.
        explain (False): say of each memory why it is there.
        include_hidden (False): serve memories marked `user_visible: false` too.
        include_pii (False): serve memories marked `pii: true` too.
        turns (()): what was written before, oldest first: texts, or messages with `role` and `content`. The last
            five are read. A follow-up question takes from them what it leaves open; a complete one is searched as
            it is. They are stored nowhere.
        brief (""): what the task is about. Among the candidates, memories that fit it rank a little higher.
        paths (()): files of the task. Memories of sources with such a path, or in its folder, rank a little
            higher.
        abstain (False): return no memories where none is likely to hold an answer: where the highest relevance is
            below .1.
        compress ("words"): what picks the sentences of long results where the context cannot hold all results:
            the words of the question, or `lm`, the language model that the home was opened with.
        sources ("short"): how the context cites: `short`, by number, with a line for each document; `full`, by id, with
            the place of each memory; `none`, by number, without sources. The result's `citations` has the ids.
        subgraph (False): return the nodes, edges and facts of the results and how they relate, and add relations
            and facts to the context as short lines, in the tokens that its memories leave.
        tiers (()): tiers to stay in, any of them: `personal`, the user's general memory; `project`, that of
            projects; `task`, memories of type task, which are in no other tier.
        task (""): uri or title of a source of type task in the scopes: its text leads the context, in half of its
            budget at most and whatever the other filters are, and memories like it rank a little higher.
        include_pending (False): also search texts of the inbox that no build has formed yet, by words, in the same
            scopes: the result's `pending`, and lines at the end of the context, in a quarter of its budget.
        narrow, node_types, node_where, depth: of the strategy hierarchical; see `NodeSearch`.
    """

    k: int
    all_results: bool
    hops: int
    strategy: str | Weights
    as_of: When | None
    history: bool
    type: str | None
    types: Sequence[str]
    tag: str | None
    tags: Sequence[str]
    where: str | None
    accessed_within: dt.timedelta | str | None
    min_score: float | None
    since: When | None
    until: When | None
    project: str | None
    session: str | None
    now: When | None
    budget_tokens: int
    explain: bool
    include_hidden: bool
    include_pii: bool
    turns: Sequence[str | Mapping[str, str]]
    brief: str
    paths: Sequence[str]
    abstain: bool
    compress: str
    sources: str
    subgraph: bool
    narrow: bool
    node_types: Sequence[str]
    node_where: str | None
    depth: int
    include_pending: bool
    tiers: Sequence[str]
    task: str


# The JSON schema of a search: the fields that a service reads, their kinds and defaults.

COMPRESS = ("words", "lm", "none")
Sources = Literal["short", "full", "none"]
SOURCES: tuple[Sources, ...] = get_args(Sources)

_KINDS: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "array": list,
    "boolean": bool,
    "null": type(None),
}


class Property(TypedDict, total=False):
    """A field as JSON schema describes it."""

    type: str | list[str]
    description: str
    default: JsonValue
    items: dict[str, str | list[str]]
    enum: list[str]
    minimum: int
    maximum: int
    minLength: int


def is_kind(value: JsonValue, kind: str) -> bool:
    """Returns whether a value is of a kind of JSON schema."""
    return isinstance(value, _KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _time(description: str) -> Property:
    return {"type": ["string", "null"], "description": f"{description}; ISO 8601 date or date-time", "default": None}


def _name(description: str) -> Property:
    return {"type": ["string", "null"], "description": description, "default": None}


def _texts(description: str) -> Property:
    return {"type": "array", "items": {"type": "string"}, "description": description, "default": []}


def _flag(description: str) -> Property:
    return {"type": "boolean", "description": description, "default": False}


PROPERTIES: dict[str, Property] = {
    "text": {
        "type": "string",
        "description": f"The question; what is beyond {MAX_TEXT_CHARS:,} characters is not read",
        "minLength": 1,
    },
    "k": {"type": "integer", "description": "How many memories at most", "minimum": 1, "maximum": MAX_K, "default": 10},
    "all_results": _flag("Return k memories, also those that are hardly evidence"),
    "hops": {
        "type": "integer",
        "description": "Links to follow from the best memories",
        "minimum": 0,
        "maximum": MAX_HOPS,
        "default": 1,
    },
    "strategy": {"type": "string", "description": "How to rank: auto, or the name of a strategy", "default": "auto"},
    "as_of": _time("Answer from what was current then"),
    "history": _flag("Superseded versions are candidates too"),
    "type": _name("Memory type to stay in"),
    "types": _texts("Memory types to stay in, any of them"),
    "tag": _name("A tag that memories must have"),
    "tags": _texts("Tags, any of which memories must have"),
    "where": _name('What the fields of memories must satisfy, such as category = "academic" and year >= 2024'),
    "accessed_within": _name("How long ago memories were last read, at most: 12h, 30d or 4w"),
    "min_score": {
        "type": ["number", "null"],
        "description": "Least cosine of a memory's best window with the question, -1 to 1",
        "default": None,
    },
    "since": _time("Earliest time of observation"),
    "until": _time("Latest time of observation"),
    "project": _name("Search this project of the user and the general memory"),
    "session": _name("Session to stay in"),
    "now": _time("When the question is put: only what is valid then is a candidate"),
    "budget_tokens": {"type": "integer", "description": "Tokens of the context", "minimum": 0, "default": 1200},
    "explain": _flag("Say of each memory why it is there"),
    "include_hidden": _flag("Serve memories marked user_visible: false too"),
    "include_pii": _flag("Serve memories marked pii: true too"),
    "task": {"type": "string", "description": "The task: uri or title of its source, whose brief leads", "default": ""},
    "tiers": _texts("Tiers to stay in, any of them: personal, project, task"),
    "include_pending": _flag("Also texts of the inbox that no build has formed yet, found by words and marked"),
    "turns": {
        "type": "array",
        "items": {"type": ["string", "object"]},
        "description": "What was written before, oldest first: texts, or messages with role and content; five are read",
        "default": [],
    },
    "brief": {"type": "string", "description": "What the task is about", "default": ""},
    "paths": _texts("Files of the task: their sources rank a little higher"),
    "abstain": _flag("Return no memories where none is likely to hold an answer"),
    "subgraph": _flag("Return the nodes, edges and facts of the results, and relations as lines of the context"),
    "narrow": _flag("With the strategy hierarchical: only memories of the nodes found are results"),
    "node_types": _texts("With the strategy hierarchical: types of the nodes to start from, any of them"),
    "node_where": _name('With the strategy hierarchical: what these nodes must satisfy, such as status = "active"'),
    "depth": {
        "type": "integer",
        "description": "With the strategy hierarchical: edges to follow from the nodes found",
        "minimum": 0,
        "maximum": MAX_DEPTH,
        "default": 1,
    },
    "compress": {
        "type": "string",
        "enum": list(COMPRESS),
        "description": "What picks sentences of long results: lm where the reader has a compressor, none to quote none",
        "default": "words",
    },
    "sources": {
        "type": "string",
        "enum": list(SOURCES),
        "description": "How the context cites: by number with a line a document, by id with each place, or no sources",
        "default": "short",
    },
}


# Tiers of memory as a filter: personal, project and task. They follow from scope and type, and are stored nowhere.
#
# | tier | memories |
# |---|---|
# | task | of type `task`, in any scope of the search |
# | project | the others of a project |
# | personal | the others of the user's general memory |

TIERS = ("personal", "project", "task")


def parse_tiers(tiers: Sequence[str]) -> tuple[str, ...]:
    """Returns tiers in the order of `TIERS`, without their case.

    Raises:
        ArgumentError: they are no list of texts, or one is no tier.
    """
    if isinstance(tiers, str) or not all(isinstance(tier, str) for tier in tiers):
        raise ArgumentError("tiers", f"must be a list of {', '.join(TIERS)}", tiers)
    found = {tier.strip().lower() for tier in tiers}
    if wrong := sorted(found - {*TIERS}):
        raise ArgumentError("tiers", f"must be of {', '.join(TIERS)}", wrong[0])
    return tuple(tier for tier in TIERS if tier in found)


def is_in_tiers(scope: Scope, memory_type: str, tiers: Sequence[str]) -> bool:
    """Returns whether a memory of a type is in one of the tiers; none means all."""
    return not tiers or ("task" if memory_type == TASK else _tier_of(scope)) in tiers


def narrow_to_tiers(filters: Filters, scope: Scope, tiers: Sequence[str]) -> Filters:
    """Returns the filters of one scope, narrowed to tiers; none means all."""
    types = [t for t in filters.types or MEMORY_TYPES if is_in_tiers(scope, t, tiers)]
    if not types:
        return replace(filters, accessed=frozenset())
    return filters if not tiers or types == [*MEMORY_TYPES] else replace(filters, types=tuple(types))


def _tier_of(scope: Scope) -> str:
    return "project" if scope.project_id else "personal"


# A search as a value: what `Reader.search` builds, and what a service reads from JSON.


@dataclass(frozen=True)
class SearchRequest:
    """A checked search; times are in UTC. `create` and `from_json` make one.

    Attributes:
        text: the question.
        scopes: where to search, sorted; each is ranked by its own statistics.
        k: how many memories at most.
        all_results: return k results, also those that are hardly evidence.
        hops: links to follow from the best.
        strategy: name, `auto`, or weights.
        as_of: answer from what was current then.
        history: superseded versions are candidates too.
        types: memory types, any of them; empty means every type.
        tags: tags, any of which memories must have.
        where: what the fields of memories must satisfy.
        accessed_within: how long ago memories were last results of a search, at most.
        min_score: least cosine of a memory's best window with the question.
        since: earliest observed_at; without an offset, it is a time of each speaker's own clock.
        until: latest observed_at, as `since`.
        project: search this project of each scope's user too.
        session: session to stay in.
        now: when the question is put.
        budget_tokens: of the context.
        explain: say of each memory why it is there.
        include_hidden: serve memories marked `user_visible: false` too.
        include_pii: serve memories marked `pii: true` too.
        turns: what was written before, oldest first; a follow-up question takes from them what it leaves open.
        brief: what the task is about; memories that fit it rank a little higher.
        paths: files of the task; memories of sources with such a path rank a little higher.
        abstain: return nothing where no result is likely to hold an answer.
        compress: what picks the sentences of long results where a context cannot hold all: `words` or `lm`;
            `none` packs them whole or not at all.
        sources: how the context cites and lists its sources; one of `SOURCES`.
        subgraph: return the nodes, edges and facts of the results, and relations as lines of the context.
        tiers: tiers to stay in, any of them: personal, project, task; empty means every tier.
        task: uri or title of the source of the task, whose brief leads the context; "" for none.
        include_pending: also search texts of the inbox that are not built yet, by words.
        nodes: how the strategy `hierarchical` uses the nodes of a scope.
    """

    text: str
    scopes: tuple[Scope, ...]
    k: int = 10
    all_results: bool = False
    hops: int = 1
    strategy: str | Weights = "auto"
    as_of: dt.datetime | None = None
    history: bool = False
    types: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    where: Where | None = None
    accessed_within: dt.timedelta | None = None
    min_score: float | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    project: str | None = None
    session: str | None = None
    now: dt.datetime | None = None
    budget_tokens: int = 1200
    explain: bool = False
    include_hidden: bool = False
    include_pii: bool = False
    turns: tuple[str, ...] = ()
    brief: str = ""
    paths: tuple[str, ...] = ()
    abstain: bool = False
    compress: str = "words"
    sources: str = "short"
    subgraph: bool = False
    include_pending: bool = False
    tiers: tuple[str, ...] = ()
    task: str = ""
    nodes: NodeSearch = field(default_factory=NodeSearch)

    @classmethod
    def create(cls, text: str, scope: ScopeArgument, **options: Unpack[SearchOptions]) -> "SearchRequest":
        """Makes a request of the arguments of `Reader.search`; see there.

        Raises:
            ArgumentError: an argument is out of range, the text has no words, or there is no scope.
        """
        fields: dict[str, Any] = dict(options)
        for name, end_of_day in _TIMES.items():
            fields[name] = parse_datetime(name, fields.get(name), end_of_day, own_clock=name in _OWN_CLOCK)
        fields["turns"] = clean_turns(fields.get("turns", ()))
        fields["tiers"] = parse_tiers(fields.get("tiers", ()))
        fields["paths"] = clean_texts("paths", fields.get("paths", ()))
        fields["brief"] = clean_brief(fields.get("brief", ""))
        fields["task"] = next(iter(clean_texts("task", [fields.get("task") or ""])), "")
        for one, several in (("type", "types"), ("tag", "tags")):
            fields[several] = parse_names(several, fields.pop(one, None), fields.get(several, ()))
        fields["where"] = parse_where(text_of) if (text_of := fields.get("where")) is not None else None
        fields["accessed_within"] = parse_duration("accessed_within", fields.get("accessed_within"))
        fields["min_score"] = parse_score("min_score", fields.get("min_score"))
        of_nodes = {name: fields.pop(name) for name in NODE_OPTIONS if name in fields}
        fields["nodes"] = parse_node_search(of_nodes, fields.get("strategy", "auto"))
        if fields["since"] and fields["until"] and _seconds(fields["since"]) > _seconds(fields["until"]):
            raise ArgumentError("since", "must not be later than until", fields["since"].isoformat())
        request = cls(clean_text(text), parse_scopes(scope), **fields)
        check_numbers(request.k, request.hops, request.budget_tokens)
        if request.compress not in COMPRESS:
            raise ArgumentError("compress", f"must be one of {', '.join(COMPRESS)}", request.compress)
        if request.sources not in SOURCES:
            raise ArgumentError("sources", f"must be one of {', '.join(SOURCES)}", request.sources)
        return request

    @classmethod
    def from_json(cls, data: Mapping[str, JsonValue], scope: ScopeArgument) -> "SearchRequest":
        """Makes a request of a JSON object of `json_schema`.

        Args:
            data: the object.
            scope: whose memory is read. It is no field of the object: a service takes it from verified claims.

        Raises:
            ArgumentError: a field is unknown, missing, of another type, or out of range; the message names it.
        """
        for name, value in data.items():
            if name not in PROPERTIES:
                raise ArgumentError(name, f"not a field of a search; the fields are {', '.join(PROPERTIES)}")
            expected = PROPERTIES[name]["type"]
            kinds = [expected] if isinstance(expected, str) else expected
            if not any(is_kind(value, kind) for kind in kinds):
                raise ArgumentError(name, f"must be of type {' or '.join(kinds)}", value)
        if "text" not in data:
            raise ArgumentError("text", "is missing; enter a question or keywords")
        options: Any = {name: value for name, value in data.items() if name != "text"}
        return cls.create(str(data["text"]), scope, **options)

    @staticmethod
    def json_schema() -> JsonObject:
        """Returns the JSON schema (draft 2020-12) of the objects that `from_json` reads."""
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "SearchRequest",
            "type": "object",
            "properties": {name: cast("JsonObject", dict(field)) for name, field in PROPERTIES.items()},
            "required": ["text"],
            "additionalProperties": False,
        }

    def filters_json(self) -> JsonObject:
        """Returns the filters by type, tag, field, access and score that were given, as JSON values."""
        within = self.accessed_within
        times = {"since": self.since, "until": self.until, "as_of": self.as_of}
        return {
            **{name: time.isoformat() if time else None for name, time in times.items()},
            "types": list(self.types),
            "tags": list(self.tags),
            "where": self.where.text if self.where else None,
            "accessed_within_s": within.total_seconds() if within is not None else None,
            "min_score": self.min_score,
            "tiers": list(self.tiers),
        }

    def filters(self, clock: dt.datetime) -> Filters:
        """Returns what narrows each scope; `clock` is the real time, for retention alone."""
        return Filters(
            session=self.session,
            types=self.types,
            tags=self.tags,
            where=self.where,
            since=self.since,
            until=self.until,
            as_of=self.as_of,
            now=self.now,
            history=self.history,
            clock=clock,
            include_hidden=self.include_hidden,
            include_pii=self.include_pii,
        )


_TIMES = {"since": False, "until": True, "as_of": True, "now": True}
"""The arguments that are times, and whether a date alone means its end."""
_OWN_CLOCK = ("since", "until")
"""Those of which a date alone is a day of each speaker's own clock."""


def _seconds(time: dt.datetime) -> float:
    """Returns a time in seconds since 1970; one of each speaker's own clock counts as UTC."""
    return (time if time.tzinfo else time.replace(tzinfo=dt.UTC)).timestamp()
