"""A broken invariant, and how a check reports one."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

import polars as pl

from palimpsest.core.json_types import JsonObject

Tables = Mapping[str, pl.DataFrame]
MAX_EXAMPLES = 5


@dataclass(frozen=True)
class Violation:
    """A broken invariant: DESIGN.md's number, the name of the check, what is wrong, how often, and a few ids."""

    invariant: int
    name: str
    message: str
    count: int
    examples: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        """Number, name and message in one line."""
        return f"invariant {self.invariant} ({self.name}): {self.message}"

    @property
    def text(self) -> str:
        """The headline with the examples."""
        return f"{self.headline}: {', '.join(self.examples)}"

    def to_json(self) -> JsonObject:
        """Returns the violation as JSON values."""
        return asdict(self) | {"examples": list(self.examples)}


def report(invariant: int, name: str, message: str, ids: Iterable[object]) -> list[Violation]:
    """Returns one violation over the offending ids, or none without any. `{n}` in `message` is their number."""
    listed = sorted(map(str, ids))
    if not listed:
        return []
    message = message.replace("{n}", str(len(listed)))
    return [Violation(invariant, name, message, len(listed), tuple(listed[:MAX_EXAMPLES]))]
