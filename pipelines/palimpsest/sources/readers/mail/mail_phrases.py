"""Greetings, closings and notes of phones in mails, in the languages most mails are written in."""

import re

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
