"""A search as a value. The fields of `SearchRequest` are the one declaration of what a search takes.

Made of them: the options of `palimpsest query`, the parameters of the service, the JSON schema. `SearchOptions` repeats
their names with the types that Python callers give, for editors and mypy; a test compares both.
"""

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, TypedDict, Unpack, get_args

from annotated_types import Ge, Le
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    SkipValidation,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import SkipJsonSchema

from palimpsest.core.errors import ArgumentError
from palimpsest.core.ids import MEMORY_TYPES, TASK, JsonObject, JsonValue
from palimpsest.core.message import Message, read_messages
from palimpsest.core.times import with_offset
from palimpsest.query.request.strategies import Weights
from palimpsest.query.request.types import Filters, Scope
from palimpsest.query.request.where import Where, parse_where

MAX_TEXT_CHARS = 100_000
MAX_K = 1000
MAX_HOPS = 2
MAX_DEPTH = 2
MAX_DAYS = 36_500
_BY_NODES = "hierarchical"

When = dt.datetime | dt.date | str
"""A time, or a date that means its start or its end."""
ScopeArgument = Scope | tuple[str, str] | tuple[str, str, str] | Sequence[Scope]
"""One scope or several; a tuple of names is (collection, user) or (collection, user, project)."""

# Values of arguments, checked and converted. Each raises an ArgumentError that says what to give.


def clean_text(text: str, argument: str = "text") -> str:
    """Returns the text as the tokenizer and SQL accept it: no NUL, no lone surrogate, at most `MAX_TEXT_CHARS`.

    Raises:
        ArgumentError: it has no words.
    """
    if not isinstance(text, str):
        raise ArgumentError(argument, "must be a text", text)
    cleaned = _clean(text)
    if not cleaned:
        raise ArgumentError(argument, "is empty; enter a question or keywords")
    if not any(c.isalnum() for c in cleaned):
        raise ArgumentError(argument, "has no words; enter a question or keywords")
    return cleaned


def clean_texts(name: str, texts: Sequence[str]) -> tuple[str, ...]:
    """Returns further texts of a search, cleaned as `clean_text` does; blank ones are left out.

    Raises:
        ArgumentError: they are no sequence of texts.
    """
    if isinstance(texts, str) or not isinstance(texts, Sequence) or not all(isinstance(t, str) for t in texts):
        raise ArgumentError(name, "must be a list of texts")
    return tuple(cleaned for text in texts if (cleaned := _clean(text)))


def clean_turns(turns: Sequence[Message | Mapping[str, JsonValue] | str]) -> tuple[str, ...]:
    """Returns the turns before a question as texts, each after its role; blank ones are left out.

    Raises:
        ArgumentError: they are no messages; see `palimpsest.core.message.Message`.
    """
    return clean_texts(
        "turns", [f"{m.role}: {m.text}" if m.role else m.text for m in read_messages(turns) if m.text.strip()]
    )


def _clean(text: str) -> str:
    return text[:MAX_TEXT_CHARS].replace("\0", " ").encode("utf-8", "replace").decode("utf-8").strip()


def parse_datetime(name: str, value: When | None, end_of_day: bool, own_clock: bool = False) -> dt.datetime | None:
    """Returns the time of an argument with its offset, else UTC; a date alone is its start or its end.

    Args:
        name: of the argument.
        value: it.
        end_of_day: whether a date alone means its end.
        own_clock: whether a date alone is one of each speaker's own clock, without an offset, and not of UTC.

    Raises:
        ArgumentError: the text is no ISO 8601 date or time, or it is outside the years 1 to 9999 in UTC.
    """
    if value is None:
        return None
    if isinstance(value, str):
        try:
            day_only = len(value.strip()) <= len("2024-05-31") and "T" not in value
            parsed = dt.datetime.fromisoformat(value.strip())
        except ValueError:
            raise ArgumentError(name, "not a date; write 2024-05-31 or 2024-05-31T12:00:00Z", value) from None
        value = parsed.date() if day_only else parsed
    if not isinstance(value, dt.date):
        raise ArgumentError(name, "not a date; write 2024-05-31 or 2024-05-31T12:00:00Z", value)
    if not isinstance(value, dt.datetime):
        value = dt.datetime.combine(value, dt.time.max if end_of_day else dt.time.min)
        if own_clock:
            return value
    try:
        return with_offset(value)
    except OverflowError:
        raise ArgumentError(name, "outside the years 1 to 9999 in UTC; write a date within them", value) from None


