"""Finds secrets in a text."""

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import chain, pairwise

# Card and bank numbers: found by their shape, and only where their check digits are valid.

_CARD = re.compile(r"(?<![\w.+/-])\d(?:[ -]?\d){12,18}(?![\w/=]|[.-]\d)")
_IBAN = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]){11,30}(?![A-Za-z0-9+/=_])")
_ROUTING = re.compile(r"\b(?:routing|aba|rtn)\b[^\d\n]{0,20}(\d{9})(?!\d)", re.IGNORECASE)
_GROUPS = {(4, 4, 4, 4), (4, 4, 4, 4, 3), (4, 6, 5), (4, 6, 4), (4, 4, 4, 1), (6, 13), (8, 8)}
# Length of an IBAN by country, as the registry of ISO 13616 lists them.
_IBAN_LENGTH = {
    country: length
    for length, countries in {
        15: "NO",
        16: "BE",
        18: "DK FI FO GL NL SD FK",
        19: "MK SI",
        20: "AT BA EE KZ LT LU XK MN",
        21: "CH HR LI LV",
        22: "BG BH CR DE GB GE IE ME RS VA",
        23: "AE GI IL IQ OM SO TL",
        24: "AD CZ ES MD PK RO SA SE SK TN VG",
        25: "LY PT ST",
        26: "IS TR",
        27: "BI DJ FR GR IT MC MR SM",
        28: "AL AZ BY CY DO GT HU LB NI PL SV",
        29: "BR EG PS QA UA",
        30: "JO KW MU YE",
        31: "MT SC",
        32: "LC",
        33: "RU",
    }.items()
    for country in countries.split()
}


def find_numbers(text: str) -> list[tuple[int, int, str]]:
    """Returns (start, end, kind) of card numbers, IBANs and US routing numbers with valid check digits, by start."""
    found = [(m.start(), m.end(), "card number") for m in _CARD.finditer(text) if _is_card(m[0])]
    for m in _IBAN.finditer(text):
        if end := _iban_end(m[0]):
            found.append((m.start(), m.start() + end, "bank account number"))
    found += [(m.start(1), m.end(1), "bank routing number") for m in _ROUTING.finditer(text) if _is_routing(m[1])]
    return sorted(found)


def _is_card(written: str) -> bool:
    groups = tuple(len(g) for g in re.split("[ -]", written))
    if len(groups) > 1 and (groups not in _GROUPS or (" " in written and "-" in written)):
        return False
    digits = re.sub("[ -]", "", written)
    is_ruler = digits == "".join(sorted(digits))  # 4444555566667777 numbers columns
    return _has_issuer(digits) and len(set(digits)) > 2 and not is_ruler and is_luhn_valid(digits)


def _has_issuer(digits: str) -> bool:
    """Returns whether the first digits are those of a card network, and the length one that it uses."""
    n, two, three, four = len(digits), int(digits[:2]), int(digits[:3]), int(digits[:4])
    return (
        (digits[0] == "4" and n in (13, 16, 19))
        or (n == 16 and (51 <= two <= 55 or 2221 <= four <= 2720))
        or (n == 15 and two in (34, 37))
        or (n == 14 and (300 <= three <= 305 or two in (36, 38)))
        or (n in (16, 19) and (four == 6011 or 644 <= three <= 649 or two in (62, 65)))
        or (n == 16 and 3528 <= four <= 3589)
    )


def is_luhn_valid(digits: str) -> bool:
    """Returns whether the last digit is the check digit of ISO/IEC 7812 (Luhn)."""
    total = 0
    for i, digit in enumerate(map(int, reversed(digits))):
        total += digit if i % 2 == 0 else sum(divmod(2 * digit, 10))
    return total % 10 == 0


def _iban_end(written: str) -> int:
    """Returns where the IBAN at the start of `written` ends; 0 where its check digits (ISO 7064, mod 97) are wrong."""
    length, seen = _IBAN_LENGTH.get(written[:2], 0), 0
    for end, character in enumerate(written, 1):
        seen += character.isalnum()
        if seen == length:
            compact = re.sub("[ -]", "", written[:end])
            number = "".join(str(int(c, 36)) for c in compact[4:] + compact[:4])
            whole = end == len(written) or written[end] in " -"
            return end if whole and int(number) % 97 == 1 else 0
    return 0


def _is_routing(digits: str) -> bool:
    weights = (3, 7, 1) * 3
    return digits != "0" * 9 and sum(w * int(d) for w, d in zip(weights, digits, strict=True)) % 10 == 0


