"""How much of one source is read: the `limits` of collection.yaml."""

from pydantic import BaseModel, ConfigDict, Field

_LEAST_SECONDS, _SECONDS_PER_MB = 20.0, 5.0


class Limits(BaseModel):
    """Bounds of one source; a source beyond them is rejected with the figure that it broke."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_bytes: int = Field(default=50_000_000, gt=0, description="size of the file")
    max_chars: int = Field(default=20_000_000, gt=0, description="characters of the extracted text")
    max_pages: int = Field(default=2_000, gt=0, description="PDF pages, slides, parts of a book")
    max_rows: int = Field(default=200_000, gt=0, description="non-empty rows of one table file")
    max_cells: int = Field(default=2_000_000, gt=0, description="non-empty cells of one table file")
    max_attachments: int = Field(default=100, ge=0, description="of one mail; the rest are counted as a problem")
    max_nesting: int = Field(default=5, ge=0, description="mails inside mails")
    max_expanded_bytes: int = Field(
        default=200_000_000, gt=0, description="archives (DOCX, PPTX, XLSX, EPUB): sum of unpacked members"
    )
    max_archive_members: int = Field(default=10_000, gt=0, description="files in an archive")
    max_front_matter_chars: int = Field(default=64_000, gt=0, description="characters of front matter or of a sidecar")
    max_problems: int = Field(default=100, gt=0, description="problems listed by source; the rest are counted")
    max_seconds: float = Field(
        default=120, gt=0, description="processor time of one source; of a small one, 20 s and 5 s for each megabyte"
    )
    max_memory_bytes: int = Field(default=3_000_000_000, gt=0, description="address space of a worker process")

    def seconds_for(self, size_bytes: int) -> float:
        """Returns the seconds of processor time that a source of this size may take."""
        return min(self.max_seconds, _LEAST_SECONDS + _SECONDS_PER_MB * size_bytes / 1e6)
