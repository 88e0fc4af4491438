"""What a load did, and how it reports progress."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

ProgressCallback: TypeAlias = Callable[[str], object]
"""Takes a line after each part of a load, for a log."""


def no_progress(_: str) -> None:
    """Reports nothing."""


@dataclass
class LoadStats:
    """What a load did.

    Attributes:
        writes: rows created, closed (with the copies that readers of the previous build follow), reopened, deleted and
            swept; 0 where nothing changed. Labels that move with the published number are not rows.
        nodes: rows of the build, by kind.
        relationships: rows of the build, by name.
        created: nodes created.
        nodes_per_s: nodes created a second, while creating them.
        seconds: of each part, and in all.
        number: the published load number after the load.
    """

    writes: int = 0
    nodes: dict[str, int] = field(default_factory=dict)
    relationships: dict[str, int] = field(default_factory=dict)
    created: int = 0
    nodes_per_s: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)
    number: int = 0