# Secrets that are known by the name they are given to: `password = ...`, `--token ...`, `https://user:...@host`.

_QUOTED = r"\"[^\"\n]{1,300}\"|'[^'\n]{1,300}'|`[^`\n]{1,300}`"
_BARE = r"[^\s\"'`<>,;]{1,300}"
_SUFFIX = r"(?:[_-]?(?:prod(?:uction)?|dev|test|stag(?:e|ing)|live|old|new|value|base64|admin|root|db|key|\d{1,3}))?"
_LOGIN_NAMES = (
    r"(?<!\b1)pass(?:word|wd|wort|phrase|code)|pwd|kennwort|contrase[ñn]a|mot[ _]de[ _]passe|wachtwoord|senha|"
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
    r"!(?:secret|vault|env|include|ref|sub)|pass|p[a4@]ssw[o0]rd\d?|passwd|pwd|secret|token|key|user(?:name)?|none|null|nil|true|false|undefined|empty|unset|"
    r"str(?:ing)?|bytes|int|bool|any|optional.*|required|hidden|prompt|ask|1password|n/?a|base64|oauth2?|sha\d+|md5)$"
)
# An expression, an address or a path. A name with a digit in it is one only where it names a secret again.
_CODE = re.compile(
    r"^(?:[A-Za-z_]+(?:[(\[{].*|\))?|(?=\w*(?i:pass|pwd|secret|token|key))\w++|[A-Za-z_]\w*(?:[(\[{].*|\))|"
    r"[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+.*|(?:https?://|~?/|\./|\.\./|[A-Z]:\\).*)$"
)
# Keys in hexadecimal below such a heading are published for everybody who checks an implementation.
_TEST_SECTION = re.compile(r"^(#{1,6}) [^\n]*\btest (?:vectors?|cases?|data)\b", re.IGNORECASE | re.MULTILINE)
_TEST_VALUE = re.compile(r"(?:0x)?[0-9a-f]{32,}", re.IGNORECASE)
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
            if _TEST_VALUE.fullmatch(text, start, end) and _is_in_test_section(text, start):
                continue
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


def _is_in_test_section(text: str, at: int) -> bool:
    """Returns whether the section of a Markdown text around a place, or one that contains it, has test vectors."""
    section = max(_TEST_SECTION.finditer(text, 0, at), key=lambda m: m.start(), default=None)
    if section is None:
        return False
    return not re.compile(rf"^#{{1,{len(section[1])}}} ", re.MULTILINE).search(text, section.end(), at)


def _span(m: re.Match[str], kind: str) -> tuple[int, int, str]:
    return m.start("value"), m.end("value"), kind


def _trimmed(m: re.Match[str]) -> tuple[int, int]:
    """Returns the span of a value without its quotes, or without the punctuation of the sentence around it."""
    value, start, end = m["value"], m.start("value"), m.end("value")
    if value[0] in "\"'`":
        return start + 1, end - 1
    value = value.rstrip(".,:;")
    end = start + len(value)
    if len(value) > 2 and value[0] == value[-1] and value[0] in "*_":  # emphasis
        start, end, value = start + 1, end - 1, value[1:-1]
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
    if _PLACEHOLDER.match(value) or " " in value or "](" in value or (not quoted and _is_code(value)):
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
    is_named = re.match(r"[A-Za-z_]\w*=", value)
    mixed = value.lower() != value or bool(_SYMBOL.search(value))
    return len(value) >= 8 and letters and digits and mixed and not is_named


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


# Secrets in the cells of a table, known by the head of their column: `| user | password |`.

Span = tuple[int, int]
_ALSO_COUNTS = frozenset({"pass", "pw"})  # as in `| Pass | Fail |`
_SAMPLE = "Zq7-kR2vXw94Lm1TbE"


def find_table_secrets(text: str) -> Iterator[tuple[int, int, str]]:
    """Yields (start, end, kind) of cells that would be secrets after `head: `; rows are lines that begin with a bar."""
    if "|" not in text:
        return
    heads: list[str] = []
    at = 0
    for line in text.splitlines(keepends=True):
        cells = _cells(line, at)
        words = [text[a:b] for a, b in cells]
        if not cells:
            heads = []
        elif not heads:
            heads = words if any(_names_a_secret(w) for w in words) else [""] * len(words)
        else:
            for head, (start, _), word in zip(heads, cells, words, strict=False):
                lead = f"{head}: "
                found = find_assignments(lead + word) if _names_a_secret(head) else ()
                yield from ((start + s - len(lead), start + e - len(lead), k) for s, e, k in found if s >= len(lead))
        at += len(line)


