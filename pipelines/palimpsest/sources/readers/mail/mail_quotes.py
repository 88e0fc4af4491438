"""Where a mail quotes another: `>` lines, `On 3 May 2026, Ann wrote:`, blocks of From, Sent, Subject.

The lines that introduce a quote are found in thirteen languages by mail-parser-reply.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import getaddresses
from functools import cache

from palimpsest.sources.readers.common.clean_text import one_line
from palimpsest.text.dates import DateOrder
from palimpsest.text.written_dates import written_dates

_MARKS = re.compile(r"[^\S\n]*((?:>[^\S\n]?)+)")
_FROM = r"from|von|de|da|van|från|fra|od|发件人|보낸\s?사람|差出人"
_LABEL = re.compile(
    rf"\*?(?P<from>(?:{_FROM})(?=\s?\*?[:\uff1a]))?(?:sent|to|cc|bcc|subject|date|gesendet|an|betreff|datum|envoyé|à|objet"
    r"|enviado(?:\sel)?|para|asunto|fecha|inviato|oggetto|data|verzonden|aan|onderwerp|skickat|till|ämne|sendt|til|emne"
    r"|wysłano|do|temat|odesláno|komu|předmět|reply-to|organi[sz]ation|主题|收件人|发送时间|제목|받는\s?사람|보낸\s?날짜)?"
    r"\s?\*?[:\uff1a]\*?\s*(?P<value>.*)",
    re.IGNORECASE,
)
_SEPARATOR = re.compile(
    r"(?:-{2,}\s*.{0,40}(?:original|forwarded|weitergeleitet|ursprüngliche|transféré|reenviado|inoltrato|doorgestuurd"
    r"|oprindelig|vidarebefordrat).{0,40}\s*-{2,}|begin\sforwarded\smessage:|_{20,}|-{20,})",
    re.IGNORECASE,
)
_VERB = re.compile(
    r"\b(?:wrote|schrieb|a\sécrit|escribió|ha\sscritto|schreef|skrev|napsal\(a\)|napisał\(a\)|nadesłał|escreveu)\b"
    r"|写道|님이 작성하였습니다",
    re.IGNORECASE,
)
# The library's Spanish pattern matches nothing, and it knows no Portuguese.
_MORE_HEADS = (r"^(?:> ?)*El\s.+\sescribió:$", r"^(?:> ?)*Em\s.+\sescreveu:$")
_ADDRESS = re.compile(
    r"[<(\[]?(?:mailto:)?([^\s<>()\[\]]{1,254}@[^\s<>()\[\],;:]{1,254})[>)\]]?(?:\(mailto:[^)]{0,254}\))?"
)
_TIME_WORDS = re.compile(
    r"\b(?:[ap]\.?m\.?|uhr|utc|gmt|um|at|kl|à|om|alle|ore|o|kello|[A-Z]{3,4}T)\b\.?", re.IGNORECASE
)
_WINDOW_LINES, _WINDOW_CHARS, _LOOKED_AT = 3, 400, 20
_MAX_NAME_CHARS, _MAX_NAME_WORDS = 80, 6


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a mail without its `>` marks; `block` numbers what it is a part of, `whole` is no line of text."""

    text: str
    depth: int
    block: int
    whole: bool = False


@dataclass(slots=True)
class Quote:
    """What a mail quotes of one other: who wrote it when, as far as that is stated, and its lines."""

    author: str | None = None
    when: datetime | None = None
    head: list[Line] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)


@dataclass(slots=True)
class _Open:
    """A quote that further lines may belong to: those at `depth`."""

    quote: Quote
    depth: int


def parse_line(text: str, block: int) -> Line:
    """Returns a line without its `>` marks, which its depth counts."""
    found = _MARKS.match(text)
    depth = found[1].count(">") if found else 0
    return Line(text[found.end() :].rstrip() if found else text.rstrip(), depth, block)


def split_quotes(lines: Sequence[Line], order: DateOrder | None = None) -> tuple[list[list[Line]], list[Quote]]:
    """Returns what the writer of a mail wrote, as runs of lines that no quote divides, and what the mail quotes.

    Lines after `On ..., X wrote:` that are marked with `>` are X's; where the next line is not marked, all that follow
    are. After a block of From and Sent or Subject, all that follows is quoted. Marked lines that nothing introduces are
    one quote by an unknown author for each depth.

    Args:
        lines: the mail's body.
        order: what comes first in dates of three numbers.
    """
    own: list[list[Line]] = [[]]
    quotes: list[Quote] = []
    opened: list[_Open] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        if (end := _head_end(lines, at)) > at:
            head = list(lines[at:end])
            quote = _introduced(head, order)
            quotes.append(quote)
            following = _next(lines, end)
            marked = following is not None and following.depth > line.depth and not _is_block(head)
            opened = [o for o in opened if o.depth < line.depth + marked]
            opened.append(_Open(quote, line.depth + marked))
            own.append([])
            at = end
            continue
        holder = next((o for o in reversed(opened) if o.depth == line.depth), None)
        if holder is None and line.depth:
            holder = _Open(Quote(), line.depth)
            quotes.append(holder.quote)
            opened.append(holder)
        if holder is None:
            own[-1].append(line)
        else:
            holder.quote.lines.append(line)
            if own[-1]:
                own.append([])
        at += 1
    return [run for run in own if run], quotes