def parse_scopes(scope: ScopeArgument) -> tuple[Scope, ...]:
    """Returns the scopes of an argument, sorted.

    Raises:
        ArgumentError: there is none.
    """
    if isinstance(scope, tuple) and len(scope) in (2, 3) and all(isinstance(part, str) for part in scope):
        return (Scope(*scope),)
    scopes = tuple(sorted({Scope(*s) for s in scope}))
    if not scopes:
        raise ArgumentError("scope", "name at least one (collection, user) or (collection, user, project)")
    return scopes


def _names(names: Sequence[str], argument: ValidationInfo) -> tuple[str, ...]:
    """Returns names, sorted.

    Raises:
        ArgumentError: they are no list of texts, or a name is empty.
    """
    name = argument.field_name or ""
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(n, str) for n in names):
        raise ArgumentError(name, "must be a list of texts", names)
    if any(not n.strip() for n in names):
        raise ArgumentError(name, "has an empty name; leave it out")
    return tuple(sorted(set(names)))


def _name(name: str | None, argument: ValidationInfo) -> str | None:
    """Returns a name as it is.

    Raises:
        ArgumentError: it is no text, or empty.
    """
    if not isinstance(name, str | None):
        raise ArgumentError(argument.field_name or "", "must be a text", name)
    if name is not None and not name.strip():
        raise ArgumentError(argument.field_name or "", "is empty; give one, or leave it out")
    return name


def _texts(texts: Sequence[str], argument: ValidationInfo) -> tuple[str, ...]:
    return clean_texts(argument.field_name or "", texts)


def _text(text: str | None, argument: ValidationInfo) -> str:
    """Returns a text, cleaned; "" where there is none.

    Raises:
        ArgumentError: it is no text.
    """
    if not isinstance(text, str | None):
        raise ArgumentError(argument.field_name or "", "must be a text", text)
    return _clean(text or "")


def _strategy(strategy: str | Weights) -> str | Weights:
    """Returns a strategy as it is; whether there is one of this name is looked up by `resolve_strategy`.

    Raises:
        ArgumentError: it is no text.
    """
    if not isinstance(strategy, str | Weights):
        raise ArgumentError("strategy", "must be a text", strategy)
    return strategy


def _where(where: "Where | str | None", argument: ValidationInfo) -> Where | None:
    """Returns a parsed expression.

    Raises:
        ArgumentError: it is no text, or not understood.
    """
    if where is None or isinstance(where, Where):
        return where
    if not isinstance(where, str):
        raise ArgumentError(argument.field_name or "", "must be a text", where)
    return parse_where(where, argument.field_name or "")


def _duration(value: dt.timedelta | str | None, argument: ValidationInfo) -> dt.timedelta | None:
    """Returns a time span: hours, days or weeks as `12h`, `30d` or `4w`.

    Raises:
        ArgumentError: it is no time span, or it is not above 0 or over `MAX_DAYS`.
    """
    name = argument.field_name or ""
    if value is None:
        return None
    if not isinstance(value, dt.timedelta):
        found = re.fullmatch(r"\s*(\d{1,6})\s*([hdw])\s*", value, re.ASCII) if isinstance(value, str) else None
        if found is None:
            raise ArgumentError(name, "not a time span; write 12h, 30d or 4w", value)
        value = dt.timedelta(hours=int(found[1]) * {"h": 1, "d": 24, "w": 168}[found[2]])
    if not dt.timedelta(0) < value <= dt.timedelta(days=MAX_DAYS):
        raise ArgumentError(name, f"must be above 0 and at most {MAX_DAYS:,} days", str(value))
    return value


def _start(value: When | None, argument: ValidationInfo) -> dt.datetime | None:
    return parse_datetime(argument.field_name or "", value, end_of_day=False, own_clock=True)


def _end(value: When | None, argument: ValidationInfo) -> dt.datetime | None:
    return parse_datetime(argument.field_name or "", value, end_of_day=True, own_clock=True)


