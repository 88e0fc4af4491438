"""What a build knows of one user beyond its tables: the profile, and the answers to standing questions."""

from collections.abc import Collection
from dataclasses import asdict
from typing import NamedTuple

from palimpsest.core.json_types import JsonObject
from palimpsest.query.profile.profile import ProfileLine
from palimpsest.query.profile.standing import read_stored
from palimpsest.query.reader import open_index
from palimpsest.store.builds import Build


class HeldProfile(NamedTuple):
    """Lines of a profile, newest first, and answers to standing questions, by collection and question."""

    lines: tuple[ProfileLine, ...]
    standing: list[JsonObject]

    def rows(self) -> list[JsonObject]:
        """Returns the lines as JSON values."""
        return [line.to_json() for line in self.lines]

    def page(self, user: str) -> str:
        """Returns the profile as a Markdown page; empty where nothing is known."""
        if not self.lines:
            return ""
        page = [f"# What is known of {user}", "", "It follows from the documents beside; an edit here changes nothing."]
        for title, section in (("Lasting", "static"), ("Recent", "dynamic")):
            lines = [f"- {line.cited}" for line in self.lines if line.section == section]
            page += ["", f"## {title}", "", *lines] if lines else []
        return "\n".join(page) + "\n"


def profile_of(build: Build, user: str, collections: Collection[str]) -> HeldProfile:
    """Returns the profile of a user in some collections, hidden and personal memories included.

    Raises:
        PalimpsestError: the build has no index that can be read.
    """
    with open_index(build.index) as reader:
        scopes = [s for s in reader.scopes() if s.user_id == user and s.collection in collections]
        lines = reader.profile(scopes, include_hidden=True, include_pii=True).lines if scopes else ()
    stored = [a for a in read_stored(build.path).values() if a.user_id == user and a.collection in collections]
    standing: list[JsonObject] = [asdict(a) for a in sorted(stored, key=lambda a: a.key)]
    return HeldProfile(lines, standing)
