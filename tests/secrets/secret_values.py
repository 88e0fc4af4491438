"""Made-up values: secrets of each kind, and values that only look like one. Nothing here was ever valid anywhere.

Values are drawn at run time, so that no file contains anything that a scanner of repositories takes for a key.
"""

import base64
import json
import random
import string
import uuid
from collections.abc import Callable

from palimpsest.sources.find_secrets import is_luhn_valid

LETTERS, DIGITS, HEX = string.ascii_letters, string.digits, "0123456789abcdef"
ALNUM, UPPER, LOWER = LETTERS + DIGITS, string.ascii_uppercase + DIGITS, string.ascii_lowercase + DIGITS
URLSAFE, BASE64 = ALNUM + "_-", ALNUM + "+/"
Draw = random.Random
_TEXT = "amber river stone falcon maple winter copper lantern harbor velvet thunder saffron meadow cobalt"
_WORDS = tuple(_TEXT.split())
_BBAN = {
    "DE": "9" * 18,
    "GB": "AAAA" + "9" * 14,
    "FR": "9" * 23,
    "NL": "AAAA" + "9" * 10,
    "ES": "9" * 20,
    "CH": "9" * 17,
    "AT": "9" * 16,
    "IT": "A" + "9" * 22,
}


def chars(draw: Draw, alphabet: str, n: int) -> str:
    """Returns n characters, a digit, a small and a large letter among the first where the alphabet has them."""
    out = [draw.choice(alphabet) for _ in range(n)]
    for i, kind in enumerate((DIGITS, string.ascii_lowercase, string.ascii_uppercase)):
        if n > i and (allowed := [c for c in kind if c in alphabet]):
            out[i] = draw.choice(allowed)
    draw.shuffle(out)
    return "".join(out)


def card(draw: Draw, valid: bool = True) -> str:
    """Returns a card number, grouped in one of the usual forms; not valid where its check digit is wrong."""
    prefix, n = draw.choice([("4", 16), ("51", 16), ("55", 16), ("2345", 16), ("37", 15), ("6011", 16), ("36", 14)])
    body = prefix + "".join(draw.choice(DIGITS) for _ in range(n - len(prefix) - 1))
    right = next(d for d in DIGITS if is_luhn_valid(body + d))
    digits = body + (right if valid else str((int(right) + draw.randint(1, 9)) % 10))
    sizes = {16: (4, 4, 4, 4), 15: (4, 6, 5), 14: (4, 6, 4)}[n]
    at, groups = 0, []
    for size in sizes:
        groups.append(digits[at : at + size])
        at += size
    return draw.choice(["", " ", "-"]).join(groups)


def iban(draw: Draw, valid: bool = True) -> str:
    """Returns an IBAN, in groups of four or not; not valid where its check digits are wrong."""
    country = draw.choice(sorted(_BBAN))
    body = "".join(draw.choice(DIGITS if c == "9" else string.ascii_uppercase) for c in _BBAN[country])
    number = int("".join(str(int(c, 36)) for c in f"{body}{country}00"))
    check = 98 - number % 97
    check = check if valid else (check + draw.randint(1, 90)) % 97 + 1
    if not valid and int("".join(str(int(c, 36)) for c in f"{body}{country}{check:02d}")) % 97 == 1:
        return iban(draw, valid)
    compact = f"{country}{check:02d}{body}"
    return draw.choice([compact, " ".join(compact[i : i + 4] for i in range(0, len(compact), 4))])


def jwt(draw: Draw) -> str:
    """Returns a JSON web token with a made-up signature."""
    parts = ({"alg": "HS256", "typ": "JWT"}, {"sub": str(draw.randint(1, 9**9)), "iat": draw.randint(10**9, 2 * 10**9)})
    head = ".".join(base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts)
    return f"{head}.{chars(draw, URLSAFE, 43)}"


def private_key(draw: Draw) -> str:
    """Returns a block that looks like a private key in PEM."""
    kind = draw.choice(["RSA ", "EC ", "", "OPENSSH "])
    lines = [chars(draw, BASE64, 64) for _ in range(draw.randint(3, 8))]
    return "\n".join([f"-----BEGIN {kind}PRIVATE KEY-----", *lines, f"-----END {kind}PRIVATE KEY-----"])


def password(draw: Draw) -> str:
    """Returns a password as people choose them: words with digits and signs, or drawn characters."""
    word = draw.choice(_WORDS)
    swapped = word.replace("a", "4").replace("e", "3")
    styles = (
        f"{word.title()}{draw.randint(10, 9999)}!",
        f"{word}{draw.choice('#$%&')}{draw.randint(10, 99)}",
        chars(draw, ALNUM + "!#$%&*?", draw.randint(8, 20)),
        f"{swapped}_{draw.randint(1, 99)}",
    )
    return draw.choice(styles)