def _end_in_utc(value: When | None, argument: ValidationInfo) -> dt.datetime | None:
    return parse_datetime(argument.field_name or "", value, end_of_day=True)


# Tiers of memory as a filter. They follow from scope and type, and are stored nowhere.
#
# | tier | memories |
# |---|---|
# | task | of type `task`, in any scope of the search |
# | project | the others of a project |
# | personal | the others of the user's general memory |

Tier = Literal["personal", "project", "task"]
TIERS: tuple[Tier, ...] = get_args(Tier)


def _tiers(tiers: Sequence[str]) -> tuple[Tier, ...]:
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
    tier = "task" if memory_type == TASK else "project" if scope.project_id else "personal"
    return not tiers or tier in tiers


def narrow_to_tiers(filters: Filters, scope: Scope, tiers: Sequence[str]) -> Filters:
    """Returns the filters of one scope, narrowed to tiers; none means all."""
    types = [t for t in filters.types or MEMORY_TYPES if is_in_tiers(scope, t, tiers)]
    if not types:
        return replace(filters, accessed=frozenset())
    return filters if not tiers or types == [*MEMORY_TYPES] else replace(filters, types=tuple(types))


# The declaration.


@dataclass(frozen=True)
class Offer:
    """How a field is offered outside Python, where that does not follow from the field.

    Attributes:
        served: whether a request of the service may set it.
        flag: of the command line; "" where the name says it: `--as-of`, and `--type` for the list `types`.
        least: on the command line and in the service.
        most: in the service.
    """

    served: bool = False
    flag: str = ""
    least: int | None = None
    most: int | None = None


_SERVED = Offer(served=True)
StrategyName = Literal["auto", "flat", "hybrid", "words", "hierarchical", "dated", "turns", "statements", "graph"]
Sources = Literal["short", "full", "none"]
_Name = Annotated[str | None, PlainValidator(_name, str | None)]
_Names = Annotated[tuple[str, ...], PlainValidator(_names, list[str])]
_Texts = Annotated[tuple[str, ...], PlainValidator(_texts, list[str])]
_Text = Annotated[str, PlainValidator(_text, str)]
_Where = Annotated[Where | None, PlainValidator(_where, str | None)]
_EndInUtc = Annotated[dt.datetime | None, PlainValidator(_end_in_utc, str | None)]


