"""What readers return: documents, their segments, scopes and stated fields, and how the log stores them."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypedDict, TypeVar

from palimpsest.core.errors import Rejected
from palimpsest.core.ids import MEMORY_TYPES, JsonObject, JsonValue
from palimpsest.core.times import on_own_clock, utc_offset
from palimpsest.sources.find_secrets import shorten_value
from palimpsest.store.collection_config import KINDS, Limits
from palimpsest.text.dates import DateOrder

# What a turn or a document states of its own memories: type, tags, importance, confidence, kind and privacy.

TYPES = MEMORY_TYPES
FIELD_NAMES = frozenset({"type", "tags", "importance", "confidence", "kind", "privacy", "memory", "trust"})
MAX_RETENTION_DAYS = 36_500
_FLAGS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "1.0": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
    "0.0": False,
}
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class StatedFields:
    """Stated values; None where nothing is stated.

    Attributes:
        type: memory type, one of `TYPES`.
        tags: sorted.
        importance: 0 to 1.
        confidence: 0 to 1.
        kind: kind of source, one of `KINDS`.
        pii: contains personal data.
        user_visible: may be shown.
        retention_days: days after observed_at that the text is stored, 1 to 36,500.
        memory: "off" where the text must not be stored, "save" where a person requests that it is remembered.
        valid_from: start of the time for which the statement is true, ISO 8601 in UTC; of turns and table rows only.
        valid_until: end of that time, exclusive, likewise.
        trust: 0 to 1; it can only lower what the collection's settings give.
    """

    type: str | None = None
    tags: tuple[str, ...] = ()
    importance: float | None = None
    confidence: float | None = None
    kind: str | None = None
    pii: bool | None = None
    user_visible: bool | None = None
    retention_days: int | None = None
    memory: str | None = None
    valid_from: str | None = None
    valid_until: str | None = None
    trust: float | None = None

    def to_json(self) -> JsonObject:
        """Returns the values that are stated."""
        values = ((f.name, getattr(self, f.name)) for f in fields(self))
        return {n: list(v) if isinstance(v, tuple) else v for n, v in values if v not in (None, ())}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "StatedFields":
        """Returns what `to_json` wrote."""
        return cls(**{**data, "tags": tuple(data.get("tags", ()))})


_NOTHING = StatedFields()


def parse_stated_fields(
    values: Mapping[str, JsonValue], *, free_words: bool = False
) -> tuple[StatedFields | None, list[str]]:
    """Returns what a mapping states, None where that is nothing, and a problem for each value that is not usable.

    A problem names the field, the value and the fix; the field then has its default. An unreadable `pii`,
    `user_visible` or `memory` counts as the stricter value: a typing error must not show what was to be hidden.

    Args:
        values: a turn's JSON object, or a document's metadata.
        free_words: an unknown `type`, `kind`, `memory` or `trust` is the author's own field and no problem: documents
            use these names for other things.
    """
    problems: list[str] = []
    parser = _Parser(values, problems)
    parse_word = parser.known_word if free_words else parser.word
    privacy = parser.privacy()
    inner = _Parser(privacy, problems, "privacy.")
    unknown = sorted(set(map(str, privacy)) - {"pii", "user_visible", "retention_days"})
    problems += [f"privacy.{shorten_value(n)} is no field; use pii, user_visible or retention_days" for n in unknown]
    stated = StatedFields(
        type=parse_word("type", TYPES),
        tags=parser.tags(),
        importance=parser.share("importance"),
        confidence=parser.share("confidence"),
        kind=parse_word("kind", KINDS),
        pii=inner.flag("pii", strict=True),
        user_visible=inner.flag("user_visible", strict=False),
        retention_days=inner.days("retention_days"),
        memory=parser.memory(free_words),
        # A document's `trust` that is no number is its author's own field: the name of a foundation, say.
        trust=parser.share("trust") if not free_words or _is_number(values.get("trust")) else None,
    )
    return (None if stated == _NOTHING else stated), problems


class _Parser:
    """Takes typed values out of a mapping; a value of another type becomes a problem and counts as not stated."""

    def __init__(self, values: Mapping[str, JsonValue], problems: list[str], path: str = "") -> None:
        self._values, self._problems, self._path = values, problems, path

    def word(self, name: str, known: tuple[str, ...], default: str | None = None) -> str | None:
        value = self._values.get(name)
        if value is False and "off" in known:  # YAML 1.1 reads a bare `off` as false
            value = "off"
        elif isinstance(value, str) and value.strip().lower() in known:
            value = value.strip().lower()
        words = f"{', '.join(known[:-1])} or {known[-1]}"
        found = self._check(name, value, lambda v: isinstance(v, str) and v in known, f"must be {words}", default)
        return None if found is None else str(found)

    def known_word(self, name: str, known: tuple[str, ...]) -> str | None:
        value = self._values.get(name)
        is_known = isinstance(value, str) and value.strip().lower() in known
        return self.word(name, known) if value is False or is_known else None

    def memory(self, free_words: bool) -> str | None:
        """Returns `off` where the text must not be stored, `save` where it must be remembered."""
        known = ("save", "off")
        word = self.known_word("memory", known) if free_words else self.word("memory", known, default="off")
        return word

    def share(self, name: str) -> float | None:
        found = self._take(name, lambda v: _is_number(v) and 0 <= v <= 1, "must be a number from 0 to 1")
        return None if found is None else float(found)

    def flag(self, name: str, strict: bool) -> bool | None:
        """Reads a flag; an unreadable value counts as `strict`."""
        found = self._take(name, lambda v: str(v).strip().lower() in _FLAGS, "must be true or false", strict)
        return None if found is None else _FLAGS[str(found).strip().lower()]

    def days(self, name: str) -> int | None:
        found = self._take(
            name,
            lambda v: not isinstance(v, bool) and (d := _to_int(v)) is not None and 0 < d <= MAX_RETENTION_DAYS,
            f"must be a whole number of days from 1 to {MAX_RETENTION_DAYS:,}",
        )
        return None if found is None else _to_int(found)

    def privacy(self) -> Mapping[str, JsonValue]:
        fix = "must be a mapping such as {pii: true, user_visible: false, retention_days: 30}"
        strictest = {"pii": True, "user_visible": False}
        found = self._take("privacy", lambda v: isinstance(v, Mapping), fix, strictest)
        return found or {}

    def tags(self) -> tuple[str, ...]:
        found = self._take("tags", lambda v: isinstance(v, str | list), "must be a list of words")
        words = found.split(",") if isinstance(found, str) else found or []
        return tuple(sorted({str(w).strip() for w in words if str(w).strip()}))

    def _take(self, name: str, is_valid: Callable[[Any], bool], fix: str, default: JsonValue = None) -> Any:
        return self._check(name, self._values.get(name), is_valid, fix, default)

    def _check(
        self, name: str, value: JsonValue, is_valid: Callable[[Any], bool], fix: str, default: JsonValue = None
    ) -> Any:
        if value is None or value == "":
            return None
        if is_valid(value):
            return value
        used = "the default is used" if default is None else f"{json.dumps(default).replace(chr(34), '')} is used"
        self._problems.append(f"{self._path}{name} {format_value(value)} {fix}; {used}")
        return default


def combine_stated_fields(parts: Iterable[StatedFields]) -> StatedFields:
    """Returns the fields of a text that several turns share: its privacy is that of the strictest of them.

    Type and kind apply where all parts that state one agree. Confidence and trust are the lowest, importance the
    highest; all tags apply.
    """
    each = list(parts)

    def values(get: Callable[[StatedFields], _T | None]) -> list[_T]:
        return [v for p in each if (v := get(p)) is not None]

    def common(get: Callable[[StatedFields], _T | None]) -> _T | None:
        return next(iter(found)) if len(found := set(values(get))) == 1 else None

    return StatedFields(
        type=common(lambda p: p.type),
        tags=tuple(sorted({t for p in each for t in p.tags})),
        importance=max(values(lambda p: p.importance), default=None),
        confidence=min(values(lambda p: p.confidence), default=None),
        kind=common(lambda p: p.kind),
        pii=True if any(values(lambda p: p.pii)) else common(lambda p: p.pii),
        user_visible=False if False in values(lambda p: p.user_visible) else common(lambda p: p.user_visible),
        retention_days=min(values(lambda p: p.retention_days), default=None),
        memory=min(values(lambda p: p.memory), default=None),  # "off" before "save"
        valid_from=common(lambda p: p.valid_from),
        valid_until=common(lambda p: p.valid_until),
        trust=min(values(lambda p: p.trust), default=None),
    )


def _to_int(value: object) -> int | None:
    """Returns a whole number, also where it was written as text or as 30.0."""
    try:
        number = float(str(value))
    except ValueError:
        return None
    return int(number) if number.is_integer() else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def format_value(value: object) -> str:
    """Returns a value as messages show it: short, and only the type of one that is not a single value."""
    if isinstance(value, str):
        return repr(shorten_value(value))
    return shorten_value(value) if isinstance(value, int | float) else f"(a {type(value).__name__})"


Kind = Literal["prose", "heading", "label", "fields", "table", "code", "turn", "aside"]
"""The role of a span; an aside (a greeting, a comment) stays in the text and makes no memory.

