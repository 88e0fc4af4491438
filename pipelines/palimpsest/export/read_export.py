"""Opens the folder of an export that anybody may have changed: nothing in it is trusted before it was checked."""

import json
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import cast, get_args

from palimpsest.core.errors import ArgumentError, PalimpsestError
from palimpsest.core.ids import JsonObject, JsonValue
from palimpsest.core.times import parse_time
from palimpsest.export import layout
from palimpsest.export.export_schema import check_file
from palimpsest.sources.extracted import DocumentRow, ExtractedDocument, Kind, document_to_row
from palimpsest.store.collection_config import Limits
from palimpsest.store.inbox import PREFIX, SIDECAR_SUFFIX, InboxFile, inbox_files, is_inbox_uri, is_of_user
from palimpsest.store.web_pages import is_web_uri

MAX_FILE_BYTES = 2**30
"""Of one JSON file of an export."""
_MAX_PAGE_BYTES = 2**26
_FIX = "export again, or put it back as it was"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_MAX_USER_BYTES = 800


@dataclass(frozen=True)
class ExportFolder:
    """An export whose manifest was checked."""

    path: Path
    manifest: JsonObject

    @property
    def user(self) -> str:
        """Whose export it is."""
        return str(self.manifest["user_id"])

    @property
    def collections(self) -> list[str]:
        """Names of its collections."""
        return layout.collections_of(self.manifest)

    def pages(self, collection: str) -> list[tuple[str, str]]:
        """Returns (file, document id) of the Markdown pages of a collection."""
        entries = cast(list[dict[str, str]], self.manifest["markdown"])
        return [(e["file"], e["document_id"]) for e in entries if e["collection"] == collection]

    def check_pages(self) -> None:
        """Checks the names of all Markdown pages.

        Raises:
            PalimpsestError: one leads out of the folder of pages.
        """
        for entry in cast(list[dict[str, str]], self.manifest["markdown"]):
            parts = PurePosixPath(entry["file"]).parts
            is_odd = "\\" in entry["file"] or _CONTROL.search(entry["file"])
            if not parts or parts[0] != layout.MARKDOWN or ".." in parts or is_odd:
                raise PalimpsestError(
                    f"{layout.MANIFEST}: file {entry['file'][:100]!r} is not in {layout.MARKDOWN}/; {_FIX}"
                )

    def page_text(self, name: str) -> str | None:
        """Returns the text of a Markdown page, None where it was removed.

        Raises:
            PalimpsestError: it is no regular file, too large or not UTF-8.
        """
        data = _read_regular(self.path, name, _MAX_PAGE_BYTES)
        try:
            return None if data is None else data.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise PalimpsestError(f"{name}: is not UTF-8; save it as UTF-8") from None

    def has(self, name: str) -> bool:
        """Returns whether the export has a file; exports of earlier versions do not have all."""
        return (self.path / name).is_file()

    def read(self, name: str) -> JsonValue:
        """Returns the checked content of a JSON file.

        Raises:
            PalimpsestError: it is missing, too large, a link, no JSON, or not as the schema says.
        """
        return _read_json(self.path, name)

    def sources(self, collection: str) -> Iterator[tuple[str, list[tuple[JsonObject, list[DocumentRow]]]]]:
        """Yields (uri, versions) of each source; a version is its times and its documents, as the log stores them.

        Raises:
            PalimpsestError: a document cannot be of this export; the message names the file and the source.
        """
        name = layout.sources_file(collection)
        seen: set[str] = set()
        for source in cast(list[JsonObject], self.read(name)):
            uri = str(source["uri"])
            versions = cast(list[JsonObject], source["versions"])
            ordinals = [cast(int, version["ordinal"]) for version in versions]
            if uri in seen or ordinals != sorted(set(ordinals)):
                raise PalimpsestError(f"{name}: source {uri[:100]!r} or a version of it is there twice; {_FIX}")
            seen.add(uri)
            self._check_times(versions, f"{name}: {uri[:100]!r}")
            where = f"{name}: {uri[:100]!r}"
            yield (
                uri,
                [(v, [self._row(d, uri, where) for d in cast(list[JsonObject], v["documents"])]) for v in versions],
            )

    def _check_times(self, versions: list[JsonObject], where: str) -> None:
        try:
            times = [(parse_time(v["seen_at"]), parse_time(v["gone_at"])) for v in versions]
        except ValueError:
            times = [(None, None)]
        if any(seen is None for seen, _ in times):
            raise PalimpsestError(f"{where}: seen_at or gone_at of a version is no time; {_FIX}")

    def inbox(self, collection: str) -> list[InboxFile]:
        """Returns the files of the inbox that were not built yet.

        Raises:
            PalimpsestError: one is a link, too large, or of another user.
        """
        found = []
        for file in inbox_files(self.path / layout.INBOX, collection):
            name = f"{layout.INBOX}/{collection}/{file.path.name}"
            if not is_of_user(file.uri, self.user):
                raise PalimpsestError(f"{name}: is not of user {self.user!r}; remove it")
            for each in (name, name + SIDECAR_SUFFIX):
                _read_regular(self.path, each, Limits().max_bytes)
            found.append(file)
        return found

    def _row(self, data: JsonObject, source_uri: str, where: str) -> DocumentRow:
        """Returns a document as the log stores it.

        Raises:
            PalimpsestError: it cannot be of this export.
        """
        problem = _problem_of(data, source_uri, self.user)
        if not problem:
            try:
                document = ExtractedDocument.from_json(data)
                problem = _problem_of_segments(document)
            except (KeyError, TypeError, ValueError, OverflowError):
                problem = "a time, a segment or a relation of it cannot be read"
        if problem:
            raise PalimpsestError(f"{where}: {problem}; {_FIX}")
        redactions = data["redactions"]
        row = document_to_row(document, self.user, None)
        row["redactions"] = None if redactions is None else json.dumps(redactions)
        return row


