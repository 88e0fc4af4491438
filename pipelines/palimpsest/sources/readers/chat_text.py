"""Chats that programs export as plain text: WhatsApp, in the forms of iPhones and of Android, LINE and iMessage."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import NamedTuple

from palimpsest.sources.extracted import Extraction, Source
from palimpsest.sources.readers.chat_dates import ORDER_HINT, Clock, Numbers, decide_order, parse_numbers
from palimpsest.sources.readers.chat_turns import read_conversations
from palimpsest.sources.readers.encodings import one_line, title_from_uri
from palimpsest.sources.readers.json_values import JsonRow
from palimpsest.store.collection_config import Limits
from palimpsest.text.dates import DateOrder

# The lines of an export: a message begins with date, time and sender, its other lines follow as they were written.

_MARKS = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"
_MARK = re.compile(f"[{_MARKS}]")
_DATE = r"(?P<a>\d{1,4})\s?(?P<sep>[./-])\s?(?P<b>\d{1,2})\s?(?P=sep)\s?(?P<c>\d{1,4})\.?"
_HALF = r"[ap]\.?\s?m\.?"
_CLOCK = (
    rf"(?:(?P<before>{_HALF}|上午|下午|오전|오후|午前|午後)\s?)?"
    rf"(?P<hour>\d{{1,2}})(?:[:.]|\sh\s)(?P<minute>\d\d)(?:[:.](?P<second>\d\d))?(?:\s?(?P<after>{_HALF}))?(?:\sUhr)?"
)
_BETWEEN = r",?\s{1,2}(?:(?:at|à|às|um|a las|klo?\.?)\s)?"
_BRACKETED = re.compile(rf"[{_MARKS}]*\[{_DATE}{_BETWEEN}{_CLOCK}\]\s?(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_DASHED = re.compile(rf"[{_MARKS}]*{_DATE}{_BETWEEN}{_CLOCK}\s[-–]\s(?P<rest>.*)", re.IGNORECASE | re.DOTALL)  # noqa: RUF001
_SENDER = re.compile(r"(?P<sender>[^\n]{1,100}?):(?:\s|$)(?P<text>.*)", re.DOTALL)
_AFTERNOON = frozenset(("p", "下", "후", "後"))
_MAX_LEAD_LINES = 5
_LOG_LEVELS = frozenset(["debug", "info", "notice", "warn", "warning", "error", "critical", "fatal", "trace"])
_QUOTES = re.compile('["“”„«»]')


class _Head(NamedTuple):
    """The line with which a message begins: its number from 1, the date's three numbers, its clock and what follows."""

    line: int
    written: str
    numbers: Numbers
    dotted: bool
    clock: Clock
    rest: str


@dataclass(slots=True)
class _Message:
    head: _Head
    lines: list[str] = field(default_factory=list)


def read_text_chat(source: Source, text: str, limits: Limits) -> Extraction | None:
    """Reads a text that is a chat of WhatsApp, LINE or iMessage: a turn a message; None where it is no such chat.

    Notices of the program, omitted media and deleted messages are counted. Which number of a date is the day is
    decided by all dates of the file, see `decide_order`.

    Raises:
        Rejected: too long.
    """
    if text.lstrip(_MARKS).startswith("[LINE]"):
        return _read_line_chat(source, text, limits)
    if _APPLE_TIME.match(text):
        return _read_apple_chat(source, text, limits)
    messages, lead = _split_messages(text)
    if not messages or not _is_chat(messages):
        return None
    heads = [m.head for m in messages]
    order, is_certain = decide_order([h.numbers for h in heads], [h.clock for h in heads], source.dates)
    warnings = (
        [] if is_certain or heads[0].dotted else [f"dates may be day or month first; read as {order}: {ORDER_HINT}"]
    )
    if lead:
        warnings.append(f"{lead} lines before the first message are left out")
    left_out: Counter[str] = Counter()
    rows = list(_rows(messages, order, left_out))
    return _to_extraction(source, rows, left_out, warnings, limits, _title(source.uri))


def _to_extraction(
    source: Source,
    rows: list[JsonRow],
    left_out: Counter[str],
    warnings: list[str],
    limits: Limits,
    title: str,
) -> Extraction:
    if not rows:
        return Extraction((), (), left_out, tuple(warnings))
    titles: dict[tuple[str | None, str | None], str] = {(None, None): title}
    found = read_conversations(source, rows, [], limits, titles=titles, kind="import")
    return Extraction(found.documents, found.problems, left_out, (*warnings, *found.warnings))


