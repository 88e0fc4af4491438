"""Which texts of the inbox a published build does not have, and may be shown."""

import datetime as dt
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from palimpsest.core.files import read_json_object
from palimpsest.core.json_types import JsonValue
from palimpsest.query.request.types import Scope
from palimpsest.store.inbox import PREFIX, InboxFile, InboxText, inbox_files, is_of_user

_URIS = "SELECT DISTINCT uri FROM read_parquet(?) WHERE starts_with(uri, ?)"
_TABLES = ("documents", "rejects")
_TYPES = {"turn": "episodic", "chunk": "document", "statement": "semantic"}
_FRONT_MATTER = "---"


@dataclass(frozen=True)
class UnbuiltText:
    """A text of the inbox, where it is and the type that its memories will have."""

    uri: str
    collection: str
    text: InboxText
    type: str

    @property
    def scope(self) -> Scope:
        """The scope that it belongs to."""
        return Scope(self.collection, self.text.user_id, self.text.project_id)


def unbuilt_scopes(home: Path, build_id: str) -> list[Scope]:
    """Returns the scopes that have a text that the build lacks, sorted: their users need not be known to the build."""
    files = inbox_files(home / "inbox")
    known = _BuildSettings(home, build_id)
    return sorted({t.scope for f in files if not known.has(f) for t in _texts_of(f, known)})


def unbuilt_texts(home: Path, build_id: str, scopes: Set[Scope], clock: dt.datetime) -> Iterator[UnbuiltText]:
    """Yields the texts of scopes that the build lacks, by collection, name and place.

    Files of other users are not opened: their names say whose they are. A text file with front matter is left out,
    because what it states of its privacy is read by the build.

    Args:
        home: the home.
        build_id: of the build that answers.
        scopes: of the search.
        clock: the real time; what is past the collection's retention is left out.
    """
    known = _BuildSettings(home, build_id)
    for collection in sorted({s.collection for s in scopes}):
        users = {s.user_id for s in scopes if s.collection == collection}
        for file in inbox_files(home / "inbox", collection):
            if any(is_of_user(file.uri, user) for user in users) and not known.has(file):
                found = _texts_of(file, known)
                yield from (t for t in found if t.scope in scopes and not known.is_expired(t, clock))


def _texts_of(file: InboxFile, known: "_BuildSettings") -> Iterator[UnbuiltText]:
    for text in file.texts():
        if file.is_turns or not text.text.startswith(_FRONT_MATTER):
            unit = str(known.config(file.collection).get("unit", "turn"))
            yield UnbuiltText(file.uri, file.collection, text, text.type or _TYPES.get(unit, "document"))


class _BuildSettings:
    """What a build has read of the inbox, and the settings of its collections, read without the build's libraries."""

    def __init__(self, home: Path, build_id: str):
        self._folder = home / "builds" / build_id
        self._read: dict[str, set[str]] = {}
        configs = (read_json_object(self._folder / "manifest.json") or {}).get("configs")
        self._configs = configs if isinstance(configs, Mapping) else {}

    def config(self, collection: str) -> Mapping[str, JsonValue]:
        """Returns the settings of a collection; none of one that was never built."""
        found = self._configs.get(collection)
        return found if isinstance(found, Mapping) else {}

    def has(self, file: InboxFile) -> bool:
        """Returns whether the build read a file: it has its document, or why it was rejected."""
        if file.collection not in self._read:
            self._read[file.collection] = self._uris(file.collection)
        return file.uri in self._read[file.collection]

    def is_expired(self, text: UnbuiltText, clock: dt.datetime) -> bool:
        """Returns whether a text is past the retention of its collection."""
        days, observed = self.config(text.collection).get("retention_days"), text.text.observed_at
        return isinstance(days, int) and observed is not None and observed <= clock - dt.timedelta(days=days)

    def _uris(self, collection: str) -> set[str]:
        import duckdb

        paths = [p for t in _TABLES if (p := self._folder / collection / f"{t}.parquet").is_file()]
        with duckdb.connect() as db:
            rows = [row for path in paths for row in db.execute(_URIS, [str(path), PREFIX]).fetchall()]
        return {str(uri).partition("#")[0] for (uri,) in rows}
