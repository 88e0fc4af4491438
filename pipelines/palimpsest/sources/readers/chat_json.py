"""Conversations in JSON: the shapes of LoCoMo and LongMemEval, and what chat programs export."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Literal

from palimpsest.core.errors import Rejected
from palimpsest.core.ids import JsonObject, JsonValue
from palimpsest.sources.extracted import (
    SUITE_ROW,
    ExtractedDocument,
    Extraction,
    Segment,
    Source,
    StatedFields,
    limit_problems,
)
from palimpsest.sources.find_secrets import shorten_value
from palimpsest.sources.readers.chat_exports import (
    ID_FIELDS,
    Conversation,
    find_name,
    format_messages,
    has_slack_messages,
    is_account_list,
    is_export,
    is_export_list,
    parse_export,
)
from palimpsest.sources.readers.chat_programs import (
    is_program,
    is_side_file,
    parse_program_list,
    parse_program_object,
)
from palimpsest.sources.readers.chat_turns import (
    chat_kind,
    is_chat,
    parse_turns,
    read_conversations,
)
from palimpsest.sources.readers.chat_unknown import reject_unknown_chat
from palimpsest.sources.readers.encodings import (
    clean_text,
    decode,
    escape_invisible,
    first_date,
    one_line,
    parse_name,
    title_from_uri,
    to_json_object,
)
from palimpsest.sources.readers.front_matter import parse_scope_name
from palimpsest.sources.readers.json_values import JsonReader, JsonRow, parse_json_rows
from palimpsest.sources.readers.markdown import markdown_segments
from palimpsest.sources.readers.text_files import text_segments
from palimpsest.store.collection_config import Limits
from palimpsest.text.dates import parse_stated_time
from palimpsest.text.words import TOOL_ROLES, chat_role

# Texts that were attached to the messages of a chat: each a document of its own, as attachments of mails are.

_MAX_NAME_CHARS = 200


def read_attached_texts(
    source: Source, conversation: Conversation, place: str, problems: list[str], limits: Limits
) -> list[ExtractedDocument]:
    """Returns a document for each text attached to a conversation, with the uri `<uri>#<session>#<its name>`.

    It has the session and the user of the conversation and the time of its message. A text that was attached again is
    read once; those beyond `max_attachments` become a problem.

    Raises:
        Rejected: a text is too long.
    """
    documents: list[ExtractedDocument] = []
    used: dict[str, int] = {}
    distinct = {(a.text.name, a.text.text): a for a in reversed(conversation.attachments)}
    attachments = list(reversed(distinct.values()))
    if len(attachments) > limits.max_attachments:
        problems.append(
            f"{place}{len(attachments)} attachments, the limit is {limits.max_attachments}: the rest were not read; "
            "raise limits.max_attachments"
        )
    for attachment in attachments[: limits.max_attachments]:
        text = clean_text(attachment.text.text)
        name = _name(attachment.text.name)
        is_markdown = PurePosixPath(name).suffix.lower() in (".md", ".markdown")
        segments = tuple(markdown_segments(text) if is_markdown else text_segments(text))
        if not segments:
            continue
        if len(text) > limits.max_chars:
            raise Rejected(f"too large: more than {limits.max_chars:,} characters of text; split the source")
        used[name] = used.get(name, 0) + 1
        uri = "#".join(n for n in (conversation.session_id, name if used[name] == 1 else f"{used[name]}-{name}") if n)
        metadata: JsonObject = {"attached_to": source.uri}
        documents.append(
            ExtractedDocument(
                uri=f"{source.uri}#{escape_invisible(uri)}",
                media_type="text/markdown" if is_markdown else "text/plain",
                text=text,
                title=title_from_uri(name),
                session_id=conversation.session_id,
                user_id=conversation.user_id,
                source_time=parse_stated_time(attachment.time, source.dates),
                metadata=metadata,
                segments=segments,
            )
        )
    return documents


def _name(stated: str) -> str:
    """Returns the last part of a name: it is a label, never a path."""
    name = one_line(clean_text(PurePosixPath(stated.replace("\\", "/")).name))[:_MAX_NAME_CHARS].replace("#", "_")
    return name if name not in ("", ".", "..") else "attachment.txt"


_SESSION = re.compile(r"session_(\d+)")
_TURNS = ("messages", "turns", "conversation", "chat", "dialogue", "history")
_CONTAINERS = ("data", "conversations", "sessions", "chats", "left_chats", "threads", "list", "items", "value")
_CREATED = ("created_at", "create_time", "createdAt")
_MAX_DEPTH = 4


def read_json(source: Source, limits: Limits) -> Extraction:
    """Reads a JSON file: its conversations where there are any, else its text as it is.

    Raises:
        Rejected: not JSON, nested too deeply, binary, empty or too long.
    """
    reader = JsonReader()
    try:
        if (exported := _find_exported(reader, source.data)) is not None:
            return read_chats(source, exported, _repeated_fields(reader), limits)
        text = decode(source.data, limits)
        value = reader.decode(text)
    except RecursionError:
        raise Rejected("nested too deeply: this JSON is no document; leave it out") from None
    except ValueError as e:
        raise Rejected(f"not JSON: {e}; export it again") from None
    if is_export_list(source.uri, value) or is_account_list(value) or is_side_file(source.uri, value):
        return Extraction(())  # names for the messages of an export, or the account of a chat program
    left_out: Counter[str] = Counter()
    is_slack = has_slack_messages(value)
    if is_slack:
        value = format_messages(value, source.names or {}, left_out)
    if found := find_conversations(value, source.names):
        return read_chats(source, found, _repeated_fields(reader), limits, left_out)
    if is_slack:
        return Extraction((), (), left_out)  # nothing but notices
    reject_unknown_chat(value)
    start = len(text) - len(text.lstrip())
    document = ExtractedDocument(
        uri=source.uri,
        media_type="application/json",
        text=text,
        title=title_from_uri(source.uri),
        segments=(Segment(start, len(text.rstrip()), "code"),),
    )
    return Extraction((document,))


def read_chats(
    source: Source,
    found: Sequence[Conversation],
    problems: list[str],
    limits: Limits,
    known_left_out: Mapping[str, int] | None = None,
) -> Extraction:
    """Returns one document for each conversation, and one for each text attached to its messages.

    Args:
        source: the file.
        found: its conversations.
        problems: known problems, to which this adds.
        limits: of the source.
        known_left_out: what was left out of it before.

    Raises:
        Rejected: no message has a text.
    """
    titles: dict[tuple[str | None, str | None], str] = {}
    readable: list[tuple[str, Conversation]] = []
    left_out: Counter[str] = Counter(known_left_out)
    for number, conversation in enumerate(found, 1):
        place = f"conversation {number}: " if len(found) > 1 else ""
        if conversation.problem:
            problems.append(f"conversation {number}: {conversation.problem}; it is left out")
            continue
        problems += (f"{place}{note}" for note in conversation.notes)
        key = (conversation.user_id, conversation.session_id)
        if conversation.title:
            titles.setdefault(key, conversation.title)
        readable.append((place, conversation))
        left_out.update(conversation.left_out)
    attached = [d for place, c in readable for d in read_attached_texts(source, c, place, problems, limits)]
    if attached and not any(c.turns for _, c in readable):
        return Extraction(tuple(attached), limit_problems(problems, limits), left_out)
    if found and not problems and not any(c.turns for c in found):
        return Extraction((), (), left_out)  # chats that were opened, and nothing was written
    kind = "message" if all(c.kind == "message" for c in found) else "import"
    chats = read_conversations(source, _to_rows(readable), problems, limits, unit="message", titles=titles, kind=kind)
    metadata = {(c.user_id, c.session_id): c.metadata for _, c in readable if c.metadata}
    documents = (
        replace(d, metadata=d.metadata | more) if (more := metadata.get((d.user_id, d.session_id))) else d
        for d in chats.documents
    )
    return Extraction((*documents, *attached), chats.problems, left_out, chats.warnings)


def find_conversations(value: JsonValue, names: Mapping[str, str] | None = None) -> list[Conversation]:
    """Returns the conversations in a JSON value, with distinct names.

    Args:
        value: of a file.
        names: what a file beside it calls its channel.
    """
    return _with_unique_names(_with_owners(list(_find(value, 0, names))))


def _find_exported(reader: JsonReader, data: bytes) -> list[Conversation] | None:
    """Returns the conversations of an array that begins with an exported one, read item by item; None for others.

    Raises:
        ValueError: it begins with one and is damaged further on.
        RecursionError: nested too deeply.
    """
    items = reader.decode_items(data)
    try:
        first = next(items, None)
    except (ValueError, RecursionError):
        return None
    if not is_export(first) and not is_program(first):
        return None
    found = list(_find(first, 1))
    del first  # a large file: only what was read of its items is in memory
    for item in items:
        found += _find(item, 1)
        del item
    return _with_unique_names(_with_owners(found))


def _repeated_fields(reader: JsonReader) -> list[str]:
    return [f"{shorten_value(k)} stated twice in one object; remove one" for k in dict.fromkeys(reader.repeated)]


def _to_rows(conversations: Sequence[tuple[str, Conversation]]) -> Iterator[JsonRow]:
    for place, conversation in conversations:
        for number, turn in enumerate(conversation.turns, 1):
            yield JsonRow(
                number, {"session_id": conversation.session_id, "user_id": conversation.user_id, **turn}, place
            )


def _find(value: JsonValue, depth: int, names: Mapping[str, str] | None = None) -> Iterator[Conversation]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, list):
        if found := parse_program_list(value, names):
            yield from found
        elif is_chat(value):
            yield _conversation(value, kind=chat_kind(value))
        else:
            for item in value:
                if isinstance(item, dict | list):
                    yield from _find(item, depth + 1, names)
    elif isinstance(value, dict):
        if exported := parse_program_object(value, names) or _parse_export(value):
            yield from exported
            return
        for key in _CONTAINERS:
            if isinstance(value.get(key), list | dict):
                yield from _find(value[key], depth + 1, names)


def _parse_export(item: JsonObject) -> list[Conversation]:
    """Returns the conversations of an object in one of the known shapes."""
    return list(_parse_known(item))


def _parse_known(item: JsonObject) -> Iterator[Conversation]:
    if isinstance(item.get("haystack_sessions"), list):
        yield from _parse_longmemeval(item)
    elif isinstance(talk := item.get("conversation"), dict) and any(_SESSION.fullmatch(k) for k in talk):
        yield from _parse_locomo(talk, item)
    elif any(_SESSION.fullmatch(k) and isinstance(v, list) and is_chat(v) for k, v in item.items()):
        yield from _parse_locomo(item, item)
    elif is_export(item):
        yield parse_export(item)
    else:
        for key in _TURNS:
            if isinstance(messages := item.get(key), list) and is_chat(messages):
                user, problem = parse_scope_name("user_id", item.get("user_id"))
                names = (find_name(item, ID_FIELDS), user, find_name(item, ("title", "name")))
                date = next((item[k] for k in _CREATED if item.get(k) not in (None, "")), None)
                yield _conversation(messages, *names, chat_kind(messages), problem, date=date)
                return


def _parse_locomo(talk: Mapping[str, JsonValue], item: Mapping[str, JsonValue]) -> Iterator[Conversation]:
    """Yields sessions `session_<n>`, dated by `session_<n>_date_time`; each sample has its own user."""
    sample, problem = parse_scope_name("sample_id", item.get("sample_id"))
    for number, key in sorted((int(m[1]), k) for k in talk if (m := _SESSION.fullmatch(k))):
        if isinstance(session := talk[key], list) and session:
            date = talk.get(f"{key}_date_time")
            yield _conversation(session, f"session_{number}", sample, problem=problem, date=date)


def _parse_longmemeval(item: Mapping[str, JsonValue]) -> Iterator[Conversation]:
    """Yields `haystack_sessions`, with dates and ids in parallel lists; each question has its own user."""
    sessions, dates, ids = (
        found if isinstance(found := item.get(key), list) else []
        for key in ("haystack_sessions", "haystack_dates", "haystack_session_ids")
    )
    user, problem = parse_scope_name("question_id", item.get("question_id"))
    for i, session in enumerate(sessions):
        if isinstance(session, list) and session:
            name = parse_name(ids[i]) if i < len(ids) else None
            date = dates[i] if i < len(dates) else None
            yield _conversation(session, name or f"session_{i + 1}", user, problem=problem, date=date)


def _conversation(
    messages: Sequence[JsonValue],
    session_id: str | None = None,
    user_id: str | None = None,
    title: str | None = None,
    kind: Literal["message", "import"] = "import",
    problem: str | None = None,
    *,
    date: JsonValue = None,
) -> Conversation:
    parsed = parse_turns(messages, date)
    return Conversation(
        parsed.rows,
        session_id,
        user_id,
        title,
        kind,
        problem,
        attachments=tuple(parsed.attachments),
        left_out=parsed.left_out,
    )


def _with_owners(found: list[Conversation]) -> list[Conversation]:
    """Returns conversations with the account that each is of as its user, where there are those of several."""
    if len({c.owner for c in found}) < 2:
        return found
    return [replace(c, user_id=c.user_id or c.owner) for c in found]


def _with_unique_names(found: list[Conversation]) -> list[Conversation]:
    if len(found) == 1:
        return found
    used: dict[tuple[str | None, str], int] = {}
    out = []
    for number, c in enumerate(found, 1):
        name = c.session_id or f"conversation_{number}"
        n = used[c.user_id, name] = used.get((c.user_id, name), 0) + 1
        out.append(replace(c, session_id=name if n == 1 else f"{name} ({n})"))
    return out


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