def _names_a_secret(head: str) -> bool:
    """Returns whether a cell below this head is a secret where it looks like one."""
    if not 0 < len(head) < 60 or head.lower() in _ALSO_COUNTS:
        return False
    return any(True for _ in find_assignments(f"{head}: {_SAMPLE}"))


def _cells(line: str, at: int) -> list[Span]:
    """Returns the spans of the cells of a row, without the spaces around them; none where the line is no row."""
    row = line.strip()
    if len(row) < 3 or row[0] != "|" or row[-1] != "|":
        return []
    bars = [i for i, c in enumerate(line) if c == "|" and line[i - 1 : i] != "\\"]
    spans = []
    for a, b in pairwise(bars):
        cell = line[a + 1 : b]
        start = at + a + 1 + len(cell) - len(cell.lstrip())
        spans.append((start, max(start, at + a + 1 + len(cell.rstrip()))))
    return spans


# Keys and tokens that are known by their form: detect-secrets' patterns, and those of issuers that it lacks.

# (kind, module and class of detect-secrets' plugin, what one of its patterns always has in it). Left out are plugins
# for what is no secret (public addresses), for entropy alone (hashes and ids are everywhere), and for assignments.
_PLUGINS = (
    ("aws access key", "aws.AWSKeyDetector", ("AKIA", "ASIA", "A3T", "ABIA", "ACCA")),
    ("azure storage key", "azure_storage_key.AzureStorageKeyDetector", ("AccountKey=",)),
    ("discord token", "discord.DiscordBotTokenDetector", (".",)),
    ("github token", "github_token.GitHubTokenDetector", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_")),
    ("gitlab token", "gitlab_token.GitLabTokenDetector", ("gl", "GR1348941")),
    ("mailchimp key", "mailchimp.MailchimpDetector", ("-us",)),
    ("sendgrid key", "sendgrid.SendGridDetector", ("SG.",)),
    ("slack token", "slack.SlackDetector", ("xox", "hooks.slack.com")),
    ("square token", "square_oauth.SquareOAuthDetector", ("sq0",)),
    ("stripe key", "stripe.StripeDetector", ("_live_",)),
    ("twilio key", "twilio.TwilioKeyDetector", ("AC", "SK")),
)
_OWN = (
    ("anthropic key", r"sk-ant-[A-Za-z0-9_-]{20,400}", ("sk-ant-",)),
    ("databricks token", r"dapi[0-9a-f]{32}", ("dapi",)),
    ("digitalocean token", r"do[opr]_v1_[0-9a-f]{64}", ("_v1_",)),
    ("github token", r"github_pat_[A-Za-z0-9_]{22,255}", ("github_pat_",)),
    ("google api key", r"AIza[0-9A-Za-z_-]{35}", ("AIza",)),
    ("google oauth secret", r"GOCSPX-[0-9A-Za-z_-]{20,400}|ya29\.[0-9A-Za-z_-]{20,400}", ("GOCSPX-", "ya29.")),
    ("grafana token", r"gl(?:sa|c)_[A-Za-z0-9+/=_]{32,400}", ("glsa_", "glc_")),
    ("hugging face token", r"hf_[A-Za-z0-9]{30,400}", ("hf_",)),
    (
        "json web token",
        r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,4000}\.eyJ[A-Za-z0-9_-]{8,8000}\.[A-Za-z0-9_-]{0,4000}",
        ("eyJ",),
    ),
    ("linear key", r"lin_(?:api|oauth)_[A-Za-z0-9]{32,400}", ("lin_",)),
    ("new relic key", r"NRAK-[A-Z0-9]{27}", ("NRAK-",)),
    ("npm token", r"npm_[A-Za-z0-9]{36}", ("npm_",)),
    ("openai key", r"(?<![A-Za-z0-9_-])sk-(?=[A-Za-z_-]{0,400}\d)[A-Za-z0-9_-]{32,400}", ("sk-",)),
    ("pypi token", r"pypi-AgE[A-Za-z0-9_-]{50,400}", ("pypi-AgE",)),
    ("shopify token", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}", ("shp",)),
    ("slack token", r"xapp-\d-[A-Z0-9]{1,40}-\d{1,40}-[a-z0-9]{1,200}|xox[a-z]-[A-Za-z0-9-]{20,400}", ("xapp-", "xox")),
    ("stripe key", r"(?:[rsp]k_(?:live|test)|whsec)_[0-9a-zA-Z]{16,400}", ("k_live_", "k_test_", "whsec_")),
    ("telegram token", r"\d{8,10}:AA[0-9A-Za-z_-]{33}", (":AA",)),
    ("vault token", r"hv[sbr]\.[A-Za-z0-9_-]{24,400}", ("hvs.", "hvb.", "hvr.")),
    ("age secret key", r"AGE-SECRET-KEY-1[0-9A-Z]{58}", ("AGE-SECRET-KEY-",)),
    (
        "private key",
        r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?:"
        r"(?:[^-]|-(?!----)){0,20000}-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
        r"|[\s\\n]{0,8}[A-Za-z0-9+/=]{20,200}[A-Za-z0-9+/=\s\\]{0,20000})",
        ("PRIVATE KEY",),
    ),
    (
        "private key",
        r"PuTTY-User-Key-File-[23]:(?:[^P]|P(?!uTTY-User-Key)){0,20000}?Private-MAC: [0-9a-f]{40,64}",
        ("PuTTY-User-Key-",),
    ),
)
_ANYWHERE = ("private key", "azure storage key")  # may be next to letters
_INSIDE = re.compile(r"[A-Za-z0-9]")


