"""What a search is asked with, as people give it: checked, and made into what the query path takes."""

import datetime as dt

from palimpsest.core.errors import ArgumentError

MAX_CHARS = 100_000
MAX_K = 1000

When = dt.datetime | dt.date | str


def clean(text: str) -> str:
    """Returns the text as the tokenizer and SQL can take it: no NUL, no lone surrogate."""
    cleaned = text[:MAX_CHARS].replace("\0", " ").encode("utf-8", "replace").decode("utf-8").strip()
    if not cleaned:
        raise ArgumentError("text", "is empty; say what to look for")
    if not any(c.isalnum() for c in cleaned):
        raise ArgumentError("text", "has no words; say what to look for")
    return cleaned


def check(k: int, hops: int, budget_tokens: int) -> None:
    """Raises ArgumentError where a number is out of range."""
    if not 1 <= k <= MAX_K:
        raise ArgumentError("k", f"must be 1 to {MAX_K}", k)
    if hops not in (0, 1, 2):
        raise ArgumentError("hops", "must be 0, 1 or 2", hops)
    if budget_tokens < 0:
        raise ArgumentError("budget_tokens", "must be 0 or more", budget_tokens)


def moment(name: str, value: When | None, end_of_day: bool) -> dt.datetime | None:
    """Returns the UTC moment that an argument means; a date without a time is its start or its end."""
    if value is None:
        return None
    if isinstance(value, str):
        try:
            day_only = len(value.strip()) <= len("2024-05-31") and "T" not in value
            parsed = dt.datetime.fromisoformat(value.strip())
        except ValueError:
            raise ArgumentError(name, "no date; write 2024-05-31 or 2024-05-31T12:00:00Z", value) from None
        value = parsed.date() if day_only else parsed
    if not isinstance(value, dt.datetime):
        value = dt.datetime.combine(value, dt.time.max if end_of_day else dt.time.min)
    return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)
