"""The form in which every reader receives a source, and how many of its problems are listed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from palimpsest.store.limits import Limits
from palimpsest.text.dates import DateOrder


@dataclass(frozen=True, slots=True)
class Source:
    """The bytes of one file, its uri relative to the collection, and its lower-case suffix with the dot.

    `nesting` counts the mails around it, `dates` says what comes first in dates of three numbers, `fields` are
    those of its sidecar, and `names` are those of the user ids in a chat program's export.
    """

    uri: str
    suffix: str
    data: bytes
    nesting: int = 0
    dates: DateOrder | None = None
    fields: Mapping[str, Any] | None = None
    names: Mapping[str, str] | None = None


def listed(problems: list[str], limits: Limits) -> tuple[str, ...]:
    """Returns at most `max_problems` problems; further ones become one line that counts them."""
    if len(problems) <= limits.max_problems:
        return tuple(problems)
    rest = len(problems) - limits.max_problems
    return (*problems[: limits.max_problems], f"and {rest} more such problems")
