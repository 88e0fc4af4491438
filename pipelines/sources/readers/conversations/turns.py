"""Conversations as JSONL, one turn a line: {"session_id", "user_id", "speaker", "text", "timestamp", ...}."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from palimpsest.core.errors import Rejected
from palimpsest.sources.readers.common.clean_text import clean_text, parse_name
from palimpsest.sources.readers.common.document_time import explain_date
from palimpsest.sources.readers.common.text_builder import TextBuilder
from palimpsest.sources.readers.common.validity import parse_validity
from palimpsest.sources.readers.conversations.json_rows import JsonRow
from palimpsest.sources.records.extracted import CONVERSATION, ExtractedDocument, Extraction
from palimpsest.sources.records.source import Source, limit_problems
from palimpsest.sources.records.stated_fields import FIELD_NAMES, TOOL_ROLES, StatedFields, parse_stated_fields
from palimpsest.sources.secrets.find_secrets import shorten_value
from palimpsest.store.limits import Limits
from palimpsest.text.dates import parse_stated_time


def read_conversations(
    source: Source,
    rows: list[JsonRow],
    problems: list[str],
    limits: Limits,
    *,
    unit: str = "line",
    titles: Mapping[tuple[str | None, str | None], str] | None = None,
    kind: str = "message",
) -> Extraction:
    """Returns one document for each (user, session, project), in the order of first turns; turns keep the file's order.

    A segment spans exactly the words of its turn; "Speaker: " stands before it on the same line. `role` is the speaker
    where none is named, and a turn by the role of a tool is of the kind `tool`. A line that is no turn becomes a
    problem; so does a timestamp or another field that cannot be used, though its turn is kept.

    Args:
        source: the file.
        rows: its turns.
        problems: what is known to be wrong with it, to which this adds.
        limits: bounds.
        unit: what `Row.line` counts, to people.
        titles: of conversations, by (user, session).
        kind: kind of source of the documents.

    Raises:
        Rejected: no line is a turn.
    """
    builders: dict[tuple[str | None, str | None, str | None], TextBuilder] = {}
    for row in rows:
        text = row.value.get("text")
        if not isinstance(text, str) or not (text := clean_text(text).strip()):
            problems.append(f"{unit} {row.line}: no text; a turn needs a text of at least one word")
            continue
        stamp = row.value.get("timestamp")
        said_at = parse_stated_time(stamp, source.dates)
        if stamp not in (None, "") and said_at is None:
            why = f"timestamp {shorten_value(stamp)!r} {explain_date(stamp)}"
            problems.append(f"{unit} {row.line}: {why}; the turn is kept, undated")
        role = parse_name(row.value.get("role"))
        speaker = parse_name(row.value.get("speaker")) or role
        stated = None
        if row.value.keys() & FIELD_NAMES:
            stated, wrong = parse_stated_fields(row.value)
            problems += (f"{unit} {row.line}: {p}" for p in wrong)
        if {(role or "").casefold(), (speaker or "").casefold()} & TOOL_ROLES and not (stated and stated.kind):
            stated = replace(stated or StatedFields(), kind="tool")
        validity, wrong = parse_validity(row.value.get("valid_from"), row.value.get("valid_until"), source.dates)
        problems += (f"{unit} {row.line}: {p}; the turn is kept" for p in wrong)
        if validity:
            stated = replace(stated or StatedFields(), valid_from=validity.valid_from, valid_until=validity.valid_until)
        owner, session, project = (parse_name(row.value.get(f"{n}_id")) for n in ("user", "session", "project"))
        key = (owner, session, project)
        builder = builders.setdefault(key, TextBuilder(limits.max_chars))
        prefix = f"{speaker}: " if speaker else ""
        builder.add(text, "turn", prefix=prefix, gap="\n", speaker=speaker, said_at=said_at, stated=stated)
    if not builders:
        raise Rejected(f"no readable turn; {problems[0] if problems else 'the file holds no line'}")
    documents = tuple(_document(source, key, b, (titles or {}).get(key[:2], ""), kind) for key, b in builders.items())
    return Extraction(documents, limit_problems(problems, limits))


def _document(
    source: Source,
    key: tuple[str | None, str | None, str | None],
    builder: TextBuilder,
    title: str,
    kind: str,
) -> ExtractedDocument:
    user_id, session_id, project_id = key
    times = [s.said_at for s in builder.segments if s.said_at]
    speakers = sorted({s.speaker for s in builder.segments if s.speaker})
    metadata: dict[str, Any] = {"speakers": speakers} if speakers else {}
    return ExtractedDocument(
        uri=source.uri,
        media_type=CONVERSATION,
        text=builder.text,
        title=title,
        session_id=session_id,
        user_id=user_id,
        project_id=project_id,
        source_time=min(times, default=None),
        kind=kind,
        metadata=metadata,
        segments=tuple(builder.segments),
    )
