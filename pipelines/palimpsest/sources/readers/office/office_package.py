"""Office files as packages of XML parts: their properties, and files in Strict Open XML."""

import datetime as dt
import io
import re
import zipfile

from palimpsest.core.json_types import JsonObject
from palimpsest.sources.readers.common.clean_text import clean_text, one_line
from palimpsest.sources.readers.common.xml_tree import parse_xml
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