def _split_messages(text: str) -> tuple[list[_Message], int]:
    """Returns the messages, and how many lines precede the first; none where the first lines begin no message."""
    form: re.Pattern[str] | None = None
    separator = ""
    messages: list[_Message] = []
    lead = 0
    for number, line in enumerate(text.split("\n"), 1):
        found = form.match(line) if form else _BRACKETED.match(line) or _DASHED.match(line)
        if found and (not form or found["sep"] == separator):
            form, separator = found.re, found["sep"]
            messages.append(_Message(_head(number, line, found)))
        elif messages:
            messages[-1].lines.append(line)
        elif line.strip():
            lead += 1
            if lead > _MAX_LEAD_LINES:
                return [], 0
    return messages, lead


def _head(number: int, line: str, found: re.Match[str]) -> _Head:
    written = _MARK.sub("", line[: found.start("rest")]).strip(" []-–")  # noqa: RUF001
    numbers = (found["a"], found["b"], found["c"])
    return _Head(number, one_line(written), numbers, found["sep"] == ".", _clock(found), found["rest"])


def _clock(found: re.Match[str]) -> Clock:
    half = (found["before"] or found["after"] or "").lower()
    hour = int(found["hour"])
    if half:
        hour = hour % 12 + (12 if half[0] in _AFTERNOON or half[-1] in _AFTERNOON else 0)
    return hour, int(found["minute"]), int(found["second"] or 0)


def _is_chat(messages: Sequence[_Message]) -> bool:
    """Returns whether senders are people: few for many messages, and no levels of a log."""
    senders = Counter(s.casefold() for m in messages if (s := _sender(m.head.rest)[0]))
    n = sum(senders.values())
    return bool(senders) and (len(senders) <= 2 or len(senders) <= 0.6 * n) and not senders.keys() <= _LOG_LEVELS


# What a message is: words of a person, a notice of the program, or media that the export does not have.

_OMITTED = r"(?:omitted|weggelassen|ausgeschlossen|omitid[oa]s?|omise?s?|ocult[oa]s?|omess[oaei]|weggelaten)\.?"
_MEDIA = re.compile(
    rf"<[^\W\d_][^<>\n]{{0,40}}\s[^<>\n]{{0,40}}>"  # <Media omitted>, <attached: 0007-PHOTO.jpg>, in any language
    rf"|(?:[^\n]{{0,200}}•[^\n]{{0,60}}\s)?(?:image|video|video note|audio|voice message|sticker|gif|document"
    rf"|contact card) omitted"
    rf"|[^\W\d_]+\s{_OMITTED}"
    r"|[^\n]{1,200}\.\w{2,5} \((?:file attached|Datei angehängt|archivo adjunto|fichier joint|arquivo anexado"
    r"|file allegato|bestand bijgevoegd)\)",
    re.IGNORECASE,
)
_KINDS = (
    ("sticker", re.compile(r"sticker|\.webp", re.IGNORECASE)),
    (
        "image",
        re.compile(r"image|photo|gif|bild|imagen|imagem|immagine|afbeelding|\.(?:jpe?g|png|heic)", re.IGNORECASE),
    ),
    ("audio", re.compile(r"audio|video|vid[ée]o|voice|\.(?:opus|mp4|mp3|m4a|mov|aac)", re.IGNORECASE)),
    ("file", re.compile(r"document|dokument|contact card|\.(?:pdf|docx?|xlsx?|vcf|pptx?|zip|txt)", re.IGNORECASE)),
)
_ATTACHED = re.compile(r"<[^\W\d_][^<>:\n]{0,30}: ?[^<>\n]{1,200}\.\w{2,5}>$")
_FILE_NAME = re.compile(r"[^\n]{1,200}(?:\.\w{2,5}|•[^\n]{0,60})")
_EDITED = re.compile(
    r"<(?:This message was edited|Diese Nachricht wurde bearbeitet|Se editó este mensaje|Ce message a été modifié"
    r"|Mensagem editada|Questo messaggio è stato modificato|Dit bericht is bewerkt)\.?>$"
)
_DELETED = re.compile(
    r"(?:this message was deleted(?: by admin [^\n]{1,80})?|you deleted this message(?: as admin)?"
    r"|diese nachricht wurde gelöscht|du hast diese nachricht gelöscht|se eliminó este mensaje|eliminaste este mensaje"
    r"|ce message a été supprimé|vous avez supprimé ce message|(?:esta )?mensagem (?:foi )?apagada"
    r"|você apagou esta mensagem|questo messaggio è stato eliminato|hai eliminato questo messaggio"
    r"|dit bericht (?:is|werd) verwijderd|waiting for this message[^\n]{0,80}|null"
    r"|(?:missed|silenced|declined|cancell?ed) (?:group )?(?:voice|video) call[^\n]{0,40}"
    r"|(?:voice|video) call[.,][^\n]{0,40}"
    r"|verpasster? (?:sprach|video)anruf[^\n]{0,40}|(?:video)?llamada perdida[^\n]{0,40}"
    r"|appel (?:vocal|vidéo) manqué[^\n]{0,40})\.?",
    re.IGNORECASE,
)
_ENCRYPTED = re.compile(
    r"(?:messages (?:and calls|you send)|nachrichten und anrufe|los mensajes y las llamadas|les messages et les appels"
    r"|as mensagens e (?:as )?(?:ligações|chamadas)|i messaggi e le chiamate|berichten en (?:gesprekken|oproepen))\b"
    r"[^\n]{0,60}(?:encrypt|verschlüssel|cifr|chiffr|criptogr|encript|crittogr|versleutel)",
    re.IGNORECASE,
)
_PROGRAM_WORDS = re.compile(
    r"\b(?:added|removed|left|joined|created|changed|deleted|pinned|admin|encrypted|security code|disappearing messages"
    r"|missed|turned (?:on|off)|call|settings|blocked|invite|requested|poll|option|location|hinzugefügt|entfernt"
    r"|verlassen|erstellt|geändert|gelöscht|verschlüsselt|añadió|eliminó|salió|creó|cambió|cifrad\w+|ajouté|retiré"
    r"|quitté|créé|modifié|supprimé|chiffré\w*|adicionou|removeu|saiu|criou|mudou|aggiunto|rimosso|abbandonato|creato"
    r"|toegevoegd|verwijderd|verlaten|aangemaakt|gewijzigd)\b",
    re.IGNORECASE,
)
_MAX_NOTICE_CHARS = 300
_PLACE = re.compile(r"(?:live )?location(?: shared|: https?://\S+)", re.IGNORECASE)


