"""Secrets that are known by the name they are given to: `password = ...`, `--token ...`, `https://user:...@host`."""

import math
import re
from collections import Counter
from collections.abc import Iterator

_QUOTED = r"\"[^\"\n]{1,300}\"|'[^'\n]{1,300}'|`[^`\n]{1,300}`"
_BARE = r"[^\s\"'`<>,;]{1,300}"
_SUFFIX = r"(?:[_-]?(?:prod(?:uction)?|dev|test|stag(?:e|ing)|live|old|new|value|base64|admin|root|db|key|\d{1,3}))?"
_LOGIN_NAMES = (
    r"pass(?:word|wd|wort|phrase|code)|pwd|kennwort|contrase[ñn]a|mot[ _]de[ _]passe|wachtwoord|senha|"
    r"(?<![a-z])(?:(?:db|smtp|ftp|root|admin|user|ldap|key|store)_?)?(?:pass|pw)(?![a-z])"
)
_KEY_NAMES = (
    r"api[ _-]?(?:key|secret|token)|(?:secret|access|account|service|encryption|signing|master|license|auth)[ _-]?key"
    r"|private[_-]?key|client[ _-]?secret|app[ _-]?secret|secret|credentials?"
)
_TICKET_NAMES = r"token"
# `the password for the guest wifi: ...`
_OF = r"(?:[ \t](?:for|to|of|für|pour|para|voor)(?:[ \t][\w.@'’-]{1,30}){1,4}?(?=[ \t]{0,2}[:=]|[ \t]is[ \t]))?"  # noqa: RUF001
_ASSIGNED = re.compile(
    rf"(?:(?P<password>{_LOGIN_NAMES})|(?P<key>{_KEY_NAMES})|(?P<token>{_TICKET_NAMES})){_SUFFIX}(?![A-Za-z])"
    rf"[\"'`\])]{{0,2}}{_OF}"
    rf"[ \t]{{0,4}}(?P<sep>:=|=>|={{1,3}}|:|(?<=[ \t])(?:is|ist|est|es)(?:[ \t]now)?(?=[ \t:]):?|>|"
    rf"(?<=[ \t])(?=[^\s:=]))[ \t]{{0,4}}"
    rf"(?:[@bfru]{{1,2}}(?=[\"']))?(?P<value>{_QUOTED}|{_BARE})",
    re.IGNORECASE,
)
_FLAG = re.compile(r"(?:--?|\blogin \S{1,64} )$")  # text before the name where only a space follows it
_URL = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@\"'<>]{0,100}:(?P<value>[^\s/@\"'<>]{1,200})@", re.IGNORECASE)
_HEADER = re.compile(
    r"\b(?:authorization[\"']?[ \t]{0,3}[:=][ \t]{0,3}[\"']?(?:bearer|basic|token)|bearer)[ \t]{1,3}"
    r"(?P<value>[A-Za-z0-9+/=._~-]{16,4000})",
    re.IGNORECASE,
)
_OPTIONS = (
    re.compile(r"\bcurl\b[^\n]{0,200}?\s-u[ \t]{0,2}[\"']?[^\s:\"']{1,64}:(?P<value>[^\s\"']{3,200})"),
    re.compile(r"\bsshpass[ \t]+-p[ \t]{0,2}(?:(?P<quote>[\"'])(?P<value>[^\"'\n]{3,200})(?P=quote))"),
)
_PLACEHOLDER = re.compile(
    r"(?i)^(?:[$%{<\[(].*|.*(?:\$\{|\{\{|<[a-z_ -]+>).*|x{3,}|\*+|\.{2,}|_+|-+|#+|(?:your|my|some|the|an?)[_-].*|"
    r".*(?:your|example|placeholder|change[_-]?me|redacted|dummy|not[_-]?set|insert|todo|fixme).*|"
    r"pass|password\d?|passwd|pwd|secret|token|key|user(?:name)?|none|null|nil|true|false|undefined|empty|unset|"
    r"str(?:ing)?|bytes|int|bool|any|optional.*|required|hidden|prompt|ask|1password|n/?a|base64|oauth2?|sha\d+|md5)$"
)
# An expression, an address or a path. A name with a digit in it is one only where it names a secret again.
_CODE = re.compile(
    r"^(?:[A-Za-z_]+(?:[(\[{].*|\))?|(?=\w*(?i:pass|pwd|secret|token|key))\w++|[A-Za-z_]\w*(?:[(\[{].*|\))|"
    r"[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+.*|(?:https?://|~?/|\./|\.\./|[A-Z]:\\).*)$"
)
_MEASURE = re.compile(r"^\d+(?:[-\u2013]\w+)+$")  # 12-char, 8-16
_SYMBOL = re.compile(r"[^\w\s.,:;'\"()/-]")
# Every name of a secret has one of these, at most `_MARK_OFFSET` characters after its beginning (`encryption-key`).
_MARK = re.compile(r"pass|pw|kennwort|contrase|mot[ _]de|wachtw|senha|key|secret|credential|token")
_MARK_OFFSET = 12