def open_export(path: Path) -> ExportFolder:
    """Opens an export.

    Raises:
        ArgumentError: it is no folder with a manifest.
        PalimpsestError: the manifest is damaged, or of another format.
    """
    if not (path / layout.MANIFEST).is_file():
        raise ArgumentError("folder", f"no {layout.MANIFEST} in it; name the folder of an export", str(path))
    manifest = _read_json(path, layout.MANIFEST)
    assert isinstance(manifest, dict)
    return ExportFolder(path, manifest)


def _read_json(folder: Path, name: str) -> JsonValue:
    data = _read_regular(folder, name, MAX_FILE_BYTES)
    if data is None:
        raise PalimpsestError(f"{name}: missing; {_FIX}")
    try:
        value: JsonValue = json.loads(data)
    except (ValueError, RecursionError) as e:
        raise PalimpsestError(f"{name}: is no JSON: {str(e)[:100]}; {_FIX}") from None
    if name == layout.MANIFEST and isinstance(value, dict) and value.get("format") != layout.FORMAT:
        found = str(value.get("format"))[:20]
        raise PalimpsestError(
            f"{name}: format {found} is not {layout.FORMAT}, which this version reads; export it with this version"
        )
    check_file(name, value)
    return value


def _read_regular(folder: Path, name: str, max_bytes: int) -> bytes | None:
    """Returns the bytes of a file below a folder, None where it is not there; no link on the way is followed.

    Raises:
        PalimpsestError: it is a link, no regular file, too large or cannot be read.
    """
    path = folder
    for part in PurePosixPath(name).parts:
        path = path / part
        try:
            mode = path.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError):
            raise PalimpsestError(f"{name[:100]}: cannot be opened; check its name and permissions") from None
        if stat.S_ISLNK(mode):
            raise PalimpsestError(f"{name}: {part} is a link; copy the file in")
    if not stat.S_ISREG(mode):
        raise PalimpsestError(f"{name}: is no regular file; {_FIX}")
    if path.stat().st_size > max_bytes:
        raise PalimpsestError(f"{name}: is larger than {max_bytes:,} bytes; split the export by --collection")
    try:
        return path.read_bytes()
    except OSError as e:
        raise PalimpsestError(f"{name}: cannot be read: {e.strerror}; check its permissions") from None


def _problem_of(data: JsonObject, source_uri: str, user: str) -> str:
    """Returns why a document cannot be of a user's export; empty where it can."""
    uri = str(data["uri"])
    names = (uri, user, str(data["session_id"] or ""), str(data["project_id"] or ""))
    parts = uri.removeprefix(PREFIX).split("/")
    if data["user_id"] != user:
        return "a document of it is of another user"
    if uri != source_uri and not uri.startswith(f"{source_uri}#"):
        return f"has a document of another source, {uri[:80]!r}"
    is_path = is_web_uri(uri) or not (uri.startswith("/") or {"", ".", ".."} & set(parts))
    if not is_path or any(_CONTROL.search(name) for name in names):
        return "a name of it is no path inside a collection, or has control characters"
    if is_inbox_uri(uri) and (len(parts) > 1 or not is_of_user(uri, user)):
        return "names an operation of the inbox of another user"
    if any(len(name.encode("utf-8", "surrogatepass")) > _MAX_USER_BYTES for name in names[1:]):
        return f"a name of it is longer than {_MAX_USER_BYTES} bytes"
    texts = f"{data['text']}{data['title']}"
    return "its text has a NUL or half a character" if "\0" in texts or re.search("[\ud800-\udfff]", texts) else ""


def _problem_of_segments(document: ExtractedDocument) -> str:
    end = 0
    for segment in document.segments:
        if not (isinstance(segment.char_start, int) and isinstance(segment.char_end, int)):
            return "a segment is no span"
        if segment.kind not in get_args(Kind) or not end <= segment.char_start <= segment.char_end:
            return "its segments are not in order, or of an unknown kind"
        end = segment.char_end
    return "a segment is longer than its text" if end > len(document.text) else ""
