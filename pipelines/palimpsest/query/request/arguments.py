"""Checks the arguments of a search and converts them to the values that the query path uses."""

import datetime as dt
import re
from collections.abc import Mapping, Sequence

from palimpsest.core.errors import ArgumentError
from palimpsest.core.times import with_offset
from palimpsest.query.request.types import Scope

MAX_TEXT_CHARS = 100_000
MAX_K = 1000
MAX_HOPS = 2
MAX_DAYS = 36_500

When = dt.datetime | dt.date | str
"""A time, or a date that means its start or its end."""
ScopeArgument = Scope | tuple[str, str] | tuple[str, str, str] | Sequence[Scope]
"""One scope or several; a tuple of names is (collection, user) or (collection, user, project)."""


def clean_text(text: str) -> str:
    """Returns the text as the tokenizer and SQL accept it: no NUL, no lone surrogate, at most `MAX_TEXT_CHARS`.

    Raises:
        ArgumentError: it has no words.
    """
    cleaned = _clean(text)
    if not cleaned:
        raise ArgumentError("text", "is empty; enter a question or keywords")
    if not any(c.isalnum() for c in cleaned):
        raise ArgumentError("text", "has no words; enter a question or keywords")
    return cleaned


def clean_texts(name: str, texts: Sequence[str]) -> tuple[str, ...]:
    """Returns further texts of a search, cleaned as `clean_text` does; blank ones are left out.

    Raises:
        ArgumentError: they are no sequence of texts.
    """
    if isinstance(texts, str) or not isinstance(texts, Sequence) or not all(isinstance(t, str) for t in texts):
        raise ArgumentError(name, "must be a list of texts")
    return tuple(cleaned for text in texts if (cleaned := _clean(text)))


def clean_turns(turns: Sequence[str | Mapping[str, str]]) -> tuple[str, ...]:
    """Returns the turns before a question as texts; one given as a message begins with its role.

    Raises:
        ArgumentError: they are no sequence of texts, or of messages with `role` and `content`.
    """
    if isinstance(turns, str) or not isinstance(turns, Sequence):
        raise ArgumentError("turns", "must be a list of texts, or of messages with role and content")
    texts: list[str] = []
    for turn in turns:
        if isinstance(turn, Mapping):
            role, content = turn.get("role"), turn.get("content")
            if not isinstance(role, str) or not isinstance(content, str):
                raise ArgumentError("turns", "a message must have the texts role and content")
            texts.append(f"{role}: {content}")
        else:
            texts.append(turn)
    return clean_texts("turns", texts)


def clean_brief(brief: str) -> str:
    """Returns what a task is about, cleaned; "" where it has no words.

    Raises:
        ArgumentError: it is no text.
    """
    return next(iter(clean_texts("brief", [brief])), "")


def _clean(text: str) -> str:
    return text[:MAX_TEXT_CHARS].replace("\0", " ").encode("utf-8", "replace").decode("utf-8").strip()


def check_numbers(k: int, hops: int, budget_tokens: int) -> None:
    """Raises ArgumentError where a number is out of range."""
    if not 1 <= k <= MAX_K:
        raise ArgumentError("k", f"must be 1 to {MAX_K}", k)
    if hops not in range(MAX_HOPS + 1):
        raise ArgumentError("hops", "must be 0, 1 or 2", hops)
    if budget_tokens < 0:
        raise ArgumentError("budget_tokens", "must be 0 or more", budget_tokens)


def parse_datetime(name: str, value: When | None, end_of_day: bool, own_clock: bool = False) -> dt.datetime | None:
    """Returns the time of an argument with its offset, else UTC; a date alone is its start or its end.

    Args:
        name: of the argument.
        value: it.
        end_of_day: whether a date alone means its end.
        own_clock: whether a date alone is one of each speaker's own clock, without an offset, and not of UTC.

    Raises:
        ArgumentError: the text is no ISO 8601 date or time, or it is outside the years 1 to 9999 in UTC.
    """
    if value is None:
        return None
    if isinstance(value, str):
        try:
            day_only = len(value.strip()) <= len("2024-05-31") and "T" not in value
            parsed = dt.datetime.fromisoformat(value.strip())
        except ValueError:
            raise ArgumentError(name, "not a date; write 2024-05-31 or 2024-05-31T12:00:00Z", value) from None
        value = parsed.date() if day_only else parsed
    if not isinstance(value, dt.datetime):
        value = dt.datetime.combine(value, dt.time.max if end_of_day else dt.time.min)
        if own_clock:
            return value
    try:
        return with_offset(value)
    except OverflowError:
        raise ArgumentError(name, "outside the years 1 to 9999 in UTC; write a date within them", value) from None


def parse_names(name: str, one: str | None, several: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of two arguments, sorted; `one` is of the argument that takes a single name.

    Raises:
        ArgumentError: `several` is no list of texts, or a name is empty.
    """
    if isinstance(several, str) or not all(isinstance(v, str) for v in several):
        raise ArgumentError(name, "must be a list of texts", several)
    found = {*several, *([] if one is None else [one])}
    if any(not v.strip() for v in found):
        raise ArgumentError(name, "has an empty name; leave it out")
    return tuple(sorted(found))


def parse_duration(name: str, value: dt.timedelta | str | None) -> dt.timedelta | None:
    """Returns a time span: hours, days or weeks as `12h`, `30d` or `4w`.

    Raises:
        ArgumentError: the text is no time span, or it is not above 0 or over `MAX_DAYS`.
    """
    if isinstance(value, str):
        found = re.fullmatch(r"\s*(\d{1,6})\s*([hdw])\s*", value, re.ASCII)
        if found is None:
            raise ArgumentError(name, "not a time span; write 12h, 30d or 4w", value)
        value = dt.timedelta(hours=int(found[1]) * {"h": 1, "d": 24, "w": 168}[found[2]])
    if value is not None and not dt.timedelta(0) < value <= dt.timedelta(days=MAX_DAYS):
        raise ArgumentError(name, f"must be above 0 and at most {MAX_DAYS:,} days", str(value))
    return value


def parse_score(name: str, value: float | None) -> float | None:
    """Returns a cosine.

    Raises:
        ArgumentError: it is not a number from -1 to 1.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1 <= value <= 1:
        raise ArgumentError(name, "must be a cosine, a number from -1 to 1", value)
    return float(value)


def parse_scopes(scope: ScopeArgument) -> tuple[Scope, ...]:
    """Returns the scopes of an argument, sorted.

    Raises:
        ArgumentError: there is none.
    """
    if isinstance(scope, tuple) and len(scope) in (2, 3) and all(isinstance(part, str) for part in scope):
        return (Scope(*scope),)
    scopes = tuple(sorted({Scope(*s) for s in scope}))
    if not scopes:
        raise ArgumentError("scope", "name at least one (collection, user) or (collection, user, project)")
    return scopes
