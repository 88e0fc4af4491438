"""Whose a text is."""

from typing import NamedTuple


class Scope(NamedTuple):
    """The user, project and session of a text; None for one that is not stated."""

    user_id: str | None = None
    project_id: str | None = None
    session_id: str | None = None

    def or_else(self, other: "Scope") -> "Scope":
        """Returns the scope, with the names of another where this one has none."""
        return Scope(*(mine or theirs for mine, theirs in zip(self, other, strict=True)))
