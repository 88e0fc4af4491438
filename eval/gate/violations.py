"""A broken invariant, and how a check reports one."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

Tables = Mapping[str, pl.DataFrame]
EXAMPLES = 5


@dataclass(frozen=True)
class Violation:
    """A broken invariant: DESIGN.md's number, the name of the check, what is wrong, how often, and a few ids."""

    invariant: int
    name: str
    message: str
    count: int
    examples: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Returns the violation as JSON values."""
        return asdict(self) | {"examples": list(self.examples)}


def report(invariant: int, name: str, message: str, ids: Iterable[object]) -> list[Violation]:
    """Returns one violation over the offending ids, or none without any. `{n}` in `message` is their number."""
    listed = sorted(map(str, ids))
    if not listed:
        return []
    return [Violation(invariant, name, message.replace("{n}", str(len(listed))), len(listed), tuple(listed[:EXAMPLES]))]
