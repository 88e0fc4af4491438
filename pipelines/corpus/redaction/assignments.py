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
    r"(?<![a-z])(?:db|smtp|ftp|root|admin|user|ldap|key|store)_?pass(?![a-z])"
)
_KEY_NAMES = (
    r"api[ _-]?(?:key|secret|token)|(?:secret|access|account|service|encryption|signing|master|license|auth)[ _-]?key"
    r"|private[_-]?key|client[ _-]?secret|app[ _-]?secret|secret|credentials?"
)
_TICKET_NAMES = r"token"
_ASSIGNED = re.compile(
    rf"(?:(?P<password>{_LOGIN_NAMES})|(?P<key>{_KEY_NAMES})|(?P<token>{_TICKET_NAMES})){_SUFFIX}(?![A-Za-z])"
    rf"[\"'`\])]{{0,2}}[ \t]{{0,4}}(?P<sep>:=|=>|={{1,3}}|:|(?<=[ \t])is(?:[ \t]now)?(?=[ \t:])|"
    rf"(?<=[ \t])(?=[^\s:=]))[ \t]{{0,4}}"
    rf"(?:[@bfru]{{1,2}}(?=[\"']))?(?P<value>{_QUOTED}|{_BARE})",
    re.IGNORECASE,
)
_FLAG = re.compile(r"(?:--?|\blogin \S{1,64} )$")  # what stands before the name where only a space follows it
_URL = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@\"'<>]{0,100}:(?P<value>[^\s/@\"'<>]{1,200})@", re.IGNORECASE)
_HEADER = re.compile(
    r"\b(?:authorization[\"']?[ \t]{0,3}[:=][ \t]{0,3}[\"']?(?:bearer|basic|token)|bearer)[ \t]{1,3}"
    r"(?P<value>[A-Za-z0-9+/=._~-]{16,4000})",
    re.IGNORECASE,
)
_CURL = re.compile(r"\bcurl\b[^\n]{0,200}?\s-u[ \t]{0,2}[\"']?[^\s:\"']{1,64}:(?P<value>[^\s\"']{3,200})")
_PLACEHOLDER = re.compile(
    r"(?i)^(?:[$%{<\[(].*|.*(?:\$\{|\{\{|<[a-z_ -]+>).*|x{3,}|\*+|\.{2,}|_+|-+|#+|(?:your|my|some|the|an?)[_-].*|"
    r".*(?:your|example|placeholder|change[_-]?me|redacted|dummy|not[_-]?set|insert|todo|fixme).*|"
    r"pass|password\d?|passwd|pwd|secret|token|key|user(?:name)?|none|null|nil|true|false|undefined|empty|unset|"
    r"str(?:ing)?|bytes|int|bool|any|optional.*|required|hidden|prompt|ask|1password|n/?a|base64|oauth2?|sha\d+|md5)$"
)
_CODE = re.compile(
    r"^(?:[A-Za-z_][\w]*(?:(?:\.|->|::)[A-Za-z_]\w*)*(?:[(\[{].*|\))?|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+.*|"
    r"(?:https?://|~?/|\./|\.\./|[A-Z]:\\).*)$"
)
_SYMBOL = re.compile(r"[^\w\s.,:;'\"()/-]")
_MARKS = ("pass", "pwd", "wort", "contrase", "mot", "wacht", "senha", "key", "secret", "cred", "token")


def find_assignments(text: str) -> Iterator[tuple[int, int, str]]:
    """Yields (start, end, kind) of values given to names of secrets, and of credentials in addresses and headers."""
    low = text.lower()
    if any(mark in low for mark in _MARKS):
        for m in _ASSIGNED.finditer(text):
            if m["sep"] == "" and not _FLAG.search(text, max(0, m.start() - 80), m.start()):
                continue
            start, end = _trimmed(m)
            if end > start and _is_secret(text[start:end], m):
                yield start, end, "password" if m["password"] else "key" if m["key"] else "token"
    if "://" in text:
        yield from (_span(m, "password in a url") for m in _URL.finditer(text) if not _PLACEHOLDER.match(m["value"]))
    if "bearer" in low or "authorization" in low:
        yield from (_span(m, "token") for m in _HEADER.finditer(text) if _is_random(m["value"]))
    if "curl" in low:
        yield from (_span(m, "password") for m in _CURL.finditer(text) if not _PLACEHOLDER.match(m["value"]))


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
    quoted, prose = m["value"][0] in "\"'`", m["sep"].lower().startswith("is")
    if _PLACEHOLDER.match(value) or " " in value or (not quoted and _CODE.match(value) and not _is_random(value)):
        return False
    if m["token"]:
        return _is_random(value)
    letters, digits = any(c.isalpha() for c in value), any(c.isdigit() for c in value)
    mixed = letters and (digits or bool(_SYMBOL.search(value)))
    if m["key"]:
        return len(value) >= 8 and (mixed and digits) and _entropy(value) >= 2.5
    if prose:
        return len(value) >= 6 and mixed
    return (len(value) >= 4 and mixed) or (len(value) >= 6 and (digits or (quoted and letters)))


def _is_random(value: str) -> bool:
    """Tells a made-up token from a word, a name or a path: long, with letters and digits, few of them repeated."""
    letters, digits = sum(c.isalpha() for c in value), sum(c.isdigit() for c in value)
    return len(value) >= 16 and letters > 0 and digits > 1 and _entropy(value) >= 3.0 and "://" not in value


def _entropy(value: str) -> float:
    """Returns the Shannon entropy of the characters, in bits."""
    return -sum(n / len(value) * math.log2(n / len(value)) for n in Counter(value).values())
