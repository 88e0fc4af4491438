"""A search as a value: what `Reader.search` builds, and what a service reads from JSON."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Unpack, cast

from palimpsest.core.errors import ArgumentError
from palimpsest.core.json_types import JsonObject, JsonValue
from palimpsest.query.request.arguments import (
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
from palimpsest.query.request.node_search import NODE_OPTIONS, NodeSearch, parse_node_search
from palimpsest.query.request.parse_where import parse_where
from palimpsest.query.request.search_options import SearchOptions
from palimpsest.query.request.search_schema import COMPRESS, PROPERTIES, SOURCES, is_kind
from palimpsest.query.request.strategies import Weights
from palimpsest.query.request.tiers import parse_tiers
from palimpsest.query.request.types import Filters, Scope
from palimpsest.query.request.where import Where


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