class SearchRequest(BaseModel):
    """A checked search; `create` and `from_json` make one. Times without an offset are of each speaker's own clock."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True)

    text: Annotated[str, PlainValidator(lambda text: clean_text(text), str)] = Field(
        description=f"The question; what is beyond {MAX_TEXT_CHARS:,} characters is not read."
    )
    scopes: SkipJsonSchema[SkipValidation[tuple[Scope, ...]]] = Field(
        description="Where to search, each by its own statistics."
    )
    project: _Name = Field(
        None, description="Search this project and the general memory. [default: the general memory alone]"
    )
    session: Annotated[_Name, _SERVED] = Field(None, description="Only memories of this session.")
    k: Annotated[int, Offer(served=True, most=100)] = Field(
        10, ge=1, le=MAX_K, description="How many memories at most."
    )
    all_results: Annotated[bool, _SERVED] = Field(False, description="Also results that are hardly evidence, up to k.")
    hops: Annotated[int, _SERVED] = Field(1, ge=0, le=MAX_HOPS, description="Relations followed from the seeds.")
    strategy: Annotated[str | Weights, PlainValidator(_strategy, str), _SERVED] = Field(
        "auto", description="How to rank."
    )
    narrow: bool = Field(False, description="With strategy hierarchical: only memories of the nodes found.")
    node_types: _Texts = Field((), description="With the same: a type of nodes to start from.")
    node_where: _Where = Field(
        None,
        description="With the same: what fields and metadata of these nodes satisfy, such as 'status = \"active\"'.",
    )
    depth: int = Field(1, ge=0, le=MAX_DEPTH, description="With the same: edges to follow.")
    as_of: Annotated[_EndInUtc, _SERVED] = Field(
        None, description="What was latest on this date (ISO 8601). A question may name one in words."
    )
    history: Annotated[bool, _SERVED] = Field(
        False, description="Also what is no longer latest, with what replaced it and why."
    )
    types: Annotated[_Names, _SERVED] = Field(
        (), description="Only memories of this type; several times: of any of them."
    )
    tiers: Annotated[tuple[Tier, ...], PlainValidator(_tiers, list[Tier]), _SERVED] = Field(
        (), description="Only the user's general memory, that of projects, or tasks; several times: any of them."
    )
    tags: Annotated[_Names, _SERVED] = Field(
        (), description="Only memories with this tag; several times: with any of them."
    )
    where: Annotated[_Where, _SERVED] = Field(
        None,
        description="Only memories whose fields satisfy this, such as 'category = \"academic\" and year >= 2024'.",
        examples=["year >= 2025"],
    )
    accessed_within: Annotated[dt.timedelta | None, PlainValidator(_duration, str | None), _SERVED] = Field(
        None, description="Only memories that a search returned in the last 12h, 30d or 4w."
    )
    min_score: Annotated[float | None, _SERVED] = Field(
        None, ge=-1, le=1, description="Only memories whose best cosine with the question is at least this, -1 to 1."
    )
    since: Annotated[dt.datetime | None, PlainValidator(_start, str | None), _SERVED] = Field(
        None, description="Only memories observed on or after this date."
    )
    until: Annotated[dt.datetime | None, PlainValidator(_end, str | None), _SERVED] = Field(
        None, description="Only memories observed on or before this date."
    )
    now: Annotated[_EndInUtc, _SERVED] = Field(
        None, description="Time of the question: last week counts from it; what is not valid then is left out."
    )
    budget_tokens: Annotated[int, Offer(served=True, flag="--budget", least=50, most=16_000)] = Field(
        1200, ge=0, description="Tokens of packed context."
    )
    turns: Annotated[tuple[str, ...], PlainValidator(clean_turns, list[Message])] = Field(
        (), description="What was written before; repeat it, oldest first."
    )
    task: Annotated[_Text, _SERVED] = Field(
        "", description="The task: uri or title of its source of type task. Its text leads the context."
    )
    brief: Annotated[_Text, _SERVED] = Field(
        "", description="What the task is about: what fits it ranks a little higher."
    )
    paths: Annotated[_Texts, _SERVED] = Field(
        (), description="A file of the task; repeat it. Its sources rank a little higher."
    )
    compress: Literal["words", "lm", "none"] = Field(
        "words",
        description="What picks sentences of long memories that do not fit: the question's words, PALIMPSEST_LM's "
        "model, or none for whole memories only.",
    )
    sources: Annotated[Sources, _SERVED] = Field(
        "short",
        description="How the context cites: by number with a line for each document, by id with each place, or "
        "without sources.",
    )
    subgraph: Annotated[bool, _SERVED] = Field(
        False, description="Also the nodes, edges and facts of the results, and how they relate."
    )
    explain: Annotated[bool, _SERVED] = Field(False, description="Say why each memory is there.")
    abstain: Annotated[bool, _SERVED] = Field(
        False, description="Return no memories where none is likely to hold an answer."
    )
    include_pending: Annotated[bool, _SERVED] = Field(
        False, description="Also what was remembered and is not built yet, by words."
    )
    include_hidden: bool = Field(False, description="Also what is marked user_visible: false.")
    include_pii: bool = Field(False, description="Also what is marked pii: true: personal data.")

    @model_validator(mode="after")
    def _fields_agree(self) -> "SearchRequest":
        """Returns the request.

        Raises:
            ArgumentError: two fields exclude each other.
        """
        if self.since and self.until and _seconds(self.since) > _seconds(self.until):
            raise ArgumentError("since", "must not be later than `until`", self.since.isoformat())
        of_nodes = self.narrow or self.node_types or self.node_where or self.depth != 1
        if of_nodes and self.strategy != _BY_NODES and isinstance(self.strategy, str):
            problem = f"must be {_BY_NODES} with `narrow`, `node_types`, `node_where` or `depth`"
            raise ArgumentError("strategy", problem, self.strategy)
        return self

    @classmethod
    def create(cls, text: str, scope: ScopeArgument, **options: Unpack["SearchOptions"]) -> "SearchRequest":
        """Makes a request of the arguments of `Reader.search`; see there.

        Raises:
            ArgumentError: an argument is out of range, the text has no words, or there is no scope.
        """
        return cls._checked({"text": text, "scopes": parse_scopes(scope), **options})

    @classmethod
    def from_json(cls, data: Mapping[str, JsonValue], scope: ScopeArgument) -> "SearchRequest":
        """Makes a request of a JSON object of `json_schema`.

        Args:
            data: the object.
            scope: whose memory is read. It is no field of the object: a service takes it from verified claims.

        Raises:
            ArgumentError: a field is unknown, missing, of another type, or out of range; the message names it.
        """
        if "scopes" in data:
            raise ArgumentError("scopes", _UNKNOWN)
        return cls._checked({**data, "scopes": parse_scopes(scope)})

    @classmethod
    def _checked(cls, fields: Mapping[str, object]) -> "SearchRequest":
        """Returns the request of some fields.

        Raises:
            ArgumentError: one of them cannot be used.
        """
        try:
            return cls.model_validate(fields)
        except ValidationError as e:
            error = _argument_error(e)
        raise error

    @classmethod
    def json_schema(cls) -> JsonObject:
        """Returns the JSON schema (draft 2020-12) of the objects that `from_json` reads."""
        return {"$schema": "https://json-schema.org/draft/2020-12/schema", **cls.model_json_schema()}

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


class SearchOptions(TypedDict, total=False):
    """The fields of `SearchRequest` as keyword arguments, with the types that they may be given in.

    A date alone means the start of that day for `since`, else its end; `since` and `until` are then by each speaker's
    own clock. `turns` are messages with `role` and `content`; the last five are read.
    """

    project: str | None
    session: str | None
    k: int
    all_results: bool
    hops: int
    strategy: str | Weights
    narrow: bool
    node_types: Sequence[str]
    node_where: str | None
    depth: int
    as_of: When | None
    history: bool
    types: Sequence[str]
    tiers: Sequence[str]
    tags: Sequence[str]
    where: str | None
    accessed_within: dt.timedelta | str | None
    min_score: float | None
    since: When | None
    until: When | None
    now: When | None
    budget_tokens: int
    turns: Sequence[Message | Mapping[str, JsonValue] | str]
    task: str
    brief: str
    paths: Sequence[str]
    compress: str
    sources: str
    subgraph: bool
    explain: bool
    abstain: bool
    include_pending: bool
    include_hidden: bool
    include_pii: bool


OPTIONS: dict[str, FieldInfo] = {n: f for n, f in SearchRequest.model_fields.items() if n not in ("text", "scopes")}
"""The fields that may be left out, by name."""


def offer(field: FieldInfo) -> Offer:
    """Returns how a field is offered outside Python."""
    return next((m for m in field.metadata if isinstance(m, Offer)), Offer())


def bounds(field: FieldInfo) -> tuple[int | None, int | None]:
    """Returns the least and the largest value of a field that is a number; None where there is none."""
    low = next((m.ge for m in field.metadata if isinstance(m, Ge)), None)
    high = next((m.le for m in field.metadata if isinstance(m, Le)), None)
    return low, high  # type: ignore[return-value]  # annotated_types says only that they can be compared


_UNKNOWN = f"not a field of a search; the fields are text, {', '.join(OPTIONS)}"


def _argument_error(error: ValidationError) -> ArgumentError:
    """Returns what is wrong with the first field that cannot be used."""
    first = error.errors(include_url=False)[0]
    name, value, kind = str(first["loc"][0]), first["input"], first["type"]
    if kind == "extra_forbidden":
        return ArgumentError(name, _UNKNOWN)
    if kind == "missing":
        return ArgumentError(name, "is missing; enter a question or keywords")
    if kind in ("greater_than_equal", "less_than_equal"):
        low, high = bounds(OPTIONS[name])
        return ArgumentError(name, f"must be {low} or more" if high is None else f"must be {low} to {high}", value)
    return ArgumentError(name, first["msg"].replace("Input should", "must"), value)


def _seconds(time: dt.datetime) -> float:
    """Returns a time in seconds since 1970; one of each speaker's own clock counts as UTC."""
    return (time if time.tzinfo else time.replace(tzinfo=dt.UTC)).timestamp()
