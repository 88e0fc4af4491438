"""What every reader receives, and how many problems of a source are listed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from palimpsest.core.json_types import JsonValue
from palimpsest.sources.records.scope import Scope
from palimpsest.store.limits import Limits
from palimpsest.text.dates import DateOrder


@dataclass(frozen=True, slots=True)
class Source:
    """A source in memory.

    Attributes:
        uri: path relative to the collection.
        suffix: of the file name, in lower case, with the dot.
        data: the bytes of the file.
        nesting: how many mails contain it.
        dates: which part comes first in dates of three numbers.
        fields: of its sidecar; null where it has none.
        names: name of each user id in a chat program's export; null where there is no list of users.
        defaults: whose a text is that does not state it: by the sidecar, else by the collection.
    """

    uri: str
    suffix: str
    data: bytes
    nesting: int = 0
    dates: DateOrder | None = None
    fields: Mapping[str, JsonValue] | None = None
    names: Mapping[str, str] | None = None
    defaults: Scope = field(default_factory=Scope)


def limit_problems(problems: Sequence[str], limits: Limits) -> tuple[str, ...]:
    """Returns at most `max_problems` problems; the rest become one line with their number."""
    if len(problems) <= limits.max_problems:
        return tuple(problems)
    rest = len(problems) - limits.max_problems
    return (*problems[: limits.max_problems], f"and {rest} more such problems")
