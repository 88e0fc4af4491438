"""The body of a mail as documents: its writer's words, and each quote by itself with its own author and day."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import getaddresses
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple

from palimpsest.sources.extracted import Segment
from palimpsest.sources.readers.encodings import one_line
from palimpsest.sources.readers.html_page import add_markup
from palimpsest.sources.readers.text_builder import HeadingPath, TextBuilder
from palimpsest.store.collection_config import Limits
from palimpsest.text.dates import DateOrder, written_dates

# Greetings, closings and notes of phones in mails, in the languages most mails are written in.

_GREETING = re.compile(
    r"(?:hi|hello|hey|dear|good\s(?:morning|afternoon|evening|day)|hallo|liebe[rs]?|sehr\sgeehrte[rs]?|moin|servus"
    r"|guten\s(?:tag|morgen|abend)|bonjour|bonsoir|salut|ch[eè]re?s?|hola|buen[oa]s\s\w+|estimad[oa]s?|ciao"
    r"|buongiorno|gentile|beste|geachte|ol[aá]|prezad[oa]s?|hej|k[æä]ra?e?|cześć|szanown\w+|dzień\sdobry)\b(?P<rest>.*)",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"\s*(?:[^\W\d_a-z][\w.'\u2019-]*|all|both|there|team|everyone|everybody|folks|and|und|et|y|e|zusammen)"
)
_MAX_GREETING_WORDS = 7
_CLOSING = re.compile(
    r"(?:(?:with\s)?(?:(?:my|our)\s)?(?:best|kind|warm|many|kindest|warmest)\s(?:regards|wishes|greetings|thanks)"
    r"|regards|best|all\sthe\sbest|cheers|thanks(?:\s(?:a\slot|again|in\sadvance|and\s\w+\sregards))?|thank\syou"
    r"|many\sthanks|(?:yours\s)?(?:sincerely|faithfully|truly)(?:\syours)?|yours|love|greetings|take\scare"
    r"|mit\s(?:freundliche[nm]|besten|herzlichen|lieben)\sgr(?:ü|ue)(?:ß|ss)(?:en)?"
    r"|(?:viele|liebe|beste|herzliche|freundliche|schöne)\sgr(?:ü|ue)(?:ß|ss)e|gr(?:u|ü)(?:ß|ss)e?|mfg|vg|lg"
    r"|(?:bien\s)?(?:cordialement|amicalement)|salutations|bien\sà\s(?:vous|toi)"
    r"|(?:un\s|muchos\s)?saludos?|atentamente|cordialmente|gracias|(?:cordiali|distinti)\ssaluti"
    r"|met\svriendelijke\sgroet(?:en)?|(?:hartelijke\s)?groet(?:en|jes)?|(?:med\s)?(?:venlig|vänlig)\w*\sh(?:il|äl)\w+"
    r"|mvh|pozdrawiam|z\spoważaniem|atenciosamente|(?:com\sos\s)?melhores\scumprimentos|abraços?)\s*[,.!]?",
    re.IGNORECASE,
)
_PHONE = re.compile(
    r"(?:sent\sfrom\s(?:my|yahoo|outlook|mail)\b.*|get\soutlook\sfor\b.*|von\smeinem\b.*\sgesendet|gesendet\s(?:von|mit)\b.*"
    r"|envoyé\sd(?:e|epuis)\b.*|enviado\sdes(?:de|e)\b.*|inviato\sda(?:l)?\b.*|verzonden\svan(?:af)?\b.*"
    r"|skickat\sfrån\b.*|sendt\sfra\b.*|wysłan[oe]\sz\b.*)",
    re.IGNORECASE,
)
_MAX_LINE_CHARS = 80
_SENTENCE = re.compile(r"(?:\S+\s+){4,}\S+[.!?]$|p\.?\s?s\.?\W", re.IGNORECASE)


def is_greeting(line: str, alone: bool) -> bool:
    """Returns whether a line is a greeting and nothing else: `Hi Tom,`, `Dear all`.

    Args:
        line: the first line of a mail.
        alone: whether a blank line follows.
    """
    found = _GREETING.fullmatch(line)
    if not found or len(line) > _MAX_LINE_CHARS or len(line.split()) > _MAX_GREETING_WORDS or "?" in line:
        return False
    name = found["rest"].rstrip(" ,!:.\u2013-")
    ends = line.rstrip()[-1:] in ",!:\u2013-"
    parts = re.split(r"[,!]\s*|(?<=\w\w\w)\.\s+", name)
    if any(part and not _NAMED.match(part) for part in parts[1:]):
        return False
    return ends or (alone and all(_NAMED.match(word) for word in name.split()))


def is_closing(line: str) -> bool:
    """Returns whether a line is a closing and nothing else: `Kind regards,`."""
    return bool(_CLOSING.fullmatch(line))


def is_phone_note(line: str) -> bool:
    """Returns whether a program wrote the line: `Sent from my phone`."""
    return len(line) <= _MAX_LINE_CHARS and bool(_PHONE.fullmatch(line))


def may_be_signature(line: str) -> bool:
    """Returns whether a line below a closing may be a name, a role or an address: short, no sentence or part of one.

    A line in lower case continues a sentence, unless it is the address of a mailbox or a site.
    """
    small = line[:1].islower() and not re.match(r"\S+@|www\.|https?:|m:|t:|e:|tel", line)
    return len(line) <= _MAX_LINE_CHARS and not small and not _SENTENCE.match(line)


def is_name_of(line: str, name: str | None) -> bool:
    """Returns whether a line has only words of a name."""
    words = re.findall(r"\w+", line.lower())
    return bool(words and name) and set(words) <= set(re.findall(r"\w+", (name or "").lower()))


# Where a mail quotes another: `>` lines, `On 3 May 2026, Ann wrote:`, blocks of From, Sent, Subject.
#
# The lines that introduce a quote are found in thirteen languages by mail-parser-reply.

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


_BLANK = re.compile(r"\n(?:[^\S\n]*\n)+")
_DELIMITER = re.compile(r"(?:--|—)\s*")
_QUOTE_CLASS = re.compile(r"quote|cite", re.IGNORECASE)
_SIGNATURE = re.compile(r"signature", re.IGNORECASE)
_MAX_BELOW = 12  # lines below a closing that may be a signature


def text_lines(text: str) -> tuple[list[Line], list[Segment | None]]:
    """Returns the lines of a plain body, and None for each of its blocks: none has a heading or a kind of its own."""
    lines: list[Line] = []
    for block, paragraph in enumerate(_BLANK.split(text.strip("\n"))):
        lines += [parse_line(line, block) for line in paragraph.split("\n")]
        lines.append(Line("", 0, block))
    return lines, [None] * (block + 1)


def html_lines(root: Any, limits: Limits) -> tuple[list[Line], list[Segment | None]]:
    """Returns the lines of an HTML body and the segment of each block.

    Tables, code and headings are whole blocks, not lines.

    Quotes and signatures that say so in their markup become lines with `>` and lines under `--`.
    """
    for element in reversed(list(root.iter("blockquote", "div", "span", "p"))):
        if element is root or element.getparent() is None:
            continue
        names = " ".join(element.get(a) or "" for a in ("class", "id", "type"))
        if element.tag == "blockquote" and _QUOTE_CLASS.search(names):
            _replace(element, "> ", _rendered(element, limits))
        elif _SIGNATURE.search(names):
            _replace(element, "", ["--", *_rendered(element, limits)])
    builder = TextBuilder(limits.max_chars)
    add_markup(root, builder, HeadingPath(), whole=True)
    text, lines, segments = builder.text, list[Line](), list[Segment | None]()
    for block, segment in enumerate(builder.segments):
        words = text[segment.char_start : segment.char_end]
        each = words.split("\n")
        marked = all(line.startswith(">") for line in each) or each[0] == "--"
        if segment.kind == "prose" or marked:
            lines += [*(parse_line(line, block) for line in each), Line("", 0, block)]
        else:
            lines.append(Line(words, 0, block, whole=True))
        segments.append(segment)
    return lines, segments


def _rendered(element: Any, limits: Limits) -> list[str]:
    builder = TextBuilder(limits.max_chars)
    add_markup(element, builder, HeadingPath(), whole=True)
    return builder.text.split("\n")


def _replace(element: Any, mark: str, lines: Sequence[str]) -> None:
    """Puts preformatted lines in the place of an element, so that each stays a line of its own."""
    parent, tail = element.getparent(), element.tail
    new = element.makeelement("pre")
    new.text = "\n".join(f"{mark}{line}" for line in lines if line.strip() or mark)
    new.tail = tail
    parent.replace(element, new)


def add_words(
    builder: TextBuilder,
    lines: Sequence[Line],
    segments: Sequence[Segment | None],
    path: HeadingPath,
    speaker: str | None,
    said_at: datetime | None,
    first: bool = True,
) -> int:
    """Appends lines by one person as paragraphs; a greeting, a closing and a signature become asides.

    Args:
        builder: receives the segments.
        lines: what one person wrote, in order.
        segments: what each block was in the mail, where that is known.
        path: the headings above.
        speaker: who wrote it.
        said_at: when.
        first: whether the lines begin the mail, so that a greeting is possible.

    Returns:
        How many segments are words.
    """
    words = 0
    for part in _parts(lines, speaker, first):
        segment = segments[part.block]
        heading = " > ".join(h for h in (path.path, segment.heading if segment else None) if h) or None
        if part.aside:
            builder.add(part.text, "aside", heading=heading)
            continue
        kind = segment.kind if segment and part.whole else "prose"
        builder.add(part.text, kind, heading=heading, speaker=speaker, said_at=said_at)
        words += 1
    return words


class _Part(NamedTuple):
    """Lines of one block with one role."""

    text: str
    block: int
    aside: bool
    whole: bool


def _parts(lines: Sequence[Line], speaker: str | None, first: bool) -> Iterator[_Part]:
    """Yields paragraphs, and the greetings and closings in them, in order; a blank line ends each."""
    keyed = [
        (line, (line.block, aside, line.whole, not line.text.strip() and not line.whole))
        for line, aside in zip(lines, _asides(lines, speaker, first), strict=True)
    ]
    for (block, aside, whole, blank), some in groupby(keyed, key=lambda k: k[1]):
        if not blank:
            yield _Part("\n".join(line.text for line, _ in some).strip(), block, aside, whole)


def _asides(lines: Sequence[Line], speaker: str | None, first: bool) -> list[bool]:
    """Returns for each line whether it is a greeting, a closing, a signature or a note of a phone."""
    out = [False] * len(lines)
    full = [n for n, line in enumerate(lines) if line.text.strip() or line.whole]
    if not full:
        return out
    if first:
        after = lines[full[0] + 1 : full[0] + 2]
        alone = not after or not after[0].text.strip()
        out[full[0]] = not lines[full[0]].whole and is_greeting(lines[full[0]].text.strip(), alone)
    for place, n in enumerate(full):
        text = lines[n].text.strip()
        if lines[n].whole:
            continue
        below = full[place + 1 :]
        if is_phone_note(text):
            out[n] = True
        elif _DELIMITER.fullmatch(text):
            out[n:] = [True] * (len(lines) - n)
            break
        elif place and is_closing(text) and len(below) <= _MAX_BELOW:
            out[n] = True
            for b in below:
                if lines[b].whole or not may_be_signature(lines[b].text.strip()):
                    break
                out[b] = True
    last = full[-1]
    if len(full) > 1 and not lines[last].whole and is_name_of(lines[last].text.strip(), speaker):
        out[last] = True
    return out


def find_quotes(
    lines: Sequence[Line], order: DateOrder | None, said_at: datetime | None
) -> tuple[list[list[Line]], list[Quote]]:
    """Returns the writer's own lines and the quotes; a quote dated after the mail that holds it is undated."""
    own, quotes = split_quotes(lines, order)
    for quote in quotes:
        if quote.when and said_at and quote.when.date() > said_at.date():
            quote.when = None
    return own, quotes


def add_quote(builder: TextBuilder, quote: Quote, segments: Sequence[Segment | None], path: HeadingPath) -> int:
    """Appends a quote, the lines that introduce it as an aside; returns how many segments are words."""
    if head := "\n".join(line.text for line in quote.head).strip():
        builder.add(head, "aside", heading=path.path)
    lines = [replace(line, depth=0) for line in quote.lines]
    return add_words(builder, lines, segments, path, quote.author, quote.when)