def find_assignments(text: str) -> Iterator[tuple[int, int, str]]:
    """Yields (start, end, kind) of values given to names of secrets, and of credentials in addresses and headers."""
    low = text.lower().replace("\u017f", "s")  # the long s, which IGNORECASE takes for an s
    for m in _assigned(text, low):
        if m["sep"] == ">" and not text.startswith("</", m.end()):
            continue  # a comparison, not the end of a tag
        start, end = _trimmed(m)
        bare = m["sep"] == "" and not _FLAG.search(text, max(0, m.start() - 80), m.start())
        if end > start and _is_secret(text[start:end], m) and not (bare and not _is_drawn(text[start:end])):
            yield start, end, "password" if m["password"] else "key" if m["key"] else "token"
    if "://" in text:
        yield from (_span(m, "password in a url") for m in _URL.finditer(text) if not _PLACEHOLDER.match(m["value"]))
    if "bearer" in low or "authorization" in low:
        yield from (_span(m, "token") for m in _HEADER.finditer(text) if _is_random(m["value"]))
    if "curl" in low or "sshpass" in low:
        found = (m for option in _OPTIONS for m in option.finditer(text))
        yield from (_span(m, "password") for m in found if not _PLACEHOLDER.match(m["value"]))


def _assigned(text: str, low: str) -> Iterator[re.Match[str]]:
    """Yields the matches of `_ASSIGNED`, ten times as fast as `finditer`: it is tried only where a name may begin.

    Args:
        text: the text.
        low: the same in lower case.
    """
    if len(low) != len(text):  # a few letters have two characters in lower case
        yield from _ASSIGNED.finditer(text) if _MARK.search(low) else ()
        return
    done = 0
    for mark in _MARK.finditer(low):
        starts = range(max(done, mark.start() - _MARK_OFFSET), mark.start() + 1)
        found = next((m for start in starts if (m := _ASSIGNED.match(text, start))), None)
        done = max(done, mark.start() + 1) if found is None else found.end()
        if found is not None:
            yield found


def _span(m: re.Match[str], kind: str) -> tuple[int, int, str]:
    return m.start("value"), m.end("value"), kind


def _trimmed(m: re.Match[str]) -> tuple[int, int]:
    """Returns the span of a value without its quotes, or without the punctuation of the sentence around it."""
    value, start, end = m["value"], m.start("value"), m.end("value")
    if value[0] in "\"'`":
        return start + 1, end - 1
    end -= len(value) - len(value.rstrip(".,:;"))
    while (
        end > start
        and value[end - start - 1] in ")]}"
        and value.count(")") + value.count("]") + value.count("}")
        > (value.count("(") + value.count("[") + value.count("{"))
    ):
        end -= 1
        value = value[:-1]
    return start, end


def _is_secret(value: str, m: re.Match[str]) -> bool:
    quoted, prose = m["value"][0] in "\"'`", m["sep"][:1].isalpha()
    if _PLACEHOLDER.match(value) or " " in value or (not quoted and _is_code(value)):
        return False
    if m["token"]:
        return _is_random(value)
    letters, digits = any(c.isalpha() for c in value), any(c.isdigit() for c in value)
    mixed = letters and (digits or bool(_SYMBOL.search(value)))
    if m["key"]:
        return len(value) >= 8 and (mixed and digits) and _entropy(value) >= 2.5
    if prose:
        return len(value) >= 6 and mixed and not _MEASURE.match(value)
    return (len(value) >= 4 and mixed) or (len(value) >= 6 and (digits or (quoted and letters)))


def _is_drawn(value: str) -> bool:
    """Returns whether a value can only be a password, although nothing but a space separates it from the name."""
    letters, digits = any(c.isalpha() for c in value), any(c.isdigit() for c in value)
    return len(value) >= 8 and letters and digits and (value.lower() != value or bool(_SYMBOL.search(value)))


def _is_code(value: str) -> bool:
    """Returns whether a value is an expression, an address or a path, and not a random token written like one."""
    piece = max(value.split("."), key=len)
    return bool(_CODE.match(value)) and ("(" in value or "/" in value or not _is_random(piece))


def _is_random(value: str) -> bool:
    """Returns whether a value is a random token, not a word, a name or a path: long, mixed, with few repetitions."""
    letters, digits = sum(c.isalpha() for c in value), sum(c.isdigit() for c in value)
    return len(value) >= 16 and letters > 0 and digits > 1 and _entropy(value) >= 3.0 and "://" not in value


def _entropy(value: str) -> float:
    """Returns the Shannon entropy of the characters, in bits."""
    return -sum(n / len(value) * math.log2(n / len(value)) for n in Counter(value).values())
