"""Zip archives that documents come in: checked before anything is unpacked."""

import io
import re
import zipfile
from typing import Any

from palimpsest.core.errors import Rejected
from palimpsest.sources.readers.common.clean_text import clean, one_line
from palimpsest.store.limits import Limits
from palimpsest.text.dates import parse_stated_time

_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/(\w+)")
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
_STRICT_PARTS = (".xml", ".rels")


def check_archive(data: bytes, limits: Limits) -> list[str]:
    """Returns the names in a zip archive, having checked that unpacking it stays within the limits.

    The sizes are those of its directory; `zipfile` never unpacks more of a member than its directory says, so they
    bound what is expanded even where the directory lies.

    Raises:
        Rejected: corrupt, encrypted or too large.
    """
    try:
        members = zipfile.ZipFile(io.BytesIO(data)).infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError):
        raise Rejected("corrupt archive: the file is cut off or damaged; export it again") from None
    if any(m.flag_bits & 1 for m in members):
        raise Rejected("encrypted archive: it needs a password; save a copy without one")
    size = sum(m.file_size for m in members)
    if size > limits.max_expanded_bytes or len(members) > limits.max_archive_members:
        raise Rejected(
            f"too large: unpacks to {size:,} bytes in {len(members):,} parts, the limits are "
            f"{limits.max_expanded_bytes:,} and {limits.max_archive_members:,}"
        )
    return [m.filename for m in members]


def transitional(data: bytes) -> bytes:
    """Returns an Office file with the namespaces that libraries know: Strict Open XML names the same parts otherwise.

    A file that is not strict comes back as it is.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as old:
        rels = next((n for n in old.namelist() if n == "_rels/.rels"), None)
        if rels is None or not _STRICT.search(old.read(rels)):
            return data
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as new:
            for item in old.infolist():
                part = old.read(item)
                if item.filename.endswith(_STRICT_PARTS):
                    part = _STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/\2", part)
                new.writestr(item.filename, part)
    return out.getvalue()


def office_properties(data: bytes) -> dict[str, Any]:
    """Returns title, author, subject, keywords, category, created and modified (ISO) where an Office file states them.

    Read from the file itself: the libraries put the present time where a file states none.
    """
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = set(archive.namelist())
        rels = etree.fromstring(archive.read("_rels/.rels"), parser) if "_rels/.rels" in names else None
        targets = [] if rels is None else [e.get("Target") for e in rels if e.get("Type") == _CORE]
        part = next((t.lstrip("/") for t in targets if t), "docProps/core.xml")
        root = etree.fromstring(archive.read(part), parser) if part in names else None
    info: dict[str, Any] = {}
    for element in () if root is None else root.iterchildren("{*}*"):
        key, value = _PROPERTIES.get(etree.QName(element).localname), one_line(clean(element.text or ""))
        if key in ("created", "modified"):
            when = parse_stated_time(value)
            value = when.isoformat() if when else ""
        if key and value:
            info[key] = value
    return info
