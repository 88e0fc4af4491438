"""A search as a value: what `Reader.search` builds, and what a service reads from JSON."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Unpack

from palimpsest.core.errors import ArgumentError
from palimpsest.core.json_types import JsonObject, JsonValue
from palimpsest.query.request.arguments import (
    MAX_HOPS,
    MAX_K,
    MAX_TEXT_CHARS,
    ScopeArgument,
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
from palimpsest.query.request.parse_where import parse_where
from palimpsest.query.request.search_options import SearchOptions
from palimpsest.query.request.strategies import Weights
from palimpsest.query.request.types import Filters, Scope
from palimpsest.query.request.where import Where


@dataclass(frozen=True)
class SearchRequest:
    """A checked search; times are in UTC. `create` and `from_json` make one.

    Attributes:
        text: the question.
        scopes: where to search, sorted; each is ranked by its own statistics.
        k: how many memories.
        hops: links to follow from the best.
        strategy: name, `auto`, or weights.
        as_of: answer from what was current then.
        history: superseded versions are candidates too.
        types: memory types, any of them; empty means every type.
        tags: tags, any of which memories must have.
        where: what the fields of memories must satisfy.
        accessed_within: how long ago memories were last results of a search, at most.
        min_score: least cosine of a memory's best window with the question.
        since: earliest observed_at.
        until: latest observed_at.
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
        abstain: return nothing where the results hardly hold an answer.
        compress: what picks the sentences of long results where a context cannot hold all: `words` or `lm`;
            `none` packs them whole or not at all.
        subgraph: return the nodes, edges and facts of the results, and relations as lines of the context.
    """

    text: str
    scopes: tuple[Scope, ...]
    k: int = 5
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
    subgraph: bool = False

    @classmethod
    def create(cls, text: str, scope: ScopeArgument, **options: Unpack[SearchOptions]) -> "SearchRequest":
        """Makes a request of the arguments of `Reader.search`; see there.

        Raises:
            ArgumentError: an argument is out of range, the text has no words, or there is no scope.
        """
        fields: dict[str, Any] = dict(options)
        for name, end_of_day in _TIMES.items():
            fields[name] = parse_datetime(name, fields.get(name), end_of_day)
        fields["turns"] = clean_turns(fields.get("turns", ()))
        fields["paths"] = clean_texts("paths", fields.get("paths", ()))
        fields["brief"] = clean_brief(fields.get("brief", ""))
        for one, several in (("type", "types"), ("tag", "tags")):
            fields[several] = parse_names(several, fields.pop(one, None), fields.get(several, ()))
        fields["where"] = parse_where(text_of) if (text_of := fields.get("where")) is not None else None
        fields["accessed_within"] = parse_duration("accessed_within", fields.get("accessed_within"))
        fields["min_score"] = parse_score("min_score", fields.get("min_score"))
        request = cls(clean_text(text), parse_scopes(scope), **fields)
        check_numbers(request.k, request.hops, request.budget_tokens)
        if request.compress not in _COMPRESS:
            raise ArgumentError("compress", f"must be one of {', '.join(_COMPRESS)}", request.compress)
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
            if name not in _PROPERTIES:
                raise ArgumentError(name, f"not a field of a search; the fields are {', '.join(_PROPERTIES)}")
            expected = _PROPERTIES[name]["type"]
            kinds = [expected] if isinstance(expected, str) else expected
            if not any(_is_kind(value, kind) for kind in kinds):
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
            "properties": {name: dict(field) for name, field in _PROPERTIES.items()},
            "required": ["text"],
            "additionalProperties": False,
        }

    def filters_json(self) -> JsonObject:
        """Returns the filters by type, tag, field, access and score that were given, as JSON values."""
        within = self.accessed_within
        return {
            "types": list(self.types),
            "tags": list(self.tags),
            "where": self.where.text if self.where else None,
            "accessed_within_s": within.total_seconds() if within is not None else None,
            "min_score": self.min_score,
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


_COMPRESS = ("words", "lm", "none")
_TIMES = {"since": False, "until": True, "as_of": True, "now": True}
"""The arguments that are times, and whether a date alone means its end."""

_KINDS: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "array": list,
    "boolean": bool,
    "null": type(None),
}


def _is_kind(value: JsonValue, kind: str) -> bool:
    return isinstance(value, _KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _time(description: str) -> dict[str, Any]:
    return {"type": ["string", "null"], "description": f"{description}; ISO 8601 date or date-time", "default": None}


def _name(description: str) -> dict[str, Any]:
    return {"type": ["string", "null"], "description": description, "default": None}


def _texts(description: str) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string"}, "description": description, "default": []}


def _flag(description: str) -> dict[str, Any]:
    return {"type": "boolean", "description": description, "default": False}


_PROPERTIES: dict[str, dict[str, Any]] = {
    "text": {
        "type": "string",
        "description": f"The question; what is beyond {MAX_TEXT_CHARS:,} characters is not read",
        "minLength": 1,
    },
    "k": {"type": "integer", "description": "How many memories", "minimum": 1, "maximum": MAX_K, "default": 5},
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
    "turns": {
        "type": "array",
        "items": {"type": ["string", "object"]},
        "description": "What was written before, oldest first: texts, or messages with role and content; five are read",
        "default": [],
    },
    "brief": {"type": "string", "description": "What the task is about", "default": ""},
    "paths": _texts("Files of the task: their sources rank a little higher"),
    "abstain": _flag("Return no memories, and why, where they hardly hold an answer"),
    "subgraph": _flag("Return the nodes, edges and facts of the results, and relations as lines of the context"),
    "compress": {
        "type": "string",
        "enum": list(_COMPRESS),
        "description": "What picks sentences of long results: lm where the reader has a compressor, none to quote none",
        "default": "words",
    },
}
