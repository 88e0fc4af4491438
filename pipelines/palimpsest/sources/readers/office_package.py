"""Office files as packages of XML parts: their properties, their comments, and files in Strict Open XML."""

import datetime as dt
import io
import posixpath
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from palimpsest.core.json_types import JsonObject
from palimpsest.sources.readers.common.clean_text import clean_text, one_line
from palimpsest.sources.readers.common.encodings import parse_xml
from palimpsest.text.dates import parse_stated_time

_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/(\w+)")
_STRICT_PARTS = (".xml", ".rels")
_CORE = "http://schemas.openxmlformats.org/package/2006/relationships/metadata/core-properties"
_PROPERTIES = {
    "title": "title",
    "creator": "author",
    "subject": "subject",
    "keywords": "keywords",
    "category": "category",
    "created": "created",
    "modified": "modified",
}


def to_transitional(data: bytes) -> bytes:
    """Returns an Office file with the namespaces that libraries know: Strict Open XML has other names for them.

    A file that is not strict is returned as it is.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as old:
        relations = next((n for n in old.namelist() if n == "_rels/.rels"), None)
        if relations is None or not _STRICT.search(old.read(relations)):
            return data
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as new:
            for item in old.infolist():
                part = old.read(item)
                if item.filename.endswith(_STRICT_PARTS):
                    part = _STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/\2", part)
                new.writestr(item.filename, part)
    return out.getvalue()


def office_properties(data: bytes) -> JsonObject:
    """Returns title, author, subject, keywords, category, created and modified (ISO) where an Office file states them.

    Read from the file itself: the libraries return the present time where a file states none.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = set(archive.namelist())
        relations = parse_xml(archive.read("_rels/.rels"), recover=True) if "_rels/.rels" in names else None
        targets = [] if relations is None else [e.get("Target") for e in relations if e.get("Type") == _CORE]
        part = next((t.lstrip("/") for t in targets if t), "docProps/core.xml")
        root = parse_xml(archive.read(part), recover=True) if part in names else None
    properties: JsonObject = {}
    for element in () if root is None else root.iterchildren("{*}*"):
        key = _PROPERTIES.get(element.tag.rpartition("}")[2])
        value = one_line(clean_text(element.text or ""))
        if key in ("created", "modified"):
            when = parse_stated_time(value)
            value = when.astimezone(dt.UTC).isoformat() if when else ""
        if key and value:
            properties[key] = value
    return properties


# Comments in Office files: by whom, when, and on which cell.

_PEOPLE = re.compile(r"ppt/(commentA|a)uthors\.xml|xl/persons/[^/]+\.xml")
_KINDS = ("/comments", "/threadedComment")
_THREAD = "tc="  # in a sheet, the copy of a threaded comment for older programs has such an author


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment; `place` is its id in a text document, its cell in a sheet, empty on a slide."""

    place: str
    line: str


class Comments:
    """The comments of one Office file, by the part that they belong to."""

    def __init__(self, data: bytes) -> None:
        """Opens a checked archive."""
        self._archive = zipfile.ZipFile(io.BytesIO(data))
        self._names = set(self._archive.namelist())
        self._people = {
            _get(person, "id"): _get(person, "displayName") or _get(person, "name")
            for name in sorted(filter(_PEOPLE.fullmatch, self._names))
            for person in self._root(name).iter("{*}cmAuthor", "{*}author", "{*}person")
        }

    def of(self, part: str) -> list[Comment]:
        """Returns the comments of a part (`word/document.xml`, a sheet, a slide), as lines for people, in order."""
        folder, name = posixpath.split(part.lstrip("/"))
        relations = posixpath.join(folder, "_rels", f"{name}.rels")
        if relations not in self._names:
            return []
        found: list[Comment] = []
        for relation in self._root(relations):
            if _get(relation, "Type").endswith(_KINDS) and _get(relation, "TargetMode") != "External":
                target = posixpath.normpath(posixpath.join("/", folder, _get(relation, "Target"))).lstrip("/")
                if target in self._names:
                    found += self._read(self._root(target))
        return found

    def _root(self, name: str) -> Any:
        return parse_xml(self._archive.read(name))

    def _read(self, root: Any) -> Iterator[Comment]:
        listed = [a.text or "" for a in root.iterfind("{*}authors/{*}author")]  # of a sheet's plain comments
        for comment in root.iter("{*}comment", "{*}threadedComment", "{*}cm", "{*}reply"):
            number = _get(comment, "authorId")
            by = listed[int(number)] if listed and number.isdigit() and int(number) < len(listed) else ""
            by = by or _get(comment, "author") or self._people.get(_get(comment, "personId") or number, "")
            body = next(iter([*comment.iterfind("{*}text"), *comment.iterfind("{*}txBody")]), comment)
            paragraphs = list(body.iter("{*}p")) or [body]
            text = one_line(clean_text(" ".join("".join(_letters(p)) for p in paragraphs)))
            cell = _get(comment, "ref")
            when = parse_stated_time(_get(comment, "date") or _get(comment, "dT") or _get(comment, "dt"))
            when = when or parse_stated_time(_get(comment, "created"))
            if text and not by.startswith(_THREAD):
                line = f"Comment by {one_line(clean_text(by))}" if by else "Comment"
                line += (f" on {cell}" if cell else "") + (f", {when:%Y-%m-%d}" if when else "")
                yield Comment(cell or _get(comment, "id"), f"{line}: {text}")


def _letters(node: Any) -> list[str]:
    return [t.text or "" for t in node.iter("{*}t")] or [node.text or ""]


def _get(node: Any, name: str) -> str:
    """Returns an attribute in any namespace, empty where there is none."""
    return next((v for k, v in node.attrib.items() if k.rpartition("}")[2] == name), "")
