"""Mailboxes (`.mbox`): each mail is read as an .eml is, those of a thread are one session."""

import mailbox
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from email import policy
from email.message import Message
from email.parser import BytesHeaderParser
from pathlib import Path

from palimpsest.core.errors import Rejected
from palimpsest.sources.extracted import ExtractedDocument, Extraction, Source, limit_problems
from palimpsest.sources.readers.encodings import clean_text, escape_invisible, one_line
from palimpsest.sources.readers.mail import ReadAny
from palimpsest.store.collection_config import Limits

_SEPARATOR = re.compile(rb"From [^\n]{0,200}(?:\d{1,2}:\d{2}|\d{4})[^\n]{0,80}\r?\n|From -? ?\r?\n")
_HEADER = re.compile(rb"(?:>?From [^\n]*\n)?[A-Za-z][A-Za-z0-9-]{0,60}:[ \t\r\n]")
_QUOTED_FROM = re.compile(rb"^>(>*From )", re.MULTILINE)
_ID = re.compile(r"<([^<>\s]{1,300})>")
_REPLY = re.compile(r"(?:(?:re|aw|sv|antw|fwd?|wg|tr|rif|rv|res|enc)(?:\[\d+\])?\s*:\s*)+", re.IGNORECASE)
_UNREAD_ATTACHMENT = re.compile(r"attachment (?P<name>[^\n]*?): (?:not a document|unknown type|empty|a zip archive)")
_PICTURE = re.compile(r"\.(?:png|jpe?g|gif|webp|heic|bmp|svg|tiff?)$", re.IGNORECASE)
_MAX_HEAD_BYTES = 1_000_000


def is_mailbox(data: bytes) -> bool:
    """Returns whether bytes begin as a mailbox does: with a line of sender and time, then a header."""
    first = _SEPARATOR.match(data)
    return first is not None and _HEADER.match(data, first.end()) is not None


@dataclass(frozen=True, slots=True)
class _Mail:
    """A mail, its Message-ID, those of the mails that it answers, the oldest first, and its subject."""

    data: bytes
    message_id: str
    answers: tuple[str, ...]
    subject: str


def read_mailbox(source: Source, limits: Limits, read_any: ReadAny) -> Extraction:
    """Reads a mailbox; a mail has the uri `<uri>#<its Message-ID>`, its session is the first mail of its thread.

    Mails without words, and attachments of types that are not read, are counted. What cannot be read of a mail becomes
    a problem.

    Args:
        source: the mailbox.
        limits: bounds, of each mail.
        read_any: reads a mail by its bytes and suffix.

    Raises:
        Rejected: no mailbox, or no mail of it can be read.
    """
    if not is_mailbox(source.data):
        raise Rejected("no mailbox: it does not begin with a line `From <sender> <time>`; save it again as .mbox")
    mails = [_mail(data) for data in _split(source.data)]
    sessions = _threads(mails)
    documents: list[ExtractedDocument] = []
    problems: list[str] = []
    left_out: Counter[str] = Counter()
    used: Counter[str] = Counter()
    for number, (mail, session) in enumerate(zip(mails, sessions, strict=True), 1):
        name = escape_invisible(mail.message_id.replace("#", "_")) or f"mail-{number}"
        used[name] += 1
        uri = f"{source.uri}#{name}" if used[name] == 1 else f"{source.uri}#{name}-{used[name]}"
        try:
            found = read_any(replace(source, uri=uri, suffix=".eml", data=mail.data, fields=None), limits)
        except Rejected as e:
            if str(e).startswith("empty"):
                left_out["empty"] += 1
            else:
                problems.append(f"mail {number}: {e}")
            continue
        documents += (replace(d, session_id=d.session_id or session) for d in found.documents)
        for problem in found.problems:
            if unread := _UNREAD_ATTACHMENT.match(problem):
                left_out["image" if _PICTURE.search(unread["name"]) else "file"] += 1
            else:
                problems.append(f"mail {number}: {problem}")
    if not documents and problems:
        raise Rejected(f"no readable mail; {problems[0]}")
    return Extraction(tuple(documents), limit_problems(problems, limits), left_out)


def _split(data: bytes) -> Iterator[bytes]:
    """Yields each mail, without the line that divides them.

    A line of the text that begins with `From ` divides mails only where a sender and a time follow, and then a header.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "box"
        path.write_bytes(data)
        box = mailbox.mbox(path, create=False)
        mail = b""
        try:
            for key in box.iterkeys():
                part = box.get_bytes(key, from_=True)
                if mail and not is_mailbox(part):
                    mail += b"\n" + part
                    continue
                if mail:
                    yield _without_separator(mail)
                mail = part
        finally:
            box.close()
        if mail:
            yield _without_separator(mail)


def _without_separator(mail: bytes) -> bytes:
    head, _, body = mail.partition(b"\n")
    assert head.startswith(b"From ")
    return _QUOTED_FROM.sub(rb"\1", body)


def _mail(data: bytes) -> _Mail:
    head: Message = BytesHeaderParser(policy=policy.compat32).parsebytes(data[:_MAX_HEAD_BYTES])

    def header(name: str) -> str:
        return one_line(clean_text(str(head.get(name) or "")))

    own = _ID.search(header("Message-ID"))
    answers = (*_ID.findall(header("References")), *_ID.findall(header("In-Reply-To"))[:1])
    return _Mail(data, own[1] if own else "", answers, header("Subject"))


def _threads(mails: list[_Mail]) -> list[str]:
    """Returns the session of each mail: the id of the first mail of its thread, by headers or, without, by subject."""
    parents = {m.message_id: m.answers[-1] for m in mails if m.message_id and m.answers}
    by_subject: dict[str, str] = {}
    sessions = []
    for number, mail in enumerate(mails, 1):
        words = _REPLY.sub("", mail.subject, count=1).casefold()
        if mail.answers:
            session = _root(mail.answers[0], parents)
        elif words in by_subject and _REPLY.match(mail.subject):
            session = by_subject[words]
        else:
            session = mail.message_id or f"{words[:100] or 'mail'} {number}"
        if words:
            by_subject[words] = session
        sessions.append(session)
    return sessions


def _root(message_id: str, parents: dict[str, str]) -> str:
    seen = set()
    while message_id in parents and message_id not in seen:
        seen.add(message_id)
        message_id = parents[message_id]
    return message_id
