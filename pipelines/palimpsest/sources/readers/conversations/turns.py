"""Conversations as JSONL, one turn a line: {"session_id", "user_id", "speaker", "text", "timestamp", ...}."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from palimpsest.core.errors import Rejected
from palimpsest.core.json_types import JsonObject, JsonValue
from palimpsest.sources.extracted import (
    CONVERSATION,
    FIELD_NAMES,
    ExtractedDocument,
    Extraction,
    Scope,
    Source,
    StatedFields,
    limit_problems,
    parse_stated_fields,
)
from palimpsest.sources.find_secrets import shorten_value
from palimpsest.sources.readers.common.clean_text import clean_text, parse_name
from palimpsest.sources.readers.common.document_time import explain_date
from palimpsest.sources.readers.common.front_matter import parse_scope
from palimpsest.sources.readers.common.table_rows import parse_validity
from palimpsest.sources.readers.common.text_builder import TextBuilder
from palimpsest.sources.readers.conversations.json_rows import JsonRow
from palimpsest.store.collection_config import Limits
from palimpsest.text.chat_roles import TOOL_ROLES
from palimpsest.text.dates import DateOrder, parse_stated_time


def read_conversations(
    source: Source,
    rows: Iterable[JsonRow],
    problems: list[str],
    limits: Limits,
    *,
    unit: str = "line",
    titles: Mapping[tuple[str | None, str | None], str] | None = None,
    kind: str = "message",
) -> Extraction:
    """Returns one document for each (user, session, project), in the order of first turns; turns keep the file's order.

    A turn that states one of the source's defaults is in the same document as one that states none.

    A segment spans exactly the words of its turn; "Speaker: " is before it on the same line. `role` is the speaker
    where none is named, and a turn by the role of a tool is of the kind `tool`. A line that is no turn becomes a
    problem, and so does one whose user, session or project is not usable; so does a timestamp or another field that is
    not usable, but its turn is included.

    Args:
        source: the file.
        rows: its turns.
        problems: known problems, to which this adds.
        limits: of the source.
        unit: what `JsonRow.line` counts, as messages show it.
        titles: of conversations, by (user, session).
        kind: kind of source of the documents.

    Raises:
        Rejected: no line is a turn.
    """
    builders: dict[Scope, TextBuilder] = {}
    stated_scopes: dict[Scope, Scope] = {}
    for row in rows:
        where = f"{row.place}{unit} {row.line}"
        text = row.value.get("text")
        if not isinstance(text, str) or not (text := clean_text(text).strip()):
            problems.append(f"{where}: no text; a turn needs a text of at least one word")
            continue
        scope, unusable = parse_scope(row.value)
        if unusable:
            problems.append(f"{where}: {'; '.join(unusable)}; the turn is left out")
            continue
        stamp = row.value.get("timestamp")
        said_at = parse_stated_time(stamp, source.dates)
        if stamp not in (None, "") and said_at is None:
            why = f"timestamp {shorten_value(stamp)!r} {explain_date(stamp)}"
            problems.append(f"{where}: {why}; the turn is kept, undated")
        speaker = parse_name(row.value.get("speaker")) or parse_name(row.value.get("role"))
        stated, wrong = _parse_fields(row.value, source.dates)
        problems += (f"{where}: {p}" for p in wrong)
        # A turn that names the default user is in the conversation of those that name none.
        session = scope.or_else(source.defaults)
        stated_scopes.setdefault(session, scope)
        builder = builders.setdefault(session, TextBuilder(limits.max_chars))
        prefix = f"{speaker}: " if speaker else ""
        builder.add(text, "turn", prefix=prefix, gap="\n", speaker=speaker, said_at=said_at, stated=stated)
    if not builders:
        raise Rejected(f"no readable turn; {problems[0] if problems else 'the file holds no line'}")
    documents = tuple(
        _to_document(source, scope, builders[session], (titles or {}).get((scope.user_id, scope.session_id), ""), kind)
        for session, scope in stated_scopes.items()
    )
    return Extraction(documents, limit_problems(problems, limits))


def _parse_fields(row: Mapping[str, JsonValue], dates: DateOrder | None) -> tuple[StatedFields | None, list[str]]:
    """Returns what a turn states of its memory, and a problem for each value that is not usable."""
    stated, problems = None, list[str]()
    if row.keys() & FIELD_NAMES:
        stated, problems = parse_stated_fields(row)
    roles = {(parse_name(row.get(name)) or "").casefold() for name in ("role", "speaker")}
    if roles & TOOL_ROLES and not (stated and stated.kind):
        stated = replace(stated or StatedFields(), kind="tool")
    validity, wrong = parse_validity(row.get("valid_from"), row.get("valid_until"), dates)
    problems += [f"{p}; the turn is kept" for p in wrong]
    if validity:
        stated = replace(stated or StatedFields(), valid_from=validity.valid_from, valid_until=validity.valid_until)
    return stated, problems


def _to_document(source: Source, session: Scope, builder: TextBuilder, title: str, kind: str) -> ExtractedDocument:
    times = [s.said_at for s in builder.segments if s.said_at]
    speakers = sorted({s.speaker for s in builder.segments if s.speaker})
    metadata: JsonObject = {"speakers": speakers} if speakers else {}
    return ExtractedDocument(
        uri=source.uri,
        media_type=CONVERSATION,
        text=builder.text,
        title=title,
        session_id=session.session_id,
        user_id=session.user_id,
        project_id=session.project_id,
        source_time=min(times, default=None),
        kind=kind,
        metadata=metadata,
        segments=tuple(builder.segments),
    )
