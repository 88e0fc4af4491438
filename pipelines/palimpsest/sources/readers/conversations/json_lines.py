"""JSON lines: a suite, a conversation or a chat export, whichever the rows are."""

from collections.abc import Mapping

from palimpsest.core.errors import Rejected
from palimpsest.core.json_types import JsonObject, JsonValue
from palimpsest.sources.extracted import (
    SUITE_ROW,
    ExtractedDocument,
    Extraction,
    Segment,
    Source,
    StatedFields,
    limit_problems,
)
from palimpsest.sources.readers.common.clean_text import clean_text, first_date, one_line, parse_name, to_json_object
from palimpsest.sources.readers.common.encodings import decode
from palimpsest.sources.readers.common.front_matter import parse_scope_name
from palimpsest.sources.readers.conversations.chat_json import find_conversations, read_chats
from palimpsest.sources.readers.conversations.json_rows import JsonRow, parse_json_rows
from palimpsest.sources.readers.conversations.turns import read_conversations
from palimpsest.store.collection_config import Limits
from palimpsest.text.chat_roles import TOOL_ROLES, chat_role

# The corpus of a suite, JSONL {"_id", "title", "text", "scope"?, "meta"?}: each row a document, and one memory.

_DATES = ("date_time", "date", "timestamp", "created")


def read_suite(source: Source, rows: list[JsonRow], problems: list[str], limits: Limits) -> Extraction:
    """Returns one document a row, with uri `<uri>#<_id>`, its scope as the user and its `_id` in the metadata.

    A row with `meta.speaker` is a turn; a chat's `meta.role` is the speaker where there is none.
    An image's caption is appended to the text as `[image: ...]`. A row without text is its title; one with neither,
    or with an `_id` seen before, becomes a problem.

    Raises:
        Rejected: no row can be used.
    """
    documents: list[ExtractedDocument] = []
    seen: set[str] = set()
    chars = 0
    for row in rows:
        document = _document(source, row, seen, problems)
        if document is None:
            continue
        chars += len(document.text)
        if chars > limits.max_chars:
            raise Rejected(f"too large: more than {limits.max_chars:,} characters of text; split the source")
        documents.append(document)
    if not documents:
        raise Rejected(f"no readable row; {problems[0] if problems else 'the file holds no line'}")
    return Extraction(tuple(documents), limit_problems(problems, limits))


def _document(source: Source, row: JsonRow, seen: set[str], problems: list[str]) -> ExtractedDocument | None:
    value = row.value
    row_id = value.get("_id")
    if not isinstance(row_id, str | int) or isinstance(row_id, bool) or not (row_id := clean_text(str(row_id))):
        problems.append(f"line {row.line}: no _id; a row needs one that is its own")
        return None
    if row_id in seen:
        problems.append(f"line {row.line}: _id {row_id[:80]!r} was used before; the first row is kept")
        return None
    stated = found if isinstance(found := value.get("meta"), dict) else {}
    meta: JsonObject = {}
    try:
        meta = to_json_object(stated)
    except ValueError as e:
        problems.append(f"line {row.line}: meta {e}; the row is kept without it")
    user, wrong_user = parse_scope_name("scope", value.get("scope"))
    session, wrong_session = parse_scope_name("meta.session", stated.get("session"))
    if wrong := wrong_user or wrong_session:
        problems.append(f"line {row.line}: _id {row_id[:80]!r}: {wrong}; the row is left out")
        return None
    title = one_line(clean_text(name)) if isinstance(name := value.get("title"), str) else ""
    text = _text(value.get("text"), title, meta)
    if not text:
        problems.append(f"line {row.line}: _id {row_id[:80]!r} has no text")
        return None
    seen.add(row_id)
    role, when = chat_role(meta.get("role")), first_date(meta, *_DATES, order=source.dates)
    speaker = parse_name(meta.get("speaker")) or role
    fields = StatedFields(kind="tool") if role and role.casefold() in TOOL_ROLES else None
    return ExtractedDocument(
        uri=f"{source.uri}#{row_id}",
        media_type=SUITE_ROW,
        text=text,
        title=title,
        session_id=session,
        user_id=user,
        source_time=when,
        metadata={**meta, "_id": row_id},
        segments=(Segment(0, len(text), "turn" if speaker else "prose", None, None, speaker, when, fields),),
    )


def _text(text: JsonValue, title: str, meta: Mapping[str, JsonValue]) -> str:
    text = clean_text(text).strip() if isinstance(text, str) else ""
    if caption := parse_name(meta.get("image_caption")):
        text = f"{text} [image: {caption}]".lstrip()
    return text or title


# JSON lines: a suite, a conversation or a chat export, whichever the rows are.


def read_json_lines(source: Source, limits: Limits) -> Extraction:
    """Reads JSON lines by their layout; any row may show it: the first ones may be damaged.

    Raises:
        Rejected: not text, or of no layout that is known.
    """
    rows, problems = parse_json_rows(decode(source.data, limits))
    if any("_id" in r.value and "text" in r.value for r in rows):
        return read_suite(source, rows, problems, limits)
    if any("text" in r.value and r.value.keys() & {"speaker", "role", "session_id", "timestamp"} for r in rows):
        return read_conversations(source, rows, problems, limits)
    if found := find_conversations([r.value for r in rows]):
        return read_chats(source, found, problems, limits)
    if not rows:
        raise Rejected(f"no line is a JSON object; {problems[0]}")
    raise Rejected(
        "JSON lines of an unknown layout; a turn has session_id, speaker or role, text, timestamp, "
        "a suite row _id, title, text"
    )
