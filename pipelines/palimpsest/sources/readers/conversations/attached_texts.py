"""Texts that were attached to the messages of a chat: each a document of its own, as attachments of mails are."""

from pathlib import PurePosixPath

from palimpsest.core.errors import Rejected
from palimpsest.core.json_types import JsonObject
from palimpsest.sources.readers.common.clean_text import clean_text, escape_invisible, one_line, title_from_uri
from palimpsest.sources.readers.conversations.chat_exports import Conversation
from palimpsest.sources.readers.text_files.markdown import markdown_segments
from palimpsest.sources.readers.text_files.plain_text import text_segments
from palimpsest.sources.records.extracted import ExtractedDocument
from palimpsest.sources.records.source import Source
from palimpsest.store.limits import Limits
from palimpsest.text.dates import parse_stated_time

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
