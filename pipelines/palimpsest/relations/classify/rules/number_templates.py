"""Templates: what remains of a sentence when its numbers, dates and times are taken out."""

import re

from palimpsest.text.normalize import fold

PLACEHOLDER = "#"
_WORD = re.compile(r"[€$£]|[^\W_](?:[\w\-.:/%]*[\w%])?")
_MONTH = (
    "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    "nov(?:ember)?|dec(?:ember)?"
)
_VALUE_WORD = re.compile(
    rf"\d[\w.:%/-]*|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:{_MONTH})|am|pm"
)
_IGNORED = {"now", "currently", "today", "officially", "already", "again", "just", "still", "also"}


def number_template(text: str) -> tuple[str, tuple[str, ...]]:
    """Returns the sentence with `#` for each value (number, date, time, range of them), and the values."""
    words: list[str] = []
    values: list[list[str]] = []
    for word in _WORD.findall(fold(text)):
        if word in _IGNORED:
            continue
        after_value = bool(words) and words[-1] == PLACEHOLDER
        if not _VALUE_WORD.fullmatch(word) or (word == "may" and not after_value):
            words.append(word)
        elif after_value:
            values[-1].append(word)
        elif words[-2:] == [PLACEHOLDER, "to"]:
            words.pop()
            values[-1] += ["to", word]
        else:
            words.append(PLACEHOLDER)
            values.append([word])
    return " ".join(words), tuple(" ".join(v) for v in values)


def words_before_value(words: list[str], nth: int) -> list[str]:
    """Returns the words of a template before its n-th value, counted from 0."""
    places = [i for i, word in enumerate(words) if word == PLACEHOLDER]
    return words[: places[nth]]