@dataclass(frozen=True)
class _Form:
    kind: str
    patterns: tuple[re.Pattern[str], ...]
    marks: tuple[str, ...]


@cache
def _forms() -> tuple[_Form, ...]:
    """Compiles the patterns. Only the plugins' patterns are used: nothing that could ask a server is called."""
    forms = []
    for kind, name, marks in _PLUGINS:
        module, _, plugin = name.partition(".")
        found = getattr(import_module(f"detect_secrets.plugins.{module}"), plugin)
        forms.append(_Form(kind, tuple(found.denylist), marks))
    return (*forms, *(_Form(kind, (re.compile(pattern),), marks) for kind, pattern, marks in _OWN))


@cache
def _any_mark() -> re.Pattern[str]:
    return re.compile("|".join(sorted({re.escape(mark) for form in _forms() for mark in form.marks})))


def find_tokens(text: str) -> Iterator[tuple[int, int, str]]:
    """Yields (start, end, kind) of keys and tokens of a known form; they may overlap."""
    if not _any_mark().search(text):
        return
    for form in _forms():
        if any(mark in text for mark in form.marks):
            for pattern in form.patterns:
                for m in pattern.finditer(text):
                    group = 1 if pattern.groups == 1 and form.kind == "aws access key" else 0
                    start, end = m.span(group)
                    alone = form.kind in _ANYWHERE or _stands_alone(text, start, end)
                    if alone and (form.kind != "json web token" or _is_jwt(m[0])):
                        yield start, end, form.kind


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Returns whether a match is not a piece of something longer, such as encoded data."""
    return not (start and _INSIDE.match(text[start - 1])) and not (end < len(text) and _INSIDE.match(text[end]))


def _is_jwt(token: str) -> bool:
    from detect_secrets.plugins.jwt import JwtTokenDetector

    return bool(JwtTokenDetector.is_formally_valid(token))


@dataclass(frozen=True, slots=True, order=True)
class Secret:
    """The span of a secret in a text, end exclusive, and its kind; never the secret itself."""

    start: int
    end: int
    kind: str


def find_secrets(text: str) -> list[Secret]:
    """Returns the secrets of a text, by place; none overlaps another.

    Of those that overlap, what is known by its form names the kind; their spans are joined.
    """
    found = [(s, e, 0, k) for s, e, k in chain(find_tokens(text), find_numbers(text))]
    found += [(s, e, 1, k) for s, e, k in chain(find_assignments(text), find_table_secrets(text))]
    out: list[tuple[int, int, int, str]] = []
    for start, end, rank, kind in sorted(found):
        if out and start < out[-1][1]:
            before = out[-1]
            rank, kind = min((before[2], before[3]), (rank, kind))
            out[-1] = (before[0], max(end, before[1]), rank, kind)
        else:
            out.append((start, end, rank, kind))
    return [Secret(start, end, kind) for start, end, _, kind in out]


def shorten_value(value: object, most: int = 40) -> str:
    """Returns the beginning of a value for a message; what is cut off a secret would no longer be known as one."""
    text = str(value)
    for secret in reversed(find_secrets(text)):
        text = f"{text[: secret.start]}[redacted: {secret.kind}]{text[secret.end :]}"
    return text[:most]
