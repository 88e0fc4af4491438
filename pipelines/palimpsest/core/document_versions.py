"""The versions of a document: what they have in common, and in which order they came."""

from palimpsest.core.scopes import SCOPE

DOCUMENT = (*SCOPE, "uri", "session_id")
"""Columns that all versions of a document have in common; some are null, so joins need `nulls_equal`."""
VERSION_ORDER = ("is_current", "seq", "document_id")
"""Columns that order the versions of a document: the current one is the last, whatever its number."""
