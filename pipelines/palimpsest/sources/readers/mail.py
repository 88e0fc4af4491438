"""E-mail, Outlook's .msg too: the words of its writer, headers as metadata, each attachment a document of its own."""

import io
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from email.utils import format_datetime, getaddresses, parsedate_to_datetime
from mimetypes import guess_extension
from pathlib import PurePosixPath
from typing import Any

from palimpsest.core.errors import Rejected
from palimpsest.sources.extracted import QUOTED_IN, ExtractedDocument, Extraction, Segment, Source, limit_problems
from palimpsest.sources.readers.encodings import clean_text, decode, escape_invisible, one_line, title_from_uri
from palimpsest.sources.readers.html_page import parse_html
from palimpsest.sources.readers.mail_body import Line, add_quote, add_words, find_quotes, html_lines, text_lines
from palimpsest.sources.readers.text_builder import HeadingPath, TextBuilder
from palimpsest.store.collection_config import Limits
from palimpsest.text.dates import parse_stated_time

ReadAny = Callable[[Source, Limits], Extraction]

_MAX_HEAD_BYTES, _HEAD_END = 1_000_000, re.compile(rb"\r?\n\r?\n")
_MAX_HEADER_CHARS, _MAX_PARTS = 2_000, 5_000
_HEADERS = {
    "from": "From",
    "to": "To",
    "cc": "Cc",
    "subject": "Subject",
    "date": "Date",
    "message_id": "Message-ID",
    "in_reply_to": "In-Reply-To",
    "list_id": "List-Id",
}


def read_mail(source: Source, limits: Limits, read_any: ReadAny) -> Extraction:
    """Reads a mail; what its writer wrote has the writer as speaker and the mail's date.

    Each quote is a document of its own, `<uri>#quoted-<n>`, by the author and of the day that the line above it states,
    else undated and by nobody. Greetings, closings and signatures are asides.

    An attachment has the uri `<uri>#<its name>` and, where it states no date, the date of the mail. One that cannot be
    read, and those beyond `max_attachments`, become problems.

    Args:
        source: the mail.
        limits: bounds, of each attachment too.
        read_any: reads an attachment by its bytes and suffix.

    Raises:
        Rejected: no mail, mails nested too deeply, or neither words nor a readable attachment.
    """
    if source.nesting > limits.max_nesting:
        raise Rejected(f"nested too deeply: more than {limits.max_nesting} mails inside each other; save it by itself")
    head = _HEAD_END.search(source.data)
    if (head.start() if head else len(source.data)) > _MAX_HEAD_BYTES:  # the parser takes its square in time
        raise Rejected(f"too large: more than {_MAX_HEAD_BYTES:,} bytes of headers; save it again as .eml")
    message = BytesParser(policy=policy.default).parsebytes(source.data)
    headers = {key: value for key, name in _HEADERS.items() if (value := _header(message, name))}
    if not headers.keys() & {"from", "to", "subject", "date", "message_id"}:
        raise Rejected("no mail: it has none of the headers From, To, Subject, Date; save it again as .eml")
    when = _date(headers.get("date", ""))
    problems: list[str] = []
    documents: list[ExtractedDocument] = []
    documents += _body_documents(source, message, headers, when, limits, problems)
    title = documents[0].title if documents else None
    documents += _attachments(source, message, title, when, limits, read_any, problems)
    if not documents:
        raise Rejected(f"empty: the mail holds no words{'; ' + problems[0] if problems else ''}")
    if sum(len(d.text) for d in documents) > limits.max_chars:
        raise Rejected(f"too large: more than {limits.max_chars:,} characters of text with its attachments; split it")
    return Extraction(tuple(documents), limit_problems(problems, limits))


def _header(message: EmailMessage, name: str) -> str:
    """Returns a header's words, empty where it is missing or cannot be decoded."""
    try:
        value = message[name]
    except Exception:  # the parser of headers raises errors of any type on hostile ones
        value = next((v for k, v in message.raw_items() if k.lower() == name.lower()), None)
    return one_line(clean_text(str(value or "")))[:_MAX_HEADER_CHARS]