def _rows(messages: Sequence[_Message], order: DateOrder, left_out: Counter[str]) -> Iterator[JsonRow]:
    """Yields a row for each message with words; all others are counted."""
    for message in messages:
        head = message.head
        sender, first = _sender(head.rest)
        text = "\n".join((first, *message.lines))
        if sender is None or _is_notice(text):
            left_out["notice"] += 1
            continue
        words, media = _without_media(text)
        left_out.update(media)
        if not words:
            if not media:
                left_out["empty"] += 1
            continue
        time = parse_numbers(head.numbers, head.clock, order)
        yield JsonRow(
            head.line, {"speaker": sender, "timestamp": time.isoformat() if time else head.written, "text": words}
        )


def _sender(rest: str) -> tuple[str | None, str]:
    """Returns who sent a message, and its text; None for a notice, which has no sender or quotes a name before it."""
    found = _SENDER.match(rest)
    if found is None or _QUOTES.search(found["sender"]):
        return None, rest
    sender = one_line(_MARK.sub("", found["sender"])).removeprefix("~").strip()
    return sender or None, found["text"]


def _is_notice(text: str) -> bool:
    """Returns whether the program wrote the text of a message, or the message is gone."""
    words = one_line(_MARK.sub("", text))
    if _DELETED.fullmatch(words) or _ENCRYPTED.match(words):
        return True
    is_marked = text.startswith("\u200e") and len(words) <= _MAX_NOTICE_CHARS
    return is_marked and bool(_PROGRAM_WORDS.search(words)) and not _MEDIA.fullmatch(words)


def _without_media(text: str) -> tuple[str, Counter[str]]:
    """Returns the words of a message, and what it had besides them, by kind."""
    media: Counter[str] = Counter()
    kept: list[str] = []
    for line in _EDITED.sub("", _MARK.sub("", text).rstrip()).split("\n"):
        words = line.strip()
        if attached := _ATTACHED.search(words):  # a caption is before it, or the name of the file
            media[_media_kind(attached[0])] += 1
            words = words[: attached.start()].strip()
            kept += [] if not words or _FILE_NAME.fullmatch(words) else [words]
        elif words and _MEDIA.fullmatch(words):
            media[_media_kind(words)] += 1
        elif words and _PLACE.fullmatch(words):
            media["other"] += 1
        else:
            kept.append(line.rstrip())
    return "\n".join(kept).strip(), media


def _media_kind(words: str) -> str:
    return next((kind for kind, pattern in _KINDS if pattern.search(words)), "media")


_TITLE = re.compile(
    r"(?:whatsapp chat|chat de whatsapp|conversa do whatsapp|discussion whatsapp|chat whatsapp)"
    r"\s*(?:with|mit|con|com|avec|met|-)\s*(?P<name>.+)",
    re.IGNORECASE,
)