SECRETS: dict[str, Callable[[Draw], str]] = {
    "aws access key": lambda d: d.choice(["AK", "AS"]) + "IA" + chars(d, UPPER.translate({48: None, 49: None}), 16),
    "aws secret key": lambda d: chars(d, BASE64, 40),
    "azure storage key": lambda d: chars(d, BASE64, 86) + "==",
    "github token": lambda d: d.choice(["ghp_", "gho_", "ghs_"]) + chars(d, ALNUM, 36),
    "gitlab token": lambda d: "glpat-" + chars(d, URLSAFE[:-1], 20),
    "google api key": lambda d: "AIza" + chars(d, URLSAFE[:-1], 35),
    "openai key": lambda d: "sk-proj-" + chars(d, ALNUM, 48),
    "anthropic key": lambda d: "sk-ant-api03-" + chars(d, ALNUM, 60),
    "slack token": lambda d: f"xoxb-{d.randint(10**10, 10**11)}-{d.randint(10**10, 10**11)}-{chars(d, ALNUM, 24)}",
    "stripe key": lambda d: d.choice(["sk_live_", "rk_live_", "sk_test_"]) + chars(d, ALNUM, 24),
    "sendgrid key": lambda d: f"SG.{chars(d, ALNUM, 22)}.{chars(d, ALNUM, 43)}",
    "twilio key": lambda d: "SK" + chars(d, HEX, 32),
    "npm token": lambda d: "npm_" + chars(d, ALNUM, 36),
    "telegram token": lambda d: f"{d.randint(10**8, 10**9)}:AA{chars(d, ALNUM, 33)}",
    "json web token": jwt,
    "private key": private_key,
    "password": password,
    "password in a url": password,
    "generic key": lambda d: chars(d, d.choice([HEX, ALNUM, LOWER]), d.choice([20, 32, 40])),
    "bearer token": lambda d: chars(d, URLSAFE, d.choice([24, 40, 64])),
    "card number": card,
    "bank account number": iban,
}

LOOKALIKES: dict[str, Callable[[Draw], str]] = {
    "sha1": lambda d: chars(d, HEX, 40),
    "short sha": lambda d: chars(d, HEX, 8),
    "sha256": lambda d: chars(d, HEX, 64),
    "uuid": lambda d: str(uuid.UUID(int=d.getrandbits(128), version=4)),
    "isbn": lambda d: f"978-{d.randint(0, 9)}-{d.randint(100, 999)}-{d.randint(10000, 99999)}-{d.randint(0, 9)}",
    "phone": lambda d: f"+{d.randint(1, 99)} {d.randint(100, 999)} {d.randint(100, 999)} {d.randint(1000, 9999)}",
    "bad card": lambda d: card(d, valid=False),
    "bad iban": lambda d: iban(d, valid=False),
    "order": lambda d: "9" + "".join(d.choice(DIGITS) for _ in range(15)),
    "image": lambda d: "data:image/png;base64,iVBORw0KGgo" + chars(d, BASE64, 180) + "=",
    "integrity": lambda d: "sha512-" + chars(d, BASE64, 86) + "==",
    "nanoseconds": lambda d: str(d.randint(16 * 10**17, 18 * 10**17)),
    "version": lambda d: f"{d.randint(0, 9)}.{d.randint(0, 40)}.{d.randint(0, 99)}rc{d.randint(1, 9)}",
    "number": lambda d: str(d.randint(1, 100_000)),
    "word": lambda d: d.choice(_WORDS),
    "name": lambda d: d.choice(_WORDS).title(),
    "slug": lambda d: "-".join(d.sample(_WORDS, 4)),
    "path": lambda d: "/".join(d.sample(_WORDS, 3)),
    "identifier": lambda d: "_".join(d.sample(_WORDS, 2)),
    "video": lambda d: chars(d, URLSAFE[:-1], 11),
    "public key": lambda d: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + chars(d, BASE64, 43),
    "certificate": lambda d: "-----BEGIN CERTIFICATE-----\n" + chars(d, BASE64, 64) + "\n-----END CERTIFICATE-----",
    "tracking": lambda d: "1Z" + chars(d, UPPER, 16),
    "address": lambda d: ":".join(chars(d, HEX, 4) for _ in range(8)),
    "day": lambda d: f"2026-{d.randint(1, 12):02d}-{d.randint(1, 28):02d}",
}

_FORMS = (
    "github token, gitlab token, google api key, openai key, anthropic key, slack token, stripe key, sendgrid key, "
    "twilio key, npm token, telegram token, json web token, aws access key"
)
KINDS_BY_FORM = tuple(_FORMS.split(", "))
"""Kinds of SECRETS that are recognized by their form alone, whatever surrounds them."""


def split_texts(tables: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """Returns the texts of each kind, which a broken bar parts."""
    return {kind: tuple(texts.split(" ¦ ")) for kind, texts in tables.items()}
