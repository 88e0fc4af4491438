"""How much of one source is read, and the form in which every reader receives it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from palimpsest.corpus.readers.dates import DateOrder


class Limits(BaseModel):
    """Bounds of one source; a source beyond them is rejected with the figure that it broke."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_bytes: int = Field(default=50_000_000, gt=0)
    max_chars: int = Field(default=20_000_000, gt=0)
    max_pages: int = Field(default=2_000, gt=0, description="PDF pages, slides, parts of a book")
    max_rows: int = Field(default=200_000, gt=0, description="rows of one table file that hold anything")
    max_cells: int = Field(default=2_000_000, gt=0, description="cells of one table file that hold anything")
    max_attachments: int = Field(default=100, ge=0, description="of one mail; the rest are counted as a problem")
    max_nesting: int = Field(default=5, ge=0, description="mails inside mails")
    max_expanded_bytes: int = Field(
        default=200_000_000, gt=0, description="archives (DOCX, PPTX, XLSX, EPUB): sum of unpacked members"
    )
    max_archive_members: int = Field(default=10_000, gt=0)
    max_front_matter_chars: int = Field(default=64_000, gt=0)
    max_problems: int = Field(default=100, gt=0, description="problems listed by source; the rest are counted")
    max_seconds: float = Field(default=120, gt=0, description="wall time of one source in its worker process")
    max_memory_bytes: int = Field(default=3_000_000_000, gt=0, description="address space of a worker process")


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
