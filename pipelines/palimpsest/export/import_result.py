"""What an import did."""

from dataclasses import dataclass, field

from palimpsest.core.json_types import JsonObject


@dataclass
class ImportResult:
    """What an import did; it is filled while it goes on.

    Attributes:
        collections: that were made.
        documents: in them, over all versions.
        decisions: that apply from now on.
        operations: of the inbox.
        edited: pages of which the text or a field was changed.
        removed: pages that are gone, whose documents are retired or deleted.
        unchanged: number of pages.
        problems: (file, reason) of what was left as it is.
    """

    collections: list[str] = field(default_factory=list)
    documents: int = 0
    decisions: int = 0
    operations: int = 0
    edited: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    unchanged: int = 0
    problems: list[tuple[str, str]] = field(default_factory=list)

    def to_json(self) -> JsonObject:
        """Returns what `import --json` prints."""
        problems: list[JsonObject] = [{"file": file, "reason": reason} for file, reason in self.problems]
        return {**vars(self), "problems": problems}