Fields (status, author, date of a document) open the chunk of what follows them, and are no memory alone.
"""

HEADINGS = frozenset({"heading", "label", "fields"})
"""Kinds of what is in the path of the text below it and is no memory alone; a label introduces a list."""

RelationLabel = Literal["UPDATE", "EXTEND", "UPDATED_BY"]

SUITE_ROW = "application/vnd.palimpsest.suite-row+json"
CONVERSATION = "application/vnd.palimpsest.conversation+jsonl"

QUOTED_IN = "quoted_in"
"""Metadata of a document that is quoted in another: the uri of the other. Only the quote itself can date it."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A span of a document's text with one role.

    Attributes:
        char_start: first character, counted in `ExtractedDocument.text`.
        char_end: end, exclusive.
        kind: the role.
        heading: path of the headings and list items that it is under, joined with " > "; that of a heading or label
            ends with itself.
        page: from 1.
        speaker: who says it.
        said_at: when, on the clock that states it.
        stated: what a turn states of its memory.
    """

    char_start: int
    char_end: int
    kind: Kind
    heading: str | None = None
    page: int | None = None
    speaker: str | None = None
    said_at: datetime | None = None
    stated: StatedFields | None = None

    def to_row(self) -> list[JsonValue]:
        """Returns the fields in their order as JSON values; `stated` is left out where it is null."""
        row: list[JsonValue] = [self.char_start, self.char_end, self.kind, self.heading, self.page, self.speaker]
        row.append(_to_iso(self.said_at))
        return [*row, self.stated.to_json()] if self.stated else row

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> "Segment":
        """Returns the segment that `to_row` wrote."""
        start, end, kind, heading, page, speaker, said_at, *stated = row
        fields = StatedFields.from_json(stated[0]) if stated else None
        return cls(start, end, kind, heading, page, speaker, _from_iso(said_at), fields)


@dataclass(frozen=True, slots=True)
class StatedRelation:
    """The document with this relation replaces (UPDATE), needs (EXTEND) or was replaced by (UPDATED_BY) `other_uri`."""

    other_uri: str
    label: RelationLabel


_PLAIN = ("uri", "media_type", "text", "title", "session_id", "user_id", "project_id")
"""Fields of a document that its JSON object and its row have as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedDocument:
    """The text of one source, one conversation session or one suite row, with what the source states about it.

    Attributes:
        uri: of the source, with `#<part>` where it is a part of one.
        media_type: of the source.
        text: what every span and every citation points into. Lines end with a newline; there is no NUL and no lone
            surrogate; otherwise it is as found.
        title: empty where there is none.
        session_id: of a conversation.
        user_id: null unless the source names one.
        project_id: null unless the source names one.
        source_time: the date of the document, on the clock that states it.
        kind: kind of source, where the media type does not imply it.
        metadata: JSON values only.
        relations: stated relations.
        segments: in order, without overlap.
        redactions: the removed secrets as JSON, without their text; null where nothing was searched for.
        first_line: line of the source with which the text begins, from 1; known only while the source is read.
    """

    uri: str
    media_type: str
    text: str
    title: str = ""
    session_id: str | None = None
    user_id: str | None = None
    project_id: str | None = None
    source_time: datetime | None = None
    kind: str | None = None
    metadata: JsonObject = field(default_factory=dict)
    relations: tuple[StatedRelation, ...] = ()
    segments: tuple[Segment, ...] = ()
    redactions: str | None = None
    first_line: int = field(default=1, compare=False)

    def to_json(self) -> JsonObject:
        """Returns the document without its redactions; segments are rows, to keep 20,000 turns small."""
        return {
            **{name: getattr(self, name) for name in (*_PLAIN, "kind", "metadata")},
            "source_time": _to_iso(self.source_time),
            "relations": [[r.other_uri, r.label] for r in self.relations],
            "segments": [s.to_row() for s in self.segments],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "ExtractedDocument":
        """Returns the document that `to_json` wrote; times may be ISO text, or datetimes with `utc_offset` beside them.

        Raises:
            KeyError, TypeError, ValueError: `data` was not written by `to_json`.
        """
        return cls(
            **{name: data[name] for name in _PLAIN},
            source_time=on_own_clock(_from_iso(data["source_time"]), data.get("utc_offset")),
            kind=data.get("kind"),
            metadata=dict(data["metadata"]),
            relations=tuple(StatedRelation(uri, label) for uri, label in data["relations"]),
            segments=tuple(Segment.from_row(row) for row in data["segments"]),
            first_line=data.get("first_line", 1),
        )


@dataclass(frozen=True, slots=True)
class Extraction:
    """What one source gave.

    Attributes:
        documents: of the source.
        problems: one for each part that could not be read, with where and why.
        left_out: number of parts that are no text or not for people, by kind: pictures, reasoning, edited messages.
        warnings: what was read in a way that a person may want to know; nothing is missing.
    """

    documents: tuple[ExtractedDocument, ...]
    problems: tuple[str, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


ReadResult = Extraction | Rejected
"""What reading a source gave: its documents, or why there are none."""


def _to_iso(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()


def _from_iso(value: str | datetime | None) -> datetime | None:
    return datetime.fromisoformat(value) if isinstance(value, str) else value


# A document as a row of the ingest log, see `store.ingest_log.EXTRACTION`.


class TextRow(TypedDict):
    """The text of a document and where it is from; `segments` is JSON."""

    user_id: str
    session_id: str | None
    uri: str
    text: str
    segments: str | None


class DocumentRow(TextRow):
    """A row of the log; `metadata`, `relations` and `redactions` are JSON."""

    project_id: str | None
    title: str
    media_type: str
    source_time: datetime | None
    utc_offset: int | None
    metadata: str
    relations: str
    kind: str | None
    redactions: str | None


def document_to_row(document: ExtractedDocument, user_id: str, project_id: str | None) -> DocumentRow:
    """Returns the row of a document; `user_id` and `project_id` apply where it names none."""
    data = document.to_json()
    return {
        **{name: getattr(document, name) for name in (*_PLAIN, "kind", "redactions")},  # type: ignore[typeddict-item]
        "user_id": document.user_id or user_id,
        "project_id": document.project_id or project_id,
        "source_time": document.source_time,
        "utc_offset": utc_offset(document.source_time),
        "metadata": json.dumps(document.metadata, sort_keys=True, ensure_ascii=False, default=str),
        "relations": json.dumps(data["relations"], sort_keys=True),
        "segments": json.dumps(data["segments"], ensure_ascii=False),
    }


def row_to_document(row: DocumentRow) -> ExtractedDocument:
    """Returns the document that `document_to_row` wrote."""
    parsed = {
        "metadata": json.loads(row["metadata"]),
        "relations": json.loads(row["relations"]),
        "segments": json.loads(row["segments"] or "[]"),
    }
    return replace(ExtractedDocument.from_json({**row, **parsed}), redactions=row["redactions"])


# Whose a text is.


class Scope(NamedTuple):
    """The user, project and session of a text; None for one that is not stated."""

    user_id: str | None = None
    project_id: str | None = None
    session_id: str | None = None

    def or_else(self, other: "Scope") -> "Scope":
        """Returns the scope, with the names of another where this one has none."""
        return Scope(*(mine or theirs for mine, theirs in zip(self, other, strict=True)))


# What every reader receives, and how many problems of a source are listed.


@dataclass(frozen=True, slots=True)
class Source:
    """A source in memory.

    Attributes:
        uri: path relative to the collection.
        suffix: of the file name, in lower case, with the dot.
        data: the bytes of the file.
        nesting: how many mails contain it.
        dates: which part comes first in dates of three numbers.
        fields: of its sidecar; null where it has none.
        names: name of each user id in a chat program's export; null where there is no list of users.
        defaults: whose a text is that does not state it: by the sidecar, else by the collection.
    """

    uri: str
    suffix: str
    data: bytes
    nesting: int = 0
    dates: DateOrder | None = None
    fields: Mapping[str, JsonValue] | None = None
    names: Mapping[str, str] | None = None
    defaults: Scope = field(default_factory=Scope)


def limit_problems(problems: Sequence[str], limits: Limits) -> tuple[str, ...]:
    """Returns at most `max_problems` problems; the rest become one line with their number."""
    if len(problems) <= limits.max_problems:
        return tuple(problems)
    rest = len(problems) - limits.max_problems
    return (*problems[: limits.max_problems], f"and {rest} more such problems")