def _title(uri: str) -> str:
    """Returns the name of a chat by its file, or by the folder of a `_chat.txt`."""
    path = PurePosixPath(uri)
    name = path.parent.name if path.stem == "_chat" and path.parent.name else path.stem
    found = _TITLE.fullmatch(name.strip())
    return one_line(found["name"]) if found else title_from_uri(name if path.stem == "_chat" else uri)


# LINE: a line for each day, then lines of time, sender and text, with tabs between.

_LINE_DAY = re.compile(
    r"(?:\w{2,9}[.,]*\s)?(?P<a>\d{1,4})(?P<sep>[./])(?P<b>\d{1,2})(?P=sep)(?P<c>\d{1,4})\.?\s?(?:\(?\w{1,9}\)?)?"
)
_LINE_MESSAGE = re.compile(rf"{_CLOCK}\t(?P<rest>.*)", re.IGNORECASE)
_LINE_MEDIA = re.compile(r"\[(?P<what>[^\[\]\n]{2,20})\]|☎.*")


def _read_line_chat(source: Source, text: str, limits: Limits) -> Extraction:
    lines = text.split("\n")
    messages: list[_Message] = []
    numbers: Numbers | None = None
    for number, line in enumerate(lines, 1):
        if day := _LINE_DAY.fullmatch(line.strip()):
            numbers = (day["a"], day["b"], day["c"])
        elif numbers and (found := _LINE_MESSAGE.fullmatch(line)):
            written = f"{'/'.join(numbers)} {found['hour']}:{found['minute']}"
            messages.append(_Message(_Head(number, written, numbers, False, _clock(found), found["rest"])))
        elif messages:
            messages[-1].lines.append(line)
    heads = [m.head for m in messages]
    order, is_certain = decide_order([h.numbers for h in heads], [h.clock for h in heads], source.dates)
    left_out: Counter[str] = Counter()
    rows = []
    for message in messages:
        sender, tab, first = message.head.rest.partition("\t")
        words = "\n".join((first, *message.lines)).strip()
        if "\n" in words and words.startswith('"') and words.endswith('"'):
            words = words[1:-1].replace('""', '"')
        if not tab or not sender.strip():
            left_out["notice"] += 1
        elif not words or (media := _LINE_MEDIA.fullmatch(words)):
            left_out["media" if words and media and media["what"] else "notice" if words else "empty"] += 1
        else:
            time = parse_numbers(message.head.numbers, message.head.clock, order)
            stamp = time.isoformat() if time else message.head.written
            rows.append(JsonRow(message.head.line, {"speaker": sender.strip(), "timestamp": stamp, "text": words}))
    warnings = [] if is_certain or not rows else [f"dates may be day or month first; read as {order}: {ORDER_HINT}"]
    title = re.sub(r"^\[LINE\]\s*(?:Chat history (?:with|in)\s*)?", "", lines[0].lstrip(_MARKS)).strip()
    return _to_extraction(source, rows, left_out, warnings, limits, title or title_from_uri(source.uri))


# iMessage, as imessage-exporter writes it: a line of time, one of the sender, then the text up to a blank line.

_APPLE_TIME = re.compile(
    r"^(?P<time>[A-Z][a-z]{2} \d{1,2}, \d{4} {1,2}\d{1,2}:\d\d:\d\d [AP]M)(?: \([^\n]{1,200}\))?\n"
    r"(?P<sender>[^\n]{1,100})\n",
    re.MULTILINE,
)
_APPLE_NOTICE = re.compile(
    r"(?:Loved|Liked|Disliked|Laughed|Emphasized|Questioned) by .{1,100}|Tapbacks:|Sent with .{1,40}|Edited .{1,60}"
    r"|This message (?:responded to|was deleted).{0,80}|Stickers? .{1,80}"
    r"|\ufffc+|Attachment missing!?.*|/?\S+/\S+\.\w{2,5}"
)


def _read_apple_chat(source: Source, text: str, limits: Limits) -> Extraction:
    left_out: Counter[str] = Counter()
    rows = []
    heads = list(_APPLE_TIME.finditer(text))
    ends = [*(h.start() for h in heads[1:]), len(text)]
    line, at = 1, 0
    for head, end in zip(heads, ends, strict=True):
        line, at = line + text.count("\n", at, head.start()), head.start()
        lines = text[head.end() : end].strip("\n").split("\n")
        words = "\n".join(row.rstrip() for row in lines if not _APPLE_NOTICE.fullmatch(row.strip())).strip()
        if words:
            stamp = one_line(head["time"])
            rows.append(JsonRow(line, {"speaker": head["sender"].strip(), "timestamp": stamp, "text": words}))
        else:
            left_out["media" if any(row.strip() for row in lines) else "empty"] += 1
    return _to_extraction(source, rows, left_out, [], limits, title_from_uri(source.uri))
