"""Removes from extracted documents what was deleted by decision: documents, sessions, users, single texts."""

from dataclasses import dataclass
from functools import cached_property

from palimpsest.sources.filters.erased_texts import ErasedTexts
from palimpsest.sources.filters.span_removal import TextRemoval
from palimpsest.sources.records.document_row import DocumentRow
from palimpsest.store.decisions import Decisions


@dataclass(frozen=True)
class Deletions:
    """The deletions of one collection."""

    collection: str
    decisions: Decisions

    def apply(self, row: DocumentRow) -> DocumentRow | None:
        """Returns a document without what was deleted, the same object where that is nothing; None if none is left."""
        names = (row["user_id"], row["uri"], row["session_id"], row["project_id"])
        if self.decisions.hides_document(self.collection, *names):
            return None
        removal = self._erased.remove_from(self.collection, row)
        return apply_removal(row, removal) if removal else None

    @cached_property
    def _erased(self) -> ErasedTexts:
        return ErasedTexts(self.decisions.erased)


def apply_removal(row: DocumentRow, removal: TextRemoval) -> DocumentRow:
    """Returns a document after spans of its text were removed, the same object where there were none."""
    if not removal.spans:
        return row
    changed = row.copy()
    changed["text"], changed["segments"] = removal.text, removal.segments
    if redactions := row["redactions"]:
        changed["redactions"] = removal.move_redactions(redactions)
    return changed