def _date(text: str) -> Any:
    try:
        return parse_stated_time(parsedate_to_datetime(text))
    except (ValueError, TypeError, IndexError, OverflowError):
        return parse_stated_time(text)


def _body_documents(
    source: Source, message: EmailMessage, headers: dict[str, str], when: Any, limits: Limits, problems: list[str]
) -> list[ExtractedDocument]:
    """Returns what the writer wrote, and each quote as a document `<uri>#quoted-<n>` with its own author and day."""
    subject = headers.get("subject", "")
    speaker = _speaker(headers.get("from", ""))
    builder, path = TextBuilder(limits.max_chars), HeadingPath()
    if subject:
        builder.add(subject, "heading", heading=path.push(1, subject))
    lines, segments = _body_lines(message, limits, problems)
    own, quotes = find_quotes(lines, source.dates, when)
    for number, run in enumerate(own):
        add_words(builder, run, segments, path, speaker, when, first=not number)
    whole = ExtractedDocument(
        uri=source.uri,
        media_type="message/rfc822",
        text=builder.text,
        title=subject or title_from_uri(source.uri),
        source_time=when,
        metadata=dict(headers),
        segments=tuple(builder.segments),
    )
    documents = [whole] if builder.segments else []
    for number, quote in enumerate(quotes, 1):
        builder, path = TextBuilder(limits.max_chars), HeadingPath()
        if add_quote(builder, quote, segments, path):
            author = {"from": quote.author} if quote.author else {}
            document = replace(
                whole,
                uri=f"{source.uri}#quoted-{number}",
                text=builder.text,
                source_time=quote.when,
                metadata={QUOTED_IN: source.uri, **author},
                segments=tuple(builder.segments),
            )
            documents.append(document)
    return documents


def _body_lines(message: EmailMessage, limits: Limits, problems: list[str]) -> tuple[list[Line], list[Segment | None]]:
    part = _body(message)
    if part is None:
        return [], []
    try:
        data = _content(part)
        if part.get_content_type() != "text/html":
            return text_lines(_text(part, data, limits))
        root, more = parse_html(data, limits)
        problems += more
        start = root.find("body")
        return html_lines(root if start is None else start, limits)
    except Rejected as e:
        if not str(e).startswith("empty"):
            problems.append(f"body: {e}")
        return [], []


def _speaker(sender: str) -> str | None:
    name, address = next(iter(getaddresses([sender])), ("", ""))
    return one_line(name or address) or None


def _body(message: EmailMessage) -> EmailMessage | None:
    for kind in ("plain", "html"):
        part = message.get_body((kind,))
        if isinstance(part, EmailMessage) and _content(part).strip():
            return part
    return None


def _content(part: EmailMessage) -> bytes:
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def _text(part: EmailMessage, data: bytes, limits: Limits) -> str:
    try:
        text = clean_text(data.decode(part.get_content_charset() or "utf-8"))
    except (LookupError, UnicodeDecodeError):
        return decode(data, limits)
    return text


def _attached(message: EmailMessage) -> Iterator[EmailMessage]:
    """Yields the parts that are neither containers nor the body; attached mails are not entered."""
    body = {id(p) for kind in ("plain", "html") if (p := message.get_body((kind,))) is not None}
    stack, seen = [message], 0
    while stack and seen < _MAX_PARTS:
        part = stack.pop()
        seen += 1
        if part.get_content_maintype() == "multipart":
            stack += [p for p in reversed(list(part.iter_parts())) if isinstance(p, EmailMessage)]
        elif id(part) not in body:
            yield part