def _head_end(lines: Sequence[Line], at: int) -> int:
    """Returns where the lines that introduce a quote end, or `at` where none begins there."""
    start = at
    if _SEPARATOR.fullmatch(lines[at].text.strip()):
        start += 1
        while start < len(lines) and start - at < _WINDOW_LINES and not lines[start].text.strip():
            start += 1
    end, limit = start, min(len(lines), start + _LOOKED_AT)
    while end < limit and _is_field(lines[end]) and lines[end].depth == lines[at].depth:
        end += 1
    if _is_block(lines[start:end]):
        return end
    if start > at and re.search(r"[A-Za-z]", lines[at].text):
        return at + 1  # `----- Original Message -----` alone
    for end in range(at + 1, min(at + _WINDOW_LINES, len(lines)) + 1):
        if lines[end - 1].whole or not lines[end - 1].text.strip():
            break
        if lines[end - 1].text.rstrip().endswith((":", "\uff1a")):
            return end if _attributes(lines[at:end], _next(lines, end)) else at
    return at


def _is_field(line: Line) -> bool:
    return not line.whole and bool(_LABEL.fullmatch(line.text.strip()))


def _next(lines: Sequence[Line], at: int) -> Line | None:
    """Returns the first line at or after a place that is not blank, of the few that are looked at."""
    return next((line for line in lines[at : at + _LOOKED_AT] if line.text.strip() or line.whole), None)


def _is_block(lines: Sequence[Line]) -> bool:
    """Returns whether lines are the header of a mail: who it is from, and another field, with an address or a date."""
    found = [_LABEL.fullmatch(line.text.strip()) for line in lines if line.text.strip()]
    values = " ".join(m["value"] for m in found if m)
    return len(found) > 1 and any(m and m["from"] for m in found) and ("@" in values or bool(written_dates(values)[0]))


def _attributes(head: Sequence[Line], following: Line | None) -> bool:
    """Returns whether lines state who wrote what follows: in such words, with marked lines or an address below."""
    text = "\n".join(line.text.strip() for line in head)
    if len(text) > _WINDOW_CHARS or not _pattern().search(text):
        return False
    marked = following is not None and following.depth > head[0].depth
    return marked or ("@" in text and bool(re.search(r"\d", text)))


@cache
def _pattern() -> re.Pattern[str]:
    from mailparser_reply.constants import MAIL_LANGUAGES

    parts = [forms["wrote_header"] for forms in MAIL_LANGUAGES.values() if "wrote_header" in forms]
    return re.compile("|".join([*parts, *_MORE_HEADS]), re.MULTILINE | re.IGNORECASE)


def _introduced(head: list[Line], order: DateOrder | None) -> Quote:
    text = " ".join(line.text.strip() for line in head)
    days, _ = written_dates(text, order)
    when = next(iter(days)) if len(days) == 1 else None
    time = datetime(when.year, when.month, when.day, tzinfo=UTC) if when else None
    return Quote(_author(head), time, head)


def _author(head: list[Line]) -> str | None:
    for line in head:
        if (found := _LABEL.fullmatch(line.text.strip())) and found["from"]:
            if "@" not in found["value"]:
                return one_line(found["value"])[:_MAX_NAME_CHARS] or None
            name, mailbox = next(iter(getaddresses([_ADDRESS.sub(r"<\1>", found["value"])])), ("", ""))
            return one_line(name or mailbox)[:_MAX_NAME_CHARS] or None
    text = " ".join(line.text.strip() for line in head)
    address = _ADDRESS.search(text)
    text = _ADDRESS.sub(" ", text)
    after = re.split(r"\d", text)[-1] if re.search(r"\d", text) else text
    name = one_line(_TIME_WORDS.sub(" ", _VERB.sub(" ", after)))
    name = name.strip(" ,;:\uff1a.()<>[]\"'-")
    if name and len(name) <= _MAX_NAME_CHARS and len(name.split()) <= _MAX_NAME_WORDS:
        return name
    return address[1] if address else None
