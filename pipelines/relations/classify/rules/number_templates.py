"""Templates: what stays of a sentence when its numbers, dates and times are taken out."""

import re

from palimpsest.text.normalize import fold

_TEMPLATE_WORD = re.compile(r"[€$£]|[^\W_](?:[\w\-.:/%]*[\w%])?")
_MONTH = (
    "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    "nov(?:ember)?|dec(?:ember)?"
)
_COUNTED = re.compile(
    rf"\d[\w.:%/-]*|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:{_MONTH})|am|pm"
)
_CUES = {"now", "currently", "today", "officially", "already", "again", "just", "still", "also"}


def template(text: str) -> tuple[str, tuple[str, ...]]:
    """Returns the sentence with `#` for each value (number, date, time, range of them), and the values."""
    kept: list[str] = []
    values: list[list[str]] = []
    for word in _TEMPLATE_WORD.findall(fold(text)):
        if word in _CUES:
            continue
        after_value = bool(kept) and kept[-1] == "#"
        if not _COUNTED.fullmatch(word) or (word == "may" and not after_value):
            kept.append(word)
        elif after_value:
            values[-1].append(word)
        elif kept[-2:] == ["#", "to"]:
            kept.pop()
            values[-1] += ["to", word]
        else:
            kept.append("#")
            values.append([word])
    return " ".join(kept), tuple(" ".join(v) for v in values)


def before_value(key: list[str], nth: int) -> list[str]:
    """Returns the words of a template before its n-th value."""
    places = [i for i, w in enumerate(key) if w == "#"]
    return key[: places[nth]]