def _attachments(
    source: Source,
    message: EmailMessage,
    subject: str | None,
    when: Any,
    limits: Limits,
    read_any: ReadAny,
    problems: list[str],
) -> Iterator[ExtractedDocument]:
    used: dict[str, int] = {}
    number = 0
    for part in _attached(message):
        if part.get_content_maintype() == "image" and part.get_content_disposition() != "attachment":
            continue  # a picture inside the text
        number += 1
        if number > limits.max_attachments:
            continue
        name = _name(part, number)
        used[name] = used.get(name, 0) + 1
        uri = f"{source.uri}#{name}" if used[name] == 1 else f"{source.uri}#{used[name]}-{name}"
        try:
            if part.get_content_type() == "message/rfc822":
                data, suffix = part.get_payload(0).as_bytes(), ".eml"  # type: ignore[union-attr]
            else:
                data, suffix = _content(part), PurePosixPath(name).suffix.lower()
            if not data:
                raise Rejected("empty: the attachment holds no bytes")
            inner = replace(source, uri=uri, suffix=suffix, data=data, nesting=source.nesting + 1, fields=None)
            got = read_any(inner, limits)
        except Rejected as e:
            problems.append(f"attachment {name}: {e}")
            continue
        except Exception as e:  # an attachment that cannot even be decoded
            problems.append(f"attachment {name}: corrupt: {type(e).__name__}")
            continue
        problems += [f"attachment {name}: {p}" for p in got.problems]
        for document in got.documents:
            metadata = document.metadata | {"attached_to": source.uri} | ({"mail_subject": subject} if subject else {})
            time = document.source_time if QUOTED_IN in metadata else document.source_time or when
            yield replace(document, source_time=time, metadata=metadata)
    if number > limits.max_attachments:
        problems.append(f"{number} attachments, the limit is {limits.max_attachments}: the rest were not read")


def _name(part: EmailMessage, number: int) -> str:
    """Returns the last part of an attachment's name: it is a label, never a path."""
    try:
        stated = part.get_filename() or ""
    except Exception:  # see _header
        stated = ""
    name = escape_invisible(one_line(clean_text(PurePosixPath(stated.replace("\\", "/")).name)))[:200].replace("#", "_")
    if not name or name in (".", ".."):
        extension = ".eml" if part.get_content_type() == "message/rfc822" else guess_extension(part.get_content_type())
        name = f"part-{number}{extension or ''}"
    elif not PurePosixPath(name).suffix:
        name += guess_extension(part.get_content_type()) or ""
    return name


# Outlook's .msg: turned into a standard mail, which the reader of mails reads.

# The name of the stream that every stored message has, as the file's directory holds it.
OUTLOOK_MARK = "__properties_version1.0".encode("utf-16-le")

_KEPT = ("From", "To", "Cc", "Subject", "Date", "Message-ID", "In-Reply-To", "List-Id")


def convert_outlook_mail(source: Source) -> Source:
    """Returns the same mail as RFC 822 bytes, attachments included, under the same uri.

    Headers are those that the mail was sent with; one that was never sent has its properties instead.

    Raises:
        Rejected: it contains no readable message.
    """
    from oxmsg import Message  # few collections have one, and each reader process would load it

    found = Message.load(io.BytesIO(source.data))
    mail = EmailMessage()
    sent = {name.lower(): value for name, value in found.message_headers.items()}
    to = ", ".join(f"{r.name} <{r.email_address}>" for r in found.recipients if r.email_address)
    properties = {"From": found.sender, "To": to, "Subject": found.subject}
    if found.sent_date:
        properties["Date"] = format_datetime(found.sent_date)
    for name in _KEPT:
        if value := _line(sent.get(name.lower()) or properties.get(name)):
            mail[name] = value
    if found.body:
        mail.set_content(_outlook_text(found.body))
    if found.html_body:
        add = mail.add_alternative if found.body else mail.set_content
        add(_outlook_text(found.html_body), subtype="html")
    for number, attachment in enumerate(found.attachments, 1):
        data = attachment.file_bytes
        if data is None:
            continue
        main, _, sub = (attachment.mime_type or "application/octet-stream").partition("/")
        name = _line(attachment.file_name) or f"attachment-{number}"
        mail.add_attachment(data, maintype=main, subtype=sub or "octet-stream", filename=name)
    if not mail.items():
        raise Rejected("an Outlook file without a message; save the mail as .eml")
    return replace(source, suffix=".eml", data=mail.as_bytes())


def _line(value: str | None) -> str:
    """A header is one line without characters that no mail can carry."""
    return " ".join(_outlook_text(value or "").split())


def _outlook_text(value: str) -> str:
    return value.encode("utf-8", "replace").decode("utf-8")
